//! What is wrong with pictures, and which of them have to be decoded to know.
//!
//! Key frames are decoded, one a second at most. Frozen pictures and flicker show only in pictures that follow each other:
//! for them a run is decoded every ten seconds, and sooner where something speaks for flicker ([`RunSchedule`]), from a key frame on: a
//! whole group of pictures where frozen ones are looked for, else a glance, and longer where it shows something.
//! Where something has been seen that decides an alarm within ten seconds, all pictures are decoded until it is decided, so that an
//! alarm needs no second key frame to begin.

use super::alarm::{Alarm, Source};
use super::blurred::Sharpness;
use super::board::Board;
use super::flicker::{self, CELLS, Flashes, GLANCE};
use super::picture::PictureFigures;
use super::run_schedule::{FlickerCues, RUN_INTERVAL, RunSchedule};
use glassline_media::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// Key frames that follow sooner are not decoded.
const KEY_INTERVAL: Duration = Duration::from_millis(900);
/// Encoders begin anew with a key frame where a picture is unlike the one before: sooner than this, flashes are the usual reason.
const KEY_SOON: Duration = Duration::from_millis(500);
/// How long such a run is at least: groups of one picture show nothing. One that looks for flicker alone is no longer, unless it shows
/// something.
const RUN: Duration = GLANCE;
/// How long a run of a whole group is at most, and how many pictures of it are decoded.
const GROUP: Duration = Duration::from_secs(2);
const GROUP_PICTURES: u32 = 100;
/// The same while there is flicker: that it is over shows in a whole second.
const RUN_ACTIVE: Duration = Duration::from_millis(1200);
/// Alarms that need longer than this to begin or end do so by key frames.
const FOLLOWED_MAX: Duration = Duration::from_secs(10);
/// Pictures further apart do not follow each other.
const GAP: Duration = Duration::from_millis(500);
/// Cells of two key frames that differ by no more may be the same picture: a level of 219.
const SAME: f32 = 1.0 / 219.0;
/// The first pictures after a key frame are not compared: encoders correct there what the key frame lacked.
const CORRECTED: u32 = 3;
/// Key frames that were asked for and have not been measured yet, at most: a decoder holds them back for as many pictures as it puts
/// into order, and further ones come meanwhile only where nearly all pictures are key frames.
const KEYS_EXPECTED_MAX: usize = 32;

/// Which part a picture has in what is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoding {
    /// A key frame that is judged by itself: it comes out at once, however many pictures the decoder would wait for to put them in
    /// order. Whether those that follow are wanted may depend on it.
    KeyFrame,
    /// A key frame that the pictures behind it are decoded with: it comes out in its order.
    RunBegins,
    /// It follows the one that was wanted before.
    GoesOn,
}

/// Whether a unit's picture has to be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Decode(Decoding),
    /// The picture is left out, and those that follow can be decoded without it.
    LeaveOut,
    /// No picture is decoded until the next key frame.
    RunEnds,
}

/// Judges the pictures of one stream.
#[derive(Clone, Debug)]
pub(super) struct Pictures {
    sharpness: Sharpness,
    flashes: Flashes,
    /// The last picture that was measured.
    last_at: Option<Time>,
    /// The last key frame, and the last one that was asked for.
    last_key: Option<Time>,
    key_at: Option<Time>,
    /// All units since that key frame were asked for.
    is_whole: bool,
    /// Pictures that were measured since it, itself left out.
    since_key: u32,
    runs: RunSchedule,
    /// When the last one of a whole group did, and how many pictures of it were asked for behind the key frame.
    group_at: Option<Time>,
    group_pictures: u32,
    /// The next key frame has come, or as many pictures as are decoded of a group.
    is_group_over: bool,
    /// The last key frame's cells.
    key_cells: Option<[f32; CELLS]>,
    /// The last two key frames look the same.
    looks_same: bool,
    /// They differ as pictures of a flash do.
    is_unlike: bool,
    /// Key frames that were asked for and have not been measured yet.
    keys_expected: VecDeque<Time>,
    /// Pictures have differed in the last run, and key frames have looked the same since: a camera that stands still shows the same, but for its noise.
    has_moved: bool,
}

impl Pictures {
    pub(super) fn new(sharpness: Sharpness) -> Pictures {
        Pictures {
            sharpness,
            flashes: Flashes::new(),
            last_at: None,
            last_key: None,
            key_at: None,
            is_whole: false,
            since_key: 0,
            runs: RunSchedule::new(),
            group_at: None,
            group_pictures: 0,
            is_group_over: true,
            key_cells: None,
            looks_same: false,
            is_unlike: false,
            keys_expected: VecDeque::new(),
            has_moved: false,
        }
    }

    pub(super) fn sharpness(&self) -> &Sharpness {
        &self.sharpness
    }

    /// Whether the unit of the picture at `at` has to be decoded.
    pub(super) fn decide(&mut self, is_key: bool, at: Time, board: &Board) -> Decision {
        let of_pictures = |alarm: &Alarm| alarm.source() == Source::Pictures;
        if !Alarm::ALL.iter().filter(|alarm| of_pictures(alarm)).any(|&alarm| board.rules[alarm].enabled) {
            return self.end_run();
        }
        if is_key {
            return self.decide_key(at, board);
        }
        if self.key_at.is_some_and(|key| at < key) {
            // It is shown before the key frame and refers to what lies in front of that, which a decoder that begins there
            // has not got. Nothing behind the key frame refers to it.
            return Decision::LeaveOut;
        }
        if !self.is_whole || !self.follows(at, board) {
            return self.end_run();
        }
        self.group_pictures = self.group_pictures.saturating_add(1);
        self.is_group_over |= self.group_pictures >= GROUP_PICTURES;
        Decision::Decode(Decoding::GoesOn)
    }

    fn decide_key(&mut self, at: Time, board: &Board) -> Decision {
        self.is_group_over = true;
        let is_due = self.key_at.is_none_or(|key| at.since(key) >= KEY_INTERVAL || at < key);
        let is_soon = self.last_key.replace(at).is_some_and(|last| at.since(last) < KEY_SOON && at > last);
        let [looks_for_flicker, looks_for_frozen] =
            [Alarm::Flicker, Alarm::Frozen].map(|alarm| board.rules[alarm].enabled);
        let is_group_due = looks_for_frozen
            && self.group_at.is_none_or(|group| at.since(group) >= RUN_INTERVAL || at < group);
        let cues = FlickerCues {
            is_active: board.is_active(Alarm::Flicker),
            is_soon: looks_for_flicker && is_soon,
            is_unlike: looks_for_flicker && self.is_unlike,
        };
        let is_run_due = self.runs.is_due(at, cues);
        let begins_run = is_group_due || is_run_due && (looks_for_flicker || looks_for_frozen);
        if begins_run {
            self.runs.begin(at, cues);
            self.has_moved = false;
        }
        // For flicker a glance is enough, at a fifth of the cost.
        if is_group_due {
            (self.group_at, self.group_pictures, self.is_group_over) = (Some(at), 0, false);
        }
        let goes_on = begins_run || (self.is_whole && self.follows(at, board));
        if !is_due && !goes_on {
            return self.end_run();
        }
        self.key_at = Some(at);
        self.is_whole = true;
        if self.keys_expected.back().is_some_and(|last| at <= *last) {
            // Time stamps have gone back.
            self.keys_expected.clear();
        }
        if self.keys_expected.len() >= KEYS_EXPECTED_MAX {
            self.keys_expected.pop_front();
        }
        self.keys_expected.push_back(at);
        Decision::Decode(if goes_on { Decoding::RunBegins } else { Decoding::KeyFrame })
    }

    fn end_run(&mut self) -> Decision {
        if std::mem::take(&mut self.is_whole) { Decision::RunEnds } else { Decision::LeaveOut }
    }

    /// Whether pictures between key frames are decoded now.
    fn follows(&self, at: Time, board: &Board) -> bool {
        let length = if board.is_active(Alarm::Flicker) { RUN_ACTIVE } else { RUN };
        let is_in_run = self.runs.begun_at().is_some_and(|run| at >= run && at.since(run) < length);
        let is_in_group = !self.is_group_over && self.group_at.is_some_and(|group| at.since(group) < GROUP);
        let is_undecided = [Alarm::Black, Alarm::Frozen, Alarm::Flicker].into_iter().any(|alarm| {
            let rule = &board.rules[alarm];
            let needed = if board.is_active(alarm) { rule.clear } else { rule.after };
            board.is_undecided(alarm) && needed <= FOLLOWED_MAX
        });
        let looks_frozen = board.rules[Alarm::Frozen].enabled
            && self.looks_same
            && !self.has_moved
            && !board.is_active(Alarm::Frozen);
        let may_flicker = board.rules[Alarm::Flicker].enabled && self.flashes.are_suspect(at);
        is_in_run || is_in_group || is_undecided || looks_frozen || may_flicker
    }

    /// Takes what was measured of the picture at `at`.
    pub(super) fn push(&mut self, figures: &PictureFigures, at: Time, board: &mut Board) {
        let black = figures.brightest_percent;
        board.observe(Alarm::Black, black <= board.rules[Alarm::Black].limit, Some(black), at);
        if self.last_at.is_none_or(|last| at <= last || at.since(last) > GAP) {
            self.flashes = Flashes::new();
        }
        self.last_at = Some(at);
        if let Some(flashes) = self.flashes.push(&figures.cells, at) {
            board.observe_above(Alarm::Flicker, flashes, at);
        }
        if self.flashes.are_suspect(at) {
            self.runs.found_turns();
        }
        if self.takes_key(at) {
            self.push_key(figures, at, board);
            return;
        }
        self.since_key = self.since_key.saturating_add(1);
        if self.since_key > CORRECTED
            && let Some(difference) = figures.difference
        {
            let limit = board.rules[Alarm::Frozen].limit;
            let is_frozen = difference <= limit;
            // Black stands still too, and has an alarm of its own.
            let is_black = black <= board.rules[Alarm::Black].limit;
            board.observe(Alarm::Frozen, is_frozen && !is_black, Some(difference), at);
            self.has_moved |= !is_frozen;
        }
    }

    /// Whether the picture at `at` is a key frame that was asked for. Those that should have come before it do not come any more.
    fn takes_key(&mut self, at: Time) -> bool {
        let mut is_key = false;
        while let Some(key) = self.keys_expected.front().copied().filter(|key| *key <= at) {
            self.keys_expected.pop_front();
            self.since_key = 0;
            is_key = key == at;
        }
        is_key
    }

    fn push_key(&mut self, figures: &PictureFigures, at: Time, board: &mut Board) {
        let is_same = |cells: &[f32; CELLS]| {
            cells.iter().zip(&figures.cells).all(|(before, now)| (before - now).abs() <= SAME)
        };
        self.looks_same = self.key_cells.as_ref().is_some_and(is_same);
        self.is_unlike =
            self.key_cells.as_ref().is_some_and(|cells| flicker::may_be_of_flash(cells, &figures.cells));
        self.has_moved &= self.looks_same;
        self.key_cells = Some(figures.cells);
        if board.is_active(Alarm::Frozen) && !self.looks_same {
            board.observe(Alarm::Frozen, false, None, at);
        }
        match figures.sharpness.map(|sharpness| self.sharpness.push(sharpness, at)) {
            Some(Some(percent)) => board.observe_below(Alarm::Blurred, percent, at),
            // Too little is known.
            Some(None) => {}
            // A picture that shows nothing is not blurred.
            None => board.observe(Alarm::Blurred, false, None, at),
        }
    }

    /// Part of the stream was left out before what comes next.
    pub(super) fn forget(&mut self) {
        self.is_whole = false;
        self.last_at = None;
        self.looks_same = false;
    }
}
