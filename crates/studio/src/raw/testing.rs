//! A sender without an engine, for tests.

use super::receive::Settings;
use glassline_io::udp::Settings as From;
use glassline_io::udp::flow::FlowSettings;
use glassline_media::{Chroma, Colour, Layout, PixelFormat, Size};
use glassline_transport::raw_video::{self, Format, Packetizer, PacketizerSettings, Packing, Scan};
use glassline_transport::rtp::source::SourceLock;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

pub(super) const PAYLOAD_TYPE: u8 = 96;
pub(super) const LONG: Duration = Duration::from_secs(20);

pub(super) fn format(depth: u8) -> Format {
    let size = Size::new(320, 60).unwrap();
    Format::new(PixelFormat::planar(Chroma::Yuv422, depth), size, Scan::Progressive).unwrap()
}

/// A port that is free.
pub(super) fn free() -> SocketAddr {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

pub(super) fn settings(format: Format, to: &[SocketAddr], frames: usize) -> Settings {
    let stream = raw_video::Settings {
        format,
        payload_type: PAYLOAD_TYPE,
        paths: to.len(),
        skew: Duration::from_millis(50),
    };
    let path = |address: &SocketAddr| FlowSettings {
        buffer_bytes: 200 << 10,
        ..FlowSettings::of(From { address: *address, interface: None, sender: None })
    };
    let paths = to.iter().map(path).collect();
    let lock = SourceLock::new();
    let (direct, fields, processor) = (None, None, None);
    let layout = Layout::Pgroups;
    Settings { stream, paths, lock, direct, colour: Colour::BT709, fields, layout, frames, processor }
}

pub(super) struct Sender {
    pub(super) packetizer: Packetizer,
    socket: UdpSocket,
    format: Format,
}

impl Sender {
    pub(super) fn new(format: Format) -> Sender {
        let (payload_type, ssrc, first_sequence) = (PAYLOAD_TYPE, 7, 65_530);
        let (datagram_bytes, packing) = (1_300, Packing::General);
        let settings =
            PacketizerSettings { format, payload_type, ssrc, first_sequence, datagram_bytes, packing };
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        Sender { packetizer: Packetizer::new(settings).unwrap(), socket, format }
    }

    /// Packets of a frame, with all samples of one value.
    pub(super) fn datagrams(&mut self, number: u32, sample: u8) -> Vec<Vec<u8>> {
        let frame = |packet: raw_video::OutPacket<'_>| {
            let samples = packet.bytes - packet.head.len();
            [packet.head, &vec![sample; samples]].concat()
        };
        self.packetizer.frame([number * 1500; 2]).map(frame).collect()
    }

    pub(super) fn bytes(&self, number: u32) -> Vec<u8> {
        (0..self.format.frame_bytes()).map(|at| (at as u32 * 7 + number * 13) as u8).collect()
    }

    /// Sends a frame, but for the packets that `is_lost`. Returns its bytes.
    pub(super) fn send(
        &mut self,
        number: u32,
        to: &[SocketAddr],
        is_lost: impl Fn(usize, usize) -> bool,
    ) -> Vec<u8> {
        let frame = self.bytes(number);
        for (index, packet) in self.packetizer.frame([number * 1500; 2]).enumerate() {
            let samples = packet.samples.iter().flat_map(|range| &frame[range.clone()]);
            let datagram: Vec<u8> = packet.head.iter().chain(samples).copied().collect();
            for (path, to) in to.iter().enumerate() {
                if !is_lost(path, index) {
                    self.socket.send_to(&datagram, to).unwrap();
                }
            }
        }
        frame
    }
}

/// Waits until `is_so`, for a time.
pub(super) fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}
