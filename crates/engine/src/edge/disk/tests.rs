//! A disk that hangs.

use super::super::{CacheStatus, Edge, Reading, UpstreamSettings, Wake};
use super::DiskSettings;
use super::files::gate;
use glassline_delivery::fill::Object;
use glassline_io::clock::Clock;
use glassline_test_support::program::Scratch;
use glassline_test_support::wait::until;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

struct Nobody;

impl Wake for Nobody {
    fn wake(&self, _: usize, _: Vec<u64>) {}
}

/// Answers each connection's requests with an object that lasts, and counts them.
fn origin() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let (mut connection, mut byte, mut head) = (connection.unwrap(), [0], Vec::new());
            while connection.read_exact(&mut byte).is_ok() {
                head.push(byte[0]);
                if head.ends_with(b"\r\n\r\n") {
                    count.fetch_add(1, Ordering::SeqCst);
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nCache-Control: max-age=3600\r\nConnection: close\r\n\r\nhello";
                    connection.write_all(answer).unwrap();
                    break;
                }
            }
        }
    });
    (url, asked)
}

fn find(edge: &Edge, clock: Clock) -> (Reading, CacheStatus) {
    let located = edge.locate(None, "/a.m4s", "").unwrap();
    edge.find(located, None, IpAddr::V4(Ipv4Addr::LOCALHOST), clock.now())
}

fn wait_for(reading: &Reading) {
    until("an object to be whole", || reading.look(|object: &Object| object.progress().is_whole));
    assert_eq!(reading.look(Object::filled), 5);
}

#[test]
fn a_disk_that_hangs_holds_no_request_up() {
    let (url, asked) = origin();
    let scratch = Scratch::new("hanging-disk");
    let directory = scratch.path().join("kept");
    let mut settings = UpstreamSettings::new(vec![url.parse().unwrap()]);
    settings.disk = Some(DiskSettings {
        directory: directory.clone(),
        bytes: 1 << 20,
        timeout: Duration::from_millis(100),
    });
    let clock = Clock::new();
    let start = || Edge::start(settings.clone(), Arc::new(Nobody), clock, 1).unwrap();
    let written = start();
    wait_for(&find(&written, clock).0);
    until("a file", || written.disk_figures().is_some_and(|figures| figures.written == 1));
    drop(written);
    // The memory of the next one knows nothing, and the file is there, but cannot be opened.
    let edge = start();
    until("the file to be found", || edge.disk_figures().is_some_and(|figures| figures.objects == 1));
    gate::close(&directory);
    let (reading, status) = find(&edge, clock);
    assert_eq!(status, CacheStatus::Disk);
    wait_for(&reading);
    assert_eq!((asked.load(Ordering::SeqCst), edge.disk_figures().unwrap().late), (2, 1));
    // While it hangs it is not asked, and does not hold the end up.
    let other = edge.locate(None, "/b.m4s", "").unwrap();
    let (reading, status) = edge.find(other, None, IpAddr::V4(Ipv4Addr::LOCALHOST), clock.now());
    wait_for(&reading);
    assert_eq!((status, edge.disk_figures().unwrap().late), (CacheStatus::Miss, 1));
    drop(edge);
    gate::open(&directory);
}
