use super::testing::*;
use super::*;
use crate::archive::names::Session;
use crate::packager::Kind;
use glassline_media::FrameRate;
use glassline_media::bitstream::h264::ColourDescription;
use glassline_media::bitstream::hdr::Range;
use proptest::prelude::*;

fn part(number: u32, numbers: std::ops::Range<u64>) -> Vec<u8> {
    let mut writer = PartWriter::new(&name(), session(), number);
    for number in numbers {
        let (rendition, track) = (RenditionName::Video, video(1));
        writer.add_segment(rendition, &track, &segment(BEGUN, number, 1, 90_000));
        let (rendition, track) = (RenditionName::Audio(1), audio(1));
        writer.add_segment(rendition, &track, &segment(BEGUN, number, 1, 48_000));
    }
    writer.finish()
}

#[test]
fn a_part_is_written_as_the_format_says() {
    let mut writer = PartWriter::new(&name(), session(), 7);
    writer.add_segment(RenditionName::Video, &video(1), &segment(BEGUN, 101, 1, 90_000));
    writer.add_hole(&Hole {
        rendition: RenditionName::Video,
        first: 102,
        last: 103,
        from: BEGUN,
        to: later(BEGUN, Duration::from_secs(4)),
        reason: HoleReason::Spool,
    });
    writer.end(BEGUN);
    assert_eq!(writer.entries(), 2);
    let text = String::from_utf8(writer.finish()).unwrap();
    assert_eq!(text, include_str!("golden.jsonl"), "{text}");
}

#[test]
fn what_a_later_version_adds_is_left_out_and_its_major_version_is_refused() {
    let seal = |body: &str| {
        let crc = crc32c(body.as_bytes());
        let lines = body.lines().count();
        format!("{body}{{\"lines\":{lines},\"crc32c\":\"{crc:08x}\",\"also\":1}}\n")
    };
    let text = String::from_utf8(part(0, 100..101)).unwrap();
    let body: String = text.lines().take(3).map(|line| format!("{line}\n")).collect();
    let newer = body
        .replace("\"rendition\"", "\"new\":[{}],\"rendition\"")
        .replace("\"part\":0", "\"part\":0,\"x\":null");
    let read = Part::read(seal(&format!("{newer}{{\"chapter\":{{\"a\":1}}}}\n")).as_bytes()).unwrap();
    assert_eq!((read.lines.len(), read.unknown), (2, 1));
    let other = seal(&body.replace("\"version\":1", "\"version\":2,\"name\":7"));
    let error = Part::read(other.as_bytes()).unwrap_err();
    assert_eq!(error, PartError::Version(2));
    assert!(error.to_string().contains("the program that wrote it"), "{error}");
    assert_eq!(Part::read(b"{\"a\":1}\n{}\n"), Err(PartError::Foreign));
}

#[test]
fn what_cannot_be_is_refused_with_its_line() {
    let text = String::from_utf8(part(0, 100..101)).unwrap();
    let body: String = text.lines().take(3).map(|line| format!("{line}\n")).collect();
    for (from, to, what) in [
        ("\"timescale\":90000", "\"timescale\":0", "time scale"),
        ("avc1.64001F", "avc1\\\"\\nEXT", "codec"),
        ("\"rendition\":\"video\",\"number\"", "\"rendition\":\"../video\",\"number\"", "rendition"),
        ("\"duration\":180000", "\"duration\":18446744073709551615", "after all time"),
        ("\"bytes\":100100", "\"bytes\":99999999999", "4 GiB"),
        ("[0,24,20000]", "[0,18446744073709551615,2]", "key frame"),
        ("12345678\"", "1234567\"", "CRC"),
        ("2026-11-30T02:25:52.123000Z", "2026-11-31T02:25:52Z", "RFC 3339"),
    ] {
        let changed = body.replace(from, to);
        assert_ne!(changed, body, "{from}");
        let lines = changed.lines().count();
        let sealed =
            format!("{changed}{{\"lines\":{lines},\"crc32c\":\"{:08x}\"}}\n", crc32c(changed.as_bytes()));
        let error = Part::read(sealed.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("line ") && error.contains(what), "{from}: {error}");
    }
}

#[test]
fn a_part_torn_or_changed_at_any_byte_is_not_read() {
    let bytes = part(0, 100..103);
    for end in 0..bytes.len() {
        assert!(Part::read(&bytes[..end]).is_err(), "{end}");
    }
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 4;
        // A letter of the last line may change what a reader leaves out, but not what it takes.
        if let Ok(read) = Part::read(&changed) {
            assert_eq!(read, Part::read(&bytes).unwrap(), "{at}");
        }
    }
}

#[test]
fn parts_come_in_any_order_and_a_missing_one_is_told() {
    let parts = [part(0, 100..105), part(1, 105..110), part(3, 115..120)];
    let read = |order: [usize; 3]| {
        let mut recording = Recording::new(name(), session());
        for index in order {
            recording.add_part(Part::read(&parts[index]).unwrap()).unwrap();
        }
        recording
    };
    let recording = read([0, 1, 2]);
    assert_eq!(recording, read([2, 0, 1]));
    assert_eq!((recording.parts(), recording.missing_parts(), recording.next_part()), (3, 1, 4));
    assert_eq!(recording.segments(RenditionName::Video).count(), 15);
    assert_eq!(recording.renditions().collect::<Vec<_>>(), [RenditionName::Video, RenditionName::Audio(1)]);
    assert_eq!(recording.span(), Some((BEGUN, later(BEGUN, Duration::from_secs(40)))));
    let mut again = recording.clone();
    assert_eq!(again.add_part(Part::read(&parts[0]).unwrap()), Err(Refused::Repeated));
    let mut other = Recording::new(name(), Session::new(later(BEGUN, Duration::from_secs(1))));
    assert_eq!(other.add_part(Part::read(&parts[0]).unwrap()), Err(Refused::Other));
    assert_eq!(again, recording);
}

#[test]
fn what_is_there_as_mpeg_ts_is_told_beside_and_a_reader_of_before_passes_it_over() {
    let mut writer = PartWriter::new(&name(), session(), 1);
    writer.add_segment(RenditionName::Video, &video(1), &segment(BEGUN, 101, 1, 90_000));
    let ts = |number, bytes| MpegTsSegment { number, bytes, crc32c: 0x0a1b };
    writer.add_mpeg_ts(ts(101, 500));
    writer.add_mpeg_ts(ts(u64::MAX, 1));
    assert_eq!(writer.entries(), 3);
    let bytes = writer.finish();
    let text = std::str::from_utf8(&bytes).unwrap();
    assert!(text.contains("\n{\"ts\":{\"number\":101,\"bytes\":500,\"crc32c\":\"00000a1b\"}}\n"), "{text}");
    let part = Part::read(&bytes).unwrap();
    assert_eq!((part.write(), part.unknown), (bytes.clone(), 0));
    let mut recording = Recording::new(name(), session());
    recording.add_part(part).unwrap();
    // What a later part says counts, whichever is read first.
    recording.add(0, Line::MpegTs(ts(101, 900)));
    assert_eq!((recording.mpeg_ts(101), recording.mpeg_ts(102)), (Some(ts(101, 500)), None));
    recording.add(2, Line::MpegTs(ts(101, 700)));
    assert_eq!((recording.mpeg_ts(101), recording.bytes()), (Some(ts(101, 700)), 100_101 + 701));
    assert_eq!(recording.mpeg_ts_segments().count(), 2);
    for (bad, what) in [
        ("{\"ts\":{\"number\":1,\"bytes\":0,\"crc32c\":\"00000000\"}}", "no bytes"),
        ("{\"ts\":{\"number\":1,\"bytes\":9999999999,\"crc32c\":\"00000000\"}}", "4 GiB"),
        ("{\"ts\":{\"number\":1,\"bytes\":1,\"crc32c\":\"+0000000\"}}", "CRC"),
        ("{\"ts\":{\"number\":-1,\"bytes\":1,\"crc32c\":\"00000000\"}}", "invalid value"),
    ] {
        let error = Line::from_json(bad).unwrap_err();
        assert!(error.contains(what), "{bad}: {error}");
    }
}

#[test]
fn a_hole_takes_away_what_was_told_before_it_in_any_order() {
    let hole = Hole {
        rendition: RenditionName::Video,
        first: 101,
        last: u64::MAX,
        from: BEGUN,
        to: BEGUN,
        reason: HoleReason::of("a reason of next year"),
    };
    let mut writer = PartWriter::new(&name(), session(), 1);
    writer.add_hole(&hole);
    writer.add_segment(RenditionName::Video, &video(1), &segment(BEGUN, 103, 1, 90_000));
    let (first, second) = (part(0, 100..105), writer.finish());
    let numbers = |parts: [&[u8]; 2]| {
        let mut recording = Recording::new(name(), session());
        for bytes in parts {
            recording.add_part(Part::read(bytes).unwrap()).unwrap();
        }
        assert_eq!(recording.holes().next().map(|hole| hole.reason), Some(HoleReason::Other));
        let bytes: u64 = recording
            .renditions()
            .flat_map(|name| recording.segments(name))
            .map(|segment| segment.bytes)
            .sum();
        assert_eq!(recording.bytes(), bytes);
        recording.segments(RenditionName::Video).map(|segment| segment.number).collect::<Vec<_>>()
    };
    assert_eq!(numbers([&first, &second]), [100, 103]);
    assert_eq!(numbers([&second, &first]), [100, 103]);
}

#[test]
fn a_segment_of_no_track_or_of_absurd_length_is_left_out_and_counted() {
    let mut recording = Recording::new(name(), session());
    recording.add(0, Line::Segment(RenditionName::Video, segment(BEGUN, 100, 1, 90_000)));
    recording.add(0, Line::Track(RenditionName::Video, video(1)));
    let long = RecordedSegment { duration: 90_000 * 3601, ..segment(BEGUN, 101, 1, 90_000) };
    recording.add(0, Line::Segment(RenditionName::Video, long));
    assert_eq!((recording.left_out(), recording.bytes()), (2, 0));
    assert_eq!(recording.span(), None);
}

fn track() -> impl Strategy<Value = (RenditionName, TrackInfo)> {
    let kind =
        prop_oneof![
            (
                any::<u32>(),
                any::<u32>(),
                proptest::option::of((1u32.., 1u32..)),
                any::<Option<(bool, u8, u8, u8)>>(),
                0..3usize
            )
                .prop_map(|(width_px, height_px, rate, colour, range)| {
                    let kind =
                        Kind::Video {
                            width_px,
                            height_px,
                            frame_rate: rate
                                .and_then(|(numerator, denominator)| FrameRate::new(numerator, denominator)),
                            sample_aspect: rate.map(|(width, height)| (width as u16 | 1, height as u16 | 1)),
                            colour: colour.map(|(full_range, primaries, transfer, matrix)| {
                                ColourDescription { full_range, primaries, transfer, matrix }
                            }),
                            range: [Range::Sdr, Range::Hlg, Range::Pq][range],
                        };
                    (RenditionName::Video, kind)
                }),
            (any::<u16>(), any::<u32>(), 1..=crate::packager::AUDIO_MAX, proptest::option::of("[a-z]{3}"))
                .prop_map(|(channels, rate_hz, number, language)| {
                    let language = language.map(|text| text.as_bytes().try_into().unwrap());
                    (RenditionName::Audio(number), Kind::Audio { channels, rate_hz, language })
                }),
        ];
    (kind, any::<(u32, u32, u32, u32)>(), 1u32.., "[a-zA-Z0-9.-]{1,40}").prop_map(
        |((name, kind), (epoch, sample_ticks, chunk_ticks, part_ticks), timescale, codec)| {
            (name, TrackInfo { epoch, codec, timescale, kind, sample_ticks, chunk_ticks, part_ticks })
        },
    )
}

fn recorded() -> impl Strategy<Value = RecordedSegment> {
    let micros = || 0..u64::MAX / 1000;
    let keys = proptest::collection::vec((any::<u16>(), any::<u16>(), any::<u16>()), 0..4);
    (any::<(u64, u32, u32, bool, bool, u32)>(), any::<u32>(), any::<u32>(), micros(), keys).prop_map(
        |((number, epoch, start, captured, independent, crc32c), duration, bytes, micros, keys)| {
            RecordedSegment {
                number,
                epoch,
                start: start.into(),
                duration: u64::from(duration) + 65_536,
                utc: Utc::from_micros(micros),
                captured,
                independent,
                bytes: u64::from(bytes) + 131_072,
                crc32c,
                key_frames: keys
                    .into_iter()
                    .map(|(time, offset, size)| KeyFrame {
                        time: time.into(),
                        offset_bytes: offset.into(),
                        size_bytes: size.into(),
                    })
                    .collect(),
            }
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read(tracks in proptest::collection::vec((track(), recorded()), 0..6), ended in proptest::option::of(0..u64::MAX / 1000), number in 0..=crate::archive::names::INDEX_PART_MAX) {
        let mut writer = PartWriter::new(&name(), session(), number);
        for ((rendition, track), segment) in &tracks {
            writer.add_segment(*rendition, track, segment);
        }
        if let Some(micros) = ended {
            writer.end(Utc::from_micros(micros));
        }
        let bytes = writer.finish();
        let part = Part::read(&bytes).unwrap();
        let read: Vec<_> = part.lines.iter().filter_map(|line| match line {
            Line::Segment(name, segment) => Some((*name, segment.clone())),
            _ => None,
        }).collect();
        prop_assert_eq!(read, tracks.iter().map(|((name, _), segment)| (*name, segment.clone())).collect::<Vec<_>>());
        for line in &part.lines {
            if let Line::Track(name, track) = line {
                prop_assert!(tracks.iter().any(|(known, _)| known.0 == *name && known.1 == *track));
            }
        }
        prop_assert_eq!(part.lines.last() == ended.map(|micros| Line::Ended(Utc::from_micros(micros))).as_ref(), ended.is_some() || part.lines.is_empty());
        prop_assert_eq!(part.write(), bytes);
        prop_assert_eq!((part.number, part.session, part.unknown), (number, session(), 0));
    }

    #[test]
    fn no_bytes_panic(bytes: Vec<u8>, cut in 0..4000usize, at in 0..4000usize, with: u8) {
        let _ = Part::read(&bytes);
        let mut whole = part(0, 100..105);
        if let Some(byte) = whole.get_mut(at) {
            *byte = with;
        }
        whole.truncate(cut);
        let _ = Part::read(&whole);
    }
}
