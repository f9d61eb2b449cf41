//! An object on its way into its file, block by block. The file gets its name behind the last block, so that what a crash
//! leaves is told from what is whole.

use super::directory::Directory;
use super::{count, lock};
use glassline_delivery::fill::disk::{BLOCK_BYTES, FileHead, Kept, Name, Seal};
use glassline_delivery::fill::{Freshness, Object, Validator};
use glassline_io::regular_file;
use glassline_media::Utc;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

/// An object on its way into its file.
pub(super) struct Writing {
    name: Name,
    key: String,
    file: File,
    path: PathBuf,
    seal: Seal,
    object: Object,
    at: u64,
    kept: Kept,
}

impl Writing {
    /// Makes room, and writes the head; `None` where the object is not written.
    pub(super) fn begin(
        directory: &mut Directory,
        name: Name,
        key: String,
        object: Object,
        freshness: Freshness,
        came: Utc,
    ) -> io::Result<Option<Writing>> {
        let Some(head) = object.progress().head else { return Ok(None) };
        let can_be_asked_about = Validator::of(&head).is_some();
        let head =
            FileHead { key: key.clone(), came, freshness, head: (*head).clone(), bytes: object.filled() };
        let file_bytes = head.file_bytes();
        let room = lock(&directory.disk.index).make_room(file_bytes);
        let (Some(evicted), Some((bytes, seal))) = (room, head.write()) else {
            count(&directory.disk.counters.skipped);
            directory.remove(name);
            return Ok(None);
        };
        for evicted in evicted {
            count(&directory.disk.counters.evicted);
            directory.remove(evicted);
        }
        let path = directory.unfinished_path_of(name);
        let mut file = regular_file::create(&path)?;
        if let Err(error) = file.write_all(&bytes) {
            drop(fs::remove_file(&path));
            return Err(error);
        }
        let kept = Kept { file_bytes, came, freshness, can_be_asked_about };
        Ok(Some(Writing { name, key, file, path, seal, object, at: 0, kept }))
    }

    /// Whether a purge that stands is about it.
    pub(super) fn is_purged(&self, directory: &Directory) -> bool {
        directory.disk.is_purged(&self.key)
    }

    /// Leaves the file incomplete, which is removed. It is not in the index.
    pub(super) fn abandon(self) -> Name {
        drop(fs::remove_file(&self.path));
        self.name
    }

    /// Writes a block; behind the last one, the file gets its name. `None` where it has ended.
    pub(super) fn go_on(mut self, directory: &mut Directory) -> Option<Writing> {
        match self.try_go_on(directory) {
            Ok(false) => return Some(self),
            Ok(true) => {
                let Writing { name, kept, object, .. } = self;
                lock(&directory.disk.index).insert(name, kept);
                count(&directory.disk.counters.written);
                let bytes = &directory.disk.counters.written_bytes;
                bytes.fetch_add(object.filled(), Ordering::Relaxed);
                directory.has_worked();
            }
            Err(error) => {
                // A file of an earlier object may be there.
                directory.remove(self.abandon());
                directory.complain(&error);
            }
        }
        None
    }

    fn try_go_on(&mut self, directory: &Directory) -> io::Result<bool> {
        let mut pieces = Vec::new();
        let count = self.object.read(self.at, self.at + BLOCK_BYTES as u64, &mut pieces);
        if count > 0 {
            let block = pieces.concat();
            let digest = self.seal.next(&block);
            self.file.write_all(&[&digest[..], &block].concat())?;
            self.at += count;
        }
        if self.at < self.object.filled() {
            return Ok(false);
        }
        fs::rename(&self.path, directory.path_of(self.name))?;
        Ok(true)
    }
}

#[cfg(test)]
#[path = "writing_tests.rs"]
mod tests;
