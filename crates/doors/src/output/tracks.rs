//! One output of coded tracks: from the spool by the demuxer into RTP of each track, with the file that describes them.
//!
//! ```text
//! spool ─► ProgramSender ─┬─ pictures ─► PORT       reports ─► PORT + 1
//!                         ├─ sound ────► PORT + 2   reports ─► PORT + 3
//!                         └─ description ─► FILE, written beside it and renamed
//! ```

use super::address::ResolvedAddress;
use super::feed::{BURST_DATAGRAMS, BURSTS_A_TURN, FULL, LEAST_BPS, OutputHandover, RESOLVING, RETRY, route};
use super::table::OutputEntry;
use crate::log_throttle::LogThrottle;
use glassline_delivery::output::TrackOptions;
use glassline_delivery::stream::{Mux, Pacing};
use glassline_io::random;
use glassline_io::udp::Sender;
use glassline_media::quantity::Bitrate;
use glassline_media::{Time, Utc};
use glassline_streams::{Entering, Live, Next, StreamReader};
use glassline_transport::pacing::Pacer;
use glassline_transport::rtp::HEADER_BYTES;
use glassline_transport::rtp::session::offer::{OfferedTrack, Placing, SOUND_PORT, describe_placed};
use glassline_transport::rtp::session::program::{PICTURES, ProgramSender, TrackPacket};
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Bytes of a read of the spool.
const READ_BYTES: usize = 16 << 10;
/// Time between two writes of the file.
const WRITE_TIME: Duration = Duration::from_secs(1);
/// The usual number of routers that datagrams to a group may pass.
const TTL_USUAL: u8 = 1;

/// An output and where it is in its stream.
pub(super) struct TrackFeed {
    entry: Arc<OutputEntry>,
    options: TrackOptions,
    sockets: Option<Sockets>,
    address: ResolvedAddress,
    least_bps: u64,
    pacer: Pacer,
    reader: Option<StreamReader>,
    program: ProgramSender,
    /// The next burst.
    burst: Vec<TrackPacket>,
    description: Description,
    scratch: Vec<u8>,
    retry_at: Time,
    due: Time,
    log_throttle: LogThrottle,
}

/// For packets and reports of pictures, then of sound.
struct Sockets {
    to: SocketAddr,
    all: [Sender; 4],
}

/// What the file says.
#[derive(Default)]
struct Description {
    session_id: u64,
    version: u64,
    /// The tracks that are sent.
    tracks: Vec<OfferedTrack>,
    /// What was written last, and its address.
    written: Option<(Vec<OfferedTrack>, SocketAddr)>,
    /// From when on the file is looked after.
    write_at: Option<Time>,
    /// It is written again at this time at the earliest: a publisher may send other parameter sets with each key frame.
    next_write: Time,
    /// The last attempt has failed.
    is_unwritten: bool,
}

impl TrackFeed {
    /// `seed` is taken where the system has no randomness.
    pub(super) fn new(entry: Arc<OutputEntry>, options: TrackOptions, seed: u64) -> TrackFeed {
        let random = random::seed().ok().and_then(|seed| seed.first_chunk().copied().map(u64::from_le_bytes));
        let random = random.unwrap_or(seed);
        TrackFeed {
            program: ProgramSender::new(options.mtu, random),
            entry,
            options,
            sockets: None,
            address: ResolvedAddress::default(),
            least_bps: LEAST_BPS,
            pacer: Pacer::default(),
            reader: None,
            burst: Vec::new(),
            description: Description { session_id: random >> 1, ..Description::default() },
            scratch: vec![0; READ_BYTES],
            retry_at: Time::ZERO,
            due: Time::NEVER,
            log_throttle: LogThrottle::default(),
        }
    }

    /// An output that a fault has ended, and that is opened again after a pause.
    pub(super) fn begun_anew(mut self, now: Time) -> TrackFeed {
        self.retry_at = now + RETRY;
        self
    }

    pub(super) fn entry(&self) -> &Arc<OutputEntry> {
        &self.entry
    }

    /// Its stream is paced in this way from now on.
    pub(super) fn reconfigure(&mut self, pacing: Pacing) {
        self.least_bps = if matches!(pacing, Pacing::Factor(_)) { LEAST_BPS } else { 0 };
    }

    /// When [`TrackFeed::handle_timeout`] has something to do.
    pub(super) fn poll_timeout(&self) -> Time {
        let write = self.description.write_at.unwrap_or(Time::NEVER);
        self.due.min(self.program.poll_timeout()).min(write)
    }

    /// Its stream `live` has grown, ended or begun.
    pub(super) fn handle_news(&mut self, live: &Arc<Live>) {
        if live.mux != Mux::MpegTs {
            return;
        }
        let is_newer = match &self.reader {
            Some(reader) => reader.live().id < live.id,
            None => !live.has_ended(),
        };
        if is_newer {
            self.program.begin_anew();
            self.reader = Some(StreamReader::new(Arc::clone(live), Entering::Newest));
        }
        self.due = self.due.min(self.pacer.next_send().max(self.retry_at));
    }

    /// What the next process needs of it. That begins a session of its own: receivers see another sender.
    pub(super) fn state(&self) -> OutputHandover {
        OutputHandover::of_counts(&self.entry)
    }

    /// Goes on with the counts of an output that another process left, if it is this one.
    pub(super) fn restore(&mut self, left: &OutputHandover) {
        left.restore_counts(&self.entry);
    }

    /// Sends what is due.
    pub(super) fn handle_timeout(&mut self, now: Time, utc: Utc) {
        self.due = now;
        self.program.handle_timeout(now, utc);
        for _ in 0..BURSTS_A_TURN {
            match self.send_burst(now, utc) {
                Some(due) if due <= now => {}
                due => {
                    self.due = due.unwrap_or(Time::NEVER);
                    break;
                }
            }
        }
        self.write_description(now);
    }

    /// It is not wanted any more: its receivers are told, as far as there is room at once. A next process goes on with an output, and
    /// receivers stay.
    pub(super) fn leave(mut self, now: Time, utc: Utc) {
        self.program.end(now, utc);
        self.burst = std::iter::from_fn(|| self.program.poll()).filter(|packet| packet.is_report).collect();
        let _ = self.send(now);
    }

    /// Sends a burst. Returns when the next one may leave; `None` where there is nothing more for now.
    fn send_burst(&mut self, now: Time, utc: Utc) -> Option<Time> {
        let wait = self.pacer.next_send().max(self.retry_at);
        if wait > now {
            return Some(wait);
        }
        if self.reader.is_none() && self.burst.is_empty() {
            self.entry.begun.store(false, Ordering::Relaxed);
            return None;
        }
        if let Some(wait) = self.open(now) {
            return Some(wait);
        }
        if self.burst.is_empty() {
            self.gather(now, utc);
        }
        if self.burst.is_empty() {
            return None;
        }
        let rate = match self.reader.as_ref().map_or(0, |reader| reader.live().pace_bps()) {
            0 => None,
            pace => Some(Bitrate::from_bits_per_second(pace.max(self.least_bps))),
        };
        let Some(bytes) = self.send(now) else {
            self.retry_at = now + FULL;
            return Some(self.retry_at);
        };
        self.pacer.sent(bytes, rate, now);
        Some(self.pacer.next_send().max(self.retry_at))
    }

    /// Opens the sockets, where they are not open. Returns until when there are none.
    fn open(&mut self, now: Time) -> Option<Time> {
        if self.sockets.is_some() {
            return None;
        }
        let destination = &self.entry.destination;
        let opened = match self.address.find(destination, now) {
            Ok(None) => {
                self.retry_at = now + RESOLVING;
                return Some(self.retry_at);
            }
            Ok(Some(to)) => {
                let open = |above: u16| {
                    let address = SocketAddr::new(to.ip(), to.port().saturating_add(above));
                    Sender::open(&route(destination, address))
                };
                let [pictures, sound] = [0, SOUND_PORT];
                let all = (|| Ok([open(pictures)?, open(pictures + 1)?, open(sound)?, open(sound + 1)?]))();
                all.map(|all| Sockets { to, all })
            }
            Err(error) => Err(error),
        };
        match opened {
            Ok(sockets) => {
                self.sockets = Some(sockets);
                // Of another address the file has to tell.
                self.describe(now);
                None
            }
            Err(error) => {
                self.complain(&error.to_string(), 1);
                self.retry_at = now + RETRY;
                Some(self.retry_at)
            }
        }
    }

    /// Takes the next datagrams, a burst at most; none where there are none now.
    fn gather(&mut self, now: Time, utc: Utc) {
        loop {
            self.burst.extend(std::iter::from_fn(|| self.program.poll()).take(BURST_DATAGRAMS));
            if let Some(tracks) = self.program.poll_description() {
                self.description.tracks = tracks;
                self.describe(now);
            }
            if !self.burst.is_empty() || !self.read(now, utc) {
                return;
            }
        }
    }

    /// Reads once of the stream. Returns whether that may have brought something.
    fn read(&mut self, now: Time, utc: Utc) -> bool {
        let Some(reader) = &mut self.reader else { return false };
        let read = match reader.poll(Time::ZERO) {
            Next::Pending => return false,
            Next::Ended => {
                self.reader = None;
                self.program.end(now, utc);
                return true;
            }
            Next::Entered { entry, moved } => {
                self.program.enter();
                self.program.push(&entry.prelude(moved), now, utc);
                return true;
            }
            Next::Behind { .. } => None,
            // Memory that cannot be read is as good as gone.
            Next::Data { until } => reader.read(&mut self.scratch, until).ok().flatten(),
        };
        match read {
            Some(count) => self.program.push(&self.scratch[..count], now, utc),
            None => {
                self.entry.moved_forward.fetch_add(1, Ordering::Relaxed);
                reader.lose_place();
            }
        }
        true
    }

    /// Sends the burst's datagrams. Returns their bytes; `None` where a socket is full, and the rest waits.
    fn send(&mut self, now: Time) -> Option<usize> {
        let Some(sockets) = &self.sockets else { return Some(0) };
        let (mut bytes, mut at, mut failed) = (0, 0, None);
        let socket_of =
            |packet: &TrackPacket| 2 * usize::from(packet.track != PICTURES) + usize::from(packet.is_report);
        while let Some(first) = self.burst.get(at) {
            let number = socket_of(first);
            // Datagrams of one socket leave by one call.
            let run: Vec<&TrackPacket> =
                self.burst[at..].iter().take_while(|packet| socket_of(packet) == number).collect();
            let waiting: Vec<&[u8]> = run.iter().map(|packet| &packet.bytes[..]).collect();
            match sockets.all[number].send(&waiting) {
                Ok(None) => break,
                Ok(Some(sent)) => {
                    let gone = &run[..sent.min(run.len())];
                    let media = gone.iter().filter(|packet| !packet.is_report);
                    let of_stream: usize =
                        media.map(|packet| packet.bytes.len().saturating_sub(HEADER_BYTES)).sum();
                    bytes += gone.iter().map(|packet| packet.bytes.len()).sum::<usize>();
                    self.entry.datagrams.fetch_add(gone.len() as u64, Ordering::Relaxed);
                    self.entry.bytes.fetch_add(of_stream as u64, Ordering::Relaxed);
                    self.entry.begun.store(true, Ordering::Relaxed);
                    at += gone.len();
                }
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        if let Some(error) = failed {
            // What cannot leave now is worth nothing later. An interface that comes back is another one to the sockets.
            let count = (self.burst.len() - at) as u64;
            self.burst.clear();
            self.sockets = None;
            self.retry_at = now + RETRY;
            self.complain(&error.to_string(), count);
            return Some(bytes);
        }
        self.burst.drain(..at);
        if at > 0 && !self.description.is_unwritten {
            self.entry.error().take();
        }
        (self.burst.is_empty() || at > 0).then_some(bytes)
    }

    /// Has the file say what is sent, and where to.
    fn describe(&mut self, now: Time) {
        let at = now.max(self.description.next_write);
        self.description.write_at.get_or_insert(at);
    }

    /// Writes the file where it says something else. What fails is tried again: packets leave all the same.
    fn write_description(&mut self, now: Time) {
        if self.description.write_at.is_none_or(|at| at > now) {
            return;
        }
        // Without sockets it is not known where to; they describe when they are opened.
        let to = self.sockets.as_ref().map(|sockets| sockets.to);
        let description = &mut self.description;
        description.write_at = None;
        let Some(to) = to else { return };
        let new = (description.tracks.clone(), to);
        if new.0.is_empty() || description.written.as_ref() == Some(&new) {
            description.is_unwritten = false;
            return;
        }
        let placing = Placing {
            session_id: description.session_id,
            version: description.version.saturating_add(1),
            to: to.ip(),
            port: to.port(),
            ttl: self.entry.destination.ttl.unwrap_or(TTL_USUAL),
            source: self.entry.destination.source,
        };
        let text = describe_placed(self.entry.name.as_str(), &new.0, &placing);
        let written = write(&self.options.file, &text);
        description.is_unwritten = written.is_err();
        match written {
            Ok(()) => {
                (description.version, description.written) = (placing.version, Some(new));
                description.next_write = now + WRITE_TIME;
                let (stream, output) = (&self.entry.name, &self.entry.destination);
                tracing::info!(%stream, %output, "the session description is written");
            }
            Err(error) => {
                description.write_at = Some(now + RETRY);
                self.complain(&format!("cannot write {}: {error}", self.options.file.display()), 1);
            }
        }
    }

    /// Counts `errors` for the same reason.
    fn complain(&mut self, words: &str, errors: u64) {
        self.entry.errors.fetch_add(errors, Ordering::Relaxed);
        let (stream, output) = (&self.entry.name, &self.entry.destination);
        if self.log_throttle.should_log(words) {
            tracing::warn!(%stream, %output, "cannot send: {words}; going on");
        }
        *self.entry.error() = Some(words.to_owned());
    }
}

/// Writes a file beside the one that it replaces: receivers read the old text or the new one.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = Path::new(&beside);
    fs::write(beside, text)?;
    fs::rename(beside, path)
}

#[cfg(test)]
#[path = "tracks_tests.rs"]
mod tests;
