use super::*;
use glassline_media::{PixelFormat, Size};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Keeps the times of the blocks that it takes.
#[derive(Default)]
struct Taker {
    taken: Mutex<Vec<Time>>,
    is_stopped: AtomicBool,
}

impl TakesSound for Taker {
    fn push(&self, block: &AudioBlock) {
        self.taken.lock().unwrap().push(block.captured);
    }

    fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    fn bytes_per_second(&self) -> u64 {
        8000
    }
}

fn sound(millis: u64) -> Item {
    let captured = Time::from_millis(millis);
    Item::Sound(AudioBlock { samples: vec![0.0; 960], channels: 2, rate_hz: 48_000, captured })
}

fn picture(millis: u64) -> Item {
    let captured = Time::from_millis(millis);
    let picture = Picture::new(PixelFormat::I420, Size::new(16, 16).unwrap(), captured);
    Item::Picture { picture, pts: Ticks::from_time(captured), stamps: Stamps::captured_at(captured) }
}

#[test]
fn pictures_replace_each_other_and_sound_goes_to_its_taker_at_once() {
    let taker = Arc::new(Taker::default());
    let intake = Intake::new(Some(Arc::clone(&taker) as _));
    assert!([picture(1), sound(2), picture(3), sound(4)].into_iter().all(|item| intake.push(item)));
    assert_eq!(*taker.taken.lock().unwrap(), [2, 4].map(Time::from_millis));
    let glassline_io::queue::Taken::Item((newest, stamps)) = intake.mailbox.take(Duration::ZERO) else {
        panic!("a picture is there")
    };
    assert_eq!((newest.captured, intake.mailbox.counts()), (Time::from_millis(3), (2, 1)));
    assert_eq!(stamps.at(glassline_media::Stage::Captured), Some(Time::from_millis(3)));
    assert_eq!(intake.first_picture(), Some(Time::from_millis(1)));
    assert_eq!(intake.sound_bytes_per_second(), 8000);
}

#[test]
fn a_source_without_a_taker_of_sound_goes_on_without_it() {
    let intake = Intake::new(None);
    assert!(intake.push(sound(1)) && intake.push(picture(2)));
    assert_eq!(intake.sound_bytes_per_second(), 0);
    intake.count_dropped(3);
    assert_eq!(intake.mailbox.counts(), (4, 3), "what the source left out has come too");
}

#[test]
fn a_source_is_told_that_no_more_is_wanted_with_what_it_gives_next() {
    let taker = Arc::new(Taker::default());
    let intake = Intake::new(Some(Arc::clone(&taker) as _));
    assert!(!Consumer::is_stopped(&intake));
    intake.stop();
    assert!(Consumer::is_stopped(&intake) && taker.is_stopped.load(Ordering::Relaxed));
    assert!(!intake.push(picture(1)) && !intake.push(sound(2)));
    assert!(!intake.begin_again(Ticks(0)));
}

#[test]
fn how_a_source_has_ended_is_told_once() {
    let intake = Intake::new(None);
    assert!(intake.begin_again(Ticks(0)));
    Consumer::end(&intake, Ok(()));
    assert!(intake.mailbox.has_ended());
    assert!(matches!(intake.mailbox.take_end(), Some(Ok(()))) && intake.mailbox.take_end().is_none());
}

#[test]
fn pictures_go_on_where_a_files_sound_has_failed() {
    assert!(is_open(Ok(true)) && !is_open(Ok(false)));
    assert!(is_open(Err(Error::Folder { name: "a folder".to_owned() })));
}
