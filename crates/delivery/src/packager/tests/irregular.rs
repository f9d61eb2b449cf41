//! What senders do to a stream that may be: pauses, clocks that jump, wrong stamps, sound that comes behind the pictures of its time. No
//! picture is lost, and no sound from the first picture on.

use super::*;
use std::collections::BTreeMap;

/// How long a frame of sound lasts.
const FRAME: i64 = 1920;

/// Pictures and AAC, and what is done to them.
#[derive(Clone, Debug)]
struct Irregular {
    pictures: i64,
    /// From picture to picture.
    step: i64,
    /// From key frame to key frame, in pictures.
    keys: i64,
    /// Frames of sound that come together.
    batch: i64,
    /// How much further than the last of those the pictures are.
    lag: i64,
    /// Pauses: what is added to the stamps of both from which picture on.
    pauses: BTreeMap<i64, i64>,
    /// The same where the clock jumps.
    jumps: BTreeMap<i64, i64>,
    /// By how much which picture's stamp is wrong, and whether that of the next one is too, as where both are in one PES packet.
    wrong: BTreeMap<i64, (i64, bool)>,
    /// By how much which frame's stamp is wrong.
    wrong_sound: BTreeMap<i64, i64>,
}

impl Default for Irregular {
    fn default() -> Irregular {
        let (pauses, jumps, wrong, wrong_sound) = Default::default();
        let (step, keys, batch, lag) = (PICTURE, 50, 15, 20_000);
        Irregular { pictures: 150, step, keys, batch, lag, pauses, jumps, wrong, wrong_sound }
    }
}

impl Irregular {
    /// What is added to the stamps at this time of a regular stream.
    fn added(&self, time: i64) -> i64 {
        let until = time.div_euclid(self.step);
        self.pauses.range(..=until).chain(self.jumps.range(..=until)).map(|(_, added)| added).sum()
    }

    fn wrong_by(&self, index: i64) -> i64 {
        let before = self.wrong.get(&(index - 1)).filter(|(_, has_next)| *has_next);
        self.wrong.get(&index).or(before).map_or(0, |(by, _)| *by)
    }

    /// Gives it to a packager at once, so that the wall clock tells nothing. Returns that, and the sizes of all frames of sound.
    fn packaged(&self) -> (Checked, Vec<usize>) {
        let settings = Settings { segment: Duration::from_secs(1), ..wide() };
        let mut checked = Checked::new(settings, &video_and_aac());
        let mut sizes = Vec::new();
        for index in 0..self.pictures {
            let time = index * self.step;
            let stamp = time + self.added(time) + self.wrong_by(index);
            checked.push_at(VIDEO, &picture(index % self.keys == 0, 100, stamp), 0);
            let is_last = index == self.pictures - 1;
            let count = |time: i64| time.div_euclid(FRAME * self.batch) * self.batch;
            let until = if is_last { count(time + FRAME * self.batch) } else { count(time - self.lag) };
            for frame in sizes.len() as i64..until {
                let time = frame * FRAME;
                let size = 20 + frame as usize % 61;
                let wrong_by = self.wrong_sound.get(&frame).copied().unwrap_or(0);
                checked.push_at(SOUND, &aac(size, time + self.added(time) + wrong_by), 0);
                sizes.push(size);
            }
        }
        checked.finish(BEGUN);
        (checked, sizes)
    }

    fn loses_nothing(&self) -> Result<(), TestCaseError> {
        let (checked, sound) = self.packaged();
        prop_assert_eq!(contents(&checked, RenditionName::Video), (self.pictures as usize, 1));
        prop_assert_eq!(sizes(&checked, RenditionName::Audio(1)), sound);
        crate::playlist::check::all(checked.packager.presentation());
        Ok(())
    }

    /// The same, and the sound ends as much behind the pictures as it does in the regular stream.
    fn loses_nothing_and_stays_together(&self) {
        self.loses_nothing().unwrap_or_else(|error| panic!("{self:?}: {error}"));
        let (checked, sound) = self.packaged();
        let end = |name| {
            let last = segments(&checked, name).last().map(|last| last.start_time() + last.duration_time());
            last.unwrap().as_micros() as i64 * 9 / 100
        };
        let apart = end(RenditionName::Audio(1)) - end(RenditionName::Video);
        let off = apart - (sound.len() as i64 * FRAME - self.pictures * self.step);
        assert!(off.abs() < 9000, "{self:?}: sound is {off} ticks off the pictures");
    }
}

/// The sizes of all samples of a rendition.
fn sizes(checked: &Checked, name: RenditionName) -> Vec<usize> {
    samples(checked, name).iter().map(|sample| sample.data.len()).collect()
}

fn irregular() -> impl Strategy<Value = Irregular> {
    let shape = (prop_oneof![Just(1800i64), Just(3003), Just(PICTURE)], 10i64..70, 1i64..17, 0i64..45_000);
    let pauses = prop::collection::btree_map(20i64..150, 9000i64..189_000, 0..10);
    let to = prop_oneof![-4_000_000_000i64..-5_000_000, 5_000_000i64..4_000_000_000];
    let jumps = prop::collection::btree_map(31i64..150, to, 0..3);
    let by = prop_oneof![-1_818_000i64..-18_000, 18_000i64..1_818_000];
    let wrong_sound = prop::collection::btree_map(1i64..250, by.clone(), 0..5);
    let wrong = prop::collection::btree_map(1i64..150, (by, prop::bool::weighted(0.1)), 0..7);
    let all = (shape, pauses, jumps, wrong, wrong_sound);
    all.prop_map(|((step, keys, batch, lag), pauses, jumps, wrong, wrong_sound)| {
        let apart = || {
            let mut last = -10;
            move |index: i64| index - std::mem::replace(&mut last, index) > 4
        };
        let (mut is_apart, mut is_sound_apart) = (apart(), apart());
        // A key frame begins a packet; several wrong stamps in a row may be anything.
        let wrong = wrong.into_iter().filter(|&(index, _)| index % keys != 0 && is_apart(index)).collect();
        let wrong_sound = wrong_sound.into_iter().filter(|&(frame, _)| is_sound_apart(frame)).collect();
        Irregular { step, keys, batch, lag, pauses, jumps, wrong, wrong_sound, ..Irregular::default() }
    })
}

#[test]
fn a_wrong_stamp_before_the_first_sound_does_not_end_the_wait_for_it() {
    // The first sound comes behind the 14th picture.
    for by in [-5_000_000, -635_349, -60_000, 60_000, 96_720, 389_806, 5_000_000] {
        for index in [0, 1, 2, 11, 13] {
            let stream = Irregular { wrong: [(index, (by, false))].into(), ..Irregular::default() };
            stream.loses_nothing_and_stays_together();
        }
        // Two pictures in one packet, as two that agree on another clock.
        let stream = Irregular { wrong: [(10, (by, true))].into(), ..Irregular::default() };
        stream.loses_nothing_and_stays_together();
    }
}

#[test]
fn a_jump_before_the_first_sound_loses_nothing() {
    for by in [-50_000_000, 50_000_000] {
        for index in [4, 8, 12] {
            let stream = Irregular { jumps: [(index, by)].into(), ..Irregular::default() };
            stream.loses_nothing_and_stays_together();
        }
    }
}

#[test]
fn a_jump_behind_pictures_that_seemed_to_last_long_is_no_new_beginning() {
    let (pauses, jumps) = ([(1, 88_201), (2, 88_201)].into(), [(31, -5_000_002)].into());
    let stream = Irregular { step: 1800, batch: 1, lag: 0, pauses, jumps, ..Irregular::default() };
    stream.loses_nothing().unwrap();
}

#[test]
fn sound_that_pauses_leave_segments_behind_is_not_late() {
    // Each pause ends a segment, and five come before the sound in front of the first.
    let pauses = (60..85).step_by(5).map(|index| (index, 100_000)).collect();
    let stream = Irregular { keys: 5, lag: 45_000, pauses, ..Irregular::default() };
    stream.loses_nothing_and_stays_together();
}

#[test]
fn sound_with_a_stamp_that_nothing_confirms_any_more_is_not_lost() {
    for by in [-500_000, 500_000] {
        let stream = Irregular { wrong_sound: [(284, by)].into(), ..Irregular::default() };
        stream.loses_nothing().unwrap_or_else(|error| panic!("{by}: {error}"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn irregular_streams_lose_nothing(stream in irregular()) {
        stream.loses_nothing()?;
    }
}
