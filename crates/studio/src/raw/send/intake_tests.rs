use super::super::sound::Room;
use super::*;
use crate::capture::Length;
use crate::raw::testing::LONG;
use glassline_io::queue::Taken;
use glassline_media::{Chroma, Memory, PixelFormat, Size, Stamps};
use glassline_test_support::wait::until_some;
use glassline_transport::raw_video::{Format, Scan};
use std::sync::mpsc::channel;
use std::thread;

/// The numbers of pictures that were captured at these times, at 25 a second.
fn numbers(is_live: bool, millis: &[u64]) -> Vec<u64> {
    let (size, pixels) = (Size::new(16, 16).unwrap(), PixelFormat::planar(Chroma::Yuv422, 8));
    let format = Format::new(pixels, size, Scan::Progressive).unwrap();
    let (queue, rate) = (Arc::new(Queue::default()), FrameRate::new(25, 1).unwrap());
    let pool = Pool::new(format.frame_bytes(), millis.len()).unwrap();
    let given = (Clock::new(), rate, is_live);
    let intake = Intake::new(FramePacker::new(format), pool, Arc::clone(&queue), Monitor::new(), given, None);
    for (at, millis) in millis.iter().enumerate() {
        if *millis == 0 && at > 0 {
            assert!(intake.begin_again(Ticks(0)));
        }
        let picture = Picture::new(pixels, size, Time::from_millis(*millis));
        assert!(intake.push(Item::Picture { picture, pts: Ticks(0), stamps: Stamps::default() }));
    }
    let number = |_| match queue.take(Some(Duration::ZERO)) {
        Taken::Item(frame) => frame.number,
        Taken::Timeout | Taken::End => panic!("a frame is missing"),
    };
    (0..millis.len()).map(number).collect()
}

#[test]
fn a_file_s_pictures_are_counted_whatever_held_them_up_and_those_of_a_clock_by_it() {
    // The third one comes two seconds late; the file begins again with the fifth.
    let late = [0, 40, 2_080, 2_120, 0, 40];
    assert_eq!(numbers(false, &late), [0, 1, 2, 3, 0, 1]);
    assert_eq!(numbers(true, &late[..4]), [0, 1, 52, 53]);
}

fn format() -> Format {
    let pixels = PixelFormat::planar(Chroma::Yuv422, 8);
    Format::new(pixels, Size::new(16, 16).unwrap(), Scan::Progressive).unwrap()
}

/// An intake with so many blocks, its queue, and what it counts.
fn intake(
    blocks: usize,
    is_live: bool,
    sound: Option<Arc<SoundQueue>>,
) -> (Arc<Intake>, Arc<Queue>, Monitor) {
    let (queue, monitor) = (Arc::new(Queue::default()), Monitor::new());
    let pool = Pool::new(format().frame_bytes(), blocks).unwrap();
    let given = (Clock::new(), FrameRate::new(25, 1).unwrap(), is_live);
    let packer = FramePacker::new(format());
    let intake = Intake::new(packer, pool, Arc::clone(&queue), monitor.clone(), given, sound);
    (Arc::new(intake), queue, monitor)
}

/// Picture `number` of a source of 25 a second; its samples are that.
fn picture(number: u8) -> Item {
    let mut picture = Picture::new(
        format().pixels().to_planar(),
        format().size(),
        Time::from_millis(40 * u64::from(number)),
    );
    picture.planes_mut().iter_mut().for_each(|plane| plane.lines_mut().for_each(|line| line.fill(number)));
    Item::Picture { picture, pts: Ticks(3_600 * i64::from(number)), stamps: Stamps::default() }
}

fn take(queue: &Queue) -> Option<Frame> {
    match queue.take(Some(Duration::ZERO)) {
        Taken::Item(frame) => Some(frame),
        Taken::Timeout | Taken::End => None,
    }
}

#[test]
fn a_picture_becomes_a_frame_with_its_capture_and_when_it_was_there() {
    let (intake, queue, _) = intake(1, true, None);
    let before = Clock::new().now();
    assert!(intake.push(picture(7)));
    let frame = take(&queue).expect("a frame");
    assert_eq!(frame.captured, Some(Time::from_millis(280)));
    assert!(frame.ready >= before && frame.ready <= Clock::new().now());
    assert!(frame.block.bytes()[..format().frame_bytes()].iter().all(|byte| *byte == 7));
    assert_eq!(intake.first_picture(), Some(Time::from_millis(280)));
}

#[test]
fn a_live_picture_that_finds_no_memory_is_left_out_and_its_number_with_it() {
    let (intake, queue, monitor) = intake(1, true, None);
    assert!(intake.push(picture(0)) && intake.push(picture(1)) && intake.push(picture(2)));
    assert_eq!(monitor.statistics().dropped_frames, 2);
    assert_eq!(take(&queue).map(|frame| frame.number), Some(0));
    // The frame was dropped here, so that its memory is free again.
    assert!(intake.push(picture(3)));
    assert_eq!(take(&queue).map(|frame| frame.number), Some(3), "numbers are the clock's");
}

#[test]
fn a_picture_of_a_file_waits_until_a_frame_has_been_sent() {
    let (intake, queue, monitor) = intake(1, false, None);
    let pushing = {
        let intake = Arc::clone(&intake);
        thread::spawn(move || (0..5).all(|number| intake.push(picture(number))))
    };
    for number in 0..5 {
        let frame = until_some("a frame", || take(&queue));
        assert_eq!((frame.number, frame.block.bytes()[0]), (number, number as u8));
        drop(frame);
        queue.wake();
    }
    assert!(pushing.join().unwrap());
    assert_eq!(monitor.statistics().dropped_frames, 0);
}

#[test]
fn what_waits_for_memory_ends_when_the_queue_is_stopped() {
    let (intake, queue, _) = intake(1, false, None);
    assert!(intake.push(picture(0)));
    let pushing = {
        let intake = Arc::clone(&intake);
        thread::spawn(move || intake.push(picture(1)))
    };
    queue.stop();
    assert!(!pushing.join().unwrap(), "nothing more is wanted");
    assert!(intake.is_stopped() && !intake.push(picture(2)) && !intake.begin_again(Ticks(0)));
}

#[test]
fn sound_goes_to_its_own_queue_where_some_is_sent_and_nowhere_otherwise() {
    let block = || {
        Item::Sound(AudioBlock { samples: vec![0.5; 96], channels: 2, rate_hz: 48_000, captured: Time::ZERO })
    };
    let sounds = Arc::new(SoundQueue::new(Room::new(Duration::from_millis(40))));
    let (with, queue, _) = intake(1, true, Some(Arc::clone(&sounds)));
    assert!(with.push(block()));
    assert!(matches!(sounds.take(Some(Duration::ZERO)), Taken::Item(found) if found.frames() == 48));
    assert!(take(&queue).is_none());
    let (without, ..) = intake(1, true, None);
    assert!(without.push(block()), "it is no reason to end");
    queue.stop();
    assert!(!with.push(block()), "without pictures there is none");
}

#[test]
fn how_a_source_has_ended_comes_behind_its_last_frame() {
    let (intake, queue, _) = intake(2, true, None);
    assert!(intake.push(picture(0)));
    intake.end(Err(capture::Error::NotAFile));
    assert!(take(&queue).is_some());
    assert!(matches!(queue.take(None), Taken::End));
    assert!(matches!(queue.take_end(), Some(Err(capture::Error::NotAFile))));
}

#[test]
fn a_source_that_ends_without_a_picture_leaves_no_sound_waiting_for_one() {
    let (intake, queue, _) = intake(1, true, None);
    let (tell, told) = channel();
    let waiting = Arc::clone(&intake);
    thread::spawn(move || tell.send(waiting.first_picture()));
    intake.end(Ok(()));
    assert_eq!(told.recv_timeout(LONG), Ok(None));
    assert!(matches!(queue.take_end(), Some(Ok(()))));
}

#[test]
fn pictures_on_request_are_packed_in_their_order_and_captured_when_they_are_sent() {
    let length = Length { pictures: Some(3), time: None };
    let input = "test:16x16@25".parse().unwrap();
    let pictures = || Pictures::open_as_they_are(&input, false, length).unwrap();
    let (whole, queue, _) = intake(3, false, None);
    whole.run(pictures());
    let frames: Vec<_> = std::iter::from_fn(|| take(&queue)).collect();
    assert_eq!(
        frames.iter().map(|frame| (frame.number, frame.captured)).collect::<Vec<_>>(),
        [(0, None), (1, None), (2, None)]
    );
    assert!(frames[0].block.bytes() != frames[2].block.bytes(), "each has its own picture");
    assert!(matches!(queue.take_end(), Some(Ok(()))));
    // One that is told to end asks for no further picture.
    let (stopped, queue, _) = intake(3, false, None);
    queue.stop();
    stopped.run(pictures());
    assert!(take(&queue).is_none());
}
