use super::super::index::{Line, RecordedSegment, Recording, crc32c};
use super::super::names::Session;
use super::super::query::Span;
use super::super::window::Source;
use super::*;
use crate::packager::testing::{
    BEGUN, Checked, PICTURE, SECOND_SOUND, SOUND, VIDEO, aac, core_aac, feed, opus, picture, program, stream,
    video_and_aac,
};
use crate::packager::{Settings, later};
use crate::policy::StreamName;
use glassline_media::AccessUnit;
use glassline_media::container::cmaf::InitTrack;
use glassline_media::container::ts::{Demuxer, Event};
use std::collections::BTreeMap;

const SECOND: Duration = Duration::from_secs(1);

/// What was recorded of a stream, and its objects.
struct Recorded {
    recording: Recording,
    objects: BTreeMap<String, Bytes>,
}

fn recorded(checked: &Checked, begun: Utc) -> Recorded {
    let name = StreamName::parse("hall").unwrap();
    let session = Session::new(begun);
    let mut recording = Recording::new(name.clone(), session);
    let mut objects = BTreeMap::new();
    let path = |object| StoredObject { name: name.clone(), session, object }.to_string();
    for ((rendition, number), bytes) in &checked.inits {
        objects.insert(path(SessionObject::Init { rendition: *rendition, number: *number }), bytes.clone());
    }
    let moved = begun.as_nanos() - BEGUN.as_nanos();
    for rendition in checked.packager.presentation().renditions() {
        for segment in rendition.complete() {
            let track = rendition.track_in(segment.epoch).unwrap();
            recording.add(0, Line::Track(rendition.name(), track.clone()));
            // Of a gap there is no object.
            let grown = checked.segments.get(&(rendition.name(), segment.number));
            let bytes = Bytes::from(grown.map(|grown| grown.bytes.clone()).unwrap_or_default());
            let line = RecordedSegment {
                number: segment.number,
                epoch: segment.epoch,
                start: segment.start,
                duration: segment.duration,
                utc: Utc::from_nanos(segment.program_date_time.as_nanos() + moved),
                captured: segment.captured,
                independent: segment.independent,
                bytes: bytes.len() as u64,
                crc32c: crc32c(&bytes),
                key_frames: segment.key_frames.clone(),
            };
            recording.add(0, Line::Segment(rendition.name(), line));
            if bytes.is_empty() {
                continue;
            }
            let object = SessionObject::Segment { rendition: rendition.name(), segment: segment.number };
            objects.insert(path(object), bytes);
        }
    }
    Recorded { recording, objects }
}

/// Twenty seconds in segments of two seconds, with a key frame each second.
fn twenty() -> Checked {
    let mut checked = Checked::new(Settings::default(), &video_and_aac());
    feed(&mut checked, 0, 500, 25);
    checked.finish(later(BEGUN, SECOND * 20));
    checked
}

#[derive(Debug)]
struct Exported {
    report: Report,
    head: Vec<u8>,
    data: Vec<u8>,
}

fn export(sources: &[&Recorded], span: Option<Span>, container: Container) -> Result<Exported, ExportError> {
    let listed: Vec<_> =
        sources.iter().map(|source| Source { recording: &source.recording, is_running: false }).collect();
    let now = later(BEGUN, SECOND * 9999);
    let widened = span.map(|span| Plan::widened(&listed, span));
    let window = Window::of(&listed, widened, now).unwrap().unwrap();
    let plan = Plan::new(&window, span, now);
    let mut export = Export::new(&plan, container);
    let mut data = Vec::new();
    for step in &plan.steps {
        let find = |planned: &PlannedObject| {
            let bytes = sources.iter().find_map(|source| source.objects.get(&planned.object.to_string()))?;
            if let Some((length, crc)) = planned.checksum {
                assert_eq!((length, crc), (bytes.len() as u64, crc32c(bytes)));
            }
            Some(bytes.clone())
        };
        let objects: Vec<_> = step.objects.iter().map(find).collect();
        export.push(step, &objects, &mut data)?;
    }
    let (head, report) = export.finish(&mut data)?;
    Ok(Exported { report, head, data })
}

fn span(from: Duration, to: Duration) -> Option<Span> {
    Some(Span { from: later(BEGUN, from), to: Some(later(BEGUN, to)) })
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn a_file_begins_at_the_key_frame_before_and_ends_exactly() {
    let recorded = recorded(&twenty(), BEGUN);
    let exported = export(&[&recorded], span(millis(5500), millis(8300)), Container::Mp4).unwrap();
    let Report { from, duration, missing, lost_objects, renditions, .. } = exported.report;
    assert_eq!(from, later(BEGUN, millis(5000)), "there is a key frame each second");
    assert_eq!((duration, exported.report.to), (millis(3300), later(BEGUN, millis(8300))));
    assert_eq!((missing, lost_objects), (Vec::new(), 0));
    assert_eq!(renditions, [RenditionName::Video, RenditionName::Audio(1)]);
    let init = InitTrack::read(&exported.head).unwrap();
    assert_eq!((init.is_video, init.timescale), (true, 90_000));
    assert_eq!(&exported.head[exported.head.len() - 4..], b"mdat");
    let told = u32::from_be_bytes(exported.head[exported.head.len() - 8..][..4].try_into().unwrap());
    assert_eq!(told as usize, exported.data.len() + 8);
}

#[test]
fn without_a_time_it_is_all_of_it() {
    let recorded = recorded(&twenty(), BEGUN);
    let exported = export(&[&recorded], None, Container::Mp4).unwrap();
    assert_eq!(exported.report.from, BEGUN);
    assert!(exported.report.duration.abs_diff(SECOND * 20) < millis(30), "{:?}", exported.report.duration);
}

/// Stamps of a transport stream's units, in seconds: of pictures and of sound.
fn stamps(ts: &[u8]) -> [Vec<f64>; 2] {
    let mut demuxer = Demuxer::new();
    demuxer.push(ts);
    demuxer.finish();
    let mut found = [Vec::new(), Vec::new()];
    while let Some(event) = demuxer.poll() {
        if let Event::AccessUnit { unit, .. } = event {
            found[usize::from(!unit.codec.is_video())].push(unit.pts.as_secs_f64());
        }
    }
    found
}

#[test]
fn sound_stays_where_it_is_to_the_pictures() {
    let recorded = recorded(&twenty(), BEGUN);
    let exported = export(&[&recorded], span(millis(5500), millis(8300)), Container::MpegTs).unwrap();
    assert_eq!(exported.report.from, later(BEGUN, millis(5000)));
    let [pictures, sounds] = stamps(&exported.data);
    assert!((pictures.len() as f64 - 3.3 * 25.0).abs() < 1.5, "{}", pictures.len());
    // Of the stream, sound lies at multiples of 1024 samples and pictures at those of 40 ms.
    let frame = 1024.0 / 48_000.0;
    let offset = sounds[0] - pictures[0] + 5.0;
    let rounded = (offset / frame).round() * frame;
    assert!((offset - rounded).abs() < 0.001, "{offset} {rounded}");
    assert!((sounds[0] - pictures[0]).abs() < 2.0 * frame);
    assert!(pictures.windows(2).all(|pair| (pair[1] - pair[0] - 0.04).abs() < 0.001));
}

#[test]
fn a_hole_is_closed_and_told() {
    let mut lossy = recorded(&twenty(), BEGUN);
    let numbers: Vec<u64> =
        lossy.recording.segments(RenditionName::Video).map(|segment| segment.number).collect();
    for rendition in [RenditionName::Video, RenditionName::Audio(1)] {
        let (first, last) = (numbers[3], numbers[4]);
        let reason = super::super::index::HoleReason::Spool;
        let hole = super::super::index::Hole { rendition, first, last, from: BEGUN, to: BEGUN, reason };
        lossy.recording.add(1, Line::Hole(hole));
    }
    let exported = export(&[&lossy], span(millis(2000), millis(16_000)), Container::MpegTs).unwrap();
    assert_eq!(exported.report.missing.len(), 1);
    let Missing { rendition, from, to } = exported.report.missing[0];
    assert_eq!((rendition, to.as_nanos() - from.as_nanos()), (None, 4_000_000_000));
    let [pictures, sounds] = stamps(&exported.data);
    assert!((pictures.len() as i64 - 250).abs() <= 1, "{}", pictures.len());
    let steps = pictures.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(steps.clone().all(|step| step > 0.0 && step < 0.09), "{:?}", steps.collect::<Vec<_>>());
    assert!(sounds.windows(2).all(|pair| pair[1] > pair[0]), "sound does not go back");
    let exported = export(&[&lossy], span(millis(2000), millis(16_000)), Container::Mp4).unwrap();
    assert!(exported.report.duration.abs_diff(SECOND * 10) < millis(50), "{:?}", exported.report.duration);
}

#[test]
fn two_recordings_are_one_file() {
    let (first, second) = (recorded(&twenty(), BEGUN), recorded(&twenty(), later(BEGUN, SECOND * 3600)));
    let both = [&first, &second];
    let whole = Some(Span { from: BEGUN, to: None });
    for container in [Container::Mp4, Container::MpegTs] {
        let exported = export(&both, whole, container).unwrap();
        assert!(exported.report.duration.abs_diff(SECOND * 40) < millis(60), "{:?}", exported.report);
        assert_eq!(exported.report.missing.len(), 1);
    }
}

#[test]
fn what_is_lost_is_counted_and_the_rest_is_there() {
    let mut lossy = recorded(&twenty(), BEGUN);
    let path = lossy.objects.keys().find(|path| path.contains("/audio/") && path.ends_with(".m4s")).cloned();
    lossy.objects.remove(&path.unwrap());
    let exported = export(&[&lossy], None, Container::Mp4).unwrap();
    assert_eq!(exported.report.lost_objects, 1);
    let missing = exported.report.missing[0];
    assert_eq!((exported.report.missing.len(), missing.rendition), (1, Some(RenditionName::Audio(1))));
    assert!(!exported.report.is_whole());
    // Bytes that are none of a segment's end it with the object's name.
    let path = lossy.objects.keys().find(|path| path.contains("/video/") && path.ends_with(".m4s")).cloned();
    let broken = path.unwrap();
    let mut plan_bytes = lossy.objects[&broken].to_vec();
    plan_bytes[4..8].copy_from_slice(b"moof");
    plan_bytes.truncate(60);
    let number = broken.rsplit('/').next().unwrap().trim_end_matches(".m4s").parse::<u64>().unwrap();
    let segment = lossy.recording.segment(RenditionName::Video, number).unwrap().clone();
    let (bytes, crc32c) = (plan_bytes.len() as u64, crc32c(&plan_bytes));
    let changed = RecordedSegment { bytes, crc32c, key_frames: Vec::new(), ..segment };
    lossy.recording.add(2, Line::Segment(RenditionName::Video, changed));
    lossy.objects.insert(broken.clone(), plan_bytes.into());
    let error = export(&[&lossy], None, Container::Mp4).map(|_| ()).unwrap_err();
    assert!(error.to_string().starts_with(&broken), "{error}");
}

#[test]
fn pictures_that_are_reordered_stay_in_order() {
    // As x264 has them with two B-pictures: I P B B.
    let mut checked = Checked::new(Settings::default(), &video_and_aac());
    let mut sound = 0;
    for index in 0..200i64 {
        let order = [2, 5, 3, 4][index as usize % 4] + index / 4 * 4;
        let mut unit = picture(index % 24 == 0, 100, order * PICTURE);
        unit.dts = glassline_media::Ticks(index * PICTURE);
        checked.push(VIDEO, &unit);
        while sound * 1920 < index * PICTURE {
            checked.push(SOUND, &aac(60, sound * 1920));
            sound += 1;
        }
    }
    checked.finish(later(BEGUN, SECOND * 8));
    let recorded = recorded(&checked, BEGUN);
    let exported = export(&[&recorded], span(millis(3000), millis(6000)), Container::MpegTs).unwrap();
    let [pictures, _] = stamps(&exported.data);
    let mut sorted = pictures.clone();
    sorted.sort_by(f64::total_cmp);
    assert_eq!(pictures[0], sorted[0], "nothing is shown before the key frame");
    assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] < 0.13), "{sorted:?}");
}

/// Sizes of an MP4's samples of its first track, which are all that it has.
fn sizes(head: &[u8]) -> Vec<u32> {
    let at = head.windows(4).position(|window| window == b"stsz").unwrap() + 12;
    let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
    (0..word(at) as usize).map(|index| word(at + 4 + index * 4)).collect()
}

#[test]
fn pictures_at_uneven_steps_are_all_there() {
    // 30 a second by stamps of whole milliseconds: each is told to last until the next as long as the one before it did.
    let mut checked = Checked::new(Settings::default(), &video_and_aac());
    let mut sound = 0;
    for index in 0..300i64 {
        let pts = index * 1000 / 30 * 90;
        checked.push(VIDEO, &picture(index % 30 == 0, 100, pts));
        while sound * 1920 < pts {
            checked.push(SOUND, &aac(60, sound * 1920));
            sound += 1;
        }
    }
    checked.finish(later(BEGUN, SECOND * 10));
    let recorded = recorded(&checked, BEGUN);
    let exported = export(&[&recorded], None, Container::Mp4).unwrap();
    assert_eq!(sizes(&exported.head).len(), 300);
}

/// Eight seconds of pictures as x264 has them with two B-pictures, which are shown `depth` pictures later than they are decoded at
/// least, and sound.
fn reordered(depth: i64, keys: i64) -> Checked {
    let mut checked = Checked::new(Settings::default(), &video_and_aac());
    let mut sound = 0;
    for index in 0..200i64 {
        let order = [0, 3, 1, 2][index as usize % 4] + depth + index / 4 * 4;
        let mut unit = picture(index % keys == 0, 100, order * PICTURE);
        unit.dts = glassline_media::Ticks(index * PICTURE);
        checked.push(VIDEO, &unit);
        while sound * 1920 < (index + depth) * PICTURE {
            checked.push(SOUND, &aac(60, sound * 1920));
            sound += 1;
        }
    }
    checked.finish(later(BEGUN, SECOND * 8));
    checked
}

#[test]
fn reordered_pictures_behind_others_lose_no_key_frame() {
    let plain = recorded(&twenty(), BEGUN);
    let checked = reordered(4, 24);
    let reordered = recorded(&checked, later(BEGUN, SECOND * 60));
    let whole = Some(Span { from: BEGUN, to: None });
    let exported = export(&[&plain, &reordered], whole, Container::Mp4).unwrap();
    assert_eq!(sizes(&exported.head).len(), 700);
    let exported = export(&[&plain, &reordered], whole, Container::MpegTs).unwrap();
    let [pictures, _] = stamps(&exported.data);
    assert_eq!(pictures.len(), 700);
}

#[test]
fn a_stream_of_recovery_points_begins_at_one() {
    use crate::packager::testing::recovery;
    let mut checked = Checked::new(Settings::default(), &video_and_aac());
    for index in 0..300i64 {
        let pts = index * PICTURE;
        let unit = if index % 50 == 0 { recovery(pts) } else { picture(false, 100, pts) };
        checked.push(VIDEO, &unit);
        checked.push(SOUND, &aac(60, pts));
    }
    checked.finish(later(BEGUN, SECOND * 12));
    let recorded = recorded(&checked, BEGUN);
    let exported = export(&[&recorded], span(millis(3000), millis(6000)), Container::Mp4).unwrap();
    assert_eq!(exported.report.from, later(BEGUN, millis(2000)));
}

/// Takes the objects of a rendition in the segment `at`, counted from the first, out of the store, and out of the index if asked.
fn lose(recorded: &mut Recorded, rendition: RenditionName, at: usize, from_index: bool) -> Utc {
    let segment = recorded.recording.segments(rendition).nth(at).unwrap().clone();
    let object = SessionObject::Segment { rendition, segment: segment.number };
    let (name, session) = (recorded.recording.name().clone(), recorded.recording.session());
    recorded.objects.remove(&StoredObject { name, session, object }.to_string()).unwrap();
    if from_index {
        let (first, last, reason) = (segment.number, segment.number, super::super::index::HoleReason::Spool);
        let hole = super::super::index::Hole { rendition, first, last, from: BEGUN, to: BEGUN, reason };
        recorded.recording.add(1, Line::Hole(hole));
    }
    segment.utc
}

#[test]
fn sound_is_there_where_pictures_are_missing_and_that_is_told() {
    for from_index in [true, false] {
        for at in [0, 2, 9] {
            let mut lossy = recorded(&twenty(), BEGUN);
            let from = lose(&mut lossy, RenditionName::Video, at, from_index);
            for container in [Container::Mp4, Container::MpegTs] {
                let exported = export(&[&lossy], None, container).unwrap();
                let [missing] = exported.report.missing[..] else { panic!("{:?}", exported.report) };
                assert_eq!(missing.rendition, Some(RenditionName::Video));
                // By the sound, which has no frame that begins just then.
                let is_near = |is: Utc, wanted: Utc| is.as_nanos().abs_diff(wanted.as_nanos()) < 22_000_000;
                assert!(is_near(missing.from, from) && is_near(missing.to, later(from, SECOND * 2)));
                assert_eq!(exported.report.lost_objects, u64::from(!from_index));
                if container == Container::MpegTs {
                    let [pictures, sounds] = stamps(&exported.data);
                    assert_eq!(pictures.len(), 450);
                    assert!(sounds.len() > 930, "{at}: {}", sounds.len());
                }
            }
        }
    }
}

#[test]
fn pictures_behind_lost_ones_wait_for_a_key_frame() {
    // A key frame each six seconds, and segments that are cut without one after twelve: here of four.
    let settings = Settings { segment: millis(500), ..Settings::default() };
    let mut checked = Checked::new(settings, &video_and_aac());
    feed(&mut checked, 0, 500, 150);
    checked.finish(later(BEGUN, SECOND * 20));
    let mut lossy = recorded(&checked, BEGUN);
    let keyless: Vec<bool> =
        lossy.recording.segments(RenditionName::Video).map(|segment| !segment.independent).collect();
    assert_eq!(keyless[..4], [false, true, false, true], "three seconds each");
    lose(&mut lossy, RenditionName::Video, 2, false);
    let exported = export(&[&lossy], None, Container::MpegTs).unwrap();
    let [from, to] = [6, 12].map(|seconds| later(BEGUN, SECOND * seconds));
    assert_eq!(exported.report.missing, [Missing { rendition: Some(RenditionName::Video), from, to }]);
    let [pictures, sounds] = stamps(&exported.data);
    assert_eq!(pictures.len(), 350);
    assert!(sounds.len() > 930, "{}", sounds.len());
    // What is asked for of a segment without a key frame begins in the one before.
    let whole = recorded(&checked, BEGUN);
    for container in [Container::Mp4, Container::MpegTs] {
        let exported = export(&[&whole], span(millis(10_500), millis(11_500)), container).unwrap();
        assert_eq!(exported.report.from, later(BEGUN, SECOND * 6), "{container:?}");
        assert!(exported.report.is_whole() && exported.report.duration.abs_diff(millis(5500)) < millis(41));
    }
}

#[test]
fn what_was_asked_for_and_is_not_there_at_either_end_is_told() {
    let whole = recorded(&twenty(), later(BEGUN, SECOND * 10));
    let exported = export(&[&whole], span(SECOND * 5, SECOND * 60), Container::Mp4).unwrap();
    let ends: Vec<_> = exported.report.missing.iter().map(|missing| (missing.from, missing.to)).collect();
    let at = |seconds| later(BEGUN, SECOND * seconds);
    assert_eq!(ends[0], (at(5), at(10)));
    assert!(ends[1].1 == at(60) && ends[1].0.as_nanos().abs_diff(at(30).as_nanos()) < 50_000_000, "{ends:?}");
    // A time that has not come yet is not missing.
    let exported = export(&[&whole], Some(Span { from: at(12), to: None }), Container::Mp4).unwrap();
    assert!(exported.report.is_whole());
}

/// A recording with sound of the sampling rate of [`core_aac`], where `is_other`, or of Opus.
fn recorded_with(sound: &[i64], unit: fn(usize, i64) -> AccessUnit, begun: Utc, stream_type: u8) -> Recorded {
    let descriptors: &[u8] = if stream_type == 0x06 { b"\x05\x04Opus\x7f\x02\x80\x02" } else { &[] };
    let mut streams = vec![stream(VIDEO, 0x1b, &[])];
    if !sound.is_empty() {
        streams.push(stream(SOUND, stream_type, descriptors));
    }
    let mut checked = Checked::new(Settings::default(), &program(streams));
    let mut sound = sound.iter().peekable();
    for index in 0..200i64 {
        let pts = index * PICTURE;
        checked.push(VIDEO, &picture(index % 25 == 0, 100, pts));
        while let Some(pts) = sound.next_if(|at| **at < pts + PICTURE) {
            checked.push(SOUND, &unit(60, *pts));
        }
    }
    checked.finish(later(BEGUN, SECOND * 8));
    recorded(&checked, begun)
}

fn every(ticks: i64) -> Vec<i64> {
    (0..8 * 90_000 / ticks).map(|at| at * ticks).collect()
}

#[test]
fn sound_at_another_sampling_rate_goes_on_in_its_track_and_another_codec_in_one_of_its_own() {
    let first = recorded_with(&every(1920), aac, BEGUN, 0x0f);
    let slower = recorded_with(&every(3840), core_aac, later(BEGUN, SECOND * 60), 0x0f);
    let other = recorded_with(&every(1800), opus, later(BEGUN, SECOND * 120), 0x06);
    let whole = Some(Span { from: BEGUN, to: None });
    let tracks = |head: &[u8]| head.windows(4).filter(|four| four == b"trak").count();
    let exported = export(&[&first, &slower], whole, Container::Mp4).unwrap();
    assert_eq!(tracks(&exported.head), 2);
    let medias: Vec<usize> =
        exported.head.windows(4).zip(0..).filter(|(four, _)| four == b"mdhd").map(|(_, at)| at).collect();
    let lasts = u64::from_be_bytes(exported.head[medias[1] + 28..][..8].try_into().unwrap());
    assert!(lasts.abs_diff(16 * 48_000) < 4096, "in the ticks of the track: {lasts}");
    assert!(exported.report.duration.abs_diff(SECOND * 16) < millis(60), "{:?}", exported.report);
    let exported = export(&[&first, &slower, &other, &first], whole, Container::Mp4).unwrap();
    assert_eq!(
        tracks(&exported.head),
        4,
        "a codec that comes back has another track: one shows nothing while it is away"
    );
    assert_eq!(exported.report.renditions, [RenditionName::Video, RenditionName::Audio(1)]);
    let error = export(&[&first, &other], whole, Container::MpegTs).map(|_| ()).unwrap_err();
    assert!(matches!(error, ExportError::CodecChanges { .. }), "{error}");
}

#[test]
fn sound_that_begins_in_a_later_recording_is_in_the_transport_stream() {
    let silent = recorded_with(&[], aac, BEGUN, 0x0f);
    let loud = recorded_with(&every(1920), aac, later(BEGUN, SECOND * 60), 0x0f);
    let whole = Some(Span { from: BEGUN, to: None });
    let exported = export(&[&silent, &loud], whole, Container::MpegTs).unwrap();
    let [pictures, sounds] = stamps(&exported.data);
    assert_eq!((pictures.len(), sounds.len()), (400, every(1920).len()));
    assert!((sounds[0] - pictures[200]).abs() < 0.001, "{} {}", sounds[0], pictures[200]);
}

#[test]
fn a_transport_stream_has_all_sounds_each_with_its_language() {
    let language = |letters: &[u8; 3]| [&[0x0a, 4][..], letters, &[0]].concat();
    let sounds = [(SOUND, b"eng", 60usize), (SECOND_SOUND, b"deu", 90)];
    let mut streams = vec![stream(VIDEO, 0x1b, &[])];
    streams.extend(sounds.map(|(pid, letters, _)| stream(pid, 0x0f, &language(letters))));
    let mut checked = Checked::new(Settings::default(), &program(streams));
    let mut at = 0;
    for index in 0..200i64 {
        checked.push(VIDEO, &picture(index % 25 == 0, 100, index * PICTURE));
        while at < (index + 1) * PICTURE {
            sounds.iter().for_each(|(pid, _, bytes)| checked.push(*pid, &aac(*bytes, at)));
            at += 1920;
        }
    }
    checked.finish(later(BEGUN, SECOND * 8));
    let recorded = recorded(&checked, BEGUN);
    let exported = export(&[&recorded], span(millis(2000), millis(6000)), Container::MpegTs).unwrap();
    assert!(exported.report.is_whole());
    let names = [RenditionName::Video, RenditionName::Audio(1), RenditionName::Audio(2)];
    assert_eq!(exported.report.renditions, names);
    let mut demuxer = Demuxer::new();
    demuxer.push(&exported.data);
    demuxer.finish();
    let mut found: BTreeMap<u16, Vec<(usize, i64)>> = BTreeMap::new();
    while let Some(event) = demuxer.poll() {
        if let Event::AccessUnit { pid, unit, .. } = event {
            found.entry(pid).or_default().push((unit.data.len(), unit.pts.0));
        }
    }
    let [first, second] = [&found[&0x101], &found[&0x102]];
    assert_eq!(first.len(), second.len());
    assert!(first.iter().zip(second).all(|(one, other)| one.0 < other.0 && one.1 == other.1));
    let program = demuxer.program().unwrap();
    let told: Vec<_> = program.streams.iter().map(|stream| stream.descriptors.clone()).collect();
    assert_eq!(told[1..], [language(b"eng"), language(b"deu")]);
}

#[test]
fn times_that_are_none_end_it_in_words() {
    // An object that says it is decoded in two hundred thousand years.
    let mut odd = recorded(&twenty(), BEGUN);
    let segment = odd.recording.segments(RenditionName::Video).nth(1).unwrap().clone();
    let object = SessionObject::Segment { rendition: RenditionName::Video, segment: segment.number };
    let (name, session) = (odd.recording.name().clone(), odd.recording.session());
    let path = StoredObject { name, session, object }.to_string();
    let mut bytes = odd.objects[&path].to_vec();
    let at = bytes.windows(4).position(|four| four == b"tfdt").unwrap() + 8;
    bytes[at..at + 8].copy_from_slice(&((1u64 << 62) - 5).to_be_bytes());
    let changed = RecordedSegment { crc32c: crc32c(&bytes), ..segment };
    odd.recording.add(2, Line::Segment(RenditionName::Video, changed));
    odd.objects.insert(path.clone(), bytes.into());
    for container in [Container::Mp4, Container::MpegTs] {
        let error = export(&[&odd], None, container).map(|_| ()).unwrap_err();
        assert_eq!(error.to_string(), format!("{path} has other times than its index tells"));
    }
    // And an index that says so of its segment.
    let mut odd = recorded(&twenty(), BEGUN);
    let segments: Vec<_> = odd.recording.segments(RenditionName::Video).cloned().collect();
    for segment in segments {
        let changed = RecordedSegment { start: u64::MAX, utc: Utc::from_nanos(u64::MAX - 1), ..segment };
        odd.recording.add(2, Line::Segment(RenditionName::Video, changed));
    }
    for container in [Container::Mp4, Container::MpegTs] {
        let all = Some(Span { from: Utc::from_nanos(0), to: Some(Utc::from_nanos(u64::MAX)) });
        assert!(export(&[&odd], all, container).is_err());
    }
}

/// All clocks; and of each packet that begins a unit that which was last before it or is in it, and when the unit is decoded: 90 kHz.
fn clocks_and_decoding(ts: &[u8]) -> (Vec<u64>, Vec<(u64, u64)>) {
    let (mut clock, mut clocks, mut found) = (0, Vec::new(), Vec::new());
    for packet in ts.chunks(188) {
        let pid = u16::from_be_bytes([packet[1] & 0x1f, packet[2]]);
        let mut at = 4;
        if packet[3] & 0x20 != 0 {
            let length = usize::from(packet[4]);
            if length > 0 && packet[5] & 0x10 != 0 {
                let word = u32::from_be_bytes(packet[6..10].try_into().unwrap());
                clock = u64::from(word) << 1 | u64::from(packet[10] >> 7);
                clocks.push(clock);
            }
            at += 1 + length;
        }
        if (pid == 0x100 || pid == 0x101) && packet[1] & 0x40 != 0 && packet[3] & 0x10 != 0 {
            let pes = &packet[at..];
            let stamp = if pes[7] & 0x40 != 0 { &pes[14..19] } else { &pes[9..14] };
            let high = u64::from(stamp[0] >> 1 & 7) << 30;
            let middle = u64::from(u16::from_be_bytes([stamp[1], stamp[2]]) >> 1) << 15;
            found.push((clock, high | middle | u64::from(u16::from_be_bytes([stamp[3], stamp[4]]) >> 1)));
        }
    }
    (clocks, found)
}

#[test]
fn the_clock_of_a_transport_stream_is_never_ahead_of_decoding() {
    for depth in [2, 4, 8] {
        let mut lossy = recorded(&reordered(depth, 50), BEGUN);
        for is_lossy in [false, true] {
            if is_lossy {
                lose(&mut lossy, RenditionName::Video, 1, false);
            }
            let exported =
                export(&[&lossy, &recorded(&twenty(), later(BEGUN, SECOND * 60))], None, Container::MpegTs);
            let (clocks, all) = clocks_and_decoding(&exported.unwrap().data);
            assert!(all.len() > 500, "{}", all.len());
            for (clock, decoded) in &all {
                assert!(clock <= decoded, "{depth} {is_lossy}: {clock} {decoded}");
            }
            // Pictures or not, there is a clock each 100 ms.
            assert!(clocks.windows(2).all(|pair| pair[1] - pair[0] <= 9000), "{depth} {is_lossy}");
        }
    }
}

#[test]
fn pictures_in_front_of_a_runs_first_key_frame_are_told() {
    // Without sound: segments of three seconds, each second one without a key frame; what is before a key frame is lost.
    let settings = Settings { segment: millis(500), ..Settings::default() };
    for has_sound in [false, true] {
        let streams = if has_sound { video_and_aac() } else { program(vec![stream(VIDEO, 0x1b, &[])]) };
        let mut checked = Checked::new(settings, &streams);
        for index in 0..500i64 {
            checked.push(VIDEO, &picture(index % 150 == 0, 100, index * PICTURE));
            if has_sound {
                checked.push(SOUND, &aac(60, index * PICTURE));
            }
        }
        checked.finish(later(BEGUN, SECOND * 20));
        let mut lossy = recorded(&checked, BEGUN);
        let at = |seconds| later(BEGUN, SECOND * seconds);
        for rendition in lossy.recording.renditions().collect::<Vec<_>>() {
            lose(&mut lossy, rendition, 2, true);
        }
        let exported = export(&[&lossy], None, Container::MpegTs).unwrap();
        let missing: Vec<_> =
            exported.report.missing.iter().map(|it| (it.rendition, it.from, it.to)).collect();
        let [hole, pictures] = missing[..] else { panic!("{missing:?}") };
        assert_eq!((hole.0, hole.1), (None, at(6)), "{missing:?}");
        assert_eq!((pictures.0, pictures.2), (Some(RenditionName::Video), at(12)), "{missing:?}");
        let [shown, sounds] = stamps(&exported.data);
        assert_eq!(shown.len(), 350);
        assert_eq!(sounds.len() > 400, has_sound, "sound of before the key frame is there: {}", sounds.len());
    }
}

#[test]
fn a_recording_whose_parameters_change_has_them_in_its_pictures_too() {
    use crate::packager::testing::other_key;
    let changed = |key: fn(i64) -> AccessUnit, begun: Utc| {
        let mut checked = Checked::new(Settings::default(), &program(vec![stream(VIDEO, 0x1b, &[])]));
        for index in 0..100i64 {
            let pts = index * PICTURE;
            checked.push(VIDEO, &if index % 50 == 0 { key(pts) } else { picture(false, 100, pts) });
        }
        checked.finish(later(BEGUN, SECOND * 4));
        recorded(&checked, begun)
    };
    let (plain, other) = (|pts| picture(true, 100, pts), other_key);
    let all = [
        changed(plain, BEGUN),
        changed(other, later(BEGUN, SECOND * 60)),
        changed(plain, later(BEGUN, SECOND * 120)),
    ];
    let whole = Some(Span { from: BEGUN, to: None });
    let exported = export(&[&all[0], &all[1], &all[2]], whole, Container::Mp4).unwrap();
    let sets = exported.data.windows(5).filter(|five| matches!(five, [0, 0, 0, _, 0x67])).count();
    assert_eq!(sets, 4, "in the two key frames of each recording behind the first");
    assert_eq!(exported.head.windows(4).filter(|four| four == b"avcC").count(), 2);
}

#[path = "exact_tests.rs"]
mod exact;
