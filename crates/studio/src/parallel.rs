//! Threads for cores that know none: the [`Parallel`] that the VP8 encoder is handed.

use glassline_codec::vp8::Parallel;
use glassline_io::pool::Pool;
use std::io;

/// Runs tasks on some threads, which wait for them between two pictures and end with this value.
///
/// ```
/// # use glassline_studio::parallel::Threads;
/// # use glassline_codec::vp8::{EncodeWorkspace, Request, State, encode_in};
/// # use glassline_media::{Picture, PixelFormat, Size, Time};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let threads = Threads::new(2)?;
/// # let picture = Picture::new(PixelFormat::I420, Size::new(64, 48)?, Time::ZERO);
/// let mut workspace = EncodeWorkspace::new();
/// let encoded = encode_in(&State::new(), &picture, &Request::default(), &mut workspace, &threads)?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Threads(Pool);

impl Threads {
    /// `count` threads, the one that encodes being one of them; 0 is 1.
    ///
    /// # Errors
    /// Where the system makes no more threads.
    pub fn new(count: usize) -> io::Result<Threads> {
        Pool::new(count).map(Threads)
    }
}

impl Parallel for Threads {
    fn threads(&self) -> usize {
        self.0.threads()
    }

    fn run(&self, tasks: &mut [&mut (dyn FnMut() + Send)]) {
        self.0.run(tasks);
    }
}
