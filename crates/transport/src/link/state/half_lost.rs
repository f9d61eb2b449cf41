//! Parts of messages that went over both paths of a link and were lost on one of them: a part is lost when both have lost it.

use std::collections::BTreeMap;

use super::channels::Channels;
use crate::link::channel::send::Written;
use crate::link::content::Content;

/// The most parts remembered as lost on one of two paths.
const MAX_HALF_LOST: usize = 4096;

/// A part of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Part {
    channel: u8,
    message: u64,
    /// Where it begins, bytes.
    offset: u32,
}

impl Part {
    /// As it was written, with its length.
    fn written(self, length: u32) -> Written {
        Written { message: self.message, offset: self.offset, length, again: false, parity: false }
    }
}

/// What one of two paths has lost.
#[derive(Debug, Default)]
pub(super) struct HalfLost {
    /// The parts, with their lengths.
    parts: BTreeMap<Part, u32>,
    /// How many came since it was last cleared of what does not matter any more.
    since_cleared: usize,
}

impl HalfLost {
    /// Notes that a packet with a duplicated part is lost on one path. `other_is_well` is how the other path is, where there
    /// is one. Returns whether the part is now lost on both.
    pub(super) fn note(
        &mut self,
        channels: &Channels,
        channel: u8,
        part: Written,
        other_is_well: Option<bool>,
    ) -> bool {
        let Some(sender) = channels.sender(channel) else { return false };
        if !sender.is_missing(part) {
            return false;
        }
        let is_reliable = sender.options.reliable;
        let key = Part { channel, message: part.message, offset: part.offset };
        let is_lost_there = self.parts.remove(&key).is_some();
        if is_lost_there || other_is_well.is_none() || is_reliable && other_is_well == Some(false) {
            return true;
        }
        self.since_cleared = self.since_cleared.saturating_add(1);
        if self.parts.len() >= MAX_HALF_LOST && self.since_cleared >= MAX_HALF_LOST / 4 {
            // All of them are looked at, so not for each part that is lost.
            self.since_cleared = 0;
            self.parts.retain(|part, length| {
                channels.sender(part.channel).is_some_and(|sender| sender.is_missing(part.written(*length)))
            });
        }
        self.parts.len() >= MAX_HALF_LOST || {
            self.parts.insert(key, part.length);
            false
        }
    }

    /// Takes out what was lost of reliable messages: the other path, which carries the duplicates, does not answer in time.
    pub(super) fn take_reliable(&mut self, channels: &Channels) -> Vec<Content> {
        let is_reliable =
            |part: &Part| channels.sender(part.channel).is_some_and(|sender| sender.options.reliable);
        let (lost, kept): (BTreeMap<Part, u32>, _) =
            std::mem::take(&mut self.parts).into_iter().partition(|(part, _)| is_reliable(part));
        self.parts = kept;
        lost.into_iter()
            .map(|(part, length)| Content::Data { channel: part.channel, part: part.written(length) })
            .collect()
    }

    pub(super) fn clear(&mut self) {
        self.parts.clear();
    }
}
