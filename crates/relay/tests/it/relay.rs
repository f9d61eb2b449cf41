//! The relay through its sockets: publish, watch, fall behind, come back, misbehave.

use glassline_delivery::http1::server::Request;
use glassline_delivery::http1::{Limits, Response};
use glassline_delivery::policy::StreamName;
use glassline_delivery::pull;
use glassline_delivery::stream::Backlog;
use glassline_media::container::ts::{Aligner, ContinuityChecker, PACKET_BYTES, Packet};
use glassline_relay::fuzzing::passed_on;
use glassline_relay::{Hub, Listen, ListenerRole, Pull, Relay, Settings, Site};
use glassline_test_support::ts::Source;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Says the path back; below `/long/` from the thread of long answers, after a while.
struct Echo;

impl Site for Echo {
    fn respond(&self, request: &Request, _: ListenerRole, _: IpAddr, _: &Hub) -> Response {
        if !is_long(request) {
            return Response::ok("text/plain", request.path.clone());
        }
        std::thread::sleep(Duration::from_millis(20));
        let thread = std::thread::current();
        Response::ok("text/plain", format!("{} by {}", request.path, thread.name().unwrap_or_default()))
    }

    fn takes_long(&self, request: &Request, _: ListenerRole, _: IpAddr, _: &Hub) -> bool {
        is_long(request)
    }
}

fn is_long(request: &Request) -> bool {
    request.path.starts_with("/long/")
}

/// Long enough for any machine; nothing waits for it when all is well.
const TIMEOUT: Duration = Duration::from_secs(20);

fn local() -> Listen {
    "127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into()
}

fn relay_with(change: impl FnOnce(&mut Settings)) -> Relay {
    let mut settings = Settings { listen: vec![local()], workers: 2, ..Settings::default() };
    change(&mut settings);
    Relay::start(settings, Arc::new(Echo)).unwrap()
}

fn relay() -> Relay {
    relay_with(|_| {})
}

fn connect(relay: &Relay) -> TcpStream {
    let stream = TcpStream::connect(relay.addresses()[0]).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

fn publish(relay: &Relay, target: &str) -> TcpStream {
    let mut stream = connect(relay);
    write!(stream, "PUT {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    stream
}

fn watch(relay: &Relay, name: &str) -> TcpStream {
    let mut stream = connect(relay);
    write!(stream, "GET /live/{name}.ts HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let head = read_head(&mut stream);
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    stream
}

fn read_head(stream: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

fn answer(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain for: {what}");
        std::thread::yield_now();
    }
}

fn bytes_in(relay: &Relay) -> u64 {
    relay.hub().streams().iter().map(|stream| stream.bytes_in).sum()
}

#[test]
fn a_viewer_gets_what_the_publisher_sends_from_the_key_frame_on() {
    let relay = relay();
    let (mut source, mut publisher) = (Source::default(), publish(&relay, "/live/a.ts"));
    let before = [source.tables(), source.picture(true, 2), source.picture(false, 3)].concat();
    publisher.write_all(&before).unwrap();
    until("the first bytes", || bytes_in(&relay) == before.len() as u64);
    let mut viewer = watch(&relay, "a");
    let after = [source.picture(false, 5), source.tables(), source.picture(true, 5)].concat();
    // It joins at the newest key frame, so what is to come must not be there before it has joined.
    let mut got = vec![0; before.len() + after.len()];
    viewer.read_exact(&mut got[..before.len()]).unwrap();
    publisher.write_all(&after).unwrap();
    viewer.read_exact(&mut got[before.len()..]).unwrap();
    assert_eq!(got, [before, after].concat());
    let status = relay.hub().streams().remove(0);
    assert_eq!((status.viewers, status.live, status.sessions), (1, true, 1));
}

/// A connection that asks for `path` and has its answer, and the answer.
fn keep_alive(relay: &Relay, path: &str) -> (TcpStream, String) {
    let mut stream = connect(relay);
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let head = read_head(&mut stream);
    let mut body = vec![0; path.len()];
    if head.starts_with("HTTP/1.1 200 ") {
        stream.read_exact(&mut body).unwrap();
    }
    (stream, head)
}

fn has_ended(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let ended = matches!(stream.read(&mut [0]), Ok(0));
    stream.set_nonblocking(false).unwrap();
    ended
}

#[test]
fn the_connection_that_rested_longest_gives_way_to_a_newcomer_and_nothing_else_does() {
    let relay = relay_with(|settings| {
        (settings.workers, settings.max_connections, settings.max_unanswered_per_address) = (1, 6, 0);
    });
    let (mut source, mut publisher) = (Source::default(), publish(&relay, "/live/a.ts"));
    publisher.write_all(&[source.tables(), source.picture(true, 2)].concat()).unwrap();
    until("the stream", || bytes_in(&relay) > 0);
    let mut viewer = watch(&relay, "a");
    let mut began = connect(&relay);
    began.write_all(b"GET /began HTTP/1.1\r\n").unwrap();
    let mut resting: Vec<TcpStream> = (0..3).map(|_| keep_alive(&relay, "/first").0).collect();
    assert_eq!(relay.hub().totals().connections, 6);
    // The first asks again, and the second has rested longest by then.
    write!(resting[0], "GET /again HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    read_head(&mut resting[0]);
    resting[0].read_exact(&mut [0; 6]).unwrap();
    let (newcomer, head) = keep_alive(&relay, "/new");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    until("its end", || has_ended(&mut resting[1]));
    assert!(!has_ended(&mut resting[0]) && !has_ended(&mut resting[2]));
    // Of a hundred each is answered.
    let others: Vec<TcpStream> = (0..100)
        .map(|_| keep_alive(&relay, "/other"))
        .map(|(stream, head)| {
            assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
            stream
        })
        .collect();
    let totals = relay.hub().totals();
    assert_eq!((totals.connections, totals.gave_way, totals.refused), (6, 101, 0));
    drop((newcomer, others, resting));
    until("room", || relay.hub().totals().connections == 3);
    // Requests that have begun leave no room.
    let _began: Vec<TcpStream> = (0..3)
        .map(|_| {
            let mut stream = connect(&relay);
            stream.write_all(b"GET /").unwrap();
            stream
        })
        .collect();
    until("them", || relay.hub().totals().connections == 6);
    assert!(read_head(&mut connect(&relay)).starts_with("HTTP/1.1 503 "));
    began.write_all(b"Host: localhost\r\n\r\n").unwrap();
    assert!(read_head(&mut began).starts_with("HTTP/1.1 200 "));
    let picture = source.picture(false, 3);
    publisher.write_all(&picture).unwrap();
    let mut got = vec![0; (1 + 1 + 2 + 3) * PACKET_BYTES];
    viewer.read_exact(&mut got).unwrap();
    assert!(got.ends_with(&picture));
}

#[test]
fn an_address_that_has_all_it_may_takes_places_from_itself() {
    let relay = relay_with(|settings| {
        (settings.workers, settings.max_connections_per_address) = (1, 2);
    });
    let mut first = keep_alive(&relay, "/first").0;
    let mut began = connect(&relay);
    began.write_all(b"GET /").unwrap();
    until("both", || relay.hub().totals().connections == 2);
    let (mut second, head) = keep_alive(&relay, "/second");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    until("the first one's end", || has_ended(&mut first));
    second.write_all(b"GET /").unwrap();
    assert!(read_head(&mut connect(&relay)).starts_with("HTTP/1.1 503 "));
}

#[test]
fn a_viewer_may_come_before_the_first_key_frame() {
    let relay = relay();
    let (mut source, mut publisher) = (Source::default(), publish(&relay, "/live/a.ts"));
    publisher.write_all(&source.tables()).unwrap();
    until("the stream", || bytes_in(&relay) == 376);
    let mut viewer = watch(&relay, "a");
    let picture = source.picture(true, 4);
    publisher.write_all(&picture).unwrap();
    let mut got = vec![0; 376 + picture.len()];
    viewer.read_exact(&mut got).unwrap();
    assert_eq!(got[376..], picture);
}

#[test]
fn the_publisher_may_come_back_and_viewers_go_on() {
    let relay = relay();
    let mut source = Source::default();
    let mut first = publish(&relay, "/live/a.ts");
    let bytes = [source.tables(), source.picture(true, 4)].concat();
    first.write_all(&bytes).unwrap();
    until("the first publisher", || bytes_in(&relay) == bytes.len() as u64);
    let mut viewer = watch(&relay, "a");
    let mut got = vec![0; bytes.len()];
    viewer.read_exact(&mut got).unwrap();
    drop(first);
    until("its leaving", || !relay.hub().streams()[0].live);

    let mut second = publish(&relay, "/live/a.ts");
    let mut source = Source::default();
    second.write_all(&[source.tables(), source.picture(true, 4)].concat()).unwrap();
    // Each of three PIDs is announced by a packet of its own.
    let mut more = vec![0; bytes.len() + 3 * PACKET_BYTES];
    viewer.read_exact(&mut more).unwrap();
    got.extend(more);
    assert_eq!(continuity_errors(&got), 0);
}

#[test]
fn a_second_publisher_is_refused_unless_it_takes_over() {
    let relay = relay();
    let mut source = Source::default();
    let mut first = publish(&relay, "/live/a.ts");
    first.write_all(&source.tables()).unwrap();
    until("the first publisher", || bytes_in(&relay) == 376);
    let refused = answer(&mut publish(&relay, "/live/a.ts"));
    assert!(refused.starts_with("HTTP/1.1 409 ") && refused.contains("takeover=1"), "{refused}");
    assert!(refused.contains("application/problem+json"));

    let mut third = publish(&relay, "/live/a.ts?takeover=1");
    let evicted = answer(&mut first);
    assert!(evicted.starts_with("HTTP/1.1 409 "), "{evicted}");
    third.write_all(&source.picture(true, 2)).unwrap();
    until("the new publisher's bytes", || bytes_in(&relay) == 376 * 2);
}

#[test]
fn a_silent_publisher_gives_up_its_name() {
    let relay = relay_with(|settings| settings.silence_timeout = Duration::from_millis(200));
    let told = answer(&mut publish(&relay, "/live/a.ts"));
    assert!(told.starts_with("HTTP/1.1 408 "), "{told}");
    until("the stream that never was to go", || relay.hub().streams().is_empty());
}

#[test]
fn viewers_are_let_go_when_the_publisher_does_not_return() {
    let relay = relay_with(|settings| settings.return_window = Duration::from_millis(200));
    let (mut source, mut publisher) = (Source::default(), publish(&relay, "/live/a.ts"));
    let bytes = [source.tables(), source.picture(true, 4)].concat();
    publisher.write_all(&bytes).unwrap();
    until("the bytes", || bytes_in(&relay) == bytes.len() as u64);
    let mut viewer = watch(&relay, "a");
    drop(publisher);
    let mut got = Vec::new();
    viewer.read_to_end(&mut got).unwrap();
    assert_eq!(got, bytes);
    until("the stream to go", || relay.hub().streams().is_empty());
}

#[test]
fn what_is_no_transport_stream_is_refused() {
    let relay = relay();
    let mut publisher = connect(&relay);
    write!(publisher, "PUT /live/a.ts HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n\r\n")
        .unwrap();
    publisher.write_all(&[b'x'; 200_000]).unwrap();
    let told = answer(&mut publisher);
    assert!(told.starts_with("HTTP/1.1 415 "), "{told}");
}

fn continuity_errors(bytes: &[u8]) -> u64 {
    let (mut aligner, mut checker) = (Aligner::new(), ContinuityChecker::new());
    aligner.push(bytes, &mut |run| {
        for packet in run.as_chunks::<PACKET_BYTES>().0 {
            checker.check(&Packet::parse(packet).unwrap());
        }
    });
    assert_eq!(aligner.skipped_bytes(), 0, "a viewer got a broken packet");
    checker.errors()
}

#[test]
fn who_falls_behind_is_moved_to_a_key_frame_and_told() {
    let relay = relay_with(|settings| {
        settings.stream.backlog = Backlog { time: Duration::from_millis(100), bytes: 1 << 20 };
    });
    let mut source = Source::default();
    let mut publisher = publish(&relay, "/live/a.ts");
    publisher.write_all(&[source.tables(), source.picture(true, 10)].concat()).unwrap();
    until("the stream", || bytes_in(&relay) > 2000);
    let mut slow = watch(&relay, "a");
    // Far more than sockets hold: the viewer reads nothing meanwhile.
    let mut pushed = 0u64;
    while pushed < 40 << 20 {
        let mut group = [source.tables(), source.picture(true, 100)].concat();
        (0..20).for_each(|_| group.extend(source.picture(false, 100)));
        publisher.write_all(&group).unwrap();
        pushed += group.len() as u64;
    }
    until("all bytes", || bytes_in(&relay) > pushed);
    // Now it reads on, while the stream goes on slowly.
    let mut got = Vec::new();
    slow.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let deadline = Instant::now() + TIMEOUT;
    let mut after_move = 0;
    while after_move < 100 {
        assert!(Instant::now() < deadline, "never moved forward after {} bytes", got.len());
        after_move += u32::from(relay.hub().streams()[0].moved_forward > 0);
        publisher.write_all(&[source.tables(), source.picture(true, 20)].concat()).unwrap();
        let mut buffer = [0; 65536];
        if let Ok(count) = slow.read(&mut buffer) {
            got.extend_from_slice(&buffer[..count]);
        }
    }
    assert!((got.len() as u64) < pushed, "it was never behind");
    assert_eq!(continuity_errors(&got), 0);
}

#[test]
fn a_viewer_that_takes_nothing_is_dropped() {
    let relay = relay_with(|settings| {
        settings.stall_timeout = Duration::from_millis(300);
        settings.stream.backlog = Backlog { time: Duration::from_secs(1), bytes: 4 << 20 };
    });
    let (mut source, mut publisher) = (Source::default(), publish(&relay, "/live/a.ts"));
    publisher.write_all(&[source.tables(), source.picture(true, 10)].concat()).unwrap();
    until("the stream", || bytes_in(&relay) > 2000);
    let _stuck = watch(&relay, "a");
    until("the stuck viewer to go", || {
        publisher.write_all(&source.picture(true, 500)).unwrap();
        let status = relay.hub().streams().remove(0);
        status.viewers == 0
    });
}

#[test]
fn requests_on_one_connection_are_answered_in_order() {
    let relay = relay();
    let mut client = connect(&relay);
    client
        .write_all(b"GET /a HTTP/1.1\r\nHost: localhost\r\n\r\nHEAD /bb HTTP/1.1\r\nHost: localhost\r\n\r\nOPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\nGET /c HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    let text = answer(&mut client);
    let positions: Vec<_> = ["\r\n\r\n/a", "Content-Length: 3\r\n", "HTTP/1.1 204", "\r\n\r\n/c"]
        .map(|part| text.find(part).unwrap_or_else(|| panic!("{part} not in {text}")))
        .into();
    assert!(positions.is_sorted(), "{text}");
    assert!(!text.contains("/bb"), "{text}");
}

#[test]
fn a_client_that_asks_much_and_reads_late_gets_all_answers() {
    let relay = relay();
    let mut client = connect(&relay);
    let mut writer = client.try_clone().unwrap();
    let path = format!("/{}", "x".repeat(8000));
    let count = 4000;
    let asker = std::thread::spawn(move || {
        for _ in 0..count {
            write!(writer, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        }
        write!(writer, "GET /end HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    });
    // 32 MB of answers: far more than the sockets and the relay's own queue hold.
    let text = answer(&mut client);
    asker.join().unwrap();
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), count + 1);
    assert!(text.ends_with("\r\n\r\n/end"));
}

#[test]
fn bad_requests_get_an_answer() {
    let relay = relay_with(|settings| {
        settings.http = Limits { head_time: Duration::from_millis(200), ..Limits::DEFAULT };
    });
    let ask = |bytes: &[u8]| {
        let mut client = connect(&relay);
        client.write_all(bytes).unwrap();
        answer(&mut client)
    };
    let long = [b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ".as_slice(), &[b'a'; 64 << 10]].concat();
    assert!(ask(&long).starts_with("HTTP/1.1 431 "));
    assert!(ask(b"BLAH\r\n\r\n").starts_with("HTTP/1.1 400 "));
    assert!(ask(b"GET / HTT").starts_with("HTTP/1.1 408 "), "slow loris");
    assert_eq!(ask(b""), "", "a connection that never speaks is closed");
    assert!(ask(b"PUT /live/..ts HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 404 "));
    assert!(
        ask(b"GET /live/none.ts HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .starts_with("HTTP/1.1 404 ")
    );
    let body = [
        b"POST /api HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n".as_slice(),
        &[0; 100_000],
    ]
    .concat();
    assert!(ask(&body).starts_with("HTTP/1.1 413 "));
}

#[test]
fn a_client_that_asks_first_is_told_to_go_on() {
    let relay = relay();
    let mut publisher = connect(&relay);
    write!(
        publisher,
        "PUT /live/a.ts HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
    )
    .unwrap();
    assert_eq!(read_head(&mut publisher), "HTTP/1.1 100 Continue\r\n\r\n");
    let mut source = Source::default();
    let bytes = source.tables();
    write!(publisher, "{:x}\r\n", bytes.len()).unwrap();
    publisher.write_all(&bytes).unwrap();
    publisher.write_all(b"\r\n0\r\n\r\n").unwrap();
    assert!(read_head(&mut publisher).starts_with("HTTP/1.1 204 "));
}

#[test]
fn publishing_from_inside_the_process() {
    let relay = relay();
    let name = glassline_delivery::policy::StreamName::parse("demo").unwrap();
    let mut publisher = relay.publish(&name).unwrap();
    assert!(relay.publish(&name).is_err());
    let mut source = Source::default();
    let bytes = [source.tables(), source.picture(true, 4)].concat();
    publisher.push(&bytes).unwrap();
    let mut viewer = watch(&relay, "demo");
    let mut got = vec![0; bytes.len()];
    viewer.read_exact(&mut got).unwrap();
    assert_eq!(got, bytes);
    relay.shutdown();
    assert_eq!(viewer.read(&mut [0; 9]).unwrap(), 0);
}

#[test]
fn a_reload_opens_and_closes_listeners_and_keeps_who_came_by_them() {
    let two: std::net::SocketAddr = "127.0.0.2:0".parse().unwrap();
    let settings = |listen: Vec<std::net::SocketAddr>| Settings {
        listen: listen.into_iter().map(Into::into).collect(),
        workers: 2,
        ..Settings::default()
    };
    let first: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    let mut relay = Relay::start(settings(vec![first]), Arc::new(Echo)).unwrap();
    let was = relay.addresses();
    let mut idle = connect(&relay);
    let mut asked = |path: &str| {
        write!(idle, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        assert!(read_head(&mut idle).starts_with("HTTP/1.1 200 "));
        idle.read_exact(&mut vec![0; path.len()]).unwrap();
    };
    asked("/before");
    relay.reload(settings(vec![two, first])).unwrap();
    let both = relay.addresses();
    assert_eq!((both[0].ip().to_string(), both[1]), ("127.0.0.2".into(), was[0]));
    asked("/with-two");
    for address in &both {
        TcpStream::connect(address).unwrap();
    }
    relay.reload(settings(vec![two])).unwrap();
    assert_eq!(relay.addresses(), both[..1]);
    asked("/after");
    assert!(TcpStream::connect(was[0]).is_err(), "nobody listens there any more");
    // Somebody else listens there: nothing changes.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    assert!(relay.reload(settings(vec![taken.local_addr().unwrap()])).is_err());
    assert_eq!(relay.addresses(), both[..1]);
    TcpStream::connect(both[0]).unwrap();
    asked("/still");
}

/// What a relay would leave to the next process; it goes on itself.
fn left_by(relay: &mut Relay) -> Vec<u8> {
    let mut left = Vec::new();
    let refused = relay.hand_over(|message, _| {
        left = message.to_vec();
        Err(std::io::Error::other("nobody is there"))
    });
    assert!(refused.is_err());
    left
}

#[test]
fn what_a_process_leaves_is_the_same_for_all_that_come_after() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/pulled.ts", upstream.local_addr().unwrap());
    let mut relay = relay_with(|settings| {
        settings.listen.push(local());
        let (name, source) = (StreamName::parse("pulled").unwrap(), pull::Source::parse(&address).unwrap());
        settings.pulls.push(Pull {
            name,
            source,
            alternates: Vec::new(),
            mux: None,
            ca: None,
            via: None,
            renewed: 0,
        });
    });
    let (mut from_there, _) = upstream.accept().unwrap();
    read_head(&mut from_there);
    let (mut source, mut publisher) = (Source::default(), publish(&relay, "/live/a.ts"));
    let pictures = [source.tables(), source.picture(true, 2), source.picture(false, 3)].concat();
    publisher.write_all(&pictures).unwrap();
    let mut flv = publish(&relay, "/live/b.flv");
    let tag = |payload: &[u8]| {
        let size = (payload.len() as u32).to_be_bytes();
        let back = (payload.len() as u32 + 11).to_be_bytes();
        [&[9][..], &size[1..], &[0; 7], payload, &back].concat()
    };
    let header = [&b"FLV\x01\x05\0\0\0\x09\0\0\0\0"[..], &tag(&[0x17, 0, 1])].concat();
    let there = [Source::default().tables(), Source::default().picture(true, 1)].concat();
    write!(from_there, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n").unwrap();
    from_there.write_all(&there).unwrap();
    flv.write_all(&[header, tag(&[0x17, 1, 7, 7]), tag(&[0x27, 1, 8])].concat()).unwrap();
    until("three streams", || {
        let streams = relay.hub().streams();
        streams.len() == 3 && streams.iter().all(|stream| stream.bytes_in > 40)
    });
    let mut viewer = watch(&relay, "a");
    viewer.read_exact(&mut vec![0; pictures.len()]).unwrap();
    let mut in_blocks = connect(&relay);
    write!(in_blocks, "GET /live/a.ts?encoding=metacube HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    read_head(&mut in_blocks);
    let mut asking = connect(&relay);
    write!(asking, "GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /b HTTP/1.1\r\nHo").unwrap();
    let mut echo = [0; 1];
    asking.read_exact(&mut echo).unwrap();

    let left = left_by(&mut relay);
    let second = passed_on(&left).unwrap();
    assert!(second.len() > left.len() / 2, "{} of {} bytes", second.len(), left.len());
    assert!(passed_on(&second).unwrap() == second);
    assert!(passed_on(&left[..left.len() / 2]).is_err());
    // Nothing has become of it here.
    publisher.write_all(&source.picture(false, 1)).unwrap();
    viewer.read_exact(&mut [0; PACKET_BYTES]).unwrap();
}

/// Requests that come behind one with a long answer wait for it: answers have the order of their requests (RFC 9112 §9.3.2).
#[test]
fn long_answers_come_in_their_order_and_to_clients_that_have_ended_their_side() {
    let relay = relay();
    let mut stream = connect(&relay);
    let paths = ["/long/1", "/short/2", "/long/3", "/long/4", "/short/5"];
    let requests = paths.map(|path| format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"));
    stream.write_all(requests.concat().as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let text = answer(&mut stream);
    let places = paths.map(|path| text.find(path));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{text}");
    assert_eq!(text.matches(" by answers").count(), 3, "{text}");
    let mut head = connect(&relay);
    write!(head, "HEAD /long/1 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    let text = answer(&mut head);
    assert!(text.starts_with("HTTP/1.1 200 ") && text.ends_with("\r\n\r\n"), "{text}");
    assert!(text.contains("Content-Length: 18"), "{text}");
}
