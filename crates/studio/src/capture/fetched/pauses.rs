//! After which pause a picture is whole, of sources that do not show it otherwise.
//!
//! ```text
//! bytes of pictures   ▌▌▌▌▌            ▌▌▌▌            ▌▌▌▌▌▌
//! within a picture     ···              ··               ····      inner pauses
//! between pictures         ············    ············            outer pauses
//! ```
//! Most encoders send a picture in one burst, and pause until the next one. Then a pause that is longer than any within the last
//! pictures, and far shorter than any between them, shows the end of a picture, most of a picture's time before the next one does.
//! Of a source that spreads its packets evenly nothing is guessed, and after a guess that was wrong not for a while.

use glassline_media::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// Pictures that are looked back at.
const PICTURES: usize = 16;
/// The shortest pause that shows anything: threads wake late by as much.
const SHORTEST: Duration = Duration::from_millis(4);
/// Pictures without a guess after the first one that was wrong; twice as many after each further one,
const RESTED: u32 = 64;
/// up to so many.
const RESTED_MAX: u32 = 1 << 12;

#[derive(Debug, Default)]
pub(super) struct Pauses {
    /// When bytes of a picture last came.
    last: Option<Time>,
    /// The longest pause within the picture that comes now.
    pub(super) inner: Duration,
    /// Of the last pictures, the longest pause within each, and the one in front of it.
    pictures: VecDeque<(Duration, Duration)>,
    /// The pause in front of the picture that comes now.
    outer: Option<Duration>,
    /// So many pictures are left without a guess.
    rests: u32,
    wrong: u32,
}

impl Pauses {
    /// Bytes of pictures have come; `begins` where a picture begins among them.
    pub(super) fn handle_bytes(&mut self, begins: bool, now: Time) {
        let pause = self.last.map(|last| now.since(last));
        self.last = Some(now);
        if !begins {
            self.inner = self.inner.max(pause.unwrap_or_default());
            return;
        }
        if let Some(outer) = self.outer {
            self.pictures.push_back((self.inner, outer));
            if self.pictures.len() > PICTURES {
                self.pictures.pop_front();
            }
        }
        (self.inner, self.outer) = (Duration::ZERO, pause);
        self.rests = self.rests.saturating_sub(1);
    }

    /// More of a picture has come that was taken for whole.
    pub(super) fn handle_wrong_guess(&mut self) {
        self.rests = (RESTED << self.wrong.min(31)).clamp(RESTED, RESTED_MAX);
        self.wrong = (self.wrong + 1).min(6);
    }

    /// When the picture that has begun is whole, if nothing comes until then; `None` where that is not known.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        if self.rests > 0 || self.pictures.len() < PICTURES {
            return None;
        }
        let inner = self.pictures.iter().map(|(inner, _)| *inner).max()?.max(self.inner);
        let outer = self.pictures.iter().map(|(_, outer)| *outer).min()?;
        let wait = SHORTEST.max(inner * 2 + Duration::from_millis(1));
        (outer > wait + wait / 2).then(|| self.last.map(|last| last + wait)).flatten()
    }

    /// What comes next is of another place of the stream.
    pub(super) fn restart(&mut self) {
        (self.last, self.outer, self.inner) = (None, None, Duration::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pictures each 40 ms, of as many bursts as `inner` has pauses (in ms) and one more. Returns when it is over.
    fn pictures(pauses: &mut Pauses, from: u64, count: u64, inner: &[u64]) -> u64 {
        for picture in 0..count {
            let mut at = from + picture * 40;
            pauses.handle_bytes(true, Time::from_millis(at));
            for pause in inner {
                at += pause;
                pauses.handle_bytes(false, Time::from_millis(at));
            }
        }
        from + count * 40
    }

    #[test]
    fn a_picture_in_one_burst_is_whole_after_a_short_pause_once_enough_were_seen() {
        let mut pauses = Pauses::default();
        pictures(&mut pauses, 0, 17, &[]);
        assert_eq!(pauses.poll_timeout(), None);
        let over = pictures(&mut pauses, 17 * 40, 1, &[]);
        assert_eq!(pauses.poll_timeout(), Some(Time::from_millis(over - 40 + 4)));
    }

    #[test]
    fn the_pause_is_longer_than_those_within_pictures() {
        let mut pauses = Pauses::default();
        let over = pictures(&mut pauses, 0, 20, &[1, 5, 2]);
        assert_eq!(pauses.poll_timeout(), Some(Time::from_millis(over - 40 + 8 + 11)));
    }

    #[test]
    fn of_a_source_that_spreads_its_packets_nothing_is_guessed() {
        let mut pauses = Pauses::default();
        pictures(&mut pauses, 0, 40, &[8, 8, 8, 8]);
        assert_eq!(pauses.poll_timeout(), None);
        // One burst with several pictures in it, as TCP gives them after a loss.
        let mut pauses = Pauses::default();
        let over = pictures(&mut pauses, 0, 20, &[]);
        pauses.handle_bytes(true, Time::from_millis(over));
        pauses.handle_bytes(true, Time::from_millis(over));
        pauses.handle_bytes(true, Time::from_millis(over));
        assert_eq!(pauses.poll_timeout(), None);
    }

    #[test]
    fn after_a_wrong_guess_there_is_none_for_a_while_and_longer_after_each() {
        let mut pauses = Pauses::default();
        let mut over = pictures(&mut pauses, 0, 20, &[]);
        for rested in [64, 128, 256] {
            assert!(pauses.poll_timeout().is_some());
            pauses.handle_wrong_guess();
            over = pictures(&mut pauses, over, rested - 1, &[]);
            assert_eq!(pauses.poll_timeout(), None);
            over = pictures(&mut pauses, over, 1, &[]);
        }
        for _ in 0..100 {
            pauses.handle_wrong_guess();
        }
        over = pictures(&mut pauses, over, u64::from(RESTED_MAX), &[]);
        assert!(over > 0 && pauses.poll_timeout().is_some());
    }
}
