//! What a hostile peer takes of the machine's memory.

use crate::{alone, resident};
use glassline_media::Time;
use glassline_transport::link::fuzzing::Linked;
use glassline_transport::link::wire::frame::{Data, Frame, Parity};
use glassline_transport::link::{Credentials, Options, Path, Settings};

/// A channel's window, and the budget of all.
const WINDOW: u64 = 4 << 20;
const BUDGET: u64 = 16 << 20;

/// Has the frames that `make` gives come, one a packet, until the link ends or there are no more; what memory they took,
/// and how many bytes they were.
fn attack(options: Options, mut make: impl FnMut(u64, &mut Vec<u8>) -> bool) -> (u64, u64) {
    let path = Path { remote: ([192, 0, 2, 1], 7000).into(), via: 0 };
    let settings =
        Settings { window_bytes: WINDOW, link_bytes: BUDGET, ..Settings::new(Credentials::Insecure) };
    let before = resident();
    let mut victim = Linked::new(settings, Time::ZERO, path);
    let mut frames = Vec::new();
    for channel in 0..64 {
        Frame::Open { channel, options: options.on_the_wire() }.write(&mut frames);
    }
    let (mut number, mut bytes, mut most) = (0, 0, 0);
    while victim.link().handle_unsealed(Time::from_millis(1), path, &frames) {
        frames.clear();
        if !make(number, &mut frames) {
            break;
        }
        (number, bytes) = (number + 1, bytes + frames.len() as u64);
        if number.is_multiple_of(1000) {
            most = most.max(resident());
        }
    }
    (most.max(resident()).saturating_sub(before), bytes)
}

#[test]
fn a_hostile_peer_takes_what_it_sent_and_no_more_than_the_budget() {
    let _alone = alone();
    let part = |channel, message, total, offset, bytes: &[u8], out: &mut Vec<u8>| {
        Frame::Data(Data { channel, message, total, offset, bytes }).write(out);
    };
    let reliable = Options { max_size: 1 << 20, ..Options::default() };
    let unreliable = Options { reliable: false, ..reliable };
    // Pages of the allocator's own, and what it does not give back.
    let slack = 12 << 20;
    // What is counted is what was asked for; the allocator rounds up.
    let most = BUDGET + BUDGET / 2 + slack;
    let large = 16 << 20;
    for options in [reliable, unreliable] {
        // Large messages announced, a byte of each sent: 25 packets.
        let (took, bytes) = attack(Options { max_size: large, ..options }, |number, out| {
            for frame in 0..70 {
                let at = number * 70 + frame;
                part((at % 64) as u8, at / 64, large, large - 1 - frame as u32, b"x", out);
            }
            number < 25
        });
        println!("announced: {took} bytes for {bytes}");
        assert!(took < slack, "{took} bytes for {bytes}");
        // Of each byte the next but one, so that none touches another.
        let (took, bytes) = attack(options, |number, out| {
            for frame in 0..80 {
                let at = number * 80 + frame;
                part((at % 64) as u8, 0, 1 << 20, (at / 64 * 2) as u32 + 1, b"x", out);
            }
            number < 10_000
        });
        println!("scattered: {took} bytes for {bytes}");
        assert!(took < most, "{took} bytes for {bytes}");
        // Messages without bytes that nobody takes.
        let (took, bytes) = attack(options, |number, out| {
            for message in 0..100 {
                part((number % 64) as u8, number / 64 * 100 + message, 0, 0, b"", out);
            }
            number < 10_000
        });
        println!("empty: {took} bytes for {bytes}");
        assert!(took < most, "{took} bytes for {bytes}");
        // Every second message given up.
        let (took, bytes) = attack(options, |number, out| {
            for message in 0..100 {
                let message = number / 64 * 200 + 2 * message + 1;
                Frame::Cancel { channel: (number % 64) as u8, message }.write(out);
            }
            number < 10_000
        });
        println!("cancelled: {took} bytes for {bytes}");
        assert!(took < most, "{took} bytes for {bytes}");
    }
    // Parity of messages of which nothing else comes.
    let (took, bytes) = attack(unreliable, |number, out| {
        let (channel, message, index) = ((number % 64) as u8, number / 64 / 300, (number / 64 % 300) as u32);
        let parity =
            Parity { channel, message, packed: false, total: 1 << 20, count: 300, index, bytes: &[1; 1000] };
        Frame::Parity(parity).write(out);
        number < 50_000
    });
    println!("parity: {took} bytes for {bytes}");
    assert!(took < most, "{took} bytes for {bytes}");
}
