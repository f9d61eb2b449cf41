//! What an encoder encodes, and how.

use super::ladder::Rendition;
use super::settings::Settings;
use super::sound::{Audio, Settings as SoundSettings};
use super::sound_error::SoundError;
use crate::capture::{AudioIn, Deinterlace, Format, Input, Length, RawFormat, TONE_CHANNELS};
use glassline_codec::CodecError;
use glassline_media::Colour;
use glassline_media::quantity::Bitrate;
use std::time::Duration;

/// What an encoder encodes, and how. [`Request::new`] fills in the defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Where pictures come from, and sound where nothing else is said.
    pub input: Input,
    /// How pictures are coded, but for what renditions have of their own.
    pub settings: Settings,
    /// Several versions of the stream; none where the source is coded as it is.
    pub renditions: Vec<Rendition>,
    /// Where sound comes from and how it is coded.
    pub sound: SoundRequest,
    /// Whether pictures of a file or a pipe are handed over when their time has come; otherwise as fast as they go.
    pub paced: bool,
    /// Whether a file begins again at its end.
    pub looped: bool,
    /// What becomes of interlaced pictures.
    pub deinterlace: Deinterlace,
    /// When to stop by oneself.
    pub length: Length,
}

impl Request {
    /// `input` as it comes, by the clock, with all else at its default.
    #[must_use]
    pub fn new(input: Input) -> Request {
        Request {
            input,
            settings: Settings::default(),
            renditions: Vec::new(),
            sound: SoundRequest::default(),
            paced: true,
            looped: false,
            deinterlace: Deinterlace::default(),
            length: Length::default(),
        }
    }

    /// Whether pictures come by the clock, live or paced.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        matches!(self.input, Input::Test { .. } | Input::V4l2 { .. } | Input::Rtp { .. }) || self.paced
    }

    /// Whether there is a file to begin again.
    #[must_use]
    pub fn can_loop(&self) -> bool {
        self.input.path().is_some() || matches!(self.sound.input, Some(AudioIn::Wav(_)))
    }

    /// The bit rate of the pictures of each stream that it makes.
    #[must_use]
    pub fn bitrates(&self) -> Vec<Bitrate> {
        if self.renditions.is_empty() {
            return vec![self.settings.bitrate];
        }
        self.renditions.iter().map(|rendition| rendition.bitrate).collect()
    }

    /// Refuses what x264 does not take, as far as the pictures are known before the input is open: their size and rate where
    /// there are renditions, or the input is the test pattern.
    ///
    /// # Errors
    /// [`CodecError::Setting`] with the reason.
    pub fn check_pictures(&self) -> std::result::Result<(), CodecError> {
        let format = |size, rate| {
            let (colour, sample_aspect, fields) = (Colour::BT709, None, None);
            Format { size, rate, colour, sample_aspect, fields, live: true }
        };
        if let (true, Input::Test { size, rate }) = (self.renditions.is_empty(), &self.input) {
            self.settings.x264(format(*size, *rate), false).check()?;
        }
        for rendition in &self.renditions {
            let settings = rendition.own.settings(rendition.bitrate, &self.settings);
            settings.x264(format(rendition.size, rendition.rate), true).check()?;
        }
        Ok(())
    }

    /// The same but for the bit rates, which alone can change while it runs.
    #[must_use]
    pub fn without_bitrates(&self) -> Request {
        let none = Bitrate::from_bits_per_second(0);
        let mut same = self.clone();
        same.settings.bitrate = none;
        same.renditions.iter_mut().for_each(|rendition| rendition.bitrate = none);
        same
    }
}

/// Where sound comes from and how it is coded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SoundRequest {
    /// How it is coded; where not given by [`Audio::default`], where there is sound.
    pub codec: Option<Audio>,
    /// Where it comes from; from the input where not given.
    pub input: Option<AudioIn>,
    /// What raw samples are like, and what is asked of a device.
    pub raw: Option<RawFormat>,
    /// Bits a second; the codec's default where not given.
    pub bitrate: Option<Bitrate>,
    /// Sound in a packet; the codec's default where not given.
    pub frame: Option<Duration>,
    /// Bits of a sample that is not coded; 24 where not given.
    pub bits: Option<u32>,
}

impl SoundRequest {
    /// Whether sound is wanted at all, where there is some.
    pub(super) fn any(&self) -> bool {
        self.codec != Some(Audio::None)
    }

    /// How many channels of a file's sound are coded: all where it is not compressed and they fit, two otherwise.
    pub(super) fn coded_channels(&self, channels: u8) -> u8 {
        let packs = self.codec == Some(Audio::S302m);
        if packs && matches!(channels, 4 | 6 | 8) { channels } else { channels.min(2) }
    }

    /// How sound of so many channels is coded; `None` where there is none.
    ///
    /// # Errors
    /// [`SoundError::None`] where a codec is named and there is no sound.
    pub fn settings(&self, channels: Option<u8>) -> Result<SoundSettings, SoundError> {
        let codec = match self.codec {
            Some(codec) if codec != Audio::None && channels.is_none() => return Err(SoundError::None),
            Some(codec) => codec,
            None if channels.is_some() => Audio::default(),
            None => Audio::None,
        };
        Ok(SoundSettings {
            codec,
            channels: channels.unwrap_or(TONE_CHANNELS),
            bitrate: self.bitrate,
            frame: self.frame,
            bits: self.bits,
        })
    }

    /// Refuses what the codec does not have, and a library for it that is not there. `may_have`: there may be sound; what a
    /// file or a device really has shows when it is open.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self, may_have: bool) -> super::Result<()> {
        let settings = self.settings(may_have.then_some(TONE_CHANNELS))?;
        super::sound::Encoder::open(&settings).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_is_the_same_but_for_its_bit_rates() {
        let request = Request::new("test:64x48@25".parse().unwrap());
        let mut other = request.clone();
        other.settings.bitrate = Bitrate::from_bits_per_second(1_000);
        other.renditions = vec!["64x48@25:1M".parse().unwrap()];
        assert_eq!(other.bitrates(), [Bitrate::from_bits_per_second(1_000_000)]);
        assert_ne!(request.without_bitrates(), other.without_bitrates());
        let mut third = other.clone();
        third.renditions = vec!["64x48@25:2M".parse().unwrap()];
        assert!(third != other && third.without_bitrates() == other.without_bitrates());
    }

    #[test]
    fn sound_is_coded_where_there_is_some() {
        let wanted = SoundRequest::default();
        assert_eq!(wanted.settings(None).unwrap().codec, Audio::None);
        assert_eq!(wanted.settings(Some(2)).unwrap().codec, Audio::default());
        let named = SoundRequest { codec: Some(Audio::S302m), ..SoundRequest::default() };
        assert_eq!(named.settings(None), Err(SoundError::None));
        assert_eq!([named.coded_channels(1), named.coded_channels(6), named.coded_channels(5)], [1, 6, 2]);
        assert_eq!(wanted.coded_channels(6), 2);
        assert!(!SoundRequest { codec: Some(Audio::None), ..SoundRequest::default() }.any());
        let bits = SoundRequest { bits: Some(17), ..named };
        assert!(bits.check(true).unwrap_err().to_string().contains("ST 302"));
    }
    #[test]
    fn live_inputs_keep_to_the_clock_even_where_a_file_would_not() {
        let is_timed =
            |input: &str, paced| Request { paced, ..Request::new(input.parse().unwrap()) }.is_timed();
        for live in ["test:64x48@25", "v4l2:/dev/video0", "rtp:a.sdp"] {
            assert!(is_timed(live, false), "{live}");
        }
        for file in ["a.y4m", "-", "a.mp4"] {
            assert_eq!((is_timed(file, false), is_timed(file, true)), (false, true), "{file}");
        }
    }

    #[test]
    fn what_has_no_file_of_pictures_or_sound_cannot_begin_again() {
        let mut request = Request::new("test:64x48@25".parse().unwrap());
        assert!(!request.can_loop());
        request.sound.input = Some(AudioIn::Fd(3));
        assert!(!request.can_loop());
        request.sound.input = Some(AudioIn::Wav("a.wav".into()));
        assert!(request.can_loop());
        assert!(Request::new("a.y4m".parse().unwrap()).can_loop());
        assert!(!Request::new("-".parse().unwrap()).can_loop());
    }

    #[test]
    fn without_renditions_there_is_one_stream_of_the_settings_bit_rate() {
        let mut request = Request::new("test:64x48@25".parse().unwrap());
        request.settings.bitrate = Bitrate::from_bits_per_second(3_000_000);
        assert_eq!(request.bitrates(), [Bitrate::from_bits_per_second(3_000_000)]);
        request.renditions = ["64x48@25:2M", "32x24@25:1M"].map(|text| text.parse().unwrap()).to_vec();
        let expected = [2_000_000, 1_000_000].map(Bitrate::from_bits_per_second);
        assert_eq!(request.bitrates(), expected);
    }

    #[test]
    fn requests_that_differ_in_more_than_bit_rates_do_not_become_the_same() {
        let request = Request::new("test:64x48@25".parse().unwrap());
        let mut preset = request.clone();
        preset.settings.preset = "slow".to_owned();
        let mut sound = request.clone();
        sound.sound.bitrate = Some(Bitrate::from_bits_per_second(64_000));
        for other in [preset, sound, Request { looped: true, ..request.clone() }] {
            assert_ne!(other.without_bitrates(), request.without_bitrates());
        }
    }

    #[test]
    fn sound_that_was_refused_by_name_stays_out_where_there_is_some() {
        let none = SoundRequest { codec: Some(Audio::None), ..SoundRequest::default() };
        assert_eq!(none.settings(Some(2)).unwrap().codec, Audio::None);
        assert_eq!(none.settings(None).unwrap().codec, Audio::None, "and is no failure where there is none");
        assert!(SoundRequest::default().any());
    }

    #[test]
    fn uncompressed_sound_keeps_its_channels_where_aes3_has_that_many() {
        let coded = |codec| {
            let request = SoundRequest { codec, ..SoundRequest::default() };
            (1..=8).map(|channels| request.coded_channels(channels)).collect::<Vec<_>>()
        };
        assert_eq!(coded(Some(Audio::S302m)), [1, 2, 2, 4, 2, 6, 2, 8]);
        assert_eq!(coded(None), [1, 2, 2, 2, 2, 2, 2, 2]);
    }
}
