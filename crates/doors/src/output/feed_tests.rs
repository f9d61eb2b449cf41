use super::*;
use crate::output::Output;
use crate::output::OutputTable;
use glassline_delivery::output::Destination;
use glassline_delivery::policy::StreamName;
use glassline_delivery::stream::{self, Backlog, FlushPolicy, Prebuffer};
use glassline_streams::Acquisition;
use glassline_test_support::ts::Source;
use std::net::UdpSocket;

/// A stream whose pace is fixed, with its publisher's session.
fn live(pacing: Pacing) -> (Arc<Live>, u64) {
    let backlog = Backlog { time: Duration::from_secs(10), bytes: 1 << 20 };
    let settings =
        stream::Settings { backlog, flush: FlushPolicy::Frame, pacing, prebuffer: Prebuffer::NONE };
    let name = StreamName::parse("a").expect("a name");
    let live = Arc::new(Live::new(0, name, Mux::MpegTs, settings, 1, Time::ZERO));
    let Acquisition::Granted { session, .. } = live.acquire(None, false, None, Time::ZERO) else {
        panic!("nobody is here")
    };
    (live, session)
}

/// Sends `bytes` in virtual time. Returns the datagrams of each burst, and how long all took.
fn bursts(scheme: &str, pacing: Pacing, bytes: &[u8]) -> (Vec<Vec<Vec<u8>>>, Duration) {
    let receiver = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    receiver.set_nonblocking(true).expect("no waiting");
    let url = format!("{scheme}://{}", receiver.local_addr().expect("an address"));
    let (live, session) = live(pacing);
    let output =
        Output { name: live.name.clone(), destination: Destination::parse(&url).expect("a destination") };
    let entries = OutputTable::new(&[output], &OutputTable::default());
    let mut feed = Feed::new(Arc::clone(entries.iter().next().expect("a entry")), 7);
    feed.reconfigure(pacing);
    live.push(session, bytes, Time::ZERO).expect("a transport stream");
    live.pause(Time::ZERO);
    feed.handle_news(&live);
    let (mut bursts, mut now, mut buffer) = (Vec::new(), Time::ZERO, [0; 2000]);
    while feed.poll_timeout() != Time::NEVER {
        now = now.max(feed.poll_timeout());
        feed.handle_timeout(now);
        let mut burst = Vec::new();
        while let Ok(count) = receiver.recv(&mut buffer) {
            burst.push(buffer[..count].to_vec());
        }
        bursts.push(burst);
    }
    (bursts, now - Time::ZERO)
}

fn picture(packets: usize) -> Vec<u8> {
    let mut source = Source::default();
    [source.tables(), source.picture(true, packets)].concat()
}

#[test]
fn a_picture_leaves_in_small_bursts_at_the_pace_and_its_end_waits_for_nothing() {
    let bytes = picture(100);
    let (bursts, time) = bursts("udp", Pacing::Rate(8_000_000), &bytes);
    let counts: Vec<usize> = bursts.iter().map(Vec::len).collect();
    let packets = bytes.len() / PACKET_BYTES;
    assert_eq!(counts.iter().sum::<usize>(), packets.div_ceil(7));
    assert!(counts.iter().all(|count| *count <= BURST_DATAGRAMS), "{counts:?}");
    assert_eq!(bursts.concat().concat(), bytes);
    // At 8 Mbit/s a byte takes a microsecond; the last burst leaves when those before it have left.
    assert_eq!(time, Duration::from_micros(bytes.len() as u64));
}

#[test]
fn packets_of_rtp_are_stamped_with_the_pace() {
    let bytes = picture(30);
    let (bursts, _) = bursts("rtp", Pacing::Rate(8_000_000), &bytes);
    let datagrams = bursts.concat();
    let header = |datagram: &Vec<u8>| glassline_transport::rtp::Packet::parse(datagram).expect("RTP").header;
    for (index, pair) in datagrams.windows(2).enumerate() {
        let (one, two) = (header(&pair[0]), header(&pair[1]));
        assert_eq!((one.marker, two.marker), (index == 0, false));
        assert_eq!((two.sequence.wrapping_sub(one.sequence), two.ssrc), (1, one.ssrc));
        // A datagram of 1328 bytes takes 119.5 ticks.
        let step = two.timestamp.wrapping_sub(one.timestamp);
        assert!((119..=120).contains(&step), "{step}");
    }
    let payloads: Vec<&[u8]> = datagrams.iter().map(|datagram| &datagram[12..]).collect();
    assert_eq!(payloads.concat(), bytes);
}

#[test]
fn an_unpaced_stream_leaves_at_once() {
    let (bursts, time) = bursts("udp", Pacing::Off, &picture(300));
    assert_eq!((bursts.concat().len(), time), (302usize.div_ceil(7), Duration::ZERO));
}

const TRANSPORT: Mux = Mux::MpegTs;

/// An output to this URL, and what is told of it.
fn feed(url: &str) -> Feed {
    let name = StreamName::parse("a").expect("a name");
    let output = Output { name, destination: Destination::parse(url).expect("a destination") };
    let entries = OutputTable::new(&[output], &OutputTable::default());
    Feed::new(Arc::clone(entries.iter().next().expect("an entry")), 7)
}

fn receiver() -> (UdpSocket, String) {
    let receiver = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    receiver.set_nonblocking(true).expect("no waiting");
    let url = format!("udp://{}", receiver.local_addr().expect("an address"));
    (receiver, url)
}

fn received(receiver: &UdpSocket) -> Vec<u8> {
    let (mut all, mut buffer) = (Vec::new(), [0; 2000]);
    while let Ok(count) = receiver.recv(&mut buffer) {
        all.extend_from_slice(&buffer[..count]);
    }
    all
}

/// A stream with this number, and its publisher's session.
fn numbered(id: u64, mux: Mux, bytes: u64) -> (Arc<Live>, u64) {
    let backlog = Backlog { time: Duration::from_secs(10), bytes };
    let (flush, pacing, prebuffer) = (FlushPolicy::Frame, Pacing::Off, Prebuffer::NONE);
    let settings = stream::Settings { backlog, flush, pacing, prebuffer };
    let live = Live::new(id, StreamName::parse("a").expect("a name"), mux, settings, 1, Time::ZERO);
    let live = Arc::new(live);
    let Acquisition::Granted { session, .. } = live.acquire(None, false, None, Time::ZERO) else {
        panic!("the slot is free")
    };
    (live, session)
}

#[test]
fn an_output_of_no_stream_has_nothing_to_do() {
    let mut feed = feed("udp://127.0.0.1:9");
    assert_eq!(feed.poll_timeout(), Time::NEVER);
    feed.handle_timeout(Time::from_millis(5));
    assert_eq!((feed.poll_timeout(), feed.entry().counts()), (Time::NEVER, [0; 4]));
}

#[test]
fn a_stream_that_is_no_mpeg_ts_or_has_ended_is_not_followed() {
    let mut feed = feed("udp://127.0.0.1:9");
    feed.handle_news(&numbered(1, Mux::Flv, 1 << 20).0);
    let (ended, _) = numbered(2, TRANSPORT, 1 << 20);
    ended.end();
    feed.handle_news(&ended);
    assert!(feed.following.is_none());
}

#[test]
fn a_newer_stream_of_the_name_is_followed_and_an_older_one_is_not() {
    let mut feed = feed("udp://127.0.0.1:9");
    let [older, newer] = [3, 4].map(|id| numbered(id, TRANSPORT, 1 << 20).0);
    let followed = |feed: &Feed| feed.following.as_ref().map(|it| it.reader.live().id);
    feed.handle_news(&older);
    assert_eq!(followed(&feed), Some(3));
    feed.handle_news(&newer);
    feed.handle_news(&older);
    assert_eq!(followed(&feed), Some(4));
}

#[test]
fn what_was_sent_is_counted_without_the_headers_of_rtp() {
    for (scheme, bytes) in [("udp", picture(6)), ("rtp", picture(6))] {
        let (receiver, url) = receiver();
        let mut feed = feed(&url.replace("udp", scheme));
        let (live, session) = numbered(1, TRANSPORT, 1 << 20);
        live.push(session, &bytes, Time::ZERO).expect("a transport stream");
        live.pause(Time::ZERO);
        feed.handle_news(&live);
        feed.handle_timeout(Time::ZERO);
        // Eight packets are two datagrams.
        assert_eq!(feed.entry().counts(), [2, bytes.len() as u64, 0, 0]);
        assert!(feed.entry().begun.load(Ordering::Relaxed));
        assert_eq!(received(&receiver).len(), bytes.len() + feed.burst.header_bytes * 2);
    }
}

#[test]
fn the_end_of_a_stream_is_the_end_of_its_sending() {
    let (receiver, url) = receiver();
    let mut feed = feed(&url);
    let (live, session) = numbered(1, TRANSPORT, 1 << 20);
    live.push(session, &picture(3), Time::ZERO).expect("a transport stream");
    live.pause(Time::ZERO);
    feed.handle_news(&live);
    feed.handle_timeout(Time::ZERO);
    live.end();
    feed.handle_news(&live);
    feed.handle_timeout(Time::ZERO);
    assert_eq!(received(&receiver), picture(3));
    assert!(feed.following.is_none() && !feed.entry().begun.load(Ordering::Relaxed));
    assert_eq!(feed.poll_timeout(), Time::NEVER);
}

#[test]
fn an_output_that_cannot_be_opened_is_tried_again_after_a_second_and_says_why() {
    // The address of another machine is none that datagrams can come from.
    let mut feed = feed("udp://127.0.0.1:9?source=192.0.2.1");
    let (live, session) = numbered(1, TRANSPORT, 1 << 20);
    live.push(session, &picture(3), Time::ZERO).expect("a transport stream");
    live.pause(Time::ZERO);
    feed.handle_news(&live);
    let now = Time::from_millis(500);
    feed.handle_timeout(now);
    assert_eq!((feed.poll_timeout(), feed.entry().counts()), (now + RETRY, [0, 0, 1, 0]));
    assert!(feed.entry().error().is_some());
    feed.handle_news(&live);
    assert_eq!(feed.poll_timeout(), now + RETRY, "news do not hurry it");
    feed.handle_timeout(now + RETRY);
    assert_eq!(feed.entry().counts(), [0, 0, 2, 0]);
}

#[test]
fn an_output_that_fell_behind_goes_on_at_the_newest_key_frame() {
    let (receiver, url) = receiver();
    let mut feed = feed(&url);
    let (live, session) = numbered(1, TRANSPORT, 8 << 10);
    let mut source = Source::default();
    let mut push = |packets: usize| {
        let bytes = [source.tables(), source.picture(true, packets)].concat();
        live.push(session, &bytes, Time::ZERO).expect("a transport stream");
        live.pause(Time::ZERO);
        bytes
    };
    push(3);
    feed.handle_news(&live);
    feed.handle_timeout(Time::ZERO);
    let before = received(&receiver);
    // Far more than is kept.
    (0..400).for_each(|_| drop(push(20)));
    let last = push(3);
    feed.handle_news(&live);
    feed.handle_timeout(Time::ZERO);
    let after = received(&receiver);
    assert_eq!((before.is_empty(), feed.entry().counts()[3]), (false, 1));
    assert!(after.len() < 100_000 && after.ends_with(&last[2 * PACKET_BYTES..]), "{}", after.len());
}

#[test]
fn a_next_process_goes_on_at_the_same_byte_with_the_same_counts() {
    let (receiver, url) = receiver();
    let (live, session) = numbered(1, TRANSPORT, 1 << 20);
    let mut source = Source::default();
    let push = |bytes: &[u8]| {
        live.push(session, bytes, Time::ZERO).expect("a transport stream");
        live.pause(Time::ZERO);
    };
    push(&[source.tables(), source.picture(true, 3)].concat());
    let mut old = feed(&url);
    old.handle_news(&live);
    old.handle_timeout(Time::ZERO);
    received(&receiver);
    let left = old.state();
    let next = source.picture(false, 4);
    push(&next);
    let mut new = feed(&url);
    new.handle_news(&live);
    new.restore(&left);
    assert_eq!(new.entry().counts(), old.entry().counts());
    new.handle_timeout(Time::ZERO);
    assert_eq!(received(&receiver), next);
    // Another output takes nothing of it.
    let mut other = feed("udp://127.0.0.1:9");
    other.restore(&left);
    assert!(other.entry().counts() == [0; 4] && !other.has_begun);
}

#[test]
fn an_output_that_a_fault_has_ended_waits_before_it_goes_on() {
    let (_, url) = receiver();
    let now = Time::from_millis(7000);
    let mut feed = Feed::begun_anew(Arc::clone(feed(&url).entry()), 7, now);
    let (live, _) = numbered(1, TRANSPORT, 1 << 20);
    feed.handle_news(&live);
    assert_eq!(feed.poll_timeout(), now + RETRY);
    assert!(feed.following.is_some_and(|following| following.seams.is_some()), "a seam is announced");
}

#[test]
fn a_pace_by_the_streams_rate_has_a_least_value() {
    let mut feed = feed("udp://127.0.0.1:9");
    for (pacing, least) in [
        (Pacing::Factor(2.0), LEAST_BPS),
        (Pacing::Rate(5), 0),
        (Pacing::Factor(1.5), LEAST_BPS),
        (Pacing::Off, 0),
    ] {
        feed.reconfigure(pacing);
        assert_eq!(feed.least_bps, least, "{pacing:?}");
    }
}
