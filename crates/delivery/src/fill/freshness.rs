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

use crate::http1::Headers;
use glassline_media::Time;
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
    /// What the answer with this status and these headers to a request for `path` may be used for.
    pub fn of(status: u16, headers: &Headers, path: &str, defaults: &Defaults) -> Freshness {
        let directives: Vec<(String, Option<u64>)> = headers
            .all("cache-control")
            .flat_map(|value| value.split(','))
            .map(|directive| {
                let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
                (name.trim().to_ascii_lowercase(), value.trim().trim_matches('"').parse().ok())
            })
            .collect();
        let has = |name: &str| directives.iter().any(|(known, _)| known == name);
        let seconds = |name: &str| {
            let found = directives.iter().find(|(known, _)| known == name)?;
            found.1.map(|seconds| Duration::from_secs(seconds.min(YEAR_SECS)))
        };
        if ["no-store", "private", "no-cache"].into_iter().any(has) || headers.has_token("vary", "*") {
            return Freshness::default();
        }
        let told = seconds("s-maxage").or_else(|| seconds("max-age"));
        let told = told.or_else(|| headers.first("expires").map(|_| Duration::ZERO));
        let usual = if !matches!(status, 200 | 206) {
            defaults.negative
        } else if is_media(path) {
            defaults.media
        } else {
            defaults.other
        };
        let age = headers.first("age").and_then(|age| age.trim().parse().ok()).map(Duration::from_secs);
        let must = has("must-revalidate") || has("proxy-revalidate");
        let stale = |name| seconds(name).filter(|_| !must).unwrap_or_default();
        Freshness {
            fresh: told.unwrap_or(usual).saturating_sub(age.unwrap_or_default()),
            stale_while_revalidate: stale("stale-while-revalidate"),
            stale_if_error: stale("stale-if-error"),
        }
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
    use crate::http1::client::{Event, Request};
    use crate::http1::{Limits, Method};

    fn of(status: u16, fields: &str, path: &str) -> Freshness {
        let wire = format!("HTTP/1.1 {status} x\r\n{fields}\r\n");
        let mut client = Request::new(Method::Get, "h", "/").client(Limits::DEFAULT);
        match client.next(&mut wire.as_bytes()) {
            Ok(Some(Event::Head(head))) => {
                Freshness::of(head.status, &head.headers, path, &Defaults::default())
            }
            other => panic!("{other:?}"),
        }
    }

    fn fresh_secs(status: u16, fields: &str, path: &str) -> f64 {
        of(status, fields, path).fresh.as_secs_f64()
    }

    #[test]
    fn what_is_told_counts() {
        for (fields, secs) in [
            ("Cache-Control: max-age=7\r\n", 7.0),
            ("Cache-Control: public, MAX-AGE=\"7\", s-maxage=3\r\n", 3.0),
            ("Cache-Control: max-age=7\r\nAge: 5\r\n", 2.0),
            ("Cache-Control: max-age=7\r\nAge: 50\r\n", 0.0),
            ("Cache-Control: max-age=7, no-store\r\n", 0.0),
            ("Cache-Control: private\r\n", 0.0),
            ("Expires: Thu, 01 Jan 1970 00:00:00 GMT\r\n", 0.0),
            ("Vary: *\r\n", 0.0),
            ("Cache-Control: max-age=99999999999999999999\r\n", 60.0),
        ] {
            assert_eq!(fresh_secs(200, fields, "/a.m4s"), secs, "{fields}");
        }
    }

    #[test]
    fn where_nothing_is_told_it_depends_on_what_it_is() {
        assert_eq!(fresh_secs(200, "", "/live/a/video/1.M4S"), 60.0);
        assert_eq!(fresh_secs(200, "", "/live/a/index.m3u8"), 0.0);
        assert_eq!(fresh_secs(404, "", "/live/a/video/9.m4s"), 0.5);
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
