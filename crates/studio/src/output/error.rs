//! Why an output cannot be opened, or takes nothing more.

use glassline_delivery::output::DestinationError;
pub use glassline_delivery::push::PushFailure;
use glassline_io::containment::Panicked;
use glassline_media::container::cmaf;
use glassline_media::container::webm::mux;
use glassline_streams::PushError as RelayError;
use std::io;
use thiserror::Error;

/// What can fail here.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an output cannot be opened, or takes nothing more. The texts say what is wrong, not what to do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be made.
    #[error("cannot write {name}: {error}")]
    Create {
        /// The file's.
        name: String,
        /// The system's words.
        error: io::Error,
    },
    /// A file or standard output cannot be written.
    #[error("cannot write {name}: {error}")]
    Write {
        /// The output's.
        name: String,
        /// The system's words.
        error: io::Error,
    },
    /// Standard output is a pipe that has no reader any longer: a reason to end, not a failure.
    #[error("the reader of standard output has gone")]
    ReaderGone,
    /// A codec or change of codec that MP4 does not take.
    #[error("{name}: {error}")]
    Record {
        /// The file's.
        name: String,
        /// Why.
        error: cmaf::Error,
    },
    /// A codec or change of codec that WebM does not take.
    #[error("{name}: {error}")]
    RecordWebm {
        /// The file's.
        name: String,
        /// Why.
        error: mux::Error,
    },
    /// Not a place for datagrams.
    #[error(transparent)]
    Destination(#[from] DestinationError),
    /// Datagrams cannot be sent there.
    #[error("cannot send to {name}: {error}")]
    Datagrams {
        /// The URL.
        name: String,
        /// The system's words.
        error: io::Error,
    },
    /// Not a URL of a stream at a server.
    #[error(transparent)]
    Target(#[from] super::TargetError),
    /// A link cannot be made.
    #[error("cannot send to {name}: {why}")]
    Link {
        /// The target.
        name: String,
        /// Why.
        why: String,
    },
    /// A link was opened, and the peer does not have all of the stream.
    #[error("{name}: {what}")]
    Lost {
        /// The target.
        name: String,
        /// What has not arrived, and why.
        what: String,
    },
    /// A server has refused the stream, or was not reached.
    #[error("{name}: {failure}{said}")]
    Push {
        /// The URL.
        name: String,
        /// What happened there.
        failure: Box<PushFailure>,
        /// What the server explained, in parentheses behind a space; empty where it did not.
        said: String,
    },
    /// The relay in this process has refused the stream.
    #[error(transparent)]
    Relay(#[from] RelayError),
    /// A thread that writes hangs.
    #[error("{name} takes nothing; the end of the stream is missing there")]
    Hangs {
        /// The output's.
        name: String,
    },
    /// A fault of this program's own has ended it.
    #[error("{name}: {panicked}")]
    Fault {
        /// The output's.
        name: String,
        /// What the fault was.
        panicked: Panicked,
    },
    /// The system gives no thread, or no poller.
    #[error("cannot start an output's thread: {0}")]
    Thread(io::Error),
}

impl Error {
    pub(super) fn write(name: &str) -> impl FnOnce(io::Error) -> Error + use<'_> {
        move |error| Error::Write { name: name.to_owned(), error }
    }
}
