//! Streams that are watched for alarms.
//!
//! ```text
//! bytes of MPEG-TS ─► Feed: Demuxer ─► delivery::watch::Watcher ─► Raised
//!                              └─ units that are wanted ─► Decoders ─► samples, figures of pictures
//! Streams ─► Service: a thread with a Feed for each stream ─┬► AlarmEvent ─► log, API, metrics
//!                                                            └► Jpeg: the newest picture of each stream
//! ```
//! [`Feed`] is one stream, for `probe`; [`Service`] is the thread of a server. Both decode on the thread that calls them.
#![forbid(unsafe_code)]
// A byte index within a letter panics, and text comes from outside: `get` and `split_at_checked` say that there is none.
#![cfg_attr(not(test), warn(clippy::string_slice))]

mod alarms;
mod decoders;
mod entry;
mod feed;
mod judge;
mod mutes;
mod pictures;
mod service;
mod shown;
mod state_file;
mod still;
mod subtitles;
#[cfg(feature = "avcodec")]
mod thumbnail;
#[cfg(not(feature = "avcodec"))]
#[path = "no_thumbnail.rs"]
mod thumbnail;

pub use alarms::{Alarms, Figure, Listener, MUTE_MAX, Report};
pub use entry::Entry;
pub use feed::{Counts, Feed};
pub use mutes::Mute;
pub use pictures::Jpeg;
pub use service::{Service, Settings};
pub use still::{decodes, still_of};
