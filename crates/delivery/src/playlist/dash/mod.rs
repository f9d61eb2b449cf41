//! LL-DASH (ISO/IEC 23009-1:2022; DASH-IF "Low-latency Modes for DASH").
//!
//! ```text
//! MPD ─► ServiceDescription (latency)
//!     └► Period, one an epoch ─► AdaptationSet, one a rendition ─► SegmentTemplate ($Number$, or SegmentTimeline)
//! ```
//! [`Addressing::Number`] is for players that stay close to the live edge: segments are addressed by the clock, before
//! they are complete. That needs segments of equal length; where they are not, and for all that is past, the segments are
//! listed instead ([`Addressing::Timeline`]).

mod mpd;
mod period;
mod recorded;
mod segments;
mod set;
mod utc_timing;
mod xml;

pub use mpd::mpd;
pub(crate) use recorded::{Recorded, RecordedPeriod, recorded};

use super::date::{date_time, xml_duration};
use super::query::Carried;
use std::time::Duration;

/// How segments are addressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressing {
    /// By number, at regular times, as they grow: `manifest.mpd`.
    Number,
    /// By a list of those that are complete: `timeline.mpd`.
    Timeline,
}

/// What a manifest says beside what there is to play.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What is put behind each address.
    pub carried: Carried,
    /// Where players ask for the time (`urn:mpeg:dash:utc:http-iso:2014`): an address that answers with a date and time of
    /// ISO 8601. Default: `/api/time`.
    pub utc_timing: String,
    /// How far behind the live edge players have to stay; by default three parts, and half a second at least. Where
    /// segments are listed, the time in which nothing newer is listed is added.
    pub latency: Option<Duration>,
}

impl Default for Options {
    fn default() -> Options {
        Options { carried: Carried::default(), utc_timing: "/api/time".to_owned(), latency: None }
    }
}
