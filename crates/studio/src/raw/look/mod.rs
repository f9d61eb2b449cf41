//! What is in the flows of a description, and how they come: loss, order, rates, timing (ST 2110-21), levels, ancillary data.
//!
//! ```text
//!  video      Receiver ── tap: each packet of each path ─► Path, Frames, Timing ─┐
//!             (one socket a path)  frames ─► MediaClock: stamps or arrivals? ────┤
//!  audio      Datagrams ─► Path, pcm::Depacketizer: levels, silence ─────────────┼─► FlowReport, at any time
//!  ancillary  Datagrams ─► Path, ancillary::Depacketizer: kinds, time code ──────┘
//! ```
//! Each flow has a thread of its own; nothing is decoded, and nothing is kept.

mod ancillary;
mod audio;
mod frames;
mod path;
mod report;
#[cfg(test)]
mod tests;
mod video;

pub use report::{
    AncillaryReport, AudioReport, FlowReport, KindReport, LimitReport, Merged, PathReport, Range,
    SocketReport, Spread, StrangerReport, TimingReport, VideoReport,
};

use super::datagrams::{Datagram, Datagrams};
use super::described::{self, Options};
use ancillary::AncillarySeen;
use audio::AudioSeen;
use glassline_io::clock::Clock;
use glassline_io::udp::Granted;
use glassline_media::{FrameRate, Time};
use glassline_transport::sdp::{Description, Flow, Media};
use path::Path;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use video::VideoLook;

/// How long a thread waits at a time that nothing comes to.
const RECEIVE_TIMEOUT: Duration = Duration::from_millis(100);
/// Room in the kernel for small datagrams that were not read yet.
const SOCKET_BYTES: usize = 1 << 20;

/// How a description's flows are looked at.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// How they are received.
    pub options: Options,
    /// Whether PTP keeps our wall clock, as the sender's: timing is judged by it then.
    pub is_ptp: bool,
    /// Frames a second, where the description says none; without it those that the stamps tell.
    pub rate: Option<FrameRate>,
}

/// Why a flow cannot be received.
#[derive(Debug, thiserror::Error)]
#[error("cannot receive at {addresses}: {error}")]
pub struct LookError {
    /// Where.
    pub addresses: String,
    /// The system's words.
    pub error: io::Error,
}

/// Where capture times come from, and what has ended the flow.
#[derive(Clone, Debug, Default)]
struct Clocks {
    captured_by: Option<&'static str>,
    age_ms: Option<Spread>,
    failed: Option<String>,
}

/// Looks at all flows of a description.
pub struct Look {
    flows: Vec<(Flow, Running)>,
}

enum Running {
    Video(Box<VideoLook>),
    Data(DataLook),
}

impl Look {
    /// Opens the sockets and begins.
    ///
    /// # Errors
    /// [`LookError`] for the first flow that cannot be received.
    pub fn start(description: &Description, settings: &Settings, clock: Clock) -> Result<Look, LookError> {
        let start = |flow: &Flow| {
            let started = match &flow.media {
                Media::Video(video) => {
                    VideoLook::start(flow, video, settings, clock).map(|look| Running::Video(Box::new(look)))
                }
                Media::Audio(audio) => {
                    let seen = AudioSeen::new(flow, audio, settings.options.skew, clock);
                    let seen = seen.ok_or(io::Error::from(io::ErrorKind::Unsupported));
                    seen.and_then(|seen| DataLook::start(flow, Data::Audio(Box::new(seen)), settings, clock))
                        .map(Running::Data)
                }
                Media::Ancillary(ancillary) => {
                    let seen = AncillarySeen::new(flow, ancillary, settings.options.skew, clock);
                    DataLook::start(flow, Data::Ancillary(Box::new(seen)), settings, clock).map(Running::Data)
                }
            };
            let failed = |error| LookError { addresses: described::addresses(flow), error };
            Ok((flow.clone(), started.map_err(failed)?))
        };
        Ok(Look { flows: description.flows.iter().map(start).collect::<Result<_, _>>()? })
    }

    /// What was found so far of each flow, in the description's order.
    pub fn report(&self) -> Vec<FlowReport> {
        self.flows.iter().map(|(flow, running)| running.report(flow)).collect()
    }

    /// Ends it, and tells what was found.
    pub fn stop(mut self) -> Vec<FlowReport> {
        self.flows.iter_mut().for_each(|(_, running)| running.stop());
        self.report()
    }
}

impl Running {
    fn stop(&mut self) {
        match self {
            Running::Video(look) => look.stop(),
            Running::Data(look) => look.stop(),
        }
    }

    fn report(&self, flow: &Flow) -> FlowReport {
        let look = match self {
            Running::Video(look) => {
                let (paths, merged, video, clocks) = look.report();
                return FlowReport { video: Some(video), ..of_flow(flow, "video", (paths, merged, clocks)) };
            }
            Running::Data(look) => look,
        };
        let data = locked(&look.data);
        let paths = data.paths().iter().zip(&look.granted);
        let paths =
            paths.map(|(path, granted)| PathReport { socket: Some(socket(granted)), ..path.report() });
        let paths: Vec<PathReport> = paths.collect();
        let failed = locked(&look.failed).clone();
        match &*data {
            Data::Audio(seen) => {
                let (merged, audio, clocks) = seen.report();
                let clocks = Clocks { failed, ..clocks };
                FlowReport { audio: Some(audio), ..of_flow(flow, "audio", (paths, merged, clocks)) }
            }
            Data::Ancillary(seen) => {
                let (merged, ancillary, clocks) = seen.report();
                let clocks = Clocks { failed, ..clocks };
                FlowReport {
                    ancillary: Some(ancillary),
                    ..of_flow(flow, "ancillary", (paths, merged, clocks))
                }
            }
        }
    }
}

/// A report without what is of one kind alone.
fn of_flow(
    flow: &Flow,
    kind: &'static str,
    (mut paths, mut merged, clocks): (Vec<PathReport>, Merged, Clocks),
) -> FlowReport {
    for (report, path) in paths.iter_mut().zip(&flow.paths) {
        report.address = path.to.to_string();
    }
    merged.kernel_drops =
        merged.kernel_drops.max(paths.iter().map(|path| u64::from(path.kernel_drops)).sum());
    FlowReport {
        kind,
        payload_type: flow.payload_type,
        reference_clock: flow.reference_clock.as_ref().map(ToString::to_string),
        media_clock: flow.media_clock.as_ref().map(ToString::to_string),
        captured_by: clocks.captured_by,
        age_ms: clocks.age_ms,
        paths,
        merged,
        video: None,
        audio: None,
        ancillary: None,
        failed: clocks.failed,
    }
}

/// A socket's room.
fn socket(granted: &Granted) -> SocketReport {
    SocketReport {
        asked_bytes: granted.asked_bytes,
        granted_bytes: granted.granted_bytes,
        advice: granted.advice(),
    }
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    // Threads that hold it only count, so that a panic leaves it usable.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What comes in small datagrams.
enum Data {
    Audio(Box<AudioSeen>),
    Ancillary(Box<AncillarySeen>),
}

impl Data {
    fn paths(&self) -> &[Path] {
        match self {
            Data::Audio(seen) => &seen.paths,
            Data::Ancillary(seen) => &seen.paths,
        }
    }

    fn take(&mut self, path: usize, datagram: Datagram<'_>) {
        match self {
            Data::Audio(seen) => seen.take(path, datagram),
            Data::Ancillary(seen) => seen.take(path, datagram),
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        match self {
            Data::Audio(seen) => seen.poll_timeout(),
            Data::Ancillary(seen) => seen.poll_timeout(),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        match self {
            Data::Audio(seen) => seen.handle_timeout(now),
            Data::Ancillary(seen) => seen.handle_timeout(now),
        }
    }
}

/// A flow of small datagrams that is looked at.
struct DataLook {
    data: Arc<Mutex<Data>>,
    failed: Arc<Mutex<Option<String>>>,
    granted: Vec<Granted>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl DataLook {
    fn start(flow: &Flow, data: Data, settings: &Settings, clock: Clock) -> io::Result<DataLook> {
        let paths = described::paths(flow, &settings.options, SOCKET_BYTES);
        let mut datagrams = Datagrams::open(&paths)?;
        let granted = datagrams.granted();
        let (data, failed) = (Arc::new(Mutex::new(data)), Arc::new(Mutex::new(None)));
        let is_over = Arc::new(AtomicBool::new(false));
        let (shared, failing, ending) = (data.clone(), failed.clone(), is_over.clone());
        let thread = thread::Builder::new().name("look".to_owned()).spawn(move || {
            while !ending.load(Ordering::Relaxed) {
                let due = locked(&shared).poll_timeout();
                let wait = due.map_or(RECEIVE_TIMEOUT, |due| due.since(clock.now())).min(RECEIVE_TIMEOUT);
                let mut take = |path: usize, datagram: Datagram<'_>| locked(&shared).take(path, datagram);
                if let Err(error) = datagrams.receive(wait, &mut take) {
                    *locked(&failing) = Some(error.to_string());
                    return;
                }
                let now = clock.now();
                let mut data = locked(&shared);
                if data.poll_timeout().is_some_and(|due| due <= now) {
                    data.handle_timeout(now);
                }
            }
        })?;
        Ok(DataLook { data, failed, granted, is_over, thread: Some(thread) })
    }

    fn stop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for DataLook {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Drop for VideoLook {
    fn drop(&mut self) {
        self.stop();
    }
}
