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
}
