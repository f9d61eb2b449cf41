//! Requests to servers, one after the other, by a thread that waits for each answer. A connection is used again where its
//! server allows that, and redirects are followed.

use super::listing::Address;
use crate::http::{HttpFailure, KeptConnection, Response};
use glassline_delivery::http1::{Url, UrlError};
use glassline_io::clock::Clock;
use glassline_io::tls::Connector;
use glassline_media::Time;
use std::io;
use std::time::Duration;
use thiserror::Error;

/// Redirects that are followed.
const REDIRECTS: usize = 5;
/// How long a body may say nothing.
const SILENCE: Duration = Duration::from_secs(10);

/// Why an address gives nothing.
#[derive(Debug, Error)]
pub enum CallFailure {
    /// There is no answer.
    #[error(transparent)]
    Http(#[from] HttpFailure),
    /// The answer is no success.
    #[error("the server answers {status} {reason}")]
    Status {
        /// Its status.
        status: u16,
        /// What the server calls it.
        reason: String,
    },
    /// A redirect that leads nowhere.
    #[error("a redirect leads nowhere: {0}")]
    Redirect(#[from] UrlError),
    /// Redirects without an end.
    #[error("more than {REDIRECTS} redirects follow each other")]
    Redirects,
    /// The body is longer than such a thing is.
    #[error("it is longer than {0} bytes")]
    Long(usize),
    /// The body broke off.
    #[error("the answer broke off: {0}")]
    Body(io::Error),
}

impl CallFailure {
    /// Whether it says that there is nothing: the server denies it, or there is no server.
    pub(super) fn is_absence(&self) -> bool {
        match self {
            CallFailure::Status { status, .. } => (400..500).contains(status) && *status != 429,
            CallFailure::Http(HttpFailure::Unreachable(_)) => true,
            _ => false,
        }
    }
}

/// Asks, and keeps one connection.
pub(super) struct Caller {
    trust: Option<Connector>,
    kept: Option<KeptConnection>,
}

/// An answer with a body that is read piece by piece.
pub(super) struct Answer {
    response: Response,
    /// Bytes that are passed over in front, and how many are wanted, where the server gives more than was asked for.
    skip: u64,
    left: u64,
    /// Where it was found.
    pub(super) url: Url,
}

impl Caller {
    pub(super) fn new(trust: Option<Connector>) -> Caller {
        Caller { trust, kept: None }
    }

    /// Asks for some bytes of a resource. The head of the answer is there by `deadline`.
    pub(super) fn ask(&mut self, address: &Address, deadline: Time) -> Result<Answer, CallFailure> {
        let mut url = address.url.clone();
        for _ in 0..=REDIRECTS {
            let kept = self.kept.take();
            let response = Response::get_kept(&url, address.range, self.trust.as_ref(), kept, deadline)?;
            let head = response.head();
            let status = head.status;
            match (status, head.headers.first("location")) {
                (200..300, _) => {
                    let (skip, left) = match address.range {
                        Some((from, count)) if status != 206 => (from, count),
                        Some((_, count)) => (0, count),
                        None => (0, u64::MAX),
                    };
                    return Ok(Answer { response, skip, left, url });
                }
                (300..400, Some(location)) => {
                    let next = url.redirected(location)?;
                    self.kept = response.into_kept();
                    url = next;
                }
                _ => {
                    let reason = head.reason.clone();
                    self.kept = response.into_kept();
                    return Err(CallFailure::Status { status, reason });
                }
            }
        }
        Err(CallFailure::Redirects)
    }

    /// Takes an answer's connection back.
    pub(super) fn done(&mut self, answer: Answer) {
        self.kept = answer.response.into_kept();
    }

    /// All of a resource, at most `most` bytes, and where it was found; with the time of the server's clock at its answer.
    pub(super) fn whole(
        &mut self,
        address: &Address,
        most: usize,
        deadline: Time,
    ) -> Result<(Vec<u8>, Url, Option<u64>), CallFailure> {
        let mut answer = self.ask(address, deadline)?;
        let date = answer.response.head().headers.first("date");
        let date = date.and_then(glassline_delivery::http1::parse_date);
        let (mut body, mut buffer) = (Vec::new(), vec![0; 16 << 10]);
        loop {
            match answer.read(&mut buffer)? {
                0 => break,
                count => body.extend_from_slice(&buffer[..count]),
            }
            if body.len() > most {
                return Err(CallFailure::Long(most));
            }
        }
        let url = answer.url.clone();
        self.done(answer);
        Ok((body, url, date))
    }
}

impl Answer {
    /// Reads some bytes; 0 at the end.
    pub(super) fn read(&mut self, into: &mut [u8]) -> Result<usize, CallFailure> {
        loop {
            if self.left == 0 {
                return Ok(0);
            }
            let count = self.response.read(into, Clock.now() + SILENCE).map_err(CallFailure::Body)?;
            if count == 0 {
                return match self.response.early_end() {
                    Some(error) => Err(CallFailure::Body(io::Error::other(error.to_string()))),
                    None => Ok(0),
                };
            }
            let passed = usize::try_from(self.skip).unwrap_or(usize::MAX).min(count);
            self.skip -= passed as u64;
            let wanted = usize::try_from(self.left).unwrap_or(usize::MAX).min(count - passed);
            if wanted > 0 {
                into.copy_within(passed..passed + wanted, 0);
                self.left -= wanted as u64;
                return Ok(wanted);
            }
        }
    }
}
