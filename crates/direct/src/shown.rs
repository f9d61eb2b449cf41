//! How many pictures receivers have shown.

/// Adds up what receivers report, each of its own run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    /// By receivers that have gone.
    before: u64,
    /// By the one that reports.
    newest: u64,
    may_be_another: bool,
}

impl Shown {
    /// The receiver may be another one from now on, or the one of before on a new link.
    pub(crate) fn handle_reset(&mut self) {
        self.may_be_another = true;
    }

    /// A report says that `shown` were, since its receiver's run began.
    pub(crate) fn handle_report(&mut self, shown: u64) {
        if std::mem::take(&mut self.may_be_another) && shown < self.newest {
            self.before = self.before.saturating_add(self.newest);
            self.newest = shown;
        }
        self.newest = self.newest.max(shown);
    }

    /// All of them.
    pub(crate) fn total(&self) -> u64 {
        self.before.saturating_add(self.newest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receivers_after_one_another_are_added_up_and_one_on_two_links_is_not() {
        let mut shown = Shown::default();
        let mut report = |is_reset, count| {
            if is_reset {
                shown.handle_reset();
            }
            shown.handle_report(count);
            shown.total()
        };
        assert_eq!([report(false, 5), report(false, 3), report(false, 100)], [5, 5, 100]);
        // The same receiver, on a new link.
        assert_eq!([report(true, 120), report(false, 130)], [120, 130]);
        // Another one.
        assert_eq!([report(true, 2), report(false, 1), report(false, 40)], [132, 132, 170]);
    }
}
