//! A fragment of a file, or a CMAF chunk: `[prft] moof mdat` (ISO/IEC 14496-12 §8.8, §8.16.5; 23000-19 §7.3.2).

use super::boxes::{Fields, full, plain};
use crate::time::Utc;

/// One sample of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Its bytes in the run's data.
    pub bytes: u32,
    /// Until the next one, in ticks of its track.
    pub duration: u32,
    /// From decoding to presentation, the same.
    pub composition_offset: i32,
    /// Whether decoding can begin with it.
    pub is_sync: bool,
    /// Decoding can begin with it, and is right so many samples later (a recovery point, sample group `roll`): 1 to 32767.
    /// 0: it cannot.
    pub roll: u16,
}

/// Samples of one track that follow each other.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The track's number.
    pub track_id: u32,
    /// When the first sample is decoded, in ticks of the track since its beginning.
    pub decode_time: u64,
    /// At least one.
    pub samples: &'a [Sample],
    /// What is in them, end to end.
    pub data: &'a [u8],
}

/// When a sample was captured (`prft`): what a receiver with the right time tells its age by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Captured {
    /// The track's number.
    pub track_id: u32,
    /// When.
    pub utc: Utc,
    /// The sample's presentation time in ticks of the track.
    pub media_time: u64,
}

/// The sample depends on no other one.
const SYNC: u32 = 0x0200_0000;
/// It depends on others, and decoding cannot begin with it.
const NOT_SYNC: u32 = 0x0101_0000;
/// Flags of a `prft` that tells the time of capture, on a clock that does not jump.
pub(super) const CAPTURED: u32 = 24;
/// Seconds from 1900, where NTP begins, to 1970.
pub(super) const NTP_EPOCH: u64 = 2_208_988_800;

/// Appends a chunk, the `sequence`-th of its file from 1, with the samples of one or more tracks.
///
/// # Panics
/// Where the data of all runs have 2 GiB or more, or a run's samples say another number of bytes than it has.
pub fn write_chunk(sequence: u32, captured: Option<Captured>, runs: &[Run<'_>], out: &mut Vec<u8>) {
    if let Some(captured) = captured {
        write_captured(captured, out);
    }
    let start = out.len();
    let mut offsets_at = Vec::with_capacity(runs.len());
    plain(out, b"moof", |out| {
        full(out, b"mfhd", 0, 0, |out| out.u32(sequence));
        for run in runs {
            plain(out, b"traf", |out| {
                // Offsets count from this moof's first byte.
                full(out, b"tfhd", 0, 0x02_0000, |out| out.u32(run.track_id));
                full(out, b"tfdt", 1, 0, |out| out.u64(run.decode_time));
                offsets_at.push(write_run(run.samples, out));
                write_rolls(run.samples, out);
            });
        }
    });
    let mut offset = out.len() - start + 8;
    for (run, at) in runs.iter().zip(offsets_at) {
        let told: usize = run.samples.iter().map(|sample| sample.bytes as usize).sum();
        assert_eq!(told, run.data.len(), "bytes of the samples of track {}", run.track_id);
        let field = i32::try_from(offset).expect("a chunk of less than 2 GiB");
        out[at..at + 4].copy_from_slice(&field.to_be_bytes());
        offset += run.data.len();
    }
    plain(out, b"mdat", |out| runs.iter().for_each(|run| out.extend_from_slice(run.data)));
}

/// Appends a `trun`. Returns where the caller has to put its data offset.
fn write_run(samples: &[Sample], out: &mut Vec<u8>) -> usize {
    let reorders = samples.iter().any(|sample| sample.composition_offset != 0);
    // The data's offset; of each sample duration, size, flags and, where it matters, the composition offset.
    let flags = 0x001 | 0x100 | 0x200 | 0x400 | if reorders { 0x800 } else { 0 };
    let mut offset_at = 0;
    full(out, b"trun", 1, flags, |out| {
        out.u32(samples.len() as u32);
        offset_at = out.len();
        out.u32(0);
        for sample in samples {
            out.u32(sample.duration);
            out.u32(sample.bytes);
            out.u32(if sample.is_sync { SYNC } else { NOT_SYNC });
            if reorders {
                out.u32(sample.composition_offset as u32);
            }
        }
    });
    offset_at
}

/// Appends the sample group `roll` (14496-12 §8.9, §10.1), where there are recovery points: how many samples later each is
/// right, and which samples are one.
fn write_rolls(samples: &[Sample], out: &mut Vec<u8>) {
    let roll_of = |sample: &Sample| if sample.is_sync { 0 } else { sample.roll.min(i16::MAX as u16) };
    let mut distances: Vec<u16> = samples.iter().map(roll_of).filter(|&roll| roll > 0).collect();
    distances.sort_unstable();
    distances.dedup();
    if distances.is_empty() {
        return;
    }
    full(out, b"sgpd", 1, 0, |out| {
        out.extend_from_slice(b"roll");
        // Bytes of an entry.
        out.u32(2);
        out.u32(distances.len() as u32);
        distances.iter().for_each(|&distance| out.u16(distance));
    });
    full(out, b"sbgp", 0, 0, |out| {
        out.extend_from_slice(b"roll");
        let runs: Vec<&[Sample]> = samples.chunk_by(|one, next| roll_of(one) == roll_of(next)).collect();
        out.u32(runs.len() as u32);
        for run in runs {
            let index = distances.binary_search(&roll_of(&run[0])).ok();
            out.u32(run.len() as u32);
            // Descriptions of the fragment itself count from 65537, 0 is no group.
            out.u32(index.map_or(0, |index| 0x1_0001 + index as u32));
        }
    });
}

fn write_captured(captured: Captured, out: &mut Vec<u8>) {
    full(out, b"prft", 1, CAPTURED, |out| {
        out.u32(captured.track_id);
        out.u64(ntp(captured.utc));
        out.u64(captured.media_time);
    });
}

/// Seconds since 1900 and their 2⁻³² parts (RFC 5905 §6).
fn ntp(utc: Utc) -> u64 {
    let nanos = utc.as_nanos();
    let (seconds, nanos) = (nanos / 1_000_000_000 + NTP_EPOCH, nanos % 1_000_000_000);
    (seconds << 32) | ((nanos << 32) / 1_000_000_000)
}
