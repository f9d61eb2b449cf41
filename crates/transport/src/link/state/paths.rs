//! The paths of a link: one, or two, each of which may lead over another network. Keys, packet numbers, losses, rate and
//! datagram size are each path's ([`PathState`]); channels are the link's.
//!
//! What handles one path is told its index, which is good until a path comes or goes.

use crate::counter::count;
use glassline_media::Time;
use std::ops::{Index, IndexMut};
use std::time::Duration;

use super::path::PathState;
use super::rounded_down;
use super::statistics::PathStatistics;
use crate::link::channel::send::Written;
use crate::link::content::Content;
use crate::link::wire::packet::ConnectionId;

/// How often each of two paths is probed.
pub(super) const PATH_PROBE: Duration = Duration::from_millis(200);
/// How long the first path must have answered before it carries messages again.
const RECOVERED_AFTER: Duration = Duration::from_secs(2);
/// Duplicates that wait on a path are at most what it carries in this time, or [`MIN_DUPLICATE_BYTES`] if that is more.
const DUPLICATE_DELAY: Duration = Duration::from_millis(50);
const MIN_DUPLICATE_BYTES: u64 = 12_000;

/// See the [module](self). None before the handshake.
#[derive(Default)]
pub(super) struct Paths {
    states: Vec<PathState>,
    /// The index of the path that is preferred for messages.
    preferred: usize,
    /// Where only one of two paths carries messages: whether it is the second.
    on_second: bool,
    /// IDs of paths that are gone.
    dropped: Vec<ConnectionId>,
}

impl Index<usize> for Paths {
    type Output = PathState;

    #[inline]
    fn index(&self, on: usize) -> &PathState {
        &self.states[on]
    }
}

impl IndexMut<usize> for Paths {
    #[inline]
    fn index_mut(&mut self, on: usize) -> &mut PathState {
        &mut self.states[on]
    }
}

/// The index of the other one of two paths.
fn beside(on: usize) -> usize {
    usize::from(on == 0)
}

impl Paths {
    /// How many there are.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.states.len()
    }

    /// Whether there are two.
    #[inline]
    pub(super) fn are_two(&self) -> bool {
        self.states.len() > 1
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &PathState> {
        self.states.iter()
    }

    /// The path that is preferred for messages, once the link is up.
    #[inline]
    pub(super) fn main(&self) -> Option<&PathState> {
        self.states.get(self.preferred)
    }

    #[inline]
    pub(super) fn main_mut(&mut self) -> Option<&mut PathState> {
        self.states.get_mut(self.preferred)
    }

    #[inline]
    pub(super) fn get(&self, on: usize) -> Option<&PathState> {
        self.states.get(on)
    }

    /// The path beside `on`.
    #[inline]
    pub(super) fn other(&self, on: usize) -> Option<&PathState> {
        if self.are_two() { self.states.get(beside(on)) } else { None }
    }

    /// All of them by their indices, the preferred one in front.
    pub(super) fn in_turn(&self) -> impl Iterator<Item = usize> + use<> {
        let (count, preferred) = (self.states.len(), self.preferred);
        (preferred..count).chain(0..preferred.min(count))
    }

    /// The index of the second path, or of the first one.
    pub(super) fn index_of(&self, second: bool) -> Option<usize> {
        self.states.iter().position(|path| path.second == second)
    }

    /// The index of the path with this connection ID on what we receive.
    #[inline]
    pub(super) fn find(&self, local: ConnectionId) -> Option<usize> {
        self.states.iter().position(|path| path.local == local)
    }

    /// Whether there is a second path, or a first one.
    pub(super) fn has(&self, second: bool) -> bool {
        self.index_of(second).is_some()
    }

    /// Measures of each, the preferred one in front.
    pub(super) fn statistics(&self) -> impl Iterator<Item = PathStatistics> {
        self.in_turn().map(|on| self.states[on].statistics(self.carries(on)))
    }

    /// Whether new messages may go over the path.
    #[inline]
    pub(super) fn carries(&self, on: usize) -> bool {
        let path = &self.states[on];
        match self.other(on) {
            None => true,
            Some(other) if path.both => path.is_well() || !other.is_well(),
            Some(_) => path.second == self.on_second,
        }
    }

    /// Updates the health of each; `true` if one was well and is not any more.
    pub(super) fn examine(&mut self, now: Time) -> bool {
        self.states.iter_mut().fold(false, |worse, path| path.examine(now) | worse)
    }

    /// Finds out which of two paths is preferred for messages, by their health. Gives the index of the one that messages have
    /// left.
    pub(super) fn choose(&mut self, now: Time) -> Option<usize> {
        let (first, second) = self.index_of(false).zip(self.index_of(true))?;
        if self.states[first].both {
            let key = |on: &usize| {
                let path = &self.states[*on];
                (!path.is_well(), path.rtt(), path.second)
            };
            self.preferred = if key(&first) < key(&second) { first } else { second };
            return None;
        }
        let (one, two) = (&self.states[first], &self.states[second]);
        let on_second = if self.on_second {
            let first_is_back = !one.is_silent() && one.well_since + RECOVERED_AFTER <= now;
            !(first_is_back || two.is_silent() && !one.is_silent())
        } else {
            one.is_silent() && !two.is_silent()
        };
        let (chosen, left) = if on_second { (second, first) } else { (first, second) };
        self.preferred = chosen;
        let has_changed = on_second != self.on_second;
        self.on_second = on_second;
        has_changed.then_some(left)
    }

    /// When [`Paths::choose`] has something to do though nothing came.
    pub(super) fn next_choice(&self) -> Time {
        let [path, other] = &self.states[..] else { return Time::NEVER };
        let health = path.next_health_timeout().min(other.next_health_timeout());
        let first = if path.second { other } else { path };
        let goes_back = !path.both && self.on_second && !first.is_silent();
        if goes_back { health.min(first.well_since + RECOVERED_AFTER) } else { health }
    }

    /// Their order for timeouts: first the one that carries messages. By what they are: a path that is dropped moves the other
    /// one's index.
    pub(super) fn carrying_first(&self) -> [bool; 2] {
        [self.on_second, !self.on_second]
    }

    /// Has `path` be the only one.
    pub(super) fn start(&mut self, path: PathState) {
        (self.preferred, self.on_second) = (0, path.second);
        self.states = vec![path];
    }

    /// A further one; its index is the last.
    pub(super) fn add(&mut self, path: PathState) {
        self.states.push(path);
    }

    /// Removes one.
    pub(super) fn remove(&mut self, on: usize) -> PathState {
        let path = self.states.remove(on);
        self.preferred = 0;
        self.dropped.push(path.local);
        path
    }

    /// One of two is gone: has the one that is left carry messages. Returns whether it did not before.
    pub(super) fn carry_on(&mut self) -> bool {
        let Some(left) = self.main().map(|path| path.second) else { return false };
        std::mem::replace(&mut self.on_second, left) != left
    }

    /// Takes all of them out, for a farewell on them.
    pub(super) fn take(&mut self) -> Vec<PathState> {
        self.preferred = 0;
        std::mem::take(&mut self.states)
    }

    /// Removes all of them.
    pub(super) fn drop_all(&mut self) {
        self.dropped.extend(self.states.drain(..).map(|path| path.local));
        self.preferred = 0;
    }

    /// IDs of paths that are gone since they were last asked for.
    pub(super) fn take_dropped(&mut self) -> Vec<ConnectionId> {
        std::mem::take(&mut self.dropped)
    }

    /// Has CLOSE sent on all of them.
    pub(super) fn close_all(&mut self) {
        self.states.iter_mut().for_each(|path| path.close_due = true);
    }

    pub(super) fn is_close_due(&self) -> bool {
        self.states.iter().any(|path| path.close_due)
    }

    /// The largest datagram that leaves, bytes. What goes over two paths has to fit into either's.
    #[inline]
    pub(super) fn datagram(&self, on: usize) -> usize {
        let path = &self.states[on];
        match self.other(on) {
            Some(other) if path.both => path.datagram.min(other.datagram),
            _ => path.datagram,
        }
    }

    /// A part was written into a packet of the path: where both carry everything, the other path sends a duplicate. Returns
    /// what the packet is remembered to contain.
    #[inline]
    pub(super) fn handle_written(&mut self, on: usize, channel: u8, part: Written) -> Content {
        match &mut self.states[..] {
            // Parity is for what one path loses: it need not be doubled.
            paths @ [_, _] if paths[on].both && !part.parity => {
                let other = &mut paths[beside(on)];
                other.duplicates.push_back((channel, part));
                count(&mut other.duplicate_bytes, part.duplicate_cost());
                Content::Duplicate { channel, part }
            }
            _ => Content::Data { channel, part },
        }
    }
}

impl PathState {
    /// Takes out the duplicates that have waited for too long: they count as lost there.
    pub(super) fn take_late_duplicates(&mut self) -> Vec<Content> {
        let mut late = Vec::new();
        if self.duplicate_bytes <= MIN_DUPLICATE_BYTES {
            return late;
        }
        let limit =
            MIN_DUPLICATE_BYTES.max(rounded_down(self.capacity.bandwidth().bytes_in(DUPLICATE_DELAY)));
        while self.duplicate_bytes > limit
            && let Some((channel, part)) = self.duplicates.pop_front()
        {
            self.duplicate_bytes = self.duplicate_bytes.saturating_sub(part.duplicate_cost());
            late.push(Content::Duplicate { channel, part });
        }
        late
    }
}
