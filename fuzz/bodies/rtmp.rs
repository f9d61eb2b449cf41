//! A client of RTMP that means harm: the first byte says how its bytes are chopped, the second whether it may publish and whether the
//! handshake is a proper one.

use glassline_media::Time;
use glassline_media::container::flv::demux::Tags;
use glassline_transport::rtmp::handshake::{PACKET_BYTES, RANDOM_BYTES};
use glassline_transport::rtmp::{Event, Refusal, ServerSession};

/// Answers to what a client sends: a ping of 14 bytes is answered by one of 18, and each of few commands by some hundred.
const GROWTH: usize = 64;
/// The answer to the handshake and to `connect`.
const ANSWER: usize = 8192;

/// Panics where a promise is broken.
pub fn run(data: &[u8]) {
    let Some((&[chop, how], bytes)) = data.split_first_chunk::<2>() else { return };
    let wire = if how & 2 == 0 { [&hello()[..], bytes].concat() } else { bytes.to_vec() };
    let whole = serve(&wire, wire.len().max(1), how & 1 == 0);
    let chopped = serve(&wire, 1 + usize::from(chop), how & 1 == 0);
    assert_eq!(chopped, whole, "any chop gives the same");
}

fn hello() -> Vec<u8> {
    [&[3][..], &[0; 8], &[1; PACKET_BYTES - 8], &[2; PACKET_BYTES]].concat()
}

fn serve(wire: &[u8], chop: usize, accepts: bool) -> (Vec<Event>, bool) {
    let mut session = ServerSession::new([7; RANDOM_BYTES], Time::ZERO);
    let (mut events, mut tags, mut sent, mut fails) = (Vec::new(), Tags::new(), 0, false);
    'all: for mut part in wire.chunks(chop) {
        loop {
            match session.push(&mut part) {
                Ok(Some(event)) => {
                    match &event {
                        Event::Publish(_) if accepts => session.accept(),
                        Event::Publish(_) => session.refuse(Refusal::BadName, "taken"),
                        Event::Media(media) => {
                            tags.push(media.is_video, media.time, &media.payload);
                            while tags.poll().is_some() {}
                        }
                        Event::Metadata(_) | Event::Unpublish => {}
                    }
                    events.push(event);
                }
                Ok(None) => {
                    assert!(part.is_empty(), "all bytes are taken");
                    break;
                }
                Err(_) => {
                    fails = true;
                    break 'all;
                }
            }
        }
        sent += session.take_output().len();
        assert!(session.held_bytes() <= wire.len(), "memory grows with the bytes that come");
    }
    sent += session.take_output().len();
    assert!(sent <= ANSWER + GROWTH * wire.len(), "answers are few");
    (events, fails)
}
