//! Watches that pictures come, and says when they don't.

use glassline_media::Time;
use std::time::Duration;

/// Longer than this without a picture is worth a line.
const SILENCE: Duration = Duration::from_secs(1);

/// What there is to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StallEvent {
    /// The source gives nothing.
    Stalled,
    /// It gives pictures again, after so long.
    Again(Duration),
}

/// When the last picture came, and whether its absence was told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
    last: Time,
    told: bool,
}

impl Watch {
    /// Begins to wait for the first picture.
    pub(super) fn new(now: Time) -> Watch {
        Watch { last: now, told: false }
    }

    /// When to [`look`](Watch::look) if no picture comes before; `None` once it was told.
    pub(super) fn due(&self) -> Option<Time> {
        (!self.told).then(|| self.last + SILENCE)
    }

    /// A picture came.
    pub(super) fn picture(&mut self, now: Time) -> Option<StallEvent> {
        let silence = now.since(self.last);
        let said = self.told.then_some(StallEvent::Again(silence));
        *self = Watch { last: now, told: false };
        said
    }

    /// Nothing came.
    pub(super) fn look(&mut self, now: Time) -> Option<StallEvent> {
        let stalled = !self.told && now.since(self.last) >= SILENCE;
        self.told |= stalled;
        stalled.then_some(StallEvent::Stalled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_is_told_once_and_its_end_too() {
        let at = |millis: u64| Time::from_millis(10_000 + millis);
        let mut watch = Watch::new(at(0));
        assert_eq!((watch.due(), watch.look(at(999)), watch.picture(at(900))), (Some(at(1000)), None, None));
        assert_eq!(watch.look(at(1500)), None);
        assert_eq!(
            (watch.look(at(1900)), watch.due(), watch.look(at(5000))),
            (Some(StallEvent::Stalled), None, None)
        );
        assert_eq!(watch.picture(at(6000)), Some(StallEvent::Again(Duration::from_millis(5100))));
        assert_eq!(watch.picture(at(6020)), None);
    }
    #[test]
    fn a_source_that_never_begins_is_told_a_second_after_the_watch_began() {
        let at = Time::from_millis;
        let mut watch = Watch::new(at(500));
        assert_eq!((watch.look(at(1_499)), watch.look(at(1_500))), (None, Some(StallEvent::Stalled)));
    }

    #[test]
    fn each_picture_puts_the_next_look_off_by_a_second() {
        let at = Time::from_millis;
        let mut watch = Watch::new(at(0));
        for time in [40, 80, 900] {
            assert_eq!(watch.picture(at(time)), None);
            assert_eq!(watch.due(), Some(at(time + 1_000)));
        }
    }

    #[test]
    fn a_second_silence_is_told_like_the_first() {
        let at = Time::from_millis;
        let mut watch = Watch::new(at(0));
        for begin in [0, 10_000, 20_000] {
            watch.picture(at(begin));
            assert_eq!(watch.look(at(begin + 1_000)), Some(StallEvent::Stalled));
            let again = watch.picture(at(begin + 2_000));
            assert_eq!(again, Some(StallEvent::Again(Duration::from_secs(2))));
        }
    }
}
