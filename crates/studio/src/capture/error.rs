//! What can be wrong with an input.

use glassline_io::capture::CaptureError;
#[cfg(feature = "alsa")]
use glassline_io::capture::alsa::AlsaError;
use glassline_io::containment::Panicked;
use glassline_media::container::wav::WavError;
use glassline_media::container::y4m::Y4mError;
use glassline_media::samples::ResampleError;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// A text that names no input, with what would.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct ParseError(pub(crate) String);

impl ParseError {
    /// `words` say what is wrong and what would be right.
    pub fn new(words: String) -> ParseError {
        ParseError(words)
    }
}

impl From<glassline_media::quantity::QuantityError> for ParseError {
    fn from(error: glassline_media::quantity::QuantityError) -> ParseError {
        ParseError(error.to_string())
    }
}

/// Why an input cannot be opened, or has ended. The texts say what is wrong, not what to do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A fault of this program's own has ended it.
    #[error(transparent)]
    Fault(#[from] Panicked),
    /// A file cannot be opened.
    #[error("{name}: {error}")]
    Open {
        /// As it was named.
        name: String,
        /// The system's words.
        error: io::Error,
    },
    /// A folder was named.
    #[error("{name} is a folder")]
    Folder {
        /// As it was named.
        name: String,
    },
    /// FFmpeg is not installed.
    #[error("{name} has to be decoded by ffmpeg, which is not installed")]
    FfmpegAbsent {
        /// What it was to decode.
        name: String,
    },
    /// A film without pictures.
    #[error("{name} has no pictures: it is {what}")]
    NoPictures {
        /// As it was named.
        name: String,
        /// What it has.
        what: &'static str,
    },
    /// A film has no such track.
    #[error("{name} has no {kind} track of {asked}; it has {list}")]
    NoTrack {
        /// As it was named.
        name: String,
        /// `video` or `audio`.
        kind: &'static str,
        /// What was asked for.
        asked: String,
        /// Those that there are.
        list: String,
    },
    /// A track is asked for of what cannot be looked into.
    #[error("{name} cannot be looked into, so that no track of it can be chosen")]
    NotLookedInto {
        /// As it was named.
        name: String,
    },
    /// A track is asked for of what is no film.
    #[error("a track can be chosen of a film alone, which FFmpeg decodes")]
    NoFilm,
    /// FFmpeg cannot be started.
    #[error("cannot start ffmpeg: {0}")]
    Ffmpeg(io::Error),
    /// A capture device cannot be used as asked.
    #[error("{name}: {error}")]
    Device {
        /// Its node.
        name: String,
        /// Why.
        error: CaptureError,
    },
    /// A capture device that gave pictures has failed.
    #[error("the capture device failed: {0}")]
    DeviceFailed(io::Error),
    /// A capture device gives pictures by its own clock, not on request.
    #[error("a capture device gives pictures by its own clock alone")]
    DeviceOnRequest,
    /// A session description cannot be followed.
    #[error(transparent)]
    Description(#[from] crate::raw::described::Error),
    /// A session description without a frame rate.
    #[error("the description says no frame rate")]
    NoRate,
    /// A stream cannot be received.
    #[error("cannot receive at {addresses}: {error}")]
    Receive {
        /// Where.
        addresses: String,
        /// The system's words.
        error: io::Error,
    },
    /// Reading has failed.
    #[error("{name}: {error}")]
    Read {
        /// What was read.
        name: String,
        /// The system's words, or FFmpeg's.
        error: io::Error,
    },
    /// What was read is no y4m.
    #[error("{name}: {error}")]
    Y4m {
        /// What was read.
        name: String,
        /// Why.
        error: Y4mError,
    },
    /// What was read is no H.264.
    #[error("{name}: no picture of H.264 in its first {bytes} bytes")]
    H264 {
        /// What was read.
        name: String,
        /// How far it was looked at.
        bytes: u64,
    },
    /// A source that is fetched has never come, and cannot as it is asked for.
    #[error("{name}: {why}")]
    Refused {
        /// Its address, without secrets.
        name: String,
        /// What the last attempt came to.
        why: String,
        /// What has to be changed.
        remedy: String,
    },
    /// A source that is fetched has pictures of another codec than H.264.
    #[error("{name} sends {codec}, and only H.264 is sent on unchanged")]
    OtherCodec {
        /// Its address, without secrets.
        name: String,
        /// The codec's name.
        codec: &'static str,
    },
    /// A source that is fetched has no pictures.
    #[error("{name} has no pictures")]
    NoPicturesFetched {
        /// Its address, without secrets.
        name: String,
    },
    /// What was read is no WAVE file.
    #[error("{name}: {error}")]
    Wav {
        /// What was read.
        name: String,
        /// Why.
        error: WavError,
    },
    /// An ALSA device cannot be used, or has failed.
    #[cfg(feature = "alsa")]
    #[error(transparent)]
    Alsa(#[from] AlsaError),
    /// The program was built without ALSA.
    #[error("this build knows no ALSA")]
    AlsaNotBuiltIn,
    /// A file descriptor is not open.
    #[error("fd:{number}: {error}")]
    Descriptor {
        /// Which.
        number: u32,
        /// The system's words.
        error: io::Error,
    },
    /// A format of raw samples beside a file that has its own.
    #[error("a WAVE file says itself what its samples are like")]
    FormatOfWav,
    /// The same beside a session description.
    #[error("a session description says itself what its samples are like")]
    FormatOfDescription,
    /// A session description without sound.
    #[error("{} describes no sound", path.display())]
    NoSoundDescribed {
        /// The file.
        path: PathBuf,
    },
    /// Live sound beside pictures that do not come by the clock.
    #[error("live sound does not go with a file that is coded as fast as it goes")]
    LiveSoundUntimed,
    /// A file that is played over and over has changed meanwhile.
    #[error("{name} has become another one")]
    Changed {
        /// As it was named.
        name: String,
    },
    /// Pictures of high dynamic range: their curve needs more bits than the encoders have.
    #[error("the pictures have a high dynamic range ({curve}), which 8 bits a sample cannot carry")]
    HighDynamicRange {
        /// The curve's name.
        curve: &'static str,
    },
    /// Looping was requested of an input that is not a file.
    #[error("only a file can be looped")]
    NotAFile,
    /// Sound cannot be brought to 48 kHz.
    #[error(transparent)]
    Resample(#[from] ResampleError),
    /// The system gives no thread.
    #[error("cannot start the {what}'s thread: {error}")]
    Thread {
        /// What the thread does.
        what: &'static str,
        /// The system's words.
        error: io::Error,
    },
}

impl Error {
    /// Reading `name` has failed.
    pub(crate) fn read(name: &str) -> impl FnOnce(io::Error) -> Error + use<'_> {
        move |error| Error::Read { name: name.to_owned(), error }
    }

    /// What `name` gave is no y4m.
    pub(crate) fn y4m(name: &str) -> impl FnOnce(Y4mError) -> Error + use<'_> {
        move |error| Error::Y4m { name: name.to_owned(), error }
    }

    /// What `name` gave is no WAVE file.
    pub(crate) fn wav(name: &str) -> impl FnOnce(WavError) -> Error + use<'_> {
        move |error| Error::Wav { name: name.to_owned(), error }
    }
}
