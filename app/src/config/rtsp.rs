//! `[rtsp]`: publishers and viewers over RTSP and RTSPS.

use super::section::listen;
use serde::Deserialize;
use std::net::SocketAddr;

/// `[rtsp]`: addresses for publishers and viewers. With none RTSP is off.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Rtsp {
    /// Addresses for RTSP.
    #[serde(deserialize_with = "listen")]
    pub(crate) listen: Vec<SocketAddr>,
    /// Addresses for RTSPS, with the certificates of `tls`.
    #[serde(deserialize_with = "listen")]
    pub(crate) tls_listen: Vec<SocketAddr>,
}
