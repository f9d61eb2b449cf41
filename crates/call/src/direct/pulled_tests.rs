use super::*;
use glassline_io::clock::Clock;
use glassline_studio::capture::{CodedInput, Length};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Instant;

/// A server of HTTP that answers each connection with this head, and then does what `then` says.
fn serve(head: &'static str, then: impl Fn(std::net::TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut request = [0; 4096];
            let _ = connection.read(&mut request);
            let _ = connection.write_all(head.as_bytes());
            then(connection);
        }
    });
    format!("http://user:secret@{address}/live/a.ts?key=hush")
}

fn start(url: &str) -> PulledSource {
    PulledSource::start(Source::parse(url).unwrap(), None).unwrap()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "in vain: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_source_that_refuses_says_what_to_change_and_shows_no_secret() {
    let url = serve("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", drop);
    let source = start(&url);
    until("the refusal", || source.refusal().is_some());
    let (why, remedy) = source.refusal().unwrap();
    assert!(why.contains("404") && remedy.contains("check the path"), "{why}; {remedy}");
    let shown = source.address() + &why + &remedy + &format!("{source:?}");
    assert!(!shown.contains("secret") && !shown.contains("hush"), "{shown}");
    let input = CodedInput::fetched(Arc::new(source), Length::default(), Clock::new());
    assert!(input.refusal().unwrap().to_string().contains("404"));
}

#[test]
fn what_is_no_transport_stream_is_refused() {
    let url = serve("HTTP/1.1 200 OK\r\n\r\n", |mut connection| {
        let _ = connection.write_all(&[b'<'; 200_000]);
        let _ = connection.read(&mut [0]);
    });
    let source = start(&url);
    until("the refusal", || source.refusal().is_some());
    let (why, remedy) = source.refusal().unwrap();
    assert!(remedy.contains("MPEG transport stream"), "{why}; {remedy}");
}

#[test]
fn a_source_that_is_away_or_busy_is_waited_for() {
    let busy = serve("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", drop);
    let nowhere = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for url in [busy, format!("http://{nowhere}/a.ts")] {
        let source = start(&url);
        let name = source.name().clone();
        let failures = || source.house.table.status(&name, Clock::new().now()).unwrap().failures;
        until("it to be asked again", || failures() >= 3);
        assert_eq!(source.refusal(), None);
    }
}

#[test]
fn what_comes_is_read_with_its_last_byte_and_stopping_closes_the_connection() {
    let (closed, has_closed) = channel();
    let ts = glassline_test_support::ts::Source::default();
    let pictures = std::sync::Mutex::new(ts);
    let url = serve("HTTP/1.1 200 OK\r\n\r\n", move |mut connection| {
        let mut ts = pictures.lock().unwrap();
        let begun = [ts.tables(), ts.recovery_point(true, 3), ts.recovery_point(true, 3)].concat();
        let _ = connection.write_all(&begun);
        // It waits for the other side's end.
        let _ = connection.read(&mut [0]);
        let _ = closed.send(());
    });
    let source = Arc::new(start(&url));
    let (to, items) = channel();
    let input = CodedInput::fetched(Arc::clone(&source) as _, Length::default(), Clock::new());
    thread::spawn(move || input.run(&|item| to.send(item).is_ok()));
    let item = items.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!(item.piece.key && item.follows_gap, "{item:?}");
    source.stop();
    has_closed.recv_timeout(Duration::from_secs(60)).unwrap();
}
