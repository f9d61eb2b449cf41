//! A stream's presentation: what the packager makes of it, as objects that are read while they fill, and its playlists.

use super::{Growing, Wake};
use glassline_delivery::fill::{Bytes, Failure, Head, Object as Filling};
use glassline_delivery::packager::{Availability, Event, Presentation, RenditionName, Settings, TsIntake};
use glassline_delivery::playlist::dash::{self, Addressing};
use glassline_delivery::playlist::hls::{self, Decision, Directives};
use glassline_delivery::playlist::{Carried, Object};
use glassline_media::{Time, Utc};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Playlists that are waited for at once; each is asked for by another query.
const AWAITED_MAX: usize = 4096;
/// How long playlists may be kept that say which part they were asked for with: what is in them is true for ever.
const RELOAD_SECS: u64 = 6;

/// What a request for an object comes to.
#[derive(Debug)]
pub enum Found {
    /// It is there, or will be.
    Object(Arc<Growing>),
    /// It was there, and is kept no longer.
    Gone,
    /// There is none of this name, and none is due.
    Unknown,
    /// What is asked for makes no sense, for this reason.
    Bad(String),
    /// Too many wait for playlists.
    Busy,
}

/// How long others may be kept: many ask for them, again and again, and what is a second old is good enough to begin with.
const PLAYLIST_SECS: u64 = 1;
/// Where players of DASH ask for the time.
const TIME_PATH: &str = "/api/time?format=iso";

/// A playlist as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Asked {
    object: Object,
    /// The segment and the part that it is to have.
    from: Option<(u64, Option<u32>)>,
    skip: bool,
    /// What goes into the addresses in it.
    carried: String,
}

impl Asked {
    fn directives(&self) -> Directives {
        let (msn, part) = self.from.map_or((None, None), |(msn, part)| (Some(msn), part));
        Directives { msn, part, skip: self.skip }
    }

    /// What becomes of it; `None`: there is no such playlist, and none is due.
    fn decide(&self, presentation: &Presentation) -> Option<Decision> {
        match self.object {
            Object::Media(name) => match presentation.availability(self.object) {
                Availability::Unknown if presentation.is_ready() => None,
                _ if self.from.is_none() && !has_segments(presentation) => Some(Decision::Wait),
                _ => Some(hls::decide(presentation, name, self.directives())),
            },
            Object::Multivariant if !has_segments(presentation) => Some(Decision::Wait),
            _ if presentation.is_ended() || self.render(presentation).is_some() => Some(Decision::Now),
            _ => Some(Decision::Wait),
        }
    }

    fn render(&self, presentation: &Presentation) -> Option<String> {
        let carried = Carried::of(Some(&self.carried));
        let mpd = |addressing| {
            let options =
                dash::Options { carried: carried.clone(), utc_timing: TIME_PATH.to_owned(), latency: None };
            dash::mpd(presentation, addressing, &options)
        };
        match self.object {
            Object::Multivariant => hls::multivariant(presentation, &carried),
            Object::Media(name) => hls::media(presentation, name, &carried, self.skip),
            Object::IFrames => hls::iframes(presentation, &carried),
            Object::NumberManifest => mpd(Addressing::Number),
            Object::TimelineManifest => mpd(Addressing::Timeline),
            Object::Init { .. } | Object::Segment { .. } | Object::Part { .. } => None,
        }
    }
}

/// A presentation that is made while it is read.
pub struct Shelf {
    contents: Mutex<Contents>,
    wake: Arc<dyn Wake>,
    wanted_at: AtomicU64,
    has_ended: AtomicBool,
    /// Tells its objects from those of the same names that another run of the server had.
    tag: String,
    /// How long an object is worth keeping, in seconds.
    keep_secs: u64,
}

struct Contents {
    intake: TsIntake,
    objects: BTreeMap<Object, Arc<Growing>>,
    /// Playlists as they are now.
    rendered: BTreeMap<Asked, Arc<Growing>>,
    /// Playlists that are not due yet.
    awaited: BTreeMap<Asked, Arc<Growing>>,
}

impl Shelf {
    /// An empty presentation, asked for first at `now`. Its segments are numbered from a number that grows with `utc`, so that
    /// no cache takes those of two runs of a server for each other.
    pub fn new(settings: Settings, wake: Arc<dyn Wake>, now: Time, utc: Utc) -> Shelf {
        let seconds = utc.as_nanos() / 1_000_000_000;
        let settings = settings.clamped();
        let first = seconds * 1000 / settings.segment.as_millis().max(1) as u64;
        Shelf {
            contents: Mutex::new(Contents {
                // The epoch's number is that of the discontinuity, too: players index by it, so that it must be small. What
                // is kept under its name is not kept for an hour.
                intake: TsIntake::new(settings).starting_at((seconds % 3600) as u32, first),
                objects: BTreeMap::new(),
                rendered: BTreeMap::new(),
                awaited: BTreeMap::new(),
            }),
            wake,
            wanted_at: AtomicU64::new(now.as_nanos()),
            has_ended: AtomicBool::new(false),
            tag: format!("{seconds:x}"),
            keep_secs: settings.window.as_secs(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        // Each event leaves it whole; a panic between two loses one at most.
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
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
        look(self.lock().intake.presentation())
    }

    /// What a request for `object` with `query` comes to.
    pub fn find(&self, object: Object, query: &str, now: Time) -> Found {
        self.wanted_at.store(now.as_nanos(), Ordering::Relaxed);
        let mut contents = self.lock();
        if object.is_playlist() {
            return self.find_playlist(&mut contents, object, query);
        }
        match contents.intake.presentation().availability(object) {
            Availability::Exists => {
                contents.objects.get(&object).cloned().map_or(Found::Unknown, Found::Object)
            }
            Availability::Coming => Found::Object(self.object(&mut contents, object)),
            Availability::Gone => Found::Gone,
            Availability::Unknown => Found::Unknown,
        }
    }

    fn find_playlist(&self, contents: &mut Contents, object: Object, query: &str) -> Found {
        let directives = match Directives::of(Some(query)) {
            Ok(directives) => directives,
            Err(error) => return Found::Bad(error.to_string()),
        };
        let asked = Asked {
            object,
            from: directives.msn.map(|msn| (msn, directives.part)),
            skip: directives.skip,
            carried: Carried::of(Some(query)).to_string().trim_start_matches('?').to_owned(),
        };
        match asked.decide(contents.intake.presentation()) {
            None => Found::Unknown,
            Some(Decision::BadRequest) => {
                Found::Bad("the segment or part is too far ahead of what there is".to_owned())
            }
            Some(Decision::Now) => {
                if let Some(growing) = contents.rendered.get(&asked) {
                    return Found::Object(Arc::clone(growing));
                }
                let Some(text) = asked.render(contents.intake.presentation()) else {
                    return Found::Unknown;
                };
                let whole = Filling::whole(self.playlist_head(&asked), Bytes::from(text));
                let growing = Growing::new(whole, Arc::clone(&self.wake));
                if contents.rendered.len() < AWAITED_MAX {
                    contents.rendered.insert(asked, Arc::clone(&growing));
                }
                Found::Object(growing)
            }
            Some(Decision::Wait) => {
                if contents.awaited.len() >= AWAITED_MAX && !contents.awaited.contains_key(&asked) {
                    return Found::Busy;
                }
                let new = || Growing::new(Filling::new(), Arc::clone(&self.wake));
                Found::Object(Arc::clone(contents.awaited.entry(asked).or_insert_with(new)))
            }
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

    fn playlist_head(&self, asked: &Asked) -> Head {
        let secs = if asked.from.is_some() { RELOAD_SECS } else { PLAYLIST_SECS };
        Head::new(asked.object.media_type()).with("Cache-Control", &format!("max-age={secs}"))
    }

    /// Takes bytes of the stream, which came at `utc`.
    pub fn push(&self, bytes: &[u8], utc: Utc) {
        self.change(|intake| intake.push(bytes, utc));
    }

    /// What comes next does not follow what came.
    pub fn discontinuity(&self, utc: Utc) {
        self.change(|intake| intake.discontinuity(utc));
    }

    /// The stream has ended: what is there is all.
    pub fn finish(&self, utc: Utc) {
        self.has_ended.store(true, Ordering::Release);
        self.change(|intake| intake.finish(utc));
        let mut contents = self.lock();
        for growing in contents.objects.values() {
            growing.change(|object| object.fail(Failure::Ended));
        }
        for growing in std::mem::take(&mut contents.awaited).into_values() {
            growing.change(|object| object.fail(Failure::Ended));
        }
    }

    fn change(&self, change: impl FnOnce(&mut TsIntake)) {
        let mut contents = self.lock();
        change(&mut contents.intake);
        let mut is_other = false;
        while let Some(event) = contents.intake.poll() {
            is_other |= !matches!(event, Event::Chunk { .. });
            self.apply(&mut contents, event);
        }
        if is_other {
            self.answer_awaited(&mut contents);
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
            }
            Event::InitExpires { rendition, number } => {
                contents.objects.remove(&Object::Init { rendition, number });
            }
            Event::Ended => {}
        }
    }

    /// Answers those whose playlists are due by now.
    fn answer_awaited(&self, contents: &mut Contents) {
        contents.rendered.clear();
        let Contents { intake, awaited, rendered, .. } = contents;
        let presentation = intake.presentation();
        let waits = |asked: &Asked| asked.decide(presentation) == Some(Decision::Wait);
        let due: Vec<Asked> = awaited.keys().filter(|asked| !waits(asked)).cloned().collect();
        for asked in due {
            let Some(growing) = awaited.remove(&asked) else { continue };
            match asked.render(presentation) {
                Some(text) => {
                    let head = self.playlist_head(&asked);
                    growing.change(|object| {
                        object.begin(head, None);
                        object.append(Bytes::from(text));
                        object.finish();
                    });
                    rendered.insert(asked, growing);
                }
                None => growing.change(|object| object.fail(Failure::Ended)),
            }
        }
    }
}

/// Whether each rendition has a complete segment, or the stream is over: players that know no parts see nothing before, and
/// do not come back.
fn has_segments(presentation: &Presentation) -> bool {
    let renditions = presentation.renditions();
    let is_there = !renditions.is_empty() && renditions.iter().all(|it| it.complete().next().is_some());
    is_there || presentation.is_ended()
}

fn finish(contents: &Contents, object: Object) {
    if let Some(growing) = contents.objects.get(&object) {
        growing.change(Filling::finish);
    }
}

fn parts_of(rendition: RenditionName, segment: u64) -> RangeInclusive<Object> {
    Object::Part { rendition, segment, part: 0 }..=Object::Part { rendition, segment, part: u32::MAX }
}

impl std::fmt::Debug for Shelf {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Shelf({} objects)", self.lock().objects.len())
    }
}
