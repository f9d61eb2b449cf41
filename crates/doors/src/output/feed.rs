//! One output: from the spool into datagrams, a few at a time.

use super::address::ResolvedAddress;
use super::table::OutputEntry;
use crate::log_throttle::LogThrottle;
use glassline_delivery::output::{Destination, Framing};
use glassline_delivery::stream::{Mux, Pacing, Seams};
use glassline_io::udp::{Route, Sender};
use glassline_media::Time;
use glassline_media::container::ts::PACKET_BYTES;
use glassline_media::quantity::Bitrate;
use glassline_streams::Live;
use glassline_streams::{Entering, Next, Place, ReaderState, StreamReader};
use glassline_transport::pacing::{Pacer, time_of};
use glassline_transport::rtp::Framer;
use glassline_transport::rtp::mpeg_ts::Packetizer;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Datagrams that leave at once: 8 kB, which the shortest queues on the way hold.
pub(super) const BURST_DATAGRAMS: usize = 6;
/// The lowest pace that a factor of the stream's rate leads to. A stream that has just begun has no rate yet, and its
/// first key frame is not to wait.
pub(super) const LEAST_BPS: u64 = 10_000_000;
/// Bursts in a row; then others get their turn.
pub(super) const BURSTS_A_TURN: usize = 16;
/// When an output that could not be opened is tried again.
pub(super) const RETRY: Duration = Duration::from_secs(1);
/// When a socket that was full is tried again.
pub(super) const FULL: Duration = Duration::from_millis(1);
/// How often it is looked whether a name has been resolved.
pub(super) const RESOLVING: Duration = Duration::from_millis(20);

/// An output and where it is in its stream.
pub(super) struct Feed {
    entry: Arc<OutputEntry>,
    socket: Option<Sender>,
    address: ResolvedAddress,
    framer: Framer,
    /// The lowest pace, in bits a second.
    least_bps: u64,
    pacer: Pacer,
    following: Option<Following>,
    burst: Burst,
    /// Whether it has ever sent anything: what comes after another place of the stream is announced as such.
    has_begun: bool,
    /// What failed is not tried again before.
    retry_at: Time,
    due: Time,
    log_throttle: LogThrottle,
}

/// A place in a stream.
struct Following {
    reader: StreamReader,
    /// Where another stream was sent before this one.
    seams: Option<Seams>,
}

/// An output as one process leaves it to the next, which opens a socket of its own.
#[derive(Serialize, Deserialize)]
pub struct OutputHandover {
    name: String,
    url: String,
    counts: [u64; 4],
    has_begun: bool,
    /// What RTP's packets are numbered with.
    numbers: Option<(u32, u16, u32)>,
    place: Option<FollowingHandover>,
}

#[derive(Serialize, Deserialize)]
struct FollowingHandover {
    stream: u64,
    offset: u64,
    awaits: bool,
    seams: Option<Vec<u64>>,
}

/// Datagrams that leave next.
#[derive(Default)]
struct Burst {
    /// TS packets of the stream.
    packets: Vec<u8>,
    /// The datagrams, end to end.
    wire: Vec<u8>,
    /// Bytes of each but the last.
    datagram_bytes: usize,
    /// Bytes of each that are not the stream's.
    header_bytes: usize,
    /// Bytes of `wire` that were sent.
    sent: usize,
    /// What it carries begins at an entry.
    jumps: bool,
}

impl OutputHandover {
    /// Of an output that leaves its counts alone.
    pub(super) fn of_counts(entry: &OutputEntry) -> OutputHandover {
        OutputHandover {
            name: entry.name.to_string(),
            url: entry.destination.to_string(),
            counts: entry.counts(),
            has_begun: false,
            numbers: None,
            place: None,
        }
    }

    /// Takes the counts over, if they are of this output. Returns whether they are.
    pub(super) fn restore_counts(&self, entry: &OutputEntry) -> bool {
        let is_it = self.name == entry.name.as_str() && self.url == entry.destination.to_string();
        if is_it {
            entry.set_counts(self.counts);
        }
        is_it
    }
}

impl Feed {
    pub(super) fn new(entry: Arc<OutputEntry>, seed: u64) -> Feed {
        let destination = &entry.destination;
        let framer = Framer::new(destination.packets, (destination.framing == Framing::Rtp).then_some(seed));
        Feed {
            entry,
            socket: None,
            address: ResolvedAddress::default(),
            framer,
            least_bps: LEAST_BPS,
            pacer: Pacer::default(),
            following: None,
            burst: Burst::default(),
            has_begun: false,
            retry_at: Time::ZERO,
            due: Time::NEVER,
            log_throttle: LogThrottle::default(),
        }
    }

    /// An output that a fault has ended, and that is opened again after a pause.
    pub(super) fn begun_anew(entry: Arc<OutputEntry>, seed: u64, now: Time) -> Feed {
        Feed { has_begun: true, retry_at: now + RETRY, ..Feed::new(entry, seed) }
    }

    pub(super) fn entry(&self) -> &Arc<OutputEntry> {
        &self.entry
    }

    /// Its stream is paced in this way from now on.
    pub(super) fn reconfigure(&mut self, pacing: Pacing) {
        self.least_bps = if matches!(pacing, Pacing::Factor(_)) { LEAST_BPS } else { 0 };
    }

    /// When [`Feed::handle_timeout`] has something to do.
    pub(super) fn poll_timeout(&self) -> Time {
        self.due
    }

    /// Its stream `live` has grown, ended or begun.
    pub(super) fn handle_news(&mut self, live: &Arc<Live>) {
        // Datagrams hold packets; other muxes have none.
        if live.mux != Mux::MpegTs {
            return;
        }
        let is_newer = match &self.following {
            Some(following) => following.reader.live().id < live.id,
            None => !live.has_ended(),
        };
        if is_newer {
            self.following = Some(Following {
                reader: StreamReader::new(Arc::clone(live), Entering::Newest),
                seams: self.has_begun.then(Seams::new),
            });
        }
        self.due = self.due.min(self.pacer.next_send().max(self.retry_at));
    }

    /// What the next process needs of it.
    pub(super) fn state(&self) -> OutputHandover {
        let place = |following: &Following| FollowingHandover {
            stream: following.reader.live().id,
            offset: following.reader.offset(),
            awaits: !following.reader.is_placed(),
            seams: following.seams.as_ref().map(|seams| seams.announced().to_vec()),
        };
        OutputHandover {
            name: self.entry.name.to_string(),
            url: self.entry.destination.to_string(),
            counts: self.entry.counts(),
            has_begun: self.has_begun,
            numbers: self.framer.numbers(),
            place: self.following.as_ref().map(place),
        }
    }

    /// Goes on where another process left an output, if it is this one.
    pub(super) fn restore(&mut self, left: &OutputHandover) {
        if !left.restore_counts(&self.entry) {
            return;
        }
        self.has_begun = left.has_begun;
        self.framer.restore(left.numbers);
        if let (Some(following), Some(place)) = (&mut self.following, &left.place)
            && following.reader.live().id == place.stream
            && place.offset <= following.reader.live().chain.head()
        {
            let FollowingHandover { offset, awaits, .. } = *place;
            let at = if awaits { Place::Awaiting { moved: offset > 0 } } else { Place::Following };
            let reader = ReaderState { offset, place: at, entered_at: offset, ..following.reader.state() };
            following.reader = StreamReader::restore(Arc::clone(following.reader.live()), reader, None);
            following.seams = place.seams.as_deref().and_then(Seams::from_announced);
        }
    }

    /// Sends what is due.
    pub(super) fn handle_timeout(&mut self, now: Time) {
        self.due = now;
        for _ in 0..BURSTS_A_TURN {
            match self.send_burst(now) {
                Some(due) if due <= now => {}
                Some(due) => {
                    self.due = due;
                    return;
                }
                None => {
                    self.due = Time::NEVER;
                    return;
                }
            }
        }
    }

    /// Sends a burst. Returns when the next one may leave; `None` where there is nothing more for now.
    fn send_burst(&mut self, now: Time) -> Option<Time> {
        if self.pacer.next_send() > now {
            return Some(self.pacer.next_send());
        }
        let rate = match self.following.as_ref()?.reader.live().pace_bps() {
            0 => None,
            pace => Some(Bitrate::from_bits_per_second(pace.max(self.least_bps))),
        };
        if self.socket.is_none() {
            let destination = &self.entry.destination;
            let found = self.address.find(destination, now);
            let opened = match found {
                Ok(None) => return self.retry_after(RESOLVING, now),
                Ok(Some(address)) => Sender::open(&route(destination, address)),
                Err(error) => Err(error),
            };
            match opened {
                Ok(socket) => self.socket = Some(socket),
                Err(error) => {
                    self.complain(&error, 1);
                    return self.retry_after(RETRY, now);
                }
            }
        }
        if self.burst.is_over() {
            let has_ended = self.gather();
            if self.burst.packets.is_empty() {
                self.following = self.following.take().filter(|_| !has_ended);
                self.entry.begun.fetch_and(self.following.is_some(), Ordering::Relaxed);
                return None;
            }
            self.burst.frame(&mut self.framer, rate, now);
        }
        let bytes = self.burst.wire.len();
        if !self.send() {
            return self.retry_after(FULL, now);
        }
        self.pacer.sent(bytes, rate, now);
        Some(self.pacer.next_send())
    }

    /// Sends the burst's datagrams. Returns false where the socket is full; the rest then waits.
    fn send(&mut self) -> bool {
        let Some(socket) = &self.socket else { return true };
        let (burst, entry) = (&mut self.burst, &self.entry);
        while !burst.is_over() {
            let waiting: Vec<&[u8]> = burst.wire[burst.sent..].chunks(burst.datagram_bytes).collect();
            match socket.send(&waiting) {
                Ok(None) => return false,
                Ok(Some(sent)) => {
                    let bytes: usize = waiting.iter().take(sent).map(|datagram| datagram.len()).sum();
                    entry.datagrams.fetch_add(sent as u64, Ordering::Relaxed);
                    entry.bytes.fetch_add((bytes - sent * burst.header_bytes) as u64, Ordering::Relaxed);
                    entry.begun.store(true, Ordering::Relaxed);
                    burst.sent += bytes;
                    entry.error().take();
                }
                Err(error) => {
                    // The network may come back; what cannot leave now is worth nothing later. An interface that comes
                    // back is another one to the socket.
                    let count = waiting.len() as u64;
                    burst.sent = burst.wire.len();
                    self.socket = None;
                    self.complain(&error, count);
                    return true;
                }
            }
        }
        true
    }

    fn retry_after(&mut self, time: Duration, now: Time) -> Option<Time> {
        self.retry_at = now + time;
        Some(self.retry_at)
    }

    /// Counts `errors` for the same reason.
    fn complain(&mut self, error: &io::Error, errors: u64) {
        self.entry.errors.fetch_add(errors, Ordering::Relaxed);
        let words = error.to_string();
        let (stream, output) = (&self.entry.name, &self.entry.destination);
        if self.log_throttle.should_log(&words) {
            tracing::warn!(%stream, %output, "cannot send: {words}; going on");
        }
        *self.entry.error() = Some(words);
    }

    /// Takes the next packets of the stream, of a burst at most; none where there are none now. Returns whether there will be no
    /// more.
    fn gather(&mut self) -> bool {
        let Feed { burst, following: Some(following), .. } = self else { return true };
        burst.packets.clear();
        burst.jumps = false;
        let has_ended = following.gather(burst, &self.entry);
        self.has_begun |= burst.jumps;
        if let Some(seams) = &mut following.seams {
            seams.announce(&mut burst.packets);
        }
        has_ended
    }
}

impl Following {
    /// Reads packets of the stream, of a burst at most. Returns whether there will be no more.
    fn gather(&mut self, burst: &mut Burst, entry: &OutputEntry) -> bool {
        let room = BURST_DATAGRAMS * entry.destination.packets * PACKET_BYTES;
        while burst.packets.len() < room {
            let start = burst.packets.len();
            let read = match self.reader.poll(Time::ZERO) {
                Next::Pending => return false,
                Next::Ended => return true,
                Next::Entered { entry, moved } => {
                    burst.packets.extend_from_slice(&entry.prelude(moved));
                    burst.jumps = true;
                    continue;
                }
                Next::Behind { .. } => None,
                Next::Data { until } => {
                    burst.packets.resize(room, 0);
                    // Memory that cannot be read is as good as gone.
                    self.reader.read(&mut burst.packets[start..], until).ok().flatten()
                }
            };
            burst.packets.truncate(start + read.unwrap_or(0));
            if read.is_none() {
                entry.moved_forward.fetch_add(1, Ordering::Relaxed);
                self.reader.lose_place();
                // What was gathered stands before the seam.
                if start > 0 {
                    return false;
                }
            }
        }
        false
    }
}

impl Burst {
    fn is_over(&self) -> bool {
        self.sent >= self.wire.len()
    }

    /// Makes datagrams of the packets. Those of RTP are stamped with the time at which each leaves at the pace.
    fn frame(&mut self, framer: &mut Framer, rate: Option<Bitrate>, now: Time) {
        let jumps = self.jumps;
        let header = |packetizer: &mut Packetizer, start: usize| {
            packetizer.next_header(now + time_of(start, rate), jumps && start == 0)
        };
        self.datagram_bytes = framer.frame(&self.packets, &mut self.wire, header);
        (self.header_bytes, self.sent) = (framer.header_bytes(), 0);
    }
}

/// How datagrams get to `destination`, which was found at `address`.
pub(super) fn route(destination: &Destination, address: SocketAddr) -> Route {
    let Destination { interface, source, ttl, marks, .. } = destination.clone();
    Route { address, interface, source, ttl, dscp: marks.dscp, flow_label: marks.flow_label }
}

#[cfg(test)]
#[path = "feed_tests.rs"]
mod tests;
