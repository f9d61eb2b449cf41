//! Several renditions of one capture: `--rendition 1280x720@50:8M --rendition 640x360@25:500k`.
//!
//! Comes in: the renditions as people name them, and the time stamps of the source's pictures. Goes out:
//! which rendition takes which picture, and which of them are key frames. Every rendition keeps the source's clock;
//! a lower rate leaves whole pictures out; key frames are the same pictures in all of them, so that a player may
//! change from one to another there.

use super::overrides::Overrides;
use super::settings::Settings;
use super::{LadderError, ParseError};
use crate::capture::Format;
use glassline_media::quantity::{self, Bitrate};
use glassline_media::{FrameRate, Size, Ticks, ratio};
use std::str::FromStr;
use std::time::Duration;

/// One version of the stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Rendition {
    /// Width and height, both even.
    pub size: Size,
    /// Pictures a second: the source's, or a whole part of it.
    pub rate: FrameRate,
    /// Of the picture.
    pub bitrate: Bitrate,
    /// What it has of its own beside these.
    pub own: Overrides,
}

impl FromStr for Rendition {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Rendition, ParseError> {
        let wrong = || {
            let expected = "write WIDTHxHEIGHT@RATE:BITRATE[+AUDIO_BITRATE][;OPTION=VALUE]…, as in 1280x720@50:8M or \
                            640x360@25:500k+64k;look-ahead=2s";
            ParseError(format!("{text:?} is no rendition; {expected}"))
        };
        let (size, rest) = text.split_once('@').ok_or_else(wrong)?;
        let (rate, rest) = rest.split_once(':').ok_or_else(wrong)?;
        let (rates, options) = rest.split_once(';').map_or((rest, None), |(rates, own)| (rates, Some(own)));
        let (bitrate, sound) = rates.split_once('+').map_or((rates, None), |(of, sound)| (of, Some(sound)));
        let size = quantity::parse_size(size)?;
        if size.width % 2 != 0 || size.height % 2 != 0 {
            return Err(ParseError(format!("{text:?}: width and height of a rendition are even")));
        }
        let own = Overrides::parse(options, sound.map(str::parse).transpose()?)?;
        Ok(Rendition { size, rate: quantity::parse_frame_rate(rate)?, bitrate: bitrate.parse()?, own })
    }
}

/// Of how many pictures of the source a rendition of this rate takes one.
pub(super) fn divisor(rate: FrameRate, source: FrameRate) -> Option<u64> {
    let above = u64::from(source.numerator()) * u64::from(rate.denominator());
    let below = u64::from(source.denominator()) * u64::from(rate.numerator());
    above.is_multiple_of(below).then_some(above / below)
}

impl Rendition {
    /// `720p50`: height and pictures a second, rounded.
    fn short_name(&self) -> String {
        format!("{}p{}", self.size.height, self.rate.as_f64().round())
    }
}

/// A name for each rendition, each another one: `720p50`, or with its bit rate where two are alike (`720p50-2M`).
///
/// # Errors
/// [`LadderError::SameName`].
pub fn names(renditions: &[Rendition]) -> Result<Vec<String>, LadderError> {
    let named = |rendition: &Rendition| {
        let name = rendition.short_name();
        let alike = renditions.iter().filter(|other| other.short_name() == name).count();
        if alike > 1 { format!("{name}-{}", rendition.bitrate) } else { name }
    };
    let names: Vec<String> = renditions.iter().map(named).collect();
    for (index, name) in names.iter().enumerate() {
        if names[..index].contains(name) {
            return Err(LadderError::SameName(name.clone()));
        }
    }
    Ok(names)
}

/// How one rendition is coded.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rung {
    pub(super) name: String,
    pub(super) format: Format,
    pub(super) settings: Settings,
}

/// What each rendition of a source of `format` is coded like, where `settings` say all that renditions do not.
///
/// # Errors
/// Names that two have, and settings that have no key frames.
pub(super) fn rungs(
    renditions: &[Rendition],
    settings: &Settings,
    format: Format,
) -> Result<Vec<Rung>, LadderError> {
    if settings.intra_refresh || settings.constant_size {
        return Err(LadderError::NoKeyFrames);
    }
    if settings.mux_rate.is_some() && renditions.len() > 1 {
        return Err(LadderError::OneMuxRate);
    }
    if format.fields.is_some() && renditions.iter().any(|rendition| rendition.size != format.size) {
        return Err(LadderError::Interlaced);
    }
    let rung = |(rendition, name): (&Rendition, String)| Rung {
        name,
        format: Format {
            size: rendition.size,
            rate: rendition.rate,
            sample_aspect: format.sample_aspect.map(|shape| scaled(shape, format.size, rendition.size)),
            ..format
        },
        settings: rendition.own.settings(rendition.bitrate, settings),
    };
    Ok(renditions.iter().zip(names(renditions)?).map(rung).collect())
}

/// The shape of a sample after pictures of size `from` with samples of `shape` became `to`, so that the whole picture keeps its
/// own. A difference of less than one in a hundred is what sizes are rounded by: the samples' shape stays then.
pub(super) fn scaled(shape: (u32, u32), from: Size, to: Size) -> (u32, u32) {
    let across = u128::from(shape.0) * u128::from(from.width) * u128::from(to.height);
    let down = u128::from(shape.1) * u128::from(from.height) * u128::from(to.width);
    let (kept_across, kept_down) = (u128::from(shape.0) * down, u128::from(shape.1) * across);
    if kept_across.abs_diff(kept_down) * 100 < kept_down {
        return shape;
    }
    let (across, down) = ratio::shortened(across, down);
    u32::try_from(across).ok().zip(u32::try_from(down).ok()).unwrap_or(shape)
}

/// Which rendition takes which picture.
#[derive(Clone, Debug)]
pub struct Plan {
    source: FrameRate,
    rates: Vec<FrameRate>,
    keyint: Duration,
    divisors: Vec<u64>,
    /// Every rendition takes each picture with a number that is a multiple of this.
    common: u64,
    /// Pictures of the source from one key frame to the next.
    key_interval: u64,
    first: Option<Ticks>,
    /// Number of key intervals that have begun.
    begun: u64,
    key_due: bool,
}

/// What becomes of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    number: u64,
    /// Whether every rendition makes a key frame of it.
    pub(super) key: bool,
}

impl Plan {
    /// For a source of `rate`, key frames `keyint` apart, rounded to pictures that all renditions take.
    ///
    /// # Errors
    /// A rendition's rate is no whole part of the source's.
    pub fn new(renditions: &[Rendition], source: FrameRate, keyint: Duration) -> Result<Plan, LadderError> {
        Plan::of(renditions.iter().map(|rendition| rendition.rate).collect(), source, keyint)
    }

    /// The same for renditions of these rates.
    pub(super) fn of(
        rates: Vec<FrameRate>,
        source: FrameRate,
        keyint: Duration,
    ) -> Result<Plan, LadderError> {
        let mut divisors = Vec::new();
        for &rate in &rates {
            let Some(divisor) = divisor(rate, source) else {
                return Err(LadderError::Rate { rate, source_rate: source });
            };
            divisors.push(divisor);
        }
        let common = divisors.iter().try_fold(1u64, |common, &divisor| {
            let (factor, _) = ratio::shortened(divisor.into(), common.into());
            common.checked_mul(factor as u64)
        });
        let common = common.filter(|&common| common <= MAX_COMMON).ok_or(LadderError::TooFewInCommon)?;
        let pictures = (keyint.as_secs_f64() * source.as_f64()).min(1e9);
        let key_interval = ((pictures / common as f64).round() as u64).max(1) * common;
        Ok(Plan {
            source,
            rates,
            keyint,
            divisors,
            common,
            key_interval,
            first: None,
            begun: 0,
            key_due: true,
        })
    }

    /// For `count` renditions that take every picture of a source of this rate, without key frames of its own.
    pub(super) fn every(count: usize, source: FrameRate) -> Plan {
        Plan {
            source,
            rates: vec![source; count],
            keyint: Duration::MAX,
            divisors: vec![1; count],
            common: 1,
            key_interval: u64::MAX,
            first: None,
            begun: 0,
            key_due: false,
        }
    }

    /// The rate of rendition `index`.
    pub(super) fn rate(&self, index: usize) -> FrameRate {
        self.rates.get(index).copied().unwrap_or(self.source)
    }

    /// Gives rendition `index` another rate. Pictures keep their numbers.
    ///
    /// # Errors
    /// As those of [`Plan::new`]; nothing changes then.
    pub(super) fn set_rate(&mut self, index: usize, rate: FrameRate) -> Result<(), LadderError> {
        let mut rates = self.rates.clone();
        if let Some(own) = rates.get_mut(index) {
            *own = rate;
        }
        let other = Plan::of(rates, self.source, self.keyint)?;
        let begun = self.first.map_or(0, |_| self.begun * self.key_interval / other.key_interval);
        *self = Plan { first: self.first, begun, key_due: self.key_due, ..other };
        Ok(())
    }

    /// Numbers the picture with this time stamp. `key_wanted`: a key frame was asked for; it comes with the next picture that
    /// all renditions take.
    pub(super) fn picture(&mut self, pts: Ticks, key_wanted: bool) -> Turn {
        let since = (pts - *self.first.get_or_insert(pts)).0.max(0) as u128;
        let (numerator, denominator) = (
            u128::from(self.source.numerator()),
            u128::from(self.source.denominator()) * u128::from(Ticks::RATE),
        );
        let number = ((since * numerator + denominator / 2) / denominator) as u64;
        let begun = number / self.key_interval;
        self.key_due |= key_wanted || begun > self.begun;
        self.begun = begun;
        let key = self.key_due && number.is_multiple_of(self.common);
        self.key_due &= !key;
        Turn { number, key }
    }

    /// Whether rendition `index` takes that picture.
    pub(super) fn takes(&self, index: usize, turn: Turn) -> bool {
        self.divisors.get(index).is_some_and(|&divisor| turn.number.is_multiple_of(divisor))
    }
}

/// A common picture at least every so many of the source.
const MAX_COMMON: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_whole_picture_keeps_its_shape() {
        let size = |width, height| Size::new(width, height).unwrap();
        assert_eq!(scaled((16, 15), size(720, 576), size(360, 288)), (16, 15));
        assert_eq!(scaled((16, 15), size(720, 576), size(768, 576)), (1, 1));
        assert_eq!(scaled((1, 1), size(1920, 1080), size(640, 480)), (4, 3));
        // Rounded to even numbers.
        assert_eq!(scaled((1, 1), size(1280, 720), size(854, 480)), (1, 1));
        assert_eq!(scaled((u32::MAX, 1), size(16_384, 1), size(1, 16_384)), (u32::MAX, 1));
        let format = Format {
            size: size(720, 576),
            rate: FrameRate::new(25, 1).unwrap(),
            colour: glassline_media::Colour::BT709,
            sample_aspect: Some((16, 15)),
            fields: None,
            live: false,
        };
        let rungs = rungs(&renditions(&["768x576@25:1M"]), &Settings::default(), format).unwrap();
        assert_eq!(rungs[0].format.sample_aspect, Some((1, 1)));
    }

    fn renditions(texts: &[&str]) -> Vec<Rendition> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    const FIFTY: FrameRate = FrameRate::new(50, 1).unwrap();

    #[test]
    fn renditions_are_named_by_height_and_rate_and_told_apart() {
        let ladder = renditions(&["1280x720@50:8M", "1280x720@50:2M", "640x360@60000/1001:500k"]);
        assert_eq!(names(&ladder).unwrap(), ["720p50-8M", "720p50-2M", "360p60"]);
        let twice = renditions(&["1280x720@50:8M", "1280x720@50:8M"]);
        assert!(names(&twice).unwrap_err().to_string().contains("720p50-8M"));
    }

    #[test]
    fn what_is_no_rendition_is_refused() {
        for (text, complaint) in [
            ("1280x720", "is no rendition"),
            ("1280x720@50", "is no rendition"),
            ("1280x720@50:8", "has no unit"),
            ("1281x720@50:8M", "even"),
            ("1280@50:8M", "picture size"),
            ("1280x720@0:8M", "frame rate"),
            ("1280x720@50:8M+", "bit rate"),
            ("1280x720@50:8M+64", "has no unit"),
            ("1280x720@50:8M;", "has no \"\""),
            ("1280x720@50:8M;look_ahead=1s", "look-ahead"),
        ] {
            let error = text.parse::<Rendition>().unwrap_err().to_string();
            assert!(error.contains(complaint), "{text}: {error}");
        }
    }

    /// Numbers of the pictures that each rendition takes, and of the key frames, of `count` pictures of which every
    /// `lost`-th is missing.
    fn taken(plan: &mut Plan, count: u64, lost: u64) -> (Vec<Vec<u64>>, Vec<u64>) {
        let (mut taken, mut keys) = (vec![Vec::new(); plan.divisors.len()], Vec::new());
        for number in (0..count).filter(|number| number % lost != lost - 1) {
            let time = glassline_media::Time::ZERO + plan.source.time_of(number);
            let turn = plan.picture(Ticks::from_time(time) + Ticks(77), false);
            assert_eq!(turn.number, number);
            for (index, taken) in taken.iter_mut().enumerate() {
                if plan.takes(index, turn) {
                    taken.push(number);
                }
            }
            if turn.key {
                keys.push(number);
            }
        }
        (taken, keys)
    }

    #[test]
    fn lower_rates_leave_whole_pictures_out_and_key_frames_are_common() {
        let ladder = renditions(&["1280x720@50:8M", "640x360@25:2M", "320x180@10:500k"]);
        let mut plan = Plan::new(&ladder, FIFTY, Duration::from_millis(500)).unwrap();
        let (pictures, keys) = taken(&mut plan, 100, u64::MAX);
        assert_eq!(pictures[0].len(), 100);
        assert_eq!(pictures[1], (0..100).step_by(2).collect::<Vec<_>>());
        assert_eq!(pictures[2], (0..100).step_by(5).collect::<Vec<_>>());
        // 25 pictures are no multiple of ten: the nearest is.
        assert_eq!(keys, [0, 30, 60, 90]);
        assert!(keys.iter().all(|key| pictures.iter().all(|taken| taken.contains(key))));
    }

    #[test]
    fn a_key_frame_that_was_lost_or_asked_for_comes_with_the_next_common_picture() {
        let ladder = renditions(&["1280x720@50:8M", "640x360@25:2M"]);
        let mut plan = Plan::new(&ladder, FIFTY, Duration::from_millis(200)).unwrap();
        // Every 11th is missing, the first time number 10, which was to be a key frame.
        let (_, keys) = taken(&mut plan, 40, 11);
        assert_eq!(keys, [0, 12, 20, 30]);
        assert!(!plan.picture(Ticks(41 * 1800 + 77), true).key);
        assert!(plan.picture(Ticks(42 * 1800 + 77), false).key);
    }

    #[test]
    fn rates_that_do_not_fit_are_refused() {
        let refused =
            |texts: &[&str]| Plan::new(&renditions(texts), FIFTY, Duration::from_secs(1)).unwrap_err();
        assert!(matches!(refused(&["640x360@30:1M"]), LadderError::Rate { source_rate: FIFTY, .. }));
        assert!(refused(&["640x360@100:1M"]).to_string().contains("no whole part"));
        let ntsc = FrameRate::new(60_000, 1001).unwrap();
        assert!(Plan::new(&renditions(&["640x360@30000/1001:1M"]), ntsc, Duration::from_secs(1)).is_ok());
        assert!(Plan::new(&renditions(&["640x360@30:1M"]), ntsc, Duration::from_secs(1)).is_err());
    }
    fn format(size: (u32, u32), fields: Option<glassline_media::FieldOrder>) -> Format {
        Format {
            size: Size::new(size.0, size.1).unwrap(),
            rate: FIFTY,
            colour: glassline_media::Colour::BT709,
            sample_aspect: None,
            fields,
            live: true,
        }
    }

    #[test]
    fn a_rung_has_the_rendition_s_size_rate_and_bit_rate_and_all_else_of_the_source() {
        let settings = Settings { preset: "fast".to_owned(), threads: 3, ..Settings::default() };
        let source = format((1280, 720), None);
        let rungs = rungs(&renditions(&["640x360@25:2M", "320x180@10:500k"]), &settings, source).unwrap();
        assert_eq!(rungs.len(), 2);
        let low = &rungs[1];
        assert_eq!(low.name, "180p10");
        let expected =
            Format { size: Size::new(320, 180).unwrap(), rate: FrameRate::new(10, 1).unwrap(), ..source };
        assert_eq!(low.format, expected);
        let bitrate = Bitrate::from_bits_per_second(500_000);
        assert_eq!(low.settings, Settings { bitrate, ..settings });
    }

    #[test]
    fn settings_without_key_frames_make_no_ladder() {
        let source = format((1280, 720), None);
        for settings in [
            Settings { intra_refresh: true, ..Settings::default() },
            Settings { constant_size: true, ..Settings::default() },
        ] {
            let refused = rungs(&renditions(&["1280x720@50:8M"]), &settings, source);
            assert_eq!(refused, Err(LadderError::NoKeyFrames));
        }
    }

    #[test]
    fn one_mux_rate_is_for_one_rendition() {
        let mux_rate = Some(Bitrate::from_bits_per_second(9_000_000));
        let settings = Settings { mux_rate, ..Settings::default() };
        let source = format((1280, 720), None);
        assert!(rungs(&renditions(&["1280x720@50:8M"]), &settings, source).is_ok());
        let two = rungs(&renditions(&["1280x720@50:8M", "640x360@50:1M"]), &settings, source);
        assert_eq!(two, Err(LadderError::OneMuxRate));
    }

    #[test]
    fn interlaced_pictures_keep_their_size_or_are_refused() {
        let source = format((720, 576), Some(glassline_media::FieldOrder::TopFirst));
        let settings = Settings::default();
        assert!(rungs(&renditions(&["720x576@50:8M", "720x576@25:2M"]), &settings, source).is_ok());
        let smaller = rungs(&renditions(&["720x576@50:8M", "360x288@25:2M"]), &settings, source);
        assert_eq!(smaller, Err(LadderError::Interlaced));
    }

    #[test]
    fn renditions_that_hardly_meet_are_refused() {
        let of = |denominator| Rendition {
            size: Size::new(64, 48).unwrap(),
            rate: FrameRate::new(50, denominator).unwrap(),
            bitrate: Bitrate::from_bits_per_second(1_000_000),
            own: Overrides::default(),
        };
        let second = Duration::from_secs(1);
        assert!(Plan::new(&[of(25), of(40)], FIFTY, second).is_ok(), "every 200th is common");
        assert!(Plan::new(&[of(1000)], FIFTY, second).is_ok(), "every 1000th");
        let refused = Plan::new(&[of(32), of(27), of(25)], FIFTY, second).unwrap_err();
        assert_eq!(refused, LadderError::TooFewInCommon);
        assert_eq!(Plan::new(&[of(1001)], FIFTY, second).unwrap_err(), LadderError::TooFewInCommon);
    }

    #[test]
    fn a_stamp_counts_for_the_nearest_picture_of_the_grid() {
        let mut plan = Plan::new(&renditions(&["64x48@50:1M"]), FIFTY, Duration::from_secs(1)).unwrap();
        let mut number = |pts| plan.picture(Ticks(pts), false).number;
        assert_eq!(
            [1000, 1000 + 899, 1000 + 900, 1000 + 2699, 1000 + 2700].map(&mut number),
            [0, 0, 1, 1, 2]
        );
        assert_eq!(number(5), 0, "a stamp before the first picture's is that one's");
    }

    #[test]
    fn a_rendition_that_there_is_not_takes_nothing() {
        let mut plan = Plan::new(&renditions(&["64x48@50:1M"]), FIFTY, Duration::from_secs(1)).unwrap();
        let turn = plan.picture(Ticks(0), false);
        assert!(plan.takes(0, turn) && !plan.takes(1, turn));
    }

    #[test]
    fn a_key_interval_without_end_has_one_key_frame_and_those_that_were_asked_for() {
        let mut plan = Plan::new(&renditions(&["64x48@50:1M"]), FIFTY, Duration::MAX).unwrap();
        let keys = (0..1000).filter(|number| plan.picture(Ticks(number * 1800), *number == 700).key);
        assert_eq!(keys.collect::<Vec<_>>(), [0, 700]);
    }

    proptest! {
        #[test]
        fn each_interval_has_one_key_frame_that_all_renditions_take_whatever_was_lost(
            rates in prop::collection::vec(prop::sample::select(vec!["50", "25", "10", "5"]), 1..5),
            lost in prop::collection::vec(any::<bool>(), 300),
        ) {
            let texts: Vec<String> = rates.iter().map(|rate| format!("64x48@{rate}:1M")).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let mut plan = Plan::new(&renditions(&texts), FIFTY, Duration::from_secs(1)).unwrap();
            let interval = plan.key_interval;
            prop_assert_eq!(interval, 50);
            let mut intervals = std::collections::BTreeMap::new();
            // The first picture begins the count: it cannot be lost.
            for number in (0..300u64).filter(|number| *number == 0 || !lost[*number as usize]) {
                let turn = plan.picture(Ticks(number as i64 * 1800), false);
                prop_assert_eq!(turn.number, number);
                let is_common = (0..texts.len()).all(|index| plan.takes(index, turn));
                prop_assert!(is_common || !turn.key);
                if is_common {
                    *intervals.entry(number / interval).or_insert(0) += u32::from(turn.key);
                }
            }
            prop_assert!(intervals.values().all(|keys| *keys == 1), "{:?}", intervals);
        }
    }
}
