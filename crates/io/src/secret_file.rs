//! Files that hold a secret: a key, a token, a password.
//!
//! Such a file is refused where more people may read it than have to, with the command that mends it. The rule is the
//! one that PostgreSQL has for private keys, as ssh(1) has it for those of users:
//!
//! ```text
//! owner of the file      its mode may be at most
//! this process' user     0700   no other user has to read it
//! root, or another user  0740   its group may read, since that may be how this process can
//! ```
//! What is no regular file (a pipe, a terminal, also by a name of /proc/self/fd) has no such mode and is not checked.

use crate::small_file::{Accept, Bounds, SmallFile, SmallFileError};
use rustix::fs::{FileType, Stat, fstat};
use rustix::process::{getegid, geteuid, getgroups};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use thiserror::Error;
use zeroize::Zeroizing;

/// What others, and a group, may do with a file; what the file's group may do with it without having to.
const OF_OTHERS: u32 = 0o007;
const OF_GROUP: u32 = 0o070;
const GROUP_CHANGES: u32 = 0o030;

/// Why a file is not taken for a secret. No message tells what is in it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SecretFileError {
    /// It cannot be read, or not within the bounds of such files.
    #[error(transparent)]
    File(#[from] SmallFileError),
    /// More people may read it than have to.
    #[error("others may read {} (mode {mode:04o}), which is a secret; type: {remedy}", .file.display())]
    Exposed {
        /// The file.
        file: PathBuf,
        /// Its permissions, `0o000` to `0o777`.
        mode: u32,
        /// The command that mends it, for a shell.
        remedy: String,
    },
    /// It is no text.
    #[error("{} is no UTF-8 text", .file.display())]
    NoText {
        /// The file.
        file: PathBuf,
    },
}

/// Reads a file that holds a secret, with the bounds of [`small_file`](crate::small_file). Permissions are those of the
/// file that is read, not of what has its name by then. The bytes are overwritten when they are dropped.
///
/// # Errors
/// [`SecretFileError::Exposed`] where others may read it; at the start, so that nothing of it has been used by then.
/// [`SecretFileError::File`] where it cannot be read, or is not what is accepted.
pub fn read(path: &Path, accept: Accept) -> Result<Zeroizing<Vec<u8>>, SecretFileError> {
    let file = SmallFile::open(path, accept, Bounds::default())?;
    check(&file, path)?;
    Ok(file.read()?)
}

/// The same of a text.
///
/// # Errors
/// As [`read`], and where it is no UTF-8.
pub fn read_text(path: &Path, accept: Accept) -> Result<Zeroizing<String>, SecretFileError> {
    let mut bytes = read(path, accept)?;
    String::from_utf8(std::mem::take(&mut *bytes)).map(Zeroizing::new).map_err(|error| {
        drop(Zeroizing::new(error.into_bytes()));
        SecretFileError::NoText { file: path.into() }
    })
}

/// Refuses an open file that more people may read than have to; `path` is only named in the error.
///
/// # Errors
/// [`SecretFileError::Exposed`], and `File` where the system does not tell its permissions.
pub fn check(file: impl AsFd, path: &Path) -> Result<(), SecretFileError> {
    let stat = fstat(file)
        .map_err(|error| SmallFileError::Unreadable { file: path.into(), reason: error.into() })?;
    if !matches!(FileType::from_raw_mode(stat.st_mode), FileType::RegularFile) {
        return Ok(());
    }
    let mut groups = getgroups().unwrap_or_default();
    groups.push(getegid());
    let reader = Reader {
        uid: geteuid().as_raw(),
        is_in_group: groups.iter().any(|group| group.as_raw() == stat.st_gid),
    };
    match reader.remedy(&stat, path) {
        None => Ok(()),
        Some(remedy) => {
            Err(SecretFileError::Exposed { file: path.into(), mode: stat.st_mode & 0o777, remedy })
        }
    }
}

/// The process that reads a file, as far as permissions depend on it.
#[derive(Clone, Copy, Debug)]
struct Reader {
    uid: u32,
    is_in_group: bool,
}

impl Reader {
    /// The command that takes permissions from all that need not read the file; `None` where there is nothing to take.
    fn remedy(self, stat: &Stat, path: &Path) -> Option<String> {
        let is_owner = self.uid == stat.st_uid && self.uid != 0;
        let too_much = OF_OTHERS | if is_owner { OF_GROUP } else { GROUP_CHANGES };
        if stat.st_mode & too_much == 0 {
            return None;
        }
        let path = quoted(path);
        // The group stays where it is how we read it, or how a user may whom root goes on as.
        let is_read_by_group = stat.st_mode & 0o040 != 0
            && match self.uid {
                0 => stat.st_gid != 0,
                _ => !is_owner && self.is_in_group,
            };
        Some(match (is_read_by_group, self.uid == stat.st_uid || self.uid == 0) {
            (true, _) => format!("chmod 640 {path}"),
            (false, true) => format!("chmod 600 {path}"),
            // It is read because everybody may.
            (false, false) => format!("chown {} {path} && chmod 600 {path}", self.uid),
        })
    }
}

/// A path as a shell takes it for one word.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%=".contains(c);
    // What begins with a hyphen would be an option.
    let text = if text.starts_with('-') { format!("./{text}") } else { text };
    if text.chars().all(is_plain) && !text.is_empty() {
        return text;
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File, OpenOptions, Permissions};
    use std::io::Write;
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("glassline-secret-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn file(&self, name: &str, content: &[u8]) -> PathBuf {
            let path = self.0.join(name);
            let mut options = OpenOptions::new();
            let mut file = options.write(true).create_new(true).mode(0o600).open(&path).unwrap();
            file.write_all(content).unwrap();
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_others_may_read_is_refused_until_the_command_that_it_names_has_run() {
        let folder = Folder::new("exposed");
        let path = folder.file("it's a key", b"secret\n");
        assert_eq!(*read(&path, Accept::AnyFile).unwrap(), b"secret\n");
        for mode in [0o604, 0o644, 0o601, 0o620, 0o666, 0o777] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let SecretFileError::Exposed { mode: told, remedy, .. } =
                read(&path, Accept::AnyFile).unwrap_err()
            else {
                panic!("mode {mode:o}")
            };
            assert_eq!(told, mode);
            let status = std::process::Command::new("sh").args(["-c", &remedy]).status().unwrap();
            assert!(status.success(), "{remedy}");
            assert_eq!(*read_text(&path, Accept::AnyFile).unwrap(), "secret\n", "{remedy}");
        }
        fs::set_permissions(&path, Permissions::from_mode(0o400)).unwrap();
        read(&path, Accept::AnyFile).unwrap();
        let error = read(&folder.0.join("none"), Accept::AnyFile).unwrap_err().to_string();
        assert!(error.contains("none: No such file"), "{error}");
    }

    #[test]
    fn what_is_long_is_whole_and_what_is_too_long_is_refused() {
        let folder = Folder::new("long");
        let content: Vec<u8> = (0..Bounds::default().max_bytes).map(|index| index as u8).collect();
        assert_eq!(*read(&folder.file("long", &content), Accept::AnyFile).unwrap(), content);
        let path = folder.file("longer", &[content.clone(), vec![1]].concat());
        assert!(matches!(
            read(&path, Accept::AnyFile),
            Err(SecretFileError::File(SmallFileError::TooLong { .. }))
        ));
        assert!(matches!(
            read_text(&folder.0.join("long"), Accept::AnyFile),
            Err(SecretFileError::NoText { .. })
        ));
        // No end, and no file.
        assert!(matches!(
            read(Path::new("/dev/zero"), Accept::AnyFile),
            Err(SecretFileError::File(SmallFileError::TooLong { .. }))
        ));
    }

    #[test]
    fn a_group_may_read_where_that_is_how_this_process_can() {
        let folder = Folder::new("groups");
        let file = File::open(folder.file("key", b"")).unwrap();
        let mut stat = fstat(&file).unwrap();
        let mut remedy = |reader: (u32, bool), owner: (u32, u32), mode: u32| {
            (stat.st_uid, stat.st_gid, stat.st_mode) = (owner.0, owner.1, 0o100_000 | mode);
            Reader { uid: reader.0, is_in_group: reader.1 }.remedy(&stat, Path::new("/etc/key"))
        };
        let (root, user) = ((0, true), (990, true));
        // Root's file, read by root, which may go on as a user of that group; and by that user.
        assert_eq!(remedy(root, (0, 985), 0o640), None);
        assert_eq!(remedy(user, (0, 985), 0o640), None);
        assert_eq!(remedy(user, (1000, 985), 0o440), None);
        assert_eq!(remedy(user, (990, 985), 0o600), None);
        let said = |remedy: Option<String>| remedy.unwrap();
        assert_eq!(said(remedy(user, (990, 985), 0o640)), "chmod 600 /etc/key");
        assert_eq!(said(remedy(root, (0, 985), 0o644)), "chmod 640 /etc/key");
        assert_eq!(said(remedy(root, (0, 0), 0o644)), "chmod 600 /etc/key");
        assert_eq!(said(remedy(user, (0, 985), 0o664)), "chmod 640 /etc/key");
        let stranger = (990, false);
        assert_eq!(
            said(remedy(stranger, (0, 0), 0o644)),
            "chown 990 /etc/key && chmod 600 /etc/key",
            "mode 0600 alone would take it from this process"
        );
    }

    #[test]
    fn a_pipe_is_between_who_made_it_and_us() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"secret").unwrap();
        drop(writer);
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
        assert_eq!(*read(Path::new(&path), Accept::AnyFile).unwrap(), b"secret");
    }
}
