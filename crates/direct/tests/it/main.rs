//! Direct video from outside: both ends without a network, corpora. One program, so that what the tests share is compiled
//! and linked once.
#![allow(clippy::unwrap_used)]

mod corpus;
mod join;
mod send_loop;
