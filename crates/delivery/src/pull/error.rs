//! Why a stream does not come.

use crate::http1::HttpError;
use std::time::Duration;
use thiserror::Error;

/// Why an attempt failed or a stream that came has ended. None of the messages shows a secret of the URL.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum PullError {
    /// No connection, in the system's words.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// The server's certificate is not trusted, in words of TLS.
    #[error("cannot connect: {0}")]
    Untrusted(String),
    /// The connection broke, in the system's words.
    #[error("the connection broke: {0}")]
    Lost(String),
    /// It was not HTTP, or not all of it.
    #[error("the upstream's answer: {0}")]
    Http(#[from] HttpError),
    /// It answered something else than the stream.
    #[error("the upstream answered {status}, expected 200")]
    Status {
        /// The status code.
        status: u16,
    },
    /// It sent us on, and on.
    #[error("more than {limit} redirects in a row")]
    TooManyRedirects {
        /// How many are followed.
        limit: usize,
    },
    /// It sent us in a circle.
    #[error("redirects lead in a circle, back to {url}")]
    RedirectLoop {
        /// Where to, without secrets.
        url: String,
    },
    /// It sent us to where we cannot go.
    #[error("a redirect that cannot be followed: {0}")]
    BadRedirect(String),
    /// The body is coded in a way that is not known.
    #[error("Content-Encoding {found:?}, expected metacube or none")]
    Encoding {
        /// The coding's name, shortened.
        found: String,
    },
    /// No connection, no answer or no byte of the stream for this long.
    #[error("{what} for {} s", .time.as_secs_f64())]
    Silent {
        /// What was waited for.
        what: &'static str,
        /// How long.
        time: Duration,
    },
    /// The upstream ended the stream.
    #[error("the upstream ended the stream")]
    Ended,
    /// The body should be Metacube2 and is not.
    #[error("found no Metacube block in {bytes} bytes")]
    NotMetacube {
        /// Bytes looked at.
        bytes: u64,
    },
    /// What came could not be published, in the publisher's words.
    #[error("cannot publish what came: {0}")]
    Refused(String),
}

/// What has to be changed where a server's certificate is not trusted.
pub const UNTRUSTED_REMEDY: &str =
    "name the server as its certificate does, and trust that certificate, or that of its authority";

impl PullError {
    /// What has to be changed, where the same attempt fails again however often it is made; `None` where it may succeed.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            PullError::Status { status: 401 | 403 } => {
                Some("write the user and password, or the key, into the address: http://USER:PASSWORD@HOST/…")
            }
            PullError::Untrusted(_) => Some(UNTRUSTED_REMEDY),
            PullError::Status { status: 404 | 410 } => Some("check the path in the address"),
            PullError::Encoding { .. } | PullError::NotMetacube { .. } | PullError::Refused(_) => {
                Some("name the address of an MPEG transport stream")
            }
            PullError::BadRedirect(_)
            | PullError::RedirectLoop { .. }
            | PullError::TooManyRedirects { .. } => Some("name the address to which it leads"),
            _ => None,
        }
    }
}
