//! A stream as its units come, with what each alarm is for.

use super::flicker::CELLS;
use super::*;
use bytes::Bytes;
use glassline_media::container::ts::Pcr;
use glassline_media::{AccessUnit, Codec, Stamps, Ticks, Time};
use proptest::prelude::*;
use std::time::Duration;

const PICTURES: u16 = 0x100;
const SOUND: u16 = 0x101;

/// 25 pictures a second with a key frame each second, and 50 blocks of sound, which arrive as they are seen and heard.
struct Stream {
    watcher: Watcher,
    /// Pictures that have been.
    pictures: u64,
    /// How many pictures a key frame is followed by the next one after.
    key_every: u64,
    picture_bytes: usize,
    has_sound: bool,
    /// Time stamps of the sound are later by so much.
    sound_late: i64,
    captions: bool,
    /// Added to all time stamps.
    offset: i64,
    brightest_percent: f64,
    sharpness: f64,
    difference: f64,
    cell: fn(u64) -> f32,
    decoded: u64,
    /// Runs that have begun.
    runs: u64,
}

impl Stream {
    fn new(set: impl Fn(&mut Rules)) -> Stream {
        let mut rules = Rules::default();
        set(&mut rules);
        Stream {
            watcher: Watcher::new(rules),
            pictures: 0,
            key_every: 25,
            picture_bytes: 10_000,
            has_sound: true,
            sound_late: 0,
            captions: false,
            offset: 0,
            brightest_percent: 90.0,
            sharpness: 0.8,
            difference: 1.0,
            cell: |_| 0.5,
            decoded: 0,
            runs: 0,
        }
    }

    fn run(&mut self, seconds: u64) -> &mut Stream {
        for _ in 0..seconds * 25 {
            let at = self.pictures * 3600;
            let ticks = Ticks(at as i64 + self.offset);
            let mut data = vec![0; self.picture_bytes];
            if self.captions {
                data.splice(..0, *b"\0\0\x01\x06\x04\x09\xb5\0\x31GA94\x03\x41\x80\0\0\x01\x65\x80");
            }
            let unit = access_unit(Codec::H264, data, ticks, self.pictures.is_multiple_of(self.key_every));
            if let Wanted::Picture { at, decoding } = self.watcher.push_unit(PICTURES, &unit) {
                self.decoded += 1;
                self.runs += u64::from(decoding == Decoding::RunBegins);
                let figures = PictureFigures {
                    brightest_percent: self.brightest_percent,
                    sharpness: Some(self.sharpness),
                    difference: Some(self.difference),
                    cells: [(self.cell)(self.pictures); CELLS],
                };
                self.watcher.push_picture(&figures, at);
            }
            for half in (0..2).filter(|_| self.has_sound) {
                let ticks = Ticks(ticks.0 + half * 1800 + self.sound_late);
                let unit = access_unit(Codec::Opus, vec![0; 200], ticks, true);
                if let Wanted::Sound { at } = self.watcher.push_unit(SOUND, &unit) {
                    let tone = |n: usize| 0.1 * (n as f32 / 8.0).sin();
                    let samples: Vec<f32> = (0..960).flat_map(|n| [tone(n); 2]).collect();
                    self.watcher.push_sound(&samples, 2, 48_000, at);
                }
            }
            self.pictures += 1;
        }
        self
    }

    /// The share of the pictures that was decoded.
    fn share(&self) -> f64 {
        self.decoded as f64 / self.pictures as f64
    }

    /// Alarm, state, and the second in which it came.
    fn raised(&mut self) -> Vec<(Alarm, State, u64)> {
        let brief = |raised: Raised| (raised.alarm, raised.state, raised.at.as_nanos() / 1_000_000_000);
        std::iter::from_fn(|| self.watcher.poll()).map(brief).collect()
    }
}

fn access_unit(codec: Codec, data: Vec<u8>, ticks: Ticks, random_access: bool) -> AccessUnit {
    let stamps = Stamps::captured_at(Time::ZERO);
    AccessUnit { codec, data: Bytes::from(data), pts: ticks, dts: ticks, random_access, stamps }
}

/// That it begins and ends once, within its time and a second.
fn one(raised: &[(Alarm, State, u64)], alarm: Alarm, begins: u64, ends: u64) {
    let [(first, State::Begun, begun), (second, State::Over, over)] = *raised else {
        panic!("{alarm}: {raised:?}")
    };
    assert_eq!((first, second), (alarm, alarm), "{raised:?}");
    assert!((begins..=begins + 1).contains(&begun), "begins at {begun}, expected {begins}");
    assert!((ends..=ends + 1).contains(&over), "ends at {over}, expected {ends}");
}

#[test]
fn a_good_stream_raises_none_and_little_of_it_is_decoded() {
    let mut stream = Stream::new(|rules| {
        Alarm::ALL.iter().for_each(|&alarm| rules[alarm].enabled = alarm != Alarm::Loudness);
    });
    assert_eq!(stream.run(600).raised(), []);
    // A key frame each second, and of each ten seconds the rest of a group: 34 of 250.
    assert!((0.13..0.14).contains(&stream.share()), "{}", stream.share());
    // Where frozen pictures are not watched for, the rest of 0.4 s: 19 of 250.
    let mut stream = Stream::new(|_| {});
    assert_eq!(stream.run(600).raised(), []);
    assert!((0.07..0.08).contains(&stream.share()), "{}", stream.share());
}

/// Open groups: pictures that are shown before their key frame refer to what lies in front of it. They are left out, and end no run.
#[test]
fn pictures_in_front_of_their_key_frame_end_no_run() {
    let mut watcher = Watcher::new(Rules::default());
    let mut wanted = |picture: i64, is_key| {
        let unit = access_unit(Codec::H265, vec![0; 1000], Ticks(picture * 3600), is_key);
        matches!(watcher.push_unit(PICTURES, &unit), Wanted::Picture { .. })
    };
    assert!(!wanted(100, false) && wanted(103, true));
    assert!(!wanted(101, false) && !wanted(102, false));
    assert!(wanted(104, false) && wanted(106, false) && wanted(105, false));
}

/// Of a group as long as ten seconds, two are decoded.
#[test]
fn long_groups_are_decoded_in_part() {
    let mut stream = Stream::new(|rules| rules[Alarm::Frozen].enabled = true);
    stream.key_every = 250;
    assert_eq!(stream.run(600).raised(), []);
    assert!((0.19..0.21).contains(&stream.share()), "{}", stream.share());
}

#[test]
fn black_pictures() {
    let mut stream = Stream::new(|_| {});
    stream.run(10).brightest_percent = 10.0;
    stream.run(5).brightest_percent = 10.1;
    one(&stream.run(5).raised(), Alarm::Black, 12, 17);
}

#[test]
fn an_alarm_needs_no_second_key_frame() {
    // Key frames each second, but the alarm begins between them.
    let mut stream = Stream::new(|rules| rules[Alarm::Black].after = Duration::from_millis(500));
    stream.run(10).brightest_percent = 0.0;
    stream.run(1);
    assert_eq!(stream.watcher.poll().map(|raised| raised.at), Some(Time::from_millis(10_520)));
}

/// screenpipe #4399: what stands still is no fault, so that it has to be asked for; zmNinjaNg #162: it is looked for all the time.
#[test]
fn frozen_pictures_are_off_and_can_be_watched_for() {
    let freeze = |stream: &mut Stream| {
        stream.run(25).difference = 0.0;
        stream.run(20).difference = 0.5;
        // Frozen pictures look the same; these do not.
        stream.cell = |picture| 0.3 + (picture % 100) as f32 / 1000.0;
        stream.run(20);
        stream.raised()
    };
    assert_eq!(freeze(&mut Stream::new(|_| {})), []);
    let mut stream = Stream::new(|rules| rules[Alarm::Frozen].enabled = true);
    stream.cell = |picture| 0.3 + (picture / 25 % 2) as f32 / 10.0;
    let raised = freeze(&mut stream);
    let [(Alarm::Frozen, State::Begun, begun), (Alarm::Frozen, State::Over, over)] = raised[..] else {
        panic!("{raised:?}")
    };
    // A run is decoded every ten seconds, and the next ones once it has begun to look frozen.
    assert!((27..=33).contains(&begun) && (47..=48).contains(&over), "{raised:?}");
}

#[test]
fn frozen_pictures_that_look_the_same_are_found_with_the_next_key_frame() {
    let mut stream = Stream::new(|rules| rules[Alarm::Frozen].enabled = true);
    stream.cell = |picture| if picture < 600 { 0.3 + (picture % 50) as f32 / 100.0 } else { 0.3 };
    stream.run(24).difference = 0.0;
    // Without that it would be the run that begins at 30 s.
    let begun = stream.run(15).raised()[0];
    assert!((26..=29).contains(&begun.2), "{begun:?}");
}

/// PixelProbe #45: a black picture is frozen too, and tells of one fault, not of two.
#[test]
fn black_pictures_are_not_frozen_ones() {
    let mut stream = Stream::new(|rules| rules[Alarm::Frozen].enabled = true);
    (stream.run(10).brightest_percent, stream.difference) = (2.0, 0.0);
    (stream.run(30).brightest_percent, stream.difference) = (90.0, 1.0);
    one(&stream.run(5).raised(), Alarm::Black, 12, 42);
}

#[test]
fn blurred_pictures_are_those_that_were_sharper() {
    let mut stream = Stream::new(|_| {});
    stream.run(60).sharpness = 0.1;
    stream.run(10).sharpness = 0.8;
    assert_eq!(stream.run(60).raised(), [], "quiet for two minutes");
    stream.sharpness = 0.3;
    stream.run(10).sharpness = 0.33;
    one(&stream.run(10).raised(), Alarm::Blurred, 132, 142);
    let saved = stream.watcher.save();
    let mut next = Stream::new(|_| {});
    next.watcher = Watcher::restore(Rules::default(), &saved);
    next.sharpness = 0.1;
    assert_eq!(next.run(4).raised(), [(Alarm::Blurred, State::Begun, 2)], "nothing has to be waited for");
}

#[test]
fn flicker_is_counted_in_runs() {
    let mut stream = Stream::new(|_| {});
    stream.run(30);
    stream.cell = |picture| if picture % 4 < 2 { 0.2 } else { 0.8 };
    stream.run(20).cell = |_| 0.5;
    let raised = stream.run(20).raised();
    let [(Alarm::Flicker, State::Begun, begun), (Alarm::Flicker, State::Over, over)] = raised[..] else {
        panic!("{raised:?}")
    };
    assert!((32..=45).contains(&begun) && (52..=65).contains(&over), "{raised:?}");
}

/// Key frames of lively pictures differ as those of a flash do, and what follows each of them does not.
#[test]
fn lively_pictures_are_looked_at_as_seldom_as_others() {
    let lively = |stream: &mut Stream| {
        stream.cell = |picture| if picture / 25 % 2 == 0 { 0.2 } else { 0.8 };
        assert_eq!(stream.run(600).raised(), []);
        (stream.share(), stream.runs)
    };
    let (share, runs) = lively(&mut Stream::new(|_| {}));
    assert!((0.07..0.08).contains(&share) && (60..=62).contains(&runs), "{share} {runs}");
    // Key frames that come soon after each other do so all the time.
    let mut stream = Stream::new(|_| {});
    stream.key_every = 5;
    let (share, runs) = lively(&mut stream);
    assert!((0.07..0.1).contains(&share), "{share} {runs}");
    // Frozen pictures are looked for as often as ever.
    let mut stream = Stream::new(|rules| rules[Alarm::Frozen].enabled = true);
    let (share, _) = lively(&mut stream);
    assert!((0.13..0.16).contains(&share), "{share}");
}

/// However long a picture has been lively, and wherever between two runs the flicker begins: within ten seconds, the distance of two
/// key frames, and the alarm's own time.
#[test]
fn flicker_that_begins_late_in_a_lively_picture_is_found() {
    for late in 0..20 {
        let mut stream = Stream::new(|_| {});
        stream.cell = |picture| if picture / 25 % 2 == 0 { 0.2 } else { 0.8 };
        stream.run(60 + late).cell = |picture| if picture % 4 < 2 { 0.2 } else { 0.8 };
        let begins = 60 + late;
        let raised = stream.run(20).raised();
        let [(Alarm::Flicker, State::Begun, begun)] = raised[..] else { panic!("{late}: {raised:?}") };
        assert!((begins + 2..=begins + 13).contains(&begun), "{late}: {raised:?}");
    }
}

/// Where key frames speak for it, flicker in a quiet picture is found without waiting for the next run.
#[test]
fn flicker_in_a_quiet_picture_is_found_by_its_key_frames() {
    for late in 0..20 {
        let mut stream = Stream::new(|_| {});
        stream.cell = |_| 0.8;
        stream.run(60 + late).cell = |picture| if picture % 4 < 2 { 0.2 } else { 0.8 };
        let begins = 60 + late;
        let raised = stream.run(20).raised();
        let [(Alarm::Flicker, State::Begun, begun)] = raised[..] else { panic!("{late}: {raised:?}") };
        assert!((begins + 2..=begins + 8).contains(&begun), "{late}: {raised:?}");
    }
}

/// Where time stamps go back, key frames are key frames all the same.
#[test]
fn key_frames_are_told_from_others_when_they_come_out_late() {
    let mut watcher = Watcher::new(Rules::default());
    let figures = |sharpness| PictureFigures {
        brightest_percent: 90.0,
        sharpness: Some(sharpness),
        difference: Some(1.0),
        cells: [0.5; CELLS],
    };
    let mut known = Vec::new();
    for picture in 0..250i64 {
        let unit = access_unit(Codec::H264, vec![0; 1000], Ticks(picture * 3600), picture % 50 == 0);
        let wanted = watcher.push_unit(PICTURES, &unit);
        if let Wanted::Picture { at, .. } = wanted {
            known.push((at, if picture % 50 == 0 { 1.0 } else { 2.0 }));
        }
        // A decoder that puts four pictures into order.
        while known.len() > 4 || wanted == Wanted::RunEnds && !known.is_empty() {
            let (at, sharpness) = known.remove(0);
            watcher.push_picture(&figures(sharpness), at);
        }
    }
    // Of those that have come out, the sharpness of the key frames alone was taken.
    let saved = serde_json::to_value(watcher.save()).unwrap();
    assert!(saved["sharpness"].as_array().unwrap().iter().all(|value| *value == 1.0), "{saved}");
    assert!(saved["sharpness"].as_array().unwrap().len() >= 4, "{saved}");
}

/// tripbot #993: music whose source had ended well was missed by a watchdog that looked at the stream alone.
#[test]
fn sound_that_stops_is_silence_alone() {
    let mut stream = Stream::new(|_| {});
    stream.run(20).has_sound = false;
    stream.run(10).has_sound = true;
    one(&stream.run(10).raised(), Alarm::Silence, 23, 32);
}

#[test]
fn sound_and_pictures_that_drift_apart() {
    let mut stream = Stream::new(|_| {});
    stream.sound_late = -20_000;
    stream.run(20).sound_late = -20_000 + 12_500;
    assert_eq!(stream.run(20).raised(), [], "less than the limit");
    stream.sound_late = -20_000 + 12_700 + 12_500;
    stream.run(8).sound_late = -20_000;
    // The pictures come after: time stamps that go back are another fault.
    stream.offset += 12_700 + 12_500;
    let raised = stream.run(20).raised();
    one(&raised, Alarm::AvSync, 42, 50);
}

#[test]
fn captions_that_are_gone() {
    let mut stream = Stream::new(|_| {});
    assert_eq!(stream.run(30).raised(), [], "there were none");
    stream.captions = true;
    stream.run(10).captions = false;
    stream.run(20).captions = true;
    one(&stream.run(5).raised(), Alarm::Captions, 46, 62);
}

#[test]
fn what_was_wrong_with_a_stream_is_over_with_its_publisher() {
    let mut stream = Stream::new(|_| {});
    stream.captions = true;
    stream.run(10).captions = false;
    stream.run(20).has_sound = false;
    let raised = stream.run(10).raised();
    let begun: Vec<Alarm> = raised.iter().map(|(alarm, ..)| *alarm).collect();
    assert_eq!(begun, [Alarm::Captions, Alarm::Silence], "{raised:?}");
    stream.watcher.push_gone(Time::from_millis(1_000));
    stream.watcher.push_gone(Time::from_millis(1_050));
    let over: Vec<(Alarm, State)> =
        stream.raised().iter().map(|(alarm, state, _)| (*alarm, *state)).collect();
    assert_eq!(over, [(Alarm::Silence, State::Over), (Alarm::Captions, State::Over)]);
    // The next one has neither, and lacks nothing.
    stream.watcher.push_bytes(Time::from_millis(2_000));
    assert_eq!(stream.run(60).raised(), []);
}

#[test]
fn sound_that_was_there_is_missed_behind_a_part_that_was_left_out() {
    let mut stream = Stream::new(|_| {});
    stream.run(10).watcher.push_left_out();
    stream.has_sound = false;
    assert_eq!(stream.run(10).raised().len(), 1);
}

#[test]
fn subtitles_may_stay_away_for_longer() {
    let mut stream = Stream::new(|_| {});
    for _ in 0..4 {
        stream.run(2).watcher.push_subtitle();
    }
    assert_eq!(stream.raised(), []);
    // The last one came with the eighth second: a minute, and two seconds.
    assert_eq!(stream.run(70).raised(), [(Alarm::Captions, State::Begun, 70)]);
}

#[test]
fn a_rate_that_leaves_its_median() {
    let mut stream = Stream::new(|_| {});
    stream.run(30).picture_bytes = 100;
    stream.run(10).picture_bytes = 10_000;
    one(&stream.run(10).raised(), Alarm::Bitrate, 35, 42);
    stream.picture_bytes = 120_000;
    stream.run(10).picture_bytes = 10_000;
    one(&stream.run(10).raised(), Alarm::Bitrate, 55, 62);
    // Half and twice are what pictures do.
    stream.picture_bytes = 5000;
    stream.run(10).picture_bytes = 20_000;
    assert_eq!(stream.run(10).raised(), []);
}

#[test]
fn lost_packets_and_jumps() {
    let mut stream = Stream::new(|_| {});
    stream.run(10).watcher.push_errors(1);
    one(&stream.run(10).raised(), Alarm::Discontinuity, 9, 12);
    stream.offset = 90_000 * 3;
    one(&stream.run(10).raised(), Alarm::Discontinuity, 22, 25);
    stream.offset = 0;
    let back = stream.run(10).raised();
    assert_eq!(back.len(), 2, "{back:?}");
    assert_eq!(back[0].0, Alarm::Discontinuity);
    // Time stamps that begin anew after 26 hours do not jump, nor does the clock.
    let pcr = |seconds: u64| Pcr::new(Pcr::WRAP - 27_000_000 + seconds * 27_000_000);
    (0..3).for_each(|second| stream.watcher.push_clock(pcr(second)));
    assert_eq!(stream.run(1).raised(), []);
    stream.watcher.push_clock(pcr(1));
    assert_eq!(stream.run(1).raised().len(), 1);
}

#[test]
fn what_was_left_out_is_no_fault_of_the_stream() {
    let mut stream = Stream::new(|_| {});
    stream.run(20);
    for _ in 0..5 {
        stream.watcher.push_left_out();
        stream.pictures += 25 * 40;
        stream.run(3);
    }
    assert_eq!(stream.raised(), []);
}

/// NOALBS #147: a stream that was published at 0 kbit/s counted as there.
#[test]
fn nothing_arrives() {
    let mut watcher = Watcher::new(Rules::default());
    let mut raised = Vec::new();
    for millis in (0..20_000).step_by(10) {
        let now = Time::from_millis(millis);
        if millis < 5000 || (10_000..15_000).contains(&millis) {
            watcher.push_bytes(now);
        }
        if now >= watcher.poll_timeout() {
            watcher.handle_timeout(now);
        }
        raised.extend(std::iter::from_fn(|| watcher.poll()).map(|raised| (raised.state, raised.at)));
    }
    let [(State::Begun, begun), (State::Over, over), (State::Begun, _)] = raised[..] else {
        panic!("{raised:?}")
    };
    // A second without bytes, then two more; the looks are a quarter of a second apart.
    assert!((7990..8500).contains(&(begun.as_nanos() / 1_000_000)), "{raised:?}");
    assert!((12_000..12_100).contains(&(over.as_nanos() / 1_000_000)), "{raised:?}");
    assert_eq!(watcher.active().count(), 1);
    watcher.end();
    assert_eq!(watcher.poll().map(|raised| raised.state), Some(State::Over));
    assert_eq!(watcher.active().count(), 0);
}

#[test]
fn a_publisher_that_has_gone_is_known_to_be() {
    let mut watcher = Watcher::new(Rules::default());
    watcher.push_bytes(Time::ZERO);
    watcher.push_gone(Time::from_millis(100));
    watcher.handle_timeout(Time::from_millis(100));
    watcher.handle_timeout(Time::from_millis(2099));
    assert_eq!(watcher.poll(), None);
    watcher.handle_timeout(Time::from_millis(2400));
    assert_eq!(watcher.poll().map(|raised| raised.alarm), Some(Alarm::Absent));
}

#[test]
fn an_alarm_that_is_no_longer_watched_for_is_over() {
    let mut stream = Stream::new(|_| {});
    stream.run(5).brightest_percent = 0.0;
    stream.run(5);
    assert_eq!(stream.watcher.active().map(|active| active.alarm).collect::<Vec<_>>(), [Alarm::Black]);
    let mut rules = Rules::default();
    rules[Alarm::Black].enabled = false;
    stream.watcher.set_rules(rules);
    one(&stream.run(5).raised(), Alarm::Black, 7, 9);
}

proptest! {
    /// What a stranger's stream may be: nothing panics, and alarms begin and end by turns.
    #[test]
    fn any_units_are_watched(
        steps in proptest::collection::vec(
            (0u8..12, any::<u16>(), any::<i64>(), any::<bool>(), proptest::collection::vec(any::<u8>(), 0..60)), 0..120,
        ),
    ) {
        let mut rules = Rules::default();
        Alarm::ALL.iter().for_each(|&alarm| rules[alarm] = Rule { enabled: true, after: Duration::ZERO, clear: Duration::ZERO, ..rules[alarm] });
        let mut watcher = Watcher::new(rules);
        let mut states = std::collections::BTreeMap::new();
        for (step, pid, ticks, flag, data) in steps {
            let codec = [Codec::H264, Codec::H265, Codec::Av1, Codec::Mpeg2Video, Codec::Aac, Codec::Opus][usize::from(step) % 6];
            let now = Time::from_nanos(ticks.unsigned_abs());
            match step {
                0..6 => {
                    let mut unit = access_unit(codec, data, Ticks(ticks), flag);
                    unit.dts = Ticks(ticks.wrapping_mul(3));
                    match watcher.push_unit(pid, &unit) {
                        Wanted::Nothing | Wanted::RunEnds => {}
                        Wanted::Sound { at } => watcher.push_sound(&[f32::NAN, f32::INFINITY, 1.0, -1.0], 2, 48_000, at),
                        Wanted::Picture { at, .. } => watcher.push_picture(
                            &PictureFigures {
                                brightest_percent: f64::from(pid) / 655.36,
                                sharpness: flag.then_some(ticks as f64),
                                difference: Some(0.0),
                                cells: [f32::from(pid); CELLS],
                            },
                            at,
                        ),
                    }
                }
                6 => watcher.push_bytes(now),
                7 => watcher.push_gone(now),
                8 => watcher.handle_timeout(now),
                9 => watcher.push_clock(Pcr::new(ticks.unsigned_abs())),
                10 => watcher.push_errors(pid.into()),
                _ => watcher.push_left_out(),
            }
            while let Some(raised) = watcher.poll() {
                prop_assert_ne!(states.insert(raised.alarm, raised.state).unwrap_or(State::Over), raised.state);
            }
        }
        let there = states.values().filter(|state| **state == State::Begun).count();
        prop_assert_eq!(watcher.active().count(), there);
    }
}
