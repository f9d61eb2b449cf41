//! Follows a stream's packets without keeping its frames: for a look at it, whatever size its frames have.

use super::memory::FramePool;
use super::{Arrived, Receiver, Settings, Tap, Watch};
use glassline_io::clock::Clock;
use glassline_io::udp::Granted;
use glassline_media::Time;
use std::io;
use std::time::Duration;

/// What is known of a frame without its samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observed {
    /// When it was captured.
    pub captured: Time,
    /// When its first packet came.
    pub began: Time,
    /// Whether its capture time is that of its time stamp, and not that of its arrival.
    pub is_related: bool,
}

/// Receives one stream and keeps none of its samples. It takes as little memory for the largest frames as for small ones.
pub struct Observer(Receiver);

impl Observer {
    /// Opens the sockets and begins to receive; `tap` sees all that comes. [`Settings::frames`] and [`Settings::layout`] say
    /// nothing here.
    ///
    /// # Errors
    /// As [`Receiver::start`] has them.
    ///
    /// # Panics
    /// As [`Receiver::start`].
    pub fn start(settings: &Settings, clock: Clock, tap: Box<dyn Tap>) -> io::Result<Observer> {
        let pool = FramePool::of_nothing(&settings.stream.format);
        Receiver::open(settings, clock, Some(tap), (pool, None)).map(Observer)
    }

    /// How much room the kernel gave each path.
    pub fn granted(&self) -> &[Granted] {
        self.0.granted()
    }

    /// For another thread, to look at it and to end it.
    pub fn watch(&self) -> Watch {
        self.0.watch()
    }

    /// The next frame; `None` where none comes within `timeout`.
    ///
    /// # Errors
    /// As [`Receiver::next`] has them.
    pub fn next(&mut self, timeout: Duration) -> io::Result<Option<Observed>> {
        let Some(Arrived { done, .. }) = self.0.next_arrived(timeout)? else { return Ok(None) };
        let receiver = &mut self.0;
        let utc = receiver.clock.utc_at(done.began);
        let captured = receiver.media_clock.captured(done.timestamp, done.began, utc);
        let is_related = receiver.media_clock.is_related();
        Ok(Some(Observed { captured, began: done.began, is_related }))
    }
}
