//! What a server may answer to who pushes a stream to it, and when its socket takes what.
//!
//! Behind a first byte (0: for a file, otherwise live; half of it, up to 3, is the number of further servers) come steps. The
//! three highest bits of a step's byte choose what happens, the others are an amount: packets of a picture (0, and 1 for one with
//! which a viewer can join), bytes that the socket takes (2), so many bytes of the server's, which follow (3), tenths of a second
//! (4), the connection's end (5; 31: since the machine is silent), a connection that is refused (6), and the end of the stream (7).

use glassline_delivery::http1::Url;
use glassline_delivery::push::{Output, Policy, Pusher};
use glassline_media::Time;
use std::time::Duration;

const PACKET: usize = 188;
/// What may wait, beside a picture and the head of a request.
const PENDING_MAX: usize = 20_000;
const PICTURE_MAX: usize = 32 * (PACKET + 16);
/// A redirect may lead to a long path.
const HEAD_MAX: usize = 64 << 10;

/// Has a pusher answered. Panics where it sends what is no request and chunked body, begins anywhere but where a viewer can
/// join, holds too much, says its deadline has come for ever, or does anything once it is over.
pub fn run(data: &[u8]) {
    let Some((&kind, mut steps)) = data.split_first() else { return };
    let policy = if kind == 0 { Policy::FILE } else { Policy::LIVE };
    let policy = Policy { pending_max_bytes: PENDING_MAX, ..policy };
    let url: Url = "http://server.example:8080/live/a.ts".parse().expect("a URL");
    let further = vec![url.clone(); usize::from(kind / 2 % 4)];
    let policy = if further.is_empty() { policy } else { policy.of_several() };
    let mut now = Time::from_millis(1000);
    let mut pusher = Pusher::new(url, further, Some("a key"), policy, 1, now);
    // Whether it is the server that was given, and what it got.
    let mut connections: Vec<(bool, Vec<u8>)> = Vec::new();
    while let Some((&step, rest)) = steps.split_first() {
        steps = rest;
        let amount = usize::from(step & 31);
        let was_over = pusher.result().cloned();
        match step >> 5 {
            kind @ (0 | 1) => {
                let mark = if kind == 1 { b'K' } else { b'u' };
                let packet = [&[0x47, 1, 0, 0x10, mark][..], &[0; PACKET - 5]].concat();
                pusher.push(&packet.repeat(amount), kind == 1, true, now);
            }
            2 => {
                let count = (amount * 64).min(pusher.transmit().len());
                if let Some((_, sent)) = connections.last_mut() {
                    sent.extend_from_slice(&pusher.transmit()[..count]);
                }
                pusher.handle_sent(count, now);
            }
            3 => {
                let (bytes, behind) = steps.split_at(amount.min(steps.len()));
                steps = behind;
                pusher.handle_bytes(bytes, now);
            }
            4 => now += Duration::from_millis(100) * amount as u32,
            5 if amount == 31 => pusher.handle_silence(now),
            5 => pusher.handle_end((amount > 15).then(|| "reset".to_owned()), now),
            6 => pusher.handle_refused("refused".to_owned(), amount > 15, now),
            _ => pusher.finish(amount > 15, now),
        }
        let mut timeouts = 0;
        while let Some(due) = pusher.poll_timeout().filter(|due| *due <= now) {
            pusher.handle_timeout(now);
            timeouts += 1;
            assert!(timeouts < 10, "{due:?} is due for ever");
        }
        while let Some(output) = pusher.poll_output() {
            if let Output::Connect { host, port, tls } = output {
                assert!(!host.is_empty() && !tls, "nothing leads to TLS where it was not given");
                connections.push((host == "server.example" && port == 8080, Vec::new()));
                pusher.handle_connected(now);
            }
        }
        while pusher.poll_event().is_some() {}
        assert!(
            pusher.transmit().len() <= PENDING_MAX + PICTURE_MAX + HEAD_MAX,
            "{}",
            pusher.transmit().len()
        );
        if let Some(result) = was_over {
            assert_eq!(pusher.result(), Some(&result), "what is over stays so");
            assert!(pusher.poll_timeout().is_none() && !pusher.is_open());
        }
    }
    connections.iter().for_each(|(is_given, sent)| check(sent, *is_given));
}

/// What a connection carried, as far as it came: the key only where the server `is_given`.
fn check(sent: &[u8], is_given: bool) {
    let Some(head_end) = sent.windows(4).position(|four| four == b"\r\n\r\n") else {
        assert!(b"PUT /".starts_with(&sent[..sent.len().min(5)]));
        return;
    };
    let (head, mut rest) = sent.split_at(head_end + 4);
    assert!(head.starts_with(b"PUT /"));
    assert!(is_given || !head.windows(13).any(|words| words == b"Bearer a key\r"));
    let mut first = true;
    // Whole chunks (RFC 9112 §7.1).
    while let Some(line_end) = rest.windows(2).position(|two| two == b"\r\n") {
        let line = std::str::from_utf8(&rest[..line_end]).expect("a chunk's size");
        let size = usize::from_str_radix(line, 16).expect("a chunk's size");
        let Some(chunk) = rest[line_end + 2..].get(..size) else { return };
        if first && size > 0 {
            // A gap is announced by a packet without payload.
            let beginning = if chunk[3] & 0x30 == 0x20 { &chunk[PACKET..] } else { chunk };
            assert_eq!(beginning[4], b'K', "it begins where a viewer can join");
            first = false;
        }
        rest = &rest[line_end + 2 + size..];
        assert!(b"\r\n".starts_with(&rest[..rest.len().min(2)]), "a chunk's end");
        if rest.len() < 2 {
            return;
        }
        rest = &rest[2..];
        if size == 0 {
            assert!(rest.is_empty(), "nothing comes behind the last chunk");
            return;
        }
    }
}
