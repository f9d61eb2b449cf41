//! Coded media in RTP from a hostile sender. The first byte chooses the format; the others are a row of packets, each behind a
//! byte of flags, one of the time stamp and two of length. Flag 1 is the marker, 2 leaves a number out, 4 is a datagram without a
//! header of ours, 8 lets time pass. What comes out goes through the timeline, as it does in a session.

use glassline_media::{Time, Utc};
use glassline_transport::rtp::coded::{Depacketizer, Format, Timeline, UNIT_BYTES_MAX};
use glassline_transport::rtp::rtcp::{self, Message};
use glassline_transport::rtp::source::Origin;
use glassline_transport::rtp::{Header, Settings};
use glassline_transport::sdp::Encoding;
use std::time::Duration;

const FORMATS: [(&str, u8, &str); 12] = [
    ("H264", 1, "sprop-parameter-sets=Z0IAH5WoFAFuQA==,aM48gA=="),
    ("H265", 1, "sprop-vps=QAE=;sprop-sps=QgE=;sprop-pps=RAE="),
    ("AV1", 1, ""),
    ("MPEG4-GENERIC", 2, "sizelength=13;indexlength=3;indexdeltalength=3;config=1190"),
    (
        "MPEG4-GENERIC",
        2,
        "constantSize=7;sizelength=0;CTSDeltaLength=4;auxiliaryDataSizeLength=9;config=1190",
    ),
    ("MP4A-LATM", 1, "cpresent=0;config=400023103fc0"),
    ("MP4A-LATM", 1, ""),
    ("OPUS", 2, ""),
    ("MPA", 1, ""),
    ("L24", 2, ""),
    ("PCMU", 1, ""),
    ("PCMA", 1, ""),
];

/// Takes the packets. Only panics, endless loops, lost count and broken bounds fail.
pub fn run(data: &[u8]) {
    let [choice, data @ ..] = data else { return };
    let (name, channels, parameters) = FORMATS[usize::from(*choice) % FORMATS.len()];
    let encoding = Encoding {
        payload_type: 96,
        name: name.to_owned(),
        clock_hz: if name.starts_with("PCM") { 8_000 } else { 48_000 },
        channels,
        parameters: parameters.to_owned(),
    };
    let format = Format::of(&encoding).expect("a good description");
    let settings = Settings { window: Duration::from_millis(50), packets: 16 };
    let mut receiver = Depacketizer::new(&format, 96, settings);
    let mut timeline = Timeline::new(&[format.clock_hz()]);
    let (mut rest, mut now, mut sequence, mut given) = (data, Time::from_millis(1000), 0u16, 0u64);
    let mut newest = i64::MIN;
    while let [flags, stamp, high, low, tail @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(tail.len());
        let (payload, tail) = tail.split_at(length);
        rest = tail;
        now += Duration::from_millis(if flags & 8 == 0 { 1 } else { 60 });
        sequence = sequence.wrapping_add(1 + u16::from(flags & 2 != 0));
        let header = Header {
            marker: flags & 1 != 0,
            payload_type: 96,
            sequence,
            timestamp: u32::from(*stamp) << (*flags >> 4),
            ssrc: 1,
        };
        let datagram = if flags & 4 == 0 { [&header.write(), payload].concat() } else { payload.to_vec() };
        for message in rtcp::messages(&datagram) {
            if let Message::SenderReport(report) = message {
                timeline.handle_report(0, &report, Utc::from_nanos(1_700_000_000_000_000_000));
            }
        }
        let _ = receiver.handle_packet(&datagram, Origin::of(None), now);
        receiver.handle_timeout(now);
        assert!(
            receiver.poll_timeout().is_none_or(|due| due > now),
            "a deadline that has passed is answered"
        );
        while let Some(unit) = receiver.poll() {
            given += 1;
            assert!(!unit.data.is_empty() && unit.data.len() <= UNIT_BYTES_MAX + (1 << 20));
            assert!(unit.decode_timestamp <= unit.timestamp);
            if let Some(placed) = timeline.place(0, unit, now) {
                assert!(placed.unit.dts.0 > newest || placed.jumps, "decoding times rise");
                newest = placed.unit.dts.0;
            }
        }
    }
    receiver.finish();
    given += std::iter::from_fn(|| receiver.poll()).count() as u64;
    assert_eq!(given, receiver.counters().units);
}
