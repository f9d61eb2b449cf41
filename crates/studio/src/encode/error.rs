//! Why a stream cannot be encoded.

use super::sound_error::SoundError;
use crate::{capture, output};
use glassline_codec::CodecError;
use glassline_delivery::policy::StreamName;
use glassline_io::containment::Panicked;
use glassline_media::container::ts;
use glassline_media::quantity::Bitrate;
use glassline_media::{FrameRate, Size};
use glassline_streams::AcquireError;
use std::io;
use thiserror::Error;

/// What can fail here.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an encoder cannot be opened, or has ended. The texts say what is wrong, not what to do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// An input cannot be opened, or has failed.
    #[error(transparent)]
    Capture(#[from] capture::Error),
    /// An output cannot be opened, or has failed.
    #[error(transparent)]
    Output(#[from] output::Error),
    /// The sound that was asked for cannot be.
    #[error(transparent)]
    Sound(#[from] SoundError),
    /// The renditions that were asked for cannot be.
    #[error(transparent)]
    Ladder(#[from] LadderError),
    /// The mux rate that was asked for cannot be.
    #[error(transparent)]
    MuxRate(#[from] MuxRateError),
    /// A setting that x264 refuses.
    #[error("{0}")]
    Setting(CodecError),
    /// The encoder of the pictures cannot be opened.
    #[error("cannot open the encoder: {0}")]
    Open(CodecError),
    /// A codec has failed, or the one for sound cannot be opened.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// What was coded cannot be put into a transport stream.
    #[error(transparent)]
    Mux(#[from] ts::Error),
    /// A running encoder does not do what was asked.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The stream's name is not to be had.
    #[error("{stream}: {error}")]
    Publish {
        /// The stream's.
        stream: StreamName,
        /// Why.
        error: AcquireError,
    },
    /// A fault of this program's own has ended it.
    #[error(transparent)]
    Fault(#[from] Panicked),
    /// The system gives no thread.
    #[error("cannot start the {what}'s thread: {error}")]
    Thread {
        /// What the thread does.
        what: &'static str,
        /// The system's words.
        error: io::Error,
    },
}

/// Why a source does not make these renditions.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum LadderError {
    /// Two have the same name.
    #[error("two renditions are {0}")]
    SameName(String),
    /// The pictures would be coded without key frames.
    #[error("renditions have their key frames in common, and with intra refresh there are none")]
    NoKeyFrames,
    /// Interlaced pictures would have to be scaled.
    #[error("interlaced pictures are not scaled: their fields are of two times")]
    Interlaced,
    /// A rate that is not the source's divided by a whole number.
    #[error("{rate} pictures a second are no whole part of the source's {source_rate}")]
    Rate {
        /// The rendition's.
        rate: FrameRate,
        /// The source's.
        source_rate: FrameRate,
    },
    /// Pictures that all renditions take are too far apart.
    #[error("the renditions have too few pictures in common")]
    TooFewInCommon,
    /// One mux rate for several.
    #[error("renditions have rates of their own, and one mux rate is not for all of them")]
    OneMuxRate,
}

/// Why a stream cannot have that mux rate.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum MuxRateError {
    /// The stream is not filled up to a constant rate.
    #[error("a mux rate is the rate of a stream that is filled up")]
    NotConstant,
    /// It is less than the stream takes.
    #[error(
        "a mux rate of {asked} does not hold pictures of {pictures} with sound, tables and clock: that takes {least}"
    )]
    TooLow {
        /// What was asked for.
        asked: Bitrate,
        /// Of the pictures.
        pictures: Bitrate,
        /// The least that holds them.
        least: Bitrate,
        /// The pictures' bit rate that it holds, in whole kilobits; `None` where it holds none.
        holds: Option<Bitrate>,
    },
}

/// Why a running encoder does not do what was asked.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ControlError {
    /// There is no rendition of this number.
    #[error("there is no rendition {index}")]
    NoRendition {
        /// What was asked for, from 0.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// Not a rate that x264 takes.
    #[error("bit rate {bitrate} is out of range")]
    OutOfRange {
        /// What was asked for.
        bitrate: Bitrate,
    },
    /// Not a size that pictures are scaled to.
    #[error("pictures of {0} cannot be made; width and height are even, from 16 on")]
    Size(Size),
    /// Interlaced pictures would have to be scaled.
    #[error("interlaced pictures are not scaled: their fields are of two times")]
    Interlaced,
    /// A picture rate that is not the source's divided by a whole number.
    #[error("{rate} pictures a second are no whole part of the source's {source_rate}")]
    FrameRate {
        /// What was asked for.
        rate: FrameRate,
        /// The source's.
        source_rate: FrameRate,
    },
    /// Pictures at a constant rate of the stream, which is planned for their rate.
    #[error("a stream of constant rate keeps its picture rate")]
    ConstantRate,
    /// x264 does not take it.
    #[error(transparent)]
    Setting(glassline_codec::CodecError),
    /// Not a preset.
    #[error("{0:?} is no preset")]
    Preset(String),
    /// More than the constant mux rate has room for.
    #[error("bit rate {bitrate} is more than the stream's constant mux rate holds")]
    MuxRate {
        /// What was asked for.
        bitrate: Bitrate,
        /// The most that it holds.
        limit: Bitrate,
    },
}
