//! Streams that come in segments, from any server: HLS, with parts and without, and DASH, in MPEG-TS and fragmented MP4.
//!
//! ```text
//! playlist   ─► hls  ─┐
//!                     ├─► Listing ─► Follower: what is asked for next ─► SegmentReader: access units ─► Merge ─► Piece
//! manifest   ─► dash ─┘              (a thread for each rendition: Session)
//! ```
//! All of it is pure but [`Session`] and its requests. What a server sends is bounded: playlists to 4 MiB, segments of one
//! listing to 20 000 whatever it repeats, those of a live stream that are listed and not got to 200, and what waits of one
//! rendition for another one to 8 MiB.

mod caller;
pub mod dash;
pub mod follow;
pub mod hls;
mod listing;
mod merge;
mod session;
pub mod text;
mod units;
mod xml;

pub use caller::CallFailure;
pub use listing::{Address, Again, Listing, Object};
pub use merge::Merge;
pub use session::{Session, SessionError};
pub use units::{Piece, SegmentReader, Wanted};
