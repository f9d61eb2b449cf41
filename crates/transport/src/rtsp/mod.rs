//! RTSP 1.0 (RFC 2326): messages, credentials, the session of a client that plays what a camera sends, and that of a server to which
//! programs publish and from which they play. Bytes and `now` come in; bytes, access units and deadlines go out.
//!
//! ```text
//! OPTIONS ─► DESCRIBE ─► SETUP, a track each ─► PLAY ─► packets over UDP, or between messages on the connection
//!            │ 401: again with credentials              keep-alives at half the session's timeout
//!            │ 30x: to another server                   TEARDOWN
//! ```
//! * [`message`]: requests, responses and interleaved packets in a stream of bytes.
//! * [`auth`]: Basic and Digest.
//! * [`uri`]: addresses, and what `a=control` makes of them.
//! * [`transport`]: the header `Transport`.
//! * [`client`]: a client's session; [`server`]: a server's. Their packets are those of [`rtp::session`](crate::rtp::session).
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

pub mod auth;
pub mod client;
pub mod message;
pub mod server;
mod tracks;
pub mod transport;
pub mod uri;
