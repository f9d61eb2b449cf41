//! Pictures of recordings, with a painter that tells what it was given.

use super::*;
use glassline_media::container::cmaf::{Brand, Media, Run, Sample, Track, write_chunk, write_init};
use glassline_media::{AccessUnit, Codec, Stamps, Ticks};

/// 320x240, baseline.
const SPS: &[u8] = &[
    0, 0, 0, 1, 0x67, 0x42, 0xc0, 0x0d, 0xd9, 0x01, 0x41, 0x9f, 0x9f, 0x01, 0x10, 0x00, 0x00, 0x03, 0x00,
    0x10, 0x00, 0x00, 0x03, 0x03, 0x20, 0xf1, 0x42, 0xa4, 0x80,
];
const PPS: &[u8] = &[0, 0, 0, 1, 0x68, 0xcb, 0x83, 0xcb, 0x20];

/// The header of a track of pictures.
fn header() -> Bytes {
    let data = [SPS, PPS, &[0, 0, 0, 1, 0x65, 0x88]].concat();
    let unit = AccessUnit {
        codec: Codec::H264,
        data: data.into(),
        pts: Ticks(0),
        dts: Ticks(0),
        random_access: true,
        stamps: Stamps::default(),
    };
    let mut header = Vec::new();
    let track = Track { id: 1, media: Media::of(&unit, false).unwrap() };
    write_init(Brand::Cmaf, &[track], &mut header);
    header.into()
}

/// A segment of two seconds, with a picture each half second: `key` says of each whether it is a key frame. The second byte of a
/// picture's data is the number of the segment, the third one its own.
fn media(number: u64, keys: [bool; 4]) -> Bytes {
    let (mut samples, mut data) = (Vec::new(), Vec::new());
    for (picture, is_sync) in (0u8..).zip(keys) {
        let nal = [if is_sync { 0x65 } else { 0x41 }, number as u8, picture, 0x80];
        data.extend_from_slice(&[0, 0, 0, 4]);
        data.extend_from_slice(&nal);
        samples.push(Sample { bytes: 8, duration: 45_000, composition_offset: 0, is_sync, roll: 0 });
    }
    let mut bytes = Vec::new();
    let decode_time = number * 180_000;
    write_chunk(1, None, &[Run { track_id: 1, decode_time, samples: &samples, data: &data }], &mut bytes);
    bytes.into()
}

const TWO_KEYS: [bool; 4] = [true, false, true, false];

/// Writes a recording that began then, in parts of two segments.
fn store_pictures(shelf: &Handle, begun: Utc, segments: u64, keys: [bool; 4], independent: bool) -> Session {
    let session = Session::new(begun);
    let path = |object| StoredObject { name: name(), session, object }.to_string();
    shelf.put(&path(SessionObject::Init { rendition: VIDEO, number: 1 }), header());
    for first in (0..segments).step_by(2) {
        let mut part = PartWriter::new(&name(), session, (first / 2) as u32);
        for number in first..segments.min(first + 2) {
            let bytes = media(number, keys);
            let line = RecordedSegment {
                bytes: bytes.len() as u64,
                crc32c: crc32c(&bytes),
                independent,
                ..segment(begun, number)
            };
            part.add_segment(VIDEO, &track(), &line);
            shelf.put(&path(SessionObject::Segment { rendition: VIDEO, segment: number }), bytes);
        }
        if first + 2 >= segments {
            part.end(begun);
        }
        shelf.put(&path(SessionObject::Index { part: (first / 2) as u32 }), part.finish());
    }
    session
}

/// Says which slices it was given, and how many were painted at once.
fn painter(now: &Arc<AtomicUsize>, most: &Arc<AtomicUsize>) -> Painter {
    let (now, most) = (Arc::clone(now), Arc::clone(most));
    Box::new(move |units| {
        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(2));
        now.fetch_sub(1, Ordering::SeqCst);
        let slice = |unit: &AccessUnit| {
            let [.., kind, segment, picture, _] = *unit.data else { panic!("a slice") };
            format!("{kind:x} {segment} {picture};")
        };
        Some(units.iter().map(slice).collect::<String>().into_bytes().into())
    })
}

fn painted(shelf: Handle) -> Bench {
    let mut bench = Bench::of(shelf, None);
    let nothing = || Arc::new(AtomicUsize::new(0));
    bench.recordings = bench.recordings.with_pictures(painter(&nothing(), &nothing())).unwrap();
    bench
}

#[test]
fn the_picture_is_a_key_frame_ten_seconds_behind_the_beginning_and_is_made_once() {
    let shelf = Handle::default();
    let session = store_pictures(&shelf, ago(3600), 40, TWO_KEYS, true);
    let bench = painted(shelf);
    let path = format!("archive/{session}/poster.jpg");
    // The first picture of the segment that begins ten seconds later.
    assert_eq!(bench.get(&path, ""), (200, "65 5 0;".to_owned()));
    let misses = bench.recordings.figures().misses;
    (0..100).for_each(|viewer| assert_eq!(bench.get(&path, &format!("token={viewer}")).0, 200));
    assert_eq!(bench.recordings.figures().misses, misses);
    assert_eq!(bench.shelf.gets(&format!("hall/{session}/video/5.m4s")), 1);
    assert_eq!(bench.shelf.parts(), 4, "the beginning of the index alone was read");
    let growing = bench.find(&path, "", false).unwrap();
    let head = growing.look(|object| object.progress().head.expect("a head"));
    assert_eq!(head.field("content-type"), Some("image/jpeg"));
    assert_eq!(head.field("cache-control"), Some("max-age=3600"));
    assert!(head.field("etag").is_some_and(|tag| tag.ends_with("-7\"")));
    // Of a deleted recording there is none.
    bench.recordings.forget(&name(), session);
    bench.shelf.0.objects.lock().unwrap().clear();
    assert_eq!(bench.get(&path, "").0, 404);
}

#[test]
fn one_that_is_shorter_has_its_last_key_frame_and_one_without_key_frames_what_can_be_decoded() {
    let shelf = Handle::default();
    let short = store_pictures(&shelf, ago(600), 3, TWO_KEYS, true);
    let refreshed = store_pictures(&shelf, ago(300), 1, [false; 4], true);
    let never = store_pictures(&shelf, ago(200), 1, [false; 4], false);
    let bench = painted(shelf);
    let get = |session: Session| bench.get(&format!("archive/{session}/poster.jpg"), "");
    assert_eq!(get(short), (200, "65 2 0;".to_owned()));
    assert_eq!(get(refreshed), (200, "41 0 0;41 0 1;41 0 2;41 0 3;".to_owned()));
    let (status, text) = get(never);
    assert!(status == 404 && text.contains("libavcodec"), "{text}");
    // One that goes on, without a segment so far, may have pictures in a moment.
    let begun = Session::new(ago(5));
    bench
        .shelf
        .put(&format!("hall/{begun}/index/00000000.jsonl"), PartWriter::new(&name(), begun, 0).finish());
    let (status, text) = painted(bench.shelf.clone()).get(&format!("archive/{begun}/poster.jpg"), "");
    assert!(status == 503 && text.contains("just begun"), "{status} {text}");
    let unknown = Session::new(ago(100));
    assert_eq!(get(unknown).0, 404);
    // Without a painter no one is asked.
    let without = Bench::of(bench.shelf.clone(), None);
    assert_eq!(without.get(&format!("archive/{short}/poster.jpg"), "").0, 404);
}

#[test]
fn what_is_deleted_at_the_front_gives_another_picture() {
    let shelf = Handle::default();
    let session = store_pictures(&shelf, ago(3600), 40, TWO_KEYS, true);
    let bench = painted(shelf);
    let path = format!("archive/{session}/poster.jpg");
    assert_eq!(bench.get(&path, "").1, "65 5 0;");
    bench.recordings.shared.cache().forget("");
    let is_kept = |path: &str| {
        let number = |before: &str, behind: &str| {
            path.split(before).nth(1).and_then(|rest| rest.strip_suffix(behind)?.parse::<u64>().ok())
        };
        number("/video/", ".m4s").is_none_or(|number| number >= 20)
            && number("/index/", ".jsonl").is_none_or(|part| part >= 10)
    };
    bench.shelf.0.objects.lock().unwrap().retain(|path, _| is_kept(path));
    assert_eq!(bench.get(&path, ""), (200, "65 25 0;".to_owned()));
    // What a playlist has read of the index stays: the picture has asked for a list, and for the parts that are new.
    let from = ago(3600 - 40).as_nanos() / 1_000_000_000;
    let (status, list) = bench.get("video.m3u8", &format!("from={from}&to={}", from + 30));
    assert_eq!(status, 200, "{list}");
    let again = bench.shelf.parts();
    bench.recordings.shared.cache().forget("");
    assert_eq!(bench.get(&path, "").0, 200);
    assert_eq!(bench.shelf.parts(), again);
    bench.recordings.shared.cache().forget("");
    assert_eq!(bench.get("video.m3u8", &format!("from={from}&to={}", from + 30)).0, 200);
    assert_eq!(bench.shelf.parts(), again);
}

#[test]
fn a_slow_segment_is_no_sign_of_a_store_that_is_away() {
    let shelf = Handle::default();
    let session = store_pictures(&shelf, ago(600), 3, TWO_KEYS, true);
    let bench = painted(shelf);
    let shared = Arc::clone(&bench.recordings.shared);
    let path = format!("hall/{session}/video/1.m4s");
    let gate = bench.shelf.0.gate.lock().unwrap();
    let deadline = shared.clock.now() + Duration::from_secs(30);
    let fetching =
        std::thread::spawn(move || (catalog::wait_for_object(&shared, &path, deadline).is_ok(), shared));
    // Longer than an index may take.
    std::thread::sleep(Duration::from_millis(5300));
    drop(gate);
    let (is_there, shared) = fetching.join().unwrap();
    assert!(is_there);
    assert_eq!(*shared.away_until.lock().unwrap(), Time::ZERO);
}

#[test]
fn what_was_deleted_while_its_picture_was_made_stays_so() {
    let shelf = Handle::default();
    let session = store_pictures(&shelf, ago(3600), 200, TWO_KEYS, true);
    // Each part was written when what it tells of was there.
    for (path, written) in shelf.0.modified.lock().unwrap().iter_mut() {
        let part = path.split("/index/").nth(1).and_then(|part| part.split('.').next()?.parse::<u64>().ok());
        if let Some(part) = part {
            *written = ago(3600 - 4 - part * 4);
        }
    }
    let bench = painted(shelf);
    let from = ago(3600 - 390).as_nanos() / 1_000_000_000;
    assert_eq!(bench.get("video.m3u8", &format!("from={from}")).0, 200);
    let before = bench.shelf.parts();
    assert!(before < 60, "the end alone was read: {before}");
    let stored = StoredObject { name: name(), session, object: SessionObject::Poster };
    assert!(bench.recordings.shared.catalog().has_session(&stored));
    let gate = bench.shelf.0.gate.lock().unwrap();
    let asked = bench.find(&format!("archive/{session}/poster.jpg"), "", false).unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while bench.shelf.parts() == before {
        assert!(Instant::now() < deadline, "the beginning is asked for");
        std::thread::sleep(Duration::from_millis(1));
    }
    bench.recordings.forget(&name(), session);
    drop(gate);
    assert_eq!(read(&asked).0, 200, "what had begun is answered");
    assert!(!bench.recordings.shared.catalog().has_session(&stored));
}

#[test]
fn a_damaged_segment_and_a_store_that_is_away_are_told() {
    let shelf = Handle::default();
    let session = store_pictures(&shelf, ago(600), 3, TWO_KEYS, true);
    let bench = painted(shelf);
    let path = format!("archive/{session}/poster.jpg");
    bench.shelf.put(&format!("hall/{session}/video/2.m4s"), "others");
    assert_eq!(bench.get(&path, "").0, 404);
    bench.shelf.0.is_away.store(true, Ordering::SeqCst);
    bench.recordings.shared.cache().forget("");
    assert_eq!(bench.get(&path, "").0, 503);
}

#[test]
fn pictures_are_made_one_at_a_time_and_what_is_too_much_is_told() {
    let shelf = Handle::default();
    let sessions: Vec<_> =
        (0..150).map(|at| store_pictures(&shelf, ago(100_000 - at * 100), 2, TWO_KEYS, true)).collect();
    let (now, most) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let mut bench = Bench::of(shelf, None);
    bench.recordings = bench.recordings.with_pictures(painter(&now, &most)).unwrap();
    let gate = bench.shelf.0.gate.lock().unwrap();
    let ask = |session: &Session| bench.find(&format!("archive/{session}/poster.jpg"), "", false).unwrap();
    let asked: Vec<_> = sessions.iter().map(ask).collect();
    drop(gate);
    // The thread of clips paints with the same brush.
    let at = sessions[3].begun();
    let clips = |millis: u64| bench.recordings.still_at(&name(), later(at, Duration::from_millis(millis)));
    std::thread::scope(|scope| {
        let painting = scope.spawn(|| (0..20).for_each(|_| assert!(clips(1500).is_some())));
        asked.iter().for_each(|growing| drop(read(growing)));
        painting.join().unwrap();
    });
    let answers: Vec<u16> = asked.iter().map(|growing| read(growing).0).collect();
    let of = |status| answers.iter().filter(|it| **it == status).count();
    assert!(of(200) >= 64 && of(503) >= 150 - 66 && of(200) + of(503) == 150, "{} {}", of(200), of(503));
    assert_eq!(clips(1500).as_deref(), Some(&b"65 0 2;"[..]), "the key frame before");
    assert_eq!(clips(999).as_deref(), Some(&b"65 0 0;"[..]));
    assert_eq!(clips(50_000), None);
    assert_eq!(most.load(Ordering::SeqCst), 1);
}

/// Begins as a JPEG does, and counts.
fn jpeg_painter(count: &Arc<AtomicUsize>) -> Painter {
    let count = Arc::clone(count);
    Box::new(move |_| {
        let number = count.fetch_add(1, Ordering::SeqCst);
        Some([&[0xff, 0xd8, 0xff][..], format!(" {number}").as_bytes()].concat().into())
    })
}

fn jpeg_bench(shelf: &Handle, count: &Arc<AtomicUsize>) -> Bench {
    let mut bench = Bench::of(shelf.clone(), None);
    bench.recordings = bench.recordings.with_pictures(jpeg_painter(count)).unwrap();
    bench
}

/// The status and the bytes of a picture.
fn picture(bench: &Bench, session: Session) -> (u16, Vec<u8>) {
    let growing = bench.find(&format!("archive/{session}/poster.jpg"), "", false).unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while !growing.look(Filling::is_over) {
        assert!(Instant::now() < deadline, "it did not come");
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut pieces = Vec::new();
    let status = growing.look(|object| {
        object.read(0, u64::MAX, &mut pieces);
        object.progress().head.expect("a head").status()
    });
    (status, pieces.concat())
}

const FIRST: &[u8] = b"\xff\xd8\xff 0";

#[test]
fn a_picture_that_stays_is_written_once_and_found_by_the_next_process() {
    let (shelf, count) = (Handle::default(), Arc::<AtomicUsize>::default());
    let session = store_pictures(&shelf, ago(3600), 40, TWO_KEYS, true);
    let path = format!("hall/{session}/poster.jpg");
    let stored = || shelf.0.objects.lock().unwrap().get(&path).cloned();
    assert_eq!(picture(&jpeg_bench(&shelf, &count), session), (200, FIRST.to_vec()));
    assert_eq!(stored().as_deref(), Some(FIRST));
    let parts = shelf.parts();
    let again = jpeg_bench(&shelf, &count);
    assert_eq!(picture(&again, session), (200, FIRST.to_vec()));
    assert_eq!((count.load(Ordering::SeqCst), shelf.parts()), (1, parts), "nothing but the picture was read");
    // What another program has put there is no picture of this one: it is made anew.
    for other in [&b"<html>"[..], &[&[0xff, 0xd8, 0xff][..], &vec![0; 1 << 20]].concat()] {
        shelf.put(&path, other.to_vec());
        again.recordings.shared.cache().forget("");
        assert_eq!(picture(&again, session).0, 200);
        assert!(stored().is_some_and(|bytes| bytes.len() < 10 && bytes.starts_with(&FIRST[..3])));
    }
    assert_eq!(count.load(Ordering::SeqCst), 3);
    // It is asked for where there is such a recording, and for no other.
    let invented = Session::new(ago(7));
    assert_eq!(picture(&again, invented).0, 404);
    assert_eq!(shelf.gets(&format!("hall/{invented}/poster.jpg")), 0);
}

#[test]
fn a_picture_that_another_will_replace_is_not_written() {
    let (shelf, count) = (Handle::default(), Arc::<AtomicUsize>::default());
    let begun = ago(5);
    let session = store_pictures(&shelf, begun, 2, TWO_KEYS, true);
    // It has no end.
    let mut part = PartWriter::new(&name(), session, 0);
    let bytes = media(0, TWO_KEYS);
    let line = RecordedSegment { bytes: bytes.len() as u64, crc32c: crc32c(&bytes), ..segment(begun, 0) };
    part.add_segment(VIDEO, &track(), &line);
    shelf.put(&format!("hall/{session}/index/00000000.jsonl"), part.finish());
    assert_eq!(picture(&jpeg_bench(&shelf, &count), session).0, 200);
    assert!(!shelf.0.objects.lock().unwrap().keys().any(|path| path.ends_with("poster.jpg")));
}

#[test]
fn a_recording_that_is_deleted_while_its_picture_is_made_leaves_none() {
    let (shelf, count) = (Handle::default(), Arc::<AtomicUsize>::default());
    let before = store_pictures(&shelf, ago(7200), 3, TWO_KEYS, true);
    let meanwhile = store_pictures(&shelf, ago(3600), 3, TWO_KEYS, true);
    // The index goes before the picture is written, and right after that.
    let paint = {
        let (shelf, paint) = (shelf.clone(), jpeg_painter(&count));
        let painter: Painter = Box::new(move |units| {
            shelf.0.objects.lock().unwrap().retain(|path, _| !path.starts_with(&format!("hall/{before}")));
            paint(units)
        });
        painter
    };
    let mut bench = Bench::of(shelf.clone(), None);
    bench.recordings = bench.recordings.with_pictures(paint).unwrap();
    assert_eq!(picture(&bench, before).0, 200);
    let gone = format!("hall/{meanwhile}/index");
    let act: OnPut = Box::new(move |shelf| {
        shelf.objects.lock().unwrap().retain(|path, _| !path.starts_with(&gone));
    });
    *shelf.0.on_put.lock().unwrap() = Some(act);
    assert_eq!(picture(&bench, meanwhile).0, 200);
    assert!(shelf.0.on_put.lock().unwrap().is_none(), "one was written");
    assert!(!shelf.0.objects.lock().unwrap().keys().any(|path| path.ends_with("poster.jpg")));
}

#[test]
fn a_request_that_has_waited_for_long_is_refused_and_one_without_a_client_is_dropped() {
    let (shelf, count) = (Handle::default(), Arc::<AtomicUsize>::default());
    let session = store_pictures(&shelf, ago(3600), 3, TWO_KEYS, true);
    let bench = jpeg_bench(&shelf, &count);
    let shared = &bench.recordings.shared;
    let easel: Easel = Arc::new(Mutex::new(jpeg_painter(&count)));
    let stored = StoredObject { name: name(), session, object: SessionObject::Poster };
    let job = |key: &str, asked: Time| {
        let mut pending = None;
        let growing = bench
            .recordings
            .object(None, (key.to_owned(), cache::LIST), &bench.wake, |it| pending = Some(it));
        (growing, PosterJob { stored: stored.clone(), pending: pending.unwrap(), asked })
    };
    let now = shared.clock.now();
    let long_ago = Time::from_nanos(now.as_nanos().saturating_sub(11_000_000_000));
    assert!(now.since(long_ago) > Duration::from_secs(10), "the machine runs for longer");
    let (growing, late) = job("late", long_ago);
    super::super::poster::answer_in_time(shared, &easel, late);
    let (status, text) = read(&growing);
    assert!(status == 503 && text.contains("store of the recordings is slow"), "{text}");
    let (growing, left) = job("left", now);
    drop(growing);
    super::super::poster::answer_in_time(shared, &easel, left);
    assert_eq!(count.load(Ordering::SeqCst), 0, "none was made");
    let (growing, wanted) = job("wanted", now);
    super::super::poster::answer_in_time(shared, &easel, wanted);
    assert!(growing.look(Filling::is_over) && count.load(Ordering::SeqCst) == 1);
}

#[test]
fn a_store_that_is_slow_holds_a_picture_up_for_ten_seconds_at_most() {
    let (shelf, count) = (Handle::default(), Arc::<AtomicUsize>::default());
    let session = store_pictures(&shelf, ago(600), 3, TWO_KEYS, true);
    let bench = jpeg_bench(&shelf, &count);
    assert_eq!(bench.get("video.m3u8", "from=-1h").0, 200, "the index is known");
    let gate = bench.shelf.0.gate.lock().unwrap();
    let begun = Instant::now();
    let (status, _) = picture(&bench, session);
    assert_eq!(status, 503);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    drop(gate);
}
