//! Which path carries the parity of reliable messages, and when.
//!
//! It leaves when nothing else waits, by the path that has carried least of the message, so that a burst of losses on one does
//! not take both; and only by one by which it arrives sooner than a part would that is known to be lost and sent again.

use glassline_media::Time;
use std::time::Duration;

use super::outgoing::Place;
use super::paths::Paths;
use super::{Link, rounded_down};
use crate::link::Bonding;
use crate::link::channel::send::Due;
use crate::link::content::Content;
use crate::link::wire::frame::Frame;
use crate::link::wire::packet::DATA_OVERHEAD;

/// A message goes over two paths, and has no parity then, where its copies leave within so much time.
const COPY_DELAY: Duration = Duration::from_millis(20);
impl Paths {
    /// Whether reliable messages that leave by the path may get parity: the other end takes it, and not all of them go twice.
    pub(super) fn takes_parity(&self, on: usize) -> bool {
        self[on].peer.parity && !(self.are_many() && self[on].bonding == Bonding::Both)
    }

    /// How many bytes of copies leave soon by the second path of what leaves by `on`; `None` where there is no second one.
    pub(super) fn copy_room(&self, now: Time, on: usize) -> Option<u64> {
        if !self.are_summed() {
            return None;
        }
        let second = &self[self.second(on)?];
        if self.crowd.is_on(now) {
            return Some(0);
        }
        let soon = rounded_down(second.bytes_per_second() * COPY_DELAY.as_secs_f64());
        Some(soon.saturating_sub(second.duplicate_bytes).saturating_sub(second.parity_bytes))
    }

    /// The path for a shard of parity of `bytes` bytes of a message that has left, the last of it by `on`, and of which each path
    /// has carried so much, by its number. `None`: by none it arrives sooner than a part that is sent again.
    fn for_parity(&self, now: Time, on: usize, bytes: u32, carried: &[u64]) -> Option<usize> {
        let is_one = !self.are_summed();
        let paths =
            || (0..self.count()).filter(|other| if is_one { *other == on } else { self.carries(*other) });
        let behind = self.behind();
        let again = paths().map(|on| self[on].recovery.probe_time()).min()?.as_secs_f64();
        let is_soon = |on: &usize| {
            let path = &self[*on];
            let ahead = path.parity_bytes.saturating_add(bytes.into()) as f64 / path.bytes_per_second();
            let behind = if is_one { 0.0 } else { behind[*on] };
            path.wait(now) + ahead + behind <= again
        };
        let carried = |on: &usize| carried.get(usize::from(self[*on].number)).copied().unwrap_or_default();
        paths().filter(is_soon).min_by_key(carried)
    }
}

impl Link {
    /// Has the parity of a message that has left wait for its turn.
    pub(super) fn queue_parity(&mut self, now: Time, on: usize, channel: u8, due: Due) {
        if due.is_for_copies {
            self.paths.crowd.note(now, due.bytes, true);
        }
        for on in 0..self.paths.count() {
            self.drop_idle_parity(on);
        }
        let mut carried = due.carried;
        for index in 0..due.count {
            let Some(on) = self.paths.for_parity(now, on, due.shard, &carried) else { break };
            let (path, part) = (&mut self.paths[on], due.part(index));
            path.parity.push_back((channel, part));
            path.parity_bytes = path.parity_bytes.saturating_add(part.duplicate_cost());
            if let Some(carried) = carried.get_mut(usize::from(path.number)) {
                *carried = carried.saturating_add(due.shard.into());
            }
        }
    }

    /// Lets go of shards in front that are of no use any more.
    fn drop_idle_parity(&mut self, on: usize) {
        let path = &mut self.paths[on];
        while let Some(&(channel, part)) = path.parity.front() {
            let sender = self.channels.sender(channel);
            if sender.is_some_and(|sender| sender.is_parity_wanted(part)) {
                break;
            }
            path.pop_parity();
        }
    }

    /// Writes parity behind all else, one shard into a packet, and none beside a part of the same message, with which it would be
    /// lost. Returns true if there is more, which does not fit.
    pub(super) fn write_parity(
        &mut self,
        on: usize,
        place: Place,
        out: &mut Vec<u8>,
        contents: &mut Vec<Content>,
    ) -> bool {
        self.drop_idle_parity(on);
        let datagram = self.paths.datagram(on);
        let path = &mut self.paths[on];
        let Some(&(channel, part)) = path.parity.front() else { return false };
        let is_beside = |content: &Content| matches!(content, Content::Data { channel: beside, part: other } if *beside == channel && other.message == part.message);
        if contents.iter().any(is_beside) {
            return true;
        }
        let Some(sender) = self.channels.sender_mut(channel) else { return false };
        let mark = out.len();
        let announce = !sender.is_announced();
        if announce {
            let options = sender.options.for_peer(path.peer.stamps);
            Frame::Open { channel, options }.write(out);
        }
        let opening = out.len().saturating_sub(mark);
        let whole = datagram.saturating_sub(DATA_OVERHEAD).saturating_sub(opening);
        match sender.write_parity_shard(part, place.room(out), whole, out) {
            Some(true) => {
                if announce {
                    contents.push(Content::Open(channel));
                }
                contents.push(Content::Data { channel, part });
            }
            Some(false) => {
                out.truncate(mark);
                return true;
            }
            None => out.truncate(mark),
        }
        path.pop_parity();
        !path.parity.is_empty()
    }
}
