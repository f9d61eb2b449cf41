//! Sound from a hostile sender. The first byte says what samples are; behind it is a row of datagrams, each behind a byte of
//! time and two of length; those whose time is odd get a good header before them, so that the order and the silence are reached.

use glassline_media::Time;
use glassline_transport::rtp::pcm::{Block, Depacketizer, Depth, Format, Settings};
use glassline_transport::rtp::source::Origin;
use glassline_transport::rtp::{self, Header};
use std::time::Duration;

/// Takes the datagrams. Only panics, endless loops, gaps in time and broken bounds fail.
pub fn run(data: &[u8]) {
    let [kind, rest @ ..] = data else { return };
    let mut rest = rest;
    let depth = if kind % 2 == 0 { Depth::L16 } else { Depth::L24 };
    let Ok(format) = Format::new(depth, kind / 2 % 64 + 1, 48_000) else { return };
    let reorder = rtp::Settings { window: Duration::from_millis(10), packets: 16 };
    let mut receiver = Depacketizer::new(Settings { format, payload_type: 97, reorder });
    let (mut now, mut given) = (Time::ZERO, [0u64; 2]);
    let (mut next, mut breaks) = (None, 0u64);
    let mut out = |block: Block| {
        let samples = block.audio.frames();
        assert!(
            samples > 0 && block.audio.samples.len() <= 1_460 && block.audio.channels == format.channels()
        );
        assert_eq!(block.audio.samples.len(), samples * usize::from(format.channels()));
        assert!(block.audio.samples.iter().all(|sample| sample.abs() <= 1.0));
        breaks += u64::from(next.is_some_and(|next| next != block.timestamp));
        next = Some(block.timestamp.wrapping_add(samples as u32));
        given[usize::from(block.is_silence)] += samples as u64;
    };
    while let [time, high, low, tail @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(tail.len());
        let (bytes, tail) = tail.split_at(length);
        rest = tail;
        now += Duration::from_millis(u64::from(*time));
        receiver.handle_timeout(now, &mut out);
        let from = Origin { path: usize::from(time >> 7), ..Origin::default() };
        let mut datagram = bytes.to_vec();
        if let ([one, two, three, bytes @ ..], true) = (bytes, time % 2 == 1) {
            let header = Header {
                marker: false,
                payload_type: 97,
                sequence: u16::from_be_bytes([*one % 4, *two]),
                timestamp: u32::from(*two) * 48 + (u32::from(*three) << (*one / 4 % 16)),
                ssrc: u32::from(*one / 128),
            };
            datagram = [&header.write(), bytes].concat();
        }
        let _ = receiver.handle_datagram(&datagram, from, now, &mut out);
        assert!(
            receiver.poll_timeout().is_none_or(|due| due > now),
            "a deadline that has passed is answered"
        );
    }
    receiver.flush(&mut out);
    let counters = receiver.counters();
    assert_eq!([counters.samples, counters.silence], given);
    assert_eq!(counters.jumps, breaks, "time goes on without gaps, but for jumps");
}
