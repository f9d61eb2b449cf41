//! The clock of the server that is probed, where it tells it (`/api/time`), else our own.

use super::age::WallClock;
use super::source::{Address, Http};
use glassline_io::clock::Clock;
use glassline_media::{Time, Utc};
use std::io::Read;
use std::time::Duration;

const PATH: &str = "/api/time";
/// The answer with the shortest round trip counts.
const EXCHANGES: usize = 5;
const PATIENCE: Duration = Duration::from_secs(2);
/// An answer is some 30 bytes; a page that is none is not read any further.
const ANSWER_MAX_BYTES: u64 = 4096;

/// The wall clock for ages of what comes from `target`.
pub(super) fn of(target: &str) -> WallClock {
    let server = target.strip_prefix("http://").and_then(|rest| {
        let mut address = Address::parse(rest);
        PATH.clone_into(&mut address.target);
        let deadline = Clock.now() + PATIENCE;
        // Whoever fails once is no Glassline, and is not asked again.
        let answers = (0..EXCHANGES).map_while(|_| exchange(&address, deadline));
        answers.min_by(|a, b| a.uncertainty_ms.unwrap_or(0.0).total_cmp(&b.uncertainty_ms.unwrap_or(0.0)))
    });
    let at = Clock.now();
    server.unwrap_or(WallClock { at, utc: Clock.utc_at(at), whose: "local", uncertainty_ms: None })
}

fn exchange(address: &Address, deadline: Time) -> Option<WallClock> {
    let mut http = Http::open(address, deadline).ok()?;
    let round_trip = http.received.since(http.sent);
    let mut body = String::new();
    Body { http: &mut http, deadline }.take(ANSWER_MAX_BYTES).read_to_string(&mut body).ok()?;
    let answer: serde_json::Value = serde_json::from_str(&body).ok()?;
    let utc = Utc::from_micros(answer.get("utc_us")?.as_u64()?);
    let at = http.sent + round_trip / 2;
    Some(WallClock { at, utc, whose: "server", uncertainty_ms: Some(round_trip.as_secs_f64() * 1e3 / 2.0) })
}

struct Body<'a> {
    http: &'a mut Http,
    deadline: Time,
}

impl Read for Body<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.http.read(into, self.deadline)
    }
}
