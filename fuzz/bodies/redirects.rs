//! What an upstream may answer to who pulls from it, redirects above all.
//!
//! The first byte chooses the source and how bytes are chopped. Behind it come answers, each behind two bytes: the three
//! highest bits choose what it is, the others are its length.

use glassline_delivery::http1::{Limits, Url};
use glassline_delivery::pull::{Event, Output, Phase, Policy, PullError, Puller, Source};
use glassline_media::Time;
use std::time::Duration;

const SECRET: &str = "Pa55w0rd";
/// `us3r:Pa55w0rd` in base64, as it stands in `Authorization`.
const CREDENTIALS: &str = "dXMzcjpQYTU1dzByZA==";
const SOURCES: [&str; 4] = [
    "http://us3r:Pa55w0rd@origin.example/live/a.ts?key=Pa55w0rd",
    "https://us3r:Pa55w0rd@origin.example/live/a.ts",
    "http://us3r:Pa55w0rd@[2001:db8::1]:8080/",
    "https://us3r:Pa55w0rd@origin.example:8443?key=Pa55w0rd",
];
const POLICY: Policy = Policy {
    silence_timeout: Duration::from_secs(5),
    retry_min: Duration::from_millis(250),
    retry_max: Duration::from_secs(4),
    good_after: Duration::from_secs(3),
    reorder: Duration::ZERO,
};
/// Redirects that are followed in a row.
const REDIRECTS_MAX: usize = 5;
/// What a puller may hold, as JSON: a head, and six places that were visited, each as long as one.
const HELD_BYTES_MAX: usize = 96 << 10;

/// Has a puller answered. Panics where credentials go to somebody else or are shown, where it is led from `https:` to
/// `http:`, in a circle or too far, where a request has more than its own lines, where it holds too much, and where the
/// chop or a change of process has an influence.
pub fn run(data: &[u8]) {
    let Some((&choice, answers)) = data.split_first() else { return };
    let whole = Pull::run(choice, answers, usize::MAX, false);
    let chopped = Pull::run(choice, answers, 1 + usize::from(choice >> 2), false);
    assert_eq!(whole, chopped, "any chop tells the same");
    let restored = Pull::run(choice, answers, usize::MAX, true);
    assert_eq!(whole, restored, "another process goes on alike");
}

/// All that a puller does that is seen from outside.
#[derive(Debug, PartialEq)]
struct Seen {
    places: Vec<(bool, String, u16)>,
    requests: Vec<Vec<u8>>,
    stream: Vec<u8>,
    metacube: Vec<bool>,
}

struct Pull {
    puller: Puller,
    source: Url,
    now: Time,
    /// Of the present attempt: where it has connected to, and what it has asked there.
    attempt: Vec<(bool, String, u16)>,
    asked: Vec<Vec<u8>>,
    seen: Seen,
    /// Whether the answers themselves may contain the secret.
    is_told: bool,
}

impl Pull {
    fn run(choice: u8, mut answers: &[u8], chop: usize, restore: bool) -> Seen {
        let Ok(Source::Http(source)) = Source::parse(SOURCES[usize::from(choice % 4)]) else {
            unreachable!()
        };
        let now = Time::from_millis(1000);
        let is_told = [SECRET.as_bytes(), &CREDENTIALS.as_bytes()[..8], b"us3r"]
            .iter()
            .any(|secret| answers.windows(secret.len()).any(|bytes| bytes == *secret));
        let mut pull = Pull {
            puller: Puller::new(source.clone(), POLICY, 1, now),
            source,
            now,
            attempt: Vec::new(),
            asked: Vec::new(),
            seen: Seen { places: Vec::new(), requests: Vec::new(), stream: Vec::new(), metacube: Vec::new() },
            is_told,
        };
        while let [high, low, behind @ ..] = answers {
            let length = usize::from(u16::from_be_bytes([high & 0x1F, *low])).min(behind.len());
            let (bytes, behind) = behind.split_at(length);
            answers = behind;
            pull.answer(high >> 5, bytes, chop);
            if restore {
                let saved = serde_json::to_vec(&pull.puller).expect("plain values");
                pull.puller = serde_json::from_slice(&saved).expect("what was saved");
            }
        }
        pull.seen
    }

    /// One answer, once there is a connection for it.
    fn answer(&mut self, kind: u8, bytes: &[u8], chop: usize) {
        if let Phase::Waiting { .. } = self.puller.phase() {
            self.now = self.now.max(self.puller.poll_timeout().expect("a puller that waits has a deadline"));
            self.puller.handle_timeout(self.now);
            (self.attempt, self.asked) = (Vec::new(), Vec::new());
        }
        self.act();
        match kind {
            0..=4 => {
                let status = [301, 302, 303, 307, 308][usize::from(kind)];
                let head = format!("HTTP/1.1 {status} Moved\r\nLocation: ");
                let body = "\r\nContent-Length: 3\r\n\r\nabc";
                self.bytes(&[head.as_bytes(), bytes, body.as_bytes()].concat(), chop);
            }
            5 => self.bytes(bytes, chop),
            6 => {
                self.bytes(bytes, chop);
                self.puller.handle_end(self.now);
            }
            _ => {
                self.now += Duration::from_millis(100 * u64::from(bytes.first().copied().unwrap_or(0)));
                self.puller.handle_timeout(self.now);
                if bytes.len() > 1 {
                    self.puller.handle_failure(PullError::Lost("it broke".into()), self.now);
                }
            }
        }
        self.act();
        let held = serde_json::to_vec(&self.puller).expect("plain values").len();
        assert!(
            held <= HELD_BYTES_MAX + 8 * Limits::DEFAULT.head_bytes * (2 + REDIRECTS_MAX),
            "{held} bytes"
        );
        assert!(
            self.puller.poll_timeout().expect("a puller always has a deadline")
                <= self.now + POLICY.silence_timeout
        );
        let error = self.puller.error().map(|error| format!("{error} {error:?}")).unwrap_or_default();
        assert!(self.is_told || !error.contains(SECRET), "{error}");
    }

    /// Gives the bytes to the connection that is there, as far as the puller keeps it.
    fn bytes(&mut self, bytes: &[u8], chop: usize) {
        for part in bytes.chunks(chop.min(bytes.len().max(1))) {
            let seen = &mut self.seen;
            self.puller.handle_bytes(part, self.now, &mut |event| match event {
                Event::Began { metacube, .. } => seen.metacube.push(metacube),
                Event::Data(data) => seen.stream.extend_from_slice(data),
                Event::Block { .. } | Event::Metadata(_) => {}
            });
            if self.puller.has_output() {
                return;
            }
        }
    }

    /// Does what the puller wants, up to the request.
    fn act(&mut self) {
        while let Some(output) = self.puller.poll_output() {
            match output {
                Output::Close => {}
                Output::Send(bytes) => self.check_request(bytes),
                Output::Connect { host, port, tls } => {
                    let was_secure = self.attempt.last().is_some_and(|(tls, ..)| *tls);
                    assert!(tls || !was_secure, "from https: to http:");
                    self.attempt.push((tls, host.clone(), port));
                    assert!(self.attempt.len() <= 1 + REDIRECTS_MAX);
                    self.seen.places.push((tls, host, port));
                    self.puller.handle_connected(self.now);
                }
            }
        }
    }

    fn check_request(&mut self, bytes: Vec<u8>) {
        let text = std::str::from_utf8(&bytes).expect("ASCII");
        let place = self.attempt.last().expect("a connection");
        let lines: Vec<&str> = text.split("\r\n").collect();
        let is_own = *place == (self.source.tls(), self.source.host().to_owned(), self.source.port());
        let has_credentials = lines.len() == 8 && lines[4].starts_with("Authorization: Basic ");
        assert!(lines.len() == 7 || has_credentials, "{text:?}");
        assert!(lines[0].starts_with("GET /") && lines[0].ends_with(" HTTP/1.1"), "{text:?}");
        assert_eq!(lines[0].split(' ').count(), 3, "{text:?}");
        let authority = lines[1].strip_prefix("Host: ").expect("the host");
        let bare = authority.strip_prefix('[').unwrap_or(authority);
        assert!(bare.starts_with(&place.1), "{authority} of {place:?}");
        assert!(lines.iter().all(|line| line.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ')));
        assert!(lines[lines.len() - 2..].iter().all(|line| line.is_empty()), "{text:?}");
        if !is_own && !self.is_told {
            assert!(!text.contains(CREDENTIALS) && !text.contains(SECRET), "{text:?} to {place:?}");
        }
        if self.asked.is_empty() {
            assert!(is_own && text.contains(CREDENTIALS), "{text:?}");
        }
        let same = self.asked.iter().zip(&self.attempt).any(|(asked, at)| *asked == bytes && at == place);
        assert!(!same, "in a circle");
        self.asked.push(bytes.clone());
        self.seen.requests.push(bytes);
    }
}
