//! A session with a server that answers with a page in place of a segment.

use super::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

const PLAYLIST: &str =
    "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXT-X-MEDIA-SEQUENCE:1\n#EXTINF:2,\na.ts\n#EXTINF:2,\nb.ts\n";
/// More than the buffers between the server and its client hold.
const BEYOND_BUFFERS: usize = 32 << 20;
/// For what should have happened long before.
const SOON: Duration = Duration::from_secs(20);

/// What the server tells of the page that it sends.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    /// Again as much of it was read as no buffer holds.
    Read,
    /// Its client is gone.
    Closed,
}

/// A live stream of which each segment is a page of HTML without an end.
fn server() -> (Url, Receiver<Told>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/index.m3u8", listener.local_addr().unwrap()).parse().unwrap();
    let (tell, told) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            if asked(&mut stream).contains(".m3u8") {
                let head = format!(
                    "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                    PLAYLIST.len()
                );
                stream.write_all((head + PLAYLIST).as_bytes()).unwrap();
                continue;
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n<html><body>").unwrap();
            let (page, mut sent) = (vec![b' '; 64 << 10], 0);
            while stream.write_all(&page).is_ok() {
                sent += page.len();
                // The test is over, and has failed, where it does not listen.
                if sent % BEYOND_BUFFERS == 0 && tell.send(Told::Read).is_err() {
                    return;
                }
            }
            let _ = tell.send(Told::Closed);
            return;
        }
    });
    (url, told)
}

fn asked(stream: &mut TcpStream) -> String {
    let (mut request, mut part) = (Vec::new(), [0; 1024]);
    while !request.ends_with(b"\r\n\r\n") {
        let count = stream.read(&mut part).unwrap();
        assert_ne!(count, 0, "a request without an end");
        request.extend_from_slice(&part[..count]);
    }
    String::from_utf8(request).unwrap()
}

#[test]
fn a_page_without_an_end_is_no_stream_and_is_not_read_for_ever() {
    let (url, told) = server();
    let session = Session::open(&url, PlaylistKind::Hls, None, Clock.now() + SOON).unwrap();
    assert_eq!(told.recv_timeout(SOON), Ok(Told::Read));
    // The time that a beginning has is over.
    session.shared.lock().due = Clock.now();
    assert_eq!(told.recv_timeout(SOON), Ok(Told::Read), "it is read on while the session is wanted");
    assert!(!session.is_in_time(Clock.now()), "the page that comes keeps the alarm away");
    drop(session);
    // What was told before does not count.
    let is_closed = (0..8).any(|_| told.recv_timeout(SOON) == Ok(Told::Closed));
    assert!(is_closed, "the page is read although the session is dropped");
}
