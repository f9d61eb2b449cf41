//! The relay through its sockets, from a source to it, and the corpus of what one process leaves to the next. One program, so that
//! what the tests share is compiled and linked once.
#![allow(clippy::unwrap_used)]

mod corpus;
mod encoding;
mod relay;
