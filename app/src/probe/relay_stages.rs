//! When the server that is probed passed its last pictures on, where it tells that (`GET /live/NAME/stages.json`).

use super::server_clock::Body;
use super::source::Http;
use crate::trust::Trust;
use glassline_delivery::http1::Url;
use glassline_delivery::policy::StreamName;
use glassline_inspect::transport_stream::RelayStages;
use glassline_io::clock::Clock;
use serde::Deserialize;
use std::io::Read;
use std::time::Duration;

const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// 1,200 pictures of at most 160 bytes are less than half of it.
const ANSWER_MAX_BYTES: u64 = 1 << 20;

#[derive(Deserialize)]
struct Answer {
    pictures: Vec<RelayStages>,
}

/// When the server at `target` passed the pictures of the last ten seconds on; none where it does not tell.
pub(super) fn of(target: &str, trust: &Trust) -> Vec<RelayStages> {
    fetch(target, trust).unwrap_or_default()
}

fn fetch(target: &str, trust: &Trust) -> Option<Vec<RelayStages>> {
    let url: Url = target.parse().ok()?;
    let url = url.at(&beside(url.target())?);
    let trust = if url.tls() { Some(trust.connector().ok()?) } else { None };
    let deadline = Clock.now() + ANSWER_TIMEOUT;
    let mut http = Http::open(&url, trust.as_ref(), deadline).ok()?;
    let mut body = String::new();
    Body { http: &mut http, deadline }.take(ANSWER_MAX_BYTES).read_to_string(&mut body).ok()?;
    Some(serde_json::from_str::<Answer>(&body).ok()?.pictures)
}

/// Where a server tells it of the stream at `target`, a path and perhaps a query, which may hold a viewer's token.
fn beside(target: &str) -> Option<String> {
    let (path, query) = target.split_at(target.find('?').unwrap_or(target.len()));
    let name = path.strip_prefix("/live/")?;
    let name = StreamName::parse(name.strip_suffix(".ts").unwrap_or(name))?;
    Some(format!("/live/{name}/stages.json{query}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;
    use std::thread;

    #[test]
    fn it_is_asked_for_beside_the_stream() {
        for (target, expected) in [
            ("/live/a.ts", Some("/live/a/stages.json")),
            ("/live/a", Some("/live/a/stages.json")),
            ("/live/a.b.ts?expires=1&token=x", Some("/live/a.b/stages.json?expires=1&token=x")),
            ("/live/a/b.ts", None),
            ("/a.ts", None),
            ("/live/.ts", None),
        ] {
            assert_eq!(beside(target).as_deref(), expected, "{target}");
        }
    }

    /// Asks a server that gives this answer, once.
    fn asked(answer: &'static str) -> Vec<RelayStages> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = format!("http://{}/live/a.ts", listener.local_addr().unwrap());
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            let count = stream.read(&mut request).unwrap();
            assert!(request[..count].starts_with(b"GET /live/a/stages.json HTTP/1.1\r\n"));
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let told = of(&target, &Trust::default());
        server.join().unwrap();
        told
    }

    #[test]
    fn a_server_tells_or_nothing_is_known() {
        let told = asked(
            "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"now_us\": 9, \"pictures\": [{\"captured_us\": 5, \"relay_received\": -7}]}",
        );
        let expected = RelayStages {
            captured_us: 5,
            relay_received: Some(-7),
            relay_released: None,
            relay_flushed: None,
            relay_sent: None,
        };
        assert_eq!(told, [expected]);
        for answer in [
            "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n<html></>",
            "HTTP/1.1 200 OK\r\nContent-Length: 32\r\n\r\n{\"pictures\": [{\"captured_us\":-1}]}",
            "",
        ] {
            assert_eq!(asked(answer), [], "{answer}");
        }
        assert_eq!(of("udp://127.0.0.1:5000", &Trust::default()), []);
    }
}
