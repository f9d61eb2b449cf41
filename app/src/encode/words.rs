//! Turns the engine's errors into messages for people: what is wrong, what to do about it, and whether it was a usage
//! error.

use crate::{failure, output, trust};
use anyhow::Error;
use glassline_codec::h264::x264;
use glassline_delivery::pull::UNTRUSTED_REMEDY;
use glassline_io::capture::CaptureError;
use glassline_media::FrameRate;
use glassline_studio::capture;
use glassline_studio::encode::AUTO;
use glassline_studio::encode::sound_error::SoundError;
use glassline_studio::encode::{self, ControlError, LadderError, MuxRateError};
use glassline_studio::output::{Error as OutputError, PushFailure, TargetError};
use std::path::Path;

/// The files that were given for servers. If a file is wrong, the message says so, and not that a file should be
/// given.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Given<'a> {
    /// The file with certificates.
    pub(super) ca: Option<&'a Path>,
    /// The file with the publish key.
    pub(super) key: Option<&'a Path>,
}

/// An encoder's error as a message for the command line.
pub(super) fn explain(error: encode::Error) -> Error {
    explain_given(error, Given::default())
}

/// The same, for a command with these files.
pub(super) fn explain_given(error: encode::Error, given: Given<'_>) -> Error {
    use encode::Error as Wrong;
    match error {
        Wrong::Capture(error) => input(error),
        Wrong::Output(error) => self::output(error, given),
        Wrong::Sound(error) => sound(&error).on_command_line(),
        Wrong::Ladder(error) => ladder(&error),
        Wrong::MuxRate(error) => mux_rate(&error),
        Wrong::Control(error) => control(&error),
        Wrong::Setting(error) => failure::usage(error, "see glassline encode --help"),
        Wrong::Open(glassline_codec::CodecError::NotBuiltIn { .. }) => {
            failure::usage("this build has no H.264 encoder", NOT_BUILT_IN)
        }
        other => other.into(),
    }
}

/// Advice if libx264 is missing.
pub(super) const NOT_BUILT_IN: &str =
    "build it with the default features (cargo build --release), which need libx264 and libopus";

/// An input's error.
pub(crate) fn input(error: capture::Error) -> Error {
    use capture::Error as Wrong;
    let advice = match &error {
        Wrong::Open { .. } => "check the name",
        Wrong::Folder { .. } => "name a file in it",
        Wrong::FfmpegAbsent { .. } => "install ffmpeg, or give y4m",
        Wrong::NoPictures { .. } => {
            "pictures have to come from somewhere: name a film, or test:1280x720@50 and --audio-in"
        }
        Wrong::NoTrack { .. } => {
            return failure::usage(error, "choose one of these by its number or language");
        }
        Wrong::NotLookedInto { .. } => "install ffprobe, and name a file, or leave the track out",
        Wrong::NoFilm => return failure::usage(error, "leave --video-track and --audio-track out"),
        Wrong::Ffmpeg(_) => "check its installation",
        Wrong::Device { error, .. } => device(error),
        Wrong::DeviceOnRequest => {
            let message = "a capture device is no input of VP8 yet";
            return failure::usage(
                message,
                "pipe its pictures as y4m into standard input (ffmpeg -f v4l2 -i DEVICE -f yuv4mpegpipe -)",
            );
        }
        Wrong::Description(reason) => {
            let advice = crate::raw::advice(reason);
            return failure::usage(error, advice);
        }
        Wrong::HighDynamicRange { .. } => {
            return failure::usage(
                error,
                "have FFmpeg map its tones and pipe that: ffmpeg -i INPUT -vf zscale=t=linear:npl=100,format=gbrpf32le,\
                 zscale=p=bt709,tonemap=hable,zscale=t=bt709:m=bt709:r=limited,format=yuv420p -f yuv4mpegpipe - | \
                 glassline encode - OUTPUT",
            );
        }
        Wrong::NoRate => return failure::usage(error, "say it: rtp:FILE.sdp?rate=50"),
        Wrong::Receive { error: reason, .. } => match reason.kind() {
            std::io::ErrorKind::AddrInUse => "another program receives there already: end it",
            std::io::ErrorKind::AddrNotAvailable => {
                "the description's address is not this machine's: correct its c= line"
            }
            _ => "see docs/record.md",
        },
        #[cfg(feature = "alsa")]
        Wrong::Alsa(glassline_io::capture::alsa::AlsaError::Read { .. }) => return error.into(),
        #[cfg(feature = "alsa")]
        Wrong::Alsa(_) => {
            "arecord -L lists the devices; --audio-format asks for another format, rate or channels"
        }
        Wrong::AlsaNotBuiltIn => {
            return failure::usage(
                error,
                "build it with the feature alsa, or: arecord -f S16_LE -r 48000 -c 2 -t raw | glassline encode … \
                 --audio-in fd:0",
            );
        }
        Wrong::Descriptor { .. } => "it has to be an open pipe or file",
        Wrong::Changed { .. } => "leave it alone while it is played",
        Wrong::FormatOfWav | Wrong::FormatOfDescription => {
            return failure::usage(error, "leave --audio-format out");
        }
        Wrong::LiveSoundUntimed => {
            return failure::usage(error, "give --realtime, or take sound from FILE.wav");
        }
        Wrong::Refused { remedy, .. } => {
            let option = if remedy == UNTRUSTED_REMEDY { " (--source-ca FILE)" } else { "" };
            let advice = format!("{remedy}{option}");
            return failure::failed(error, advice);
        }
        Wrong::OtherCodec { .. } => {
            "set the camera's encoder to H.264 (often in the menu of its video stream, or use its second one)"
        }
        Wrong::NoPicturesFetched { .. } => "name the address of a stream with H.264",
        Wrong::NotAFile => return failure::usage(error, "leave --loop out"),
        _ => return error.into(),
    };
    failure::failed(error, advice)
}

fn device(error: &CaptureError) -> &'static str {
    match error {
        CaptureError::System { .. } => "check that it is there and that you may open it (group video)",
        CaptureError::UnknownRate => "say it: v4l2:DEVICE?rate=50",
        CaptureError::Layout { found, .. } if found.contains("H264") => {
            "glassline send sends the camera's own H.264 ('v4l2:DEVICE?format=h264'); elsewhere let ffmpeg decode it: ffmpeg \
             -f v4l2 -input_format h264 -i DEVICE -f yuv4mpegpipe - | glassline encode - …"
        }
        CaptureError::Layout { .. } => {
            "let ffmpeg decode it: ffmpeg -f v4l2 -i DEVICE -f yuv4mpegpipe - | glassline encode - …"
        }
        CaptureError::NotCoded { .. } => {
            "leave out format=h264, and --adapt with it: glassline encodes the pictures itself (--codec h264 for H.264)"
        }
        _ => "v4l2-ctl -d DEVICE --list-formats-ext says what it gives",
    }
}

/// An output's error.
pub(super) fn output(error: OutputError, given: Given<'_>) -> Error {
    match error {
        OutputError::ReaderGone => output::ReaderGone.into(),
        OutputError::Create { .. } => failure::failed(error, "choose another name or folder"),
        OutputError::Datagrams { .. } => {
            failure::failed(error, "check the host's name, the interface and the network")
        }
        OutputError::Lost { .. } => failure::failed(
            error,
            "see that the listener runs, that its port is open, that the key is the same, and that the line carries the bit rate",
        ),
        OutputError::Destination(_) => failure::usage(error, "see glassline encode --help"),
        OutputError::Target(error) => target(error),
        OutputError::Push { ref failure, .. } => {
            let advice = pushed(failure, given);
            failure::failed(error, advice)
        }
        other => other.into(),
    }
}

fn pushed(failure: &PushFailure, given: Given<'_>) -> String {
    let advice = match failure {
        PushFailure::Untrusted(_) => return trust::advice(given.ca),
        PushFailure::Moved(answer) => {
            return format!("publish to {}", answer.location.as_deref().unwrap_or("elsewhere"));
        }
        PushFailure::Refused(answer) => match answer.status {
            401 | 403 => match given.key {
                Some(file) => {
                    return format!(
                        "the key in {} (--publish-key-file) is not the one that the server wants for this name",
                        file.display()
                    );
                }
                None => "give the server's key by --publish-key-file",
            },
            409 => "choose another name, or take it over with ?takeover=1",
            _ => "correct the address",
        },
        PushFailure::NotReached => "start the server, then publish again",
        PushFailure::RefusedAtEnd(_) => "see what the server says",
        _ => "the end of the stream is missing there",
    };
    advice.to_owned()
}

/// What is wrong with the name of an output.
pub(super) fn target(error: TargetError) -> Error {
    let advice = match &error {
        TargetError::NotUtf8(_) => "choose another name",
        TargetError::NoPorts(_) => "choose a lower one",
        TargetError::OneStream => "give each rendition a place: NAME.ts, http://… or udp://…",
        _ => "see glassline encode --help",
    };
    failure::usage(error, advice)
}

/// A message about wrong renditions.
pub(super) fn ladder(error: &LadderError) -> Error {
    let advice = match error {
        LadderError::SameName(_) => "give each another size, rate or bit rate".to_owned(),
        LadderError::NoKeyFrames => "leave --intra-refresh and --constant-size out".to_owned(),
        LadderError::Interlaced => {
            "leave --deinterlace off out, or take renditions of the source's size".to_owned()
        }
        LadderError::Rate { source_rate, .. } => {
            let half = FrameRate::new(source_rate.numerator(), source_rate.denominator().saturating_mul(2));
            format!("take {source_rate}, or {}", half.map_or(String::new(), |half| half.to_string()))
        }
        LadderError::OneMuxRate => {
            let message = "renditions have rates of their own, and one --mux-rate is not for all of them";
            return failure::usage(message, "leave --mux-rate out");
        }
        _ => "choose rates that divide each other".to_owned(),
    };
    failure::usage(error, advice)
}

fn mux_rate(error: &MuxRateError) -> Error {
    match error {
        MuxRateError::TooLow { least, holds: None, .. } => {
            failure::usage(error, format_args!("give --mux-rate {least} or more"))
        }
        MuxRateError::TooLow { least, holds: Some(holds), .. } => failure::usage(
            error,
            format_args!("give --mux-rate {least} or more, or --bitrate {holds} or less"),
        ),
        _ => failure::usage(
            "--mux-rate is the rate of a stream that is filled up",
            "give --cbr or --constant-size, too",
        ),
    }
}

/// Why a running encoder refuses a request.
pub(crate) fn control(error: &ControlError) -> Error {
    let advice = match error {
        ControlError::NoRendition { count, .. } => format!("choose one of 0 to {}", count.saturating_sub(1)),
        ControlError::MuxRate { limit, .. } => format!("choose one up to {limit}"),
        ControlError::ConstantRate => "leave --cbr and --constant-size out".to_owned(),
        ControlError::Setting(_) => "see glassline encode --help".to_owned(),
        ControlError::Size(_) => "choose one such as 1280x720".to_owned(),
        ControlError::Interlaced => "have the encoder deinterlace them (--deinterlace)".to_owned(),
        ControlError::FrameRate { source_rate, .. } => {
            format!("choose {source_rate}, or a half or a third of it")
        }
        ControlError::Preset(_) => format!("choose {AUTO}, or one of {}", x264::PRESETS.join(", ")),
        _ => "choose one between 1k and 1G".to_owned(),
    };
    failure::usage(error, advice)
}

/// An option that asks for something that a codec does not have or take.
pub(super) struct Refusal {
    /// The option without its dashes: `audio-frame`.
    option: &'static str,
    /// What is wrong; it follows the option's name.
    text: String,
    advice: &'static str,
}

/// What is wrong with the requested audio.
pub(super) fn sound(error: &SoundError) -> Refusal {
    let option = |option, text: String, advice| Refusal { option, text, advice };
    match *error {
        SoundError::None => option(
            "audio",
            ": this input carries no sound".to_owned(),
            "leave --audio out, give --audio-in, or take an input that has some",
        ),
        SoundError::BitrateOfSamples => option(
            "audio-bitrate",
            " is for sound that is compressed".to_owned(),
            "leave it out, or choose another --audio",
        ),
        SoundError::BitsOfCompressed => {
            option("audio-bits", " is for --audio s302m".to_owned(), "leave it out")
        }
        SoundError::Bits(bits) => {
            option("audio-bits", format!(" {bits}: ST 302 knows 16, 20 and 24"), "take one of these")
        }
        SoundError::ManyChannels(_) => {
            option("audio", format!(": {error}"), "choose --audio s302m (2, 4, 6 or 8), or mix it down first")
        }
        SoundError::OddChannels(_) => option("audio", format!(": {error}"), "mix it first"),
        SoundError::FrameOfS302m(_) => option("audio-frame", format!(" {error}"), "take 1ms to 10ms"),
        SoundError::FrameFixed => option(
            "audio-frame",
            " is for Opus and s302m; AAC has frames of 21 ms alone".to_owned(),
            "leave it out",
        ),
        _ => option("audio-frame", format!(" {error}"), "take one of these"),
    }
}

impl Refusal {
    /// The error as a message for the command line.
    pub(super) fn on_command_line(self) -> Error {
        failure::usage(format_args!("--{}{}", self.option, self.text), self.advice)
    }

    /// The error for a configuration: the key with the option's name, and what is wrong with it.
    pub(super) fn in_section(self) -> (&'static str, String) {
        let key = match self.option {
            "audio-bitrate" => "audio_bitrate",
            "audio-bits" => "audio_bits",
            "audio-frame" => "audio_frame",
            other => other,
        };
        let text = format!("{}; {}", self.text.trim_start_matches([':', ' ']), self.advice);
        (key, text.replace("--audio-in", "audio_in").replace("--audio", "audio"))
    }
}
