//! Purges: their names do not tell which objects lie in the files, so that the head of each one is read. The thread looks at a
//! few files after each of its other steps; until all were looked at, no object of a purge is found.

use super::directory::Directory;
use super::lock;
use super::writing::Writing;
use glassline_delivery::fill::Purge;
use glassline_delivery::fill::disk::Name;

/// Files that are looked at in one go.
const LOOKED_AT_A_TURN: usize = 16;

/// Purges, and the files that were not looked at for them yet.
pub(super) struct Purging {
    purges: Vec<Purge>,
    left: std::vec::IntoIter<Name>,
    removed: usize,
}

impl Purging {
    /// All purges that wait, and all files that there are. Those of an earlier run are known by now.
    /// What is being written and is about one of them is dropped.
    pub(super) fn begin(writing: &mut Option<Writing>, directory: &mut Directory) -> Purging {
        let mut standing = lock(&directory.disk.purges);
        standing.iter_mut().for_each(|standing| standing.is_begun = true);
        let purges = standing.iter().map(|standing| standing.purge.clone()).collect();
        drop(standing);
        // What began to be written before them is not of use either.
        if let Some(writing) = writing.take_if(|writing| writing.is_purged(directory)) {
            directory.remove(writing.abandon());
        }
        let left = lock(&directory.disk.index).names().into_iter();
        Purging { purges, left, removed: 0 }
    }

    /// Goes on for a turn; `None` where all files were looked at.
    pub(super) fn go_on(mut self, directory: &mut Directory) -> Option<Purging> {
        for name in self.left.by_ref().take(LOOKED_AT_A_TURN) {
            let is_meant = |key: &str| self.purges.iter().any(|purge| directory.disk.is_meant(purge, key));
            match directory.open_file(name) {
                Ok((_, head, ..)) if !is_meant(&head.key) => continue,
                Ok(_) => directory.remove(name),
                // It may be one of those.
                Err(why) => directory.discard(name, &why),
            }
            self.removed += 1;
        }
        if self.left.len() > 0 {
            return Some(self);
        }
        lock(&directory.disk.purges).retain(|standing| !standing.is_begun);
        tracing::info!(removed = self.removed, "files of the cache were purged");
        None
    }
}
