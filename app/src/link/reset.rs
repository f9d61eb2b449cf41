//! A secret that a listener keeps in a file beside its key. With it, the peers of an earlier run learn at once that
//! their links are gone (by a Reset), and other listeners with the same key cannot send such a Reset.

use anyhow::{Result, bail};
use glassline_io::{kept_secret, random};
use glassline_transport::link::Key;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// What is appended to the name of the key's file.
const SUFFIX: &str = ".reset";

/// The secret of the listener at `address` and `interface`. `None` if no secret can be kept; the log then says so.
pub(crate) fn secret(key: Option<&Path>, address: SocketAddr, interface: Option<&str>) -> Option<Key> {
    let kept = match key {
        // With a port that the system chooses, no peer finds the listener again after a restart: the secret need not
        // be kept.
        Some(_) if address.port() == 0 => random::seed().map(Key).map_err(Into::into),
        Some(key) => kept(key),
        None => {
            tracing::info!("no resets are sent without a key file: {CONSEQUENCE}");
            return None;
        }
    };
    match kept {
        // Listeners at other addresses of this machine share the file, and must not reset each other's links.
        Ok(kept) => Some(kept.of_listener(&format!("{address}@{}", interface.unwrap_or_default()))),
        Err(error) => {
            tracing::warn!("no resets are sent, since no secret can be kept: {error:#}; {CONSEQUENCE}");
            None
        }
    }
}

const CONSEQUENCE: &str = "peers notice a restart of this listener by its silence, after 5 s";

fn kept(key: &Path) -> Result<Key> {
    if !std::fs::metadata(key).is_ok_and(|meta| meta.is_file()) {
        bail!("the key {} is no file that another one can stand beside", key.display());
    }
    let mut name = key.as_os_str().to_owned();
    name.push(SUFFIX);
    Ok(Key(*kept_secret::read_or_make(&PathBuf::from(name))?))
}
