//! What files that grow have in common (MP4, WebM): bytes that are put in later, and the list of places to begin at.

/// Places to begin at that the end of a file lists; beyond, every second one is left out again and again.
const ENTRIES_MAX: usize = 16_384;

/// Bytes to be put in the place of those that were given out before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Where, from the file's first byte.
    pub offset: u64,
    /// What stands there then.
    pub bytes: Vec<u8>,
}

/// Places at which decoding can begin: when, in the unit of the file, and where.
#[derive(Clone, Debug)]
pub(super) struct Entries {
    list: Vec<(u64, u64)>,
    /// Each so many-th is kept.
    step: u64,
    seen: u64,
}

impl Default for Entries {
    fn default() -> Entries {
        Entries { list: Vec::new(), step: 1, seen: 0 }
    }
}

impl Entries {
    pub(super) fn add(&mut self, time: u64, offset: u64) {
        if self.seen.is_multiple_of(self.step) {
            if self.list.len() >= ENTRIES_MAX {
                let mut keep = false;
                self.list.retain(|_| {
                    keep = !keep;
                    keep
                });
                self.step *= 2;
            }
            self.list.push((time, offset));
        }
        self.seen += 1;
    }

    /// All of them, in the order in which they came.
    pub(super) fn take(&mut self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_very_many_places_every_second_one_is_kept() {
        let mut entries = Entries::default();
        for time in 0..3 * ENTRIES_MAX as u64 {
            entries.add(time, 2 * time);
        }
        let list = entries.take();
        assert!(list.len() <= ENTRIES_MAX && list.len() > ENTRIES_MAX / 2, "{}", list.len());
        assert!(list.windows(2).all(|pair| pair[1].0 - pair[0].0 == 4 && pair[0].1 == 2 * pair[0].0));
        assert!(entries.take().is_empty());
    }
}
