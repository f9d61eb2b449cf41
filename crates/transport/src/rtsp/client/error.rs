//! Why a session has ended.

use crate::rtsp::message::MessageError;
use crate::sdp::SdpError;
use std::time::Duration;
use thiserror::Error;

/// Why a session has ended. No text has user or password in it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientError {
    /// What comes is no RTSP.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// A request was refused.
    #[error("the server answers {method} with {status} {reason}")]
    Status {
        /// The request.
        method: &'static str,
        /// The response's status.
        status: u16,
        /// What stands beside it, up to 60 letters.
        reason: String,
    },
    /// It wants credentials, and there are none.
    #[error("the server wants a user and a password: rtsp://USER:PASSWORD@HOST/…")]
    NoCredentials,
    /// It asks for credentials in ways that are not known.
    #[error(
        "the server asks for credentials in a way that is not known: Basic, and Digest with MD5 or SHA-256, are"
    )]
    Challenge,
    /// It does not take ours.
    #[error("the server refuses user and password")]
    Credentials,
    /// It leads elsewhere too often, or from TLS to where anybody may listen.
    #[error("the server leads elsewhere {0}")]
    Redirect(&'static str),
    /// Its description cannot be read.
    #[error(transparent)]
    Description(#[from] SdpError),
    /// Its description has nothing that can be carried.
    #[error("nothing of what the server offers can be carried: {0}")]
    NoTrack(String),
    /// It sends in a way that was not asked for.
    #[error("the server's answer to SETUP has a transport that was not asked for")]
    Transport,
    /// No response.
    #[error("no answer to {method} within {} s", .after.as_secs())]
    NoAnswer {
        /// What was asked; of a connection that is not open, `CONNECT`.
        method: &'static str,
        /// How long it was waited for.
        after: Duration,
    },
    /// No packets.
    #[error("no packet within {} s", .0.as_secs())]
    Silent(Duration),
    /// It says that the stream is over.
    #[error("the server has ended the stream")]
    Ended,
    /// It does not know the session any more.
    #[error("the server has forgotten the session")]
    Forgotten,
    /// It closed the connection.
    #[error("the server has closed the connection")]
    Closed,
}

impl ClientError {
    /// What has to be changed, where the same session fails again however often it is begun; `None` where it may succeed.
    #[must_use]
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            ClientError::NoCredentials => Some("write them into the address"),
            ClientError::Credentials => Some(
                "check them in the address, where other letters than A to Z, a to z, 0 to 9 and -._~ are written as %40 for @",
            ),
            ClientError::Challenge => Some("set the camera to Digest or Basic"),
            ClientError::Status { status: 401 | 403, .. } => {
                Some("check whether this user may see the stream")
            }
            ClientError::Status { status: 404 | 410, .. } => {
                Some("check the path in the address: the camera's manual or its ONVIF profile names it")
            }
            ClientError::NoTrack(_) => Some("set the camera's encoder to H.264"),
            _ => None,
        }
    }
}
