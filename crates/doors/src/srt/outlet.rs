//! How datagrams of a listening socket leave: to a peer's address, or by the lines of one that has several.

use glassline_io::udp::Port;
use glassline_media::Time;
use glassline_streams::status::PeerFigure;
use glassline_transport::srt::Connection;
use glassline_transport::srtla::{Groups, LinkFigures};
use std::net::{IpAddr, SocketAddr};

/// By which way datagrams leave.
pub(super) struct Outlet {
    pub(super) port: Port,
    /// Of peers that have several lines.
    pub(super) groups: Option<Groups>,
}

impl Outlet {
    /// The IP addresses from which the peer `of` sends.
    pub(super) fn addresses(&self, of: SocketAddr, now: Time) -> Vec<IpAddr> {
        match &self.groups {
            None => vec![of.ip()],
            Some(groups) => groups.figures(of, now).iter().map(|link| link.address.ip()).collect(),
        }
    }

    /// Sends one datagram, or several of one size. What the socket does not take is lost, as on the way.
    pub(super) fn send(&self, remote: SocketAddr, datagrams: &[u8], segment_bytes: usize) {
        let send = |to| {
            if let Err(error) = self.port.send(to, datagrams, segment_bytes, 0) {
                tracing::debug!(%to, "sending SRT: {error}");
            }
        };
        match &self.groups {
            None => send(remote),
            Some(groups) => groups.destinations(remote, datagrams).for_each(send),
        }
    }

    pub(super) fn send_answers(&mut self) {
        while let Some((to, datagram)) = self.groups.as_mut().and_then(Groups::poll_answer) {
            let _ = self.port.send(to, &datagram, 0, 0);
        }
    }

    pub(super) fn transmit(
        &self,
        connection: &mut Connection,
        remote: SocketAddr,
        out: &mut Vec<u8>,
        now: Time,
    ) {
        while let Some(transmit) = connection.poll_transmit(now, out) {
            self.send(remote, out, transmit.segment_bytes);
        }
    }
}

/// The figures of the lines of one peer.
pub(super) fn link_figures(links: &[LinkFigures]) -> impl Iterator<Item = PeerFigure> {
    const NAMES: [[&str; 4]; 4] = [
        ["line1_packets", "Line 1: packets", "line1_quiet_ms", "Line 1: silent for (ms)"],
        ["line2_packets", "Line 2: packets", "line2_quiet_ms", "Line 2: silent for (ms)"],
        ["line3_packets", "Line 3: packets", "line3_quiet_ms", "Line 3: silent for (ms)"],
        ["line4_packets", "Line 4: packets", "line4_quiet_ms", "Line 4: silent for (ms)"],
    ];
    let of_line = |([packets, packet_words, quiet, quiet_words], link): ([&'static str; 4], &LinkFigures)| {
        let quiet_ms = link.quiet.as_secs_f64() * 1000.0;
        [
            PeerFigure { name: packets, words: packet_words, value: link.packets as f64 },
            PeerFigure { name: quiet, words: quiet_words, value: quiet_ms },
        ]
    };
    let count = PeerFigure { name: "lines", words: "Lines", value: links.len() as f64 };
    let lines: Vec<_> = NAMES.into_iter().zip(links).flat_map(of_line).collect();
    std::iter::once(count).chain(lines)
}
