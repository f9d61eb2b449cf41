//! What was found. `glassline probe --json` writes exactly this for each flow (docs/probe.md).

use crate::raw::receive;
use glassline_transport::raw_video::{Class, Fullness, Limits, Verdict};
use serde::Serialize;

/// A flow of the description.
#[derive(Clone, Debug, Serialize)]
pub struct FlowReport {
    /// "video", "audio" or "ancillary".
    pub kind: &'static str,
    /// The description's payload type.
    pub payload_type: u8,
    /// `a=ts-refclk` and `a=mediaclk`, as they are written.
    pub reference_clock: Option<String>,
    /// `a=mediaclk`.
    pub media_clock: Option<String>,
    /// What capture times are made of: "stamps" or "arrivals"; nothing before something has come.
    pub captured_by: Option<&'static str>,
    /// How long before its arrival a frame's or packet's stamp was, where stamps are of a clock that we share.
    pub age_ms: Option<Spread>,
    /// Each path.
    pub paths: Vec<PathReport>,
    /// Of both paths together.
    pub merged: Merged,
    /// Of video.
    pub video: Option<VideoReport>,
    /// Of audio.
    pub audio: Option<AudioReport>,
    /// Of ancillary data.
    pub ancillary: Option<AncillaryReport>,
    /// Why it is no longer received.
    pub failed: Option<String>,
}

/// What is left of two paths' packets once they are one stream, or what came by the only one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Merged {
    /// Packets, each once.
    pub packets: u64,
    /// Packets that neither path brought in time.
    pub lost: u64,
    /// Packets that came after a later one by the same path.
    pub reordered: u64,
    /// Packets that came again: of two paths, nearly all.
    pub duplicates: u64,
    /// Packets that came when their turn was over.
    pub late: u64,
    /// Datagrams that are no packets of the stream.
    pub refused: u64,
    /// Times that the sender began anew.
    pub restarts: u64,
    /// Datagrams that the kernel dropped for want of room.
    pub kernel_drops: u64,
}

impl From<&receive::Report> for Merged {
    fn from(report: &receive::Report) -> Merged {
        let receive::Report { counters, kernel_drops, .. } = *report;
        Merged {
            packets: counters.packets,
            lost: counters.lost,
            reordered: counters.reordered,
            duplicates: counters.duplicates,
            late: counters.late,
            refused: counters.refused,
            restarts: counters.restarts,
            kernel_drops,
        }
    }
}

/// One path.
#[derive(Clone, Debug, Serialize)]
pub struct PathReport {
    /// Where it comes to.
    pub address: String,
    /// The sender's SSRC.
    pub ssrc: Option<u32>,
    /// Whatever came.
    pub datagrams: u64,
    /// Of all of them, without UDP's headers.
    pub bytes: u64,
    /// Of the stream's.
    pub bitrate_bps: Option<f64>,
    /// Different packets of the stream.
    pub packets: u64,
    /// Those that are missing.
    pub lost: u64,
    /// The most of these in a row.
    pub longest_loss: u64,
    /// Those that came after a later one.
    pub reordered: u64,
    /// Those that came again.
    pub duplicates: u64,
    /// Those out of all order.
    pub strays: u64,
    /// Times that the sender began anew.
    pub restarts: u64,
    /// Interarrival jitter (RFC 3550 §6.4.1); of video it holds the spacing of a frame's packets.
    pub jitter_us: f64,
    /// Datagrams that the socket dropped, as the last one told that came.
    pub kernel_drops: u32,
    /// How much room the socket has.
    pub socket: Option<SocketReport>,
    /// What is not of the stream.
    pub strangers: StrangerReport,
    /// Of video: how evenly packets came, from the beginning on.
    pub timing: Option<TimingReport>,
    /// The same of the last second.
    pub timing_now: Option<TimingReport>,
}

/// A socket's room for what was not read yet.
#[derive(Clone, Debug, Serialize)]
pub struct SocketReport {
    /// What was asked for.
    pub asked_bytes: usize,
    /// What the kernel gave.
    pub granted_bytes: usize,
    /// The command by which the kernel gives all of it.
    pub advice: Option<String>,
}

/// Datagrams that are not of the stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StrangerReport {
    /// No RTP.
    pub not_rtp: u64,
    /// RTP of another payload type.
    pub payload_type: u64,
    /// Which types these are, the first eight of them.
    pub payload_types: Vec<u8>,
    /// Payloads that are not of the described format.
    pub payload: u64,
    /// Packets of another sender, or with another SSRC, than the one that is listened to.
    pub source: u64,
    /// Which senders these are, the first eight of them.
    pub sources: Vec<String>,
}

/// From the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Range {
    /// The least.
    pub min: u64,
    /// The most.
    pub max: u64,
}

impl Range {
    pub(super) fn including(range: Option<Range>, value: u64) -> Range {
        let Range { min, max } = range.unwrap_or(Range { min: value, max: value });
        Range { min: min.min(value), max: max.max(value) }
    }
}

/// The least, the mean and the most.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// How many.
    pub count: u64,
    /// The least.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// The most.
    pub max: f64,
}

impl Spread {
    pub(super) fn including(spread: Option<Spread>, value: f64) -> Spread {
        let Spread { count, min, mean, max } =
            spread.unwrap_or(Spread { count: 0, min: value, mean: value, max: value });
        let count = count + 1;
        Spread { count, min: min.min(value), mean: mean + (value - mean) / count as f64, max: max.max(value) }
    }
}

/// Video.
#[derive(Clone, Debug, Serialize)]
pub struct VideoReport {
    /// As it is described.
    pub width_px: u32,
    /// As it is described.
    pub height_px: u32,
    /// "progressive", "interlaced" or "psf".
    pub scan: &'static str,
    /// As `YCbCr-4:2:2`.
    pub sampling: &'static str,
    /// Bits a sample.
    pub depth_bits: u8,
    /// `exactframerate` or `a=framerate`.
    pub described_rate_hz: Option<f64>,
    /// By the steps of the stamps.
    pub stamped_rate_hz: Option<f64>,
    /// By when frames' first packets came: the sender's clock against ours.
    pub received_rate_hz: Option<f64>,
    /// Frames that stamps step over though no packet is missing.
    pub left_out_frames: u64,
    /// Frames that came whole.
    pub frames: u64,
    /// Frames with holes.
    pub incomplete_frames: u64,
    /// By the numbers, of frames that have come with their first packet and that of the next one.
    pub packets_per_frame: Option<Range>,
    /// UDP payloads.
    pub datagram_bytes: Option<Range>,
    /// MAXUDP.
    pub described_max_bytes: u32,
    /// `PM`: "general" or "block".
    pub described_packing: &'static str,
    /// What packets look like: "block" where all but a frame's last have one multiple of 180 bytes of samples, over the ends of lines.
    pub packing: Option<&'static str>,
    /// Frames without a loss that have another number of markers than one, or than one for each field.
    pub marker_errors: u64,
    /// `TP`.
    pub described_sender: Option<String>,
}

/// How evenly a sender's packets came (ST 2110-21).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TimingReport {
    /// The strictest type that they keep to: "narrow", "narrow linear", "wide" or "not compliant".
    pub class: &'static str,
    /// Against PTP's periods; otherwise against the frames' own grid.
    pub is_by_ptp: bool,
    /// Frames that were judged.
    pub frames: u64,
    /// C_INST at most, in packets.
    pub cinst_max: u32,
    /// The virtual receiver buffer, read with the gapped schedule.
    pub vrx_gapped: [i64; 2],
    /// The virtual receiver buffer, read with the linear schedule.
    pub vrx_linear: [i64; 2],
    /// The earliest and the latest first packet, after where its period (or the grid) begins.
    pub first_packet_us: [f64; 2],
    /// What types may have.
    pub narrow: LimitReport,
    /// What types may have.
    pub narrow_linear: LimitReport,
    /// What types may have.
    pub wide: LimitReport,
}

/// What a type may have at most, in packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LimitReport {
    /// C_MAX; nothing where there is no limit.
    pub cmax: Option<u32>,
    /// VRX_FULL.
    pub vrx_full: u32,
}

impl From<Limits> for LimitReport {
    fn from(limits: Limits) -> LimitReport {
        LimitReport { cmax: Some(limits.c_max).filter(|most| *most != u32::MAX), vrx_full: limits.vrx_full }
    }
}

impl From<Verdict> for TimingReport {
    fn from(verdict: Verdict) -> TimingReport {
        let pair = |Fullness { min, max }: Fullness| [min, max];
        let (earliest, latest) = verdict.first_packet_offset;
        TimingReport {
            class: match verdict.class {
                Class::Narrow => "narrow",
                Class::NarrowLinear => "narrow linear",
                Class::Wide => "wide",
                Class::NotCompliant => "not compliant",
            },
            is_by_ptp: verdict.is_by_ptp,
            frames: verdict.frames,
            cinst_max: verdict.cinst_max,
            vrx_gapped: pair(verdict.gapped),
            vrx_linear: pair(verdict.linear),
            first_packet_us: [earliest as f64 / 1e3, latest as f64 / 1e3],
            narrow: verdict.narrow.into(),
            narrow_linear: verdict.narrow_linear.into(),
            wide: verdict.wide.into(),
        }
    }
}

/// Sound.
#[derive(Clone, Debug, Serialize)]
pub struct AudioReport {
    /// 16 or 24.
    pub depth_bits: u8,
    /// Samples a second and channel.
    pub rate_hz: u32,
    /// As they are described.
    pub channels: u8,
    /// `channel-order`.
    pub channel_order: Option<String>,
    /// `a=ptime`.
    pub described_packet_us: f64,
    /// What packets had.
    pub packet_us: Option<[f64; 2]>,
    /// By the stamps' progress in the time of their arrivals.
    pub received_rate_hz: Option<f64>,
    /// Samples of each channel that came.
    pub samples: u64,
    /// Samples of each channel that stand for lost packets.
    pub silence: u64,
    /// Times that stamps leapt.
    pub jumps: u64,
    /// The peak of each channel, in dB below full scale; nothing where it is digital silence.
    pub peak_dbfs: Vec<Option<f64>>,
}

/// Ancillary data.
#[derive(Clone, Debug, Serialize)]
pub struct AncillaryReport {
    /// Payloads, and how many of them were the last of a frame or field.
    pub payloads: u64,
    /// With the marker.
    pub frames: u64,
    /// ANC packets.
    pub packets: u64,
    /// ANC packets with a wrong checksum.
    pub checksum_errors: u64,
    /// Words with a wrong parity.
    pub parity_errors: u64,
    /// Packets of CEA-608 and CEA-708 captions.
    pub caption_packets: u64,
    /// Of these, caption distribution packets (ST 334-2) that are whole and have more in them than padding.
    pub caption_contents: u64,
    /// The last time code.
    pub time_code: Option<String>,
    /// What was found, in the order of DID, SDID and line.
    pub kinds: Vec<KindReport>,
    /// Packets of kinds beyond those that are listed.
    pub unlisted_packets: u64,
}

/// ANC packets of one kind on one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KindReport {
    /// Data identifier.
    pub did: u8,
    /// Secondary data identifier.
    pub sdid: u8,
    /// What they are.
    pub name: String,
    /// Line; 2047 where it is none in particular.
    pub line: u16,
    /// Whether the description names them; nothing where it names none.
    pub is_described: Option<bool>,
    /// How many.
    pub packets: u64,
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
