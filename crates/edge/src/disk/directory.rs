//! The directory of the cache's files as the disk's thread works in it: what the files are called, how they are opened and
//! dropped, and what follows when the system refuses something.

use super::{Disk, count, files, lock};
use glassline_delivery::fill::disk::{FileError, FileHead, HEAD_BYTES_MAX, Name, OpenSeal};
use glassline_io::clock::Clock;
use glassline_media::Time;
use std::fs::{self, File, ReadDir};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The extension of a file that holds an object as a whole.
pub(super) const WHOLE: &str = "obj";
/// The extension of a file that is being written.
pub(super) const UNFINISHED: &str = "tmp";
/// Enough of a file for nearly every head.
const HEAD_BYTES: usize = 4096;
/// How long nothing is written after the system has refused it.
const REST: Duration = Duration::from_secs(30);

/// See the module.
pub(super) struct Directory {
    /// What the thread shares with the others.
    pub(super) disk: Arc<Disk>,
    pub(super) clock: Clock,
    /// It is there, and could be read.
    is_open: bool,
    /// Nothing is written until then.
    rests_until: Time,
    /// The system has refused something, and nothing was written since.
    fails: bool,
}

/// Why a file is of no use.
pub(super) enum Unread {
    /// It is not there: a server that runs beside, for an upgrade, has removed it.
    Gone,
    System(io::Error),
    Damaged(FileError),
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Unread {
        match error.kind() {
            ErrorKind::NotFound => Unread::Gone,
            ErrorKind::UnexpectedEof => Unread::Damaged(FileError::Short { found: 0, wanted: 0 }),
            _ => Unread::System(error),
        }
    }
}

impl From<FileError> for Unread {
    fn from(error: FileError) -> Unread {
        Unread::Damaged(error)
    }
}

impl Directory {
    /// One that was not opened yet.
    pub(super) fn new(disk: Arc<Disk>, clock: Clock) -> Directory {
        Directory { disk, clock, is_open: false, rests_until: Time::ZERO, fails: false }
    }

    /// Makes it where it is missing, and lists the files of an earlier run; `None` where the system refuses that.
    pub(super) fn open(&mut self) -> Option<ReadDir> {
        let path = self.path();
        let listing = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
        match listing.and_then(|()| fs::read_dir(path)) {
            Ok(listing) => {
                self.is_open = true;
                Some(listing)
            }
            Err(error) => {
                self.complain(&error);
                None
            }
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Nothing is written now: the system has refused something shortly before.
    pub(super) fn rests(&self) -> bool {
        self.clock.now() < self.rests_until
    }

    pub(super) fn path(&self) -> &Path {
        &self.disk.settings.directory
    }

    /// The file of an object that is whole.
    pub(super) fn path_of(&self, name: Name) -> PathBuf {
        self.path().join(format!("{name}.{WHOLE}"))
    }

    /// The file of an object that is being written by this process.
    pub(super) fn unfinished_path_of(&self, name: Name) -> PathBuf {
        self.path().join(format!("{name}.{}.{UNFINISHED}", std::process::id()))
    }

    /// The file of an object, and its head (see [`read_head`]).
    pub(super) fn open_file(&self, name: Name) -> Result<(File, FileHead, OpenSeal, usize), Unread> {
        let file = files::open(&self.path_of(name))?;
        let (head, seal, at) = read_head(&file)?;
        Ok((file, head, seal, at))
    }

    /// An operation on one file begins: [`Disk::hangs`] measures how long it takes.
    pub(super) fn begin_step(&self) {
        self.disk.begin_step(self.clock.now());
    }

    /// The system has refused something: that is told once, until something works again.
    pub(super) fn complain(&mut self, error: &io::Error) {
        count(&self.disk.counters.errors);
        let directory = self.path().display();
        if self.fails {
            tracing::debug!(%directory, %error, "the cache's directory fails again");
        } else {
            tracing::warn!(
                %directory, %error,
                "the cache's directory fails: what comes is kept in memory alone until it works again"
            );
        }
        self.fails = true;
        self.rests_until = self.clock.now() + REST;
    }

    /// A file was written as a whole.
    pub(super) fn has_worked(&mut self) {
        if std::mem::take(&mut self.fails) {
            tracing::info!(directory = %self.path().display(), "the cache's directory works again");
        }
    }

    /// The file of this name is of no use any more.
    pub(super) fn remove(&mut self, name: Name) {
        lock(&self.disk.index).remove(name);
        match fs::remove_file(self.path_of(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => self.complain(&error),
            _ => {}
        }
    }

    /// A file cannot be used.
    pub(super) fn discard(&mut self, name: Name, why: &Unread) {
        match why {
            Unread::Gone => {}
            Unread::System(error) => self.complain(error),
            Unread::Damaged(error) => {
                count(&self.disk.counters.damaged);
                let file = self.path_of(name);
                tracing::warn!(file = %file.display(), %error, "a file of the cache is damaged, and is dropped");
            }
        }
        self.remove(name);
    }
}

/// The head of a file, what opens its blocks, and where the first of them is.
fn read_head(file: &File) -> Result<(FileHead, OpenSeal, usize), Unread> {
    let file_bytes = file.metadata()?.len();
    let mut bytes = Vec::new();
    for most in [HEAD_BYTES, HEAD_BYTES_MAX] {
        let wanted = most.min(usize::try_from(file_bytes).unwrap_or(most));
        bytes.resize(wanted, 0);
        file.read_exact_at(&mut bytes, 0)?;
        match FileHead::parse(&bytes, file_bytes) {
            Err(FileError::Short { wanted, .. }) if most < HEAD_BYTES_MAX && wanted <= file_bytes => {}
            parsed => return Ok(parsed?),
        }
    }
    Err(Unread::Damaged(FileError::Lengths))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, tagged};
    use super::*;
    use crate::testing::freshness;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_directory_is_made_with_all_above_it_for_its_user_alone() {
        let bench = Bench::new(1 << 20);
        let mode = fs::metadata(bench.directory.path()).unwrap().permissions().mode();
        assert_eq!((mode & 0o777, bench.directory.is_open()), (0o700, true));
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_an_error_and_nothing_is_written_for_a_while() {
        let mut bench = Bench::new(1 << 20);
        fs::remove_dir(bench.directory.path()).unwrap();
        fs::write(bench.directory.path(), "something else").unwrap();
        bench.restart(1 << 20);
        assert!(bench.directory.open().is_none());
        assert!(!bench.directory.is_open() && bench.directory.rests());
        assert_eq!(bench.disk.figures().errors, 1);
    }

    #[test]
    fn files_of_two_processes_have_two_names_while_they_are_written_and_one_behind_that() {
        let bench = Bench::new(1 << 20);
        let name = Name::of("a");
        assert_eq!(bench.directory.path_of(name), bench.directory.path().join(format!("{name}.obj")));
        let unfinished = format!("{name}.{}.tmp", std::process::id());
        assert_eq!(bench.directory.unfinished_path_of(name), bench.directory.path().join(unfinished));
    }

    #[test]
    fn a_file_that_is_gone_already_is_removed_without_an_error() {
        let mut bench = Bench::new(1 << 20);
        bench.write("/a", tagged(b"hello".to_vec()), freshness(3600, 0, 0));
        fs::remove_file(bench.path("/a")).unwrap();
        let name = bench.name("/a");
        bench.directory.remove(name);
        assert_eq!((bench.disk.figures().objects, bench.disk.figures().errors), (0, 0));
    }

    #[test]
    fn errors_of_the_system_are_told_apart_from_damage() {
        let of = |kind: ErrorKind| Unread::from(io::Error::from(kind));
        assert!(matches!(of(ErrorKind::NotFound), Unread::Gone));
        assert!(matches!(of(ErrorKind::UnexpectedEof), Unread::Damaged(FileError::Short { .. })));
        assert!(matches!(of(ErrorKind::PermissionDenied), Unread::System(_)));
    }

    #[test]
    fn a_directory_that_works_again_says_so_once() {
        let mut bench = Bench::new(1 << 20);
        bench.directory.complain(&io::ErrorKind::StorageFull.into());
        bench.directory.complain(&io::ErrorKind::StorageFull.into());
        assert!(bench.directory.fails);
        bench.write("/a", tagged(b"hello".to_vec()), freshness(3600, 0, 0));
        assert!(!bench.directory.fails && bench.disk.figures().errors == 2);
    }
}
