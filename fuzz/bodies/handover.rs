//! What an old process leaves to the one that takes its place: MessagePack, from a program of perhaps another version.

use glassline_relay::fuzzing::passed_on;

/// What a process leaves that has taken over nothing.
const LEAST_BYTES: usize = 16 << 10;

/// Takes over what the bytes say. Panics where what is left to a third process is not what was left to the second one,
/// or is out of proportion.
pub fn run(data: &[u8]) {
    let Ok(left) = passed_on(data) else { return };
    assert!(left.len() <= LEAST_BYTES + 8 * data.len(), "{} bytes of {}", left.len(), data.len());
    let again = passed_on(&left).expect("what is left can be taken over");
    assert!(left == again, "the third process has another state than the second");
}
