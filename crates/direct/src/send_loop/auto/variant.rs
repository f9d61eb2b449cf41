//! What pictures can be sent in: VP8, or AV1 at one of some sizes.

use crate::settings::{SenderSettings, VideoCodec};
use crate::size::{CodedSize, steps};
use glassline_media::Size;

/// The smallest size of AV1 as one of [`steps`]: half of the source's sides. What is smaller still looks too bad when the line takes more
/// again.
const SMALLEST: usize = 2;

/// A codec, and with AV1 the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// VP8, which finds its size by itself.
    Vp8,
    /// AV1 at one of the [`steps`], 0 the source's size.
    Av1 {
        /// Which one.
        step: usize,
    },
}

impl Variant {
    /// What is sent first.
    pub(super) const FIRST: Variant = Variant::Av1 { step: 0 };

    pub(super) fn codec(self) -> VideoCodec {
        match self {
            Variant::Vp8 => VideoCodec::Vp8,
            Variant::Av1 { .. } => VideoCodec::Av1,
        }
    }

    /// Whether the pictures may have the source's size.
    pub(super) fn is_whole(self) -> bool {
        !matches!(self, Variant::Av1 { step: 1.. })
    }

    /// The size of its pictures, or for VP8 the largest; `None`: a source of this size has none so small.
    pub(super) fn size(self, source: Size) -> Option<Size> {
        match self {
            Variant::Vp8 => Some(source),
            Variant::Av1 { step } => steps(source).get(step).copied(),
        }
    }

    /// What a sender of it is told, where `asked` is what was asked for.
    pub(super) fn settings(self, asked: &SenderSettings, source: Option<Size>) -> SenderSettings {
        let size = match (self, source) {
            (Variant::Av1 { step: 1.. }, Some(source)) => {
                self.size(source).map_or(CodedSize::Source, CodedSize::Fixed)
            }
            (Variant::Av1 { .. }, _) if asked.size == CodedSize::Adaptive => CodedSize::Source,
            _ => asked.size,
        };
        SenderSettings { size, ..asked.with_codec(self.codec()) }
    }

    /// AV1 one step down.
    pub(super) fn smaller(self) -> Option<Variant> {
        match self {
            Variant::Av1 { step } if step < SMALLEST => Some(Variant::Av1 { step: step + 1 }),
            _ => None,
        }
    }

    fn larger(self) -> Option<Variant> {
        match self {
            Variant::Av1 { step } => Some(Variant::Av1 { step: step.checked_sub(1)? }),
            Variant::Vp8 => None,
        }
    }

    /// Whether it takes less time than `other`: each size of AV1 less than a larger one, and VP8 the least.
    pub(super) fn is_cheaper(self, other: Variant) -> bool {
        match (self, other) {
            (_, Variant::Vp8) => false,
            (Variant::Vp8, Variant::Av1 { .. }) => true,
            (Variant::Av1 { step }, Variant::Av1 { step: other }) => step > other,
        }
    }

    /// What a round of trials looks at.
    pub(super) fn others(self) -> Vec<Variant> {
        let all = match self {
            Variant::Vp8 => [Some(Variant::FIRST), Some(Variant::Av1 { step: 1 }), None],
            Variant::Av1 { .. } => [self.larger(), Some(Variant::Vp8), self.smaller()],
        };
        all.into_iter().flatten().collect()
    }

    /// What a round goes on with where this one was better than the one `before`.
    pub(super) fn beyond(self, before: Variant) -> Option<Variant> {
        match (self, before) {
            (Variant::Vp8, _) => None,
            (_, Variant::Vp8) => self.smaller(),
            _ if self.is_cheaper(before) => self.smaller(),
            _ => self.larger(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::FrameRate;

    const SOURCE: Size = Size { width: 1280, height: 720 };

    #[test]
    fn settings_are_those_of_the_codec_at_that_size() {
        let rate = FrameRate::new(30, 1).unwrap();
        let asked = SenderSettings { video_codec: VideoCodec::Auto, ..SenderSettings::new(1, rate) };
        let found = |variant: Variant| {
            let settings = variant.settings(&asked, Some(SOURCE));
            (settings.video_codec, settings.speed, settings.size)
        };
        assert_eq!(found(Variant::Vp8), (VideoCodec::Vp8, 4, CodedSize::Adaptive));
        assert_eq!(found(Variant::FIRST), (VideoCodec::Av1, 8, CodedSize::Source));
        let half = CodedSize::Fixed(Size { width: 640, height: 360 });
        assert_eq!(found(Variant::Av1 { step: 2 }), (VideoCodec::Av1, 8, half));
        let fixed = SenderSettings { size: half, ..asked.clone() };
        assert_eq!(Variant::FIRST.settings(&fixed, Some(SOURCE)).size, half, "as asked for");
        let av1 = SenderSettings { video_codec: VideoCodec::Av1, speed: 9, ..asked };
        assert_eq!(Variant::FIRST.settings(&av1, None).speed, 9);
    }

    #[test]
    fn a_round_looks_at_the_other_codec_and_the_sizes_beside() {
        let others = Variant::others;
        let av1 = |step| Variant::Av1 { step };
        assert_eq!(others(Variant::FIRST), [Variant::Vp8, av1(1)]);
        assert_eq!(others(av1(1)), [av1(0), Variant::Vp8, av1(2)]);
        assert_eq!(others(av1(SMALLEST)), [av1(1), Variant::Vp8]);
        assert_eq!(others(Variant::Vp8), [av1(0), av1(1)]);
        assert_eq!(av1(1).beyond(av1(0)), Some(av1(2)));
        assert_eq!(av1(1).beyond(av1(2)), Some(av1(0)));
        assert_eq!((Variant::Vp8.beyond(av1(0)), av1(0).beyond(Variant::Vp8)), (None, Some(av1(1))));
        assert!(Variant::Vp8.is_cheaper(av1(2)) && av1(1).is_cheaper(av1(0)) && !av1(0).is_cheaper(av1(1)));
        assert_eq!(av1(1).size(Size { width: 64, height: 48 }), None, "too small a source");
    }
}
