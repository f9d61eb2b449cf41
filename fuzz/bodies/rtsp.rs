//! A hostile server of RTSP, or from 128 on in the first byte a hostile client. The first byte chooses how packets are asked for, or
//! what the client is answered; the others are a row of pieces, each behind a byte of time and one of length. A piece of an even time comes on the connection, one of an odd time in a datagram.

use bytes::Bytes;
use glassline_media::{AccessUnit, Codec, Stamps, Ticks, Time, Utc};
use glassline_transport::rtp;
use glassline_transport::rtp::session::offer::OfferedTrack;
use glassline_transport::rtsp::auth::Credentials;
use glassline_transport::rtsp::client::{ClientSession, ClientSettings, Output, Phase};
use glassline_transport::rtsp::server::{self, Role, ServerSession};
use glassline_transport::rtsp::transport::Lower;
use glassline_transport::rtsp::uri::Uri;
use std::time::Duration;

const UTC: Utc = Utc::from_nanos(1_700_000_000_000_000_000);
/// What no request but an answer to Basic may show.
const PASSWORD: &str = "s3cr3t";

/// Plays the session against the pieces. Only panics, endless loops, broken bounds and a shown password fail.
pub fn run(data: &[u8]) {
    let [choice, data @ ..] = data else { return };
    if *choice >= 128 {
        return run_server(*choice, data);
    }
    let settings = ClientSettings {
        server: Uri::parse("rtsp://192.0.2.7:8554/live").expect("a good address"),
        credentials: Some(Credentials::new("user", PASSWORD)),
        lower: [None, Some(Lower::Tcp), Some(Lower::Udp)][usize::from(*choice) % 3],
        silence_timeout: Duration::from_secs(5),
        reorder: rtp::Settings { window: Duration::from_millis(50), packets: 16 },
        random: u64::from(*choice),
    };
    let mut now = Time::from_millis(1000);
    let mut session = ClientSession::new(settings, now);
    let mut rest = data;
    serve(&mut session, now, choice % 2 == 0);
    while let [time, length, tail @ ..] = rest {
        let (piece, tail) = tail.split_at(usize::from(*length).min(tail.len()));
        rest = tail;
        now += Duration::from_millis(u64::from(*time) * 8);
        session.handle_timeout(now);
        if time % 2 == 0 {
            session.handle_bytes(piece, now, UTC);
        } else {
            let from = format!("192.0.2.{}:6000", 7 + time / 128).parse().expect("an address");
            session.handle_datagram(usize::from(time / 2 % 3), piece, from, now, UTC);
        }
        serve(&mut session, now, choice % 2 == 0);
        session.handle_timeout(now);
        serve(&mut session, now, choice % 2 == 0);
        assert!(session.poll_timeout() > now, "a deadline that has passed is answered");
        if let Phase::Over(error) = session.phase() {
            assert!(!error.to_string().contains(PASSWORD));
        }
        assert!(session.tracks().len() <= 2);
    }
}

/// Does what the session asks for.
fn serve(session: &mut ClientSession, now: Time, has_ports: bool) {
    let mut done = 0;
    while let Some(output) = session.poll_output() {
        done += 1;
        assert!(done < 1000, "it asks without end");
        match output {
            Output::Connect(_) => session.handle_connected("192.0.2.7".parse().expect("an address"), now),
            Output::OpenPorts { track } if has_ports => session.handle_ports(track, (5000, 5001), now),
            Output::OpenPorts { .. } => session.handle_no_ports(now),
            Output::Send(bytes) => assert!(!String::from_utf8_lossy(&bytes).contains(PASSWORD)),
            Output::Datagram { .. } | Output::Close => {}
        }
    }
    while session.poll_unit().is_some() {}
}

/// A unit of pictures that says what a receiver has to know.
fn unit() -> AccessUnit {
    let data =
        Bytes::from_static(&[0, 0, 0, 1, 0x67, 0x42, 0, 0x1f, 0, 0, 1, 0x68, 0xce, 0, 0, 1, 0x65, 0x88]);
    let stamps = Stamps::default();
    AccessUnit { codec: Codec::H264, data, pts: Ticks(0), dts: Ticks(0), random_access: true, stamps }
}

/// Serves the client that the pieces are.
fn run_server(choice: u8, data: &[u8]) {
    let mut now = Time::from_millis(1000);
    let reorder = rtp::Settings { window: Duration::from_millis(50), packets: 16 };
    let mut session = ServerSession::new(u64::from(choice), reorder, now);
    let mut rest = data;
    while let [time, length, tail @ ..] = rest {
        let (piece, tail) = tail.split_at(usize::from(*length).min(tail.len()));
        rest = tail;
        now += Duration::from_millis(u64::from(*time) * 8);
        if time % 2 == 0 {
            session.handle_bytes(piece, now, UTC);
        } else {
            let from = "192.0.2.7:6000".parse().expect("an address");
            session.handle_datagram(usize::from(time / 2 % 3), piece, from, now, UTC);
        }
        let mut done = 0;
        while let Some(output) = session.poll_output() {
            done += 1;
            assert!(done < 1000, "it asks without end");
            match output {
                server::Output::Enter { .. } if choice.is_multiple_of(4) => {
                    session.refuse(401, "no", now, UTC);
                }
                server::Output::Enter { role: Role::Publish, .. } => session.admit(now, UTC),
                server::Output::Enter { .. } => {
                    let offered = OfferedTrack::of(&unit(), 0).expect("it has parameter sets");
                    session.describe("hall", vec![offered], now, UTC);
                }
                server::Output::OpenPorts { .. } if choice % 4 == 1 => session.handle_no_ports(now, UTC),
                server::Output::OpenPorts { .. } => session.handle_ports((6000, 6001), now, UTC),
                server::Output::Send(_)
                | server::Output::Begin(_)
                | server::Output::Halt
                | server::Output::Datagram { .. } => {}
            }
        }
        if session.has_more() {
            session.resume(now, UTC);
        }
        let _ = (session.shown(), session.proves("hall", "key"));
        session.send_unit(0, &unit(), UTC, now);
        while session.poll_unit().is_some() {}
        session.handle_timeout(now);
        assert!(session.poll_timeout() > now, "a deadline that has passed is answered");
        assert!(session.tracks().len() <= 2);
    }
}
