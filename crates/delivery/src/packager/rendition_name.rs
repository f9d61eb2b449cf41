//! The names that renditions have in addresses.

use super::AUDIO_MAX;
use std::fmt;
use std::str::FromStr;

/// Which rendition: the name in its objects' addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RenditionName {
    /// `video`.
    Video,
    /// `audio` (1), `audio-2`, …, up to [`AUDIO_MAX`].
    Audio(u8),
}

impl RenditionName {
    /// All that there may be, pictures first.
    pub fn all() -> impl Iterator<Item = RenditionName> {
        std::iter::once(RenditionName::Video).chain((1..=AUDIO_MAX).map(RenditionName::Audio))
    }

    /// Whether it is pictures.
    pub const fn is_video(self) -> bool {
        matches!(self, RenditionName::Video)
    }
}

impl fmt::Display for RenditionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RenditionName::Video => f.write_str("video"),
            RenditionName::Audio(1) => f.write_str("audio"),
            RenditionName::Audio(number) => write!(f, "audio-{number}"),
        }
    }
}

/// Text that names no rendition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no rendition has this name; expected video, audio, audio-2, …")]
pub struct UnknownRendition;

impl FromStr for RenditionName {
    type Err = UnknownRendition;

    fn from_str(text: &str) -> Result<RenditionName, UnknownRendition> {
        match text {
            "video" => return Ok(RenditionName::Video),
            "audio" => return Ok(RenditionName::Audio(1)),
            _ => {}
        }
        let number = text.strip_prefix("audio-").ok_or(UnknownRendition)?;
        (2..=AUDIO_MAX)
            .find(|candidate| candidate.to_string() == number)
            .map(RenditionName::Audio)
            .ok_or(UnknownRendition)
    }
}
