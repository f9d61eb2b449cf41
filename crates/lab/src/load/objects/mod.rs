//! Objects that grow, as the segments of a live stream do, and of which every byte is known: clients that ask for them
//! see what a cache in front of their origin does to them.
//!
//! ```text
//! Origin (Timeline, Bytes) ─► [ any HTTP cache ] ─► Followers ─► Figures
//!    └ Served: what the cache asked for
//! ```
//! Object `n` begins when `n` periods of its [`Timeline`] have passed, has its first chunk then, and the others a step
//! after each other. A chunk begins with a stamp: which it is, and when it became available.

mod bytes;
mod figures;
mod followers;
mod origin;
mod repeat;

pub use bytes::{Bytes, Reader, STAMP_BYTES};
pub use figures::Figures;
pub use followers::Followers;
pub use origin::{Origin, Served};
pub use repeat::Repeat;

use glassline_media::Time;
use std::time::Duration;

/// How an object grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Chunks of an object.
    pub chunks: u32,
    /// From one to the next.
    pub step: Duration,
    /// Of each chunk.
    pub chunk_bytes: usize,
}

impl Shape {
    /// From the begin of an object to that of the next one.
    pub fn period(self) -> Duration {
        self.step * self.chunks
    }

    /// Of a whole object.
    pub fn object_bytes(self) -> usize {
        self.chunk_bytes * self.chunks as usize
    }
}

/// When each chunk becomes available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// When object 0 begins.
    pub began: Time,
    /// How objects grow.
    pub shape: Shape,
}

impl Timeline {
    /// When object `number` begins.
    pub fn begin_of(self, number: u64) -> Time {
        let periods = u128::from(number) * self.shape.period().as_nanos();
        self.began + Duration::from_nanos(u64::try_from(periods).unwrap_or(u64::MAX))
    }

    /// When chunk `chunk` of object `number` is there.
    pub fn time_of(self, number: u64, chunk: u32) -> Time {
        self.begin_of(number) + self.shape.step * chunk
    }

    /// The object that grows at `now`.
    pub fn object_at(self, now: Time) -> u64 {
        let passed = now.since(self.began).as_nanos() / self.shape.period().as_nanos().max(1);
        u64::try_from(passed).unwrap_or(u64::MAX)
    }
}

/// The path of object `number`. Our relay keeps what ends so under `/live`.
pub fn path_of(number: u64) -> String {
    format!("/live/bench/video/{number}.m4s")
}

/// The path of an object of `bytes` that is there at once and does not change.
pub fn fixed_path(bytes: usize) -> String {
    format!("/live/bench/fixed-{bytes}.m4s")
}
