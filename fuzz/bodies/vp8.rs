//! VP8 from a stranger: frames, each behind two bytes of length, decoded one after the other.

use glassline_codec::vp8::{Limits, State, Workspace, decode, decode_in};

/// Large enough for what the conformance streams do, small enough for many runs a second.
const LIMITS: Limits = Limits { max_pixels: 256 * 256 };
/// Frames of one input that are looked at: time is bounded by them and the picture's size.
const FRAMES: usize = 12;

/// Decodes `data`. Panics where memory that is used again changes a result, a failed frame changes the state, or a
/// state does not survive being saved and restored.
pub fn run(data: &[u8]) {
    let mut rest = data;
    let mut state = State::new();
    let mut workspace = Workspace::new();
    for _ in 0..FRAMES {
        let Some((length, behind)) = rest.split_first_chunk::<2>() else { break };
        let length = usize::from(u16::from_le_bytes(*length)).min(behind.len());
        let (frame, behind) = behind.split_at(length);
        rest = behind;
        let before = state.hash();
        let used = decode_in(&state, frame, &LIMITS, &mut workspace);
        let fresh = decode(&state, frame, &LIMITS);
        assert_eq!(state.hash(), before);
        match (used, fresh) {
            (Ok(used), Ok(fresh)) => {
                assert_eq!(used.state, fresh.state);
                assert_eq!(used.picture.is_some(), fresh.picture.is_some());
                state = used.state;
            }
            (Err(used), Err(fresh)) => assert_eq!(used, fresh),
            (used, fresh) => panic!("{used:?} with used memory, {fresh:?} with fresh"),
        }
    }
    let restored = State::restore(&state.save(), &LIMITS).expect("what was saved is restored");
    assert_eq!(restored, state);
    // The input as a saved state, whatever it is.
    let _ = State::restore(data, &LIMITS);
}
