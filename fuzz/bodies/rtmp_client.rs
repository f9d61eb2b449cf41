//! A server of RTMP that means harm to a client that publishes: the first byte says how its bytes are chopped, the second how far the
//! conversation has come before them: 0 to 2 a handshake, an answer to connect, to createStream; 3 all of them; 4 nothing.

use glassline_media::Time;
use glassline_transport::rtmp::handshake::{PACKET_BYTES, RANDOM_BYTES};
use glassline_transport::rtmp::{Address, ClientEvent, ClientSession};

/// Answers to what a server sends: a ping of 14 bytes is answered by one of 18, a window by another of 16.
const GROWTH: usize = 64;
/// The handshake, connect and what follows it.
const REQUESTS: usize = 8192;

/// Panics where a promise is broken.
pub fn run(data: &[u8]) {
    let Some((&[chop, how], bytes)) = data.split_first_chunk::<2>() else { return };
    let wire = [&before(how % 5)[..], bytes].concat();
    let whole = talk(&wire, wire.len().max(1));
    let chopped = talk(&wire, 1 + usize::from(chop));
    assert_eq!(chopped, whole, "any chop gives the same");
}

/// A command in one chunk.
fn command(payload: &[u8]) -> Vec<u8> {
    [&[3, 0, 0, 0, 0, 0, payload.len() as u8, 20, 0, 0, 0, 0][..], payload].concat()
}

fn before(how: u8) -> Vec<u8> {
    let number = |number: f64| [&[0][..], &number.to_be_bytes()].concat();
    let result = |transaction: f64, rest: &[u8]| {
        command(&[b"\x02\0\x07_result", &number(transaction)[..], b"\x05", rest].concat())
    };
    let start = command(
        &[
            b"\x02\0\x08onStatus",
            &number(0.0)[..],
            b"\x05\x03\0\x04code\x02\0\x17NetStream.Publish.Start\0\0\x09",
        ]
        .concat(),
    );
    let steps = [vec![3; 1 + 2 * PACKET_BYTES], result(1.0, b"\x05"), result(4.0, &number(1.0)), start];
    if how == 4 { Vec::new() } else { steps[..=usize::from(how)].concat() }
}

fn talk(wire: &[u8], chop: usize) -> (Vec<ClientEvent>, String) {
    let address = Address::parse("rtmp://host/live/SECRET").expect("an address");
    let mut session = ClientSession::new(address.clone(), &[7; RANDOM_BYTES], Time::ZERO);
    let (mut events, mut sent, mut error) = (Vec::new(), 0, String::new());
    'all: for mut part in wire.chunks(chop) {
        loop {
            match session.push(&mut part, Time::ZERO) {
                Ok(Some(event)) => {
                    if let ClientEvent::Redirected(to) = &event {
                        let _ = address.redirected(to);
                    }
                    events.push(event);
                }
                Ok(None) => {
                    assert!(part.is_empty(), "all bytes are taken");
                    break;
                }
                Err(wrong) => {
                    error = wrong.to_string();
                    break 'all;
                }
            }
        }
        sent += session.take_output().len();
    }
    sent += session.take_output().len();
    assert!(sent <= REQUESTS + GROWTH * wire.len(), "answers are few");
    assert!(!error.contains("SECRET"), "the stream key is not repeated: {error}");
    (events, error)
}
