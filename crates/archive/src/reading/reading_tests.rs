use super::*;
use crate::store::StoreErrorKind;
use glassline_delivery::archive::index::{Hole, HoleReason, Line, PartWriter, RecordedSegment, crc32c};
use glassline_delivery::archive::names::{Session, SessionObject};
use glassline_delivery::packager::{Kind, RenditionName, TrackInfo};
use glassline_edge::Reader;
use glassline_media::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const VIDEO: RenditionName = RenditionName::Video;
/// No one address asks.
const PEER: Option<IpAddr> = None;

/// Objects in memory, with a count of each that was read. Answers come from another thread, as a store's do.
#[derive(Default)]
struct Shelf {
    objects: Mutex<BTreeMap<String, Bytes>>,
    gets: Mutex<BTreeMap<String, usize>>,
    modified: Mutex<BTreeMap<String, Utc>>,
    /// How often was asked what there is.
    lists: AtomicUsize,
    is_away: std::sync::atomic::AtomicBool,
    /// Requests are dropped, as by a thread that panics.
    drops: std::sync::atomic::AtomicBool,
    /// Answers wait for it.
    gate: Mutex<()>,
    /// It cannot be read.
    fails: Mutex<Option<String>>,
    /// Done when an object has been written.
    on_put: Mutex<Option<OnPut>>,
}

/// See [`Shelf`].
type OnPut = Box<dyn FnOnce(&Shelf) + Send>;

#[derive(Clone, Default)]
struct Handle(Arc<Shelf>);

impl Handle {
    fn put(&self, path: &str, bytes: impl Into<Bytes>) {
        self.put_at(path, bytes, Clock::new().utc());
    }

    fn put_at(&self, path: &str, bytes: impl Into<Bytes>, modified: Utc) {
        self.0.objects.lock().unwrap().insert(path.to_owned(), bytes.into());
        self.0.modified.lock().unwrap().insert(path.to_owned(), modified);
    }

    /// How many parts of indexes were read.
    fn parts(&self) -> usize {
        let gets = self.0.gets.lock().unwrap();
        gets.iter().filter(|(path, _)| path.contains("/index/")).map(|(_, count)| count).sum()
    }

    fn lists(&self) -> usize {
        self.0.lists.load(Ordering::SeqCst)
    }

    fn gets(&self, path: &str) -> usize {
        self.0.gets.lock().unwrap().get(path).copied().unwrap_or(0)
    }

    fn answer<T: Send + 'static>(
        &self,
        done: Done<T>,
        make: impl FnOnce(&Shelf) -> Result<T, StoreError> + Send + 'static,
    ) {
        self.answer_behind(true, done, make);
    }

    fn answer_behind<T: Send + 'static>(
        &self,
        is_gated: bool,
        done: Done<T>,
        make: impl FnOnce(&Shelf) -> Result<T, StoreError> + Send + 'static,
    ) {
        if self.0.drops.load(Ordering::SeqCst) {
            return;
        }
        let shelf = Arc::clone(&self.0);
        std::thread::spawn(move || {
            let gate = is_gated.then(|| shelf.gate.lock().unwrap());
            drop(gate);
            let away = shelf.is_away.load(Ordering::SeqCst);
            let error = || StoreError::new(StoreErrorKind::Unreachable, "the cable is out");
            done(if away { Err(error()) } else { make(&shelf) });
        });
    }
}

impl Objects for Handle {
    fn get(&self, path: &str, done: Done<Bytes>) {
        *self.0.gets.lock().unwrap().entry(path.to_owned()).or_default() += 1;
        let path = path.to_owned();
        // Whether there is a picture already does not wait: what is made of segments does.
        let is_gated = !path.ends_with("poster.jpg");
        self.answer_behind(is_gated, done, move |shelf| {
            if shelf.fails.lock().unwrap().as_ref() == Some(&path) {
                return Err(StoreError::new(StoreErrorKind::Unreachable, "the cable is out"));
            }
            let found = shelf.objects.lock().unwrap().get(&path).cloned();
            found.ok_or_else(|| StoreError::new(StoreErrorKind::NotFound, "none"))
        });
    }

    fn list(&self, folder: &str, _: usize, done: Done<Vec<Listed>>) {
        let folder = format!("{folder}/");
        self.0.lists.fetch_add(1, Ordering::SeqCst);
        self.answer(done, move |shelf| {
            let (objects, modified) = (shelf.objects.lock().unwrap(), shelf.modified.lock().unwrap());
            let below = objects.iter().filter(|(path, _)| path.starts_with(&folder));
            Ok(below
                .map(|(path, bytes)| Listed {
                    path: path.clone(),
                    bytes: bytes.len() as u64,
                    modified: modified[path],
                })
                .collect())
        });
    }

    fn put(&self, path: &str, bytes: Bytes, done: Done<()>) {
        Handle::put(self, path, bytes);
        if let Some(act) = self.0.on_put.lock().unwrap().take() {
            act(&self.0);
        }
        self.answer(done, |_| Ok(()));
    }

    fn delete(&self, path: &str) {
        self.0.objects.lock().unwrap().remove(path);
    }

    fn folders(&self, folder: &str, done: Done<Vec<String>>) {
        self.0.lists.fetch_add(usize::from(!folder.is_empty()), Ordering::SeqCst);
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        self.answer(done, move |shelf| {
            let objects = shelf.objects.lock().unwrap();
            let names: BTreeSet<_> = objects
                .keys()
                .filter_map(|path| {
                    path.strip_prefix(&prefix)?.split_once('/').map(|(name, _)| name.to_owned())
                })
                .collect();
            Ok(names.into_iter().collect())
        });
    }
}

struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(&self, _: usize, readers: Vec<u64>) {
        self.0.fetch_add(readers.len(), Ordering::SeqCst);
    }
}

struct Bench {
    shelf: Handle,
    recordings: Archive,
    woken: Arc<Woken>,
    wake: Arc<dyn Wake>,
}

fn name() -> StreamName {
    StreamName::parse("hall").unwrap()
}

/// So long before now, to the second.
fn ago(seconds: u64) -> Utc {
    let now = Clock::new().utc().as_nanos() / 1_000_000_000;
    Utc::from_nanos((now - seconds) * 1_000_000_000)
}

fn track() -> TrackInfo {
    TrackInfo {
        epoch: 1,
        codec: "avc1.64001F".to_owned(),
        timescale: 90_000,
        kind: Kind::Video {
            width_px: 640,
            height_px: 360,
            frame_rate: None,
            sample_aspect: None,
            colour: None,
            range: glassline_media::bitstream::hdr::Range::Sdr,
        },
        sample_ticks: 3600,
        chunk_ticks: 18_000,
        part_ticks: 18_000,
    }
}

fn bytes_of(number: u64) -> Bytes {
    Bytes::from(format!("segment {number} ").repeat(100))
}

fn segment(begun: Utc, number: u64) -> RecordedSegment {
    let bytes = bytes_of(number);
    RecordedSegment {
        number,
        epoch: 1,
        start: number * 180_000,
        duration: 180_000,
        utc: Utc::from_nanos(begun.as_nanos() + number * 2_000_000_000),
        captured: false,
        independent: true,
        bytes: bytes.len() as u64,
        crc32c: crc32c(&bytes),
        key_frames: Vec::new(),
    }
}

impl Bench {
    fn of(shelf: Handle, running: Option<Arc<dyn RunningRecordings>>) -> Bench {
        let settings = ReadingSettings::default();
        let recordings = Archive::start(Box::new(shelf.clone()), running, settings, Clock::new()).unwrap();
        // Of names that the store was not heard of nothing is found.
        let deadline = Instant::now() + Duration::from_secs(30);
        while recordings.shared.names.read().unwrap().is_none() {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(1));
        }
        let woken = Arc::new(Woken(AtomicUsize::new(0)));
        let wake = Arc::clone(&woken) as Arc<dyn Wake>;
        Bench { shelf, recordings, woken, wake }
    }

    fn find(&self, rest: &str, query: &str, is_live: bool) -> Option<Arc<Growing>> {
        let name = name();
        self.recordings.find(
            RecordedRequest { name: &name, rest, query, peer: PEER, is_live, is_elsewhere: false },
            &self.wake,
        )
    }

    /// Status and text of an answer, once it is there.
    fn get(&self, rest: &str, query: &str) -> (u16, String) {
        let growing = self.find(rest, query, false).expect("it is about recordings");
        let (status, text) = read(&growing);
        // A time before now leads to one by the clock.
        let head = growing.look(|object| object.progress().head.expect("a head"));
        match head.field("location") {
            Some(location) if status == 302 => {
                let (rest, query) = location.split_once('?').expect("a query");
                self.get(rest, query)
            }
            _ => (status, text),
        }
    }
}

fn read(growing: &Arc<Growing>) -> (u16, String) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !growing.look(Filling::is_over) {
        assert!(Instant::now() < deadline, "it did not come");
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut pieces = Vec::new();
    let head = growing.look(|object| {
        object.read(0, u64::MAX, &mut pieces);
        object.progress().head.expect("a head")
    });
    (head.status(), String::from_utf8(pieces.concat()).unwrap())
}

/// Writes a recording that began then, with segments of these numbers.
fn store(shelf: &Handle, begun: Utc, numbers: std::ops::Range<u64>, ended: bool) -> Session {
    let session = Session::new(begun);
    let path = |object| StoredObject { name: name(), session, object }.to_string();
    let mut part = PartWriter::new(&name(), session, 0);
    shelf.put(&path(SessionObject::Init { rendition: VIDEO, number: 1 }), "init");
    for number in numbers {
        part.add_segment(VIDEO, &track(), &segment(begun, number));
        shelf.put(&path(SessionObject::Segment { rendition: VIDEO, segment: number }), bytes_of(number));
    }
    if ended {
        part.end(begun);
    }
    shelf.put(&path(SessionObject::Index { part: 0 }), part.finish());
    session
}

#[test]
fn five_hundred_viewers_of_one_moment_are_one_fetch_a_segment() {
    let shelf = Handle::default();
    let session = store(&shelf, ago(100), 0..10, true);
    let bench = Bench::of(shelf, None);
    let gate = bench.shelf.0.gate.lock().unwrap();
    let paths: Vec<String> = (3..6).map(|number| format!("archive/{session}/video/{number}.m4s")).collect();
    let mut waiting = 0;
    for viewer in 0..500u64 {
        for path in &paths {
            let growing = bench.find(path, "token=x", true).unwrap();
            let reader = Reader { thread: 0, token: viewer };
            let there = growing.look_or_wait(reader, |object| object.is_over().then_some(()));
            waiting += usize::from(there.is_none());
        }
    }
    assert_eq!(waiting, 1500, "nothing has come yet");
    drop(gate);
    for (path, number) in paths.iter().zip(3..) {
        let text = String::from_utf8(bytes_of(number).to_vec()).unwrap();
        assert_eq!(bench.get(path, ""), (200, text));
        assert_eq!(bench.shelf.gets(&format!("hall/{session}/video/{number}.m4s")), 1);
    }
    let deadline = Instant::now() + Duration::from_secs(10);
    while bench.woken.0.load(Ordering::SeqCst) < 1500 {
        assert!(Instant::now() < deadline, "each of them is woken");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(bench.recordings.figures().misses, 3);
}

#[test]
fn a_playlist_of_a_time_is_read_from_the_index() {
    let shelf = Handle::default();
    let begun = ago(3600);
    let session = store(&shelf, begun, 0..10, true);
    let bench = Bench::of(shelf, None);
    let at = |seconds: u64| (begun.as_nanos() / 1_000_000_000 + seconds).to_string();
    let query = format!("from={}&to={}&token=secret", at(5), at(9));
    let (status, text) = bench.get("video.m3u8", &query);
    assert_eq!(status, 200, "{text}");
    let names: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
    // The relay puts the viewer's token into it.
    let named = (2..5).map(|number| format!("archive/{session}/video/{number}.m4s"));
    assert_eq!(names, named.collect::<Vec<_>>());
    assert!(text.ends_with("#EXT-X-ENDLIST\n"), "{text}");
    // The same is not rendered twice, whatever else an address has, and a live stream's own playlists are not touched.
    let misses = bench.recordings.figures().misses;
    for viewer in 0..500 {
        let query = query.replace("secret", &viewer.to_string());
        assert_eq!(bench.get("video.m3u8", &query).1, text);
    }
    assert_eq!(bench.recordings.figures().misses, misses);
    assert!(bench.find("video.m3u8", "token=secret", true).is_none());
    assert!(bench.find("video/7.m4s", "from=-1h", true).is_none());
    // Without a publisher the newest recording is what there is.
    let newest = store(&bench.shelf, ago(600), 0..3, true);
    let (status, text) = Bench::of(bench.shelf.clone(), None).get("index.m3u8", "");
    assert!(status == 200 && text.contains("\nvideo.m3u8\n"), "{text}");
    let (_, text) = Bench::of(bench.shelf.clone(), None).get("video.m3u8", "");
    assert!(text.contains(&newest.to_string()) && !text.contains(&session.to_string()), "{text}");
    // All of both is one list.
    let (_, text) = Bench::of(bench.shelf.clone(), None).get("video.m3u8", "from=-2h");
    assert_eq!((text.matches("#EXTINF").count(), text.matches("#EXT-X-DISCONTINUITY\n").count()), (13, 1));
}

#[test]
fn refusals_say_what_is_wrong() {
    let shelf = Handle::default();
    let session = store(&shelf, ago(100), 0..3, true);
    let bench = Bench::of(shelf, None);
    let (status, text) = bench.get("index.m3u8", "from=yesterday");
    assert!(status == 400 && text.contains("from=yesterday is no time"), "{text}");
    let (status, text) = bench.get("index.m3u8", "from=-1m&to=-2m");
    assert!(status == 400 && text.contains("is not later than"), "{text}");
    assert_eq!(bench.get("index.m3u8", "from=2001-01-01T00:00:00Z&to=2001-01-01T00:01:00Z").0, 404);
    assert_eq!(bench.get("archive/20010101T000000.000Z/video/1.m4s", "").0, 404);
    for bad in [
        "archive/../x",
        "archive/",
        "archive/x/video/1.m4s",
        "archive/20010101T000000.000Z/index/00000000.jsonl",
    ] {
        assert_eq!(bench.get(bad, "").0, 404, "{bad}");
    }
    // An index that was read tells of what is not there any more.
    assert_eq!(bench.get("video.m3u8", "from=-1h").0, 200);
    bench.shelf.0.objects.lock().unwrap().remove(&format!("hall/{session}/video/2.m4s"));
    let (status, text) = bench.get(&format!("archive/{session}/video/2.m4s"), "");
    assert!(status == 410 && text.contains("kept no longer"), "{text}");
    bench.shelf.put(&format!("hall/{session}/video/1.m4s"), "other bytes");
    assert_eq!(bench.get(&format!("archive/{session}/video/1.m4s"), "").0, 502);
    bench.shelf.0.is_away.store(true, Ordering::SeqCst);
    let (status, text) = bench.get(&format!("archive/{session}/video/0.m4s"), "");
    assert!(status == 503 && text.contains("does not answer") && !text.contains("cable"), "{text}");
}

#[test]
fn what_another_server_has_now_is_asked_for_there_unless_its_recording_is_known_here() {
    let shelf = Handle::default();
    let session = store(&shelf, ago(100), 0..3, true);
    let bench = Bench::of(shelf, None);
    let (name, object) = (name(), format!("archive/{session}/video/1.m4s"));
    let ask = |rest: &str, query: &str| {
        let request =
            RecordedRequest { name: &name, rest, query, peer: PEER, is_live: false, is_elsewhere: true };
        bench.recordings.find(request, &bench.wake)
    };
    for query in ["", "from=-5m"] {
        assert!(bench.find("index.m3u8", query, false).is_some() && ask("index.m3u8", query).is_none());
    }
    assert!(ask(&object, "").is_none());
    // Players that have a playlist of it go on.
    assert_eq!(bench.get("video.m3u8", "from=-1h").0, 200);
    assert_eq!(ask(&object, "").map(|growing| read(&growing).0), Some(200));
}

#[test]
fn what_strangers_ask_for_is_bounded_before_the_store_is_asked() {
    let shelf = Handle::default();
    let session = store(&shelf, ago(100), 0..3, true);
    let bench = Bench::of(shelf, None);
    let gets = || bench.shelf.0.gets.lock().unwrap().values().sum::<usize>();
    let now = bench.recordings.utc().as_nanos() / 1_000_000_000;
    let lists = bench.shelf.lists();
    let (status, text) = bench.get("index.m3u8", &format!("from=0&to={now}"));
    assert!(status == 400 && text.contains("more than a day"), "{text}");
    let later = now + 200_000;
    let (status, text) = bench.get("index.m3u8", &format!("from={later}"));
    assert!(status == 404 && text.contains("in the future"), "{text}");
    let invented = StreamName::parse("invented").unwrap();
    let ask = |rest: &str, query: &str| {
        let request =
            RecordedRequest { name: &invented, rest, query, peer: PEER, is_live: false, is_elsewhere: false };
        bench.recordings.find(request, &bench.wake)
    };
    assert!(ask("index.m3u8", "from=-1m").is_none() && ask("index.m3u8", "").is_none());
    let answer = ask(&format!("archive/{session}/video/1.m4s"), "");
    assert!(answer.is_none() && gets() == 0 && bench.shelf.lists() == lists);
    // One without an end is a day of that time.
    assert_eq!((bench.get("index.m3u8", "from=0").0, gets()), (404, 0));
    assert_eq!(bench.get("video.m3u8", "from=-1h&token=a").0, 200);
    // Nor for recordings that they invent, more than once.
    let before = (gets(), bench.shelf.lists());
    for day in 10..30 {
        let path = format!("archive/201001{day}T000000.000Z/video/1.m4s");
        assert_eq!(bench.get(&path, "").0, 404);
    }
    assert_eq!(gets(), before.0);
    assert!(bench.shelf.lists() <= before.1 + 1);
    // What is deleted is not given from memory.
    let path = format!("archive/{session}/video/0.m4s");
    assert_eq!(bench.get(&path, "").0, 200);
    bench.shelf.0.objects.lock().unwrap().remove(&format!("hall/{session}/video/0.m4s"));
    assert_eq!(bench.get(&path, "").0, 200);
    bench.recordings.forget(&name(), session);
    assert_eq!(bench.get(&path, "").0, 404);
}

#[test]
fn one_address_cannot_have_all_that_is_fetched_at_once() {
    let shelf = Handle::default();
    let session = store(&shelf, ago(1000), 0..200, true);
    let bench = Bench::of(shelf, None);
    assert_eq!(bench.get("video.m3u8", "from=-1h").0, 200, "the index is known");
    let name = name();
    let ask = |last: u8, number: u64| {
        let rest = format!("archive/{session}/video/{number}.m4s");
        let peer = Some(IpAddr::from([192, 0, 2, last]));
        let request = RecordedRequest {
            name: &name,
            rest: &rest,
            query: "",
            peer,
            is_live: false,
            is_elsewhere: false,
        };
        bench.recordings.find(request, &bench.wake).unwrap()
    };
    let gate = bench.shelf.0.gate.lock().unwrap();
    let asked: Vec<_> = (0..80).map(|number| ask(1, number)).collect();
    let refused: Vec<_> = asked.iter().filter(|it| it.look(Filling::is_over)).collect();
    assert_eq!(refused.len(), 80 - 64);
    let (status, text) = read(refused[0]);
    assert!(status == 429 && text.contains("still being fetched"), "{text}");
    let head = refused[0].look(|object| object.progress().head.expect("a head"));
    assert_eq!(head.field("retry-after"), Some("1"));
    assert!(!ask(2, 100).look(Filling::is_over), "another one is served");
    assert!(!ask(1, 100).look(Filling::is_over), "with what that one has asked for");
    assert_eq!(bench.recordings.figures().refused, 16);
    drop(gate);
    asked.iter().take(64).for_each(|growing| assert_eq!(read(growing).0, 200));
    assert_eq!(read(&ask(1, 150)).0, 200, "it has room again");
}

#[test]
fn a_store_that_drops_a_request_leaves_nothing_waiting() {
    let shelf = Handle::default();
    let session = store(&shelf, ago(100), 0..3, true);
    let bench = Bench::of(shelf, None);
    bench.shelf.0.drops.store(true, Ordering::SeqCst);
    let (status, text) = bench.get(&format!("archive/{session}/video/0.m4s"), "");
    assert!(status == 503 && text.contains("Ask again"), "{text}");
}

#[test]
fn a_failure_is_tried_anew_a_moment_later() {
    let shelf = Handle::default();
    let session = store(&shelf, ago(100), 0..3, true);
    let bench = Bench::of(shelf, None);
    bench.shelf.0.is_away.store(true, Ordering::SeqCst);
    let path = format!("archive/{session}/video/0.m4s");
    assert_eq!(bench.get(&path, "").0, 503);
    bench.shelf.0.is_away.store(false, Ordering::SeqCst);
    let deadline = Instant::now() + Duration::from_secs(20);
    while bench.get(&path, "").0 != 200 {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(bench.shelf.gets(&format!("hall/{session}/video/0.m4s")) <= 3, "not once a request");
}

/// A recording that goes on.
struct Goes {
    session: Session,
    begun: Utc,
    reached: AtomicUsize,
}

impl RunningRecordings for Goes {
    fn is_on(&self) -> bool {
        true
    }

    fn has(&self, stream: &StreamName) -> bool {
        *stream == name()
    }

    fn unstored(&self, _: &StreamName) -> Vec<Unstored> {
        let mut lines = vec![Line::Track(VIDEO, track())];
        let reached = self.reached.load(Ordering::SeqCst) as u64;
        lines.extend((3..reached).map(|number| Line::Segment(VIDEO, segment(self.begun, number))));
        vec![Unstored { session: self.session, part: 1, lines, is_running: true }]
    }

    fn spooled(&self, object: &StoredObject) -> Option<SpooledRead> {
        match object.object {
            SessionObject::Segment { segment: 3, .. } => Some(Box::new(|| Ok(bytes_of(3)))),
            // It went to the store in the meantime.
            SessionObject::Segment { segment: 2, .. } => Some(Box::new(|| Err(io::Error::other("gone")))),
            _ => None,
        }
    }
}

#[test]
fn what_goes_on_is_read_from_the_spool_and_what_is_due_is_waited_for() {
    let shelf = Handle::default();
    let begun = ago(9);
    let session = store(&shelf, begun, 0..3, false);
    let goes = Arc::new(Goes { session, begun, reached: AtomicUsize::new(4) });
    let bench = Bench::of(shelf, Some(Arc::clone(&goes) as Arc<dyn RunningRecordings>));
    let (status, text) = bench.get("video.m3u8", "from=-1h");
    assert!(status == 200 && text.contains("TYPE:EVENT") && text.contains("/3.m4s"), "{text}");
    for number in [2, 3] {
        let (status, text) = bench.get(&format!("archive/{session}/video/{number}.m4s"), "");
        assert_eq!((status, text.as_bytes()), (200, &bytes_of(number)[..]));
    }
    assert_eq!(bench.shelf.gets(&format!("hall/{session}/video/3.m4s")), 0, "the store does not have it");
    // Up to now: the segment of that time is recorded in a moment, and the list is whole then.
    let to = begun.as_nanos() / 1_000_000_000 + 9;
    let growing = bench.find("video.m3u8", &format!("from={}&to={to}", to - 3600), true).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert!(!growing.look(Filling::is_over), "it waits");
    goes.reached.store(5, Ordering::SeqCst);
    let (status, text) = read(&growing);
    assert!(status == 200 && text.contains("/4.m4s") && text.ends_with("#EXT-X-ENDLIST\n"), "{text}");
}

#[test]
fn a_publisher_with_a_clock_that_is_far_behind_is_not_waited_for() {
    let shelf = Handle::default();
    // What is captured now is stamped a minute ago.
    let begun = ago(69);
    let session = store(&shelf, begun, 0..3, false);
    let goes = Arc::new(Goes { session, begun, reached: AtomicUsize::new(4) });
    let bench = Bench::of(shelf, Some(Arc::clone(&goes) as Arc<dyn RunningRecordings>));
    let now = bench.recordings.utc().as_nanos() / 1_000_000_000;
    let asked = Instant::now();
    let (status, text) = bench.get("video.m3u8", &format!("from={}&to={now}", now - 3600));
    assert!(status == 200 && text.contains("/3.m4s") && text.contains("TYPE:EVENT"), "{text}");
    assert!(asked.elapsed() < Duration::from_secs(5), "not the eight seconds");
}

#[test]
fn a_torn_part_of_an_index_is_left_out() {
    let shelf = Handle::default();
    let begun = ago(1000);
    let session = store(&shelf, begun, 0..3, false);
    let mut part = PartWriter::new(&name(), session, 1);
    part.add_segment(VIDEO, &track(), &segment(begun, 3));
    let bytes = part.finish();
    shelf.put(&format!("hall/{session}/index/00000001.jsonl"), bytes[..bytes.len() - 5].to_vec());
    let mut part = PartWriter::new(&name(), session, 2);
    let (from, to) = (begun, begun);
    part.add_hole(&Hole { rendition: VIDEO, first: 1, last: 1, from, to, reason: HoleReason::Store });
    part.add_segment(VIDEO, &track(), &segment(begun, 4));
    shelf.put(&format!("hall/{session}/index/00000002.jsonl"), part.finish());
    shelf.put("hall/index.html", "what others have put there");
    shelf.put(&format!("hall/{session}/index/notes.txt"), "this too");
    let bench = Bench::of(shelf, None);
    let query = format!("from=-1h&to={}", begun.as_nanos() / 1_000_000_000 + 9);
    let (status, text) = bench.get("video.m3u8", &query);
    let names: Vec<_> = text.lines().filter_map(|line| line.rsplit_once('/').map(|(_, file)| file)).collect();
    assert_eq!(
        (status, &names[..]),
        (200, &["init-1.mp4\"", "0.m4s", "init-1.mp4\"", "2.m4s", "init-1.mp4\"", "4.m4s"][..]),
        "{text}"
    );
    // It is not fetched and warned of again.
    assert_eq!(bench.get("video.m3u8", "from=-30m").0, 200);
    assert_eq!(bench.shelf.gets(&format!("hall/{session}/index/00000001.jsonl")), 1);
}

#[test]
fn time_passes_for_what_may_change() {
    // What is whole is kept, and what grows is rendered anew after a second.
    let mut cache = Cache::new(10_000);
    let woken: Arc<dyn Wake> = Arc::new(Woken(AtomicUsize::new(0)));
    let new = || Growing::new(Filling::new(), Arc::clone(&woken));
    let Looked::New(growing) = cache.look("a", 0, Time::ZERO, new) else { panic!("it is new") };
    cache.is_whole("a", &growing, Time::from_millis(1000), false);
    assert!(matches!(cache.look("a", 0, Time::from_millis(999), new), Looked::Known(_)));
    assert!(matches!(cache.look("a", 0, Time::from_millis(1000), new), Looked::New(_)));
}

#[path = "reading_bounds_tests.rs"]
mod bounds;

#[path = "poster_tests.rs"]
mod poster;
