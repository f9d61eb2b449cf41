//! The operating system: the only room that touches it.
//!
//! Thin and, but for [`resolve`], blocking-free: each module wraps one thing of the kernel (a chain of memory
//! files, sockets, readiness, clocks) in a safe type. No protocol, no policy. The rooms above marry these to the pure cores.
#![deny(unsafe_code)]
// A byte index within a letter panics, and text comes from outside: `get` and `split_at_checked` say that there is none.
#![cfg_attr(not(test), warn(clippy::string_slice))]

pub mod batch;
pub mod capture;
pub mod child;
pub mod client;
pub mod clock;
pub mod containment;
pub mod direct_file;
pub mod discovery;
pub mod handover;
pub mod header_marks;
pub mod kept_secret;
pub mod local;
pub mod machine;
mod map;
pub mod namespace;
pub mod nic;
pub mod pages;
#[cfg(feature = "alsa")]
pub mod playback;
pub mod poll;
pub mod pool;
pub mod privileges;
pub mod process;
pub mod qdisc;
pub mod queue;
pub mod random;
pub mod regular_file;
pub mod resolve;
pub mod secret_file;
pub mod serial;
pub mod small_file;
pub mod spool;
pub mod tcp;
pub mod timer;
pub mod tls;
pub mod tun;
pub mod udp;
