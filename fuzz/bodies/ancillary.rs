//! Ancillary data from a hostile sender: a row of datagrams, each behind a byte of time and two of length; those whose time is
//! odd get good headers of RTP and of a payload before them, so that ANC packets are reached.

use glassline_media::Time;
use glassline_transport::ancillary::{Cdp, Depacketizer, Payload, Received, Settings};
use glassline_transport::rtp::source::Origin;
use glassline_transport::rtp::{self, Header};
use std::time::Duration;

/// Takes the datagrams. Only panics, endless loops, broken bounds and what is not written as it was read fail.
pub fn run(data: &[u8]) {
    let reorder = rtp::Settings { window: Duration::from_millis(10), packets: 16 };
    let mut receiver = Depacketizer::new(Settings { payload_type: 100, reorder });
    let (mut rest, mut now, mut given) = (data, Time::ZERO, 0);
    let mut out = |received: Received| {
        given += received.payload.packets.len() as u64;
        for packet in &received.payload.packets {
            let code =
                packet.time_code().map(|code| (code, code.packet().and_then(|packet| packet.time_code())));
            assert!(code.is_none_or(|(code, again)| again == Some(code)));
            if let Some(Ok(cdp)) = packet.captions() {
                assert!(cdp.triplets().len() <= 31 && Cdp::parse(&cdp.write()) == Ok(cdp));
            }
            assert!(packet.parity_errors() <= packet.words().len() + 3);
        }
    };
    while let [time, high, low, tail @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(tail.len());
        let (bytes, tail) = tail.split_at(length);
        rest = tail;
        now += Duration::from_millis(u64::from(*time));
        receiver.handle_timeout(now, &mut out);
        let from = Origin { path: usize::from(time >> 7), ..Origin::default() };
        let mut datagram = bytes.to_vec();
        if let ([one, two, count, bytes @ ..], true) = (bytes, time % 2 == 1) {
            let header = Header {
                marker: *one & 4 != 0,
                payload_type: 100,
                sequence: u16::from_be_bytes([*one % 4, *two]),
                timestamp: u32::from(*two),
                ssrc: u32::from(*one / 128),
            };
            let [l0, l1] = (bytes.len() as u16).to_be_bytes();
            let head = [0, 0, l0, l1, *count, *one & 0xC0, 0, 0];
            datagram = [&header.write()[..], &head, bytes].concat();
        }
        let _ = receiver.handle_datagram(&datagram, from, now, &mut out);
        if let Ok(packet) = rtp::Packet::parse(&datagram)
            && let Ok(payload) = Payload::parse(packet.payload)
        {
            let mut again = Vec::new();
            payload.write(&mut again);
            assert_eq!(again, packet.payload);
        }
        assert!(
            receiver.poll_timeout().is_none_or(|due| due > now),
            "a deadline that has passed is answered"
        );
    }
    receiver.flush(&mut out);
    let counters = receiver.counters();
    assert!(counters.ancillary == given && counters.checksum_errors <= given);
}
