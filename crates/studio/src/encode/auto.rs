//! `--preset auto`: the slowest preset that this machine sustains, found while it runs.
//!
//! ```text
//!            pictures take too long, or are left out: at once, a preset or two faster
//!   preset ◄──────────────────────────────────────────────────────────────────────────
//!          ──────────────────────────────────────────────────────────────────────────►
//!            there has been room for the next slower one for a while: one at a time
//! ```
//! A slower preset that did not hold is tried again after twice the time. One that has held for a while is home: where it was left
//! because something else took the processor it is taken again soon after, and what is slower than it needs a longer calm.

use glassline_codec::h264::x264;
use glassline_media::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// What the preset is called that is found out.
pub const AUTO: &str = "auto";
/// What the encoder is opened with: parameter sets announce its tools, and faster presets leave them unused.
pub(super) const OPENED: &str = "slow";
/// What it begins with, in [`x264::PRESETS`].
const START: usize = 2;
/// The slowest: `veryslow`. `placebo` is no better to look at.
const SLOWEST: usize = 8;
/// About how much time presets take, relative to each other: an estimate. Where it is wrong a step comes late, or is taken back.
const COSTS: [f64; SLOWEST + 1] = [1.0, 1.4, 1.9, 2.6, 3.3, 3.9, 5.6, 9.5, 15.0];
/// A step gets this long to help before the next.
const STEP_INTERVAL: Duration = Duration::from_millis(300);
/// There must have been room for so long before a slower preset.
const CALM: Duration = Duration::from_secs(3);
/// The same behind steps that did not hold, at most.
const CALM_MAX: Duration = Duration::from_secs(300);
/// A step that is taken back within this time did not hold at all.
const TRIAL: Duration = Duration::from_secs(5);
/// A preset that was kept for so long is home.
const SETTLED: Duration = Duration::from_secs(8);
/// There must have been room for so long before what is slower than home.
const LONG_CALM: Duration = Duration::from_secs(20);
/// A preset that was kept for so long is trusted as at the beginning, however often it did not hold before.
const TRUSTED: Duration = Duration::from_secs(60);
/// One that has held before, was taken again, and is left sooner than this is tried after twice the time.
const RELAPSE: Duration = Duration::from_secs(30);
/// Where no picture came for so long, what was before says nothing of what holds.
const GAP: Duration = Duration::from_secs(5);
/// The largest share of a picture's time that the next slower preset may be expected to take.
const ROOM: f64 = 0.65;
/// The same of one that is known to hold.
const ROOM_HOME: f64 = 0.78;
/// A mean share of so many pictures above [`FULL`] is too much.
const RECENT: usize = 5;
const FULL: f64 = 0.9;

/// A step to a slower preset.
#[derive(Clone, Copy, Debug)]
struct Trial {
    begun: Time,
    /// To one that has held before.
    is_return: bool,
}

/// Chooses a preset by how long pictures take and what was left out.
#[derive(Clone, Debug)]
pub(super) struct Auto {
    at: usize,
    dropped: u64,
    stepped: Time,
    /// When it last stepped to a slower preset, and none since then to a faster one.
    trial: Option<Trial>,
    /// The slowest preset that has held for a while, once there was one.
    home: Option<usize>,
    /// How often in a row a return to it did not hold.
    failed_returns: u32,
    polled: Time,
    /// For each preset, how long there must have been room before it is tried.
    patience: [Duration; SLOWEST + 1],
    /// Shares of pictures' times, the newest last.
    loads: VecDeque<(Time, f64)>,
}

impl Auto {
    /// Begins at `veryfast`.
    pub(super) fn new(now: Time) -> Auto {
        let patience = [CALM; SLOWEST + 1];
        Auto {
            at: START,
            dropped: 0,
            stepped: now,
            trial: None,
            home: None,
            failed_returns: 0,
            polled: now,
            patience,
            loads: VecDeque::new(),
        }
    }

    /// The preset that holds.
    pub(super) fn preset(&self) -> &'static str {
        x264::PRESETS[self.at]
    }

    /// Asked after each picture: `dropped` pictures so far, `load` the share of a picture's time that this one took.
    /// Returns the preset to change to.
    pub(super) fn poll(&mut self, dropped: u64, load: f64, now: Time) -> Option<&'static str> {
        let drops = dropped > std::mem::replace(&mut self.dropped, dropped);
        if now.since(std::mem::replace(&mut self.polled, now)) >= GAP {
            (self.stepped, self.trial) = (now, None);
            self.loads.clear();
        }
        self.loads.push_back((now, load));
        while self.loads.len() > RECENT
            && self.loads.front().is_some_and(|(at, _)| now.since(*at) > LONG_CALM)
        {
            self.loads.pop_front();
        }
        let since = now.since(self.stepped);
        if since >= SETTLED {
            self.home = self.home.max(Some(self.at));
        }
        if since >= TRUSTED {
            self.patience[self.at] = CALM;
            self.failed_returns = 0;
        }
        if (drops || self.is_full()) && since >= STEP_INTERVAL && self.at > 0 {
            return Some(self.step_down(load, now));
        }
        let next = self.at + 1;
        let patience = self.patience.get(next).copied().unwrap_or(Duration::MAX);
        // How long there must have been room, and of what time that is judged.
        let (patience, of, room) = match self.home {
            Some(home) if next <= home => (patience, CALM, ROOM_HOME),
            Some(_) => (patience.max(LONG_CALM), LONG_CALM, ROOM),
            None => (patience, CALM, ROOM),
        };
        (next <= SLOWEST && since >= patience && self.has_room(next, of, room, now)).then(|| {
            let is_return = self.home.is_some_and(|home| next <= home);
            self.trial = Some(Trial { begun: now, is_return });
            self.step(next, now)
        })
    }

    fn is_full(&self) -> bool {
        let recent = self.loads.iter().rev().take(RECENT);
        self.loads.len() >= RECENT && recent.map(|(_, load)| load).sum::<f64>() / RECENT as f64 > FULL
    }

    /// Whether nine of ten pictures of the last time `of` would have taken no more than the share `room` with preset `next`.
    fn has_room(&self, next: usize, of: Duration, room: f64, now: Time) -> bool {
        let expected = |load: f64| load * COSTS[next] / COSTS[self.at];
        let recent = self.loads.iter().rev().take_while(|(at, _)| now.since(*at) <= of);
        let (mut all, mut too_long) = (0, 0);
        for (_, load) in recent {
            all += 1;
            too_long += usize::from(expected(*load) > room);
        }
        too_long * 10 <= all
    }

    fn step_down(&mut self, load: f64, now: Time) -> &'static str {
        let trial = self.trial.take();
        let held = trial.map(|trial| now.since(trial.begun));
        let is_relapse = |trial: Trial| trial.is_return && now.since(trial.begun) < RELAPSE;
        if held.is_some_and(|held| held < TRIAL) || trial.is_some_and(is_relapse) {
            let patience = &mut self.patience[self.at];
            *patience = (*patience * 2).min(CALM_MAX);
        }
        if held.is_some_and(|held| held < TRIAL) && self.home == Some(self.at) {
            // Once it may be that something else has come back just then.
            self.failed_returns += 1;
            if self.failed_returns > 1 {
                (self.home, self.failed_returns) = (Some(self.at.saturating_sub(1)), 0);
            }
        }
        let steps = if load > 1.5 { 2 } else { 1 };
        self.step(self.at.saturating_sub(steps), now)
    }

    fn step(&mut self, to: usize, now: Time) -> &'static str {
        self.at = to;
        self.stepped = now;
        // What pictures took with another preset says nothing of this one.
        self.loads.clear();
        self.preset()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A machine on which `ultrafast` takes `share` of a picture's time, 25 pictures a second; every picture that takes longer than
    /// its time leaves out what does not fit into a queue of two.
    struct Machine {
        auto: Auto,
        now: Time,
        dropped: u64,
        behind: f64,
    }

    impl Machine {
        fn new() -> Machine {
            let now = Time::from_millis(100_000);
            Machine { auto: Auto::new(now), now, dropped: 0, behind: 0.0 }
        }

        /// Runs for so many seconds; returns the pictures left out in each of them.
        fn run(&mut self, seconds: usize, share: f64) -> Vec<u64> {
            (0..seconds)
                .map(|_| {
                    let before = self.dropped;
                    (0..25).for_each(|_| self.picture(share));
                    self.dropped - before
                })
                .collect()
        }

        fn picture(&mut self, share: f64) {
            self.now += Duration::from_millis(40);
            let load = share * COSTS[self.auto.at];
            self.behind = (self.behind + load - 1.0).max(0.0);
            if self.behind > 2.0 {
                self.behind -= 1.0;
                self.dropped += 1;
            }
            self.auto.poll(self.dropped, load, self.now);
        }
    }

    #[test]
    fn the_slowest_preset_with_room_is_found_and_kept() {
        for (share, preset) in [
            (0.12, "medium"),
            (0.2, "faster"),
            (0.01, "veryslow"),
            (0.3, "veryfast"),
            (0.6, "superfast"),
            (0.7, "ultrafast"),
        ] {
            let mut machine = Machine::new();
            machine.run(60, share);
            assert_eq!(machine.auto.preset(), preset, "{share}");
            let left_out = machine.run(120, share);
            assert_eq!((machine.auto.preset(), left_out.iter().sum::<u64>()), (preset, 0), "{share}");
        }
    }

    #[test]
    fn what_takes_the_processor_for_ten_seconds_costs_no_picture_after_two_and_no_preset_for_long() {
        let mut machine = Machine::new();
        machine.run(40, 0.1);
        let before = machine.auto.preset();
        let left_out = machine.run(10, 0.25);
        assert_eq!(left_out[2..].iter().sum::<u64>(), 0, "{left_out:?}");
        assert_ne!(machine.auto.preset(), before);
        let left_out = machine.run(40, 0.1);
        assert_eq!((machine.auto.preset(), left_out.iter().sum::<u64>()), (before, 0));
    }

    /// Loads that vary by a third, as those of a shared machine do.
    #[test]
    fn after_what_took_the_processor_it_is_the_same_preset_as_before_however_loads_vary() {
        let mut same = 0;
        for seed in 0..40u64 {
            let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
            let mut vary = move || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                1.0 + (state % 1000) as f64 / 3000.0
            };
            let mut machine = Machine::new();
            let mut run = |machine: &mut Machine, seconds: usize, share: f64| {
                (0..seconds * 25).for_each(|_| machine.picture(share * vary()));
            };
            // Between what two presets need.
            let share = 0.10 + seed as f64 / 400.0;
            run(&mut machine, 25, share);
            let before = machine.auto.preset();
            run(&mut machine, 10, share * 2.0);
            run(&mut machine, 25, share);
            same += usize::from(machine.auto.preset() == before);
        }
        assert!(same >= 38, "{same} of 40");
    }

    #[test]
    fn a_disturbance_at_a_bad_moment_costs_no_preset_for_good() {
        let mut machine = Machine::new();
        machine.run(40, 0.16);
        let before = machine.auto.preset();
        // It holds, but would not be begun with now.
        machine.run(60, 0.18);
        assert_eq!(machine.auto.preset(), before);
        machine.run(10, 0.4);
        // Back for a moment, and then something else has the processor again.
        for _ in 0..40 {
            machine.run(1, 0.18);
            if machine.auto.preset() == before {
                break;
            }
        }
        assert_eq!(machine.auto.preset(), before);
        machine.run(3, 0.5);
        assert_ne!(machine.auto.preset(), before);
        machine.run(60, 0.18);
        assert_eq!(machine.auto.preset(), before);
    }

    #[test]
    fn a_preset_that_holds_for_seconds_alone_is_tried_ever_more_seldom() {
        let mut machine = Machine::new();
        machine.run(60, 0.04);
        let (mut tries, mut at) = (0, machine.auto.at);
        // Ten seconds with room for what was home, and two without.
        for _ in 0..50 {
            for (seconds, share) in [(10, 0.05), (2, 0.2)] {
                for _ in 0..seconds {
                    machine.run(1, share);
                    tries += u32::from(machine.auto.at > at);
                    at = machine.auto.at;
                }
            }
        }
        assert!(tries < 60, "{tries} steps in ten minutes");
    }

    #[test]
    fn a_source_that_stood_still_has_shown_nothing() {
        let mut machine = Machine::new();
        machine.run(6, 0.02);
        let before = machine.auto.clone();
        machine.now += Duration::from_secs(60);
        machine.run(1, 0.02);
        assert_eq!((machine.auto.at, machine.auto.home), (before.at, before.home));
    }

    #[test]
    fn a_slower_preset_that_does_not_hold_is_tried_after_twice_the_time() {
        let mut auto = Auto::new(Time::ZERO);
        let mut tries = Vec::new();
        // All looks well until it is slower than `veryfast`.
        for number in 1..=25 * 240 {
            let now = Time::from_millis(40 * number);
            let load = if auto.at > START { 1.2 } else { 0.1 };
            let before = auto.at;
            if auto.poll(0, load, now).is_some() && auto.at > before {
                tries.push(now.as_nanos() / 1_000_000_000);
            }
        }
        let waits: Vec<u64> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
        // At first the calm that is needed above home is the longer wait.
        assert!(waits.is_sorted() && waits.last().is_some_and(|last| *last >= 90), "{waits:?}");
    }

    proptest! {
        #[test]
        fn any_loads_and_drops_lead_to_a_preset(
            steps in proptest::collection::vec((0.0f64..5.0, any::<bool>(), 0u64..2_000), 0..300),
        ) {
            let mut auto = Auto::new(Time::ZERO);
            let (mut now, mut dropped) = (Time::ZERO, 0);
            for (load, drops, millis) in steps {
                now += Duration::from_millis(millis);
                dropped += u64::from(drops);
                let stepped = auto.poll(dropped, load, now);
                prop_assert!(auto.at <= SLOWEST);
                prop_assert!(stepped.is_none_or(|preset| preset == auto.preset()));
            }
        }
    }
}
