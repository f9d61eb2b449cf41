//! A short soak: viewers and publishers of every manner come and go at once, and nothing of them stays. The long one,
//! which also watches the memory, is `make bench-soak`.

use crate::serve_with;
use glassline_test_support::http::read_once;
use glassline_test_support::http::{connect, get, publish, read_all, read_answer, read_head};
use glassline_test_support::metrics::Metrics;
use glassline_test_support::numbered::{Check, Shape};
use glassline_test_support::program::Server;
use glassline_test_support::wait::until;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const SHAPE: Shape = Shape { packets: 60, group: 10 };
/// What each manner is done, by its own thread.
const ROUNDS: u64 = 12;

/// What a stranger does once; the number tells the rounds apart.
type Manner = fn(&Server, u64);

const MANNERS: [(&str, Manner); 7] = [
    ("watches for a moment", watches),
    ("asks and reads nothing", stalls),
    ("sends garbage", sends_garbage),
    ("closes half", closes_half),
    ("asks several things at once", pipelines),
    ("publishes and goes", publishes),
    ("publishes and breaks off", breaks_off),
];

fn ask_to_watch(server: &Server) -> std::net::TcpStream {
    let mut stream = connect(server.address());
    write!(stream, "GET /live/soak.ts HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    stream
}

fn watches(server: &Server, _: u64) {
    let mut stream = ask_to_watch(server);
    assert_eq!(read_head(&mut stream).status, 200);
    let (mut check, mut buffer) = (Check::new(SHAPE), vec![0; 16 << 10]);
    while check.packets < 20 * SHAPE.packets {
        let count = read_once(&mut stream, &mut buffer).unwrap();
        assert!(count > 0, "the stream ended");
        check.push(&buffer[..count]).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}

fn stalls(server: &Server, _: u64) {
    let stream = ask_to_watch(server);
    std::thread::sleep(Duration::from_millis(300));
    drop(stream);
}

fn sends_garbage(server: &Server, round: u64) {
    let mut stream = connect(server.address());
    let garbage: Vec<u8> = (0..3000u64).map(|at| ((at * 2_654_435_761 + round * 77) >> 11) as u8).collect();
    let heads = ["", "GET ", "PUT /live/rubbish.ts HTTP/1.1\r\nHost: localhost\r\n\r\n", "\x16\x03\x01"];
    let _ = stream.write_all(heads[round as usize % heads.len()].as_bytes());
    let _ = stream.write_all(&garbage);
    let _ = stream.shutdown(Shutdown::Write);
    // Answered or not: it ends.
    read_all(&mut stream);
}

fn closes_half(server: &Server, _: u64) {
    let mut stream = ask_to_watch(server);
    stream.shutdown(Shutdown::Write).unwrap();
    let _ = stream.read(&mut [0; 1000]);
    let mut publisher = publish(server.address(), "/live/half.ts?takeover=1");
    let _ = publisher.write_all(&SHAPE.picture(0)[..1000]);
    publisher.shutdown(Shutdown::Write).unwrap();
    read_all(&mut publisher);
}

fn pipelines(server: &Server, _: u64) {
    let mut stream = connect(server.address());
    let requests = ["HEAD /healthz", "GET /gen204", "GET /healthz", "GET /none", "HEAD /live/soak.ts"];
    let last = requests.len() - 1;
    for (number, request) in requests.iter().enumerate() {
        let close = if number == last { "Connection: close\r\n" } else { "" };
        write!(stream, "{request} HTTP/1.1\r\nHost: h\r\n{close}\r\n").unwrap();
    }
    let text = String::from_utf8_lossy(&read_all(&mut stream)).into_owned();
    let statuses: Vec<&str> = text.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
    assert_eq!(statuses[..4], ["200", "204", "200", "404"], "{text}");
    assert_eq!(statuses.len(), requests.len(), "{text}");
}

fn publishes(server: &Server, round: u64) {
    let name = format!("come-{}", round % 3);
    let mut publisher = publish(server.address(), &format!("/live/{name}.ts?takeover=1"));
    (0..10).for_each(|number| publisher.write_all(&SHAPE.picture(number)).unwrap());
    publisher.shutdown(Shutdown::Write).unwrap();
    assert!(matches!(read_answer(&mut publisher).status, 200 | 204));
}

fn breaks_off(server: &Server, round: u64) {
    let mut publisher = publish(server.address(), "/live/torn.ts?takeover=1");
    publisher.write_all(&SHAPE.picture(0)[..5000 + round as usize * 100]).unwrap();
}

/// Counters of `after` that are below those of `before`.
fn fallen(before: &Metrics, after: &Metrics) -> Vec<String> {
    let is_counter = |name: &str| {
        let family = name.split('{').next().unwrap_or_default();
        before.families.get(family).is_some_and(|kind| kind == "counter")
    };
    let counters = before.samples.iter().filter(|(name, _)| is_counter(name));
    // A stream that is gone has taken its counters along.
    let fell = counters.filter(|(name, value)| after.samples.get(*name).is_some_and(|now| now < value));
    fell.map(|(name, _)| name.clone()).collect()
}

/// Ends the publisher, however the test ends.
struct AtTheEnd<'a>(&'a AtomicBool);

impl Drop for AtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[test]
fn nothing_stays_of_those_who_come_and_go() {
    let (server, _scratch) = serve_with(
        "[publish]\nreturn_window = '1s'\n[viewer]\nbacklog = '1s'\nbacklog_max = '1MiB'\nstall_timeout = '2s'\n",
    );
    let server = &server;
    let (over, sent) = (&AtomicBool::new(false), &AtomicU64::new(0));
    let publisher = publish(server.address(), "/live/soak.ts");
    std::thread::scope(|scope| {
        let end = AtTheEnd(over);
        scope.spawn(move || {
            let mut publisher = publisher;
            while !over.load(Ordering::Acquire) {
                publisher.write_all(&SHAPE.picture(sent.fetch_add(1, Ordering::AcqRel))).unwrap();
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        until("pictures", || sent.load(Ordering::Acquire) > 20);
        // Once each, so that what is set up once is there.
        MANNERS.iter().for_each(|(_, act)| act(server, 0));
        let only_soak = || {
            let streams = get(server.address(), "/api/streams").json();
            streams["streams"].as_array().is_some_and(|list| list.len() == 1)
                && server.count("soak", "viewers") == 0
        };
        until("the first ones to be gone", only_soak);
        let (descriptors, before) = (server.descriptors(), server.metrics());
        let strangers: Vec<_> = MANNERS
            .iter()
            .map(|&(manner, act)| {
                (manner, scope.spawn(move || (1..=ROUNDS).for_each(|round| act(server, round))))
            })
            .collect();
        let failed: Vec<&str> = strangers
            .into_iter()
            .filter_map(|(manner, thread)| thread.join().err().map(|_| manner))
            .collect();
        let during = server.metrics();
        until("all to be gone", only_soak);
        until("their descriptors to be closed", || server.descriptors() <= descriptors + 1);
        let after = server.metrics();
        // The server serves as before.
        watches(server, 0);
        drop(end);
        assert!(failed.is_empty(), "failed: {failed:?}");
        assert_eq!(fallen(&before, &during).len() + fallen(&during, &after).len(), 0);
    });
    assert_eq!(server.count("soak", "publishers"), 1);
}
