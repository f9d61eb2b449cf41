//! What is sent: `send`'s input, and that of `receive --both`.

use super::fetched::Fetched;
use super::figures::{self, Report};
#[cfg(feature = "opus")]
use super::sound::SoundArgs;
use crate::choice::choice;
use crate::encode::{self, input_words};
use crate::failure;
use crate::link::{self, Extra, Run};
use crate::tracks::TrackArgs;
use anyhow::{Context, Result};
#[cfg(feature = "opus")]
use glassline_call::direct::SoundSender;
use glassline_call::direct::{
    CameraSettings, CodecMode, CodedSize, CodedVideoSender, Decision, EncodingSettings, PulledSource,
    SendSettings, SenderSettings, SoundCapture, VideoCodec, VideoSender,
};
use glassline_codec::h264::x264;
use glassline_io::clock::Clock;
use glassline_io::process::processors;
use glassline_io::random;
use glassline_media::quantity::{self, Bitrate};
#[cfg(feature = "opus")]
use glassline_studio::capture::SoundInput;
use glassline_studio::capture::{
    self, CodedDevice, CodedInput, Deinterlace, FfmpegInput, Input, Length, ParseError, Request, Source,
};
use glassline_transport::link::Fec;
use std::fs::File;
use std::io::{LineWriter, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Sides are 14 bits (RFC 6386 §9.1).
const MAX_SIDE: u32 = 16_383;
/// What the AV1 encoder takes.
#[cfg(feature = "av1")]
const AV1_SIDES: std::ops::RangeInclusive<u32> = glassline_codec::av1::SIDES;
/// More threads than this bring nothing at 720p.
const MOST_THREADS: usize = 4;
const DEFAULT_CANDIDATES: u8 = 4;
const DEFAULT_PARITY: Fec = Fec::WhenLossy(25);

/// What is sent.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SendInput {
    /// Pictures, or standard input: its first bytes tell what it contains.
    Pictures(Input),
    /// A file with encoded pictures.
    Coded(PathBuf),
    /// A capture device that encodes its pictures itself.
    Camera(CodedDevice),
    /// A camera in the network, a server, or a sender of datagrams.
    Fetched(Fetched),
    /// An address of one that cannot be used. It is refused where the command begins and not while arguments are read, since the
    /// message for those repeats the address, which may hold a password.
    Unusable(ParseError),
}

impl FromStr for SendInput {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<SendInput, ParseError> {
        let extension = Path::new(text).extension().unwrap_or_default().to_ascii_lowercase();
        if !text.contains(':') && ["h264", "264", "avc"].iter().any(|known| extension == *known) {
            return Ok(SendInput::Coded(text.into()));
        }
        match Fetched::parse(text) {
            Ok(Some(fetched)) => return Ok(SendInput::Fetched(fetched)),
            Err(error) => return Ok(SendInput::Unusable(error)),
            Ok(None) => {}
        }
        if let Some(device) = CodedDevice::parse(text)? {
            return Ok(SendInput::Camera(device));
        }
        text.parse().map(SendInput::Pictures)
    }
}

/// How pictures are coded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Codec {
    /// VP8, each picture in several qualities, as large as the network carries: no picture is late, and no key frame
    /// is needed after a loss
    #[default]
    Vp8,
    /// AV1 by libaom, controlled like VP8: better pictures of faces and interiors in the same bits; what is received can
    /// be written to a file without coding it again
    #[cfg(feature = "av1")]
    Av1,
    /// AV1 or VP8: a second of pictures is encoded in both, and the one that is nearer to the source on this network is used;
    /// compared again from time to time, with processor time that is left; VP8 where AV1 takes longer than there is time
    #[cfg(feature = "av1")]
    Auto,
    /// H.264 by x264, at a bit rate that follows the network: better pictures for less processor time, but more
    /// delay after a loss
    H264,
}

/// How pictures and sound are captured, coded and sent.
#[derive(Clone, Debug, PartialEq, clap::Args)]
#[command(next_help_heading = "What is sent")]
pub(super) struct SendOptions {
    /// Video codec; FILE.h264, H.264 on standard input, that of a camera (format=h264), and what is fetched are sent
    /// unchanged
    #[arg(long, value_enum, value_name = "CODEC", default_value = "vp8")]
    codec: Codec,
    /// x264's preset, with --codec h264 [default: superfast]
    #[arg(long, value_name = "P", value_parser = clap::builder::PossibleValuesParser::new(x264::PRESETS))]
    preset: Option<String>,
    /// Highest bit rate of the video, even if the network carries more, as in 3M
    #[arg(long, value_name = "RATE")]
    bitrate: Option<Bitrate>,
    /// With v4l2:DEVICE?format=h264: set the bit rate of the camera's own encoder so that it follows the network, if its
    /// driver has a control for that; the camera keeps what was set last
    #[arg(long)]
    adapt: bool,
    /// The encoder's speed against quality, from 0 (best) to 10 (fastest), with AV1 from 7; the encoder is faster when
    /// time is short, and slower for pictures that are coded at a smaller size; with auto it is that of VP8, and AV1 takes
    /// the speed 4 above it [default: 4; with AV1 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=10))]
    speed: Option<u8>,
    /// The size at which pictures are coded: smaller when the network carries little (auto), always the source's size
    /// (source), or WxH; they are displayed at the size at which they were captured
    #[arg(long, value_name = "auto|source|WxH", default_value_t)]
    size: CodedSize,
    /// The largest number of qualities in which each picture is encoded: more of them fit the network better and take
    /// more processor time; fewer are encoded when time is short
    #[arg(long, value_name = "N", default_value_t = DEFAULT_CANDIDATES, value_parser = clap::value_parser!(u8).range(1..=6))]
    candidates: u8,
    /// Parity that is sent with each picture, so that the picture survives losses: a share while packets are being
    /// lost (25%), always (always:25%), or none
    #[arg(long, value_name = "SHARE", default_value = "25%", value_parser = link::parse_parity)]
    fec: Fec,
    /// Number of encoder threads; 0: by the number of processors
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: u8,
    /// Control the encoder in the conventional way, for comparisons: one quantiser for each second, and every picture
    /// is sent
    #[arg(long)]
    conventional: bool,
    /// Stop after this many pictures
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Stop after this much of the stream
    #[arg(long, value_name = "TIME", value_parser = quantity::parse_duration)]
    duration: Option<Duration>,
    /// PEM file with the certificate, or that of its authority, that a camera or server shows over TLS (rtsps://, https://),
    /// instead of the system's authorities
    #[arg(long, value_name = "FILE")]
    source_ca: Option<PathBuf>,
    /// Start a file again at its end
    #[arg(long = "loop")]
    looped: bool,
    /// How interlaced video is handled
    #[arg(long, value_name = "HOW", value_parser = choice::<Deinterlace>(), default_value_t)]
    deinterlace: Deinterlace,
    /// Write the decision about each picture to this file, one line of JSON each: budgets, candidates, which one was
    /// chosen and why
    #[arg(long, value_name = "FILE")]
    decisions: Option<PathBuf>,
    #[cfg(feature = "opus")]
    #[command(flatten)]
    sound: SoundArgs,
    #[command(flatten)]
    tracks: TrackArgs,
}

impl Default for SendOptions {
    /// As where nothing is given.
    fn default() -> SendOptions {
        SendOptions {
            codec: Codec::Vp8,
            preset: None,
            bitrate: None,
            adapt: false,
            speed: None,
            size: CodedSize::Adaptive,
            candidates: DEFAULT_CANDIDATES,
            fec: DEFAULT_PARITY,
            threads: 0,
            conventional: false,
            limit: None,
            duration: None,
            source_ca: None,
            looped: false,
            deinterlace: Deinterlace::Auto,
            decisions: None,
            #[cfg(feature = "opus")]
            sound: SoundArgs::default(),
            tracks: TrackArgs::default(),
        }
    }
}

/// An input that is open, and what sends it.
pub(super) struct Sending {
    video: Video,
    #[cfg(feature = "opus")]
    sound: Option<Arc<SoundSender>>,
    /// Where pictures are fetched from, if they are.
    pulled: Option<Arc<PulledSource>>,
}

/// What sends pictures.
#[derive(Clone)]
enum Video {
    Functional(Arc<VideoSender>),
    Coded(Arc<CodedVideoSender>),
}

/// Sound that was asked for and is there.
#[cfg(feature = "opus")]
type Sound = Option<super::sound::Opened>;
#[cfg(not(feature = "opus"))]
type Sound = ();

impl Sending {
    pub(super) fn open(input: &SendInput, options: &SendOptions) -> Result<Sending> {
        let length = Length { pictures: options.limit, time: options.duration };
        let clock = Clock::new();
        if options.adapt && !matches!(input, SendInput::Camera(_)) {
            return Err(failure::usage(
                "--adapt steers the encoder of a camera that gives H.264 itself",
                "name it as v4l2:DEVICE?format=h264, or leave --adapt out: what is encoded here follows the network anyway, and \
                 the rate of H.264 from a file or a pipe can only be set where it is written",
            ));
        }
        let chosen = match input {
            SendInput::Unusable(error) => {
                return Err(failure::usage(error, "`glassline send --help` lists what can be sent"));
            }
            SendInput::Pictures(input) => SendInput::Pictures(options.tracks.of(input.clone())?),
            _ if !options.tracks.tracks().is_empty() => {
                return Err(input_words(capture::Error::NoFilm));
            }
            coded => coded.clone(),
        };
        if options.source_ca.is_some()
            && !matches!(&chosen, SendInput::Fetched(fetched) if fetched.is_secured())
        {
            return Err(failure::usage(
                "--source-ca belongs to an input over TLS",
                "leave it out, or name the input as rtsps://… or https://…",
            ));
        }
        let (input, begun) = match &chosen {
            SendInput::Coded(path) => {
                let coded = CodedInput::file(path, options.looped, length, clock).map_err(input_words)?;
                return Sending::of_coded(coded, options);
            }
            SendInput::Camera(_) | SendInput::Fetched(_) if options.looped => {
                return Err(input_words(capture::Error::NotAFile));
            }
            SendInput::Unusable(error) => return Err(failure::usage(error, "see glassline send --help")),
            SendInput::Fetched(fetched) => return Sending::of_fetched(fetched, options, length, clock),
            SendInput::Camera(device) => {
                let coded = CodedInput::device(device, length, clock).map_err(input_words)?;
                return Sending::of_coded(coded, options);
            }
            SendInput::Pictures(Input::Stdin) => {
                match CodedInput::on_stdin(length, clock).map_err(input_words)? {
                    Ok(coded) => return Sending::of_coded(coded, options),
                    Err(begun) => (&Input::Stdin, begun),
                }
            }
            SendInput::Pictures(input) => (input, Vec::new()),
        };
        let file = match input {
            Input::Decoded(film) => Some(FfmpegInput::open(film).map_err(input_words)?),
            _ => None,
        };
        #[cfg(feature = "opus")]
        let sound = options.sound.open(Some(input), file.as_ref())?;
        #[cfg(feature = "opus")]
        let block =
            sound.as_ref().filter(|sound| sound.input.is_none()).map(|sound| sound.sender.block_frames());
        #[cfg(not(feature = "opus"))]
        let (sound, block) = ((), None);
        let request = Request {
            file,
            sound: block,
            paced: true,
            looped: options.looped,
            deinterlace: options.deinterlace,
            length,
            begun,
            ..Request::default()
        };
        let source = Source::open(input, &request, clock).map_err(input_words)?;
        match options.codec {
            Codec::Vp8 => Sending::functional(source, sound, options, VideoCodec::Vp8),
            #[cfg(feature = "av1")]
            Codec::Av1 => Sending::functional(source, sound, options, VideoCodec::Av1),
            #[cfg(feature = "av1")]
            Codec::Auto => Sending::functional(source, sound, options, VideoCodec::Auto),
            Codec::H264 => Sending::encoding(source, sound, options),
        }
    }

    fn functional(
        source: Source,
        sound: Sound,
        options: &SendOptions,
        video_codec: VideoCodec,
    ) -> Result<Sending> {
        if options.preset.is_some() {
            return Err(failure::usage("--preset is x264's", "add --codec h264, or choose --speed"));
        }
        let size = source.format().size;
        #[cfg(feature = "av1")]
        if video_codec == VideoCodec::Av1
            && [size.width, size.height].iter().any(|side| !AV1_SIDES.contains(side))
        {
            let (least, most) = (AV1_SIDES.start(), AV1_SIDES.end());
            let message = format!("pictures of {size}: AV1 is encoded with sides of {least} to {most} here");
            return Err(failure::failed(message, "scale them before, or choose --codec vp8"));
        }
        if size.width > MAX_SIDE || size.height > MAX_SIDE {
            let message = format_args!("pictures of {size}: VP8 takes sides up to {MAX_SIDE}");
            return Err(failure::failed(message, "scale them before"));
        }
        let decisions = options.decisions.as_deref().map(Decisions::create).transpose()?;
        let observer = decisions.map(|decisions| {
            let told = move |decision: &Decision, took| decisions.write(decision, took);
            Box::new(told) as Box<dyn Fn(&Decision, Duration) + Send + Sync>
        });
        let threads = match options.threads {
            0 => processors().min(MOST_THREADS),
            asked => usize::from(asked),
        };
        let sender = SenderSettings {
            speed: speed_of(options.speed, video_codec)?,
            video_codec,
            size: options.size,
            candidates: usize::from(options.candidates),
            bitrate_max: options.bitrate,
            codec: if options.conventional { CodecMode::Conventional } else { CodecMode::Functional },
            ..SenderSettings::new(epoch()?, source.format().rate)
        };
        let send = SendSettings { sender, parity: options.fec, threads };
        Sending::with_sound(sound, options, |capture| {
            let video = VideoSender::new(source, capture, send, observer);
            Ok(Video::Functional(Arc::new(video.context("cannot start the encoder's threads")?)))
        })
    }

    fn encoding(source: Source, sound: Sound, options: &SendOptions) -> Result<Sending> {
        encode::require()?;
        options.refuse_functional("H.264")?;
        let settings = EncodingSettings {
            bitrate_max: options.bitrate,
            preset: options.preset.clone(),
            threads: options.threads.into(),
        };
        let epoch = epoch()?;
        Sending::with_sound(sound, options, |capture| {
            let video = CodedVideoSender::encoding(source, capture, &settings, epoch);
            Ok(Video::Coded(Arc::new(video?)))
        })
    }

    fn of_fetched(fetched: &Fetched, options: &SendOptions, length: Length, clock: Clock) -> Result<Sending> {
        options.refuse_coding()?;
        let pulled = Arc::new(fetched.start(options.source_ca.clone())?);
        #[cfg(feature = "opus")]
        let sound = options.sound.open_fetched(|| SoundInput::fetched(Arc::clone(&pulled) as _, clock))?;
        #[cfg(not(feature = "opus"))]
        let sound = ();
        let input = CodedInput::fetched(Arc::clone(&pulled) as _, length, clock);
        Ok(Sending { pulled: Some(pulled), ..Sending::unchanged(input, sound, options)? })
    }

    fn of_coded(input: CodedInput, options: &SendOptions) -> Result<Sending> {
        options.refuse_coding()?;
        #[cfg(feature = "opus")]
        let sound = options.sound.open(None, None)?;
        #[cfg(not(feature = "opus"))]
        let sound = ();
        Sending::unchanged(input, sound, options)
    }

    fn unchanged(input: CodedInput, sound: Sound, options: &SendOptions) -> Result<Sending> {
        let camera = CameraSettings { adapt: options.adapt, bitrate_max: options.bitrate };
        let epoch = epoch()?;
        Sending::with_sound(sound, options, |capture| {
            Ok(Video::Coded(Arc::new(CodedVideoSender::new(input, capture, &camera, epoch))))
        })
    }

    /// What `open` makes of pictures, with their sound.
    fn with_sound(
        sound: Sound,
        options: &SendOptions,
        open: impl FnOnce(Option<SoundCapture>) -> Result<Video>,
    ) -> Result<Sending> {
        #[cfg(feature = "opus")]
        let (sound, capture) = sound
            .map(|sound| {
                let taker = Arc::clone(&sound.sender) as _;
                (sound.sender, SoundCapture { input: sound.input, looped: options.looped, taker })
            })
            .unzip();
        #[cfg(not(feature = "opus"))]
        let ((), _, capture) = (sound, options, None);
        Ok(Sending {
            video: open(capture)?,
            #[cfg(feature = "opus")]
            sound,
            pulled: None,
        })
    }

    /// Whether pictures are fetched.
    pub(super) fn is_fetched(&self) -> bool {
        self.pulled.is_some()
    }

    /// The session goes on where this input is refused: it receives, too.
    pub(super) fn go_on_when_refused(&self) {
        if let Video::Coded(video) = &self.video {
            video.go_on_when_refused();
        }
    }

    /// The run with what sends.
    pub(super) fn serve(&self, run: Run) -> Run {
        let run = run.with_service(match &self.video {
            Video::Functional(video) => Arc::clone(video) as _,
            Video::Coded(video) => Arc::clone(video) as _,
        });
        #[cfg(feature = "opus")]
        if let Some(sound) = &self.sound {
            return run.with_service(Arc::clone(sound) as _);
        }
        run
    }

    /// Figures for each second, by these names.
    pub(super) fn figures(
        &self,
        video: &'static str,
        sound: &'static str,
    ) -> impl FnMut() -> Vec<Extra> + use<> {
        let mut of_video: Box<dyn FnMut() -> Extra> = match &self.video {
            Video::Functional(sender) => Box::new(figures::of_sender(Arc::clone(sender), video)),
            Video::Coded(sender) => Box::new(figures::of_coded(Arc::clone(sender), video)),
        };
        #[cfg(feature = "opus")]
        let of_sound = self.sound.clone();
        #[cfg(not(feature = "opus"))]
        let _ = sound;
        move || {
            let extras = vec![of_video()];
            #[cfg(feature = "opus")]
            return extras
                .into_iter()
                .chain(of_sound.as_ref().map(|of| figures::of_sound(of, sound)))
                .collect();
            #[cfg(not(feature = "opus"))]
            extras
        }
    }

    /// Ends the source.
    ///
    /// # Errors
    /// The source's own end, if that was no good one.
    pub(super) fn end(&self) -> Result<()> {
        if let Some(pulled) = &self.pulled {
            pulled.stop();
        }
        let ended = match &self.video {
            Video::Functional(video) => {
                video.stop();
                video.take_end()
            }
            Video::Coded(video) => {
                video.stop();
                video.take_end()
            }
        };
        match ended {
            Some(Err(error)) => Err(input_words(error)),
            _ => Ok(()),
        }
    }

    pub(super) fn report(&self) -> Report {
        let report = match &self.video {
            Video::Functional(video) => figures::sent(&video.statistics()),
            Video::Coded(video) => figures::sent_coded(&video.statistics()),
        };
        #[cfg(feature = "opus")]
        if let Some(sound) = &self.sound {
            return report.with(figures::of_sound(sound, "sound"));
        }
        report
    }
}

impl SendOptions {
    /// Whether it is said how long is sent.
    pub(super) fn is_bounded(&self) -> bool {
        self.limit.is_some() || self.duration.is_some()
    }

    /// Refuses the options of encoders, where nothing is coded again.
    fn refuse_coding(&self) -> Result<()> {
        let kind = "H.264 that is sent as it is";
        self.refuse_functional(kind)?;
        let bounds_nothing = self.bitrate.is_some() && !self.adapt;
        if bounds_nothing || self.preset.is_some() || self.codec == Codec::H264 {
            return Err(failure::usage(
                format!("{kind} is not coded again"),
                "leave out its options; --bitrate bounds a camera's encoder together with --adapt",
            ));
        }
        Ok(())
    }

    /// Refuses the options of VP8, where a budget decides which version of a picture is sent.
    fn refuse_functional(&self, kind: &str) -> Result<()> {
        let default = SendOptions::default();
        let own = [
            (self.speed != default.speed, "--speed"),
            (self.size != default.size, "--size"),
            (self.candidates != default.candidates, "--candidates"),
            (self.fec != default.fec, "--fec"),
            (self.conventional, "--conventional"),
            (self.decisions.is_some(), "--decisions"),
        ];
        match own.into_iter().find(|(is_given, _)| *is_given) {
            Some((_, option)) => {
                let message = format!("{option} belongs to pictures in VP8 or AV1, and not to {kind}");
                Err(failure::usage(message, "leave it out"))
            }
            None => Ok(()),
        }
    }
}

/// The encoder's speed: the one that was asked for, if the codec has it.
pub(crate) fn speed_of(asked: Option<u8>, codec: VideoCodec) -> Result<u8> {
    let (speeds, speed) = (codec.speeds(), asked.unwrap_or(codec.default_speed()));
    if speeds.contains(&speed) {
        return Ok(speed);
    }
    let message = format!("--speed {speed}: this codec has {} to {}", speeds.start(), speeds.end());
    Err(failure::usage(message, "choose one of these, or leave it out"))
}

/// Names this run for the receiver.
fn epoch() -> Result<u32> {
    let seed = random::seed().context("cannot draw a number for this run")?;
    Ok(u32::from_be_bytes([seed[0], seed[1], seed[2], seed[3]]))
}

/// The file of decisions. Each line is written at once, so that programs that follow the file see it, and no line is lost if
/// the program is killed.
struct Decisions(Mutex<LineWriter<File>>);

impl Decisions {
    fn create(path: &Path) -> Result<Decisions> {
        let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Decisions(Mutex::new(LineWriter::new(file))))
    }

    fn write(&self, decision: &Decision, took: Duration) {
        let mut file = self.0.lock().expect("no thread panics while writing");
        // On a full disk decisions are missing from the file; the video continues.
        if let Err(error) = writeln!(file, "{}", figures::decision(decision, took)) {
            tracing::debug!(%error, "cannot write a decision");
        }
    }
}

#[cfg(test)]
#[path = "sending_tests.rs"]
mod tests;
