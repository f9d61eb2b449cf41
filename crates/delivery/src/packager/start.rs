//! The beginning of an epoch: waits until all tracks are known, so that all begin at once and on one time scale.

use super::RenditionName;
use super::choice::Choice;
use super::clock::ticks_between;
use super::guide::{Displaced, Guide, Place};
use glassline_media::bitstream::{self, aac_config::HeAac};
use glassline_media::container::cmaf::Media;
use glassline_media::time::FrameRate;
use glassline_media::{AccessUnit, Ticks, Utc};
use std::collections::VecDeque;

/// Pictures wait this long for the first sound of each announced track, by their own time.
const SOUND_WAIT: i64 = Ticks::RATE as i64;
/// Sound waits this long for the first key frame, then begins without pictures.
pub(super) const VIDEO_WAIT: i64 = 5 * Ticks::RATE as i64;
/// Sound with stamps further than this from the pictures' is on another clock, and of no use.
pub(super) const FAR: i64 = 10 * Ticks::RATE as i64;
/// So many pictures in a row that follow each other show what the clock is. Two may have come in one PES packet with a wrong stamp.
const AGREEING: usize = 3;
/// If the first two pictures are no further apart than this, ten a second, they show alone how long one lasts.
const STEP_USUAL: i64 = Ticks::RATE as i64 / 10;
/// What waits at most, whatever its stamps say.
const UNITS_MAX: usize = 2000;
const BYTES_MAX: usize = 16 << 20;
/// The shortest step between more units than this tells how long one lasts, even if some of their stamps are wrong.
const UNITS_TELLING: usize = 8;
/// No unit lasts less: the shortest frame of Opus, 2.5 ms.
const UNIT_TICKS_MIN: i64 = Ticks::RATE as i64 / 400;
/// A frame rate slower than this is not believed.
const PICTURE_TICKS_MAX: u64 = 10 * Ticks::RATE as u64;

/// An access unit, the rendition that it belongs to, and when it was complete.
#[derive(Clone, Debug)]
pub(super) struct Arrived {
    pub(super) name: RenditionName,
    pub(super) unit: AccessUnit,
    pub(super) now: Utc,
    /// Where it begins in its source.
    pub(super) at: u64,
    /// That its stream is HE-AAC, where that is said.
    pub(super) he_aac: Option<HeAac>,
}

impl Arrived {
    /// What a decoder has to know of the unit's stream, as far as the unit and the program say it.
    pub(super) fn media(&self) -> Option<Media> {
        Some(Media::of(&self.unit, false).ok()?.told(self.he_aac))
    }

    /// With stamps that are later by so many ticks.
    pub(super) fn moved(mut self, ticks: i64) -> Arrived {
        (self.unit.pts, self.unit.dts) = (self.unit.pts + Ticks(ticks), self.unit.dts + Ticks(ticks));
        self
    }
}

/// A track of the epoch that begins.
#[derive(Clone, Debug)]
pub(super) struct FirstTrack {
    pub(super) name: RenditionName,
    pub(super) media: Media,
    /// How long a picture or a frame of sound lasts, in ticks of the track; at least 1.
    pub(super) sample_ticks: u32,
}

/// All that an epoch begins with.
#[derive(Clone, Debug)]
pub(super) struct Beginning {
    /// The one that segments are cut by is the first.
    pub(super) tracks: Vec<FirstTrack>,
    /// The decoding time stamp that times count from.
    pub(super) zero: Ticks,
    /// When the first picture or sound is presented.
    pub(super) first: Ticks,
    /// Sound that is presented before this is left out.
    pub(super) sound_from: Ticks,
    /// What has waited, in the order of arrival.
    pub(super) units: VecDeque<Arrived>,
    /// Where it joins another version of the capture.
    pub(super) place: Option<Place>,
}

impl Beginning {
    /// When the unit came in that is presented first.
    pub(super) fn arrived(&self) -> Utc {
        let lead = self.tracks.first().map(|track| track.name);
        let first = self.units.iter().find(|held| Some(held.name) == lead);
        first.map_or(Utc::default(), |first| first.now)
    }
}

/// Units that wait.
#[derive(Clone, Debug, Default)]
pub(super) struct Start {
    units: VecDeque<Arrived>,
    bytes: usize,
    keeps_sound: bool,
}

impl Start {
    /// Where what sound comes before the first picture continues what there was, and is wanted.
    pub(super) fn keeping_sound(keeps_sound: bool) -> Start {
        Start { keeps_sound, ..Start::default() }
    }

    /// Takes a unit, and returns what has waited once that is enough to begin with: where `guide` has a place for it.
    pub(super) fn push(
        &mut self,
        arrived: Arrived,
        choice: &Choice,
        guide: Option<&Guide>,
    ) -> Option<Beginning> {
        let is_video = arrived.name.is_video();
        let place = guide.map(|guide| guide.place(arrived.unit.pts, arrived.unit.dts));
        let begins = is_video && begins(&arrived.unit) && place != Some(Err(Displaced::Early));
        if is_video && self.first_picture().is_none() && !begins {
            return None;
        }
        self.bytes += arrived.unit.data.len();
        self.units.push_back(arrived);
        if is_video {
            self.put_first_right();
        }
        let is_full = self.units.len() > UNITS_MAX || self.bytes > BYTES_MAX;
        let lead = self.lead(choice, is_full);
        if lead.is_none() && is_full {
            // Something that is bounded: the newest, among which the pictures may begin.
            while self.units.len() > UNITS_MAX / 2 || self.bytes > BYTES_MAX / 2 {
                let Some(oldest) = self.units.pop_front() else { break };
                self.bytes -= oldest.unit.data.len();
            }
        }
        let lead = lead?;
        let first = self.units.iter().find(|held| held.name == lead)?.unit.clone();
        if !is_full && self.lacks_sound(lead, choice) {
            return None;
        }
        self.begin(lead, &first, choice, guide)
    }

    fn pictures(&self) -> impl DoubleEndedIterator<Item = &AccessUnit> {
        self.units.iter().filter(|held| held.name.is_video()).map(|held| &held.unit)
    }

    /// Whether a picture follows the first one. If none does, the first one's stamp may be wrong.
    fn is_confirmed(&self) -> bool {
        let mut stamps = self.pictures().map(|unit| unit.dts);
        stamps.next().is_some_and(|first| stamps.any(|later| follows(first, later)))
    }

    /// Whether it is known how long a picture lasts. The second one shows it; the third one does where the second one is late by its stamp
    /// and not by the wall clock.
    fn is_step_known(&self) -> bool {
        let pictures: Vec<&Arrived> = self.units.iter().filter(|held| held.name.is_video()).take(3).collect();
        let [first, second, rest @ ..] = &pictures[..] else { return false };
        let step = (second.unit.dts - first.unit.dts).0;
        !rest.is_empty() || step <= STEP_USUAL || ticks_between(first.now, second.now) >= step / 2
    }

    /// Puts the first one or two pictures in front of the next ones where those agree on a clock that the first ones are not on: the epoch
    /// counts its times from the first stamp. All other stamps that do not follow each other are left to the epoch.
    fn put_first_right(&mut self) {
        let stamps: Vec<Ticks> = self.pictures().map(|unit| unit.dts).collect();
        let Some(count) = stamps.len().checked_sub(AGREEING) else { return };
        let Some((before, &[next, .., newest])) = stamps.split_at_checked(count) else { return };
        let agree = stamps[count..].windows(2).all(|pair| follows(pair[0], pair[1]));
        let is_elsewhere = |newest: &Ticks| !before.iter().any(|&before| follows(before, *newest));
        if !agree
            || !stamps[count..].iter().all(is_elsewhere)
            || before.len() >= AGREEING && self.is_confirmed()
        {
            return;
        }
        let step = (newest - next).0 / (AGREEING as i64 - 1);
        let first = self.units.iter_mut().filter(|held| held.name.is_video()).take(count);
        for (held, ahead) in first.zip((1..=count as i64).rev()) {
            *held = held.clone().moved((next - held.unit.dts).0 - step * ahead);
        }
    }

    fn first_picture(&self) -> Option<&AccessUnit> {
        self.pictures().next()
    }

    /// What segments are cut by: pictures; sound where no pictures are announced, or none come.
    fn lead(&self, choice: &Choice, is_full: bool) -> Option<RenditionName> {
        if !choice.has_video() {
            let mut names = choice.taken.iter().map(|taken| taken.name);
            return names.find(|&name| self.units.iter().any(|held| held.name == name));
        }
        if self.first_picture().is_some() {
            let is_known = self.is_confirmed() && self.is_step_known();
            return (is_known || is_full).then_some(RenditionName::Video);
        }
        let mut sounds = choice.taken.iter().map(|taken| taken.name).filter(|name| !name.is_video());
        sounds.find(|&name| self.has_come_for(VIDEO_WAIT, name))
    }

    /// Whether a track has come for so long. Its stamps tell where the wall clock agrees, and otherwise the number of its units: single
    /// stamps may be wrong.
    fn has_come_for(&self, wait: i64, name: RenditionName) -> bool {
        let own: Vec<&Arrived> = self.units.iter().filter(|held| held.name == name).collect();
        let (Some(first), Some(newest)) = (own.first(), own.last()) else { return false };
        let is_further = !(0..wait).contains(&(newest.unit.dts - first.unit.dts).0);
        if is_further && ticks_between(first.now, newest.now) >= wait {
            return true;
        }
        let steps = own.windows(2).map(|pair| (pair[1].unit.dts - pair[0].unit.dts).0.saturating_abs());
        // A pause is a long step, and a wrong stamp makes two: of a few steps even the shortest may be long.
        let shortest = steps.min().unwrap_or(0).max(UNIT_TICKS_MIN);
        own.len() > UNITS_TELLING && shortest.saturating_mul(own.len() as i64 - 1) >= wait
    }

    /// Whether a track that is announced has not come, and may still.
    fn lacks_sound(&self, lead: RenditionName, choice: &Choice) -> bool {
        let waits = |name| self.media_of(name, lead).is_none();
        let lacks = choice
            .taken
            .iter()
            .any(|taken| taken.name != lead && !taken.name.is_video() && waits(taken.name));
        lacks && !self.has_come_for(SOUND_WAIT, lead)
    }

    /// What a track is, by its first unit that says it and is on the lead's clock: on the first one, or on the one that it has jumped to.
    fn media_of(&self, name: RenditionName, lead: RenditionName) -> Option<Media> {
        let mut leads = self.units.iter().filter(|held| held.name == lead).map(|held| held.unit.pts);
        let first = leads.next()?;
        let newest = leads.next_back().unwrap_or(first);
        let near = |unit: &AccessUnit| [first, newest].iter().any(|&pts| (unit.pts - pts).0.abs() <= FAR);
        let mut own = self.units.iter().filter(|held| held.name == name && near(&held.unit));
        own.find_map(Arrived::media)
    }

    fn begin(
        &mut self,
        lead: RenditionName,
        first: &AccessUnit,
        choice: &Choice,
        guide: Option<&Guide>,
    ) -> Option<Beginning> {
        let names =
            choice.taken.iter().map(|taken| taken.name).filter(|&name| name != lead && !name.is_video());
        let mut tracks = Vec::new();
        for name in [lead].into_iter().chain(names) {
            let Some(media) = self.media_of(name, lead) else { continue };
            let sample_ticks = self.sample_ticks(name, &media);
            tracks.push(FirstTrack { name, media, sample_ticks });
        }
        let units = std::mem::take(&mut self.units);
        self.bytes = 0;
        if tracks.first().is_none_or(|track| track.name != lead) {
            return None;
        }
        let place =
            guide.filter(|_| lead.is_video()).and_then(|guide| guide.place(first.pts, first.dts).ok());
        let begins = first.pts.max(first.dts);
        let near = |held: &&Arrived| held.name != lead && (0..=FAR).contains(&(begins - held.unit.pts).0);
        let sound = units.iter().filter(near).map(|held| held.unit.pts).min().filter(|_| self.keeps_sound);
        let sound_from = sound.unwrap_or(begins);
        let zero = place.map_or(first.dts.min(sound_from), |place| place.epoch.zero);
        Some(Beginning { tracks, zero, first: begins, sound_from, units, place })
    }

    /// How long a sample lasts: what is said of it, unless the first two say otherwise.
    fn sample_ticks(&self, name: RenditionName, media: &Media) -> u32 {
        let own: Vec<&AccessUnit> =
            self.units.iter().filter(|held| held.name == name).map(|held| &held.unit).take(3).collect();
        let Some(pictures) = media.pictures() else {
            return own.first().and_then(|unit| media.sound_ticks(unit)).unwrap_or(0).max(1);
        };
        let seen = match own[..] {
            [first, second] => Some((second.dts - first.dts).0),
            // The second one's stamp may be wrong: then it is not between the others, or far from one of them.
            [first, second, third] if (first.dts..third.dts).contains(&second.dts) => {
                Some((second.dts - first.dts).0.min((third.dts - second.dts).0))
            }
            [first, _, third] => Some((third.dts - first.dts).0 / 2),
            _ => None,
        };
        let seen = seen.and_then(|seen| u32::try_from(seen).ok());
        let rate = FrameRate::believed(pictures.frame_rate, seen.filter(|&seen| seen > 0));
        let ticks = rate.map_or(u64::from(Ticks::RATE) / 30, |rate| {
            u64::from(Ticks::RATE) * u64::from(rate.denominator()) / u64::from(rate.numerator())
        });
        ticks.clamp(1, PICTURE_TICKS_MAX) as u32
    }
}

/// Whether a picture of this time may come next behind one of that time.
fn follows(before: Ticks, next: Ticks) -> bool {
    (1..=VIDEO_WAIT).contains(&(next - before).0)
}

/// Whether pictures can begin with the unit: decoding can, and its parameter sets are there.
pub(super) fn begins(unit: &AccessUnit) -> bool {
    bitstream::join(unit.codec, &unit.data).is_some() && Media::of(unit, false).is_ok()
}
