//! One link over two paths: each is a leg with a session of its own, so keys, numbers, losses, rate and datagram size
//! are each path's; channels are the link's.
//!
//! Outside of calls `session` is the leg that goes first, `other` the one behind. What handles one leg brings it into
//! `session`, and [`Link::choose`] puts the two in order again.

use glassline_media::Time;
use std::collections::BTreeMap;
use std::time::Duration;

use super::Link;
use super::session::{Agreed, Session};
use crate::link::channel::send::Written;
use crate::link::recovery::{Content, Sample};
use crate::link::wire::packet::ConnectionId;
use crate::link::{Event, Path};

/// How often a path is asked whether it is there, where there are two.
pub(super) const PATH_PROBE: Duration = Duration::from_millis(200);
/// A path is silent when it has not answered for so much longer than an answer may take.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long the first path has to have answered before it carries messages again.
const WELL: Duration = Duration::from_secs(2);
/// Parts that wait to be repeated on a path are no more than it carries in this time, and [`LEAST_TWINS`].
const TWIN_DELAY: f64 = 0.05;
const LEAST_TWINS: u64 = 12_000;
/// Parts remembered of which one path has lost its twin.
const MAX_HALVES: usize = 4096;

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
    /// What the path carries as far as is known, bytes a second.
    pub bandwidth_bytes: u64,
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

impl Session {
    /// Whether it does not answer.
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
        (late, late + PATIENCE)
    }

    /// Brings its health up to date; `true` if it was well and is not any more.
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
        let legs = [(&self.session, &self.other), (&self.other, &self.session)];
        legs.into_iter().filter_map(|(leg, rival)| {
            let session = leg.as_deref()?;
            Some(PathStatistics {
                path: session.path,
                second: session.second,
                carries: self.carries(session, rival.as_deref()),
                silent: session.is_silent(),
                rtt: session.rtt(),
                loss: session.loss,
                bandwidth_bytes: session.capacity.bandwidth(),
                datagram_bytes: session.mtu.size(),
            })
        })
    }

    /// Whether new messages may go over the leg of `session` while there is also `rival`.
    pub(super) fn carries(&self, session: &Session, rival: Option<&Session>) -> bool {
        match rival {
            None => true,
            Some(rival) if session.both => session.is_well() || !rival.is_well(),
            Some(_) => session.second == self.on_second,
        }
    }

    /// Whether new messages may go over the leg at hand.
    pub(super) fn has_carrier(&self) -> bool {
        let session = self.session.as_deref();
        session.is_some_and(|session| self.carries(session, self.other.as_deref()))
    }

    /// Brings a leg into `session`; `false` if there is no such.
    pub(super) fn bring(&mut self, second: bool) -> bool {
        let is = |leg: &Option<Box<Session>>| leg.as_ref().is_some_and(|session| session.second == second);
        if is(&self.session) {
            return true;
        }
        let there = is(&self.other);
        if there {
            std::mem::swap(&mut self.session, &mut self.other);
        }
        there
    }

    /// As [`Link::bring`], by the ID that the leg receives under.
    pub(super) fn bring_local(&mut self, local: ConnectionId) {
        if self.other.as_ref().is_some_and(|session| session.local == local) {
            std::mem::swap(&mut self.session, &mut self.other);
        }
    }

    /// Puts the leg in front that is to carry messages.
    #[inline]
    pub(super) fn choose(&mut self, now: Time) {
        if self.other.is_some() {
            self.choose_leg(now);
        }
    }

    fn choose_leg(&mut self, now: Time) {
        let legs = [&mut self.session, &mut self.other];
        let worse = legs.into_iter().flatten().fold(false, |worse, leg| leg.examine(now) | worse);
        if worse {
            self.release_halves();
        }
        let (Some(session), Some(other)) = (&self.session, &self.other) else { return };
        if session.both {
            let key = |session: &Session| (!session.is_well(), session.rtt(), session.second);
            if key(other) < key(session) {
                std::mem::swap(&mut self.session, &mut self.other);
            }
            return;
        }
        let (first, second) = if session.second { (other, session) } else { (session, other) };
        let on_second = if self.on_second {
            let first_is_back = !first.is_silent() && first.well_since + WELL <= now;
            !(first_is_back || second.is_silent() && !first.is_silent())
        } else {
            first.is_silent() && !second.is_silent()
        };
        if on_second != self.on_second {
            // What the path that is left may have swallowed is not waited for.
            self.bring(self.on_second);
            self.give_up_flying(now);
            self.on_second = on_second;
            self.bring(on_second);
            self.tell_path();
        }
        self.bring(on_second);
    }

    fn tell_path(&mut self) {
        if let Some(session) = &self.session {
            self.events.push_back(Event::PathChanged { path: session.path });
        }
    }

    /// When [`Link::choose`] has something to do though nothing came.
    pub(super) fn choice_timeout(&self) -> Time {
        let (Some(session), Some(other)) = (&self.session, &self.other) else { return Time::NEVER };
        let health = [session, other].map(|leg| match (leg.health, leg.limits()) {
            (Health::Well, (late, _)) => late,
            (Health::Late, (_, silent)) => silent,
            (Health::Silent, _) => Time::NEVER,
        });
        let health = health[0].min(health[1]);
        let first = if session.second { other } else { session };
        let goes_back = !session.both && self.on_second && !first.is_silent();
        if goes_back { health.min(first.well_since + WELL) } else { health }
    }

    /// What one path has lost and another carries that does not answer in time is not waited for.
    fn release_halves(&mut self) {
        let senders = &self.senders;
        let is_reliable = |channel: u8| {
            senders[usize::from(channel)].as_ref().is_some_and(|sender| sender.options.reliable)
        };
        let (lost, kept) =
            std::mem::take(&mut self.halves).into_iter().partition(|half| is_reliable(half.0.0));
        self.halves = kept;
        let lost: BTreeMap<(u8, u64, u32), u32> = lost;
        for ((channel, message, offset), length) in lost {
            let part = Written { message, offset, length, again: false, parity: false };
            self.handle_content_lost(Content::Data { channel, part });
        }
    }

    /// All that is under way on the leg at hand is deemed lost.
    fn give_up_flying(&mut self, now: Time) {
        let Some(session) = &mut self.session else { return };
        session.recovery.give_up_older(now, Duration::ZERO);
        self.settle(now, &Sample::default(), None);
    }

    /// Whether there is a second leg, or a first one.
    pub(crate) fn has_leg(&self, second: bool) -> bool {
        [&self.session, &self.other].into_iter().flatten().any(|session| session.second == second)
    }

    /// What names the state of this link at both ends.
    pub(crate) fn instance(&self) -> Option<[u64; 2]> {
        self.session.as_ref().and_then(|session| session.instance)
    }

    /// A further handshake with the same peer and the same state is done: the link has a second path, or one of its
    /// paths anew.
    pub(crate) fn join(&mut self, now: Time, mut session: Box<Session>) {
        session.last_received = now;
        session.well_since = now;
        let path = session.path;
        let full = self.other.is_some();
        let replaces = self.bring(session.second);
        if replaces && full {
            self.drop_leg(now);
            self.other = Some(session);
        } else {
            self.other = Some(session);
            if replaces {
                self.drop_leg(now);
            }
        }
        self.events.push_back(Event::PathUp { path });
        self.choose(now);
    }

    /// As [`Link::join`], for the end that connected.
    pub(crate) fn join_agreed(&mut self, now: Time, agreed: Agreed) {
        let mut session = Session::new(now, agreed, &self.settings);
        session.probe = true;
        self.join(now, Box::new(session));
    }

    /// The leg at hand is gone; there is another one, which is at hand then.
    pub(super) fn drop_leg(&mut self, now: Time) {
        self.give_up_flying(now);
        let Some(session) = self.session.take() else { return };
        self.session = self.other.take();
        self.dropped.push(session.local);
        for (channel, part) in session.twins {
            self.handle_content_lost(Content::Twin { channel, part });
        }
        self.events.push_back(Event::PathDown { path: session.path });
        if let Some(left) = &self.session
            && left.second != self.on_second
        {
            self.on_second = left.second;
            self.tell_path();
        }
    }

    /// IDs of legs that are gone since they were last asked for.
    pub(crate) fn take_dropped(&mut self) -> Vec<ConnectionId> {
        std::mem::take(&mut self.dropped)
    }

    /// A part was written into a packet of the leg at hand: the other leg is to repeat it. Gives what it is remembered
    /// as.
    #[inline]
    pub(super) fn written(&mut self, channel: u8, part: Written) -> Content {
        let both = self.session.as_ref().is_some_and(|session| session.both);
        match &mut self.other {
            // Parity is for what one path loses: it need not be doubled.
            Some(other) if both && !part.parity => {
                other.twins.push_back((channel, part));
                other.twin_bytes += part.twin_cost();
                Content::Twin { channel, part }
            }
            _ => Content::Data { channel, part },
        }
    }

    /// Parts that wait to be repeated and have waited for too long are as good as lost on this leg.
    pub(super) fn expire_twins(&mut self) {
        let Some(session) = &mut self.session else { return };
        if session.twin_bytes <= LEAST_TWINS {
            return;
        }
        let limit = LEAST_TWINS.max((session.capacity.bandwidth() as f64 * TWIN_DELAY) as u64);
        let mut late = Vec::new();
        while session.twin_bytes > limit
            && let Some((channel, part)) = session.twins.pop_front()
        {
            session.twin_bytes -= part.twin_cost();
            late.push(Content::Twin { channel, part });
        }
        late.into_iter().for_each(|content| self.handle_content_lost(content));
    }

    /// One of the two that carried a part is lost: whether the part is.
    pub(super) fn is_lost_on_both(&mut self, channel: u8, part: Written) -> bool {
        let Some(Some(sender)) = self.senders.get(usize::from(channel)) else { return false };
        if !sender.is_missing(part) {
            return false;
        }
        let rival_is_well = self.other.as_ref().is_some_and(|other| other.is_well());
        let key = (channel, part.message, part.offset);
        if self.halves.remove(&key).is_some()
            || self.other.is_none()
            || sender.options.reliable && !rival_is_well
        {
            return true;
        }
        self.halves_since += 1;
        if self.halves.len() >= MAX_HALVES && self.halves_since >= MAX_HALVES / 4 {
            // All of them are looked at, so not for each part that is lost.
            self.halves_since = 0;
            let senders = &self.senders;
            self.halves.retain(|(channel, message, offset), length| {
                let part = Written {
                    message: *message,
                    offset: *offset,
                    length: *length,
                    again: false,
                    parity: false,
                };
                senders[usize::from(*channel)].as_ref().is_some_and(|sender| sender.is_missing(part))
            });
        }
        self.halves.len() >= MAX_HALVES || {
            self.halves.insert(key, part.length);
            false
        }
    }

    /// The legs that there are.
    pub(super) fn legs(&self) -> impl Iterator<Item = bool> + use<> {
        let legs = [&self.session, &self.other].map(|leg| leg.as_ref().map(|session| session.second));
        legs.into_iter().flatten()
    }

    /// Says good-bye on all paths.
    pub(super) fn close_all(&mut self) {
        for session in [&mut self.session, &mut self.other].into_iter().flatten() {
            session.close_due = true;
        }
    }

    pub(super) fn is_close_due(&self) -> bool {
        [&self.session, &self.other].into_iter().flatten().any(|session| session.close_due)
    }
}
