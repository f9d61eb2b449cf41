use super::*;
use crate::http1::HttpError;
use crate::http1::body::write_chunk;
use crate::metacube::{Flags, write_block, write_metadata};
use crate::pull::Source;
use glassline_media::Utc;
use proptest::prelude::*;

const POLICY: Policy = Policy {
    silence_timeout: Duration::from_secs(5),
    retry_min: Duration::from_millis(250),
    retry_max: Duration::from_secs(4),
    good_after: Duration::from_secs(3),
    reorder: Duration::ZERO,
};

/// A puller, its clock, and what came out of it.
struct Bench {
    puller: Puller,
    now: Time,
    stream: Vec<u8>,
    metadata: Vec<Metadata>,
    began: Vec<bool>,
}

impl Bench {
    fn new(url: &str) -> Bench {
        let Ok(Source::Http(url)) = Source::parse(url) else { panic!("{url}") };
        let now = Time::from_millis(1000);
        let puller = Puller::new(url, POLICY, 1, now);
        Bench { puller, now, stream: Vec::new(), metadata: Vec::new(), began: Vec::new() }
    }

    fn outputs(&mut self) -> Vec<Output> {
        std::iter::from_fn(|| self.puller.poll_output()).collect()
    }

    /// Waits for the next attempt, connects, and returns what is sent.
    fn connect(&mut self) -> String {
        self.now = self.now.max(self.puller.poll_timeout().unwrap());
        self.puller.handle_timeout(self.now);
        assert!(matches!(self.outputs().last(), Some(Output::Connect { .. })));
        self.connected()
    }

    fn connected(&mut self) -> String {
        self.puller.handle_connected(self.now);
        match &self.outputs()[..] {
            [Output::Send(bytes)] => String::from_utf8(bytes.clone()).unwrap(),
            other => panic!("{} outputs instead of a request", other.len()),
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        let (stream, metadata, began) = (&mut self.stream, &mut self.metadata, &mut self.began);
        self.puller.handle_bytes(bytes, self.now, &mut |event| match event {
            Event::Began { metacube, .. } => began.push(metacube),
            Event::Block { .. } => {}
            Event::Data(data) => stream.extend_from_slice(data),
            Event::Metadata(said) => metadata.push(said),
        });
    }

    /// The error, where the puller waits for the next attempt and closes its connection.
    fn failed(&mut self) -> PullError {
        assert!(matches!(self.puller.phase(), Phase::Waiting { .. }), "{:?}", self.puller.phase());
        assert!(self.outputs() == [Output::Close]);
        self.puller.error().cloned().expect("an error")
    }
}

/// Which server the request is for that is sent next, without a wait if none is due.
fn next_host(bench: &mut Bench) -> String {
    let request = bench.connect();
    let host = request.lines().find_map(|line| line.strip_prefix("Host: ")).unwrap();
    host.to_owned()
}

#[test]
fn where_a_server_fails_the_next_one_is_asked_at_once() {
    let mut bench = Bench::new("http://one/a.ts");
    let alternates = ["http://two/b.ts", "http://three/c.ts"].map(|url| url.parse().unwrap());
    bench.puller = bench.puller.with_alternates(alternates.to_vec());
    let begun = bench.now;
    assert_eq!(next_host(&mut bench), "one");
    bench.puller.handle_failure(PullError::Lost("it broke".into()), bench.now);
    assert_eq!(bench.puller.phase(), Phase::Connecting, "nobody is to give up yet");
    assert_eq!((next_host(&mut bench), bench.now), ("two".to_owned(), begun));
    bench.bytes(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    assert_eq!((next_host(&mut bench), bench.now), ("three".to_owned(), begun));
    bench.bytes(OK);
    bench.bytes(b"some");
    assert_eq!((bench.puller.phase(), bench.puller.turn()), (Phase::Live, 2));
    // One that breaks off at once has failed like the others; one that was good is a new begin.
    bench.now += POLICY.good_after;
    bench.bytes(b" bytes");
    bench.puller.handle_end(bench.now);
    let broken = bench.now;
    assert_eq!((next_host(&mut bench), bench.now), ("one".to_owned(), broken));
    for next in ["two", "three"] {
        bench.bytes(&[OK, b"x"].concat());
        bench.puller.handle_end(bench.now);
        if next == "two" {
            assert_eq!((next_host(&mut bench), bench.now), ("two".to_owned(), broken));
        }
    }
    assert_eq!(bench.failed(), PullError::Ended, "all three have failed");
    assert_eq!(next_host(&mut bench), "three");
    assert!(bench.now > broken, "after a wait");
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: video/mp2t\r\n\r\n";

#[test]
fn a_stream_is_asked_for_and_passed_on() {
    let mut bench = Bench::new("http://u:p@origin:8080/live/a.ts?x=1");
    assert_eq!(bench.puller.poll_timeout(), Some(bench.now));
    let request = bench.connect();
    assert!(request.starts_with("GET /live/a.ts?x=1 HTTP/1.1\r\nHost: origin:8080\r\n"), "{request}");
    assert!(request.contains("Authorization: Basic dTpw\r\n"), "{request}");
    assert_eq!(bench.puller.phase(), Phase::Connecting);
    bench.bytes(&OK[..20]);
    bench.bytes(&[&OK[20..], b"some"].concat());
    bench.bytes(b" bytes");
    assert_eq!((bench.began.as_slice(), bench.stream.as_slice()), ([false].as_slice(), &b"some bytes"[..]));
    assert_eq!(bench.puller.phase(), Phase::Live);
    bench.puller.handle_end(bench.now);
    assert_eq!(bench.failed(), PullError::Ended);
}

#[test]
fn blocks_are_taken_off_also_inside_chunks() {
    let mut bench = Bench::new("http://h/a");
    bench.connect();
    let said = Metadata::EncoderTimestamp(Utc::from_micros(1_790_000_000_000_000));
    let (mut blocks, mut wire) = (Vec::new(), Vec::new());
    write_block(b"head", Flags::HEADER, &mut blocks);
    write_metadata(said, &mut blocks);
    write_block(b"body", Flags::NONE, &mut blocks);
    blocks.extend_from_slice(b"garbage");
    write_block(b"more", Flags::NOT_SUITABLE_FOR_STREAM_START, &mut blocks);
    blocks.chunks(13).for_each(|chunk| write_chunk(chunk, &mut wire));
    bench.bytes(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: metacube\r\n\r\n");
    wire.chunks(7).for_each(|part| bench.bytes(part));
    assert_eq!((bench.began.as_slice(), bench.stream.as_slice()), ([true].as_slice(), &b"headbodymore"[..]));
    assert_eq!((bench.metadata.as_slice(), bench.puller.counts().garbage_bytes), ([said].as_slice(), 7));
}

#[test]
fn whatever_is_no_stream_is_refused_with_its_reason() {
    let http = PullError::Http;
    for (answer, expected) in [
        (&b"HTTP/1.1 404 Not Found\r\n\r\n"[..], PullError::Status { status: 404 }),
        (b"HTTP/1.1 206 Partial\r\n\r\n", PullError::Status { status: 206 }),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n", PullError::Encoding { found: "gzip".into() }),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", PullError::Ended),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            http(HttpError::BadChunk("size is no hexadecimal number")),
        ),
        (b"HTTP/1.1 302 Found\r\n\r\n", PullError::BadRedirect("it names no Location".into())),
    ] {
        let mut bench = Bench::new("http://h/a");
        bench.connect();
        bench.bytes(answer);
        assert_eq!(bench.failed(), expected);
    }
    for garbage in [[0xFF; 40_000], [b'a'; 40_000], [b'\n'; 40_000], [0; 40_000]] {
        let mut bench = Bench::new("http://h/a");
        bench.connect();
        garbage.chunks(700).for_each(|part| bench.bytes(part));
        assert!(bench.stream.is_empty());
        if garbage[0] != b'\n' {
            assert!(matches!(bench.failed(), PullError::Http(_)));
        }
    }
}

#[test]
fn an_end_inside_the_head_or_a_chunk_is_told() {
    for (bytes, expected) in [(&OK[..30], "before a response"), (b"", "before a response")] {
        let mut bench = Bench::new("http://h/a");
        bench.connect();
        bench.bytes(bytes);
        bench.puller.handle_end(bench.now);
        assert_eq!(bench.failed(), PullError::Http(HttpError::EndedEarly(expected)));
    }
    let mut bench = Bench::new("http://h/a");
    bench.connect();
    bench.bytes(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc");
    bench.puller.handle_end(bench.now);
    assert_eq!(bench.failed(), PullError::Http(HttpError::EndedEarly("inside a body")));
}

#[test]
fn garbage_in_place_of_blocks_is_given_up() {
    let mut bench = Bench::new("http://h/a");
    bench.connect();
    bench.bytes(b"HTTP/1.0 200 OK\r\nContent-Encoding: metacube\r\n\r\n");
    (0..66).for_each(|_| bench.bytes(&[b'c'; 1000]));
    assert!(matches!(bench.failed(), PullError::NotMetacube { bytes: 65_537.. }));
    assert!(bench.puller.counts().garbage_bytes >= 65_537);
}

fn moved(location: &str) -> Vec<u8> {
    format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 4\r\n\r\nhere").into_bytes()
}

#[test]
fn redirects_are_followed_and_begin_at_the_source_again() {
    let mut bench = Bench::new("http://h/a");
    bench.connect();
    for step in 1..=5 {
        bench.bytes(&moved(&format!("http://h{step}:81/b")));
        let outputs = bench.outputs();
        assert!(
            outputs == [Output::Close, Output::Connect { host: format!("h{step}"), port: 81, tls: false }]
        );
        let request = bench.connected();
        assert!(request.contains(&format!("Host: h{step}:81\r\n")), "{request}");
    }
    bench.bytes(&[OK, b"x"].concat());
    assert_eq!((bench.stream.as_slice(), bench.puller.counts().redirects), (&b"x"[..], 5));
    bench.puller.handle_end(bench.now);
    bench.failed();
    assert!(bench.connect().contains("Host: h\r\n"));
}

#[test]
fn a_redirect_leads_to_tls_and_never_back() {
    let mut bench = Bench::new("http://h/a");
    bench.connect();
    bench.bytes(&moved("https://h/a"));
    assert!(bench.outputs() == [Output::Close, Output::Connect { host: "h".into(), port: 443, tls: true }]);
    bench.connected();
    bench.bytes(&moved("http://h/b"));
    let error = bench.failed();
    assert!(matches!(error, PullError::BadRedirect(_)), "{error}");
}

#[test]
fn a_circle_and_an_endless_row_of_redirects_end() {
    let mut bench = Bench::new("http://h/a?key=hush");
    bench.connect();
    bench.bytes(&moved("/b"));
    bench.outputs();
    bench.connected();
    bench.bytes(&moved("/a?key=hush"));
    assert_eq!(bench.failed(), PullError::RedirectLoop { url: "http://h/a?…".into() });

    let mut bench = Bench::new("http://h/0");
    bench.connect();
    for step in 1..=5 {
        bench.bytes(&moved(&step.to_string()));
        bench.outputs();
        bench.connected();
    }
    bench.bytes(&moved("6"));
    assert_eq!(bench.failed(), PullError::TooManyRedirects { limit: 5 });
}

#[test]
fn silence_ends_each_step() {
    let silent = |what| PullError::Silent { what, time: POLICY.silence_timeout };
    let mut bench = Bench::new("http://h/a");
    bench.puller.handle_timeout(bench.now);
    bench.outputs();
    let wait = |bench: &mut Bench| {
        let deadline = bench.puller.poll_timeout().unwrap();
        assert_eq!(deadline, bench.now + POLICY.silence_timeout);
        bench.now = deadline;
        bench.puller.handle_timeout(deadline);
    };
    wait(&mut bench);
    assert_eq!(bench.failed(), silent("no connection"));
    bench.connect();
    let asked = bench.now;
    // Drops of a head win no time.
    bench.now += Duration::from_secs(2);
    bench.bytes(&OK[..10]);
    assert_eq!(bench.puller.poll_timeout(), Some(asked + POLICY.silence_timeout));
    bench.now = bench.puller.poll_timeout().unwrap();
    bench.puller.handle_timeout(bench.now);
    assert_eq!(bench.failed(), silent("no whole answer"));
    bench.connect();
    bench.bytes(OK);
    bench.now += Duration::from_secs(4);
    bench.bytes(b"x");
    bench.puller.handle_timeout(bench.now);
    assert_eq!(bench.puller.phase(), Phase::Live);
    wait(&mut bench);
    assert_eq!(bench.failed(), silent("no byte of the stream"));
}

#[test]
fn waits_grow_until_a_stream_was_good_for_a_while() {
    let mut bench = Bench::new("http://h/a");
    let mut lose = |bytes: Option<Duration>| {
        bench.connect();
        if let Some(time) = bytes {
            bench.bytes(OK);
            bench.now += time;
            bench.bytes(b"x");
        }
        bench.puller.handle_failure(PullError::Lost("reset".into()), bench.now);
        let wait = bench.puller.poll_timeout().unwrap().since(bench.now);
        assert_eq!(bench.failed(), PullError::Lost("reset".into()));
        wait.as_millis()
    };
    for whole in [250, 500, 1000, 2000, 4000, 4000] {
        // A stream that breaks at once is no better than none.
        let wait = lose((whole > 1000).then_some(Duration::from_millis(100)));
        assert!((whole / 2..=whole).contains(&wait), "{wait} of {whole}");
    }
    assert!(lose(Some(POLICY.good_after)) <= 250);
    assert_eq!((bench.puller.counts().failures, bench.puller.counts().sessions), (7, 4));
}

#[test]
fn what_comes_too_late_changes_nothing() {
    let mut bench = Bench::new("http://h/a");
    bench.connect();
    bench.puller.handle_failure(PullError::Refused("no".into()), bench.now);
    bench.failed();
    bench.puller.handle_connected(bench.now);
    bench.bytes(OK);
    bench.puller.handle_end(bench.now);
    bench.puller.handle_failure(PullError::Ended, bench.now);
    assert!(bench.outputs().is_empty() && bench.stream.is_empty());
    assert_eq!(bench.puller.counts().failures, 1);
}

proptest! {
    #[test]
    fn garbage_never_panics_and_always_leads_to_another_attempt(
        head in prop_oneof![Just(Vec::new()), Just(OK.to_vec()), Just(moved("/b")),
            Just(b"HTTP/1.1 200 OK\r\nContent-Encoding: metacube\r\n\r\n".to_vec())],
        garbage in proptest::collection::vec(any::<u8>(), 0..2000), chop in 1usize..300,
    ) {
        let mut bench = Bench::new("http://h/a");
        for _ in 0..3 {
            bench.connect();
            for part in [&head[..], &garbage[..]].concat().chunks(chop) {
                bench.bytes(part);
                if bench.outputs().iter().any(|output| matches!(output, Output::Connect { .. })) {
                    bench.connected();
                }
            }
            bench.puller.handle_end(bench.now);
            bench.now = bench.now.max(bench.puller.poll_timeout().unwrap());
        }
        prop_assert_eq!(bench.puller.counts().failures, 3);
    }
}

#[test]
fn a_limit_of_servers_passed_is_said_by_the_next_request_and_read_again() {
    let mut bench = Bench::new("http://h/a.ts");
    assert!(!bench.connect().contains(HOPS_FIELD));
    bench.puller.handle_failure(PullError::Ended, bench.now);
    bench.outputs();
    bench.puller.set_hops_limit(Some(2));
    let request = bench.connect();
    assert!(request.contains("\r\nGlassline-Hops: 2\r\n"), "{request}");
    let limit = |value: &str| {
        let request = crate::http1::access::tests::request("GET / HTTP/1.1", &format!("Host: h\r\n{value}"));
        hops_limit(&request.headers)
    };
    assert_eq!(limit("glassline-hops: 2\r\n"), Some(2));
    for none in ["", "Glassline-Hops: 256\r\n", "Glassline-Hops: -1\r\n", "Glassline-Hops: x\r\n"] {
        assert_eq!(limit(none), None, "{none}");
    }
}
