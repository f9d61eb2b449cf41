//! Statistics of RTP headers from a hostile sender. The bytes are a row of headers, five bytes each: time and source, the number
//! of 16 bits, the time stamp, and the high bits of the number, which every other source has.

use glassline_media::Time;
use glassline_transport::rtp::Header;
use glassline_transport::rtp::statistics::{Arrival, Statistics};
use std::time::Duration;

/// Takes the headers. Only panics and counts that do not add up fail.
pub fn run(data: &[u8]) {
    let Some((&dropout, data)) = data.split_first() else { return };
    // From none that is believed to all of them.
    let mut statistics = Statistics::new(90_000).with_dropout_max((1u32 << (dropout % 32)) - 1);
    let (mut now, mut before) = (Time::ZERO, statistics.counters());
    let (mut taken, mut received, mut late, mut duplicates, mut restarts) = (0u64, 0u64, 0u64, 0u64, 0u64);
    for &[first, high, low, stamp, extension] in data.as_chunks::<5>().0 {
        now += Duration::from_micros(u64::from(first >> 2) * 50);
        let header = Header {
            marker: false,
            payload_type: 96,
            sequence: u16::from_be_bytes([high, low]),
            timestamp: u32::from(stamp) << 8,
            ssrc: u32::from(first & 2),
        };
        let arrival = match first & 1 {
            0 => statistics.push(&header, now),
            _ => statistics.push_extended(&header, u16::from(extension), now),
        };
        taken += 1;
        match arrival {
            Arrival::Next { .. } | Arrival::Gap { .. } => received += 1,
            Arrival::Late { .. } => (received, late) = (received + 1, late + 1),
            Arrival::Duplicate { .. } => duplicates += 1,
            // With the stray before it.
            Arrival::Restart { .. } => (received, restarts) = (received + 2, restarts + 1),
            Arrival::Stray => {}
        }
        let counters = statistics.counters();
        assert_eq!((counters.received, counters.duplicates), (received, duplicates));
        assert_eq!((counters.reordered, counters.restarts), (late, restarts));
        let sum = counters.received + counters.duplicates + counters.strays;
        assert!((sum..=sum + 1).contains(&taken), "all are counted, but one that may be a beginning");
        assert!(counters.received <= counters.expected, "no more than was sent");
        assert!(counters.longest_loss <= counters.lost(), "a loss in a row is a part of all");
        let since = counters.since(&before);
        assert!(
            since.received + since.duplicates + since.strays <= 2,
            "one packet is one packet, or ends a stray"
        );
        before = counters;
    }
}
