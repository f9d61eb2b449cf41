//! HTTP/1.1 (RFC 9112), pure: bytes in any chop come in, events and bytes go out.
//!
//! [`server`] reads requests, [`client`] reads responses; both use [`body`] for what follows the head. What is
//! written is plain bytes made by [`Response`], [`client::Request`] and [`body::write_chunk`]. [`access`] says what a head tells
//! of the one that asks.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]
use serde::{Deserialize, Serialize};

pub mod access;
pub mod body;
pub mod client;
mod coding;
mod date;
mod error;
mod escapes;
mod head;
mod host;
mod negotiate;
mod response;
pub mod server;
pub(crate) mod url;

pub use coding::{Coding, Effort};
pub use date::parse_date;
pub use error::HttpError;
pub use escapes::{plain_path, plain_query};
pub use head::{Headers, Method, Version};
pub use host::Host;
pub(crate) use negotiate::{ByteRange, is_same, is_unchanged};
pub use negotiate::{content_range_start, preferred_coding, unsatisfiable};
pub use response::{Response, problem, reason};
pub use url::{Url, UrlError, split_port};

/// How large and how slow a peer may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes of a head: request or status line and headers together.
    pub head_bytes: usize,
    /// How long a head may take from its first byte (slow loris), and a new connection to its first.
    pub head_time: std::time::Duration,
    /// How long a connection may rest between two requests.
    pub idle_time: std::time::Duration,
    /// How long a request's body may take from the head's end to its own, where it is no stream.
    pub body_time: std::time::Duration,
}

impl Limits {
    /// 16 KiB of head within 10 s, a body within 10 s more; a minute of rest.
    pub const DEFAULT: Limits = Limits {
        head_bytes: 16 << 10,
        head_time: std::time::Duration::from_secs(10),
        idle_time: std::time::Duration::from_secs(60),
        body_time: std::time::Duration::from_secs(10),
    };

    /// Headers that a head may have; more are refused, whatever their size.
    pub const HEADERS: usize = 64;
}
