//! What is encoded, and how: the options of `glassline encode`, which are the keys of `[encode.NAME]`, too.

use crate::choice::choice;
use crate::{serde_text, sound_source, tracks};
use glassline_codec::h264::x264::{self, Crf, Level, Profile, Tune};
use glassline_media::quantity::{self, Bitrate};
use glassline_studio::capture::{AudioIn, Deinterlace, Error, Input, Length, RawFormat, Track, Tracks};
use glassline_studio::encode::sound::Audio;
use glassline_studio::encode::{
    self, BITRATE, Keyint, RateControl, Rendition, Request, Settings, SoundRequest, Vbv,
};
use serde::Deserialize;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

/// The options. Their names, value types, defaults and help stand here alone; `examples/glassline.toml` describes the keys.
#[derive(Clone, Debug, PartialEq, clap::Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EncodeOptions {
    /// What to encode: test:WIDTHxHEIGHT@RATE (moving pattern, clock and tone), FILE.y4m, - (y4m on standard input),
    /// v4l2:DEVICE[?size=WxH&rate=R&format=F] (a capture device), rtp:FILE.sdp[?interface=NAME&processor=N]
    /// (uncompressed video over RTP, by its session description), or a file that FFmpeg can read (file:PATH if its
    /// name looks like something else), with its audio
    #[arg(value_name = "INPUT", required = true)]
    #[serde(deserialize_with = "serde_text::some")]
    pub(crate) input: Option<NamedInput>,
    /// x264's preset, speed against quality: ultrafast to placebo, or auto: the slowest that this machine sustains without
    /// dropping pictures, found while it runs
    #[arg(long, value_name = "PRESET", default_value_t = EncodeOptions::default().preset)]
    pub(crate) preset: String,
    /// Bit rate of the video: the average and, over the VBV, the maximum, as in 5M or 800k (bit/s) [default: 5M; for
    /// VP8 1200k]
    #[arg(long, value_name = "RATE")]
    pub(crate) bitrate: Option<Bitrate>,
    /// Size of the VBV, as a time (1s, 200ms) or a number of pictures (1frame): how long a viewer on a link with
    /// exactly this bit rate has to buffer
    #[arg(long, value_name = "TIME", default_value_t = EncodeOptions::default().vbv)]
    #[serde(deserialize_with = "serde_text::one")]
    pub(crate) vbv: Vbv,
    /// Distance between key frames, where viewers can join: a time (10s), a number of pictures (250), or infinite,
    /// which is the default for VP8
    #[arg(long, value_name = "TIME|N|infinite", default_value = "1s")]
    #[serde(deserialize_with = "serde_text::one")]
    pub(crate) keyint: Keyint,
    /// No key frames except the first: instead, intra blocks move across the picture once in each --keyint, so that
    /// all pictures have about the same size; viewers join at recovery points
    #[arg(long)]
    pub(crate) intra_refresh: bool,
    /// Constant bit rate: filler is added if the pictures need less, and null packets fill the transport stream up to
    /// a constant rate; the VBV is at most 0.95s
    #[arg(long)]
    pub(crate) cbr: bool,
    /// All pictures have the same size, for links with a fixed rate: --cbr --vbv 1frame --intra-refresh
    #[arg(long, conflicts_with = "vbv")]
    pub(crate) constant_size: bool,
    /// Rate of the whole transport stream with --cbr or --constant-size, null packets included [default: the most
    /// that video, audio, tables and clock references take]
    #[arg(long, value_name = "RATE")]
    pub(crate) mux_rate: Option<Bitrate>,
    /// How the quantisers are chosen
    #[arg(long, value_name = "HOW", value_parser = choice::<RateControl>(), default_value_t)]
    #[serde(deserialize_with = "serde_text::one")]
    pub(crate) rate_control: RateControl,
    /// Threads that work on one picture; 0: by the number of processors
    #[arg(long, value_name = "N", default_value_t)]
    pub(crate) threads: u32,
    /// Smallest number of slices in a picture, each sent when it is finished; threads may make more. 0: by the
    /// picture's height, at most 8
    #[arg(long, value_name = "N", default_value_t)]
    pub(crate) slices: u32,
    /// Switch to faster presets while pictures are being dropped, and back when there has been time to spare for a
    /// while, but never to a slower preset than --preset
    #[arg(long)]
    pub(crate) adapt: bool,
    /// Look at this much of what follows before a picture is encoded, as in 2s, for quality: the stream is late by as much.
    /// At most 250 pictures, which is 10s at 25 pictures/s and 5s at 50
    #[arg(long, value_name = "TIME", value_parser = quantity::parse_duration)]
    #[serde(deserialize_with = "serde_text::some_duration")]
    pub(crate) look_ahead: Option<Duration>,
    /// B-frames between two other pictures, 0 to 16 [default: 0; with --look-ahead as many as the preset has]
    #[arg(long, value_name = "N")]
    pub(crate) bframes: Option<u32>,
    /// What the video is like
    #[arg(long, value_name = "KIND", value_parser = choice::<Tune>())]
    #[serde(deserialize_with = "serde_text::some")]
    pub(crate) tune: Option<Tune>,
    /// H.264 profile that decoders have [default: what the preset needs]
    #[arg(long, value_name = "PROFILE", value_parser = choice::<Profile>())]
    #[serde(deserialize_with = "serde_text::some")]
    pub(crate) profile: Option<Profile>,
    /// H.264 level that decoders have, as in 4.1: what exceeds it is refused [default: the lowest that fits]
    #[arg(long, value_name = "LEVEL")]
    #[serde(deserialize_with = "serde_text::some")]
    pub(crate) level: Option<Level>,
    /// Pictures that one may refer to, 1 to 16 [default: as many as the preset has]
    #[arg(long = "ref", value_name = "N")]
    #[serde(rename = "ref")]
    pub(crate) references: Option<u32>,
    /// Aim at a quality instead of a bit rate, 1 (best) to 51, as in 21; the bit rate is the ceiling
    #[arg(long, value_name = "QUALITY")]
    #[serde(deserialize_with = "serde_text::some")]
    pub(crate) crf: Option<Crf>,
    /// Audio codec [default: opus if there is audio]
    #[arg(long, value_name = "CODEC", value_parser = choice::<Audio>())]
    #[serde(deserialize_with = "serde_text::some")]
    pub(crate) audio: Option<Audio>,
    /// Where audio comes from, if not from the input.
    #[arg(long, value_name = "SOURCE", help = sound_source::AUDIO_IN)]
    #[serde(deserialize_with = "serde_text::some")]
    pub(crate) audio_in: Option<AudioIn>,
    /// Format of raw samples, or what is requested from a device.
    #[arg(long, value_name = "FORMAT:RATE:CHANNELS", requires = "audio_in", help = sound_source::AUDIO_FORMAT)]
    #[serde(deserialize_with = "serde_text::some")]
    pub(crate) audio_format: Option<RawFormat>,
    /// Bit rate of the audio [default: 128k]
    #[arg(long, value_name = "RATE")]
    pub(crate) audio_bitrate: Option<Bitrate>,
    /// Length of an audio packet: for Opus 2.5ms, 5ms, 10ms or 20ms, for s302m 1ms to 10ms [default: opus 5ms, s302m
    /// 1ms]
    #[arg(long, value_name = "TIME", value_parser = quantity::parse_duration)]
    #[serde(deserialize_with = "serde_text::some_duration")]
    pub(crate) audio_frame: Option<Duration>,
    /// Bits per sample of s302m: 16, 20 or 24 [default: 24]
    #[arg(long, value_name = "BITS")]
    pub(crate) audio_bits: Option<u32>,
    /// Which video track of a file.
    #[arg(long, value_name = "N|LANGUAGE", help = tracks::VIDEO_TRACK)]
    #[serde(deserialize_with = "serde_text::some")]
    pub(crate) video_track: Option<Track>,
    /// Which audio track of a file.
    #[arg(long, value_name = "N|LANGUAGE", help = tracks::AUDIO_TRACK)]
    #[serde(deserialize_with = "serde_text::some")]
    pub(crate) audio_track: Option<Track>,
    /// Start a file again at its end: video with its audio, and FILE.wav beside other video
    #[arg(long = "loop")]
    #[serde(rename = "loop")]
    pub(crate) looped: bool,
    /// How interlaced video is handled
    #[arg(long, value_name = "HOW", value_parser = choice::<Deinterlace>(), default_value_t)]
    #[serde(deserialize_with = "serde_text::one")]
    pub(crate) deinterlace: Deinterlace,
    /// One of several versions from one capture, each with its own size, frame rate and bit rate, behind which options of
    /// its own may stand: 1280x720@50:2M+160k;look-ahead=2s;preset=slow (+160k is its audio's bit rate; look-ahead=0s: without delay). Its outputs are
    /// NAME-720p50.ts and so on, or contain {rendition} or {index}; udp:// ports go up by two
    #[arg(long = "rendition", value_name = "WxH@RATE:BITRATE", conflicts_with = "bitrate")]
    #[serde(deserialize_with = "serde_text::list")]
    pub(crate) renditions: Vec<Rendition>,
}

impl Default for EncodeOptions {
    /// As without options, and without an input.
    fn default() -> EncodeOptions {
        let Settings { vbv, keyint, .. } = Settings::default();
        EncodeOptions {
            input: None,
            preset: x264::Settings::DEFAULT_PRESET.to_owned(),
            bitrate: None,
            vbv,
            keyint,
            intra_refresh: false,
            cbr: false,
            constant_size: false,
            mux_rate: None,
            rate_control: RateControl::default(),
            threads: 0,
            slices: 0,
            adapt: false,
            look_ahead: None,
            bframes: None,
            tune: None,
            profile: None,
            level: None,
            references: None,
            crf: None,
            audio: None,
            audio_in: None,
            audio_format: None,
            audio_bitrate: None,
            audio_frame: None,
            audio_bits: None,
            video_track: None,
            audio_track: None,
            looped: false,
            deinterlace: Deinterlace::default(),
            renditions: Vec::new(),
        }
    }
}

/// An input, and how it was named.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NamedInput {
    pub(crate) text: String,
    pub(crate) input: Input,
}

impl FromStr for NamedInput {
    type Err = <Input as FromStr>::Err;

    fn from_str(text: &str) -> Result<NamedInput, Self::Err> {
        Ok(NamedInput { text: text.to_owned(), input: text.parse()? })
    }
}

impl NamedInput {
    /// The same in a configuration in `folder`, to which a file's name is relative.
    fn in_folder(self, folder: &Path) -> NamedInput {
        match self.input {
            Input::File(file) => {
                let file = folder.join(file);
                NamedInput { text: file.display().to_string(), input: Input::File(file) }
            }
            Input::Decoded(film) => {
                let film = folder.join(film.path);
                NamedInput { text: format!("file:{}", film.display()), input: Input::Decoded(film.into()) }
            }
            _ => self,
        }
    }
}

impl EncodeOptions {
    /// The same in a configuration in `folder`, to which names of files are relative.
    pub(crate) fn in_folder(self, folder: &Path) -> EncodeOptions {
        let audio_in = self.audio_in.map(|audio_in| match audio_in {
            AudioIn::Wav(file) => AudioIn::Wav(folder.join(file)),
            AudioIn::Rtp(file) => AudioIn::Rtp(folder.join(file)),
            other => other,
        });
        EncodeOptions { input: self.input.map(|input| input.in_folder(folder)), audio_in, ..self }
    }

    /// The input, with its tracks.
    ///
    /// # Errors
    /// [`Error::NoFilm`] if tracks are asked for of anything but a film.
    pub(crate) fn input(&self) -> Result<Input, Error> {
        let input = self.input.as_ref().map_or(Input::Stdin, |named| named.input.clone());
        input.with_tracks(Tracks { video: self.video_track.clone(), audio: self.audio_track.clone() })
    }

    /// Bit rate of H.264.
    pub(crate) fn bitrate(&self) -> Bitrate {
        self.bitrate.unwrap_or(BITRATE)
    }

    /// The bit rate of each stream.
    pub(crate) fn bitrates(&self) -> Vec<Bitrate> {
        if self.renditions.is_empty() {
            return vec![self.bitrate()];
        }
        self.renditions.iter().map(|rendition| rendition.bitrate).collect()
    }

    /// What an encoder of H.264 is asked for. `paced`: pictures of a file are taken when their time has come.
    ///
    /// # Errors
    /// See [`EncodeOptions::input`].
    pub(crate) fn request(&self, paced: bool, length: Length) -> Result<Request, Error> {
        Ok(Request {
            input: self.input()?,
            settings: self.settings(),
            renditions: self.renditions.clone(),
            sound: self.sound(),
            paced,
            looped: self.looped,
            deinterlace: self.deinterlace,
            length,
        })
    }

    fn settings(&self) -> encode::Settings {
        let EncodeOptions { vbv, keyint, intra_refresh, cbr, constant_size, .. } = *self;
        let EncodeOptions { mux_rate, rate_control, threads, slices, adapt, .. } = *self;
        let EncodeOptions { look_ahead, bframes, tune, profile, level, references, crf, .. } = *self;
        Settings {
            preset: self.preset.clone(),
            bitrate: self.bitrate(),
            vbv,
            keyint,
            intra_refresh,
            cbr,
            constant_size,
            mux_rate,
            rate_control,
            threads,
            slices,
            adapt,
            look_ahead,
            bframes,
            tune,
            profile,
            level,
            references,
            crf,
        }
    }

    fn sound(&self) -> SoundRequest {
        SoundRequest {
            codec: self.audio,
            input: self.audio_in.clone(),
            raw: self.audio_format,
            bitrate: self.audio_bitrate,
            frame: self.audio_frame,
            bits: self.audio_bits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_lie_beside_the_configuration() {
        let folder = Path::new("/etc/glassline");
        let input = |text: &str| text.parse::<NamedInput>().unwrap().in_folder(folder);
        assert_eq!(input("in.y4m").input, Input::File("/etc/glassline/in.y4m".into()));
        assert_eq!(input("in.y4m").text, "/etc/glassline/in.y4m");
        assert_eq!(input("/in.y4m").input, Input::File("/in.y4m".into()));
        // Its name may look like another kind of input.
        let film = input("file:udp:film.mkv");
        assert_eq!(film.input.path(), Some(Path::new("/etc/glassline/udp:film.mkv")));
        assert_eq!(film.text.parse(), Ok(film.input));
        assert_eq!(input("test:320x180@25"), "test:320x180@25".parse().unwrap());
        let sound = |text: &str| {
            let audio_in = Some(text.parse().unwrap());
            EncodeOptions { audio_in, ..EncodeOptions::default() }.in_folder(folder).audio_in.unwrap()
        };
        assert_eq!(sound("in.wav"), AudioIn::Wav("/etc/glassline/in.wav".into()));
        assert_eq!(sound("alsa:default"), AudioIn::Alsa("default".to_owned()));
    }
}
