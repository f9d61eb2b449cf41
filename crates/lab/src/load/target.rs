//! What is asked for: an `http://` or `https://` URL, and where its server is.

use anyhow::{Context, Result, anyhow};
use glassline_delivery::http1::Url;
use glassline_io::resolve::resolve;
use std::fmt;
use std::net::SocketAddr;

/// An `http://` or `https://` URL. Names are resolved once, so that the load is no load on a name server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    address: SocketAddr,
    url: Url,
}

impl Target {
    /// Takes `url` apart and resolves its name.
    ///
    /// # Errors
    /// Where it is no such URL, or its name has no address.
    pub fn resolve(url: &str) -> Result<Target> {
        let url = parse(url)?;
        let found = resolve(url.host(), url.port());
        let found = found.with_context(|| format!("{} has no address", url.authority()))?;
        Ok(Target { address: found[0], url })
    }

    /// Whether `url` can be asked for, its name aside.
    ///
    /// # Errors
    /// What it lacks.
    pub fn check(url: &str) -> Result<()> {
        parse(url).map(|_| ())
    }

    /// `path` at an address, without TLS.
    ///
    /// # Panics
    /// Where `path` is none: it begins with a slash and has visible ASCII characters alone.
    pub fn at(address: SocketAddr, path: &str) -> Target {
        let url = format!("http://{address}{path}").parse().expect("an address and a path are a URL");
        Target { address, url }
    }

    /// Where the server is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What is asked for.
    pub fn url(&self) -> &Url {
        &self.url
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

fn parse(url: &str) -> Result<Url> {
    url.parse().map_err(|error| anyhow!("{error}; write http://HOST:PORT/PATH, or https:// with it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart_and_resolved() {
        let parts = |url: &str| {
            let target = Target::resolve(url).unwrap();
            (target.address.to_string(), target.url.authority(), target.url.target().to_owned())
        };
        let expect =
            |address: &str, host: &str, path: &str| (address.to_owned(), host.to_owned(), path.to_owned());
        assert_eq!(
            parts("http://127.0.0.1:8080/live/x.ts?y=1#z"),
            expect("127.0.0.1:8080", "127.0.0.1:8080", "/live/x.ts?y=1")
        );
        assert_eq!(parts("http://[::1]?q"), expect("[::1]:80", "[::1]", "/?q"));
        assert_eq!(parts("https://127.0.0.1"), expect("127.0.0.1:443", "127.0.0.1", "/"));
        let target = Target::at("[::1]:81".parse().unwrap(), "/x?key=y");
        assert_eq!(target.to_string(), "http://[::1]:81/x?…", "no key is shown");
    }

    #[test]
    fn what_cannot_be_asked_for_is_refused() {
        for (url, complaint) in [
            ("ftp://host/x.ts", "begins with http:// or https://"),
            ("host/x.ts", "begins with http:// or https://"),
            ("http:///x.ts", "the host is missing"),
            ("http://127.0.0.1/a b", "visible ASCII"),
            ("http://127.0.0.1:99999/", "port"),
            ("http://none.invalid/", "has no address"),
        ] {
            let error = format!("{:#}", Target::resolve(url).unwrap_err());
            assert!(error.contains(complaint), "{url}: {error}");
        }
    }
}
