//! Sound before it is coded.

use crate::time::Time;

/// A run of audio samples.
#[derive(Clone, Debug, PartialEq)]
pub struct AudioBlock {
    /// Interleaved samples, −1.0 to 1.0; the length is a multiple of `channels`.
    pub samples: Vec<f32>,
    /// Channels, 1 or 2.
    pub channels: u8,
    /// Samples a second and channel.
    pub rate_hz: u32,
    /// When the first sample was captured.
    pub captured: Time,
}

impl AudioBlock {
    /// Samples in each channel.
    pub fn frames(&self) -> usize {
        self.samples.len() / usize::from(self.channels.max(1))
    }
}
