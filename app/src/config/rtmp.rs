//! `[rtmp]`: publishers over RTMP and RTMPS.

use super::section::listen;
use serde::Deserialize;
use std::net::SocketAddr;

/// `[rtmp]`: addresses for publishers. With none RTMP is off.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Rtmp {
    /// Addresses for RTMP.
    #[serde(deserialize_with = "listen")]
    pub(crate) listen: Vec<SocketAddr>,
    /// Addresses for RTMPS, with the certificates of `tls`.
    #[serde(deserialize_with = "listen")]
    pub(crate) tls_listen: Vec<SocketAddr>,
}
