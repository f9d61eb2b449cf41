//! The `Tracks` element (RFC 9559 §5.1.4) for taking a stream apart: which tracks there are, and how their frames become units.

use super::ebml::{children, text, unsigned};
use super::reorder::Reorder;
use super::{TRACK_ENTRY, TRACK_NUMBER, TRACK_TYPE, TRACKS_MAX, VIDEO};
use crate::access_unit::Codec;
use crate::container::frames::{Frames, Track};
use crate::container::tracks::{CODEC_ID, CODEC_PRIVATE, Kind, webm_name};
use std::borrow::Cow;

pub(super) const AUDIO: u64 = 2;
const SUBTITLE: u64 = 17;
const FLAG_ENABLED: u32 = 0xB9;
const FLAG_DEFAULT: u32 = 0x88;
pub(super) const CODEC_DELAY: u32 = 0x56AA;
const DEFAULT_DURATION: u32 = 0x23_E383;
pub(super) const LANGUAGE: u32 = 0x22_B59C;
const ENCODINGS: u32 = 0x6D80;
const ENCODING: u32 = 0x6240;
const COMPRESSION: u32 = 0x5034;
const ALGORITHM: u32 = 0x4254;
const SETTINGS: u32 = 0x4255;
/// `ContentCompAlgo`: the first bytes of each frame are left out (RFC 9559 §5.1.4.1.31.7).
const HEADER_STRIPPING: u64 = 3;
/// More bytes than this are left out of no frame.
const STRIPPED_MAX_BYTES: usize = 256;

/// A track, and how its frames become units.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// Its number in blocks.
    pub(super) number: u64,
    pub(super) track: Track,
    pub(super) frames: Frames,
    /// What stands in front of each frame.
    pub(super) prefix: Vec<u8>,
    /// What is taken off its times, in nanoseconds.
    pub(super) delay_nanos: u64,
    /// How long a frame lasts, in nanoseconds.
    pub(super) duration_nanos: Option<u64>,
    pub(super) reorder: Reorder,
    is_default: bool,
}

/// The tracks of the payload of a `Tracks` element. Those that are marked as default come first.
pub(super) fn read(payload: &[u8]) -> Vec<Known> {
    let entries = children(payload).filter(|(id, _)| *id == TRACK_ENTRY).take(TRACKS_MAX);
    let mut tracks: Vec<Known> = Vec::new();
    for (index, (_, entry)) in (0u16..).zip(entries) {
        // Of two with one number, blocks are of the first.
        if let Some(known) = track(entry, index)
            && tracks.iter().all(|other| other.number != known.number)
        {
            tracks.push(known);
        }
    }
    tracks.sort_by_key(|known| !known.is_default);
    tracks
}

/// `index`: in the order of the header.
fn track(entry: &[u8], index: u16) -> Option<Known> {
    let field = |wanted: u32| children(entry).find(|(id, _)| *id == wanted).map(|(_, payload)| payload);
    let value = |wanted: u32| field(wanted).and_then(unsigned);
    let number = value(TRACK_NUMBER).filter(|number| *number > 0)?;
    let id = text(field(CODEC_ID)?);
    let (kind, codec) = match value(TRACK_TYPE) {
        Some(VIDEO) => (Kind::Video, video_codec(id)),
        Some(AUDIO) => (Kind::Audio, audio_codec(id)),
        _ => (Kind::Other, None),
    };
    let stripped = stripped(entry);
    let frames = match (&stripped, field(CODEC_PRIVATE)) {
        _ if value(FLAG_ENABLED) == Some(0) => Frames::left_out("it is switched off in its header"),
        (None, _) => Frames::left_out("its frames are compressed or encrypted"),
        (_, Some(record)) => Frames::configured(codec, record)
            .unwrap_or_else(|| Frames::left_out("its configuration (CodecPrivate) is cut off")),
        (_, None) => Frames::annex_b(codec)
            .or_else(|| Frames::unconfigured(codec, &[]))
            .unwrap_or_else(|| Frames::left_out("its configuration (CodecPrivate) is missing")),
    };
    let why = match value(TRACK_TYPE) {
        Some(SUBTITLE) => Some("subtitles beside the pictures are not written"),
        Some(VIDEO | AUDIO) => frames.why,
        _ => Some("it is neither pictures nor sound"),
    };
    let track = Track {
        // Numbers of more than 16 bits are allowed; the last ones are given to such tracks.
        number: u16::try_from(number).unwrap_or(u16::MAX.saturating_sub(index)),
        kind,
        codec: frames.codec,
        format: Cow::Owned(webm_name(id)),
        why,
        language: field(LANGUAGE).and_then(language),
        he_aac: frames.he_aac,
        channels: frames.channels,
    };
    Some(Known {
        number,
        reorder: Reorder::new(frames.reorder_depth()),
        track,
        frames,
        prefix: stripped.unwrap_or_default().to_vec(),
        delay_nanos: value(CODEC_DELAY).unwrap_or(0),
        duration_nanos: value(DEFAULT_DURATION).filter(|nanos| *nanos > 0),
        // It is one unless it says otherwise (RFC 9559 §5.1.4.1.5).
        is_default: value(FLAG_DEFAULT) != Some(0),
    })
}

/// What stands in front of each frame and is left out; `None` where frames are changed in another way.
fn stripped(entry: &[u8]) -> Option<&[u8]> {
    let inside =
        |payload, wanted: u32| children(payload).find(|(id, _)| *id == wanted).map(|(_, inside)| inside);
    let Some(encodings) = inside(entry, ENCODINGS) else { return Some(&[]) };
    let mut all = children(encodings).filter(|(id, _)| *id == ENCODING);
    let (Some((_, encoding)), None) = (all.next(), all.next()) else { return None };
    let compression = inside(encoding, COMPRESSION)?;
    let is_stripping = inside(compression, ALGORITHM).and_then(unsigned) == Some(HEADER_STRIPPING);
    let prefix = inside(compression, SETTINGS).unwrap_or_default();
    (is_stripping && prefix.len() <= STRIPPED_MAX_BYTES).then_some(prefix)
}

/// Of three letters in lower case. "und" says nothing.
fn language(code: &[u8]) -> Option<[u8; 3]> {
    let code: [u8; 3] = text(code).try_into().ok()?;
    (code.iter().all(u8::is_ascii_lowercase) && code != *b"und").then_some(code)
}

fn video_codec(id: &[u8]) -> Option<Codec> {
    match id {
        b"V_MPEG4/ISO/AVC" => Some(Codec::H264),
        b"V_MPEGH/ISO/HEVC" => Some(Codec::H265),
        b"V_AV1" => Some(Codec::Av1),
        _ => None,
    }
}

fn audio_codec(id: &[u8]) -> Option<Codec> {
    match id {
        b"A_OPUS" => Some(Codec::Opus),
        b"A_MPEG/L3" | b"A_MPEG/L2" | b"A_MPEG/L1" => Some(Codec::MpegAudio),
        b"A_AC3" | b"A_AC3/BSID9" | b"A_AC3/BSID10" => Some(Codec::Ac3),
        b"A_EAC3" => Some(Codec::EAc3),
        // Older names say the object type instead of a configuration (draft-ietf-cellar-codec §4.4).
        _ if id == b"A_AAC" || id.starts_with(b"A_AAC/") => Some(Codec::Aac),
        _ => None,
    }
}
