use super::super::testing::{Bench, POLICY, pull};
use super::*;
use glassline_streams::status::SourceState;
use glassline_test_support::loopback::{free_udp, is_bound};
use glassline_test_support::program::Scratch;
use glassline_test_support::wait::until;
use std::net::UdpSocket;

/// A source in a test's hands, its file and its sender.
struct Heard {
    bench: Bench,
    source: DescribedSource,
    scratch: Scratch,
    sender: UdpSocket,
    number: u16,
}

fn description(to: SocketAddr) -> String {
    format!(
        "c=IN IP4 {}\nm=video {} RTP/AVP 96\na=rtpmap:96 H264/90000\na=fmtp:96 sprop-parameter-sets=Z0IAH5WoFAFuQA==,aM48gA==\n",
        to.ip(),
        to.port()
    )
}

impl Heard {
    /// One that has looked at its file, if there is one.
    fn of(text: Option<&str>) -> Heard {
        let scratch = Scratch::new("described");
        text.into_iter().for_each(|text| drop(scratch.write("a.sdp", text)));
        let bench = Bench::new(&[pull("a", &format!("rtp:{}", scratch.file("a.sdp")))]);
        let glassline_delivery::pull::Source::Sdp(file) = bench.entry().source.clone() else {
            panic!("a description")
        };
        let source = DescribedSource::new(&*bench.house, 0, bench.entry(), file, POLICY, 7);
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut heard = Heard { bench, source, scratch, sender, number: 0 };
        heard.handle_timeout();
        heard
    }

    fn handle_timeout(&mut self) {
        self.bench.with(|context| self.source.handle_timeout(context));
    }

    /// A picture in a packet, which is taken in.
    fn send(&mut self, to: SocketAddr) {
        let mut packet = vec![0x80, 0xe0];
        packet.extend(self.number.to_be_bytes());
        packet.extend((u32::from(self.number) * 3600).to_be_bytes());
        packet.extend([0, 0, 0, 9, 0x65, 0x88, 0x80]);
        self.number += 1;
        let received = self.source.received;
        self.sender.send_to(&packet, to).unwrap();
        until("a datagram", || {
            for generation in self.bench.ready() {
                self.bench.with(|context| self.source.take_turn(generation, context));
            }
            self.source.received > received
        });
    }

    fn error(&self) -> String {
        self.bench.status("a").error.unwrap_or_default()
    }
}

#[test]
fn a_file_that_is_not_there_is_waited_for_and_then_received_by() {
    let to = free_udp();
    let mut heard = Heard::of(None);
    assert!(matches!(heard.bench.status("a").state, SourceState::Waiting { retry_in: Some(_) }));
    assert!(heard.error().contains("a.sdp"), "{}", heard.error());
    heard.scratch.write("a.sdp", "m=audio 5004 RTP/AVP 9\n");
    heard.bench.later += Duration::from_secs(2);
    heard.handle_timeout();
    assert!(heard.error().contains("G722 has no place in MPEG-TS"), "{}", heard.error());
    heard.scratch.write("a.sdp", description(to));
    heard.bench.later += Duration::from_secs(2);
    heard.handle_timeout();
    heard.send(to);
    heard.send(to);
    let status = heard.bench.status("a");
    assert_eq!((status.state, status.sessions, status.error), (SourceState::Live, 1, None));
    assert!(heard.bench.house.bytes_in("a") > Some(0));
    assert_eq!(status.rtp.map(|counts| (counts.received, counts.lost)), Some((2, 0)));
}

/// More datagrams than are read at once, of which the first ones fail: the turn has no socket any more when it would read on.
#[test]
fn what_fails_in_the_middle_of_a_turn_is_told_by_its_end() {
    let to = free_udp();
    let mut heard = Heard::of(Some(&description(to)));
    let _other = heard.bench.house.publish("a");
    for number in 0u16..400 {
        let mut packet = vec![0x80, 0xe0];
        packet.extend(number.to_be_bytes());
        packet.extend((u32::from(number) * 3600).to_be_bytes());
        packet.extend([0, 0, 0, 9, 0x65, 0x88, 0x80]);
        heard.sender.send_to(&packet, to).unwrap();
    }
    until("a turn", || {
        let ready = heard.bench.ready();
        ready.iter().for_each(|generation| {
            heard.bench.with(|context| heard.source.take_turn(*generation, context));
        });
        !ready.is_empty()
    });
    assert!(heard.source.received < 400, "one read takes all of them");
    assert!(matches!(heard.bench.status("a").state, SourceState::Waiting { retry_in: Some(_) }));
    assert!(heard.error().contains("cannot publish what came"), "{}", heard.error());
}

#[test]
fn silence_gives_the_stream_up_and_leaves_the_port_open() {
    let to = free_udp();
    let mut heard = Heard::of(Some(&description(to)));
    heard.send(to);
    heard.send(to);
    assert_eq!(heard.bench.status("a").state, SourceState::Live);
    heard.bench.later += POLICY.silence_timeout + Duration::from_secs(1);
    assert!(heard.source.poll_timeout() <= heard.bench.now());
    heard.handle_timeout();
    let status = heard.bench.status("a");
    assert_eq!(status.state, SourceState::Waiting { retry_in: None });
    assert!(heard.error().contains("no packet for"), "{}", heard.error());
    heard.send(to);
    heard.send(to);
    let status = heard.bench.status("a");
    assert_eq!((status.state, status.sessions), (SourceState::Live, 2));
    assert_eq!(status.rtp.map(|counts| counts.received), Some(4), "figures stay");
}

#[test]
fn another_description_moves_to_its_port_and_half_a_one_changes_nothing() {
    let (to, other) = (free_udp(), free_udp());
    let mut heard = Heard::of(Some(&description(to)));
    heard.send(to);
    // The last one but one is the beginning of the last, and a description by itself.
    let whole = format!("{}m=audio 9 RTP/AVP 97\na=rtpmap:97 opus/48000/2\n", description(other));
    for text in ["v=0\n", "v=0\n", &description(other), &whole, &whole] {
        heard.send(to);
        assert!(is_bound(to), "it is followed too early");
        heard.scratch.write("a.sdp", text);
        heard.bench.later += LOOK_TIME;
        heard.handle_timeout();
    }
    heard.handle_timeout();
    heard.send(other);
    assert!(!is_bound(to), "the old port is free");
}

#[test]
fn an_address_that_is_not_ours_stands_for_any_and_a_port_that_is_taken_is_told() {
    let port = free_udp().port();
    let mut heard = Heard::of(Some(&description(SocketAddr::from(([192, 0, 2, 7], port)))));
    heard.send(SocketAddr::from(([127, 0, 0, 1], port)));
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let heard = Heard::of(Some(&description(taken.local_addr().unwrap())));
    assert!(heard.error().contains("cannot receive at 127.0.0.1"), "{}", heard.error());
    assert!(matches!(heard.bench.status("a").state, SourceState::Waiting { retry_in: Some(_) }));
}
