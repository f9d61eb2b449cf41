use super::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

fn open(address: &str, key: Option<&str>, live: bool) -> (PushOutput, Arc<Network>) {
    let liveness = Liveness { live, ..Liveness::default() };
    open_with(address, key, liveness)
}

fn open_with(address: &str, key: Option<&str>, liveness: Liveness) -> (PushOutput, Arc<Network>) {
    let network = Arc::new(Network::start().unwrap());
    let url = format!("http://{address}/live/a.ts");
    let credentials = Credentials { key: key.map(|key| key.to_owned().into()), connector: None };
    let status = StatusHandle::new(&url);
    (PushOutput::open(&[url], &credentials, liveness, status, &network).unwrap(), network)
}

/// A server whose connections the test plays by hand.
struct Relay(TcpListener);

impl Relay {
    fn new() -> (Relay, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        (Relay(listener), address)
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

/// Writes units as a live encoder does until `done`, each a key frame where the output asked for one before.
fn write_until(output: &mut PushOutput, mut done: impl FnMut(&PushOutput) -> bool) -> Result<()> {
    let mut joinable = true;
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done(output) {
        assert!(Instant::now() < deadline, "took too long");
        let bytes: &[u8] = if joinable { b"KEY" } else { b"unit" };
        joinable = output.write(&Packets::whole(bytes, joinable))? == Demand::KeyFrame;
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn started(output: &PushOutput) -> bool {
    output.0.status.get().bytes > 0
}

#[test]
fn slices_of_a_picture_are_one_chunk() {
    let (server, address) = Relay::new();
    let (mut output, _network) = open(&address, None, false);
    let serving = thread::spawn(move || {
        let mut stream = server.accept();
        read_until(&mut stream, "cd\r\n")
    });
    for (bytes, joinable, ends_picture) in [
        (b"KEY", true, false),
        (b"one", false, false),
        (b"two", false, true),
        (b"xab", false, false),
        (b"xcd", false, true),
    ] {
        output.write(&Packets { bytes, joinable, ends_picture }).unwrap();
    }
    let all = serving.join().unwrap();
    assert!(all.ends_with("\r\n\r\n9\r\nKEYonetwo\r\n6\r\nxabxcd\r\n"), "{all}");
}

#[test]
fn the_stream_begins_at_a_key_frame_and_ends_with_the_last_chunk() {
    let (server, address) = Relay::new();
    let (mut output, _network) = open(&address, Some("secret"), true);
    let serving = thread::spawn(move || {
        let mut stream = server.accept();
        let all = read_until(&mut stream, "\r\n0\r\n\r\n");
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
        all
    });
    write_until(&mut output, started).unwrap();
    output.write(&Packets::whole(b"tail", false)).unwrap();
    output.finish().unwrap();
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
    let (server, address) = Relay::new();
    let (mut output, _network) = open(&address, None, true);
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
    write_until(&mut output, |_| serving.is_finished()).unwrap();
    let third = serving.join().unwrap();
    assert!(third.split_once("\r\n\r\n").unwrap().1.starts_with("3\r\nKEY\r\n"), "{third}");
}

#[test]
fn a_refusal_ends_with_the_servers_own_words() {
    let (server, address) = Relay::new();
    let (mut output, _network) = open(&address, None, true);
    let serving = thread::spawn(move || {
        let mut stream = server.accept();
        read_until(&mut stream, "\r\n\r\n");
        let body = r#"{"title":"Key needed","detail":"Send the key of this stream."}"#;
        let head = format!("HTTP/1.1 401 Unauthorized\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all((head + body).as_bytes()).unwrap();
        // Kept open until the client goes: what it has sent meanwhile must not reset the answer away.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let refused = write_until(&mut output, |_| false).unwrap_err().to_string();
    for words in ["401 Unauthorized", "Key needed: Send the key of this stream."] {
        assert!(refused.contains(words), "{refused}");
    }
    drop(output);
    serving.join().unwrap();
}

#[test]
fn a_file_waits_for_its_server_and_a_stopped_one_does_not() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let liveness = Liveness::default();
    let (mut output, _network) = open_with(&address, None, liveness.clone());
    let serving = thread::spawn(move || {
        thread::sleep(Duration::from_millis(200));
        let listener = TcpListener::bind(address).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        read_until(&mut stream, "KEY\r\n")
    });
    let demand = output.write(&Packets::whole(b"KEY", true)).unwrap();
    assert_eq!(demand, Demand::Nothing);
    assert!(serving.join().unwrap().ends_with("3\r\nKEY\r\n"));
    liveness.stopped.store(true, std::sync::atomic::Ordering::Relaxed);
    let (mut output, _network) = open_with("127.0.0.1:1", None, liveness);
    output.write(&Packets::whole(b"KEY", true)).unwrap();
    output.finish().unwrap();
}

#[test]
fn a_server_that_takes_too_little_misses_pictures_up_to_a_key_frame_and_keeps_its_connection() {
    use glassline_media::container::ts::packet::packets;
    use glassline_media::container::ts::{PACKET_BYTES, Packet};
    let (server, address) = Relay::new();
    let (mut output, _network) = open(&address, None, true);
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let serving = thread::spawn(move || {
        let mut stream = server.accept();
        read_until(&mut stream, "\r\n\r\n");
        wait.recv().unwrap();
        let mut all = Vec::new();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut buffer = vec![0; 1 << 16];
        while !all.ends_with(b"0\r\n\r\n") {
            let length = stream.read(&mut buffer).unwrap();
            assert!(length > 0, "the connection was lost");
            all.extend_from_slice(&buffer[..length]);
        }
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
        all
    });
    // Each run says by its fifth byte whether it is a key frame.
    let run = |key: bool| {
        let mut packet = [0xff; PACKET_BYTES];
        packet[..5].copy_from_slice(&[0x47, 1, 0, 0x10, u8::from(key)]);
        packet.repeat(1000)
    };
    let (key, other) = (run(true), run(false));
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut number = 0;
    let mut write = |output: &mut PushOutput| {
        let joinable = number % 10 == 0;
        number += 1;
        output.write(&Packets::whole(if joinable { &key } else { &other }, joinable)).unwrap();
        assert!(Instant::now() < deadline, "took too long");
        thread::sleep(Duration::from_millis(2));
    };
    while output.0.status.get().state != State::Behind {
        write(&mut output);
    }
    let held = |output: &PushOutput| output.0.lock().pusher.transmit().len();
    let before = held(&output);
    assert!(before <= Policy::LIVE.pending_max_bytes + 2 * key.len(), "{before}");
    for _ in 0..20 {
        write(&mut output);
    }
    assert!(held(&output) <= before, "nothing more waits");
    go.send(()).unwrap();
    while output.0.status.get().state == State::Behind {
        write(&mut output);
    }
    assert!(output.0.status.get().left_out >= 20);
    output.finish().unwrap();
    // Chunks' own lines out of the way: the announced packets are found by their first bytes.
    let all = serving.join().unwrap();
    let seams = all.windows(PACKET_BYTES).filter(|window| {
        window.starts_with(&[0x47, 1, 0])
            && packets(window).any(|packet| Packet::parse(packet).is_ok_and(|packet| packet.discontinuity()))
    });
    assert_eq!(seams.count(), 1);
}

#[test]
fn a_server_that_is_given_up_on_the_encoders_thread_is_followed_by_the_next_at_once() {
    let ((server, address), (next, next_address)) = (Relay::new(), Relay::new());
    let urls = [address, next_address].map(|address| format!("http://{address}/live/a.ts"));
    let network = Network::start().unwrap();
    let liveness = Liveness { live: true, ..Liveness::default() };
    let status = StatusHandle::new("both");
    let mut output =
        PushOutput::open(&urls, &Credentials::default(), liveness, status.clone(), &network).unwrap();
    let mut first = server.accept();
    read_until(&mut first, "\r\n\r\n");
    first.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
    write_until(&mut output, started).unwrap();
    assert_eq!(status.get().server.as_deref(), Some(urls[0].as_str()));
    // As where sending fails by the system's time limit. Nothing is written any more, which would look at the times again.
    let line = &output.0;
    let mut shared = line.lock();
    shared.pusher.handle_silence(line.registration.now());
    line.drive(&mut shared);
    drop(shared);
    next.0.set_nonblocking(true).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while next.0.accept().is_err() {
        assert!(Instant::now() < deadline, "the next server is not asked");
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(status.get().server, None);
}

#[test]
fn words_of_an_answer() {
    assert_eq!(explanation(b""), "");
    assert_eq!(explanation(b"<html><body>No</body></html>"), "");
    assert_eq!(explanation(b"\nNo such mount\r\nmore"), " (No such mount)");
    assert_eq!(explanation(br#"{"title":"Taken"}"#), " (Taken)");
    assert_eq!(explanation(b"a\x1b[31mb"), " (a\\u001b[31mb)");
}
