//! Sound and pictures that drift apart.
//!
//! How far apart their time stamps are as they arrive depends on the multiplexer, and is no fault. What has changed since then is one:
//! viewers' players can no longer hold both, or play them apart.

use super::alarm::Alarm;
use super::board::Board;
use super::median::Recent;
use glassline_media::{Ticks, Time};
use std::time::Duration;

/// What the median is taken over.
const SPAN: Duration = Duration::from_secs(600);
/// Seconds that are needed before anything is said.
const LEARNED: usize = 5;
const SECOND: Duration = Duration::from_secs(1);
/// Distances that a second may have; more are left out.
const DISTANCES_MAX: usize = 512;

/// Follows the distance of sound and pictures.
#[derive(Clone, Debug)]
pub(super) struct AvSync {
    newest_picture: Option<Ticks>,
    /// The newest sound since that picture.
    newest_sound: Option<Ticks>,
    /// The distances of the second that is open, in ms, and when it began.
    open: Vec<f64>,
    since: Option<Time>,
    seconds: Recent,
}

impl AvSync {
    pub(super) fn new() -> AvSync {
        let seconds = Recent::new(SPAN, 600);
        AvSync { newest_picture: None, newest_sound: None, open: Vec::new(), since: None, seconds }
    }

    /// Sound has come. The last of what comes between two pictures counts: multiplexers send several frames of quiet sound at once.
    pub(super) fn push_sound(&mut self, pts: Ticks) {
        self.newest_sound = Some(pts);
    }

    /// A picture has come. Its time of decoding counts: that of presentation goes back and forth.
    pub(super) fn push_picture(&mut self, dts: Ticks, at: Time, board: &mut Board) {
        // Without sound since the last one there is no distance: it would grow without meaning.
        if let (Some(picture), Some(sound)) = (self.newest_picture.replace(dts), self.newest_sound.take())
            && self.open.len() < DISTANCES_MAX
        {
            self.open.push(Ticks(sound.0.saturating_sub(picture.0)).as_secs_f64() * 1e3);
        }
        let since = *self.since.get_or_insert(at);
        if at.since(since) < SECOND && at >= since {
            return;
        }
        self.since = Some(at);
        let mut second = std::mem::take(&mut self.open);
        if second.is_empty() {
            return;
        }
        let middle = (second.len() - 1) / 2;
        let distance = *second.select_nth_unstable_by(middle, f64::total_cmp).1;
        let median = self.seconds.median();
        self.seconds.push(at, distance);
        if let Some(median) = median.filter(|_| self.seconds.len() > LEARNED) {
            board.observe_above(Alarm::AvSync, (distance - median).abs(), at);
        }
    }

    /// Part of the stream was left out.
    pub(super) fn forget(&mut self) {
        (self.newest_picture, self.newest_sound, self.since) = (None, None, None);
        self.open.clear();
    }
}
