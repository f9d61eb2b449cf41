use super::*;
use std::net::TcpListener;

/// A server whose connections the test plays by hand.
struct Server(TcpListener);

impl Server {
    fn new() -> (Server, Address) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        (Server(listener), Address { host: "127.0.0.1".to_owned(), port })
    }

    fn accept(&self) -> TcpStream {
        let (stream, _) = self.0.accept().unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    }
}

/// Reads until `end` has come, and not a byte more: what follows may come in the same packet.
fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 1];
    while !bytes.ends_with(end.as_bytes()) {
        let length = stream.read(&mut buffer).unwrap();
        assert!(length > 0, "closed before {end:?} in {:?}", String::from_utf8_lossy(&bytes));
        bytes.extend_from_slice(&buffer[..length]);
    }
    String::from_utf8(bytes).unwrap()
}

fn live() -> Arc<Queue> {
    Arc::new(Queue::new(true))
}

/// Writes units as a live encoder does until `done`, each a key frame where the sink asked for one before.
fn write_until(sink: &mut Http, mut done: impl FnMut(&Http) -> bool) -> Result<()> {
    let mut joinable = true;
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done(sink) {
        assert!(Instant::now() < deadline, "took too long");
        let bytes: &[u8] = if joinable { b"KEY" } else { b"unit" };
        joinable = sink.write(&Packets { bytes, joinable, ends_picture: true })? == Demand::KeyFrame;
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn started(sink: &Http) -> bool {
    matches!(&sink.state, State::Open(connection) if connection.started)
}

#[test]
fn the_stream_begins_at_a_key_frame_and_ends_with_the_last_chunk() {
    let (server, address) = Server::new();
    let mut sink = Http::open(&address, "/live/a.ts", Some("secret"), &live());
    let serving = thread::spawn(move || {
        let mut stream = server.accept();
        let all = read_until(&mut stream, "\r\n0\r\n\r\n");
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
        all
    });
    write_until(&mut sink, started).unwrap();
    sink.write(&Packets { bytes: b"tail", joinable: false, ends_picture: true }).unwrap();
    sink.finish().unwrap();
    let all = serving.join().unwrap();
    let (head, body) = all.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("PUT /live/a.ts HTTP/1.1\r\n"), "{head}");
    for field in ["Authorization: Bearer secret", "Transfer-Encoding: chunked", "Content-Type: video/mp2t"] {
        assert!(head.contains(field), "{head}");
    }
    assert!(body.starts_with("3\r\nKEY\r\n"), "{body}");
    assert!(body.ends_with("4\r\ntail\r\n0\r\n\r\n"), "{body}");
}

#[test]
fn a_lost_connection_is_made_anew_at_a_key_frame() {
    let (server, address) = Server::new();
    let mut sink = Http::open(&address, "/live/a.ts", None, &live());
    let serving = thread::spawn(move || {
        let mut stream = server.accept();
        read_until(&mut stream, "KEY\r\n");
        drop(stream);
        // The name is still held: asked again, not given up.
        let mut stream = server.accept();
        read_until(&mut stream, "\r\n\r\n");
        stream.write_all(b"HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\n\r\n").unwrap();
        drop(stream);
        let mut stream = server.accept();
        read_until(&mut stream, "KEY\r\n")
    });
    write_until(&mut sink, |_| serving.is_finished()).unwrap();
    let third = serving.join().unwrap();
    assert!(third.split_once("\r\n\r\n").unwrap().1.starts_with("3\r\nKEY\r\n"), "{third}");
}

#[test]
fn a_refusal_ends_with_the_servers_own_words() {
    let (server, address) = Server::new();
    let mut sink = Http::open(&address, "/live/a.ts", None, &live());
    let serving = thread::spawn(move || {
        let mut stream = server.accept();
        read_until(&mut stream, "\r\n\r\n");
        let body = r#"{"title":"Key needed","detail":"Send the key of this stream."}"#;
        let head = format!("HTTP/1.1 401 Unauthorized\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all((head + body).as_bytes()).unwrap();
        // Kept open until the client goes: what it has sent meanwhile must not reset the answer away.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let refused = write_until(&mut sink, |_| false).unwrap_err().to_string();
    for words in ["401 Unauthorized", "Key needed: Send the key of this stream.", "--publish-key-file"] {
        assert!(refused.contains(words), "{refused}");
    }
    drop(sink);
    serving.join().unwrap();
}

#[test]
fn a_file_waits_for_its_server_and_a_stopped_one_does_not() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = Address { host: "127.0.0.1".to_owned(), port };
    let queue = Arc::new(Queue::new(false));
    let mut sink = Http::open(&address, "/live/a.ts", None, &queue);
    let serving = thread::spawn(move || {
        thread::sleep(Duration::from_millis(200));
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        read_until(&mut stream, "KEY\r\n")
    });
    let demand = sink.write(&Packets { bytes: b"KEY", joinable: true, ends_picture: true }).unwrap();
    assert_eq!(demand, Demand::Nothing);
    assert!(serving.join().unwrap().ends_with("3\r\nKEY\r\n"));
    queue.stop();
    let mut sink = Http::open(&Address { port: 1, ..address }, "/live/a.ts", None, &queue);
    sink.write(&Packets { bytes: b"KEY", joinable: true, ends_picture: true }).unwrap();
    sink.finish().unwrap();
}

#[test]
fn words_of_an_answer() {
    assert_eq!(explanation(b""), "");
    assert_eq!(explanation(b"<html><body>No</body></html>"), "");
    assert_eq!(explanation(b"\nNo such mount\r\nmore"), " (No such mount)");
    assert_eq!(explanation(br#"{"title":"Taken"}"#), " (Taken)");
    assert_eq!(explanation(b"a\x1b[31mb"), " (a[31mb)");
}
