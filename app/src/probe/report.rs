//! What `probe` found. `--json` writes exactly this; docs/probe.md explains each key, and a test compares them.

use super::age::AgeReport;
use super::check::CheckReport;
use super::flight::FlightReport;
use super::samples::Distribution;
use serde::Serialize;

/// Raised whenever a key changes its meaning or goes away; new keys may come without.
pub(crate) const SCHEMA: u32 = 1;

/// The report of one stream.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) schema: u32,
    pub(crate) source: String,
    /// "url", "file" or "stdin".
    pub(crate) kind: &'static str,
    pub(crate) bytes: u64,
    pub(crate) duration_s: Option<f64>,
    pub(crate) bitrate_bps: Option<f64>,
    pub(crate) time_to_first: Option<TimeToFirst>,
    pub(crate) programs: Vec<ProgramReport>,
    pub(crate) clock: Option<ClockReport>,
    pub(crate) streams: Vec<StreamReport>,
    pub(crate) audio_video: Option<AudioVideo>,
    pub(crate) pids: Vec<PidReport>,
    pub(crate) errors: Errors,
    /// Where `--check` asks for it.
    pub(crate) check: Option<CheckReport>,
    /// Where `--flight` asks for it.
    pub(crate) flight: Option<FlightReport>,
    pub(crate) warnings: Vec<String>,
}

/// For a URL: how long the first of each took, from before the connection was made.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct TimeToFirst {
    pub(crate) byte_ms: Option<f64>,
    pub(crate) picture_ms: Option<f64>,
    /// The first that is right: the same, unless it began at a recovery point.
    pub(crate) right_picture_ms: Option<f64>,
    /// How many pictures were not right before it.
    pub(crate) settling_frames: Option<u32>,
}

/// A program that the association table names; only the first one is followed.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ProgramReport {
    pub(crate) number: u16,
    pub(crate) pmt_pid: u16,
    pub(crate) followed: bool,
}

/// The program's clock.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ClockReport {
    pub(crate) pid: u16,
    pub(crate) interval_ms: Option<Distribution>,
    /// For a URL: how much of the stream came at once at the start, ahead of its own clock.
    pub(crate) start_burst_ms: Option<f64>,
    pub(crate) jitter: Option<Jitter>,
    pub(crate) jumps: u64,
    pub(crate) constant_rate: bool,
}

/// How unsteady the clock is, against "arrival" (how much later than the least delayed reference each came) or
/// "position" (the error of each interval, were bytes sent at the constant rate).
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Jitter {
    pub(crate) basis: &'static str,
    pub(crate) ms: Distribution,
}

/// One elementary stream.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StreamReport {
    pub(crate) pid: u16,
    pub(crate) stream_type: u8,
    /// "video", "audio" or "data".
    pub(crate) kind: &'static str,
    pub(crate) codec: Option<&'static str>,
    pub(crate) language: Option<String>,
    pub(crate) bitrate_bps: Option<f64>,
    pub(crate) units: u64,
    pub(crate) unit_bytes: Option<Distribution>,
    pub(crate) pts_interval_ms: Option<Distribution>,
    pub(crate) pts_jitter_ms: Option<Distribution>,
    pub(crate) pts_gaps: u64,
    pub(crate) pts_jumps: u64,
    pub(crate) pts_minus_pcr_ms: Option<Distribution>,
    pub(crate) video: Option<VideoReport>,
    pub(crate) audio: Option<AudioReport>,
}

/// What is particular to video. Where the codec is not parsed, only what the container says is there.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct VideoReport {
    pub(crate) width_px: Option<u32>,
    pub(crate) height_px: Option<u32>,
    pub(crate) interlaced: Option<bool>,
    pub(crate) profile: Option<String>,
    pub(crate) level: Option<String>,
    pub(crate) chroma: Option<&'static str>,
    pub(crate) bit_depth: Option<u8>,
    pub(crate) codec_string: Option<String>,
    pub(crate) declared_frame_rate_hz: Option<f64>,
    pub(crate) measured_frame_rate_hz: Option<f64>,
    pub(crate) key_frames: u64,
    /// Places to join that are no key frames, and after how many pictures at most everything is right.
    pub(crate) recovery_points: u64,
    pub(crate) settling_frames_max: Option<u32>,
    pub(crate) key_frame_interval_frames: Option<Distribution>,
    pub(crate) key_frame_interval_s: Option<Distribution>,
    pub(crate) i_pictures: u64,
    pub(crate) p_pictures: u64,
    pub(crate) b_pictures: u64,
    pub(crate) reordered: bool,
    pub(crate) reorder_delay_ms: f64,
    pub(crate) slices_per_picture_max: u64,
    /// Pictures that say when they were captured.
    pub(crate) capture_times: u64,
    /// How old they are at this end; of URLs only.
    pub(crate) age: Option<AgeReport>,
}

/// What is particular to audio.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct AudioReport {
    pub(crate) rate_hz: Option<u32>,
    pub(crate) channels: Option<u8>,
    pub(crate) profile: Option<&'static str>,
}

/// How sound and pictures stand to each other; positive: the audio's time stamps are ahead.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct AudioVideo {
    /// The first audio PTS less the first video PTS.
    pub(crate) start_ms: f64,
    /// At each picture: the PTS of the audio before it less its own DTS.
    pub(crate) interleave_ms: Distribution,
}

/// One PID, whatever it carries.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PidReport {
    pub(crate) pid: u16,
    pub(crate) carries: String,
    pub(crate) packets: u64,
    pub(crate) bitrate_bps: Option<f64>,
    pub(crate) continuity_errors: u64,
    pub(crate) scrambled_packets: u64,
}

/// What went wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Errors {
    pub(crate) continuity_errors: u64,
    pub(crate) transport_errors: u64,
    pub(crate) malformed_packets: u64,
    pub(crate) skipped_bytes: u64,
    pub(crate) sync_losses: u64,
    pub(crate) damaged_units: u64,
    pub(crate) oversized_units: u64,
}
