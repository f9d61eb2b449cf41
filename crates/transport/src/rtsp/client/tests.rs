use super::*;
use crate::rtp::Header;
use proptest::prelude::*;

pub(super) const SDP: &str =
    "v=0\r\nm=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=control:trackID=1\r\n";
pub(super) const SDP_BOTH: &str = "v=0\r\nm=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=control:trackID=1\r\n\
    m=audio 0 RTP/AVP 97\r\na=rtpmap:97 OPUS/48000/2\r\na=control:trackID=2\r\n";
const UTC: Utc = Utc::from_nanos(1_700_000_000_000_000_000);
const CAMERA: &str = "192.0.2.7";

/// A response; `{n}` stands for the number of the request.
pub(super) fn reply(status: u16, headers: &str, body: &str) -> String {
    let headers: String = headers.lines().map(|line| format!("{line}\r\n")).collect();
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    format!("RTSP/1.0 {status} Reason\r\nCSeq: {{n}}\r\n{headers}{length}\r\n{body}")
}

/// A session, with a camera that the test plays.
pub(super) struct Play {
    pub(super) session: ClientSession,
    pub(super) now: Time,
    connections: usize,
    datagrams: Vec<(usize, bool, SocketAddr)>,
    sequence: String,
    number: u16,
}

impl Play {
    pub(super) fn new(lower: Option<Lower>, credentials: Option<Credentials>) -> Play {
        let settings = ClientSettings {
            server: Uri::parse("rtsp://cam:8554/live").unwrap(),
            credentials,
            lower,
            silence_timeout: Duration::from_secs(5),
            reorder: rtp::Settings::default(),
            random: 7,
        };
        let now = Time::from_millis(1000);
        Play {
            session: ClientSession::new(settings, now),
            now,
            connections: 0,
            datagrams: Vec::new(),
            sequence: String::new(),
            number: 0,
        }
    }

    /// Does what the session wants, up to the next bytes that it sends.
    pub(super) fn next_request(&mut self) -> Option<String> {
        while let Some(output) = self.session.poll_output() {
            match output {
                Output::Connect(_) => {
                    self.connections += 1;
                    self.session.handle_connected(CAMERA.parse().unwrap(), self.now);
                }
                Output::OpenPorts { track } => {
                    let port = 5000 + 2 * track as u16;
                    self.session.handle_ports(track, (port, port + 1), self.now);
                }
                Output::Datagram { track, is_rtcp, to, .. } => self.datagrams.push((track, is_rtcp, to)),
                Output::Close => {}
                Output::Send(bytes) => {
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    let number = text.lines().find_map(|line| line.strip_prefix("CSeq: "));
                    self.sequence = number.unwrap_or_default().to_owned();
                    return Some(text);
                }
            }
        }
        None
    }

    pub(super) fn answer(&mut self, response: &str) {
        let response = response.replace("{n}", &self.sequence);
        self.session.handle_bytes(response.as_bytes(), self.now, UTC);
    }

    /// The next request has these words in it and gets that response.
    fn exchange(&mut self, words: &str, response: &str) -> String {
        let request = self.next_request().unwrap_or_else(|| panic!("no {words}: {:?}", self.session.phase()));
        assert!(request.contains(words), "{words:?} is not in {request:?}");
        self.answer(response);
        request
    }

    fn play(&mut self, sdp: &str) {
        let is_tcp = self.session.lower() == Lower::Tcp;
        self.exchange("OPTIONS", &reply(200, "Public: OPTIONS, GET_PARAMETER", ""));
        self.exchange("DESCRIBE", &reply(200, "", sdp));
        for track in 0..self.session.tracks().len() {
            let transport = if is_tcp {
                format!("RTP/AVP/TCP;interleaved={}-{}", 2 * track, 2 * track + 1)
            } else {
                format!("RTP/AVP;unicast;server_port={}-{}", 6000 + 2 * track, 6001 + 2 * track)
            };
            self.exchange(
                "SETUP",
                &reply(200, &format!("Session: 7;timeout=20\nTransport: {transport}"), ""),
            );
        }
        self.exchange("PLAY", &reply(200, "", ""));
        assert_eq!(*self.session.phase(), Phase::Playing(self.now));
    }

    fn packet(&mut self, track: usize, payload: &[u8]) -> Vec<u8> {
        self.number += 1;
        let payload_type = self.session.tracks()[track].payload_type;
        let header = Header {
            marker: true,
            payload_type,
            sequence: self.number,
            timestamp: 3000 * u32::from(self.number),
            ssrc: 40 + track as u32,
        };
        [&header.write()[..], payload].concat()
    }

    /// Sends a whole unit in one packet, and says whether it came out.
    pub(super) fn gives_a_unit(&mut self, track: usize) -> bool {
        let payload: &[u8] = if self.session.tracks()[track].format.codec().is_video() {
            &[0x65, 0x88, 1]
        } else {
            &[0x08, 1, 2]
        };
        // Behind another track's packet there is a gap in the numbers: each track has its own, but that is no matter here.
        let packet = self.packet(track, payload);
        match self.session.tracks()[track].way.channels {
            Some((channel, _)) => {
                let bytes = crate::rtsp::message::write_interleaved(channel, &packet).unwrap();
                self.session.handle_bytes(&bytes, self.now, UTC);
            }
            None => {
                let from = SocketAddr::new(CAMERA.parse().unwrap(), 6000);
                self.session.handle_datagram(track, &packet, from, self.now, UTC);
            }
        }
        matches!(self.session.poll_unit(), Some((found, _)) if found == track)
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.session.poll_timeout() <= end {
            self.now = self.now.max(self.session.poll_timeout());
            self.session.handle_timeout(self.now);
            let is_answered = self.session.poll_timeout() > self.now;
            assert!(is_answered, "a deadline that has passed is answered");
            if !self.session.outputs.is_empty() || matches!(self.session.phase, Phase::Over(_)) {
                return;
            }
        }
        self.now = end;
    }

    fn error(&self) -> String {
        match self.session.phase() {
            Phase::Over(error) => error.to_string(),
            phase => panic!("{phase:?}"),
        }
    }
}

fn camera() -> Option<Credentials> {
    Some(Credentials::new("me", "secret"))
}

#[test]
fn a_datagram_to_each_port_opens_the_way_and_reports_go_there() {
    let mut play = Play::new(None, None);
    play.play(SDP_BOTH);
    assert_eq!(play.next_request(), None);
    let to = |port: u16| SocketAddr::new(CAMERA.parse().unwrap(), port);
    let expected = [(0, false, to(6000)), (0, true, to(6001)), (1, false, to(6002)), (1, true, to(6003))];
    assert_eq!(play.datagrams, expected);
    assert!(play.gives_a_unit(0) && play.gives_a_unit(1));
    play.datagrams.clear();
    // Reports are 2.5 to 7.5 s apart.
    for _ in 0..9 {
        play.pass(Duration::from_secs(1));
        assert_eq!(play.next_request(), None);
        play.gives_a_unit(0);
    }
    assert_eq!(play.datagrams[..2], [(0, true, to(6001)), (1, true, to(6003))]);
}

#[test]
fn datagrams_of_strangers_are_left_alone() {
    let mut play = Play::new(None, None);
    play.play(SDP);
    let packet = play.packet(0, &[0x65, 0x88]);
    play.session.handle_datagram(0, &packet, "192.0.2.8:6000".parse().unwrap(), play.now, UTC);
    assert_eq!((play.session.poll_unit(), play.session.stray_packets()), (None, 1));
    assert!(play.gives_a_unit(0));
}

#[test]
fn without_datagrams_packets_are_asked_for_on_the_connection() {
    let mut play = Play::new(None, None);
    play.play(SDP);
    assert_eq!(play.next_request(), None);
    play.pass(Duration::from_secs(4));
    assert_eq!(play.now, Time::from_millis(4000), "after three seconds");
    let goodbye = play.next_request().unwrap();
    assert!(
        goodbye.starts_with("TEARDOWN rtsp://cam:8554/live RTSP/1.0\r\n") && goodbye.contains("Session: 7")
    );
    assert_eq!(play.session.lower(), Lower::Tcp);
    play.play(SDP);
    assert_eq!((play.connections, play.session.lower()), (2, Lower::Tcp));
    assert!(play.gives_a_unit(0));
    // There is nothing else to fall back to.
    play.pass(Duration::from_secs(9));
    assert_eq!(play.error(), "no packet within 5 s");
}

#[test]
fn a_session_is_kept_alive_by_what_the_server_lists_at_half_its_time() {
    for (public, refused, methods) in [
        ("OPTIONS, GET_PARAMETER", 0, ["GET_PARAMETER", "GET_PARAMETER"]),
        ("OPTIONS, GET_PARAMETER", 405, ["GET_PARAMETER", "OPTIONS"]),
        ("DESCRIBE, SET_PARAMETER", 0, ["SET_PARAMETER", "SET_PARAMETER"]),
        ("", 0, ["OPTIONS", "OPTIONS"]),
    ] {
        let mut play = Play::new(Some(Lower::Tcp), None);
        play.exchange("OPTIONS", &reply(200, &format!("Public: {public}"), ""));
        play.exchange("DESCRIBE", &reply(200, "", SDP));
        play.exchange(
            "SETUP",
            &reply(200, "Session: 7;timeout=20\nTransport: RTP/AVP/TCP;interleaved=0-1", ""),
        );
        play.exchange("PLAY", &reply(200, "", ""));
        for method in methods {
            let began = play.now;
            let request = loop {
                play.gives_a_unit(0);
                play.pass(Duration::from_secs(1));
                // Reports to the sender go between.
                if let Some(request) = play.next_request().filter(|request| !request.starts_with('$')) {
                    break request;
                }
                assert!(play.now.since(began) < Duration::from_secs(11));
            };
            assert!(request.starts_with(method), "{public}: {request}");
            assert!(play.now.since(began) > Duration::from_secs(9));
            play.answer(&reply(if refused > 0 { refused } else { 200 }, "", ""));
        }
    }
}

#[test]
fn keep_alives_that_are_not_answered_go_out_in_time_and_nothing_turns_idly() {
    let mut play = Play::new(Some(Lower::Tcp), None);
    play.exchange("OPTIONS", &reply(200, "", ""));
    play.exchange("DESCRIBE", &reply(200, "", SDP));
    play.exchange("SETUP", &reply(200, "Session: 7;timeout=6\nTransport: RTP/AVP/TCP;interleaved=0-1", ""));
    play.exchange("PLAY", &reply(200, "", ""));
    // A report in between ends a step before its second is over.
    let (mut requests, end) = (0, play.now + Duration::from_secs(31));
    while play.now < end {
        assert!(play.gives_a_unit(0));
        play.pass(Duration::from_secs(1));
        while let Some(request) = play.next_request() {
            requests += usize::from(request.starts_with("OPTIONS"));
        }
        assert!(play.session.poll_timeout() > play.now);
    }
    assert_eq!(requests, 10, "one in three seconds, half of the session's time");
}

#[test]
fn datagrams_go_to_and_come_from_the_camera_alone() {
    let mut play = Play::new(None, None);
    play.exchange("OPTIONS", &reply(200, "", ""));
    play.exchange("DESCRIBE", &reply(200, "", SDP));
    let transport = "RTP/AVP;unicast;server_port=6000-6001;source=198.51.100.9";
    play.exchange("SETUP", &reply(200, &format!("Session: 7\nTransport: {transport}"), ""));
    play.exchange("PLAY", &reply(200, "", ""));
    play.next_request();
    assert!(play.datagrams.iter().all(|(_, _, to)| to.ip() == CAMERA.parse::<std::net::IpAddr>().unwrap()));
    assert_eq!(play.datagrams.len(), 2);
    let packet = play.packet(0, &[0x65, 0x88, 1]);
    play.session.handle_datagram(0, &packet, "198.51.100.9:6000".parse().unwrap(), play.now, UTC);
    assert_eq!(play.session.stray_packets(), 1);
}

#[test]
fn a_camera_that_sends_need_not_answer_keep_alives() {
    for seconds in [4, 20] {
        let mut play = Play::new(Some(Lower::Tcp), None);
        play.exchange("OPTIONS", &reply(200, "", ""));
        play.exchange("DESCRIBE", &reply(200, "", SDP));
        let set_up = format!("Session: 7;timeout={seconds}\nTransport: RTP/AVP/TCP;interleaved=0-1");
        play.exchange("SETUP", &reply(200, &set_up, ""));
        play.exchange("PLAY", &reply(200, "", ""));
        let mut asked = 0;
        for _ in 0..45 {
            assert!(play.gives_a_unit(0));
            play.pass(Duration::from_secs(1));
            while let Some(request) = play.next_request() {
                asked += usize::from(request.starts_with("OPTIONS"));
            }
        }
        assert!(matches!(play.session.phase(), Phase::Playing(_)));
        assert!(asked >= 2, "{asked}");
    }
}

#[test]
fn credentials_are_shown_when_they_are_asked_for_and_again_when_the_nonce_is_old() {
    let mut play = Play::new(Some(Lower::Tcp), camera());
    let asks = |nonce: &str, stale: &str| {
        reply(
            401,
            &format!(
                "WWW-Authenticate: Basic realm=\"c\"\nWWW-Authenticate: Digest realm=\"c\", nonce=\"{nonce}\", qop=\"auth\"{stale}"
            ),
            "",
        )
    };
    let first = play.exchange("OPTIONS", &reply(200, "", ""));
    assert!(!first.contains("Authorization"));
    play.exchange("DESCRIBE", &asks("n1", ""));
    let second = play.exchange("DESCRIBE", &reply(200, "", SDP));
    assert!(
        second.contains("Authorization: Digest username=\"me\"") && second.contains("nc=00000001"),
        "{second}"
    );
    assert!(!second.contains("secret"));
    let third = play.exchange("SETUP", &asks("n2", ", stale=true"));
    assert!(third.contains("nonce=\"n1\"") && third.contains("nc=00000002"), "{third}");
    play.exchange("nonce=\"n2\"", &reply(200, "Session: 7\nTransport: RTP/AVP/TCP;interleaved=0-1", ""));
    play.exchange("PLAY", &reply(200, "", ""));
    assert!(play.gives_a_unit(0));
}

#[test]
fn wrong_credentials_end_the_session_and_are_not_tried_for_ever() {
    let challenge =
        |nonce: &str| reply(401, &format!("WWW-Authenticate: Digest realm=\"c\", nonce=\"{nonce}\""), "");
    let mut none = Play::new(None, None);
    none.exchange("OPTIONS", &challenge("a"));
    assert!(none.error().contains("wants a user and a password"));
    let mut wrong = Play::new(None, camera());
    wrong.exchange("OPTIONS", &challenge("a"));
    wrong.exchange("OPTIONS", &challenge("a"));
    assert_eq!(wrong.error(), "the server refuses user and password");
    // A server with another nonce each time.
    let mut other = Play::new(None, camera());
    for nonce in ["a", "b", "c"] {
        other.exchange("OPTIONS", &challenge(nonce));
    }
    assert_eq!(other.error(), "the server refuses user and password");
    let mut unknown = Play::new(None, camera());
    unknown.exchange("OPTIONS", &reply(401, "WWW-Authenticate: Bearer", ""));
    assert!(unknown.error().contains("not known"));
}

#[test]
fn another_server_is_not_told_the_password() {
    let mut play = Play::new(None, camera());
    play.exchange("OPTIONS", &reply(401, "WWW-Authenticate: Basic realm=\"c\"", ""));
    play.exchange("Authorization: Basic", &reply(200, "", ""));
    play.exchange("DESCRIBE", &reply(302, "Location: rtsp://other/live", ""));
    let request =
        play.exchange("OPTIONS rtsp://other/live ", &reply(401, "WWW-Authenticate: Basic realm=\"c\"", ""));
    assert!(!request.contains("Authorization"));
    assert!(play.error().contains("wants a user and a password"));
    assert!(!format!("{:?}", play.session).contains("secret"));
}

#[test]
fn the_server_may_ask_too_and_may_end_the_stream() {
    let mut play = Play::new(Some(Lower::Tcp), None);
    play.play(SDP);
    for (method, status) in [("OPTIONS", 200), ("GET_PARAMETER", 200), ("ANNOUNCE", 200), ("RECORD", 501)] {
        let request = format!("{method} rtsp://cam/ RTSP/1.0\r\nCSeq: 99\r\n\r\n");
        play.session.handle_bytes(request.as_bytes(), play.now, UTC);
        let answer = play.next_request().unwrap();
        assert!(
            answer.starts_with(&format!("RTSP/1.0 {status} ")) && answer.contains("CSeq: 99\r\n"),
            "{answer}"
        );
    }
    assert!(play.gives_a_unit(0));
    let notice = b"ANNOUNCE rtsp://cam/ RTSP/1.0\r\nCSeq: 100\r\nNotice: 2101 End-of-Stream Reached\r\n\r\n";
    play.session.handle_bytes(notice, play.now, UTC);
    assert_eq!(play.error(), "the server has ended the stream");
    let mut moved = Play::new(Some(Lower::Tcp), None);
    moved.play(SDP);
    let redirect = b"REDIRECT rtsp://cam/ RTSP/1.0\r\nCSeq: 5\r\nLocation: rtsp://cam:8554/b\r\n\r\n";
    moved.session.handle_bytes(redirect, moved.now, UTC);
    assert!(moved.next_request().unwrap().starts_with("RTSP/1.0 200"));
    assert!(moved.next_request().unwrap().starts_with("TEARDOWN"));
    moved.exchange("OPTIONS rtsp://cam:8554/b ", &reply(200, "", ""));
}

#[test]
fn a_goodbye_is_meant_where_no_packet_follows() {
    let mut play = Play::new(Some(Lower::Tcp), None);
    play.play(SDP);
    let mut goodbye = Vec::new();
    rtcp::write_goodbye(40, &mut goodbye);
    let goodbye = write_interleaved(1, &goodbye).unwrap();
    for _ in 0..3 {
        assert!(play.gives_a_unit(0));
        play.session.handle_bytes(&goodbye, play.now, UTC);
        play.pass(Duration::from_millis(500));
    }
    play.pass(Duration::from_millis(600));
    assert_eq!(play.error(), "the server has ended the stream");
}

#[test]
fn nothing_is_waited_for_without_end() {
    let settings = Play::new(None, None).session.settings;
    let mut unconnected = ClientSession::new(settings, Time::ZERO);
    assert_eq!(unconnected.poll_timeout(), Time::from_millis(10_000));
    unconnected.handle_timeout(Time::from_millis(10_000));
    assert!(matches!(unconnected.phase(), Phase::Over(ClientError::NoAnswer { method: "CONNECT", .. })));
    let mut play = Play::new(None, None);
    play.next_request();
    play.pass(Duration::from_secs(11));
    assert_eq!(play.error(), "no answer to OPTIONS within 10 s");
    assert_eq!(play.session.poll_output(), Some(Output::Close));
    assert_eq!(play.session.poll_timeout(), Time::NEVER);
    // What is over stays over.
    play.session.handle_bytes(b"RTSP/1.0 200 OK\r\n\r\n", play.now, UTC);
    play.session.handle_ports(0, (1, 2), play.now);
    play.session.handle_no_ports(play.now);
    assert_eq!(play.session.poll_output(), None);
}

#[test]
fn where_there_are_no_ports_packets_come_on_the_connection() {
    let mut play = Play::new(None, None);
    play.exchange("OPTIONS", &reply(200, "", ""));
    play.exchange("DESCRIBE", &reply(200, "", SDP));
    assert_eq!(play.session.poll_output(), Some(Output::OpenPorts { track: 0 }));
    play.session.handle_no_ports(play.now);
    play.play(SDP);
    assert_eq!(play.session.lower(), Lower::Tcp);
}

proptest! {
    #[test]
    fn no_server_breaks_it(
        pieces in prop::collection::vec((prop::sample::select(vec![
            "RTSP/1.0 200 OK\r\n", "RTSP/1.0 401 No\r\n", "RTSP/1.0 302 Moved\r\n", "RTSP/1.0 461 No\r\n", "\r\n", "CSeq: 1\r\n",
            "Session: 7;timeout=0\r\n", "Transport: RTP/AVP/TCP;interleaved=0-1\r\n", "Location: rtsp://cam/b\r\n",
            "WWW-Authenticate: Digest realm=a, nonce=b\r\n", "Content-Length: 79\r\n", SDP, "$\0\0\u{1}a", "ANNOUNCE rtsp://x RTSP/1.0\r\n",
            "TEARDOWN * RTSP/1.0\r\n", "$\u{1}\0\u{4}\u{20}a", "Public: PLAY\r\n", "Notice: 2101\r\n",
        ]), 0u64..4000), 0..60),
    ) {
        let mut play = Play::new(None, camera());
        for (piece, millis) in pieces {
            let mut sent = 0;
            while play.next_request().is_some() {
                sent += 1;
                prop_assert!(sent < 100, "it sends without end");
            }
            play.session.handle_bytes(piece.as_bytes(), play.now, UTC);
            play.pass(Duration::from_millis(millis));
        }
    }
}
