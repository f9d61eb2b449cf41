//! Transport: media over datagrams, and RTMP. Pure state machines: datagrams and `now` come in, bytes and deadlines go out; no
//! socket, no clock, no thread.
//!
//! * [`rtmp`]: RTMP of publishers.
//! * [`rtp`]: packets of RTP, their order, MPEG-TS in them.
//! * [`raw_video`]: uncompressed video over RTP.
//! * [`rtsp`]: sessions with cameras.
//! * [`sdp`]: session descriptions of video, audio and ancillary data over RTP.
//! * [`ancillary`]: captions, time code and what else goes beside the picture, over RTP.
//! * [`srt`]: SRT in live mode, both ends; [`srtla`]: its packets over several lines, the receiving end.
//! * [`pacing`]: when the next burst of datagrams may leave.
//! * [`link`]: channels between two peers over a bad network, encrypted.
//! * [`capacity`]: how much a path carries, found by its queue's delay.
//! * [`emulator`]: a network in virtual time: rates, queues, delays, losses.
#![forbid(unsafe_code)]
// A byte index within a letter panics, and text comes from outside: `get` and `split_at_checked` say that there is none.
#![cfg_attr(not(test), warn(clippy::string_slice))]

pub mod ancillary;
pub mod capacity;
mod counter;
pub mod emulator;
pub mod link;
pub mod pacing;
pub mod raw_video;
pub mod rtmp;
pub mod rtp;
pub mod rtsp;
pub mod sdp;
mod splitmix;
pub mod srt;
pub mod srtla;
mod subscriber;
