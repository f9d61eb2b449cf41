//! Packets of a session's tracks, and the reports that say when they were captured.

use super::offer::OfferedTrack;
use crate::rtp::coded::Packetizer;
use crate::rtp::rtcp::{self, SenderReport};
use crate::splitmix;
use glassline_media::{AccessUnit, Ticks, Time, Utc};

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

impl Track {
    /// `random` gives numbers that others should not guess.
    fn new(offered: &OfferedTrack, payload_bytes: usize, random: &mut dyn FnMut() -> u64) -> Option<Track> {
        let [a, b, c, d, e, f, g, h] = random().to_be_bytes();
        let (ssrc, offset) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
        // What is offered has a format; less than the least payload is never asked for.
        let sequence = u16::from_be_bytes([h, a]);
        let packetizer = offered.packetizer(ssrc, sequence, payload_bytes.max(256)).ok()?;
        let clock_hz = offered.clock_hz();
        Some(Track { packetizer, clock_hz, offset, newest: None, next_report: Time::ZERO })
    }

    fn report(&self, timestamp: u32, captured: Utc, name: &str) -> Vec<u8> {
        let (packets, bytes) = self.packetizer.sent();
        let (ssrc, ntp) = (self.packetizer.ssrc(), rtcp::ntp_of(captured));
        rtcp::write_sender_report(&SenderReport { ssrc, ntp, timestamp, packets, bytes }, name)
    }

    fn goodbye(&self, name: &str) -> Vec<u8> {
        let (timestamp, captured) = self.newest.unwrap_or((0, Utc::from_nanos(0)));
        let mut compound = self.report(timestamp, captured, name);
        rtcp::write_goodbye(self.packetizer.ssrc(), &mut compound);
        compound
    }
}

/// The tracks of a session, as they are sent.
#[derive(Debug)]
pub struct Sender {
    tracks: Vec<Option<Track>>,
    /// The name in reports: the same for all tracks, by which receivers know that they belong together.
    name: String,
    /// Of which the times of reports are made.
    random: u64,
}

impl Sender {
    /// Of these tracks, in packets of at most `payload_bytes` behind the header. `random` gives numbers that others should not guess.
    pub fn new(offered: &[OfferedTrack], payload_bytes: usize, mut random: impl FnMut() -> u64) -> Sender {
        let (name, times) = (rtcp::canonical_name(random()), random());
        let track = |offered| Track::new(offered, payload_bytes, &mut random);
        Sender { tracks: offered.iter().map(track).collect(), name, random: times }
    }

    /// The tracks that were [offered](Sender::new) one after the other: this one is number `number`, which may be further than the
    /// others are. What was there before ends: its goodbye is returned, if it has sent anything.
    pub fn put(
        &mut self,
        number: usize,
        offered: &OfferedTrack,
        payload_bytes: usize,
        random: &mut dyn FnMut() -> u64,
    ) -> Option<Vec<u8>> {
        if self.tracks.len() <= number {
            self.tracks.resize_with(number.saturating_add(1), || None);
        }
        let place = self.tracks.get_mut(number)?;
        let former = std::mem::replace(place, Track::new(offered, payload_bytes, random))?;
        former.newest.map(|_| former.goodbye(&self.name))
    }

    /// Track `number` ends: its goodbye is returned, if it has sent anything.
    pub fn remove(&mut self, number: usize) -> Option<Vec<u8>> {
        let former = self.tracks.get_mut(number)?.take()?;
        former.newest.map(|_| former.goodbye(&self.name))
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
        let Some(Some(track)) = self.tracks.get_mut(track) else { return };
        let timestamp = track.offset.wrapping_add(stamp(unit.pts, track.clock_hz));
        track.newest = Some((timestamp, captured));
        if now >= track.next_report {
            track.next_report = now + rtcp::report_interval(2, splitmix::next(&mut self.random));
            out(true, &track.report(timestamp, captured, &self.name));
        }
        track.packetizer.packetize(unit, timestamp, &mut |packet| out(false, packet));
    }

    /// A goodbye of each track, with its number.
    pub fn goodbyes(&self) -> impl Iterator<Item = (usize, Vec<u8>)> {
        let tracks = self.tracks.iter().enumerate();
        tracks.filter_map(|(number, track)| Some((number, track.as_ref()?.goodbye(&self.name))))
    }

    /// The number of the next packet of a track, and its sender.
    pub fn next(&self, track: usize) -> Option<(u16, u32)> {
        let track = self.tracks.get(track)?.as_ref()?;
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
        for (pts, at_ms) in [(0, 0), (90_000, 1000), (720_000, 8000)] {
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
        assert_eq!(stamps, [100, 48_100, 384_100]);
        let Some(Message::SenderReport(report)) = rtcp::messages(&sent[3].1).next() else { panic!() };
        assert_eq!((report.ssrc, report.timestamp, report.packets, report.bytes), (7, 384_100, 2, 4));
        assert_eq!(
            rtcp::utc_of(report.ntp).map(|utc| utc.as_nanos() / 1000),
            Some(captured.as_nanos() / 1000)
        );
        let goodbye = sender.goodbyes().next().unwrap().1;
        assert!(rtcp::messages(&goodbye).any(|message| message == Message::Goodbye { ssrc: 7 }));
        assert_eq!(stamp(Ticks(-90), 90_000), u32::MAX - 89);
    }
}
