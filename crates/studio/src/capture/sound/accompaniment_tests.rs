use super::super::file_audio::Track;
use super::super::wav_file::WavFile;
use super::*;
use crate::capture::Error;
use glassline_media::Time;
use glassline_media::container::wav;
use glassline_test_support::program::Scratch;
use std::cell::RefCell;
use std::time::Duration;

/// The stamp of picture `number`, 25 a second.
fn stamp(number: i64) -> Ticks {
    Ticks(3_600 * number)
}

/// A second of sound beside pictures of 40 ms, in blocks of 5 ms.
fn with_sound(scratch: &Scratch, timed: bool) -> Accompaniment {
    let head = wav::head_of(48_000, 1, 2, Some(96_000));
    let path = scratch.write("a.wav", [&head[..], &vec![1; 96_000]].concat());
    let track = Track::Wav(Box::new(WavFile::open(path.as_ref()).unwrap()));
    let accompaniment = Accompaniment::default();
    accompaniment.set(FileAudio::new(track, Duration::from_millis(40), timed, true));
    accompaniment
}

/// When each block begins that is handed over, in milliseconds, of which no more than `most` are wanted; and what was returned.
fn given(
    most: usize,
    hand_over: impl FnOnce(&dyn Fn(AudioBlock) -> bool) -> Result<bool>,
) -> (Vec<u128>, bool) {
    let begins = RefCell::new(Vec::new());
    let give = |block: AudioBlock| {
        begins.borrow_mut().push(block.captured.since(Time::ZERO).as_millis());
        begins.borrow().len() < most
    };
    let wants_more = hand_over(&give).unwrap();
    (begins.into_inner(), wants_more)
}

const ALL: usize = usize::MAX;

#[test]
fn without_sound_every_picture_goes_alone() {
    let none = Accompaniment::default();
    let nothing = (Vec::new(), true);
    assert_eq!(given(ALL, |give| none.before(stamp(0), give)), nothing);
    assert_eq!(given(ALL, |give| none.behind(give)), nothing);
    assert_eq!(given(ALL, |give| none.begin_again(stamp(1), give)), nothing);
    assert_eq!(given(ALL, |give| none.rest(give)), nothing);
}

#[test]
fn a_picture_s_sound_comes_before_the_next_one_where_pictures_go_as_fast_as_they_can() {
    let scratch = Scratch::new("along-before");
    let sound = with_sound(&scratch, false);
    assert_eq!(given(ALL, |give| sound.before(stamp(0), give)), (vec![], true));
    assert_eq!(given(ALL, |give| sound.behind(give)), (vec![], true));
    let first = vec![0, 5, 10, 15, 20, 25, 30, 35];
    assert_eq!(given(ALL, |give| sound.before(stamp(1), give)), (first, true));
}

#[test]
fn a_picture_s_sound_comes_right_behind_it_where_pictures_go_by_the_clock() {
    let scratch = Scratch::new("along-behind");
    let sound = with_sound(&scratch, true);
    assert_eq!(given(ALL, |give| sound.before(stamp(0), give)), (vec![], true));
    let first = vec![0, 5, 10, 15, 20, 25, 30, 35];
    assert_eq!(given(ALL, |give| sound.behind(give)), (first, true));
    assert_eq!(given(ALL, |give| sound.behind(give)), (vec![], true), "that was all of it");
}

#[test]
fn what_wants_no_more_is_given_no_more_and_that_is_passed_on() {
    let scratch = Scratch::new("along-enough");
    let sound = with_sound(&scratch, true);
    given(ALL, |give| sound.before(stamp(0), give));
    assert_eq!(given(3, |give| sound.behind(give)), (vec![0, 5, 10], false));
    assert_eq!(given(ALL, |give| sound.rest(give)), (vec![15, 20, 25, 30, 35], true));
}

#[test]
fn where_pictures_begin_again_sound_is_given_up_to_there_and_begins_again_too() {
    let scratch = Scratch::new("along-again");
    let sound = with_sound(&scratch, false);
    given(ALL, |give| sound.before(stamp(0), give));
    given(ALL, |give| sound.before(stamp(1), give));
    // The film has two pictures, the sound far more.
    let second = vec![40, 45, 50, 55, 60, 65, 70, 75];
    assert_eq!(given(ALL, |give| sound.begin_again(stamp(2), give)), (second, true));
    assert_eq!(given(ALL, |give| sound.before(stamp(2), give)), (vec![], true));
    let again = vec![80, 85, 90, 95, 100, 105, 110, 115];
    assert_eq!(given(ALL, |give| sound.before(stamp(3), give)), (again, true));
}

#[test]
fn sound_does_not_begin_again_for_what_wants_no_more() {
    let scratch = Scratch::new("along-over");
    let sound = with_sound(&scratch, false);
    given(ALL, |give| sound.before(stamp(0), give));
    given(ALL, |give| sound.before(stamp(1), give));
    assert_eq!(given(1, |give| sound.begin_again(stamp(2), give)), (vec![40], false));
    let rest = given(ALL, |give| sound.rest(give));
    assert_eq!(rest.0.first(), Some(&45), "it goes on where it was");
}

#[test]
fn a_file_that_has_gone_meanwhile_is_a_failure_when_it_begins_again() {
    let scratch = Scratch::new("along-gone");
    let sound = with_sound(&scratch, false);
    given(ALL, |give| sound.before(stamp(0), give));
    std::fs::remove_file(scratch.file("a.wav")).unwrap();
    let failed = sound.begin_again(stamp(1), |_| true).unwrap_err();
    assert!(matches!(failed, Error::Open { .. }), "{failed}");
}
