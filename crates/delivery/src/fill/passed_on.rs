//! Which fields of an upstream server's answer go on to clients.
//!
//! An answer comes under this server's name, beside its own pages and those of others. So only fields go on that say something
//! of the object itself. What acts on all that a browser knows of this server's origin stays behind, whatever it is called in
//! years to come: `Set-Cookie`, `Clear-Site-Data`, `Strict-Transport-Security`, `Alt-Svc`, `Service-Worker-Allowed`,
//! `Content-Security-Policy` (this server sends one of its own), `Reporting-Endpoints`, `Link`, `Refresh`, `SourceMap`, …
//! A list of those would have holes.

use super::head::Head;
use crate::http1::Headers;

/// What goes on.
const PASSED_ON: [&str; 21] = [
    // What it is (RFC 9110 §8, RFC 6266, RFC 9530).
    "content-type",
    "content-encoding",
    "content-language",
    "content-disposition",
    "content-digest",
    "repr-digest",
    // Which one it is, and for how long (RFC 9110 §8.8, RFC 9111 §5).
    "etag",
    "last-modified",
    "date",
    "cache-control",
    "expires",
    "vary",
    // How to go on (RFC 9110 §10.2, §14.3).
    "accept-ranges",
    "location",
    "retry-after",
    "allow",
    // Which origins may read this one answer (Fetch standard; Resource Timing). `Access-Control-Allow-Credentials` is not among
    // them: no viewer's credentials go upstream, so no answer depends on them.
    "access-control-allow-origin",
    "access-control-expose-headers",
    "cross-origin-resource-policy",
    "timing-allow-origin",
    // What players are told about the media (CTA-5006).
    "cmsd-static",
];

/// Whether a field of this name goes on.
fn is_passed_on(name: &str) -> bool {
    PASSED_ON.iter().any(|known| known.eq_ignore_ascii_case(name))
}

impl Head {
    /// The head for clients of an upstream server's answer with this status: the fields that say something of the object. Those
    /// that act on more than the answer stay behind, as do those that are between the two ends of a connection: what `Connection`
    /// names, whatever it is (RFC 9110 §7.6.1).
    pub fn of_answer(status: u16, headers: &Headers) -> Head {
        let passed = headers.iter().filter(|(name, _)| is_passed_on(name) && !headers.is_of_connection(name));
        passed.fold(Head::of_status(status), |head, (name, value)| head.with(name, value))
    }

    /// It as an answer that it still holds (304), with these fields, updates it (RFC 9111 §3.2).
    #[must_use]
    pub fn renewed(&self, headers: &Headers) -> Head {
        let news = Head::of_answer(self.status(), headers);
        // What says how the bytes are written is that of the bytes.
        let is_of_bytes = |name: &str| {
            ["content-encoding", "content-type", "content-digest", "repr-digest"]
                .iter()
                .any(|it| it.eq_ignore_ascii_case(name))
        };
        let kept = self.fields().filter(|(name, _)| is_of_bytes(name) || news.field(name).is_none());
        let updated = news.fields().filter(|(name, _)| !is_of_bytes(name));
        kept.chain(updated).fold(Head::of_status(self.status()), |head, (name, value)| head.with(name, value))
    }

    /// It without what does not go on to clients ([`Head::of_answer`]): files of earlier versions have more.
    #[must_use]
    pub fn for_clients(&self) -> Head {
        let passed = self.fields().filter(|(name, _)| is_passed_on(name));
        passed.fold(Head::of_status(self.status()), |head, (name, value)| head.with(name, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fill::download::tests::answer;

    fn lines(fields: &str) -> String {
        Head::of_answer(200, &answer(200, fields).headers).lines().to_ascii_lowercase()
    }

    #[test]
    fn what_acts_on_a_whole_origin_stays_behind() {
        for field in [
            "Set-Cookie: a=b",
            "Set-Cookie2: a=b",
            "Content-Security-Policy: script-src *",
            "Content-Security-Policy-Report-Only: x",
            "X-Content-Security-Policy: x",
            "X-Content-Type-Options: off",
            "Clear-Site-Data: \"*\"",
            "Alt-Svc: h3=\"evil.example:443\"",
            "Strict-Transport-Security: max-age=99999999",
            "Public-Key-Pins: x",
            "Service-Worker-Allowed: /",
            "Refresh: 0; url=http://evil.example/",
            "Link: <http://evil.example/>; rel=preload",
            "Report-To: {}",
            "Reporting-Endpoints: a=\"http://evil.example\"",
            "NEL: {}",
            "SourceMap: /a",
            "Origin-Agent-Cluster: ?0",
            "Accept-CH: DPR",
            "Permissions-Policy: camera=*",
            "Access-Control-Allow-Credentials: true",
            "WWW-Authenticate: Basic",
            "Connection: close",
            "Transfer-Encoding: chunked",
            "Trailer: X",
            "Age: 5",
            "Server: x",
            "Server-Timing: x",
            "Via: 1.1 x",
            "X-Invented: 1",
        ] {
            assert_eq!(lines(&format!("{field}\r\n")), "", "{field}");
        }
    }

    #[test]
    fn what_says_something_of_the_object_goes_on() {
        for field in PASSED_ON {
            assert_eq!(lines(&format!("{}: x\r\n", field.to_uppercase())), format!("{field}: x\r\n"));
        }
    }

    #[test]
    fn what_connection_names_stays_behind() {
        let fields =
            "Connection: keep-alive, ETag\r\nConnection: vary\r\nETag: \"1\"\r\nVary: a\r\nAllow: GET\r\n";
        assert_eq!(lines(fields), "allow: get\r\n");
    }

    #[test]
    fn what_still_holds_is_updated_and_keeps_what_is_of_its_bytes() {
        let fields = "Content-Type: video/mp4\r\nETag: \"1\"\r\nDate: then\r\nCache-Control: max-age=1\r\n";
        let known = Head::of_answer(200, &answer(200, fields).headers);
        let news = "Content-Type: text/html\r\nDate: now\r\nCache-Control: max-age=5\r\nSet-Cookie: a\r\n";
        let renewed = known.renewed(&answer(304, news).headers);
        assert_eq!(renewed.status(), 200);
        let field = |name| renewed.field(name);
        assert_eq!((field("content-type"), field("etag")), (Some("video/mp4"), Some("\"1\"")));
        assert_eq!((field("date"), field("cache-control")), (Some("now"), Some("max-age=5")));
        assert_eq!(renewed.fields().count(), 4);
    }
}
