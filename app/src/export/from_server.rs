//! A time of a recording that goes on: the server that records it makes a clip, which is fetched.
//!
//! ```text
//! POST /api/recordings/NAME/clip?from=T&to=T ─► GET …/clips/ID.json, until it is made ─► GET …/clips/ID.mp4 ─► OUT
//! ```

use super::{Args, explain, stopped_by_signals};
use crate::encode::outputs::read_key;
use crate::{failure, output};
use anyhow::Result;
use glassline_archive::export::{ExportFailure, Former, write_file};
use glassline_delivery::http1::{Method, Url};
use glassline_inspect::http::Response;
use glassline_io::clock::Clock;
use glassline_io::tls::Connector;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use zeroize::Zeroizing;

/// How long an answer may take, and the file.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
const FILE_TIMEOUT: Duration = Duration::from_secs(300);
/// How long it may take until the server has made the file: four others may be made before it.
const MADE_WITHIN: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long is waited where too many clips are being made.
const OCCUPIED: Duration = Duration::from_secs(2);
/// An answer in JSON is shorter; a clip has 64 MiB, and its tables.
const ANSWER_MAX_BYTES: usize = 1 << 20;
const FILE_MAX_BYTES: usize = 96 << 20;

/// The answer to an order.
#[derive(Deserialize)]
struct Ordered {
    status: String,
    file: String,
}

/// What became of it.
#[derive(Deserialize)]
struct Made {
    clip: Option<Clip>,
}

#[derive(Deserialize, Serialize)]
struct Clip {
    #[serde(default)]
    bytes: u64,
    from: String,
    seconds: f64,
    #[serde(default)]
    renditions: Vec<String>,
    #[serde(default)]
    missing: Vec<Missing>,
    #[serde(default)]
    lost_objects: u64,
}

#[derive(Deserialize, Serialize)]
struct Missing {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rendition: Option<String>,
    from: String,
    to: String,
}

/// What was exported, for programs.
#[derive(Serialize)]
struct Exported<'a> {
    file: &'a Path,
    #[serde(flatten)]
    clip: &'a Clip,
    whole: bool,
}

impl Clip {
    fn is_whole(&self) -> bool {
        self.missing.is_empty() && self.lost_objects == 0
    }
}

/// Why a request was refused (RFC 9457).
#[derive(Deserialize)]
struct Problem {
    #[serde(default)]
    title: String,
    #[serde(default)]
    detail: String,
}

/// A server that is asked.
struct Server<'a> {
    url: &'a Url,
    trust: Option<Connector>,
    key: Option<Zeroizing<String>>,
    stop: Arc<AtomicBool>,
}

impl Server<'_> {
    /// The status and the body of an answer.
    fn ask(&self, method: Method, path: &str, within: Duration, most: usize) -> Result<(u16, Vec<u8>)> {
        // A proxy may have taken the path in front of all away.
        let base = self.url.target().trim_end_matches('/');
        let whole = if path.starts_with(base) { path.to_owned() } else { format!("{base}{path}") };
        let url = self.url.at(&whole);
        let failed =
            |error: &dyn std::fmt::Display, advice| failure::failed(format!("{}: {error}", self.url), advice);
        let deadline = Clock.now() + within;
        let key = self.key.as_ref().map(|key| key.as_str());
        let mut response = Response::ask_as(method, &url, self.trust.as_ref(), key, deadline)
            .map_err(|error| failed(&error, "look whether the server runs, and at this address"))?;
        let (mut body, mut room) = (Vec::new(), vec![0; 256 << 10]);
        loop {
            let count = response
                .read(&mut room, deadline)
                .map_err(|error| failed(&error, "the answer broke off; begin again"))?;
            if self.stop.load(Ordering::Relaxed) {
                return Err(explain(&ExportFailure::Stopped));
            }
            body.extend_from_slice(room.get(..count).unwrap_or_default());
            if body.len() > most {
                return Err(failed(&"the answer is larger than any of such a server", "ask another server"));
            }
            if count == 0 {
                break;
            }
        }
        if let Some(error) = response.early_end() {
            return Err(failed(error, "the answer broke off; begin again"));
        }
        Ok((response.head().status, body))
    }

    fn refused(&self, status: u16, body: &[u8]) -> anyhow::Error {
        let problem = serde_json::from_slice::<Problem>(body).ok();
        let words = problem.map(|it| format!(" ({}: {})", it.title, it.detail)).unwrap_or_default();
        let advice = match status {
            401 | 403 => "give the publish key by --publish-key-file, or ask on the server's own machine",
            404 => "GET /api/recordings says what is recorded",
            400 | 413 => "ask for a shorter time, or export from --store",
            503 => "ask again in a moment",
            _ => "the server's log says more",
        };
        failure::failed(format!("{}: the server answered {status}{words}", self.url), advice)
    }

    fn read<T: for<'a> Deserialize<'a>>(&self, body: &[u8]) -> Result<T> {
        serde_json::from_slice(body).map_err(|error| {
            let words = format!("{}: the answer is none of a server of glassline: {error}", self.url);
            failure::failed(words, "ask a server of this version")
        })
    }
}

/// Exports what `args` say from `server`.
pub(super) fn run(args: &Args, server: &Url, former: Former, clock: Clock) -> Result<()> {
    let key = args.publish_key_file.as_deref().map(read_key).transpose()?;
    let trust = if server.tls() { Some(args.trust.connector()?) } else { None };
    let stop = stopped_by_signals()?;
    let asked = Server { url: server, trust, key, stop: Arc::clone(&stop) };
    let order = format!("/api/recordings/{}/clip?{}", args.name, query(args));
    let deadline = clock.now() + MADE_WITHIN;
    let body = loop {
        let (status, body) = asked.ask(Method::Post, &order, ANSWER_TIMEOUT, ANSWER_MAX_BYTES)?;
        match status {
            202 => break body,
            // Other clips are being made.
            503 if clock.now() < deadline => std::thread::sleep(OCCUPIED),
            _ => return Err(asked.refused(status, &body)),
        }
        if stop.load(Ordering::Relaxed) {
            return Err(explain(&ExportFailure::Stopped));
        }
    };
    let Ordered { status: told, file } = asked.read(&body)?;
    let clip = loop {
        if stop.load(Ordering::Relaxed) {
            return Err(explain(&ExportFailure::Stopped));
        }
        let (status, body) = asked.ask(Method::Get, &told, ANSWER_TIMEOUT, ANSWER_MAX_BYTES)?;
        match status {
            200 => {
                if let Some(clip) = asked.read::<Made>(&body)?.clip {
                    break clip;
                }
            }
            202 => {}
            _ => return Err(asked.refused(status, &body)),
        }
        if clock.now() >= deadline {
            let words = format!("{server}: the server has not made the file in {} s", MADE_WITHIN.as_secs());
            return Err(failure::failed(words, "begin again"));
        }
        std::thread::sleep(LOOK_EVERY);
    };
    let (status, bytes) = asked.ask(Method::Get, &file, FILE_TIMEOUT, FILE_MAX_BYTES)?;
    if status != 200 {
        return Err(asked.refused(status, &bytes));
    }
    write_file(&args.out, former, &bytes).map_err(|failed| explain(&failed))?;
    let clip = Clip { bytes: bytes.len() as u64, ..clip };
    if args.json {
        let exported = Exported { file: &args.out, whole: clip.is_whole(), clip: &clip };
        output::print(&format!("{}\n", serde_json::to_string(&exported)?))?;
    } else {
        output::print_aside(&words(&args.out, &clip))?;
    }
    if clip.is_whole() { Ok(()) } else { Err(failure::incomplete()) }
}

/// The times, as the server understands them: those before now are before its own.
fn query(args: &Args) -> String {
    let escaped = |text: &str| text.replace('%', "%25").replace('+', "%2B").replace(':', "%3A");
    let from = args.from.as_deref().map(|from| format!("from={}", escaped(from)));
    let to = args.to.as_deref().map(|to| format!("to={}", escaped(to)));
    from.into_iter().chain(to).collect::<Vec<_>>().join("&")
}

fn words(out: &Path, clip: &Clip) -> String {
    let Clip { bytes, from, seconds, missing, lost_objects, .. } = clip;
    let mut text = format!("{}: {seconds:.1} s from {from}, {:.1} MB\n", out.display(), *bytes as f64 / 1e6);
    for Missing { rendition, from, to } in missing {
        let _ = match rendition {
            None => writeln!(text, "not recorded: {from} to {to}; the file goes on without a hole"),
            Some(rendition) => writeln!(text, "without {rendition}: {from} to {to}"),
        };
    }
    if *lost_objects > 0 {
        let _ = writeln!(text, "{lost_objects} recorded objects are not there or damaged, and left out");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_became_of_it_is_read_and_told() {
        let text = r#"{"state":"done","clip":{"bytes":7,"from":"2026-11-30T20:15:00.000Z","seconds":30.04,"renditions":["video"],
            "missing":[{"from":"a","to":"b"},{"rendition":"audio","from":"c","to":"d"}],"lost_objects":2,"poster":null}}"#;
        let clip = serde_json::from_str::<Made>(text).unwrap().clip.unwrap();
        assert!(!clip.is_whole());
        let told = words(Path::new("a.mp4"), &clip);
        for wanted in
            ["a.mp4: 30.0 s from 2026", "not recorded: a to b", "without audio: c to d", "2 recorded"]
        {
            assert!(told.contains(wanted), "{wanted}: {told}");
        }
        assert!(serde_json::from_str::<Made>(r#"{"state":"making"}"#).unwrap().clip.is_none());
    }
}
