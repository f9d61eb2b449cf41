//! The lab: what measures live video from outside. Everything here is a black box to what it measures, and works
//! with other products too.
//!
//! * [`load`]: many viewers of one server, and whether each gets the right bytes in time.
//! * [`link`]: an emulated network between a command and the rest of the machine.
//! * [`experiment`]: direct video over an emulated network in virtual time, among it the experiments of Salsify's paper;
//!   [`clip`] makes their video.
//! * [`real_time`]: the same video in real time behind a link, ours or that of a browser's WebRTC.
//! * [`glass`]: how old pictures are at the end of any chain, by their barcodes, and whether stages add up to that.
//! * [`path`]: a line measured before it carries anything, by bursts in both directions; [`path_socket`] runs that on sockets.
//! * [`report`] draws what is measured here.
//!
//! Streams are looked at by [`glassline_inspect`], which makes no load and needs none of this.
#![forbid(unsafe_code)]
// A byte index within a letter panics, and text comes from outside: `get` and `split_at_checked` say that there is none.
#![cfg_attr(not(test), warn(clippy::string_slice))]

pub mod clip;
pub mod experiment;
pub mod glass;
pub mod link;
pub mod load;
pub mod path;
pub mod path_socket;
pub mod real_time;
pub mod report;
