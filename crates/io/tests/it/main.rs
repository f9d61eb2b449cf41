//! The operating system through this room: batches of sends, TLS, what waits in sockets, corpora. One program, so that
//! what the tests share is compiled and linked once.
#![allow(clippy::unwrap_used)]

mod batches;
mod corpus;
mod queued_bytes_never_change;
mod tls;
mod tls_client;
