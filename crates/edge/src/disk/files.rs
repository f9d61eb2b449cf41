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
    static HELD: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    static OPENED: Condvar = Condvar::new();

    /// Files in this directory cannot be opened until they may.
    pub(in super::super) fn close(directory: &Path) {
        CLOSED.lock().unwrap().insert(directory.to_owned());
    }

    pub(in super::super) fn open(directory: &Path) {
        CLOSED.lock().unwrap().remove(directory);
        OPENED.notify_all();
    }

    /// Whether a file in this directory is being opened, in vain.
    pub(in super::super) fn holds(directory: &Path) -> bool {
        HELD.lock().unwrap().contains(directory)
    }

    pub(super) fn pass(path: &Path) {
        let Some(directory) = path.parent() else { return };
        let holds = |closed: &mut BTreeSet<PathBuf>| {
            let is_closed = closed.contains(directory);
            let mut held = HELD.lock().unwrap();
            if is_closed {
                held.insert(directory.to_owned());
            } else {
                held.remove(directory);
            }
            is_closed
        };
        drop(OPENED.wait_while(CLOSED.lock().unwrap(), holds).unwrap());
    }
}
