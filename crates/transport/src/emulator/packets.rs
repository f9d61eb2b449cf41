//! Packets on their way, and how many they are.

use glassline_media::Time;

/// A packet that has reached the link's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered<T> {
    /// When it did.
    pub at: Time,
    /// When it had been pushed.
    pub arrived: Time,
    /// Its size, the link's overhead counted.
    pub bytes: u32,
    /// What was pushed.
    pub packet: T,
}

/// Packets, and their bytes with the link's overhead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// How many.
    pub packets: u64,
    /// Of all of them.
    pub bytes: u64,
}

impl Flow {
    pub(super) fn add(&mut self, packets: u64, bytes: u64) {
        self.packets += packets;
        self.bytes += bytes;
    }
}
