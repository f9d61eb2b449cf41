use super::*;
use crate::picture::{Chroma, Colour};
use crate::time::FrameRate;
use proptest::prelude::*;

fn read_all(bytes: &[u8], chunk: usize) -> Result<(Option<Header>, Vec<Picture>), Y4mError> {
    let mut reader = Reader::new();
    let mut pictures = Vec::new();
    for mut rest in bytes.chunks(chunk.max(1)) {
        while let Some(picture) = reader.parse(&mut rest)? {
            pictures.push(picture);
        }
        assert!(rest.is_empty(), "a reader that asks for more has taken everything");
    }
    reader.finish()?;
    Ok((reader.header().cloned(), pictures))
}

fn header_of(line: &str) -> Result<Header, Y4mError> {
    read_all(format!("YUV4MPEG2{line}\n").as_bytes(), 7).map(|(header, _)| header.unwrap())
}

#[test]
fn a_header_of_ffmpeg_is_read() {
    let header =
        header_of(" W1280 H720 F30000:1001 Ip A1:1 C420mpeg2 XYSCSS=420MPEG2 XCOLORRANGE=FULL").unwrap();
    assert_eq!(header.size, Size { width: 1280, height: 720 });
    assert_eq!(header.frame_rate, FrameRate::new(30000, 1001).unwrap());
    assert_eq!(header.format, PixelFormat::I420);
    assert_eq!(header.siting, Some(Siting::Left));
    assert_eq!(header.interlacing, Interlacing::Progressive);
    assert_eq!(header.sample_aspect, Some((1, 1)));
    assert_eq!(header.colour, Colour { full_range: true, ..Colour::UNSPECIFIED });
}

#[test]
fn what_a_header_leaves_out_has_a_default() {
    let header = header_of(" H3 W5").unwrap();
    assert_eq!(header.format, PixelFormat::I420);
    assert_eq!(header.frame_rate, FrameRate::new(25, 1).unwrap());
    assert_eq!(header.interlacing, Interlacing::Unknown);
    assert_eq!((header.siting, header.sample_aspect), (None, None));
    assert!(!header.colour.full_range);
    assert_eq!(header_of(" H3 W5 F0:0 A0:0").unwrap(), header);
}

#[test]
fn lines_may_end_as_those_of_windows_do() {
    for chop in 1..40 {
        let (header, pictures) =
            read_all(b"YUV4MPEG2 W2 H1 Cmono\r\nFRAME\r\nabFRAME X\r\ncdFRAME\nef", chop).unwrap();
        assert_eq!((header.unwrap().format.chroma, pictures.len()), (Chroma::Mono, 3));
    }
    assert!(read_all(b"YUV4MPEG2 W2 H1 Cmono\nFRAME\rab", 3).is_err());
}

#[test]
fn colour_spaces_are_told_apart() {
    let format = |space: &str| header_of(&format!(" W2 H2 C{space}")).map(|header| header.format);
    let expect = |chroma, depth_bits| Ok(PixelFormat::planar(chroma, depth_bits));
    assert_eq!(format("420paldv"), expect(Chroma::Yuv420, 8));
    assert_eq!(format("422"), expect(Chroma::Yuv422, 8));
    assert_eq!(format("444"), expect(Chroma::Yuv444, 8));
    assert_eq!(format("mono"), expect(Chroma::Mono, 8));
    assert_eq!(format("420p10"), expect(Chroma::Yuv420, 10));
    assert_eq!(format("422p12"), expect(Chroma::Yuv422, 12));
    assert_eq!(format("444p16"), expect(Chroma::Yuv444, 16));
    assert_eq!(format("mono10"), expect(Chroma::Mono, 10));
    assert_eq!(format("411"), expect(Chroma::Yuv411, 8));
    assert_eq!(format("420p8"), expect(Chroma::Yuv420, 8));
    assert_eq!(format("444p8"), expect(Chroma::Yuv444, 8));
    for unknown in ["410", "444alpha", "420p17", "420p", "", "420p+9x"] {
        assert!(matches!(format(unknown), Err(Y4mError::ColourSpace(_))), "{unknown}");
    }
}

#[test]
fn the_old_place_of_the_colour_space_is_read_where_the_new_one_is_missing() {
    let format = |line: &str| header_of(&format!(" W2 H2{line}")).unwrap().format.chroma;
    assert_eq!(format(" XYSCSS=422"), Chroma::Yuv422);
    assert_eq!(format(" C444 XYSCSS=420JPEG"), Chroma::Yuv444);
    assert_eq!(format(" XYSCSS=410"), Chroma::Yuv420);
}

#[test]
fn streams_may_be_put_one_behind_the_other_where_they_are_alike() {
    let stream = |line: &str| format!("YUV4MPEG2 {line}\nFRAME\nabFRAME\ncd");
    let one = stream("W2 H1 F25:1 Cmono");
    for chunk in [1, 3, 1000] {
        let (_, pictures) = read_all((one.clone() + &one).as_bytes(), chunk).unwrap();
        assert_eq!(pictures.len(), 4);
        assert_eq!(pictures[2].planes()[0].line(0), b"ab");
        for other in ["W1 H2 F25:1 Cmono", "W2 H1 F50:1 Cmono", "W2 H1 F25:1 C444", "W2 H1 F25:1 It Cmono"] {
            let error = read_all((one.clone() + &stream(other)).as_bytes(), chunk).unwrap_err();
            assert!(matches!(error, Y4mError::Changed { picture: 2, .. }), "{other}: {error}");
        }
    }
    assert!(matches!(read_all((one + "YUV4").as_bytes(), 2), Err(Y4mError::Truncated { picture: 2, .. })));
}

#[test]
fn what_cannot_be_is_refused_with_a_reason() {
    assert!(matches!(header_of(" W0 H2"), Err(Y4mError::Size { width: 0, height: 2 })));
    assert!(matches!(header_of(" W20000 H2"), Err(Y4mError::Size { width: 20000, .. })));
    assert!(matches!(header_of(" W16384 H16384 C444p16"), Err(Y4mError::TooLarge { .. })));
    assert_eq!(header_of(" H2"), Err(Y4mError::Missing('W')));
    assert_eq!(header_of(" W2 F25:1"), Err(Y4mError::Missing('H')));
    for tag in ["Wx", "W+2", "W99999999999", "F25:0", "F0:1", "F1:2:3", "F", "Iq"] {
        assert!(matches!(header_of(&format!(" W2 H2 {tag}")), Err(Y4mError::Tag { .. })), "{tag}");
    }
    assert!(matches!(header_of("X W2 H2"), Err(Y4mError::Word { .. })));
    assert_eq!(header_of(&format!(" W2 H2 X{}", "y".repeat(5000))), Err(Y4mError::LongLine));
}

#[test]
fn garbage_is_refused_at_its_first_wrong_byte() {
    let mut reader = Reader::new();
    assert_eq!(reader.parse(&mut &b"YUV"[..]), Ok(None));
    let error = reader.parse(&mut &b"5"[..]).unwrap_err();
    assert!(error.to_string().contains("\"YUV5\""), "{error}");
    assert_eq!(reader.parse(&mut &b"4MPEG2 W2 H2\n"[..]), Err(error.clone()));
    assert_eq!(reader.finish(), Err(error));
}

#[test]
fn frame_lines_may_have_parameters_and_must_be_there() {
    let stream = b"YUV4MPEG2 W1 H1 F10 Cmono\nFRAME Ixyz X\naFRAME\nb";
    let (_, pictures) = read_all(stream, 1).unwrap();
    assert_eq!(pictures.len(), 2);
    assert_eq!(pictures[1].planes()[0].line(0), b"b");
    assert_eq!(pictures[1].captured, Time::from_millis(100));
    let error = read_all(b"YUV4MPEG2 W1 H1 Cmono\nFRAME\naFRAMES\nb", 1).unwrap_err();
    assert!(matches!(error, Y4mError::Word { expected: "FRAME", picture: 1, .. }), "{error}");
}

#[test]
fn an_end_inside_something_is_told() {
    let stream = b"YUV4MPEG2 W2 H1 Cmono\nFRAME\nabFRAME\ncd";
    for length in 0..=stream.len() {
        let result = read_all(&stream[..length], 3);
        let whole = [22, 30, 38].contains(&length);
        assert_eq!(result.is_ok(), whole, "after {length} bytes: {result:?}");
        assert!(whole || matches!(result, Err(Y4mError::Truncated { .. })));
    }
}

#[test]
fn bits_above_the_depth_are_cleared() {
    let (_, pictures) = read_all(b"YUV4MPEG2 W1 H1 Cmono10\nFRAME\n\xff\xff", 1).unwrap();
    assert_eq!(pictures[0].planes()[0].line(0), [0xff, 0x03]);
}

#[test]
fn deep_formats_have_the_names_that_others_read() {
    for (chroma, depth_bits, name) in [
        (Chroma::Yuv420, 10, "C420p10 "),
        (Chroma::Yuv422, 10, "C422p10 "),
        (Chroma::Yuv422, 12, "C422p12 "),
        (Chroma::Yuv444, 12, "C444p12 "),
        (Chroma::Yuv444, 16, "C444p16 "),
        (Chroma::Mono, 10, "Cmono10 "),
    ] {
        let format = PixelFormat::planar(chroma, depth_bits);
        let picture = noisy(format, Size::new(5, 3).unwrap(), Time::ZERO, 9);
        let mut stream = Vec::new();
        write_header(&Header::of(&picture, FrameRate::new(25, 1).unwrap()), &mut stream).unwrap();
        assert!(String::from_utf8_lossy(&stream).contains(name), "{name}");
        write_picture(&picture, &mut stream);
        assert_eq!(read_all(&stream, 7).unwrap().1, [picture]);
    }
}

fn unwritable() -> [PixelFormat; 3] {
    let packed = |depth_bits| PixelFormat::pgroups(Chroma::Yuv422, depth_bits).unwrap();
    [packed(8), packed(10), PixelFormat::planar(Chroma::Rgb, 8)]
}

#[test]
fn what_y4m_has_no_name_for_is_refused() {
    for format in unwritable() {
        let picture = Picture::new(format, Size::new(4, 2).unwrap(), Time::ZERO);
        let mut stream = Vec::new();
        let error =
            write_header(&Header::of(&picture, FrameRate::new(25, 1).unwrap()), &mut stream).unwrap_err();
        assert_eq!((&error, stream.len()), (&Y4mError::Unwritable(format), 0));
        assert!(error.to_string().starts_with("y4m holds YCbCr in planes alone, not "), "{error}");
    }
}

#[test]
#[should_panic(expected = "not Yuv422 of 8 bits (Pgroups)")]
fn pgroups_are_never_written_as_if_they_were_planes() {
    let [packed, ..] = unwritable();
    write_picture(&Picture::new(packed, Size::new(4, 2).unwrap(), Time::ZERO), &mut Vec::new());
}

fn formats() -> impl Strategy<Value = PixelFormat> {
    let chroma = prop_oneof![
        Just(Chroma::Mono),
        Just(Chroma::Yuv411),
        Just(Chroma::Yuv420),
        Just(Chroma::Yuv422),
        Just(Chroma::Yuv444)
    ];
    (chroma, 8u8..=16).prop_map(|(chroma, depth_bits)| PixelFormat::planar(chroma, depth_bits))
}

/// A picture whose samples differ from place to place and stay within the depth.
fn noisy(format: PixelFormat, size: Size, captured: Time, seed: u32) -> Picture {
    let mut picture = Picture::new(format, size, captured);
    let mut state = seed | 1;
    for plane in picture.planes_mut() {
        for y in 0..plane.size().height as usize {
            for sample in plane.line_mut(y).chunks_mut(format.sample_bytes()) {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let value = (state >> 16) & ((1 << format.depth_bits) - 1);
                sample.copy_from_slice(&value.to_le_bytes()[..sample.len()]);
            }
        }
    }
    picture
}

proptest! {
    #[test]
    fn any_stream_survives_any_chop(
        format in formats(),
        (width, height) in (1u32..150, 1u32..40),
        (numerator, denominator) in (1u32..100_000, 1u32..2000),
        full_range: bool,
        interlacing in prop_oneof![
            Just(Interlacing::Unknown), Just(Interlacing::Progressive), Just(Interlacing::TopFirst),
            Just(Interlacing::BottomFirst), Just(Interlacing::Mixed)
        ],
        sample_aspect in proptest::option::of((1u32..100, 1u32..100)),
        count in 0u64..4,
        cuts in proptest::collection::vec(0usize..50_000, 0..20),
        seed: u32,
        straight: bool,
    ) {
        // Widths whose lines need no padding are rare otherwise.
        let width = if straight { width.next_multiple_of(128) } else { width };
        let size = Size::new(width, height).unwrap();
        let frame_rate = FrameRate::new(numerator, denominator).unwrap();
        let colour = Colour { full_range, ..Colour::UNSPECIFIED };
        let header = Header { size, frame_rate, format, siting: None, interlacing, sample_aspect, colour };
        let mut stream = Vec::new();
        write_header(&header, &mut stream).unwrap();
        let pictures: Vec<Picture> = (0..count).map(|number| {
            let mut picture = noisy(format, size, Time::ZERO + frame_rate.time_of(number), seed ^ number as u32);
            (picture.colour, picture.fields) = (colour, interlacing.fields());
            write_picture(&picture, &mut stream);
            picture
        }).collect();

        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut % (stream.len() + 1)).collect();
        cuts.extend([0, stream.len()]);
        cuts.sort_unstable();
        let mut reader = Reader::new();
        let mut read = Vec::new();
        for pair in cuts.windows(2) {
            let mut rest = &stream[pair[0]..pair[1]];
            loop {
                if let Some(room) = reader.room().filter(|_| straight && !rest.is_empty()) {
                    let (now, later) = rest.split_at(room.len().min(rest.len()));
                    room[..now.len()].copy_from_slice(now);
                    rest = later;
                    read.extend(reader.filled(now.len()));
                } else if straight && rest.len() > 1 {
                    // Byte by byte, so that what follows a line of text is read into its room.
                    let (mut first, later) = rest.split_at(1);
                    rest = later;
                    read.extend(reader.parse(&mut first).unwrap());
                } else if let Some(picture) = reader.parse(&mut rest).unwrap() {
                    read.push(picture);
                } else {
                    break;
                }
            }
        }
        prop_assert_eq!(reader.finish(), Ok(()));
        prop_assert_eq!(reader.header(), Some(&header));
        prop_assert!(read == pictures, "pictures differ");
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>, chunk in 1usize..40) {
        let _ = read_all(&bytes, chunk);
    }

    #[test]
    fn almost_a_stream_never_panics(
        line in "YUV4MPEG2( [WH][0-9]{1,3}| [FA][0-9:]{0,6}| I[ptbm?x]| C(420|422|444|mono)(p1[0-6])?){0,8}\nFRAME[ -~]{0,3}\n",
        samples: Vec<u8>,
        chunk in 1usize..40,
    ) {
        let _ = read_all(&[line.as_bytes(), &samples].concat(), chunk);
    }
}
