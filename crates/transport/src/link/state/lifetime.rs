//! How a link comes up, gets a second path, is suspended, resumed and ended.

use crate::counter::count;
use glassline_media::Time;
use std::time::Duration;

use super::path::PathState;
use super::{Link, Standing};
use crate::link::content::Content;
use crate::link::recovery::Sample;
use crate::link::wire::packet::ConnectionId;
use crate::link::{CloseCode, CloseReason, Event};

impl Link {
    /// The states of its paths.
    pub(crate) fn path_states(&self) -> impl Iterator<Item = &PathState> {
        self.paths.iter()
    }

    /// Whether there is a path of this number.
    pub(crate) fn has_path(&self, number: u8) -> bool {
        self.paths.has(number)
    }

    /// Whether the path of this number is the only one.
    pub(crate) fn has_only_path(&self, number: u8) -> bool {
        self.paths.count() == 1 && self.paths.has(number)
    }

    /// How many paths the peer takes.
    pub(crate) fn peer_paths(&self) -> usize {
        self.paths.main().and_then(|path| path.peer.paths).map_or(0, usize::from)
    }

    /// What names the state of this link at both ends.
    pub(crate) fn instance(&self) -> Option<[u64; 2]> {
        self.paths.main().map_or(self.kept, |path| path.instance)
    }

    /// The boot that the peer's machine has named.
    pub(crate) fn peer_boot(&self) -> Option<u64> {
        self.paths.main().and_then(|path| path.peer.boot)
    }

    /// Whether the link's state waits for a handshake with the same instances.
    pub(crate) fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    /// Until when a link that the peer connected waits for its peer, which is away.
    pub(crate) fn waits_until(&self) -> Option<Time> {
        self.away_until.filter(|_| !self.is_ours)
    }

    /// Whether the application has not ended the link itself.
    pub(crate) fn is_wanted(&self) -> bool {
        self.close.is_none() && !self.unwanted
    }

    /// A handshake is done: the link is up, or up again with a peer that has forgotten everything.
    pub(crate) fn establish(&mut self, now: Time, path: PathState) {
        let again = self.statistics.sessions > 0;
        self.restart();
        self.start(now, path);
        self.close = None;
        self.events.push_back(Event::Connected { again });
    }

    /// A handshake with a peer that has kept its state as we have ours is done.
    pub(crate) fn resume(&mut self, now: Time, mut path: PathState) {
        path.well_since = now;
        self.kept = None;
        self.start(now, path);
        self.events.push_back(Event::Resumed);
    }

    fn start(&mut self, now: Time, mut path: PathState) {
        path.last_received = now;
        self.away_until = None;
        self.paths.start(path);
        count(&mut self.statistics.sessions, 1);
        self.standing = Standing::Up;
    }

    /// A further handshake with the same peer and the same state is done: the link has a further path, or one of its
    /// paths anew.
    pub(crate) fn join(&mut self, now: Time, mut path: PathState) {
        path.last_received = now;
        path.well_since = now;
        // One origin of times for all paths: how long packets are under way can be compared then.
        path.epoch = self.paths.main().map_or(path.epoch, |main| main.epoch);
        let address = path.address;
        let full = self.paths.are_many();
        match self.paths.index_of(path.number) {
            Some(before) if full => {
                self.drop_path(now, before);
                self.paths.add(path);
            }
            Some(before) => {
                self.paths.add(path);
                self.drop_path(now, before);
            }
            None => self.paths.add(path),
        }
        self.events.push_back(Event::PathUp { path: address });
        self.return_from_away();
        self.choose(now);
    }

    /// A packet of the peer has come.
    pub(super) fn return_from_away(&mut self) {
        if self.away_until.take().is_some() {
            self.events.push_back(Event::Resumed);
        }
    }

    /// Nothing has come for [`Settings::idle`](crate::link::Settings::idle) on the only path: it stays as it is for the peer's return,
    /// where that is wanted. Each end does so by itself, and the ways there and back may fail at different moments: an end that
    /// dropped its keys could not take what the other one sends when only its own way was dead.
    pub(super) fn handle_idle(&mut self, now: Time) {
        if self.away_until.is_none() && self.may_resume() {
            self.away_until = Some(now + self.settings.resume);
            self.events.push_back(Event::Suspended { reason: CloseReason::TimedOut });
            return;
        }
        // The listener may keep the link's state for longer.
        if !(self.is_away() && self.is_ours && self.suspend(now, CloseReason::TimedOut)) {
            self.end_timed_out();
        }
    }

    /// When the peer, from which nothing comes, is away, and when it has been for too long.
    pub(super) fn idle_timeout(&self, path: &PathState) -> Time {
        self.away_until.unwrap_or(path.last_received + self.settings.idle)
    }

    /// Whether the link's state is kept where its peer is gone.
    fn may_resume(&self) -> bool {
        let is_tried_again = !self.is_ours || self.settings.reconnect;
        !self.settings.resume.is_zero() && self.is_wanted() && is_tried_again
    }

    /// Finds out which path is preferred for messages.
    #[inline]
    pub(super) fn choose(&mut self, now: Time) {
        if self.paths.are_many() {
            self.choose_path(now);
        }
    }

    fn choose_path(&mut self, now: Time) {
        let worse = self.paths.examine(now);
        if worse != 0 {
            self.release_half_lost();
            self.paths.give_up_on(worse).into_iter().for_each(|on| self.give_up_in_flight(now, on));
        }
        if let Some(left) = self.paths.choose(now) {
            // What was in flight on the abandoned path is sent again at once.
            self.give_up_in_flight(now, left);
            self.report_path();
        }
    }

    fn report_path(&mut self) {
        if let Some(path) = self.path() {
            self.events.push_back(Event::PathChanged { path });
        }
    }

    /// What one path has lost is sent again if the other path, which carries its duplicate, does not answer in time.
    fn release_half_lost(&mut self) {
        for content in self.half_lost.take_reliable(&self.channels) {
            self.channels.handle_lost(content, &mut self.events);
        }
    }

    /// Deems all that is in flight on the path lost.
    fn give_up_in_flight(&mut self, now: Time, on: usize) {
        self.paths[on].recovery.give_up_older(now, Duration::ZERO);
        self.settle(now, on, &Sample::default(), None);
    }

    /// Removes one of several paths.
    pub(super) fn drop_path(&mut self, now: Time, on: usize) {
        let address = self.remove_path(now, on).address;
        self.events.push_back(Event::PathDown { path: address });
        if self.paths.carry_on() {
            self.report_path();
        }
    }

    /// Removes a path: all that is under way on it is lost there.
    fn remove_path(&mut self, now: Time, on: usize) -> PathState {
        self.give_up_in_flight(now, on);
        let mut path = self.paths.remove(on);
        for (channel, part) in std::mem::take(&mut path.duplicates) {
            self.handle_content_lost(0, Content::Duplicate { channel, part });
        }
        path
    }

    /// IDs of paths that are gone since they were last asked for.
    pub(crate) fn take_dropped(&mut self) -> Vec<ConnectionId> {
        self.paths.take_dropped()
    }

    /// The peer does not know the link any more, or has been away for too long: what is under way is given up, and all else is
    /// kept for the next handshake. `false`: nothing can be kept, and the link has to end.
    pub(crate) fn suspend(&mut self, now: Time, reason: CloseReason) -> bool {
        let Some(instance) = self.instance().filter(|_| self.may_resume()) else { return false };
        while self.paths.count() > 0 {
            self.remove_path(now, 0);
        }
        self.release_half_lost();
        self.half_lost.clear();
        self.kept = Some(instance);
        self.standing = Standing::Connecting;
        let is_told = self.away_until.take().is_some() && reason == CloseReason::TimedOut;
        if !is_told {
            self.events.push_back(Event::Suspended { reason });
        }
        true
    }

    /// Asks the peer for a sign, unless it has been asked. Returns whether it answers: `false` once it has been silent for
    /// `timeout`.
    pub(crate) fn challenge(&mut self, now: Time, timeout: Duration) -> bool {
        let Some(heard) = self.paths.iter().map(|path| path.last_received).max() else { return false };
        match self.challenged_at.filter(|at| *at >= heard) {
            Some(at) => at + timeout > now,
            None => {
                self.challenged_at = Some(now);
                self.ping();
                true
            }
        }
    }

    /// Has a packet leave that asks for an answer.
    pub(crate) fn ping(&mut self) {
        if let Some(path) = self.paths.main_mut() {
            path.probe = true;
        }
    }

    /// Takes the paths out, for a farewell on them. The link gets another one.
    pub(crate) fn take_path_states(&mut self) -> Vec<PathState> {
        self.paths.take()
    }

    /// Nothing is sent or comes any more.
    pub(crate) fn drop_paths(&mut self) {
        self.channels.stop_receivers();
        self.paths.drop_all();
    }

    /// The peer has none of the link's state. What waited still waits, what had begun is lost.
    pub(crate) fn restart(&mut self) {
        self.drop_paths();
        (self.kept, self.away_until) = (None, None);
        self.half_lost.clear();
        self.channels.restart(self.settings.window_bytes, &mut self.events);
    }

    /// All links together hold more than the endpoint's budget allows, and this one most: it ends with all that came.
    pub(crate) fn end_for_room(&mut self, now: Time) {
        self.channels.drop_received();
        if !matches!(self.standing, Standing::Closed) {
            self.end(now, CloseCode::NoRoom, "no room for what was sent", CloseReason::NoRoom);
        }
    }

    pub(super) fn end(&mut self, now: Time, code: CloseCode, words: &str, reason: CloseReason) {
        if matches!(self.standing, Standing::Closing { .. } | Standing::Closed) {
            return;
        }
        self.events.push_back(Event::Closed { reason });
        (self.unwanted, self.away_until) = (true, None);
        self.channels.stop_receivers();
        let Some(path) = self.paths.main() else {
            self.standing = Standing::Closed;
            return;
        };
        self.standing = Standing::Closing { until: now + path.recovery.probe_time().saturating_mul(3) };
        self.close = Some((code as u64, words.as_bytes().to_vec()));
        self.paths.close_all();
    }

    /// The peer has broken the rules.
    pub(super) fn violated(&mut self, now: Time, what: &'static str) {
        self.end(now, CloseCode::Violation, what, CloseReason::Violation(what));
    }

    /// The peer has been silent for too long.
    pub(crate) fn end_timed_out(&mut self) {
        self.events.push_back(Event::Closed { reason: CloseReason::TimedOut });
        (self.standing, self.away_until) = (Standing::Closed, None);
    }
}
