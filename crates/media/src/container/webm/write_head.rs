//! What stands around the clusters of a file that is written: the EBML header, `SeekHead`, `Info`, `Tracks` and `Cues`.
//!
//! ```text
//! EBML │ Segment: │ Void, room for SeekHead │ Info: …, Void, room for Duration │ Tracks │ clusters … │ Cues
//! ```

use super::demux::{INFO, TIMESTAMP_SCALE};
use super::ebml::{write_element, write_float, write_master, write_open, write_unsigned, write_void};
use super::tracks::{AUDIO, CODEC_DELAY, LANGUAGE};
use super::{DOC_TYPE, EBML, SEGMENT, TRACK_ENTRY, TRACK_NUMBER, TRACK_TYPE, TRACKS, VIDEO};
use crate::bitstream::av1::SequenceHeader;
use crate::bitstream::opus;
use crate::container::tracks::{CODEC_ID, CODEC_PRIVATE};

const EBML_VERSION: u32 = 0x4286;
const EBML_READ_VERSION: u32 = 0x42F7;
const EBML_MAX_ID_LENGTH: u32 = 0x42F2;
const EBML_MAX_SIZE_LENGTH: u32 = 0x42F3;
const DOC_TYPE_VERSION: u32 = 0x4287;
const DOC_TYPE_READ_VERSION: u32 = 0x4285;
const SEEK_HEAD: u32 = 0x114D_9B74;
const SEEK: u32 = 0x4DBB;
const SEEK_ID: u32 = 0x53AB;
const SEEK_POSITION: u32 = 0x53AC;
const DURATION: u32 = 0x4489;
const MUXING_APP: u32 = 0x4D80;
const WRITING_APP: u32 = 0x5741;
const TRACK_UID: u32 = 0x73C5;
const FLAG_LACING: u32 = 0x9C;
const SEEK_PRE_ROLL: u32 = 0x56BB;
const VIDEO_SETTINGS: u32 = 0xE0;
const FLAG_INTERLACED: u32 = 0x9A;
const PIXEL_WIDTH: u32 = 0xB0;
const PIXEL_HEIGHT: u32 = 0xBA;
const COLOUR: u32 = 0x55B0;
const MATRIX_COEFFICIENTS: u32 = 0x55B1;
const RANGE: u32 = 0x55B9;
const TRANSFER_CHARACTERISTICS: u32 = 0x55BA;
const PRIMARIES: u32 = 0x55BB;
const AUDIO_SETTINGS: u32 = 0xE1;
const SAMPLING_FREQUENCY: u32 = 0xB5;
const CHANNELS: u32 = 0x9F;
const CUES: u32 = 0x1C53_BB6B;
const CUE_POINT: u32 = 0xBB;
const CUE_TIME: u32 = 0xB3;
const CUE_TRACK_POSITIONS: u32 = 0xB7;
const CUE_TRACK: u32 = 0xF7;
const CUE_CLUSTER_POSITION: u32 = 0xF1;

/// `FlagInterlaced`: progressive.
const PROGRESSIVE: u64 = 2;
/// `TimestampScale`: times are counted in milliseconds, as WebM demands.
const SCALE_NANOS: u64 = 1_000_000;
/// Bytes of [`seek_head`].
const SEEK_HEAD_BYTES: usize = 68;
/// Bytes of [`duration`].
const DURATION_BYTES: usize = 11;
/// Decoded and thrown away behind a place to begin at, until the decoder has found the sound (RFC 7845 §4.6): 80 ms.
const SEEK_PRE_ROLL_NANOS: u64 = 80_000_000;
/// Three samples of Opus at 48 kHz last so long.
const NANOS_PER_3_SAMPLES: u64 = 62_500;
/// The program that writes.
const NAME: &[u8] = b"Glassline";

/// Where things stand that are put in or listed at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Places {
    /// The size of the segment.
    pub(super) segment_size: u64,
    /// The first byte in the segment, from which positions count; room for [`seek_head`].
    pub(super) segment: u64,
    pub(super) info: u64,
    /// Room for [`duration`].
    pub(super) duration: u64,
    pub(super) tracks: u64,
}

/// Pictures of AV1.
pub(super) struct Av1<'a> {
    /// The sequence header, an OBU with its size.
    pub(super) sequence: &'a [u8],
    /// What it says.
    pub(super) parsed: &'a SequenceHeader,
}

/// Sound of Opus.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opus {
    /// 1 or 2.
    pub(super) channels: u16,
    /// Samples at the beginning that are not played.
    pub(super) pre_skip: u16,
}

/// Writes all that stands in front of the first cluster to the beginning of `out`. Positions count from there.
pub(super) fn write(video: (u8, &Av1<'_>), sound: Option<(u8, Opus)>, out: &mut Vec<u8>) -> Places {
    let start = out.len();
    let here = |out: &Vec<u8>| out.len().saturating_sub(start) as u64;
    write_master(EBML, out, |out| {
        for (id, value) in [
            (EBML_VERSION, 1),
            (EBML_READ_VERSION, 1),
            (EBML_MAX_ID_LENGTH, 4),
            (EBML_MAX_SIZE_LENGTH, 8),
            (DOC_TYPE_VERSION, 4),
            (DOC_TYPE_READ_VERSION, 2),
        ] {
            write_unsigned(id, value, out);
        }
        write_element(DOC_TYPE, b"webm", out);
    });
    let segment_size = write_open(SEGMENT, out).saturating_sub(start) as u64;
    let segment = here(out);
    write_void(SEEK_HEAD_BYTES, out);
    let info = here(out);
    write_master(INFO, out, |out| {
        write_unsigned(TIMESTAMP_SCALE, SCALE_NANOS, out);
        write_element(MUXING_APP, NAME, out);
        write_element(WRITING_APP, NAME, out);
        write_void(DURATION_BYTES, out);
    });
    // The last of what is in it.
    let duration = here(out).saturating_sub(DURATION_BYTES as u64);
    let tracks = here(out);
    write_master(TRACKS, out, |out| {
        write_video(video.0, video.1, out);
        if let Some((number, opus)) = sound {
            write_sound(number, opus, out);
        }
    });
    Places { segment_size, segment, info, duration, tracks }
}

/// Appends what all tracks have (RFC 9559 §5.1.4.1), and what `inside` appends.
fn write_entry(number: u8, kind: u64, codec: &[u8], out: &mut Vec<u8>, inside: impl FnOnce(&mut Vec<u8>)) {
    write_master(TRACK_ENTRY, out, |out| {
        write_unsigned(TRACK_NUMBER, number.into(), out);
        write_unsigned(TRACK_UID, number.into(), out);
        write_unsigned(TRACK_TYPE, kind, out);
        write_unsigned(FLAG_LACING, 0, out);
        // English is what is not said otherwise.
        write_element(LANGUAGE, b"und", out);
        write_element(CODEC_ID, codec, out);
        inside(out);
    });
}

/// Appends a track of pictures ("AOM AV1 codec mapping in Matroska/WebM"). Colour stands there where the sequence header says it.
fn write_video(number: u8, av1: &Av1<'_>, out: &mut Vec<u8>) {
    let &Av1 { sequence, parsed } = av1;
    write_entry(number, VIDEO, b"V_AV1", out, |out| {
        let mut configuration = Vec::new();
        parsed.write_configuration(sequence, &mut configuration);
        write_element(CODEC_PRIVATE, &configuration, out);
        write_master(VIDEO_SETTINGS, out, |out| {
            write_unsigned(FLAG_INTERLACED, PROGRESSIVE, out);
            write_unsigned(PIXEL_WIDTH, parsed.width_px.into(), out);
            write_unsigned(PIXEL_HEIGHT, parsed.height_px.into(), out);
            let Some(colour) = parsed.colour else { return };
            write_master(COLOUR, out, |out| {
                write_unsigned(MATRIX_COEFFICIENTS, colour.matrix.into(), out);
                write_unsigned(RANGE, if colour.full_range { 2 } else { 1 }, out);
                write_unsigned(TRANSFER_CHARACTERISTICS, colour.transfer.into(), out);
                write_unsigned(PRIMARIES, colour.primaries.into(), out);
            });
        });
    });
}

/// Appends a track of sound: `CodecPrivate` is the header of RFC 7845 §5.1, `CodecDelay` its pre-skip in nanoseconds.
fn write_sound(number: u8, opus: Opus, out: &mut Vec<u8>) {
    let Opus { channels, pre_skip } = opus;
    write_entry(number, AUDIO, b"A_OPUS", out, |out| {
        let mut head = b"OpusHead\x01".to_vec();
        head.push(if channels > 1 { 2 } else { 1 });
        head.extend_from_slice(&pre_skip.to_le_bytes());
        head.extend_from_slice(&opus::RATE_HZ.to_le_bytes());
        // As loud as it is, and of the channel mapping family of one and two channels.
        head.extend_from_slice(&[0, 0, 0]);
        write_element(CODEC_PRIVATE, &head, out);
        write_unsigned(CODEC_DELAY, u64::from(pre_skip).saturating_mul(NANOS_PER_3_SAMPLES) / 3, out);
        write_unsigned(SEEK_PRE_ROLL, SEEK_PRE_ROLL_NANOS, out);
        write_master(AUDIO_SETTINGS, out, |out| {
            write_float(SAMPLING_FREQUENCY, opus::RATE_HZ.into(), out);
            write_unsigned(CHANNELS, channels.into(), out);
        });
    });
}

/// Where `Info`, `Tracks` and, from `cues` on, `Cues` stand (RFC 9559 §5.1.1), for the room in front.
pub(super) fn seek_head(places: &Places, cues: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(SEEK_HEAD_BYTES);
    write_master(SEEK_HEAD, &mut out, |out| {
        for (id, at) in [(INFO, places.info), (TRACKS, places.tracks), (CUES, cues)] {
            write_master(SEEK, out, |out| {
                write_element(SEEK_ID, &id.to_be_bytes(), out);
                // As many bytes whatever it is.
                write_element(SEEK_POSITION, &at.saturating_sub(places.segment).to_be_bytes(), out);
            });
        }
    });
    out
}

/// How long the file lasts, in milliseconds (RFC 9559 §5.1.2.10), for the room that is left for it.
pub(super) fn duration(millis: f64) -> Vec<u8> {
    let mut out = Vec::with_capacity(DURATION_BYTES);
    write_float(DURATION, millis, &mut out);
    out
}

/// Appends the list of clusters to begin at (RFC 9559 §5.1.5): their times in milliseconds and their positions in the segment.
pub(super) fn write_cues(track: u8, entries: &[(u64, u64)], out: &mut Vec<u8>) {
    write_master(CUES, out, |out| {
        for &(time, position) in entries {
            write_master(CUE_POINT, out, |out| {
                write_unsigned(CUE_TIME, time, out);
                write_master(CUE_TRACK_POSITIONS, out, |out| {
                    write_unsigned(CUE_TRACK, track.into(), out);
                    write_unsigned(CUE_CLUSTER_POSITION, position, out);
                });
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_later_fills_its_room() {
        assert_eq!(seek_head(&Places::default(), u64::MAX).len(), SEEK_HEAD_BYTES);
        assert_eq!(duration(1234.5).len(), DURATION_BYTES);
    }
}
