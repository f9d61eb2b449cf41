//! Addresses of cameras (RFC 2326 §3.2).
//!
//! ```text
//! rtsp://[USER[:PASSWORD]@]HOST[:PORT]/PATH[?QUERY]                rtsps:// the same, over TLS
//! ```
//! Neither `Display` nor `Debug` shows user, password or query, nor a path that may have a password in it, as some recorders want it.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use crate::http1::UrlError;
use crate::http1::url::{split_port, unescape};
use serde::{Deserialize, Serialize};
use std::fmt;

/// An `rtsp:` or `rtsps:` URL.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RtspUrl {
    tls: bool,
    /// Name or address, an IPv6 address without its brackets.
    host: String,
    port: u16,
    /// Path and query as they are written, which may be empty.
    target: String,
    /// User and password, without escapes.
    credentials: Option<(String, String)>,
}

impl RtspUrl {
    /// Reads what follows `rtsp://` or, with `tls`, `rtsps://`.
    pub(super) fn parse(rest: &str, tls: bool) -> Result<RtspUrl, UrlError> {
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (user, host_port) = match authority.rsplit_once('@') {
            Some((user, host_port)) => (Some(user), host_port),
            None => (None, authority),
        };
        let (host, port) = split_port(host_port)?;
        let name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%:".contains(&byte);
        if host.is_empty() || !host.bytes().all(name) {
            return Err(UrlError::Host);
        }
        let credentials = user.map(|user| {
            let (user, password) = user.split_once(':').unwrap_or((user, ""));
            let text = |escaped| String::from_utf8_lossy(&unescape(escaped)).into_owned();
            (text(user), text(password))
        });
        let (host, port) = (host.to_ascii_lowercase(), port.unwrap_or(default_port(tls)));
        Ok(RtspUrl { tls, host, port, target: target.to_owned(), credentials })
    }

    /// Whether it is asked over TLS.
    pub fn tls(&self) -> bool {
        self.tls
    }

    /// User and password: secrets.
    pub fn credentials(&self) -> Option<(&str, &str)> {
        self.credentials.as_ref().map(|(user, password)| (user.as_str(), password.as_str()))
    }

    /// As requests have it: without user and password, with path and query. A secret where these are.
    pub fn request(&self) -> String {
        format!("{}{}", self.origin(), self.target)
    }

    fn origin(&self) -> String {
        let scheme = if self.tls { "rtsps" } else { "rtsp" };
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let port =
            if self.port == default_port(self.tls) { String::new() } else { format!(":{}", self.port) };
        format!("{scheme}://{host}{port}")
    }
}

/// The port of a URL that names none.
const fn default_port(tls: bool) -> u16 {
    if tls { 322 } else { 554 }
}

/// Whether a path has parameters in it, under whatever name, or words that a password is near. Some recorders want it there.
fn may_hold_password(path: &str) -> bool {
    let plain = unescape(path).to_ascii_lowercase();
    // What is escaped twice is not looked into.
    let has_parameter = plain.iter().any(|byte| b"=&%".contains(byte));
    has_parameter
        || ["passw", "pwd", "psw"]
            .iter()
            .any(|word| plain.windows(word.len()).any(|at| at == word.as_bytes()))
}

impl fmt::Display for RtspUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, query) = self.target.split_once('?').map_or((&*self.target, ""), |(path, _)| (path, "?…"));
        let path = if may_hold_password(path) { "/…" } else { path };
        write!(f, "{}{path}{query}", self.origin())
    }
}

impl fmt::Debug for RtspUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pull::Source;

    fn rtsp(text: &str) -> RtspUrl {
        match Source::parse(text) {
            Ok(Source::Rtsp(url)) => url,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn what_is_asked_for_has_no_secret_of_its_authority_and_what_is_shown_has_none_at_all() {
        let url = rtsp("RTSP://ad%6din:p%40ss:w@Camera:8554/live?ch=1&password=hush");
        assert_eq!(url.credentials(), Some(("admin", "p@ss:w")));
        assert_eq!(url.request(), "rtsp://camera:8554/live?ch=1&password=hush");
        assert_eq!(
            (url.to_string(), format!("{url:?}")),
            ("rtsp://camera:8554/live?…".into(), "rtsp://camera:8554/live?…".into())
        );
        let path = rtsp("rtsp://10.0.0.5/user=admin&password=hush&channel=1");
        assert_eq!(path.to_string(), "rtsp://10.0.0.5/…");
        assert_eq!(path.request(), "rtsp://10.0.0.5/user=admin&password=hush&channel=1");
        for path in
            ["u=a_passwd=hush", "p%3dhush", "p%253Dhush", "a&hush", "PassWord/hush", "%70wd/hush", "psw:hush"]
        {
            assert_eq!(rtsp(&format!("rtsp://h/{path}")).to_string(), "rtsp://h/…", "{path}");
        }
        assert_eq!(
            rtsp("rtsp://h/Streaming/Channels/1%2001").to_string(),
            "rtsp://h/Streaming/Channels/1%2001"
        );
        assert_eq!(rtsp("rtsps://[2001:db8::7]").request(), "rtsps://[2001:db8::7]");
        assert_eq!(rtsp("rtsps://h:322/a").to_string(), "rtsps://h/a");
        for bad in ["rtsp://", "rtsp://u:hush@/a", "rtsp://h:0/", "rtsp://h:x/", "rtsp://u:hush@h o/"] {
            let error = Source::parse(bad).unwrap_err().to_string();
            assert!(!error.contains("hush"), "{error}");
        }
    }
}
