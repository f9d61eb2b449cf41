//! One output: from the spool into datagrams, a few at a time.

use super::board::Board;
use crate::relay::live::Live;
use crate::relay::pull::Sayings;
use glassline_delivery::output::{Destination, Framing};
use glassline_delivery::stream::Pacing;
use glassline_io::spool::Reader;
use glassline_io::udp::{Route, Sender};
use glassline_media::Time;
use glassline_media::container::ts::PACKET_BYTES;
use glassline_transport::pacing::{Pacer, time_of};
use glassline_transport::rtp::mpeg_ts::Packetizer;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Datagrams that leave at once: 8 kB, which the shortest queues on the way hold.
const BURST_DATAGRAMS: usize = 6;
/// The lowest pace that a factor of the stream's rate leads to. A stream that has just begun has no rate yet, and its
/// first key frame is not to wait.
const LEAST_BPS: u64 = 10_000_000;
/// Bursts in a row; then others get their turn.
const BURSTS_A_TURN: usize = 16;
/// When an output that could not be opened is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// When a socket that was full is tried again.
const FULL: Duration = Duration::from_millis(1);

/// An output and where it is in its stream.
pub(super) struct Feed {
    board: Arc<Board>,
    socket: Option<Sender>,
    packetizer: Option<Packetizer>,
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
    sayings: Sayings,
}

/// A place in a stream.
struct Following {
    live: Arc<Live>,
    reader: Reader,
    /// It waits for an entry: for the first, or behind the place that it lost.
    awaits: bool,
}

/// Datagrams that are to leave next.
#[derive(Default)]
struct Burst {
    /// TS packets of the stream.
    packets: Vec<u8>,
    /// The datagrams, end to end.
    wire: Vec<u8>,
    /// Where each is in `wire`, and how many bytes of the stream it carries.
    datagrams: Vec<(Range<usize>, usize)>,
    /// The first one that was not sent yet.
    next: usize,
    /// What it carries begins at an entry.
    jumps: bool,
}

impl Feed {
    pub(super) fn new(board: Arc<Board>, seed: u64) -> Feed {
        let packetizer = (board.destination.framing == Framing::Rtp).then(|| Packetizer::new(seed));
        Feed {
            board,
            socket: None,
            packetizer,
            least_bps: LEAST_BPS,
            pacer: Pacer::default(),
            following: None,
            burst: Burst::default(),
            has_begun: false,
            retry_at: Time::ZERO,
            due: Time::NEVER,
            sayings: Sayings::default(),
        }
    }

    pub(super) fn board(&self) -> &Arc<Board> {
        &self.board
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
        let is_newer = match &self.following {
            Some(following) => following.live.id < live.id,
            None => !live.has_ended(),
        };
        if is_newer {
            let reader = Reader::new(live.chain.clone(), 0);
            self.following = Some(Following { live: Arc::clone(live), reader, awaits: true });
        }
        self.due = self.due.min(self.pacer.poll_timeout().max(self.retry_at));
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
        if self.pacer.poll_timeout() > now {
            return Some(self.pacer.poll_timeout());
        }
        let rate = match self.following.as_ref()?.live.pace_bps() {
            0 => 0,
            pace => pace.max(self.least_bps),
        };
        if self.socket.is_none() {
            match Sender::open(&route(&self.board.destination)) {
                Ok(socket) => self.socket = Some(socket),
                Err(error) => {
                    self.complain(&error, 1);
                    return self.retry_after(RETRY, now);
                }
            }
        }
        if self.burst.is_over() {
            if let Err(error) = self.gather() {
                self.complain(&error, 0);
                return self.retry_after(RETRY, now);
            }
            if self.burst.packets.is_empty() {
                self.following = self.following.take().filter(|following| !following.live.has_ended());
                self.board.begun.fetch_and(self.following.is_some(), Ordering::Relaxed);
                return None;
            }
            self.burst.frame(self.board.destination.packets, self.packetizer.as_mut(), rate, now);
        }
        let bytes = self.burst.wire.len();
        if !self.send() {
            return self.retry_after(FULL, now);
        }
        self.pacer.sent(bytes, rate, now);
        Some(self.pacer.poll_timeout())
    }

    /// Sends the burst's datagrams. Returns false where the socket is full; the rest then waits.
    fn send(&mut self) -> bool {
        let Some(socket) = &self.socket else { return true };
        let (burst, board) = (&mut self.burst, &self.board);
        while !burst.is_over() {
            let waiting = &burst.datagrams[burst.next..];
            let parts: Vec<&[u8]> = waiting.iter().map(|(range, _)| &burst.wire[range.clone()]).collect();
            match socket.send(&parts) {
                Ok(None) => return false,
                Ok(Some(sent)) => {
                    let bytes: usize = waiting.iter().take(sent).map(|(_, bytes)| bytes).sum();
                    board.datagrams.fetch_add(sent as u64, Ordering::Relaxed);
                    board.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
                    board.begun.store(true, Ordering::Relaxed);
                    burst.next += sent;
                    board.error().take();
                }
                Err(error) => {
                    // The network may come back; what cannot leave now is worth nothing later. An interface that comes
                    // back is another one to the socket.
                    let count = waiting.len() as u64;
                    burst.next = burst.datagrams.len();
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
        self.board.errors.fetch_add(errors, Ordering::Relaxed);
        let words = error.to_string();
        let (stream, output) = (&self.board.name, &self.board.destination);
        if self.sayings.is_worth_telling(&words) {
            tracing::warn!(%stream, %output, "cannot send: {words}; going on");
        }
        *self.board.error() = Some(words);
    }

    /// Takes the next packets of the stream, of a burst at most; none where there are none now.
    fn gather(&mut self) -> io::Result<()> {
        let Feed { burst, following: Some(following), .. } = self else { return Ok(()) };
        burst.packets.clear();
        burst.jumps = false;
        let room = BURST_DATAGRAMS * self.board.destination.packets * PACKET_BYTES;
        while burst.packets.len() < room {
            if following.awaits {
                let Some(prelude) = following.enter(self.has_begun) else { return Ok(()) };
                burst.packets.extend_from_slice(&prelude);
                (burst.jumps, self.has_begun) = (true, true);
                continue;
            }
            let (offset, head) = (following.reader.offset(), following.live.chain.head());
            if offset >= head {
                return Ok(());
            }
            let start = burst.packets.len();
            burst.packets.resize(room, 0);
            let read = if offset < following.live.tail() {
                None
            } else {
                following.reader.read(&mut burst.packets[start..], head)?
            };
            burst.packets.truncate(start + read.unwrap_or(0));
            if read.is_none() {
                self.board.moved_forward.fetch_add(1, Ordering::Relaxed);
                following.awaits = true;
                // What was gathered stands before the seam.
                if start > 0 {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

impl Following {
    /// Goes to the newest entry ahead, if there is one. Returns what is to be sent before it.
    fn enter(&mut self, moved: bool) -> Option<Vec<u8>> {
        let entry = self.live.newest_entry().filter(|entry| entry.offset >= self.reader.offset())?;
        self.reader.seek(entry.offset);
        self.awaits = false;
        Some(entry.prelude(moved))
    }
}

impl Burst {
    fn is_over(&self) -> bool {
        self.next >= self.datagrams.len()
    }

    /// Makes datagrams of the packets. Those of RTP are stamped with the time at which each is to leave at the pace.
    fn frame(&mut self, packets: usize, mut packetizer: Option<&mut Packetizer>, rate_bps: u64, now: Time) {
        self.wire.clear();
        self.datagrams.clear();
        self.next = 0;
        for payload in self.packets.chunks(packets * PACKET_BYTES) {
            let start = self.wire.len();
            if let Some(packetizer) = &mut packetizer {
                let at = now + time_of(start, rate_bps);
                self.wire.extend_from_slice(&packetizer.next_header(at, self.jumps && start == 0));
            }
            self.wire.extend_from_slice(payload);
            self.datagrams.push((start..self.wire.len(), payload.len()));
        }
    }
}

fn route(destination: &Destination) -> Route {
    let Destination { address, interface, source, ttl, .. } = destination.clone();
    Route { address, interface, source, ttl }
}
