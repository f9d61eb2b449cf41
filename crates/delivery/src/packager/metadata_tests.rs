//! Events and date ranges of streams with KLV and cues beside the pictures.

use super::*;
use crate::packager::testing::*;
use crate::packager::{RenditionName, Settings};
use crate::playlist::{Carried, Variant, check, dash, hls};
use glassline_media::bitstream::klv::uas;
use glassline_media::container::cmaf;
use glassline_media::container::ts::psi::{Pat, Pmt, write_packets};
use glassline_media::container::ts::{AudioFormat, DataWriter, ElementaryStream, MuxSettings, Muxer};
use glassline_media::{Codec, Utc};
use proptest::prelude::*;

#[path = "metadata_bounds_tests.rs"]
mod bounds;

const KLV: u16 = 0x1f0;
const CUES: u16 = 0x1f1;

/// A section with its checksum.
fn section(command: &[u8], kind: u8, descriptors: &[u8]) -> Bytes {
    let mut out = vec![0xfc, 0x30, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xf0, command.len() as u8, kind];
    out.extend_from_slice(command);
    out.extend_from_slice(&(descriptors.len() as u16).to_be_bytes());
    out.extend_from_slice(descriptors);
    let length = out.len() + 1;
    (out[1], out[2]) = (0x30 | (length >> 8) as u8, length as u8);
    let mut crc = u32::MAX;
    for byte in &out {
        crc ^= u32::from(*byte) << 24;
        for _ in 0..8 {
            crc = crc << 1 ^ if crc >> 31 == 1 { 0x04c1_1db7 } else { 0 };
        }
    }
    out.extend_from_slice(&crc.to_be_bytes());
    out.into()
}

/// `splice_insert` for `pts`, or at once, out for 4 s or in.
fn insert(event_id: u32, pts: Option<i64>, is_out: bool) -> Bytes {
    insert_of(1, true, event_id, pts, is_out)
}

/// The same of a program with this number; it is returned to by itself, or not.
fn insert_of(program: u8, returns: bool, event_id: u32, pts: Option<i64>, is_out: bool) -> Bytes {
    let mut command = event_id.to_be_bytes().to_vec();
    let flags = if is_out { 0xe0 } else { 0x40 } | if pts.is_none() { 0x10 } else { 0 } | 0x0f;
    command.extend_from_slice(&[0x7f, flags]);
    if let Some(pts) = pts {
        command.extend_from_slice(&(0xfe_0000_0000 | pts as u64).to_be_bytes()[3..]);
    }
    if is_out {
        let flags = if returns { 0xfe_0000_0000u64 } else { 0x7e_0000_0000 };
        command.extend_from_slice(&(flags | 360_000).to_be_bytes()[3..]);
    }
    command.extend_from_slice(&[0, program, 0, 0]);
    section(&command, 5, &[])
}

/// `time_signal` for `pts` with a segmentation descriptor of this type.
fn signal(event_id: u32, pts: i64, kind: u8) -> Bytes {
    let mut descriptor = vec![2, 15, b'C', b'U', b'E', b'I'];
    descriptor.extend_from_slice(&event_id.to_be_bytes());
    descriptor.extend_from_slice(&[0x7f, 0xbf, 0, 0, kind, 1, 1]);
    section(&(0xfe_0000_0000 | pts as u64).to_be_bytes()[3..], 6, &descriptor)
}

fn klv(number: i64) -> Bytes {
    uas::Set { time_micros: Some(number as u64), ..uas::Set::default() }.write().into()
}

fn cue(data: &Bytes) -> DataUnit {
    let info = SpliceInfo::parse(data).expect("a right section");
    let pts = info.time().map(|time| Ticks(time as i64));
    DataUnit { kind: DataKind::Splice, data: data.clone(), pts }
}

fn checked() -> Checked {
    let mut streams = video_and_aac().streams;
    streams.insert(0, DataWriter::new(KLV, DataKind::Klv { synchronous: true }).announced());
    streams.push(DataWriter::new(CUES, DataKind::Splice).announced());
    Checked::new(Settings::default(), &program(streams))
}

/// The events in front of each chunk of the pictures, with where that is presented and where it ends.
fn chunks(checked: &Checked) -> Vec<(u64, u64, Vec<EventMessage>)> {
    let name = RenditionName::Video;
    let mut reader = cmaf::Reader::new();
    let init = checked.inits.iter().find(|((rendition, _), _)| *rendition == name).expect("a header").1;
    reader.push(init).expect("CMAF");
    for ((rendition, _), grown) in &checked.segments {
        if *rendition == name {
            reader.push(&grown.bytes).expect("CMAF");
        }
    }
    let (mut found, mut events) = (Vec::new(), Vec::new());
    while let Some(event) = reader.poll() {
        match event {
            cmaf::Event::Message(message) => events.push(message),
            cmaf::Event::Chunk(chunk) => {
                let samples = &chunk.runs[0].samples;
                let first = samples[0].decode_time;
                let length: u64 = samples.iter().map(|sample| u64::from(sample.duration)).sum();
                found.push((first, first + length, std::mem::take(&mut events)));
            }
            _ => {}
        }
    }
    assert!(events.is_empty(), "events stand in front of a chunk");
    found
}

fn playlist(checked: &Checked, name: RenditionName) -> String {
    let presentation = checked.packager.presentation();
    check::all(presentation);
    hls::media(presentation, name, &hls::MediaOptions::default()).expect("a playlist")
}

fn ranges(checked: &Checked) -> Vec<String> {
    let text = playlist(checked, RenditionName::Video);
    let lines = text.lines().filter(|line| line.starts_with("#EXT-X-DATERANGE"));
    lines.map(str::to_owned).collect()
}

fn date(ticks: i64) -> String {
    crate::playlist::date_time(Utc::from_nanos(BEGUN.as_nanos() + (ticks * 100_000 / 9) as u64))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_owned(), |text, byte| format!("{text}{byte:02X}"))
}

#[test]
fn klv_stands_in_front_of_the_picture_of_its_time() {
    let mut checked = checked();
    for index in 0..200i64 {
        let pts = index * PICTURE;
        // Each fifth picture has a set, which comes two pictures before it.
        if (index + 2) % 5 == 0 {
            let unit = DataUnit {
                kind: DataKind::Klv { synchronous: true },
                data: klv(index + 2),
                pts: Some(Ticks(pts + 2 * PICTURE)),
            };
            checked.packager.push_data(KLV, unit, BEGUN);
        }
        checked.push(VIDEO, &picture(index % 50 == 0, 100, pts));
        checked.push(SOUND, &aac(60, index * 1920));
    }
    let (mut count, mut ids) = (0, std::collections::BTreeSet::new());
    for (start, end, events) in chunks(&checked) {
        for event in events {
            let EventTime::At(time) = event.presentation_time else { panic!("{event:?}") };
            assert!((start..end).contains(&time), "{time} in {start}..{end}");
            assert_eq!((&*event.scheme_id_uri, &*event.value), ("urn:misb:KLV:bin:1910.1", "KLV0:01FC"));
            assert_eq!(event.message_data, klv(time as i64 / PICTURE));
            assert!(ids.insert(event.id), "each is an event of its own");
            count += 1;
        }
    }
    // The first comes before an epoch has begun.
    assert!((37..=40).contains(&count), "{count}");
    assert_eq!(ranges(&checked), Vec::<String>::new());
}

#[test]
fn klv_without_a_stamp_or_with_a_wild_one_goes_with_the_next_picture() {
    let mut checked = checked();
    feed(&mut checked, 0, 100, 50);
    for pts in [None, Some(1 << 40), Some(-(1 << 40))] {
        checked.packager.push_data(KLV, klv_unit(klv(1), pts), BEGUN);
    }
    checked.packager.push_data(0x99, klv_unit(klv(1), None), BEGUN);
    feed(&mut checked, 100, 1, 50);
    let (start, _, events) = chunks(&checked).pop().unwrap();
    assert_eq!((start, events.len()), (100 * PICTURE as u64, 3));
    assert!(events.iter().all(|event| event.presentation_time == EventTime::At(start)));
    // More than wait for their time go early.
    for _ in 0..100 {
        checked.packager.push_data(KLV, klv_unit(klv(1), Some(108 * PICTURE)), BEGUN);
    }
    feed(&mut checked, 101, 1, 50);
    assert_eq!(chunks(&checked).pop().unwrap().2.len(), 100 - AHEAD_MAX);
    assert_eq!(checked.packager.presentation().dropped_events(), 0);
}

fn klv_unit(data: Bytes, pts: Option<i64>) -> DataUnit {
    DataUnit { kind: DataKind::Klv { synchronous: true }, data, pts: pts.map(Ticks) }
}

#[test]
fn a_splice_is_announced_at_once_and_is_a_range_of_the_playlists() {
    let mut checked = checked();
    feed(&mut checked, 0, 100, 50);
    let (out, back) = (insert(7, Some(200 * PICTURE), true), insert(7, Some(290 * PICTURE), false));
    // Sent three times, and once in a version for another moment, as by writers that count down.
    for _ in 0..3 {
        checked.packager.push_data(CUES, cue(&out), BEGUN);
        checked.packager.push_data(CUES, cue(&section(&[], 0, &[])), BEGUN);
        feed(&mut checked, 0, 0, 50);
    }
    checked.packager.push_data(CUES, cue(&insert(7, Some(201 * PICTURE), true)), BEGUN);
    feed(&mut checked, 100, 1, 50);
    let (start, _, events) = chunks(&checked).pop().unwrap();
    assert_eq!((start, events.len()), (100 * PICTURE as u64, 4));
    assert_eq!(events[0].presentation_time, EventTime::At(200 * PICTURE as u64));
    assert_eq!((&*events[0].scheme_id_uri, &*events[0].value), ("urn:scte:scte35:2013:bin", "497"));
    assert_eq!((events[0].duration, &events[0].message_data[..]), (360_000, &out[..]));
    assert!(events[..3].iter().all(|event| event.id == events[0].id), "repeats are one event");
    let begin = format!(
        "#EXT-X-DATERANGE:ID=\"splice-7-{}\",START-DATE=\"{}\"",
        BEGUN.as_nanos() / 1_000_000 + 8000,
        date(200 * PICTURE)
    );
    let left = format!("{begin},PLANNED-DURATION=4.000,SCTE35-OUT={}", hex(&out));
    assert_eq!(ranges(&checked), std::slice::from_ref(&left));
    assert!(playlist(&checked, RenditionName::Audio(1)).contains(&left), "in each playlist");
    let transport = hls::mpeg_ts(checked.packager.presentation(), 0..=9, &Carried::default()).unwrap();
    assert!(transport.contains(&left), "{transport}");
    feed(&mut checked, 101, 180, 50);
    checked.packager.push_data(CUES, cue(&back), BEGUN);
    let returned = format!("{begin},DURATION=3.600,SCTE35-IN={}", hex(&back));
    assert_eq!(ranges(&checked), [left, returned]);
}

#[test]
fn a_late_joiner_sees_the_ranges_of_its_window_only() {
    let settings = Settings { window: std::time::Duration::from_secs(10), ..Settings::default() };
    let mut streams = video_and_aac().streams;
    streams.push(DataWriter::new(CUES, DataKind::Splice).announced());
    let mut checked = Checked::new(settings, &program(streams));
    feed(&mut checked, 0, 60, 50);
    checked.packager.push_data(CUES, cue(&insert(1, Some(60 * PICTURE), true)), BEGUN);
    checked.packager.push_data(CUES, cue(&signal(2, 60 * PICTURE, 0x34)), BEGUN);
    checked.packager.push_data(CUES, cue(&signal(3, 60 * PICTURE, 0x10)), BEGUN);
    assert_eq!(ranges(&checked).len(), 3);
    feed(&mut checked, 60, 500, 50);
    // The first has lasted 4 s, the last is a moment; of the second one no end is known.
    let left = ranges(&checked);
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(left[0].contains("ID=\"segmentation-2-34-") && left[0].contains("SCTE35-OUT="), "{left:?}");
    checked.packager.push_data(CUES, cue(&signal(2, 560 * PICTURE, 0x35)), BEGUN);
    assert_eq!(ranges(&checked).len(), 2);
    feed(&mut checked, 560, 500, 50);
    assert_eq!(ranges(&checked), Vec::<String>::new());
}

#[test]
fn commands_of_all_kinds_have_the_attribute_that_the_draft_gives_them() {
    let mut checked = checked();
    feed(&mut checked, 0, 100, 50);
    let mut both = signal(5, 120 * PICTURE, 0x30)[19 + 2..].to_vec();
    both.truncate(17);
    both.extend_from_slice(&signal(6, 120 * PICTURE, 0x22)[21..38]);
    let two = section(&(0xfe_0000_0000u64 | 432_000).to_be_bytes()[3..], 6, &both);
    let lone = insert(9, None, false);
    let unnamed = section(&(0xfe_0000_0000u64 | 500_000).to_be_bytes()[3..], 6, &[]);
    let private = section(b"ABCD", 0xff, &[]);
    for data in [&two, &lone, &unnamed, &private, &section(b"EFGH", 0xff, &[])] {
        checked.packager.push_data(CUES, cue(data), BEGUN);
    }
    let found = ranges(&checked);
    let attributes: Vec<_> =
        found.iter().map(|line| line.split("SCTE35-").nth(1).unwrap().split_once('=').unwrap().0).collect();
    assert_eq!(attributes, ["OUT", "OUT", "IN", "CMD", "CMD", "CMD"]);
    assert!(found[0].contains("segmentation-5-30-") && found[1].contains("segmentation-6-22-"), "{found:?}");
    // At once is where the pictures are.
    assert!(found[2].contains(&format!("START-DATE=\"{}\"", date(100 * PICTURE))), "{found:?}");
    // What is cancelled before it begins is not told.
    checked.packager.push_data(CUES, cue(&insert(11, Some(300 * PICTURE), true)), BEGUN);
    assert_eq!(ranges(&checked).len(), 7);
    checked.packager.push_data(CUES, cue(&section(&[0, 0, 0, 11, 0xff], 5, &[])), BEGUN);
    assert_eq!(ranges(&checked), found);
}

#[test]
fn a_cue_that_comes_before_the_first_picture_is_told_with_it_and_ranges_are_bounded() {
    let mut checked = checked();
    let out = insert(7, Some(20 * PICTURE), true);
    checked.packager.push_data(CUES, cue(&out), BEGUN);
    feed(&mut checked, 0, 60, 50);
    assert!(
        chunks(&checked).iter().any(|(_, _, events)| events.iter().any(|event| event.message_data == out))
    );
    assert_eq!(ranges(&checked).len(), 1);
    for event in 0..200 {
        checked.packager.push_data(CUES, cue(&insert(event, Some(70 * PICTURE), true)), BEGUN);
    }
    assert_eq!(ranges(&checked).len(), 64);
}

#[test]
fn manifests_of_dash_name_the_streams_of_events() {
    let mut checked = checked();
    feed(&mut checked, 0, 178, 50);
    for addressing in [dash::Addressing::Number, dash::Addressing::Timeline] {
        let variants = [Variant::alone(checked.packager.presentation())];
        let text = dash::mpd(&variants, addressing, &dash::Options::default()).unwrap();
        let klv = "<InbandEventStream schemeIdUri=\"urn:misb:KLV:bin:1910.1\" value=\"KLV0:01FC\"/>";
        let cues = "<InbandEventStream schemeIdUri=\"urn:scte:scte35:2013:bin\" value=\"497\"/>";
        assert_eq!((text.matches(klv).count(), text.matches(cues).count()), (1, 1), "{text}");
        let set = text.split("<AdaptationSet").nth(1).unwrap();
        assert!(set.contains("contentType=\"video\"") && set.contains(klv) && set.contains(cues), "{text}");
    }
    assert!(checked.packager.left_out().is_empty(), "{:?}", checked.packager.left_out());
}

/// bluenviron/mediamtx #3811: what stands beside the pictures, and where, makes no difference to what viewers play.
#[test]
fn no_stream_of_data_and_no_place_of_it_breaks_what_is_played() {
    let of_klv = |synchronous| DataWriter::new(KLV, DataKind::Klv { synchronous }).announced();
    let other =
        |stream_type, descriptors: &[u8]| ElementaryStream::new(KLV, stream_type, descriptors.to_vec());
    let all = [
        of_klv(false),
        of_klv(true),
        other(0x06, &[0x56, 5, b'd', b'e', b'u', 9, 0]),
        other(0x06, &[]),
        other(0x05, &[]),
        other(0x15, &[]),
        other(0x86, &[]),
    ];
    let plain = sizes(&transport_stream(None, VIDEO));
    assert!(plain.len() >= 4 && plain.iter().all(|size| *size > 5000), "{plain:?}");
    for stream in all {
        for pcr_pid in [0x100, KLV] {
            let found = sizes(&transport_stream(Some(stream.clone()), pcr_pid));
            assert_eq!(found.len(), plain.len(), "{stream:?}, clock on {pcr_pid}");
            // Events are the only bytes that are added.
            assert!(
                found.iter().zip(&plain).all(|(found, plain)| found >= plain),
                "{stream:?}: {found:?}, {plain:?}"
            );
        }
    }
}

/// Six seconds of pictures and sound behind tables with this stream in front, which has KLV, clocked by one of its PIDs.
fn transport_stream(data: Option<ElementaryStream>, pcr_pid: u16) -> Vec<u8> {
    let audio = AudioFormat { codec: Codec::Aac, channels: 2, language: None, he_aac: None };
    let settings = MuxSettings { video: Some(Codec::H264), audio: Some(audio), ..MuxSettings::default() };
    let mut muxer = Muxer::new(settings).unwrap();
    let mut out = Vec::new();
    let mut writer = DataWriter::new(KLV, DataKind::Klv { synchronous: false });
    let mut tables = (0, 0);
    for index in 0..150i64 {
        let pts = 90_000 + index * PICTURE;
        let mut bytes = Vec::new();
        muxer.write(&picture(index % 50 == 0, 500, pts), &mut bytes).unwrap();
        muxer.write(&aac(80, pts), &mut bytes).unwrap();
        for packet in bytes.chunks(188) {
            let pid = u16::from_be_bytes([packet[1] & 0x1f, packet[2]]);
            match (&data, pid) {
                (Some(data), 0 | 0x1000) => write_table(pid, data, pcr_pid, &mut tables, &mut out),
                _ => out.extend_from_slice(packet),
            }
        }
        if data.is_some() {
            writer.write(&klv(index), (index % 3 > 0).then_some(Ticks(pts)), &mut out);
        }
    }
    out
}

/// A table of the program with this stream in front.
fn write_table(pid: u16, data: &ElementaryStream, pcr_pid: u16, counters: &mut (u8, u8), out: &mut Vec<u8>) {
    let mut section = Vec::new();
    if pid == 0 {
        Pat { transport_stream_id: 1, version: 0, current: true, programs: vec![(1, 0x1000)] }
            .write(&mut section);
        return write_packets(pid, &section, &mut counters.0, out);
    }
    let own = [(0x100, 0x1b), (0x101, 0x0f)].map(|(pid, kind)| ElementaryStream::new(pid, kind, Vec::new()));
    let streams = [data.clone()].into_iter().chain(own).collect();
    Pmt { program_number: 1, version: 0, current: true, pcr_pid, streams }.write(&mut section);
    write_packets(pid, &section, &mut counters.1, out);
}

/// How many bytes the segments have that a transport stream becomes.
fn sizes(bytes: &[u8]) -> Vec<usize> {
    let mut intake = Intake::new(crate::stream::Mux::MpegTs, Settings::default());
    bytes.chunks(1000).for_each(|chunk| intake.push(chunk, BEGUN, None));
    intake.finish(BEGUN);
    let mut sizes = std::collections::BTreeMap::new();
    while let Some(event) = intake.poll() {
        if let crate::packager::Event::Chunk { rendition, segment, bytes, .. } = event {
            *sizes.entry((rendition, segment)).or_insert(0) += bytes.len();
        }
    }
    check::all(intake.packager.presentation());
    sizes.into_values().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whatever cues come, in any order and for any time, playlists stay right, and no attribute that was told changes.
    #[test]
    fn no_sequence_of_cues_breaks_a_playlist(
        cues in proptest::collection::vec((0u32..4, proptest::option::of(0i64..1 << 33), any::<bool>(), 0usize..4), 1..60),
    ) {
        let mut checked = checked();
        feed(&mut checked, 0, 60, 50);
        let mut told: std::collections::BTreeMap<String, String> = std::collections::BTreeMap::new();
        for ((event, pts, is_out, kind), index) in cues.into_iter().zip(60..) {
            let data = match kind {
                0 => insert(event, pts, is_out),
                1 => signal(event, pts.unwrap_or(0), if is_out { 0x34 } else { 0x35 }),
                2 => signal(event, pts.unwrap_or(0), 0x10),
                _ => section(&[&event.to_be_bytes()[..], &[0xff]].concat(), 5, &[]),
            };
            checked.packager.push_data(CUES, cue(&data), BEGUN);
            feed(&mut checked, index, 1, 50);
            for line in ranges(&checked) {
                let (begin, rest) = line.split_once(",START-DATE=").unwrap();
                let kind = if rest.contains("SCTE35-IN") { "in" } else { "out" };
                let known = told.entry(format!("{begin}{kind}")).or_insert_with(|| rest.to_owned());
                if *known != rest && kind == "in" {
                    // A return may be moved as long as it is ahead.
                    let (start, duration) = known.split_once(",DURATION=").expect("a break that was left");
                    let begin = format!("{start},DURATION=");
                    prop_assert!(rest.starts_with(&begin));
                    let secs: f64 = duration.split(',').next().unwrap().parse().unwrap();
                    let ahead = Utc::from_nanos(BEGUN.as_nanos() + ((index * PICTURE) as f64 * 1e5 / 9.0 - secs * 1e9).max(0.0) as u64);
                    let ahead = crate::playlist::date_time(ahead);
                    prop_assert!(start.trim_matches('"') >= &*ahead, "{start} {duration} {ahead}");
                    *known = rest.to_owned();
                }
                prop_assert_eq!(&*known, rest);
            }
        }
    }
}
