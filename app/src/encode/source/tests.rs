//! Sources through the queue: a capture device that is a fake, pipes and files of every kind.

use super::*;
use crate::encode::control::Controls;
use crate::encode::queue::{Popped, Queue, Work};
use glassline_io::capture::{Format as Captured, Frame};
use glassline_media::pixels::{FieldOrder, PackedFormat};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// A device whose pictures were made beforehand: grey of the given value, with stamp and sequence number.
struct Fake {
    format: Captured,
    pictures: VecDeque<(u8, Time, u32)>,
    buffer: Vec<u8>,
    /// Where it fails after its last picture; otherwise it gives nothing for ever.
    fails: bool,
}

impl Fake {
    fn new(layout: PackedFormat, fields: Option<FieldOrder>, pictures: &[(u8, Time, u32)]) -> Fake {
        let size = Size::new(32, 16).unwrap();
        let format = Captured {
            size,
            rate: FrameRate::new(25, 1).unwrap(),
            layout,
            stride_bytes: layout.line_bytes(size) + 6,
            fields,
            colour: Colour::BT709,
        };
        let pictures = pictures.iter().copied().collect();
        Fake { format, pictures, buffer: Vec::new(), fails: true }
    }
}

impl Capture for Fake {
    fn format(&self) -> Captured {
        self.format
    }

    fn next(&mut self, timeout: Duration) -> io::Result<Option<Frame<'_>>> {
        let Some((value, captured, sequence)) = self.pictures.pop_front() else {
            if self.fails {
                return Err(io::Error::other("unplugged"));
            }
            thread::sleep(timeout);
            return Ok(None);
        };
        // Value 0 is a picture that was cut short.
        let needed = self.format.layout.picture_bytes(self.format.size, self.format.stride_bytes);
        self.buffer = vec![value; if value == 0 { needed / 2 } else { needed }];
        Ok(Some(Frame { bytes: &self.buffer, captured, sequence }))
    }
}

/// The pictures that a source gives: time stamp in milliseconds after the first one's, and the luma in the middle.
fn pictures(queue: &Queue) -> (Vec<(i64, u8)>, String) {
    let (mut found, mut first) = (Vec::new(), None);
    loop {
        match queue.pop(None) {
            Ok(Popped::Work(work)) => {
                let Work::Picture { picture, pts, .. } = *work else { continue };
                let first = *first.get_or_insert(pts);
                assert_eq!(pts, Ticks::from_time(picture.captured));
                assert!(picture.captured_utc.is_some());
                found.push(((pts - first).0 / 90, picture.planes()[0].line(8)[16]));
            }
            Ok(Popped::Timeout) => {}
            Ok(Popped::End) => return (found, String::new()),
            Err(error) => return (found, format!("{error:#}")),
        }
    }
}

fn feed(queue: &Arc<Queue>) -> Feed {
    Feed::new(vec![Arc::clone(queue)], None, Controls::new(Vec::new()))
}

/// Runs a fake to its end. The queue is as large as a file's, so that nothing is lost on the way.
fn run(fake: Fake, deinterlace: Deinterlace, length: Length) -> (Format, Vec<(i64, u8)>, String, u64) {
    let source = Source::capture(Box::new(fake), deinterlace, length, Clock::new());
    let (format, queue) = (source.format(), Arc::new(Queue::new(false)));
    let into = feed(&queue);
    let thread = thread::spawn(move || source.run(&into));
    let (found, error) = pictures(&queue);
    thread.join().unwrap();
    (format, found, error, queue.dropped())
}

/// Stamps so many pictures before now that all of them lie in the past.
fn stamps(count: u32) -> Vec<(u8, Time, u32)> {
    let start = Time::from_nanos(Clock::new().now().as_nanos() - 400_000_000);
    (0..count).map(|number| (10 + number as u8, start + Duration::from_millis(40) * number, number)).collect()
}

#[test]
fn a_device_s_pictures_have_the_driver_s_time() {
    for layout in [PackedFormat::Yuyv, PackedFormat::Uyvy, PackedFormat::Nv12, PackedFormat::Nv16] {
        let fake = Fake::new(layout, None, &stamps(5));
        let (format, found, error, dropped) = run(fake, Deinterlace::Auto, Length::default());
        assert!(format.live && format.rate == FrameRate::new(25, 1).unwrap());
        assert_eq!(found, [(0, 10), (40, 11), (80, 12), (120, 13), (160, 14)], "{layout:?}");
        assert!(error.contains("device failed") && error.contains("unplugged"), "{error}");
        assert_eq!(dropped, 0);
    }
}

#[test]
fn what_the_device_lost_or_damaged_is_counted() {
    let mut pictures = stamps(6);
    // Two are missing, one is cut short, one has the time of the one before.
    pictures.remove(1);
    pictures.remove(1);
    pictures[1].0 = 0;
    pictures[3].1 = pictures[2].1;
    let fake = Fake::new(PackedFormat::Yuyv, None, &pictures);
    let (_, found, _, dropped) = run(fake, Deinterlace::Auto, Length::default());
    assert_eq!(found, [(0, 10), (160, 14)]);
    assert_eq!(dropped, 4);
}

#[test]
fn a_stamp_that_cannot_be_is_not_believed() {
    for stamp in [Time::ZERO, Clock::new().now() + Duration::from_secs(1000)] {
        let mut pictures = stamps(2);
        pictures[1].1 = stamp;
        let fake = Fake::new(PackedFormat::Nv12, None, &pictures);
        let (_, found, _, _) = run(fake, Deinterlace::Auto, Length::default());
        assert_eq!(found.len(), 2);
        assert!(found[1].0 < 60_000, "{found:?}");
    }
}

#[test]
fn a_wall_clock_that_is_set_moves_no_time_stamp_of_a_device_s_pictures() {
    let stamps = stamps(6);
    let (second, fourth) = (stamps[2].1, stamps[4].1);
    // An hour forward before the third picture, and two back before the fifth.
    let hour = 3_600_000_000_000;
    let wall = move |time: Time| {
        let forward = if time >= fourth {
            0
        } else if time >= second {
            2 * hour
        } else {
            hour
        };
        Utc::from_nanos(1_700_000_000_000_000_000 + forward + time.as_nanos())
    };
    let fake = Fake::new(PackedFormat::Nv12, None, &stamps);
    let source = Source::capture(Box::new(fake), Deinterlace::Auto, Length::default(), Clock::new());
    let (source, queue) = (source.with_wall(wall), Arc::new(Queue::new(false)));
    let into = feed(&queue);
    let thread = thread::spawn(move || source.run(&into));
    for (_, captured, _) in stamps {
        let Popped::Work(work) = queue.pop(None).unwrap() else { panic!("a picture is missing") };
        let Work::Picture { picture, pts, .. } = *work else { panic!("no picture") };
        assert_eq!((picture.captured, pts), (captured, Ticks::from_time(captured)));
        assert_eq!(picture.captured_utc, Some(wall(captured)));
    }
    assert!(queue.pop(None).is_err());
    thread.join().unwrap();
}

#[test]
fn two_pictures_become_of_two_fields() {
    let fake = || Fake::new(PackedFormat::Uyvy, Some(FieldOrder::TopFirst), &stamps(3));
    let (format, found, ..) = run(fake(), Deinterlace::Auto, Length::default());
    assert_eq!(format.rate, FrameRate::new(50, 1).unwrap());
    assert_eq!(found, [(0, 10), (20, 10), (40, 11), (60, 11), (80, 12), (100, 12)]);
    let (format, found, ..) = run(fake(), Deinterlace::Off, Length::default());
    assert_eq!((format.rate, found.len()), (FrameRate::new(25, 1).unwrap(), 3));
}

#[test]
fn a_device_that_gives_nothing_ends_when_it_is_told_to() {
    let mut fake = Fake::new(PackedFormat::Yuyv, None, &stamps(1));
    fake.fails = false;
    let source = Source::capture(Box::new(fake), Deinterlace::Auto, Length::default(), Clock::new());
    let queue = Arc::new(Queue::new(true));
    let into = feed(&queue);
    let thread = thread::spawn(move || source.run(&into));
    assert!(matches!(queue.pop(None).unwrap(), Popped::Work(_)));
    queue.stop();
    thread.join().unwrap();
}

#[test]
fn a_device_stops_at_its_length() {
    let length = Length { pictures: Some(2), time: None };
    let (_, found, error, _) =
        run(Fake::new(PackedFormat::Yuyv, None, &stamps(5)), Deinterlace::Auto, length);
    assert_eq!((found.len(), error.as_str()), (2, ""));
}
