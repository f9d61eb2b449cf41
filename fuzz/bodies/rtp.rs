//! RTP from a hostile sender. The bytes are a row of datagrams, each behind a byte of time and two of length; those whose
//! time is odd get a good header before them, so that the order of packets is reached too.

use glassline_media::Time;
use glassline_transport::rtp::mpeg_ts::Depacketizer;
use glassline_transport::rtp::source::Origin;
use glassline_transport::rtp::{Header, Settings};
use std::time::Duration;

/// Takes the datagrams. Only panics, endless loops, lost count and broken bounds fail.
pub fn run(data: &[u8]) {
    let settings = Settings { window: Duration::from_millis(50), packets: 16 };
    let (mut receiver, mut rest, mut now) = (Depacketizer::new(settings), data, Time::ZERO);
    let (mut given, mut taken) = (0usize, 0usize);
    while let [time, high, low, tail @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(tail.len());
        let (bytes, tail) = tail.split_at(length);
        rest = tail;
        now += Duration::from_millis(u64::from(*time));
        receiver.handle_timeout(now, &mut |payload| given += payload.len());
        let from = Origin::of(format!("10.0.0.{}:5000", time >> 6).parse().ok());
        let mut datagram = bytes.to_vec();
        if let ([one, two, bytes @ ..], true) = (bytes, time % 2 == 1) {
            let sequence = u16::from_be_bytes([*one % 4, *two]);
            let header = Header {
                marker: false,
                payload_type: 33,
                sequence,
                timestamp: 0,
                ssrc: u32::from(*one / 128),
            };
            datagram = [&header.write(), bytes].concat();
        }
        taken += datagram.len();
        let _ = receiver.handle_datagram(&datagram, from, now, &mut |payload| given += payload.len());
        let deadline = receiver.poll_timeout();
        assert!(deadline.is_none_or(|due| due > now), "a deadline that has passed is answered");
    }
    receiver.handle_timeout(Time::NEVER, &mut |payload| given += payload.len());
    assert!(given <= taken && given.is_multiple_of(188), "only whole packets, each once");
    let counters = receiver.counters();
    assert!(counters.late + counters.duplicate + counters.stray <= counters.received);
}
