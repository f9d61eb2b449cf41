//! Why a stream does not get to its server.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use std::fmt;
use thiserror::Error;

/// What a server said in place of taking the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// What the server calls it.
    pub reason: String,
    /// Where a redirect leads.
    pub location: Option<String>,
    /// Its words, as far as they are kept: problem details (RFC 9457), mostly, or a text.
    pub body: Vec<u8>,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server answered {} {}", self.status, self.reason)
    }
}

/// Why a connection was given up, and the next one is tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// In the system's words, or ours.
    Failed(String),
    /// The server said something that passes.
    Answered(Answer),
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loss::Failed(why) => f.write_str(why),
            Loss::Answered(answer) => answer.fmt(f),
        }
    }
}

/// Why trying again would not help, or the end of the stream is missing at the server.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum PushFailure {
    /// The server is not trusted (TLS), and was never reached before.
    #[error("{0}")]
    Untrusted(String),
    /// The stream belongs elsewhere.
    #[error("{0}")]
    Moved(Answer),
    /// The server does not take the stream.
    #[error("{0}")]
    Refused(Answer),
    /// There was no connection when the stream ended.
    #[error("it was not reached at the end")]
    NotReached,
    /// The server took the stream and then said that it did not.
    #[error("{0}")]
    RefusedAtEnd(Answer),
    /// Not all of the stream could be sent.
    #[error("{0}")]
    Unfinished(String),
}

impl PushFailure {
    /// What the server said, if it did.
    #[must_use]
    pub fn answer(&self) -> Option<&Answer> {
        match self {
            PushFailure::Moved(answer) | PushFailure::Refused(answer) | PushFailure::RefusedAtEnd(answer) => {
                Some(answer)
            }
            PushFailure::Untrusted(_) | PushFailure::NotReached | PushFailure::Unfinished(_) => None,
        }
    }
}
