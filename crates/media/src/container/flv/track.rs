//! A track of FLV: what its sequence header says, and the access units that are made of its frames.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::tag::Format;
use crate::container::frames::{Coded, Coming, Frames, Taken, Track};
use crate::container::tracks::Kind;

/// The number of the track of pictures: the type of its tags.
pub const VIDEO_TRACK: u16 = 9;
/// The number of the track of sound.
pub const AUDIO_TRACK: u16 = 8;

/// A track, and how its frames become units.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) format: Format,
    pub(super) track: Track,
    /// The sequence header.
    record: Vec<u8>,
    frames: Frames,
}

impl Known {
    fn new(format: Format, frames: Frames, record: &[u8]) -> Known {
        let (number, kind) = match format.is_video {
            true => (VIDEO_TRACK, Kind::Video),
            false => (AUDIO_TRACK, Kind::Audio),
        };
        let track = Track {
            number,
            kind,
            codec: frames.codec,
            format: format.name().into(),
            why: frames.why,
            language: None,
            he_aac: frames.he_aac,
            channels: frames.channels,
        };
        Known { format, track, record: record.to_vec(), frames }
    }

    /// The track that a sequence header begins; `None` where that is cut off.
    pub(super) fn configured(format: Format, record: &[u8]) -> Option<Known> {
        Some(Known::new(format, Frames::configured(format.codec(), record)?, record))
    }

    /// The track that a frame begins, before which no sequence header came; `None` where one is needed.
    pub(super) fn unconfigured(format: Format, data: &[u8]) -> Option<Known> {
        Some(Known::new(format, Frames::unconfigured(format.codec(), data)?, &[]))
    }

    /// Whether a sequence header says nothing new. Encoders repeat it.
    pub(super) fn is_configured_by(&self, format: Format, record: &[u8]) -> bool {
        self.format == format && self.record == record && !self.frames.is_adts()
    }

    /// Makes access units of a frame.
    pub(super) fn take(&mut self, coded: &Coded<'_>, units: &mut Vec<Coming>) -> Taken {
        self.frames.take(coded, units)
    }
}
