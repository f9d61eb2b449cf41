//! What can be asked of a running encoder, and what it says of itself: the handle that `--control`, the API and
//! signals share with the pipelines.
//!
//! ```text
//! any thread ──► Controls ──► Feed marks the next captured picture (key frame: in all renditions at once)
//!                        │    and scales and leaves out as asked (size, picture rate)
//!                        └──► each pipeline looks before it takes a picture (bit rate, preset)
//!            ◄── status  ◄─── each pipeline, after each picture
//! ```

use super::ControlError;
use super::auto::AUTO;
use super::ladder::divisor;
use super::settings::Settings;
use crate::capture::Format;
use glassline_codec::h264::x264;
use glassline_media::quantity::Bitrate;
use glassline_media::stamps::StageCounts;
use glassline_media::{FrameRate, Size};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// The rates that x264 takes, bits a second.
const BITRATES: std::ops::RangeInclusive<u64> = 1_000..=1_000_000_000;

/// A smaller picture than a macroblock is none.
const SMALLEST_SIDE: u32 = 16;

/// A handle to a running encoder. Cheap to clone; all clones mean the same one. Outlives the encoder without harm.
#[derive(Clone, Debug)]
pub struct Controls(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    key_frame: AtomicBool,
    source: Mutex<Option<Format>>,
    renditions: Vec<Mutex<Rendition>>,
}

#[derive(Debug)]
struct Rendition {
    /// Asked for and not yet set.
    bitrate: Option<Bitrate>,
    size: Option<Size>,
    rate: Option<FrameRate>,
    preset: Option<String>,
    /// How it is coded from the next picture on.
    coding: Option<Coding>,
    /// The most that its mux rate holds.
    limit: Option<Bitrate>,
    status: Status,
}

#[derive(Clone, Debug)]
struct Coding {
    settings: Settings,
    format: Format,
    common_keys: bool,
}

impl Rendition {
    /// Makes a change to how it is coded, where x264 takes that.
    fn agree(&mut self, change: impl FnOnce(&mut Coding)) -> Result<(), ControlError> {
        let Some(coding) = &mut self.coding else { return Ok(()) };
        let mut wanted = coding.clone();
        change(&mut wanted);
        wanted.settings.x264(wanted.format, wanted.common_keys).check().map_err(ControlError::Setting)?;
        *coding = wanted;
        Ok(())
    }
}

/// What can be changed of a rendition while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// See [`Controls::set_bitrate`].
    Bitrate(Bitrate),
    /// See [`Controls::set_size`].
    Size(Size),
    /// See [`Controls::set_rate`].
    Rate(FrameRate),
    /// See [`Controls::set_preset`].
    Preset(String),
}

/// How a rendition is doing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Status {
    /// Which one: picture size and rate, as in `1280x720@50`.
    pub name: String,
    /// Bits a second that x264 aims at now.
    pub bitrate_bps: u64,
    /// The preset that it works by now.
    pub preset: String,
    /// Pictures coded so far.
    pub pictures: u64,
    /// Key frames and recovery points among them.
    pub random_access_points: u64,
    /// Pictures left out so far because encoder or outputs could not keep up.
    pub dropped: u64,
    /// Bytes of transport stream so far.
    pub bytes: u64,
    /// How long pictures took from stage to stage.
    #[serde(skip)]
    pub stages: StageCounts,
}

impl Status {
    /// Of a rendition that is about to begin.
    #[must_use]
    pub fn new(name: String, bitrate: Bitrate, preset: &str) -> Status {
        Status {
            name,
            bitrate_bps: bitrate.bits_per_second(),
            preset: preset.to_owned(),
            pictures: 0,
            random_access_points: 0,
            dropped: 0,
            bytes: 0,
            stages: StageCounts::default(),
        }
    }
}

impl Controls {
    /// Controls of the renditions with these first states, in their order.
    #[must_use]
    pub fn new(renditions: Vec<Status>) -> Controls {
        let rendition = |status| {
            let (bitrate, size, rate, preset) = (None, None, None, None);
            Mutex::new(Rendition { bitrate, size, rate, preset, coding: None, limit: None, status })
        };
        let renditions = renditions.into_iter().map(rendition).collect();
        Controls(Arc::new(Shared { key_frame: AtomicBool::new(false), source: Mutex::new(None), renditions }))
    }

    /// Makes the next captured picture a key frame (IDR), in all renditions.
    pub fn request_key_frame(&self) {
        self.0.key_frame.store(true, Ordering::Relaxed);
    }

    /// Makes a change to rendition `index`.
    ///
    /// # Errors
    /// As those of what it stands for.
    pub fn change(&self, index: usize, change: &Change) -> Result<(), ControlError> {
        match change {
            Change::Bitrate(bitrate) => self.set_bitrate(index, *bitrate),
            Change::Size(size) => self.set_size(index, *size),
            Change::Rate(rate) => self.set_rate(index, *rate),
            Change::Preset(preset) => self.set_preset(index, preset),
        }
    }

    /// Changes the bit rate of rendition `index` (from 0) from its next picture on, without a key frame.
    ///
    /// # Errors
    /// Where there is no such rendition, or for a rate that x264 does not take or the mux rate does not hold; nothing changes
    /// then.
    pub fn set_bitrate(&self, index: usize, bitrate: Bitrate) -> Result<(), ControlError> {
        let mut rendition = self.known(index)?;
        if !BITRATES.contains(&bitrate.bits_per_second()) {
            return Err(ControlError::OutOfRange { bitrate });
        }
        if let Some(limit) = rendition.limit.filter(|limit| bitrate > *limit) {
            return Err(ControlError::MuxRate { bitrate, limit });
        }
        rendition.agree(|coding| coding.settings.bitrate = bitrate)?;
        rendition.bitrate = Some(bitrate);
        Ok(())
    }

    /// Changes the size of the pictures of rendition `index` from the next one on, which becomes a key frame. The shape of samples
    /// follows.
    ///
    /// # Errors
    /// Where there is no such rendition, for odd sizes and those that are too small or too large, and where pictures are interlaced.
    pub fn set_size(&self, index: usize, size: Size) -> Result<(), ControlError> {
        let mut rendition = self.known(index)?;
        let sides = [size.width, size.height];
        if !sides.iter().all(|side| side.is_multiple_of(2) && (SMALLEST_SIDE..=Size::MAX_SIDE).contains(side))
        {
            return Err(ControlError::Size(size));
        }
        if self.source().is_some_and(|source| source.fields.is_some()) {
            return Err(ControlError::Interlaced);
        }
        rendition.agree(|coding| coding.format.size = size)?;
        rendition.size = Some(size);
        Ok(())
    }

    /// Changes how many pictures a second rendition `index` has; the first one of the new rate becomes a key frame.
    ///
    /// # Errors
    /// Where there is no such rendition, and for a rate that is no whole part of the source's.
    pub fn set_rate(&self, index: usize, rate: FrameRate) -> Result<(), ControlError> {
        let mut rendition = self.known(index)?;
        if let Some(source) = self.source()
            && divisor(rate, source.rate).is_none()
        {
            return Err(ControlError::FrameRate { rate, source_rate: source.rate });
        }
        if rendition.limit.is_some() {
            return Err(ControlError::ConstantRate);
        }
        rendition.agree(|coding| coding.format.rate = rate)?;
        rendition.rate = Some(rate);
        Ok(())
    }

    /// Has rendition `index` coded by another preset, or `auto`, from its next picture on, which becomes a key frame.
    ///
    /// # Errors
    /// Where there is no such rendition or preset.
    pub fn set_preset(&self, index: usize, preset: &str) -> Result<(), ControlError> {
        let mut rendition = self.known(index)?;
        if preset != AUTO && !x264::PRESETS.contains(&preset) {
            return Err(ControlError::Preset(preset.to_owned()));
        }
        rendition.agree(|coding| preset.clone_into(&mut coding.settings.preset))?;
        rendition.preset = Some(preset.to_owned());
        Ok(())
    }

    /// How rendition `index` is coded, for what is asked of it to be checked.
    pub(super) fn describe(&self, index: usize, settings: &Settings, format: Format, common_keys: bool) {
        if let Some(mut rendition) = self.rendition(index) {
            rendition.coding = Some(Coding { settings: settings.clone(), format, common_keys });
        }
    }

    /// What the source's pictures are like.
    pub(super) fn set_source(&self, format: Format) {
        *self.0.source.lock().expect(UNPOISONED) = Some(format);
    }

    fn source(&self) -> Option<Format> {
        *self.0.source.lock().expect(UNPOISONED)
    }

    /// More than `limit` is refused for rendition `index` from now on.
    pub fn limit_bitrate(&self, index: usize, limit: Bitrate) {
        if let Some(mut rendition) = self.rendition(index) {
            rendition.limit = Some(limit);
        }
    }

    /// How each rendition is doing.
    #[must_use]
    pub fn status(&self) -> Vec<Status> {
        (0..self.0.renditions.len()).filter_map(|index| Some(self.rendition(index)?.status.clone())).collect()
    }

    /// Whether the current picture has to be a key frame; asked once for each captured picture.
    #[must_use]
    pub fn take_key_frame(&self) -> bool {
        self.0.key_frame.swap(false, Ordering::Relaxed)
    }

    /// The bit rate that was asked for since the last call, if one was.
    #[must_use]
    pub fn take_bitrate(&self, index: usize) -> Option<Bitrate> {
        self.rendition(index)?.bitrate.take()
    }

    /// The size that was asked for since the last call, if one was; so for the other two.
    pub(super) fn take_size(&self, index: usize) -> Option<Size> {
        self.rendition(index)?.size.take()
    }

    pub(super) fn take_rate(&self, index: usize) -> Option<FrameRate> {
        self.rendition(index)?.rate.take()
    }

    pub(super) fn take_preset(&self, index: usize) -> Option<String> {
        self.rendition(index)?.preset.take()
    }

    /// Writes down how rendition `index` is doing.
    pub(super) fn report(&self, index: usize, write: impl FnOnce(&mut Status)) {
        if let Some(mut rendition) = self.rendition(index) {
            write(&mut rendition.status);
        }
    }

    fn known(&self, index: usize) -> Result<MutexGuard<'_, Rendition>, ControlError> {
        self.rendition(index).ok_or(ControlError::NoRendition { index, count: self.0.renditions.len() })
    }

    fn rendition(&self, index: usize) -> Option<MutexGuard<'_, Rendition>> {
        let rendition = self.0.renditions.get(index)?;
        Some(rendition.lock().expect(UNPOISONED))
    }
}

const UNPOISONED: &str = "no thread panics while it holds a rendition's status";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_is_taken_once() {
        let rate = Bitrate::from_bits_per_second;
        let controls = Controls::new(vec![Status::new("2x2@1".to_owned(), rate(5_000), "fast")]);
        assert!(!controls.take_key_frame());
        controls.clone().request_key_frame();
        assert!(controls.take_key_frame() && !controls.take_key_frame());
        assert_eq!(controls.take_bitrate(0), None);
        controls.set_bitrate(0, rate(9_000)).unwrap();
        assert_eq!(controls.take_bitrate(0), Some(rate(9_000)));
        assert_eq!((controls.take_bitrate(0), controls.take_bitrate(1)), (None, None));
        controls.report(0, |status| status.pictures = 7);
        assert_eq!(controls.status()[0].pictures, 7);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let rate = Bitrate::from_bits_per_second;
        let controls = Controls::new(vec![Status::new(String::new(), rate(5_000), "fast")]);
        assert!(
            controls.set_bitrate(1, rate(5_000)).unwrap_err()
                == ControlError::NoRendition { index: 1, count: 1 }
        );
        for bits in [1, 999, 1_000_000_001] {
            assert!(controls.set_bitrate(0, rate(bits)).is_err());
        }
        controls.limit_bitrate(0, rate(8_000));
        let refused = controls.set_bitrate(0, rate(8_001)).unwrap_err();
        assert_eq!(refused, ControlError::MuxRate { bitrate: rate(8_001), limit: rate(8_000) });
        assert_eq!(controls.take_bitrate(0), None);
        controls.set_bitrate(0, rate(8_000)).unwrap();
    }
    #[test]
    fn of_two_bit_rates_the_later_holds_and_each_rendition_has_its_own() {
        let rate = Bitrate::from_bits_per_second;
        let status = |name: &str| Status::new(name.to_owned(), rate(5_000), "fast");
        let controls = Controls::new(vec![status("a"), status("b")]);
        controls.set_bitrate(1, rate(6_000)).unwrap();
        controls.set_bitrate(1, rate(7_000)).unwrap();
        assert_eq!((controls.take_bitrate(0), controls.take_bitrate(1)), (None, Some(rate(7_000))));
    }

    #[test]
    fn a_rate_that_is_refused_leaves_the_one_that_was_asked_for_before() {
        let rate = Bitrate::from_bits_per_second;
        let controls = Controls::new(vec![Status::new(String::new(), rate(5_000), "fast")]);
        controls.set_bitrate(0, rate(6_000)).unwrap();
        assert_eq!(controls.set_bitrate(0, rate(0)), Err(ControlError::OutOfRange { bitrate: rate(0) }));
        assert_eq!(controls.take_bitrate(0), Some(rate(6_000)));
    }

    #[test]
    fn the_ends_of_what_x264_takes_are_taken() {
        let rate = Bitrate::from_bits_per_second;
        let controls = Controls::new(vec![Status::new(String::new(), rate(5_000), "fast")]);
        for bits in [1_000, 1_000_000_000] {
            controls.set_bitrate(0, rate(bits)).unwrap();
            assert_eq!(controls.take_bitrate(0), Some(rate(bits)));
        }
    }

    #[test]
    fn what_concerns_a_rendition_that_there_is_not_changes_no_other() {
        let rate = Bitrate::from_bits_per_second;
        let controls = Controls::new(vec![Status::new("only".to_owned(), rate(5_000), "fast")]);
        let before = controls.status();
        controls.report(1, |status| status.pictures = 9);
        controls.limit_bitrate(1, rate(1_000));
        assert_eq!(controls.status(), before);
        controls.set_bitrate(0, rate(900_000)).unwrap();
    }

    #[test]
    fn a_status_begins_with_nothing_coded_and_is_told_without_its_stages() {
        let status = Status::new("64x48@25".to_owned(), Bitrate::from_bits_per_second(5_000), "fast");
        let told = serde_json::to_value(&status).unwrap();
        let expected = serde_json::json!({
            "name": "64x48@25", "bitrate_bps": 5000, "preset": "fast", "pictures": 0,
            "random_access_points": 0, "dropped": 0, "bytes": 0,
        });
        assert_eq!(told, expected);
    }
}
