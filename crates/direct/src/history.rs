//! The states behind the pictures that were sent, and what is known of each: what the next picture may be coded against.

use crate::wire::StateTag;
use glassline_codec::vp8::State;
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

    /// The receiver says that it has decoded a picture, with this state. Older ones are not needed any more.
    pub(crate) fn handle_decoded(&mut self, number: u64, tag: StateTag) -> Taken {
        if self.base.is_some_and(|base| number <= base) {
            return Taken::Old;
        }
        let Some(sent) = self.sent.get_mut(&number) else { return Taken::Unknown };
        if StateTag::from(sent.state.hash()) != tag {
            sent.known = Known::Flying;
            self.lose(number);
            return Taken::Mismatch;
        }
        sent.known = Known::Decoded;
        self.base = Some(number);
        self.sent = self.sent.split_off(&number);
        Taken::News
    }

    /// Whether the receiver has said that it has this state.
    pub(crate) fn is_decoded(&self, number: u64) -> bool {
        self.sent.get(&number).is_some_and(|sent| sent.known == Known::Decoded)
    }

    /// What the next picture is coded against: the newest that is not known to be lost, or, where `safely`, the newest that the
    /// receiver has said it has.
    pub(crate) fn source(&self, safely: bool) -> Option<(u64, &State)> {
        let newest = || self.sent.iter().rev().find(|(_, sent)| sent.known != Known::Lost);
        let base = self.base.filter(|_| safely).and_then(|base| self.sent.get_key_value(&base));
        base.or_else(newest).map(|(number, sent)| (*number, &sent.state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_codec::vp8::{Request, encode};
    use glassline_media::{Picture, PixelFormat, Size, Time};

    /// A state for each picture; each is another.
    fn state(shade: u8) -> State {
        let mut picture = Picture::new(PixelFormat::I420, Size::new(16, 16).unwrap(), Time::ZERO);
        picture.planes_mut()[0].lines_mut().for_each(|line| line.fill(shade));
        encode(&State::new(), &picture, &Request::default()).unwrap().state
    }

    fn tag(shade: u8) -> StateTag {
        state(shade).hash().into()
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
        history.source(safely).map(|(number, _)| number)
    }

    #[test]
    fn what_is_lost_takes_those_behind_it_along_until_the_receiver_says_that_it_came() {
        let mut history = chain(6);
        assert_eq!(source(&history, false), Some(5));
        assert_eq!(history.handle_decoded(1, tag(8)), Taken::News);
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
        assert_eq!(history.handle_decoded(5, tag(40)), Taken::News);
        assert_eq!((source(&history, true), history.kept(8), history.len()), (Some(5), 5, 3));
        assert_eq!(history.handle_decoded(2, tag(16)), Taken::Old);
    }

    #[test]
    fn a_state_that_is_not_ours_is_not_built_upon() {
        let mut history = chain(3);
        assert_eq!(history.handle_decoded(1, tag(99)), Taken::Mismatch);
        assert_eq!(source(&history, false), Some(0), "2 is coded against it");
        assert_eq!(history.handle_decoded(9, tag(9)), Taken::Unknown);
        assert!(!history.is_decoded(1));
    }

    #[test]
    fn who_never_answers_makes_nothing_grow() {
        let mut history = chain(2);
        history.handle_decoded(1, tag(8));
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
        history.handle_decoded(0, tag(0));
        assert!(history.lose(3));
        // A long outage: all that leaves is coded against the newest that may be there, and is given up.
        for number in 4..200 {
            history.push(number, state(200), Some(2));
            assert!(history.lose(number));
        }
        assert_eq!(history.len(), UNANSWERED_MAX);
        assert_eq!(history.handle_decoded(2, tag(16)), Taken::News, "it had come before the outage");
    }

    #[test]
    fn messages_name_their_pictures() {
        let mut history = chain(3);
        history.set_message(1, MessageId(70));
        history.set_message(2, MessageId(71));
        assert_eq!(history.number_of(MessageId(70)), Some(1));
        assert_eq!(history.number_of(MessageId(72)), None);
    }
}
