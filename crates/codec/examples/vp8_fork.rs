//! A stream that forks: one copy decodes every frame, another leaves some out and is put right by a saved state.
//!
//! `vp8_fork FILE.ivf`. What a sender does that codes against what its receiver is known to hold: keep states, name
//! them by their hash, go back to any of them.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "an example reads a file")]

use glassline_codec::vp8::{Limits, State, decode};
use glassline_media::container::ivf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("name an IVF file")?;
    let bytes = std::fs::read(&path)?;
    let (mut reader, mut rest) = (ivf::Reader::new(), &bytes[..]);
    let limits = Limits::default();
    // The sender's states, oldest first; each costs no more than the planes that it does not share.
    let mut known = vec![State::new()];
    let mut receiver = State::new();
    let mut number = 0;
    while let Some(frame) = reader.parse(&mut rest)? {
        let sender = known.last().ok_or("there is always one")?;
        let after = decode(sender, &frame.bytes, &limits)?.state;
        known.push(after.clone());
        if number % 5 == 3 {
            // This frame is lost on the way. The receiver says which state it still has; the sender finds it.
            let held = known.iter().rposition(|state| state.hash() == receiver.hash());
            println!("frame {number} is lost; the receiver holds state {held:?}");
            // Instead of a key frame, send what it lacks. Here all of it; an encoder would code against `held`.
            receiver = State::restore(&after.save(), &limits)?;
        } else {
            receiver = decode(&receiver, &frame.bytes, &limits)?.state;
        }
        assert_eq!(receiver, after);
        number += 1;
    }
    println!("{number} frames; both ends are at {}", receiver.hash());
    Ok(())
}
