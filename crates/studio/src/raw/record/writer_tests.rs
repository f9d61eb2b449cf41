use super::*;
use glassline_media::pixels::Packer;
use glassline_media::{Size, Time};
use glassline_test_support::program::Scratch;
use proptest::prelude::*;

fn rate() -> FrameRate {
    FrameRate::new(25, 1).unwrap()
}

/// Planes of 4:2:2, each sample of which is its place.
fn planar(depth: u8, width: u32, height: u32) -> Picture {
    let pixels = PixelFormat::planar(Chroma::Yuv422, depth);
    let mut picture = Picture::new(pixels, Size::new(width, height).unwrap(), Time::ZERO);
    let mut value = 0_u8;
    for plane in picture.planes_mut() {
        for line in plane.lines_mut() {
            for sample in line.chunks_exact_mut(pixels.sample_bytes()) {
                sample[0] = value;
                value = value.wrapping_add(1);
            }
        }
    }
    picture
}

fn planes(picture: &Picture) -> Vec<u8> {
    picture.planes().iter().flat_map(|plane| plane.lines()).flatten().copied().collect()
}

#[test]
fn a_name_says_what_is_written_whatever_the_case_of_its_letters() {
    for (name, container) in [
        ("null:", Some(Container::Null)),
        ("a.y4m", Some(Container::Y4m)),
        ("dir.raw/A.Y4M", Some(Container::Y4m)),
        ("a.yuv", Some(Container::Raw)),
        ("a.RGB", Some(Container::Raw)),
        ("a.raw", Some(Container::Raw)),
        ("a.mp4", None),
        ("y4m", None),
        (".y4m", None),
        ("", None),
    ] {
        assert_eq!(Container::of(name), container, "{name}");
    }
}

#[test]
fn frames_are_received_as_they_are_written() {
    let packed = PixelFormat::pgroups(Chroma::Yuv422, 8).unwrap();
    let deep = PixelFormat::pgroups(Chroma::Yuv422, 10).unwrap();
    let layouts =
        |pixels| [Container::Null, Container::Y4m, Container::Raw].map(|container| container.layout(pixels));
    assert_eq!(layouts(packed), [Layout::Pgroups, Layout::Planar, Layout::Pgroups]);
    assert_eq!(layouts(deep), [Layout::Pgroups, Layout::Planar, Layout::Planar]);
}

#[test]
fn samples_alone_have_the_names_that_ffmpeg_knows() {
    for (chroma, depth, name, order) in [
        (Chroma::Yuv422, 8, "uyvy422", [0, 1, 2]),
        (Chroma::Yuv422, 12, "yuv422p12le", [0, 1, 2]),
        (Chroma::Yuv444, 8, "yuv444p", [0, 1, 2]),
        (Chroma::Yuv420, 10, "yuv420p10le", [0, 1, 2]),
        (Chroma::Rgb, 8, "rgb24", [1, 2, 0]),
        (Chroma::Rgb, 12, "gbrp12le", [1, 2, 0]),
        (Chroma::Mono, 8, "gray", [0, 1, 2]),
    ] {
        let raw = Raw::of(PixelFormat::planar(chroma, depth));
        assert_eq!((raw.pix_fmt.as_str(), raw.planes), (name, order));
    }
}

#[test]
fn nothing_is_written_to_nowhere() {
    let picture = planar(8, 4, 2);
    let mut writer = Writer::create("null:", Container::Null, &picture, rate(), (1, 1)).unwrap();
    writer.write(&picture).unwrap();
    assert_eq!((writer.bytes(), writer.is_direct(), writer.rate()), (0, false, rate()));
    assert_eq!(writer.finish().unwrap(), 0);
    let writer = Writer::create("null:", Container::Null, &picture, rate(), (1, 1)).unwrap();
    assert_eq!(writer.keep(), Kept { frames: 0, bytes: 0 });
}

#[test]
fn a_recording_without_a_picture_has_the_header_of_what_would_have_come() {
    let scratch = Scratch::new("writer-empty");
    let path = scratch.file("out.y4m");
    let writer = Writer::create(&path, Container::Y4m, &planar(8, 6, 2), rate(), (16, 15)).unwrap();
    let bytes = writer.finish().unwrap();
    let written = std::fs::read(&path).unwrap();
    assert_eq!(bytes, written.len() as u64);
    let text = String::from_utf8(written).unwrap();
    assert!(text.starts_with("YUV4MPEG2 ") && text.ends_with('\n'), "{text}");
    assert!(text.contains(" W6 ") && text.contains(" H2 ") && text.contains(" F25:1"), "{text}");
    assert!(text.contains(" A16:15"), "{text}");
}

#[test]
fn y4m_has_one_header_and_a_line_before_each_picture() {
    let scratch = Scratch::new("writer-y4m");
    let path = scratch.file("out.y4m");
    let picture = planar(8, 4, 2);
    let mut writer = Writer::create(&path, Container::Y4m, &picture, rate(), (1, 1)).unwrap();
    let header = writer.header.clone();
    writer.write(&picture).unwrap();
    writer.write(&picture).unwrap();
    let frame = [y4m::FRAME_LINE, &planes(&picture)].concat();
    let wanted = [header, frame.clone(), frame].concat();
    assert_eq!((writer.bytes(), writer.finish().unwrap()), (wanted.len() as u64, wanted.len() as u64));
    assert!(std::fs::read(&path).unwrap() == wanted);
}

#[test]
fn pgroups_and_planes_of_one_picture_are_the_same_file() {
    let scratch = Scratch::new("writer-layouts");
    let planar = planar(10, 4, 2);
    let packed = Packer::new().pack(&planar).unwrap();
    let written = |name: &str, picture: &Picture| {
        let path = scratch.file(name);
        let mut writer = Writer::create(&path, Container::Raw, picture, rate(), (1, 1)).unwrap();
        assert_eq!(writer.raw().pix_fmt, "yuv422p10le");
        writer.write(picture).unwrap();
        writer.finish().unwrap();
        std::fs::read(&path).unwrap()
    };
    assert_eq!(written("planes.yuv", &planar), planes(&planar));
    assert_eq!(written("pgroups.yuv", &packed), planes(&planar));
}

#[test]
fn a_file_that_is_there_is_emptied() {
    let scratch = Scratch::new("writer-again");
    let path = scratch.write("out.yuv", [7; 10_000]);
    let writer = Writer::create(&path, Container::Raw, &planar(10, 4, 2), rate(), (1, 1)).unwrap();
    assert_eq!(writer.finish().unwrap(), 0);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
}

#[test]
fn a_file_that_cannot_be_made_is_told_in_the_systems_words() {
    let name = "/no/such/folder/out.yuv";
    let refused = Writer::create(name, Container::Raw, &planar(10, 4, 2), rate(), (1, 1));
    let Err(WriteError::File(error)) = refused else { panic!("there is no such folder") };
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

proptest! {
    // Each case writes a file.
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// What is kept after a failure is never part of a frame, and never more than was written.
    #[test]
    fn what_is_kept_ends_with_a_whole_frame(frames in 0..6_u64, is_y4m: bool) {
        let scratch = Scratch::new("writer-keep");
        let (name, container) =
            if is_y4m { ("out.y4m", Container::Y4m) } else { ("out.yuv", Container::Raw) };
        let path = scratch.file(name);
        let picture = planar(10, 64, 32);
        let mut writer = Writer::create(&path, container, &picture, rate(), (1, 1)).unwrap();
        let header = writer.header_bytes();
        for _ in 0..frames {
            writer.write(&picture).unwrap();
        }
        let frame = planes(&picture).len() as u64 + if is_y4m { y4m::FRAME_LINE.len() as u64 } else { 0 };
        let kept = writer.keep();
        prop_assert!(kept.frames <= frames);
        let wanted = header + kept.frames * frame;
        prop_assert!(kept.bytes == wanted || (kept.frames, kept.bytes) == (0, 0), "{kept:?}");
        prop_assert_eq!(std::fs::metadata(&path).unwrap().len(), kept.bytes);
    }
}
