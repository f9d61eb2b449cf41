//! Randomness of the system.

use rustix::rand::{GetRandomFlags, getrandom};
use std::io;

/// 32 random bytes, good enough for keys.
///
/// # Errors
/// None that a working system has.
pub fn seed() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    let mut filled = 0;
    while filled < bytes.len() {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_two_seeds_are_alike() {
        assert_ne!(super::seed().unwrap(), super::seed().unwrap());
    }
}
