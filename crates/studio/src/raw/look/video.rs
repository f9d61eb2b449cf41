//! A flow of video: a receiver of it, and a tap that sees each packet of each path.

use super::frames::Frames;
use super::path::{Came, Path};
use super::report::{Merged, PathReport, Range, Spread, VideoReport};
use super::{Clocks, Settings, locked};
use crate::raw::described;
use crate::raw::receive::{Message, Observer, Tap, Watch};
use glassline_io::clock::Clock;
use glassline_io::udp::Granted;
use glassline_media::{Chroma, Time};
use glassline_transport::raw_video::{
    MediaClock, Packing, PayloadHeader, PtpClock, Scan, Timing, TimingSettings,
};
use glassline_transport::sdp::{Flow, Video};
use std::io;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a consumer that nothing comes to waits at a time.
const RECEIVE_TIMEOUT: Duration = Duration::from_millis(500);
/// The standard UDP size limit (ST 2110-10 §6.3), where a description says no other.
const MAX_UDP_BYTES: u32 = 1_460;
/// Of what blocks of the block packing mode are made (ST 2110-20 §6.3.3).
const BLOCK_BYTES: usize = 180;
/// How long a verdict on the present goes back.
const NOW: Duration = Duration::from_secs(1);

/// How evenly one path's packets come, from the beginning on and of late.
struct Evenness {
    packets: u64,
    all: Timing,
    now: Timing,
    /// What the last second was, and since when the present one is.
    last: Option<super::report::TimingReport>,
    since: Time,
}

/// One path.
struct VideoPath {
    path: Path,
    frames: Frames,
    evenness: Option<Evenness>,
}

/// What the tap has seen.
struct Seen {
    video: Video,
    clock: Clock,
    /// The offset of stamps, where PTP keeps our clock.
    ptp: Option<u32>,
    paths: Vec<VideoPath>,
    datagram_bytes: Option<Range>,
    /// Samples of packets that end no frame: all of one size that blocks have.
    block_bytes: Option<usize>,
    is_block: bool,
    /// Some packet has samples of more than one line.
    has_lines: bool,
}

struct SharedTap(Arc<Mutex<Seen>>);

impl Tap for SharedTap {
    fn see(&mut self, path: usize, message: &Message<'_>) {
        locked(&self.0).see(path, message);
    }
}

impl Seen {
    fn see(&mut self, path: usize, message: &Message<'_>) {
        let Some(VideoPath { path, frames, evenness }) = self.paths.get_mut(path) else { return };
        let Some(seen) = path.push(
            message.head,
            Came { bytes: message.bytes, at: message.at, drops: message.drops, from: message.from },
            true,
        ) else {
            return;
        };
        let header = seen.raw_video();
        if let Some(PayloadHeader { first, last, .. }) = header
            && !(self.video.format.has(&first) && self.video.format.has(&last))
        {
            path.refuse_payload();
            return;
        }
        self.datagram_bytes = Some(Range::including(self.datagram_bytes, seen.bytes as u64));
        let is_second = header.is_some_and(|header| header.first.field);
        let step = frames.push(&seen.header, seen.arrival, is_second, message.at);
        if let Some(step) = step {
            let known = (frames.packets(), self.video.rate.or_else(|| frames.rate()));
            let ptp =
                self.ptp.filter(|_| step.is_start).map(|direct| ptp_clock(self.clock, message.at, direct));
            judge(evenness, &self.video, known, (step, message.at, seen.header.timestamp, ptp));
        }
        if let Some(header) = header {
            let samples = seen.bytes.saturating_sub(seen.rtp_bytes + header.bytes);
            self.note_packing(&header, samples, seen.header.marker);
        }
    }

    fn note_packing(&mut self, header: &PayloadHeader, samples: usize, is_last: bool) {
        self.has_lines |= header.first.line != header.last.line;
        if is_last || (self.video.format.scan() == Scan::Segmented && header.first.field != header.last.field)
        {
            return;
        }
        let usual = *self.block_bytes.get_or_insert(samples);
        self.is_block &= samples == usual && samples.is_multiple_of(BLOCK_BYTES);
    }
}

/// PTP's clock, where our own follows it.
fn ptp_clock(clock: Clock, at: Time, direct: u32) -> PtpClock {
    let ahead = clock.utc_at(at).as_nanos().saturating_sub(at.as_nanos());
    PtpClock { ahead: Duration::from_nanos(ahead) + MediaClock::TAI_AHEAD, direct }
}

/// Feeds the models of ST 2110-21 with a packet, once it is known how many packets frames have and how many come a second.
fn judge(
    evenness: &mut Option<Evenness>,
    video: &Video,
    (packets, rate): (Option<u64>, Option<glassline_media::FrameRate>),
    (step, at, timestamp, ptp): (super::frames::Step, Time, u32, Option<PtpClock>),
) {
    if step.is_start
        && let (Some(packets), Some(rate)) = (packets, rate)
        && evenness.as_ref().is_none_or(|known| known.packets != packets)
    {
        let timing = Timing::new(TimingSettings {
            format: video.format,
            rate,
            packets_per_frame: u32::try_from(packets).unwrap_or(u32::MAX),
            max_udp_bytes: video.max_datagram_bytes.unwrap_or(MAX_UDP_BYTES),
            ptp,
        });
        *evenness = Some(Evenness { packets, all: timing.clone(), now: timing, last: None, since: at });
    }
    let Some(Evenness { all, now, last, since, .. }) = evenness else { return };
    let missing = u32::try_from(step.missing).unwrap_or(u32::MAX);
    for timing in [&mut *all, &mut *now] {
        if step.is_start && ptp.is_some() {
            timing.set_ptp(ptp);
        }
        if !step.is_missing_here {
            timing.skip(missing);
        }
        // What is missing in front of a frame's first packet that came is counted when the frame has begun.
        if step.is_start {
            timing.push(at, 1, timestamp, true);
            timing.skip(if step.is_missing_here { missing } else { 0 });
        } else {
            timing.skip(missing);
            timing.push(at, 1, timestamp, false);
        }
    }
    if step.is_start && at.since(*since) >= NOW {
        (*last, *since) = (Some(now.take().into()), at);
    }
}

/// What the consumer has seen.
#[derive(Default)]
struct Ages {
    age_ms: Option<Spread>,
    captured_by: Option<&'static str>,
    failed: Option<String>,
}

/// A flow of video that is looked at.
pub(super) struct VideoLook {
    video: Video,
    watch: Watch,
    seen: Arc<Mutex<Seen>>,
    ages: Arc<Mutex<Ages>>,
    granted: Vec<Granted>,
    thread: Option<JoinHandle<()>>,
}

impl VideoLook {
    pub(super) fn start(
        flow: &Flow,
        video: &Video,
        settings: &Settings,
        clock: Clock,
    ) -> io::Result<VideoLook> {
        let mut receive = described::video_settings(flow, video, &settings.options);
        // Each datagram is to have its own time.
        receive.paths.iter_mut().for_each(|path| path.is_collected = false);
        let video = Video { rate: video.rate.or(settings.rate), ..*video };
        let scan = video.format.scan();
        let path = |path| VideoPath {
            path: Path::new(flow.payload_type, 90_000, described::path_lock(path)),
            frames: Frames::new(scan),
            evenness: None,
        };
        let seen = Arc::new(Mutex::new(Seen {
            video,
            clock,
            ptp: described::direct_offset(flow).filter(|_| settings.is_ptp),
            paths: flow.paths.iter().map(path).collect(),
            datagram_bytes: None,
            block_bytes: None,
            is_block: true,
            has_lines: false,
        }));
        let observer = Observer::start(&receive, clock, Box::new(SharedTap(seen.clone())))?;
        let (watch, granted) = (observer.watch(), observer.granted().to_vec());
        let ages = Arc::new(Mutex::new(Ages::default()));
        let shared = ages.clone();
        let run = move || consume(observer, &shared);
        let thread = std::thread::Builder::new().name("look".to_owned()).spawn(run)?;
        Ok(VideoLook { video, watch, seen, ages, granted, thread: Some(thread) })
    }

    pub(super) fn stop(&mut self) {
        self.watch.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    pub(super) fn report(&self) -> (Vec<PathReport>, Merged, VideoReport, Clocks) {
        let received = self.watch.report();
        let (merged, counters) = (Merged::from(&received), received.counters);
        let seen = locked(&self.seen);
        let mut paths: Vec<PathReport> = Vec::new();
        for (VideoPath { path, evenness, .. }, granted) in seen.paths.iter().zip(&self.granted) {
            let socket = Some(super::socket(granted));
            let timing = evenness.as_ref().map(|evenness| evenness.all.report().into());
            let timing_now = evenness.as_ref().and_then(|evenness| evenness.last);
            paths.push(PathReport { socket, timing, timing_now, ..path.report() });
        }
        let ages = locked(&self.ages);
        let clocks =
            Clocks { age_ms: ages.age_ms, captured_by: ages.captured_by, failed: ages.failed.clone() };
        (paths, merged, self.video_report(&seen, (counters.frames, counters.incomplete)), clocks)
    }

    fn video_report(&self, seen: &Seen, (frames, incomplete_frames): (u64, u64)) -> VideoReport {
        let Video { format, rate, packing, sender, max_datagram_bytes, .. } = self.video;
        // The first path that brings something tells of both.
        let found = seen.paths.iter().map(|path| &path.frames).find(|frames| frames.count > 0);
        let found = found.or(seen.paths.first().map(|path| &path.frames));
        VideoReport {
            width_px: format.size().width,
            height_px: format.size().height,
            scan: match format.scan() {
                Scan::Progressive => "progressive",
                Scan::Interlaced => "interlaced",
                Scan::Segmented => "psf",
            },
            sampling: match format.pixels().chroma {
                Chroma::Yuv420 => "YCbCr-4:2:0",
                Chroma::Yuv422 => "YCbCr-4:2:2",
                Chroma::Yuv444 => "YCbCr-4:4:4",
                Chroma::Rgb => "RGB",
                _ => "other",
            },
            depth_bits: format.pixels().depth_bits,
            described_rate_hz: rate.map(|rate| rate.as_f64()),
            stamped_rate_hz: found.and_then(Frames::stamped_hz),
            received_rate_hz: found.and_then(Frames::received_hz),
            left_out_frames: found.map_or(0, |frames| frames.left_out),
            frames,
            incomplete_frames,
            packets_per_frame: found.and_then(|frames| frames.range),
            datagram_bytes: seen.datagram_bytes,
            described_max_bytes: max_datagram_bytes.unwrap_or(MAX_UDP_BYTES),
            described_packing: packing_name(packing == Packing::Block),
            // Blocks that end where lines do are of both modes.
            packing: seen
                .block_bytes
                .map(|_| packing_name(seen.is_block && (seen.has_lines || packing == Packing::Block))),
            marker_errors: found.map_or(0, |frames| frames.marker_errors),
            described_sender: sender.map(|sender| sender.to_string()),
        }
    }
}

fn packing_name(is_block: bool) -> &'static str {
    if is_block { "block" } else { "general" }
}

/// Takes what is told of frames until there are no more.
fn consume(mut observer: Observer, ages: &Mutex<Ages>) {
    loop {
        let frame = match observer.next(RECEIVE_TIMEOUT) {
            Ok(Some(frame)) => frame,
            Ok(None) => continue,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return,
            Err(error) => {
                locked(ages).failed = Some(error.to_string());
                return;
            }
        };
        let age = frame.began.since(frame.captured);
        let mut ages = locked(ages);
        ages.captured_by = Some(if frame.is_related { "stamps" } else { "arrivals" });
        if frame.is_related {
            ages.age_ms = Some(Spread::including(ages.age_ms, age.as_secs_f64() * 1e3));
        }
    }
}
