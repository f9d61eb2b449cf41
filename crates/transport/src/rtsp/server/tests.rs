use super::*;
use crate::rtp::Header;
use crate::rtsp::auth::{Answerer, Challenge, Credentials};
use bytes::Bytes;
use glassline_media::{Codec, Stamps, Ticks};
use proptest::prelude::*;

const UTC: Utc = Utc::from_nanos(1_700_000_000_000_000_000);
const NOW: Time = Time::from_millis(1000);
const SDP: &str = "v=0\r\nm=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=control:streamid=0\r\n\
    m=audio 0 RTP/AVP 9\r\na=control:streamid=1\r\n";

struct Client {
    session: ServerSession,
    number: u32,
}

impl Client {
    fn new() -> Client {
        Client { session: ServerSession::new(7, rtp::Settings::default(), NOW), number: 0 }
    }

    fn ask(&mut self, line: &str, headers: &str, body: &str) {
        self.number += 1;
        let headers: String = headers.lines().map(|line| format!("{line}\r\n")).collect();
        let length =
            if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        let text = format!("{line} RTSP/1.0\r\nCSeq: {}\r\n{headers}{length}\r\n{body}", self.number);
        self.session.handle_bytes(text.as_bytes(), NOW, UTC);
    }

    fn answer(&mut self) -> String {
        match self.session.poll_output() {
            Some(Output::Send(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
            other => panic!("{other:?}"),
        }
    }

    fn asked(&mut self, line: &str, headers: &str, body: &str) -> String {
        self.ask(line, headers, body);
        let answer = self.answer();
        assert!(answer.contains(&format!("CSeq: {}\r\n", self.number)), "{answer}");
        answer
    }

    fn announced(&mut self) {
        self.ask("ANNOUNCE rtsp://h:8554/live/hall?key=k", "Content-Type: application/sdp", SDP);
        let entered = Output::Enter { role: Role::Publish, name: "hall".into(), query: "key=k".into() };
        assert_eq!(self.session.poll_output(), Some(entered));
        self.session.admit(NOW, UTC);
        assert!(self.answer().starts_with("RTSP/1.0 200 OK"));
    }
}

fn h264() -> AccessUnit {
    let data =
        Bytes::from_static(&[0, 0, 0, 1, 0x67, 0x42, 0, 0x1f, 0, 0, 1, 0x68, 0xce, 0, 0, 1, 0x65, 0x88]);
    let stamps = Stamps::default();
    AccessUnit { codec: Codec::H264, data, pts: Ticks(900), dts: Ticks(900), random_access: true, stamps }
}

#[test]
fn a_program_publishes_on_the_connection() {
    let mut client = Client::new();
    assert!(client.asked("OPTIONS *", "", "").contains("Public: OPTIONS, DESCRIBE, ANNOUNCE"));
    client.announced();
    assert!(client.session.left_out()[0].contains("G722 has no place"));
    // FFmpeg puts the control behind the query.
    for (number, channels) in [(0, "0-1"), (1, "2-3")] {
        let line = format!("SETUP rtsp://h:8554/live/hall?key=k/streamid={number}");
        let answer = client.asked(
            &line,
            &format!("Transport: RTP/AVP/TCP;unicast;interleaved={channels};mode=record"),
            "",
        );
        assert!(
            answer.contains(&format!("interleaved={channels}")) && answer.contains("Session: "),
            "{answer}"
        );
    }
    let id = client.session.id.clone();
    assert!(client.asked("RECORD rtsp://h/live/hall", "Session: other", "").starts_with("RTSP/1.0 454"));
    assert!(
        client.asked("RECORD rtsp://h/live/hall", &format!("Session: {id}"), "").starts_with("RTSP/1.0 200")
    );
    assert_eq!(client.session.poll_output(), Some(Output::Begin(Role::Publish)));
    let header = Header { marker: true, payload_type: 96, sequence: 1, timestamp: 0, ssrc: 5 };
    let packet = [&header.write()[..], &[0x65, 0x88, 1]].concat();
    // Sound that is not carried is passed over.
    for channel in [2, 0] {
        client.session.handle_bytes(&write_interleaved(channel, &packet).unwrap(), NOW, UTC);
    }
    let (track, placed) = client.session.poll_unit().unwrap();
    assert_eq!((track, placed.unit.codec, client.session.poll_unit()), (0, Codec::H264, None));
    client.session.handle_timeout(Time::from_millis(7000));
    assert!(matches!(client.session.poll_output(), Some(Output::Send(report)) if report[..2] == *b"$\x01"));
    assert!(client.asked("TEARDOWN rtsp://h/live/hall", "", "").starts_with("RTSP/1.0 200"));
    assert_eq!(client.session.over(), Some(&Over::Ended));
}

#[test]
fn a_program_plays_over_datagrams() {
    let mut client = Client::new();
    client.ask("DESCRIBE rtsp://u:p@h:8554/live/hall?token=t", "Accept: application/sdp", "");
    let entered = Output::Enter { role: Role::Watch, name: "hall".into(), query: "token=t".into() };
    assert_eq!(client.session.poll_output(), Some(entered));
    // While the question is open no further request is read.
    client.ask("OPTIONS *", "", "");
    assert_eq!(client.session.poll_output(), None);
    client.session.describe("hall", vec![OfferedTrack::of(&h264(), 0).unwrap()], NOW, UTC);
    let answer = client.answer();
    assert!(
        answer.contains("Content-Base: rtsp://h:8554/live/hall/\r\n") && answer.contains("H264/90000"),
        "{answer}"
    );
    assert!(client.answer().contains("Public: "));
    assert!(client.asked("PLAY rtsp://h:8554/live/hall/", "", "").starts_with("RTSP/1.0 455"));
    let multicast =
        client.asked("SETUP rtsp://h:8554/live/hall/trackID=0", "Transport: RTP/AVP;multicast", "");
    assert!(multicast.starts_with("RTSP/1.0 461"));
    client.ask(
        "SETUP rtsp://h:8554/live/hall/trackID=0",
        "Transport: RTP/AVP;unicast;client_port=5000-5001",
        "",
    );
    assert_eq!(client.session.poll_output(), Some(Output::OpenPorts { track: 0, client: (5000, 5001) }));
    client.session.handle_ports((6000, 6001), NOW, UTC);
    assert!(client.answer().contains("client_port=5000-5001;server_port=6000-6001"));
    assert!(client.asked("PLAY rtsp://h:8554/live/hall/", "", "").starts_with("RTSP/1.0 200"));
    assert_eq!(client.session.poll_output(), Some(Output::Begin(Role::Watch)));
    client.session.send_unit(0, &h264(), UTC, NOW);
    let kinds: Vec<bool> = std::iter::from_fn(|| client.session.poll_output())
        .map(|output| match output {
            Output::Datagram { track: 0, is_rtcp, .. } => is_rtcp,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(kinds, [true, false], "a report and a packet");
    // Reports keep it alive.
    assert_eq!(client.session.poll_timeout(), Time::from_millis(61_000));
    let report = rtcp::Receiver::new(1, 90_000).write_report("x", NOW);
    let from = "192.0.2.1:5001".parse().unwrap();
    client.session.handle_datagram(0, &report, from, Time::from_millis(30_000), UTC);
    client.session.handle_timeout(Time::from_millis(61_000));
    assert_eq!(client.session.over(), None);
    client.session.handle_timeout(Time::from_millis(90_000));
    assert_eq!(client.session.over(), Some(&Over::Silent));
    let mut ended = Client::new();
    ended.session.end_stream();
    assert_eq!(ended.session.over(), Some(&Over::Ended));
}

#[test]
fn a_client_that_may_not_is_challenged_and_proves_its_key() {
    let mut client = Client::new();
    client.ask("DESCRIBE rtsp://h/live/hall", "", "");
    client.session.poll_output();
    assert!(client.session.shown().is_none() && !client.session.proves("hall", "key"));
    client.session.refuse(401, "show the key", NOW, UTC);
    let answer = client.answer();
    assert!(answer.starts_with("RTSP/1.0 401 Unauthorized") && answer.ends_with("show the key"), "{answer}");
    let all: Vec<_> = answer.lines().filter(|line| line.contains(": Digest")).collect();
    assert!(all[0].ends_with("=SHA-256") && all[1].ends_with("=MD5"), "FFmpeg up to 5.1 takes the last");
    let digest = answer.lines().find_map(|line| line.strip_prefix("WWW-Authenticate: Digest")).unwrap();
    let challenge = Challenge::parse(&format!("Digest{digest}")).unwrap();
    let uri = "rtsp://h/live/hall";
    let value = Answerer::new(Credentials::new("hall", "key"), challenge).answer("DESCRIBE", uri, 1);
    client.ask(&format!("DESCRIBE {uri}"), &format!("Authorization: {value}"), "");
    assert!(matches!(client.session.poll_output(), Some(Output::Enter { .. })));
    assert!(client.session.proves("hall", "key") && !client.session.proves("hall", "other"));
    assert!(Client::new().session.nonce != client.session.nonce || client.session.nonce.len() == 32);
}

#[test]
fn what_is_out_of_turn_or_unknown_is_refused() {
    let mut client = Client::new();
    for (line, status) in [
        ("SETUP rtsp://h/live/hall", 455),
        ("RECORD rtsp://h/live/hall", 455),
        ("PAUSE rtsp://h/live/hall", 455),
        ("DESCRIBE rtsp://h/other/hall", 404),
        ("DESCRIBE rtsp://h/live/", 404),
        ("FLY rtsp://h/live/hall", 501),
    ] {
        let answer = client.asked(line, "", "");
        assert!(answer.starts_with(&format!("RTSP/1.0 {status} ")), "{line}: {answer}");
    }
    let option = "www.onvif.org/ver20/backchannel";
    let answer = client.asked("DESCRIBE rtsp://h/live/hall", &format!("Require: {option}"), "");
    assert!(
        answer.starts_with("RTSP/1.0 551 ") && answer.contains(&format!("Unsupported: {option}\r\n")),
        "{answer}"
    );
    assert!(
        client
            .asked("ANNOUNCE rtsp://h/live/hall", "", "m=audio 0 RTP/AVP 9\r\n")
            .starts_with("RTSP/1.0 415")
    );
    assert!(client.asked("ANNOUNCE rtsp://h/live/hall", "", "hello").starts_with("RTSP/1.0 400"));
    client.session.handle_bytes(b"GET / HTTP/1.1\r\n\r\n", NOW, UTC);
    assert!(client.answer().starts_with("RTSP/1.0 400"));
    assert!(matches!(client.session.over(), Some(Over::Message(_))));
}

#[test]
fn a_client_that_does_nothing_or_floods_is_ended() {
    let mut idle = Client::new();
    assert_eq!(idle.session.poll_timeout(), Time::from_millis(31_000));
    idle.session.handle_timeout(Time::from_millis(31_000));
    assert_eq!((idle.session.over(), idle.session.poll_timeout()), (Some(&Over::Idle), Time::NEVER));
    let mut flood = Client::new();
    flood.ask("DESCRIBE rtsp://h/live/hall", "", "");
    for _ in 0..300 {
        flood.session.handle_bytes(&[b'$'; 1024], NOW, UTC);
    }
    assert_eq!(flood.session.over(), Some(&Over::Flood));
}

#[test]
fn requests_in_a_row_wait_until_the_answers_of_those_before_them_are_taken() {
    let mut client = Client::new();
    for (request, is_asked) in [("OPTIONS *", false), ("DESCRIBE rtsp://h/live/hall", true)] {
        let row = format!("{request} RTSP/1.0\r\n\r\n").repeat(40);
        client.session.handle_bytes(row.as_bytes(), NOW, UTC);
        let answers = |client: &mut Client| {
            let mut count = 0;
            while let Some(output) = client.session.poll_output() {
                match output {
                    Output::Send(_) => count += 1,
                    _ => client.session.refuse(404, "no", NOW, UTC),
                }
            }
            count
        };
        assert_eq!((answers(&mut client), client.session.has_more()), (16, true), "{is_asked}");
        client.session.resume(NOW, UTC);
        assert_eq!((answers(&mut client), client.session.has_more()), (16, true));
        client.session.resume(NOW, UTC);
        assert_eq!((answers(&mut client), client.session.has_more()), (8, false));
    }
}

#[test]
fn a_viewer_that_gets_no_datagrams_pauses_and_plays_on_the_connection() {
    let mut client = Client::new();
    client.ask("DESCRIBE rtsp://h/live/hall", "", "");
    client.session.poll_output();
    client.session.describe("hall", vec![OfferedTrack::of(&h264(), 0).unwrap()], NOW, UTC);
    client.answer();
    let set_up = "SETUP rtsp://h/live/hall/trackID=0";
    client.ask(set_up, "Transport: RTP/AVP;unicast;client_port=5000-5001", "");
    client.session.poll_output();
    client.session.handle_ports((6000, 6001), NOW, UTC);
    client.answer();
    let play = |client: &mut Client| {
        assert!(!client.session.is_running());
        assert!(client.asked("PLAY rtsp://h/live/hall/", "", "").starts_with("RTSP/1.0 200"));
        assert_eq!(client.session.poll_output(), Some(Output::Begin(Role::Watch)));
        assert!(client.session.is_running());
        client.session.send_unit(0, &h264(), UTC, NOW);
        let outputs: Vec<_> = std::iter::from_fn(|| client.session.poll_output()).collect();
        assert_eq!(outputs.len(), 2, "a report and a packet");
        outputs
    };
    assert!(play(&mut client).iter().all(|output| matches!(output, Output::Datagram { .. })));
    assert!(client.asked(set_up, "Transport: RTP/AVP/TCP;interleaved=0-1", "").starts_with("RTSP/1.0 455"));
    assert!(client.asked("PAUSE rtsp://h/live/hall/", "", "").starts_with("RTSP/1.0 200"));
    assert_eq!(client.session.poll_output(), Some(Output::Halt));
    client.session.send_unit(0, &h264(), UTC, NOW);
    assert_eq!(client.session.poll_output(), None, "nothing goes out meanwhile");
    // A pause may last as long as a session without a request.
    assert_eq!(client.session.poll_timeout(), Time::from_millis(61_000));
    assert!(client.asked(set_up, "Transport: RTP/AVP/TCP;interleaved=0-1", "").starts_with("RTSP/1.0 200"));
    assert!(play(&mut client).iter().all(|output| matches!(output, Output::Send(_))));
    assert!(client.asked("PAUSE rtsp://h/live/hall/", "", "").starts_with("RTSP/1.0 200"));
    client.session.handle_timeout(Time::from_millis(61_000));
    assert_eq!(client.session.over(), Some(&Over::Silent));
}

#[test]
fn a_track_is_found_by_its_whole_control() {
    let mut client = Client::new();
    let media = |kind: &str, format: &str, control| {
        format!("m={kind} 0 RTP/AVP 96\r\na=rtpmap:96 {format}\r\na=control:{control}\r\n")
    };
    let sdp = format!("v=0\r\n{}{}", media("video", "H264/90000", 1), media("audio", "opus/48000/2", 11));
    client.ask("ANNOUNCE rtsp://h/live/hall", "", &sdp);
    client.session.poll_output();
    client.session.admit(NOW, UTC);
    client.answer();
    for (control, track) in [(11, 1), (1, 0)] {
        client.ask(
            &format!("SETUP rtsp://h/live/hall/{control}"),
            "Transport: RTP/AVP;client_port=5000-5001",
            "",
        );
        assert_eq!(client.session.poll_output(), Some(Output::OpenPorts { track, client: (5000, 5001) }));
        client.session.handle_ports((6000, 6001), NOW, UTC);
        client.answer();
    }
}

proptest! {
    #[test]
    fn no_client_breaks_it(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "OPTIONS * RTSP/1.0\r\n", "DESCRIBE rtsp://h/live/a RTSP/1.0\r\n", "ANNOUNCE rtsp://h/live/a RTSP/1.0\r\n",
            "SETUP rtsp://h/live/a/trackID=0 RTSP/1.0\r\n", "PLAY rtsp://h/live/a RTSP/1.0\r\n", "RECORD rtsp://h/live/a RTSP/1.0\r\n",
            "TEARDOWN * RTSP/1.0\r\n", "\r\n", "CSeq: 1\r\n", "Transport: RTP/AVP/TCP;interleaved=0-1\r\n", "Session: 1\r\n",
            "Transport: RTP/AVP;unicast;client_port=5000-5001\r\n", "Content-Length: 107\r\n", SDP, "$\0\0\u{1}a", "RTSP/1.0 200 OK\r\n",
        ]), 0..60),
        answer in 0u8..4,
    ) {
        let mut client = Client::new();
        for piece in pieces {
            client.session.handle_bytes(piece.as_bytes(), NOW, UTC);
            let mut done = 0;
            while let Some(output) = client.session.poll_output() {
                done += 1;
                prop_assert!(done < 100, "it asks without end");
                match (output, answer) {
                    (Output::Enter { role: Role::Publish, .. }, 0..=2) => client.session.admit(NOW, UTC),
                    (Output::Enter { .. }, 0..=2) => {
                        client.session.describe("a", vec![OfferedTrack::of(&h264(), 0).unwrap()], NOW, UTC);
                    }
                    (Output::Enter { .. }, _) => client.session.refuse(401, "no", NOW, UTC),
                    (Output::OpenPorts { .. }, 0 | 1) => client.session.handle_ports((1, 2), NOW, UTC),
                    (Output::OpenPorts { .. }, _) => client.session.handle_no_ports(NOW, UTC),
                    _ => {}
                }
            }
            client.session.send_unit(0, &h264(), UTC, NOW);
            while client.session.poll_unit().is_some() {}
            client.session.handle_timeout(NOW);
        }
    }
}
