//! Times that cues of SCTE 35 announce, as playlists tell them (draft-pantos-hls-rfc8216bis §4.4.5.1).

use super::Presentation;
use bytes::Bytes;
use glassline_media::Utc;
use glassline_media::container::ts::scte35::{Command, Direction, Segmentation, SpliceInfo};
use std::time::Duration;

/// Ranges that are kept.
const RANGES_MAX: usize = 64;
/// Bytes of their sections: each is twice as long in each playlist.
const SECTIONS_MAX_BYTES: usize = 64 << 10;
/// Segmentation descriptors that are taken of one cue: each is a range that has the whole section.
const SEGMENTATIONS_MAX: usize = 8;
/// A break that nothing ends by itself is listed for so long after its beginning, or for as long as is planned where that is longer.
const OPEN_MAX: Duration = Duration::from_secs(3600);
/// No range is listed for longer than this after its beginning, whatever its cue plans.
const LISTED_MAX: Duration = Duration::from_secs(24 * 3600);
/// A cue that announces the same event again, this close to what it announced before, says nothing new.
const SAME_WITHIN: Duration = Duration::from_secs(1);

/// What a range is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    /// An event of `splice_insert`.
    Insert(u32),
    /// An event of a segmentation descriptor, and the type that its beginning has.
    Segmentation(u32, u8),
    /// Something that is neither left nor returned to.
    Other,
}

/// A time that a cue announces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DateRange {
    about: About,
    /// Its name, which no other has.
    pub id: String,
    /// When it begins.
    pub start: Utc,
    /// How long it is meant to last.
    pub planned: Option<Duration>,
    /// It ends when that is over; otherwise the program is returned to when a cue says so (SCTE 35 §9.8.2: `auto_return`).
    returns: bool,
    /// The section that leaves the program.
    pub out: Option<Bytes>,
    /// When the program is returned to, and the section that says so.
    pub back: Option<(Utc, Bytes)>,
    /// A section that does neither.
    pub command: Option<Bytes>,
}

impl DateRange {
    /// When it is over.
    fn end(&self) -> Utc {
        let later = |by: Duration| {
            let nanos = by.min(LISTED_MAX).as_nanos().try_into().unwrap_or(u64::MAX);
            Utc::from_nanos(self.start.as_nanos().saturating_add(nanos))
        };
        let planned = self.planned.unwrap_or_default();
        match &self.back {
            Some((end, _)) => (*end).min(later(LISTED_MAX)),
            None if self.out.is_some() && !self.returns => later(planned.max(OPEN_MAX)),
            None => later(planned),
        }
    }

    fn sections(&self) -> [Option<&Bytes>; 3] {
        [self.out.as_ref(), self.back.as_ref().map(|(_, section)| section), self.command.as_ref()]
    }

    fn sections_bytes(&self) -> usize {
        self.sections().into_iter().flatten().map(Bytes::len).sum()
    }
}

/// The time between two dates.
fn between(start: Utc, end: Utc) -> Duration {
    Duration::from_nanos(end.as_nanos().saturating_sub(start.as_nanos()))
}

/// Whether both are one moment that was announced twice.
fn is_near(a: Utc, b: Utc) -> bool {
    between(a, b).max(between(b, a)) < SAME_WITHIN
}

/// Ticks of 90 kHz.
fn planned(ticks: u64) -> Duration {
    super::duration_of(ticks, glassline_media::Ticks::RATE)
}

impl Presentation {
    /// The ranges that are not over at `from`, in the order in which they were announced.
    pub fn date_ranges(&self, from: Utc) -> impl Iterator<Item = &DateRange> {
        self.date_ranges.iter().filter(move |range| range.end() >= from)
    }

    /// A cue, `section` by its bytes, announces something for `at`; it is `now`.
    pub(in crate::packager) fn take_cue(&mut self, cue: &SpliceInfo, section: &Bytes, at: Utc, now: Utc) {
        match &cue.command {
            Command::Insert(insert) if insert.cancelled => {
                self.cancel(|about| about == About::Insert(insert.event_id), now);
            }
            Command::Insert(insert) => {
                let direction = if insert.out_of_network { Direction::Out } else { Direction::In };
                let about = About::Insert(insert.event_id);
                let planned = insert.duration.map(|duration| planned(duration.ticks));
                let returns = insert.duration.is_some_and(|duration| duration.auto_return);
                let other = DateRange::other(&format!("splice-{}", insert.event_id), section, at);
                self.splice(direction, DateRange { about, planned, returns, ..other }, now);
            }
            Command::TimeSignal { .. } if cue.segmentations().next().is_some() => {
                let taken = cue.segmentations().take(SEGMENTATIONS_MAX);
                taken.for_each(|one| self.take_segmentation(one, section, at, now));
            }
            Command::Null | Command::BandwidthReservation => {}
            _ => self.add(DateRange::other("cue", section, at)),
        }
        self.evict_date_ranges(now);
    }

    fn take_segmentation(&mut self, one: &Segmentation, section: &Bytes, at: Utc, now: Utc) {
        if one.cancelled {
            let is_about = |about| matches!(about, About::Segmentation(id, _) if id == one.event_id);
            return self.cancel(is_about, now);
        }
        let (direction, planned) = (one.direction(), one.duration.map(planned));
        // A beginning has an even type, and its end the next one.
        let kind = if direction.is_some() { one.type_id & !1 } else { one.type_id };
        let other = DateRange::other(&format!("segmentation-{}-{kind:02x}", one.event_id), section, at);
        match direction {
            Some(direction) => {
                let about = About::Segmentation(one.event_id, kind);
                self.splice(direction, DateRange { about, planned, ..other }, now);
            }
            None => self.add(DateRange { planned, ..other }),
        }
    }

    /// The program is left or returned to, which the command of `range` says.
    fn splice(&mut self, direction: Direction, mut range: DateRange, now: Utc) {
        let (about, at) = (range.about, range.start);
        let Some(section) = range.command.take() else { return };
        let mut known = self.date_ranges.iter_mut().filter(|known| known.about == about);
        match direction {
            Direction::In => {
                if known.any(|known| known.back.as_ref().is_some_and(|(back, _)| is_near(*back, at))) {
                    return;
                }
                let mut known = self.date_ranges.iter_mut().rev();
                let left = known.find(|known| known.about == about && known.out.is_some());
                // A return that has not taken place may be announced for another time.
                let is_over = |left: &DateRange| left.back.as_ref().is_some_and(|(back, _)| *back <= now);
                match left {
                    Some(left) if left.start <= at && !is_over(left) => left.back = Some((at, section)),
                    _ => {
                        self.date_ranges.retain(|known| {
                            known.about != about || known.out.is_some() || known.start <= now
                        });
                        self.add(DateRange { planned: None, back: Some((at, section)), ..range });
                    }
                }
            }
            Direction::Out => {
                if known.any(|known| known.out.is_some() && is_near(known.start, at)) {
                    return;
                }
                // One that is announced for another time now.
                self.cancel(|of| of == about, now);
                self.add(DateRange { out: Some(section), ..range });
            }
        }
    }

    /// What these are about, and has not begun, will not take place.
    fn cancel(&mut self, is_about: impl Fn(About) -> bool, now: Utc) {
        self.date_ranges.retain(|range| !is_about(range.about) || range.start <= now);
    }

    /// Adds a range, unless it is there. Another one for the same moment gets a name of its own.
    fn add(&mut self, mut range: DateRange) {
        let name = range.id.clone();
        for number in 2.. {
            let Some(other) = self.date_ranges.iter().find(|other| other.id == range.id) else { break };
            if other.sections() == range.sections() {
                return;
            }
            range.id = format!("{name}-{number}");
        }
        self.date_ranges.push_back(range);
    }

    /// Leaves out what is more than playlists may list: first what is over, then what is neither left nor returned to, and the
    /// oldest of the others at last, since a break that goes on is what players cannot do without.
    fn evict_date_ranges(&mut self, now: Utc) {
        let mut bytes: usize = self.date_ranges.iter().map(DateRange::sections_bytes).sum();
        while self.date_ranges.len() > RANGES_MAX || bytes > SECTIONS_MAX_BYTES {
            let over = self.date_ranges.iter().position(|range| range.end() < now);
            let least =
                over.or_else(|| self.date_ranges.iter().position(|range| range.about == About::Other));
            let Some(range) = self.date_ranges.remove(least.unwrap_or(0)) else { return };
            bytes -= range.sections_bytes();
        }
    }
}

impl DateRange {
    /// Something at `at` that is neither left nor returned to. Numbers of events are used again: the time tells them apart.
    fn other(name: &str, section: &Bytes, at: Utc) -> DateRange {
        let id = format!("{name}-{}", at.as_nanos() / 1_000_000);
        let command = Some(section.clone());
        let (about, start) = (About::Other, at);
        DateRange { about, id, start, planned: None, returns: false, out: None, back: None, command }
    }

    /// How long it has lasted, where it is over.
    pub fn duration(&self) -> Option<Duration> {
        let (end, _) = self.back.as_ref().filter(|_| self.out.is_some())?;
        Some(between(self.start, *end))
    }
}
