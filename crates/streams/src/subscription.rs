//! Reading a stream from inside this process: in bytes of its mux, or in access units.
//!
//! ```text
//! Streams::subscribe ─► Subscription::read ─► entered, bytes, fell behind, pending, ended
//!                            └─ Units::poll ─► program, access unit, the same
//! publisher ─► Live ─► Streams::announce ─► Subscribers ─► Waker::wake, once until the subscription is read again
//! ```
//! A reader that is slow loses its place when the stream's backlog is over, and enters it again at a later entry point: it holds
//! neither the publisher nor other readers up.

use crate::live::Live;
use crate::stream_reader::{Next, StreamReader};
use crate::subscribers::Subscriber;
use glassline_delivery::stream::Mux;
use glassline_io::clock::Clock;
use glassline_media::AccessUnit;
use glassline_media::container::ts::Program;
use glassline_media::container::ts::demux::{Demuxer, Event};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::task::Waker;

/// Bytes that are read of a stream at once for access units.
const READ_BYTES: usize = 64 << 10;

/// What is next of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// The next bytes begin at an entry point, where decoding can begin; these come before them. `moved`: bytes between are left out.
    Entered {
        /// Tables and parameter sets, or the mux's header.
        prelude: Vec<u8>,
        /// Whether it was elsewhere in the stream before.
        moved: bool,
    },
    /// So many bytes were read.
    Bytes(usize),
    /// The next byte is kept no longer: [`Read::Entered`] comes next, once there is an entry point ahead.
    FellBehind,
    /// Nothing now; the waker is woken when there is more.
    Pending,
    /// Nothing any more: the stream is over, or goes on with another header, for which it takes another subscription.
    Ended,
}

/// A reader of one stream. Dropping it ends it. It counts as no viewer, and the stream ends as without it where its publisher stays
/// away, but not before that to make room for another.
pub struct Subscription {
    reader: StreamReader,
    subscriber: Arc<Subscriber>,
    clock: Clock,
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Subscription");
        shown
            .field("stream", &self.reader.live().name)
            .field("offset", &self.reader.offset())
            .finish_non_exhaustive()
    }
}

impl Subscription {
    /// Has `waker` woken when there is more for `reader`.
    pub(crate) fn new(reader: StreamReader, waker: Waker, clock: Clock) -> Subscription {
        let subscriber = reader.live().subscribers.add(waker);
        Subscription { reader, subscriber, clock }
    }

    /// The stream.
    pub fn live(&self) -> &Arc<Live> {
        self.reader.live()
    }

    /// Times that it fell behind.
    pub fn times_moved(&self) -> u32 {
        self.reader.times_moved()
    }

    /// What the stream's bytes are.
    pub fn mux(&self) -> Mux {
        self.reader.live().mux
    }

    /// The offset of the next byte in the stream.
    pub fn offset(&self) -> u64 {
        self.reader.offset()
    }

    /// Reads what is next, bytes into the beginning of `into`, which is not empty. Never waits.
    ///
    /// # Errors
    /// The system cannot read memory that the stream is in. The same call may be tried again.
    pub fn read(&mut self, into: &mut [u8]) -> io::Result<Read> {
        self.subscriber.looks();
        Ok(match self.reader.poll(self.clock.now()) {
            Next::Entered { entry, moved } => Read::Entered { prelude: entry.prelude(moved), moved },
            Next::Data { until } => match self.reader.read(into, until)? {
                Some(count) => Read::Bytes(count),
                None => self.fell_behind(),
            },
            Next::Behind { .. } => self.fell_behind(),
            Next::Pending => Read::Pending,
            Next::Ended => Read::Ended,
        })
    }

    fn fell_behind(&mut self) -> Read {
        self.reader.lose_place();
        Read::FellBehind
    }

    /// The same in access units; `None` where its mux is only carried: what is in that is not known.
    pub fn into_units(self) -> Option<Units> {
        let is_known = self.mux() == Mux::MpegTs;
        is_known.then(|| Units {
            subscription: self,
            demuxer: Demuxer::new(),
            buffer: vec![0; READ_BYTES],
            has_ended: false,
        })
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.reader.live().subscribers.remove(&self.subscriber);
    }
}

/// What is next of a stream, in access units.
#[derive(Clone, Debug, PartialEq)]
pub enum Unit {
    /// The program is known, or another one than before.
    Program(Program),
    /// An access unit of the elementary stream `pid`. Time stamps are unwrapped, those of all elementary streams on one scale.
    Unit {
        /// The elementary stream.
        pid: u16,
        /// The unit.
        unit: AccessUnit,
    },
    /// Units are left out here: it fell behind.
    FellBehind,
    /// Nothing now; the waker is woken when there is more.
    Pending,
    /// Nothing any more.
    Ended,
}

/// A reader of one stream of MPEG-TS in access units.
pub struct Units {
    subscription: Subscription,
    demuxer: Demuxer,
    buffer: Vec<u8>,
    has_ended: bool,
}

impl Units {
    /// What is next. Never waits. A unit of a picture is whole when the next one begins, or where the stream says its length.
    ///
    /// # Errors
    /// Those of [`Subscription::read`].
    pub fn poll(&mut self) -> io::Result<Unit> {
        loop {
            match self.demuxer.poll() {
                Some(Event::Program(program)) => return Ok(Unit::Program(program)),
                Some(Event::AccessUnit { pid, unit, .. }) => return Ok(Unit::Unit { pid, unit }),
                Some(Event::Data { .. } | Event::Pcr { .. }) => continue,
                None if self.has_ended => return Ok(Unit::Ended),
                None => {}
            }
            match self.subscription.read(&mut self.buffer)? {
                Read::Entered { prelude, .. } => self.demuxer.push(&prelude),
                Read::Bytes(count) => self.demuxer.push(&self.buffer[..count]),
                Read::FellBehind => return Ok(Unit::FellBehind),
                Read::Pending => return Ok(Unit::Pending),
                Read::Ended => {
                    self.demuxer.finish();
                    self.has_ended = true;
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "subscription_tests.rs"]
mod tests;
