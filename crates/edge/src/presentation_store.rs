//! A stream's presentation: what the packager makes of it, as objects that are read while they fill, and its playlists.

use super::chunk_observer::ChunkObserver;
use super::mpeg_ts_segments::{MissingSegment, MpegTsSegments};
use super::playlists::{FoundObject, PlaylistRequest, PlaylistSources, Playlists};
use super::{Growing, Wake};
use glassline_delivery::fill::{Bytes, Failure, Head, Object as Filling};
use glassline_delivery::packager::{
    Availability, Demultiplexer, Event, Guide, Input, LeftOut, Packager, Position, Presentation, Rendition,
    RenditionName, Settings,
};
use glassline_delivery::playlist::hls::Report;
use glassline_delivery::playlist::{Object, Variant};
use glassline_delivery::policy::StreamName;
use glassline_delivery::stream::Mux;
use glassline_media::{Time, Utc};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// Another version of the same capture.
#[derive(Clone, Debug)]
pub struct CaptureVersion {
    /// Its stream.
    pub name: StreamName,
    /// The way from the playlists of others to its objects.
    pub(super) base: String,
    /// Its presentation.
    pub store: Arc<PresentationStore>,
}

impl CaptureVersion {
    /// The presentation of the stream `name`.
    pub fn new(name: StreamName, store: Arc<PresentationStore>) -> CaptureVersion {
        let base = format!("../{name}/");
        CaptureVersion { name, base, store }
    }
}

/// A presentation that is made while it is read.
pub struct PresentationStore {
    contents: Mutex<Contents>,
    settings: Settings,
    wake: Arc<dyn Wake>,
    base_path: Arc<str>,
    wanted_at: AtomicU64,
    /// When its segments of MPEG-TS were last asked for, as nanoseconds; 0: they are not kept.
    mpeg_ts_wanted_at: AtomicU64,
    has_ended: AtomicBool,
    /// Tells its objects from those of the same names that another run of the server had.
    tag: String,
    /// How long an object is worth keeping, in seconds.
    keep_secs: u64,
    relations: Mutex<Relations>,
    /// Locked before the contents, and never by what answers a request: taking bytes apart holds no answer up.
    demux: Mutex<Demultiplexer>,
    /// A fault has ended what was packaged: what is packaged next has to be told of the tracks again.
    is_demux_stale: AtomicBool,
}

/// Is told that one version of a capture has something new.
pub(super) trait VersionObserver: Send + Sync {
    /// Called without a lock of the version.
    fn handle_change(&self);
}

/// The other versions of its capture. Nothing else is locked while this is.
#[derive(Default)]
struct Relations {
    versions: Vec<(String, Weak<PresentationStore>)>,
    observer: Option<Weak<dyn VersionObserver>>,
    /// The last part of its pictures that is complete.
    last: Option<Position>,
}

struct Contents {
    mux: Mux,
    packager: Packager,
    objects: BTreeMap<Object, Arc<Growing>>,
    playlists: Playlists,
    mpeg_ts: MpegTsSegments,
    /// The tracks that were told to be left out.
    told_left_out: Vec<LeftOut>,
    begun_with: Names,
    chunk_observer: Option<Arc<dyn ChunkObserver>>,
}

/// The numbers that an epoch and its first segment are called by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Names {
    epoch: u32,
    segment: u64,
}

/// Those of a presentation that began at so many seconds of UTC.
fn first_names(seconds: u64, settings: Settings) -> Names {
    // The epoch's number is that of the discontinuity, too: players index by it, so that it must be small. What
    // is kept under its name is not kept for an hour.
    let epoch = (seconds % 3600) as u32;
    Names { epoch, segment: seconds * 1000 / settings.segment.as_millis().max(1) as u64 }
}

impl PresentationStore {
    /// An empty presentation of a stream in `mux`, asked for first at `now`. Its segments are numbered from a number that grows with `utc`, so that
    /// no cache takes those of two runs of a server for each other. `base_path` stands in front of addresses that have to be
    /// absolute: the folder in which clients find this server, or nothing.
    pub fn new(
        mux: Mux,
        settings: Settings,
        wake: Arc<dyn Wake>,
        base_path: Arc<str>,
        now: Time,
        utc: Utc,
    ) -> PresentationStore {
        let seconds = utc.as_nanos() / 1_000_000_000;
        let settings = settings.clamped();
        PresentationStore {
            contents: Mutex::new(Contents::new(
                mux,
                settings,
                &wake,
                &base_path,
                first_names(seconds, settings),
            )),
            settings,
            wake,
            base_path,
            wanted_at: AtomicU64::new(now.as_nanos()),
            mpeg_ts_wanted_at: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
            tag: format!("{seconds:x}"),
            keep_secs: settings.window.as_secs(),
            relations: Mutex::default(),
            demux: Mutex::new(Demultiplexer::new(mux)),
            is_demux_stale: AtomicBool::new(false),
        }
    }

    fn relations(&self) -> MutexGuard<'_, Relations> {
        self.relations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `version` is another one of the same capture: playlists tell how far it is.
    pub fn add_version(&self, version: &CaptureVersion) {
        let mut relations = self.relations();
        relations.versions.retain(|(base, store)| *base != version.base && store.strong_count() > 0);
        relations.versions.push((version.base.clone(), Arc::downgrade(&version.store)));
        relations.versions.sort_by(|one, other| one.0.cmp(&other.0));
    }

    /// `observer` is told of what is new here, in place of the one before it.
    pub(super) fn set_observer(&self, observer: Weak<dyn VersionObserver>) {
        self.relations().observer = Some(observer);
    }

    /// How far the other versions are.
    fn reports(&self) -> Vec<Report> {
        let versions = self.relations().versions.clone();
        let told = versions.into_iter().filter_map(|(base, store)| {
            let last = store.upgrade()?.relations().last?;
            Some(Report { base, last })
        });
        told.collect()
    }

    /// Whether an epoch may begin with what comes next, which may then join another version's.
    pub fn is_starting(&self) -> bool {
        self.lock().packager.is_starting()
    }

    /// From now on `observer` is told of what becomes of objects, first of the CMAF headers that there are, in place of the one before
    /// it, which is told that nothing follows.
    pub fn set_chunk_observer(&self, observer: Option<Arc<dyn ChunkObserver>>) {
        let mut contents = self.lock();
        if let Some(before) = contents.chunk_observer.take() {
            before.handle_end();
        }
        let Some(observer) = observer else { return };
        for (object, growing) in &contents.objects {
            if let Object::Init { rendition, number } = *object {
                let mut pieces = Vec::new();
                growing.look(|object| object.read(0, u64::MAX, &mut pieces));
                let event = Event::Init { rendition, number, bytes: Bytes::from(pieces.concat()) };
                observer.handle_event(&event, contents.packager.presentation());
            }
        }
        contents.chunk_observer = Some(observer);
    }

    /// Whether something is told of what becomes of objects.
    pub fn has_chunk_observer(&self) -> bool {
        self.lock().chunk_observer.is_some()
    }

    /// The next epoch joins that of `other`.
    pub fn follow(&self, other: Option<Guide>) {
        self.lock().packager.follow(other);
    }

    /// Where a version that begins now can join this one.
    pub fn guide(&self) -> Option<Guide> {
        self.look(Guide::of)
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(|poisoned| self.end_broken(poisoned.into_inner()))
    }

    /// A panic has left the presentation half-written: it ends, and nothing of it can be had any more. What the stream brings
    /// from here on has other names: caches may still have what had those.
    #[cold]
    fn end_broken<'a>(&self, mut contents: MutexGuard<'a, Contents>) -> MutexGuard<'a, Contents> {
        self.has_ended.store(true, Ordering::Release);
        self.is_demux_stale.store(true, Ordering::Release);
        let names = contents.names_behind();
        if let Some(observer) = contents.chunk_observer.take() {
            observer.handle_end();
        }
        for growing in std::mem::take(&mut contents.objects).into_values() {
            growing.change(|object| object.fail(Failure::Fault));
        }
        contents.playlists.end();
        let mux = contents.mux;
        *contents = Contents::new(mux, self.settings, &self.wake, &self.base_path, names);
        self.contents.clear_poison();
        contents
    }

    /// When it was last asked for.
    pub fn wanted_at(&self) -> Time {
        Time::from_nanos(self.wanted_at.load(Ordering::Relaxed))
    }

    /// Whether its stream has ended.
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Looks at what there is to play.
    pub fn look<T>(&self, look: impl FnOnce(&Presentation) -> T) -> T {
        look(self.lock().packager.presentation())
    }

    /// Notes that something of it is asked for.
    pub(super) fn note_wanted(&self, now: Time) {
        self.wanted_at.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// What a request for `object` with `query` comes to.
    pub fn find(&self, object: Object, query: &str, now: Time) -> FoundObject {
        self.note_wanted(now);
        if matches!(object, Object::TransportMedia | Object::TransportSegment { .. }) {
            self.mpeg_ts_wanted_at.store(now.as_nanos().max(1), Ordering::Relaxed);
        }
        if object.is_playlist() {
            let request = match PlaylistRequest::new(object, query) {
                Ok(request) => request,
                Err(why) => return FoundObject::Bad(why),
            };
            let reports = self.reports();
            let mut contents = self.lock();
            if object == Object::TransportMedia && contents.mux != Mux::MpegTs {
                return FoundObject::Unknown;
            }
            if object != Object::TransportMedia
                && let Some((head, body)) = contents.refusal()
            {
                return FoundObject::Object(Growing::new(Filling::whole(head, body), Arc::clone(&self.wake)));
            }
            return contents.with_sources(&reports, |playlists, sources| playlists.find(request, sources));
        }
        let mut contents = self.lock();
        if let Object::TransportSegment { segment } = object {
            return match contents.packager.presentation().availability(object) {
                Availability::Gone => FoundObject::Gone,
                _ => contents.mpeg_ts.find(segment).map_or(FoundObject::Unknown, FoundObject::Object),
            };
        }
        match contents.packager.presentation().availability(object) {
            Availability::Exists => {
                contents.objects.get(&object).cloned().map_or(FoundObject::Unknown, FoundObject::Object)
            }
            Availability::Coming => FoundObject::Object(self.object(&mut contents, object)),
            Availability::Gone => FoundObject::Gone,
            Availability::Unknown => FoundObject::Unknown,
        }
    }

    /// The object of this name, which is made where there is none.
    fn object(&self, contents: &mut Contents, object: Object) -> Arc<Growing> {
        let new = || Growing::new(Filling::new(), Arc::clone(&self.wake));
        Arc::clone(contents.objects.entry(object).or_insert_with(new))
    }

    fn head(&self, object: Object) -> Head {
        let etag = format!("\"{}-{object}\"", self.tag);
        Head::new(object.media_type())
            .with("ETag", &etag)
            .with("Cache-Control", &format!("max-age={}", self.keep_secs))
    }

    /// The stream of which it is made begins, in this mux.
    pub fn begin(&self, mux: Mux, utc: Utc) {
        let mut demux = self.demux();
        if demux.mux() != mux {
            self.begin_anew(&mut demux, mux, utc);
        }
    }

    /// Takes bytes of the stream, which came at `utc`.
    /// They begin at `at` in it; `None`: they are put in front of it.
    pub fn push(&self, bytes: &[u8], utc: Utc, at: Option<u64>) {
        let mut demux = self.demux();
        if self.is_demux_stale.swap(false, Ordering::AcqRel) {
            let mux = demux.mux();
            demux.begin(mux);
        }
        demux.push(bytes, at);
        self.hand_over(&mut demux, utc, |_| ());
    }

    /// The MPEG-TS segments that have to be made (see [`PresentationStore::put_mpeg_ts`]), while clients have asked for such segments
    /// within `idle`. Otherwise there are none, and those that are kept are dropped.
    pub fn missing_mpeg_ts(&self, now: Time, idle: Duration) -> Vec<MissingSegment> {
        let wanted_at = self.mpeg_ts_wanted_at.load(Ordering::Relaxed);
        if wanted_at == 0 {
            return Vec::new();
        }
        let contents = &mut *self.lock();
        if contents.mux != Mux::MpegTs {
            return Vec::new();
        }
        if now.since(Time::from_nanos(wanted_at)) < idle {
            return contents.mpeg_ts.missing(contents.packager.presentation());
        }
        self.mpeg_ts_wanted_at.store(0, Ordering::Relaxed);
        contents.mpeg_ts.clear();
        Vec::new()
    }

    /// The bytes of a segment of MPEG-TS; `None` where they are gone.
    pub fn put_mpeg_ts(&self, segment: u64, bytes: Option<Bytes>) {
        let reports = self.reports();
        let mut contents = self.lock();
        let head = self.head(Object::TransportSegment { segment });
        contents.mpeg_ts.put(segment, bytes, head, &self.wake);
        contents.with_sources(&reports, |playlists, sources| playlists.change(sources));
    }

    /// Which tracks are left out, and why, as far as is known.
    pub fn left_out(&self) -> Vec<LeftOut> {
        self.lock().packager.left_out().to_vec()
    }

    /// Which tracks are left out, and why, for people; `None` where that is nothing new.
    pub fn news_of_left_out(&self) -> Option<String> {
        let mut contents = self.lock();
        if contents.told_left_out == contents.packager.left_out() {
            return None;
        }
        contents.told_left_out = contents.packager.left_out().to_vec();
        Some(words_of(contents.mux, &contents.told_left_out)).filter(|words| !words.is_empty())
    }

    /// What comes next does not follow what came.
    pub fn discontinuity(&self, utc: Utc) {
        let mut demux = self.demux();
        let mux = demux.mux();
        self.begin_anew(&mut demux, mux, utc);
    }

    /// How long after the last bytes [`PresentationStore::handle_stall`] is due; `None` where nothing is open.
    pub fn stall_timeout(&self) -> Option<Duration> {
        self.lock().packager.stall_timeout()
    }

    /// Nothing has come for that long: parts that are open end.
    pub fn handle_stall(&self, utc: Utc) {
        self.change(|contents, _| contents.packager.handle_stall(utc));
    }

    /// The stream has ended: what is there is all.
    pub fn finish(&self, utc: Utc) {
        self.has_ended.store(true, Ordering::Release);
        let mut demux = self.demux();
        demux.finish();
        let reached = demux.reached();
        self.hand_over(&mut demux, utc, |packager| packager.finish(utc, reached));
        drop(demux);
        let mut contents = self.lock();
        if let Some(observer) = contents.chunk_observer.take() {
            observer.handle_end();
        }
        for growing in contents.objects.values() {
            growing.change(|object| object.fail(Failure::Ended));
        }
        contents.playlists.end();
    }

    fn demux(&self) -> MutexGuard<'_, Demultiplexer> {
        self.demux.lock().unwrap_or_else(|poisoned| {
            // A panic has left it half-way through a unit: what was made of the stream ends.
            let mut demux = poisoned.into_inner();
            *demux = Demultiplexer::new(demux.mux());
            let contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
            drop(self.end_broken(contents));
            self.demux.clear_poison();
            demux
        })
    }

    fn begin_anew(&self, demux: &mut Demultiplexer, mux: Mux, utc: Utc) {
        demux.begin(mux);
        self.change(|contents, _| {
            contents.mux = mux;
            contents.packager.discontinuity(utc, demux.reached());
        });
    }

    /// Packages what was found in the stream, and then does what `after` says.
    fn hand_over(&self, demux: &mut Demultiplexer, utc: Utc, after: impl FnOnce(&mut Packager)) {
        let found: Vec<Input> = std::iter::from_fn(|| demux.poll()).collect();
        self.change(|contents, apply| {
            for input in found {
                contents.packager.handle_input(input, utc, demux.reached());
                // One by one: an observer finds in the presentation what an event is about.
                apply(contents);
            }
            after(&mut contents.packager);
        });
    }

    fn change(&self, change: impl FnOnce(&mut Contents, &mut dyn FnMut(&mut Contents))) {
        let mut contents = self.lock();
        let mut is_other = false;
        let mut apply = |contents: &mut Contents| {
            while let Some(event) = contents.packager.poll() {
                is_other |= !matches!(event, Event::Chunk { .. });
                if let Some(observer) = &contents.chunk_observer {
                    observer.handle_event(&event, contents.packager.presentation());
                }
                self.apply(contents, event);
            }
        };
        change(&mut contents, &mut apply);
        apply(&mut contents);
        if is_other {
            let last = contents.packager.presentation().rendition(RenditionName::Video);
            self.relations().last = last.and_then(Rendition::last_part);
            let reports = self.reports();
            contents.with_sources(&reports, |playlists, sources| playlists.change(sources));
        }
        if let Some((head, body)) = contents.refusal() {
            contents.playlists.refuse(&head, &body);
        }
        drop(contents);
        // Without a lock here: it looks at all of its versions.
        let observer = if is_other { self.relations().observer.clone() } else { None };
        if let Some(observer) = observer.and_then(|observer| observer.upgrade()) {
            observer.handle_change();
        }
    }

    fn apply(&self, contents: &mut Contents, event: Event) {
        let begin = |contents: &mut Contents, object| {
            self.object(contents, object).change(|it| it.begin(self.head(object), None));
        };
        match event {
            Event::Init { rendition, number, bytes } => {
                let object = Object::Init { rendition, number };
                let whole = Filling::whole(self.head(object), bytes);
                contents.objects.insert(object, Growing::new(whole, Arc::clone(&self.wake)));
            }
            Event::SegmentBegins { rendition, segment } => {
                begin(contents, Object::Segment { rendition, segment });
            }
            Event::PartBegins { rendition, segment, part } => {
                begin(contents, Object::Part { rendition, segment, part });
            }
            Event::Chunk { rendition, segment, part, bytes } => {
                for object in
                    [Object::Part { rendition, segment, part }, Object::Segment { rendition, segment }]
                {
                    if let Some(growing) = contents.objects.get(&object) {
                        growing.change(|object| object.append(bytes.clone()));
                    }
                }
            }
            Event::PartEnds { rendition, segment, part } => {
                finish(contents, Object::Part { rendition, segment, part });
            }
            Event::SegmentEnds { rendition, segment } => {
                finish(contents, Object::Segment { rendition, segment });
                // A part that was announced behind the last one has become none.
                let unbegun: Vec<_> = contents
                    .objects
                    .range(parts_of(rendition, segment))
                    .filter(|(_, growing)| !growing.look(Filling::is_over))
                    .map(|(object, _)| *object)
                    .collect();
                for growing in unbegun.iter().filter_map(|object| contents.objects.remove(object)) {
                    growing.change(|object| object.fail(Failure::Ended));
                }
            }
            Event::Expires { rendition, segment } => {
                let parts: Vec<_> =
                    contents.objects.range(parts_of(rendition, segment)).map(|(object, _)| *object).collect();
                for object in parts.into_iter().chain([Object::Segment { rendition, segment }]) {
                    contents.objects.remove(&object);
                }
                contents.mpeg_ts.expire(segment);
            }
            Event::InitExpires { rendition, number } => {
                contents.objects.remove(&Object::Init { rendition, number });
            }
            Event::Ended => {}
        }
    }
}

fn words_of(mux: Mux, left_out: &[LeftOut]) -> String {
    let told = left_out.iter().map(|LeftOut { pid, codec, why }| match mux {
        Mux::MpegTs => format!("{codec} on PID {pid}: {why}"),
        _ => format!("{codec}: {why}"),
    });
    told.collect::<Vec<_>>().join("; ")
}

impl Contents {
    /// The answer with playlists where nothing can be played: which tracks there are, and why none of them is taken
    /// (RFC 9457).
    fn refusal(&self) -> Option<(Head, Bytes)> {
        if !self.packager.takes_nothing() {
            return None;
        }
        let left_out = self.packager.left_out();
        let mux = self.mux;
        let told = words_of(mux, left_out);
        let told = if told.is_empty() { "the program has no pictures and no sound".to_owned() } else { told };
        let body = serde_json::json!({
            "type": "about:blank",
            "status": 406,
            "title": "none of the stream's tracks can be packaged",
            "detail": format!("{told}. The stream itself is at /live/NAME.{}.", mux.extension()),
            "tracks": left_out,
        });
        let head = Head::of_status(406)
            .with("Content-Type", "application/problem+json")
            .with("Cache-Control", "max-age=1");
        Some((head, Bytes::from(format!("{body}\n"))))
    }

    /// Nothing yet.
    fn new(
        mux: Mux,
        settings: Settings,
        wake: &Arc<dyn Wake>,
        base_path: &Arc<str>,
        begun_with: Names,
    ) -> Contents {
        Contents {
            mux,
            packager: Packager::new(settings).starting_at(begun_with.epoch, begun_with.segment),
            objects: BTreeMap::new(),
            playlists: Playlists::new(Arc::clone(wake), Arc::clone(base_path)),
            mpeg_ts: MpegTsSegments::default(),
            told_left_out: Vec::new(),
            begun_with,
            chunk_observer: None,
        }
    }

    /// Names that nothing has had, by the objects alone: what is half-written is not looked at.
    fn names_behind(&self) -> Names {
        self.objects.keys().fold(self.begun_with, |Names { epoch, segment }, object| match *object {
            Object::Init { number, .. } => Names { epoch: epoch.max(number.wrapping_add(1)), segment },
            Object::Segment { segment: known, .. } | Object::Part { segment: known, .. } => {
                Names { epoch, segment: segment.max(known.saturating_add(1)) }
            }
            _ => Names { epoch, segment },
        })
    }

    /// Does something with the playlists and what they tell.
    fn with_sources<T>(
        &mut self,
        others: &[Report],
        act: impl FnOnce(&mut Playlists, PlaylistSources<'_>) -> T,
    ) -> T {
        let mpeg_ts = self.mpeg_ts.range();
        let variants = [Variant::alone(self.packager.presentation())];
        act(&mut self.playlists, PlaylistSources { variants: &variants, others, mpeg_ts: mpeg_ts.as_ref() })
    }
}

fn finish(contents: &Contents, object: Object) {
    if let Some(growing) = contents.objects.get(&object) {
        growing.change(Filling::finish);
    }
}

fn parts_of(rendition: RenditionName, segment: u64) -> RangeInclusive<Object> {
    Object::Part { rendition, segment, part: 0 }..=Object::Part { rendition, segment, part: u32::MAX }
}

impl std::fmt::Debug for PresentationStore {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "PresentationStore({} objects)", self.lock().objects.len())
    }
}

#[cfg(test)]
#[path = "presentation_store_tests.rs"]
mod tests;
