//! Access units in; CMAF chunks, parts and segments out, which LL-HLS and LL-DASH share (ISO/IEC 23000-19 §7.3).
//!
//! ```text
//!              Choice            Start               Align               Lane (one a rendition)
//! Program ──► which streams     first key frame     sound waits until   pictures ─► chunks ─┬─► parts ─► segments
//! AccessUnit ► become which  ─► and first sound, ─► it is known where ─► sound ─► runs ──────┘
//!              rendition        init segments       video's segments end
//! ```
//! A segment of video ends at a key frame, and those of sound at the same time, so that their numbers agree. What is
//! given out ([`Event`]) is one set of chunks for both protocols; [`Presentation`] is what their playlists are
//! rendered from. The engine keeps the bytes and answers requests.

mod event;
mod presentation;
mod rendition_name;
mod settings;

pub use event::Event;
pub use presentation::{
    Availability, Bandwidth, Epoch, KeyFrame, Kind, Part, Position, Presentation, Rendition, Segment,
    TrackInfo,
};
pub(crate) use presentation::{duration_of, later, ticks_of};
pub use rendition_name::{RenditionName, UnknownRendition};
pub use settings::{PART_RANGE, SEGMENT_RANGE, Settings, SettingsError, WINDOW_RANGE};

use glassline_media::container::ts::Program;
use glassline_media::{AccessUnit, Codec, Utc};
use std::collections::VecDeque;

/// Tracks of sound that are taken of one program.
pub const AUDIO_MAX: u8 = 7;

/// A stream of the program that no rendition is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Where its packets are.
    pub pid: u16,
    /// Its codec, where it is a known one.
    pub codec: Option<Codec>,
    /// Why, for people.
    pub why: &'static str,
}

/// Makes a presentation of a program's access units.
#[derive(Debug)]
pub struct Packager {
    presentation: Presentation,
    events: VecDeque<Event>,
    left_out: Vec<LeftOut>,
}

impl Packager {
    /// A packager before the first unit. Settings that are out of their range are brought into it.
    pub fn new(settings: Settings) -> Packager {
        let presentation = Presentation::new(settings.clamped());
        Packager { presentation, events: VecDeque::new(), left_out: Vec::new() }
    }

    /// The program is this from now on: chooses what renditions are made of.
    pub fn handle_program(&mut self, program: &Program) {
        let _ = program;
    }

    /// Takes the next access unit of the stream on `pid`, which was complete at `now`. What follows from it waits in
    /// [`Packager::poll`].
    pub fn push(&mut self, pid: u16, unit: &AccessUnit, now: Utc) {
        let _ = (pid, unit, now);
    }

    /// What comes next has nothing to do with what came before: a publisher has returned.
    pub fn discontinuity(&mut self, now: Utc) {
        let _ = now;
    }

    /// Nothing comes any more.
    pub fn finish(&mut self, now: Utc) {
        let _ = now;
    }

    /// The next event. Poll until `None` after each call above, or they pile up.
    pub fn poll(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// What there is to play.
    pub fn presentation(&self) -> &Presentation {
        &self.presentation
    }

    /// The program's streams that no rendition is made of.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }
}
