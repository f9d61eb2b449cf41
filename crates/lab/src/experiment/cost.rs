//! What coding takes on the processor that is modelled.

use glassline_direct::wire::FrameCodec;
use glassline_direct::{CodecMode, Coding};
use glassline_media::Size;
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
    /// Encoding in AV1, once; and decoding it.
    pub av1: (Duration, Duration),
    /// Bringing a picture to another size, for each macroblock of the larger one.
    pub scale: Duration,
    /// Telling how far a picture is from its source, for each macroblock of the source.
    pub judge: Duration,
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
            // 720p in 10.5 ms at speed 9 and in 3.8 ms, on two processors.
            av1: (Duration::from_nanos(2_900), Duration::from_nanos(1_050)),
            scale: Duration::from_nanos(450),
            judge: Duration::from_nanos(600),
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
            av1: (scaled(self.av1.0), scaled(self.av1.1)),
            scale: scaled(self.scale),
            judge: scaled(self.judge),
            processors: self.processors,
        }
    }

    /// On so many processors.
    #[must_use]
    pub fn with_processors(self, processors: u32) -> Cost {
        Cost { processors, ..self }
    }

    /// What a picture takes in all qualities that it is coded in, at the size and speed that it is coded at.
    pub(super) fn encoding(&self, codec: CodecMode, source: Size, coding: Coding) -> Duration {
        let Coding { size: coded, speed, candidates, in_turn } = coding;
        if in_turn {
            // Speed 10 saves an eighth, and 8 costs a twelfth.
            let each =
                self.av1.0.mul_f64(if speed > 9 { 0.88 } else { 1.0 + 0.08 * f64::from(9 - speed.min(9)) });
            return each * (macroblocks(coded) * candidates.max(1) as u32) + self.scaling(source, coded);
        }
        let codings = match (codec, candidates as u32) {
            (CodecMode::Conventional, _) => 1,
            (CodecMode::Functional, count @ 0..=2) => count.max(1),
            // The candidate of a given size takes about two codings more than its own.
            (CodecMode::Functional, count) => count + 2,
        };
        let rounds = codings.div_ceil(self.processors.max(1));
        let looking =
            self.first.saturating_sub(self.further).mul_f64(SPEED_FACTORS[usize::from(speed.min(10))]);
        (looking + self.further * rounds) * macroblocks(coded) + self.scaling(source, coded)
    }

    /// What a search of a size takes.
    pub(super) fn searching(&self, coded: Size) -> Duration {
        self.search * macroblocks(coded)
    }

    /// What it takes until a picture of this size can be shown at that of its source.
    pub(super) fn decoding(&self, codec: FrameCodec, source: Size, coded: Size) -> Duration {
        let each = if codec == FrameCodec::Vp8 { self.decode } else { self.av1.1 };
        each * macroblocks(coded) + self.scaling(source, coded)
    }

    /// What a comparison with another size takes: a picture of a given size, and two that are brought to the source's and judged.
    pub(super) fn comparison(&self, source: Size, other: Size, speed: u8) -> Duration {
        let one = Coding { size: other, speed, candidates: 1, in_turn: false };
        self.encoding(CodecMode::Functional, source, one)
            + self.further * (2 * macroblocks(other))
            + (self.scale + self.judge) * (2 * macroblocks(source))
    }

    /// What it takes to tell how far a picture of this size is from its source.
    pub(super) fn judging(&self, size: Size) -> Duration {
        self.judge * macroblocks(size)
    }

    fn scaling(&self, source: Size, coded: Size) -> Duration {
        if source == coded { Duration::ZERO } else { self.scale * macroblocks(source) }
    }
}

/// By how much looking into a picture takes longer at each speed than at 6.
const SPEED_FACTORS: [f64; 11] = [8.0, 6.0, 4.5, 3.8, 2.5, 1.6, 1.0, 0.9, 0.8, 0.75, 0.7];

/// Macroblocks of a picture.
fn macroblocks(size: Size) -> u32 {
    size.width.div_ceil(16) * size.height.div_ceil(16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_code_qualities_side_by_side() {
        let size = Size::new(1280, 720).unwrap();
        let coding = |candidates| Coding { size, speed: 6, candidates, in_turn: false };
        let micros = |processors, candidates| {
            let cost = Cost::default().with_processors(processors);
            cost.encoding(CodecMode::Functional, size, coding(candidates)).as_micros()
        };
        assert_eq!([micros(1, 1), micros(1, 2), micros(1, 4)], [4_680, 6_300, 12_780]);
        assert_eq!([micros(2, 1), micros(2, 2), micros(2, 4)], [4_680, 4_680, 7_920]);
        // Others code each picture once.
        assert_eq!(Cost::default().encoding(CodecMode::Conventional, size, coding(4)).as_micros(), 4_680);
        // A smaller picture is looked into for longer, and has to be scaled.
        let small = Coding { size: Size::new(640, 360).unwrap(), speed: 2, candidates: 4, in_turn: false };
        let functional = |cost: Cost, coding| cost.encoding(CodecMode::Functional, size, coding).as_micros();
        assert!(functional(Cost::default(), small) < functional(Cost::default(), coding(4)));
        assert_eq!(functional(Cost::default().scaled(2.0), coding(1)), 9_360);
        // One after the other each costs as much as the first.
        let in_turn = |candidates| Coding { in_turn: true, speed: 9, ..coding(candidates) };
        assert_eq!(functional(Cost::default(), in_turn(2)), 2 * functional(Cost::default(), in_turn(1)));
    }
}
