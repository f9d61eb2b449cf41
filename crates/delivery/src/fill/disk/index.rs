//! Which objects lie in files, and which file goes first.

use super::super::freshness::Freshness;
use glassline_media::Utc;
use ring::digest::{SHA256, digest};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use thiserror::Error;

/// More files are not kept, however small they are: what the index takes in memory has a bound.
pub const FILES_MAX: usize = 1 << 18;
/// What a file takes beside its bytes, about, and what its length is rounded up to.
const FILE_UNIT_BYTES: u64 = 4096;
/// Uses that are counted begin here; files that were there before have smaller numbers, in the order of their last use.
const FIRST_USE: u64 = 1 << 40;

/// A file's name: half of the SHA-256 of the key, since a key may be longer than names of files may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(u128);

/// A text that is no file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a file's name has 32 hexadecimal digits, in lower case")]
pub struct NameError;

impl Name {
    /// The name of the file for the object with this key.
    pub fn of(key: &str) -> Name {
        let digest = digest(&SHA256, key.as_bytes());
        Name(digest.as_ref().iter().take(16).fold(0, |name, byte| name << 8 | u128::from(*byte)))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Name, NameError> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_name = text.len() == 32 && text.bytes().all(is_digit);
        is_name.then(|| u128::from_str_radix(text, 16).ok()).flatten().map(Name).ok_or(NameError)
    }
}

/// What is known of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Bytes of the file.
    pub file_bytes: u64,
    /// When its object came.
    pub came: Utc,
    /// What that was worth then.
    pub freshness: Freshness,
    /// Whether servers can be asked if it still holds: it has an entity tag, or says when it changed.
    pub can_be_asked_about: bool,
}

/// What a file is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It is fresh: every request gets it as it is.
    Fresh,
    /// Requests get it where a server says that it still holds, or where none can be reached.
    Old,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Index {
    files: BTreeMap<Name, (u64, Kept)>,
    /// Names by last use.
    by_use: BTreeMap<u64, Name>,
    uses: u64,
    bytes: u64,
    bytes_max: u64,
}

impl Index {
    /// An empty one that keeps `bytes_max` at most.
    pub fn new(bytes_max: u64) -> Index {
        Index { bytes_max, uses: FIRST_USE, ..Index::default() }
    }

    /// What the file of this name is good for `now`; `None` where there is none, or it is of no use.
    pub fn find(&self, name: Name, now: Utc) -> Option<Found> {
        let (_, kept) = self.files.get(&name)?;
        // A clock that was set back says nothing of its age: then it is old.
        let age = now.as_nanos().checked_sub(kept.came.as_nanos());
        let left = age.map(|age| kept.freshness.after(Duration::from_nanos(age))).unwrap_or_default();
        if !left.fresh.is_zero() {
            return Some(Found::Fresh);
        }
        (kept.can_be_asked_about || !left.stale_if_error.is_zero()).then_some(Found::Old)
    }

    /// Whether there is a file of this name.
    pub fn has(&self, name: Name) -> bool {
        self.files.contains_key(&name)
    }

    /// The file of this name was used.
    pub fn touch(&mut self, name: Name) {
        if let Some((used, _)) = self.files.get_mut(&name) {
            self.by_use.remove(used);
            self.uses += 1;
            *used = self.uses;
            self.by_use.insert(self.uses, name);
        }
    }

    /// The files to be removed before one of `file_bytes` may be written: those that were used longest ago. They are
    /// forgotten here. `None` where it would not fit even alone.
    pub fn make_room(&mut self, file_bytes: u64) -> Option<Vec<Name>> {
        let wanted = on_disk(file_bytes);
        if wanted > self.bytes_max {
            return None;
        }
        let mut evicted = Vec::new();
        while (self.bytes > self.bytes_max - wanted || self.files.len() >= FILES_MAX)
            && let Some((_, name)) = self.by_use.first_key_value()
        {
            let name = *name;
            self.remove(name);
            evicted.push(name);
        }
        Some(evicted)
    }

    /// A file was written, for which there is room.
    pub fn insert(&mut self, name: Name, kept: Kept) {
        self.uses += 1;
        self.put(name, self.uses, kept);
    }

    /// A file was there before this index was, the `order`th by its last use. Without effect where it is known by now.
    pub fn insert_former(&mut self, name: Name, order: u64, kept: Kept) {
        if !self.has(name) && order < FIRST_USE && !self.by_use.contains_key(&order) {
            self.put(name, order, kept);
        }
    }

    fn put(&mut self, name: Name, used: u64, kept: Kept) {
        self.remove(name);
        self.bytes += on_disk(kept.file_bytes);
        self.by_use.insert(used, name);
        self.files.insert(name, (used, kept));
    }

    /// The file of this name is no more. Returns whether there was one.
    pub fn remove(&mut self, name: Name) -> bool {
        let Some((used, kept)) = self.files.remove(&name) else { return false };
        self.by_use.remove(&used);
        self.bytes -= on_disk(kept.file_bytes);
        true
    }

    /// Names of all files.
    pub fn names(&self) -> Vec<Name> {
        self.files.keys().copied().collect()
    }

    /// How many files there are.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// Bytes that they take, about.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// What a file of this length takes of the disk, about.
fn on_disk(file_bytes: u64) -> u64 {
    (file_bytes / FILE_UNIT_BYTES + 1).saturating_mul(FILE_UNIT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kept(file_bytes: u64) -> Kept {
        let secs = Duration::from_secs;
        let freshness =
            Freshness { fresh: secs(60), stale_while_revalidate: secs(0), stale_if_error: secs(30) };
        Kept { file_bytes, came: Utc::from_nanos(0), freshness, can_be_asked_about: false }
    }

    fn name(number: u64) -> Name {
        Name::of(&number.to_string())
    }

    #[test]
    fn names_are_texts_and_back() {
        let name = Name::of("/live/a/1.m4s");
        assert_eq!(name.to_string().parse(), Ok(name));
        for text in ["", "0", "+0000000000000000000000000000000", &"0".repeat(33), &"A".repeat(32), "é"] {
            assert_eq!(text.parse::<Name>(), Err(NameError), "{text:?}");
        }
    }

    #[test]
    fn what_a_file_is_good_for_depends_on_its_age() {
        let mut index = Index::new(1 << 20);
        let at = |secs: u64| Utc::from_nanos(secs * 1_000_000_000);
        assert_eq!(index.find(name(1), at(0)), None);
        index.insert(name(1), kept(10));
        let found = |secs| index.find(name(1), at(secs));
        assert_eq!(
            (found(59), found(60), found(89), found(90)),
            (Some(Found::Fresh), Some(Found::Old), Some(Found::Old), None)
        );
        index.insert(name(2), Kept { can_be_asked_about: true, came: at(5000), ..kept(10) });
        assert_eq!(index.find(name(2), at(9000)), Some(Found::Old), "servers may say that it holds");
        assert_eq!(index.find(name(2), at(1)), Some(Found::Old), "the clock was set back");
    }

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let mut index = Index::new(5 * FILE_UNIT_BYTES);
        for number in 0..2 {
            index.insert(name(number), kept(10));
        }
        // Files of an earlier run are older than all others, and come in the order of their use.
        index.insert_former(name(11), 1, kept(10));
        index.insert_former(name(10), 0, kept(10));
        index.insert_former(name(1), 2, kept(4000));
        index.insert(name(2), kept(10));
        assert_eq!(index.files(), 5);
        assert_eq!(index.make_room(10), Some(vec![name(10)]));
        index.insert(name(3), kept(10));
        index.touch(name(0));
        assert_eq!(index.make_room(2 * FILE_UNIT_BYTES), Some(vec![name(11), name(1), name(2)]));
        assert_eq!(index.make_room(5 * FILE_UNIT_BYTES), None, "it would not fit alone");
        assert_eq!((index.files(), index.bytes()), (2, 2 * FILE_UNIT_BYTES));
    }

    proptest! {
        #[test]
        fn bytes_keep_their_bound(steps in prop::collection::vec((0u64..20, 0u64..60_000, 0u8..4), 1..200)) {
            let mut index = Index::new(200_000);
            for (number, bytes, step) in steps {
                match step {
                    0 => drop(index.remove(name(number))),
                    1 => index.touch(name(number)),
                    _ => {
                        let evicted = index.make_room(bytes).expect("it fits alone");
                        prop_assert!(evicted.iter().all(|name| !index.has(*name)));
                        index.insert(name(number), kept(bytes));
                    }
                }
                let counted: u64 = index.files.values().map(|(_, kept)| on_disk(kept.file_bytes)).sum();
                prop_assert_eq!(index.bytes(), counted);
                prop_assert_eq!(index.files.len(), index.by_use.len());
                prop_assert!(counted <= 200_000);
            }
        }
    }
}
