use super::*;
use crate::output::{Output, OutputTable};
use bytes::Bytes;
use glassline_delivery::output::Destination;
use glassline_delivery::policy::StreamName;
use glassline_delivery::stream::{self, Backlog, FlushPolicy, Prebuffer};
use glassline_media::container::ts::{MuxSettings, Muxer};
use glassline_media::{AccessUnit, Codec, Stamps, Ticks};
use glassline_streams::Acquisition;
use glassline_test_support::loopback::free_udp;
use glassline_test_support::program::Scratch;
use std::net::UdpSocket;
use std::time::Duration;

const UTC: Utc = Utc::from_nanos(1_700_000_000_000_000_000);

/// A stream whose pace is fixed, with its publisher's session.
fn live(id: u64, bytes: u64) -> (Arc<Live>, u64) {
    let backlog = Backlog { time: Duration::from_secs(10), bytes };
    let (pacing, prebuffer) = (Pacing::Rate(8_000_000), Prebuffer::NONE);
    let settings = stream::Settings { backlog, flush: FlushPolicy::Frame, pacing, prebuffer };
    let name = StreamName::parse("a").expect("a name");
    let live = Arc::new(Live::new(id, name, Mux::MpegTs, settings, 1, Time::ZERO));
    let Acquisition::Granted { session, .. } = live.acquire(None, false, None, Time::ZERO) else {
        panic!("the slot is free")
    };
    (live, session)
}

/// Pictures of so many bytes as a transport stream; the first is a key frame.
fn pictures(count: i64, bytes: usize) -> Vec<u8> {
    let settings = MuxSettings { video: Some(Codec::H264), ..MuxSettings::default() };
    let (mut muxer, mut out) = (Muxer::new(settings).expect("H.264"), Vec::new());
    for number in 0..count {
        let is_key = number == 0;
        let head: &[u8] = if is_key {
            &[0, 0, 0, 1, 0x67, 0x42, 0, 0x1f, 0, 0, 0, 1, 0x68, 0xce, 1, 0, 0, 0, 1, 0x65, 0x88]
        } else {
            &[0, 0, 0, 1, 0x41, 0x9a]
        };
        let data = Bytes::from([head, &vec![0x55; bytes][..]].concat());
        let pts = Ticks(90_000 + number * 3600);
        let stamps = Stamps::default();
        let unit = AccessUnit { codec: Codec::H264, data, pts, dts: pts, random_access: is_key, stamps };
        muxer.write(&unit, &mut out).expect("a unit");
    }
    out
}

/// An output in a test's hands, with sockets at its ports of pictures.
struct Bench {
    feed: TrackFeed,
    rtp: UdpSocket,
    rtcp: UdpSocket,
    scratch: Scratch,
    now: Time,
}

impl Bench {
    fn new(file: &str) -> Bench {
        let (scratch, to) = (Scratch::new("tracks"), free_udp());
        let url = format!("rtp+sdp://{to}?sdp={}&mtu=1000", scratch.path().join(file).display());
        let destination = Destination::parse_output(&url).expect("a destination");
        let name = StreamName::parse("a").expect("a name");
        let entries = OutputTable::new(&[Output { name, destination }], &OutputTable::default());
        let entry = Arc::clone(entries.iter().next().expect("an entry"));
        let options = entry.destination.tracks.clone().expect("tracks");
        let socket = |above: u16| {
            let socket = UdpSocket::bind(SocketAddr::new(to.ip(), to.port() + above)).expect("a socket");
            socket.set_nonblocking(true).expect("no waiting");
            socket
        };
        let mut feed = TrackFeed::new(entry, options, 7);
        feed.reconfigure(Pacing::Rate(8_000_000));
        Bench { feed, rtp: socket(0), rtcp: socket(1), scratch, now: Time::from_millis(1000) }
    }

    /// Lets it send what it has. Returns the datagrams of each burst.
    fn run(&mut self, until: Time) -> Vec<Vec<Vec<u8>>> {
        let mut bursts = Vec::new();
        while self.feed.poll_timeout() <= until {
            self.now = self.now.max(self.feed.poll_timeout());
            self.feed.handle_timeout(self.now, UTC);
            bursts.push(received(&self.rtp));
        }
        bursts
    }

    fn publish(&mut self, live: &Arc<Live>, session: u64, bytes: &[u8]) {
        live.push(session, bytes, Time::ZERO).expect("a transport stream");
        live.pause(Time::ZERO);
        self.feed.handle_news(live);
    }
}

fn received(socket: &UdpSocket) -> Vec<Vec<u8>> {
    let mut buffer = [0; 2000];
    std::iter::from_fn(|| socket.recv(&mut buffer).ok().map(|count| buffer[..count].to_vec())).collect()
}

#[test]
fn a_picture_leaves_in_small_bursts_at_the_pace_and_the_file_tells_of_it() {
    let mut bench = Bench::new("a.sdp");
    let (live, session) = live(1, 1 << 20);
    bench.publish(&live, session, &pictures(3, 20_000));
    let bursts = bench.run(Time::from_millis(20_000));
    let counts: Vec<usize> = bursts.iter().map(Vec::len).collect();
    assert!(counts.iter().all(|count| *count <= BURST_DATAGRAMS), "{counts:?}");
    let datagrams = bursts.concat();
    assert!(datagrams.iter().all(|datagram| datagram.len() <= 1000 && datagram[1] & 0x7f == 96));
    assert!(datagrams.len() >= 60, "{}", datagrams.len());
    // At 8 Mbit/s a byte takes a microsecond.
    let bytes: usize = datagrams.iter().map(Vec::len).sum();
    assert!(bench.now - Time::from_millis(1000) >= Duration::from_micros(bytes as u64 * 9 / 10));
    let reports = received(&bench.rtcp);
    assert_eq!((reports.len(), reports[0][1]), (1, 200));
    let counts = bench.feed.entry().counts();
    assert_eq!((counts[0], counts[2]), (datagrams.len() as u64 + 1, 0));
    let text = std::fs::read_to_string(bench.scratch.path().join("a.sdp")).expect("a file");
    assert!(text.contains("m=video ") && text.contains("sprop-parameter-sets=Z0IAHw==,aM4B"), "{text}");
    assert!(!bench.scratch.path().join("a.sdp.new").exists());
}

#[test]
fn a_stream_that_ends_says_goodbye_and_one_that_is_left_too() {
    let mut bench = Bench::new("a.sdp");
    let (first, session) = live(1, 1 << 20);
    bench.publish(&first, session, &pictures(2, 100));
    bench.run(Time::from_millis(20_000));
    let is_goodbye = |report: &Vec<u8>| report.windows(2).any(|pair| pair == [0x81, 203]);
    assert!(!received(&bench.rtcp).iter().any(is_goodbye));
    first.end();
    bench.feed.handle_news(&first);
    bench.run(Time::from_millis(20_000));
    assert!(received(&bench.rtcp).iter().any(is_goodbye));
    assert!(bench.feed.poll_timeout() == Time::NEVER && !bench.feed.entry().begun.load(Ordering::Relaxed));
    let (second, session) = live(2, 1 << 20);
    bench.publish(&second, session, &pictures(2, 100));
    assert!(!bench.run(Time::from_millis(20_000)).concat().is_empty());
    let Bench { feed, rtcp, now, .. } = bench;
    received(&rtcp);
    feed.leave(now, UTC);
    assert!(received(&rtcp).iter().any(is_goodbye));
}

#[test]
fn a_file_that_cannot_be_written_is_told_and_tried_again() {
    let mut bench = Bench::new("nowhere/a.sdp");
    let (live, session) = live(1, 1 << 20);
    bench.publish(&live, session, &pictures(2, 100));
    assert!(!bench.run(Time::from_millis(1500)).concat().is_empty(), "packets leave all the same");
    let error = bench.feed.entry().error().clone().expect("an error");
    assert!(error.contains("cannot write"), "{error}");
    let due = bench.feed.poll_timeout();
    assert!(due > bench.now && due <= bench.now + RETRY);
    std::fs::create_dir(bench.scratch.path().join("nowhere")).expect("a folder");
    bench.run(Time::from_millis(4000));
    assert!(bench.scratch.path().join("nowhere/a.sdp").exists());
}

#[test]
fn an_output_that_fell_behind_goes_on_at_the_newest_key_frame() {
    let mut bench = Bench::new("a.sdp");
    let (live, session) = live(1, 64 << 10);
    bench.publish(&live, session, &pictures(2, 100));
    bench.run(Time::from_millis(20_000));
    for _ in 0..100 {
        live.push(session, &pictures(2, 20_000), Time::ZERO).expect("a transport stream");
        live.pause(Time::ZERO);
    }
    bench.feed.handle_news(&live);
    let datagrams = bench.run(Time::from_millis(60_000)).concat();
    assert_eq!(bench.feed.entry().counts()[3], 1);
    assert!(!datagrams.is_empty() && datagrams.len() < 400, "{}", datagrams.len());
}

#[test]
fn a_next_process_goes_on_with_the_counts() {
    let mut bench = Bench::new("a.sdp");
    let (live, session) = live(1, 1 << 20);
    bench.publish(&live, session, &pictures(2, 100));
    bench.run(Time::from_millis(20_000));
    let left = bench.feed.state();
    let counts = bench.feed.entry().counts();
    bench.feed.entry().set_counts([0; 4]);
    bench.feed.restore(&left);
    assert!(counts[0] > 0 && bench.feed.entry().counts() == counts);
}

#[test]
fn the_file_is_written_for_what_is_other_in_it_and_once_a_second_at_most() {
    let mut bench = Bench::new("a.sdp");
    let file = bench.scratch.path().join("a.sdp");
    let (live, session) = live(1, 1 << 20);
    bench.publish(&live, session, &pictures(2, 100));
    bench.run(Time::from_millis(1100));
    let first = std::fs::read_to_string(&file).expect("a file");
    assert!(first.contains("o=- ") && first.contains(" 1 IN IP4"), "{first}");
    // Other parameter sets with each key frame.
    let mut versions = Vec::new();
    for number in 1..=20u8 {
        let data = [
            &[0, 0, 0, 1, 0x67, 0x42, 0, number, 0, 0, 0, 1, 0x68, 0xce, 1, 0, 0, 0, 1, 0x65][..],
            &[0x88; 9],
        ]
        .concat();
        let unit = OfferedTrack::of(&key_frame(data), 0).expect("a track");
        bench.feed.description.tracks = vec![unit];
        bench.feed.describe(bench.now);
        bench.run(bench.now + Duration::from_millis(100));
        bench.now += Duration::from_millis(100);
        bench.feed.write_description(bench.now);
        versions.push(bench.feed.description.version);
    }
    assert!((2..=4).contains(versions.last().expect("one")), "{versions:?}");
    bench.run(bench.now + WRITE_TIME);
    let text = std::fs::read_to_string(&file).expect("a file");
    assert!(text.contains("profile-level-id=420014"), "the newest: {text}");
}

fn key_frame(data: Vec<u8>) -> AccessUnit {
    let (pts, data, stamps) = (Ticks(0), Bytes::from(data), Stamps::default());
    AccessUnit { codec: Codec::H264, data, pts, dts: pts, random_access: true, stamps }
}

#[test]
fn what_cannot_be_sent_waits_and_leaves_the_file_alone() {
    let mut bench = Bench::new("a.sdp");
    let file = bench.scratch.path().join("a.sdp");
    let (live, session) = live(1, 1 << 20);
    bench.publish(&live, session, &pictures(2, 100));
    bench.run(Time::from_millis(1500));
    std::fs::write(&file, "as it was").expect("a file");
    let errors = bench.feed.entry().counts()[2];
    // A datagram that no socket takes.
    let packet = TrackPacket { track: PICTURES, is_report: false, bytes: vec![0; 70_000] };
    bench.feed.burst = vec![packet];
    bench.feed.handle_timeout(bench.now, UTC);
    assert!(bench.feed.entry().counts()[2] > errors && bench.feed.sockets.is_none());
    let begun = bench.now;
    bench.publish(&live, session, &pictures(2, 100));
    assert!(bench.feed.poll_timeout() >= begun + RETRY, "it does not try again at once");
    assert!(!bench.run(begun + RETRY + WRITE_TIME).concat().is_empty());
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), "as it was");
}
