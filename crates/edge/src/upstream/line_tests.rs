use super::super::super::Reading;
use super::super::super::testing::{at, cache, job, text};
use super::super::exchange::Fetch;
use super::*;
use glassline_delivery::fill::Object;
use glassline_delivery::http1::Limits;
use glassline_io::poll::{Poller, Waker};
use glassline_test_support::wait::{PATIENCE, until};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;

/// A connection in a test's hands: a line at one end, and a server's end.
struct Bench {
    line: Line,
    peer: Connection,
    url: Url,
    settings: UpstreamSettings,
    cache: Arc<Cache>,
    counters: FetchCounters,
    poller: Poller,
    mailbox: Arc<FetchMailbox>,
    reading: Option<Reading>,
    scratch: Vec<u8>,
}

impl Bench {
    /// One that stands, and is idle. All objects together may take so much.
    fn new(cache_bytes: u64) -> Bench {
        let (one, peer) = Connection::pair(1 << 20).unwrap();
        let poller = Poller::new().unwrap();
        let mailbox = FetchMailbox::new(Waker::new(&poller, 1).unwrap());
        let url: Url = "http://origin.example".parse().unwrap();
        let mut line = Line::new(0, 1, Connection::pair(1).unwrap().0, at(0));
        line.link = Link::Open(Wire::Plain(one));
        Bench {
            line,
            peer,
            settings: UpstreamSettings::new(vec![url.clone()]),
            url,
            cache: cache(cache_bytes).0,
            counters: FetchCounters::default(),
            poller,
            mailbox,
            reading: None,
            scratch: vec![0; READ_BYTES],
        }
    }

    /// It asks for an object, which has one reader.
    fn ask(mut self) -> Bench {
        let growing = self.cache.fresh();
        self.reading = Some(Reading::new(Arc::clone(&growing)));
        let mut fetch = Fetch::new(job(&self.cache, "/a.m4s", &growing), at(0));
        let (bytes, client) = fetch.request(&self.url, "name", Limits::DEFAULT);
        self.line.out = bytes;
        self.line.exchange = Some(Exchange::new(fetch, client));
        self
    }

    /// A turn at this second.
    fn try_turn(&mut self, second: u64) -> io::Result<Turned> {
        self.line.turn(Around {
            server: &self.url,
            connector: None,
            scratch: &mut self.scratch,
            counters: &self.counters,
            cache: &self.cache,
            mailbox: &self.mailbox,
            clock: &Clock::new(),
            settings: &self.settings,
            now: at(second),
        })
    }

    fn turn(&mut self, second: u64) -> &'static str {
        match self.try_turn(second).unwrap() {
            Turned::Waits => "waits",
            Turned::HasMore => "has more",
            Turned::Done { keeps: true } => "done, keeps",
            Turned::Done { keeps: false } => "done",
            Turned::TryNext => "try next",
            Turned::Failed(_) => "failed",
        }
    }

    fn answer(&self, wire: &[u8]) {
        assert_eq!(self.peer.write(wire).unwrap(), Some(wire.len()));
    }

    fn deliver(&mut self) {
        self.line.exchange.as_mut().unwrap().deliver();
    }

    fn text(&mut self) -> String {
        self.deliver();
        text(self.reading.as_ref().unwrap())
    }

    fn is_woken(&self) -> bool {
        let mut ready = Vec::new();
        self.poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
        !ready.is_empty()
    }
}

#[test]
fn a_request_goes_out_and_its_answer_comes_in_over_turns() {
    let mut bench = Bench::new(64 << 20).ask();
    assert_eq!((bench.turn(1), bench.line.since), ("waits", at(1)), "the request was written");
    let mut got = [0; 200];
    let count = bench.peer.read(&mut got).unwrap().unwrap();
    assert!(got[..count].starts_with(b"GET /a.m4s HTTP/1.1\r\n") && got[..count].ends_with(b"\r\n\r\n"));
    assert_eq!((bench.turn(2), bench.line.since), ("waits", at(1)), "nothing has happened");
    bench.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel");
    assert_eq!((bench.turn(3), bench.line.since), ("waits", at(3)));
    assert_eq!(bench.text(), "hel");
    bench.answer(b"lo");
    assert_eq!(bench.turn(4), "done, keeps");
    assert_eq!(bench.text(), "hello");
    let all = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".len() as u64;
    assert_eq!(bench.counters.figures().bytes, all);
}

#[test]
fn a_connection_on_which_more_came_than_was_asked_for_is_not_used_again() {
    let mut bench = Bench::new(64 << 20).ask();
    bench.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1 200 OK\r\n\r\n");
    assert_eq!((bench.turn(1), bench.text().as_str()), ("done", "x"));
}

#[test]
fn a_connection_that_ends_within_its_answer_is_broken_off() {
    let mut bench = Bench::new(64 << 20).ask();
    bench.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel");
    bench.peer.end().unwrap();
    assert_eq!(bench.try_turn(1).err().map(|error| error.kind()), Some(io::ErrorKind::UnexpectedEof));
    assert_eq!(bench.text(), "hel", "what came is handed on all the same");
}

#[test]
fn a_connections_end_is_the_answers_where_that_has_no_length() {
    let mut bench = Bench::new(64 << 20).ask();
    bench.answer(b"HTTP/1.1 200 OK\r\n\r\nhello");
    bench.peer.end().unwrap();
    assert_eq!((bench.turn(1), bench.text().as_str()), ("done", "hello"));
}

#[test]
fn what_an_answer_says_of_its_server_is_what_the_turn_comes_to() {
    for (wire, expected) in [
        (&b"HTTP/1.1 503 x\r\nContent-Length: 0\r\n\r\n"[..], "try next"),
        (b"HTTP/1.1 206 x\r\nContent-Length: 0\r\n\r\n", "failed"),
        (b"HTTP/1.1 404 x\r\nContent-Length: 0\r\n\r\n", "done, keeps"),
    ] {
        let mut bench = Bench::new(64 << 20).ask();
        bench.answer(wire);
        assert_eq!(bench.turn(1), expected);
    }
    let mut bench = Bench::new(64 << 20).ask();
    bench.answer(b"no HTTP at all\r\n\r\n");
    assert!(bench.try_turn(1).is_err());
}

#[test]
fn an_idle_connection_on_which_anything_comes_is_of_no_use() {
    for end in [false, true] {
        let mut bench = Bench::new(64 << 20);
        assert_eq!(bench.turn(1), "waits");
        if end {
            bench.peer.end().unwrap();
        } else {
            bench.answer(b"HTTP/1.1 408 x\r\n\r\n");
        }
        let error = bench.try_turn(2).err().map(|error| error.kind());
        assert_eq!(error, Some(io::ErrorKind::ConnectionAborted));
    }
}

#[test]
fn an_object_that_is_far_enough_ahead_of_its_reader_is_not_read_on() {
    let mut bench = Bench::new(1 << 20).ask();
    const BODY: usize = 220_000;
    bench.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n");
    bench.answer(&[7; BODY]);
    assert_eq!(bench.turn(1), "waits");
    assert!(bench.line.is_paused && !bench.is_woken());
    bench.deliver();
    let filled = bench.reading.as_ref().unwrap().look(Object::filled);
    // An eighth of what is free, and what one read takes at least.
    assert!((1 << 17..(1 << 17) + READ_BYTES_MIN as u64).contains(&filled), "{filled}");
    // The reader has read all; the next turn, which the thread begins for that, takes what is left.
    let reader = super::super::super::Reader { thread: 0, token: 0 };
    bench.reading.as_ref().unwrap().look_or_wait(reader, (filled, filled), |_| Some(()));
    bench.line.is_paused = false;
    assert_eq!((bench.turn(2), bench.line.is_paused), ("waits", false));
    bench.deliver();
    assert_eq!(bench.reading.as_ref().unwrap().look(Object::filled), BODY as u64);
}

#[test]
fn where_memory_is_short_it_pauses_and_asks_for_another_turn() {
    let mut bench = Bench::new(1 << 20).ask();
    let held = bench.cache.fresh().hold(vec![0; 1 << 20]);
    bench.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(bench.turn(1), "waits");
    assert!(bench.line.is_paused && bench.is_woken(), "behind it another turn makes room");
    assert_eq!(bench.counters.figures().bytes, 0, "nothing was read");
    bench.mailbox.collect();
    drop(held);
    bench.line.is_paused = false;
    assert_eq!((bench.turn(2), bench.text().as_str()), ("done, keeps", "hello"));
}

#[test]
fn a_connection_is_given_up_after_the_time_of_what_it_does() {
    let mut bench = Bench::new(1 << 20);
    let settings = UpstreamSettings {
        connect_timeout: Duration::from_secs(3),
        silence_timeout: Duration::from_secs(7),
        ..bench.settings.clone()
    };
    assert_eq!(bench.line.timeout(&settings), IDLE_TIMEOUT);
    bench = bench.ask();
    assert_eq!(bench.line.timeout(&settings), Duration::from_secs(7));
    bench.line.link = Link::Opening(Connection::pair(1).unwrap().0);
    assert_eq!(bench.line.timeout(&settings), Duration::from_secs(3));
}

#[test]
fn a_connection_that_is_being_opened_sends_when_it_stands() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut bench = Bench::new(1 << 20).ask();
    let address = listener.local_addr().unwrap();
    bench.line.link = Link::Opening(Connection::connect_from(address, None, None).unwrap());
    let (mut server, _) = listener.accept().unwrap();
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    until("the connection to stand", || {
        assert_eq!(bench.turn(1), "waits");
        matches!(bench.line.link, Link::Open(_))
    });
    let mut got = [0; 4];
    server.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"GET ");
    server.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
    until("the answer", || bench.turn(2) == "done, keeps");
    assert_eq!(bench.text(), "ok");
}

#[test]
fn a_port_on_which_no_server_listens_is_an_error_of_the_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut bench = Bench::new(1 << 20).ask();
    bench.line.link = Link::Opening(Connection::connect_from(address, None, None).unwrap());
    until("the refusal", || bench.try_turn(1).is_err());
}

#[test]
fn a_token_tells_a_connection_from_an_earlier_one_in_its_slot() {
    let bench = Bench::new(1 << 20);
    assert_eq!(bench.line.token(5), 1 << 32 | 5);
    assert_eq!(token(u32::MAX as usize, 0x7FFF_FFFF), 0x7FFF_FFFF_FFFF_FFFF);
    assert_ne!(token(3, 1), token(3, 2));
}
