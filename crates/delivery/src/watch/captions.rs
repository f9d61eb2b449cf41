//! Captions that are no longer there.
//!
//! Captions of CEA-608 and CEA-708 come with every picture, if only as padding: seconds without them are an encoder or a cable that has
//! lost them. Subtitles of DVB come when there is something to read, so that they may stay away for twelve times as long.

use super::alarm::Alarm;
use super::board::Board;
use glassline_media::Time;

/// Fewer than these were there by chance.
const CAPTIONS_MIN: u32 = 3;
const SUBTITLES_MIN: u32 = 2;
/// How much longer subtitles may stay away.
const SUBTITLES_FACTOR: f64 = 12.0;

/// Follows both kinds of one stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Captions {
    captions: (u32, Time),
    subtitles: (u32, Time),
}

impl Captions {
    /// A picture has come, with or without captions.
    pub(super) fn push_picture(&mut self, has_captions: bool, at: Time, board: &mut Board) {
        if has_captions {
            self.captions = (self.captions.0.saturating_add(1), at);
        }
        let seconds = |newest: Time| at.since(newest).as_secs_f64();
        let (captions, subtitles) = (self.captions, self.subtitles);
        let absent = match (captions.0 >= CAPTIONS_MIN, subtitles.0 >= SUBTITLES_MIN) {
            (false, false) => return,
            (true, false) => seconds(captions.1),
            (false, true) => seconds(subtitles.1) / SUBTITLES_FACTOR,
            (true, true) => seconds(captions.1).max(seconds(subtitles.1) / SUBTITLES_FACTOR),
        };
        let limit = board.rules[Alarm::Captions].limit;
        board.observe(Alarm::Captions, absent >= limit, Some(absent), at);
    }

    /// A subtitle has come.
    pub(super) fn push_subtitle(&mut self, at: Time) {
        self.subtitles = (self.subtitles.0.saturating_add(1), at);
    }
}
