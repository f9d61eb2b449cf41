//! When pictures passed this server, of a stream with pictures that say when they were captured (`docs/capture-utc.md`).
//!
//! Comes in: packets of the video, each once, and when viewers were shown what had come, and got it. Goes out: the
//! [`PassedPicture`]s of the last ten seconds, and what they add up to. A picture is told once the next one has begun, since
//! only that tells which byte was its last, and once it is known when it left, or that no viewer waits for it. Only the first
//! packets of a picture are looked into, up to its first slice.

use crate::telemetry::stages::{PassedPicture, RelayFigures};
use glassline_media::bitstream::{self, h264};
use glassline_media::container::ts::{PACKET_BYTES, Packet, Program, Scan};
use glassline_media::stamps::Record;
use glassline_media::{Codec, Time, Utc};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::Duration;

/// How long pictures are told.
const KEPT: Duration = Duration::from_secs(10);
/// How many are told at most: ten seconds of 120 a second.
const KEPT_PICTURES: usize = 1200;
/// A viewer is given a picture within this time of when viewers can have it, or it counts as sent to none.
const SENT_WITHIN: Duration = Duration::from_millis(100);
/// Bytes from a picture's start in which its capture time must stand; it comes in front of the first slice.
const PROBE_BYTES: usize = 1536;
/// Of a PES header, before what its own length counts (ISO/IEC 13818-1 §2.4.3.6).
const PES_HEADER_BYTES: usize = 9;

/// A moment on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// On the monotonic one.
    pub at: Time,
    /// On the wall clock.
    pub utc: Utc,
}

impl Moment {
    fn ahead_ns(self) -> u64 {
        self.utc.as_nanos().wrapping_sub(self.at.as_nanos())
    }
}

/// What a picture says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Said {
    captured: Utc,
    record: Option<Record>,
}

/// Whether it left for a viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    /// It may yet.
    Waits,
    At(Time),
    /// The viewers that are here begin behind it.
    ToNobody,
}

/// A picture on its way.
#[derive(Clone, Copy, Debug)]
struct Passing {
    first_byte: Time,
    received: Time,
    /// When the transport gave its last packet out, where that holds back what comes.
    released: Option<Time>,
    /// The offset behind its last packet so far.
    end: u64,
    flushed: Option<Moment>,
    sent: Sent,
}

impl Passing {
    /// What is told of it, once all is known.
    fn passed(&self, captured: Utc, now: Time) -> Option<PassedPicture> {
        let flushed = self.flushed?;
        let sent = match self.sent {
            Sent::Waits if now.since(flushed.at) < SENT_WITHIN => return None,
            Sent::Waits | Sent::ToNobody => None,
            Sent::At(at) => Some(at),
        };
        let Passing { first_byte, received, released, .. } = *self;
        Some(PassedPicture {
            captured,
            first_byte,
            received,
            released,
            flushed: flushed.at,
            sent,
            ahead_ns: flushed.ahead_ns(),
        })
    }

    fn is_wanted(&self) -> bool {
        self.flushed.is_some() && self.sent == Sent::Waits
    }

    fn flush(&mut self, moment: Moment) {
        self.flushed.get_or_insert(moment);
    }

    /// A viewer was given the bytes from one offset to another.
    fn send(&mut self, from: u64, to: u64, now: Time) {
        if self.is_wanted() && self.end <= to {
            self.sent = if self.end > from { Sent::At(now) } else { Sent::ToNobody };
        }
    }
}

/// Gathers the beginning of a picture's PES packet until it is clear what the picture says.
#[derive(Clone, Debug, Default)]
struct CaptureProbe {
    unit: Vec<u8>,
    /// What it looks for messages of; `None`: it does not look.
    codec: Option<Codec>,
}

impl CaptureProbe {
    fn begin(&mut self, codec: Option<Codec>) {
        self.unit.clear();
        self.codec = codec;
    }

    /// Takes the picture's next bytes.
    fn push(&mut self, payload: &[u8]) -> Option<Said> {
        let codec = self.codec?;
        self.unit.extend_from_slice(payload);
        let header =
            PES_HEADER_BYTES + self.unit.get(PES_HEADER_BYTES - 1).map_or(0, |bytes| usize::from(*bytes));
        let mut nals = h264::nals(self.unit.get(header..).unwrap_or_default()).peekable();
        while let Some(nal) = nals.next() {
            if bitstream::is_slice(codec, nal.bytes[0]) {
                self.codec = None;
                return None;
            }
            // One that no other follows may be cut off.
            if nals.peek().is_some()
                && let Some(sei) = bitstream::messages(codec, &nal)
                && let Some(captured) = sei.capture_utc()
            {
                self.codec = None;
                return Some(Said { captured, record: sei.stamp_record() });
            }
        }
        self.codec = self.codec.filter(|_| self.unit.len() < PROBE_BYTES);
        None
    }
}

/// The pictures of one stream.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct PictureLog {
    #[serde(skip)]
    probe: CaptureProbe,
    /// The newest picture, which may not be all there, and what it says.
    #[serde(skip)]
    open: Option<(Passing, Option<Said>)>,
    /// Those behind which another one has begun, of which something is not known yet.
    #[serde(skip)]
    passing: VecDeque<(Passing, Utc)>,
    /// Those of the last ten seconds of which all is known.
    #[serde(skip)]
    passed: VecDeque<PassedPicture>,
    /// What the picture before the newest one that says anything has said.
    #[serde(skip)]
    before: Option<Said>,
    figures: RelayFigures,
}

impl PictureLog {
    /// Takes a packet of the video of `program`, which ends in front of the offset `end`. It came at `held_since`,
    /// where it was held back.
    pub(super) fn push(
        &mut self,
        scan: &Scan,
        packet: &[u8; PACKET_BYTES],
        program: Option<&Program>,
        end: u64,
        now: Time,
        held_since: Option<Time>,
    ) {
        let came = held_since.unwrap_or(now);
        if scan.video_unit_start {
            self.close(now);
            let streams = program.map_or(&[][..], |program| &program.streams);
            let codec = streams.iter().find(|stream| stream.pid == scan.pid).and_then(|stream| stream.codec);
            self.probe.begin(codec.filter(|codec| matches!(codec, Codec::H264 | Codec::Av1)));
            let passing = Passing {
                first_byte: came,
                received: came,
                released: None,
                end,
                flushed: None,
                sent: Sent::Waits,
            };
            self.open = Some((passing, None));
        }
        let Some((passing, said)) = &mut self.open else { return };
        (passing.received, passing.end) = (came.max(passing.first_byte), end);
        passing.released = held_since.map(|_| now);
        (passing.flushed, passing.sent) = (None, Sent::Waits);
        if self.probe.codec.is_none() {
            return;
        }
        let Ok(packet) = Packet::parse(packet) else { return };
        if packet.scrambled {
            self.probe.codec = None;
        } else if let Some(found) = self.probe.push(packet.payload) {
            *said = Some(found);
            let before = self.before.replace(found);
            let told = before
                .and_then(|before| before.record?.with_next(before.captured, &found.record?, found.captured));
            if let Some(stamps) = told {
                self.figures.count_sender(&stamps, now);
            }
        }
    }

    /// The next picture begins.
    fn close(&mut self, now: Time) {
        if let Some((passing, Some(said))) = self.open.take() {
            if self.passing.len() >= KEPT_PICTURES {
                self.passing.pop_front();
            }
            self.passing.push_back((passing, said.captured));
        }
        self.settle(now);
    }

    /// Another publisher: the last picture of the one before may have been cut off.
    pub(super) fn begin_session(&mut self) {
        self.probe.begin(None);
        (self.open, self.before) = (None, None);
    }

    /// Whether the caller has to tell [`PictureLog::flushed`] when viewers can have what has come: not where no picture says
    /// anything.
    pub(super) fn wants_flush(&self) -> bool {
        let newest = self.passing.back().is_some_and(|(passing, _)| passing.flushed.is_none());
        newest || matches!(&self.open, Some((passing, Some(_))) if passing.flushed.is_none())
    }

    /// Viewers can have all that has come.
    pub(super) fn flushed(&mut self, moment: Moment) {
        self.settle(moment.at);
        let waiting = self.passing.iter_mut().rev();
        waiting
            .take_while(|(passing, _)| passing.flushed.is_none())
            .for_each(|(passing, _)| passing.flush(moment));
        if let Some((passing, Some(_))) = &mut self.open {
            passing.flush(moment);
        }
    }

    /// The offset that a viewer has to have reached for [`PictureLog::sent`] to tell something new; `u64::MAX` where it would
    /// not.
    pub(super) fn unsent_end(&self) -> u64 {
        let open = self.open.iter().filter(|(_, said)| said.is_some()).map(|(passing, _)| passing);
        let mut all = self.passing.iter().map(|(passing, _)| passing).chain(open);
        all.find(|passing| passing.is_wanted()).map_or(u64::MAX, |passing| passing.end)
    }

    /// A viewer that began at the offset `from` has been given all in front of `to`.
    pub(super) fn sent(&mut self, from: u64, to: u64, now: Time) {
        self.passing.iter_mut().for_each(|(passing, _)| passing.send(from, to, now));
        if let Some((passing, Some(_))) = &mut self.open {
            passing.send(from, to, now);
        }
        self.settle(now);
    }

    /// Counts those of which all is known, and forgets the old.
    fn settle(&mut self, now: Time) {
        while let Some(picture) =
            self.passing.front().and_then(|(passing, captured)| passing.passed(*captured, now))
        {
            self.passing.pop_front();
            self.figures.count_picture(&picture, now);
            self.passed.push_back(picture);
        }
        let is_old = |picture: &PassedPicture| now.since(picture.received) > KEPT;
        while self.passed.len() > KEPT_PICTURES || self.passed.front().is_some_and(is_old) {
            self.passed.pop_front();
        }
    }

    /// The pictures of the last ten seconds, in the order in which they came: at most [`KEPT_PICTURES`].
    pub(super) fn passed(&mut self, now: Time) -> impl Iterator<Item = &PassedPicture> {
        self.settle(now);
        self.passed.iter()
    }

    /// What all pictures add up to.
    pub(super) fn figures(&self) -> &RelayFigures {
        &self.figures
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Backlog, FlushPolicy, Mux, Pacing, Prebuffer, Settings, Stream};
    use super::*;
    use crate::telemetry::stages::{Part, RELAY_STAGES};
    use glassline_media::access_unit::AccessUnit;
    use glassline_media::bitstream::h264::sei::{USER_DATA_UNREGISTERED, write_message};
    use glassline_media::bitstream::h264::write_capture;
    use glassline_media::container::ts::{MuxSettings, Muxer};
    use glassline_media::stamps::Previous;
    use glassline_media::time::Ticks;
    use glassline_media::{Stage, Stamps};
    use glassline_test_support::synthetic::{SPS, UTC_AT_ZERO};
    use proptest::prelude::*;

    const INTERVAL_US: u64 = 20_000;

    fn micros(value: u64) -> Time {
        Time::from_nanos(value * 1000)
    }

    fn moment(at: u64) -> Moment {
        Moment { at: micros(at), utc: Utc::from_nanos(UTC_AT_ZERO + at * 1000) }
    }

    fn stream() -> Stream {
        let backlog = Backlog { time: Duration::from_secs(2), bytes: 1 << 20 };
        let settings =
            Settings { backlog, flush: FlushPolicy::Frame, pacing: Pacing::Off, prebuffer: Prebuffer::NONE };
        let mut stream = Stream::new(Mux::MpegTs, settings, Time::ZERO);
        stream.begin_session(Time::ZERO);
        stream
    }

    /// When the picture of this number was captured, in microseconds.
    fn captured(number: u64) -> u64 {
        1_000_000 + number * INTERVAL_US
    }

    /// Pictures of some packets, each of which says its stages and those of the one before.
    fn pictures(count: u64, says: impl Fn(u64) -> bool) -> Vec<Vec<u8>> {
        pictures_of(Codec::H264, count, says)
    }

    fn pictures_of(codec: Codec, count: u64, says: impl Fn(u64) -> bool) -> Vec<Vec<u8>> {
        let settings = MuxSettings { video: Some(codec), ..MuxSettings::default() };
        let mut muxer = Muxer::new(settings).unwrap();
        let picture = |number: u64| {
            let mut data = vec![0, 0, 0, 1, 9, 0xf0];
            if codec == Codec::Av1 {
                data = vec![0, 0, 1, 0x12, 0];
            } else if number == 0 {
                data.extend_from_slice(SPS);
                // What x264 says of itself is long.
                write_message(USER_DATA_UNREGISTERED, &[0x55; 700], &mut data);
            }
            if says(number) {
                let own = Stamps::captured_at(Time::ZERO).with(Stage::EncoderIn, micros(500));
                let stages = Stamps::captured_at(Time::ZERO).with(Stage::Encoded, micros(7_500));
                let ago = Duration::from_micros(INTERVAL_US);
                let previous = (number > 0).then_some(Previous { ago, stages });
                let utc = Utc::from_nanos(UTC_AT_ZERO + captured(number) * 1000 + 999);
                let payload = write_capture(utc, &Record { own, previous, ..Record::default() });
                bitstream::write_user_message(codec, &[0x41, 0x98], &payload, &mut data);
            }
            match codec {
                Codec::Av1 => data.extend_from_slice(&[0, 0, 1, 0x30, if number == 0 { 0x10 } else { 0x30 }]),
                _ => data.extend_from_slice(&[0, 0, 0, 1, if number == 0 { 0x65 } else { 0x41 }, 0x98]),
            }
            data.resize(2000, 0x55);
            let pts = Ticks(90_000 + number as i64 * 1800);
            let random_access = number == 0;
            let stamps = Stamps::default();
            let unit = AccessUnit { codec, data: data.into(), pts, dts: pts, random_access, stamps };
            let mut bytes = Vec::new();
            muxer.write(&unit, &mut bytes).unwrap();
            bytes
        };
        (0..count).map(picture).collect()
    }

    fn push(stream: &mut Stream, bytes: &[u8], at: u64) {
        stream.push(bytes, micros(at), &mut |_| {}).unwrap();
    }

    fn flush(stream: &mut Stream, at: u64) {
        if stream.wants_moment() {
            stream.pictures_flushed(moment(at));
        }
    }

    fn told(stream: &mut Stream, at: u64) -> Vec<PassedPicture> {
        stream.passed_pictures(micros(at)).copied().collect()
    }

    /// Sends pictures, the end of each 4 ms after its beginning, to a viewer that has each 300 µs after it was flushed.
    fn watched(units: &[Vec<u8>]) -> Stream {
        let mut stream = stream();
        for (number, unit) in (0..).zip(units) {
            let (at, half) = (captured(number) + 10_000, unit.len() / 2);
            push(&mut stream, &unit[..half], at);
            flush(&mut stream, at + 10);
            push(&mut stream, &unit[half..], at + 4_000);
            flush(&mut stream, at + 4_020);
            let head = stream.head();
            if stream.unsent_end() <= head {
                stream.pictures_sent(0, head, micros(at + 4_320));
            }
        }
        stream
    }

    #[test]
    fn what_a_transport_holds_back_is_a_stage() {
        let mut stream = stream();
        for (number, unit) in (0..).zip(&pictures(3, |_| true)) {
            let (at, half) = (captured(number) + 10_000, unit.len() / 2);
            for (part, came) in [(&unit[..half], at), (&unit[half..], at + 4_000)] {
                stream.set_held_since(Some(micros(came)));
                push(&mut stream, part, came + 120_000);
                flush(&mut stream, came + 120_020);
            }
        }
        let picture = told(&mut stream, captured(20))[1];
        let stages = RELAY_STAGES.map(|stage| picture.after_capture_us(stage));
        assert_eq!(stages, [Some(10_000), Some(14_000), Some(134_000), Some(134_020), None]);
    }

    #[test]
    fn each_picture_is_told_with_its_stages_once_the_next_has_begun() {
        let mut stream = watched(&pictures(30, |_| true));
        let all = told(&mut stream, captured(31));
        assert_eq!(all.len(), 29, "the last one may go on");
        for (number, picture) in (0..).zip(&all) {
            assert_eq!(picture.captured.as_micros(), UTC_AT_ZERO / 1000 + captured(number));
            let stages = [Stage::RelayFirstByte, Stage::RelayReceived, Stage::RelayFlushed, Stage::RelaySent]
                .map(|stage| picture.after_capture_us(stage).unwrap());
            assert_eq!(stages, [10_000, 14_000, 14_020, 14_320], "{number}");
        }
        assert_eq!(stream.unsent_end(), u64::MAX);
        let figures = stream.relay_figures().unwrap();
        let steps = figures.steps(micros(captured(31)));
        let parts: Vec<_> = steps[0].parts.iter().map(|(part, all)| (*part, all.p50_us)).collect();
        assert_eq!(parts, [(Part::Queue, 500), (Part::Encode, 7_000), (Part::Relay, 320)]);
        assert_eq!(told(&mut stream, captured(31) + 20_000_000), [], "for ten seconds");
    }

    #[test]
    fn pictures_of_av1_say_it_in_a_metadata_obu() {
        let mut stream = watched(&pictures_of(Codec::Av1, 10, |_| true));
        let all = told(&mut stream, captured(11));
        let times: Vec<u64> = all.iter().map(|picture| picture.captured.as_micros()).collect();
        let expected: Vec<u64> = (0..9).map(|number| UTC_AT_ZERO / 1000 + captured(number)).collect();
        assert_eq!(times, expected, "the last one may go on");
    }

    #[test]
    fn without_viewers_it_is_not_sent_and_without_capture_times_nothing_is_told() {
        let units = pictures(10, |_| true);
        let mut unwatched = stream();
        for (number, unit) in (0..).zip(&units) {
            push(&mut unwatched, unit, captured(number) + 10_000);
            flush(&mut unwatched, captured(number) + 10_010);
        }
        let now = captured(9) + 10_020;
        assert_eq!(told(&mut unwatched, now).len(), 5, "viewers may be on their way for 100 ms");
        assert!(unwatched.unsent_end() < unwatched.head());
        // One comes, and begins with the last picture.
        let last = unwatched.head() - units[9].len() as u64;
        unwatched.pictures_sent(last, unwatched.head(), micros(now));
        assert_eq!(unwatched.unsent_end(), u64::MAX);
        let all = told(&mut unwatched, now);
        assert!(all.len() == 9 && all.iter().all(|picture| picture.sent.is_none()), "{all:?}");

        let mut silent = watched(&pictures(10, |_| false));
        assert!(!silent.wants_moment() && silent.unsent_end() == u64::MAX);
        assert_eq!(told(&mut silent, captured(20)), []);
        // Of a mixed one those that say something.
        let mut mixed = watched(&pictures(10, |number| number % 2 == 1));
        assert_eq!(told(&mut mixed, captured(20)).len(), 4);
    }

    #[test]
    fn a_picture_that_a_publisher_left_unfinished_is_not_told() {
        let units = pictures(6, |_| true);
        let mut stream = watched(&units[..3]);
        stream.begin_session(micros(captured(3)));
        push(&mut stream, &units.concat(), captured(4));
        flush(&mut stream, captured(4) + 10);
        let all = told(&mut stream, captured(30));
        let numbers: Vec<_> = all
            .iter()
            .map(|picture| (picture.captured.as_micros() - UTC_AT_ZERO / 1000 - captured(0)) / INTERVAL_US)
            .collect();
        assert_eq!(numbers, [0, 1, 0, 1, 2, 3, 4]);
    }

    proptest! {
        #[test]
        fn any_chop_and_any_damage_stay_bounded_and_in_order(
            chop in 1..3000usize,
            damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..40),
            flushes in proptest::collection::vec((any::<bool>(), 0..50_000u64), 1..60),
        ) {
            let mut bytes = pictures(40, |_| true).concat();
            for (index, value) in damage {
                let at = index.index(bytes.len());
                bytes[at] = value;
            }
            let (mut stream, mut at) = (stream(), 1_000_000);
            for (part, (is_sent, later)) in bytes.chunks(chop).zip(flushes.iter().cycle()) {
                at += later;
                let _ = stream.push(part, micros(at), &mut |_| {});
                flush(&mut stream, at + 1);
                if *is_sent {
                    stream.pictures_sent(later * 5, stream.head(), micros(at + 2));
                }
            }
            let all = told(&mut stream, at + 1_000_000);
            prop_assert!(all.len() <= KEPT_PICTURES);
            for picture in &all {
                let stages = [Some(picture.first_byte), Some(picture.received), Some(picture.flushed), picture.sent];
                prop_assert!(stages.iter().flatten().is_sorted(), "{picture:?}");
            }
        }

        #[test]
        fn many_pictures_are_forgotten_though_nobody_flushes(times in 1..4usize) {
            let mut unit = pictures(2, |_| true).swap_remove(1);
            unit.truncate(188);
            let tables = pictures(1, |_| true).concat();
            let mut stream = stream();
            push(&mut stream, &tables, 0);
            // Each is one packet, and begins where the one before it did.
            push(&mut stream, &unit.repeat(times * KEPT_PICTURES), 1);
            let Some(log) = stream.picture_log() else { panic!("it is MPEG-TS") };
            prop_assert!(log.passing.len() <= KEPT_PICTURES && log.passed.is_empty());
        }
    }
}
