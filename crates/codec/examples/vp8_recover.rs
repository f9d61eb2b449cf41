//! Fork a state, and recover from a lost frame without a key frame: the sender keeps the states that its receiver may
//! hold, and encodes against the one that it says it has.
//!
//! `vp8_recover`: a frame in twenty is lost on the way. Pictures are the test pattern's.

use glassline_codec::vp8::{Limits, Request, State, StateHash, decode, encode};
use glassline_measure::pattern::Pattern;
use glassline_media::{FrameRate, Size, Time, Utc};

/// How many frames it takes until the sender knows what the receiver holds.
const ROUND_TRIP: usize = 4;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rate = FrameRate::new(30, 1).ok_or("a rate")?;
    let mut pattern = Pattern::new(Size::new(640, 360)?, rate);
    let limits = Limits::default();
    // The sender's states, newest last. A state shares all planes with its neighbours that a frame did not replace.
    let mut sent: Vec<State> = vec![State::new()];
    let mut receiver = State::new();
    // What the receiver said that it holds, under way to the sender.
    let mut reports: Vec<StateHash> = Vec::new();
    for number in 0..60u64 {
        let picture = pattern.draw(number, Time::ZERO + rate.time_of(number), Utc::default());
        // A report names a state by its hash. Where that is not on the way to the newest one any more – the frame
        // after it was lost, and everything since fails to decode – the sender forks there.
        let newest = sent.last().ok_or("there is always one")?;
        let report = reports.len().checked_sub(ROUND_TRIP).map(|at| reports[at]);
        let held = report.and_then(|hash| sent.iter().rposition(|state| state.hash() == hash));
        let behind = held.is_some_and(|at| sent.len() - at > ROUND_TRIP);
        let (base, how) = match held.filter(|_| behind) {
            Some(at) => (&sent[at], "against what the receiver holds"),
            None => (newest, "against the newest"),
        };
        let encoded = encode(base, &picture, &Request::default())?;
        // For comparison only: encoding has no effect on any state.
        let key = encode(base, &picture, &Request { key_frame: true, ..Request::default() })?;
        let expects = base.hash();
        if behind {
            // The branch that the receiver never followed.
            sent.truncate(held.ok_or("it was found")? + 1);
        }
        sent.push(encoded.state);
        let is_lost = number % 20 == 10;
        // Each frame names the state that it needs: one for another state is not decoded, and does no harm.
        let arrives = !is_lost && receiver.hash() == expects;
        if arrives {
            receiver = decode(&receiver, &encoded.bytes, &limits)?.state;
        }
        reports.push(receiver.hash());
        println!(
            "{number:3}  {:6} bytes {how:32} (a key frame: {:6})  {}",
            encoded.bytes.len(),
            key.bytes.len(),
            if is_lost {
                "LOST"
            } else if arrives {
                "shown"
            } else {
                "not decodable"
            },
        );
    }
    Ok(())
}
