//! WebM and Matroska (RFC 9559): the `Tracks` element, and the codec registry's names (draft-ietf-cellar-codec).

use super::{Kind, TRACKS_MAX, Track, avc_codec_string, shown};
use crate::container::webm::ebml::{children, head, text, unsigned};
use crate::picture::Size;

const SEGMENT: u32 = 0x1853_8067;
const TRACKS: u32 = 0x1654_AE6B;
const TRACK_ENTRY: u32 = 0xAE;
const TRACK_TYPE: u32 = 0x83;
pub(in crate::container) const CODEC_ID: u32 = 0x86;
pub(in crate::container) const CODEC_PRIVATE: u32 = 0x63A2;
const VIDEO: u32 = 0xE0;
const PIXEL_WIDTH: u32 = 0xB0;
const PIXEL_HEIGHT: u32 = 0xBA;

pub(super) fn tracks(header: &[u8]) -> Vec<Track> {
    let entries = children(segment(header)).filter(|(id, _)| *id == TRACKS);
    let entries = entries.flat_map(|(_, tracks)| children(tracks)).filter(|(id, _)| *id == TRACK_ENTRY);
    entries.filter_map(|(_, entry)| track(entry)).take(TRACKS_MAX).collect()
}

/// What is in the segment. The segment's size is as a rule not known.
fn segment(mut header: &[u8]) -> &[u8] {
    while let Some((id, size, rest)) = head(header) {
        if id == SEGMENT {
            return rest;
        }
        let behind = usize::try_from(size).ok().and_then(|size| rest.get(size..));
        header = behind.unwrap_or_default();
    }
    &[]
}

fn track(entry: &[u8]) -> Option<Track> {
    let field = |wanted: u32| children(entry).find(|(id, _)| *id == wanted).map(|(_, payload)| payload);
    let kind = match field(TRACK_TYPE).and_then(unsigned) {
        Some(1) => Kind::Video,
        Some(2) => Kind::Audio,
        _ => Kind::Other,
    };
    let mut track = Track::new(kind, name(text(field(CODEC_ID)?)));
    if let Some(video) = field(VIDEO) {
        let side = |wanted: u32| {
            let found = children(video).find(|(id, _)| *id == wanted);
            found.and_then(|(_, payload)| unsigned(payload)).and_then(|side| u32::try_from(side).ok())
        };
        track.size = side(PIXEL_WIDTH).zip(side(PIXEL_HEIGHT)).and_then(|(width, height)| {
            // Sides that no room takes are not worth telling.
            Size::new(width, height).ok()
        });
    }
    track.codec_string = field(CODEC_PRIVATE).filter(|_| track.codec == "H.264").and_then(avc_codec_string);
    Some(track)
}

/// The name of a codec for people, by its identifier.
pub(in crate::container) fn name(id: &[u8]) -> String {
    let id = shown(id);
    let known = match id.as_str() {
        "V_VP8" => "VP8",
        "V_VP9" => "VP9",
        "V_AV1" => "AV1",
        "V_MPEG4/ISO/AVC" => "H.264",
        "V_MPEGH/ISO/HEVC" => "H.265",
        "V_MPEG2" => "MPEG-2 video",
        "V_THEORA" => "Theora",
        "V_FFV1" => "FFV1",
        "A_OPUS" => "Opus",
        "A_VORBIS" => "Vorbis",
        "A_FLAC" => "FLAC",
        "A_AC3" => "AC-3",
        "A_EAC3" => "E-AC-3",
        "A_MPEG/L3" => "MP3",
        id if id == "A_AAC" || id.starts_with("A_AAC/") => "AAC",
        id if id.starts_with("A_PCM/") => "PCM",
        _ => return id,
    };
    known.into()
}
