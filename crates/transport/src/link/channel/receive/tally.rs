//! A sum of what is held, which is counted as it comes and as it goes.

/// What is held, in bytes or in number.
///
/// Each addition belongs to one subtraction later. Were they ever to differ, a test says so, and a program goes on with a sum
/// that is too large or zero: a fault in counting must not end all links of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally(u64);

impl Tally {
    /// The sum.
    #[inline]
    pub(super) fn get(self) -> u64 {
        self.0
    }

    /// So much has come.
    #[inline]
    pub(super) fn add(&mut self, amount: u64) {
        self.0 = self.0.saturating_add(amount);
    }

    /// So much of it has gone.
    #[inline]
    pub(super) fn take(&mut self, amount: u64) {
        debug_assert!(amount <= self.0, "{amount} go of {} that are held", self.0);
        self.0 = self.0.saturating_sub(amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_and_goes_leaves_what_was_there() {
        let mut tally = Tally::default();
        [5, 0, u64::MAX / 2].into_iter().for_each(|amount| tally.add(amount));
        tally.take(u64::MAX / 2);
        assert_eq!(tally.get(), 5);
        tally.take(5);
        assert_eq!(tally, Tally::default());
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic = "6 go of 5 that are held"]
    fn a_test_notices_that_more_goes_than_came() {
        let mut tally = Tally(5);
        tally.take(6);
    }
}
