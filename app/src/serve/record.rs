//! Recordings: from what is configured, and what the API and metrics tell of them.

use super::answers::refused;
use super::clips;
use super::exposition::Exposition;
use crate::config::Config;
use crate::failure;
use anyhow::{Context, Result};
use glassline_archive::clips::{CLIPS_MAX_BYTES, Clips};
use glassline_archive::{
    Archive, KeepError, OwnRecordings, OwnStore, Painter, ReadingSettings, RecordSettings, Recordings,
    Status, StoreErrorKind, StoreSettings,
};
use glassline_delivery::archive::index::HoleReason;
use glassline_delivery::archive::names::{ArchivedObject, Session, SessionObject};
use glassline_delivery::archive::retention::{Keep, Rules};
use glassline_delivery::http1::server::Request;
use glassline_delivery::http1::{Method, Response, problem};
use glassline_delivery::playlist::date_time;
use glassline_delivery::policy::StreamName;
use glassline_edge::{ChunkObserver, RecordedObjects};
use glassline_io::clock::Clock;
use glassline_media::Codec;
use glassline_media::quantity::ByteSize;
use glassline_relay::{Hub, ListenerRole, Recorder};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Before the name of a recording.
pub(super) const FOLDER: &str = "/api/recordings/";

/// What records the streams of this server.
pub(super) struct Recording {
    recordings: Arc<Recordings>,
    /// What of it is watched.
    archive: Arc<Archive>,
    /// The store of the configuration.
    store: Mutex<Option<StoreSettings>>,
    clips: Clips,
    /// Before all addresses.
    base: String,
    /// The address of [`FOLDER`].
    folder: String,
}

/// The relay's view of it.
struct OfRelay(Arc<Recordings>);

impl Recorder for OfRelay {
    fn is_recorded(&self, name: &StreamName) -> bool {
        self.0.is_recorded(name)
    }

    fn begin(&self, name: &StreamName) -> Arc<dyn ChunkObserver> {
        self.0.begin(name)
    }
}

/// A recording, as the API has it.
#[derive(Serialize)]
struct Listed {
    name: String,
    session: String,
    from: Option<String>,
    to: Option<String>,
    bytes: u64,
    state: &'static str,
    locked: bool,
    /// The address of its picture, which is given to those that may watch the stream; `None` where there are no pictures, or none that are decoded here.
    poster: Option<String>,
    /// Where clips of the stream are ordered, for those that may; `None` for others.
    clip: Option<String>,
}

/// What recordings take of memory at most, to be watched.
pub(super) fn memory_bytes(config: &Config) -> u64 {
    if config.record.store.is_some() {
        ReadingSettings::default().memory_bytes() + CLIPS_MAX_BYTES
    } else {
        0
    }
}

/// What is kept: of all streams, and of those that say so themselves.
fn rules(config: &Config) -> Rules {
    let keep = |age, size: Option<ByteSize>| Keep { age, bytes: size.map(|size| size.bytes()) };
    let own = config.stream.iter().filter(|(_, stream)| stream.keep.is_some() || stream.keep_size.is_some());
    let own = own.filter_map(|(name, it)| Some((StreamName::parse(name)?, keep(it.keep, it.keep_size))));
    Rules { general: keep(config.record.keep, config.record.keep_size), streams: own.collect() }
}

/// Which streams say themselves whether they are recorded as MPEG-TS, too.
fn own_ts(config: &Config) -> BTreeMap<StreamName, bool> {
    let own = config.stream.iter();
    own.filter_map(|(name, stream)| Some((StreamName::parse(name)?, stream.record_ts?))).collect()
}

fn settings(config: &Config) -> Option<RecordSettings> {
    let record = &config.record;
    let (location, spool) = (record.store.clone()?, record.spool_folder()?);
    let recorded = config.stream.iter().filter(|(_, stream)| stream.record == Some(true));
    Some(RecordSettings {
        streams: recorded.filter_map(|(name, _)| StreamName::parse(name)).collect(),
        store: StoreSettings {
            location,
            endpoint: record.endpoint.as_ref().map(|url| url.to_string().trim_end_matches('/').to_owned()),
            region: record.region.clone(),
            access_key_file: record.access_key_file.clone(),
            secret_key_file: record.secret_key_file.clone(),
        },
        ts: (record.ts, own_ts(config)),
        spool,
        spool_bytes: record.spool_size.bytes(),
        keep: rules(config),
        upload_rate: record.upload_rate.map(|rate| rate.bits_per_second().div_ceil(8)),
    })
}

/// Whether the store's key files can be read. A running server tries again; `--test-config` reports it.
pub(super) fn check_keys(config: &Config) -> Result<()> {
    let Some(settings) = settings(config) else { return Ok(()) };
    settings.store.check_keys().map_err(|error| {
        failure::usage(error.to_string(), "what is recorded would wait in the spool until the file is good")
    })
}

impl Recording {
    /// Records nothing yet.
    ///
    /// # Errors
    /// Where its threads cannot be started.
    pub(super) fn start(config: &Config) -> Result<Recording> {
        let recordings = Recordings::start(None).context("cannot start the thread that records")?;
        let recordings = Arc::new(recordings);
        let time = ReadingSettings::default().utc_timing;
        let reading = ReadingSettings {
            utc_timing: format!("{}{time}", config.base_path.as_str()),
            segment: config.package.segment,
            ..ReadingSettings::default()
        };
        let store = Box::new(OwnStore::new(Arc::clone(&recordings)));
        let running = Arc::new(OwnRecordings::new(Arc::clone(&recordings)));
        let archive = Archive::start(store, Some(running), reading, Clock::new())
            .context("cannot start the thread that reads recordings")?;
        let paint: Painter = Box::new(|units| Some(glassline_watch::still_of(units)?.bytes));
        let archive = archive.with_pictures(paint).context("cannot start the thread that makes pictures")?;
        let archive = Arc::new(archive);
        let clips = Clips::start(Arc::clone(&archive), Clock::new());
        let clips = clips.context("cannot start the thread that makes clips")?;
        let base = config.base_path.as_str().to_owned();
        let folder = format!("{base}{FOLDER}");
        Ok(Recording { recordings, archive, clips, base, folder, store: Mutex::default() })
    }

    /// Records streams of `hub`.
    pub(super) fn attach(&self, hub: &Hub) {
        hub.set_recorder(Arc::new(OfRelay(Arc::clone(&self.recordings))));
        hub.set_recorded(Some(Arc::clone(&self.archive) as Arc<dyn RecordedObjects>));
    }

    /// Records what `config` names and nothing else.
    pub(super) fn configure(&self, config: &Config) {
        let settings = settings(config);
        let store = settings.as_ref().map(|settings| settings.store.clone());
        self.recordings.configure(settings);
        self.archive.set_max_per_address(config.record.max_reads_per_address);
        let mut known = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        if *known != store {
            *known = store;
            self.archive.forget_all();
        }
    }

    /// Lets go of the spool, which the next process needs.
    pub(super) fn release(&self) {
        self.recordings.release();
    }

    /// Ends all recordings.
    pub(super) fn end(&self) {
        self.recordings.end();
    }

    /// The recordings of streams that the caller may know, and of which it `may_clip`.
    pub(super) fn list(&self, may_know: impl Fn(&StreamName) -> bool, may_clip: bool) -> impl Serialize {
        let listed = self.recordings.list(may_know).into_iter().map(|recording| Listed {
            poster: self.poster_of(&recording),
            clip: may_clip.then(|| format!("{}{}/{}", self.folder, recording.name, clips::ORDER)),
            name: recording.name.as_str().to_owned(),
            session: recording.session.to_string(),
            from: recording.span.map(|(from, _)| date_time(from)),
            to: recording.span.map(|(_, to)| date_time(to)),
            bytes: recording.bytes,
            state: recording.state.name(),
            locked: recording.is_locked,
        });
        listed.collect::<Vec<_>>()
    }

    fn poster_of(&self, recording: &glassline_archive::Listed) -> Option<String> {
        // Before the first segment there is nothing to decode.
        recording.span?;
        let codec = codec_named(recording.pictures.as_deref()?)?;
        let (name, session) = (recording.name.clone(), recording.session);
        let object = SessionObject::Poster;
        let address = || format!("{}/live/{name}/{}", self.base, ArchivedObject { session, object });
        glassline_watch::decodes(codec).then(address)
    }

    /// Deletes, locks or unlocks a recording: `DELETE /api/recordings/NAME/SESSION`, and `POST` or `DELETE` with `/lock` behind it.
    /// Makes and gives clips ([`clips`]).
    pub(super) fn act(&self, request: &Request, door: ListenerRole, peer: IpAddr, hub: &Hub) -> Response {
        if let Err(refusal) = hub.may_see_viewers(door, peer, request) {
            let words = "Recordings are deleted and locked, and clips made of them, with the publish key ('Authorization: Bearer KEY') or, if there is none, \
                         from the server's own machine and from the [publish] and [admin] networks of its configuration; or on the \
                         admin listener.";
            return refused(refusal, "may not change recordings", words);
        }
        let rest = request.path.strip_prefix(FOLDER).unwrap_or_default();
        if let Some(asked) = clips::asked(rest) {
            let (is_on, now) = (self.recordings.is_on(), self.archive.utc());
            return clips::act(request, asked, &self.clips, &self.folder, is_on, now);
        }
        let (rest, is_lock) = rest.strip_suffix("/lock").map_or((rest, false), |rest| (rest, true));
        let named = rest
            .split_once('/')
            .and_then(|(name, session)| Some((StreamName::parse(name)?, session.parse::<Session>().ok()?)));
        let Some((name, session)) = named else { return no_recording() };
        let done = match (&request.method, is_lock) {
            (Method::Delete, false) => {
                self.archive.forget(&name, session);
                self.clips.forget(&name);
                self.recordings.delete(name, session)
            }
            (Method::Delete, true) => self.recordings.lock(name, session, false),
            (Method::Post, true) => self.recordings.lock(name, session, true),
            _ => {
                let words = "Delete a recording with DELETE; lock it with POST …/lock, and unlock it with DELETE …/lock.";
                return problem(405, "method not allowed", words)
                    .with_header("Allow", "DELETE, POST, OPTIONS");
            }
        };
        match done {
            Ok(()) => Response::new(202).with_header("Cache-Control", "no-store"),
            Err(KeepError::Unknown) => no_recording(),
            Err(error) => problem(409, "not now", &format!("{error}.")),
        }
    }

    /// Its families of metrics.
    pub(super) fn expose(&self, text: &mut Exposition) {
        if self.recordings.is_on() {
            expose(text, &self.recordings.status());
            let refused = self.archive.figures().refused;
            let help = "Requests for recordings that were refused (429): their address had asked for too much at once.";
            text.total("record_refused_reads_total", "counter", help, refused);
        }
    }
}

/// The codec that RFC 6381 names so, of those that recordings have pictures in.
fn codec_named(name: &str) -> Option<Codec> {
    match name.split('.').next() {
        Some("avc1" | "avc3") => Some(Codec::H264),
        Some("hvc1" | "hev1") => Some(Codec::H265),
        Some("av01") => Some(Codec::Av1),
        _ => None,
    }
}

fn no_recording() -> Response {
    problem(
        404,
        "no such recording",
        "GET /api/recordings lists them: NAME and SESSION are its name and session.",
    )
}

fn expose(text: &mut Exposition, status: &Status) {
    let running = status.recordings.iter().filter(|recording| !recording.has_ended).count();
    let counters = status.counters;
    for (name, kind, help, value) in [
        ("record_streams", "gauge", "Recordings that go on.", running as u64),
        (
            "record_spooled_bytes_total",
            "counter",
            "Bytes of media that were written to the spool.",
            counters.spooled_bytes,
        ),
        (
            "record_uploaded_bytes_total",
            "counter",
            "Bytes of objects that the store has taken.",
            counters.uploaded_bytes,
        ),
        (
            "record_uploaded_objects_total",
            "counter",
            "Objects that the store has taken.",
            counters.uploaded_objects,
        ),
        ("record_waiting_bytes", "gauge", "Bytes of objects that wait for the store.", status.waiting_bytes),
        ("record_spool_bytes", "gauge", "Bytes of the spool's files.", status.spool_bytes),
        (
            "record_dropped_bytes_total",
            "counter",
            "Bytes of media that are not recorded, whatever the reason.",
            counters.dropped_bytes + status.unspooled_bytes + status.queue_dropped_bytes,
        ),
        ("record_spool_errors_total", "counter", "Failures of the spool's disk.", status.spool_errors),
        (
            "record_spool_up",
            "gauge",
            "Whether there is a spool that takes what is recorded.",
            status.spool_error.is_none().into(),
        ),
        (
            "record_store_up",
            "gauge",
            "Whether the store took what it was given last.",
            status.store_error.is_none().into(),
        ),
        (
            "record_retention_held",
            "gauge",
            "Whether nothing is deleted for its age, since the store's clock has jumped ahead.",
            status.is_retention_held.into(),
        ),
    ] {
        text.total(name, kind, help, value);
    }
    let age = status.oldest_waiting.map_or(0.0, |age| age.as_secs_f64());
    text.total(
        "record_oldest_waiting_seconds",
        "gauge",
        "How long the oldest object has waited for the store.",
        age,
    );
    let name = "record_dropped_segments_total";
    text.family(name, "counter", "Segments that are not recorded, by reason.");
    for reason in HoleReason::all() {
        let (label, value) = (reason.name(), counters.dropped_segments[reason.index()]);
        let _ = writeln!(text.0, "glassline_{name}{{reason=\"{label}\"}} {value}");
    }
    let name = "record_store_errors_total";
    text.family(name, "counter", "Failures of requests to the store, by kind.");
    for kind in StoreErrorKind::ALL {
        let (label, value) = (kind.as_str(), status.store_errors[kind.index()]);
        let _ = writeln!(text.0, "glassline_{name}{{kind=\"{label}\"}} {value}");
    }
}
