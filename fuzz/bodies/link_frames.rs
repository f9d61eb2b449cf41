//! A link after decryption: frames of a peer that holds the keys and keeps no rule.

use glassline_media::{Time, Utc};
use glassline_transport::link::fuzzing::Linked;
use glassline_transport::link::wire::frame::Frame;
use glassline_transport::link::wire::varint::Reader;
use glassline_transport::link::{Credentials, Options, Path, Settings};
use std::time::Duration;

/// Takes the bytes: packets, each behind the milliseconds since the one before and the length of its frames. Only panics,
/// endless loops and broken bounds fail.
pub fn run(data: &[u8]) {
    let path = Path { remote: ([192, 0, 2, 1], 7000).into(), via: 0 };
    let settings = Settings { listen: true, ..Settings::new(Credentials::Insecure) };
    let budget = settings.link_bytes;
    let mut far = Linked::new(settings, Time::ZERO, path);
    let (mut now, mut out) = (Time::from_millis(20), Vec::new());
    for channel in 0..3u8 {
        let options = Options { reliable: channel != 1, ordered: channel != 2, ..Options::default() };
        let _ = far.link().open(channel, Options { stamped: channel == 2, ..options });
        let _ = far.link().send_stamped(now, channel, vec![channel; 2000], Utc::from_micros(1));
    }
    let mut rest = data;
    while let [millis, length, tail @ ..] = rest {
        let (frames, tail) = tail.split_at(usize::from(*length).min(tail.len()));
        rest = tail;
        check(frames);
        now += Duration::from_millis(u64::from(*millis));
        far.link().handle_unsealed(now, path, frames);
        while far.poll_transmit(now, &mut out).is_some() {}
        let link = far.link();
        for channel in 0..4 {
            let received = link.receive_message(channel);
            assert!(received.and_then(|it| it.stamp).is_none_or(|stamp| stamp > Utc::default()));
        }
        assert!(link.held_bytes().1 <= budget);
        // As an engine does it: what is due, then what that and the application have given to send.
        far.handle_timeout(now);
        while far.poll_transmit(now, &mut out).is_some() {}
        if far.link().is_over() {
            return;
        }
        assert!(far.poll_timeout().is_none_or(|due| due > now), "a deadline that has passed is answered");
    }
}

fn check(frames: &[u8]) {
    let mut reader = Reader::new(frames);
    while !reader.is_empty() {
        let Some(frame) = Frame::parse(&mut reader) else { break };
        if let Frame::Ack(ack) = frame {
            assert!(ack.ranges().count() <= 32);
        }
    }
}
