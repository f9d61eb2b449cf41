//! Where clients over RTSP connect to, from what is configured.

use crate::config::Config;
use crate::failure;
use glassline_doors::rtsp::{Listen, ListenError};
use std::io::ErrorKind;

/// The listeners that `config` asks for.
pub(super) fn listeners(config: &Config) -> Vec<Listen> {
    let of = |tls| move |&address| Listen { address, tls };
    let plain = config.rtsp.listen.iter().map(of(false));
    plain.chain(config.rtsp.tls_listen.iter().map(of(true))).collect()
}

/// Why one of them cannot be listened on, and what to do.
pub(super) fn explain(error: ListenError) -> anyhow::Error {
    let advice = match error.reason.kind() {
        ErrorKind::AddrInUse => "another program listens there: end it, or choose another address in [rtsp]",
        ErrorKind::PermissionDenied => "ports below 1024 need privileges: choose a higher one in [rtsp]",
        ErrorKind::AddrNotAvailable => "this machine has no such address: choose another in [rtsp]",
        _ => "see what the system says",
    };
    failure::failed(format!("[rtsp]: {error}"), advice)
}
