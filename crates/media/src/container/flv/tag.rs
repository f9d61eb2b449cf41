//! What is in a tag of sound or pictures (Adobe Flash Video File Format 10.1, E.4.2 and E.4.3; Enhanced RTMP v2, "Enhanced
//! Audio" and "Enhanced Video").
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::{AAC, AVC, ENHANCED_AUDIO, HEVC};
use crate::access_unit::Codec;
use crate::container::tracks::{flv_audio_name, flv_video_name};

/// The kinds of packets of Enhanced RTMP, of sound and of pictures.
const SEQUENCE_START: u8 = 0;
const CODED_FRAMES: u8 = 1;
const CODED_FRAMES_X: u8 = 3;
const AUDIO_MULTITRACK: u8 = 5;
const VIDEO_MULTITRACK: u8 = 6;
const MOD_EX: u8 = 7;
/// Frame types (E.4.3).
const KEY_FRAME: u8 = 1;
const COMMAND: u8 = 5;
/// Layer III of MPEG audio; the second one at 8 kHz.
const MP3: u8 = 2;
const MP3_8_KHZ: u8 = 14;

/// A format: a number of the format's tables (below 16), or the four letters of Enhanced RTMP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Format {
    pub(super) is_video: bool,
    id: u32,
}

impl Format {
    /// The codec of its units; `None` where none are made.
    pub(super) fn codec(self) -> Option<Codec> {
        let letters = self.id.to_be_bytes();
        match (u8::try_from(self.id), self.is_video) {
            (Ok(AVC), true) => Some(Codec::H264),
            (Ok(HEVC), true) => Some(Codec::H265),
            (Ok(AAC), false) => Some(Codec::Aac),
            (Ok(MP3 | MP3_8_KHZ), false) => Some(Codec::MpegAudio),
            (Ok(_), _) => None,
            (Err(_), true) => match &letters {
                b"avc1" => Some(Codec::H264),
                b"hvc1" => Some(Codec::H265),
                b"av01" => Some(Codec::Av1),
                _ => None,
            },
            (Err(_), false) => match &letters {
                b"mp4a" => Some(Codec::Aac),
                b"Opus" => Some(Codec::Opus),
                b".mp3" => Some(Codec::MpegAudio),
                b"ac-3" => Some(Codec::Ac3),
                b"ec-3" => Some(Codec::EAc3),
                _ => None,
            },
        }
    }

    /// Its name, for people.
    pub(super) fn name(self) -> String {
        if self.is_video { flv_video_name(self.id) } else { flv_audio_name(self.id) }
    }
}

/// A tag's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packet<'a> {
    /// What a decoder has to know of the frames that follow.
    Header { format: Format, record: &'a [u8] },
    /// A frame, presented so many milliseconds after its tag's time.
    Coded { format: Format, data: &'a [u8], is_key: bool, composition_ms: i32 },
    /// Of several tracks.
    Several,
    /// The end of a sequence, metadata, a command to the player.
    Nothing,
}

/// What is in a tag of pictures; `None` where it is cut off.
pub(super) fn video(payload: &[u8]) -> Option<Packet<'_>> {
    let (&first, rest) = payload.split_first()?;
    let (is_enhanced, frame_type) = (first & 0x80 != 0, first >> 4 & 7);
    let is_key = frame_type == KEY_FRAME;
    if frame_type == COMMAND {
        return Some(Packet::Nothing);
    }
    if is_enhanced {
        let (packet_type, rest) = behind_mod_ex(first & 0xF, rest)?;
        return match packet_type {
            VIDEO_MULTITRACK => Some(Packet::Several),
            SEQUENCE_START | CODED_FRAMES | CODED_FRAMES_X => {
                let (letters, rest) = rest.split_first_chunk()?;
                let format = Format { is_video: true, id: u32::from_be_bytes(*letters) };
                if packet_type == SEQUENCE_START {
                    return Some(Packet::Header { format, record: rest });
                }
                let has_time = packet_type == CODED_FRAMES && matches!(letters, b"avc1" | b"hvc1" | b"vvc1");
                let (composition_ms, data) = if has_time { composition(rest)? } else { (0, rest) };
                Some(Packet::Coded { format, data, is_key, composition_ms })
            }
            _ => Some(Packet::Nothing),
        };
    }
    let format = Format { is_video: true, id: u32::from(first & 0xF) };
    if !matches!(first & 0xF, AVC | HEVC) {
        return Some(Packet::Coded { format, data: rest, is_key, composition_ms: 0 });
    }
    let (&packet_type, rest) = rest.split_first()?;
    match packet_type {
        0 => composition(rest).map(|(_, record)| Packet::Header { format, record }),
        1 => composition(rest).map(|(composition_ms, data)| Packet::Coded {
            format,
            data,
            is_key,
            composition_ms,
        }),
        _ => Some(Packet::Nothing),
    }
}

/// What is in a tag of sound; `None` where it is cut off.
pub(super) fn audio(payload: &[u8]) -> Option<Packet<'_>> {
    let (&first, rest) = payload.split_first()?;
    let coded = |format, data| Some(Packet::Coded { format, data, is_key: true, composition_ms: 0 });
    let id = first >> 4;
    if id == ENHANCED_AUDIO {
        let (packet_type, rest) = behind_mod_ex(first & 0xF, rest)?;
        if packet_type == AUDIO_MULTITRACK {
            return Some(Packet::Several);
        }
        if !matches!(packet_type, SEQUENCE_START | CODED_FRAMES) {
            return Some(Packet::Nothing);
        }
        let (letters, rest) = rest.split_first_chunk()?;
        let format = Format { is_video: false, id: u32::from_be_bytes(*letters) };
        return if packet_type == SEQUENCE_START {
            Some(Packet::Header { format, record: rest })
        } else {
            coded(format, rest)
        };
    }
    let format = Format { is_video: false, id: u32::from(id) };
    if id != AAC {
        return coded(format, rest);
    }
    let (&packet_type, rest) = rest.split_first()?;
    if packet_type == 0 { Some(Packet::Header { format, record: rest }) } else { coded(format, rest) }
}

/// How much later than decoded a picture is presented, as a signed number of 24 bits, and what is behind that.
fn composition(bytes: &[u8]) -> Option<(i32, &[u8])> {
    let (&[a, b, c], data) = bytes.split_first_chunk()?;
    Some((i32::from_be_bytes([a, b, c, 0]) >> 8, data))
}

/// Passes over what modifies a packet of Enhanced RTMP (`ModEx`: nanoseconds are the only use so far). Returns the packet's kind,
/// and what is behind it.
fn behind_mod_ex(mut packet_type: u8, mut rest: &[u8]) -> Option<(u8, &[u8])> {
    while packet_type == MOD_EX {
        let (&size, behind) = rest.split_first()?;
        let (size, behind) = match size {
            // Its length less one is 255: the length is in the two bytes that follow.
            u8::MAX => {
                behind.split_first_chunk().map(|(size, behind)| (u16::from_be_bytes(*size), behind))?
            }
            size => (u16::from(size), behind),
        };
        let behind = behind.get(usize::from(size).saturating_add(1)..)?;
        let (&kinds, behind) = behind.split_first()?;
        (packet_type, rest) = (kinds & 0xF, behind);
    }
    Some((packet_type, rest))
}
