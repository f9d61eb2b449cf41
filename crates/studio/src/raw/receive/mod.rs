//! One stream of uncompressed video: a thread that has the kernel write packets into frames, and pictures for the caller.
//!
//! ```text
//!  Flow (or two) ─► recvmmsg into frames, as Depacketizer::plan says ─► Depacketizer::take ─► frames ─┐  network thread
//!                                                                                                     ▼
//!             Receiver::next: holes concealed, capture time, Picture ◄── as many as the pool has ─────┘  caller's thread
//! ```
//! A caller that asks too late loses whole frames, which are counted, and never packets of those that are received meanwhile.

mod conceal;
mod memory;
mod network;
mod observe;
mod silence;
mod slots;
mod tap;
#[cfg(test)]
mod tests;

use conceal::Concealer;
use glassline_io::clock::Clock;
use glassline_io::process::{pin_thread, prefer_thread};
use glassline_io::udp::Granted;
use glassline_io::udp::flow::{Flow, FlowSettings};
use glassline_media::pixels::FrameUnpacker;
use glassline_media::{Colour, FieldOrder, Layout, Picture, Time};
use glassline_transport::raw_video::{self, Counters, Depacketizer, Done, MediaClock};
use glassline_transport::rtp::source::SourceLock;
use memory::{FrameMemory, FramePool};
use network::{Network, Shared};
pub use observe::{Observed, Observer};
pub use silence::{PathNews, PathWatch, SILENCE, StreamNews, StreamWatch};
use slots::Slots;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
pub use tap::{Message, Tap};

/// Frames that the depacketizer and the concealment hold by themselves.
pub(super) const FRAMES_LEAST: usize = 4;
/// Frames that wait to be told of where they are not kept; beyond that they are counted alone.
const OBSERVED_MAX: usize = 64;

/// What is received, and with what.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The stream.
    pub stream: raw_video::Settings,
    /// Its paths, as many as the stream has.
    pub paths: Vec<FlowSettings>,
    /// Which senders' packets are taken.
    pub lock: SourceLock,
    /// What is added to the media clock where time stamps are those of a clock that all share ([`MediaClock::new`]).
    pub direct: Option<u32>,
    /// What its samples mean.
    pub colour: Colour,
    /// The order of its fields, where frames have some.
    pub fields: Option<FieldOrder>,
    /// Whether pictures are in pgroups, as they come, or in planes. The kernel writes pgroups into frames; into planes they are
    /// unpacked packet by packet, while the processor's cache has them.
    pub layout: Layout,
    /// Frames that there is memory for. A caller that is late by more loses frames.
    pub frames: usize,
    /// The processor that the thread stays on.
    pub processor: Option<usize>,
}

/// What has come so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Of the merged stream.
    pub counters: Counters,
    /// Bytes of all datagrams, of both paths.
    pub bytes: u64,
    /// Datagrams that the kernel dropped for want of room, at all paths.
    pub kernel_drops: u64,
    /// Frames of the pool that are free.
    pub free_frames: usize,
}

impl Report {
    /// Frames that are out, with holes or without.
    pub const fn frames(&self) -> u64 {
        self.counters.frames + self.counters.incomplete
    }
}

/// Looks at a receiver from another thread.
#[derive(Clone, Debug)]
pub struct Watch(Arc<Shared>);

impl Watch {
    /// What has come so far.
    pub fn report(&self) -> Report {
        self.0.report()
    }

    /// Tells the receiver to end, as [`Receiver::stop`].
    pub fn stop(&self) {
        self.0.end();
    }
}

/// A frame that is out, in its memory.
struct Arrived {
    memory: FrameMemory,
    done: Done,
}

/// A frame.
#[derive(Clone, Debug)]
pub struct Frame {
    /// In pgroups or planes, with its capture time. What was missing is as it was in the frame before.
    pub picture: Picture,
    /// Its RTP time stamp.
    pub timestamp: u32,
    /// When its first packet came.
    pub began: Time,
    /// When its last one did.
    pub ended: Time,
    /// Packets that are missing in it.
    pub lost: u64,
    /// Whether its capture time is that of its time stamp, and not that of its arrival.
    pub is_related: bool,
}

/// Receives one stream.
pub struct Receiver {
    frames: mpsc::Receiver<Arrived>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<io::Result<()>>>,
    granted: Vec<Granted>,
    format: raw_video::Format,
    colour: Colour,
    fields: Option<FieldOrder>,
    media_clock: MediaClock,
    clock: Clock,
    concealer: Concealer,
    before: Option<Picture>,
    count: usize,
    is_huge: bool,
}

impl Receiver {
    /// Opens the sockets and begins to receive.
    ///
    /// # Errors
    /// The sockets', as [`Flow::open`] has them; those of the memory ([`Pool::new`]); where a thread cannot be had, or not on
    /// that processor.
    ///
    /// # Panics
    /// If there are not as many paths as the stream has.
    pub fn start(settings: &Settings, clock: Clock) -> io::Result<Receiver> {
        Receiver::start_tapped(settings, clock, None)
    }

    /// The same, and `tap` sees all that comes.
    ///
    /// # Errors
    /// As [`Receiver::start`] has them.
    ///
    /// # Panics
    /// As [`Receiver::start`].
    pub fn start_tapped(
        settings: &Settings,
        clock: Clock,
        tap: Option<Box<dyn Tap>>,
    ) -> io::Result<Receiver> {
        let format = settings.stream.format;
        // Before the sockets, which packets come to from then on: it may take a second.
        let pool = FramePool::new(&format, settings.layout, settings.frames.max(FRAMES_LEAST))?;
        let unpacker =
            FrameUnpacker::new(format.pixels(), format.size()).filter(|_| settings.layout == Layout::Planar);
        Receiver::open(settings, clock, tap, (pool, unpacker))
    }

    fn open(
        settings: &Settings,
        clock: Clock,
        tap: Option<Box<dyn Tap>>,
        (pool, unpacker): (FramePool, Option<FrameUnpacker>),
    ) -> io::Result<Receiver> {
        assert_eq!(settings.paths.len(), settings.stream.paths, "a flow for each path");
        let is_polling = settings.paths.iter().any(|path| path.busy_poll.is_some());
        let format = settings.stream.format;
        let (count, is_huge) = (pool.count(), pool.is_huge());
        let slots = Slots::new(pool, unpacker.clone());
        let flows: Vec<Flow> = settings.paths.iter().map(Flow::open).collect::<io::Result<_>>()?;
        let granted = flows.iter().map(Flow::buffer).collect();
        // As many as there is memory for never fill it.
        let (out, frames) = mpsc::sync_channel(count.max(OBSERVED_MAX));
        let shared = Arc::new(Shared::default());
        let depacketizer = Depacketizer::new(settings.stream).with_lock(settings.lock.clone());
        let network =
            Network::new((flows, is_polling), depacketizer, slots, (clock, tap), (out, shared.clone()))?;
        let (processor, (pinned, is_pinned)) = (settings.processor, mpsc::channel());
        let thread = thread::Builder::new().name("raw video".to_owned()).spawn(move || {
            let pinning = processor.map_or(Ok(()), pin_thread);
            let is_good = pinning.is_ok();
            if !prefer_thread() {
                tracing::debug!("the receiving thread has an ordinary priority (RLIMIT_NICE)");
            }
            // The thread that has started it waits for this.
            let _ = pinned.send(pinning);
            if is_good { network.run() } else { Ok(()) }
        })?;
        is_pinned.recv().unwrap_or(Ok(()))?;
        Ok(Receiver {
            frames,
            shared,
            thread: Some(thread),
            granted,
            format,
            colour: settings.colour,
            fields: settings.fields,
            media_clock: MediaClock::new(settings.direct),
            clock,
            concealer: Concealer::new(&format, unpacker),
            before: None,
            count,
            is_huge,
        })
    }

    /// What its frames are.
    pub fn format(&self) -> raw_video::Format {
        self.format
    }

    /// How much room the kernel gave each path.
    pub fn granted(&self) -> &[Granted] {
        &self.granted
    }

    /// Frames that there is memory for.
    pub fn pool_frames(&self) -> usize {
        self.count
    }

    /// Whether that memory is in huge pages.
    pub fn is_huge(&self) -> bool {
        self.is_huge
    }

    /// What has come so far.
    pub fn report(&self) -> Report {
        self.shared.report()
    }

    /// For another thread, to look at it and to end it.
    pub fn watch(&self) -> Watch {
        Watch(self.shared.clone())
    }

    /// Tells the thread to end, within a tenth of a second. Frames that are there are still to be had.
    pub fn stop(&self) {
        self.shared.end();
    }

    /// The next frame; `None` where none comes within `timeout`.
    ///
    /// # Errors
    /// Why nothing comes any more; `UnexpectedEof` where it was [stopped](Receiver::stop).
    pub fn next(&mut self, timeout: Duration) -> io::Result<Option<Frame>> {
        Ok(self.next_arrived(timeout)?.map(|arrived| self.frame(arrived)))
    }

    fn next_arrived(&mut self, timeout: Duration) -> io::Result<Option<Arrived>> {
        match self.frames.recv_timeout(timeout) {
            Ok(arrived) => Ok(Some(arrived)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => match self.thread.take().map(JoinHandle::join) {
                Some(Ok(Err(error))) => Err(error),
                Some(Err(_)) => Err(io::Error::other("the thread that receives has panicked")),
                None | Some(Ok(Ok(()))) => Err(io::ErrorKind::UnexpectedEof.into()),
            },
        }
    }

    fn frame(&mut self, Arrived { mut memory, done }: Arrived) -> Frame {
        if !done.holes.is_empty() {
            self.concealer.fill(&mut memory, &done.holes, self.before.as_ref());
        }
        let captured = self.media_clock.captured(done.timestamp, done.began, self.clock.utc_at(done.began));
        let mut picture = memory.into_picture(captured);
        self.before = Some(picture.clone());
        (picture.colour, picture.fields) = (self.colour, self.fields);
        picture.captured_utc = Some(self.clock.utc_at(captured));
        Frame {
            picture,
            timestamp: done.timestamp,
            began: done.began,
            ended: done.ended,
            lost: done.lost,
            is_related: self.media_clock.is_related(),
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
