//! One link over two paths: each has a session of its own, so keys, numbers, losses, rate and datagram size
//! are each path's; channels are the link's.
//!
//! What handles one path is told its index in `Link::paths`, which is good until a path comes or goes. After each call
//! [`Link::choose`] says which one is preferred for messages.

use crate::counter::count;
use glassline_media::Time;
use glassline_media::quantity::ByteRate;
use std::collections::BTreeMap;
use std::time::Duration;

use super::session::{Agreed, Session};
use super::{Link, rounded_down};
use crate::link::channel::send::Written;
use crate::link::content::Content;
use crate::link::recovery::Sample;
use crate::link::wire::packet::ConnectionId;
use crate::link::{Event, Path};

/// How often each of two paths is probed.
pub(super) const PATH_PROBE: Duration = Duration::from_millis(200);
/// A path is silent when it has not answered for so much longer than the probe timeout.
const SILENT_AFTER: Duration = Duration::from_millis(100);
/// How long the first path must have answered before it carries messages again.
const RECOVERED_AFTER: Duration = Duration::from_secs(2);
/// Duplicates that wait on a path are at most what it carries in this time, or [`MIN_DUPLICATE_BYTES`] if that is more.
const DUPLICATE_DELAY: Duration = Duration::from_millis(50);
const MIN_DUPLICATE_BYTES: u64 = 12_000;
/// The most parts remembered as lost on one of two paths.
const MAX_HALF_LOST: usize = 4096;

/// Measures of one path of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathStatistics {
    /// Where it leads.
    pub path: Path,
    /// Whether it is the link's second one.
    pub second: bool,
    /// Whether messages go over it now.
    pub carries: bool,
    /// Whether it does not answer.
    pub silent: bool,
    /// The smoothed round trip.
    pub rtt: Duration,
    /// The share of our packets that are lost, smoothed.
    pub loss: f64,
    /// What the path carries as far as is known.
    pub bandwidth: ByteRate,
    /// The largest datagram that it is known to carry, bytes.
    pub datagram_bytes: u16,
}

/// How a path answers. It is not the probe timer that tells: each packet that leaves puts that off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// In time.
    Well,
    /// Not in time.
    Late,
    /// Not at all.
    Silent,
}

/// The index of the other one of two paths.
fn beside(on: usize) -> usize {
    usize::from(on == 0)
}

impl Session {
    /// Whether the path does not answer.
    fn is_silent(&self) -> bool {
        self.health == Health::Silent
    }

    /// Whether all that was asked has been answered in time so far.
    pub(super) fn is_well(&self) -> bool {
        self.health == Health::Well
    }

    /// When it is late, and when it is silent, if nothing is answered until then.
    fn limits(&self) -> (Time, Time) {
        let Some(since) = self.unanswered_since else { return (Time::NEVER, Time::NEVER) };
        let late = since + self.recovery.probe_time();
        (late, late + SILENT_AFTER)
    }

    /// Updates its health; `true` if it was well and is not any more.
    fn examine(&mut self, now: Time) -> bool {
        let before = self.health;
        let (late, silent) = self.limits();
        self.health = match () {
            () if silent <= now => Health::Silent,
            () if late <= now => Health::Late,
            () => Health::Well,
        };
        if before == Health::Silent && !self.is_silent() {
            self.well_since = now;
        }
        before == Health::Well && !self.is_well()
    }
}

impl Link {
    /// Measures of the link's paths, the one that goes first in front.
    pub fn paths(&self) -> impl Iterator<Item = PathStatistics> {
        self.in_turn().map(|on| {
            let session = &self.paths[on];
            PathStatistics {
                path: session.path,
                second: session.second,
                carries: self.carries(on),
                silent: session.is_silent(),
                rtt: session.rtt(),
                loss: session.loss,
                bandwidth: session.capacity.bandwidth(),
                datagram_bytes: session.mtu.size(),
            }
        })
    }

    /// The path that is preferred for messages, once the link is up.
    pub(super) fn main(&self) -> Option<&Session> {
        self.paths.get(self.preferred)
    }

    /// The link's path beside `on`.
    pub(super) fn other(&self, on: usize) -> Option<&Session> {
        if self.paths.len() > 1 { self.paths.get(beside(on)) } else { None }
    }

    /// All paths by their indices, the preferred one in front.
    pub(super) fn in_turn(&self) -> impl Iterator<Item = usize> + use<> {
        let (count, preferred) = (self.paths.len(), self.preferred);
        (preferred..count).chain(0..preferred.min(count))
    }

    /// The index of the second path, or of the first one.
    pub(super) fn index_of(&self, second: bool) -> Option<usize> {
        self.paths.iter().position(|session| session.second == second)
    }

    /// Whether new messages may go over the path.
    pub(super) fn carries(&self, on: usize) -> bool {
        let session = &self.paths[on];
        match self.other(on) {
            None => true,
            Some(other) if session.both => session.is_well() || !other.is_well(),
            Some(_) => session.second == self.on_second,
        }
    }

    /// Finds out which path is preferred for messages.
    #[inline]
    pub(super) fn choose(&mut self, now: Time) {
        if self.paths.len() > 1 {
            self.choose_path(now);
        }
    }

    fn choose_path(&mut self, now: Time) {
        let worse = self.paths.iter_mut().fold(false, |worse, path| path.examine(now) | worse);
        if worse {
            self.release_half_lost();
        }
        let Some((first, second)) = self.index_of(false).zip(self.index_of(true)) else { return };
        if self.paths[first].both {
            let key = |on: &usize| {
                let session = &self.paths[*on];
                (!session.is_well(), session.rtt(), session.second)
            };
            self.preferred = if key(&first) < key(&second) { first } else { second };
            return;
        }
        let (one, two) = (&self.paths[first], &self.paths[second]);
        let on_second = if self.on_second {
            let first_is_back = !one.is_silent() && one.well_since + RECOVERED_AFTER <= now;
            !(first_is_back || two.is_silent() && !one.is_silent())
        } else {
            one.is_silent() && !two.is_silent()
        };
        let (chosen, left) = if on_second { (second, first) } else { (first, second) };
        self.preferred = chosen;
        if on_second != self.on_second {
            // What was in flight on the abandoned path is sent again at once.
            self.give_up_flying(now, left);
            self.on_second = on_second;
            self.report_path();
        }
    }

    fn report_path(&mut self) {
        if let Some(path) = self.path() {
            self.events.push_back(Event::PathChanged { path });
        }
    }

    /// When [`Link::choose`] has something to do though nothing came.
    pub(super) fn choice_timeout(&self) -> Time {
        let [session, other] = &self.paths[..] else { return Time::NEVER };
        let health = [session, other].map(|path| match (path.health, path.limits()) {
            (Health::Well, (late, _)) => late,
            (Health::Late, (_, silent)) => silent,
            (Health::Silent, _) => Time::NEVER,
        });
        let health = health[0].min(health[1]);
        let first = if session.second { other } else { session };
        let goes_back = !session.both && self.on_second && !first.is_silent();
        if goes_back { health.min(first.well_since + RECOVERED_AFTER) } else { health }
    }

    /// What one path has lost is sent again if the other path, which carries its duplicate, does not answer in time.
    pub(super) fn release_half_lost(&mut self) {
        let channels = &self.channels;
        let is_reliable =
            |channel: u8| channels.sender(channel).is_some_and(|sender| sender.options.reliable);
        let (lost, kept) =
            std::mem::take(&mut self.half_lost).into_iter().partition(|part| is_reliable(part.0.0));
        self.half_lost = kept;
        let lost: BTreeMap<(u8, u64, u32), u32> = lost;
        for ((channel, message, offset), length) in lost {
            let part = Written { message, offset, length, again: false, parity: false };
            self.channels.handle_lost(Content::Data { channel, part }, &mut self.events);
        }
    }

    /// Deems all that is in flight on the path lost.
    fn give_up_flying(&mut self, now: Time, on: usize) {
        self.paths[on].recovery.give_up_older(now, Duration::ZERO);
        self.settle(now, on, &Sample::default(), None);
    }

    /// Whether there is a second path, or a first one.
    pub(crate) fn has_path(&self, second: bool) -> bool {
        self.index_of(second).is_some()
    }

    /// Whether the second path is the only one, or the first one is.
    pub(crate) fn has_only_path(&self, second: bool) -> bool {
        self.paths.len() == 1 && self.has_path(second)
    }

    /// What names the state of this link at both ends.
    pub(crate) fn instance(&self) -> Option<[u64; 2]> {
        self.main().map_or(self.kept, |session| session.instance)
    }

    /// A further handshake with the same peer and the same state is done: the link has a second path, or one of its
    /// paths anew.
    pub(crate) fn join(&mut self, now: Time, mut session: Session) {
        session.last_received = now;
        session.well_since = now;
        let path = session.path;
        let full = self.paths.len() > 1;
        match self.index_of(session.second) {
            Some(before) if full => {
                self.drop_path(now, before);
                self.paths.push(session);
            }
            Some(before) => {
                self.paths.push(session);
                self.drop_path(now, before);
            }
            None => self.paths.push(session),
        }
        self.events.push_back(Event::PathUp { path });
        self.choose(now);
    }

    /// As [`Link::join`], for the end that connected.
    pub(crate) fn join_agreed(&mut self, now: Time, agreed: Agreed) {
        let mut session = Session::new(now, agreed, &self.settings);
        session.probe = true;
        self.join(now, session);
    }

    /// Removes one of two paths.
    pub(super) fn drop_path(&mut self, now: Time, on: usize) {
        let session = self.remove_path(now, on);
        self.events.push_back(Event::PathDown { path: session.path });
        if let Some(left) = self.main()
            && left.second != self.on_second
        {
            self.on_second = left.second;
            self.report_path();
        }
    }

    /// Removes a path: all that is under way on it is lost there.
    pub(super) fn remove_path(&mut self, now: Time, on: usize) -> Session {
        self.give_up_flying(now, on);
        let mut session = self.paths.remove(on);
        self.preferred = 0;
        self.dropped.push(session.local);
        for (channel, part) in std::mem::take(&mut session.duplicates) {
            self.handle_content_lost(0, Content::Duplicate { channel, part });
        }
        session
    }

    /// IDs of paths that are gone since they were last asked for.
    pub(crate) fn take_dropped(&mut self) -> Vec<ConnectionId> {
        std::mem::take(&mut self.dropped)
    }

    /// A part was written into a packet of the path: where both carry everything, the other path sends a duplicate. Returns
    /// what the packet is remembered to contain.
    #[inline]
    pub(super) fn written(&mut self, on: usize, channel: u8, part: Written) -> Content {
        match &mut self.paths[..] {
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

    /// Duplicates that have waited for too long on the path count as lost there.
    pub(super) fn expire_duplicates(&mut self, on: usize) {
        let session = &mut self.paths[on];
        if session.duplicate_bytes <= MIN_DUPLICATE_BYTES {
            return;
        }
        let limit =
            MIN_DUPLICATE_BYTES.max(rounded_down(session.capacity.bandwidth().bytes_in(DUPLICATE_DELAY)));
        let mut late = Vec::new();
        while session.duplicate_bytes > limit
            && let Some((channel, part)) = session.duplicates.pop_front()
        {
            session.duplicate_bytes = session.duplicate_bytes.saturating_sub(part.duplicate_cost());
            late.push(Content::Duplicate { channel, part });
        }
        late.into_iter().for_each(|content| self.handle_content_lost(on, content));
    }

    /// Notes that a packet with a duplicated part is lost on one path. Returns whether the part is now lost on both.
    pub(super) fn note_lost_on(&mut self, on: usize, channel: u8, part: Written) -> bool {
        let Some(sender) = self.channels.sender(channel) else { return false };
        if !sender.is_missing(part) {
            return false;
        }
        let other = self.other(on).map(Session::is_well);
        let is_reliable = sender.options.reliable;
        let key = (channel, part.message, part.offset);
        if self.half_lost.remove(&key).is_some() || other.is_none() || is_reliable && other == Some(false) {
            return true;
        }
        self.half_lost_since = self.half_lost_since.saturating_add(1);
        if self.half_lost.len() >= MAX_HALF_LOST && self.half_lost_since >= MAX_HALF_LOST / 4 {
            // All of them are looked at, so not for each part that is lost.
            self.half_lost_since = 0;
            let channels = &self.channels;
            self.half_lost.retain(|(channel, message, offset), length| {
                let part = Written {
                    message: *message,
                    offset: *offset,
                    length: *length,
                    again: false,
                    parity: false,
                };
                channels.sender(*channel).is_some_and(|sender| sender.is_missing(part))
            });
        }
        self.half_lost.len() >= MAX_HALF_LOST || {
            self.half_lost.insert(key, part.length);
            false
        }
    }

    /// Has CLOSE sent on all paths.
    pub(super) fn close_all(&mut self) {
        self.paths.iter_mut().for_each(|session| session.close_due = true);
    }

    pub(super) fn is_close_due(&self) -> bool {
        self.paths.iter().any(|session| session.close_due)
    }
}
