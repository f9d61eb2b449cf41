//! The beginning of an epoch: waits until all tracks are known, so that all begin at once and on one time scale.

use super::RenditionName;
use super::choice::Choice;
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
/// What waits at most, whatever its stamps say.
const UNITS_MAX: usize = 2000;
const BYTES_MAX: usize = 16 << 20;
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
        if is_video && !self.follows(&arrived.unit) {
            (self.units, self.bytes) = (VecDeque::new(), 0);
            if !begins {
                return None;
            }
        }
        self.bytes += arrived.unit.data.len();
        self.units.push_back(arrived);
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
        if !is_full && self.lacks_sound(lead, &first, choice) {
            return None;
        }
        self.begin(lead, &first, choice, guide)
    }

    /// Whether a picture continues those that wait; true where none does.
    fn follows(&self, unit: &AccessUnit) -> bool {
        let last = self.units.iter().rev().find(|held| held.name.is_video());
        last.is_none_or(|last| (1..=VIDEO_WAIT).contains(&(unit.dts - last.unit.dts).0))
    }

    fn first_picture(&self) -> Option<&AccessUnit> {
        self.units.iter().find(|held| held.name.is_video()).map(|held| &held.unit)
    }

    /// What segments are cut by: pictures; sound where no pictures are announced, or none come.
    fn lead(&self, choice: &Choice, is_full: bool) -> Option<RenditionName> {
        let sound = self.units.iter().find(|held| !held.name.is_video());
        if !choice.has_video() {
            return sound
                .map(|_| choice.taken.iter().find(|taken| self.first_of(taken.name).is_some()))?
                .map(|taken| taken.name);
        }
        match self.units.iter().filter(|held| held.name.is_video()).count() {
            // The second picture shows how long one lasts.
            2.. => Some(RenditionName::Video),
            1 if is_full => Some(RenditionName::Video),
            1 => None,
            _ => {
                let last = self.units.iter().rev().find(|held| !held.name.is_video())?;
                let waited = (last.unit.dts - sound?.unit.dts).0;
                (!(-VIDEO_WAIT..VIDEO_WAIT).contains(&waited)).then_some(last.name)
            }
        }
    }

    fn first_of(&self, name: RenditionName) -> Option<&AccessUnit> {
        self.units.iter().find(|held| held.name == name).map(|held| &held.unit)
    }

    /// Whether a track that is announced has not come, and may still.
    fn lacks_sound(&self, lead: RenditionName, first: &AccessUnit, choice: &Choice) -> bool {
        let waits = |name| self.media_of(name, first).is_none();
        let lacks = choice
            .taken
            .iter()
            .any(|taken| taken.name != lead && !taken.name.is_video() && waits(taken.name));
        let newest = self.units.iter().rev().find(|held| held.name == lead);
        let waited = newest.map_or(0, |newest| (newest.unit.dts - first.dts).0);
        lacks && (0..SOUND_WAIT).contains(&waited)
    }

    /// What a track is, by its first unit that is on the lead's clock and says it.
    fn media_of(&self, name: RenditionName, lead: &AccessUnit) -> Option<Media> {
        let near = |unit: &AccessUnit| (unit.pts - lead.pts).0.abs() <= FAR;
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
            let Some(media) = self.media_of(name, first) else { continue };
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
        let mut own = self.units.iter().filter(|held| held.name == name).map(|held| &held.unit);
        let first = own.next();
        let Some(pictures) = media.pictures() else {
            return first.and_then(|unit| media.sound_ticks(unit)).unwrap_or(0).max(1);
        };
        let seen =
            first.zip(own.next()).and_then(|(first, second)| u32::try_from((second.dts - first.dts).0).ok());
        let rate = FrameRate::believed(pictures.frame_rate, seen.filter(|&seen| seen > 0));
        let ticks = rate.map_or(u64::from(Ticks::RATE) / 30, |rate| {
            u64::from(Ticks::RATE) * u64::from(rate.denominator()) / u64::from(rate.numerator())
        });
        ticks.clamp(1, PICTURE_TICKS_MAX) as u32
    }
}

/// Whether pictures can begin with the unit: decoding can, and its parameter sets are there.
pub(super) fn begins(unit: &AccessUnit) -> bool {
    bitstream::join(unit.codec, &unit.data).is_some() && Media::of(unit, false).is_ok()
}
