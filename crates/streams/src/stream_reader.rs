//! One reader of one live stream: how it begins, follows, falls behind, and when it has had all.
//!
//! ```text
//! StreamReader::new ─► no place yet ── Entered ─► Data … Data ─► Pending … Data ─► Ended
//!                           ▲                            │
//!                           └────── lose_place ◄─────── Behind
//! ```
//! What is done with the bytes is the caller's: viewers have them sent by the kernel ([`StreamReader::spool`]), the packager
//! and outputs read them ([`StreamReader::read`]).

use crate::live::Live;
use glassline_delivery::stream::{Entry, Prebuffer};
use glassline_io::spool::{LinkFile, Reader};
use glassline_media::Time;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The oldest part of a backlog: all that there is.
const ALL_OF_IT: Prebuffer = Prebuffer::Bytes(u64::MAX);

/// At which entry point a reader begins, and begins again after it fell behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entering {
    /// At the newest: for what is sent on as it comes.
    Newest,
    /// At first as far back as this says, or the stream's settings where it says nothing; then at the newest.
    Prebuffered(Option<Prebuffer>),
    /// At the oldest that is kept: for what is to miss as little as possible.
    Oldest,
}

/// Where a reader is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// Nowhere: it waits for an entry point, the first one, or one behind the place that it lost.
    Awaiting {
        /// Whether it lost one.
        moved: bool,
    },
    /// At its offset.
    Following,
}

/// What is next for a reader.
#[derive(Clone, Debug)]
pub enum Next {
    /// It is at `entry` from now on; the [prelude](Entry::prelude) of that comes before the bytes there.
    Entered {
        /// The entry point.
        entry: Entry,
        /// Whether it was elsewhere in the stream before.
        moved: bool,
    },
    /// There are bytes from its offset on.
    Data {
        /// Up to this offset.
        until: u64,
    },
    /// The byte at its offset is kept no longer, or will not be in a moment.
    Behind {
        /// Up to this offset there are bytes that come after it.
        until: u64,
    },
    /// Nothing now.
    Pending,
    /// Nothing any more: the stream is over, or goes on with a header that this reader has not had.
    Ended,
}

/// A reader of one stream, as the head of this module tells. It does not wait: the caller is told of news by its thread's
/// [`Threads`](crate::Threads), or by the waker of a [`Subscription`](crate::Subscription).
#[derive(Debug)]
pub struct StreamReader {
    live: Arc<Live>,
    spool: Reader,
    entering: Entering,
    place: Place,
    times_moved: u32,
    entered_at: u64,
}

/// A reader as one process leaves it to the next, but for its stream.
#[derive(Clone, Copy, Debug)]
pub struct ReaderState {
    /// [`StreamReader::offset`].
    pub offset: u64,
    /// Where it enters.
    pub entering: Entering,
    /// Whether it has a place.
    pub place: Place,
    /// [`StreamReader::times_moved`].
    pub times_moved: u32,
    /// [`StreamReader::entered_at`].
    pub entered_at: u64,
}

impl StreamReader {
    /// A reader that has no place yet.
    pub fn new(live: Arc<Live>, entering: Entering) -> StreamReader {
        let spool = Reader::new(live.chain.clone(), 0);
        let place = Place::Awaiting { moved: false };
        StreamReader { live, spool, entering, place, times_moved: 0, entered_at: 0 }
    }

    /// What the next process needs of it, beside [`StreamReader::own_link`].
    pub fn state(&self) -> ReaderState {
        let StreamReader { entering, place, times_moved, entered_at, .. } = *self;
        ReaderState { offset: self.offset(), entering, place, times_moved, entered_at }
    }

    /// The reader that another process left, with the part of the stream that it alone still had.
    pub fn restore(live: Arc<Live>, state: ReaderState, own_link: Option<(u64, OwnedFd)>) -> StreamReader {
        let ReaderState { offset, entering, place, times_moved, entered_at } = state;
        let spool = Reader::restore(live.chain.clone(), offset, own_link);
        StreamReader { live, spool, entering, place, times_moved, entered_at }
    }

    /// The stream.
    pub fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// The offset of the next byte.
    pub fn offset(&self) -> u64 {
        self.spool.offset()
    }

    /// Where it entered the stream last.
    pub fn entered_at(&self) -> u64 {
        self.entered_at
    }

    /// How often it has lost its place.
    pub fn times_moved(&self) -> u32 {
        self.times_moved
    }

    /// Whether it has a place.
    pub fn is_placed(&self) -> bool {
        self.place == Place::Following
    }

    /// A part of the stream that only this reader still has.
    pub fn own_link(&self) -> Option<LinkFile> {
        self.spool.own_link()
    }

    /// The bytes at its place, for the kernel to send.
    pub fn spool(&mut self) -> &mut Reader {
        &mut self.spool
    }

    /// What is next. At its entry point it has its place by that.
    pub fn poll(&mut self, now: Time) -> Next {
        // Asked first: what was appended before the end is then seen below.
        let has_ended = self.live.has_ended();
        let nothing = if has_ended { Next::Ended } else { Next::Pending };
        let Place::Awaiting { moved } = self.place else {
            let (offset, seam) = (self.offset(), self.live.seam_behind(self.entered_at));
            let head = self.live.chain.head();
            let until = seam.map_or(head, |seam| head.min(seam));
            return match seam {
                Some(seam) if offset >= seam => Next::Ended,
                _ if offset >= until => nothing,
                _ if offset < self.live.tail() => Next::Behind { until },
                _ => Next::Data { until },
            };
        };
        if moved && self.live.seam_behind(self.entered_at).is_some() {
            return Next::Ended;
        }
        match self.entry(moved, now).filter(|entry| entry.offset >= self.offset()) {
            Some(entry) => {
                self.spool.seek(entry.offset);
                self.entered_at = entry.offset;
                self.place = Place::Following;
                Next::Entered { entry, moved }
            }
            None => nothing,
        }
    }

    fn entry(&self, moved: bool, now: Time) -> Option<Entry> {
        match self.entering {
            Entering::Oldest => self.live.entry_to_join(Some(ALL_OF_IT), now),
            Entering::Prebuffered(prebuffer) if !moved => self.live.entry_to_join(prebuffer, now),
            Entering::Prebuffered(_) | Entering::Newest => self.live.newest_entry(),
        }
    }

    /// Whether it has had all up to where another publisher's header is needed: what follows is for a new reader.
    pub fn is_at_seam(&self) -> bool {
        let seam = self.live.seam_behind(self.entered_at);
        match self.place {
            Place::Following => seam.is_some_and(|seam| self.offset() >= seam),
            Place::Awaiting { moved } => moved && seam.is_some(),
        }
    }

    /// Where there are bytes at its place, up to where; `None` where [`StreamReader::poll`] has something else to say.
    pub fn data_until(&self) -> Option<u64> {
        let (offset, head) = (self.offset(), self.live.chain.head());
        let is_plain = self.is_placed() && self.live.seam_behind(self.entered_at).is_none();
        (is_plain && offset < head && offset >= self.live.tail()).then_some(head)
    }

    /// It gives its place up, and enters the stream again at an entry point ahead.
    pub fn lose_place(&mut self) {
        self.place = Place::Awaiting { moved: true };
        self.times_moved = self.times_moved.saturating_add(1);
    }

    /// Reads bytes from its place on, up to `until` and as many as fit. Returns how many; `None` where they are kept no longer.
    pub fn read(&mut self, into: &mut [u8], until: u64) -> io::Result<Option<usize>> {
        self.spool.read(into, until)
    }
}

#[cfg(test)]
#[path = "stream_reader_tests.rs"]
mod tests;
