//! What a node pulls from others and may give on: its entry under `carries/NODE`.
//!
//! An entry is as long as an entry may be and no longer: of more streams than it has room for, those nearest to their owners are in it,
//! and the others are not given on.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::entry::{EntryError, FORM, Run, VALUE_MAX_BYTES, check_form, run_of, written};
use crate::policy::StreamName;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Bytes of an entry beside its streams, at most: the node's name has 64, and the rest is fixed.
const FRAME_BYTES: usize = 160;
/// Bytes of a stream in it beside its name: quotes, colon, brackets, comma, an epoch of 20 digits and hops of 3.
const STREAM_BYTES: usize = 32;

/// A stream that a node pulls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Carried {
    /// The epoch of the owner from which it comes.
    pub epoch: u64,
    /// How many servers it has passed from its owner to this node: 1 where it is pulled from the owner.
    pub hops: u8,
}

/// What a node says it pulls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CarriageEntry {
    /// The node, and which run of it.
    pub run: Run,
    /// The streams.
    pub streams: BTreeMap<StreamName, Carried>,
}

#[derive(Serialize, Deserialize)]
struct Form<'a> {
    v: u64,
    node: &'a str,
    incarnation: &'a str,
    #[serde(borrow)]
    streams: BTreeMap<Cow<'a, str>, (u64, u8)>,
}

impl CarriageEntry {
    /// Reads an entry.
    ///
    /// # Errors
    /// [`EntryError`].
    pub fn read(value: &[u8]) -> Result<CarriageEntry, EntryError> {
        check_form(value)?;
        let form: Form<'_> = serde_json::from_slice(value).map_err(|_| EntryError::Foreign)?;
        let stream = |(name, (epoch, hops)): (&Cow<'_, str>, &(u64, u8))| {
            let name = StreamName::parse(name).ok_or(EntryError::Foreign)?;
            // A stream that has passed no server is its owner's, and not pulled.
            let carried = Carried { epoch: *epoch, hops: *hops };
            (carried.hops > 0).then_some((name, carried)).ok_or(EntryError::Foreign)
        };
        let streams = form.streams.iter().map(stream).collect::<Result<_, _>>()?;
        Ok(CarriageEntry { run: run_of(form.node, form.incarnation)?, streams })
    }

    /// The entry as it is written, with as many of the streams as it has room for.
    pub fn write(&self) -> Vec<u8> {
        let mut order: Vec<_> = self.streams.iter().collect();
        order.sort_by_key(|(name, carried)| (carried.hops, *name));
        let mut room = VALUE_MAX_BYTES.saturating_sub(FRAME_BYTES);
        let fits = |(name, _): &(&StreamName, &Carried)| {
            let needed = name.as_str().len().saturating_add(STREAM_BYTES);
            let is_room = needed <= room;
            room = room.saturating_sub(needed);
            is_room
        };
        let told = order.into_iter().take_while(fits);
        let streams = told.map(|(name, carried)| (name.as_str().into(), (carried.epoch, carried.hops)));
        written(&Form {
            v: FORM,
            node: self.run.node.as_str(),
            incarnation: &format!("{:016x}", self.run.incarnation),
            streams: streams.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::NodeName;
    use super::*;
    use proptest::prelude::*;

    fn run() -> Run {
        Run { node: NodeName::parse(&"n".repeat(64)).unwrap(), incarnation: u64::MAX }
    }

    fn stream() -> impl Strategy<Value = (StreamName, Carried)> {
        ("[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}", any::<u64>(), 1_u8..)
            .prop_map(|(name, epoch, hops)| (StreamName::parse(&name).unwrap(), Carried { epoch, hops }))
    }

    proptest! {
        #[test]
        fn an_entry_is_never_too_long_and_has_the_nearest_streams(streams in prop::collection::btree_map("[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}", (any::<u64>(), 1_u8..), 0..260)) {
            let streams: BTreeMap<_, _> = streams.into_iter().map(|(name, (epoch, hops))| (StreamName::parse(&name).unwrap(), Carried { epoch, hops })).collect();
            let entry = CarriageEntry { run: run(), streams };
            let written = entry.write();
            prop_assert!(written.len() <= VALUE_MAX_BYTES);
            let read = CarriageEntry::read(&written).unwrap();
            prop_assert_eq!(&read.run, &entry.run);
            prop_assert!(read.streams.iter().all(|(name, carried)| entry.streams.get(name) == Some(carried)));
            let farthest = read.streams.values().map(|carried| carried.hops).max().unwrap_or(0);
            let left = entry.streams.iter().filter(|(name, _)| !read.streams.contains_key(*name));
            prop_assert!(left.map(|(_, carried)| carried.hops).all(|hops| hops >= farthest));
            prop_assert!(read.streams.len() >= entry.streams.len().min(38), "{}", read.streams.len());
        }

        #[test]
        fn few_streams_are_read_as_they_were_written(streams in prop::collection::vec(stream(), 0..38)) {
            let entry = CarriageEntry { run: run(), streams: streams.into_iter().collect() };
            prop_assert_eq!(CarriageEntry::read(&entry.write()), Ok(entry));
        }

        #[test]
        fn bytes_of_others_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = CarriageEntry::read(&bytes);
        }
    }

    #[test]
    fn what_is_no_entry_of_this_form_is_told_apart() {
        let entry = |streams: &str| {
            format!(r#"{{"v":1,"node":"a","incarnation":"00000000000000ff","streams":{streams}}}"#)
                .into_bytes()
        };
        assert_eq!(CarriageEntry::read(br#"{"v":2,"streams":[]}"#), Err(EntryError::Form(2)));
        for foreign in [r#"{"a":[1,0]}"#, r#"{"a/b":[1,1]}"#, r#"{"a":[1,256]}"#, r#"{"a":[1]}"#, "[]"] {
            assert_eq!(CarriageEntry::read(&entry(foreign)), Err(EntryError::Foreign), "{foreign}");
        }
        assert!(CarriageEntry::read(&entry(r#"{"a":[1,1]}"#)).is_ok());
    }
}
