//! What a sender is told.

use crate::size::CodedSize;
use glassline_media::FrameRate;
use glassline_media::quantity::Bitrate;
use std::ops::RangeInclusive;

/// How the encoder is steered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CodecMode {
    /// Picture by picture, by the budget.
    #[default]
    Functional,
    /// As others do it: once a second a quantiser is searched that gives frames of the budget, and every picture is sent. For
    /// comparisons.
    Conventional,
}

/// The codec of the pictures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VideoCodec {
    /// VP8 (RFC 6386), our own: each picture in some qualities.
    #[default]
    Vp8,
    /// AV1 by libaom: each picture once, and once more where its size is not what was wanted.
    #[cfg(feature = "av1")]
    Av1,
    /// That of both which is nearer to the source on this line, as [`SendLoop`](crate::SendLoop) finds out; AV1 at first. A
    /// [`Sender`](crate::Sender) by itself stays with AV1.
    #[cfg(feature = "av1")]
    Auto,
}

impl VideoCodec {
    /// The speed against quality that a sender has where nothing else is said: what two cores do for 720p in less than half of a
    /// picture's time.
    pub const fn default_speed(self) -> u8 {
        match self {
            VideoCodec::Vp8 => SenderSettings::DEFAULT_SPEED,
            #[cfg(feature = "av1")]
            VideoCodec::Auto => SenderSettings::DEFAULT_SPEED,
            #[cfg(feature = "av1")]
            // From 9 on libaom leaves single blocks of drawn pictures, such as digits, as they were for one picture.
            VideoCodec::Av1 => 8,
        }
    }

    /// The fastest that a sender makes its encoder where time is short.
    pub(crate) const fn fastest(self) -> u8 {
        match self {
            VideoCodec::Vp8 => 9,
            #[cfg(feature = "av1")]
            VideoCodec::Av1 | VideoCodec::Auto => 10,
        }
    }

    /// As the command line calls it.
    pub const fn name(self) -> &'static str {
        match self {
            VideoCodec::Vp8 => "vp8",
            #[cfg(feature = "av1")]
            VideoCodec::Av1 => "av1",
            #[cfg(feature = "av1")]
            VideoCodec::Auto => "auto",
        }
    }

    /// The speeds that it has, 0 the best and 10 the fastest.
    pub const fn speeds(self) -> RangeInclusive<u8> {
        match self {
            VideoCodec::Vp8 => 0..=10,
            #[cfg(feature = "av1")]
            VideoCodec::Auto => 0..=10,
            #[cfg(feature = "av1")]
            VideoCodec::Av1 => glassline_codec::av1::SPEEDS,
        }
    }
}

/// What libaom's speeds are above those of VP8 that take about as long.
#[cfg(feature = "av1")]
pub(crate) const AV1_FASTER: u8 = 4;

/// What a sender is like.
#[derive(Clone, Debug)]
pub struct SenderSettings {
    /// Names this run; any number that the runs before did not have.
    pub epoch: u32,
    /// Of the source.
    pub frame_rate: FrameRate,
    /// The encoder's speed against quality, 0 to 10, at the source's size. Smaller pictures are coded with more care in the same
    /// time. Of [`VideoCodec::Auto`] it is that of VP8; AV1 is encoded at the speed [`AV1_FASTER`] above it, from 7 to 10.
    pub speed: u8,
    /// In how many qualities a picture is coded, 1 to 6. More meet the budget better, for more processor time.
    pub candidates: usize,
    /// No more bits than this a second, whatever the network could take.
    pub bitrate_max: Option<Bitrate>,
    /// The finest quantiser index: a finer one costs bits and makes no visible difference.
    pub finest: u8,
    /// The codec of the pictures.
    pub video_codec: VideoCodec,
    /// How the encoder is steered.
    pub codec: CodecMode,
    /// At which size pictures are coded; with AV1, [`CodedSize::Adaptive`] is the source's.
    pub size: CodedSize,
}

impl SenderSettings {
    /// Of [`SenderSettings::speed`]: what a core does for 720p in a third of a picture's time.
    pub const DEFAULT_SPEED: u8 = 4;

    /// Settings for a source of this rate.
    pub fn new(epoch: u32, frame_rate: FrameRate) -> SenderSettings {
        SenderSettings {
            epoch,
            frame_rate,
            speed: SenderSettings::DEFAULT_SPEED,
            candidates: 4,
            bitrate_max: None,
            finest: 4,
            video_codec: VideoCodec::Vp8,
            codec: CodecMode::Functional,
            size: CodedSize::Adaptive,
        }
    }

    /// The same with one codec of two, where [`VideoCodec::Auto`] is asked for.
    #[cfg(feature = "av1")]
    pub(crate) fn with_codec(&self, codec: VideoCodec) -> SenderSettings {
        let speed = match (self.video_codec, codec) {
            (VideoCodec::Auto, VideoCodec::Av1) => {
                let speeds = codec.speeds();
                (self.speed + AV1_FASTER).clamp(*speeds.start(), *speeds.end())
            }
            _ => self.speed,
        };
        SenderSettings { video_codec: codec, speed, ..self.clone() }
    }
}
