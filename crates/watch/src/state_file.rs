//! What is learnt of streams, in a file: a later run goes on with it.
//!
//! JSON: `{"version":1,"written_utc_s":1777863721,"streams":{"hall":{"sharpness":[0.8312,…]}}}`. Another file is written beside it and
//! takes its place, so that it is whole whenever the program ends.

use glassline_delivery::watch::Saved;
use glassline_io::small_file::{Accept, Bounds, SmallFile, SmallFileError};
use glassline_media::{Time, Utc};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The form that is written, and the only one that is read.
const VERSION: u32 = 1;
/// Six hundred numbers of each of 1,024 streams take half of it.
const FILE_BYTES_MAX: u64 = 12 << 20;
/// How often it is written at most.
const INTERVAL: Duration = Duration::from_secs(60);
/// What is older says nothing of the pictures of now.
const AGE_MAX: Duration = Duration::from_secs(24 * 3600);
/// Streams in it.
const STREAMS_MAX: usize = 1024;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Content {
    version: u32,
    written_utc_s: u64,
    #[serde(default)]
    streams: BTreeMap<String, Saved>,
}

/// What is kept of streams; without a path nothing is.
#[derive(Debug, Default)]
pub(crate) struct StateFile {
    path: Option<PathBuf>,
    streams: BTreeMap<String, Saved>,
    /// What is kept has changed since it was written.
    is_changed: bool,
    written_at: Time,
    /// That it cannot be written was told.
    has_warned: bool,
}

impl StateFile {
    /// Uses the file at `path` from now on: what it says of streams of which nothing is known counts.
    pub(crate) fn set_path(&mut self, path: Option<&Path>, now: Time, utc: Utc) {
        if self.path.as_deref() == path {
            return;
        }
        *self = StateFile { path: path.map(Path::to_owned), written_at: now, ..std::mem::take(self) };
        let Some(path) = path else { return self.streams.clear() };
        match read(path) {
            Ok(text) => match parse(&text, utc) {
                Ok(streams) => {
                    let room = STREAMS_MAX.saturating_sub(self.streams.len());
                    let known = std::mem::take(&mut self.streams);
                    self.streams = streams.into_iter().take(room).chain(known).collect();
                }
                Err(words) => {
                    tracing::warn!(file = %path.display(), "what was learnt of streams is not used: {words}");
                }
            },
            Err(error) if error.is_not_found() => {}
            Err(error) => tracing::warn!("what was learnt of streams is not used: {error}"),
        }
    }

    /// What an earlier run has learnt of `stream`.
    pub(crate) fn saved(&self, stream: &str) -> Saved {
        self.streams.get(stream).cloned().unwrap_or_default()
    }

    /// Keeps what is known of `stream`. A stream that is new has no place where there are too many.
    pub(crate) fn keep(&mut self, stream: &str, saved: Saved) {
        let is_full = self.streams.len() >= STREAMS_MAX && !self.streams.contains_key(stream);
        if self.path.is_none() || saved.is_empty() || is_full {
            return;
        }
        self.is_changed |= self.streams.insert(stream.to_owned(), saved.clone()).as_ref() != Some(&saved);
    }

    /// Keeps only what `stays` names.
    pub(crate) fn retain(&mut self, stays: impl Fn(&str) -> bool) {
        let before = self.streams.len();
        self.streams.retain(|stream, _| stays(stream));
        self.is_changed |= self.streams.len() != before;
    }

    /// Whether the file is written at `now`.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.path.is_some() && now.since(self.written_at) >= INTERVAL
    }

    /// Writes the file, where something has changed.
    pub(crate) fn write(&mut self, now: Time, utc: Utc) {
        self.written_at = now;
        let Some(path) = self.path.as_deref().filter(|_| self.is_changed) else { return };
        match write(path, &self.streams, utc) {
            Ok(()) => (self.is_changed, self.has_warned) = (false, false),
            Err(error) if !self.has_warned => {
                self.has_warned = true;
                tracing::warn!(file = %path.display(), "what is learnt of streams is not kept: {error}");
            }
            Err(_) => {}
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, SmallFileError> {
    let bounds = Bounds { max_bytes: FILE_BYTES_MAX, ..Bounds::default() };
    Ok(SmallFile::open(path, Accept::RegularFile, bounds)?.read()?.to_vec())
}

/// What is in a file; an error says why it is not used.
fn parse(text: &[u8], utc: Utc) -> Result<BTreeMap<String, Saved>, String> {
    #[derive(Deserialize)]
    struct Head {
        version: u32,
    }
    let damaged = |error: serde_json::Error| format!("it is damaged: {error}");
    let Head { version } = serde_json::from_slice(text).map_err(damaged)?;
    if version != VERSION {
        return Err(format!("it is of version {version}, not {VERSION}"));
    }
    let content: Content = serde_json::from_slice(text).map_err(damaged)?;
    let now_s = utc.as_micros() / 1_000_000;
    let age = Duration::from_secs(now_s.saturating_sub(content.written_utc_s));
    if age > AGE_MAX {
        return Err(format!(
            "it is {} hours old, and says nothing of today's pictures",
            age.as_secs() / 3600
        ));
    }
    Ok(content.streams)
}

fn write(path: &Path, streams: &BTreeMap<String, Saved>, utc: Utc) -> io::Result<()> {
    #[derive(Serialize)]
    struct Written<'a> {
        version: u32,
        written_utc_s: u64,
        streams: &'a BTreeMap<String, Saved>,
    }
    let content = Written { version: VERSION, written_utc_s: utc.as_micros() / 1_000_000, streams };
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = Path::new(&beside);
    fs::write(beside, serde_json::to_vec(&content)?)?;
    fs::rename(beside, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_test_support::program::Scratch;
    use proptest::prelude::*;

    const NOW: Utc = Utc::from_micros(1_777_863_721_000_000);

    fn saved(value: f64) -> Saved {
        serde_json::from_value(serde_json::json!({ "sharpness": vec![value; 100] })).unwrap()
    }

    fn at(path: &str) -> StateFile {
        let mut file = StateFile::default();
        file.set_path(Some(path.as_ref()), Time::ZERO, NOW);
        file
    }

    #[test]
    fn what_is_kept_comes_back() {
        let scratch = Scratch::new("watch-state");
        let path = scratch.file("state.json");
        let mut file = at(&path);
        assert_eq!(file.saved("hall"), Saved::default());
        assert!(!file.is_due(Time::from_millis(59_999)) && file.is_due(Time::from_millis(60_000)));
        file.keep("hall", saved(0.5));
        file.keep("bar", saved(0.25));
        file.keep("empty", Saved::default());
        file.write(Time::from_millis(60_000), NOW);
        assert!(!file.is_due(Time::from_millis(60_001)));
        assert!(!std::fs::exists(format!("{path}.new")).unwrap());
        let mut again = at(&path);
        assert_eq!((again.saved("hall"), again.saved("bar")), (saved(0.5), saved(0.25)));
        again.retain(|stream| stream == "bar");
        again.write(Time::ZERO, NOW);
        assert_eq!(at(&path).streams.keys().collect::<Vec<_>>(), ["bar"]);
        // What has not changed is not written: another process may have it by now.
        std::fs::remove_file(&path).unwrap();
        again.keep("bar", saved(0.25));
        again.write(Time::ZERO, NOW);
        assert!(!std::fs::exists(&path).unwrap());
    }

    #[test]
    fn what_is_damaged_old_or_of_another_version_is_not_used() {
        for (text, words) in [
            ("", "damaged"),
            ("{\"version\":1", "damaged"),
            ("{\"version\":2,\"new\":[]}", "version 2"),
            ("{\"version\":1,\"written_utc_s\":1777863721,\"streams\":{\"hall\":7}}", "damaged"),
            ("{\"version\":1,\"written_utc_s\":1777700000,\"streams\":{}}", "45 hours old"),
        ] {
            let error = parse(text.as_bytes(), NOW).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
        let scratch = Scratch::new("watch-state-bad");
        let path = scratch.write("state.json", "nothing");
        let mut file = at(&path);
        file.keep("hall", saved(0.5));
        file.write(Time::ZERO, NOW);
        assert_eq!(at(&path).saved("hall"), saved(0.5), "it is written anew");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0usize..120) {
            let _ = parse(&bytes, NOW);
            let whole = br#"{"version":1,"written_utc_s":1777863721,"streams":{"hall":{"sharpness":[0.5,1e999,-3,0.25]}}}"#;
            let _ = parse(&whole[..cut.min(whole.len())], NOW);
            let mut damaged = whole.to_vec();
            for (at, byte) in bytes.iter().enumerate().take(4) {
                let at = (at * 37 + usize::from(*byte)) % damaged.len();
                damaged[at] ^= byte;
            }
            let _ = parse(&damaged, NOW);
        }
    }
}
