//! What `probe` found. `--json` writes exactly this; docs/probe.md explains each key, and a test compares them.

use super::age::AgeReport;
use super::budget_figures::BudgetReport;
use super::check::CheckReport;
use crate::distribution::Distribution;
use crate::flight::Figures;
use glassline_media::bitstream::klv::uas;
use serde::Serialize;

/// Raised whenever a key changes its meaning or goes away; new keys may come without.
pub const SCHEMA: u32 = 1;

/// The report of one stream.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The version of these keys: [`SCHEMA`].
    pub schema: u32,
    /// What was looked at, as it was named.
    pub source: String,
    /// "url", "file" or "stdin".
    pub kind: &'static str,
    /// Bytes that were read.
    pub bytes: u64,
    /// Length of the stream by its own clock, in seconds.
    pub duration_s: Option<f64>,
    /// Bits a second by that clock.
    pub bitrate_bps: Option<f64>,
    /// For a URL: how long the first of each took.
    pub time_to_first: Option<TimeToFirst>,
    /// Programs that the association table names.
    pub programs: Vec<ProgramReport>,
    /// The clock of the program that is followed.
    pub clock: Option<ClockReport>,
    /// Its elementary streams.
    pub streams: Vec<StreamReport>,
    /// How sound and pictures lie to each other, where there are both.
    pub audio_video: Option<AudioVideo>,
    /// What is on each PID.
    pub pids: Vec<PidReport>,
    /// What is broken.
    pub errors: Errors,
    /// Where `--check` asks for it.
    pub check: Option<CheckReport>,
    /// Where `--flight` asks for it.
    pub flight: Option<FlightReport>,
    /// Where `--budget` asks for it.
    pub budget: Option<BudgetReport>,
    /// What a reader should know of it, in sentences.
    pub warnings: Vec<String>,
}

/// For a URL: how long the first of each took, from before the connection was made.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TimeToFirst {
    /// Until the first byte, in milliseconds.
    pub byte_ms: Option<f64>,
    /// Until the first picture was whole, in milliseconds.
    pub picture_ms: Option<f64>,
    /// The first that is right: the same, unless it began at a recovery point.
    pub right_picture_ms: Option<f64>,
    /// How many pictures were not right before it.
    pub settling_frames: Option<u32>,
}

/// A program that the association table names; only the first one is followed.
#[derive(Clone, Debug, Serialize)]
pub struct ProgramReport {
    /// Its number in the association table.
    pub number: u16,
    /// The PID of its map.
    pub pmt_pid: u16,
    /// Whether it is the one that is looked at.
    pub followed: bool,
}

/// The program's clock.
#[derive(Clone, Debug, Serialize)]
pub struct ClockReport {
    /// The packet identifier.
    pub pid: u16,
    /// Between two references, in milliseconds.
    pub interval_ms: Option<Distribution>,
    /// For a URL: how much of the stream came at once at the start, ahead of its own clock.
    pub start_burst_ms: Option<f64>,
    /// How far references come from where they should, where that can be told.
    pub jitter: Option<Jitter>,
    /// Times that it jumped.
    pub jumps: u64,
    /// Whether the rate is meant to be constant; `None` before ten references.
    pub constant_rate: bool,
}

/// How unsteady the clock is, against "arrival" (how much later than the least delayed reference each came) or
/// "position" (the error of each interval, were bytes sent at the constant rate).
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Jitter {
    /// Against what: `"arrival"` or `"position"`.
    pub basis: &'static str,
    /// In milliseconds.
    pub ms: Distribution,
}

/// One elementary stream.
#[derive(Clone, Debug, Serialize)]
pub struct StreamReport {
    /// The packet identifier.
    pub pid: u16,
    /// As in the program map (ISO/IEC 13818-1 table 2-34).
    pub stream_type: u8,
    /// "video", "audio" or "data".
    pub kind: &'static str,
    /// The name of the format, where it is known.
    pub codec: Option<&'static str>,
    /// ISO 639-2 code, where the map has one.
    pub language: Option<String>,
    /// Bits a second by that clock.
    pub bitrate_bps: Option<f64>,
    /// Pictures, pieces of sound, or units of data.
    pub units: u64,
    /// Their sizes in bytes.
    pub unit_bytes: Option<Distribution>,
    /// Between time stamps in order of display, in milliseconds.
    pub pts_interval_ms: Option<Distribution>,
    /// How far intervals are from the usual one, in milliseconds.
    pub pts_jitter_ms: Option<Distribution>,
    /// Intervals of more than 1.5 usual ones.
    pub pts_gaps: u64,
    /// Time stamps that jump back by more than 1 s or ahead by more than 10 s.
    pub pts_jumps: u64,
    /// How far stamps are ahead of the clock when the unit is whole, in milliseconds.
    pub pts_minus_pcr_ms: Option<Distribution>,
    /// Of pictures.
    pub video: Option<VideoReport>,
    /// Of sound.
    pub audio: Option<AudioReport>,
    /// Of data that is looked into.
    pub data: Option<DataReport>,
}

/// What is particular to video. Where the codec is not parsed, only what the container says is there.
#[derive(Clone, Debug, Serialize)]
pub struct VideoReport {
    /// Width in pixels.
    pub width_px: Option<u32>,
    /// Height in pixels.
    pub height_px: Option<u32>,
    /// Whether pictures may be interlaced.
    pub interlaced: Option<bool>,
    /// The profile, as people write it.
    pub profile: Option<String>,
    /// The level, as people write it.
    pub level: Option<String>,
    /// Sampling of the colours, as in `4:2:0`.
    pub chroma: Option<&'static str>,
    /// Bits of a sample.
    pub bit_depth: Option<u8>,
    /// How light and dark pictures can be, as HLS names it: `SDR`, `HLG` or `PQ`.
    pub range: Option<&'static str>,
    /// As RFC 6381 writes it.
    pub codec_string: Option<String>,
    /// Pictures a second by the parameter set.
    pub declared_frame_rate_hz: Option<f64>,
    /// Pictures a second by their stamps.
    pub measured_frame_rate_hz: Option<f64>,
    /// Pictures from which everything is right.
    pub key_frames: u64,
    /// Places to join that are no key frames, and after how many pictures at most everything is right.
    pub recovery_points: u64,
    /// After so many pictures from a recovery point on everything is right.
    pub settling_frames_max: Option<u32>,
    /// Between places to join, in pictures.
    pub key_frame_interval_frames: Option<Distribution>,
    /// Between places to join, in seconds.
    pub key_frame_interval_s: Option<Distribution>,
    /// Intra pictures, by the first slice.
    pub i_pictures: u64,
    /// Predicted pictures, by the first slice.
    pub p_pictures: u64,
    /// Bidirectional pictures, by the first slice.
    pub b_pictures: u64,
    /// Whether pictures are shown in another order than they come.
    pub reordered: bool,
    /// The greatest PTS less DTS, in milliseconds.
    pub reorder_delay_ms: f64,
    /// The most slices that a picture has.
    pub slices_per_picture_max: u64,
    /// Pictures that say when they were captured.
    pub capture_times: u64,
    /// How old they are at this end; of URLs only.
    pub age: Option<AgeReport>,
}

/// What is particular to audio.
#[derive(Clone, Debug, Serialize)]
pub struct AudioReport {
    /// Samples of each channel in a second.
    pub rate_hz: Option<u32>,
    /// Channels.
    pub channels: Option<u8>,
    /// The profile, as people write it.
    pub profile: Option<&'static str>,
}

/// What is particular to data: KLV metadata (MISB ST 1402) or cues (SCTE 35).
#[derive(Clone, Debug, Serialize)]
pub struct DataReport {
    /// "klv" or "scte35".
    pub format: &'static str,
    /// Of KLV: whether it belongs to pictures by its time stamps.
    pub synchronous: Option<bool>,
    /// Units in a second by the stream's clock.
    pub units_per_s: Option<f64>,
    /// Units with a time: a time stamp, or of cues the time that they announce.
    pub stamped_units: u64,
    /// Kinds of KLV packets, up to 16.
    pub sets: Vec<SetReport>,
    /// KLV packets of further kinds.
    pub other_packets: u64,
    /// What sets of drones say (MISB ST 0601).
    pub drone: Option<DroneReport>,
    /// The first 64 different cues.
    pub cues: Vec<CueReport>,
    /// Further cues.
    pub cues_left_out: u64,
}

/// One kind of KLV packets.
#[derive(Clone, Debug, Serialize)]
pub struct SetReport {
    /// The universal key, with base 16.
    pub key: String,
    /// Its name, where it is a common one.
    pub name: Option<&'static str>,
    /// How many there were.
    pub packets: u64,
}

/// Sets of drones.
#[derive(Clone, Debug, Serialize)]
pub struct DroneReport {
    /// The time of the first one, microseconds since 1970.
    pub first_time_micros: Option<u64>,
    /// Sets with a wrong checksum.
    pub checksums_wrong: u64,
    /// What the newest one says.
    pub newest: uas::Set,
}

/// A cue.
#[derive(Clone, Debug, Serialize)]
pub struct CueReport {
    /// The packet with which it began the first time, all packets counted from 0.
    pub packet: u64,
    /// The time that it announces, in seconds on the scale of time stamps; `None`: now, or none.
    pub pts_s: Option<f64>,
    /// How often it was sent.
    pub times: u64,
    /// What it says, for people.
    pub words: String,
    /// The section, with base 16.
    pub section: String,
}

/// How sound and pictures stand to each other; positive: the audio's time stamps are ahead.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct AudioVideo {
    /// The first audio PTS less the first video PTS.
    pub start_ms: f64,
    /// At each picture: the PTS of the audio before it less its own DTS.
    pub interleave_ms: Distribution,
}

/// One PID, whatever it carries.
#[derive(Clone, Debug, Serialize)]
pub struct PidReport {
    /// The packet identifier.
    pub pid: u16,
    /// What is on it.
    pub carries: String,
    /// Packets on it.
    pub packets: u64,
    /// Bits a second by that clock.
    pub bitrate_bps: Option<f64>,
    /// Packets that were missing or out of order (ISO/IEC 13818-1 §2.4.3.3).
    pub continuity_errors: u64,
    /// Packets that are encrypted.
    pub scrambled_packets: u64,
}

/// What went wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Errors {
    /// Packets that were missing or out of order (ISO/IEC 13818-1 §2.4.3.3).
    pub continuity_errors: u64,
    /// Packets that are marked as damaged.
    pub transport_errors: u64,
    /// Packets that break the syntax.
    pub malformed_packets: u64,
    /// Bytes that are no part of a packet.
    pub skipped_bytes: u64,
    /// Times that the sync byte was lost.
    pub sync_losses: u64,
    /// Access units that lack a part.
    pub damaged_units: u64,
    /// Access units that are larger than any may be.
    pub oversized_units: u64,
    /// Units of data that lack a part, are too large, or are not what they should be.
    pub damaged_data: u64,
}

/// The flight as `--json` writes it.
#[derive(Clone, Debug, Serialize)]
pub struct FlightReport {
    /// How bursty it came.
    #[serde(flatten)]
    pub figures: Figures,
    /// What its readers should know, in sentences.
    pub notes: Vec<String>,
}
