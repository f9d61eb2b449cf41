//! The servers that may take a stream, one of them at a time, and which of them is asked when.
//!
//! ```text
//! lost ─► the next server, at once ─► … each has been asked ─► a server has said "not yet": asked again and again for a while
//!                                                          └─► else a pause that grows, then all of them once more
//! ```
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::{Policy, PushFailure};
use crate::backoff::Backoff;
use crate::http1::{Url, UrlError};
use std::time::Duration;
use thiserror::Error;

/// Redirects that are followed in a row.
const REDIRECTS_MAX: u8 = 4;

/// Servers in the order in which they are asked, and the one that is asked now.
pub(super) struct Servers {
    /// The one that is asked now.
    current: Server,
    /// The others, the next one first: what is asked goes to the end.
    others: Vec<Server>,
    /// Where the current one has led, in its place.
    detour: Option<Url>,
    redirects: u8,
    /// How many of the others are asked without a pause.
    at_once: usize,
    backoff: Backoff,
    eager_for: Duration,
    eager_pause: Duration,
}

struct Server {
    url: Url,
    /// Its place in the list that was given.
    place: usize,
    was_reached: bool,
    said: Said,
    /// It has said the same to the attempt before.
    repeats: bool,
}

/// What a server has said to the last attempt.
enum Said {
    Nothing,
    /// That it does not take the stream at the moment.
    NotYet,
    /// That it does not take the stream.
    No,
}

/// Why a redirect is not followed.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub(super) enum DetourError {
    #[error("redirects lead on and on")]
    TooMany,
    #[error("it leads to https://, and only http:// was given")]
    NoTls,
    #[error("{0}")]
    Url(#[from] UrlError),
}

impl Servers {
    /// The first of `further` is asked after `first`, and so on.
    pub(super) fn new(first: Url, further: Vec<Url>, policy: &Policy, seed: u64) -> Servers {
        let server =
            |(place, url)| Server { url, place, was_reached: false, said: Said::Nothing, repeats: false };
        let others: Vec<Server> = (1..).zip(further).map(server).collect();
        Servers {
            current: server((0, first)),
            at_once: others.len(),
            others,
            detour: None,
            redirects: 0,
            backoff: Backoff::new(policy.retry_min, policy.retry_max, seed),
            eager_for: policy.eager_for,
            eager_pause: policy.eager_pause,
        }
    }

    /// Whether there is a choice.
    pub(super) fn are_several(&self) -> bool {
        !self.others.is_empty()
    }

    /// Where the current attempt goes.
    pub(super) fn url(&self) -> &Url {
        self.detour.as_ref().unwrap_or(&self.current.url)
    }

    /// Whether it is asked to take the name over from another publisher.
    pub(super) fn takes_over(&self) -> bool {
        let query = self.url().target().split_once('?').map_or("", |(_, query)| query);
        query.split('&').any(|pair| pair == "takeover=1" || pair == "takeover=true")
    }

    /// The place of the current server in the list that was given.
    pub(super) fn place(&self) -> usize {
        self.current.place
    }

    fn all(&self) -> impl Iterator<Item = &Server> {
        std::iter::once(&self.current).chain(&self.others)
    }

    /// Whether the key may be shown there: at the hosts and ports that were given, over TLS where it was given so, and not where a
    /// redirect leads to another one.
    pub(super) fn may_show_key(&self) -> bool {
        let Some(detour) = &self.detour else { return true };
        self.all().any(|server| has_same_origin(&server.url, detour))
    }

    /// The current one has been reached.
    pub(super) fn reached(&mut self) {
        self.current.was_reached = true;
    }

    pub(super) fn was_reached(&self) -> bool {
        self.current.was_reached
    }

    /// The current one has led to `location`, which is asked next, at once.
    pub(super) fn redirect(&mut self, location: &str) -> Result<(), DetourError> {
        if self.redirects >= REDIRECTS_MAX {
            return Err(DetourError::TooMany);
        }
        let url = self.url().redirected(location)?;
        if url.tls() && !self.all().any(|server| server.url.tls()) {
            return Err(DetourError::NoTls);
        }
        self.redirects = self.redirects.saturating_add(1);
        self.detour = Some(url);
        Ok(())
    }

    /// Whether the current one has led elsewhere.
    pub(super) fn is_detour(&self) -> bool {
        self.detour.is_some()
    }

    /// The current one has carried the stream for a while: what the others said before is old, and so are redirects.
    pub(super) fn begin_round(&mut self) {
        self.redirects = 0;
        self.at_once = self.others.len();
        self.current.said = Said::Nothing;
        self.others.iter_mut().for_each(|server| server.said = Said::Nothing);
    }

    /// All is well for long: the next pause is a first one.
    pub(super) fn reset_pauses(&mut self) {
        self.backoff.reset();
    }

    /// The current one was not reached, or is lost.
    pub(super) fn note_silence(&mut self) {
        (self.current.said, self.current.repeats) = (Said::Nothing, false);
    }

    /// The current one does not take the stream at the moment.
    pub(super) fn note_not_yet(&mut self) {
        self.current.repeats = matches!(self.current.said, Said::NotYet);
        self.current.said = Said::NotYet;
    }

    /// Whether the current one has said "not yet" to the attempt before, too.
    pub(super) fn repeats(&self) -> bool {
        self.current.repeats
    }

    /// The current one does not take the stream at all. Returns `failure` as an error where that holds for each of them.
    pub(super) fn note_refusal(&mut self, failure: PushFailure) -> Result<(), PushFailure> {
        (self.current.said, self.current.repeats) = (Said::No, false);
        if self.all().all(|server| matches!(server.said, Said::No)) { Err(failure) } else { Ok(()) }
    }

    /// Goes on to the next server. Returns what to wait before it is asked. `lost_for`: the time since a server was lost that
    /// carried the stream.
    pub(super) fn go_on(&mut self, lost_for: Option<Duration>) -> Duration {
        (self.detour, self.redirects) = (None, 0);
        if self.at_once > 0 {
            self.at_once = self.at_once.saturating_sub(1);
            self.advance();
            return Duration::ZERO;
        }
        let is_waiting = |server: &Server| matches!(server.said, Said::NotYet);
        let waiting =
            u32::try_from(self.all().filter(|server| is_waiting(server)).count()).unwrap_or(u32::MAX);
        let is_eager = lost_for.is_some_and(|time| time < self.eager_for);
        if let Some(pause) = self.eager_pause.checked_div(waiting).filter(|_| self.are_several() && is_eager)
        {
            self.advance();
            // One of them waits, so that this ends.
            while !is_waiting(&self.current) {
                self.advance();
            }
            return pause;
        }
        self.at_once = self.others.len();
        self.advance();
        self.backoff.fail()
    }

    fn advance(&mut self) {
        if self.are_several() {
            let next = self.others.remove(0);
            self.others.push(std::mem::replace(&mut self.current, next));
        }
    }
}

fn has_same_origin(one: &Url, other: &Url) -> bool {
    (one.tls(), one.host(), one.port()) == (other.tls(), other.host(), other.port())
}

#[cfg(test)]
#[path = "servers_tests.rs"]
mod tests;
