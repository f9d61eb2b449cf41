//! Packets of a session's tracks, and the reports that say when they were captured.

use super::offer::OfferedTrack;
use crate::rtp::coded::Packetizer;
use crate::rtp::rtcp::{self, SenderReport};
use glassline_media::{AccessUnit, Ticks, Time, Utc};
use std::time::Duration;

/// How often a sender reports.
const REPORT_TIME: Duration = Duration::from_secs(5);
/// The name in reports.
const NAME: &str = "glassline";

#[derive(Debug)]
struct Track {
    packetizer: Packetizer,
    clock_hz: u32,
    /// What is added to stamps: they begin anywhere (RFC 3550 §5.1).
    offset: u32,
    /// The newest unit: its time stamp, and when it was captured.
    newest: Option<(u32, Utc)>,
    next_report: Time,
}

/// The tracks of a session, as they are sent.
#[derive(Debug)]
pub struct Sender {
    tracks: Vec<Track>,
}

impl Sender {
    /// Of these tracks, in packets of at most `payload_bytes` behind the header. `random` gives numbers that others should not guess.
    pub fn new(offered: &[OfferedTrack], payload_bytes: usize, mut random: impl FnMut() -> u64) -> Sender {
        let track = |offered: &OfferedTrack| {
            let [a, b, c, d, e, f, g, h] = random().to_be_bytes();
            let (ssrc, offset) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
            // What is offered has a format; less than the least payload is never asked for.
            let packetizer =
                offered.packetizer(ssrc, u16::from_be_bytes([h, a]), payload_bytes.max(256)).ok()?;
            let clock_hz = offered.clock_hz();
            Some(Track { packetizer, clock_hz, offset, newest: None, next_report: Time::ZERO })
        };
        Sender { tracks: offered.iter().filter_map(track).collect() }
    }

    /// Gives the packets of a unit to `out`, and in front of them a report where one is due, each with whether it is one. `captured` is
    /// when the unit was captured; where that is not known, when it came here.
    pub fn send(
        &mut self,
        track: usize,
        unit: &AccessUnit,
        captured: Utc,
        now: Time,
        out: &mut dyn FnMut(bool, &[u8]),
    ) {
        let Some(track) = self.tracks.get_mut(track) else { return };
        let timestamp = track.offset.wrapping_add(stamp(unit.pts, track.clock_hz));
        track.newest = Some((timestamp, captured));
        if now >= track.next_report {
            track.next_report = now + REPORT_TIME;
            let (packets, bytes) = track.packetizer.sent();
            let (ssrc, ntp) = (track.packetizer.ssrc(), rtcp::ntp_of(captured));
            let report = SenderReport { ssrc, ntp, timestamp, packets, bytes };
            out(true, &rtcp::write_sender_report(&report, NAME));
        }
        track.packetizer.packetize(unit, timestamp, &mut |packet| out(false, packet));
    }

    /// A goodbye of each track, with its number.
    pub fn goodbyes(&self) -> impl Iterator<Item = (usize, Vec<u8>)> {
        self.tracks.iter().enumerate().map(|(number, track)| {
            let (timestamp, captured) = track.newest.unwrap_or((0, Utc::from_nanos(0)));
            let (packets, bytes) = track.packetizer.sent();
            let (ssrc, ntp) = (track.packetizer.ssrc(), rtcp::ntp_of(captured));
            let report = SenderReport { ssrc, ntp, timestamp, packets, bytes };
            let mut compound = rtcp::write_sender_report(&report, NAME);
            rtcp::write_goodbye(ssrc, &mut compound);
            (number, compound)
        })
    }

    /// The number of the next packet of a track, and its sender.
    pub fn next(&self, track: usize) -> Option<(u16, u32)> {
        let track = self.tracks.get(track)?;
        Some((track.packetizer.next_sequence(), track.packetizer.ssrc()))
    }
}

/// Ticks of 90 kHz by another clock, modulo 2³².
fn stamp(pts: Ticks, clock_hz: u32) -> u32 {
    let ticks = i128::from(pts.0).saturating_mul(clock_hz.into()).div_euclid(i128::from(Ticks::RATE));
    u32::try_from(ticks.rem_euclid(1 << 32)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtp::Packet;
    use crate::rtp::rtcp::Message;
    use bytes::Bytes;
    use glassline_media::{Codec, Stamps};

    #[test]
    fn reports_say_when_a_stamp_was_captured_and_goodbyes_end_it() {
        let unit = |pts: i64| AccessUnit {
            codec: Codec::Opus,
            data: Bytes::from_static(&[8, 1]),
            pts: Ticks(pts),
            dts: Ticks(pts),
            random_access: true,
            stamps: Stamps::default(),
        };
        let offered = [OfferedTrack::of(&unit(0), 0).unwrap()];
        let mut sender = Sender::new(&offered, 1200, || 0x0000_0007_0000_0064);
        let captured = Utc::from_nanos(1_700_000_000_000_000_000);
        let mut sent = Vec::new();
        for (pts, at_ms) in [(0, 0), (90_000, 1000), (540_000, 6000)] {
            let now = Time::from_millis(at_ms);
            sender.send(0, &unit(pts), captured, now, &mut |is_report, packet| {
                sent.push((is_report, packet.to_vec()));
            });
        }
        let kinds: Vec<bool> = sent.iter().map(|(is_report, _)| *is_report).collect();
        assert_eq!(kinds, [true, false, false, true, false]);
        let stamps: Vec<u32> = sent
            .iter()
            .filter(|(is_report, _)| !is_report)
            .map(|(_, packet)| Packet::parse(packet).unwrap().header.timestamp)
            .collect();
        assert_eq!(stamps, [100, 48_100, 288_100]);
        let Some(Message::SenderReport(report)) = rtcp::messages(&sent[3].1).next() else { panic!() };
        assert_eq!((report.ssrc, report.timestamp, report.packets, report.bytes), (7, 288_100, 2, 4));
        assert_eq!(
            rtcp::utc_of(report.ntp).map(|utc| utc.as_nanos() / 1000),
            Some(captured.as_nanos() / 1000)
        );
        let goodbye = sender.goodbyes().next().unwrap().1;
        assert!(rtcp::messages(&goodbye).any(|message| message == Message::Goodbye { ssrc: 7 }));
        assert_eq!(stamp(Ticks(-90), 90_000), u32::MAX - 89);
    }
}
