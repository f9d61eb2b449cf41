//! How busy a worker is, and what it gives up for it.
//!
//! What a worker costs is the number of its sends, and one that has no time left falls behind for good if it goes on as
//! before: sends that come late are no fewer. So the busier it is the more pictures it lets leave together, by
//! [turns](glassline_delivery::turns); and where that is not enough it gives up pacing, which makes several sends of one. Neither
//! touches a byte, and both come back as soon as there is time for them.

use glassline_delivery::turns::MOST_TURNS;
use glassline_media::Time;
use std::time::Duration;

/// A worker that is idle for less than this share of its time paces nobody, and again from the second one on, once viewers
/// need no turns any more: pacing costs what turns save.
const PACING_ENDS: f64 = 0.25;
const PACING_BEGINS: f64 = 0.45;
/// A worker that is busy for more than this share of its time has one turn more. A third of a core is left for what comes
/// at once: key frames, joins, returns after a fault.
const MORE_TURNS: f64 = 0.65;
/// It has one less where it would be busy for less than this, all of its time being spent on sends: less than above, so
/// that it does not swing.
const FEWER_TURNS: f64 = 0.55;
/// One that is busier than this is not looked at for long.
const OVERLOADED: f64 = 0.9;
/// Looks whose sum decides: a second, so that each has a key frame.
const LOOKS: u32 = 4;

/// A worker's load, looked at once in a while.
#[derive(Debug)]
pub(super) struct Strain {
    since: Time,
    idle: Duration,
    looks: u32,
    paces: bool,
    turns: u32,
}

/// What a look at the load has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Nobody is paced any more, or those again who need it.
    Pacing(bool),
    /// So many turns from now on.
    Turns(u32),
}

impl Strain {
    /// A worker that begins now, with all of its time.
    pub(super) fn new(now: Time) -> Strain {
        Strain { since: now, idle: Duration::ZERO, looks: 0, paces: true, turns: 1 }
    }

    /// The worker has waited for something to do.
    pub(super) fn rested(&mut self, time: Duration) {
        self.idle += time;
    }

    /// The time so far does not count: nobody ran.
    pub(super) fn forget(&mut self, now: Time) {
        (self.since, self.idle, self.looks) = (now, Duration::ZERO, 0);
    }

    /// Whether viewers are paced.
    pub(super) fn paces(&self) -> bool {
        self.paces
    }

    /// Turns in which viewers are served.
    pub(super) fn turns(&self) -> u32 {
        self.turns
    }

    /// Looks at the load of a worker whose streams have a use for `most` turns. Returns how busy it was since it last decided,
    /// as a share, and what that changes.
    pub(super) fn look(&mut self, most: u32, now: Time) -> (f64, [Option<Change>; 2]) {
        self.looks += 1;
        let elapsed = now.since(self.since).max(Duration::from_millis(1));
        let busy = (1.0 - self.idle.as_secs_f64() / elapsed.as_secs_f64()).max(0.0);
        if self.looks < LOOKS && busy < OVERLOADED {
            return (busy, [None, None]);
        }
        self.forget(now);
        let (turns, with_one_less) = (self.turns, f64::from(self.turns) / f64::from((self.turns - 1).max(1)));
        let turns = if busy > OVERLOADED {
            turns * 2
        } else if busy > MORE_TURNS {
            turns + 1
        } else if turns > 1 && busy * with_one_less < FEWER_TURNS {
            turns - 1
        } else {
            turns
        }
        .min(most.clamp(1, MOST_TURNS));
        let idle = 1.0 - busy;
        let paces = if self.paces { idle > PACING_ENDS } else { idle > PACING_BEGINS && turns == 1 };
        let changes = [
            (paces != self.paces).then_some(Change::Pacing(paces)),
            (turns != self.turns).then_some(Change::Turns(turns)),
        ];
        (self.paces, self.turns) = (paces, turns);
        (busy, changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker whose sends cost a part of its time each, and their bytes another.
    struct Worker {
        strain: Strain,
        now: Time,
    }

    impl Worker {
        fn new() -> Worker {
            Worker { strain: Strain::new(Time::ZERO), now: Time::ZERO }
        }

        /// A quarter of a second in which so much of its time is spent; returns changes.
        fn look(&mut self, busy: f64) -> usize {
            let time = Duration::from_millis(250);
            self.strain.rested(time.mul_f64(1.0 - busy.min(1.0)));
            self.now += time;
            self.strain.look(MOST_TURNS, self.now).1.into_iter().flatten().count()
        }

        /// Some seconds of a load whose sends alone would take `sends` of its time, and whose bytes take `bytes`. Returns
        /// the turns at their end, and how often they changed in the last half.
        fn carry(&mut self, sends: f64, bytes: f64, seconds: usize) -> (u32, usize) {
            let mut late = 0;
            for look in 0..seconds * 4 {
                let before = self.strain.turns();
                self.look(sends / f64::from(before) + bytes);
                late += usize::from(look >= seconds * 2 && before != self.strain.turns());
            }
            (self.strain.turns(), late)
        }
    }

    #[test]
    fn a_load_finds_its_turns_and_they_stay() {
        for (sends, bytes, turns) in [
            (0.4, 0.05, 1),
            (0.65, 0.05, 2),
            (1.1, 0.05, 2),
            (1.5, 0.1, 3),
            (2.5, 0.1, 5),
            (5.0, 0.2, MOST_TURNS),
        ] {
            let mut worker = Worker::new();
            assert_eq!(worker.carry(sends, bytes, 20), (turns, 0), "{sends} and {bytes}");
            assert_eq!(worker.carry(0.2, 0.0, 20), (1, 0), "behind {sends} and {bytes}");
            assert!(worker.strain.paces());
        }
    }

    #[test]
    fn an_overload_is_answered_in_the_first_second_and_over_in_some() {
        let mut worker = Worker::new();
        assert_eq!([worker.look(1.0), worker.look(1.0)], [2, 1]);
        assert_eq!((worker.strain.turns(), worker.strain.paces()), (4, false));
        assert_eq!([(); 3].map(|()| worker.look(0.1)), [0; 3], "a second is looked at");
        assert_eq!((worker.look(0.1), worker.strain.turns()), (1, 3));
        assert!(!worker.strain.paces(), "not while viewers take turns");
        worker.carry(0.1, 0.0, 3);
        assert_eq!((worker.strain.turns(), worker.strain.paces()), (1, true));
    }

    #[test]
    fn turns_that_bring_nothing_are_not_taken() {
        let mut strain = Strain::new(Time::ZERO);
        strain.look(1, Time::from_millis(250));
        assert_eq!((strain.turns(), strain.paces()), (1, false));
    }
}
