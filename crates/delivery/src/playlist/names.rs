//! The addresses of a presentation's objects, relative to `/live/NAME/`: written into playlists, and understood again
//! when they are asked for.
//!
//! ```text
//! index.m3u8                the multivariant playlist          manifest.mpd   DASH, segments by number
//! RENDITION.m3u8            a media playlist                   timeline.mpd   DASH, segments by time
//! video-iframes.m3u8        key frames alone
//! RENDITION/init-E.mp4      the CMAF header of epoch E
//! RENDITION/N.m4s           segment N
//! RENDITION/N.K.m4s         part K of segment N
//! ts.m3u8, ts/N.ts          segments of MPEG-TS, for players that know no others
//! ```
//! Each object has one address: numbers have no sign and no zeros in front.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use crate::packager::RenditionName;
use std::fmt;
use std::str::FromStr;

/// The longest path that can name an object, in bytes.
const PATH_MAX_BYTES: usize = 64;

/// What stands behind an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Object {
    /// The HLS multivariant playlist.
    Multivariant,
    /// A rendition's HLS media playlist.
    Media(RenditionName),
    /// The HLS playlist of the video's key frames.
    IFrames,
    /// The HLS media playlist of segments of MPEG-TS, with all that the stream has in them.
    TransportMedia,
    /// The DASH manifest that addresses segments by number, at regular times.
    NumberManifest,
    /// The DASH manifest that lists the time of each segment.
    TimelineManifest,
    /// A CMAF header.
    Init {
        /// The rendition.
        rendition: RenditionName,
        /// Its epoch.
        number: u32,
    },
    /// A segment.
    Segment {
        /// The rendition.
        rendition: RenditionName,
        /// Its number.
        segment: u64,
    },
    /// The stream's own bytes of the time of a segment.
    TransportSegment {
        /// The segment's number.
        segment: u64,
    },
    /// A part of a segment.
    Part {
        /// The rendition.
        rendition: RenditionName,
        /// The segment's number.
        segment: u64,
        /// Its number in the segment.
        part: u32,
    },
}

/// A path that names no object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no playlist, segment or part has this name")]
pub struct UnknownObject;

impl Object {
    /// Whether it is what a player asks for first: the others are named by these.
    pub const fn is_entry(self) -> bool {
        matches!(
            self,
            Object::Multivariant | Object::TransportMedia | Object::NumberManifest | Object::TimelineManifest
        )
    }

    /// Its media type (RFC 8216 §4, RFC 4337, ISO/IEC 23009-1 annex C).
    pub const fn media_type(self) -> &'static str {
        match self {
            Object::Multivariant | Object::Media(_) | Object::IFrames | Object::TransportMedia => {
                "application/vnd.apple.mpegurl"
            }
            Object::TransportSegment { .. } => "video/mp2t",
            Object::NumberManifest | Object::TimelineManifest => "application/dash+xml",
            Object::Init { rendition, .. }
            | Object::Segment { rendition, .. }
            | Object::Part { rendition, .. } => {
                if rendition.is_video() {
                    "video/mp4"
                } else {
                    "audio/mp4"
                }
            }
        }
    }

    /// Whether it changes while the presentation goes on; otherwise, once whole, it is the same for ever.
    pub const fn is_playlist(self) -> bool {
        use Object::{Init, Part, Segment, TransportSegment};
        !matches!(self, Init { .. } | Segment { .. } | TransportSegment { .. } | Part { .. })
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Object::Multivariant => f.write_str("index.m3u8"),
            Object::Media(rendition) => write!(f, "{rendition}.m3u8"),
            Object::IFrames => f.write_str("video-iframes.m3u8"),
            Object::TransportMedia => f.write_str("ts.m3u8"),
            Object::TransportSegment { segment } => write!(f, "ts/{segment}.ts"),
            Object::NumberManifest => f.write_str("manifest.mpd"),
            Object::TimelineManifest => f.write_str("timeline.mpd"),
            Object::Init { rendition, number } => write!(f, "{rendition}/init-{number}.mp4"),
            Object::Segment { rendition, segment } => write!(f, "{rendition}/{segment}.m4s"),
            Object::Part { rendition, segment, part } => write!(f, "{rendition}/{segment}.{part}.m4s"),
        }
    }
}

impl FromStr for Object {
    type Err = UnknownObject;

    /// Understands a path relative to `/live/NAME/`, without query and without percent-encoding, which no object needs.
    fn from_str(path: &str) -> Result<Object, UnknownObject> {
        if path.len() > PATH_MAX_BYTES {
            return Err(UnknownObject);
        }
        match path {
            "index.m3u8" => return Ok(Object::Multivariant),
            "video-iframes.m3u8" => return Ok(Object::IFrames),
            "ts.m3u8" => return Ok(Object::TransportMedia),
            "manifest.mpd" => return Ok(Object::NumberManifest),
            "timeline.mpd" => return Ok(Object::TimelineManifest),
            _ => {}
        }
        let known = |text: &str| text.parse::<RenditionName>().map_err(|_| UnknownObject);
        let Some((rendition, file)) = path.split_once('/') else {
            return path.strip_suffix(".m3u8").ok_or(UnknownObject).and_then(known).map(Object::Media);
        };
        if rendition == "ts" {
            let number = file.strip_suffix(".ts").ok_or(UnknownObject)?;
            return Ok(Object::TransportSegment { segment: canonical(number)? });
        }
        let rendition = known(rendition)?;
        if let Some(number) = file.strip_prefix("init-").and_then(|rest| rest.strip_suffix(".mp4")) {
            return Ok(Object::Init { rendition, number: canonical(number)? });
        }
        let numbers = file.strip_suffix(".m4s").ok_or(UnknownObject)?;
        match numbers.split_once('.') {
            None => Ok(Object::Segment { rendition, segment: canonical(numbers)? }),
            Some((segment, part)) => {
                Ok(Object::Part { rendition, segment: canonical(segment)?, part: canonical(part)? })
            }
        }
    }
}

/// The address of any segment of a rendition, with DASH's `$Number$` for its number (23009-1 §5.3.9.4.4).
pub(super) fn segment_template(rendition: RenditionName) -> String {
    format!("{rendition}/$Number$.m4s")
}

/// A number in the one form that it is written in.
fn canonical<N: FromStr>(digits: &str) -> Result<N, UnknownObject> {
    let is_plain =
        digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    if is_plain { digits.parse().map_err(|_| UnknownObject) } else { Err(UnknownObject) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rendition() -> impl Strategy<Value = RenditionName> {
        prop_oneof![
            Just(RenditionName::Video),
            (1..=crate::packager::AUDIO_MAX).prop_map(RenditionName::Audio)
        ]
    }

    fn object() -> impl Strategy<Value = Object> {
        prop_oneof![
            Just(Object::Multivariant),
            Just(Object::IFrames),
            Just(Object::NumberManifest),
            Just(Object::TimelineManifest),
            Just(Object::TransportMedia),
            any::<u64>().prop_map(|segment| Object::TransportSegment { segment }),
            rendition().prop_map(Object::Media),
            (rendition(), any::<u32>()).prop_map(|(rendition, number)| Object::Init { rendition, number }),
            (rendition(), any::<u64>())
                .prop_map(|(rendition, segment)| Object::Segment { rendition, segment }),
            (rendition(), any::<u64>(), any::<u32>()).prop_map(|(rendition, segment, part)| Object::Part {
                rendition,
                segment,
                part
            }),
        ]
    }

    #[test]
    fn hostile_paths_name_nothing() {
        let hostile = [
            "",
            "/",
            ".",
            "..",
            "../index.m3u8",
            "video/../index.m3u8",
            "video//1.m4s",
            "/video/1.m4s",
            "video/",
            "video/.m4s",
            "video/01.m4s",
            "video/+1.m4s",
            "video/-1.m4s",
            "video/1..m4s",
            "video/1.2.3.m4s",
            "video/1.m4s/",
            "video/1.m4s\0",
            "video/18446744073709551616.m4s",
            "video/1.4294967296.m4s",
            "video/init-.mp4",
            "video/init-4294967296.mp4",
            "video/init-00.mp4",
            "video/%31.m4s",
            "video/١.m4s",
            "audio-0/1.m4s",
            "audio-1/1.m4s",
            "audio-02/1.m4s",
            "audio-255.m3u8",
            "audio-999.m3u8",
            "Video.m3u8",
            "video/1.M4S",
            "index.m3u8?x",
            "video\\1.m4s",
            "video/1/2.m4s",
            "ts/1.m4s",
            "ts/01.ts",
            "video/1.ts",
            "live/video/1.m4s",
        ];
        for path in hostile {
            assert_eq!(path.parse::<Object>(), Err(UnknownObject), "{path:?}");
        }
        let long = format!("video/{}.m4s", "1".repeat(100_000));
        assert_eq!(long.parse::<Object>(), Err(UnknownObject));
    }

    #[test]
    fn the_template_is_a_segments_address() {
        let rendition = RenditionName::Audio(2);
        let written = segment_template(rendition).replace("$Number$", "12");
        assert_eq!(written.parse(), Ok(Object::Segment { rendition, segment: 12 }));
    }

    #[test]
    fn the_addresses_are_those_of_the_contract() {
        let rendition = RenditionName::Audio(2);
        assert_eq!(Object::Part { rendition, segment: 7, part: 0 }.to_string(), "audio-2/7.0.m4s");
        assert_eq!(Object::Init { rendition, number: 3 }.to_string(), "audio-2/init-3.mp4");
        assert_eq!("video.m3u8".parse(), Ok(Object::Media(RenditionName::Video)));
        assert_eq!(
            "audio/12.m4s".parse(),
            Ok(Object::Segment { rendition: RenditionName::Audio(1), segment: 12 })
        );
    }

    proptest! {
        #[test]
        fn an_address_is_understood_as_what_it_was_written_for(object in object()) {
            prop_assert_eq!(object.to_string().parse(), Ok(object));
        }

        #[test]
        fn what_is_understood_is_written_the_same(path in "[a-z0-9./+-]{0,24}|(video|audio)/[0-9.]{0,8}\\.m4s") {
            if let Ok(object) = path.parse::<Object>() {
                prop_assert_eq!(object.to_string(), path);
            }
        }
    }
}
