//! Sources and who takes their pictures: a capture device that is a fake.

use super::*;
use crate::capture::{Error, FileAudio};
use glassline_io::capture::{Format as Captured, Frame};
use glassline_media::pixels::{FieldOrder, PackedFormat};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex};

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

/// Keeps what a source gives.
#[derive(Default)]
struct Kept {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    pictures: Vec<(Picture, Ticks)>,
    dropped: u64,
    stopped: bool,
    ended: Option<String>,
}

impl Kept {
    /// Waits until `is_there`.
    fn wait(&self, is_there: impl Fn(&State) -> bool) {
        let state = self.state.lock().unwrap();
        let waited =
            self.changed.wait_timeout_while(state, Duration::from_secs(30), |state| !is_there(state));
        assert!(!waited.unwrap().1.timed_out());
    }
}

impl Consumer for Kept {
    fn push(&self, item: Item) -> bool {
        let mut state = self.state.lock().unwrap();
        if let Item::Picture { picture, pts, .. } = item {
            assert_eq!(pts, Ticks::from_time(picture.captured));
            assert!(picture.captured_utc.is_some());
            state.pictures.push((picture, pts));
        }
        self.changed.notify_all();
        !state.stopped
    }

    fn begin_again(&self, _: Ticks) -> bool {
        true
    }

    fn accompany(&self, _: FileAudio) {}

    fn first_picture(&self) -> Option<Time> {
        None
    }

    fn count_dropped(&self, pictures: u64) {
        self.state.lock().unwrap().dropped += pictures;
    }

    fn is_stopped(&self) -> bool {
        self.state.lock().unwrap().stopped
    }

    fn end(&self, ended: Result<(), Error>) {
        let ended = ended.map_or_else(|error| error.to_string(), |()| String::new());
        self.state.lock().unwrap().ended = Some(ended);
        self.changed.notify_all();
    }
}

/// Runs a fake to its end. Gives what its pictures are like; of each the time stamp in milliseconds after the first one's, and
/// the luma in the middle; how it ended; what was left out.
fn run(fake: Fake, deinterlace: Deinterlace, length: Length) -> (Format, Vec<(i64, u8)>, String, u64) {
    let source = Source::capture(Box::new(fake), deinterlace, length, Clock::new());
    let (format, kept) = (source.format(), Kept::default());
    source.run(&kept);
    let State { pictures, dropped, ended, .. } = kept.state.into_inner().unwrap();
    let first = pictures.first().map_or(Ticks(0), |(_, pts)| *pts);
    let told = |(picture, pts): &(Picture, Ticks)| ((*pts - first).0 / 90, picture.planes()[0].line(8)[16]);
    (format, pictures.iter().map(told).collect(), ended.expect("it has told its end"), dropped)
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
    let kept = Kept::default();
    source.with_wall(wall).run(&kept);
    let State { pictures, ended, .. } = kept.state.into_inner().unwrap();
    assert_eq!((pictures.len(), ended.as_deref()), (6, Some("the capture device failed: unplugged")));
    for ((picture, pts), (_, captured, _)) in pictures.into_iter().zip(stamps) {
        assert_eq!((picture.captured, pts), (captured, Ticks::from_time(captured)));
        assert_eq!(picture.captured_utc, Some(wall(captured)));
    }
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
    let kept = Arc::<Kept>::default();
    let into = Arc::clone(&kept);
    let thread = thread::spawn(move || source.run(&*into));
    kept.wait(|state| state.pictures.len() == 1);
    kept.state.lock().unwrap().stopped = true;
    kept.wait(|state| state.ended.as_deref() == Some(""));
    thread.join().unwrap();
}

#[test]
fn a_device_stops_at_its_length() {
    let length = Length { pictures: Some(2), time: None };
    let (_, found, error, _) =
        run(Fake::new(PackedFormat::Yuyv, None, &stamps(5)), Deinterlace::Auto, length);
    assert_eq!((found.len(), error.as_str()), (2, ""));
}
