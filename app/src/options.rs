//! What an option may be, and is where nothing is said, if the command line, the configuration and the API all have it.

use glassline_media::quantity::Bitrate;
use std::ops::RangeInclusive;

/// What `serve` lets the bit rate of H.264 pictures be.
pub(crate) const BITRATES: RangeInclusive<Bitrate> =
    Bitrate::from_bits_per_second(100_000)..=Bitrate::from_bits_per_second(100_000_000);
