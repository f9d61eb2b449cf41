use super::super::pace::Limit;
use super::super::settings::Check;
use super::super::stamped::Source;
use super::*;
use glassline_delivery::http1::body::{LAST_CHUNK, write_chunk};
use glassline_media::container::ts::discontinuity_packet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc;

/// What a test server does with its `number`-th connection, whose request it has read.
type Answer = dyn Fn(usize, &mut TcpStream) + Send + Sync;

/// A server for a test; ends with the program. Tells where each request came from.
fn serve(answer: Arc<Answer>) -> (SocketAddr, mpsc::Receiver<IpAddr>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (peers, seen) = mpsc::channel();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let (mut stream, answer, peers) = (stream.unwrap(), Arc::clone(&answer), peers.clone());
            std::thread::spawn(move || {
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    if stream.read(&mut byte).unwrap_or(0) == 0 {
                        return;
                    }
                    request.push(byte[0]);
                }
                assert!(request.starts_with(b"GET /x.ts HTTP/1.1\r\n"));
                let _ = peers.send(stream.peer_addr().unwrap().ip());
                answer(number, &mut stream);
            });
        }
    });
    (address, seen)
}

/// A server that gives everyone these bytes and closes.
fn serve_bytes(bytes: Vec<u8>) -> SocketAddr {
    let answer = move |_: usize, stream: &mut TcpStream| drop(stream.write_all(&bytes));
    serve(Arc::new(answer)).0
}

fn settings(address: SocketAddr, viewers: usize) -> Settings {
    Settings { ramp: 5000.0, ..Settings::new(Target::at(address, "/x.ts"), viewers) }
}

fn run_until(load: &mut Load, what: &str, done: impl Fn(&Load) -> bool) {
    for _ in 0..6000 {
        load.run(Duration::from_millis(10)).unwrap();
        if done(load) {
            return;
        }
    }
    panic!("waited in vain for {what}: {:?}", load.progress());
}

/// All viewers of the load, to their ends.
fn run(settings: Settings) -> Tally {
    let mut load = Load::new(settings).unwrap();
    load.join();
    run_until(&mut load, "the end", Load::is_over);
    load.tally()
}

/// Packets of a stamped stream of some frames, PAT and PMT in front.
fn packets(frames: u64) -> Vec<[u8; 188]> {
    let (mut source, mut bytes) = (Source::default(), Vec::new());
    for _ in 0..frames {
        source.frame(Clock::new().now(), &mut bytes);
    }
    bytes.as_chunks().0.to_vec()
}

fn with_length(body: &[u8]) -> Vec<u8> {
    [format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(), body].concat()
}

fn chunked(body: &[u8]) -> Vec<u8> {
    let mut answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    body.chunks(1777).for_each(|chunk| write_chunk(chunk, &mut answer));
    answer.extend_from_slice(LAST_CHUNK);
    answer
}

#[test]
fn whole_bodies_are_right_however_they_are_framed() {
    let body = packets(60).concat();
    for answer in [with_length(&body), chunked(&body)] {
        let tally = run(settings(serve_bytes(answer), 20));
        let viewers = tally.viewers;
        assert_eq!((viewers.asked, viewers.connected, viewers.finished), (20, 20, 20), "{tally:?}");
        assert_eq!((tally.failed(), tally.verdict.errors(), tally.checked, tally.stamped), (0, 0, 20, 20));
        assert_eq!(tally.verdict.packets, 20 * body.len() as u64 / 188);
        assert_eq!(tally.window.bytes, 20 * body.len() as u64);
        assert_eq!(
            (tally.connect.count(), tally.first_byte.count(), tally.first_key_frame.count()),
            (20, 20, 20)
        );
    }
}

#[test]
fn every_damage_that_a_server_does_is_found() {
    let good = packets(60);
    let damaged = |damage: &dyn Fn(&mut Vec<[u8; 188]>)| {
        let mut packets = good.clone();
        damage(&mut packets);
        run(settings(serve_bytes(chunked(&packets.concat())), 3)).verdict
    };
    let wrong = damaged(&|packets| packets[700][99] ^= 4);
    assert_eq!((wrong.wrong, wrong.missing, wrong.repeated), (3, 0, 0));
    let missing = damaged(&|packets| drop(packets.drain(500..532)));
    assert_eq!((missing.wrong, missing.missing, missing.repeated), (0, 96, 0));
    let repeated = damaged(&|packets| packets.insert(800, packets[799]));
    assert_eq!((repeated.wrong, repeated.missing, repeated.repeated), (0, 0, 3));
    let announced = damaged(&|packets| {
        packets.drain(500..532);
        packets.insert(500, discontinuity_packet(super::super::stamped::VIDEO_PID, 1));
    });
    assert_eq!((announced.errors(), announced.announced, announced.skipped), (0, 3, 96));
}

#[test]
fn only_the_sample_is_checked_but_all_join() {
    let mut packets = packets(60);
    packets[700][99] ^= 4;
    let address = serve_bytes(with_length(&packets.concat()));
    for (check, checked) in [(Check::Sample(3), 3), (Check::None, 0), (Check::Sample(99), 10)] {
        let tally = run(Settings { check, ..settings(address, 10) });
        assert_eq!((tally.checked, tally.verdict.wrong), (checked, checked));
        assert_eq!(tally.first_key_frame.count(), 10);
    }
}

#[test]
fn refusals_and_drops_are_told_apart_with_their_reasons() {
    let refused = run(settings(serve_bytes(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_vec()), 4));
    assert_eq!((refused.viewers.refused, refused.reasons["answered 503 Busy"]), (4, 4));
    let silent = run(settings(serve_bytes(Vec::new()), 2));
    assert_eq!((silent.viewers.refused, silent.reasons["closed without an answer"]), (2, 2));
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = run(settings(closed, 2));
    assert_eq!((nobody.viewers.connected, nobody.reasons["connection refused"]), (0, 2));
    let live = [b"HTTP/1.0 200 OK\r\n\r\n".to_vec(), packets(3).concat()].concat();
    let dropped = run(settings(serve_bytes(live), 2));
    assert_eq!((dropped.viewers.dropped, dropped.reasons["the server closed the connection"]), (2, 2));
    let mut cut = with_length(&packets(3).concat());
    cut.truncate(5000);
    let cut = run(settings(serve_bytes(cut), 2));
    assert_eq!((cut.viewers.dropped, cut.viewers.finished), (2, 0), "{:?}", cut.reasons);
}

#[test]
fn who_gets_no_answer_is_refused() {
    // The kernel takes the connections; nobody reads them.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let settings = settings(listener.local_addr().unwrap(), 2);
    let tally = run(Settings { timeout: Duration::from_millis(100), ..settings });
    assert_eq!((tally.viewers.refused, tally.reasons["no answer within 0.1 s"]), (2, 2));
}

#[test]
fn a_body_of_another_kind_is_read_unchecked() {
    let page = with_length("<html>GGGGGGGGG</html>".repeat(3000).as_bytes());
    let tally = run(settings(serve_bytes(page), 2));
    assert_eq!((tally.viewers.finished, tally.other_bodies, tally.checked), (2, 2, 0));
    assert_eq!(tally.verdict, Default::default());
}

#[test]
fn viewers_come_from_every_source_address() {
    let (address, seen) = {
        let answer = with_length(&packets(1).concat());
        serve(Arc::new(move |_, stream: &mut TcpStream| drop(stream.write_all(&answer))))
    };
    let sources: Vec<IpAddr> = ["127.0.0.2", "127.0.0.3"].map(|source| source.parse().unwrap()).to_vec();
    let tally = run(Settings { sources: sources.clone(), ..settings(address, 6) });
    assert_eq!(tally.viewers.finished, 6);
    let seen: Vec<_> = seen.try_iter().collect();
    assert!(sources.iter().all(|source| seen.iter().filter(|peer| *peer == source).count() == 3), "{seen:?}");
    let elsewhere = Settings { sources: vec!["192.0.2.1".parse().unwrap()], ..settings(address, 1) };
    assert_eq!(run(elsewhere).viewers.refused, 1);
}

/// Sends packets as fast as they are taken.
fn endless(_: usize, stream: &mut TcpStream) {
    let mut source = Source::default();
    let mut bytes = b"HTTP/1.0 200 OK\r\n\r\n".to_vec();
    while stream.write_all(&bytes).is_ok() {
        bytes.clear();
        source.frame(Clock::new().now(), &mut bytes);
    }
}

#[test]
fn slow_viewers_read_no_faster_than_they_may() {
    let (address, _) = serve(Arc::new(endless));
    let slow = Some((1, Limit::Rate(400_000)));
    let mut load =
        Load::new(Settings { slow, limit: Some(Limit::Rate(4_000_000)), ..settings(address, 2) }).unwrap();
    load.join();
    run_until(&mut load, "viewers", |load| load.progress().viewers.receiving == 2);
    load.begin_window();
    load.run(Duration::from_millis(1500)).unwrap();
    let window = load.tally().window;
    assert_eq!((window.limited_rate.count(), window.rate.count()), (2, 0));
    assert!((1..460_000).contains(&window.limited_rate.min()), "{}", window.limited_rate.min());
    assert!((1..4_600_000).contains(&window.limited_rate.max()), "{}", window.limited_rate.max());
}

#[test]
fn viewers_leave_for_others() {
    let (address, _) = serve(Arc::new(endless));
    let limit = Some(Limit::Rate(1_000_000));
    let mut load = Load::new(Settings { churn: 100.0, limit, ..settings(address, 5) }).unwrap();
    load.join();
    run_until(&mut load, "leavers", |load| load.progress().viewers.left >= 5);
    let tally = load.tally();
    assert_eq!(tally.viewers.asked, 5 + tally.viewers.left, "each for another one");
    assert_eq!((tally.failed(), tally.verdict.errors()), (0, 0), "{:?}", tally.reasons);
    assert!(!load.is_over());
}

#[test]
fn a_whole_body_is_asked_for_again_where_that_is_wanted() {
    let address = serve_bytes(with_length(&packets(2).concat()));
    let mut load = Load::new(Settings { repeat: true, ..settings(address, 2) }).unwrap();
    load.join();
    run_until(&mut load, "repetitions", |load| load.progress().viewers.finished >= 6);
    assert_eq!(load.tally().verdict.errors(), 0);
}

#[test]
fn a_served_feed_gives_the_delay_of_each_frame() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut load = Load::new(settings(listener.local_addr().unwrap(), 1)).unwrap();
    load.feed(Feed::serve(listener).unwrap(), Shape::default()).unwrap();
    load.join();
    run_until(&mut load, "frames", |load| load.progress().source.is_some_and(|(frames, ..)| frames > 60));
    let tally = load.tally();
    assert_eq!((tally.verdict.errors(), tally.stamped), (0, 1), "{tally:?}");
    assert!(tally.window.last_packet.count() > 10);
    assert!(tally.window.last_packet.quantile(0.5) >= tally.window.first_packet.quantile(0.5));
}

#[test]
fn viewers_are_chosen_evenly() {
    for (count, all) in [(0, 10), (1, 10), (3, 10), (10, 10), (12, 10), (7, 1000)] {
        let chosen: Vec<_> = (0..all).filter(|&index| is_chosen(index, count, all)).collect();
        assert_eq!(chosen.len(), count.min(all));
        let apart = chosen.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(apart.clone().max().unwrap_or(0) <= apart.min().unwrap_or(0) + 1);
    }
}
