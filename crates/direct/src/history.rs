//! The states behind the pictures that were sent, and what is known of each: what the next picture may be coded against.

use crate::coder::State;
use crate::wire::StateTag;
use glassline_transport::link::MessageId;
use std::collections::BTreeMap;

/// States of pictures without a report that are kept: a second of video, and a bound where a receiver never reports.
const UNANSWERED_MAX: usize = 32;

/// What is known of a picture that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// Nothing.
    Flying,
    /// It is lost, or was coded against one that is.
    Lost,
    /// The receiver says that it has its state.
    Decoded,
}

#[derive(Clone, Debug)]
struct Sent {
    state: State,
    source: Option<u64>,
    message: Option<MessageId>,
    known: Known,
}

/// What a report of a decoded picture was good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is the newest state that both ends have.
    News,
    /// That, or a newer one, was known.
    Old,
    /// It is known now that the receiver has it, and here its state was overwritten: nothing is coded against it.
    Gone,
    /// The receiver's state is another than ours.
    Mismatch,
    /// No such picture was sent, or its state is not kept.
    Unknown,
}

/// Pictures that were sent, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct History {
    sent: BTreeMap<u64, Sent>,
    /// The newest that the receiver has decoded.
    base: Option<u64>,
}

impl History {
    /// Nothing is known of the receiver's states any more.
    pub(crate) fn forget(&mut self) {
        *self = History::default();
    }

    /// How many states are kept.
    pub(crate) fn len(&self) -> usize {
        self.sent.len()
    }

    /// The newest picture that the receiver has decoded.
    pub(crate) fn base(&self) -> Option<u64> {
        self.base
    }

    /// The oldest picture that another may be coded against, beside `next`.
    pub(crate) fn kept(&self, next: u64) -> u64 {
        self.base.or_else(|| self.sent.keys().next().copied()).unwrap_or(next)
    }

    /// A picture was sent.
    pub(crate) fn push(&mut self, number: u64, state: State, source: Option<u64>) {
        let source_is_lost = source.is_some_and(|source| self.is_lost(source));
        let known = if source_is_lost { Known::Lost } else { Known::Flying };
        self.sent.insert(number, Sent { state, source, message: None, known });
        while self.sent.len() > UNANSWERED_MAX {
            // Those that are lost go first: what the receiver will name as its newest is one that nothing is known against.
            let is_other = |number: u64| Some(number) != self.base;
            let lost =
                self.sent.iter().find(|(number, sent)| sent.known == Known::Lost && is_other(**number));
            let oldest = lost.or_else(|| self.sent.iter().find(|(number, _)| is_other(**number)));
            let Some(number) = oldest.map(|(number, _)| *number) else { break };
            self.sent.remove(&number);
        }
    }

    /// By what the link names it.
    pub(crate) fn set_message(&mut self, number: u64, message: MessageId) {
        if let Some(sent) = self.sent.get_mut(&number) {
            sent.message = Some(message);
        }
    }

    /// The picture of a message of the link.
    pub(crate) fn number_of(&self, message: MessageId) -> Option<u64> {
        self.sent.iter().rev().find(|(_, sent)| sent.message == Some(message)).map(|(number, _)| *number)
    }

    fn is_lost(&self, number: u64) -> bool {
        self.sent.get(&number).is_some_and(|sent| sent.known == Known::Lost)
    }

    /// A picture will not come, and what was coded against it cannot be decoded. False where that is no news.
    pub(crate) fn lose(&mut self, number: u64) -> bool {
        match self.sent.get_mut(&number) {
            Some(sent) if sent.known == Known::Flying => sent.known = Known::Lost,
            _ => return false,
        }
        let later: Vec<u64> = self.sent.range(number + 1..).map(|(number, _)| *number).collect();
        for number in later {
            let is_lost = self.sent[&number].source.is_some_and(|source| self.is_lost(source));
            if let Some(sent) = self.sent.get_mut(&number)
                && is_lost
                && sent.known == Known::Flying
            {
                sent.known = Known::Lost;
            }
        }
        true
    }

    /// A picture that was taken for lost has come after all. False where it was not, or its source is lost still.
    pub(crate) fn recover(&mut self, number: u64) -> bool {
        let Some(sent) = self.sent.get(&number).filter(|sent| sent.known == Known::Lost) else {
            return false;
        };
        if sent.source.is_some_and(|source| self.is_lost(source)) {
            return false;
        }
        self.sent.entry(number).and_modify(|sent| sent.known = Known::Flying);
        true
    }

    /// None of the pictures behind `newest` up to `last` will come, or can be decoded. Returns how many that is news of.
    pub(crate) fn lose_up_to(&mut self, newest: Option<u64>, last: u64) -> u64 {
        let from = newest.map_or(0, |newest| newest + 1);
        let numbers: Vec<u64> = if from > last {
            Vec::new()
        } else {
            self.sent.range(from..=last).map(|(number, _)| *number).collect()
        };
        numbers.into_iter().filter(|number| self.lose(*number)).count() as u64
    }

    /// The receiver says that it has decoded a picture, with this state. Older ones are not needed any more where its state is
    /// still here, which `has` says.
    pub(crate) fn handle_decoded(
        &mut self,
        number: u64,
        tag: StateTag,
        has: impl Fn(&State) -> bool,
    ) -> Taken {
        if self.base.is_some_and(|base| number <= base) {
            return Taken::Old;
        }
        let Some(sent) = self.sent.get_mut(&number) else { return Taken::Unknown };
        if sent.state.tag() != tag {
            sent.known = Known::Flying;
            self.lose(number);
            return Taken::Mismatch;
        }
        sent.known = Known::Decoded;
        if !has(&sent.state) {
            return Taken::Gone;
        }
        self.base = Some(number);
        self.sent = self.sent.split_off(&number);
        Taken::News
    }

    /// What another history knows, where pictures are sent by that alone: the next picture was coded against `source`, or a newer one
    /// that is not here, and so are those behind it lost, or, where that was done with caution, not known to be there yet.
    #[cfg(feature = "av1")]
    pub(crate) fn follow(&mut self, source: u64, safely: bool) {
        let Some(number) = self.sent.range(..=source).next_back().map(|(number, _)| *number) else { return };
        if !safely {
            let newer: Vec<u64> = self.sent.range(number + 1..).map(|(number, _)| *number).collect();
            for number in newer {
                self.lose(number);
            }
        } else if self.base.is_none_or(|base| base < number)
            && let Some(sent) = self.sent.get_mut(&number)
        {
            sent.known = Known::Decoded;
            self.base = Some(number);
            self.sent = self.sent.split_off(&number);
        }
    }

    /// Whether the receiver has said that it has this state, and it is here too.
    pub(crate) fn is_common(&self, number: u64, has: impl Fn(&State) -> bool) -> bool {
        self.sent.get(&number).is_some_and(|sent| sent.known == Known::Decoded && has(&sent.state))
    }

    /// What the next picture is coded against: the newest that is not known to be lost, or, where `safely`, the newest that the
    /// receiver has said it has. `has` says which states are still here.
    pub(crate) fn source(&self, safely: bool, has: impl Fn(&State) -> bool) -> Option<(u64, &State)> {
        let is_good = |sent: &Sent| sent.known != Known::Lost && has(&sent.state);
        let newest = || self.sent.iter().rev().find(|(_, sent)| is_good(sent));
        let base = self.base.filter(|_| safely).and_then(|base| self.sent.get_key_value(&base));
        base.filter(|(_, sent)| has(&sent.state)).or_else(newest).map(|(number, sent)| (*number, &sent.state))
    }

    /// The states that are worth something, the dearest first: `source`, what both ends have, then those that the receiver may
    /// say it has. Where only a few can be kept it is best that they are spread over the time that a report takes, so that one
    /// of them is always about to be confirmed: those that are closest to their neighbours are worth least.
    pub(crate) fn dear(&self, source: Option<u64>) -> Vec<&State> {
        let first: Vec<u64> =
            source.into_iter().chain(self.base.filter(|base| Some(*base) != source)).collect();
        let mut others: Vec<u64> = self
            .sent
            .iter()
            .filter(|(number, sent)| sent.known != Known::Lost && !first.contains(number))
            .map(|(number, _)| *number)
            .collect();
        let newest = self.sent.keys().next_back().copied().unwrap_or(0) + 1;
        let mut least_first = Vec::with_capacity(others.len());
        while !others.is_empty() {
            let before = |at: usize| at.checked_sub(1).map_or(self.base.unwrap_or(0), |at| others[at]);
            let gap = |at: usize| others.get(at + 1).unwrap_or(&newest).saturating_sub(before(at));
            let least = (0..others.len()).min_by_key(|at| gap(*at)).unwrap_or(0);
            least_first.push(others.remove(least));
        }
        let numbers = first.into_iter().chain(least_first.into_iter().rev());
        numbers.filter_map(|number| self.sent.get(&number)).map(|sent| &sent.state).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coder::test_state as state;

    fn tag(shade: u8) -> StateTag {
        state(shade).tag()
    }

    fn here(_: &State) -> bool {
        true
    }

    /// Pictures 0 to `count` - 1, each coded against the one before.
    fn chain(count: u8) -> History {
        let mut history = History::default();
        for number in 0..count {
            let source = number.checked_sub(1).map(u64::from);
            history.push(number.into(), state(number * 8), source);
        }
        history
    }

    fn source(history: &History, safely: bool) -> Option<u64> {
        history.source(safely, here).map(|(number, _)| number)
    }

    #[test]
    fn what_is_lost_takes_those_behind_it_along_until_the_receiver_says_that_it_came() {
        let mut history = chain(6);
        assert_eq!(source(&history, false), Some(5));
        assert_eq!(history.handle_decoded(1, tag(8), here), Taken::News);
        assert!(history.lose(3) && !history.lose(3) && !history.lose(5), "5 went along");
        assert_eq!(source(&history, false), Some(2), "the newest that nothing is known against");
        assert_eq!(source(&history, true), Some(1));
        assert_eq!(history.kept(6), 1);
        // The link had given it up, and it comes: what is coded against it waits for the receiver's word.
        assert!(!history.recover(5) && history.recover(3) && !history.recover(3));
        assert_eq!(source(&history, false), Some(3));
        assert!(history.lose(3));
        // One that is coded against what is lost is lost, one against the base is not.
        history.push(6, state(60), Some(5));
        history.push(7, state(70), Some(1));
        assert_eq!(source(&history, false), Some(7));
        // It was only late.
        assert_eq!(history.handle_decoded(5, tag(40), here), Taken::News);
        assert_eq!((source(&history, true), history.kept(8), history.len()), (Some(5), 5, 3));
        assert_eq!(history.handle_decoded(2, tag(16), here), Taken::Old);
    }

    #[test]
    fn a_state_that_is_not_ours_is_not_built_upon() {
        let mut history = chain(3);
        assert_eq!(history.handle_decoded(1, tag(99), here), Taken::Mismatch);
        assert_eq!(source(&history, false), Some(0), "2 is coded against it");
        assert_eq!(history.handle_decoded(9, tag(9), here), Taken::Unknown);
        assert!(!history.is_common(1, here));
    }

    #[test]
    fn who_never_answers_makes_nothing_grow() {
        let mut history = chain(2);
        history.handle_decoded(1, tag(8), here);
        for number in 2..200 {
            history.push(number, state(16), Some(number - 1));
        }
        assert_eq!(history.len(), UNANSWERED_MAX);
        assert_eq!((source(&history, true), source(&history, false)), (Some(1), Some(199)));
        history.forget();
        assert_eq!((source(&history, false), history.kept(200)), (None, 200));
    }

    #[test]
    fn what_is_lost_makes_room_for_what_may_have_come() {
        let mut history = chain(4);
        history.handle_decoded(0, tag(0), here);
        assert!(history.lose(3));
        // A long outage: all that leaves is coded against the newest that may be there, and is given up.
        for number in 4..200 {
            history.push(number, state(200), Some(2));
            assert!(history.lose(number));
        }
        assert_eq!(history.len(), UNANSWERED_MAX);
        assert_eq!(history.handle_decoded(2, tag(16), here), Taken::News, "it had come before the outage");
    }

    #[test]
    fn messages_name_their_pictures() {
        let mut history = chain(3);
        history.set_message(1, MessageId(70));
        history.set_message(2, MessageId(71));
        assert_eq!(history.number_of(MessageId(70)), Some(1));
        assert_eq!(history.number_of(MessageId(72)), None);
    }

    #[test]
    fn what_was_overwritten_is_not_built_upon_and_what_is_kept_is_spread() {
        let mut history = chain(8);
        assert_eq!(history.handle_decoded(0, tag(0), here), Taken::News);
        // The states of 1 to 3 were overwritten.
        let gone = [tag(8), tag(16), tag(24)];
        let has = |state: &State| !gone.contains(&state.tag());
        assert_eq!(history.handle_decoded(2, tag(16), has), Taken::Gone);
        assert!(history.is_common(0, has) && !history.is_common(2, has));
        assert_eq!(history.source(true, has).map(|(number, _)| number), Some(0), "that one both ends have");
        assert_eq!((history.base(), history.kept(8)), (Some(0), 0));
        history.lose(4);
        assert_eq!(
            history.source(false, has).map(|(number, _)| number),
            Some(0),
            "all behind 4 are lost with it"
        );
        let mut history = chain(8);
        history.handle_decoded(0, tag(0), here);
        let dear = |history: &History, source| -> Vec<u64> {
            let number = |found: &State| (0..8).find(|number| tag(number * 8) == found.tag());
            history.dear(source).into_iter().filter_map(number).map(u64::from).collect()
        };
        // Source and base, then the one in the middle, and those beside it last.
        let found = dear(&history, Some(7));
        assert_eq!((&found[..2], found.len()), (&[7, 0][..], 8));
        assert!((3..=4).contains(&found[2]), "{found:?}");
        history.lose(3);
        assert_eq!(dear(&history, Some(0)), [0, 2, 1], "what is lost is worth nothing");
    }
}
