//! What the tests of several files share.

use super::cache::{Cache, Job, Unfinished};
use super::readers::Feeder;
use super::{FoundObject, Growing, PresentationStore, Wake};
use glassline_delivery::fill::{Freshness, Head, Object, Via};
use glassline_delivery::http1::server::{Event, Server};
use glassline_delivery::http1::{Headers, Limits};
use glassline_delivery::packager::Settings;
use glassline_delivery::stream::Mux;
use glassline_media::access_unit::{AccessUnit, Codec};
use glassline_media::container::ts::{MuxSettings, Muxer};
use glassline_media::stamps::Stamps;
use glassline_media::{Ticks, Time, Utc};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Writes down the readers that are woken.
#[derive(Default)]
pub(crate) struct Woken(Mutex<Vec<(usize, Vec<u64>)>>);

impl Woken {
    /// The same as what is handed to objects.
    pub(crate) fn as_wake(self: &Arc<Woken>) -> Arc<dyn Wake> {
        Arc::clone(self) as Arc<dyn Wake>
    }

    /// Those that were woken since this was called the last time.
    pub(crate) fn take(&self) -> Vec<(usize, Vec<u64>)> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Wake for Woken {
    fn wake(&self, thread: usize, readers: Vec<u64>) {
        self.0.lock().unwrap().push((thread, readers));
    }
}

/// Counts how often what fills objects was resumed.
#[derive(Default)]
pub(crate) struct Resumed(AtomicUsize);

impl Resumed {
    /// How often that was since this was called the last time.
    pub(crate) fn take(&self) -> usize {
        self.0.swap(0, Ordering::SeqCst)
    }
}

impl Feeder for Resumed {
    fn resume(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A cache of so many bytes, and what counts how often its feeder is resumed.
pub(crate) fn cache(bytes_max: u64) -> (Arc<Cache>, Arc<Resumed>) {
    let (wake, feeder) = (Arc::new(Woken::default()), Arc::new(Resumed::default()));
    let fed = Arc::clone(&feeder) as Arc<dyn Feeder>;
    (Arc::new(Cache::new(bytes_max, wake.as_wake(), fed)), feeder)
}

/// The address that the tests' clients have, told apart by their last number.
pub(crate) fn client(number: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, number))
}

/// A job for `growing`, which is kept under its target.
pub(crate) fn job(cache: &Arc<Cache>, target: &str, growing: &Arc<Growing>) -> Job {
    let unfinished =
        Unfinished { cache: Arc::clone(cache), key: target.to_owned(), growing: Arc::clone(growing) };
    Job {
        asker: client(1),
        key: target.to_owned(),
        group: 0,
        target: target.to_owned(),
        host: None,
        growing: Arc::clone(growing),
        refresh: None,
        old: None,
        old_until: Time::ZERO,
        begun: None,
        via: Via::default(),
        _unfinished: Arc::new(unfinished),
    }
}

/// So many seconds behind the clock's begin.
pub(crate) fn at(seconds: u64) -> Time {
    Time::from_millis(seconds * 1000)
}

/// Fresh for so many seconds, then of use while it is asked for anew, then of use where no server can be reached.
pub(crate) fn freshness(fresh: u64, revalidate: u64, error: u64) -> Freshness {
    Freshness {
        fresh: Duration::from_secs(fresh),
        stale_while_revalidate: Duration::from_secs(revalidate),
        stale_if_error: Duration::from_secs(error),
    }
}

/// The head of a text.
pub(crate) fn plain() -> Head {
    Head::new("text/plain")
}

/// All bytes of an object that are there.
pub(crate) fn bytes(object: &Object) -> Vec<u8> {
    let mut pieces = Vec::new();
    object.read(0, u64::MAX, &mut pieces);
    pieces.concat()
}

/// The same as text.
pub(crate) fn text(growing: &Growing) -> String {
    String::from_utf8(growing.look(bytes)).expect("a text")
}

/// The fields of a request that has these lines.
pub(crate) fn fields(lines: &str) -> Headers {
    let wire = format!("GET / HTTP/1.1\r\nHost: h\r\n{lines}\r\n");
    let mut server = Server::new(Limits::DEFAULT, Time::ZERO);
    match server.next(&mut wire.as_bytes(), Time::ZERO) {
        Ok(Some(Event::Request(request))) => request.headers,
        other => panic!("{other:?}"),
    }
}

/// Parameter sets of pictures of 320x240, 25 a second.
const SETS: [&[u8]; 2] = [
    &[
        0x67, 0x42, 0xc0, 0x0d, 0xd9, 0x01, 0x41, 0x9f, 0x9f, 0x01, 0x10, 0x00, 0x00, 0x03, 0x00, 0x10, 0x00,
        0x00, 0x03, 0x03, 0x20, 0xf1, 0x42, 0xa4, 0x80,
    ],
    &[0x68, 0xcb, 0x83, 0xcb, 0x20],
];

/// Pictures in a segment of the streams below.
pub(crate) const KEY_EVERY: u64 = 25;
/// Pictures in a part.
pub(crate) const PART_EVERY: u64 = 5;
/// When the streams below begin, in seconds of UTC. Their segments last a second, so that it is also the number of the first.
pub(crate) const BEGUN_SECS: u64 = 1_800_000_000;

/// Segments of a second in five parts, kept for six seconds.
pub(crate) fn settings() -> Settings {
    Settings {
        segment: Duration::from_secs(1),
        part: Duration::from_millis(200),
        window: Duration::from_secs(6),
    }
}

/// When a picture of this number comes.
pub(crate) fn utc(number: u64) -> Utc {
    Utc::from_nanos(BEGUN_SECS * 1_000_000_000 + number * 40_000_000)
}

/// A stream in MPEG-TS of 25 pictures a second, a key frame each second, which goes into a presentation.
pub(crate) struct Stream {
    muxer: Muxer,
    /// Its bytes so far.
    pub(crate) bytes: Vec<u8>,
    next: u64,
}

impl Stream {
    pub(crate) fn new() -> Stream {
        let settings = MuxSettings { video: Some(Codec::H264), ..MuxSettings::default() };
        Stream { muxer: Muxer::new(settings).unwrap(), bytes: Vec::new(), next: 0 }
    }

    /// Pushes pictures until so many have come.
    pub(crate) fn push_until(&mut self, store: &PresentationStore, count: u64) {
        while self.next < count {
            let from = self.bytes.len();
            self.muxer.write(&picture(self.next), &mut self.bytes).unwrap();
            store.push(&self.bytes[from..], utc(self.next), Some(from as u64));
            self.next += 1;
        }
    }

    /// The next pictures before this one do not come.
    pub(crate) fn skip_until(&mut self, number: u64) {
        self.next = number;
    }
}

fn picture(number: u64) -> AccessUnit {
    let is_key = number.is_multiple_of(KEY_EVERY);
    let slice = if is_key { [0x65, 0x88] } else { [0x41, 0x9a] };
    let nals = SETS.into_iter().filter(|_| is_key).chain([&slice[..]]);
    let mut data = vec![0, 0, 0, 1, 9, 0xf0];
    nals.for_each(|nal| data.extend([&[0, 0, 0, 1], nal].concat()));
    data.resize(300, 7);
    let pts = Ticks(90_000 + number as i64 * 3600);
    let stamps = Stamps::default();
    AccessUnit { codec: Codec::H264, data: data.into(), pts, dts: pts, random_access: is_key, stamps }
}

/// A presentation of a stream of MPEG-TS, and what its readers are woken by.
pub(crate) fn store() -> (Arc<PresentationStore>, Arc<Woken>) {
    let woken = Arc::new(Woken::default());
    let base = Arc::from("/base");
    let store = PresentationStore::new(Mux::MpegTs, settings(), woken.as_wake(), base, at(1), utc(0));
    (Arc::new(store), woken)
}

/// The object that a request comes to.
pub(crate) fn found(found: FoundObject) -> Arc<Growing> {
    match found {
        FoundObject::Object(growing) => growing,
        other => panic!("{other:?}"),
    }
}

/// What an origin of the tests answers.
pub(crate) struct Answer {
    wire: Vec<u8>,
    keeps: bool,
}

impl Answer {
    /// These bytes; then the connection waits for the next request.
    pub(crate) fn keeps(wire: Vec<u8>) -> Answer {
        Answer { wire, keeps: true }
    }

    /// These bytes; then the connection ends.
    pub(crate) fn ends(wire: Vec<u8>) -> Answer {
        Answer { wire, keeps: false }
    }
}

/// What answers a request of this number, which counts from 0 over all connections.
type Answers = dyn Fn(usize, &str) -> Answer + Send + Sync;

/// A server on this machine that answers as it is told, and writes down what it was asked.
pub(crate) struct Origin {
    pub(crate) url: String,
    shared: Arc<Shared>,
}

struct Shared {
    answers: Box<Answers>,
    requests: Mutex<Vec<String>>,
    connections: AtomicUsize,
}

impl Origin {
    pub(crate) fn start(answers: impl Fn(usize, &str) -> Answer + Send + Sync + 'static) -> Origin {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (answers, requests, connections) = (Box::new(answers), Mutex::default(), AtomicUsize::new(0));
        let shared = Arc::new(Shared { answers, requests, connections });
        let theirs = Arc::clone(&shared);
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let (connection, shared) = (connection.unwrap(), Arc::clone(&theirs));
                shared.connections.fetch_add(1, Ordering::SeqCst);
                std::thread::spawn(move || serve(connection, &shared));
            }
        });
        Origin { url, shared }
    }

    /// The requests that have come, as they were written.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// How many connections there were.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }
}

fn serve(mut connection: TcpStream, shared: &Shared) {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while connection.read(&mut byte).is_ok_and(|count| count == 1) {
        head.push(byte[0]);
        if !head.ends_with(b"\r\n\r\n") {
            continue;
        }
        let request = String::from_utf8(std::mem::take(&mut head)).unwrap();
        let number = {
            let mut requests = shared.requests.lock().unwrap();
            requests.push(request.clone());
            requests.len() - 1
        };
        let answer = (shared.answers)(number, &request);
        // A client that has gone is none of the origin's business.
        if connection.write_all(&answer.wire).is_err() || !answer.keeps {
            return;
        }
    }
}
