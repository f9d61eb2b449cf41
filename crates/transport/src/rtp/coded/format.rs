//! What a track's description says of its packets.

use super::Assembler;
use super::aac::{AacAssembler, Frames, Layout, UNIT_BYTES_MAX};
use super::latm::LatmAssembler;
use super::nal::NalAssembler;
use super::narrow::{self, NarrowAssembler, Samples};
use super::parameter_sets::{ParameterSets, without_start_codes};
use super::sound::{MpegAudioAssembler, OpusAssembler, PcmAssembler};
use crate::rtp::pcm;
use crate::sdp::Encoding;
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use glassline_media::Codec;
use glassline_media::bitstream::aac_config::{AudioSpecificConfig, HeAac};
use glassline_media::bitstream::g711::Law;
use glassline_media::bitstream::h264::BitReader;
use glassline_media::bitstream::latm::Reader;
use glassline_media::container::ts::AudioFormat;
use thiserror::Error;

/// Base64 as senders write it: with padding or without.
const LOOSE: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);
/// NAL units of a description at most.
const SETS_MAX: usize = 32;
/// Samples of ST 302.
const S302M_RATE_HZ: u32 = 48_000;

/// Why a track's encoding is left out.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum FormatError {
    /// An encoding that is not read.
    #[error("{0} is not read from RTP")]
    Unknown(String),
    /// One that MPEG-TS cannot carry, and that would have to be encoded anew.
    #[error("{name} has no place in MPEG-TS: {advice}")]
    NoPlace {
        /// The encoding.
        name: String,
        /// What can be done about it.
        advice: &'static str,
    },
    /// A parameter that is missing, or says what is not taken.
    #[error("`{parameter}` of {name} is not taken: {wanted}")]
    Parameter {
        /// The encoding.
        name: String,
        /// The parameter.
        parameter: &'static str,
        /// What it should be.
        wanted: &'static str,
    },
}

/// How a track's packets are read.
#[derive(Clone, Debug, PartialEq)]
pub struct Format {
    clock_hz: u32,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    H264(ParameterSets),
    H265(ParameterSets),
    Av1,
    Aac { layout: Layout, frames: Frames, he_aac: Option<HeAac> },
    Latm { config: Option<Vec<u8>>, channels: u8, he_aac: Option<HeAac> },
    Opus,
    MpegAudio,
    Pcm(pcm::Format),
    Narrow { samples: Samples, factor: usize },
}

impl Format {
    /// That of an encoding in a description.
    ///
    /// # Errors
    /// [`FormatError`] where it is not read, or MPEG-TS does not carry it.
    pub fn of(encoding: &Encoding) -> Result<Format, FormatError> {
        let name = encoding.name.to_ascii_uppercase();
        let is_above = |name: &str, most: u32| {
            let value = encoding.parameter(name).and_then(|value| value.trim().parse::<u32>().ok());
            value.is_some_and(|value| value > most)
        };
        let in_order = "units that come in another order than that of decoding are not read";
        let kind = match name.as_str() {
            "H264" if is_above("packetization-mode", 1) => {
                return Err(refuse(encoding, "packetization-mode", in_order));
            }
            "H265" | "HEVC" if is_above("sprop-max-don-diff", 0) => {
                return Err(refuse(encoding, "sprop-max-don-diff", in_order));
            }
            "H264" => Kind::H264(parameter_sets(Codec::H264, encoding, &["sprop-parameter-sets"])),
            "H265" | "HEVC" => {
                let names = ["sprop-vps", "sprop-sps", "sprop-pps"];
                Kind::H265(parameter_sets(Codec::H265, encoding, &names))
            }
            "AV1" => Kind::Av1,
            "MPEG4-GENERIC" => aac(encoding)?,
            "MP4A-LATM" => latm(encoding)?,
            "OPUS" => Kind::Opus,
            "MPA" => Kind::MpegAudio,
            "L16" | "L24" => linear(encoding)?,
            "PCMU" => narrow(encoding, Samples::Law(Law::Mu))?,
            "PCMA" => narrow(encoding, Samples::Law(Law::A))?,
            "G722" | "G723" | "G726-16" | "G726-24" | "G726-32" | "G726-40" | "G729" => {
                let advice = "let the camera send AAC or Opus";
                return Err(FormatError::NoPlace { name, advice });
            }
            "JPEG" | "VP8" | "VP9" => {
                let advice = "let the camera send H.264, H.265 or AV1";
                return Err(FormatError::NoPlace { name, advice });
            }
            _ => return Err(FormatError::Unknown(shown(encoding))),
        };
        // The clocks that their payload formats prescribe, whatever the description says.
        let clock_hz = match &kind {
            Kind::H264(_) | Kind::H265(_) | Kind::Av1 | Kind::MpegAudio => 90_000,
            Kind::Opus => 48_000,
            Kind::Aac { .. } | Kind::Latm { .. } | Kind::Pcm(_) | Kind::Narrow { .. } => {
                encoding.clock_hz.max(1)
            }
        };
        Ok(Format { clock_hz, kind })
    }

    /// Ticks of its time stamps a second.
    pub fn clock_hz(&self) -> u32 {
        self.clock_hz
    }

    /// What its access units are coded in.
    pub fn codec(&self) -> Codec {
        match self.kind {
            Kind::H264(_) => Codec::H264,
            Kind::H265(_) => Codec::H265,
            Kind::Av1 => Codec::Av1,
            Kind::Aac { .. } | Kind::Latm { .. } => Codec::Aac,
            Kind::Opus => Codec::Opus,
            Kind::MpegAudio => Codec::MpegAudio,
            Kind::Pcm(_) | Kind::Narrow { .. } => Codec::S302m,
        }
    }

    /// Whether it is sound of one channel at a telephone's rate, of which the units are uncompressed sound of 48 kHz, the channel given
    /// twice (SMPTE ST 302): twenty times as many bits as came, and nothing that a browser plays.
    pub fn is_narrow(&self) -> bool {
        matches!(self.kind, Kind::Narrow { .. })
    }

    /// What packets have, for people.
    pub fn name(&self) -> &'static str {
        match self.kind {
            Kind::Narrow { samples: Samples::Law(Law::Mu), .. } => "G.711 (PCMU)",
            Kind::Narrow { samples: Samples::Law(Law::A), .. } => "G.711 (PCMA)",
            Kind::Narrow { samples: Samples::L16, .. } => "L16",
            _ => self.codec().name(),
        }
    }

    /// What a program map says of it; `None` of pictures.
    pub fn audio(&self) -> Option<AudioFormat> {
        let (channels, he_aac) = match &self.kind {
            Kind::H264(_) | Kind::H265(_) | Kind::Av1 => return None,
            Kind::Aac { frames, he_aac, .. } => (frames.channels, *he_aac),
            Kind::Latm { channels, he_aac, .. } => (*channels, *he_aac),
            Kind::Opus | Kind::MpegAudio => (2, None),
            // One channel is given twice.
            Kind::Pcm(format) => (format.channels().max(2), None),
            Kind::Narrow { .. } => (2, None),
        };
        let channels = match (self.codec(), channels) {
            (Codec::Aac, 7) => 8,
            (_, channels) => channels,
        };
        Some(AudioFormat { codec: self.codec(), channels, language: None, he_aac })
    }

    pub(super) fn assembler(&self) -> Assembler {
        let clock_hz = self.clock_hz;
        match &self.kind {
            Kind::H264(sets) => Assembler::Nal(Box::new(NalAssembler::new(Codec::H264, sets.clone()))),
            Kind::H265(sets) => Assembler::Nal(Box::new(NalAssembler::new(Codec::H265, sets.clone()))),
            Kind::Av1 => Assembler::Av1(Box::default()),
            Kind::Aac { layout, frames, .. } => {
                Assembler::Aac(Box::new(AacAssembler::new(*layout, *frames, clock_hz)))
            }
            Kind::Latm { config, .. } => {
                let mut reader = Reader::new();
                if let Some(config) = config {
                    let _ = reader.configure(config);
                }
                Assembler::Latm(Box::new(LatmAssembler::new(reader, config.is_none(), clock_hz)))
            }
            Kind::Opus => Assembler::Opus(OpusAssembler),
            Kind::MpegAudio => Assembler::MpegAudio(MpegAudioAssembler::new(clock_hz)),
            Kind::Pcm(format) => Assembler::Pcm(PcmAssembler::new(*format)),
            Kind::Narrow { samples, factor } => {
                Assembler::Narrow(Box::new(NarrowAssembler::new(*samples, *factor)))
            }
        }
    }
}

/// The parameter sets of a description. What is no base64 is passed over: the stream has them too, mostly.
fn parameter_sets(codec: Codec, encoding: &Encoding, names: &[&str]) -> ParameterSets {
    let values = names.iter().filter_map(|name| encoding.parameter(name));
    let texts = values.flat_map(|value| value.split(',')).take(SETS_MAX);
    let sets: Vec<Vec<u8>> = texts.filter_map(|text| LOOSE.decode(text.trim()).ok()).collect();
    // Some senders leave start codes in.
    ParameterSets::of(codec, sets.iter().flat_map(|set| without_start_codes(set)))
}

/// The name that a stranger's description has, for people.
fn shown(encoding: &Encoding) -> String {
    encoding.name.chars().filter(|letter| !letter.is_control()).take(40).collect()
}

fn refuse(encoding: &Encoding, parameter: &'static str, wanted: &'static str) -> FormatError {
    FormatError::Parameter { name: shown(encoding), parameter, wanted }
}

/// The bytes of hexadecimal digits.
fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.bytes().map(hexadecimal_digit).collect();
    let digits = digits.filter(|digits| !digits.is_empty() && digits.len() <= 512)?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair.get(1).copied().unwrap_or(0)).collect())
}

fn hexadecimal_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

fn aac(encoding: &Encoding) -> Result<Kind, FormatError> {
    let number = |parameter: &'static str| {
        let value = encoding.parameter(parameter).filter(|value| !value.is_empty());
        let width = value.map(|value| value.parse::<u32>().ok().filter(|width| *width <= 32));
        match width {
            None => Ok(0),
            Some(Some(width)) => Ok(width),
            Some(None) => Err(refuse(encoding, parameter, "it is a number of bits, up to 32")),
        }
    };
    if number("maxDisplacement")? > 0 {
        return Err(refuse(encoding, "maxDisplacement", "interleaved access units are not read"));
    }
    let constant_bytes = encoding.parameter("constantSize").and_then(|size| size.parse().ok()).unwrap_or(0);
    if constant_bytes > UNIT_BYTES_MAX {
        return Err(refuse(encoding, "constantSize", "an access unit of AAC has at most 8,191 bytes"));
    }
    let mut layout = Layout {
        size_bits: number("sizeLength")?,
        index_bits: number("indexLength")?,
        index_delta_bits: number("indexDeltaLength")?,
        cts_delta_bits: number("CTSDeltaLength")?,
        dts_delta_bits: number("DTSDeltaLength")?,
        stream_state_bits: number("streamStateIndication")?,
        auxiliary_size_bits: number("auxiliaryDataSizeLength")?,
        has_random_access: encoding.parameter("randomAccessIndication") == Some("1"),
        constant_bytes,
    };
    if layout.size_bits == 0 && constant_bytes == 0 {
        // The description of a camera that leaves them out: all of these send this mode.
        layout = Layout::HIGH_BIT_RATE;
    }
    let config = encoding.parameter("config").filter(|text| !text.is_empty());
    let config = match config {
        Some(text) => {
            let wanted =
                "it is an AudioSpecificConfig of AAC with 1,024 samples a frame, in hexadecimal digits";
            let bytes = hexadecimal(text).ok_or_else(|| refuse(encoding, "config", wanted))?;
            let mut bits = BitReader::new(&bytes);
            AudioSpecificConfig::parse(&mut bits, Some(0))
                .ok_or_else(|| refuse(encoding, "config", wanted))?
        }
        // Some cameras say clock and channels alone.
        None => AudioSpecificConfig {
            object_type: 2,
            rate_hz: encoding.clock_hz,
            channels: encoding.channels.clamp(1, 7),
            program: None,
            he_aac: None,
        },
    };
    if config.program.is_some() {
        return Err(refuse(encoding, "config", "channels are those of a channel_configuration from 1 to 7"));
    }
    if AudioSpecificConfig::write(&config).is_none() {
        return Err(refuse(encoding, "config", "the clock is a sampling rate of AAC where there is none"));
    }
    let AudioSpecificConfig { object_type, rate_hz, channels, he_aac, .. } = config;
    Ok(Kind::Aac { layout, frames: Frames { object_type, rate_hz, channels }, he_aac })
}

fn latm(encoding: &Encoding) -> Result<Kind, FormatError> {
    let is_beside = encoding.parameter("cpresent") == Some("0");
    let config = encoding.parameter("config").and_then(hexadecimal);
    let mut reader = Reader::new();
    let known = config.as_deref().and_then(|config| reader.configure(config));
    let (_, channels) = reader.frame_format().unwrap_or((0, encoding.channels.clamp(1, 7)));
    if is_beside && known.is_none() {
        let wanted =
            "with cpresent=0 it is a StreamMuxConfig of one program and layer, in hexadecimal digits";
        return Err(refuse(encoding, "config", wanted));
    }
    let config = config.filter(|_| is_beside);
    Ok(Kind::Latm { config, channels: channels.max(1), he_aac: reader.he_aac() })
}

fn narrow(encoding: &Encoding, samples: Samples) -> Result<Kind, FormatError> {
    let factor = narrow::factor(encoding.clock_hz).filter(|_| encoding.channels == 1);
    let factor = factor.ok_or_else(|| FormatError::NoPlace {
        name: format!("{}/{}/{}", shown(encoding), encoding.clock_hz, encoding.channels),
        advice: "it is taken with one channel of 8,000, 12,000, 16,000 or 24,000 samples a second",
    })?;
    Ok(Kind::Narrow { samples, factor })
}

fn linear(encoding: &Encoding) -> Result<Kind, FormatError> {
    let depth = if encoding.is("L16") { pcm::Depth::L16 } else { pcm::Depth::L24 };
    if depth == pcm::Depth::L16 && encoding.channels == 1 && narrow::factor(encoding.clock_hz).is_some() {
        return narrow(encoding, Samples::L16);
    }
    let is_carried = encoding.clock_hz == S302M_RATE_HZ && matches!(encoding.channels, 1 | 2 | 4 | 6 | 8);
    let format = pcm::Format::new(depth, encoding.channels, encoding.clock_hz).ok();
    format.filter(|_| is_carried).map(Kind::Pcm).ok_or_else(|| FormatError::NoPlace {
        name: format!("{}/{}/{}", depth.name(), encoding.clock_hz, encoding.channels),
        advice: "of uncompressed sound it carries 48,000 samples a second of 1, 2, 4, 6 or 8 channels",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, clock_hz: u32, channels: u8, parameters: &str) -> Result<Format, FormatError> {
        let (name, parameters) = (name.to_owned(), parameters.to_owned());
        Format::of(&Encoding { payload_type: 96, name, clock_hz, channels, parameters })
    }

    #[test]
    fn parameter_sets_come_with_padding_or_without_and_with_start_codes() {
        let kind = |parameters: &str| of("H264", 90_000, 1, parameters).unwrap().kind;
        let sets = Kind::H264(ParameterSets::of(Codec::H264, [&[0x67, 0x42][..], &[0x68, 0xce]]));
        assert_eq!(kind("packetization-mode=1;sprop-parameter-sets=Z0I=,aM4="), sets);
        assert_eq!(kind("sprop-parameter-sets=Z0I,aM4"), sets);
        assert_eq!(kind("sprop-parameter-sets=AAAAAWdCAAAAAWjO"), sets);
        // What is no base64, and what is no parameter set.
        assert_eq!(kind("sprop-parameter-sets=!,Z0I=,aM4=,ZYg="), sets);
        let h265 = of("H265", 90_000, 1, "sprop-vps=QAE=;sprop-sps=QgE=;sprop-pps=RAE=").unwrap();
        let expected = ParameterSets::of(Codec::H265, [&[0x40, 1][..], &[0x42, 1], &[0x44, 1]]);
        assert_eq!(h265.kind, Kind::H265(expected));
    }

    #[test]
    fn aac_is_what_its_configuration_says_or_what_the_clock_says() {
        let parameters = "mode=AAC-hbr;SizeLength=13;IndexLength=3;IndexDeltaLength=3;config=1408";
        let format = of("mpeg4-generic", 16_000, 1, parameters).unwrap();
        let Kind::Aac { layout, frames, he_aac: None } = &format.kind else { panic!("{format:?}") };
        assert_eq!(*layout, Layout::HIGH_BIT_RATE);
        assert_eq!(*frames, Frames { object_type: 2, rate_hz: 16_000, channels: 1 });
        assert_eq!(of("MPEG4-GENERIC", 16_000, 1, "").unwrap(), format);
        let stereo = of("MPEG4-GENERIC", 48_000, 2, "config=1190;sizelength=13").unwrap();
        assert_eq!(stereo.audio().map(|audio| audio.channels), Some(2));
        for (clock, parameters) in [
            (48_000, "config=xx;sizelength=13"),
            (48_000, "sizelength=99"),
            (48_000, "config=1190;maxDisplacement=5"),
            (48_000, "config=1190;constantSize=8192"),
            (12_345, ""),
        ] {
            assert!(of("MPEG4-GENERIC", clock, 2, parameters).is_err(), "{parameters}");
        }
    }

    #[test]
    fn units_in_another_order_than_that_of_decoding_are_refused() {
        for (name, parameters, is_read) in [
            ("H264", "packetization-mode=1", true),
            ("H264", "packetization-mode=2", false),
            ("H265", "sprop-max-don-diff=0", true),
            ("HEVC", "sprop-max-don-diff=1", false),
        ] {
            assert_eq!(of(name, 90_000, 1, parameters).is_ok(), is_read, "{name} {parameters}");
        }
    }

    #[test]
    fn what_has_no_place_in_a_transport_stream_is_said() {
        let words = |name, clock, channels| of(name, clock, channels, "").unwrap_err().to_string();
        assert_eq!(words("g722", 8_000, 1), "G722 has no place in MPEG-TS: let the camera send AAC or Opus");
        assert!(words("pcmu", 44_100, 1).starts_with("pcmu/44100/1 has no place in MPEG-TS"));
        assert!(words("PCMA", 8_000, 2).starts_with("PCMA/8000/2 has no place in MPEG-TS"));
        assert!(words("L16", 44_100, 2).starts_with("L16/44100/2 has no place in MPEG-TS"));
        assert_eq!(words("vnd.onvif.metadata", 90_000, 1), "vnd.onvif.metadata is not read from RTP");
        assert_eq!(
            words("a\u{1b}[2Jb", 90_000, 1),
            "a[2Jb is not read from RTP",
            "nothing that a terminal obeys"
        );
        assert_eq!(of("L16", 48_000, 1, "").unwrap().audio().map(|audio| audio.channels), Some(2));
    }

    #[test]
    fn a_telephone_s_sound_becomes_that_of_st_302_and_says_so() {
        for (name, clock_hz, shown) in [
            ("PCMU", 8_000, "G.711 (PCMU)"),
            ("pcma", 8_000, "G.711 (PCMA)"),
            ("PCMU", 16_000, "G.711 (PCMU)"),
            ("L16", 24_000, "L16"),
        ] {
            let format = of(name, clock_hz, 1, "").unwrap();
            assert_eq!((format.name(), format.clock_hz(), format.codec()), (shown, clock_hz, Codec::S302m));
            assert!(format.is_narrow() && format.audio().map(|audio| audio.channels) == Some(2));
        }
        assert!(!of("L16", 48_000, 1, "").unwrap().is_narrow());
    }

    #[test]
    fn latm_needs_a_configuration_where_elements_have_none() {
        let format = of("MP4A-LATM", 48_000, 1, "cpresent=0;config=40002310 3fc0".replace(' ', "").as_str());
        assert_eq!(format.unwrap().codec(), Codec::Aac);
        assert!(of("MP4A-LATM", 48_000, 1, "cpresent=0").is_err());
        assert!(of("MP4A-LATM", 48_000, 1, "").is_ok());
    }
}
