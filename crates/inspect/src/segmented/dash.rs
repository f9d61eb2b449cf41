//! DASH manifests, as much of them as is needed to follow the live edge (ISO/IEC 23009-1): segment templates by number and by
//! time, and lists of segments; of the versions the one with the most bits, of sound the first language's. What is not
//! understood is passed over.

use super::listing::{Address, Again, Listing, Object};
use super::text::{parse_duration, parse_utc};
use super::xml::Element;
use glassline_delivery::http1::Url;
use glassline_media::Utc;
use std::sync::Arc;
use std::time::Duration;

/// Segments of a live manifest that are listed: the newest.
const LIVE_OBJECTS: u64 = 50;
/// Segments of a recording: half a day.
const OBJECTS: u64 = 20_000;
const PERIODS: usize = 200;
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
        for element in root.all("Period").take(PERIODS) {
            let time = |name: &str| element.attribute(name).as_deref().and_then(parse_duration);
            let before =
                periods.last().map(|before| before.start.saturating_add(before.duration.unwrap_or_default()));
            let base = based(&base, element);
            let of = |carries| Representation::best(element, &base, carries);
            periods.push(Period {
                start: time("start").or(before).unwrap_or_default(),
                duration: time("duration"),
                pictures: of(Carries::Pictures),
                sound: of(Carries::Sound),
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
        let begun = |period: &&Period| !self.is_live || period.start <= passed;
        let mut objects = Vec::new();
        let most = if self.is_live { LIVE_OBJECTS } else { OBJECTS };
        for (number, period) in self.periods.iter().filter(begun).enumerate() {
            let Some(representation) = period.representation(carries) else { continue };
            let within = self.is_live.then(|| passed.saturating_sub(period.start));
            representation.list(period, within, most, number as u64, &mut objects);
        }
        if self.is_live {
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            objects.drain(..objects.len().saturating_sub(most));
        } else {
            objects.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        }
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
    let own = element.first("BaseURL").and_then(|own| base.redirected(&own.text()).ok());
    own.unwrap_or_else(|| base.clone())
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
    fn best(period: &Element<'_>, base: &Url, carries: Carries) -> Option<Representation> {
        let mut best: Option<Representation> = None;
        let mut language = None;
        for set in period.all("AdaptationSet") {
            let lang = set.attribute("lang");
            let base = based(base, set);
            for element in set.all("Representation") {
                let said = |name| element.attribute(name).or_else(|| set.attribute(name));
                let kind = set.attribute("contentType").or_else(|| said("mimeType")).unwrap_or_default();
                let is_its = kind.split('/').next() == Some(carries.word());
                let is_trick = set.children.iter().any(|child| {
                    child.attribute("schemeIdUri").is_some_and(|scheme| scheme.ends_with(":trickmode"))
                });
                if !is_its || is_trick || language.as_ref().is_some_and(|language| *language != lang) {
                    continue;
                }
                let Some(found) = Representation::of([period, set, element], &based(&base, element)) else {
                    continue;
                };
                language.get_or_insert_with(|| lang.clone()).clone_from(&lang);
                if best.as_ref().is_none_or(|best| found.bandwidth_bps > best.bandwidth_bps) {
                    best = Some(found);
                }
            }
            if carries == Carries::Pictures {
                language = None;
            }
        }
        best
    }

    /// A version by its element and those that it is in.
    fn of(levels: [&Element<'_>; 3], base: &Url) -> Option<Representation> {
        let [_, set, element] = levels;
        let id = element.attribute("id").unwrap_or_default();
        let bandwidth = element.number("bandwidth").unwrap_or(0);
        let number = |name| element.number(name).or_else(|| set.number(name));
        // What an inner level says holds, and what it leaves out is said by the outer ones.
        let inherited = |kind: &'static str| -> Vec<Element<'_>> {
            levels.iter().rev().filter_map(|level| level.first(kind).cloned()).collect()
        };
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
            let urls = list.all("SegmentURL").take(OBJECTS as usize);
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
            let init = said("initialization").and_then(|text| base.redirected(&filled(text)).ok());
            let media = Template { base: base.clone(), text: filled(said("media")?) };
            let segments = match (timeline, duration) {
                (Some(timeline), _) => Segments::Timed { media, listed: times(timeline, first, &time) },
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

    /// Adds what there is of it in `period`, of which so much has passed; all of it where that is not said.
    fn list(
        &self,
        period: &Period,
        passed: Option<Duration>,
        most: u64,
        timeline: u64,
        out: &mut Vec<Object>,
    ) {
        let key = u64::try_from(period.start.as_millis()).unwrap_or(u64::MAX);
        let mut add = |id: u64, at: Option<Address>, duration: Duration| {
            if let Some(at) = at {
                // Periods follow each other; a day has fewer milliseconds than an identifier has room for.
                out.push(Object {
                    id: (key, id),
                    is_part: false,
                    at,
                    init: self.init.clone(),
                    duration,
                    is_independent: true,
                    is_gap: false,
                    timeline,
                });
            }
        };
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
                let from = if passed.is_some() { count.saturating_sub(most) } else { 0 };
                for place in from..count.min(from.saturating_add(most)) {
                    let number = first.saturating_add(place);
                    add(number, media.address(number, 0), *duration);
                }
            }
            Segments::Timed { media, listed } => {
                for &(number, time, duration) in listed {
                    add(time, media.address(number, time), duration);
                }
            }
            Segments::Listed { first, duration, listed } => {
                for (number, address) in (*first..).zip(listed) {
                    add(number, Some(address.clone()), *duration);
                }
            }
        }
    }
}

/// An address with a range, by the names of the two attributes.
fn address(base: &Url, element: &Element<'_>, names: [&str; 2]) -> Option<Address> {
    let [uri, range] = names.map(|name| element.attribute(name));
    let url = uri.map_or_else(|| Some(base.clone()), |uri| base.redirected(&uri).ok())?;
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

/// The segments of a `SegmentTimeline`: numbers, times, and how long they last.
fn times(timeline: &Element<'_>, first: u64, time: &dyn Fn(u64) -> Duration) -> Vec<(u64, u64, Duration)> {
    let mut listed = Vec::new();
    let (mut at, mut number) = (0u64, first);
    let elements: Vec<&Element<'_>> = timeline.all("S").collect();
    for (place, element) in elements.iter().enumerate() {
        at = element.number("t").unwrap_or(at);
        let Some(length) = element.number("d").filter(|length| *length > 0) else { return listed };
        let next = elements.get(place + 1).and_then(|next| next.number("t"));
        // -1: up to the next one that is listed.
        let repeats =
            match (element.attribute("r").and_then(|text| text.parse::<i64>().ok()).unwrap_or(0), next) {
                (repeats, _) if repeats >= 0 => repeats.unsigned_abs(),
                (_, Some(next)) => (next.saturating_sub(at) / length).saturating_sub(1),
                (_, None) => 0,
            };
        for _ in 0..=repeats.min(OBJECTS) {
            if listed.len() as u64 >= OBJECTS {
                return listed;
            }
            listed.push((number, at, time(length)));
            (number, at) = (number.saturating_add(1), at.saturating_add(length));
        }
    }
    listed
}

/// A template with what does not change in it.
fn fill(text: &str, id: &str, bandwidth: u64) -> String {
    let text = replaced(text, "Bandwidth", bandwidth);
    text.replace("$RepresentationID$", id)
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
        let url = self.base.redirected(&text.replace("$$", "$")).ok()?;
        Some(Address { url, range: None })
    }
}

#[cfg(test)]
#[path = "dash_tests.rs"]
mod tests;
