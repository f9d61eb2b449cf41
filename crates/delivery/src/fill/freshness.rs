//! How long what an upstream server answered may be given to others (RFC 9111, RFC 5861).
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::head::Head;
use super::status::{is_of_request, is_understood, may_be_kept_untold};
use crate::http1::{Headers, parse_date};
use glassline_media::{Time, Utc};
use std::time::Duration;

/// How long an answer is worth that says nothing about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// Segments, parts and initialisation segments, which never change under their names.
    pub media: Duration,
    /// Anything else: playlists and manifests of a live stream.
    pub other: Duration,
    /// Refusals: 404, 410 and their like.
    pub negative: Duration,
}

impl Default for Defaults {
    /// Media a minute, anything else for as long as it fills, refusals for half a second: what is not there yet may be soon.
    fn default() -> Defaults {
        Defaults {
            media: Duration::from_secs(60),
            other: Duration::ZERO,
            negative: Duration::from_millis(500),
        }
    }
}

/// What a cache may do with an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Freshness {
    /// It is given to others for this long after it came.
    pub fresh: Duration,
    /// And for so long after that while it is asked for anew.
    pub stale_while_revalidate: Duration,
    /// And for so long after that where its server cannot be reached.
    pub stale_if_error: Duration,
}

impl Freshness {
    /// What the answer with this status and these headers to a request for `path` may be used for, by a cache that many share.
    ///
    /// No viewer's fields go upstream: no `Authorization`, `Cookie`, `Accept…` nor `Origin`. So but for `*` each request is the
    /// one that `Vary` asks for (RFC 9111 §4.1), and what credentials of the configuration's own open is meant for all
    /// viewers of this server (§3.5). `Set-Cookie` does not go on to clients, so that it hinders nothing (§7.3).
    ///
    /// `came` is when the answer came: what counts where it does not say when it was made (RFC 9110 §6.6.1).
    pub fn of(status: u16, headers: &Headers, path: &str, defaults: &Defaults, came: Utc) -> Freshness {
        let directives = Directives::of(headers);
        let has = |name: &str| directives.has(name);
        let may_not = ["private", "no-cache"].into_iter().any(has) || headers.has_token("vary", "*");
        // With `must-understand` a cache that knows the status may ignore `no-store`, and another one must not store the answer
        // (RFC 9111 §5.2.2.3).
        let is_for_store = if has("must-understand") { is_understood(status) } else { !has("no-store") };
        if is_of_request(status) || may_not || !is_for_store {
            return Freshness::default();
        }
        let told = directives.seconds("s-maxage").or_else(|| directives.seconds("max-age"));
        let usual = match status {
            200 | 203 if is_media(path) => defaults.media,
            404 | 410 => defaults.negative,
            _ if may_be_kept_untold(status) => defaults.other,
            _ => Duration::ZERO,
        };
        let must = has("must-revalidate") || has("proxy-revalidate");
        let stale = |name| directives.seconds(name).filter(|_| !must).unwrap_or_default();
        Freshness {
            fresh: told.or_else(|| expires(headers, came)).unwrap_or(usual).saturating_sub(age(headers)),
            stale_while_revalidate: stale("stale-while-revalidate"),
            stale_if_error: stale("stale-if-error"),
        }
    }

    /// The same of what was known under the head `known`, and still holds by an answer (304) with these headers. What that
    /// leaves unsaid is as it was (RFC 9111 §3.2).
    pub fn of_renewed(
        known: &Head,
        headers: &Headers,
        path: &str,
        defaults: &Defaults,
        came: Utc,
    ) -> Freshness {
        let is_unsaid =
            |name: &str| ["cache-control", "expires", "vary"].iter().any(|it| it.eq_ignore_ascii_case(name));
        let unsaid = known.fields().filter(|(name, _)| is_unsaid(name) && headers.first(name).is_none());
        let all = unsaid.fold(headers.clone(), |all, (name, value)| all.with(name, value));
        Freshness::of(known.status(), &all, path, defaults, came)
    }

    /// Of an answer that came at `came`: until when it is fresh, of use while it is asked for anew, and of use where its
    /// server cannot be reached.
    pub fn until(&self, came: Time) -> [Time; 3] {
        let fresh = came + self.fresh;
        [fresh, fresh + self.stale_while_revalidate, fresh + self.stale_if_error]
    }

    /// For how long it is of any use.
    pub fn lasts(&self) -> Duration {
        self.fresh.saturating_add(self.stale_while_revalidate.max(self.stale_if_error))
    }

    /// What is left of it `age` later.
    #[must_use]
    pub fn after(&self, age: Duration) -> Freshness {
        let too_old = age.saturating_sub(self.fresh);
        Freshness {
            fresh: self.fresh.saturating_sub(age),
            stale_while_revalidate: self.stale_while_revalidate.saturating_sub(too_old),
            stale_if_error: self.stale_if_error.saturating_sub(too_old),
        }
    }
}

const YEAR_SECS: u64 = 365 * 24 * 3600;

/// What `Cache-Control` says: directives in lower case, and their values (RFC 9111 §5.2).
struct Directives(Vec<(String, String)>);

impl Directives {
    fn of(headers: &Headers) -> Directives {
        let all = headers.all("cache-control").flat_map(split_list).map(|directive| {
            let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
            (name.trim().to_ascii_lowercase(), value.trim().trim_matches('"').to_owned())
        });
        Directives(all.collect())
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }

    /// The seconds that the first directive of this name tells. One that tells none is taken for 0, and one that cannot be
    /// counted for very many (RFC 9111 §4.2.1, §1.2.2).
    fn seconds(&self, name: &str) -> Option<Duration> {
        let (_, value) = self.0.iter().find(|(known, _)| known == name)?;
        Some(delta_seconds(value).unwrap_or_default())
    }
}

/// The members of a list; a comma in a quoted string does not end a member (RFC 9110 §5.6.1).
fn split_list(list: &str) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    list.split(move |character| {
        let was_escaped = is_escaped;
        is_escaped = is_quoted && !was_escaped && character == '\\';
        is_quoted ^= character == '"' && !was_escaped;
        character == ',' && !is_quoted
    })
}

/// A number of seconds: digits alone. More than a year is a year.
fn delta_seconds(text: &str) -> Option<Duration> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| Duration::from_secs(text.parse().unwrap_or(u64::MAX).min(YEAR_SECS)))
}

/// How long after it was made an answer expires: by the server's own clock where that says when it was made, else by ours and
/// when it `came` (RFC 9111 §4.2.1; RFC 9110 §6.6.1). What is no time, as `0`, has passed already (RFC 9111 §5.3).
fn expires(headers: &Headers, came: Utc) -> Option<Duration> {
    let at = parse_date(headers.first("expires")?);
    let made = headers.first("date").and_then(parse_date).unwrap_or(came.as_nanos() / 1_000_000_000);
    let secs = at.map_or(0, |at| at.saturating_sub(made));
    Some(Duration::from_secs(secs.min(YEAR_SECS)))
}

/// For how long caches between had it (RFC 9111 §5.1): the first of several, and nothing where that is no number.
pub fn age(headers: &Headers) -> Duration {
    let first = headers.first("age").and_then(|age| age.split(',').next());
    first.and_then(|age| delta_seconds(age.trim())).unwrap_or_default()
}

/// Whether a path's ending says that it is media, which does not change.
fn is_media(path: &str) -> bool {
    let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
    ["m4s", "mp4", "m4v", "m4a", "cmfv", "cmfa", "ts", "aac"]
        .iter()
        .any(|it| it.eq_ignore_ascii_case(extension))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fill::download::tests::answer;

    /// Thu, 26 Nov 2026 00:00:10 GMT.
    const NOW: Utc = Utc::from_nanos(1_795_651_210_000_000_000);

    fn of(status: u16, fields: &str, path: &str) -> Freshness {
        Freshness::of(status, &answer(status, fields).headers, path, &Defaults::default(), NOW)
    }

    fn fresh_secs(status: u16, fields: &str, path: &str) -> f64 {
        of(status, fields, path).fresh.as_secs_f64()
    }

    #[test]
    fn what_is_told_counts() {
        const DATE: &str = "Date: Thu, 26 Nov 2026 00:00:00 GMT\r\n";
        for (fields, secs) in [
            ("Cache-Control: max-age=7\r\n", 7.0),
            ("Cache-Control: public, MAX-AGE=\"7\", s-maxage=3\r\n", 3.0),
            ("Cache-Control: max-age=0, s-maxage=3\r\n", 3.0),
            ("Cache-Control: max-age=7\r\nAge: 5\r\n", 2.0),
            ("Cache-Control: max-age=7\r\nAge: 5, 1\r\nAge: 1\r\n", 2.0),
            ("Cache-Control: max-age=7\r\nAge: x\r\n", 7.0),
            ("Cache-Control: max-age=7\r\nAge: 50\r\n", 0.0),
            ("Cache-Control: max-age=7\r\nAge: 99999999999999999999\r\n", 0.0),
            ("Cache-Control: max-age=7, no-store\r\n", 0.0),
            ("Cache-Control: max-age=7\r\nCache-Control: No-Store\r\n", 0.0),
            ("Cache-Control: private\r\n", 0.0),
            ("Cache-Control: private=\"set-cookie, x\", max-age=7\r\n", 0.0),
            ("Cache-Control: no-cache=\"etag\", max-age=7\r\n", 0.0),
            ("Cache-Control: max-age=7, x=\"a, private, \\\", no-store\"\r\n", 7.0),
            ("Cache-Control: must-understand, no-store, max-age=7\r\n", 7.0),
            ("Expires: Thu, 01 Jan 1970 00:00:00 GMT\r\n", 0.0),
            // Without a time at which it was made, when it came counts.
            ("Expires: Thu, 26 Nov 2026 00:01:00 GMT\r\n", 50.0),
            ("Date: now\r\nExpires: Thu, 26 Nov 2026 00:01:00 GMT\r\n", 50.0),
            ("Expires: Thu, 26 Nov 2026 00:01:00 GMT\r\nAge: 20\r\n", 30.0),
            ("Expires: Thu, 26 Nov 2026 00:00:09 GMT\r\n", 0.0),
            ("Expires: Thu, 26 Nov 2026 00:01:00 GMT\r\nCache-Control: s-maxage=3\r\n", 3.0),
            ("Expires: Thu, 26 Nov 2026 00:01:00 GMT\r\nCache-Control: no-store\r\n", 0.0),
            ("Vary: *\r\nCache-Control: max-age=7\r\n", 0.0),
            ("Vary: Origin, Accept-Encoding, Cookie\r\nCache-Control: max-age=7\r\n", 7.0),
            ("Set-Cookie: a=b\r\nCache-Control: max-age=7\r\n", 7.0),
            ("Cache-Control: max-age=99999999999999999999\r\n", YEAR_SECS as f64),
            ("Cache-Control: max-age=x\r\n", 0.0),
            ("Cache-Control: max-age\r\n", 0.0),
            ("Cache-Control: max-age=-7\r\n", 0.0),
            ("Cache-Control: max-age=7.5\r\n", 0.0),
            ("Cache-Control: max-age=+7\r\n", 0.0),
            ("Cache-Control: max-age=7, max-age=70\r\n", 7.0),
        ] {
            assert_eq!(fresh_secs(200, fields, "/a.m4s"), secs, "{fields}");
        }
        for (expires, secs) in [
            ("Thu, 26 Nov 2026 00:01:00 GMT", 60.0),
            ("Thursday, 26-Nov-26 00:01:00 GMT", 60.0),
            ("Wed, 25 Nov 2026 00:01:00 GMT", 0.0),
            ("0", 0.0),
            ("-1", 0.0),
            ("", 0.0),
            ("soon", 0.0),
            ("Fri, 26 Nov 2038 00:01:00 GMT", YEAR_SECS as f64),
        ] {
            let fields = format!("{DATE}Expires: {expires}\r\n");
            assert_eq!(fresh_secs(200, &fields, "/a.m4s"), secs, "{expires}");
            let both = format!("{fields}Cache-Control: max-age=7\r\n");
            assert_eq!(fresh_secs(200, &both, "/a.m4s"), 7.0, "max-age goes before Expires");
        }
    }

    #[test]
    fn what_is_not_told_depends_on_the_status_and_on_what_it_is() {
        assert_eq!(fresh_secs(200, "", "/live/a/video/1.M4S"), 60.0);
        assert_eq!(fresh_secs(203, "", "/live/a/video/1.M4S"), 60.0);
        assert_eq!(fresh_secs(200, "", "/live/a/index.m3u8"), 0.0);
        assert_eq!(fresh_secs(404, "", "/live/a/video/9.m4s"), 0.5);
        assert_eq!(fresh_secs(410, "", "/live/a/video/9.m4s"), 0.5);
        let lasting = Defaults { other: Duration::from_secs(9), ..Defaults::default() };
        for (status, secs) in
            [(200, 9), (301, 9), (308, 9), (302, 0), (303, 0), (307, 0), (401, 0), (403, 0), (451, 0)]
        {
            let freshness = Freshness::of(status, &answer(status, "").headers, "/a", &lasting, NOW);
            assert_eq!(freshness.lasts().as_secs(), secs, "{status}");
        }
    }

    #[test]
    fn what_a_request_has_caused_is_never_kept_and_the_rest_where_it_is_told() {
        let told = "Cache-Control: public, max-age=60, stale-if-error=60\r\n";
        for status in [400, 405, 406, 408, 411, 412, 413, 414, 415, 416, 417, 421, 425, 426, 429, 431, 508] {
            assert_eq!(of(status, told, "/a.m4s").lasts(), Duration::ZERO, "{status}");
        }
        let expires = "Expires: Thu, 26 Nov 2026 00:01:10 GMT\r\n";
        for status in [200, 301, 302, 307, 401, 403, 404, 451] {
            assert_eq!(fresh_secs(status, told, "/a.m4s"), 60.0, "{status}");
            assert_eq!(fresh_secs(status, expires, "/a.m4s"), 60.0, "{status}");
        }
        assert_eq!(fresh_secs(400, expires, "/a.m4s"), 0.0);
        let understood = "Cache-Control: must-understand, max-age=60\r\n";
        assert_eq!((fresh_secs(299, understood, "/a"), fresh_secs(302, understood, "/a")), (0.0, 60.0));
    }

    #[test]
    fn what_an_answer_that_it_still_holds_leaves_unsaid_is_as_it_was() {
        let renewed = |known: &str, news: &str| {
            let known = Head::of_answer(200, &answer(200, known).headers);
            let news = answer(304, news).headers;
            Freshness::of_renewed(&known, &news, "/a.m4s", &Defaults::default(), NOW).fresh.as_secs()
        };
        let known = "Cache-Control: max-age=5\r\nAge: 4\r\n";
        assert_eq!(renewed(known, "ETag: \"1\"\r\n"), 5);
        assert_eq!(renewed(known, "Cache-Control: max-age=9\r\nAge: 1\r\n"), 8);
        assert_eq!(renewed(known, "Cache-Control: no-store\r\n"), 0);
        assert_eq!(renewed("", ""), 60);
    }

    #[test]
    fn what_is_left_later_ends_at_the_same_time() {
        let secs = Duration::from_secs;
        let freshness =
            Freshness { fresh: secs(10), stale_while_revalidate: secs(5), stale_if_error: secs(60) };
        let came = Time::from_millis(5000);
        for age in [0, 4, 10, 12, 16, 70] {
            let later = came + secs(age);
            let wanted = freshness.until(came).map(|until| until.max(later));
            assert_eq!(freshness.after(secs(age)).until(later), wanted, "{age} s");
        }
        assert_eq!((freshness.lasts(), freshness.after(secs(12)).lasts()), (secs(70), secs(58)));
    }

    #[test]
    fn stale_answers_are_of_use_where_the_server_says_so() {
        let freshness =
            of(200, "Cache-Control: max-age=1, stale-while-revalidate=2, stale-if-error=60\r\n", "/a");
        assert_eq!((freshness.stale_while_revalidate.as_secs(), freshness.stale_if_error.as_secs()), (2, 60));
        let strict = of(200, "Cache-Control: max-age=1, stale-if-error=60, must-revalidate\r\n", "/a");
        assert_eq!(strict.stale_if_error, Duration::ZERO);
    }
}
