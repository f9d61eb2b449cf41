//! Sessions of coded media in RTP (RFC 3550), whatever agrees on them: RTSP, or a session description in a file.
//!
//! ```text
//! CodedDescription ─► choice ─► tracks      datagrams ─► Receiver ─► units on one timeline, receiver reports
//! first units ─► offer ─► description       units ─► Sender ─► packets, sender reports
//! ```
//! * [`choice`]: which sections of a description are taken.
//! * [`receiver`]: access units of a session's tracks; [`described`]: the same, with the ports that a description in a file names.
//! * [`sender`]: packets of access units; [`offer`]: what they are, and the description of it; [`capture_times`]: when they were
//!   captured. [`program`]: all of it for a transport stream, on the timeline of [`continuity`].

pub mod capture_times;
pub mod choice;
pub mod continuity;
pub mod described;
pub mod offer;
pub mod program;
pub mod receiver;
pub mod sender;
