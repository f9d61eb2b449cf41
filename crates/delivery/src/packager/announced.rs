//! The streams that a source announces, whatever its container.

use glassline_media::Codec;
use glassline_media::bitstream::aac_config::HeAac;
use glassline_media::container::flv::demux::Track;
use glassline_media::container::ts::DataKind;
use glassline_media::container::ts::psi::ElementaryStream;
use std::borrow::Cow;

/// A stream of sound or pictures, or something else, as its container announces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announced {
    /// Its number in the source: a PID of MPEG-TS, the type of its tags in FLV, its number in WebM.
    pub pid: u16,
    /// Its codec, where it is one that we know.
    pub codec: Option<Codec>,
    /// Its codec or format, for people.
    pub format: Cow<'static, str>,
    /// Why no rendition is made of it, where that is not for the codec alone.
    pub why: Option<&'static str>,
    /// ISO 639-2 code of its language, three ASCII letters.
    pub language: Option<[u8; 3]>,
    /// That AAC is HE-AAC, where that is said.
    pub he_aac: Option<HeAac>,
    /// What of data it is, where events are made of it.
    pub data: Option<DataKind>,
}

impl From<&ElementaryStream> for Announced {
    fn from(stream: &ElementaryStream) -> Announced {
        let unknown = || format!("an unknown format (stream type 0x{:02x})", stream.stream_type).into();
        let why = match stream.codec {
            Some(Codec::Opus) if stream.opus_channels.is_some_and(|channels| channels > 2) => {
                Some("Opus of more than two channels is not written to MP4")
            }
            None if stream.is_subtitles() => {
                Some("subtitles beside the pictures are not written; captions within the pictures are kept")
            }
            None if !stream.is_video() && !stream.is_audio() => Some("it is neither pictures nor sound"),
            _ => None,
        };
        Announced {
            pid: stream.pid,
            codec: stream.codec,
            format: stream.format_name().map_or_else(unknown, Cow::from),
            why,
            language: stream.language,
            he_aac: stream.he_aac,
            data: stream.data_kind(),
        }
    }
}

impl From<Track> for Announced {
    fn from(track: Track) -> Announced {
        let Track { number: pid, codec, format, why, language, he_aac, .. } = track;
        Announced { pid, codec, format, why, language, he_aac, data: None }
    }
}
