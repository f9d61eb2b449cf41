//! FLV (Adobe Flash Video File Format 10.1, Annex E; Enhanced RTMP v2): its sequence headers and its `onMetaData`.

use super::{Kind, Track, avc_codec_string, shown};
use crate::picture::Size;

const AUDIO: u8 = 8;
const VIDEO: u8 = 9;
const SCRIPT: u8 = 18;
const FILE_HEADER_BYTES: usize = 9;
const TAG_HEADER_BYTES: usize = 11;
const BACK_POINTER_BYTES: usize = 4;

/// What `onMetaData` says.
#[derive(Default)]
struct Told {
    video: Option<f64>,
    audio: Option<f64>,
    width: Option<f64>,
    height: Option<f64>,
}

pub(super) fn tracks(header: &[u8]) -> Vec<Track> {
    let (mut told, mut video, mut audio) = (Told::default(), None, None);
    for (kind, payload) in tags(header) {
        match kind {
            SCRIPT => told.read(payload),
            VIDEO => video = video.or_else(|| video_track(payload)),
            AUDIO => audio = audio.or_else(|| audio_track(payload)),
            _ => {}
        }
    }
    // Where a codec has no sequence header, its number is told all the same.
    let number = |told: Option<f64>| told.and_then(whole);
    let mut video = video.or_else(|| number(told.video).map(|id| Track::new(Kind::Video, video_name(id))));
    let audio = audio.or_else(|| number(told.audio).map(|id| Track::new(Kind::Audio, audio_name(id))));
    if let (Some(video), Some(width), Some(height)) = (&mut video, number(told.width), number(told.height)) {
        video.size = Size::new(width, height).ok();
    }
    video.into_iter().chain(audio).collect()
}

/// The tags behind the file header, up to the first that is not whole.
fn tags(header: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let first = header.get(5..FILE_HEADER_BYTES).and_then(|bytes| bytes.first_chunk());
    let first = first.map_or(usize::MAX, |bytes| u32::from_be_bytes(*bytes) as usize);
    let mut rest = first.checked_add(BACK_POINTER_BYTES).and_then(|at| header.get(at..)).unwrap_or_default();
    std::iter::from_fn(move || {
        let (head, behind) = rest.split_at_checked(TAG_HEADER_BYTES)?;
        let size = u32::from_be_bytes([0, head[1], head[2], head[3]]) as usize;
        let (payload, behind) = behind.split_at_checked(size)?;
        rest = behind.get(BACK_POINTER_BYTES..).unwrap_or_default();
        Some((head[0] & 0x1F, payload))
    })
}

fn video_track(payload: &[u8]) -> Option<Track> {
    let first = *payload.first()?;
    let is_enhanced = first & 0x80 != 0;
    let id = match payload.get(1..5).and_then(|code| code.first_chunk()) {
        Some(code) if is_enhanced => u32::from_be_bytes(*code),
        _ => u32::from(first & 0xF),
    };
    let mut track = Track::new(Kind::Video, video_name(id));
    // Type, packet type or FourCC, and (unless enhanced) composition time stand before the record.
    let record = payload.get(5..).filter(|_| track.codec == "H.264");
    track.codec_string = record.and_then(avc_codec_string);
    Some(track)
}

fn audio_track(payload: &[u8]) -> Option<Track> {
    let format = payload.first()? >> 4;
    let id = match payload.get(1..5).and_then(|code| code.first_chunk()) {
        Some(code) if format == 9 => u32::from_be_bytes(*code),
        _ => u32::from(format),
    };
    Some(Track::new(Kind::Audio, audio_name(id)))
}

/// From a number of the format's table or a FourCC.
pub(in crate::container) fn video_name(id: u32) -> String {
    let name = match id {
        2 => "Sorenson H.263",
        3 | 6 => "Screen video",
        4 | 5 => "VP6",
        7 => "H.264",
        12 => "H.265",
        0..=0xFF => return format!("video codec {id}"),
        id => match &id.to_be_bytes() {
            b"avc1" => "H.264",
            b"hvc1" => "H.265",
            b"vvc1" => "H.266",
            b"av01" => "AV1",
            b"vp08" => "VP8",
            b"vp09" => "VP9",
            other => return shown(other),
        },
    };
    name.into()
}

pub(in crate::container) fn audio_name(id: u32) -> String {
    let name = match id {
        0 | 3 => "PCM",
        1 => "ADPCM",
        2 | 14 => "MP3",
        4..=6 => "Nellymoser",
        7 | 8 => "G.711",
        10 => "AAC",
        11 => "Speex",
        0..=0xFF => return format!("audio codec {id}"),
        id => match &id.to_be_bytes() {
            b"Opus" => "Opus",
            b"mp4a" => "AAC",
            b".mp3" => "MP3",
            b"fLaC" => "FLAC",
            b"ac-3" => "AC-3",
            b"ec-3" => "E-AC-3",
            other => return shown(other),
        },
    };
    name.into()
}

impl Told {
    /// Takes numbers out of a script tag (AMF 0), up to the first value that holds others.
    fn read(&mut self, payload: &[u8]) {
        // A string and an array, or an object, of which an array's length is not needed.
        let Some(rest) = payload.strip_prefix(b"\x02\0\x0AonMetaData") else { return };
        let mut rest = match rest {
            [8, _, _, _, _, rest @ ..] | [3, rest @ ..] => rest,
            _ => return,
        };
        while let Some((key, value, behind)) = property(rest) {
            rest = behind;
            match key {
                b"videocodecid" => self.video = value,
                b"audiocodecid" => self.audio = value,
                b"width" => self.width = value,
                b"height" => self.height = value,
                _ => {}
            }
        }
    }
}

/// The whole number in a property; the largest there is where it is larger.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of a float saturates")]
fn whole(number: f64) -> Option<u32> {
    (number >= 0.0).then_some(number as u32)
}

/// A property at the front of `bytes`: its name, its value if that is a number, and what is behind it.
fn property(bytes: &[u8]) -> Option<(&[u8], Option<f64>, &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (key, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    let (kind, rest) = rest.split_first()?;
    let text = |count: usize, rest: &[u8]| {
        rest.get(..count).map(|bytes| bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)))
    };
    let value_bytes = match kind {
        0 => 8,
        1 => 1,
        2 => 2_usize.checked_add(text(2, rest)?)?,
        5 | 6 => 0,
        11 => 10,
        12 => 4_usize.checked_add(text(4, rest)?)?,
        _ => return None,
    };
    let (value, behind) = rest.split_at_checked(value_bytes)?;
    let number = value.first_chunk().filter(|_| *kind == 0).map(|bytes| f64::from_be_bytes(*bytes));
    Some((key, number, behind))
}
