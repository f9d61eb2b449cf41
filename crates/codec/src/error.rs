//! What can go wrong in a codec.

use glassline_media::Ticks;
use thiserror::Error;

/// Why a codec refused its settings or its input.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum CodecError {
    /// A setting has a value that the codec does not take.
    #[error("{codec}: {setting} is {found}; it must be {expected}")]
    Setting {
        /// The codec, as people call it.
        codec: &'static str,
        /// The setting's name.
        setting: &'static str,
        /// The value that was given.
        found: String,
        /// What would have been right.
        expected: String,
    },
    /// A picture or audio block is not what the codec was opened for.
    #[error("{codec}: got {found}, opened for {expected}")]
    Input {
        /// The codec, as people call it.
        codec: &'static str,
        /// What came.
        found: String,
        /// What the codec was opened for.
        expected: String,
    },
    /// A time stamp that does not come after the one before it.
    #[error("{codec}: time stamp {} does not come after {} (90 kHz ticks)", found.0, last.0)]
    TimeStamp {
        /// The codec, as people call it.
        codec: &'static str,
        /// The time stamp that came.
        found: Ticks,
        /// The one before it.
        last: Ticks,
    },
    /// Coded bytes that cannot be decoded.
    #[error("{codec}: packet of {bytes} bytes cannot be decoded: {reason}")]
    Corrupt {
        /// The codec, as people call it.
        codec: &'static str,
        /// Length of the packet.
        bytes: usize,
        /// The library's own text.
        reason: String,
    },
    /// A library that is opened when it is first needed is not there.
    #[error(
        "{codec} is coded by {library}, which cannot be opened ({reason}); install {package} (Debian's name)"
    )]
    Absent {
        /// The codec, as people call it.
        codec: &'static str,
        /// The shared object's name.
        library: &'static str,
        /// The package that holds it.
        package: String,
        /// The loader's own text.
        reason: String,
    },
    /// The library was left out when the program was built.
    #[error("this build has no encoder of {codec}")]
    NotBuiltIn {
        /// The codec, as people call it.
        codec: &'static str,
    },
    /// The library failed.
    #[error("{library} failed to {action}: {reason}")]
    Library {
        /// The library.
        library: &'static str,
        /// What it was asked to do.
        action: &'static str,
        /// The library's own text.
        reason: String,
    },
}
