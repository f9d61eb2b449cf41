//! A hostile server of RTSP. The first byte chooses how packets are asked for; the others are a row of pieces, each behind a byte of
//! time and one of length. A piece of an even time comes on the connection, one of an odd time in a datagram.

use glassline_media::{Time, Utc};
use glassline_transport::rtp;
use glassline_transport::rtsp::auth::Credentials;
use glassline_transport::rtsp::client::{ClientSession, ClientSettings, Output, Phase};
use glassline_transport::rtsp::transport::Lower;
use glassline_transport::rtsp::uri::Uri;
use std::time::Duration;

const UTC: Utc = Utc::from_nanos(1_700_000_000_000_000_000);
/// What no request but an answer to Basic may show.
const PASSWORD: &str = "s3cr3t";

/// Plays the session against the pieces. Only panics, endless loops, broken bounds and a shown password fail.
pub fn run(data: &[u8]) {
    let [choice, data @ ..] = data else { return };
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
