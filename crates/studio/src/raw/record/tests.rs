use super::*;
use crate::raw::receive::Settings;
use crate::raw::testing::{LONG, Sender, format, free, settings, wait_for};
use glassline_io::clock::Clock;
use glassline_media::Time;
use glassline_media::container::y4m::Reader;
use glassline_media::pixels::Packer;
use glassline_media::{Chroma, FrameRate, Picture, PixelFormat, Size};
use glassline_test_support::program::Scratch;
use std::time::Instant;

fn rate() -> FrameRate {
    FrameRate::new(60, 1).unwrap()
}

fn example(depth: u8) -> Picture {
    Picture::new(format(depth).pixels(), format(depth).size(), Time::ZERO)
}

/// Records `frames` frames of 10 bits; gives what was sent.
fn recorded(name: &str, depth: u8, frames: u32) -> Vec<Vec<u8>> {
    let to = [free()];
    let receiver = Receiver::start(&settings(format(depth), &to, 8), Clock::new()).unwrap();
    let writer =
        Writer::create(name, Container::of(name).unwrap(), &example(depth), rate(), (16, 15)).unwrap();
    let length = rate().time_of(u64::from(frames));
    let recording =
        Recording::start(receiver, writer, Limits { length: Some(length), ..Limits::default() }).unwrap();
    let mut sender = Sender::new(format(depth));
    let mut sent = Vec::new();
    // The frame that tells that it is enough is not written.
    for number in 0..=frames {
        sent.push(sender.send(number, &to, |_, _| false));
        let have = (sender.packetizer.layout().len() as u64) * u64::from(number + 1);
        wait_for("packets come", || recording.progress().received.counters.packets >= have);
    }
    let Ended { bytes, reason } = recording.wait(LONG).expect("an end").unwrap();
    assert_eq!(reason, Reason::Length);
    let progress = recording.progress();
    assert_eq!((progress.frames, progress.bytes), (u64::from(frames), bytes));
    assert_eq!(progress.received.counters.lost, 0);
    assert!(progress.length.abs_diff(length) < Duration::from_millis(1), "{:?}", progress.length);
    sent.truncate(frames as usize);
    sent
}

#[test]
fn how_long_after_their_capture_frames_come_is_told_where_stamps_tell_it() {
    let (to, clock) = ([free()], Clock::new());
    // TAI is ahead of UTC by 37 s; the stamp 0 is of a tenth of a second ago.
    let tai = u128::from(clock.utc_at(clock.now()).as_nanos()) + 36_900_000_000;
    let direct = 0u32.wrapping_sub((tai * 90_000 / 1_000_000_000) as u32);
    for direct in [Some(direct), None] {
        let settings = Settings { direct, ..settings(format(8), &to, 8) };
        let receiver = Receiver::start(&settings, clock).unwrap();
        let writer = Writer::create("null:", Container::Null, &example(8), rate(), (1, 1)).unwrap();
        let recording = Recording::start(receiver, writer, Limits::default()).unwrap();
        let (mut sender, mut told) = (Sender::new(format(8)), None);
        // A machine that stood still for a second has no frame that came in time: the next ones have later stamps.
        for number in 0..200 {
            sender.send(number, &to, |_, _| false);
            wait_for("the frame is counted", || recording.progress().frames > u64::from(number));
            told = recording.progress().received_after;
            if told.is_some() || direct.is_none() && number == 3 {
                break;
            }
        }
        match direct {
            Some(_) => assert!(told.is_some_and(|after| after <= Duration::from_millis(1_100)), "{told:?}"),
            None => assert_eq!(told, None),
        }
        recording.stop();
        assert!(recording.wait(LONG).expect("an end").is_ok());
    }
}

#[test]
fn y4m_has_what_was_sent() {
    let scratch = Scratch::new("record-y4m");
    let path = scratch.file("out.y4m");
    let sent = recorded(&path, 10, 4);
    let bytes = std::fs::read(&path).unwrap();
    let (mut reader, mut rest, mut pictures) = (Reader::new(), &bytes[..], Vec::new());
    while let Some(picture) = reader.parse(&mut rest).unwrap() {
        pictures.push(picture);
    }
    reader.finish().unwrap();
    assert_eq!(reader.header().unwrap().format, PixelFormat::planar(Chroma::Yuv422, 10));
    assert_eq!(reader.header().unwrap().sample_aspect, Some((16, 15)));
    assert_eq!(pictures.len(), 4);
    let mut packer = Packer::new();
    for (picture, sent) in pictures.iter().zip(&sent) {
        assert!(packer.pack(picture).unwrap().planes()[0].lines().flatten().eq(sent));
    }
}

#[test]
fn a_file_of_samples_alone_has_them_as_ffmpeg_knows_them() {
    let scratch = Scratch::new("record-raw");
    let path = scratch.file("out.yuv");
    let sent = recorded(&path, 8, 3);
    assert!(std::fs::read(&path).unwrap() == sent.concat());
    assert_eq!(Raw::of(format(8).pixels()).pix_fmt, "uyvy422");
    assert_eq!(Raw::of(format(10).pixels()).pix_fmt, "yuv422p10le");
    let rgb = PixelFormat::pgroups(Chroma::Rgb, 10).unwrap();
    assert_eq!(Raw::of(rgb).pix_fmt, "gbrp10le");
}

#[test]
fn rgb_is_written_in_the_order_of_ffmpeg_and_refused_as_y4m() {
    let scratch = Scratch::new("record-rgb");
    let planar = PixelFormat::planar(Chroma::Rgb, 10);
    let mut picture = Picture::new(planar, Size::new(4, 1).unwrap(), Time::ZERO);
    for (level, plane) in picture.planes_mut().iter_mut().enumerate() {
        plane.line_mut(0).copy_from_slice(&[level as u8 + 1, 0].repeat(4));
    }
    let packed = Packer::new().pack(&picture).unwrap();
    let path = scratch.file("out.yuv");
    let mut writer = Writer::create(&path, Container::Raw, &packed, rate(), (1, 1)).unwrap();
    writer.write(&packed).unwrap();
    assert_eq!(writer.finish().unwrap(), 24);
    let expected = [[2u8, 0].repeat(4), [3, 0].repeat(4), [1, 0].repeat(4)].concat();
    assert_eq!(std::fs::read(&path).unwrap(), expected);
    let path = scratch.file("out.y4m");
    let refused = Writer::create(&path, Container::Y4m, &packed, rate(), (1, 1));
    assert!(matches!(refused.err(), Some(WriteError::Y4m(_))) && !std::path::Path::new(&path).exists());
}

#[test]
fn being_told_to_end_writes_what_has_come() {
    let to = [free()];
    let receiver = Receiver::start(&settings(format(8), &to, 8), Clock::new()).unwrap();
    let writer = Writer::create("null:", Container::Null, &example(8), rate(), (1, 1)).unwrap();
    let recording = Recording::start(receiver, writer, Limits::default()).unwrap();
    let mut sender = Sender::new(format(8));
    for number in 0..3 {
        sender.send(number, &to, |_, _| false);
        wait_for("frames are counted", || recording.progress().frames > u64::from(number));
    }
    recording.stop();
    let ended = recording.wait(LONG).expect("an end").unwrap();
    assert_eq!(ended, Ended { bytes: 0, reason: Reason::Stopped });
    assert_eq!(Container::of("x.mp4"), None);
}

/// A recording to nowhere of a stream of which so many frames come, and no more.
fn of_a_sender_that_stops(frames: u32, limits: Limits) -> (Reason, Progress) {
    let to = [free()];
    let receiver = Receiver::start(&settings(format(8), &to, 8), Clock::new()).unwrap();
    let writer = Writer::create("null:", Container::Null, &example(8), rate(), (1, 1)).unwrap();
    let recording = Recording::start(receiver, writer, limits).unwrap();
    let mut sender = Sender::new(format(8));
    for number in 0..frames {
        sender.send(number, &to, |_, _| false);
        wait_for("frames are counted", || recording.progress().frames > u64::from(number));
    }
    let ended = recording.wait(LONG).expect("an end").unwrap();
    (ended.reason, recording.progress())
}

#[test]
fn a_sender_that_stops_before_the_length_is_there_does_not_keep_a_recording() {
    let length = Some(Duration::from_secs(1));
    let began = Instant::now();
    let (reason, progress) = of_a_sender_that_stops(3, Limits { length, silence: None });
    assert_eq!((reason, progress.frames), (Reason::SenderStopped, 3));
    // A sender that pauses and goes on in time is recorded.
    assert!(began.elapsed() >= Duration::from_secs(1));
    assert!(progress.length.abs_diff(Duration::from_millis(50)) < Duration::from_millis(1));
}

#[test]
fn silence_ends_a_recording_that_asks_for_it_whether_frames_have_come_or_not() {
    let limits =
        Limits { length: Some(Duration::from_secs(3_600)), silence: Some(Duration::from_millis(700)) };
    for frames in [0, 2] {
        let (reason, progress) = of_a_sender_that_stops(frames, limits);
        assert_eq!((reason, progress.frames), (Reason::Silence, u64::from(frames)));
    }
}
