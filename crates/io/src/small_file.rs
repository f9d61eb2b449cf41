//! Files that are read whole before anything is done with them: configurations, session descriptions, keys, certificates.
//!
//! Each is read with bounds of length and time, whatever its path names: a device without an end, a FIFO that is never
//! written. When a program starts, a pipe will do (`--key <(…)`, `/dev/stdin`): it gives its content once. While a program
//! runs, only regular files will ([`Accept::RegularFile`]), since all else may give other content by then, or none.
//! Symbolic links are followed: that is how certbot and Kubernetes exchange files.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{FileType, Mode, OFlags, Timespec, fstat, open, stat};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thiserror::Error;
use zeroize::Zeroizing;

/// How much of a file is read, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// A file with more bytes is refused.
    pub max_bytes: u64,
    /// A file that does not end within this time is refused. A disk that hangs is not bounded by it: a read of a regular
    /// file cannot be given up.
    pub timeout: Duration,
}

impl Default for Bounds {
    /// 1 MiB and 5 s. PEM files of a few certificates have some thousands of bytes, long configurations some ten thousand.
    fn default() -> Bounds {
        Bounds { max_bytes: 1 << 20, timeout: Duration::from_secs(5) }
    }
}

/// What a path may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// Whatever can be read once, such as a pipe: when a program starts.
    AnyFile,
    /// A regular file, or a symbolic link to one: while a program runs.
    RegularFile,
}

/// Why a file is not read. No message tells what is in it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SmallFileError {
    /// It cannot be read.
    #[error("cannot read {}: {reason}", .file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the system says.
        reason: io::Error,
    },
    /// It is none of those that are read while a program runs.
    #[error(
        "{} is {kind}, and while the program runs only regular files are read; write its content into a file and name that",
        .file.display()
    )]
    NotRegular {
        /// The file.
        file: PathBuf,
        /// What it is, as in "a FIFO".
        kind: &'static str,
    },
    /// It is longer than such files are.
    #[error("{} is too long: at most {max_bytes} bytes are read of such a file; name the right one", .file.display())]
    TooLong {
        /// The file.
        file: PathBuf,
        /// The bound, [`Bounds::max_bytes`].
        max_bytes: u64,
    },
    /// It does not end in time.
    #[error(
        "{} did not come to its end within {} s ({bytes} bytes came); write its content into a file and name that",
        .file.display(),
        .timeout.as_secs_f64()
    )]
    TooSlow {
        /// The file.
        file: PathBuf,
        /// The bound, [`Bounds::timeout`].
        timeout: Duration,
        /// What was read until then.
        bytes: usize,
    },
}

impl SmallFileError {
    /// Whether there is no file of this name.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, SmallFileError::Unreadable { reason, .. } if reason.kind() == ErrorKind::NotFound)
    }
}

/// Reads the file at `path` with the default [`Bounds`]. The bytes are overwritten when they are dropped.
///
/// # Errors
/// It cannot be read, is not what is accepted, is too long, or does not end in time.
pub fn read(path: &Path, accept: Accept) -> Result<Zeroizing<Vec<u8>>, SmallFileError> {
    SmallFile::open(path, accept, Bounds::default())?.read()
}

/// The same of a text.
///
/// # Errors
/// As [`read`]; `Unreadable` where it is no UTF-8.
pub fn read_text(path: &Path, accept: Accept) -> Result<Zeroizing<String>, SmallFileError> {
    SmallFile::open(path, accept, Bounds::default())?.read_text()
}

/// A file that is open and about to be read.
#[derive(Debug)]
pub struct SmallFile<'a> {
    file: File,
    path: &'a Path,
    is_regular: bool,
    bounds: Bounds,
    deadline: Instant,
}

impl<'a> SmallFile<'a> {
    /// Opens it without waiting: a FIFO is opened even where it has no writer.
    ///
    /// # Errors
    /// `Unreadable`, `NotRegular`.
    pub fn open(path: &'a Path, accept: Accept, bounds: Bounds) -> Result<SmallFile<'a>, SmallFileError> {
        let unreadable = |reason: rustix::io::Errno| SmallFileError::Unreadable {
            file: path.into(),
            reason: reason.into(),
        };
        let checked = |mode| match FileType::from_raw_mode(mode) {
            FileType::RegularFile => Ok(true),
            _ if accept == Accept::AnyFile => Ok(false),
            other => Err(SmallFileError::NotRegular { file: path.into(), kind: words(other) }),
        };
        if accept == Accept::RegularFile {
            // To open a FIFO or a device may already do something.
            checked(stat(path).map_err(unreadable)?.st_mode)?;
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = File::from(open(path, flags, Mode::empty()).map_err(unreadable)?);
        // What has the name by now may be something else.
        let is_regular = checked(fstat(&file).map_err(unreadable)?.st_mode)?;
        Ok(SmallFile { file, path, is_regular, bounds, deadline: Instant::now() + bounds.timeout })
    }

    /// Reads it to its end. The bytes are overwritten when they are dropped.
    ///
    /// # Errors
    /// `Unreadable`, `TooLong`, `TooSlow`.
    pub fn read(mut self) -> Result<Zeroizing<Vec<u8>>, SmallFileError> {
        let max_bytes = self.bounds.max_bytes;
        // A buffer that grows would leave copies behind that are not overwritten.
        let length = self.file.metadata().map_or(0, |found| found.len()).min(max_bytes).max(8 << 10);
        let mut bytes = Zeroizing::new(Vec::with_capacity(length as usize + 1));
        loop {
            if bytes.len() as u64 > max_bytes {
                return Err(SmallFileError::TooLong { file: self.path.into(), max_bytes });
            }
            if bytes.len() == bytes.capacity() {
                let mut larger = Zeroizing::new(Vec::with_capacity(2 * bytes.capacity()));
                larger.extend_from_slice(&bytes);
                bytes = larger;
            }
            let (filled, room) = (bytes.len(), bytes.capacity());
            bytes.resize(room, 0);
            let read = self.read_some(&mut bytes[filled..], filled)?;
            bytes.truncate(filled + read);
            if read == 0 {
                return Ok(bytes);
            }
        }
    }

    /// The same of a text.
    ///
    /// # Errors
    /// As [`SmallFile::read`]; `Unreadable` where it is no UTF-8.
    pub fn read_text(self) -> Result<Zeroizing<String>, SmallFileError> {
        let path = self.path;
        let mut bytes = self.read()?;
        String::from_utf8(std::mem::take(&mut *bytes)).map(Zeroizing::new).map_err(|error| {
            drop(Zeroizing::new(error.into_bytes()));
            let reason = io::Error::new(ErrorKind::InvalidData, "it is no UTF-8 text");
            SmallFileError::Unreadable { file: path.into(), reason }
        })
    }

    /// Reads what is there into `room`, of which there is some, and waits for it until the deadline. 0 at the end.
    fn read_some(&mut self, room: &mut [u8], read_before: usize) -> Result<usize, SmallFileError> {
        let unreadable = |reason: io::Error| SmallFileError::Unreadable { file: self.path.into(), reason };
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let SmallFile { path, bounds: Bounds { timeout, .. }, .. } = *self;
                return Err(SmallFileError::TooSlow { file: path.into(), timeout, bytes: read_before });
            }
            // A FIFO without a writer reads as one at its end, but is not ready before it has had one.
            if !self.is_regular {
                let wait = Timespec::try_from(left).map_err(|error| unreadable(io::Error::other(error)))?;
                match poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&wait)) {
                    Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                    other => other.map_err(|error| unreadable(error.into()))?,
                };
            }
            match (&self.file).read(room) {
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
                other => return other.map_err(unreadable),
            }
        }
    }
}

impl AsFd for SmallFile<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn words(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a regular file",
        FileType::Directory => "a folder",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO or a pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice => "a device (of characters)",
        FileType::BlockDevice => "a device (of blocks)",
        FileType::Unknown => "a file of an unknown kind",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, OpenOptions};
    use std::io::Write;
    use std::thread;

    const SHORT: Bounds = Bounds { max_bytes: 1 << 20, timeout: Duration::from_millis(200) };

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("glassline-small-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn file(&self, name: &str, content: &[u8]) -> PathBuf {
            let path = self.0.join(name);
            fs::write(&path, content).unwrap();
            path
        }

        fn fifo(&self, name: &str) -> PathBuf {
            let path = self.0.join(name);
            rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn read_within(path: &Path, accept: Accept, bounds: Bounds) -> Result<Vec<u8>, SmallFileError> {
        SmallFile::open(path, accept, bounds)?.read().map(|bytes| bytes.to_vec())
    }

    #[test]
    fn a_file_is_read_up_to_the_bound_also_by_a_link() {
        let folder = Folder::new("bound");
        let content: Vec<u8> = (0..1 << 20).map(|index| (index % 251) as u8).collect();
        let path = folder.file("whole", &content);
        let link = folder.0.join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        for accept in [Accept::AnyFile, Accept::RegularFile] {
            assert_eq!(*read(&path, accept).unwrap(), content);
            assert_eq!(*read(&link, accept).unwrap(), content, "certbot's files are links");
            for longer in [content.len() + 1, 2 << 20] {
                let error = read(&folder.file("longer", &vec![7; longer]), accept).unwrap_err();
                assert!(matches!(error, SmallFileError::TooLong { max_bytes: 1_048_576, .. }), "{error}");
            }
            assert!(read(&folder.0.join("none"), accept).unwrap_err().is_not_found());
        }
        assert_eq!(read_text(&folder.file("text", b"a = 1\n"), Accept::AnyFile).unwrap().as_str(), "a = 1\n");
        let error = read_text(&folder.file("no text", &[0xff]), Accept::AnyFile).unwrap_err().to_string();
        assert!(error.contains("no text: it is no UTF-8"), "{error}");
    }

    #[test]
    fn what_has_no_end_is_refused_at_the_bound() {
        let error = read_within(Path::new("/dev/zero"), Accept::AnyFile, SHORT).unwrap_err();
        assert!(matches!(error, SmallFileError::TooLong { .. }), "{error}");
        let folder = Folder::new("endless");
        let path = folder.fifo("fifo");
        let writer = thread::spawn({
            let path = path.clone();
            // Ends with the broken pipe that the reader leaves.
            move || {
                let mut fifo = OpenOptions::new().write(true).open(path).unwrap();
                while fifo.write_all(&[b'a'; 4096]).is_ok() {}
            }
        });
        let error = read_within(&path, Accept::AnyFile, Bounds { timeout: Duration::from_secs(60), ..SHORT });
        assert!(matches!(error, Err(SmallFileError::TooLong { .. })), "{error:?}");
        writer.join().unwrap();
    }

    #[test]
    fn what_does_not_come_in_time_is_refused() {
        let folder = Folder::new("slow");
        let path = folder.fifo("fifo");
        let error = read_within(&path, Accept::AnyFile, SHORT).unwrap_err();
        assert!(matches!(error, SmallFileError::TooSlow { bytes: 0, .. }), "no writer: {error}");
        assert!(error.to_string().contains("within 0.2 s (0 bytes came); write"), "{error}");
        // One end that reads and writes: the FIFO has a writer that does not end.
        let mut writer = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        writer.write_all(b"half").unwrap();
        let error = read_within(&path, Accept::AnyFile, SHORT).unwrap_err();
        assert!(matches!(error, SmallFileError::TooSlow { bytes: 4, .. }), "half of it: {error}");
    }

    #[test]
    fn a_pipe_is_read_at_the_start_and_only_regular_files_later() {
        let folder = Folder::new("kinds");
        let path = folder.fifo("fifo");
        let writer = thread::spawn({
            let path = path.clone();
            move || fs::write(path, b"key").unwrap()
        });
        let bounds = Bounds { timeout: Duration::from_secs(60), ..SHORT };
        assert_eq!(read_within(&path, Accept::AnyFile, bounds).unwrap(), b"key");
        writer.join().unwrap();
        let link = folder.0.join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        for other in [path.as_path(), &link, Path::new("/dev/zero"), &folder.0] {
            let error = read_within(other, Accept::RegularFile, bounds).unwrap_err();
            assert!(matches!(error, SmallFileError::NotRegular { .. }), "{error}");
            assert!(error.to_string().contains("only regular files are read; write"), "{error}");
        }
        assert!(matches!(
            read_within(&folder.0, Accept::AnyFile, SHORT),
            Err(SmallFileError::Unreadable { .. })
        ));
    }
}
