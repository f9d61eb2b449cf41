use super::super::testing::{Bench, POLICY, pull};
use super::super::{Pull, Source};
use super::*;
use crate::testing::ts;
use glassline_streams::status::SourceState;
use glassline_test_support::program::Scratch;
use glassline_test_support::tls::Identity;
use glassline_test_support::wait::{PATIENCE, until};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Type: video/mp2t\r\n\r\n";

/// A source in a test's hands, and the servers that have it.
struct Pulled {
    bench: Bench,
    upstream: Upstream,
    listeners: Vec<TcpListener>,
}

fn port(listener: &TcpListener) -> u16 {
    listener.local_addr().unwrap().port()
}

impl Pulled {
    /// A source at `host`, with so many servers more.
    fn at(scheme: &str, host: &str, alternates: usize, ca: Option<std::path::PathBuf>) -> Pulled {
        let listeners: Vec<TcpListener> =
            (0..=alternates).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let url = |listener| format!("{scheme}://{host}:{}/live/x.ts", port(listener));
        let source = url(&listeners[0]);
        let alternates = listeners[1..].iter().map(|it| url(it).parse().unwrap()).collect();
        let bench = Bench::new(&[Pull { alternates, ca, ..pull("a", &source) }]);
        let Source::Http(url) = Source::parse(&source).unwrap() else { panic!("HTTP") };
        let upstream = Upstream::new(&*bench.house, 0, bench.entry(), url, POLICY, 7);
        Pulled { bench, upstream, listeners }
    }

    fn new() -> Pulled {
        Pulled::at("http", "127.0.0.1", 0, None)
    }

    fn handle_timeout(&mut self) {
        self.bench.with(|context| self.upstream.handle_timeout(context));
    }

    /// Handles what its socket has, until this is so.
    fn until(&mut self, what: &str, done: impl Fn(&Bench) -> bool) {
        until(what, || {
            for generation in self.bench.ready() {
                let mut more = true;
                while std::mem::take(&mut more) {
                    more = self.bench.with(|context| self.upstream.take_turn(generation, context));
                }
            }
            done(&self.bench)
        });
    }

    /// A server's end of the connection, once it is asked. Returns what it was asked, too.
    fn accept(&mut self, number: usize) -> (TcpStream, String) {
        let listener = self.listeners[number].try_clone().unwrap();
        listener.set_nonblocking(true).unwrap();
        let mut accepted = None;
        self.until("a connection", |_| true);
        until("a connection", || {
            accepted = listener.accept().ok();
            accepted.is_some()
        });
        let (mut stream, _) = accepted.unwrap();
        stream.set_nonblocking(true).unwrap();
        let (mut request, mut byte) = (Vec::new(), [0]);
        until("a request", || {
            self.until("a turn", |_| true);
            while stream.read(&mut byte).is_ok_and(|count| count == 1) {
                request.push(byte[0]);
            }
            request.ends_with(b"\r\n\r\n")
        });
        stream.set_nonblocking(false).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        (stream, String::from_utf8(request).unwrap())
    }

    fn failures(bench: &Bench) -> u64 {
        bench.status("a").failures
    }

    /// How long it waits before it asks again.
    fn retry_in(&self) -> Duration {
        match self.bench.status("a").state {
            SourceState::Waiting { retry_in } => retry_in.unwrap(),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_source_that_answers_is_published_as_it_comes() {
    let mut pulled = Pulled::new();
    assert!(pulled.upstream.poll_timeout() <= pulled.bench.now(), "the first attempt is due at once");
    pulled.handle_timeout();
    assert_eq!(pulled.bench.status("a").state, SourceState::Connecting);
    let (mut server, request) = pulled.accept(0);
    assert!(
        request.starts_with("GET /live/x.ts HTTP/1.1\r\n")
            && request.contains("\r\nAccept-Encoding: metacube\r\n")
    );
    let bytes = ts(20);
    server.write_all(&[OK.as_bytes(), &bytes[..1000]].concat()).unwrap();
    pulled.until("its begin", |bench| bench.house.bytes_in("a") == Some(1000));
    server.write_all(&bytes[1000..]).unwrap();
    let count = bytes.len() as u64;
    pulled.until("the rest", |bench| bench.house.bytes_in("a") == Some(count));
    let status = pulled.bench.status("a");
    assert_eq!(
        (status.state, status.sessions, status.failures, status.error),
        (SourceState::Live, 1, 0, None)
    );
}

#[test]
fn a_stream_that_ends_gives_its_slot_back_and_is_asked_for_again() {
    let mut pulled = Pulled::new();
    pulled.handle_timeout();
    let (mut server, _) = pulled.accept(0);
    server.write_all(&[OK.as_bytes(), &ts(3)].concat()).unwrap();
    pulled.until("its begin", |bench| bench.house.is_published("a"));
    drop(server);
    pulled.until("its end", |bench| Pulled::failures(bench) == 1);
    assert!(!pulled.bench.house.is_published("a"));
    assert_eq!(pulled.bench.status("a").error.as_deref(), Some("the upstream ended the stream"));
    let retry_in = pulled.retry_in();
    assert!(retry_in <= POLICY.retry_min, "{retry_in:?}");
    pulled.bench.later = POLICY.retry_min;
    pulled.handle_timeout();
    let (mut server, _) = pulled.accept(0);
    server.write_all(&[OK.as_bytes(), &ts(3)].concat()).unwrap();
    pulled.until("its return", |bench| bench.house.is_published("a"));
    assert_eq!(pulled.bench.status("a").sessions, 2);
}

#[test]
fn a_server_that_refuses_is_asked_after_waits_that_double_up_to_the_longest() {
    let mut pulled = Pulled::new();
    let mut longest = POLICY.retry_min;
    for failures in 1..=6 {
        pulled.handle_timeout();
        let (mut server, _) = pulled.accept(0);
        let before = pulled.bench.now();
        server.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").unwrap();
        pulled.until("the refusal", |bench| Pulled::failures(bench) == failures);
        let wait = pulled.upstream.poll_timeout();
        // It was reckoned from a moment before now.
        let from_now = wait.since(pulled.bench.now());
        assert!(from_now <= longest, "{failures}: {from_now:?}");
        // It is shortened by up to a half, at random.
        assert!(wait.since(before) >= longest / 2, "{failures}: {from_now:?}");
        pulled.bench.later += from_now;
        pulled.handle_timeout();
        longest = (longest * 2).min(POLICY.retry_max);
        pulled.bench.later += Duration::from_millis(1);
    }
    let error = pulled.bench.status("a").error.unwrap();
    assert_eq!(error, "the upstream answered 404, expected 200");
}

#[test]
fn a_port_on_which_no_server_listens_is_told_of() {
    let mut pulled = Pulled::new();
    pulled.listeners.clear();
    pulled.handle_timeout();
    pulled.until("the refusal", |bench| Pulled::failures(bench) == 1);
    let error = pulled.bench.status("a").error.unwrap();
    assert!(error.starts_with("cannot connect: "), "{error}");
}

#[test]
fn a_name_that_another_publisher_has_is_no_source_of_this_one() {
    let mut pulled = Pulled::new();
    let _other = pulled.bench.house.publish("a");
    pulled.handle_timeout();
    let (mut server, _) = pulled.accept(0);
    server.write_all(&[OK.as_bytes(), &ts(3)].concat()).unwrap();
    pulled.until("the refusal", |bench| Pulled::failures(bench) == 1);
    let error = pulled.bench.status("a").error.unwrap();
    assert!(error.contains("stream a has a publisher already"), "{error}");
    assert_eq!(pulled.bench.house.bytes_in("a"), Some(0));
}

#[test]
fn what_is_no_http_and_what_is_no_transport_stream_are_failures() {
    let noise = [OK.as_bytes(), &[0x11; 200_000]].concat();
    for wire in [&b"220 mail.example ESMTP\r\n\r\n"[..], &noise] {
        let mut pulled = Pulled::new();
        pulled.handle_timeout();
        let (mut server, _) = pulled.accept(0);
        server.write_all(wire).unwrap();
        pulled.until("the failure", |bench| Pulled::failures(bench) == 1);
        assert!(!pulled.bench.house.is_published("a"));
    }
}

#[test]
fn where_the_source_fails_an_alternate_is_asked_at_once() {
    let mut pulled = Pulled::at("http", "127.0.0.1", 1, None);
    pulled.handle_timeout();
    let (mut server, _) = pulled.accept(0);
    server.write_all(b"HTTP/1.1 503 x\r\nContent-Length: 0\r\n\r\n").unwrap();
    pulled.until("the refusal", |bench| Pulled::failures(bench) == 1);
    assert!(pulled.upstream.poll_timeout() <= pulled.bench.now());
    pulled.handle_timeout();
    let (mut server, _) = pulled.accept(1);
    server.write_all(&[OK.as_bytes(), &ts(3)].concat()).unwrap();
    pulled.until("its begin", |bench| bench.house.is_published("a"));
    let expected = format!("http://127.0.0.1:{}/live/x.ts", port(&pulled.listeners[1]));
    assert_eq!(pulled.bench.status("a").url, expected);
}

#[test]
fn a_source_that_is_silent_is_given_up_by_its_time() {
    let mut pulled = Pulled::new();
    pulled.handle_timeout();
    let (mut server, _) = pulled.accept(0);
    server.write_all(&[OK.as_bytes(), &ts(3)].concat()).unwrap();
    pulled.until("its begin", |bench| bench.house.is_published("a"));
    pulled.handle_timeout();
    assert!(pulled.bench.house.is_published("a"), "not before");
    pulled.bench.later = POLICY.silence_timeout;
    pulled.handle_timeout();
    assert!(!pulled.bench.house.is_published("a"));
    assert_eq!(pulled.bench.status("a").error.as_deref(), Some("no byte of the stream for 600 s"));
    assert!(pulled.retry_in() <= POLICY.retry_min, "what was good for long begins anew");
}

#[test]
fn a_shorter_patience_holds_for_what_is_on_its_way() {
    let mut pulled = Pulled::new();
    pulled.handle_timeout();
    pulled.upstream.reconfigure(Policy { silence_timeout: Duration::from_secs(1), ..POLICY });
    let left = pulled.upstream.poll_timeout().since(pulled.bench.now());
    assert!(left <= Duration::from_secs(1), "{left:?}");
}

#[test]
fn a_name_is_resolved_on_a_thread_and_its_addresses_are_tried_one_after_the_other() {
    let mut pulled = Pulled::at("http", "localhost", 0, None);
    pulled.handle_timeout();
    assert_eq!(pulled.upstream.resolving, pulled.upstream.wanted);
    let mut resolved = None;
    until("the resolver", || {
        resolved = pulled.bench.resolved();
        resolved.is_some()
    });
    assert_eq!(resolved.unwrap().index, 0);
    // The first address has no server; the second is the one that listens.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let open = pulled.listeners[0].local_addr().unwrap();
    pulled.bench.with(|context| pulled.upstream.handle_resolved(Ok(vec![closed, open]), context));
    let (_server, request) = pulled.accept(0);
    assert!(request.contains(&format!("\r\nHost: localhost:{}\r\n", open.port())), "{request}");
    assert_eq!(Pulled::failures(&pulled.bench), 0);
}

#[test]
fn a_name_without_addresses_is_a_failure_and_so_is_one_that_is_not_found() {
    let answers: [io::Result<Vec<SocketAddr>>; 2] = [Ok(Vec::new()), Err(io::Error::other("not found"))];
    for (answer, words) in answers.into_iter().zip(["the name has no address", "not found"]) {
        let mut pulled = Pulled::at("http", "localhost", 0, None);
        pulled.handle_timeout();
        pulled.bench.with(|context| pulled.upstream.handle_resolved(answer, context));
        let error = pulled.bench.status("a").error.unwrap();
        assert_eq!(error, format!("cannot connect: {words}"));
    }
}

#[test]
fn addresses_of_a_name_that_is_wanted_no_more_are_not_used() {
    let mut pulled = Pulled::at("http", "localhost", 0, None);
    pulled.handle_timeout();
    let open = pulled.listeners[0].local_addr().unwrap();
    // The attempt was given up meanwhile, and another one is not due.
    pulled.bench.with(|context| {
        pulled.upstream.puller.handle_failure(PullError::Connect("given up".into()), context.now);
        pulled.upstream.settle(context);
    });
    assert_eq!(pulled.upstream.wanted, None);
    pulled.bench.with(|context| pulled.upstream.handle_resolved(Ok(vec![open]), context));
    assert!(matches!(pulled.upstream.link, Link::Closed));
    assert_eq!(Pulled::failures(&pulled.bench), 1);
}

#[test]
fn what_epoll_tells_of_an_earlier_socket_is_void() {
    let mut pulled = Pulled::new();
    pulled.handle_timeout();
    let (_first, _) = pulled.accept(0);
    let generation = pulled.upstream.generation;
    pulled.bench.with(|context| {
        pulled.upstream.puller.handle_failure(PullError::Connect("given up".into()), context.now);
        pulled.upstream.settle(context);
    });
    pulled.bench.later = POLICY.retry_min;
    pulled.handle_timeout();
    let (mut second, _) = pulled.accept(0);
    assert_ne!(pulled.upstream.generation, generation);
    second.write_all(&[OK.as_bytes(), &ts(3)].concat()).unwrap();
    assert!(!pulled.bench.with(|context| pulled.upstream.take_turn(generation, context)));
    assert_eq!(pulled.bench.house.bytes_in("a"), None, "nothing is read for that");
    pulled.until("its own turn", |bench| bench.house.is_published("a"));
}

#[test]
fn a_server_without_tls_where_tls_is_expected_is_told_of_in_words() {
    let (scratch, identity) = (Scratch::new("upstream-tls"), Identity::new(&["localhost"]));
    identity.write(&scratch, "it");
    let mut pulled = Pulled::at("https", "127.0.0.1", 0, Some(scratch.path().join("it.pem")));
    pulled.handle_timeout();
    let listener = pulled.listeners[0].try_clone().unwrap();
    pulled.until("a turn", |_| true);
    let (mut server, _) = listener.accept().unwrap();
    server.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    pulled.until("the failure", |bench| Pulled::failures(bench) == 1);
    let error = pulled.bench.status("a").error.unwrap();
    assert_eq!(error, "cannot connect: it speaks plain HTTP where TLS is expected");
}

#[test]
fn authorities_that_cannot_be_read_are_a_failure_of_the_connection() {
    let mut pulled = Pulled::at("https", "127.0.0.1", 0, Some("/nowhere/authorities.pem".into()));
    pulled.handle_timeout();
    pulled.until("the failure", |bench| Pulled::failures(bench) == 1);
    let error = pulled.bench.status("a").error.unwrap();
    assert!(error.starts_with("cannot connect: ") && error.contains("authorities.pem"), "{error}");
}

#[test]
fn only_a_source_with_an_open_connection_is_handed_over() {
    let mut pulled = Pulled::new();
    assert!(pulled.upstream.state().is_none());
    pulled.handle_timeout();
    assert!(pulled.upstream.state().is_none(), "it is being connected to");
    let (mut server, _) = pulled.accept(0);
    server.write_all(&[OK.as_bytes(), &ts(3)].concat()).unwrap();
    pulled.until("its begin", |bench| bench.house.is_published("a"));
    let (state, socket) = pulled.upstream.state().unwrap();
    assert_eq!((state.sessions.len(), state.note.sessions, state.outgoing.len()), (1, 1, 0));
    assert!(matches!(socket, LeftSocket::Own(_)) && socket.into_ours().is_none());
}

#[test]
fn a_next_process_reads_on_where_the_old_one_left_off() {
    let mut pulled = Pulled::new();
    pulled.handle_timeout();
    let (mut server, _) = pulled.accept(0);
    let bytes = ts(20);
    server.write_all(&[OK.as_bytes(), &bytes[..700]].concat()).unwrap();
    pulled.until("its begin", |bench| bench.house.bytes_in("a") == Some(700));
    let (state, socket) = pulled.upstream.state().unwrap();
    let socket = socket.as_fd().try_clone_to_owned().unwrap();
    let Source::Http(url) = pulled.upstream.entry.source.clone() else { panic!("HTTP") };
    let next = Upstream::new(&*pulled.bench.house, 0, pulled.bench.entry(), url, POLICY, 8);
    let old = std::mem::replace(&mut pulled.upstream, next);
    pulled.upstream.restore(state, socket, &pulled.bench.poller).unwrap();
    assert_eq!(pulled.upstream.slots.sessions(), old.slots.sessions());
    // The old process is gone, and gives nothing up.
    let Upstream { link: Link::Open(wire), slots: _slots, .. } = old else { panic!("it was open") };
    drop(wire);
    server.write_all(&bytes[700..]).unwrap();
    let count = bytes.len() as u64;
    pulled.until("the rest", |bench| bench.house.bytes_in("a") == Some(count));
    let status = pulled.bench.status("a");
    assert_eq!((status.state, status.sessions), (SourceState::Live, 1));
}

#[test]
fn a_next_process_that_has_lost_the_slot_begins_anew() {
    let mut pulled = Pulled::new();
    pulled.handle_timeout();
    let (mut server, _) = pulled.accept(0);
    server.write_all(&[OK.as_bytes(), &ts(3)].concat()).unwrap();
    pulled.until("its begin", |bench| bench.house.is_published("a"));
    let (state, socket) = pulled.upstream.state().unwrap();
    let socket = socket.as_fd().try_clone_to_owned().unwrap();
    let state = UpstreamState { sessions: vec![state.sessions[0] + 1], ..state };
    let Source::Http(url) = pulled.upstream.entry.source.clone() else { panic!("HTTP") };
    let mut next = Upstream::new(&*pulled.bench.house, 0, pulled.bench.entry(), url, POLICY, 8);
    next.restore(state, socket, &pulled.bench.poller).unwrap();
    assert!(matches!(next.link, Link::Closed) && next.poll_timeout() <= pulled.bench.now());
}

#[test]
fn a_blocks_flags_say_whether_readers_can_begin_with_it() {
    let (begins, rest) = (Flags::HEADER, Flags::NOT_SUITABLE_FOR_STREAM_START);
    let of = [Flags::NONE, Flags::METADATA, begins, rest].map(block);
    assert_eq!(of, [Block::Join, Block::Join, Block::Header, Block::Rest]);
}

#[test]
fn only_a_difference_that_two_clocks_may_have_is_a_delay() {
    let at = |seconds: u64| Utc::from_nanos(seconds * 1_000_000_000);
    assert_eq!(delay(at(10), at(13)), Some(Duration::from_secs(3)));
    assert_eq!(delay(at(10), at(10)), Some(Duration::ZERO));
    assert_eq!(delay(at(10), at(9)), None);
    assert_eq!(delay(at(10), at(3610)), Some(PLAUSIBLE_DELAY));
    assert_eq!(delay(at(10), at(3611)), None);
}
