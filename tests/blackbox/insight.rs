//! What operators see of viewers: who they are, how far behind live, and why; and how a stream was.

use crate::{serve, serve_with};
use glassline_test_support::http::read_once;
use glassline_test_support::http::{ask, connect, get, publish, read_head};
use glassline_test_support::numbered::Shape;
use glassline_test_support::program::Server;
use glassline_test_support::wait::{PATIENCE, until, until_some};
use serde_json::Value;
use socket2::{Domain, Socket, Type};
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// 4.5 Mbit/s at 50 pictures a second; a key frame every 0.2 s.
const SHAPE: Shape = Shape { packets: 60, group: 10 };
const PICTURE_TIME: Duration = Duration::from_millis(20);

/// Something that runs beside the test until it is dropped.
struct Beside(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Beside {
    fn run(mut step: impl FnMut() + Send + 'static) -> Beside {
        let over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            while !told.load(Ordering::Acquire) {
                step();
            }
        });
        Beside(over, Some(thread))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
        self.1.take().map(JoinHandle::join);
    }
}

fn on_air(server: &Server, name: &str) -> Beside {
    let (mut publisher, mut number) = (publish(server.address(), &format!("/live/{name}.ts")), 0);
    let beside = Beside::run(move || {
        publisher.write_all(&SHAPE.picture(number)).unwrap();
        number += 1;
        std::thread::sleep(PICTURE_TIME);
    });
    until("the stream", || {
        server.stream(name).is_some_and(|stream| stream["bitrate_bps"].as_u64() > Some(0))
    });
    beside
}

/// A viewer whose kernel takes little in unread.
fn join(server: &Server, name: &str) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(16 << 10).unwrap();
    socket.connect(&server.address().into()).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET /live/{name}.ts HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    assert_eq!(read_head(&mut stream).status, 200);
    stream
}

fn clients(server: &Server, query: &str) -> Value {
    let answer = get(server.address(), &format!("/api/clients{query}"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

#[test]
fn a_viewer_that_does_not_read_is_told_from_one_that_does() {
    let server = serve(&[]);
    let _air = on_air(&server, "a");
    let (lazy, mut keen) = (join(&server, "a"), join(&server, "a"));
    let (lazy_address, keen_address) = (lazy.local_addr().unwrap(), keen.local_addr().unwrap());
    let _reads = Beside::run(move || {
        assert!(read_once(&mut keen, &mut [0; 64 << 10]).unwrap() > 0);
    });
    let is = |client: &Value, address: std::net::SocketAddr| client["address"] == address.to_string();
    let all = until_some("the reason why one is slow", || {
        let all = clients(&server, "?stream=a");
        let list = all["clients"].as_array()?;
        let lazy = list.iter().find(|client| is(client, lazy_address))?;
        let keen = list.iter().find(|client| is(client, keen_address))?;
        let knows =
            lazy["why"] == "receiver_window" && keen["why"] == "fine" && keen["rate_bps"].as_u64() > Some(0);
        knows.then_some(all)
    });
    assert_eq!(all["viewers"], 2, "{all}");
    assert_eq!((&all["why"]["receiver_window"], &all["why"]["fine"]), (&1.into(), &1.into()), "{all}");
    let lazy_first = &all["clients"][0];
    assert!(is(lazy_first, lazy_address), "the furthest behind comes first: {all}");
    assert!(
        lazy_first["behind_ms"].as_f64() >= Some(200.0) && lazy_first["behind_bytes"].as_u64() > Some(0),
        "{all}"
    );
    assert_eq!((&lazy_first["stream"], &lazy_first["moved_forward"]), (&"a".into(), &0.into()), "{all}");
    let tcp = &lazy_first["tcp"];
    assert!(tcp["rtt_ms"].as_f64() > Some(0.0) && tcp["cwnd"].as_u64() > Some(0), "{tcp}");
    assert!(tcp["rwnd_limited_ms"].as_f64() > Some(0.0), "{tcp}");
    let counted: u64 = all["behind"]["viewers"].as_array().unwrap().iter().filter_map(Value::as_u64).sum();
    assert_eq!((counted, all["behind"]["edges_ms"].as_array().map(Vec::len)), (2, Some(7)), "{all}");

    let one = clients(&server, "?limit=1");
    assert_eq!((&one["viewers"], one["clients"].as_array().map(Vec::len)), (&2.into(), Some(1)), "{one}");
    assert!(is(&one["clients"][0], lazy_address), "{one}");
    assert_eq!(clients(&server, "?stream=b")["viewers"], 0);

    // The sums of it are in the stream's entry and in the metrics.
    until("the stream's own figures", || {
        let stream = server.stream("a").unwrap();
        stream["why"]["receiver_window"] == 1 && stream["pacing_bps"].as_u64() > Some(0)
    });
    let metrics = server.metrics();
    assert_eq!(metrics.sum("glassline_viewers_slow", "\"receiver_window\""), 1.0);
    assert!(metrics.sum("glassline_stream_pacing_bps", "\"a\"") > 0.0);
    let (count, whole) = (
        metrics.sum("glassline_stream_behind_live_seconds_count", "\"a\""),
        metrics.sum("glassline_stream_behind_live_seconds_bucket", "le=\"+Inf\""),
    );
    assert!(count > 0.0 && count == whole, "{count} {whole}");
    assert!(metrics.sum("glassline_stream_behind_live_seconds_bucket", "le=\"0.2\"") < count);

    drop(lazy);
    until("its leave", || clients(&server, "")["viewers"] == 1);
}

#[test]
fn addresses_are_for_the_crew_alone() {
    let server = serve(&["--open-publish"]);
    let status =
        |server: &Server, target: &str, fields: &[&str]| ask(server.address(), "GET", target, fields).status;
    assert_eq!(status(&server, "/api/clients", &[]), 200);
    assert_eq!(status(&server, "/api/clients", &["X-Forwarded-For: 192.0.2.1"]), 403);
    assert_eq!(status(&server, "/api/clients", &["Origin: http://elsewhere.example"]), 403);
    for bad in ["?limit=many", "?limit=-1", "?stream=.."] {
        let answer = get(server.address(), &format!("/api/clients{bad}"));
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (400, Some("application/problem+json")),
            "{bad}"
        );
    }
    let (keyed, _scratch) = serve_with("[publish]\nkey = 'open-sesame-of-16'\n");
    let proxied = "Via: 1.1 proxy";
    assert_eq!(status(&keyed, "/api/clients", &[]), 401);
    assert_eq!(status(&keyed, "/api/clients", &["Authorization: Bearer open-sesame-of-16"]), 200);
    assert_eq!(status(&keyed, "/api/clients", &[proxied]), 401);
    assert_eq!(status(&keyed, "/api/clients", &[proxied, "Authorization: Bearer wrong"]), 401);
    assert_eq!(status(&keyed, "/api/clients", &[proxied, "Authorization: Bearer open-sesame-of-16"]), 200);
}

#[test]
fn a_streams_curves_go_on_where_they_ended() {
    let server = serve(&[]);
    let _air = on_air(&server, "c");
    let mut viewer = connect(server.address());
    viewer.write_all(b"GET /live/c.ts HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    let _reads = Beside::run(move || {
        assert!(read_once(&mut viewer, &mut [0; 64 << 10]).unwrap() > 0);
    });
    let history = |query: &str| get(server.address(), &format!("/api/streams/c/history{query}")).json();
    let numbers = |value: &Value| value.as_array().unwrap().iter().map(Value::as_f64).collect::<Vec<_>>();
    let curves = until_some("three seconds with a viewer", || {
        let curves = history("");
        let watched = numbers(&curves["viewers"]).iter().filter(|count| **count == Some(1.0)).count();
        (watched >= 3 && numbers(&curves["behind_p95_ms"]).last()?.is_some()).then_some(curves)
    });
    assert_eq!((&curves["step_s"], &curves["first"]), (&1.into(), &0.into()), "{curves}");
    let length = numbers(&curves["in_bps"]).len();
    for name in [
        "out_bps",
        "slow",
        "moved_forward",
        "retransmitted_segments",
        "behind_p50_ms",
        "behind_p95_ms",
        "viewers",
    ] {
        assert_eq!(numbers(&curves[name]).len(), length, "{name}: {curves}");
    }
    assert!(numbers(&curves["in_bps"])[length - 1] > Some(0.0), "{curves}");
    assert!(numbers(&curves["out_bps"])[length - 1] > Some(0.0), "{curves}");
    let newest = history("?points=1");
    assert_eq!(numbers(&newest["in_bps"]).len(), 1);
    assert!(newest["first"].as_u64().unwrap() >= length as u64 - 1, "{newest}");
    assert_eq!(history("?step=10&points=5")["step_s"], 10);
    assert_eq!(get(server.address(), "/api/streams/c/history?step=7").status, 400);
    assert_eq!(get(server.address(), "/api/streams/none/history").status, 404);
    assert_eq!(get(server.address(), "/stream/c").status, 200, "the page of it");
}
