//! Recordings of live streams: what they are called, what their index says, and which of their segments a time has.
//!
//! ```text
//! NAME/SESSION/RENDITION/init-E.mp4      the CMAF header of epoch E
//! NAME/SESSION/RENDITION/N.m4s           segment N
//! NAME/SESSION/ts/N.ts                   the same of pictures and sound as MPEG-TS, where that is asked for
//! NAME/SESSION/index/KKKKKKKK.jsonl      part K of the index: what was recorded, a line a segment
//! ```
//! A session is one recording: from the begin of a stream's presentation to its end. [`names`] has the addresses of its objects
//! in a store and in playlists; [`index`] writes and reads the parts of its index, and joins them to a [`index::Recording`].
//!
//! ```text
//! ?from=T&to=T ─► query ─┐
//! index, of each session ┴─► window ─► playlist ─► HLS, DASH
//! ```
//! [`query`] understands the times that viewers ask for, [`window`] says which segments lie in them, and [`playlist`] renders these.
//! [`export`] makes files of them.
//!
//! What is recorded goes through a [`spool`] on disk, an append-only [`log`]; [`upload`] decides when the store gets the next object.

pub mod export;
pub mod index;
pub mod location;
pub mod log;
pub mod mpeg_ts;
pub mod names;
pub mod playlist;
pub mod query;
pub mod retention;
pub mod spool;
pub mod store_clock;
pub mod upload;
pub mod window;
