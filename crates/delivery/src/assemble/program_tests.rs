//! Two tracks in, and the order in which they come out.

use super::*;
use crate::packager::testing::{PICTURE, opus, picture};
use glassline_media::container::ts::{Demuxer, Event};

const OPUS: AudioFormat = AudioFormat { codec: Codec::Opus, channels: 2, language: None, he_aac: None };

struct Run {
    program: Program,
    demuxer: Demuxer,
    seams: usize,
    strays: u32,
}

impl Run {
    fn new() -> Run {
        let program = Program::new(Some(Codec::H264), Some(OPUS));
        Run { program, demuxer: Demuxer::new(), seams: 0, strays: 0 }
    }

    fn push(&mut self, unit: AccessUnit, at_ms: u64, jumps: bool) -> Vec<(bool, i64)> {
        let mut out = Vec::new();
        let at = Time::from_millis(at_ms);
        self.strays += u32::from(!self.program.push(unit, at, jumps, &mut out));
        self.look(at, out)
    }

    /// What goes on: whether it is a picture, and when it is decoded, in milliseconds.
    fn look(&mut self, now: Time, mut out: Vec<Written>) -> Vec<(bool, i64)> {
        self.program.drain(now, &mut out);
        let mut found = Vec::new();
        for written in out {
            match written {
                Written::Bytes(bytes) => self.demuxer.push(&bytes),
                Written::Seam => {
                    self.seams += 1;
                    self.demuxer = Demuxer::new();
                }
            }
            found.extend(std::iter::from_fn(|| self.demuxer.poll()).filter_map(|event| match event {
                Event::AccessUnit { unit, .. } => Some((unit.codec.is_video(), (unit.dts - LEAD).0 / 90)),
                _ => None,
            }));
        }
        found
    }

    fn poll(&mut self, at_ms: u64) -> Vec<(bool, i64)> {
        self.look(Time::from_millis(at_ms), Vec::new())
    }
}

#[test]
fn what_is_not_far_ahead_goes_on_at_once() {
    let mut run = Run::new();
    assert_eq!(run.push(opus(9, 0), 0, false), [(false, 0)]);
    assert_eq!(run.push(picture(true, 9, 0), 1, false), [(true, 0)]);
    for number in 1..=7 {
        let expected = [(true, number * 40)];
        assert_eq!(run.push(picture(false, 9, number * PICTURE), 2, false), expected);
    }
    assert_eq!(run.push(picture(false, 9, 8 * PICTURE), 3, false), [], "320 ms ahead");
    assert_eq!(run.program.waits_until(), Some(Time::from_millis(503)));
    assert_eq!(run.push(opus(9, 1800), 4, false), [(false, 20), (true, 320)]);
    assert_eq!(run.program.bytes(), 0);
}

#[test]
fn a_track_that_has_stopped_is_waited_for_but_once() {
    let mut run = Run::new();
    assert_eq!(run.push(picture(true, 9, 0), 0, false), [(true, 0)]);
    assert_eq!(run.push(picture(false, 9, 50 * PICTURE), 1, false), []);
    assert_eq!(run.poll(500), []);
    assert_eq!(run.poll(501), [(true, 2000)]);
    assert_eq!(run.push(opus(9, 0), 502, false), [(false, 0)], "late as it is");
    assert_eq!(run.push(picture(false, 9, 51 * PICTURE), 503, false), [(true, 2040)]);
    assert_eq!(run.push(opus(9, 180_000), 504, false), [(false, 2000)]);
    assert_eq!(run.push(picture(false, 9, 60 * PICTURE), 505, false), [], "it has caught up");
}

#[test]
fn pictures_that_come_in_time_wait_for_no_sound() {
    let mut run = Run::new();
    for number in 0..200 {
        let at_ms = 1000 + number as u64 * 40;
        // Sound comes a second at a time, and no more after four.
        if number % 25 == 24 && number < 100 {
            for packet in 0..50 {
                run.push(opus(9, (number - 24) * PICTURE + packet * 1800), at_ms - 1, false);
            }
        }
        let unit = picture(number % 25 == 0, 9, number * PICTURE);
        assert_eq!(run.push(unit, at_ms, false), [(true, number * 40)]);
    }
    assert_eq!(run.program.bytes(), 0);
}

#[test]
fn segments_of_two_tracks_are_interleaved() {
    let mut run = Run::new();
    let mut out = Vec::new();
    for number in 0..10 {
        let unit = picture(number == 0, 9, number * PICTURE);
        out.extend(run.push(unit, 0, false));
    }
    assert_eq!(out.len(), 8, "not more than the lead");
    for number in 0..20 {
        out.extend(run.push(opus(9, number * 1800), 1, false));
    }
    let mut newest = 0;
    for (_, at) in &out {
        newest = newest.max(*at);
        assert!(newest - at <= LEAD.0 / 90, "{out:?}");
    }
    assert_eq!(out.len(), 30);
}

#[test]
fn a_clock_that_jumps_makes_a_seam_and_stray_units_are_dropped() {
    let mut run = Run::new();
    assert_eq!(run.push(opus(9, 0), 0, false).len(), 1);
    assert_eq!(run.push(picture(true, 9, 0), 0, false).len(), 1);
    let later = 1000 * PICTURE;
    assert_eq!(run.push(picture(true, 9, later), 1, true), [(true, 40_000)]);
    assert_eq!(run.seams, 1);
    assert_eq!(run.push(opus(9, 1800), 1, false), []);
    assert_eq!(run.strays, 1);
    assert_eq!(run.push(opus(9, later), 2, true), [(false, 40_000)]);
    assert_eq!(run.seams, 1, "one for both");
}
