//! The clock of the probed server, if the server tells it (`/api/time`), otherwise our own.

use super::source::Http;
use crate::trust::Trust;
use glassline_delivery::http1::Url;
use glassline_inspect::transport_stream::WallClock;
use glassline_io::clock::Clock;
use glassline_io::tls::Connector;
use glassline_media::{Time, Utc};
use std::io::Read;
use std::time::Duration;

const PATH: &str = "/api/time";
/// The answer with the shortest round trip counts.
const EXCHANGES: usize = 5;
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// An answer is some 30 bytes; a page that is none is not read any further.
const ANSWER_MAX_BYTES: u64 = 4096;

/// The wall clock for ages of what comes from `target`.
pub(crate) fn of(target: &str, trust: &Trust) -> WallClock {
    let server = target.parse().ok().and_then(|url: Url| {
        let url = url.at(PATH);
        let trust = if url.tls() { Some(trust.connector().ok()?) } else { None };
        let deadline = Clock.now() + ANSWER_TIMEOUT;
        // A server that fails once is not Glassline, and is not asked again.
        let answers = (0..EXCHANGES).map_while(|_| exchange(&url, trust.as_ref(), deadline));
        answers.min_by(|a, b| a.uncertainty_ms.unwrap_or(0.0).total_cmp(&b.uncertainty_ms.unwrap_or(0.0)))
    });
    let at = Clock.now();
    server.unwrap_or(WallClock { at, utc: Clock.utc_at(at), whose: "local", uncertainty_ms: None })
}

fn exchange(url: &Url, trust: Option<&Connector>, deadline: Time) -> Option<WallClock> {
    let mut http = Http::open(url, trust, deadline).ok()?;
    let round_trip = http.received().since(http.sent());
    let mut body = String::new();
    Body { http: &mut http, deadline }.take(ANSWER_MAX_BYTES).read_to_string(&mut body).ok()?;
    let answer: serde_json::Value = serde_json::from_str(&body).ok()?;
    let utc = Utc::from_micros(answer.get("utc_us")?.as_u64()?);
    let at = http.sent() + round_trip / 2;
    Some(WallClock { at, utc, whose: "server", uncertainty_ms: Some(round_trip.as_secs_f64() * 1e3 / 2.0) })
}

/// A body, read until a deadline.
pub(super) struct Body<'a> {
    pub(super) http: &'a mut Http,
    pub(super) deadline: Time,
}

impl Read for Body<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        self.http.read(into, self.deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{Shutdown, TcpListener};
    use std::thread;

    const HOUR_NS: u64 = 3_600_000_000_000;

    /// A server that gives these answers, one a connection and the last one again and again; how far its clock is
    /// ahead of ours and how long each takes is theirs. Gives the URL of a stream at it.
    fn server(answers: Vec<(Duration, Box<dyn Fn() -> String + Send>)>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/live/a.ts", listener.local_addr().unwrap());
        thread::spawn(move || {
            for number in 0.. {
                let Ok((mut stream, _)) = listener.accept() else { return };
                let mut request = [0; 4096];
                let count = stream.read(&mut request).unwrap();
                assert!(request[..count].starts_with(b"GET /api/time HTTP/1.1\r\n"));
                let (takes, answer) = answers.get(number).or(answers.last()).unwrap();
                thread::sleep(*takes);
                stream.write_all(answer().as_bytes()).unwrap();
                let _ = stream.shutdown(Shutdown::Write);
            }
        });
        url
    }

    fn answer(body: &str) -> String {
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    }

    /// What a server says whose clock is so many hours ahead of ours.
    fn time(hours: u64) -> Box<dyn Fn() -> String + Send> {
        Box::new(move || {
            let utc = Clock.utc_at(Clock.now()).as_nanos() + hours * HOUR_NS;
            answer(&format!("{{\"utc_us\": {}}}", utc / 1000))
        })
    }

    /// How far a clock is ahead of ours, in nanoseconds.
    fn ahead(clock: &WallClock) -> i128 {
        i128::from(clock.utc.as_nanos()) - i128::from(Clock.utc_at(clock.at).as_nanos())
    }

    #[test]
    fn the_servers_clock_is_found_by_its_quickest_answer() {
        // The first answer is slow, and of another time.
        let slow = Duration::from_millis(400);
        let found = of(&server(vec![(slow, time(1)), (Duration::ZERO, time(2))]), &Trust::default());
        assert_eq!(found.whose, "server");
        let uncertainty_ns = (found.uncertainty_ms.unwrap() * 1e6) as i128;
        let off = ahead(&found) - i128::from(2 * HOUR_NS);
        // The answer counts microseconds, and the wall clock may be slewed meanwhile.
        assert!(off.abs() <= uncertainty_ns + 1_000_000, "{off} ns, said {uncertainty_ns}");
    }

    #[test]
    fn without_a_servers_clock_it_is_ours() {
        let missing = || "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned();
        let endless = || answer(&"9".repeat(1 << 20));
        let answers: [Box<dyn Fn() -> String + Send>; 5] = [
            Box::new(missing),
            Box::new(|| answer("{\"utc_us\": \"soon\"}")),
            Box::new(|| answer("no JSON")),
            Box::new(|| answer("{\"utc_us\": -1}")),
            Box::new(endless),
        ];
        let servers = answers.into_iter().map(|answer| server(vec![(Duration::ZERO, answer)]));
        // Nobody listens there, and there is no server at all.
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let others =
            [format!("http://{nobody}/live/a.ts"), "udp://127.0.0.1:5000".to_owned(), "a.ts".to_owned()];
        for target in servers.chain(others) {
            let found = of(&target, &Trust::default());
            assert_eq!((found.whose, found.uncertainty_ms), ("local", None), "{target}");
            assert!(ahead(&found).abs() < 1_000_000_000, "{target}");
        }
    }
}
