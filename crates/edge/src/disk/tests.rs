//! A disk behind a whole edge: one that hangs, is purged, begins anew, or refuses.

use super::super::{CacheStatus, Edge, Reading, UpstreamSettings, Wake};
use super::files::gate;
use super::{DiskSettings, lock};
use glassline_delivery::fill::{Object, Via};
use glassline_io::clock::Clock;
use glassline_test_support::program::Scratch;
use glassline_test_support::wait::until;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
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
    find_at(edge, clock, "/a.m4s")
}

fn find_at(edge: &Edge, clock: Clock, path: &str) -> (Reading, CacheStatus) {
    let located = edge.locate(None, path, "").unwrap();
    edge.find(located, Via::default(), IpAddr::V4(Ipv4Addr::LOCALHOST), clock.now())
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
    let (reading, status) = find_at(&edge, clock, "/b.m4s");
    wait_for(&reading);
    assert_eq!((status, edge.disk_figures().unwrap().late), (CacheStatus::Miss, 1));
    drop(edge);
    gate::open(&directory);
}

/// Answers the n-th of `count` requests with n five times, once that is told by the n-th of what is returned. Counts requests, and
/// bytes that it has sent.
fn held_origin(count: usize) -> (String, Vec<Sender<()>>, [Arc<AtomicU64>; 2]) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let counters: [Arc<AtomicU64>; 2] = Default::default();
    let (release, held): (Vec<Sender<()>>, Vec<Receiver<()>>) = (0..count).map(|_| channel()).unzip();
    let theirs = counters.clone();
    std::thread::spawn(move || {
        for ((connection, released), number) in listener.incoming().zip(held).zip(1..) {
            let (mut connection, [asked, written]) = (connection.unwrap(), theirs.clone());
            std::thread::spawn(move || {
                let (mut byte, mut head) = ([0], Vec::new());
                while !head.ends_with(b"\r\n\r\n") && connection.read_exact(&mut byte).is_ok() {
                    head.push(byte[0]);
                }
                asked.fetch_add(1, Ordering::SeqCst);
                released.recv().unwrap();
                let worth =
                    if number == 1 { "max-age=0, stale-while-revalidate=3600" } else { "max-age=3600" };
                let body = number.to_string().repeat(5);
                let length = "Content-Length: 5\r\nConnection: close";
                let answer = format!("HTTP/1.1 200 OK\r\nCache-Control: {worth}\r\n{length}\r\n\r\n{body}");
                written.fetch_add(answer.len() as u64, Ordering::SeqCst);
                connection.write_all(answer.as_bytes()).unwrap();
            });
        }
    });
    (url, release, counters)
}

#[test]
fn what_was_asked_for_before_a_purge_is_not_kept_behind_it() {
    let (url, release, [asked, written]) = held_origin(4);
    let scratch = Scratch::new("purge-race");
    let mut settings = UpstreamSettings::new(vec![url.parse().unwrap()]);
    let directory = scratch.path().join("kept");
    settings.disk = Some(DiskSettings { directory, bytes: 1 << 20, timeout: Duration::from_secs(5) });
    let clock = Clock::new();
    let edge = Edge::start(settings, Arc::new(Nobody), clock, 1).unwrap();
    let asks = |count: u64| until("a request", || asked.load(Ordering::SeqCst) == count);
    let text = |reading: &Reading| {
        wait_for(reading);
        let mut pieces = Vec::new();
        reading.look(|object: &Object| object.read(0, 5, &mut pieces));
        String::from_utf8(pieces.concat()).unwrap()
    };
    let (first, _) = find(&edge, clock);
    release[0].send(()).unwrap();
    assert_eq!(text(&first), "11111");
    // It is old, and asked for anew; before that is answered, it is purged.
    until("it to be old", || find(&edge, clock).1 == CacheStatus::Stale);
    asks(2);
    assert_eq!(edge.purge("/a.m4s", false), Some(1));
    let (third, status) = find(&edge, clock);
    assert_eq!(status, CacheStatus::Miss);
    asks(3);
    release[2].send(()).unwrap();
    assert_eq!(text(&third), "33333");
    // The answer from before the purge comes last, and takes no place.
    release[1].send(()).unwrap();
    until("the late answer", || edge.fetch_figures().bytes == written.load(Ordering::SeqCst));
    // What is asked for now is taken up once that is dealt with.
    release[3].send(()).unwrap();
    assert_eq!(text(&find_at(&edge, clock, "/b.m4s").0), "44444");
    let (again, status) = find(&edge, clock);
    assert_eq!((text(&again).as_str(), status), ("33333", CacheStatus::Hit));
    // Written were the first one, what was asked for behind the purge, and the other one; what came late was not.
    until("two files", || edge.disk_figures().is_some_and(|figures| figures.objects == 2));
    assert_eq!((edge.disk_figures().unwrap().written, asked.load(Ordering::SeqCst)), (3, 4));
}

#[test]
fn what_is_asked_for_after_a_purge_is_kept_also_where_the_purge_waits() {
    let (url, asked) = origin();
    let scratch = Scratch::new("purge-waits");
    let directory = scratch.path().join("kept");
    let mut settings = UpstreamSettings::new(vec![url.parse().unwrap()]);
    let timeout = Duration::from_secs(600);
    settings.disk = Some(DiskSettings { directory: directory.clone(), bytes: 1 << 20, timeout });
    let clock = Clock::new();
    let edge = Edge::start(settings, Arc::new(Nobody), clock, 1).unwrap();
    wait_for(&find(&edge, clock).0);
    until("a file", || edge.disk_figures().is_some_and(|figures| figures.objects == 1));
    // The thread looks at the file for another purge while the object is purged, and asked for again.
    gate::close(&directory);
    edge.purge("/b.m4s", false);
    until("the file to be looked at", || gate::holds(&directory));
    assert_eq!(edge.purge("/a.m4s", false), Some(1));
    wait_for(&find(&edge, clock).0);
    let disk = edge.disk.as_ref().unwrap();
    until("the object to wait for its file", || lock(&disk.tasks).writes.len() == 1);
    gate::open(&directory);
    until("both purges", || lock(&disk.purges).is_empty());
    until("the second file", || edge.disk_figures().unwrap().written == 2);
    assert_eq!((edge.disk_figures().unwrap().objects, asked.load(Ordering::SeqCst)), (1, 2));
}

#[test]
fn a_directory_that_cannot_be_used_leaves_the_memory_at_work() {
    let (url, asked) = origin();
    let scratch = Scratch::new("no-directory");
    let directory = scratch.path().join("kept");
    std::fs::write(&directory, "a file where a directory has to be").unwrap();
    let mut settings = UpstreamSettings::new(vec![url.parse().unwrap()]);
    settings.disk = Some(DiskSettings { directory, bytes: 1 << 20, timeout: Duration::from_secs(600) });
    let clock = Clock::new();
    let edge = Edge::start(settings, Arc::new(Nobody), clock, 1).unwrap();
    wait_for(&find(&edge, clock).0);
    until("the object to be skipped", || edge.disk_figures().is_some_and(|figures| figures.skipped == 1));
    assert_eq!(find(&edge, clock).1, CacheStatus::Hit);
    let figures = edge.disk_figures().unwrap();
    assert_eq!((figures.objects, figures.written, figures.errors), (0, 0, 1));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[test]
fn a_restart_gives_what_lies_in_files_and_fetches_what_is_damaged() {
    let (url, asked) = origin();
    let scratch = Scratch::new("restart");
    let directory = scratch.path().join("kept");
    let mut settings = UpstreamSettings::new(vec![url.parse().unwrap()]);
    let timeout = Duration::from_secs(600);
    settings.disk = Some(DiskSettings { directory: directory.clone(), bytes: 1 << 20, timeout });
    let clock = Clock::new();
    let start = || Edge::start(settings.clone(), Arc::new(Nobody), clock, 1).unwrap();
    let edge = start();
    for path in ["/a.m4s", "/b.m4s"] {
        wait_for(&find_at(&edge, clock, path).0);
    }
    until("two files", || edge.disk_figures().is_some_and(|figures| figures.written == 2));
    drop(edge);
    let name = glassline_delivery::fill::disk::Name::of(&format!("{url}/b.m4s"));
    let file = directory.join(format!("{name}.obj"));
    let mut bytes = std::fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let edge = start();
    until("the files to be found", || edge.disk_figures().is_some_and(|figures| figures.objects == 2));
    for path in ["/a.m4s", "/b.m4s"] {
        let (reading, status) = find_at(&edge, clock, path);
        assert_eq!(status, CacheStatus::Disk, "{path}");
        wait_for(&reading);
    }
    let figures = edge.disk_figures().unwrap();
    assert_eq!((figures.read, figures.damaged, asked.load(Ordering::SeqCst)), (1, 1, 3));
    until("the damaged one to be written anew", || edge.disk_figures().unwrap().written == 1);
}
