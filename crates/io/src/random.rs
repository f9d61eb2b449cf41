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

/// What names the boot of this machine: random, the same for all of its processes until it starts anew, and known to its users
/// alone. `None` where the system does not tell (Linux: `/proc/sys/kernel/random/boot_id`).
pub fn boot_id() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let id = text.trim();
    (!id.is_empty()).then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_boot_has_one_id() {
        let id = super::boot_id();
        assert_eq!(id, super::boot_id());
        assert!(id.is_none_or(|id| id.len() == 36), "a UUID");
    }

    #[test]
    fn no_two_seeds_are_alike() {
        assert_ne!(super::seed().unwrap(), super::seed().unwrap());
    }
}
