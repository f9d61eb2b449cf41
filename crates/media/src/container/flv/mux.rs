//! Access units in, bodies of FLV tags out (Adobe Flash Video File Format 10.1, E.4.2 and E.4.3; Enhanced RTMP v2, "Enhanced
//! Audio" and "Enhanced Video"): what [`demux`](super::demux) takes apart.
//!
//! ```text
//! unit ─► TagWriter::new ─► header: sequence header (SPS and PPS, AudioSpecificConfig, …)
//!      └─► TagWriter::write ─► coded frame: NAL units behind their lengths, raw AAC, …
//! ```
//! H.264, AAC and MP3 have the numbers of the specification, which every server knows; the other codecs have the four letters of
//! Enhanced RTMP. What a decoder is told and the form of a frame are those of MP4 ([`Media`]).
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::{AAC, AVC, ENHANCED_AUDIO};
use crate::access_unit::{AccessUnit, Codec};
use crate::container::cmaf::{Error, Media};

/// Frame types (E.4.3).
const KEY_FRAME: u8 = 1;
const INTER_FRAME: u8 = 2;
/// The bit that says that letters follow (Enhanced RTMP v2, "Enhanced Video").
const ENHANCED_VIDEO: u8 = 0x80;
/// Packet types, of the specification and of Enhanced RTMP.
const SEQUENCE_HEADER: u8 = 0;
const CODED_FRAMES: u8 = 1;
/// Layer III of MPEG audio.
const MP3: u8 = 2;
/// 44.1 kHz, 16 bits, stereo: what AAC always says here (E.4.2.1).
const SOUND_FORMAT: u8 = 0xf;
/// The least and the most that a picture may be presented after it is decoded: a signed number of 24 bits.
const COMPOSITION_MS: std::ops::RangeInclusive<i32> = -0x80_0000..=0x7f_ffff;

/// How a codec is told in a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagFormat {
    /// By a number that the specification has: every server takes it.
    Number(u8),
    /// By four letters, which a server has to know.
    Letters(&'static str),
}

impl TagFormat {
    /// How `codec` is told; `None` where no tag carries it.
    pub const fn of(codec: Codec) -> Option<TagFormat> {
        Some(match codec {
            Codec::H264 => TagFormat::Number(AVC),
            Codec::Aac => TagFormat::Number(AAC),
            Codec::MpegAudio => TagFormat::Number(MP3),
            Codec::H265 => TagFormat::Letters("hvc1"),
            Codec::Av1 => TagFormat::Letters("av01"),
            Codec::Opus => TagFormat::Letters("Opus"),
            Codec::Ac3 => TagFormat::Letters("ac-3"),
            Codec::EAc3 => TagFormat::Letters("ec-3"),
            Codec::Mpeg2Video | Codec::S302m => return None,
        })
    }

    /// What metadata has as the codec's identity (E.5; Enhanced RTMP v2, "Enhancing onMetaData"): the number, or the letters as one.
    pub fn id(self) -> u32 {
        match self {
            TagFormat::Number(number) => number.into(),
            TagFormat::Letters(letters) => letters.bytes().fold(0, |id, byte| id << 8 | u32::from(byte)),
        }
    }
}

/// What became of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It goes on from what came before.
    Frame,
    /// Its parameter sets are others than before: [`TagWriter::header`] has to go in front of it.
    AfterHeader,
}

/// Makes the tags of one track.
#[derive(Clone, Debug)]
pub struct TagWriter {
    codec: Codec,
    format: TagFormat,
    media: Media,
}

impl TagWriter {
    /// The track that `unit` begins: of pictures a key frame that brings its parameter sets.
    ///
    /// # Errors
    /// No tag carries the codec, or the unit does not say what a decoder has to know.
    pub fn new(unit: &AccessUnit) -> Result<TagWriter, Error> {
        let format = TagFormat::of(unit.codec).ok_or(Error::Codec { codec: unit.codec })?;
        Ok(TagWriter { codec: unit.codec, format, media: Media::of(unit, false)? })
    }

    /// What a decoder is told.
    pub fn media(&self) -> &Media {
        &self.media
    }

    /// How its codec is told.
    pub fn format(&self) -> TagFormat {
        self.format
    }

    /// Whether it is of pictures.
    pub fn is_video(&self) -> bool {
        self.codec.is_video()
    }

    /// The body of the sequence header; `None` where frames say all themselves (MP3, AC-3).
    pub fn header(&self) -> Option<Vec<u8>> {
        let record = self.media.configuration();
        let mut body = match (self.format, self.is_video()) {
            (TagFormat::Number(AVC), _) => vec![KEY_FRAME << 4 | AVC, SEQUENCE_HEADER, 0, 0, 0],
            (TagFormat::Number(AAC), _) => vec![AAC << 4 | SOUND_FORMAT, SEQUENCE_HEADER],
            (TagFormat::Number(_), _) => return None,
            (TagFormat::Letters(letters), true) => lettered(video_head(true, SEQUENCE_HEADER), letters),
            (TagFormat::Letters(letters), false) => match &self.media {
                Media::Opus { channels } => {
                    let mut body = lettered(ENHANCED_AUDIO << 4 | SEQUENCE_HEADER, letters);
                    write_opus_head(*channels, &mut body);
                    return Some(body);
                }
                _ => return None,
            },
        };
        body.extend_from_slice(&record);
        Some(body)
    }

    /// Makes the body of a coded frame, presented `composition_ms` after its tag's time. Sound is presented at that time.
    ///
    /// # Errors
    /// The unit is another codec's or cannot be read; of H.264 and H.265 also where its parameter sets are others and not whole. What
    /// the track was told before holds.
    pub fn write(&mut self, unit: &AccessUnit, composition_ms: i32) -> Result<(Written, Vec<u8>), Error> {
        let mut body = self.frame_head(unit, composition_ms);
        let head_bytes = body.len();
        match self.media.write_sample(unit, &mut body) {
            Ok(()) => self.follow_sound(unit).map(|written| (written, body)),
            Err(Error::Changed) => {
                let media = Media::of(unit, false)?;
                body.truncate(head_bytes);
                media.write_sample(unit, &mut body)?;
                self.media = media;
                Ok((Written::AfterHeader, body))
            }
            Err(error) => Err(error),
        }
    }

    /// Sound says with each frame what it is: where that is something else, a decoder is told.
    fn follow_sound(&mut self, unit: &AccessUnit) -> Result<Written, Error> {
        if self.is_video() {
            return Ok(Written::Frame);
        }
        let media = Media::of(unit, false)?;
        if self.media.covers(&media) {
            return Ok(Written::Frame);
        }
        self.media = media;
        Ok(Written::AfterHeader)
    }

    fn frame_head(&self, unit: &AccessUnit, composition_ms: i32) -> Vec<u8> {
        let composition = composition_ms.clamp(*COMPOSITION_MS.start(), *COMPOSITION_MS.end()).to_be_bytes();
        let [_, composition @ ..] = composition;
        let is_key = unit.random_access;
        match self.format {
            TagFormat::Number(AVC) => {
                let kind = if is_key { KEY_FRAME } else { INTER_FRAME };
                [&[kind << 4 | AVC, CODED_FRAMES][..], &composition].concat()
            }
            TagFormat::Number(AAC) => vec![AAC << 4 | SOUND_FORMAT, CODED_FRAMES],
            TagFormat::Number(number) => vec![number << 4 | self.sound_flags()],
            TagFormat::Letters(letters) if self.is_video() => {
                let mut head = lettered(video_head(is_key, CODED_FRAMES), letters);
                // AV1 is coded in the order in which it is shown.
                if self.codec == Codec::H265 {
                    head.extend_from_slice(&composition);
                }
                head
            }
            TagFormat::Letters(letters) => lettered(ENHANCED_AUDIO << 4 | CODED_FRAMES, letters),
        }
    }

    /// Rate, size and channels of MP3 (E.4.2.1). Rates that have no number stand as 44.1 kHz, as FFmpeg writes them: decoders go by
    /// the frame.
    fn sound_flags(&self) -> u8 {
        let Media::Mp3 { rate_hz, channels, .. } = self.media else { return SOUND_FORMAT };
        let rate = match rate_hz {
            11_025 => 1,
            22_050 => 2,
            _ => 3,
        };
        rate << 2 | 1 << 1 | u8::from(channels > 1)
    }
}

fn video_head(is_key: bool, packet_type: u8) -> u8 {
    let kind = if is_key { KEY_FRAME } else { INTER_FRAME };
    ENHANCED_VIDEO | kind << 4 | packet_type
}

fn lettered(first: u8, letters: &str) -> Vec<u8> {
    [&[first], letters.as_bytes()].concat()
}

/// The identification header of RFC 7845 §5.1, of channel mapping family 0.
fn write_opus_head(channels: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(b"OpusHead\x01");
    out.push(if channels > 1 { 2 } else { 1 });
    // A live stream is joined on its way: nothing in front is the encoder's own.
    out.extend_from_slice(&0u16.to_le_bytes());
    out.extend_from_slice(&crate::bitstream::opus::RATE_HZ.to_le_bytes());
    out.extend_from_slice(&[0, 0, 0]);
}

#[cfg(test)]
#[path = "mux_tests.rs"]
mod tests;
