//! A viewer: where it is in the stream, and how it gets on.

use crate::relay::blocks::Blocks;
use crate::relay::live::Live;
use crate::relay::outgoing::Outgoing;
use glassline_delivery::policy::{Moves, SlowPolicy};
use glassline_io::spool::{LinkFile, Piece, Reader, Sent};
use glassline_io::tcp::Connection;
use glassline_media::Time;
use glassline_media::container::ts::PACKET_BYTES;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

#[derive(Debug)]
pub(super) struct Viewer {
    pub(super) live: Arc<Live>,
    reader: Reader,
    outgoing: Outgoing,
    /// Where it gets the stream in blocks.
    blocks: Option<Blocks>,
    state: State,
    last_progress: Time,
    slow: SlowPolicy,
    moves: Moves,
    pace: Pace,
    pub(super) sent_bytes: u64,
    pub(super) joined: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum State {
    /// Reads on at the reader's offset.
    Following,
    /// Waits for an entry after the offset at which it lost its place, or for the first.
    Awaiting { moved: bool },
    /// The socket takes nothing now; its next edge brings it back.
    Blocked,
}

/// Faster than any line: as good as not paced.
const UNPACED_BPS: u64 = u64::MAX;

/// How fast its connection may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Pace {
    /// As fast as it can: it has not caught up with live yet.
    Catching,
    /// At this many bits a second; 0: not set yet.
    At(u64),
}

/// Whether a viewer stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fed {
    /// It has all there is, or its socket is full.
    Stays,
    /// The stream is over and it has all of it, or it is dropped.
    Finished,
}

/// A viewer as one process leaves it to the next, but for its socket and its stream.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ViewerState {
    offset: u64,
    #[serde(with = "serde_bytes")]
    outgoing: Vec<u8>,
    blocks: Option<Blocks>,
    state: State,
    last_progress: Time,
    slow: SlowPolicy,
    moves: Moves,
    pace: Pace,
    sent_bytes: u64,
    joined: Time,
}

impl Viewer {
    /// What the next process needs of it, beside [`Viewer::own_link`].
    pub(super) fn state(&self) -> ViewerState {
        ViewerState {
            offset: self.reader.offset(),
            outgoing: self.outgoing.to_bytes(),
            blocks: self.blocks,
            state: self.state,
            last_progress: self.last_progress,
            slow: self.slow,
            moves: self.moves.clone(),
            pace: self.pace,
            sent_bytes: self.sent_bytes,
            joined: self.joined,
        }
    }

    /// A part of the stream that only this viewer still has.
    pub(super) fn own_link(&self) -> Option<LinkFile> {
        self.reader.own_link()
    }

    /// The viewer that another process left.
    pub(super) fn restore(state: ViewerState, live: Arc<Live>, own_link: Option<(u64, OwnedFd)>) -> Viewer {
        Viewer {
            reader: Reader::restore(live.chain.clone(), state.offset, own_link),
            live,
            outgoing: Outgoing::from(state.outgoing),
            blocks: state.blocks,
            state: state.state,
            last_progress: state.last_progress,
            slow: state.slow,
            moves: state.moves,
            pace: state.pace,
            sent_bytes: state.sent_bytes,
            joined: state.joined,
        }
    }

    /// A viewer that first gets `head`, then the stream from its newest entry on.
    pub(super) fn new(live: Arc<Live>, head: Vec<u8>, slow: SlowPolicy, now: Time) -> Viewer {
        let reader = Reader::new(live.chain.clone(), 0);
        let mut outgoing = Outgoing::default();
        outgoing.push(head);
        let state = State::Awaiting { moved: false };
        Viewer {
            live,
            reader,
            outgoing,
            blocks: None,
            state,
            last_progress: now,
            slow,
            moves: Moves::default(),
            pace: Pace::Catching,
            sent_bytes: 0,
            joined: now,
        }
    }

    /// The same viewer, that gets the stream in Metacube2 blocks.
    pub(super) fn in_blocks(self) -> Viewer {
        Viewer { blocks: Some(Blocks::default()), ..self }
    }

    /// Whether news concern this viewer: one with a full socket hears of them at its next edge.
    pub(super) fn is_blocked(&self) -> bool {
        self.state == State::Blocked
    }

    /// When its socket last took something, if it is full now.
    pub(super) fn blocked_since(&self) -> Option<Time> {
        self.is_blocked().then_some(self.last_progress)
    }

    /// Sends what there is and fits.
    pub(super) fn feed(&mut self, connection: &Connection, now: Time) -> io::Result<Fed> {
        let before = self.sent_bytes;
        let fed = self.feed_all(connection, now);
        self.live.counts.bytes_out.fetch_add(self.sent_bytes - before, Ordering::Relaxed);
        fed
    }

    /// What it is to get next, if that is nothing but at most `limit` bytes of the stream; then [`Viewer::took`]
    /// tells how much of it the socket took. Everything else is [`Viewer::feed`]'s business.
    pub(super) fn next_piece(&mut self, limit: usize) -> Option<Piece> {
        let (offset, head) = (self.reader.offset(), self.live.chain.head());
        let is_plain = self.state == State::Following && self.outgoing.is_empty() && self.blocks.is_none();
        let follows = is_plain && offset >= self.live.tail();
        let fits = offset < head && head - offset <= limit as u64;
        (follows && fits).then(|| self.reader.piece(head)).flatten()
    }

    /// Whether there is more for it, or the stream is over.
    pub(super) fn has_news(&self) -> bool {
        self.reader.offset() < self.live.chain.head() || self.live.has_ended()
    }

    /// The socket took `bytes` of the last [`Viewer::next_piece`]; `None` where it is full.
    pub(super) fn took(&mut self, bytes: Option<usize>, now: Time) {
        match bytes {
            Some(bytes) => {
                self.reader.advance(bytes);
                self.sent_bytes += bytes as u64;
                self.last_progress = now;
                self.live.counts.bytes_out.fetch_add(bytes as u64, Ordering::Relaxed);
            }
            None => self.state = State::Blocked,
        }
    }

    fn feed_all(&mut self, connection: &Connection, now: Time) -> io::Result<Fed> {
        if self.state == State::Blocked {
            self.state = State::Following;
        }
        loop {
            if !self.outgoing.is_empty() {
                let before = self.outgoing.len();
                let flushed = self.outgoing.flush(connection)?;
                if self.outgoing.len() < before {
                    self.last_progress = now;
                }
                if !flushed {
                    // An awaiting viewer has nothing queued but its head, and keeps its state.
                    if self.state == State::Following {
                        self.state = State::Blocked;
                    }
                    return Ok(Fed::Stays);
                }
            }
            if let State::Awaiting { moved } = self.state {
                if !self.enter(moved) {
                    return Ok(if self.live.has_ended() { Fed::Finished } else { Fed::Stays });
                }
                continue;
            }
            let offset = self.reader.offset();
            let end = if offset < self.live.tail() {
                // Fallen behind. What has begun of a packet is finished, then comes the newest key frame.
                let packet_end = offset.next_multiple_of(PACKET_BYTES as u64);
                if offset == packet_end {
                    if !self.lose_place(now) {
                        return Ok(Fed::Finished);
                    }
                    continue;
                }
                packet_end
            } else {
                self.live.chain.head()
            };
            if offset >= end {
                return Ok(if self.live.has_ended() { Fed::Finished } else { Fed::Stays });
            }
            let end = match &mut self.blocks {
                Some(blocks) if blocks.is_between(offset) => {
                    let key_frame = self.live.newest_entry().map(|entry| entry.offset);
                    self.outgoing.push(blocks.begin(offset, end, key_frame).to_vec());
                    continue;
                }
                Some(blocks) => end.min(blocks.end()),
                None => end,
            };
            match self.reader.send(connection, end)? {
                Sent::Bytes(count) => {
                    self.sent_bytes += count as u64;
                    self.last_progress = now;
                }
                Sent::Blocked => {
                    self.state = State::Blocked;
                    return Ok(Fed::Stays);
                }
                Sent::Gone => {
                    if !self.lose_place(now) {
                        return Ok(Fed::Finished);
                    }
                }
            }
        }
    }

    /// Sets the connection's pace, where the stream's has changed enough to matter: by an eighth up, where bytes
    /// would wait, by half down. Takes it away where `affordable` is false. To be called after each flush; nearly
    /// always it is two comparisons.
    pub(super) fn pace(&mut self, connection: &Connection, affordable: bool) {
        let wanted = match self.live.pace_bps() {
            0 if self.pace == Pace::Catching => return,
            // Pacing was switched off meanwhile.
            0 => UNPACED_BPS,
            _ if !affordable => UNPACED_BPS,
            wanted => wanted,
        };
        let has_caught_up = self.state == State::Following && self.reader.offset() >= self.live.chain.head();
        let current = match self.pace {
            Pace::At(current) => current,
            Pace::Catching if has_caught_up && affordable => 0,
            Pace::Catching => return,
        };
        if wanted > current.saturating_add(current / 8) || wanted < current / 2 {
            // A kindness to the network; a viewer can be served without it.
            let _ = connection.pace(wanted);
            self.pace = Pace::At(wanted);
        }
    }

    /// It has fallen behind. Returns whether it stays, and is to be moved forward.
    fn lose_place(&mut self, now: Time) -> bool {
        if !self.moves.may_move(self.slow, now) {
            self.live.counts.dropped_behind.fetch_add(1, Ordering::Relaxed);
            tracing::info!(stream = %self.live.name, "viewer dropped: it fell behind");
            return false;
        }
        self.live.counts.moved_forward.fetch_add(1, Ordering::Relaxed);
        if let Some(blocks) = &mut self.blocks {
            self.outgoing.push(blocks.fill(self.reader.offset()));
        }
        self.state = State::Awaiting { moved: true };
        true
    }

    /// Takes the newest entry ahead of the reader, if there is one.
    fn enter(&mut self, moved: bool) -> bool {
        let entry = self.live.newest_entry().filter(|entry| entry.offset >= self.reader.offset());
        let Some(entry) = entry else { return false };
        let prelude = entry.prelude(moved);
        self.outgoing.push(match &mut self.blocks {
            Some(blocks) => blocks.enter(entry.offset, &prelude, moved),
            None => prelude,
        });
        self.reader.seek(entry.offset);
        self.state = State::Following;
        true
    }
}
