//! A secret that a machine makes for itself, once, and keeps in a file: 32 random bytes that no other machine has to
//! know.

use crate::small_file::Accept;
use crate::{random, secret_file};
use secret_file::SecretFileError;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use thiserror::Error;
use zeroize::Zeroizing;

/// What stands in the file for people.
const COMMENT: &str = "# A secret of this machine alone, which glassline has made. Do not copy it; where it is missing, another one is made.";

/// Why there is no such secret.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeptSecretError {
    /// The file is there and not to be used: it cannot be read, or others may read it.
    #[error(transparent)]
    File(#[from] SecretFileError),
    /// The file is there and holds something else.
    #[error("{} holds something else than a secret of 64 hexadecimal digits; remove it, and one is made", .file.display())]
    Malformed {
        /// The file.
        file: PathBuf,
    },
    /// There is no file, and none can be made.
    #[error("cannot keep a secret in {}: {reason}", .file.display())]
    Unwritable {
        /// The file.
        file: PathBuf,
        /// What the system says.
        reason: io::Error,
    },
}

/// The secret in the file at `path`. Where there is none, one is made and the file with it, which its owner alone may read
/// (mode 0600). Of several programs that do so at once all get the same.
///
/// # Errors
/// The file cannot be made or read, holds something else, or others may read it.
pub fn read_or_make(path: &Path) -> Result<Zeroizing<[u8; 32]>, KeptSecretError> {
    match read(path) {
        Err(KeptSecretError::File(SecretFileError::File(error))) if error.is_not_found() => {}
        other => return other,
    }
    match make(path) {
        Err(reason) if reason.kind() == ErrorKind::AlreadyExists => read(path),
        Err(reason) => Err(KeptSecretError::Unwritable { file: path.into(), reason }),
        Ok(secret) => Ok(secret),
    }
}

fn read(path: &Path) -> Result<Zeroizing<[u8; 32]>, KeptSecretError> {
    let text = secret_file::read_text(path, Accept::RegularFile)?;
    parse(&text).ok_or_else(|| KeptSecretError::Malformed { file: path.into() })
}

fn parse(text: &str) -> Option<Zeroizing<[u8; 32]>> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let digits = lines.next().filter(|digits| digits.len() == 64)?;
    let mut secret = Zeroizing::new([0; 32]);
    for (byte, digits) in secret.iter_mut().zip(digits.as_bytes().chunks(2)) {
        let digit = |at: usize| char::from(digits[at]).to_digit(16);
        *byte = (digit(0)? * 16 + digit(1)?) as u8;
    }
    lines.next().is_none().then_some(secret)
}

/// Fails with `AlreadyExists` where another one was first.
fn make(path: &Path) -> io::Result<Zeroizing<[u8; 32]>> {
    let secret = Zeroizing::new(random::seed()?);
    let mut text = Zeroizing::new(String::with_capacity(COMMENT.len() + 80));
    text.push_str(COMMENT);
    text.push('\n');
    secret.iter().for_each(|byte| _ = write!(text, "{byte:02x}"));
    text.push('\n');
    // It is written under another name first, so that no reader ever sees a part of it.
    let mut name = OsString::from(path);
    name.push(format!(
        ".{:016x}",
        random::seed()?.iter().take(8).fold(0, |all, byte| all << 8 | u64::from(*byte))
    ));
    let part = PathBuf::from(name);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    // A link, unlike a rename, never takes the place of what another program has put there meanwhile.
    let linked = written.and_then(|()| fs::hard_link(&part, path));
    let _ = fs::remove_file(&part);
    linked.map(|()| secret)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("glassline-kept-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn names(&self) -> Vec<OsString> {
            fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name()).collect()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn it_is_made_once_and_for_its_owner_alone() {
        let folder = Folder::new("once");
        let path = folder.0.join("link.key.reset");
        let all: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| read_or_make(&path).unwrap())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(all.iter().all(|secret| secret == &all[0]) && *all[0] != [0; 32]);
        assert_eq!(folder.names(), ["link.key.reset"], "nothing else is left");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::remove_file(&path).unwrap();
        assert_ne!(read_or_make(&path).unwrap(), all[0]);
    }

    #[test]
    fn what_others_may_read_or_is_something_else_is_not_used_and_stays() {
        let folder = Folder::new("other");
        let path = folder.0.join("reset");
        read_or_make(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let error = read_or_make(&path).unwrap_err();
        assert!(matches!(error, KeptSecretError::File(SecretFileError::Exposed { .. })), "{error}");
        let digits = "0".repeat(64);
        for bad in ["", "# nothing", "12", &"g".repeat(64), &"ä".repeat(32), &format!("{digits}\n{digits}")]
        {
            fs::write(&path, bad).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            let error = read_or_make(&path).unwrap_err();
            assert!(matches!(error, KeptSecretError::Malformed { .. }), "{bad}: {error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), bad);
        }
        let nowhere = read_or_make(&folder.0.join("none/reset")).unwrap_err();
        assert!(matches!(nowhere, KeptSecretError::Unwritable { .. }), "{nowhere}");
    }
}
