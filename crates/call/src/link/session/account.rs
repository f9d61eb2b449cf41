//! Whether the other end of a link has all of a channel, as far as this end can tell.

use glassline_transport::link::Outcome;

/// What it means for a channel that the other end may not have all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Continuity {
    /// Nothing that has to be said: what it carries comes from a source that does not wait either, or is replaced by what is
    /// newer.
    #[default]
    Live,
    /// Each message counts: one that is lost, or may be, ends the session with [`super::Error::Torn`].
    Messages,
    /// All messages are one stream of bytes. Another process at the other end, which has not got its beginning, ends the
    /// session, too.
    Stream,
}

/// How the peer that had a channel's beginning has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    /// Another process has come in its place, or it has forgotten the link.
    Restarted,
    /// It has ended the link as its owner wished.
    Left,
    /// It has failed, or nothing was heard of it any more.
    Vanished,
}

/// What has passed on one channel of a link.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Account {
    sent: u64,
    delivered: u64,
    lost: u64,
    /// Messages have come, and the peer sends them reliably.
    pub(super) came: bool,
}

impl Account {
    pub(super) fn handle_sent(&mut self) {
        self.sent += 1;
    }

    pub(super) fn handle_not_sent(&mut self) {
        self.sent = self.sent.saturating_sub(1);
    }

    pub(super) fn handle_end(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Delivered => self.delivered += 1,
            Outcome::Lost => self.lost += 1,
            // As the options of the channel wish.
            Outcome::Cancelled | Outcome::Skipped => self.sent = self.sent.saturating_sub(1),
        }
    }

    /// Another process is at the other end: it gets what is sent from now on, and what waits.
    pub(super) fn begin_anew(&mut self) {
        self.sent = self.sent.saturating_sub(self.delivered + self.lost);
        (self.delivered, self.lost, self.came) = (0, 0, false);
    }

    /// Whether the peer may lack something of what we have sent, of which it has not said yet that it has all.
    pub(super) fn is_sending_torn(&self, kind: Continuity, gone: Gone) -> bool {
        match (kind, gone) {
            (Continuity::Live, _) => false,
            (Continuity::Messages, Gone::Restarted) => self.lost > 0,
            (Continuity::Messages, Gone::Left | Gone::Vanished) => self.sent > self.delivered,
            (Continuity::Stream, Gone::Restarted) => self.delivered + self.lost > 0,
            (Continuity::Stream, Gone::Left | Gone::Vanished) => self.sent > 0,
        }
    }

    /// Whether we may lack something of what the peer has sent, which has not said yet that it was all.
    pub(super) fn is_receiving_torn(&self, kind: Continuity, gone: Gone) -> bool {
        let counts = match (kind, gone) {
            (Continuity::Live, _) | (Continuity::Messages, Gone::Restarted) => false,
            (_, Gone::Left) => false,
            (Continuity::Messages, Gone::Vanished) | (Continuity::Stream, _) => true,
        };
        counts && self.came
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_torn_depends_on_what_the_channel_carries_and_how_the_peer_went() {
        let mut account = Account::default();
        let torn = |account: &Account, kind| {
            [Gone::Restarted, Gone::Left, Gone::Vanished].map(|gone| account.is_sending_torn(kind, gone))
        };
        for kind in [Continuity::Live, Continuity::Messages, Continuity::Stream] {
            assert_eq!(torn(&account, kind), [false; 3], "{kind:?}");
        }
        (0..3).for_each(|_| account.handle_sent());
        account.handle_end(Outcome::Delivered);
        account.handle_end(Outcome::Cancelled);
        // One is under way: it is lost with a peer that goes, and waits for one that comes back.
        assert_eq!(torn(&account, Continuity::Messages), [false, true, true]);
        assert_eq!(torn(&account, Continuity::Stream), [true; 3]);
        account.handle_end(Outcome::Lost);
        assert_eq!(torn(&account, Continuity::Messages), [true, true, true]);
        assert_eq!(torn(&account, Continuity::Live), [false; 3]);
        account.handle_sent();
        account.begin_anew();
        assert_eq!(torn(&account, Continuity::Messages), [false, true, true], "it waits for the new one");
        account.handle_end(Outcome::Delivered);
        assert_eq!(torn(&account, Continuity::Messages), [false; 3]);
    }

    #[test]
    fn what_came_is_torn_unless_the_peer_left_by_wish() {
        let account = Account { came: true, ..Account::default() };
        let torn = |kind| {
            [Gone::Restarted, Gone::Left, Gone::Vanished].map(|gone| account.is_receiving_torn(kind, gone))
        };
        assert_eq!(torn(Continuity::Live), [false; 3]);
        assert_eq!(torn(Continuity::Messages), [false, false, true]);
        assert_eq!(torn(Continuity::Stream), [true, false, true]);
    }

    #[test]
    fn a_message_that_was_not_sent_after_all_is_not_missed() {
        let mut account = Account::default();
        account.handle_not_sent();
        account.handle_sent();
        account.handle_not_sent();
        for gone in [Gone::Restarted, Gone::Left, Gone::Vanished] {
            assert!(!account.is_sending_torn(Continuity::Messages, gone));
            assert!(!account.is_sending_torn(Continuity::Stream, gone));
        }
    }

    #[test]
    fn what_came_of_a_peer_before_another_one_took_its_place_is_the_former_ones() {
        let mut account = Account { came: true, ..Account::default() };
        account.begin_anew();
        assert!(!account.is_receiving_torn(Continuity::Stream, Gone::Vanished));
    }

    proptest::proptest! {
        #[test]
        fn a_channel_of_messages_is_whole_where_each_one_was_delivered_or_given_up_as_wished(
            outcomes in proptest::collection::vec(0u8..5, 0..50),
        ) {
            let (mut account, mut lost, mut open) = (Account::default(), 0, 0);
            for outcome in outcomes {
                account.handle_sent();
                match outcome {
                    0 => account.handle_end(Outcome::Delivered),
                    1 => account.handle_end(Outcome::Cancelled),
                    2 => account.handle_end(Outcome::Skipped),
                    3 => {
                        account.handle_end(Outcome::Lost);
                        lost += 1;
                    }
                    _ => open += 1,
                }
            }
            let torn = |gone| account.is_sending_torn(Continuity::Messages, gone);
            proptest::prop_assert_eq!(torn(Gone::Restarted), lost > 0);
            proptest::prop_assert_eq!(torn(Gone::Left), lost + open > 0);
            proptest::prop_assert_eq!(torn(Gone::Vanished), lost + open > 0);
            account.begin_anew();
            proptest::prop_assert!(!account.is_sending_torn(Continuity::Messages, Gone::Restarted));
            proptest::prop_assert_eq!(account.is_sending_torn(Continuity::Messages, Gone::Left), open > 0);
        }
    }
}
