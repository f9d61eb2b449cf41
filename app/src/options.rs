//! What an option may be, and is where nothing is said, if the command line, the configuration and the API all have it.

use glassline_media::quantity::Bitrate;
use std::ops::RangeInclusive;

/// Bit rate of H.264 pictures.
pub(crate) const BITRATE: Bitrate = Bitrate::from_bits_per_second(5_000_000);
/// What `serve` lets it be.
pub(crate) const BITRATES: RangeInclusive<Bitrate> =
    Bitrate::from_bits_per_second(100_000)..=Bitrate::from_bits_per_second(100_000_000);
/// x264's presets, fastest first.
pub(crate) const PRESETS: [&str; 10] = [
    "ultrafast",
    "superfast",
    "veryfast",
    "faster",
    "fast",
    "medium",
    "slow",
    "slower",
    "veryslow",
    "placebo",
];

#[cfg(all(test, feature = "x264"))]
mod tests {
    use glassline_codec::h264::x264;

    #[test]
    fn presets_are_those_that_x264_has() {
        assert!(x264::preset_names().eq(super::PRESETS));
    }
}
