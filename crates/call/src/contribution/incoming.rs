//! The receiving end: what a peer sends becomes a stream of this server.

use super::CHANNEL;
use super::packets::are_whole;
use crate::link::Link;
use crate::link::session::{Served, Service};
use glassline_delivery::policy::StreamName;
use glassline_delivery::stream::Mux;
use glassline_io::clock::Clock;
use glassline_media::Time;
use glassline_streams::status::{SourceState, SourceStatus};
use glassline_streams::{Publisher, Streams};
use glassline_transport::link::{Error as LinkError, Event, LinkId, Options};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Messages that are handed on together at most: others of the thread's turn follow.
const TOGETHER: usize = 256;
/// After how many messages in a row that are no packets a peer is sent away: it is no sender of streams.
const GARBAGE_MAX: u32 = 64;

/// Publishes what peers send under one name. One of them has it at a time: the first, until it goes or is silent; what others send
/// meanwhile is dropped and counted.
pub struct Incoming {
    streams: Arc<Streams>,
    name: StreamName,
    /// Where it listens, for figures.
    url: String,
    silence_timeout: Duration,
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    holder: Option<Holder>,
    sessions: u64,
    failures: u64,
    error: Option<String>,
    /// Bytes that were no packets.
    garbage_bytes: u64,
    /// Messages of peers that did not have the name.
    unwanted: u64,
    messages: u64,
}

struct Holder {
    link: LinkId,
    publisher: Publisher,
    /// When it sent last.
    newest: Time,
}

/// What a message of a peer came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    Published,
    /// Another peer has the name.
    Unwanted,
    Garbage,
}

impl std::fmt::Debug for Incoming {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Incoming").field("stream", &self.name).finish_non_exhaustive()
    }
}

impl Incoming {
    /// Publishes in `streams` under `name` what comes to the listener that `url` names. A peer that is silent for `silence_timeout`
    /// gives the name up.
    pub fn new(
        streams: &Arc<Streams>,
        name: &StreamName,
        url: &str,
        silence_timeout: Duration,
    ) -> Arc<Incoming> {
        Arc::new(Incoming {
            streams: Arc::clone(streams),
            name: name.clone(),
            url: url.to_owned(),
            silence_timeout,
            clock: streams.clock(),
            state: Mutex::default(),
        })
    }

    /// The stream's name.
    pub fn name(&self) -> &StreamName {
        &self.name
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How it does.
    pub fn status(&self) -> SourceStatus {
        let state = self.lock();
        let phase = match (&state.holder, state.sessions) {
            (Some(_), _) => SourceState::Live,
            (None, 0) => SourceState::Connecting,
            (None, _) => SourceState::Waiting { retry_in: None },
        };
        SourceStatus {
            url: self.url.clone(),
            state: phase,
            error: state.error.clone().filter(|_| state.holder.is_none()),
            sessions: state.sessions,
            failures: state.failures,
            redirects: 0,
            metacube: false,
            garbage_bytes: state.garbage_bytes,
            encoder_delay: None,
            datagrams: Some((state.messages, state.unwanted)),
            rtp: None,
        }
    }

    /// The listener cannot be opened, or has ended: `why`.
    pub(super) fn fail(&self, why: String) {
        let mut state = self.lock();
        state.holder = None;
        state.failures += 1;
        state.error = Some(why);
    }

    /// Takes the messages of a turn, in order, and pushes them together.
    fn take(&self, link: LinkId, messages: &[bytes::Bytes], gathered: &mut Vec<u8>) -> Taken {
        let now = self.clock.now();
        gathered.clear();
        let mut state = self.lock();
        state.messages += messages.len() as u64;
        for message in messages {
            if are_whole(message) {
                gathered.extend_from_slice(message);
            } else {
                state.garbage_bytes += message.len() as u64;
            }
        }
        if gathered.is_empty() {
            return Taken::Garbage;
        }
        let is_silent = |holder: &Holder| now.since(holder.newest) >= self.silence_timeout;
        if state.holder.as_ref().is_some_and(|holder| holder.link != link && is_silent(holder)) {
            state.holder = None;
        }
        if state.holder.is_none() {
            match self.streams.publish(&self.name, Mux::MpegTs) {
                Ok(publisher) => {
                    state.sessions += 1;
                    state.error = None;
                    state.holder = Some(Holder { link, publisher, newest: now });
                    tracing::info!(stream = %self.name, source = self.url, "source is live");
                }
                Err(error) => {
                    state.unwanted += messages.len() as u64;
                    state.error = Some(error.to_string());
                    return Taken::Unwanted;
                }
            }
        }
        let Some(holder) = state.holder.as_mut().filter(|holder| holder.link == link) else {
            state.unwanted += messages.len() as u64;
            return Taken::Unwanted;
        };
        holder.newest = now;
        if let Err(error) = holder.publisher.push(gathered) {
            tracing::warn!(stream = %self.name, source = self.url, "what the source sends is refused: {error}");
            state.holder = None;
            state.failures += 1;
            state.error = Some(error.to_string());
        }
        Taken::Published
    }

    /// The peer gives the name up, if it has it: `why`.
    fn give_up(&self, link: LinkId, why: &str) {
        let mut state = self.lock();
        if state.holder.as_ref().is_some_and(|holder| holder.link == link) {
            state.holder = None;
            state.failures += 1;
            state.error = Some(why.to_owned());
            drop(state);
            tracing::warn!(stream = %self.name, source = self.url, "source is not there: {why}");
        }
    }
}

impl Service for Incoming {
    fn sends(&self) -> Vec<(u8, Options)> {
        Vec::new()
    }

    fn takes(&self) -> Vec<u8> {
        vec![CHANNEL]
    }

    fn serve(&self, link: &Link) -> io::Result<Served> {
        let (mut messages, mut gathered) = (Vec::new(), Vec::new());
        let (mut garbage, mut told) = (0, false);
        loop {
            messages.clear();
            let mut wait = self.silence_timeout;
            let has_ended = loop {
                match link.receive_message(CHANNEL, wait) {
                    Ok(Some(message)) => messages.push(message.bytes),
                    Ok(None) => break false,
                    Err(LinkError::Closed) => break true,
                    Err(_) => break link.has_ended(),
                }
                if messages.len() >= TOGETHER {
                    break false;
                }
                wait = Duration::ZERO;
            };
            if messages.is_empty() {
                let why = if has_ended { "the link has ended" } else { "nothing comes over the link" };
                self.give_up(link.id(), why);
            } else {
                let taken = self.take(link.id(), &messages, &mut gathered);
                garbage = if taken == Taken::Garbage { garbage + messages.len() as u32 } else { 0 };
                if taken == Taken::Unwanted && !std::mem::replace(&mut told, true) {
                    tracing::warn!(
                        stream = %self.name,
                        peer = link.remote_address().map(|address| address.to_string()),
                        "a further peer sends; it is not listened to while another one has the name"
                    );
                }
                if garbage > GARBAGE_MAX {
                    tracing::warn!(stream = %self.name, "a peer sends no MPEG-TS and is sent away");
                    link.close("what comes is no MPEG-TS");
                }
            }
            if has_ended {
                self.give_up(link.id(), "the link has ended");
                return Ok(Served::ThisLink);
            }
        }
    }

    fn handle_event(&self, _: &Link, _: &Event) {}

    fn is_input(&self) -> bool {
        false
    }
}
