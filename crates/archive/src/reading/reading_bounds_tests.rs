//! What requests cost the store, and what a store that fails costs viewers.

use super::*;

/// Writes a recording with a part of its index for each ten seconds, which the store says to have written so much later (or, where
/// `early`, earlier) than it tells of.
fn store_long(shelf: &Handle, begun: Utc, parts: u32, skew: Duration, early: bool) -> Session {
    let session = Session::new(begun);
    let path = |object| StoredObject { name: name(), session, object }.to_string();
    for number in 0..parts {
        let mut part = PartWriter::new(&name(), session, number);
        let first = u64::from(number) * 5;
        for segment_number in first..first + 5 {
            part.add_segment(VIDEO, &track(), &segment(begun, segment_number));
        }
        let written = segment(begun, first + 5).utc.as_nanos();
        let skew = skew.as_nanos() as u64;
        let written = if early { written - skew } else { written + skew };
        shelf.put_at(&path(SessionObject::Index { part: number }), part.finish(), Utc::from_nanos(written));
    }
    session
}

#[test]
fn a_minute_of_a_long_recording_reads_the_parts_of_that_minute() {
    for (skew, early) in [(0, false), (1800, false), (1800, true)] {
        let shelf = Handle::default();
        let begun = ago(5 * 86_400);
        store_long(&shelf, begun, 8640, Duration::from_secs(skew), early);
        let bench = Bench::of(shelf, None);
        let at = |seconds: u64| begun.as_nanos() / 1_000_000_000 + seconds;
        let (status, text) = bench.get("video.m3u8", &format!("from={}&to={}", at(43_200), at(43_260)));
        assert_eq!((status, text.matches("#EXTINF").count()), (200, 30), "{text}");
        let parts = bench.shelf.parts();
        // A clock of the store's that is half an hour off costs that, and changes nothing.
        assert!(parts <= if skew == 0 { 16 } else { 400 }, "{parts} parts, {skew} s");
        // Beside it the same is known, and no list is asked for.
        let lists = bench.shelf.lists();
        assert_eq!(bench.get("video.m3u8", &format!("from={}&to={}", at(43_201), at(43_259))).0, 200);
        assert_eq!((bench.shelf.parts(), bench.shelf.lists()), (parts, lists));
    }
}

/// A recording of this server's that goes on, of which the store has all parts.
struct Long {
    session: Session,
    part: u32,
}

impl RunningRecordings for Long {
    fn is_on(&self) -> bool {
        true
    }

    fn has(&self, _: &StreamName) -> bool {
        true
    }

    fn unstored(&self, _: &StreamName) -> Vec<Unstored> {
        vec![Unstored { session: self.session, part: self.part, lines: Vec::new(), is_running: true }]
    }

    fn spooled(&self, _: &StoredObject) -> Option<SpooledRead> {
        None
    }
}

/// Ten minutes back in a recording of a day: one round trip for the index, whose parts are asked for at once and without a list, and
/// one for the header and the segment.
#[test]
fn going_back_ten_minutes_takes_two_round_trips_to_the_store() {
    let shelf = Handle::default();
    let begun = ago(86_400);
    let session = store_long(&shelf, begun, 8640, Duration::ZERO, false);
    let path = |object| StoredObject { name: name(), session, object }.to_string();
    shelf.put(&path(SessionObject::Init { rendition: VIDEO, number: 1 }), "init");
    let running = Arc::new(Long { session, part: 8640 });
    let bench = Bench::of(shelf, Some(running));
    let (status, list) = bench.get("video.m3u8", "from=-10m");
    assert_eq!(status, 200, "{list}");
    let (parts, lists) = (bench.shelf.parts(), bench.shelf.lists());
    assert!((60..=70).contains(&parts) && lists == 0, "{parts} parts, {lists} lists");
    let first = list.lines().find(|line| line.ends_with(".m4s")).unwrap();
    let number: u64 = first.rsplit(['/', '.']).nth(1).unwrap().parse().unwrap();
    let object = SessionObject::Segment { rendition: VIDEO, segment: number };
    bench.shelf.put(&path(object), bytes_of(number));
    assert_eq!(bench.get(first, "").0, 200);
    assert_eq!(bench.get(&format!("archive/{session}/video/init-1.mp4"), "").0, 200);
    let gets: usize = bench.shelf.0.gets.lock().unwrap().values().sum();
    assert_eq!((gets, bench.shelf.lists()), (parts + 2, 0));
    // Another viewer costs the store nothing.
    assert_eq!(bench.get("video.m3u8", "from=-9m").0, 200);
    assert_eq!(bench.get(first, "").0, 200);
    assert_eq!(bench.shelf.0.gets.lock().unwrap().values().sum::<usize>(), gets);
}

#[test]
fn a_store_that_hangs_holds_up_neither_the_spool_nor_those_that_ask_later() {
    let shelf = Handle::default();
    let begun = ago(9);
    let session = store(&shelf, begun, 0..3, false);
    let goes = Arc::new(Goes { session, begun, reached: AtomicUsize::new(5) });
    let bench = Bench::of(shelf, Some(goes));
    let gate = bench.shelf.0.gate.lock().unwrap();
    let listed = bench.find("index.m3u8", "from=-5m", false).unwrap();
    // What the spool has comes meanwhile.
    assert_eq!(bench.get(&format!("archive/{session}/video/3.m4s"), "").0, 200);
    assert!(!listed.look(Filling::is_over), "the store has not answered");
    // So does a list of it, when the store has not answered the first one in time.
    let asked = Instant::now();
    let from = begun.as_nanos() / 1_000_000_000 + 7;
    let spooled = bench.find("video.m3u8", &format!("from={from}"), false).unwrap();
    let (status, text) = read(&listed);
    assert!(status == 503 && text.contains("does not answer"), "{text}");
    let (status, text) = read(&spooled);
    assert!(status == 200 && text.contains("/4.m4s"), "{text}");
    assert!(asked.elapsed() < Duration::from_secs(20));
    // It is not waited for again at once.
    let (before, lists) = (Instant::now(), bench.shelf.lists());
    read(&bench.find("index.m3u8", "from=-6m", false).unwrap());
    read(&bench.find("index.m3u8", "from=-7m", false).unwrap());
    assert!(before.elapsed() < Duration::from_secs(4) && bench.shelf.lists() == lists);
    drop(gate);
}

#[test]
fn indexes_that_are_kept_are_bounded() {
    let shelf = Handle::default();
    let sessions: Vec<_> = (0..80).map(|hour| store(&shelf, ago((80 - hour) * 3600), 0..3, true)).collect();
    let bench = Bench::of(shelf, None);
    for session in &sessions {
        let from = session.begun().as_nanos() / 1_000_000_000;
        assert_eq!(bench.get("video.m3u8", &format!("from={from}&to={}", from + 6)).0, 200);
    }
    assert_eq!(bench.recordings.shared.catalog().loaded(), 64);
}

#[test]
fn another_store_is_another_archive() {
    let shelf = Handle::default();
    let session = store(&shelf, ago(100), 0..3, true);
    let bench = Bench::of(shelf, None);
    let path = format!("archive/{session}/video/0.m4s");
    assert_eq!(bench.get(&path, "").0, 200);
    bench.shelf.0.objects.lock().unwrap().clear();
    let other = store(&bench.shelf, ago(50), 0..3, true);
    assert_eq!(bench.get(&path, "").0, 200);
    bench.recordings.forget_all();
    let deadline = Instant::now() + Duration::from_secs(30);
    while bench.recordings.shared.names.read().unwrap().is_none() {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(bench.get(&path, "").0, 404);
    assert!(bench.get("video.m3u8", "").1.contains(&other.to_string()));
}

#[test]
fn a_list_that_could_not_be_read_to_its_end_is_not_told_as_whole() {
    let shelf = Handle::default();
    let begun = ago(86_400);
    store_long(&shelf, begun, 60, Duration::ZERO, false);
    let bench = Bench::of(shelf, None);
    let session = Session::new(begun);
    *bench.shelf.0.fails.lock().unwrap() = Some(format!("hall/{session}/index/00000030.jsonl"));
    let from = begun.as_nanos() / 1_000_000_000;
    let query = format!("from={from}&to={}", from + 600);
    let (status, text) = bench.get("video.m3u8", &query);
    assert!(status == 503 && !text.contains("#EXTINF"), "{text}");
    let parts = bench.shelf.parts();
    *bench.shelf.0.fails.lock().unwrap() = None;
    let deadline = Instant::now() + Duration::from_secs(20);
    let text = loop {
        let (status, text) = bench.get("video.m3u8", &query);
        if status == 200 {
            break text;
        }
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(text.matches("#EXTINF").count(), 300);
    assert!(bench.shelf.parts() < parts + 60, "what was read is kept");
}

#[test]
fn a_recording_that_another_one_began_in_is_found() {
    let shelf = Handle::default();
    let begun = ago(3600);
    let session = store(&shelf, begun, 0..100, false);
    store(&shelf, ago(3500), 0..3, true);
    let bench = Bench::of(shelf, None);
    let from = begun.as_nanos() / 1_000_000_000 + 150;
    let (status, text) = bench.get("video.m3u8", &format!("from={from}&to={}", from + 10));
    assert!(status == 200 && text.contains(&session.to_string()), "{text}");
}

#[test]
fn a_clock_that_is_ahead_spoils_no_recording() {
    let shelf = Handle::default();
    let begun = Utc::from_nanos(ago(0).as_nanos() + 7200 * 1_000_000_000);
    let session = Session::new(ago(100));
    let path = |object| StoredObject { name: name(), session, object }.to_string();
    let mut part = PartWriter::new(&name(), session, 0);
    (0..3).for_each(|number| part.add_segment(VIDEO, &track(), &segment(begun, number)));
    part.end(begun);
    shelf.put(&path(SessionObject::Index { part: 0 }), part.finish());
    let bench = Bench::of(shelf, None);
    let from = begun.as_nanos() / 1_000_000_000;
    let (status, text) = bench.get("video.m3u8", &format!("from={from}&to={}", from + 6));
    assert!(status == 200 && text.matches("#EXTINF").count() == 3, "{text}");
}
