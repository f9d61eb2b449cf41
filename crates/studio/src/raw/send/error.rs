//! Why video cannot be sent.

use crate::capture;
use glassline_transport::raw_video::FormatError;
use glassline_transport::rtp::pcm;
use std::io;
use std::net::SocketAddr;
use thiserror::Error;

/// Why video cannot be sent, or is not sent any more. The texts say what is wrong, not what to do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The input cannot be opened, or has failed.
    #[error(transparent)]
    Capture(#[from] capture::Error),
    /// The pictures cannot be sent in this format.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The sound cannot be sent.
    #[error("the sound cannot be sent: {0}")]
    Sound(pcm::Error),
    /// Sound is named beside pictures at a rate that is not theirs.
    #[error("sound has one rate, and cannot go with pictures at a rate that is not their own")]
    SoundOfOtherRate,
    /// The time code that is asked for is none of this rate.
    #[error("the time code cannot be sent: {0}")]
    TimeCode(String),
    /// A datagram has no room.
    #[error("datagrams of {0} bytes have no room for a header and samples")]
    Datagram(usize),
    /// Of two fields the lower one comes first.
    #[error("the pictures' bottom field comes first, and fields are sent top first")]
    BottomFirst,
    /// Two streams of packets would go to one place.
    #[error(
        "two of the streams would go to {0}: pictures, sound and ancillary data need a port each on each path"
    )]
    SamePlace(SocketAddr),
    /// No path, or more than two.
    #[error("packets go over one path or two, not {0}")]
    Paths(usize),
    /// A path cannot be opened.
    #[error("cannot send to {to}: {error}")]
    Open {
        /// Where to.
        to: String,
        /// The system's words.
        error: io::Error,
    },
    /// No packet of a whole frame has left.
    #[error("nothing of a frame could be sent to {to}: {error}")]
    Send {
        /// Where to.
        to: String,
        /// The system's words.
        error: io::Error,
    },
    /// No packet of what goes beside the pictures has left.
    #[error("no {what} could be sent to {why}")]
    Beside {
        /// The sound, the time code, or all ancillary data.
        what: &'static str,
        /// Where to, and the system's words.
        why: String,
    },
    /// A file that should be sent from memory has no picture.
    #[error("there is no picture in {0}")]
    Empty(String),
    /// The system gives no memory, thread, clock or random number.
    #[error("cannot get {what}: {error}")]
    System {
        /// What the system does not give.
        what: &'static str,
        /// The system's words.
        error: io::Error,
    },
    /// The sending thread cannot be bound to its processor.
    #[error("cannot run on the processor that was asked for: {0}")]
    Processor(io::Error),
}

impl Error {
    /// The system has not given something.
    pub(super) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |error| Error::System { what, error }
    }
}
