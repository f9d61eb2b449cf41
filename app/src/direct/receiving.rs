//! What is received: `receive`'s output, and that of `send --both`.

use super::figures::{self, Report};
use super::preview::{self, Preview};
use super::sink::{self, Opened};
use crate::link::{Extra, Run};
use crate::output::{self, ReaderGone};
use crate::trust::Trust;
use crate::{encode, failure};
use anyhow::{Context, Result};
#[cfg(feature = "opus")]
use glassline_call::direct::{AudioOut, SoundReceiver};
use glassline_call::direct::{
    Av1Frames, LipSync, PublishSettings, PublishTo, Publisher, Telemetry, VideoReceiver,
};
use glassline_codec::h264::x264;
use glassline_codec::vp8::Limits;
use glassline_media::Size;
use glassline_media::quantity::{self, Bitrate};
use glassline_studio::capture::Input;
use glassline_studio::encode::Request;
use glassline_studio::output::{Credentials, Target};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// Of H.264 that is made of received pictures: they were coded once, and the same machine decodes them.
const PRESET: &str = "superfast";

/// Outputs of which a stream is made.
const STREAMS: &str = "name FILE.ts, FILE.mp4, udp://HOST:PORT, http://HOST:PORT/live/NAME.ts or preview:";

/// In what the pictures of a stream are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum OutCodec {
    /// AV1 as it comes into files of MP4 and WebM and into preview:, where neither --out-bitrate nor --out-preset is given; otherwise
    /// H.264
    #[default]
    Auto,
    /// AV1 as it comes, and no other pictures
    Av1,
    /// H.264, as it comes or encoded by x264
    H264,
}

/// Where what comes goes, beside its pictures.
#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
#[command(next_help_heading = "What is received")]
pub(super) struct ReceiveOptions {
    /// In what the pictures of a stream are: FILE.ts, FILE.mp4, FILE.webm, udp://, http:// or preview:
    #[arg(long, value_name = "CODEC", default_value = "auto")]
    out_codec: OutCodec,
    /// Bit rate of the H.264 stream that is encoded from the pictures, for FILE.ts, FILE.mp4, udp://, http:// and
    /// preview: [default: 5M]
    #[arg(long, value_name = "RATE")]
    out_bitrate: Option<Bitrate>,
    /// x264's preset for that stream [default: superfast]
    #[arg(long, value_name = "P", value_parser = clap::builder::PossibleValuesParser::new(x264::PRESETS))]
    out_preset: Option<String>,
    /// File with the publish key, if the relay requires one
    #[arg(long, value_name = "FILE")]
    publish_key_file: Option<PathBuf>,
    #[command(flatten)]
    trust: Trust,
    /// The largest VP8 or AV1 picture that is accepted, by its number of samples [default: 8192x8192]
    #[arg(long, value_name = "WxH", value_parser = quantity::parse_size)]
    max_picture: Option<Size>,
    /// Where audio goes: alsa:DEVICE, FILE.wav, fd:N (raw samples to an open descriptor: s16le, 48 kHz, stereo), or
    /// null: [default: null:]
    #[cfg(feature = "opus")]
    #[arg(long, value_name = "OUTPUT")]
    audio_out: Option<AudioOut>,
}

impl ReceiveOptions {
    /// Whether something is said of how a stream is made.
    fn publishes(&self) -> bool {
        self.says_how_to_encode() || self.out_codec != OutCodec::Auto || self.asks_a_server()
    }

    /// Whether something is said of how x264 encodes.
    fn says_how_to_encode(&self) -> bool {
        self.out_bitrate.is_some() || self.out_preset.is_some()
    }

    /// What becomes of AV1 that comes. `by_itself`: it goes on as it comes where nothing else is said.
    fn av1(&self, by_itself: bool) -> Result<Av1Frames> {
        match self.out_codec {
            OutCodec::Av1 if self.says_how_to_encode() => Err(failure::usage(
                "--out-bitrate and --out-preset are for H.264 that is encoded here, and --out-codec av1 passes on what comes",
                "leave them out, or say --out-codec h264; glassline send --bitrate bounds the rate of what comes",
            )),
            OutCodec::Av1 if cfg!(not(feature = "av1")) => Err(failure::usage(
                "this build takes no AV1",
                "build it with the feature av1, or leave out --out-codec av1",
            )),
            OutCodec::Av1 => Ok(Av1Frames::Only),
            OutCodec::Auto if by_itself && !self.says_how_to_encode() => Ok(Av1Frames::Passed),
            OutCodec::Auto | OutCodec::H264 => Ok(Av1Frames::Encoded),
        }
    }

    /// Whether something is said of a server that the stream goes to.
    fn asks_a_server(&self) -> bool {
        self.publish_key_file.is_some() || self.trust.ca.is_some()
    }

    /// Which pictures are taken.
    fn limits(&self) -> Limits {
        // Sides are at most 16,384 samples.
        self.max_picture.map_or_else(Limits::default, |size| Limits { max_pixels: size.width * size.height })
    }

    /// How a stream is made.
    fn request(&self, av1: Av1Frames) -> Result<Request> {
        if av1 == Av1Frames::Only {
            // Nothing is encoded for it, so that it needs no encoder.
            return Ok(Request::new(Input::Stdin));
        }
        encode::require()?;
        // What the source is does not matter: it is handed over.
        let mut request = Request::new(Input::Stdin);
        request.settings.preset = self.out_preset.clone().unwrap_or_else(|| PRESET.to_owned());
        request.settings.bitrate = self.out_bitrate.unwrap_or(request.settings.bitrate);
        Ok(request)
    }

    /// How a stream for `target` is made.
    fn publish(&self, target: Target, telemetry: Option<Telemetry>) -> Result<PublishSettings> {
        let is_webm = target.is_webm();
        let is_refused =
            self.says_how_to_encode() || self.out_codec == OutCodec::H264 || self.asks_a_server();
        if is_webm && is_refused {
            let message = format!("an option says how a stream is made, and {target} gets AV1 as it comes");
            return Err(failure::usage(message, STREAMS));
        }
        let av1 = if is_webm { Av1Frames::Only } else { self.av1(target.is_mp4())? };
        let request = self.request(av1)?;
        let key = self.publish_key_file.as_deref().map(encode::read_key).transpose()?;
        let connector = target.is_tls().then(|| self.trust.connector()).transpose()?;
        let credentials = Credentials { key, connector };
        let to = PublishTo::Targets { targets: vec![target], credentials };
        Ok(PublishSettings { to, request, av1, telemetry })
    }

    /// Opens the page that shows what comes.
    fn preview(&self, address: SocketAddr, telemetry: Option<Telemetry>) -> Result<(Preview, Opened)> {
        if self.asks_a_server() {
            let advice = "leave out --publish-key-file and --ca, or name http://HOST:PORT/live/NAME.ts";
            return Err(failure::usage(
                "an option is for a server, and preview: is this program's own",
                advice,
            ));
        }
        // The page decodes AV1 wherever the browser does.
        let av1 = self.av1(true)?;
        let request = self.request(av1)?;
        let preview = Preview::start(address)?;
        let to = preview.destination();
        let publisher = Publisher::new(PublishSettings { to, request, av1, telemetry });
        Ok((preview, sink::of_publisher(publisher)))
    }
}

#[cfg(feature = "opus")]
fn takes_the_sound_too(output: &str) -> anyhow::Error {
    let advice = "leave out --audio-out, or receive into FILE.y4m or -";
    failure::usage(format!("{output} takes the sound too"), advice)
}

/// Whether what is made of the pictures for this output is a transport stream.
///
/// # Errors
/// Its address of `preview:` is none.
pub(super) fn is_transport_stream(output: &str) -> Result<bool> {
    let is_preview = preview::address(output)?.is_some();
    Ok(is_preview || output.contains("://") || sink::extension(output) == "ts")
}

/// An output that is open, and what shows there.
pub(super) struct Receiving {
    video: Arc<VideoReceiver>,
    #[cfg(feature = "opus")]
    sound: Arc<SoundReceiver>,
    /// What goes into the stream beside pictures and sound.
    telemetry: Option<Telemetry>,
    /// Pictures go to standard output.
    to_stdout: bool,
    /// The page that shows what comes, for as long as it comes.
    _preview: Option<Preview>,
}

impl Receiving {
    /// Opens the output. `telemetry` goes into its stream, which [`is_transport_stream`] then.
    pub(super) fn open(
        output: &str,
        options: &ReceiveOptions,
        telemetry: Option<Telemetry>,
    ) -> Result<Receiving> {
        #[cfg(feature = "opus")]
        if options.audio_out.is_some() && preview::address(output)?.is_some() {
            return Err(takes_the_sound_too(output));
        }
        let (preview, opened) = match preview::address(output)? {
            Some(address) => {
                let (preview, opened) = options.preview(address, telemetry.clone())?;
                (Some(preview), opened)
            }
            None => (None, sink::open(output, |target| options.publish(target, telemetry.clone()))?),
        };
        let Opened { sink, is_stdout, publisher } = opened;
        if publisher.is_none() && options.publishes() {
            return Err(failure::usage(
                format!("an option says how a stream is made, and {output} is none"),
                STREAMS,
            ));
        }
        let video = VideoReceiver::new(sink, options.limits()).context("cannot start a thread")?;
        #[cfg(feature = "opus")]
        let sound = match (&options.audio_out, publisher) {
            (Some(_), Some(_)) => {
                return Err(takes_the_sound_too(output));
            }
            (None, Some(publisher)) => super::sound::receiver(publisher.sound_sink(), video.lip_sync()),
            (to, None) => {
                super::sound::open_output(to.as_ref().unwrap_or(&AudioOut::Null), video.lip_sync())?
            }
        };
        Ok(Receiving {
            video: Arc::new(video),
            #[cfg(feature = "opus")]
            sound,
            telemetry,
            to_stdout: is_stdout,
            _preview: preview,
        })
    }

    /// The run with what receives.
    pub(super) fn serve(&self, run: Run) -> Run {
        let run = run.with_service(Arc::clone(&self.video) as _);
        #[cfg(feature = "opus")]
        let run = run.with_service(Arc::clone(&self.sound) as _);
        run
    }

    /// What says which picture is on screen.
    pub(super) fn pictures(&self) -> Arc<LipSync> {
        self.video.lip_sync()
    }

    /// Figures for each second, by these names.
    pub(super) fn figures(
        &self,
        video: &'static str,
        sound: &'static str,
    ) -> impl FnMut() -> Vec<Extra> + use<> {
        let mut of_video = figures::of_receiver(Arc::clone(&self.video), video);
        #[cfg(feature = "opus")]
        let of_sound = Arc::clone(&self.sound);
        #[cfg(not(feature = "opus"))]
        let _ = sound;
        let telemetry = self.telemetry.clone();
        move || {
            let mut extras = vec![of_video()];
            #[cfg(feature = "opus")]
            extras.extend(figures::of_heard(&of_sound, sound));
            extras.extend(telemetry.as_ref().map(figures::of_telemetry));
            extras
        }
    }

    /// Waits until all that came is shown.
    ///
    /// # Errors
    /// The outputs'.
    pub(super) fn finish(&self) -> Result<()> {
        let shown = self.video.finish();
        #[cfg(feature = "opus")]
        let shown = shown.and(self.sound.finish());
        shown.map_err(explain)
    }

    pub(super) fn report(&self) -> Report {
        let report = figures::received(&self.video.statistics());
        #[cfg(feature = "opus")]
        let report = match figures::of_heard(&self.sound, "sound") {
            Some(sound) => report.with(sound),
            None => report,
        };
        match &self.telemetry {
            Some(telemetry) => report.with(figures::of_telemetry(telemetry)),
            None => report,
        }
    }

    /// Tells a report where no pictures go.
    pub(super) fn tell(&self, report: &Report, as_json: bool) -> Result<()> {
        match (as_json, self.to_stdout) {
            (true, false) => output::print(&report.json()?),
            (true, true) => output::print_aside(&report.json()?),
            (false, _) => output::print_aside(&report.text()),
        }
    }
}

fn explain(error: io::Error) -> anyhow::Error {
    if error.kind() == io::ErrorKind::BrokenPipe { ReaderGone.into() } else { error.into() }
}
