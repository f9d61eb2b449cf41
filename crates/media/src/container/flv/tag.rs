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

/// The kinds of packets of Enhanced RTMP, of sound and of pictures. Of pictures 4 is metadata, 5 the start of a sequence as
/// MPEG-TS tells it; of sound 4 is the places of channels: the access units bring all of it.
const SEQUENCE_START: u8 = 0;
const CODED_FRAMES: u8 = 1;
const CODED_FRAMES_X: u8 = 3;
const AUDIO_MULTITRACK: u8 = 5;
const VIDEO_MULTITRACK: u8 = 6;
const MOD_EX: u8 = 7;
/// How several tracks lie in a tag: one alone, many of one codec, each with its codec.
const ONE_TRACK: u8 = 0;
const MANY_TRACKS: u8 = 1;
const MANY_CODECS: u8 = 2;
/// The modifier that says how many nanoseconds later than its time a tag is (three bytes).
const NANOSECONDS: u8 = 0;
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
pub(super) struct Content<'a> {
    pub(super) packet: Packet<'a>,
    /// Beside it there are tracks other than number 0.
    pub(super) has_others: bool,
    /// By how much the tag is later than its time, below a millisecond.
    pub(super) nanos: u32,
}

/// What is in a tag of its track number 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packet<'a> {
    /// What a decoder has to know of the frames that follow.
    Header { format: Format, record: &'a [u8] },
    /// A frame, presented so many milliseconds after its tag's time.
    Coded { format: Format, data: &'a [u8], is_key: bool, composition_ms: i32 },
    /// The end of a sequence, metadata, a command to the player; or nothing of that track.
    Nothing,
}

impl<'a> From<Packet<'a>> for Content<'a> {
    fn from(packet: Packet<'a>) -> Content<'a> {
        Content { packet, has_others: false, nanos: 0 }
    }
}

/// What is in a tag of pictures; `None` where it is cut off.
pub(super) fn video(payload: &[u8]) -> Option<Content<'_>> {
    let (&first, rest) = payload.split_first()?;
    let (is_enhanced, frame_type) = (first & 0x80 != 0, first >> 4 & 7);
    let is_key = frame_type == KEY_FRAME;
    if frame_type == COMMAND {
        return Some(Packet::Nothing.into());
    }
    if is_enhanced {
        return enhanced(first & 0xF, rest, VIDEO_MULTITRACK, |packet_type, letters, rest| {
            video_packet(packet_type, letters, is_key, rest)
        });
    }
    let format = Format { is_video: true, id: u32::from(first & 0xF) };
    if !matches!(first & 0xF, AVC | HEVC) {
        return Some(Packet::Coded { format, data: rest, is_key, composition_ms: 0 }.into());
    }
    let (&packet_type, rest) = rest.split_first()?;
    let packet = match packet_type {
        0 => Packet::Header { format, record: composition(rest)?.1 },
        1 => {
            let (composition_ms, data) = composition(rest)?;
            Packet::Coded { format, data, is_key, composition_ms }
        }
        _ => Packet::Nothing,
    };
    Some(packet.into())
}

/// What is in a tag of sound; `None` where it is cut off.
pub(super) fn audio(payload: &[u8]) -> Option<Content<'_>> {
    let (&first, rest) = payload.split_first()?;
    let id = first >> 4;
    if id == ENHANCED_AUDIO {
        return enhanced(first & 0xF, rest, AUDIO_MULTITRACK, audio_packet);
    }
    let format = Format { is_video: false, id: u32::from(id) };
    let coded = |data| Packet::Coded { format, data, is_key: true, composition_ms: 0 };
    if id != AAC {
        return Some(coded(rest).into());
    }
    let (&packet_type, rest) = rest.split_first()?;
    Some(if packet_type == 0 { Packet::Header { format, record: rest } } else { coded(rest) }.into())
}

fn video_packet(packet_type: u8, letters: [u8; 4], is_key: bool, rest: &[u8]) -> Option<Packet<'_>> {
    let format = Format { is_video: true, id: u32::from_be_bytes(letters) };
    Some(match packet_type {
        SEQUENCE_START => Packet::Header { format, record: rest },
        CODED_FRAMES if matches!(&letters, b"avc1" | b"hvc1" | b"vvc1") => {
            let (composition_ms, data) = composition(rest)?;
            Packet::Coded { format, data, is_key, composition_ms }
        }
        CODED_FRAMES | CODED_FRAMES_X => Packet::Coded { format, data: rest, is_key, composition_ms: 0 },
        _ => Packet::Nothing,
    })
}

fn audio_packet(packet_type: u8, letters: [u8; 4], rest: &[u8]) -> Option<Packet<'_>> {
    let format = Format { is_video: false, id: u32::from_be_bytes(letters) };
    Some(match packet_type {
        SEQUENCE_START => Packet::Header { format, record: rest },
        CODED_FRAMES => Packet::Coded { format, data: rest, is_key: true, composition_ms: 0 },
        _ => Packet::Nothing,
    })
}

/// What is in a tag of Enhanced RTMP behind its first byte, where `packet` reads a packet of this kind and codec.
fn enhanced<'a>(
    packet_type: u8,
    rest: &'a [u8],
    multitrack: u8,
    packet: impl Fn(u8, [u8; 4], &'a [u8]) -> Option<Packet<'a>>,
) -> Option<Content<'a>> {
    let (packet_type, nanos, rest) = behind_mod_ex(packet_type, rest)?;
    let (packet, has_others) = if packet_type == multitrack {
        let (&kinds, rest) = rest.split_first()?;
        let (track, has_others) = first_track(kinds >> 4, rest)?;
        let packet = track.map(|(letters, body)| packet(kinds & 0xF, letters, body));
        (packet.unwrap_or(Some(Packet::Nothing))?, has_others)
    } else {
        let (&letters, rest) = rest.split_first_chunk()?;
        (packet(packet_type, letters, rest)?, false)
    };
    Some(Content { packet, has_others, nanos })
}

/// A track within a tag: the letters of its codec, and its body.
type Body<'a> = ([u8; 4], &'a [u8]);

/// Finds track number 0 among several, and tells whether there are others.
fn first_track(layout: u8, mut rest: &[u8]) -> Option<(Option<Body<'_>>, bool)> {
    let (mut found, mut has_others) = (None, false);
    let mut letters = [0; 4];
    if layout != MANY_CODECS {
        (letters, rest) = rest.split_first_chunk().map(|(letters, rest)| (*letters, rest))?;
    }
    while !rest.is_empty() {
        if layout == MANY_CODECS {
            (letters, rest) = rest.split_first_chunk().map(|(letters, rest)| (*letters, rest))?;
        }
        let (&number, behind) = rest.split_first()?;
        let (body, behind) = match layout {
            ONE_TRACK => (behind, &[][..]),
            MANY_TRACKS | MANY_CODECS => {
                let (&[a, b, c], behind) = behind.split_first_chunk()?;
                behind.split_at_checked(u32::from_be_bytes([0, a, b, c]) as usize)?
            }
            _ => return None,
        };
        rest = behind;
        match number {
            0 => found = Some((letters, body)),
            _ => has_others = true,
        }
    }
    Some((found, has_others))
}

/// How much later than decoded a picture is presented, as a signed number of 24 bits, and what is behind that.
fn composition(bytes: &[u8]) -> Option<(i32, &[u8])> {
    let (&[a, b, c], data) = bytes.split_first_chunk()?;
    Some((i32::from_be_bytes([a, b, c, 0]) >> 8, data))
}

/// Reads what modifies a packet of Enhanced RTMP (`ModEx`). Returns the packet's kind, the nanoseconds that modifiers tell, and
/// what is behind them.
fn behind_mod_ex(mut packet_type: u8, mut rest: &[u8]) -> Option<(u8, u32, &[u8])> {
    let mut nanos = 0;
    while packet_type == MOD_EX {
        let (&size, behind) = rest.split_first()?;
        let (size, behind) = match size {
            // Its length less one is 255: the length is in the two bytes that follow.
            u8::MAX => {
                behind.split_first_chunk().map(|(size, behind)| (u16::from_be_bytes(*size), behind))?
            }
            size => (u16::from(size), behind),
        };
        let (data, behind) = behind.split_at_checked(usize::from(size).saturating_add(1))?;
        let (&kinds, behind) = behind.split_first()?;
        if let (NANOSECONDS, Some(&[a, b, c])) = (kinds >> 4, data.first_chunk()) {
            nanos = u32::from_be_bytes([0, a, b, c]).min(999_999);
        }
        (packet_type, rest) = (kinds & 0xF, behind);
    }
    Some((packet_type, nanos, rest))
}
