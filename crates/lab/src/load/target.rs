//! What is asked for: an `http://` URL, taken apart and resolved.

use anyhow::{Context, Result, bail};
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};

/// An `http://` URL. Names are resolved once, so that the load is no load on a name server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    address: SocketAddr,
    /// Name and port as they go into the `Host` field.
    host: String,
    path: String,
}

impl Target {
    /// Takes `url` apart and resolves its name.
    ///
    /// # Errors
    /// Where it is no `http://` URL, or its name has no address.
    pub fn resolve(url: &str) -> Result<Target> {
        let (host, path) = split(url)?;
        // A colon inside the brackets of an IPv6 address is none before a port.
        let has_port = host.rsplit(']').next().is_some_and(|tail| tail.contains(':'));
        let socket = if has_port { host.clone() } else { format!("{host}:80") };
        let mut found = socket.to_socket_addrs().with_context(|| format!("{host} has no address"))?;
        let address = found.next().with_context(|| format!("{host} has no address"))?;
        Ok(Target { address, host, path })
    }

    /// Whether `url` can be asked for, its name aside.
    ///
    /// # Errors
    /// What it lacks.
    pub fn check(url: &str) -> Result<()> {
        split(url).map(|_| ())
    }

    /// `path` at an address.
    pub fn at(address: SocketAddr, path: &str) -> Target {
        Target { address, host: address.to_string(), path: path.to_owned() }
    }

    /// Where the server is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// For the `Host` field.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Path and query.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.host, self.path)
    }
}

/// Host, and path with query.
fn split(url: &str) -> Result<(String, String)> {
    let rest = match url.split_once("://") {
        Some(("http", rest)) => rest,
        Some((scheme, _)) => bail!("{url:?}: {scheme}:// is not spoken here, only http://"),
        None => bail!("{url:?} is no URL; write http://HOST:PORT/PATH"),
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    if host.is_empty() || host.contains('@') || url.contains(|c: char| c.is_control() || c == ' ') {
        bail!("{url:?} is no URL that can be asked for; write http://HOST:PORT/PATH");
    }
    let path = path.split('#').next().unwrap_or("");
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    Ok((host.to_owned(), path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart_and_resolved() {
        let parts = |url: &str| {
            let target = Target::resolve(url).unwrap();
            (target.address.to_string(), target.to_string())
        };
        let expect = |address: &str, url: &str| (address.to_owned(), url.to_owned());
        assert_eq!(
            parts("http://127.0.0.1:8080/live/x.ts?y=1#z"),
            expect("127.0.0.1:8080", "http://127.0.0.1:8080/live/x.ts?y=1")
        );
        assert_eq!(parts("http://[::1]?q"), expect("[::1]:80", "http://[::1]/?q"));
        assert_eq!(parts("http://127.0.0.1"), expect("127.0.0.1:80", "http://127.0.0.1/"));
    }

    #[test]
    fn what_cannot_be_asked_for_is_refused() {
        for (url, complaint) in [
            ("https://host/x.ts", "only http://"),
            ("host/x.ts", "is no URL"),
            ("http:///x.ts", "is no URL"),
            ("http://me@host/x.ts", "is no URL"),
            ("http://127.0.0.1/a b", "is no URL"),
            ("http://127.0.0.1:99999/", "has no address"),
        ] {
            let error = format!("{:#}", Target::resolve(url).unwrap_err());
            assert!(error.contains(complaint), "{url}: {error}");
        }
    }
}
