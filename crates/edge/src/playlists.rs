//! Playlists as they were asked for: rendered once for all equal requests, and waited for where they are not due.

use super::{Growing, Wake};
use glassline_delivery::fill::{Bytes, Failure, Head, Object as Filling};
use glassline_delivery::packager::{Availability, Presentation};
use glassline_delivery::playlist::dash::{self, Addressing};
use glassline_delivery::playlist::hls::{self, Decision, Directives, MediaOptions, Report};
use glassline_delivery::playlist::{Carried, Object, Variant};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Playlists that are waited for at once; each is asked for by another query.
const AWAITED_MAX: usize = 4096;
/// How long playlists may be kept that say which part they were asked for with: what is in them is true for ever.
const RELOAD_SECS: u64 = 6;
/// How long others may be kept: many ask for them, again and again, and what is a second old is good enough to begin with.
const PLAYLIST_SECS: u64 = 1;
/// Where players of DASH ask for the time, behind the folder in which this server's addresses lie.
const TIME_PATH: &str = "/api/time?format=iso";
/// A version of a capture that has nothing yet is waited for until another one has so many segments.
const VERSION_WAIT_SEGMENTS: usize = 3;

/// What a request for an object comes to.
#[derive(Debug)]
pub enum FoundObject {
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

/// What playlists are rendered from.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlaylistSources<'a> {
    /// The best first.
    pub(super) variants: &'a [Variant<'a>],
    /// How far others are, in media playlists.
    pub(super) others: &'a [Report],
    /// What is kept as segments of MPEG-TS; of several variants that is told in their own playlists.
    pub(super) mpeg_ts: Option<&'a RangeInclusive<u64>>,
}

/// A playlist as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PlaylistRequest {
    object: Object,
    /// The segment and the part that it is to have.
    from: Option<(u64, Option<u32>)>,
    skip: bool,
    /// What goes into the addresses in it.
    carried: String,
}

impl PlaylistRequest {
    /// By a request for `object` with `query`; otherwise why that makes no sense.
    pub(super) fn new(object: Object, query: &str) -> Result<PlaylistRequest, String> {
        let directives = Directives::of(Some(query)).map_err(|error| error.to_string())?;
        Ok(PlaylistRequest {
            object,
            from: directives.msn.map(|msn| (msn, directives.part)),
            skip: directives.skip,
            carried: Carried::of(Some(query)).to_string().trim_start_matches('?').to_owned(),
        })
    }

    fn directives(&self) -> Directives {
        let (msn, part) = self.from.map_or((None, None), |(msn, part)| (Some(msn), part));
        Directives { msn, part, skip: self.skip }
    }

    /// What becomes of it; `None`: there is no such playlist, and none is due.
    fn decide(&self, sources: PlaylistSources<'_>) -> Option<Decision> {
        let PlaylistSources { variants, mpeg_ts, .. } = sources;
        let presentation = variants.first()?.presentation;
        match self.object {
            Object::Media(name) => match presentation.availability(self.object) {
                Availability::Unknown if presentation.is_ready() => None,
                _ if self.from.is_none() && !has_segments(presentation) => Some(Decision::Wait),
                _ => Some(hls::decide(presentation, name, self.directives())),
            },
            Object::IFrames => {
                let is_there =
                    presentation.is_ended() || hls::iframes(presentation, &Carried::default()).is_some();
                Some(if is_there { Decision::Now } else { Decision::Wait })
            }
            Object::TransportMedia if variants.len() == 1 => {
                let is_there = mpeg_ts.is_some() || presentation.is_ended();
                Some(if is_there { Decision::Now } else { Decision::Wait })
            }
            _ => Some(if may_begin(variants) { Decision::Now } else { Decision::Wait }),
        }
    }

    /// `base_path` stands in front of what has to be an absolute address: players take it for one of their page.
    fn render(&self, sources: PlaylistSources<'_>, base_path: &str) -> Option<String> {
        let PlaylistSources { variants, others, mpeg_ts } = sources;
        let presentation = variants.first()?.presentation;
        let carried = Carried::of(Some(&self.carried));
        let mpd = |addressing| {
            let (carried, utc_timing) = (carried.clone(), format!("{base_path}{TIME_PATH}"));
            dash::mpd(variants, addressing, &dash::Options { carried, utc_timing, latency: None })
        };
        match self.object {
            Object::Multivariant => hls::multivariant(variants, &carried),
            Object::Media(name) => {
                let (carried, others) = (carried.clone(), others.to_vec());
                hls::media(presentation, name, &MediaOptions { carried, skip: self.skip, others })
            }
            Object::IFrames => hls::iframes(presentation, &carried),
            Object::TransportMedia if variants.len() == 1 => {
                hls::mpeg_ts(presentation, mpeg_ts?.clone(), &carried)
            }
            Object::TransportMedia => hls::mpeg_ts_variants(variants, &carried),
            Object::NumberManifest => mpd(Addressing::Number),
            Object::TimelineManifest => mpd(Addressing::Timeline),
            _ => None,
        }
    }

    /// The head of `text`. It is a text that may come in other codings, which are made for the clients that ask for them
    /// ([`Growing::coded`]).
    fn head(&self, text: &str) -> Head {
        let secs = if self.from.is_some() { RELOAD_SECS } else { PLAYLIST_SECS };
        // Tells one text from another at the same address, which is all that a validator of ours has to.
        let mut hasher = DefaultHasher::new();
        hasher.write(text.as_bytes());
        Head::new(self.object.media_type())
            .with("ETag", &format!("\"{:016x}\"", hasher.finish()))
            .with("Vary", "Accept-Encoding")
            .with("Cache-Control", &format!("max-age={secs}"))
    }
}

/// Whether each rendition has a complete segment, or the stream is over: players that know no parts see nothing before, and
/// do not come back.
fn has_segments(presentation: &Presentation) -> bool {
    let renditions = presentation.renditions();
    let is_there = !renditions.is_empty() && renditions.iter().all(|it| it.complete().next().is_some());
    is_there || presentation.is_ended()
}

/// Whether players can be told of all variants. One of which nothing comes is not waited for for long: its encoder may stand,
/// or its codec be none that can be packaged.
fn may_begin(variants: &[Variant<'_>]) -> bool {
    let presentations = || variants.iter().map(|variant| variant.presentation);
    let count = |presentation: &Presentation| {
        presentation.renditions().iter().map(|it| it.complete().count()).min().unwrap_or(0)
    };
    presentations().all(has_segments)
        || presentations().any(|it| has_segments(it) && count(it) >= VERSION_WAIT_SEGMENTS)
}

/// The playlists of a presentation, or of several.
pub(super) struct Playlists {
    wake: Arc<dyn Wake>,
    base_path: Arc<str>,
    /// As they are now.
    rendered: BTreeMap<PlaylistRequest, Arc<Growing>>,
    /// Those that are not due yet.
    awaited: BTreeMap<PlaylistRequest, Arc<Growing>>,
}

impl Playlists {
    pub(super) fn new(wake: Arc<dyn Wake>, base_path: Arc<str>) -> Playlists {
        Playlists { wake, base_path, rendered: BTreeMap::new(), awaited: BTreeMap::new() }
    }

    /// What a request comes to.
    pub(super) fn find(&mut self, request: PlaylistRequest, sources: PlaylistSources<'_>) -> FoundObject {
        match request.decide(sources) {
            None => FoundObject::Unknown,
            Some(Decision::BadRequest) => {
                FoundObject::Bad("the segment or part is too far ahead of what there is".to_owned())
            }
            Some(Decision::Now) => {
                if let Some(growing) = self.rendered.get(&request) {
                    return FoundObject::Object(Arc::clone(growing));
                }
                let Some(text) = request.render(sources, &self.base_path) else {
                    return FoundObject::Unknown;
                };
                let whole = Filling::whole(request.head(&text), Bytes::from(text));
                let growing = Growing::new(whole, Arc::clone(&self.wake));
                if self.rendered.len() < AWAITED_MAX {
                    self.rendered.insert(request, Arc::clone(&growing));
                }
                FoundObject::Object(growing)
            }
            Some(Decision::Wait) => {
                if self.awaited.len() >= AWAITED_MAX && !self.awaited.contains_key(&request) {
                    return FoundObject::Busy;
                }
                let new = || Growing::new(Filling::new(), Arc::clone(&self.wake));
                FoundObject::Object(Arc::clone(self.awaited.entry(request).or_insert_with(new)))
            }
        }
    }

    /// Whether no playlist was asked for since the last change, so that another change is no news.
    pub(super) fn are_idle(&self) -> bool {
        self.rendered.is_empty() && self.awaited.is_empty()
    }

    /// The presentation has changed: answers the requests that waited, where their playlists are due by now.
    pub(super) fn change(&mut self, sources: PlaylistSources<'_>) {
        self.rendered.clear();
        let waits = |request: &PlaylistRequest| request.decide(sources) == Some(Decision::Wait);
        let due: Vec<PlaylistRequest> =
            self.awaited.keys().filter(|request| !waits(request)).cloned().collect();
        for request in due {
            let Some(growing) = self.awaited.remove(&request) else { continue };
            match request.render(sources, &self.base_path) {
                Some(text) => {
                    growing.change(|object| {
                        object.begin(request.head(&text), None);
                        object.append(Bytes::from(text));
                        object.finish();
                    });
                    self.rendered.insert(request, growing);
                }
                None => growing.change(|object| object.fail(Failure::Ended)),
            }
        }
    }

    /// Nothing of the stream can be played: those that are waited for are this answer.
    pub(super) fn refuse(&mut self, head: &Head, body: &Bytes) {
        self.rendered.clear();
        // Segments of the stream's own bytes are cut whatever is in them.
        let (kept, refused): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut self.awaited)
            .into_iter()
            .partition(|(request, _)| request.object == Object::TransportMedia);
        self.awaited = kept;
        for growing in refused.into_values() {
            growing.change(|object| {
                object.begin(head.clone(), None);
                object.append(body.clone());
                object.finish();
            });
        }
    }

    /// Nothing comes any more: requests that still wait fail.
    pub(super) fn end(&mut self) {
        for growing in std::mem::take(&mut self.awaited).into_values() {
            growing.change(|object| object.fail(Failure::Ended));
        }
    }
}

#[cfg(test)]
#[path = "playlists_tests.rs"]
mod tests;
