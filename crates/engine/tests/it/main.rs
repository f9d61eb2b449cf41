//! What runs for longer than a call, through its handles and sockets; corpora. One program, so that what the tests share
//! is compiled and linked once. Those that change networks do so in threads of their own, which nothing else sees.
#![allow(clippy::unwrap_used)]

mod corpus;
mod drone;
#[cfg(feature = "x264")]
mod encoding;
mod link_networks;
mod parallel;
mod relay;
