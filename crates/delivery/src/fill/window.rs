//! How far an object may fill ahead of its readers, so that all objects together keep within a budget of memory.
//!
//! ```text
//!            slowest reader     furthest reader        filled
//!  0 ───────────────┼──────────────────┼──────────────────┼───────► bytes of the object
//!  shared:  kept for new readers       │◄── read-ahead ──►│
//!  sliding: let go  │◄────────── read-ahead ─────────────►│
//! ```
//! The read-ahead of each object is an eighth of what is free, and at least [`WINDOW_MIN_BYTES`]: a threshold that falls
//! while many objects wait for slow readers, and always leaves some room (Choudhury and Hahne, "Dynamic Queue Length
//! Thresholds for Shared-Memory Packet Switches", 1998). Where nothing is free, objects begin to slide: they get no new readers,
//! free the bytes that all of their readers have read, and keep [`WINDOW_MIN_BYTES`]. So an object always goes on while its
//! readers read, also one that is larger than the budget, and all together take no more than the budget and
//! [`WINDOW_MIN_BYTES`] for each object that fills.

/// What an object may have ahead of its readers in any case.
pub const WINDOW_MIN_BYTES: u64 = 64 << 10;
/// The part of the free memory that one object may fill ahead of its readers.
const READ_AHEAD_SHARE: u64 = 8;

/// The memory of all objects together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// What they may take, in bytes.
    pub bytes_max: u64,
    /// What they take, in bytes.
    pub held_bytes: u64,
}

impl Budget {
    /// Bytes that are free.
    pub fn free_bytes(&self) -> u64 {
        self.bytes_max.saturating_sub(self.held_bytes)
    }

    /// Whether there is less room than any object may have.
    pub fn is_full(&self) -> bool {
        self.free_bytes() < WINDOW_MIN_BYTES
    }

    fn read_ahead_bytes(&self) -> u64 {
        (self.free_bytes() / READ_AHEAD_SHARE).max(WINDOW_MIN_BYTES)
    }
}

/// How an object that fills stands to its readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Bytes that have come, also those that were let go.
    pub filled: u64,
    /// How many read it.
    pub readers: usize,
    /// The lowest place of a reader; `filled` where there is none.
    pub slowest: u64,
    /// The highest place that a reader has come to, or cannot go on without.
    pub furthest: u64,
    /// Whether it lets go what all have read.
    pub is_sliding: bool,
}

/// What an object that fills has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Take so many bytes at most; not 0.
    Fill(u64),
    /// Wait until readers have come to this byte.
    WaitForReader(u64),
    /// Wait until there is room; where none can be made, slide.
    WaitForRoom,
}

impl Standing {
    /// What the object is to do where all objects stand so.
    pub fn pace(&self, budget: Budget) -> Pace {
        if self.is_sliding && self.readers == 0 {
            // Its last reader has left, and a sliding object gets no new ones.
            return Pace::WaitForReader(u64::MAX);
        }
        if budget.is_full() && !self.is_sliding {
            return Pace::WaitForRoom;
        }
        let base = if self.is_sliding { self.slowest } else { self.furthest };
        let ahead = self.filled.saturating_sub(base);
        let most = budget.read_ahead_bytes();
        match most.checked_sub(ahead).filter(|left| *left > 0) {
            Some(left) => Pace::Fill(left),
            // A bit earlier than at the last byte, so that the readers need not wait; it is at least one byte further.
            None => Pace::WaitForReader(self.filled.saturating_sub(most / 2).max(base.saturating_add(1))),
        }
    }

    /// How much its memory is worth to others: that with the most bytes for each reader slides first, so that what many
    /// watch goes on being shared.
    pub fn bytes_a_reader(&self) -> u64 {
        self.filled / self.readers.max(1) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BUDGET: u64 = 1 << 20;

    fn shared(filled: u64, slowest: u64, furthest: u64) -> Standing {
        Standing { filled, readers: 1, slowest, furthest, is_sliding: false }
    }

    #[test]
    fn read_ahead_falls_with_what_is_free() {
        let free = |held_bytes| Budget { bytes_max: 1 << 30, held_bytes };
        let standing = shared(100, 100, 100);
        assert_eq!(standing.pace(free(0)), Pace::Fill(128 << 20));
        assert_eq!(standing.pace(free(1 << 29)), Pace::Fill(64 << 20));
        assert_eq!(standing.pace(free((1 << 30) - WINDOW_MIN_BYTES)), Pace::Fill(WINDOW_MIN_BYTES));
        assert_eq!(standing.pace(free(1 << 30)), Pace::WaitForRoom);
        let sliding = Standing { is_sliding: true, ..standing };
        assert_eq!(sliding.pace(free(2 << 30)), Pace::Fill(WINDOW_MIN_BYTES));
    }

    #[test]
    fn a_shared_object_follows_its_first_reader_and_a_sliding_one_its_last() {
        let budget = Budget { bytes_max: BUDGET, held_bytes: BUDGET / 2 };
        let standing = shared(500_000, 0, 490_000);
        assert!(matches!(standing.pace(budget), Pace::Fill(_)));
        let sliding = Standing { is_sliding: true, ..standing };
        assert!(matches!(sliding.pace(budget), Pace::WaitForReader(at) if at > 0 && at <= 500_000));
        let unread = Standing { readers: 0, slowest: 500_000, ..sliding };
        assert_eq!(unread.pace(budget), Pace::WaitForReader(u64::MAX), "nobody can come to it");
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Fill(usize),
        Read(usize, u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let fill = (0usize..12).prop_map(Step::Fill);
        let read = (0usize..24, 0u64..300_000).prop_map(|(reader, bytes)| Step::Read(reader, bytes));
        prop::collection::vec(prop_oneof![fill, read], 0..400)
    }

    /// Twelve objects with two readers each.
    #[derive(Clone, Copy, Debug, Default)]
    struct Model {
        filled: u64,
        at: [u64; 2],
        is_sliding: bool,
    }

    impl Model {
        fn standing(&self) -> Standing {
            let [one, other] = self.at;
            let (slowest, furthest) = (one.min(other), one.max(other));
            Standing { filled: self.filled, readers: 2, slowest, furthest, is_sliding: self.is_sliding }
        }

        fn held(&self) -> u64 {
            self.filled - if self.is_sliding { self.standing().slowest } else { 0 }
        }
    }

    fn budget(objects: &[Model]) -> Budget {
        Budget { bytes_max: BUDGET, held_bytes: objects.iter().map(Model::held).sum() }
    }

    fn fill(objects: &mut [Model], at: usize) -> bool {
        loop {
            match objects[at].standing().pace(budget(objects)) {
                Pace::Fill(bytes) => {
                    objects[at].filled += bytes;
                    return true;
                }
                Pace::WaitForReader(wanted) => {
                    assert!(wanted <= objects[at].filled, "a reader can come there");
                    return false;
                }
                Pace::WaitForRoom => {
                    let shared = objects.iter_mut().filter(|object| !object.is_sliding);
                    let first = shared.max_by_key(|object| object.standing().bytes_a_reader());
                    first.expect("the one that waits is shared").is_sliding = true;
                }
            }
        }
    }

    proptest! {
        /// Whatever readers do, the memory is bounded, and an object whose readers have read all goes on.
        #[test]
        fn memory_is_bounded_and_who_reads_goes_on(steps in steps()) {
            let mut objects = [Model::default(); 12];
            for step in steps {
                match step {
                    Step::Fill(at) => drop(fill(&mut objects, at)),
                    Step::Read(reader, bytes) => {
                        let object = &mut objects[reader / 2];
                        let at = &mut object.at[reader % 2];
                        *at = (*at + bytes).min(object.filled);
                    }
                }
                let most = BUDGET + objects.len() as u64 * WINDOW_MIN_BYTES;
                prop_assert!(budget(&objects).held_bytes <= most);
            }
            for at in 0..objects.len() {
                objects[at].at = [objects[at].filled; 2];
                prop_assert!(fill(&mut objects, at), "{at}: {:?}", objects[at]);
            }
        }
    }
}
