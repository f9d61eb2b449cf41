//! Addresses of RTSP servers (RFC 2326 §3.2), and those that descriptions make of them (§C.1.1).
//!
//! ```text
//! rtsp://HOST[:PORT]/PATH[?QUERY]                rtsps:// the same, over TLS
//! ```

/// The ports of addresses that name none.
const PORT: u16 = 554;
const TLS_PORT: u16 = 322;
/// Bytes of an address at most.
const BYTES_MAX: usize = 4096;

/// An address, without user and password.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Uri {
    /// `rtsps:`.
    pub is_secured: bool,
    /// Name or address, an IPv6 address without its brackets.
    pub host: String,
    /// The port to connect to.
    pub port: u16,
    /// Path and query as they are written; empty, or with a slash or question mark in front.
    pub target: String,
}

impl Uri {
    /// Reads an address. What may stand in front of an `@` is left out; `None` where it is none, or has characters that none has.
    pub fn parse(text: &str) -> Option<Uri> {
        if text.len() > BYTES_MAX || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        let (scheme, rest) = text.split_once("://")?;
        let is_secured = match scheme.to_ascii_lowercase().as_str() {
            "rtsp" | "rtspt" | "rtspu" => false,
            "rtsps" => true,
            _ => return None,
        };
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let authority = authority.rsplit_once('@').map_or(authority, |(_, authority)| authority);
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']')?;
                (host, port.strip_prefix(':').unwrap_or(port))
            }
            None => authority.split_once(':').unwrap_or((authority, "")),
        };
        let default = if is_secured { TLS_PORT } else { PORT };
        let port = if port.is_empty() { default } else { port.parse().ok().filter(|port| *port > 0)? };
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%:".contains(&byte);
        let fits = !host.is_empty() && host.bytes().all(is_name);
        fits.then(|| Uri { is_secured, host: host.to_ascii_lowercase(), port, target: target.to_owned() })
    }

    /// As requests have it.
    pub fn text(&self) -> String {
        format!("{}{}", self.origin(), self.target)
    }

    /// Scheme, host, and the port where it is another one than the scheme's.
    pub fn origin(&self) -> String {
        let scheme = if self.is_secured { "rtsps" } else { "rtsp" };
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let default = if self.is_secured { TLS_PORT } else { PORT };
        let port = if self.port == default { String::new() } else { format!(":{}", self.port) };
        format!("{scheme}://{host}{port}")
    }

    /// An absolute address on the server that this one names: cameras behind a router write the host that they know themselves by.
    fn at_home(&self, text: &str) -> Option<String> {
        let uri = Uri::parse(text)?;
        Some(format!("{}{}", self.origin(), uri.target))
    }
}

/// The address that requests for a whole session, and those for its tracks, are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    request: Uri,
    base: String,
}

impl Base {
    /// By what was asked for, and what the response to DESCRIBE says: `Content-Base`, else `Content-Location`. One that is no whole
    /// address is passed over.
    pub fn new(request: &Uri, content_base: Option<&str>, content_location: Option<&str>) -> Base {
        let said = [content_base, content_location].into_iter().flatten();
        let base = said.map(str::trim).find_map(|text| request.at_home(text));
        Base { request: request.clone(), base: base.unwrap_or_else(|| request.text()) }
    }

    /// What `a=control` names: an address, a part behind the base, or with `*` and where it is missing the base itself. A part is put
    /// behind the whole base, query included: cameras mean it so, whatever RFC 3986 §5.2 says.
    pub fn resolve(&self, control: Option<&str>) -> String {
        let control = control.map(str::trim).unwrap_or_default();
        let is_plain = control.len() <= BYTES_MAX && control.bytes().all(|byte| byte.is_ascii_graphic());
        if control.is_empty() || control == "*" || !is_plain {
            return self.base.clone();
        }
        if let Some(address) = self.request.at_home(control) {
            return address;
        }
        let needs_slash = !self.base.ends_with('/') && !control.starts_with(['/', '?']);
        let base = match (control.starts_with('/'), self.base.strip_suffix('/')) {
            (true, Some(base)) => base,
            _ => &self.base,
        };
        format!("{base}{}{control}", if needs_slash { "/" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn uri(text: &str) -> Uri {
        Uri::parse(text).unwrap()
    }

    #[test]
    fn addresses_are_read_and_written_without_user_and_password() {
        for (text, written) in [
            ("rtsp://h/a?b=c", "rtsp://h/a?b=c"),
            ("RTSP://u:p@H:554/a", "rtsp://h/a"),
            ("rtsps://h:8322", "rtsps://h:8322"),
            ("rtsps://h:322/", "rtsps://h/"),
            ("rtsp://[2001:db8::7]:8554/a", "rtsp://[2001:db8::7]:8554/a"),
        ] {
            assert_eq!(uri(text).text(), written);
        }
        assert_eq!(uri("rtsp://u:p@q@h/a").host, "h");
        for bad in ["http://h/", "rtsp://", "rtsp://h:0/", "rtsp://h:x/", "rtsp://h/a b", "rtsp:///a", "h/a"]
        {
            assert_eq!(Uri::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn controls_are_resolved_as_cameras_mean_them() {
        let request = uri("rtsp://cam.example:8554/live?ch=1");
        let base = |content: Option<&str>| Base::new(&request, content, None);
        let at_home = "rtsp://cam.example:8554";
        for (content, control, expected) in [
            (None, None, "/live?ch=1"),
            (None, Some("*"), "/live?ch=1"),
            (None, Some("trackID=1"), "/live?ch=1/trackID=1"),
            (Some("rtsp://cam.example:8554/live/"), Some("trackID=1"), "/live/trackID=1"),
            (Some("rtsp://cam.example:8554/live/"), Some("/trackID=1"), "/live/trackID=1"),
            // The host that the camera knows itself by.
            (Some("rtsp://192.168.1.9/live/"), Some("trackID=1"), "/live/trackID=1"),
            (None, Some("rtsp://192.168.1.9/live/trackID=2"), "/live/trackID=2"),
            // A base without a scheme.
            (Some("192.168.1.57:8086/"), Some("trackID=0"), "/live?ch=1/trackID=0"),
            (Some("rtsp://cam.example:8554/live"), Some("?track=1"), "/live?track=1"),
        ] {
            assert_eq!(
                base(content).resolve(control),
                format!("{at_home}{expected}"),
                "{content:?} {control:?}"
            );
        }
        let location = Base::new(&request, None, Some("rtsp://h/other/"));
        assert_eq!(location.resolve(Some("a")), format!("{at_home}/other/a"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(rtsps?://)?[a-z0-9:/@?&=%.\\[\\]#é ]{0,40}", control in "\\PC{0,40}") {
            if let Some(uri) = Uri::parse(&text) {
                let resolved = Base::new(&uri, Some(&control), None).resolve(Some(&control));
                prop_assert!(resolved.bytes().all(|byte| byte.is_ascii_graphic()));
                prop_assert!(resolved.starts_with(&uri.origin()));
                prop_assert_eq!(Uri::parse(&uri.text()), Some(uri));
            }
        }
    }
}
