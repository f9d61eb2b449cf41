//! Datagrams of up to 7 TS packets, bare or in RTP (RFC 2250): to a machine, or to a multicast group.

use super::{Board, Sink};
use crate::encode::output::Datagrams;
use crate::encode::pipeline::{Demand, Packets};
use crate::failure;
use anyhow::Result;
use glassline_delivery::output::{Destination, Framing};
use glassline_io::resolve::resolve;
use glassline_io::udp::{Route, Sender};
use glassline_media::Ticks;
use glassline_media::container::ts::packet::packets as ts_packets;
use glassline_media::container::ts::{PACKET_BYTES, Packet};
use glassline_transport::rtp::mpeg_ts::Packetizer;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// How long a live stream waits for room in a socket: a key frame is more than it holds, and leaves at the line's rate.
const LIVE_WAIT: Duration = Duration::from_millis(100);
/// The same where the source waits: a line that is down for longer takes nothing for a long time.
const FILE_WAIT: Duration = Duration::from_secs(10);
const WAIT_STEP: Duration = Duration::from_micros(200);
/// When what failed is opened anew: an interface that comes back is another one to a socket.
const REOPEN: Duration = Duration::from_secs(1);

/// A receiver, or a group of them.
pub(super) struct Udp {
    destination: Destination,
    socket: Option<Sender>,
    packetizer: Option<Packetizer>,
    /// The clock of the stream as it was last told, 90 kHz.
    clock: Ticks,
    /// Nothing of the stream has been framed yet.
    is_first: bool,
    wait: Duration,
    reopen_at: Instant,
    /// The last failure that was spoken of, so that it is not told for each datagram.
    told: Option<ErrorKind>,
    wire: Vec<u8>,
    board: Arc<Board>,
}

impl Udp {
    /// Opens the socket. A `live` stream goes on where it takes nothing.
    pub(super) fn open(datagrams: &Datagrams, live: bool, board: Arc<Board>) -> Result<Udp> {
        let mut unresolved = None;
        let mut address = |host: &str| match resolve(host, 1) {
            Ok(addresses) => addresses.first().map(|address| address.ip()),
            Err(error) => {
                unresolved = Some(error);
                None
            }
        };
        let destination = Destination::parse_named(&datagrams.url, &mut address);
        let refused = |error: &dyn std::fmt::Display| {
            let message = format_args!("cannot send to {}: {error}", datagrams.url);
            failure::failed(message, "check the host's name, the interface and the network")
        };
        if let Some(error) = unresolved {
            return Err(refused(&error));
        }
        let destination =
            destination.map_err(|error| failure::usage(error, "see glassline encode --help"))?;
        let socket = Sender::open(&route(&destination)).map_err(|error| refused(&error))?;
        // Enough to tell senders apart that start together.
        let seed = glassline_io::clock::Clock::new().utc().as_nanos() ^ u64::from(std::process::id()) << 32;
        let packetizer = (destination.framing == Framing::Rtp).then(|| Packetizer::new(seed));
        Ok(Udp {
            destination,
            socket: Some(socket),
            packetizer,
            clock: Ticks(0),
            is_first: true,
            wait: if live { LIVE_WAIT } else { FILE_WAIT },
            reopen_at: Instant::now(),
            told: None,
            wire: Vec::new(),
            board,
        })
    }

    /// Puts the packets into datagrams, end to end in `wire`. Returns how many bytes each has, but for the last one.
    fn frame(&mut self, bytes: &[u8]) -> usize {
        let payload = self.destination.packets * PACKET_BYTES;
        self.wire.clear();
        let Some(packetizer) = &mut self.packetizer else {
            self.wire.extend_from_slice(bytes);
            return payload;
        };
        // All of it leaves now, which is when the clock in it says.
        let clock = ts_packets(bytes).find_map(|packet| Packet::parse(packet).ok()?.pcr());
        if let Some(clock) = clock {
            self.clock = Ticks(clock.base() as i64);
        }
        for payload in bytes.chunks(payload) {
            let header = packetizer.next_header_at(self.clock, std::mem::take(&mut self.is_first));
            self.wire.extend_from_slice(&header);
            self.wire.extend_from_slice(payload);
        }
        payload + glassline_transport::rtp::HEADER_BYTES
    }

    /// Sends what is in `wire`; an error leaves the rest of it out.
    fn send(&mut self, datagram_bytes: usize) -> io::Result<()> {
        if self.socket.is_none() && Instant::now() >= self.reopen_at {
            self.reopen_at = Instant::now() + REOPEN;
            self.socket = Some(Sender::open(&route(&self.destination))?);
        }
        // It has been told why.
        let Some(socket) = &self.socket else { return Ok(()) };
        let datagrams: Vec<&[u8]> = self.wire.chunks(datagram_bytes).collect();
        let (mut sent, begun) = (0, Instant::now());
        while sent < datagrams.len() {
            match socket.send(&datagrams[sent..])? {
                Some(count) => {
                    self.board
                        .sent(datagrams[sent..sent + count].iter().map(|datagram| datagram.len()).sum());
                    sent += count;
                }
                None if begun.elapsed() < self.wait => thread::sleep(WAIT_STEP),
                None => return Err(io::Error::new(ErrorKind::TimedOut, "the line takes nothing")),
            }
        }
        Ok(())
    }
}

fn route(destination: &Destination) -> Route {
    Route {
        address: destination.address,
        interface: destination.interface.clone(),
        source: destination.source,
        ttl: destination.ttl,
    }
}

impl Sink for Udp {
    fn write(&mut self, packets: &Packets<'_>) -> Result<Demand> {
        let datagram_bytes = self.frame(packets.bytes);
        match self.send(datagram_bytes) {
            Ok(()) if self.socket.is_some() => self.told = None,
            Ok(()) => {
                self.board.left_out();
            }
            Err(error) => {
                self.board.left_out();
                if error.kind() != ErrorKind::TimedOut {
                    self.socket = None;
                }
                // The network may come back, and a live stream goes on.
                if self.told.replace(error.kind()) != Some(error.kind()) {
                    tracing::warn!("cannot send to {}: {error}; going on", self.board.name);
                }
            }
        }
        Ok(Demand::Nothing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::container::ts::Pcr;
    use std::net::UdpSocket;

    fn open(url: &str, live: bool) -> Result<Udp> {
        Udp::open(&Datagrams { url: url.to_owned() }, live, Board::new(url.to_owned()))
    }

    fn receiver(address: &str) -> (UdpSocket, u16) {
        let receiver = UdpSocket::bind(address).unwrap();
        receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let port = receiver.local_addr().unwrap().port();
        (receiver, port)
    }

    fn receive(receiver: &UdpSocket) -> Vec<u8> {
        let mut buffer = [0; 2000];
        let length = receiver.recv(&mut buffer).unwrap();
        buffer[..length].to_vec()
    }

    #[test]
    fn a_unit_goes_in_datagrams_of_seven_packets_and_the_rest_at_once() {
        for (listen, host, options, counts) in [
            ("127.0.0.1:0", "127.0.0.1", "", &[7, 7, 2][..]),
            ("127.0.0.1:0", "localhost", "?packets=6&ttl=3", &[6, 6, 4]),
            ("[::1]:0", "[::1]", "", &[7, 7, 2]),
        ] {
            let Ok(probe) = UdpSocket::bind(listen) else {
                glassline_test_support::skip(
                    "a_unit_goes_in_datagrams_of_seven_packets_and_the_rest_at_once",
                    "no IPv6 here",
                );
                continue;
            };
            drop(probe);
            let (receiver, port) = receiver(listen);
            let Ok(mut sink) = open(&format!("udp://{host}:{port}{options}"), true) else {
                panic!("{host}");
            };
            let bytes: Vec<u8> = (0..16 * PACKET_BYTES).map(|index| (index / PACKET_BYTES) as u8).collect();
            sink.write(&Packets::whole(&bytes, true)).unwrap();
            if host == "localhost" && sink.destination.address.is_ipv6() {
                // The receiver has the other family's address.
                continue;
            }
            let mut received = Vec::new();
            for packets in counts {
                let datagram = receive(&receiver);
                assert_eq!(datagram.len(), packets * PACKET_BYTES);
                received.extend_from_slice(&datagram);
            }
            assert_eq!(received, bytes);
            assert_eq!(sink.board.status().bytes, bytes.len() as u64);
        }
    }

    #[test]
    fn rtp_is_stamped_with_the_streams_clock() {
        let (receiver, port) = receiver("127.0.0.1:0");
        let mut sink = open(&format!("rtp://127.0.0.1:{port}"), true).unwrap();
        let mut stamps = Vec::new();
        for (clock, packets) in [(Some(9000u64), 9usize), (None, 1), (Some(10_800), 2)] {
            let mut bytes = vec![0xff; packets * PACKET_BYTES];
            for packet in bytes.chunks_mut(PACKET_BYTES) {
                packet[..4].copy_from_slice(&[0x47, 1, 0, 0x10]);
            }
            if let Some(clock) = clock {
                bytes[..6].copy_from_slice(&[0x47, 1, 0, 0x30, 7, 0x10]);
                bytes[6..12].copy_from_slice(&Pcr::from_ticks(Ticks(clock as i64)).write());
            }
            sink.write(&Packets::whole(&bytes, false)).unwrap();
            let mut received = Vec::new();
            for _ in 0..packets.div_ceil(7) {
                let datagram = receive(&receiver);
                let packet = glassline_transport::rtp::Packet::parse(&datagram).unwrap();
                stamps.push((packet.header.sequence, packet.header.timestamp, packet.header.marker));
                assert_eq!(packet.header.payload_type, 33);
                received.extend_from_slice(packet.payload);
            }
            assert_eq!(received, bytes);
        }
        let (first, begun, _) = stamps[0];
        let told: Vec<_> = stamps
            .iter()
            .map(|(sequence, stamp, marker)| {
                (sequence.wrapping_sub(first), stamp.wrapping_sub(begun), *marker)
            })
            .collect();
        assert_eq!(told, [(0, 0, true), (1, 0, false), (2, 0, false), (3, 1800, false)]);
    }

    #[test]
    fn nobody_listening_is_no_failure_and_what_cannot_be_opened_is() {
        let (_, port) = receiver("127.0.0.1:0");
        let mut sink = open(&format!("udp://127.0.0.1:{port}"), false).unwrap();
        for _ in 0..5 {
            sink.write(&Packets::whole(&[0x47; 3 * PACKET_BYTES], false)).unwrap();
        }
        let failed = |url: &str| open(url, true).err().map(|error| error.to_string()).unwrap();
        assert!(failed("udp://239.1.2.3:5000?interface=nowhere0").contains("nowhere0"));
        assert!(failed("udp://no-such-host.invalid:5000").contains("cannot send to"));
    }
}
