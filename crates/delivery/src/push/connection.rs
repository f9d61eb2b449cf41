//! One connection to a server: what goes over it, and what the server says.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::event::Event;
use crate::http1::client::{self, Client, Head, Request};
use crate::http1::{HttpError, Limits, body};
use crate::stream::Seams;
use glassline_media::Time;
use std::collections::VecDeque;

/// What an answer may hold of words.
const ANSWER_MAX_BYTES: usize = 16 << 10;
/// Sent bytes are let go of when there are as many.
const COMPACT_BYTES: usize = 256 << 10;

/// Part of the stream that a server does not get, since the one before it was lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    /// The oldest of what is missing was made then, as far as that is known.
    pub(super) since: Time,
    /// Runs of packets that are missing.
    pub(super) left_out: u64,
}

impl Gap {
    /// What is said of it once it has ended at `end`, `resumed` or with the stream.
    pub(super) fn told(self, end: Time, resumed: bool) -> Event {
        Event::Gap { resumed, missing: end.since(self.since), left_out: self.left_out }
    }

    /// Counts another run of packets.
    pub(super) fn count(&mut self) {
        self.left_out = self.left_out.saturating_add(1);
    }
}

pub(super) struct Connection {
    client: Client,
    pub(super) reply: Reply,
    /// Until when the server may say whether it takes the stream; nothing of that goes out before.
    pub(super) consent_until: Option<Time>,
    /// Whether the key frame with which the stream begins has come.
    pub(super) started: bool,
    /// What the socket has not taken yet, behind what it has.
    pending: Vec<u8>,
    sent: usize,
    /// Where the chunks end that wait in `pending`.
    chunk_ends: VecDeque<usize>,
    /// Since when something waits, and since when nothing of it was taken.
    pub(super) waits_since: Option<Time>,
    pub(super) blocked_since: Option<Time>,
    /// Pictures are left out since then; what follows the gap is announced on each PID.
    pub(super) behind_since: Option<Time>,
    pub(super) seams: Option<Seams>,
    /// What has come of a picture that goes on: it leaves when it is whole, since a relay works picture by picture.
    pub(super) picture: Vec<u8>,
    /// Since when the stream may go over it.
    pub(super) began: Time,
    /// The stream has ended.
    pub(super) finishing: bool,
    /// What is missing before its first picture, and when that came, as long as it has not been told.
    pub(super) gap: Option<(Gap, Time)>,
    /// Runs of packets that were left out lately: while the server was behind, or nothing went to it any longer.
    pub(super) left_out: u64,
}

/// What the server says, as far as it has come.
#[derive(Default)]
pub(super) struct Reply {
    pub(super) head: Option<Box<Head>>,
    pub(super) body: Vec<u8>,
    pub(super) is_whole: bool,
    /// Why nothing more comes.
    pub(super) ended: Option<String>,
    /// Why nothing more could be sent.
    pub(super) failed: Option<String>,
    /// Since when there is something to wait for.
    pub(super) since: Option<Time>,
}

impl Reply {
    fn take(&mut self, client: &mut Client, mut bytes: &[u8]) -> Result<(), HttpError> {
        while let Some(event) = client.next(&mut bytes)? {
            match event {
                client::Event::Head(head) => self.head = Some(head),
                client::Event::Data(data) => {
                    let room = ANSWER_MAX_BYTES.saturating_sub(self.body.len());
                    self.body.extend(data.iter().take(room));
                }
                client::Event::End => self.is_whole = true,
            }
            if self.is_whole || self.body.len() >= ANSWER_MAX_BYTES {
                self.is_whole = true;
                break;
            }
        }
        Ok(())
    }
}

impl Connection {
    /// One over which `request` goes out, and behind it the stream, once the server has said that it takes it or `consent_until`
    /// has come.
    pub(super) fn new(request: Request, consent_until: Option<Time>, now: Time) -> Connection {
        Connection {
            client: request.client(Limits::DEFAULT),
            reply: Reply::default(),
            consent_until,
            started: false,
            pending: request.chunked(),
            sent: 0,
            chunk_ends: VecDeque::new(),
            waits_since: None,
            blocked_since: None,
            behind_since: None,
            seams: None,
            picture: Vec::new(),
            began: now,
            finishing: false,
            gap: None,
            left_out: 0,
        }
    }

    /// Whether the stream goes over it.
    pub(super) fn is_open(&self) -> bool {
        self.reply.since.is_none() && self.consent_until.is_none()
    }

    pub(super) fn unsent(&self) -> &[u8] {
        self.pending.get(self.sent..).unwrap_or_default()
    }

    /// Whole runs of packets that were to go over it, and have not left.
    pub(super) fn unsent_chunks(&self) -> u64 {
        self.chunk_ends.len() as u64
    }

    /// Takes the server's bytes. Returns whether its answer is whole, or is none.
    pub(super) fn take_answer(&mut self, bytes: &[u8], now: Time) -> bool {
        let Connection { client, reply, .. } = self;
        if reply.is_whole || reply.ended.is_some() {
            return false;
        }
        let interim = client.interim_responses();
        let since = reply.since;
        reply.since.get_or_insert(now);
        if let Err(error) = reply.take(client, bytes) {
            reply.ended = Some(format!("the server's answer is not HTTP: {error}"));
            reply.head = None;
        } else if reply.head.is_none() && client.interim_responses() > interim && reply.failed.is_none() {
            // That is not the answer, which may come much later.
            reply.since = since.filter(|_| self.finishing);
        }
        self.reply.is_whole || self.reply.ended.is_some()
    }

    /// Whether the server has said that it takes the stream, and nothing else.
    pub(super) fn is_answered_by_consent(&self) -> bool {
        self.reply.since.is_none() && self.client.is_told_to_continue()
    }

    /// The first `bytes` of what is unsent were sent.
    pub(super) fn note_sent(&mut self, bytes: usize, now: Time) {
        self.sent = self.sent.saturating_add(bytes).min(self.pending.len());
        while self.chunk_ends.front().is_some_and(|end| *end <= self.sent) {
            self.chunk_ends.pop_front();
        }
        if self.unsent().is_empty() {
            self.pending.clear();
            self.sent = 0;
            (self.waits_since, self.blocked_since) = (None, None);
            if self.finishing {
                self.reply.since.get_or_insert(now);
            }
            return;
        }
        if bytes > 0 {
            self.blocked_since = None;
        }
        if self.sent >= COMPACT_BYTES {
            self.pending.drain(..self.sent);
            self.chunk_ends.iter_mut().for_each(|end| *end = end.saturating_sub(self.sent));
            self.sent = 0;
        }
        self.note_waiting(now);
    }

    /// Something waits to be sent.
    pub(super) fn note_waiting(&mut self, now: Time) {
        self.waits_since.get_or_insert(now);
        self.blocked_since.get_or_insert(now);
    }

    /// Makes a chunk of the picture. Returns its bytes.
    pub(super) fn write_picture(&mut self) -> usize {
        if let Some(seams) = &mut self.seams {
            seams.announce(&mut self.picture);
        }
        body::write_chunk(&self.picture, &mut self.pending);
        self.chunk_ends.push_back(self.pending.len());
        let bytes = self.picture.len();
        self.picture.clear();
        bytes
    }

    /// Puts the end of the stream behind what waits.
    pub(super) fn write_end(&mut self, now: Time) {
        if !self.picture.is_empty() {
            self.write_picture();
        }
        self.pending.extend_from_slice(body::LAST_CHUNK);
        self.note_waiting(now);
        self.finishing = true;
    }

    pub(super) fn expect_end(&mut self, why: String, now: Time) {
        self.reply.since.get_or_insert(now);
        self.reply.failed.get_or_insert(why);
    }
}
