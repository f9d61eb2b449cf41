//! Viewers of segmented live video: LL-HLS by blocking reloads and preload hints, LL-DASH by number while segments grow.
//!
//! ```text
//! playlist ─► inspect::segmented::hls | dash ─► what is asked for next ─► Viewers (a Crowd of exchange) ─► Chunks ─► LiveTally ─► LiveReport
//! ```
//! Playlists and chunks are read by pure parsers that take whatever a server sends. A chunk's age is told by its `prft`.

mod chunks;
mod dash;
mod report;
mod tally;
mod track;
mod viewers;

pub use chunks::{Chunk, Chunks};
pub use dash::{Manifest, Template};
pub(crate) use report::STEPS_MS;
pub use report::{Labels, LiveReport, upstream_fetches};
pub use tally::LiveTally;
pub use viewers::{Protocol, Settings, Viewers};
