//! Files of ours in a directory where something else may have been put in their place: opened so that a FIFO or a device holds
//! nothing up, and a link leads nowhere.

use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// A FIFO or a device is opened at once, and a link is not followed.
fn flags() -> i32 {
    (OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC).bits().cast_signed()
}

/// Opens a regular file to read it.
///
/// # Errors
/// The system's; `InvalidData` where it is no regular file.
pub fn open(path: &Path) -> io::Result<File> {
    regular(OpenOptions::new().read(true).custom_flags(flags()).open(path)?)
}

/// Makes a regular file, empty and for this user alone, or empties the one that is there.
///
/// # Errors
/// The system's; `InvalidData` where something else is in its place.
pub fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = regular(options.write(true).create(true).custom_flags(flags()).mode(0o600).open(path)?)?;
    file.set_len(0)?;
    Ok(file)
}

fn regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(ErrorKind::InvalidData, "it is no regular file"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_regular_files_are_opened_and_nothing_waits() {
        let directory = std::env::temp_dir().join(format!("glassline-files-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let [file, link, fifo] = ["file", "link", "fifo"].map(|name| directory.join(name));
        drop(create(&file).unwrap());
        assert!(open(&file).is_ok());
        symlink(&file, &link).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.is_ok_and(|made| made.success()), "mkfifo");
        for path in [&link, &fifo, &directory] {
            assert!(open(path).is_err(), "{}", path.display());
            assert!(create(path).is_err(), "{}", path.display());
        }
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
