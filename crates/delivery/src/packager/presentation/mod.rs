//! What there is to play: what playlists are rendered from, and what a request for an object is answered by.

mod date_range;
mod grow;
mod length;
mod recorded;
mod rendition;
mod segment;

pub use date_range::DateRange;
pub use length::SegmentLength;
pub use rendition::{Bandwidth, Kind, Position, Rendition, TrackInfo};
pub use segment::later;
pub use segment::{KeyFrame, Part, Segment};
pub(crate) use segment::{duration_of, ticks_of};

use super::{EventStream, RenditionName, Settings};
use crate::playlist::names::Object;
use glassline_media::{Ticks, Utc};
use std::collections::VecDeque;
use std::time::Duration;

/// A time without discontinuity: one time scale, one CMAF header for each rendition; a `Period` of DASH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// Its number, from 1: the discontinuity sequence, and the number of its CMAF headers.
    pub number: u32,
    /// When its first picture or sound is presented, since [`Presentation::begun`] by the times of arrival.
    pub start: Duration,
    /// What times count from: a decoding time stamp of the stream.
    pub zero: Ticks,
    /// When that is since the epoch's zero, which times of segments count from; 90 kHz.
    pub first_ticks: u64,
    /// The number of its first segment; where another version of the capture was joined, of that one's.
    pub first_segment: u64,
    /// How long its segments are, if they are all alike: as long as its first one. They are cut by it from then on. `None` until
    /// that is complete.
    pub segment_length: Option<SegmentLength>,
}

/// What becomes of a request for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    /// It is there, whole or growing.
    Exists,
    /// It is the next of its kind: wait for it.
    Coming,
    /// It was there, and is kept no longer.
    Gone,
    /// It is not there, and not due.
    Unknown,
}

/// What there is to play.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presentation {
    pub(super) settings: Settings,
    pub(super) renditions: Vec<Rendition>,
    pub(super) epochs: VecDeque<Epoch>,
    pub(super) begun: Option<Utc>,
    /// What cues have announced, in that order.
    pub(super) date_ranges: VecDeque<DateRange>,
    pub(super) event_streams: Vec<EventStream>,
    dropped_events: u64,
    pub(super) changed: Utc,
    pub(super) ended: bool,
}

impl Presentation {
    pub(super) fn new(settings: Settings) -> Presentation {
        Presentation {
            settings,
            renditions: Vec::new(),
            epochs: VecDeque::new(),
            begun: None,
            date_ranges: VecDeque::new(),
            event_streams: Vec::new(),
            dropped_events: 0,
            changed: Utc::default(),
            ended: false,
        }
    }

    /// How it is cut.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Its renditions: video first, then sound in the order of the program.
    pub fn renditions(&self) -> &[Rendition] {
        &self.renditions
    }

    /// One of them.
    pub fn rendition(&self, name: RenditionName) -> Option<&Rendition> {
        self.renditions.iter().find(|rendition| rendition.name() == name)
    }

    /// The epochs that segments are kept of, and the one that goes on.
    pub fn epochs(&self) -> impl DoubleEndedIterator<Item = &Epoch> {
        self.epochs.iter()
    }

    /// The kinds of events that chunks of the rendition that segments are cut by carry.
    pub fn event_streams(&self) -> &[EventStream] {
        &self.event_streams
    }

    /// Units of metadata that stand in no chunk: too many waited for one, or none followed.
    pub fn dropped_events(&self) -> u64 {
        self.dropped_events
    }

    /// Counts units of metadata that will stand in no chunk.
    pub(super) fn drop_events(&mut self, count: u64) {
        self.dropped_events = self.dropped_events.saturating_add(count);
    }

    /// One of them.
    pub fn epoch(&self, number: u32) -> Option<&Epoch> {
        self.epochs.iter().find(|epoch| epoch.number == number)
    }

    /// The newest one.
    pub fn current_epoch(&self) -> Option<&Epoch> {
        self.epochs.back()
    }

    /// When its first picture or sound came in.
    pub fn begun(&self) -> Option<Utc> {
        self.begun
    }

    /// When segments or renditions changed the last time.
    pub fn changed(&self) -> Utc {
        self.changed
    }

    /// Whether nothing is added any more.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Whether viewers can begin: there is a rendition, and a part of each one of the current epoch is complete.
    pub fn is_ready(&self) -> bool {
        let Some(epoch) = self.current_epoch() else { return false };
        let mut current = self.renditions.iter().filter(|rendition| rendition.is_in(epoch.number)).peekable();
        current.peek().is_some() && current.all(Rendition::is_playable)
    }

    /// `EXT-X-TARGETDURATION`: seconds that no segment exceeds when rounded. It grows where key frames come later than
    /// the settings would have it, and never shrinks.
    pub fn target_duration_secs(&self) -> u64 {
        let longest = self.renditions.iter().map(|rendition| rendition.longest).max().unwrap_or_default();
        let rounded = (longest + Duration::from_millis(500)).as_secs();
        rounded.max(self.settings.segment.as_millis().div_ceil(1000) as u64).max(1)
    }

    /// What becomes of a request for an object.
    pub fn availability(&self, object: Object) -> Availability {
        use Availability::{Coming, Exists, Unknown};
        match object {
            Object::Multivariant | Object::NumberManifest | Object::TimelineManifest => {
                if self.is_ready() {
                    Exists
                } else {
                    Coming
                }
            }
            Object::Media(name) => self
                .rendition(name)
                .map_or(Unknown, |rendition| if rendition.is_playable() { Exists } else { Coming }),
            Object::IFrames => self.rendition(RenditionName::Video).map_or(Unknown, |_| Exists),
            Object::TransportMedia => Coming,
            Object::TransportSegment { segment } => self.source_availability(segment),
            Object::Init { rendition, number } => {
                let found = self.rendition(rendition).and_then(|rendition| rendition.track_in(number));
                found.map_or(Unknown, |_| Exists)
            }
            Object::Segment { rendition, segment } => self.segment_availability(rendition, segment, None),
            Object::Part { rendition, segment, part } => {
                self.segment_availability(rendition, segment, Some(part))
            }
        }
    }

    /// The rendition that segments are cut by.
    pub fn lead(&self) -> Option<&Rendition> {
        self.renditions.first()
    }

    fn source_availability(&self, number: u64) -> Availability {
        let Some(lead) = self.lead() else { return Availability::Unknown };
        match lead.segment(number) {
            Some(segment) if segment.source.is_some() => Availability::Exists,
            Some(_) => Availability::Unknown,
            None if number < lead.next => Availability::Gone,
            None => Availability::Unknown,
        }
    }

    fn segment_availability(&self, name: RenditionName, number: u64, part: Option<u32>) -> Availability {
        use Availability::{Coming, Exists, Gone, Unknown};
        let Some(rendition) = self.rendition(name) else { return Unknown };
        let coming = if self.ended { Unknown } else { Coming };
        let Some(segment) = rendition.segment(number) else {
            return match part {
                _ if number < rendition.next => Gone,
                None | Some(0) if number == rendition.next => coming,
                _ => Unknown,
            };
        };
        let Some(part) = part else { return if segment.gap { Unknown } else { Exists } };
        if segment.part(part).is_some() {
            Exists
        } else if !segment.complete && part as usize == segment.parts.len() {
            coming
        } else {
            Unknown
        }
    }
}

impl Rendition {
    /// Whether it goes on in an epoch.
    pub fn is_in(&self, epoch: u32) -> bool {
        self.track().is_some_and(|track| track.epoch == epoch)
    }
}
