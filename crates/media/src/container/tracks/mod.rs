//! What a container's header says of the tracks behind it: for display to people, where a stream is only carried.
//!
//! In: the header as [`split`](super::split) tells it. Out: a [`Track`] for each that is named, as far as it is. A
//! header may say wrong things, or nothing; it is not used for decoding.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

mod flv;
mod ogg;
mod webm;

pub(super) use flv::{audio_name as flv_audio_name, video_name as flv_video_name};
pub(super) use webm::{CODEC_ID, CODEC_PRIVATE, name as webm_name};

use super::split::Container;
use crate::picture::Size;

/// What a track carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Pictures.
    Video,
    /// Sound.
    Audio,
    /// Something else: subtitles, words about others.
    Other,
}

/// A track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    /// What it carries.
    pub kind: Kind,
    /// The codec's name that people read; where that is not known, what the container calls it (at most 40 visible
    /// ASCII characters).
    pub codec: String,
    /// The pictures' width and height in pixels.
    pub size: Option<Size>,
    /// RFC 6381 name, as browsers ask for it: `avc1.42C01F`.
    pub codec_string: Option<String>,
}

/// Tracks that are told.
const TRACKS_MAX: usize = 64;
/// Characters of a name that is not known.
const NAME_MAX: usize = 40;

impl Track {
    fn new(kind: Kind, codec: impl Into<String>) -> Track {
        Track { kind, codec: codec.into(), size: None, codec_string: None }
    }
}

/// The tracks that `header` names, in its order. Costs a walk over the header.
pub fn tracks(container: Container, header: &[u8]) -> Vec<Track> {
    match container {
        Container::Flv => flv::tracks(header),
        Container::WebM => webm::tracks(header),
        Container::Ogg => ogg::tracks(header),
    }
}

/// What may be shown of a name that came from outside.
fn shown(name: &[u8]) -> String {
    let visible = name.iter().filter(|byte| byte.is_ascii_graphic()).take(NAME_MAX);
    visible.map(|byte| char::from(*byte)).collect()
}

/// From the configuration record of H.264 (ISO/IEC 14496-15 §5.3.3.1): its profile, constraints and level.
fn avc_codec_string(record: &[u8]) -> Option<String> {
    match record {
        [1, profile, constraints, level, ..] => {
            Some(format!("avc1.{profile:02X}{constraints:02X}{level:02X}"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
