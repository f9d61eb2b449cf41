//! Direct video from outside: both ends without a network, corpora. One program, so that what the tests share is compiled
//! and linked once.
#![allow(clippy::unwrap_used)]

#[cfg(feature = "av1")]
mod auto;
#[cfg(feature = "av1")]
mod av1;
#[cfg(feature = "av1")]
mod av1_samples;
mod corpus;
mod join;
mod send_loop;
