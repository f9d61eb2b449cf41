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
/// How often it is looked whether a name has been resolved.
const RESOLVING: Duration = Duration::from_millis(20);

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
        let entry = &self.entry;
        if left.name != entry.name.as_str() || left.url != entry.destination.to_string() {
            return;
        }
        entry.set_counts(left.counts);
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
fn route(destination: &Destination, address: SocketAddr) -> Route {
    let Destination { interface, source, ttl, marks, .. } = destination.clone();
    Route { address, interface, source, ttl, dscp: marks.dscp, flow_label: marks.flow_label }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Output;
    use crate::output::OutputTable;
    use glassline_delivery::output::Destination;
    use glassline_delivery::policy::StreamName;
    use glassline_delivery::stream::{self, Backlog, FlushPolicy, Prebuffer};
    use glassline_streams::Acquisition;
    use glassline_test_support::ts::Source;
    use std::net::UdpSocket;

    /// A stream whose pace is fixed, with its publisher's session.
    fn live(pacing: Pacing) -> (Arc<Live>, u64) {
        let backlog = Backlog { time: Duration::from_secs(10), bytes: 1 << 20 };
        let settings =
            stream::Settings { backlog, flush: FlushPolicy::Frame, pacing, prebuffer: Prebuffer::NONE };
        let name = StreamName::parse("a").expect("a name");
        let live = Arc::new(Live::new(0, name, Mux::MpegTs, settings, 1, Time::ZERO));
        let Acquisition::Granted { session, .. } = live.acquire(None, false, None, Time::ZERO) else {
            panic!("nobody is here")
        };
        (live, session)
    }

    /// Sends `bytes` in virtual time. Returns the datagrams of each burst, and how long all took.
    fn bursts(scheme: &str, pacing: Pacing, bytes: &[u8]) -> (Vec<Vec<Vec<u8>>>, Duration) {
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        receiver.set_nonblocking(true).expect("no waiting");
        let url = format!("{scheme}://{}", receiver.local_addr().expect("an address"));
        let (live, session) = live(pacing);
        let output =
            Output { name: live.name.clone(), destination: Destination::parse(&url).expect("a destination") };
        let entries = OutputTable::new(&[output], &OutputTable::default());
        let mut feed = Feed::new(Arc::clone(entries.iter().next().expect("a entry")), 7);
        feed.reconfigure(pacing);
        live.push(session, bytes, Time::ZERO).expect("a transport stream");
        live.pause(Time::ZERO);
        feed.handle_news(&live);
        let (mut bursts, mut now, mut buffer) = (Vec::new(), Time::ZERO, [0; 2000]);
        while feed.poll_timeout() != Time::NEVER {
            now = now.max(feed.poll_timeout());
            feed.handle_timeout(now);
            let mut burst = Vec::new();
            while let Ok(count) = receiver.recv(&mut buffer) {
                burst.push(buffer[..count].to_vec());
            }
            bursts.push(burst);
        }
        (bursts, now - Time::ZERO)
    }

    fn picture(packets: usize) -> Vec<u8> {
        let mut source = Source::default();
        [source.tables(), source.picture(true, packets)].concat()
    }

    #[test]
    fn a_picture_leaves_in_small_bursts_at_the_pace_and_its_end_waits_for_nothing() {
        let bytes = picture(100);
        let (bursts, time) = bursts("udp", Pacing::Rate(8_000_000), &bytes);
        let counts: Vec<usize> = bursts.iter().map(Vec::len).collect();
        let packets = bytes.len() / PACKET_BYTES;
        assert_eq!(counts.iter().sum::<usize>(), packets.div_ceil(7));
        assert!(counts.iter().all(|count| *count <= BURST_DATAGRAMS), "{counts:?}");
        assert_eq!(bursts.concat().concat(), bytes);
        // At 8 Mbit/s a byte takes a microsecond; the last burst leaves when those before it have left.
        assert_eq!(time, Duration::from_micros(bytes.len() as u64));
    }

    #[test]
    fn packets_of_rtp_are_stamped_with_the_pace() {
        let bytes = picture(30);
        let (bursts, _) = bursts("rtp", Pacing::Rate(8_000_000), &bytes);
        let datagrams = bursts.concat();
        let header =
            |datagram: &Vec<u8>| glassline_transport::rtp::Packet::parse(datagram).expect("RTP").header;
        for (index, pair) in datagrams.windows(2).enumerate() {
            let (one, two) = (header(&pair[0]), header(&pair[1]));
            assert_eq!((one.marker, two.marker), (index == 0, false));
            assert_eq!((two.sequence.wrapping_sub(one.sequence), two.ssrc), (1, one.ssrc));
            // A datagram of 1328 bytes takes 119.5 ticks.
            let step = two.timestamp.wrapping_sub(one.timestamp);
            assert!((119..=120).contains(&step), "{step}");
        }
        let payloads: Vec<&[u8]> = datagrams.iter().map(|datagram| &datagram[12..]).collect();
        assert_eq!(payloads.concat(), bytes);
    }

    #[test]
    fn an_unpaced_stream_leaves_at_once() {
        let (bursts, time) = bursts("udp", Pacing::Off, &picture(300));
        assert_eq!((bursts.concat().len(), time), (302usize.div_ceil(7), Duration::ZERO));
    }

    const TRANSPORT: Mux = Mux::MpegTs;

    /// An output to this URL, and what is told of it.
    fn feed(url: &str) -> Feed {
        let name = StreamName::parse("a").expect("a name");
        let output = Output { name, destination: Destination::parse(url).expect("a destination") };
        let entries = OutputTable::new(&[output], &OutputTable::default());
        Feed::new(Arc::clone(entries.iter().next().expect("an entry")), 7)
    }

    fn receiver() -> (UdpSocket, String) {
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        receiver.set_nonblocking(true).expect("no waiting");
        let url = format!("udp://{}", receiver.local_addr().expect("an address"));
        (receiver, url)
    }

    fn received(receiver: &UdpSocket) -> Vec<u8> {
        let (mut all, mut buffer) = (Vec::new(), [0; 2000]);
        while let Ok(count) = receiver.recv(&mut buffer) {
            all.extend_from_slice(&buffer[..count]);
        }
        all
    }

    /// A stream with this number, and its publisher's session.
    fn numbered(id: u64, mux: Mux, bytes: u64) -> (Arc<Live>, u64) {
        let backlog = Backlog { time: Duration::from_secs(10), bytes };
        let (flush, pacing, prebuffer) = (FlushPolicy::Frame, Pacing::Off, Prebuffer::NONE);
        let settings = stream::Settings { backlog, flush, pacing, prebuffer };
        let live = Live::new(id, StreamName::parse("a").expect("a name"), mux, settings, 1, Time::ZERO);
        let live = Arc::new(live);
        let Acquisition::Granted { session, .. } = live.acquire(None, false, None, Time::ZERO) else {
            panic!("the slot is free")
        };
        (live, session)
    }

    #[test]
    fn an_output_of_no_stream_has_nothing_to_do() {
        let mut feed = feed("udp://127.0.0.1:9");
        assert_eq!(feed.poll_timeout(), Time::NEVER);
        feed.handle_timeout(Time::from_millis(5));
        assert_eq!((feed.poll_timeout(), feed.entry().counts()), (Time::NEVER, [0; 4]));
    }

    #[test]
    fn a_stream_that_is_no_mpeg_ts_or_has_ended_is_not_followed() {
        let mut feed = feed("udp://127.0.0.1:9");
        feed.handle_news(&numbered(1, Mux::Flv, 1 << 20).0);
        let (ended, _) = numbered(2, TRANSPORT, 1 << 20);
        ended.end();
        feed.handle_news(&ended);
        assert!(feed.following.is_none());
    }

    #[test]
    fn a_newer_stream_of_the_name_is_followed_and_an_older_one_is_not() {
        let mut feed = feed("udp://127.0.0.1:9");
        let [older, newer] = [3, 4].map(|id| numbered(id, TRANSPORT, 1 << 20).0);
        let followed = |feed: &Feed| feed.following.as_ref().map(|it| it.reader.live().id);
        feed.handle_news(&older);
        assert_eq!(followed(&feed), Some(3));
        feed.handle_news(&newer);
        feed.handle_news(&older);
        assert_eq!(followed(&feed), Some(4));
    }

    #[test]
    fn what_was_sent_is_counted_without_the_headers_of_rtp() {
        for (scheme, bytes) in [("udp", picture(6)), ("rtp", picture(6))] {
            let (receiver, url) = receiver();
            let mut feed = feed(&url.replace("udp", scheme));
            let (live, session) = numbered(1, TRANSPORT, 1 << 20);
            live.push(session, &bytes, Time::ZERO).expect("a transport stream");
            live.pause(Time::ZERO);
            feed.handle_news(&live);
            feed.handle_timeout(Time::ZERO);
            // Eight packets are two datagrams.
            assert_eq!(feed.entry().counts(), [2, bytes.len() as u64, 0, 0]);
            assert!(feed.entry().begun.load(Ordering::Relaxed));
            assert_eq!(received(&receiver).len(), bytes.len() + feed.burst.header_bytes * 2);
        }
    }

    #[test]
    fn the_end_of_a_stream_is_the_end_of_its_sending() {
        let (receiver, url) = receiver();
        let mut feed = feed(&url);
        let (live, session) = numbered(1, TRANSPORT, 1 << 20);
        live.push(session, &picture(3), Time::ZERO).expect("a transport stream");
        live.pause(Time::ZERO);
        feed.handle_news(&live);
        feed.handle_timeout(Time::ZERO);
        live.end();
        feed.handle_news(&live);
        feed.handle_timeout(Time::ZERO);
        assert_eq!(received(&receiver), picture(3));
        assert!(feed.following.is_none() && !feed.entry().begun.load(Ordering::Relaxed));
        assert_eq!(feed.poll_timeout(), Time::NEVER);
    }

    #[test]
    fn an_output_that_cannot_be_opened_is_tried_again_after_a_second_and_says_why() {
        // The address of another machine is none that datagrams can come from.
        let mut feed = feed("udp://127.0.0.1:9?source=192.0.2.1");
        let (live, session) = numbered(1, TRANSPORT, 1 << 20);
        live.push(session, &picture(3), Time::ZERO).expect("a transport stream");
        live.pause(Time::ZERO);
        feed.handle_news(&live);
        let now = Time::from_millis(500);
        feed.handle_timeout(now);
        assert_eq!((feed.poll_timeout(), feed.entry().counts()), (now + RETRY, [0, 0, 1, 0]));
        assert!(feed.entry().error().is_some());
        feed.handle_news(&live);
        assert_eq!(feed.poll_timeout(), now + RETRY, "news do not hurry it");
        feed.handle_timeout(now + RETRY);
        assert_eq!(feed.entry().counts(), [0, 0, 2, 0]);
    }

    #[test]
    fn an_output_that_fell_behind_goes_on_at_the_newest_key_frame() {
        let (receiver, url) = receiver();
        let mut feed = feed(&url);
        let (live, session) = numbered(1, TRANSPORT, 8 << 10);
        let mut source = Source::default();
        let mut push = |packets: usize| {
            let bytes = [source.tables(), source.picture(true, packets)].concat();
            live.push(session, &bytes, Time::ZERO).expect("a transport stream");
            live.pause(Time::ZERO);
            bytes
        };
        push(3);
        feed.handle_news(&live);
        feed.handle_timeout(Time::ZERO);
        let before = received(&receiver);
        // Far more than is kept.
        (0..400).for_each(|_| drop(push(20)));
        let last = push(3);
        feed.handle_news(&live);
        feed.handle_timeout(Time::ZERO);
        let after = received(&receiver);
        assert_eq!((before.is_empty(), feed.entry().counts()[3]), (false, 1));
        assert!(after.len() < 100_000 && after.ends_with(&last[2 * PACKET_BYTES..]), "{}", after.len());
    }

    #[test]
    fn a_next_process_goes_on_at_the_same_byte_with_the_same_counts() {
        let (receiver, url) = receiver();
        let (live, session) = numbered(1, TRANSPORT, 1 << 20);
        let mut source = Source::default();
        let push = |bytes: &[u8]| {
            live.push(session, bytes, Time::ZERO).expect("a transport stream");
            live.pause(Time::ZERO);
        };
        push(&[source.tables(), source.picture(true, 3)].concat());
        let mut old = feed(&url);
        old.handle_news(&live);
        old.handle_timeout(Time::ZERO);
        received(&receiver);
        let left = old.state();
        let next = source.picture(false, 4);
        push(&next);
        let mut new = feed(&url);
        new.handle_news(&live);
        new.restore(&left);
        assert_eq!(new.entry().counts(), old.entry().counts());
        new.handle_timeout(Time::ZERO);
        assert_eq!(received(&receiver), next);
        // Another output takes nothing of it.
        let mut other = feed("udp://127.0.0.1:9");
        other.restore(&left);
        assert!(other.entry().counts() == [0; 4] && !other.has_begun);
    }

    #[test]
    fn an_output_that_a_fault_has_ended_waits_before_it_goes_on() {
        let (_, url) = receiver();
        let now = Time::from_millis(7000);
        let mut feed = Feed::begun_anew(Arc::clone(feed(&url).entry()), 7, now);
        let (live, _) = numbered(1, TRANSPORT, 1 << 20);
        feed.handle_news(&live);
        assert_eq!(feed.poll_timeout(), now + RETRY);
        assert!(feed.following.is_some_and(|following| following.seams.is_some()), "a seam is announced");
    }

    #[test]
    fn a_pace_by_the_streams_rate_has_a_least_value() {
        let mut feed = feed("udp://127.0.0.1:9");
        for (pacing, least) in [
            (Pacing::Factor(2.0), LEAST_BPS),
            (Pacing::Rate(5), 0),
            (Pacing::Factor(1.5), LEAST_BPS),
            (Pacing::Off, 0),
        ] {
            feed.reconfigure(pacing);
            assert_eq!(feed.least_bps, least, "{pacing:?}");
        }
    }
}
