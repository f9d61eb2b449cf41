use thiserror::Error;

/// What is wrong with a peer's HTTP.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum HttpError {
    /// Not HTTP/1.x, or broken beyond reading.
    #[error("malformed HTTP head: {0}")]
    Malformed(String),
    /// The head is larger than the limit.
    #[error("head of more than {limit} bytes")]
    HeadTooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// A line of a head ends with a line feed alone, or a carriage return stands by itself (RFC 9112 §2.2).
    #[error("malformed HTTP head: each line has to end with CR LF (RFC 9112 §2.2)")]
    BareLineEnd,
    /// None, several or a broken `Host` where exactly one has to be.
    #[error("{0}; HTTP/1.1 needs exactly one (RFC 9112 §3.2)")]
    BadHost(&'static str),
    /// More headers than [`super::Limits::HEADERS`].
    #[error("more than {} header fields", super::Limits::HEADERS)]
    TooManyHeaders,
    /// Two framings that contradict each other: the mark of request smuggling (RFC 9112 §6.3).
    #[error("ambiguous body length: {0}")]
    AmbiguousLength(&'static str),
    /// A transfer coding other than chunked.
    #[error("transfer coding {0:?}: only chunked is known")]
    UnknownCoding(String),
    /// A chunk with a wrong size line, or with a wrong end.
    #[error("malformed chunk: {0}")]
    BadChunk(&'static str),
    /// The peer was too slow.
    #[error("timed out: {0}")]
    TimedOut(&'static str),
    /// The connection ended inside a head or a body of known length.
    #[error("the connection ended too early: {0}")]
    EndedEarly(&'static str),
}

impl HttpError {
    /// The status that a server answers with.
    pub const fn status(&self) -> u16 {
        match self {
            HttpError::HeadTooLarge { .. } | HttpError::TooManyHeaders => 431,
            HttpError::UnknownCoding(_) => 501,
            HttpError::TimedOut(_) => 408,
            _ => 400,
        }
    }
}
