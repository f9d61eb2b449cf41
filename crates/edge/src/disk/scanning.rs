//! Files of an earlier run: at the start the directory is listed, then the head of each file is read, and what is of use goes
//! into the index. The thread does a little of it after each of its other steps.

use super::directory::{Directory, UNFINISHED, Unread, WHOLE};
use super::{count, lock};
use glassline_delivery::fill::Validator;
use glassline_delivery::fill::disk::{FILES_MAX, FileError, Kept, Name};
use std::fs::{self, ReadDir};
use std::time::{Duration, SystemTime};

/// Files that are listed in one go.
const LISTED_A_TURN: usize = 256;
/// Files that are looked at in one go.
const LOOKED_AT_A_TURN: usize = 16;
/// A file that is being written and was not for so long was left behind by a process that has ended.
const LEFT_BEHIND: Duration = Duration::from_secs(60);

/// Files of an earlier run.
pub(super) enum Scan {
    Listing(ReadDir, Vec<(SystemTime, Name)>),
    /// With the order of their last use.
    LookingAt(std::iter::Enumerate<std::vec::IntoIter<(SystemTime, Name)>>),
}

impl Scan {
    /// Of what the directory lists.
    pub(super) fn new(listing: ReadDir) -> Scan {
        Scan::Listing(listing, Vec::new())
    }

    /// Goes on for a turn; `None` where it has ended.
    pub(super) fn go_on(self, directory: &mut Directory) -> Option<Scan> {
        match self {
            Scan::Listing(listing, found) => Some(list_on(listing, found, directory)),
            Scan::LookingAt(mut files) => {
                for (order, (_, name)) in files.by_ref().take(LOOKED_AT_A_TURN) {
                    look_at(name, order as u64, directory);
                }
                if files.len() > 0 {
                    return Some(Scan::LookingAt(files));
                }
                end(directory);
                None
            }
        }
    }
}

fn list_on(mut listing: ReadDir, mut found: Vec<(SystemTime, Name)>, directory: &mut Directory) -> Scan {
    for _ in 0..LISTED_A_TURN {
        let Some(entry) = listing.next() else {
            found.sort_unstable();
            // Of too many those go that were used longest ago.
            let surplus = found.len().saturating_sub(FILES_MAX);
            for (_, name) in found.drain(..surplus) {
                directory.remove(name);
            }
            return Scan::LookingAt(found.into_iter().enumerate());
        };
        let Ok(entry) = entry else { continue };
        let (path, modified) = (entry.path(), entry.metadata().and_then(|it| it.modified()));
        let (Some(stem), Ok(modified)) = (path.file_stem().and_then(|stem| stem.to_str()), modified) else {
            continue;
        };
        let extension = path.extension().and_then(|extension| extension.to_str());
        let name = stem.split('.').next().and_then(|stem| stem.parse::<Name>().ok());
        match (extension, name) {
            (Some(WHOLE), Some(name)) => found.push((modified, name)),
            (Some(UNFINISHED), Some(_)) => {
                // A clock that was set back makes it young: then it goes at another start.
                let is_old = modified.elapsed().is_ok_and(|age| age > LEFT_BEHIND);
                if is_old && let Err(error) = fs::remove_file(&path) {
                    directory.complain(&error);
                }
            }
            // Whatever it is, it is not ours.
            _ => {}
        }
    }
    Scan::Listing(listing, found)
}

/// Takes a file of an earlier run into the index, where it is of use.
fn look_at(name: Name, order: u64, directory: &mut Directory) {
    if lock(&directory.disk.index).has(name) {
        return;
    }
    match directory.open_file(name) {
        Ok((_, head, ..)) if Name::of(&head.key) == name => {
            let can_be_asked_about = Validator::of(&head.head).is_some();
            let kept = Kept {
                file_bytes: head.file_bytes(),
                came: head.came,
                freshness: head.freshness,
                can_be_asked_about,
            };
            let is_of_use = {
                let mut index = lock(&directory.disk.index);
                index.insert_former(name, order, kept);
                index.find(name, directory.clock.utc()).is_some()
            };
            if !is_of_use {
                directory.remove(name);
            }
        }
        Ok(_) => directory.discard(name, &Unread::Damaged(FileError::Text)),
        Err(why) => directory.discard(name, &why),
    }
}

fn end(directory: &mut Directory) {
    // What there may be has perhaps become less.
    let evicted = lock(&directory.disk.index).make_room(0).unwrap_or_default();
    for name in evicted {
        count(&directory.disk.counters.evicted);
        directory.remove(name);
    }
    let (objects, bytes) = {
        let index = lock(&directory.disk.index);
        (index.files(), index.bytes())
    };
    if objects > 0 {
        let directory = directory.path().display();
        tracing::info!(%directory, objects, bytes, "the cache's files of an earlier run are used again");
    }
}

#[cfg(test)]
#[path = "scanning_tests.rs"]
mod tests;
