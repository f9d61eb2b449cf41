//! How a link's paths together carry what it sends ([`Bonding::Sum`]): which of them a part goes over, and how much leaves in time.
//!
//! Each path that may send takes the next part, unless those by which a packet arrives sooner can carry all that waits before a
//! packet would be there by this one: *earliest completion first* (Lim, Nahum, Towsley and Gibbens, "ECF: An MPTCP Path Scheduler to
//! Manage Heterogeneous Paths", CoNEXT 2017). So a message that a quick path carries alone in time does not wait for a slow one,
//! and a larger one is carried by all, of which the last parts arrive together.
//!
//! How much longer packets are under way on one path than on another is told by the times at which the peer says that they came: all
//! paths of a link count them from one origin. Half the round trips stand for that where those times cannot be true, as of a peer
//! that has an origin for each path.

use glassline_media::Time;
use glassline_media::quantity::ByteRate;
use std::time::Duration;

use super::path::PathState;
use super::paths::Paths;
use super::statistics::LinkStatistics;
use crate::link::{Bonding, MAX_PATHS};

/// Messages follow each other as quickly as this share of the time within which one is to leave.
const INTERVAL_SHARE: f64 = 1.0 / 1.35;
/// What waits beside a new message is no more than this share of what leaves until the next one: a message begins when the one
/// before it has left, and one that has not begun when the next one comes is left out.
const WAITING_SHARE: f64 = 0.9;
/// One that is behind by more than so many times the time within which a message is to leave is not tried: it would have to carry
/// many times what the quick one does to be of use.
const TRIED_BEHIND: f64 = 2.5;
/// A path that is behind by as much as the time within which a message is to leave gets so much less of that time, which makes
/// messages less late: nearly all of its rate is used all the same.
const LATENESS_SHARE: f64 = 0.1;
/// How finely the time is tried within which a message leaves by the slowest path, down to a half of what was asked for.
const TRIES: u32 = 8;
/// How much a new time under way counts beside those before it.
const ONE_WAY_GAIN: f64 = 0.125;

/// How much a message may have that is handed over now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// What the paths let leave in time, less what waits in their queues.
    pub(super) bytes: f64,
    /// The largest datagram.
    pub(super) datagram: usize,
    /// A path is seen to lose packets.
    pub(super) is_lossy: bool,
    /// Several paths share it: a message may wait for a quick one, behind the one before.
    pub(super) is_shared: bool,
}

impl PathState {
    /// The newest acknowledged packet was under way for so long, plus what the clocks are apart.
    pub(super) fn handle_one_way(&mut self, micros: i64) {
        let new = micros as f64;
        self.one_way_us = Some(self.one_way_us.map_or(new, |known| known + ONE_WAY_GAIN * (new - known)));
    }

    /// How long the next packet waits for its time to leave.
    pub(super) fn wait(&self, now: Time) -> f64 {
        self.next_send.since(now).as_secs_f64()
    }

    /// What it is known to carry. Now and then it is sent more, to find out whether it carries that too: what arrives when does
    /// not follow from that.
    pub(super) fn bytes_per_second(&self) -> f64 {
        self.capacity.pacing_rate().min(self.capacity.bandwidth()).bytes_per_second().max(1) as f64
    }

    fn half_round_trip(&self) -> f64 {
        self.rtt().as_secs_f64() / 2.0
    }
}

impl Paths {
    /// Whether messages are shared out among several paths.
    #[inline]
    pub(super) fn are_summed(&self) -> bool {
        self.are_many() && self.iter().any(|path| path.bonding == Bonding::Sum)
    }

    /// Whether what leaves by a path is seen to lose packets: a message leaves by others too.
    pub(super) fn are_lossy(&self, now: Time, on: usize) -> bool {
        if self.are_summed() {
            return (0..self.count()).any(|on| self.carries(on) && now < self[on].lossy_until);
        }
        now < self[on].lossy_until
    }

    /// By how much packets arrive later by each path than by the quickest of those that carry messages, seconds. One may be below zero
    /// that carries none.
    pub(super) fn behind(&self) -> [f64; MAX_PATHS] {
        let mut behind = [0.0; MAX_PATHS];
        // That all packets take some time on their way, and less than a round trip, bounds what the clocks are apart.
        let one_way = |path: &PathState| path.one_way_us.map(|micros| micros / 1e6);
        let latest = self.iter().filter_map(one_way).fold(f64::INFINITY, f64::min);
        let earliest = self.iter().filter_map(|path| Some(one_way(path)? - path.rtt().as_secs_f64()));
        let is_told = self.iter().all(|path| path.one_way_us.is_some())
            && earliest.fold(f64::NEG_INFINITY, f64::max) <= latest;
        for (behind, path) in behind.iter_mut().zip(self.iter()) {
            *behind = if is_told { one_way(path).unwrap_or(0.0) } else { path.half_round_trip() };
        }
        let carrying = (0..self.count()).filter(|on| self.carries(*on));
        let quickest = carrying.map(|on| behind[on]).fold(f64::INFINITY, f64::min);
        if quickest.is_finite() {
            behind.iter_mut().for_each(|behind| *behind -= quickest);
        }
        behind
    }

    /// By how much packets arrive later by a path than by the quickest that carries messages.
    pub(super) fn time_behind(&self, on: usize) -> Duration {
        if self.are_many() { Duration::from_secs_f64(self.behind()[on].max(0.0)) } else { Duration::ZERO }
    }

    /// Whether a path carries messages under [`Bonding::Sum`]: it answers in time, and a spare one is needed.
    pub(super) fn carries_share(&self, on: usize) -> bool {
        let path = &self[on];
        if !path.is_well() {
            return !self.iter().any(PathState::is_well);
        }
        let Some(below) = path.spare else { return true };
        let regular = self.iter().filter(|path| path.spare.is_none() && path.is_well());
        let (count, rate) = regular.fold((0u32, 0u64), |(count, rate), path| {
            let bandwidth = path.capacity.bandwidth().bytes_per_second();
            (count.saturating_add(1), rate.saturating_add(bandwidth))
        });
        count == 0 || rate < below.bytes_per_second()
    }

    /// Whether a path leaves `unsent` bytes to those by which they arrive sooner: they carry all of it before one more packet would be
    /// there by this one.
    pub(super) fn leaves_to_quicker(&self, now: Time, on: usize, unsent: u64) -> bool {
        if !self.are_summed() || self[on].trial.is_on(now) {
            return false;
        }
        let behind = self.behind();
        let begins = |on: usize| self[on].wait(now) + behind[on];
        let path = &self[on];
        let arrives = begins(on) + path.datagram as f64 / path.bytes_per_second();
        let carried = (0..self.count())
            .filter(|other| *other != on && self.carries(*other) && self[*other].has_window())
            // Of two that are equal one has to go.
            .filter(|other| (begins(*other), *other) < (begins(on), on))
            .map(|other| self[other].bytes_per_second() * (arrives - begins(other)).max(0.0))
            .sum::<f64>();
        carried >= unsent as f64
    }

    /// How much a message may have to leave within `delay`, on all paths that carry some of it. It leaves by each so early that
    /// all of it arrives together. `None`: there is no path.
    pub(super) fn room(&self, now: Time, delay: Duration) -> Option<Room> {
        let main = self.main()?;
        let of = |path: &PathState, delay| {
            path.capacity.room(now, delay, path.recovery.in_flight()) * path.freshness(now)
        };
        if !self.are_summed() {
            let (datagram, is_lossy) = (main.datagram, now < main.lossy_until);
            return Some(Room { bytes: of(main, delay), datagram, is_lossy, is_shared: false });
        }
        let behind = self.behind();
        let carrying = || (0..self.count()).filter(|on| self.carries(*on));
        let delay = delay.as_secs_f64();
        let all = self.time_for(delay, &behind);
        let time = |on: usize| if self[on].trial.is_on(now) { delay } else { (all - behind[on]).max(0.0) };
        let each = |on: usize| of(&self[on], Duration::from_secs_f64(time(on))).max(0.0);
        Some(Room {
            bytes: carrying().filter(|on| time(*on) > 0.0).map(each).sum(),
            datagram: self.iter().map(|path| path.datagram).min().unwrap_or(main.datagram),
            is_lossy: self.are_lossy(now, self.preferred()),
            is_shared: true,
        })
    }

    /// Finds out which paths are not used for messages that are to leave within `delay`, and has their trials begin.
    pub(super) fn try_unused(&mut self, now: Time, delay: Duration) {
        if !self.are_summed() {
            return;
        }
        let behind = self.behind();
        let all = self.time_for(delay.as_secs_f64(), &behind);
        for on in 0..self.count() {
            if self.carries(on) && behind[on] <= TRIED_BEHIND * delay.as_secs_f64() {
                let rtt = self[on].rtt();
                self[on].trial.note(now, behind[on] < all, rtt);
            }
        }
    }

    /// Within which time a message has left that is to leave within `delay` seconds, counted on the quickest path: later by what the
    /// slowest of those is behind that it leaves by. That is the slowest with which a message begins before the next one comes.
    fn time_for(&self, delay: f64, behind: &[f64; MAX_PATHS]) -> f64 {
        let interval = INTERVAL_SHARE * delay;
        let carrying = || (0..self.count()).filter(|on| self.carries(*on));
        // What the paths have to carry, less what leaves until the next message and what may wait then.
        let too_much = |all: f64| {
            let of = |on: usize| {
                let time = (all - behind[on]).max(0.0);
                self[on].bytes_per_second() * (time - (1.0 + WAITING_SHARE) * time.min(interval))
            };
            carrying().map(of).sum::<f64>() > 0.0
        };
        let mut slowest_first: Vec<f64> = carrying().map(|on| behind[on]).collect();
        slowest_first.sort_by(|one, other| other.total_cmp(one));
        let tried = slowest_first.into_iter().flat_map(|behind| {
            let most = 1.0 - LATENESS_SHARE * (behind / delay.max(1e-3)).clamp(0.0, 1.0);
            let step = (most - 0.5) / f64::from(TRIES);
            let shares = (0..=TRIES).map(move |number| most - step * f64::from(number));
            shares.map(move |share| behind + delay * share)
        });
        tried.into_iter().find(|all| !too_much(*all)).unwrap_or(delay)
    }

    /// The application has asked how much it may send: no path may be slow to find out.
    pub(super) fn begin_fast(&mut self) {
        let all = self.are_summed();
        let preferred = self.preferred();
        for on in 0..self.count() {
            if all || on == preferred {
                self[on].capacity.begin_fast();
            }
        }
    }

    /// How long nothing that was sent has been answered, on any path.
    pub(super) fn silence(&self, now: Time) -> Duration {
        let main = self.main().map_or(Duration::ZERO, |path| path.silence(now));
        if !self.are_summed() {
            return main;
        }
        self.iter().map(|path| path.silence(now)).min().unwrap_or(main)
    }

    /// Of the paths that have got worse, those that are given up for now: what is in flight there is not waited for.
    pub(super) fn give_up_on(&self, worse: u8) -> Vec<usize> {
        if !self.are_summed() || !self.iter().any(PathState::is_well) {
            return Vec::new();
        }
        (0..self.count()).filter(|on| worse & 1 << on != 0).collect()
    }

    /// Puts what several paths carry together into a link's figures.
    pub(super) fn add_up(&self, statistics: &mut LinkStatistics) {
        if !self.are_summed() {
            return;
        }
        let carrying = || (0..self.count()).filter(|on| self.carries(*on)).map(|on| &self[on]);
        let sum = |of: fn(&PathState) -> u64| carrying().map(of).fold(0, u64::saturating_add);
        let rate = |of| ByteRate::from_bytes_per_second(sum(of));
        statistics.bandwidth = rate(|path| path.capacity.bandwidth().bytes_per_second());
        statistics.pacing_rate = rate(|path| path.capacity.pacing_rate().bytes_per_second());
        statistics.window_bytes = sum(|path| path.capacity.window_bytes());
        statistics.in_flight_bytes =
            self.iter().map(|path| path.recovery.in_flight()).fold(0, u64::saturating_add);
    }
}
