//! One path of a flow: what comes by it, and how.

use super::report::{PathReport, StrangerReport};
use glassline_media::Time;
use glassline_transport::raw_video::PayloadHeader;
use glassline_transport::rtp::source::{Origin, SourceLock, Standing};
use glassline_transport::rtp::statistics::{Arrival, Statistics};
use glassline_transport::rtp::{HEADER_BYTES, Header, Packet};
use std::net::SocketAddr;

/// A jump of more packets than this is another count: 20 ms of the fastest stream there is.
const DROPOUT_MAX: u32 = 32_000;
/// Bytes of a packet that its RTP header takes at most where we look: with contributing sources and a short extension.
const HEAD_BYTES: usize = 256;
/// Padding follows (P).
const PADDING: u8 = 0x20;
/// Payload types, and senders, that are named at most.
const NAMED_MAX: usize = 8;

/// How a datagram came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Came {
    /// Its size.
    pub(super) bytes: usize,
    pub(super) at: Time,
    /// Datagrams that the kernel had dropped before it.
    pub(super) drops: u32,
    /// Its source address.
    pub(super) from: Option<SocketAddr>,
}

/// What is counted of a path.
#[derive(Debug)]
pub(super) struct Path {
    payload_type: u8,
    lock: SourceLock,
    statistics: Statistics,
    datagrams: u64,
    bytes: u64,
    kernel_drops: u32,
    strangers: StrangerReport,
    /// When the first datagram of the stream came, and the last, and bytes behind the first.
    times: Option<(Time, Time)>,
    timed_bytes: u64,
}

/// A packet of the stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'a> {
    pub(super) header: Header,
    pub(super) arrival: Arrival,
    /// Its payload, as far as its bytes were looked at.
    pub(super) payload: &'a [u8],
    /// Bytes of the whole datagram, and of its RTP header.
    pub(super) bytes: usize,
    pub(super) rtp_bytes: usize,
}

impl Path {
    /// `lock` decides which senders' packets are of the stream.
    pub(super) fn new(payload_type: u8, rate_hz: u32, lock: SourceLock) -> Path {
        Path {
            payload_type,
            lock,
            statistics: Statistics::new(rate_hz).with_dropout_max(DROPOUT_MAX),
            datagrams: 0,
            bytes: 0,
            kernel_drops: 0,
            strangers: StrangerReport::default(),
            times: None,
            timed_bytes: 0,
        }
    }

    /// Takes a datagram of which `head` is the beginning; `None` where it is not of the stream.
    /// `is_extended`: its payload begins with the high half of its sequence number.
    pub(super) fn push<'a>(&mut self, head: &'a [u8], came: Came, is_extended: bool) -> Option<Seen<'a>> {
        let Came { bytes, at, drops, from } = came;
        self.datagrams += 1;
        self.bytes += bytes as u64;
        self.kernel_drops = drops;
        let Some((header, payload)) = read(head) else {
            self.strangers.not_rtp += 1;
            return None;
        };
        if header.payload_type != self.payload_type {
            self.strangers.payload_type += 1;
            let types = &mut self.strangers.payload_types;
            if types.len() < NAMED_MAX && !types.contains(&header.payload_type) {
                types.push(header.payload_type);
            }
            return None;
        }
        let origin = Origin::of(from);
        if self.lock.weigh(origin, header.ssrc, at) == Standing::Stranger {
            self.strangers.source += 1;
            let named = from.map(|from| from.to_string());
            let sources = &mut self.strangers.sources;
            if let Some(named) = named.filter(|named| sources.len() < NAMED_MAX && !sources.contains(named)) {
                sources.push(named);
            }
            return None;
        }
        self.lock.renew(origin, header.ssrc, at);
        let arrival = match payload {
            [high, low, ..] if is_extended => {
                self.statistics.push_extended(&header, u16::from_be_bytes([*high, *low]), at)
            }
            _ => self.statistics.push(&header, at),
        };
        self.timed_bytes += if self.times.is_some() { bytes as u64 } else { 0 };
        self.times = Some((self.times.map_or(at, |(first, _)| first), at));
        let rtp_bytes = head.len() - payload.len();
        Some(Seen { header, arrival, payload, bytes, rtp_bytes })
    }

    /// A packet of the stream has a payload that does not fit into it.
    pub(super) fn refuse_payload(&mut self) {
        self.strangers.payload += 1;
    }

    pub(super) fn report(&self) -> PathReport {
        let counters = self.statistics.counters();
        let seconds = self.times.map_or(0.0, |(first, last)| last.since(first).as_secs_f64());
        PathReport {
            address: String::new(),
            ssrc: self.statistics.ssrc(),
            datagrams: self.datagrams,
            bytes: self.bytes,
            bitrate_bps: (seconds > 0.0).then(|| self.timed_bytes as f64 * 8.0 / seconds),
            packets: counters.received,
            lost: counters.lost(),
            longest_loss: counters.longest_loss,
            reordered: counters.reordered,
            duplicates: counters.duplicates,
            strays: counters.strays,
            restarts: counters.restarts,
            jitter_us: self.statistics.jitter().as_nanos() as f64 / 1e3,
            kernel_drops: self.kernel_drops,
            socket: None,
            strangers: self.strangers.clone(),
            timing: None,
            timing_now: None,
        }
    }
}

impl Seen<'_> {
    /// The header of raw video's payload.
    pub(super) fn raw_video(&self) -> Option<PayloadHeader> {
        PayloadHeader::parse(self.payload)
    }
}

/// The RTP header at the beginning of a datagram, and what follows of it.
fn read(head: &[u8]) -> Option<(Header, &[u8])> {
    let seen = &head[..head.len().min(HEAD_BYTES)];
    let mut copy = [0; HEAD_BYTES];
    copy[..seen.len()].copy_from_slice(seen);
    // How much is padding stands at the end, which is perhaps not there.
    copy[0] &= !PADDING;
    let packet = Packet::parse(&copy[..seen.len()]).ok()?;
    let begins = seen.len() - packet.payload.len();
    debug_assert!(begins >= HEADER_BYTES);
    Some((packet.header, &head[begins..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn came(bytes: usize, at: Time, drops: u32, from: Option<SocketAddr>) -> Came {
        Came { bytes, at, drops, from }
    }

    fn packet(sequence: u16, payload_type: u8) -> Vec<u8> {
        let header = Header { marker: false, payload_type, sequence, timestamp: 0, ssrc: 7 };
        [&header.write()[..], &[0; 100]].concat()
    }

    #[test]
    fn what_is_of_the_stream_is_told_from_what_is_not() {
        let mut path = Path::new(96, 90_000, SourceLock::new());
        let mut push = |bytes: &[u8], millis| {
            path.push(bytes, came(bytes.len(), Time::from_millis(millis), 3, None), false).is_some()
        };
        assert!(push(&packet(1, 96), 0) && push(&packet(3, 96), 1_000));
        assert!(!push(&packet(4, 97), 1_000) && !push(&packet(4, 33), 1_000) && !push(&packet(5, 97), 1_000));
        assert!(!push(&[0x47; 1_316], 1_000) && !push(&[], 1_000));
        let report = path.report();
        assert_eq!((report.packets, report.lost, report.kernel_drops), (2, 1, 3));
        assert_eq!(report.strangers.payload_types, [97, 33]);
        assert_eq!((report.strangers.payload_type, report.strangers.not_rtp), (3, 2));
        assert_eq!(report.bitrate_bps, Some(112.0 * 8.0));
    }

    #[test]
    fn packets_of_another_sender_are_told_and_counted_nowhere_else() {
        let mut path = Path::new(96, 90_000, SourceLock::new());
        let address = |last: u8, port: u16| Some(SocketAddr::from(([10, 0, 0, last], port)));
        for number in 0..100u16 {
            let at = Time::from_millis(10 * u64::from(number));
            let bytes = packet(number, 96);
            assert!(path.push(&bytes, came(bytes.len(), at, 0, address(5, 5_004)), false).is_some());
            for port in 0..3 {
                let foreign = packet(number.wrapping_mul(500), 96);
                let from = address(9, 6_000 + number * 3 + port);
                assert!(path.push(&foreign, came(foreign.len(), at, 0, from), false).is_none());
            }
        }
        let report = path.report();
        assert_eq!((report.packets, report.lost, report.restarts, report.strays), (100, 0, 0, 0));
        assert_eq!((report.strangers.source, report.strangers.sources.len()), (300, NAMED_MAX));
        assert_eq!(report.strangers.sources[0], "10.0.0.9:6000");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), is_extended: bool) {
            let mut path = Path::new(96, 90_000, SourceLock::new());
            let seen = path.push(&bytes, came(bytes.len(), Time::ZERO, 0, None), is_extended);
            prop_assert!(seen.is_none_or(|seen| seen.rtp_bytes + seen.payload.len() == bytes.len()));
        }
    }

    #[test]
    fn the_rate_is_of_what_came_behind_the_first_packet() {
        let mut path = Path::new(96, 90_000, SourceLock::new());
        let mut push = |number: u16, millis: u64| {
            let bytes = packet(number, 96);
            path.push(&bytes, came(bytes.len(), Time::from_millis(millis), 0, None), false).unwrap();
            path.report().bitrate_bps
        };
        assert_eq!(push(1, 100), None, "one packet has no rate");
        assert_eq!(push(2, 100), None, "no time has passed");
        assert_eq!(push(3, 350), Some(2.0 * 112.0 * 8.0 * 4.0));
    }

    #[test]
    fn padding_is_read_as_payload_since_its_length_may_not_have_been_looked_at() {
        let mut path = Path::new(96, 90_000, SourceLock::new());
        let mut bytes = packet(1, 96);
        bytes[0] |= PADDING;
        *bytes.last_mut().unwrap() = 200;
        let seen = path.push(&bytes, came(1_400, Time::ZERO, 0, None), false).expect("of the stream");
        assert_eq!((seen.payload.len(), seen.bytes, seen.rtp_bytes), (100, 1_400, HEADER_BYTES));
        path.refuse_payload();
        let report = path.report();
        assert_eq!((report.strangers.payload, report.packets, report.bytes), (1, 1, 1_400));
    }

    #[test]
    fn no_more_than_eight_payload_types_are_named() {
        let mut path = Path::new(96, 90_000, SourceLock::new());
        for payload_type in 0..20 {
            let bytes = packet(1, payload_type);
            assert!(path.push(&bytes, came(bytes.len(), Time::ZERO, 0, None), false).is_none());
        }
        let strangers = path.report().strangers;
        assert_eq!((strangers.payload_type, strangers.payload_types), (20, (0..8).collect()));
    }
}
