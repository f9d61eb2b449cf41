//! What the pulling thread tells of each source, for the API, the metrics and the workers.

use super::Pull;
use glassline_delivery::http1::Url;
use glassline_delivery::policy::StreamName;
use glassline_delivery::pull::Source;
use glassline_delivery::stream::Mux;
use glassline_io::tls::Roots;
use glassline_media::Time;
use glassline_streams::status::{RtpCounts, SourceState, SourceStatus, StreamStatus};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What one source says of itself at the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) phase: Phase,
    pub(super) error: Option<String>,
    pub(super) sessions: u64,
    pub(super) failures: u64,
    pub(super) redirects: u64,
    pub(super) metacube: bool,
    pub(super) garbage_bytes: u64,
    pub(super) encoder_delay: Option<Duration>,
    pub(super) datagrams: Option<(u64, u64)>,
    pub(super) rtp: Option<RtpCounts>,
    /// Which server is asked: the source is 0, its alternates follow.
    #[serde(default)]
    pub(super) turn: usize,
}

/// [`SourceState`], with a point in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Phase {
    #[default]
    Connecting,
    Live,
    Waiting {
        retry_at: Option<Time>,
    },
}

/// One source.
#[derive(Debug)]
pub(super) struct PullEntry {
    pub(super) source: Source,
    pub(super) alternates: Vec<Url>,
    pub(super) names: Vec<StreamName>,
    pub(super) mux: Mux,
    /// The authorities that it trusts.
    pub(super) roots: Roots,
    note: Mutex<Note>,
}

/// The authorities of a file, or those of the system.
pub(super) fn roots(ca: Option<PathBuf>) -> Roots {
    ca.map_or(Roots::System, Roots::File)
}

impl PullEntry {
    /// Whether it is about the same.
    fn is_like(&self, other: &PullEntry) -> bool {
        let PullEntry { source, alternates, names, mux, roots, note: _ } = self;
        (source, alternates, names) == (&other.source, &other.alternates, &other.names)
            && (mux, roots) == (&other.mux, &other.roots)
    }

    /// The URL of the server that is asked, by its number: the source is 0, its alternates follow.
    pub(super) fn url(&self, turn: usize) -> String {
        match turn.checked_sub(1).and_then(|turn| self.alternates.get(turn)) {
            Some(alternate) => alternate.to_string(),
            None => self.source.to_string(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Note> {
        // A note is replaced as a whole.
        self.note.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn post(&self, note: &Note) {
        let mut posted = self.lock();
        if *posted != *note {
            posted.clone_from(note);
        }
    }

    fn status(&self, now: Time) -> SourceStatus {
        let note = self.lock().clone();
        let state = match note.phase {
            Phase::Connecting => SourceState::Connecting,
            Phase::Live => SourceState::Live,
            Phase::Waiting { retry_at } => {
                SourceState::Waiting { retry_in: retry_at.map(|retry_at| retry_at.since(now)) }
            }
        };
        SourceStatus {
            url: self.url(note.turn),
            state,
            error: note.error,
            sessions: note.sessions,
            failures: note.failures,
            redirects: note.redirects,
            metacube: note.metacube,
            garbage_bytes: note.garbage_bytes,
            encoder_delay: note.encoder_delay,
            datagrams: note.datagrams,
            rtp: note.rtp,
        }
    }
}

/// All sources.
#[derive(Debug, Default)]
pub struct PullTable {
    entries: Vec<Arc<PullEntry>>,
    by_name: BTreeMap<StreamName, usize>,
}

impl PullTable {
    /// An entry for each source that differs; a name that is given twice keeps its first source. Entries of `former`
    /// for the same streams stay.
    pub fn new(pulls: &[Pull], former: &PullTable) -> PullTable {
        let mut by_source = BTreeMap::<(Source, Vec<Url>, Mux, Option<PathBuf>), Vec<StreamName>>::new();
        let mut by_name = BTreeMap::new();
        for pull in pulls {
            if by_name.insert(pull.name.clone(), 0).is_none() {
                let mux = pull.mux.unwrap_or_else(|| pull.source.mux());
                let source = (pull.source.clone(), pull.alternates.clone(), mux, pull.ca.clone());
                by_source.entry(source).or_default().push(pull.name.clone());
            }
        }
        let entries: Vec<_> = by_source
            .into_iter()
            .map(|((source, alternates, mux, ca), names)| {
                let (roots, note) = (roots(ca), Mutex::default());
                let entry = PullEntry { source, alternates, names, mux, roots, note };
                let kept = former.iter().find(|former| former.is_like(&entry)).cloned();
                kept.unwrap_or_else(|| Arc::new(entry))
            })
            .collect();
        for (index, entry) in entries.iter().enumerate() {
            by_name.extend(entry.names.iter().map(|name| (name.clone(), index)));
        }
        PullTable { entries, by_name }
    }

    /// Whether nothing is pulled.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<PullEntry>> {
        self.entries.iter()
    }

    /// The source of the stream `name`, if it is a pulled one.
    pub fn status(&self, name: &StreamName, now: Time) -> Option<SourceStatus> {
        self.by_name.get(name).map(|index| self.entries[*index].status(now))
    }

    /// What the stream `name` is, by its source.
    pub fn mux(&self, name: &StreamName) -> Mux {
        self.by_name.get(name).map_or(Mux::default(), |index| self.entries[*index].mux)
    }

    /// Whether `name` is a pulled stream's.
    pub fn has(&self, name: &StreamName) -> bool {
        self.by_name.contains_key(name)
    }

    /// Adds the sources to the streams that have one, and the pulled streams that are not there now.
    pub fn complete(&self, streams: &mut Vec<StreamStatus>, now: Time) {
        for stream in streams.iter_mut() {
            stream.source = self.status(&stream.name, now);
        }
        let absent = |name: &&StreamName| !streams.iter().any(|stream| stream.name == **name);
        let absent: Vec<_> = self.by_name.keys().filter(absent).cloned().collect();
        let absent = absent.iter();
        streams.extend(absent.map(|name| StreamStatus::absent(name, self.mux(name), self.status(name, now))));
        streams.sort_by(|one, other| one.name.cmp(&other.name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_one_source_share_it() {
        let trusting = |name: &str, source: &str, ca: Option<&str>| Pull {
            name: StreamName::parse(name).unwrap(),
            source: Source::parse(source).unwrap(),
            alternates: Vec::new(),
            mux: None,
            ca: ca.map(PathBuf::from),
        };
        let pull = |name: &str, source: &str| trusting(name, source, None);
        let entries = PullTable::new(
            &[
                pull("a", "http://u:p@h/x"),
                pull("b", "http://h/x"),
                pull("c", "http://h:80/x"),
                pull("c", "http://other/x"),
                trusting("e", "https://h:80/x", Some("a.pem")),
                trusting("f", "https://h:80/x", None),
                trusting("g", "https://h:80/x", Some("a.pem")),
            ],
            &PullTable::default(),
        );
        let names: Vec<Vec<&str>> =
            entries.iter().map(|entry| entry.names.iter().map(StreamName::as_str).collect()).collect();
        // Other credentials may be shown another stream, and another authority may vouch for another server.
        assert_eq!(names, [vec!["b", "c"], vec!["a"], vec!["f"], vec!["e", "g"]]);
        let status = |name: &str| entries.status(&StreamName::parse(name).unwrap(), Time::ZERO);
        assert_eq!(status("a").unwrap().url, "http://h/x");
        assert_eq!(status("d"), None);
    }
}
