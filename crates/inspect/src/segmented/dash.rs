//! DASH manifests, as much of them as is needed to follow the live edge (ISO/IEC 23009-1): segment templates by number and by
//! time, and lists of segments; of the versions the one with the most bits, of sound the first language's. What is not
//! understood is passed over.

use super::listing::{Address, Again, Listing, Object};
use super::text::{parse_duration, parse_utc};
use super::xml::Element;
use glassline_delivery::http1::Url;
use glassline_media::Utc;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Segments of a live manifest that are listed: the newest.
const LIVE_OBJECTS: usize = 50;
/// Segments of a recording, in all of its periods: half a day.
const OBJECTS: usize = 20_000;
const PERIODS: usize = 200;
/// Bytes of an address, and of a template of addresses. Each segment of a listing has its own.
const ADDRESS_BYTES: usize = 2048;
/// Versions of a kind that are tried in a period, from the one with the most bits on, until one can be followed.
const TRIED: usize = 16;
/// How often a manifest is loaded that does not say, and that one that says "at once" is.
const AGAIN: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(10)];

/// What a rendition carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// Pictures.
    Pictures,
    /// Sound.
    Sound,
}

impl Carries {
    fn word(self) -> &'static str {
        match self {
            Carries::Pictures => "video",
            Carries::Sound => "audio",
        }
    }
}

/// A manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    is_live: bool,
    available: Utc,
    update: Option<Duration>,
    periods: Vec<Period>,
}

#[derive(Clone, Debug, PartialEq)]
struct Period {
    start: Duration,
    duration: Option<Duration>,
    pictures: Option<Representation>,
    sound: Option<Representation>,
}

/// A version of one kind, in one period.
#[derive(Clone, Debug, PartialEq)]
pub struct Representation {
    /// Its identifier.
    pub id: String,
    /// Bits a second, as the manifest says.
    pub bandwidth_bps: u64,
    /// Width and height, where they are said.
    pub size: Option<(u64, u64)>,
    /// It says that it is encrypted.
    pub is_encrypted: bool,
    init: Option<Arc<Address>>,
    segments: Segments,
}

#[derive(Clone, Debug, PartialEq)]
enum Segments {
    /// All are as long, and are found by the clock.
    Numbered { media: Template, first: u64, duration: Duration, early: Duration },
    /// Each is listed by its time: number, time, and how long it lasts.
    Timed { media: Template, listed: Vec<(u64, u64, Duration)> },
    /// Each is listed by its address, from this number on.
    Listed { first: u64, duration: Duration, listed: Vec<Address> },
}

/// Which segments that a period lists are kept: one element can stand for any number of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    /// Of a live manifest so many, which are all that a listing can take of one period.
    Newest(usize),
    /// Of a recording those for which the periods before it left room.
    First(usize),
}

impl Kept {
    /// The places of those that are kept of `count`.
    fn of(self, count: u64) -> Range<u64> {
        match self {
            Kept::Newest(most) => count.saturating_sub(most as u64)..count,
            Kept::First(most) => 0..count.min(most as u64),
        }
    }

    /// The same of a list.
    fn of_list(self, count: usize) -> Range<usize> {
        match self {
            Kept::Newest(most) => count.saturating_sub(most)..count,
            Kept::First(most) => 0..count.min(most),
        }
    }
}

/// Addresses with a number or a time in them.
#[derive(Clone, Debug, PartialEq)]
struct Template {
    base: Url,
    text: String,
}

impl Manifest {
    /// Reads the manifest that is at `url`.
    ///
    /// # Errors
    /// Why it is none, or tells of nothing that can be followed.
    pub fn parse(text: &str, url: &Url) -> Result<Manifest, &'static str> {
        let root =
            Element::parse(text).filter(|root| root.name == "MPD").ok_or("it is no manifest of DASH")?;
        let is_live = root.attribute("type").as_deref() == Some("dynamic");
        let available = root.attribute("availabilityStartTime").as_deref().and_then(parse_utc);
        let whole = root.attribute("mediaPresentationDuration").as_deref().and_then(parse_duration);
        let update = root.attribute("minimumUpdatePeriod").as_deref().and_then(parse_duration);
        let base = based(url, &root);
        let mut periods: Vec<Period> = Vec::new();
        let mut room = [OBJECTS; 2];
        for element in root.all("Period").take(PERIODS) {
            let time = |name: &str| element.attribute(name).as_deref().and_then(parse_duration);
            let before =
                periods.last().map(|before| before.start.saturating_add(before.duration.unwrap_or_default()));
            let base = based(&base, element);
            let of = |carries, room: &mut usize| {
                let kept = if is_live { Kept::Newest(LIVE_OBJECTS) } else { Kept::First(*room) };
                let best = Representation::best(element, &base, carries, kept)?;
                *room = room.saturating_sub(best.segments.listed());
                Some(best)
            };
            let [of_pictures, of_sound] = &mut room;
            periods.push(Period {
                start: time("start").or(before).unwrap_or_default(),
                duration: time("duration"),
                pictures: of(Carries::Pictures, of_pictures),
                sound: of(Carries::Sound, of_sound),
            });
        }
        // A period ends where the next one begins, and the last one with the presentation.
        let starts: Vec<Duration> = periods.iter().skip(1).map(|period| period.start).collect();
        for (number, period) in periods.iter_mut().enumerate() {
            let end = starts.get(number).copied().or(whole);
            period.duration = period.duration.or(end.and_then(|end| end.checked_sub(period.start)));
        }
        let has_some = |period: &Period| period.pictures.is_some() || period.sound.is_some();
        if !periods.iter().any(has_some) {
            return Err("the manifest tells of no segments by SegmentTemplate or SegmentList");
        }
        if is_live && available.is_none() {
            return Err("the manifest does not say when its segments are available");
        }
        Ok(Manifest { is_live, available: available.unwrap_or(Utc::from_nanos(0)), update, periods })
    }

    /// The version that is followed, as the newest period has it.
    pub fn version(&self, carries: Carries) -> Option<&Representation> {
        self.periods.iter().rev().find_map(|period| period.representation(carries))
    }

    /// Whether there is more to come.
    pub fn is_live(&self) -> bool {
        self.is_live
    }

    /// How long it holds.
    pub fn fresh_for(&self) -> Duration {
        self.update.unwrap_or(Duration::MAX)
    }

    /// What there is of a rendition at `now`, on the server's clock.
    pub fn listing(&self, carries: Carries, now: Utc) -> Listing {
        let passed = Duration::from_nanos(now.as_nanos().saturating_sub(self.available.as_nanos()));
        // A live stream is listed from its newest period back, a recording from its first one on, until the listing is full.
        let (mut periods, mut left): (Vec<&Period>, _) = (self.periods.iter().collect(), OBJECTS);
        if self.is_live {
            periods.retain(|period| period.start <= passed);
            periods.reverse();
            left = LIVE_OBJECTS;
        }
        let mut lists = Vec::new();
        for period in periods {
            let Some(representation) = period.representation(carries) else { continue };
            let within = self.is_live.then(|| passed.saturating_sub(period.start));
            let list = representation.list(period, within, left);
            left = left.saturating_sub(list.len());
            lists.push(list);
            if left == 0 {
                break;
            }
        }
        if self.is_live {
            lists.reverse();
        }
        let objects: Vec<Object> = lists.into_iter().flatten().collect();
        let longest = objects.iter().map(|object| object.duration).max().unwrap_or(AGAIN[0]);
        let [least, most] = AGAIN;
        let is_by_clock =
            matches!(self.version(carries).map(|version| &version.segments), Some(Segments::Numbered { .. }));
        // What is found by the clock is there without a new manifest, which is looked at for other periods.
        let wanted = if is_by_clock { longest / 4 } else { self.update.unwrap_or(longest / 2) };
        Listing {
            objects,
            has_ended: !self.is_live,
            patience: longest.saturating_add(longest / 2),
            again: Again::After(wanted.clamp(least, most)),
        }
    }
}

/// The address that relative ones within `element` are meant by.
fn based(base: &Url, element: &Element<'_>) -> Url {
    let own = element.first("BaseURL").and_then(|own| resolved(base, &own.text()));
    own.unwrap_or_else(|| base.clone())
}

/// The address that `text` means, relative to `base`; `None` where it is none, or longer than [`ADDRESS_BYTES`].
fn resolved(base: &Url, text: &str) -> Option<Url> {
    let is_short = |text: &str| text.len() <= ADDRESS_BYTES;
    base.redirected(Some(text).filter(|text| is_short(text))?).ok().filter(|url| is_short(url.target()))
}

impl Segments {
    /// How many are held, each for itself.
    fn listed(&self) -> usize {
        match self {
            Segments::Numbered { .. } => 0,
            Segments::Timed { listed, .. } => listed.len(),
            Segments::Listed { listed, .. } => listed.len(),
        }
    }
}

impl Period {
    fn representation(&self, carries: Carries) -> Option<&Representation> {
        match carries {
            Carries::Pictures => self.pictures.as_ref(),
            Carries::Sound => self.sound.as_ref(),
        }
    }
}

impl Representation {
    /// The version of a kind that has the most bits; of sound in the language that comes first.
    fn best(period: &Element<'_>, base: &Url, carries: Carries, kept: Kept) -> Option<Representation> {
        let mut candidates = Vec::new();
        // Languages by their first version.
        let mut languages: HashMap<Option<String>, usize> = HashMap::new();
        for set in period.all("AdaptationSet") {
            let is_trick = set.children.iter().any(|child| {
                child.attribute("schemeIdUri").is_some_and(|scheme| scheme.ends_with(":trickmode"))
            });
            if is_trick {
                continue;
            }
            let [content, mime, lang] = ["contentType", "mimeType", "lang"].map(|name| set.attribute(name));
            let before = candidates.len();
            for element in set.all("Representation") {
                let own = || element.attribute("mimeType");
                let kind = content.clone().or_else(own).or_else(|| mime.clone()).unwrap_or_default();
                if kind.split('/').next() == Some(carries.word()) {
                    candidates.push((0, Reverse(element.number("bandwidth").unwrap_or(0)), set, element));
                }
            }
            if candidates.len() > before && carries == Carries::Sound {
                let known = languages.len();
                let language = *languages.entry(lang).or_insert(known);
                candidates.iter_mut().skip(before).for_each(|candidate| candidate.0 = language);
            }
        }
        // In the manifest's order where two have as many bits.
        candidates.sort_by_key(|(language, bandwidth, ..)| (*language, *bandwidth));
        candidates.into_iter().take(TRIED).find_map(|(_, _, set, element)| {
            Representation::of([period, set, element], &based(&based(base, set), element), kept)
        })
    }

    /// A version by its element and those that it is in.
    fn of(levels: [&Element<'_>; 3], base: &Url, kept: Kept) -> Option<Representation> {
        let [_, set, element] = levels;
        let id = element.attribute("id").unwrap_or_default();
        let bandwidth = element.number("bandwidth").unwrap_or(0);
        let number = |name| element.number(name).or_else(|| set.number(name));
        // What an inner level says holds, and what it leaves out is said by the outer ones.
        let inherited =
            |kind| -> Vec<_> { levels.iter().rev().filter_map(|level| level.first(kind)).collect() };
        let (templates, lists) = (inherited("SegmentTemplate"), inherited("SegmentList"));
        let tags = if templates.is_empty() { &lists } else { &templates };
        let said = |name: &str| tags.iter().find_map(|tag| tag.attribute(name));
        let said_number = |name: &str| tags.iter().find_map(|tag| tag.number(name));
        let timescale = said_number("timescale").unwrap_or(1).max(1);
        let time = |ticks: u64| {
            let nanos = u128::from(ticks) * 1_000_000_000 / u128::from(timescale);
            Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
        };
        let filled = |text: String| fill(&text, &id, bandwidth);
        let first = said_number("startNumber").unwrap_or(1);
        let timeline = tags.iter().find_map(|tag| tag.first("SegmentTimeline"));
        let duration = said_number("duration").map(time).filter(|duration| !duration.is_zero());
        let (init, segments) = if templates.is_empty() {
            let list = lists.first()?;
            let init = tags.iter().find_map(|tag| tag.first("Initialization"));
            let init = init.and_then(|init| address(base, init, ["sourceURL", "range"]));
            let urls = list.all("SegmentURL");
            let places = kept.of_list(urls.clone().count());
            let first = first.saturating_add(places.start as u64);
            let urls = urls.skip(places.start).take(places.len());
            let listed: Option<Vec<Address>> =
                urls.map(|url| address(base, url, ["media", "mediaRange"])).collect();
            (
                init,
                Segments::Listed {
                    first,
                    duration: duration.unwrap_or(Duration::from_secs(2)),
                    listed: listed?,
                },
            )
        } else {
            let init = said("initialization").and_then(|text| resolved(base, &filled(text)?));
            let media = Template { base: base.clone(), text: filled(said("media")?)? };
            let segments = match (timeline, duration) {
                (Some(timeline), _) => Segments::Timed { media, listed: times(timeline, first, kept, &time) },
                (None, Some(duration)) => {
                    let early = said("availabilityTimeOffset").and_then(|text| text.parse().ok());
                    // "INF" is of segments that are all there already.
                    let early = early.and_then(|early: f64| Duration::try_from_secs_f64(early).ok());
                    Segments::Numbered { media, first, duration, early: early.unwrap_or_default() }
                }
                (None, None) => return None,
            };
            (init.map(|url| Address { url, range: None }), segments)
        };
        let is_encrypted = [set, element].iter().any(|level| level.first("ContentProtection").is_some());
        Some(Representation {
            id,
            bandwidth_bps: bandwidth,
            size: number("width").zip(number("height")),
            is_encrypted,
            init: init.map(Arc::new),
            segments,
        })
    }

    /// At most `most` segments of it in `period`: the newest of those that are there once so much of the period has passed,
    /// and the first of all of them where that is not said.
    fn list(&self, period: &Period, passed: Option<Duration>, most: usize) -> Vec<Object> {
        let key = u64::try_from(period.start.as_millis()).unwrap_or(u64::MAX);
        let object = |id: u64, at: Address, duration: Duration| Object {
            // Periods follow each other; a day has fewer milliseconds than an identifier has room for.
            id: (key, id),
            is_part: false,
            at,
            init: self.init.clone(),
            duration,
            is_independent: true,
            is_gap: false,
            // The period's start stays when older periods leave the manifest, its place among them does not.
            timeline: key,
        };
        let kept = if passed.is_some() { Kept::Newest(most) } else { Kept::First(most) };
        // Where a template gives no address for one number, it gives none for those behind it either, and they are not tried.
        match &self.segments {
            Segments::Numbered { media, first, duration, early } => {
                let parts = |time: Duration| {
                    u64::try_from(time.as_nanos() / duration.as_nanos().max(1)).unwrap_or(u64::MAX)
                };
                let all = period.duration.map(|all| {
                    parts(all.saturating_add(*duration).saturating_sub(Duration::from_millis(1))).max(1)
                });
                // A segment is there once it has passed.
                let there = passed.map(|passed| parts(passed.saturating_add(*early)));
                let count = match (all, there) {
                    (Some(all), Some(there)) => all.min(there),
                    (Some(count), None) | (None, Some(count)) => count,
                    (None, None) => 0,
                };
                let numbers = kept.of(count).map(|place| first.saturating_add(place));
                numbers
                    .map_while(|number| Some(object(number, media.address(number, 0)?, *duration)))
                    .collect()
            }
            Segments::Timed { media, listed } => listed[kept.of_list(listed.len())]
                .iter()
                .map_while(|&(number, time, duration)| {
                    Some(object(time, media.address(number, time)?, duration))
                })
                .collect(),
            Segments::Listed { first, duration, listed } => {
                let places = kept.of_list(listed.len());
                let numbers = first.saturating_add(places.start as u64)..;
                let addresses = listed[places].iter();
                numbers.zip(addresses).map(|(number, at)| object(number, at.clone(), *duration)).collect()
            }
        }
    }
}

/// An address with a range, by the names of the two attributes.
fn address(base: &Url, element: &Element<'_>, names: [&str; 2]) -> Option<Address> {
    let [uri, range] = names.map(|name| element.attribute(name));
    let url = uri.map_or_else(|| Some(base.clone()), |uri| resolved(base, &uri))?;
    let range = match range {
        Some(range) => {
            let (from, to) = range.split_once('-')?;
            let (from, to): (u64, u64) = (from.parse().ok()?, to.parse().ok()?);
            Some((from, to.checked_sub(from)?.checked_add(1)?))
        }
        None => None,
    };
    Some(Address { url, range })
}

/// The segments of a `SegmentTimeline` that are kept: numbers, times, and how long they last.
fn times(
    timeline: &Element<'_>,
    first: u64,
    kept: Kept,
    time: &dyn Fn(u64) -> Duration,
) -> Vec<(u64, u64, Duration)> {
    let mut listed = Vec::new();
    let (mut at, mut number) = (0u64, first);
    let mut elements = timeline.all("S").peekable();
    while let Some(element) = elements.next() {
        at = element.number("t").unwrap_or(at);
        let Some(length) = element.number("d").filter(|length| *length > 0) else { return listed };
        let next = elements.peek().and_then(|next| next.number("t"));
        // -1: up to the next one that is listed.
        let repeats =
            match (element.attribute("r").and_then(|text| text.parse::<i64>().ok()).unwrap_or(0), next) {
                (repeats, _) if repeats >= 0 => repeats.unsigned_abs(),
                (_, Some(next)) => (next.saturating_sub(at) / length).saturating_sub(1),
                (_, None) => 0,
            };
        let count = repeats.saturating_add(1);
        let places = match kept {
            Kept::Newest(_) => kept.of(count),
            Kept::First(most) => Kept::First(most.saturating_sub(listed.len())).of(count),
        };
        for place in places {
            let at = at.saturating_add(length.saturating_mul(place));
            listed.push((number.saturating_add(place), at, time(length)));
        }
        (number, at) = (number.saturating_add(count), at.saturating_add(length.saturating_mul(count)));
        match kept {
            Kept::Newest(_) => drop(listed.drain(..kept.of_list(listed.len()).start)),
            Kept::First(most) if listed.len() >= most => break,
            Kept::First(_) => {}
        }
    }
    listed
}

/// A template with what does not change in it; `None` where that is longer than an address may be.
fn fill(text: &str, id: &str, bandwidth: u64) -> Option<String> {
    let is_short = |text: &str| text.len() <= ADDRESS_BYTES;
    let text = Some(text).filter(|text| is_short(text) && is_short(id))?;
    let text = replaced(text, "Bandwidth", bandwidth);
    Some(text.replace("$RepresentationID$", id)).filter(|text| is_short(text))
}

/// `text` with the number in place of `$name$` and `$name%05d$`.
fn replaced(text: &str, name: &str, number: u64) -> String {
    let (mut out, mut rest) = (String::new(), text);
    let mark = format!("${name}");
    while let Some((before, behind)) = rest.split_once(mark.as_str()) {
        out.push_str(before);
        let Some((format, after)) = behind.split_once('$') else { break };
        let width = format.strip_prefix("%0").and_then(|format| format.strip_suffix('d'));
        match (format, width.and_then(|width| width.parse::<usize>().ok())) {
            ("", _) => out.push_str(&number.to_string()),
            (_, Some(width)) => out.push_str(&format!("{number:0width$}", width = width.min(20))),
            // Another name that begins alike.
            _ => out.push_str(&format!("{mark}{format}$")),
        }
        rest = after;
    }
    out + rest
}

impl Template {
    fn address(&self, number: u64, time: u64) -> Option<Address> {
        let text = replaced(&replaced(&self.text, "Number", number), "Time", time);
        let url = resolved(&self.base, &text.replace("$$", "$"))?;
        Some(Address { url, range: None })
    }
}

#[cfg(test)]
#[path = "dash_tests.rs"]
mod tests;
