//! The paths of a link: one to four, each of which may lead over another network. Keys, packet numbers, losses, rate and
//! datagram size are each path's ([`PathState`]); channels are the link's.
//!
//! What handles one path is told its index, which is good until a path comes or goes.

use crate::counter::count;
use glassline_media::Time;
use std::ops::{Index, IndexMut};
use std::time::Duration;

use super::crowd::Crowd;
use super::path::PathState;
use super::rounded_down;
use super::statistics::PathStatistics;
use crate::link::channel::send::Written;
use crate::link::content::Content;
use crate::link::wire::packet::ConnectionId;
use crate::link::{Bonding, MAX_PATHS};

/// How often each of several paths is probed.
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
    /// Where only one of two paths carries messages: which.
    carrying: u8,
    /// When their health was looked at last.
    examined_at: Time,
    /// IDs of paths that are gone.
    dropped: Vec<ConnectionId>,
    /// Whether copies leave in time.
    pub(super) crowd: Crowd,
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

/// Whether a part goes over a second path under [`Bonding::Sum`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Twice {
    /// Over one alone.
    No,
    /// Ahead of all that waits there: it is small.
    AtOnce,
    /// Once nothing else waits there.
    Behind,
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

    /// Whether there are several.
    #[inline]
    pub(super) fn are_many(&self) -> bool {
        self.states.len() > 1
    }

    /// The index of the path that is preferred for messages.
    #[inline]
    pub(super) fn preferred(&self) -> usize {
        self.preferred
    }

    /// When their health was looked at last.
    pub(super) fn examined_at(&self) -> Time {
        self.examined_at
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

    /// The path beside `on`, where there are two.
    #[inline]
    pub(super) fn other(&self, on: usize) -> Option<&PathState> {
        if self.are_many() { self.states.get(beside(on)) } else { None }
    }

    /// Whether one of the paths beside `on` answers in time; `None` where there is none.
    pub(super) fn others_are_well(&self, on: usize) -> Option<bool> {
        let others = self.states.iter().enumerate().filter(|(other, _)| *other != on);
        self.are_many().then(|| others.into_iter().any(|(_, path)| path.is_well()))
    }

    /// All of them by their indices, the preferred one in front.
    pub(super) fn in_turn(&self) -> impl Iterator<Item = usize> + use<> {
        let (count, preferred) = (self.states.len(), self.preferred);
        (preferred..count).chain(0..preferred.min(count))
    }

    /// The index of the path of this number.
    pub(super) fn index_of(&self, number: u8) -> Option<usize> {
        self.states.iter().position(|path| path.number == number)
    }

    /// The index of the path with this connection ID on what we receive.
    #[inline]
    pub(super) fn find(&self, local: ConnectionId) -> Option<usize> {
        self.states.iter().position(|path| path.local == local)
    }

    /// Whether there is a path of this number.
    pub(super) fn has(&self, number: u8) -> bool {
        self.index_of(number).is_some()
    }

    /// Measures of each, the preferred one in front.
    pub(super) fn statistics(&self) -> impl Iterator<Item = PathStatistics> {
        self.in_turn().map(|on| self.states[on].statistics(self.carries(on), self.time_behind(on)))
    }

    /// Whether new messages may go over the path.
    #[inline]
    pub(super) fn carries(&self, on: usize) -> bool {
        let path = &self.states[on];
        match (self.other(on), path.bonding) {
            (None, _) => true,
            (Some(other), Bonding::Both) => path.is_well() || !other.is_well(),
            (Some(_), Bonding::Failover) => path.number == self.carrying,
            (Some(_), Bonding::Sum) => self.carries_share(on),
        }
    }

    /// Updates the health of each. Gives those that were well and are not any more: a bit for each, by its index.
    pub(super) fn examine(&mut self, now: Time) -> u8 {
        self.examined_at = now;
        let paths = self.states.iter_mut().enumerate();
        paths.fold(0, |worse, (on, path)| worse | u8::from(path.examine(now)) << on)
    }

    /// Finds out which path is preferred for messages, by their health. Gives the index of the one of two that messages have left.
    pub(super) fn choose(&mut self, now: Time) -> Option<usize> {
        if self.states.first()?.bonding != Bonding::Failover {
            let quickest = (0..self.count()).min_by_key(|on| {
                let path = &self.states[*on];
                (!path.is_well(), path.spare.is_some(), path.rtt(), path.number)
            });
            self.preferred = quickest.unwrap_or(0);
            return None;
        }
        let (first, second) = self.index_of(0).zip(self.index_of(1))?;
        let (one, two) = (&self.states[first], &self.states[second]);
        let on_second = if self.carrying == 1 {
            let first_is_back = !one.is_silent() && one.well_since + RECOVERED_AFTER <= now;
            !(first_is_back || two.is_silent() && !one.is_silent())
        } else {
            one.is_silent() && !two.is_silent()
        };
        let (chosen, left) = if on_second { (second, first) } else { (first, second) };
        self.preferred = chosen;
        let before = std::mem::replace(&mut self.carrying, u8::from(on_second));
        (before != self.carrying).then_some(left)
    }

    /// When [`Paths::choose`] has something to do though nothing came.
    pub(super) fn next_choice(&self) -> Time {
        if !self.are_many() {
            return Time::NEVER;
        }
        let health = self.states.iter().map(PathState::next_health_timeout).min().unwrap_or(Time::NEVER);
        let first = self.states.iter().find(|path| path.number == 0);
        let first = first.filter(|path| path.bonding == Bonding::Failover && self.carrying != 0);
        let back = first.filter(|path| !path.is_silent()).map(|path| path.well_since + RECOVERED_AFTER);
        back.map_or(health, |back| health.min(back))
    }

    /// Their numbers in the order for timeouts: first the one that carries messages. A path that is dropped moves the others'
    /// indices.
    pub(super) fn carrying_first(&self) -> impl Iterator<Item = u8> + use<> {
        let carrying = self.carrying;
        let numbers = (0..MAX_PATHS).filter_map(|number| u8::try_from(number).ok());
        std::iter::once(carrying).chain(numbers.filter(move |number| *number != carrying))
    }

    /// Has `path` be the only one.
    pub(super) fn start(&mut self, path: PathState) {
        (self.preferred, self.carrying) = (0, path.number);
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

    /// One is gone: has the one that is left carry messages. Returns whether it did not before.
    pub(super) fn carry_on(&mut self) -> bool {
        let Some((left, bonding)) = self.main().map(|path| (path.number, path.bonding)) else { return false };
        std::mem::replace(&mut self.carrying, left) != left && bonding != Bonding::Sum
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

    /// The largest datagram that leaves, bytes. What goes over several paths has to fit into each one's.
    #[inline]
    pub(super) fn datagram(&self, on: usize) -> usize {
        let path = &self.states[on];
        if self.are_many() && path.bonding != Bonding::Failover {
            return self.states.iter().map(|path| path.datagram).min().unwrap_or(path.datagram);
        }
        path.datagram
    }

    /// The path that carries copies of what leaves by `on`, under [`Bonding::Sum`].
    pub(super) fn second(&self, on: usize) -> Option<usize> {
        let others = (0..self.count()).filter(|other| *other != on && self.carries(*other));
        others.min_by_key(|other| self.states[*other].rtt())
    }

    /// A part was written into a packet of the path: where two carry it, another path sends a duplicate. Returns what the packet is
    /// remembered to contain.
    #[inline]
    pub(super) fn handle_written(&mut self, on: usize, channel: u8, part: Written, twice: Twice) -> Content {
        let other = match self.states[on].bonding {
            // Parity is for what one path loses: it need not be doubled.
            _ if part.parity || !self.are_many() => None,
            Bonding::Failover => None,
            Bonding::Both => Some(beside(on)),
            Bonding::Sum if twice == Twice::No => None,
            Bonding::Sum => self.second(on),
        };
        let Some(other) = other.and_then(|other| self.states.get_mut(other)) else {
            return Content::Data { channel, part };
        };
        if twice == Twice::AtOnce && other.bonding == Bonding::Sum {
            other.duplicates.push_front((channel, part));
            other.urgent_duplicates = other.urgent_duplicates.saturating_add(1);
        } else {
            other.duplicates.push_back((channel, part));
        }
        count(&mut other.duplicate_bytes, part.duplicate_cost());
        Content::Duplicate { channel, part }
    }
}

impl PathState {
    /// Takes out the duplicate in front.
    pub(super) fn pop_duplicate(&mut self) -> Option<(u8, Written)> {
        let (channel, part) = self.duplicates.pop_front()?;
        self.urgent_duplicates = self.urgent_duplicates.saturating_sub(1);
        self.duplicate_bytes = self.duplicate_bytes.saturating_sub(part.duplicate_cost());
        Some((channel, part))
    }

    /// Takes out the shard of parity in front.
    pub(super) fn pop_parity(&mut self) {
        if let Some((_, part)) = self.parity.pop_front() {
            self.parity_bytes = self.parity_bytes.saturating_sub(part.duplicate_cost());
        }
    }

    /// Takes out the one that has waited for longest: those that are urgent stand before it, the newest in front.
    fn pop_oldest_duplicate(&mut self) -> Option<(u8, Written)> {
        let Some((channel, part)) = self.duplicates.remove(self.urgent_duplicates) else {
            return self.pop_duplicate();
        };
        self.duplicate_bytes = self.duplicate_bytes.saturating_sub(part.duplicate_cost());
        Some((channel, part))
    }

    /// Takes out the duplicates that have waited for too long: they count as lost there.
    pub(super) fn take_late_duplicates(&mut self) -> Vec<Content> {
        let mut late = Vec::new();
        if self.duplicate_bytes <= MIN_DUPLICATE_BYTES {
            return late;
        }
        let limit =
            MIN_DUPLICATE_BYTES.max(rounded_down(self.capacity.bandwidth().bytes_in(DUPLICATE_DELAY)));
        while self.duplicate_bytes > limit
            && let Some((channel, part)) = self.pop_oldest_duplicate()
        {
            late.push(Content::Duplicate { channel, part });
        }
        late
    }
}
