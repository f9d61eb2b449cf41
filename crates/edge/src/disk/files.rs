//! The cache's own files.

use glassline_io::regular_file;
use std::fs::File;
use std::io;
use std::path::Path;

/// See [`regular_file::open`].
pub(super) fn open(path: &Path) -> io::Result<File> {
    #[cfg(test)]
    gate::pass(path);
    regular_file::open(path)
}

/// A disk that hangs, for tests.
#[cfg(test)]
pub(super) mod gate {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};
    use std::sync::{Condvar, Mutex};

    static CLOSED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    static OPENED: Condvar = Condvar::new();

    /// Files in this directory cannot be opened until they may.
    pub(in super::super) fn close(directory: &Path) {
        CLOSED.lock().unwrap().insert(directory.to_owned());
    }

    pub(in super::super) fn open(directory: &Path) {
        CLOSED.lock().unwrap().remove(directory);
        OPENED.notify_all();
    }

    pub(super) fn pass(path: &Path) {
        let closed = CLOSED.lock().unwrap();
        let holds = |closed: &mut BTreeSet<PathBuf>| path.parent().is_some_and(|it| closed.contains(it));
        drop(OPENED.wait_while(closed, holds).unwrap());
    }
}
