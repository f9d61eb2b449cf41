//! The load of a worker, and what the worker does about it.
//!
//! A worker's load comes from the number of its sends. A worker that has no time left and goes on as before falls
//! behind for good, since sends that come late are no fewer. So the busier it is, the more pictures it lets leave in
//! one send, by [groups of viewers](glassline_delivery::coalesce). Where that is not enough it stops pacing, which
//! makes several sends of one. Neither changes a byte, and both end as soon as there is time again.
//!
//! The number of pictures follows from the load that the worker would have with one picture a send, which is computed
//! from the present load and the present number. The present load alone would not do: fewer sends lower it, and the
//! lower load would seem to allow more sends again, so that two numbers would fit the same viewers, and chance would
//! choose one.

use glassline_delivery::coalesce::MOST_PICTURES;
use glassline_media::Time;
use std::time::Duration;

/// A worker that is idle for less than the first share of its time stops pacing. It paces again once it is idle for
/// more than the second share and pictures leave one by one: pacing costs what fewer sends save.
const PACING_ENDS: f64 = 0.25;
const PACING_BEGINS: f64 = 0.45;
/// Below this load each picture leaves by itself.
const COALESCES: f64 = 0.3;
/// The load that is aimed at. A third of a core is left for what comes at once: key frames, joins, returns after a fault.
const AIM: f64 = 0.65;
/// What a worker chooses from. A part of the viewers waits for a whole interval more with any fraction above a whole number,
/// so that the longest delays are those of the next whole one; from 1 to 2 half the viewers' delay is worth it.
const LEVELS: [f64; 7] = [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, MOST_PICTURES];
/// So far the wanted number has to be beyond a level for another one.
const MARGIN: f64 = 0.05;
/// What each further picture adds to the price of a send with one.
const FURTHER_PICTURE: f64 = 0.2;
/// Seconds for which a lower level has to be wanted; twice as many, up to the second number, each time that it has turned
/// out to be too low: what a further picture costs differs, so that two levels can each seem to ask for the other.
const LOWER_AFTER: [u32; 2] = [2, 64];
/// A level that is left for a higher one within so many seconds was too low.
const TOO_LOW: u32 = 8;
/// Where a worker is busier than this, one look decides.
const OVERLOADED: f64 = 0.9;
/// Looks that together decide: a second, so that each decision covers a key frame.
const LOOKS: u32 = 4;

/// A worker's load, looked at once in a while.
#[derive(Debug)]
pub(super) struct WorkerLoad {
    since: Time,
    idle: Duration,
    looks: u32,
    paces: bool,
    /// Pictures a send of streams that send pictures on as they come, and of those with a flush policy that holds them
    /// back.
    prompt: Choice,
    held_back: Choice,
}

/// Pictures a send, and how that came to be.
#[derive(Clone, Copy, Debug)]
struct Choice {
    pictures: f64,
    levels: Levels,
}

/// What use a worker's streams have for more pictures a send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use {
    /// Pictures a send, at most.
    pub(super) most: f64,
    /// Whether the pictures of any of them leave as they come.
    pub(super) any_prompt: bool,
}

/// How the level came to be what it is, in looks that have decided.
#[derive(Clone, Copy, Debug)]
struct Levels {
    lower_after: u32,
    /// How long a lower one has been wanted.
    lower_wanted: u32,
    /// Since the level was lowered last.
    since_lowered: u32,
}

/// What a look at the load has changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Change {
    /// Whether viewers that need it are paced from now on.
    Pacing(bool),
    /// So many pictures a send from now on.
    Pictures(f64),
}

/// What sends cost with so many pictures in each, as a part of what they cost with one.
fn relative_cost(pictures: f64) -> f64 {
    FURTHER_PICTURE + (1.0 - FURTHER_PICTURE) / pictures
}

/// Pictures a send for a worker that would have the load `load` with one, and has `now` of them at present. `is_prompt`
/// where pictures leave as they come.
fn pictures_for(load: f64, now: f64, is_prompt: bool) -> f64 {
    let left = AIM / load.max(f64::EPSILON) - FURTHER_PICTURE;
    let at_most_the_aim = if left > 0.0 { (1.0 - FURTHER_PICTURE) / left } else { MOST_PICTURES };
    // Prompt: a viewer's send each interval and a round's time. That is what a server has that serves all its viewers,
    // pauses for an interval, and begins again. Held back: they leave together already.
    let wanted = if is_prompt { at_most_the_aim.max(1.0 + load) } else { at_most_the_aim };
    let enough = |wanted: f64| LEVELS.into_iter().find(|level| *level >= wanted).unwrap_or(MOST_PICTURES);
    let [least, most] = [-MARGIN, MARGIN].map(|margin| {
        let one_by_one = is_prompt && load + margin <= COALESCES;
        if one_by_one { 1.0 } else { enough(wanted + margin) }
    });
    now.clamp(least, most)
}

impl Choice {
    const NEW: Choice = Choice { pictures: 1.0, levels: Levels::NEW };

    fn look(&mut self, load: f64, is_prompt: bool, is_overload: bool, most: f64) {
        let before = self.pictures;
        let wanted = self.levels.next(before, pictures_for(load, before, is_prompt));
        // An overload may be any load.
        self.pictures = if is_overload { wanted.max(before * 2.0) } else { wanted }.min(most);
    }
}

impl Levels {
    const NEW: Levels = Levels { lower_after: LOWER_AFTER[0], lower_wanted: 0, since_lowered: u32::MAX };

    /// The next level behind `now`, where `wanted` is.
    fn next(&mut self, now: f64, wanted: f64) -> f64 {
        self.since_lowered = self.since_lowered.saturating_add(1);
        self.lower_wanted = if wanted < now { self.lower_wanted + 1 } else { 0 };
        let [first, last] = LOWER_AFTER;
        if wanted > now && self.since_lowered <= TOO_LOW {
            self.lower_after = (self.lower_after * 2).min(last);
            self.since_lowered = u32::MAX;
        } else if self.since_lowered == last {
            self.lower_after = first;
        }
        if wanted < now && self.lower_wanted < self.lower_after {
            return now;
        }
        if wanted < now {
            (self.lower_wanted, self.since_lowered) = (0, 0);
        }
        wanted
    }
}

impl WorkerLoad {
    /// A worker that begins now, with all of its time.
    pub(super) fn new(now: Time) -> WorkerLoad {
        WorkerLoad {
            since: now,
            idle: Duration::ZERO,
            looks: 0,
            paces: true,
            prompt: Choice::NEW,
            held_back: Choice::NEW,
        }
    }

    /// The worker has waited for something to do.
    pub(super) fn rested(&mut self, time: Duration) {
        self.idle += time;
    }

    /// Begins to measure anew: the time so far does not count.
    pub(super) fn forget(&mut self, now: Time) {
        (self.since, self.idle, self.looks) = (now, Duration::ZERO, 0);
    }

    /// Whether viewers are paced.
    pub(super) fn paces(&self) -> bool {
        self.paces
    }

    /// Pictures that leave in one send, from 1, of a stream with a flush policy that holds pictures back, or of one
    /// that sends them on as they come.
    pub(super) fn pictures(&self, are_held_back: bool) -> f64 {
        if are_held_back { self.held_back.pictures } else { self.prompt.pictures }
    }

    /// Looks at the load of a worker with streams that have the use `useful` for more pictures a send. Returns the
    /// share of the time since the last decision in which it was busy, and what that changes.
    pub(super) fn look(&mut self, useful: Use, now: Time) -> (f64, [Option<Change>; 2]) {
        self.looks += 1;
        let elapsed = now.since(self.since).max(Duration::from_millis(1));
        let busy = (1.0 - self.idle.as_secs_f64() / elapsed.as_secs_f64()).max(0.0);
        if self.looks < LOOKS && busy < OVERLOADED {
            return (busy, [None, None]);
        }
        self.forget(now);
        let most = useful.most.clamp(1.0, MOST_PICTURES);
        let (before, is_overload) = (self.pictures(!useful.any_prompt), busy > OVERLOADED);
        let load = busy / relative_cost(before);
        self.prompt.look(load, true, is_overload, most);
        self.held_back.look(load, false, is_overload, most);
        let pictures = self.pictures(!useful.any_prompt);
        let idle = 1.0 - busy;
        let paces = if self.paces { idle > PACING_ENDS } else { idle > PACING_BEGINS && pictures == 1.0 };
        let changes = [
            (paces != self.paces).then_some(Change::Pacing(paces)),
            (pictures != before).then_some(Change::Pictures(pictures)),
        ];
        self.paces = paces;
        (busy, changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROMPT: Use = Use { most: MOST_PICTURES, any_prompt: true };

    /// A worker whose sends cost a part of its time each, and their bytes another.
    struct Worker {
        load: WorkerLoad,
        now: Time,
        useful: Use,
    }

    impl Worker {
        fn new() -> Worker {
            Worker { load: WorkerLoad::new(Time::ZERO), now: Time::ZERO, useful: PROMPT }
        }

        fn pictures(&self) -> f64 {
            self.load.pictures(!self.useful.any_prompt)
        }

        /// A quarter of a second in which so much of its time is spent; returns changes.
        fn look(&mut self, busy: f64) -> usize {
            let time = Duration::from_millis(250);
            self.load.rested(time.mul_f64(1.0 - busy.min(1.0)));
            self.now += time;
            self.load.look(self.useful, self.now).1.into_iter().flatten().count()
        }

        /// Some seconds of a load whose sends alone would take `sends` of its time, and whose bytes take `bytes`. Returns
        /// the pictures a send at their end, and how often those changed in the last half.
        fn carry(&mut self, sends: f64, bytes: f64, seconds: usize) -> (f64, usize) {
            let mut changes = 0;
            for look in 0..seconds * 4 {
                let before = self.pictures();
                self.look(sends / before + bytes);
                changes += usize::from(look >= seconds * 2 && self.pictures() != before);
            }
            (self.pictures(), changes)
        }
    }

    #[test]
    fn a_load_has_one_answer_wherever_it_comes_from() {
        for (sends, bytes, pictures) in [
            (0.1, 0.05, 1.0),
            (0.4, 0.05, 1.5),
            (0.75, 0.1, 2.0),
            (1.2, 0.1, 3.0),
            (1.75, 0.15, 4.0),
            (2.5, 0.2, 6.0),
            (5.0, 0.2, 6.0),
        ] {
            for before in [0.0, 0.5, 1.0, 4.0] {
                let mut worker = Worker::new();
                worker.carry(before, 0.05, 20);
                let told = format!("{sends} and {bytes} after {before}");
                assert_eq!(worker.carry(sends, bytes, 20), (pictures, 0), "{told}");
            }
        }
    }

    #[test]
    fn what_is_held_back_leaves_together_only_where_the_core_is_filling() {
        for (sends, pictures) in [(0.3, 1.0), (0.5, 1.0), (1.0, 2.0), (5.0, 6.0)] {
            let mut worker = Worker { useful: Use { any_prompt: false, ..PROMPT }, ..Worker::new() };
            assert_eq!(worker.carry(sends, 0.05, 20), (pictures, 0), "{sends}");
        }
    }

    #[test]
    fn an_idle_worker_sends_each_picture_by_itself_again() {
        let mut worker = Worker::new();
        worker.carry(5.0, 0.2, 20);
        assert_eq!(worker.pictures(), MOST_PICTURES);
        assert_eq!(worker.carry(0.1, 0.0, 20), (1.0, 0));
        assert!(worker.load.paces());
    }

    #[test]
    fn a_load_at_a_limit_does_not_swing() {
        let mut worker = Worker::new();
        for percent in (10..300).step_by(7) {
            let (_, changes) = worker.carry(f64::from(percent) / 100.0, 0.0, 400);
            assert!(changes <= 8, "{percent} %: {changes} in 200 s");
        }
    }

    #[test]
    fn an_overload_is_answered_in_the_first_second_and_over_in_some() {
        let mut worker = Worker::new();
        assert_eq!([worker.look(1.0), worker.look(1.0)], [2, 1]);
        assert!(worker.pictures() >= 4.0 && !worker.load.paces());
        assert_eq!([(); 3].map(|()| worker.look(0.1)), [0; 3], "a second is looked at");
        worker.carry(0.1, 0.0, 3);
        assert_eq!((worker.pictures(), worker.load.paces()), (1.0, true));
    }

    #[test]
    fn pictures_in_a_send_that_save_nothing_do_not_leave_together() {
        let mut load = WorkerLoad::new(Time::ZERO);
        load.look(Use { most: 1.0, ..PROMPT }, Time::from_millis(250));
        assert_eq!((load.pictures(false), load.pictures(true), load.paces()), (1.0, 1.0, false));
    }

    #[test]
    fn a_first_look_says_how_busy_the_worker_is_and_changes_nothing() {
        let mut load = WorkerLoad::new(Time::ZERO);
        load.rested(Duration::from_millis(150));
        let (busy, changes) = load.look(PROMPT, Time::from_millis(250));
        assert_eq!(((busy * 1000.0).round(), changes), (400.0, [None, None]));
    }

    #[test]
    fn four_looks_decide_over_all_of_their_time() {
        let mut load = WorkerLoad::new(Time::ZERO);
        let mut changes = Vec::new();
        for (at, rested) in [(250, 250), (500, 0), (750, 40), (1000, 0)] {
            load.rested(Duration::from_millis(rested));
            let (busy, change) = load.look(PROMPT, Time::from_millis(at));
            changes.push(((busy * 100.0).round(), change[0]));
        }
        // 290 ms of a second are idle: enough for pacing to go on.
        assert_eq!(changes.last(), Some(&(71.0, None)));
        assert!(load.paces());
        load.forget(Time::from_millis(1000));
        for at in [1250, 1500, 1750, 2000] {
            load.rested(Duration::from_millis(60));
            let (_, change) = load.look(PROMPT, Time::from_millis(at));
            assert_eq!(change[0], (at == 2000).then_some(Change::Pacing(false)), "{at}");
        }
    }

    #[test]
    fn time_before_a_halt_does_not_count() {
        let mut load = WorkerLoad::new(Time::ZERO);
        load.rested(Duration::from_secs(10));
        load.look(PROMPT, Time::from_millis(10_000));
        load.forget(Time::from_millis(10_000));
        let (busy, _) = load.look(PROMPT, Time::from_millis(10_250));
        assert_eq!(busy.to_bits(), 1.0_f64.to_bits());
    }

    #[test]
    fn rest_that_is_longer_than_the_time_is_no_load_below_nothing() {
        let mut load = WorkerLoad::new(Time::ZERO);
        load.rested(Duration::from_secs(3600));
        assert_eq!(load.look(PROMPT, Time::from_millis(250)).0.to_bits(), 0.0_f64.to_bits());
        assert!(load.look(PROMPT, Time::from_millis(250)).0 >= 0.0, "at one moment as well");
    }

    #[test]
    fn a_worker_paces_again_when_it_is_idle_and_pictures_leave_one_by_one() {
        let mut worker = Worker::new();
        worker.carry(0.8, 0.0, 3);
        while worker.load.paces() {
            worker.look(0.95);
        }
        assert!(worker.pictures() > 1.0);
        worker.carry(0.5, 0.0, 2);
        assert!(!worker.load.paces(), "pictures still leave together");
        assert_eq!(worker.carry(0.1, 0.0, 30), (1.0, 0));
        assert!(worker.load.paces());
    }

    #[test]
    fn what_further_pictures_cost_is_less_than_what_they_save() {
        assert_eq!(relative_cost(1.0).to_bits(), 1.0_f64.to_bits());
        assert!((relative_cost(2.0) - 0.6).abs() < 1e-9 && (relative_cost(4.0) - 0.4).abs() < 1e-9);
    }

    #[test]
    fn a_level_that_was_too_low_is_waited_for_longer_the_next_time() {
        let mut levels = Levels::NEW;
        let down = |levels: &mut Levels| {
            let looks = (1..).find(|_| levels.next(2.0, 1.0) < 2.0).unwrap();
            levels.next(1.0, 2.0);
            looks
        };
        let waits: Vec<u32> = (0..8).map(|_| down(&mut levels)).collect();
        assert_eq!(waits, [2, 4, 8, 16, 32, 64, 64, 64]);
        // After a long time without a change it begins anew.
        (0..64).for_each(|_| assert!(levels.next(2.0, 2.0) >= 2.0));
        levels.next(2.0, 1.0);
        assert!(levels.lower_after == 64 && levels.lower_wanted == 1);
    }

    #[test]
    fn a_level_that_is_wanted_is_wanted_without_a_break() {
        let mut levels = Levels::NEW;
        for _ in 0..10 {
            assert_eq!(levels.next(2.0, 1.0).to_bits(), 2.0_f64.to_bits());
            assert_eq!(levels.next(2.0, 2.0).to_bits(), 2.0_f64.to_bits());
        }
        levels.next(2.0, 1.0);
        assert_eq!(levels.next(2.0, 1.0).to_bits(), 1.0_f64.to_bits());
    }

    proptest::proptest! {
        #[test]
        fn more_load_never_asks_for_fewer_pictures(
            load in 0.0f64..20.0,
            more in 0.0f64..5.0,
            now in 0usize..LEVELS.len(),
            is_prompt: bool,
        ) {
            let now = LEVELS[now];
            let (few, many) = (pictures_for(load, now, is_prompt), pictures_for(load + more, now, is_prompt));
            proptest::prop_assert!(few <= many, "{few} at {load}, {many} with {more} more");
            for pictures in [few, many] {
                proptest::prop_assert!(LEVELS.contains(&pictures));
            }
        }

        #[test]
        fn whatever_its_looks_show_a_worker_has_one_to_six_pictures_a_send(
            looks in proptest::collection::vec((0u64..400, 0.0f64..1.2, 0.5f64..9.0, proptest::prelude::any::<bool>()), 0..80),
        ) {
            let (mut load, mut now) = (WorkerLoad::new(Time::ZERO), Time::ZERO);
            for (ms, idle, most, any_prompt) in looks {
                let time = Duration::from_millis(ms);
                load.rested(time.mul_f64(idle));
                now += time;
                let (busy, _) = load.look(Use { most, any_prompt }, now);
                proptest::prop_assert!((0.0..=1.0).contains(&busy));
                for held_back in [false, true] {
                    proptest::prop_assert!((1.0..=MOST_PICTURES).contains(&load.pictures(held_back)));
                }
            }
        }
    }
}
