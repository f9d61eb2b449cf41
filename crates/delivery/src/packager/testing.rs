//! Streams with known properties, and a check of what the packager gives.

use super::{Demultiplexer, Event, Packager, RenditionName, Settings};
use crate::stream::Mux;
use bytes::Bytes;
use glassline_media::bitstream::{self, h264};
use glassline_media::container::ts::Program;
use glassline_media::container::ts::psi::ElementaryStream;
use glassline_media::stamps::Record;
use glassline_media::{AccessUnit, Codec, Stage, Stamps, Ticks, Time, Utc};
use std::collections::BTreeMap;

/// Baseline, 320x180, 25 pictures a second, as x264 writes it.
const SPS: &[u8] = &[
    0x67, 0x42, 0xc0, 0x0d, 0xd9, 0x01, 0x41, 0x9f, 0x9f, 0x01, 0x10, 0x00, 0x00, 0x03, 0x00, 0x10, 0x00,
    0x00, 0x03, 0x03, 0x20, 0xf1, 0x42, 0xa4, 0x80,
];
/// 320x240, main profile, 25 pictures a second.
const OTHER_SPS: &[u8] = &[
    0x67, 0x4d, 0x40, 0x0d, 0xec, 0xa0, 0xa0, 0xfd, 0x80, 0x88, 0, 0, 3, 0, 8, 0, 0, 3, 1, 0x90, 0x78, 0xa1,
    0x4c, 0xb0,
];
const PPS: &[u8] = &[0x68, 0xcb, 0x83, 0xcb, 0x20];

pub(crate) const VIDEO: u16 = 0x100;
pub(crate) const SOUND: u16 = 0x101;
pub(crate) const SECOND_SOUND: u16 = 0x102;
/// From picture to picture.
pub(crate) const PICTURE: i64 = 3600;
/// 2026-05-04T03:02:01Z, when the streams here begin.
pub(crate) const BEGUN: Utc = Utc::from_nanos(1_777_863_721_000_000_000);

fn unit(codec: Codec, data: Vec<u8>, pts: i64) -> AccessUnit {
    let (pts, stamps) = (Ticks(pts), Stamps::default());
    AccessUnit { codec, data: Bytes::from(data), pts, dts: pts, random_access: false, stamps }
}

fn coded(key: bool, sps: &[u8], captured: Option<Utc>, bytes: usize, pts: i64) -> AccessUnit {
    let mut data = h264::ACCESS_UNIT_DELIMITER.to_vec();
    if key {
        for nal in [sps, PPS] {
            data.extend_from_slice(&[0, 0, 0, 1]);
            data.extend_from_slice(nal);
        }
    }
    if let Some(captured) = captured {
        h264::write_capture_utc_nal(captured, &mut data);
    }
    data.extend_from_slice(&[0, 0, 1, if key { 0x65 } else { 0x41 }]);
    data.resize(data.len() + bytes.max(1), 0x88);
    unit(Codec::H264, data, pts)
}

/// A picture of one slice, which has `bytes` bytes.
pub(crate) fn picture(key: bool, bytes: usize, pts: i64) -> AccessUnit {
    coded(key, SPS, None, bytes, pts)
}

/// The same of another size.
pub(crate) fn other_picture(key: bool, bytes: usize, pts: i64) -> AccessUnit {
    coded(key, OTHER_SPS, None, bytes, pts)
}

/// The same with a record of its sender's stages. Returns what its message says, too.
pub(crate) fn staged_picture(key: bool, captured: Utc, pts: i64) -> (AccessUnit, Vec<u8>) {
    let own = Stamps::captured_at(Time::ZERO).with(Stage::Queued, Time::from_millis(3));
    let payload = h264::write_capture(captured, &Record { own, ..Record::default() });
    let mut message = Vec::new();
    h264::sei::write_message(h264::sei::USER_DATA_UNREGISTERED, &payload, &mut message);
    let mut unit = picture(key, 50, pts);
    let at = h264::ACCESS_UNIT_DELIMITER.len();
    unit.data = [&unit.data[..at], &message[..], &unit.data[at..]].concat().into();
    (unit, payload[16..].to_vec())
}

/// A picture that says when it was captured.
pub(crate) fn captured_picture(key: bool, captured: Utc, pts: i64) -> AccessUnit {
    coded(key, SPS, Some(captured), 50, pts)
}

/// A picture of H.265: a CRA picture behind its parameter sets, or one that follows. x265's set, 636×358.
pub(crate) fn h265(key: bool, pts: i64) -> AccessUnit {
    const SPS: &[u8] = &[
        0x42, 0x01, 0x01, 0x01, 0x60, 0x00, 0x00, 0x03, 0x00, 0x90, 0x00, 0x00, 0x03, 0x00, 0x00, 0x03, 0x00,
        0x3f, 0xa0, 0x05, 0x02, 0x01, 0x71, 0xdc, 0xd9, 0x65, 0x65, 0x4a, 0x4e, 0x17, 0x87, 0x35, 0x01, 0x01,
        0x01, 0x04, 0x00, 0x00, 0x0f, 0xa4, 0x00, 0x01, 0xd4, 0xc0, 0x20,
    ];
    let mut data = bitstream::h265::ACCESS_UNIT_DELIMITER.to_vec();
    let sets = [&[0x40, 0x01, 0x0c][..], SPS, &[0x44, 0x01, 0xc1]];
    let slice = [if key { 0x2a } else { 0x02 }, 0x01, 0xaf, 7, 7, 7];
    for nal in sets.into_iter().filter(|_| key).chain([&slice[..]]) {
        data.extend_from_slice(&[0, 0, 0, 1]);
        data.extend_from_slice(nal);
    }
    unit(Codec::H265, data, pts)
}

/// The same, which says when it was captured.
pub(crate) fn captured_h265(key: bool, captured: Utc, pts: i64) -> AccessUnit {
    let mut unit = h265(key, pts);
    let mut message = Vec::new();
    let payload = h264::write_capture_utc(captured);
    bitstream::write_user_message(Codec::H265, &[0x02, 0x01], &payload, &mut message);
    let at = bitstream::h265::ACCESS_UNIT_DELIMITER.len();
    unit.data = [&unit.data[..at], &message[..], &unit.data[at..]].concat().into();
    unit
}

/// A key frame with other parameter sets than [`picture`]'s.
pub(crate) fn other_key(pts: i64) -> AccessUnit {
    coded(true, OTHER_SPS, None, 50, pts)
}

/// A picture from which on all is right 39 pictures later.
pub(crate) fn recovery(pts: i64) -> AccessUnit {
    let mut data = h264::ACCESS_UNIT_DELIMITER.to_vec();
    for nal in [SPS, PPS] {
        data.extend_from_slice(&[0, 0, 0, 1]);
        data.extend_from_slice(nal);
    }
    let point = h264::RecoveryPoint { frames: 39, exact: true, broken_link: false };
    h264::sei::write_message(h264::sei::RECOVERY_POINT, &point.write(), &mut data);
    data.extend_from_slice(&[0, 0, 1, 0x41, 0x9a, 0x88, 0x88]);
    unit(Codec::H264, data, pts)
}

/// An Opus packet of 20 ms in stereo.
pub(crate) fn opus(bytes: usize, pts: i64) -> AccessUnit {
    let mut data = vec![0xe4; bytes.max(1)];
    data[0] = 0xfc;
    unit(Codec::Opus, data, pts)
}

/// An AAC frame: 48 kHz, stereo, 1024 samples.
pub(crate) fn aac(bytes: usize, pts: i64) -> AccessUnit {
    let length = bytes + 7;
    let mut data = vec![
        0xff,
        0xf1,
        0x4c,
        0x80 | (length >> 11) as u8,
        (length >> 3) as u8,
        (length << 5) as u8 | 0x1f,
        0xfc,
    ];
    data.resize(length, 0x5a);
    unit(Codec::Aac, data, pts)
}

/// The same of 24 kHz, as HE-AAC has it for what is 48 kHz then.
pub(crate) fn core_aac(bytes: usize, pts: i64) -> AccessUnit {
    let unit = aac(bytes, pts);
    let mut data = unit.data.to_vec();
    data[2] = 0x58;
    AccessUnit { data: data.into(), ..unit }
}

/// A picture of MPEG-2, behind a sequence header or without one.
pub(crate) fn mpeg2(key: bool, pts: i64) -> AccessUnit {
    let sequence: &[u8] =
        if key { &[0, 0, 1, 0xb3, 0x14, 0x00, 0xb4, 0x13, 0, 0, 1, 0xb8, 0, 8] } else { &[] };
    let data = [sequence, &[0, 0, 1, 0, 0, 0x0f, 0xff, 0xf8, 0, 0, 1, 1, 0x22, 0x22]].concat();
    unit(Codec::Mpeg2Video, data, pts)
}

/// A frame of MPEG audio of 24 ms: 48 kHz, of this layer.
pub(crate) fn mpeg_audio(layer: u8, pts: i64) -> AccessUnit {
    let (second, bytes) = if layer == 3 { (0xfb, 384) } else { (0xfd, 480) };
    let mut data = vec![0xff, second, 0x94, 0x00];
    data.resize(bytes, 0);
    unit(Codec::MpegAudio, data, pts)
}

pub(crate) fn stream(pid: u16, stream_type: u8, descriptors: &[u8]) -> ElementaryStream {
    ElementaryStream::new(pid, stream_type, descriptors.to_vec())
}

pub(crate) fn program(streams: Vec<ElementaryStream>) -> Program {
    Program { number: 1, pmt_pid: 0x1000, pcr_pid: VIDEO, version: 0, streams }
}

/// H.264 and AAC in English.
pub(crate) fn video_and_aac() -> Program {
    program(vec![stream(VIDEO, 0x1b, &[]), stream(SOUND, 0x0f, &[0x0a, 4, b'e', b'n', b'g', 0])])
}

/// A segment's or part's bytes, and whether it is complete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grown {
    pub(crate) bytes: Vec<u8>,
    pub(crate) chunks: usize,
    pub(crate) complete: bool,
}

/// A packager, with a check of its events and a store of its objects.
pub(crate) struct Checked {
    pub(crate) packager: Packager,
    pub(crate) inits: BTreeMap<(RenditionName, u32), Bytes>,
    pub(crate) segments: BTreeMap<(RenditionName, u64), Grown>,
    pub(crate) parts: BTreeMap<(RenditionName, u64, u32), Grown>,
    pub(crate) expired: u64,
    pub(crate) ended: bool,
    /// Units so far: their places in the source, from 1.
    pub(crate) pushed: u64,
}

impl Checked {
    pub(crate) fn new(settings: Settings, program: &Program) -> Checked {
        let mut packager = Packager::new(settings);
        packager.handle_program(program, BEGUN, 0);
        let (inits, segments, parts) = Default::default();
        Checked { packager, inits, segments, parts, expired: 0, ended: false, pushed: 0 }
    }

    /// Pushes a unit that comes in at the time that its stamp says.
    pub(crate) fn push(&mut self, pid: u16, unit: &AccessUnit) {
        self.push_at(pid, unit, unit.dts.0);
    }

    /// Pushes a unit that comes in so many ticks behind the beginning.
    pub(crate) fn push_at(&mut self, pid: u16, unit: &AccessUnit, ticks: i64) {
        let nanos = (i128::from(ticks) * 100_000 / 9).clamp(0, 1 << 60) as u64;
        self.pushed += 1;
        self.packager.push(pid, unit, Utc::from_nanos(BEGUN.as_nanos() + nanos), self.pushed);
        self.drain();
    }

    /// Pushes a unit without a look at what comes of it.
    pub(crate) fn push_quickly(&mut self, pid: u16, unit: &AccessUnit) {
        let nanos = (i128::from(unit.dts.0) * 100_000 / 9).clamp(0, 1 << 60) as u64;
        self.pushed += 1;
        self.packager.push(pid, unit, Utc::from_nanos(BEGUN.as_nanos() + nanos), self.pushed);
        while self.packager.poll().is_some() {}
    }

    pub(crate) fn finish(&mut self, now: Utc) {
        self.packager.finish(now, self.pushed + 1);
        self.drain();
    }

    /// Takes the events, and checks that they are in order and agree with the model.
    pub(crate) fn drain(&mut self) {
        while let Some(event) = self.packager.poll() {
            self.handle(event);
        }
        self.check_model();
    }

    fn handle(&mut self, event: Event) {
        assert!(!self.ended, "{event:?} after the end");
        match event {
            Event::Init { rendition, number, bytes } => {
                assert!(self.inits.insert((rendition, number), bytes).is_none());
            }
            Event::SegmentBegins { rendition, segment } => {
                let open =
                    self.segments.iter().any(|((name, _), grown)| *name == rendition && !grown.complete);
                assert!(!open, "one segment at a time");
                assert!(self.segments.insert((rendition, segment), Grown::default()).is_none());
            }
            Event::PartBegins { rendition, segment, part } => {
                assert!(!self.segments[&(rendition, segment)].complete);
                assert!(self.parts.insert((rendition, segment, part), Grown::default()).is_none());
                if let Some(before) = part.checked_sub(1) {
                    assert!(self.parts[&(rendition, segment, before)].complete);
                }
            }
            Event::Chunk { rendition, segment, part, bytes } => {
                let segment_grown = self.segments.get_mut(&(rendition, segment)).unwrap();
                let part_grown = self.parts.get_mut(&(rendition, segment, part)).unwrap();
                for grown in [segment_grown, part_grown] {
                    assert!(!grown.complete);
                    grown.bytes.extend_from_slice(&bytes);
                    grown.chunks += 1;
                }
            }
            Event::PartEnds { rendition, segment, part } => {
                let grown = self.parts.get_mut(&(rendition, segment, part)).unwrap();
                assert!(!grown.bytes.is_empty(), "no empty parts");
                grown.complete = true;
            }
            Event::SegmentEnds { rendition, segment } => self.end_segment(rendition, segment),
            Event::Expires { rendition, segment } => {
                assert!(self.segments.remove(&(rendition, segment)).unwrap().complete);
                self.parts.retain(|(name, number, _), _| (*name, *number) != (rendition, segment));
                self.expired += 1;
            }
            Event::InitExpires { rendition, number } => {
                assert!(self.inits.remove(&(rendition, number)).is_some());
            }
            Event::Ended => self.ended = true,
        }
    }

    fn end_segment(&mut self, rendition: RenditionName, segment: u64) {
        let own = self.parts.range((rendition, segment, 0)..=(rendition, segment, u32::MAX));
        let joined: Vec<u8> = own.flat_map(|(_, part)| part.bytes.clone()).collect();
        let grown = self.segments.get_mut(&(rendition, segment)).unwrap();
        assert_eq!(grown.bytes, joined, "a segment is its parts");
        grown.complete = true;
    }

    fn check_model(&self) {
        for rendition in self.packager.presentation().renditions() {
            let name = rendition.name();
            let listed: Vec<_> = rendition.listed().collect();
            assert!(
                listed.windows(2).all(|pair| pair[0].number + 1 == pair[1].number),
                "numbers without gaps"
            );
            assert!(listed.windows(2).all(|pair| pair[0].complete), "only the last is open");
            for segment in listed.iter().filter(|segment| !segment.gap) {
                let grown = &self.segments[&(name, segment.number)];
                assert_eq!(segment.size_bytes, grown.bytes.len() as u64);
                assert_eq!(segment.complete, grown.complete);
                assert!(self.inits.contains_key(&(name, segment.epoch)));
                for (part, index) in segment.parts.iter().zip(0..) {
                    let range = part.offset_bytes as usize..(part.offset_bytes + part.size_bytes) as usize;
                    assert_eq!(grown.bytes[range], self.parts[&(name, segment.number, index)].bytes);
                }
            }
        }
    }
}

/// Seconds of a regular stream: pictures with a key frame each `keys` pictures, AAC beside them.
pub(crate) fn feed(checked: &mut Checked, from_picture: i64, pictures: i64, keys: i64) {
    let mut sound = (from_picture * PICTURE * 48_000).div_euclid(90_000 * 1024);
    for index in from_picture..from_picture + pictures {
        let pts = index * PICTURE;
        checked.push(VIDEO, &picture(index % keys == 0, 100, pts));
        while sound * 1024 * 90_000 / 48_000 < pts + PICTURE {
            if sound >= 0 {
                checked.push(SOUND, &aac(60, sound * 1024 * 90_000 / 48_000));
            }
            sound += 1;
        }
    }
}

/// A demultiplexer in front of a packager.
pub(crate) struct Intake {
    pub(crate) demux: Demultiplexer,
    pub(crate) packager: Packager,
}

impl Intake {
    pub(crate) fn new(mux: Mux, settings: Settings) -> Intake {
        Intake { demux: Demultiplexer::new(mux), packager: Packager::new(settings) }
    }

    pub(crate) fn push(&mut self, bytes: &[u8], now: Utc, at: Option<u64>) {
        self.demux.push(bytes, at);
        self.hand_over(now);
    }

    pub(crate) fn begin(&mut self, mux: Mux, now: Utc) {
        self.demux.begin(mux);
        self.packager.discontinuity(now, self.demux.reached());
    }

    pub(crate) fn finish(&mut self, now: Utc) {
        self.demux.finish();
        self.hand_over(now);
        self.packager.finish(now, self.demux.reached());
    }

    pub(crate) fn poll(&mut self) -> Option<Event> {
        self.packager.poll()
    }

    fn hand_over(&mut self, now: Utc) {
        while let Some(input) = self.demux.poll() {
            self.packager.handle_input(input, now, self.demux.reached());
        }
    }
}
