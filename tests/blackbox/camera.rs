//! Cameras as sources: over UDP, over the connection, with credentials and with habits.

use crate::hot::upgrade;
use crate::pull::{HASTE, source, until_live, watch};
use crate::serve_with;
use glassline_media::bitstream::{self, h264};
use glassline_media::container::ts::{Demuxer, Event};
use glassline_media::{AccessUnit, Codec};
use glassline_test_support::http::{get, read_once};
use glassline_test_support::program::{Scratch, Server};
use glassline_test_support::wait::until;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What a camera does.
#[derive(Clone, Copy, Default)]
pub(super) struct Habits {
    /// `user:password` in Base64, asked for by Basic.
    pub(super) basic: Option<&'static str>,
    /// SETUP of datagrams is answered with 461.
    pub(super) refuses_datagrams: bool,
    /// SETUP of datagrams is answered well, and none comes.
    pub(super) is_behind_firewall: bool,
    /// Every so many pictures one packet is left out.
    pub(super) loses: Option<u32>,
    /// On the connection, every so many pictures it writes the first half of a packet alone.
    pub(super) garbles: Option<u32>,
    /// It reports its wall clock, which says that it is so many seconds later than it is.
    pub(super) clock_ahead_s: Option<i64>,
}

/// A camera made without any code of the product: H.264 of a picture each 10 ms, each with its number in it, and a description of sound
/// that is not carried (G.722).
pub(super) struct Camera {
    pub(super) address: String,
    requests: Arc<Mutex<Vec<String>>>,
    habits: Habits,
    pub(super) is_silent: AtomicBool,
}

const SDP: &str = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=cam\r\nc=IN IP4 0.0.0.0\r\na=control:*\r\nm=video 0 RTP/AVP 96\r\n\
    a=rtpmap:96 H264/90000\r\na=fmtp:96 packetization-mode=1;sprop-parameter-sets=Z0LAHtkDxWhAAAADAEAAAAwDxYuS,aMuMsg==\r\n\
    a=control:trackID=1\r\na=recvonly\r\nm=audio 0 RTP/AVP 9\r\na=control:trackID=2\r\n";

impl Camera {
    pub(super) fn start(habits: Habits) -> Arc<Camera> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let camera = Arc::new(Camera {
            address: listener.local_addr().unwrap().to_string(),
            requests: Arc::default(),
            habits,
            is_silent: AtomicBool::new(false),
        });
        let own = Arc::clone(&camera);
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let (connection, own) = (connection.unwrap(), Arc::clone(&own));
                std::thread::spawn(move || drop(own.serve(connection)));
            }
        });
        camera
    }

    pub(super) fn requests(&self, method: &str) -> usize {
        self.requests.lock().unwrap().iter().filter(|request| request.starts_with(method)).count()
    }

    fn serve(&self, mut connection: TcpStream) -> std::io::Result<()> {
        let mut to = None;
        loop {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                connection.read_exact(&mut byte)?;
                // Reports of the receiver come between requests.
                if head.is_empty() && byte == *b"$" {
                    let mut rest = [0; 3];
                    connection.read_exact(&mut rest)?;
                    let mut report = vec![0; usize::from(u16::from_be_bytes([rest[1], rest[2]]))];
                    connection.read_exact(&mut report)?;
                    continue;
                }
                head.push(byte[0]);
            }
            let head = String::from_utf8(head).unwrap();
            self.requests.lock().unwrap().push(head.clone());
            let header =
                |name: &str| head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            let number = header("CSeq").unwrap();
            let basic = self.habits.basic.map(|basic| format!("Basic {basic}"));
            if basic.is_some() && header("Authorization") != basic.as_deref() {
                write!(
                    connection,
                    "RTSP/1.0 401 No\r\nCSeq: {number}\r\nWWW-Authenticate: Basic realm=\"c\"\r\n\r\n"
                )?;
                continue;
            }
            let mut answer = "RTSP/1.0 200 OK".to_owned();
            let mut more = String::new();
            match head.split(' ').next().unwrap() {
                "OPTIONS" => more = "Public: DESCRIBE, SETUP, PLAY, GET_PARAMETER, TEARDOWN\r\n".into(),
                "DESCRIBE" => {
                    more = format!("Content-Type: application/sdp\r\nContent-Length: {}\r\n", SDP.len());
                }
                "SETUP" => {
                    let transport = header("Transport").unwrap();
                    let port = transport
                        .split_once("client_port=")
                        .map(|(_, ports)| ports.split('-').next().unwrap());
                    match port {
                        Some(_) if self.habits.refuses_datagrams => answer = "RTSP/1.0 461 No".into(),
                        Some(port) => {
                            to = Some(format!("127.0.0.1:{port}"));
                            more = format!(
                                "Session: 7;timeout=60\r\nTransport: {transport};server_port=1-2\r\n"
                            );
                        }
                        None => more = format!("Session: 7\r\nTransport: {transport}\r\n"),
                    }
                }
                _ => {}
            }
            let body = if head.starts_with("DESCRIBE") { SDP } else { "" };
            write!(connection, "{answer}\r\nCSeq: {number}\r\n{more}\r\n{body}")?;
            if head.starts_with("TEARDOWN") {
                return Ok(());
            }
            if head.starts_with("PLAY") {
                return self.play(connection, to);
            }
        }
    }

    /// Sends pictures until the other side has gone.
    fn play(&self, mut connection: TcpStream, to: Option<String>) -> std::io::Result<()> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        connection.set_nonblocking(true)?;
        let mut sequence = 0u16;
        for number in 0u32.. {
            let mut said = [0; 4096];
            match connection.read(&mut said) {
                Ok(0) => return Ok(()),
                Ok(count) => {
                    let text = String::from_utf8_lossy(&said[..count]).into_owned();
                    let is_over = text.contains("TEARDOWN");
                    self.requests
                        .lock()
                        .unwrap()
                        .push(text.split_once("TEARDOWN").map_or(text.clone(), |_| "TEARDOWN".into()));
                    if is_over {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if let (Some(ahead), None, 0) = (self.habits.clock_ahead_s, &to, number % 10) {
                let report = report(ahead, number * 900);
                connection.set_nonblocking(false)?;
                connection.write_all(&[&[b'$', 1, 0, report.len() as u8][..], &report].concat())?;
                connection.set_nonblocking(true)?;
            }
            let is_key = number.is_multiple_of(25);
            // Three fragments: the number stands in the last one.
            let first = if is_key { [0x7c, 0x85, 0x88] } else { [0x5c, 0x81, 0x9a] };
            let pieces = [
                first.to_vec(),
                [first[0], first[1] & 0x1f].into_iter().chain([7; 900]).collect(),
                [&[first[0], first[1] & 0x1f | 0x40][..], format!("picture {number:06}.").as_bytes()]
                    .concat(),
            ];
            for (place, piece) in pieces.iter().enumerate() {
                let mut packet = vec![0x80, if place == 2 { 0xE0 } else { 96 }];
                packet.extend(sequence.to_be_bytes());
                packet.extend((number * 900).to_be_bytes());
                packet.extend([0, 0, 0, 9]);
                packet.extend(piece);
                sequence = sequence.wrapping_add(1);
                let is_lost = self.habits.loses.is_some_and(|each| number % each == each - 1 && place == 1);
                if is_lost || self.is_silent.load(Ordering::SeqCst) {
                    continue;
                }
                match &to {
                    None => {
                        let length = (packet.len() as u16).to_be_bytes();
                        connection.set_nonblocking(false)?;
                        let framed = [&[b'$', 0][..], &length, &packet].concat();
                        let is_cut = self.habits.garbles.is_some_and(|each| number % each == each - 1);
                        let written = if is_cut && place == 1 { framed.len() / 2 } else { framed.len() };
                        connection.write_all(&framed[..written])?;
                        connection.set_nonblocking(true)?;
                    }
                    Some(_) if self.habits.is_behind_firewall => {}
                    Some(to) => drop(socket.send_to(&packet, to)),
                }
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

/// A sender report: a picture of this time stamp is being captured now, by a clock that is so much ahead.
fn report(ahead_s: i64, timestamp: u32) -> Vec<u8> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seconds = (now.as_secs() as i64 + 2_208_988_800 + ahead_s) as u32;
    let fraction = (u64::from(now.subsec_nanos()) << 32) / 1_000_000_000;
    let words = [0x80C8_0006, 9, seconds, fraction as u32, timestamp, 0, 0];
    words.iter().flat_map(|word: &u32| word.to_be_bytes()).collect()
}

fn pulling(url: &str) -> (Server, Scratch) {
    serve_with(&format!("{HASTE}[stream.cam]\nsource = '{url}'\n"))
}

/// Numbers of pictures from a key frame on, each with whether it is one, read from the server's stream.
fn pictures(server: &Server, count: usize) -> BTreeMap<u32, bool> {
    let (mut viewer, mut demuxer, mut buffer) = (watch(server, "cam"), Demuxer::new(), [0; 8192]);
    let mut found = BTreeMap::new();
    while found.len() < count {
        let read = read_once(&mut viewer, &mut buffer).unwrap();
        assert!(read > 0, "it ended");
        demuxer.push(&buffer[..read]);
        let units = std::iter::from_fn(|| demuxer.poll()).filter_map(|event| match event {
            Event::AccessUnit { unit, .. } => Some(unit),
            _ => None,
        });
        for unit in units.collect::<Vec<AccessUnit>>() {
            let text = String::from_utf8_lossy(&unit.data).into_owned();
            let number = text.split_once("picture ").and_then(|(_, rest)| rest.get(..6)?.parse().ok());
            found.insert(number.expect("the picture's end is there"), unit.random_access);
            if unit.random_access {
                // What the description alone says.
                assert!(unit.data.windows(4).any(|bytes| bytes == [0, 0, 1, 0x67]), "no parameter sets");
            }
        }
    }
    found
}

#[test]
fn a_camera_is_played_over_udp_and_told_when_it_is_not_wanted_any_more() {
    let camera = Camera::start(Habits::default());
    let (server, scratch) = pulling(&format!("rtsp://{}/live", camera.address));
    until_live(&server, "cam");
    let found = pictures(&server, 60);
    let first = *found.keys().next().unwrap();
    assert!(found.keys().copied().eq(first..first + found.len() as u32), "all pictures, in order: {found:?}");
    assert!(found.iter().all(|(number, is_key)| *is_key == number.is_multiple_of(25)));
    let told = source(&server, "cam");
    assert_eq!(told["url"], format!("rtsp://{}/live", camera.address));
    assert_eq!((told["reconnects"].as_u64(), told["failures"].as_u64()), (Some(0), Some(0)), "{told}");
    assert!(told["rtp"]["received"].as_u64() > Some(100), "{told}");
    assert!(camera.requests.lock().unwrap().iter().any(|request| request.contains("client_port=")));
    // Its configuration is taken out.
    scratch.write("glassline.toml", HASTE);
    server.process.signal("HUP");
    until("the camera to be told", || camera.requests("TEARDOWN") == 1);
}

#[test]
fn packets_come_on_the_connection_where_datagrams_are_refused_or_do_not_come() {
    for habits in [
        Habits { refuses_datagrams: true, ..Habits::default() },
        Habits { is_behind_firewall: true, ..Habits::default() },
    ] {
        let camera = Camera::start(habits);
        // Longer than datagrams are waited for.
        let (server, _scratch) =
            serve_with(&format!("[stream.cam]\nsource = 'rtsp://{}/live'\n", camera.address));
        until_live(&server, "cam");
        let found = pictures(&server, 30);
        let first = *found.keys().next().unwrap();
        assert!(found.keys().copied().eq(first..first + found.len() as u32), "{found:?}");
        assert_eq!(source(&server, "cam")["failures"], 0);
        assert!(camera.requests.lock().unwrap().iter().any(|request| request.contains("interleaved=0-1")));
    }
}

#[test]
fn credentials_are_shown_to_the_camera_and_to_no_other() {
    // admin:s3cret/
    let camera = Camera::start(Habits { basic: Some("YWRtaW46czNjcmV0Lw=="), ..Habits::default() });
    let (server, _scratch) = pulling(&format!("rtsp://admin:s3cret%2F@{}/live?token=hush", camera.address));
    until_live(&server, "cam");
    pictures(&server, 5);
    let told = source(&server, "cam").to_string();
    assert!(told.contains("/live?…"), "{told}");
    let (wrong, _other) = pulling(&format!("rtsp://admin:wr0ng@{}/live", camera.address));
    until("the refusal", || source(&wrong, "cam")["error"].as_str().is_some());
    let refused = source(&wrong, "cam").to_string();
    assert!(refused.contains("the server refuses user and password"), "{refused}");
    for (server, told) in [(&server, told), (&wrong, refused)] {
        let all = told + &server.process.output() + &get(server.address(), "/metrics").text();
        for secret in ["s3cret", "wr0ng", "hush", "YWRtaW4"] {
            assert!(!all.contains(secret), "{secret} is shown: {all}");
        }
    }
}

#[test]
fn what_is_lost_costs_its_pictures_alone_and_is_counted() {
    let camera = Camera::start(Habits { loses: Some(10), ..Habits::default() });
    let (server, _scratch) = pulling(&format!("rtsp://{}/live", camera.address));
    until_live(&server, "cam");
    let found = pictures(&server, 50);
    let (first, last) = (*found.keys().next().unwrap(), *found.keys().last().unwrap());
    let expected: Vec<u32> = (first..=last).filter(|number| number % 10 != 9).collect();
    assert!(found.keys().copied().eq(expected), "{found:?}");
    let rtp = source(&server, "cam")["rtp"].clone();
    let damaged = rtp["damaged_units"].as_u64();
    assert!(damaged >= Some(4) && rtp["lost"].as_u64() >= damaged, "{rtp}");
    assert!(server.metrics().sum("glassline_stream_source_damaged_units_total", "cam") >= 4.0);
}

#[test]
fn a_camera_that_falls_silent_is_asked_again() {
    let camera = Camera::start(Habits::default());
    let (server, _scratch) = pulling(&format!("rtsp://{}/live", camera.address));
    until_live(&server, "cam");
    camera.is_silent.store(true, Ordering::SeqCst);
    until("the silence to be told", || source(&server, "cam")["failures"].as_u64() >= Some(1));
    assert_eq!(source(&server, "cam")["error"], "no packet within 2 s");
    camera.is_silent.store(false, Ordering::SeqCst);
    until_live(&server, "cam");
    assert!(source(&server, "cam")["reconnects"].as_u64() >= Some(1));
    pictures(&server, 5);
}

#[test]
fn the_next_program_asks_the_camera_anew() {
    let camera = Camera::start(Habits::default());
    let (mut server, scratch) = pulling(&format!("rtsp://{}/live", camera.address));
    until_live(&server, "cam");
    let plays = camera.requests("PLAY");
    upgrade(&mut server, &scratch.file("glassline.toml"));
    until("another session", || camera.requests("PLAY") > plays);
    until_live(&server, "cam");
    pictures(&server, 5);
}

#[test]
fn a_wall_clock_near_ours_is_the_pictures_capture_time_and_another_one_is_not() {
    for (clock_ahead_s, is_believed) in [(0, true), (-1_500_000_000, false), (30, false)] {
        let habits =
            Habits { refuses_datagrams: true, clock_ahead_s: Some(clock_ahead_s), ..Habits::default() };
        let camera = Camera::start(habits);
        let (server, _scratch) = pulling(&format!("rtsp://{}/live", camera.address));
        until_live(&server, "cam");
        let (mut viewer, mut demuxer, mut buffer) = (watch(&server, "cam"), Demuxer::new(), [0; 8192]);
        let (mut pictures, mut captured) = (0, Vec::new());
        // More than the reports are apart.
        while pictures < 40 {
            let read = read_once(&mut viewer, &mut buffer).unwrap();
            assert!(read > 0, "it ended");
            demuxer.push(&buffer[..read]);
            while let Some(event) = demuxer.poll() {
                let Event::AccessUnit { unit, .. } = event else { continue };
                pictures += 1;
                let nals = h264::nals(&unit.data);
                let said = nals.filter_map(|nal| bitstream::messages(Codec::H264, &nal)?.capture_utc());
                captured.extend(said.map(|utc| utc.as_nanos()));
            }
        }
        if is_believed {
            assert!(captured.len() >= 20, "{captured:?}");
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
            assert!(captured.iter().all(|at| now.abs_diff(*at) < 60_000_000_000), "{now} {captured:?}");
            // Ten milliseconds from picture to picture, where no report lies between.
            let steps = captured
                .windows(2)
                .filter(|pair| pair[1].wrapping_sub(pair[0]).abs_diff(10_000_000) < 100_000);
            assert!(steps.count() >= captured.len() / 2, "{captured:?}");
        } else {
            assert!(captured.is_empty(), "{clock_ahead_s}: {captured:?}");
        }
    }
}
