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
use std::sync::atomic::{AtomicU64, Ordering};
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
    /// What has to be changed before the source can come, where it has never come and another attempt cannot succeed.
    #[serde(default)]
    pub(super) remedy: Option<String>,
}

/// Why a source has never come, and cannot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRefusal {
    /// What the last attempt came to. It shows no secret of the source's address.
    pub why: String,
    /// What has to be changed.
    pub remedy: String,
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
    /// One with another number is another, though it is of the same servers.
    renewed: u32,
    /// By which servers it is asked for from now on.
    via: Mutex<Option<String>>,
    note: Mutex<Note>,
    picture_losses: AtomicU64,
}

/// The authorities of a file, or those of the system.
pub(super) fn roots(ca: Option<PathBuf>) -> Roots {
    ca.map_or(Roots::System, Roots::File)
}

impl PullEntry {
    /// Whether it is about the same. By which servers it is asked for may change while it goes on.
    fn is_like(&self, other: &PullEntry) -> bool {
        let PullEntry { source, alternates, names, mux, roots, renewed, via: _, note: _, picture_losses: _ } =
            self;
        (source, alternates, names) == (&other.source, &other.alternates, &other.names)
            && (mux, roots, renewed) == (&other.mux, &other.roots, &other.renewed)
    }

    /// By which servers it is asked for: what a request says that is sent now.
    pub(super) fn via(&self) -> Option<String> {
        // It is replaced as a whole.
        self.via.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_via(&self, via: Option<String>) {
        *self.via.lock().unwrap_or_else(PoisonError::into_inner) = via;
    }

    /// The server that is asked, by its number as below, where that is one of HTTP.
    pub(super) fn http(&self, turn: usize) -> Option<Url> {
        match (turn.checked_sub(1), &self.source) {
            (Some(turn), _) => self.alternates.get(turn).cloned(),
            (None, Source::Http(url)) => Some(url.clone()),
            (None, _) => None,
        }
    }

    /// The URL of the server that is asked, by its number: the source is 0, its alternates follow.
    pub(super) fn url(&self, turn: usize) -> String {
        match turn.checked_sub(1).and_then(|turn| self.alternates.get(turn)) {
            Some(alternate) => alternate.to_string(),
            None => self.source.to_string(),
        }
    }

    /// Pictures, or packets of them, have been lost in front of what is published next.
    pub(super) fn add_picture_losses(&self, count: u64) {
        if count > 0 {
            self.picture_losses.fetch_add(count, Ordering::Release);
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

/// What tells one source from another in one table: also the authorities that it trusts, and by which servers it is asked.
type SourceKey = (Source, Vec<Url>, Mux, (Option<PathBuf>, Option<String>), u32);

impl PullTable {
    /// An entry for each source that differs; a name that is given twice keeps its first source. Entries of `former`
    /// for the same streams stay.
    pub fn new(pulls: &[Pull], former: &PullTable) -> PullTable {
        let mut by_source = BTreeMap::<SourceKey, Vec<StreamName>>::new();
        let mut by_name = BTreeMap::new();
        for pull in pulls {
            if by_name.insert(pull.name.clone(), 0).is_none() {
                let mux = pull.mux.unwrap_or_else(|| pull.source.mux());
                let trust = (pull.ca.clone(), pull.via.clone());
                let source = (pull.source.clone(), pull.alternates.clone(), mux, trust, pull.renewed);
                by_source.entry(source).or_default().push(pull.name.clone());
            }
        }
        let entries: Vec<_> = by_source
            .into_iter()
            .map(|((source, alternates, mux, (ca, via), renewed), names)| {
                let (roots, note, picture_losses) = (roots(ca), Mutex::default(), AtomicU64::default());
                let of_entry = Mutex::new(via.clone());
                let entry = PullEntry {
                    source,
                    alternates,
                    names,
                    mux,
                    roots,
                    renewed,
                    via: of_entry,
                    note,
                    picture_losses,
                };
                match former.iter().find(|former| former.is_like(&entry)) {
                    Some(kept) => {
                        kept.set_via(via);
                        Arc::clone(kept)
                    }
                    None => Arc::new(entry),
                }
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

    /// The number of the server that sends the stream `name`: 0 is the source, its alternates follow. `None` where none sends.
    pub fn live_source(&self, name: &StreamName) -> Option<Url> {
        let entry = &self.entries[*self.by_name.get(name)?];
        let turn = Some(entry.lock()).filter(|note| note.phase == Phase::Live).map(|note| note.turn)?;
        entry.http(turn)
    }

    /// Why the source of the stream `name` has never come and cannot, however often it is asked; `None` where it has come, or may.
    pub fn refusal(&self, name: &StreamName) -> Option<SourceRefusal> {
        let note = self.entries[*self.by_name.get(name)?].lock().clone();
        Some(SourceRefusal { why: note.error?, remedy: note.remedy? })
    }

    /// Pictures, and packets of them, that were lost on the way from the source of the stream `name`: what a session of RTP has lost,
    /// which its stream does not show. What is published behind a loss is counted by then.
    pub fn picture_losses(&self, name: &StreamName) -> u64 {
        let entry = self.by_name.get(name).map(|index| &self.entries[*index]);
        entry.map_or(0, |entry| entry.picture_losses.load(Ordering::Acquire))
    }

    /// What the stream `name` is, by its source.
    pub fn mux(&self, name: &StreamName) -> Mux {
        self.by_name.get(name).map_or(Mux::default(), |index| self.entries[*index].mux)
    }

    /// Whether this is what is pulled under the name of `pull`, whatever else has asked for that name.
    pub fn has_pull(&self, pull: &Pull) -> bool {
        let entry = self.by_name.get(&pull.name).map(|index| &self.entries[*index]);
        entry.is_some_and(|entry| {
            (&entry.source, &entry.alternates, entry.renewed)
                == (&pull.source, &pull.alternates, pull.renewed)
        })
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
            via: None,
            renewed: 0,
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

    fn pull(name: &str, source: &str) -> Pull {
        Pull {
            name: StreamName::parse(name).unwrap(),
            source: Source::parse(source).unwrap(),
            alternates: Vec::new(),
            mux: None,
            ca: None,
            via: None,
            renewed: 0,
        }
    }

    fn name(text: &str) -> StreamName {
        StreamName::parse(text).unwrap()
    }

    #[test]
    fn an_entry_stays_with_what_was_noted_while_nothing_about_it_changes() {
        let former =
            PullTable::new(&[pull("a", "http://h/x"), pull("b", "http://h/y")], &PullTable::default());
        let note = Note { sessions: 7, phase: Phase::Live, ..Note::default() };
        former.iter().for_each(|entry| entry.post(&note));
        let more = [pull("b", "http://h/y"), pull("a", "http://h/x"), pull("c", "http://h/y")];
        let table = PullTable::new(&more, &former);
        let sessions = |text: &str| table.status(&name(text), Time::ZERO).unwrap().sessions;
        // One of b has another stream now.
        assert_eq!((sessions("a"), sessions("b"), sessions("c")), (7, 0, 0));
        assert!(table.iter().any(|entry| former.iter().any(|known| Arc::ptr_eq(entry, known))));
    }

    #[test]
    fn each_thing_that_makes_a_source_another_one_is_looked_at() {
        let one = pull("a", "https://h/x");
        let table = PullTable::new(std::slice::from_ref(&one), &PullTable::default());
        let is_kept = |other: Pull| {
            let other = PullTable::new(&[other], &table);
            other.iter().zip(table.iter()).all(|(new, old)| Arc::ptr_eq(new, old))
        };
        assert!(is_kept(one.clone()));
        assert!(is_kept(Pull { mux: Some(Mux::MpegTs), ..one.clone() }), "that is what it is anyway");
        let via = Some("1.1 a".to_owned());
        assert!(is_kept(Pull { via: via.clone(), ..one.clone() }), "a stream goes on");
        assert_eq!(
            table.iter().next().unwrap().via(),
            via,
            "and its next request says by which servers it comes"
        );
        for other in [
            Pull { name: name("b"), ..one.clone() },
            Pull { source: Source::parse("https://h/y").unwrap(), ..one.clone() },
            Pull { alternates: vec!["https://i/x".parse().unwrap()], ..one.clone() },
            Pull { mux: Some(Mux::Flv), ..one.clone() },
            Pull { ca: Some("a.pem".into()), ..one.clone() },
            Pull { renewed: 1, ..one.clone() },
        ] {
            assert!(!is_kept(other.clone()), "{other:?}");
        }
    }

    #[test]
    fn a_name_that_is_given_twice_keeps_its_first_source() {
        let table =
            PullTable::new(&[pull("a", "http://h/x.flv"), pull("a", "http://h/y")], &PullTable::default());
        assert_eq!((table.iter().count(), table.mux(&name("a"))), (1, Mux::Flv));
        assert!(table.has_pull(&pull("a", "http://h/x.flv")));
        assert!(!table.has_pull(&pull("a", "http://h/y")) && !table.has_pull(&pull("b", "http://h/x.flv")));
        assert!(table.has(&name("a")) && !table.has(&name("b")) && !table.is_empty());
        assert_eq!(table.mux(&name("b")), Mux::MpegTs);
        assert!(PullTable::default().is_empty());
    }

    #[test]
    fn a_status_tells_what_was_noted_by_the_clock_of_now() {
        let alternates = vec!["http://u:p@second/x?key=1".parse().unwrap()];
        let with_alternate = Pull { alternates, ..pull("a", "http://first/x") };
        let table = PullTable::new(&[with_alternate], &PullTable::default());
        let status = || table.status(&name("a"), Time::from_millis(1000)).unwrap();
        assert_eq!((status().state, status().url.as_str()), (SourceState::Connecting, "http://first/x"));
        let entry = table.iter().next().unwrap();
        let error = Some("cannot connect".to_owned());
        let retry_at = Some(Time::from_millis(1250));
        entry.post(&Note {
            phase: Phase::Waiting { retry_at },
            error,
            failures: 3,
            turn: 1,
            ..Note::default()
        });
        let retry_in = Some(Duration::from_millis(250));
        assert_eq!((status().state, status().failures), (SourceState::Waiting { retry_in }, 3));
        assert_eq!(
            (status().url.as_str(), status().error.as_deref()),
            ("http://second/x?…", Some("cannot connect"))
        );
        entry.post(&Note { phase: Phase::Waiting { retry_at: None }, turn: 9, ..Note::default() });
        assert_eq!(status().state, SourceState::Waiting { retry_in: None });
        assert_eq!(status().url, "http://first/x", "a number of no server is the source's");
    }

    #[test]
    fn a_refusal_has_what_to_change_and_losses_add_up() {
        let table = PullTable::new(&[pull("a", "http://h/x")], &PullTable::default());
        let entry = table.iter().next().unwrap();
        assert_eq!((table.refusal(&name("a")), table.picture_losses(&name("a"))), (None, 0));
        let error = Some("it answered 404".to_owned());
        entry.post(&Note { error: error.clone(), ..Note::default() });
        assert_eq!(table.refusal(&name("a")), None, "it may come");
        let remedy = Some("check the path".to_owned());
        entry.post(&Note { error, remedy, ..Note::default() });
        let refusal = table.refusal(&name("a")).unwrap();
        assert_eq!((&*refusal.why, &*refusal.remedy), ("it answered 404", "check the path"));
        for count in [2, 0, 3] {
            entry.add_picture_losses(count);
        }
        assert_eq!(table.picture_losses(&name("a")), 5);
        assert_eq!((table.refusal(&name("b")), table.picture_losses(&name("b"))), (None, 0));
    }

    #[test]
    fn pulled_streams_are_listed_also_while_they_are_away() {
        let table =
            PullTable::new(&[pull("c", "http://h/x"), pull("a", "http://h/x.flv")], &PullTable::default());
        let mut streams = vec![
            StreamStatus::absent(&name("b"), Mux::WebM, None),
            StreamStatus::absent(&name("c"), Mux::MpegTs, None),
        ];
        table.complete(&mut streams, Time::ZERO);
        let told: Vec<(&str, Mux, bool)> =
            streams.iter().map(|it| (it.name.as_str(), it.mux, it.source.is_some())).collect();
        assert_eq!(told, [("a", Mux::Flv, true), ("b", Mux::WebM, false), ("c", Mux::MpegTs, true)]);
    }
}
