//! What coding takes on the processor that is modelled.

use glassline_direct::{CodecMode, SenderSettings};
use std::time::Duration;

/// What coding takes, for each macroblock (16×16 samples).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Encoding in one quality: looking into the picture, and coding it once.
    pub first: Duration,
    /// Each further quality: coding it once more.
    pub further: Duration,
    /// A search of a size.
    pub search: Duration,
    /// Decoding.
    pub decode: Duration,
    /// Processors of the sender, which code so many qualities side by side. Looking into the picture, searches and decoding take as
    /// long as on one.
    pub processors: u32,
}

impl Default for Cost {
    /// Of the order that `make bench-vp8` measures at speed 6, on one processor: 720p in 4.7 ms, 1.6 ms for each further quality.
    fn default() -> Cost {
        Cost {
            first: Duration::from_nanos(1_300),
            further: Duration::from_nanos(450),
            search: Duration::from_nanos(8_000),
            decode: Duration::from_nanos(450),
            processors: 1,
        }
    }
}

impl Cost {
    /// On a processor that takes `factor` times as long.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Cost {
        let scaled = |time: Duration| time.mul_f64(factor);
        Cost {
            first: scaled(self.first),
            further: scaled(self.further),
            search: scaled(self.search),
            decode: scaled(self.decode),
            processors: self.processors,
        }
    }

    /// On so many processors.
    #[must_use]
    pub fn with_processors(self, processors: u32) -> Cost {
        Cost { processors, ..self }
    }

    /// What a picture of so many macroblocks takes in all qualities that these settings ask for.
    pub(super) fn encoding(&self, sender: &SenderSettings, macroblocks: u32) -> Duration {
        let codings = match (sender.codec, sender.candidates as u32) {
            (CodecMode::Conventional, _) => 1,
            (CodecMode::Functional, count @ 0..=2) => count.max(1),
            // The candidate of a given size takes about two codings more than its own.
            (CodecMode::Functional, count) => count + 2,
        };
        let rounds = codings.div_ceil(self.processors.max(1));
        (self.first.saturating_sub(self.further) + self.further * rounds) * macroblocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::FrameRate;

    #[test]
    fn processors_code_qualities_side_by_side() {
        let rate = FrameRate::new(30, 1).unwrap();
        let sender = |candidates| SenderSettings { candidates, ..SenderSettings::new(1, rate) };
        let micros = |processors, candidates| {
            Cost::default().with_processors(processors).encoding(&sender(candidates), 3_600).as_micros()
        };
        assert_eq!([micros(1, 1), micros(1, 2), micros(1, 4)], [4_680, 6_300, 12_780]);
        assert_eq!([micros(2, 1), micros(2, 2), micros(2, 4)], [4_680, 4_680, 7_920]);
        // Others code each picture once.
        let conventional = SenderSettings { codec: CodecMode::Conventional, ..sender(4) };
        assert_eq!(Cost::default().encoding(&conventional, 3_600).as_micros(), 4_680);
        assert_eq!(Cost::default().scaled(2.0).encoding(&sender(1), 3_600).as_micros(), 9_360);
    }
}
