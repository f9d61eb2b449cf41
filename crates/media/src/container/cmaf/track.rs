//! What a file or segment says about a track: its codec, its size, its clock.

use super::Error;
use super::boxes::Fields;
use crate::access_unit::{AccessUnit, Codec};
use crate::bitstream::aac_config::{AudioSpecificConfig, HeAac};
use crate::bitstream::h264::{ColourDescription, NalType, Sei, Sps, nals};
use crate::bitstream::hdr::{Hdr, Range};
use crate::bitstream::program_config::ProgramConfig;
use crate::bitstream::{ac3, adts, av1, h265, mpeg_audio, opus};
use crate::time::{FrameRate, Ticks};

/// One track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    /// Its number, from 1.
    pub id: u32,
    /// What is in it.
    pub media: Media,
}

/// What is in a track, with all that a decoder has to know beforehand.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Media {
    /// H.264, its NAL units behind lengths of 4 bytes (ISO/IEC 14496-15).
    H264 {
        /// The sequence parameter set, a NAL unit without start code.
        sps: Vec<u8>,
        /// The picture parameter sets, the same.
        pps: Vec<Vec<u8>>,
        /// Whether samples carry parameter sets too (`avc3`), which then may change on the way; otherwise they stand
        /// in the initialisation alone (`avc1`).
        in_band: bool,
        /// What `sps` says.
        parsed: Sps,
        /// What the first picture says beyond that of its light.
        hdr: Hdr,
    },
    /// H.265, its NAL units behind lengths of 4 bytes (ISO/IEC 14496-15 §8). Parameter sets stand in the initialisation alone
    /// (`hvc1`).
    H265 {
        /// The video, sequence and picture parameter sets, NAL units without start code, in this order.
        sets: Vec<Vec<u8>>,
        /// What the sequence parameter set says.
        parsed: Box<h265::Sps>,
        /// What the first picture says beyond that of its light.
        hdr: Hdr,
    },
    /// AV1 ("AV1 Codec ISO Media File Format Binding").
    Av1 {
        /// The sequence header, an OBU with its size.
        sequence: Vec<u8>,
        /// What it says.
        parsed: Box<av1::SequenceHeader>,
        /// What the first picture's metadata say of its light.
        hdr: Hdr,
    },
    /// AAC without ADTS headers.
    Aac {
        /// What decoders are told.
        config: AudioSpecificConfig,
        /// The same as it is written, of fewer than 64 bytes.
        written: Vec<u8>,
    },
    /// Opus (the "Opus in ISOBMFF" encapsulation, version 0.6).
    Opus {
        /// Channels, 1 or 2.
        channels: u16,
    },
    /// MPEG audio, layer III.
    Mp3 {
        /// Samples a second.
        rate_hz: u32,
        /// Channels, 1 or 2.
        channels: u16,
        /// One of the lower sampling rates of ISO/IEC 13818-3.
        low_rate: bool,
    },
    /// AC-3 or E-AC-3, of this the independent substream (ETSI TS 102 366, annex F).
    Ac3 {
        /// What the first frame says.
        header: ac3::Header,
    },
}

/// What is known of pictures, whatever they are coded in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pictures {
    /// Width, pixels.
    pub width_px: u32,
    /// Height, pixels.
    pub height_px: u32,
    /// Shape of a pixel, width to height, where it is said.
    pub sample_aspect: Option<(u16, u16)>,
    /// Pictures a second, where they are said.
    pub frame_rate: Option<FrameRate>,
    /// Colour, where it is said.
    pub colour: Option<ColourDescription>,
    /// What is said of high dynamic range.
    pub hdr: Hdr,
}

impl Pictures {
    /// How light and dark they can be.
    pub fn range(&self) -> Range {
        let stated = self.colour.map(|colour| colour.transfer);
        self.hdr.preferred_transfer.or(stated).map_or(Range::Sdr, Range::of)
    }
}

impl Media {
    /// Reads off a first access unit what a decoder has to know: of H.264 from one that has its parameter sets. `in_band`
    /// is as in [`Media::H264`].
    ///
    /// # Errors
    /// [`Error::Codec`] where no MP4 is made of it here, [`Error::Configuration`] where the unit does not tell.
    pub fn of(unit: &AccessUnit, in_band: bool) -> Result<Media, Error> {
        let lacks = |what| Error::Configuration { codec: unit.codec, what };
        match unit.codec {
            Codec::H264 => h264(&unit.data, in_band),
            Codec::Aac => {
                let header = adts::Header::parse(&unit.data).ok_or(lacks("ADTS header"))?;
                let frame = unit.data.get(header.overhead_bytes()..).unwrap_or_default();
                let program = ProgramConfig::of_frame(frame).map(|(program, _)| program);
                AudioSpecificConfig::of(&header, program).and_then(aac).ok_or(lacks("number of channels"))
            }
            Codec::Opus => {
                let toc = unit.data.first().ok_or(lacks("first byte"))?;
                Ok(Media::Opus { channels: if toc & 4 == 0 { 1 } else { 2 } })
            }
            Codec::H265 => h265(&unit.data),
            Codec::Av1 => av1(&unit.data),
            Codec::MpegAudio => {
                let header = mpeg_audio::Header::parse(&unit.data).ok_or(lacks("frame header"))?;
                if header.layer != 3 {
                    return Err(Error::Layer { found: header.layer });
                }
                let mpeg_audio::Header { rate_hz, low_rate, .. } = header;
                Ok(Media::Mp3 { rate_hz, channels: header.channels.into(), low_rate })
            }
            Codec::Ac3 | Codec::EAc3 => {
                let header = ac3::Header::parse(&unit.data).ok_or(lacks("frame header"))?;
                let is_own = header.enhanced == (unit.codec == Codec::EAc3);
                is_own.then_some(Media::Ac3 { header }).ok_or(lacks("frame header"))
            }
            codec => Err(Error::Codec { codec }),
        }
    }

    /// The same where something beside the units says that AAC is HE-AAC; their headers do not.
    #[must_use]
    pub fn told(self, he_aac: Option<HeAac>) -> Media {
        match self {
            Media::Aac { ref config, .. } => aac(config.clone().told(he_aac)).unwrap_or(self),
            other => other,
        }
    }

    /// That it is HE-AAC, where that is said.
    pub fn he_aac(&self) -> Option<HeAac> {
        match self {
            Media::Aac { config, .. } => config.he_aac,
            _ => None,
        }
    }

    /// What is known of pictures; `None` of sound.
    pub fn pictures(&self) -> Option<Pictures> {
        match self {
            Media::H264 { parsed, hdr, .. } => Some(Pictures {
                width_px: parsed.width_px,
                height_px: parsed.height_px,
                sample_aspect: parsed.sample_aspect,
                frame_rate: parsed.frame_rate,
                colour: parsed.colour,
                hdr: *hdr,
            }),
            Media::H265 { parsed, hdr, .. } => Some(Pictures {
                width_px: parsed.width_px,
                height_px: parsed.height_px,
                sample_aspect: parsed.sample_aspect,
                frame_rate: parsed.frame_rate,
                colour: parsed.colour,
                hdr: *hdr,
            }),
            // Pixels of another shape are told by the size at which they are shown, frame by frame.
            Media::Av1 { parsed, hdr, .. } => Some(Pictures {
                width_px: parsed.width_px,
                height_px: parsed.height_px,
                sample_aspect: None,
                frame_rate: parsed.frame_rate,
                colour: parsed.colour,
                hdr: *hdr,
            }),
            _ => None,
        }
    }

    /// Channels of sound; `None` of pictures.
    pub fn channels(&self) -> Option<u16> {
        match self {
            Media::H264 { .. } | Media::H265 { .. } | Media::Av1 { .. } => None,
            Media::Aac { config, .. } => Some(config.output_channels().into()),
            Media::Opus { channels } | Media::Mp3 { channels, .. } => Some(*channels),
            Media::Ac3 { header } => Some(header.channels().into()),
        }
    }

    /// Whether a decoder that was told this can go on with units that tell `other`: bit rates may differ, and what messages say,
    /// which stand in the samples too.
    pub fn covers(&self, other: &Media) -> bool {
        match (self, other) {
            (Media::Ac3 { header }, Media::Ac3 { header: other }) => {
                let ac3::Header { frame_bytes, blocks, rate_index, .. } = *header;
                *header == ac3::Header { frame_bytes, blocks, rate_index, ..*other }
            }
            (
                Media::H264 { sps, pps, in_band, .. },
                Media::H264 { sps: other_sps, pps: other_pps, in_band: other_in_band, .. },
            ) => (sps, pps, in_band) == (other_sps, other_pps, other_in_band),
            (Media::H265 { sets, .. }, Media::H265 { sets: others, .. }) => sets == others,
            (Media::Av1 { sequence, .. }, Media::Av1 { sequence: other, .. }) => sequence == other,
            _ => self == other,
        }
    }

    /// Ticks a second of the track's time: 90 kHz of pictures, the sample rate of sound as it comes out of a decoder.
    pub fn timescale(&self) -> u32 {
        match self {
            Media::H264 { .. } | Media::H265 { .. } | Media::Av1 { .. } => Ticks::RATE,
            Media::Aac { config, .. } => config.output_rate_hz(),
            Media::Mp3 { rate_hz, .. } => *rate_hz,
            Media::Ac3 { header } => header.rate_hz,
            Media::Opus { .. } => opus::RATE_HZ,
        }
    }

    /// The codec as RFC 6381 has it: what `MediaSource` and playlists are told.
    pub fn codec_string(&self) -> String {
        match self {
            Media::H264 { parsed, in_band: false, .. } => parsed.codec_string(),
            Media::H264 { parsed, .. } => parsed.codec_string().replacen("avc1", "avc3", 1),
            Media::Aac { config, .. } => format!("mp4a.40.{}", config.outer_object_type()),
            Media::Opus { .. } => "opus".to_owned(),
            Media::H265 { parsed, .. } => parsed.codec_string(),
            Media::Av1 { parsed, .. } => parsed.codec_string(),
            Media::Mp3 { low_rate, .. } => format!("mp4a.{:X}", mp3_object_type(*low_rate)),
            Media::Ac3 { header } => if header.enhanced { "ec-3" } else { "ac-3" }.to_owned(),
        }
    }

    /// Whether it is pictures.
    pub fn is_video(&self) -> bool {
        matches!(self, Media::H264 { .. } | Media::H265 { .. } | Media::Av1 { .. })
    }

    /// Appends an access unit in the form that the track's samples have.
    ///
    /// # Errors
    /// [`Error::Configuration`] where it is another codec's or cannot be read, [`Error::Changed`] where its parameter sets
    /// are others than the track's and may not be.
    pub fn write_sample(&self, unit: &AccessUnit, out: &mut Vec<u8>) -> Result<(), Error> {
        let lacks = |what| Error::Configuration { codec: unit.codec, what };
        match (self, unit.codec) {
            (Media::H264 { sps, pps, in_band, .. }, Codec::H264) => {
                for nal in nals(&unit.data) {
                    let is_known = match nal.kind() {
                        NalType::Sps => nal.bytes == &sps[..],
                        NalType::Pps => pps.iter().any(|pps| nal.bytes == &pps[..]),
                        // The sample's bounds say what the delimiter says; fillers are for constant rates.
                        NalType::AccessUnitDelimiter | NalType::Filler => continue,
                        _ => {
                            write_nal(nal.bytes, out);
                            continue;
                        }
                    };
                    match (in_band, is_known) {
                        (true, _) => write_nal(nal.bytes, out),
                        (false, true) => {}
                        (false, false) => return Err(Error::Changed),
                    }
                }
            }
            (Media::Aac { .. }, Codec::Aac) => {
                let header = adts::Header::parse(&unit.data).ok_or(lacks("ADTS header"))?;
                let frame = unit.data.get(header.overhead_bytes()..header.frame_bytes);
                let frame = frame.ok_or(lacks("whole frame"))?;
                // The configuration has it.
                let program = ProgramConfig::of_frame(frame).map_or(0, |(_, bytes)| bytes);
                out.extend_from_slice(&frame[program..]);
            }
            (Media::H265 { sets, .. }, Codec::H265) => write_h265(&unit.data, sets, out)?,
            (Media::Av1 { sequence, .. }, Codec::Av1) => {
                let own = av1::Head::of(&unit.data).sequence;
                if own.is_some_and(|own| own != *sequence) {
                    return Err(Error::Changed);
                }
                av1::to_sample(&unit.data, out);
            }
            (Media::Opus { .. }, Codec::Opus)
            | (Media::Mp3 { .. }, Codec::MpegAudio)
            | (Media::Ac3 { .. }, Codec::Ac3 | Codec::EAc3) => out.extend_from_slice(&unit.data),
            _ => return Err(lacks("codec of the track")),
        }
        Ok(())
    }

    /// How long a unit of sound lasts in ticks of the track; `None` of pictures, which last until the next one.
    pub fn sound_ticks(&self, unit: &AccessUnit) -> Option<u32> {
        match self {
            Media::H264 { .. } | Media::H265 { .. } | Media::Av1 { .. } => None,
            Media::Mp3 { .. } => mpeg_audio::Header::parse(&unit.data).map(|header| header.samples),
            Media::Ac3 { .. } => Some(ac3::UNIT_SAMPLES),
            Media::Aac { config, .. } => {
                let samples = adts::Header::parse(&unit.data)?.samples();
                Some(if config.he_aac.is_some() { 2 * samples } else { samples })
            }
            Media::Opus { .. } => opus::duration_samples(&unit.data),
        }
    }
}

/// AAC of which decoders are told this; `None` where it cannot be written.
pub(super) fn aac(config: AudioSpecificConfig) -> Option<Media> {
    Some(Media::Aac { written: config.write()?, config })
}

/// What the parameter sets in `unit`, Annex B, say.
pub(super) fn h264(unit: &[u8], in_band: bool) -> Result<Media, Error> {
    let lacks = |what| Error::Configuration { codec: Codec::H264, what };
    let of_kind = |kind| nals(unit).filter(move |nal| nal.kind() == kind).map(|nal| nal.bytes.to_vec());
    let sps = of_kind(NalType::Sps).next().ok_or(lacks("sequence parameter set"))?;
    let pps: Vec<_> = of_kind(NalType::Pps).take(PPS_MAX).collect();
    if pps.is_empty() {
        return Err(lacks("picture parameter set"));
    }
    let parsed = Sps::parse(&sps[1..]).map_err(|_| lacks("readable sequence parameter set"))?;
    // Both are told with lengths of 16 bits.
    if sps.len() > SET_MAX_BYTES || pps.iter().any(|pps| pps.len() > SET_MAX_BYTES) {
        return Err(lacks("parameter set of less than 64 kB"));
    }
    let before = nals(unit).take_while(|nal| !nal.kind().is_slice());
    let messages = before.filter(|nal| nal.kind() == NalType::Sei).map(|nal| Sei::parse(nal.payload()));
    Ok(Media::H264 { sps, pps, in_band, parsed, hdr: hdr_of(messages) })
}

/// What the parameter sets in `unit`, Annex B, say.
pub(super) fn h265(unit: &[u8]) -> Result<Media, Error> {
    let lacks = |what| Error::Configuration { codec: Codec::H265, what };
    let of_kind = |kind| nals(unit).map(|nal| nal.bytes).filter(move |nal| h265::NalType::of(nal[0]) == kind);
    let first = |kind, what| of_kind(kind).next().ok_or(lacks(what));
    let vps = first(h265::NalType::Vps, "video parameter set")?;
    let sps = first(h265::NalType::Sps, "sequence parameter set")?;
    first(h265::NalType::Pps, "picture parameter set")?;
    let parsed = h265::Sps::parse(sps).map_err(|_| lacks("readable sequence parameter set"))?;
    let pps = of_kind(h265::NalType::Pps).take(PPS_MAX);
    let mut sets: Vec<Vec<u8>> = [vps, sps].into_iter().chain(pps).map(<[u8]>::to_vec).collect();
    sets.dedup();
    if sets.iter().any(|set| set.len() > SET_MAX_BYTES) {
        return Err(lacks("parameter set of less than 64 kB"));
    }
    let kind = |header: u8| h265::NalType::of(header);
    let is_slice = |kind| matches!(kind, h265::NalType::Slice | h265::NalType::RandomAccess);
    let before = nals(unit).map(|nal| nal.bytes).take_while(|nal| !is_slice(kind(nal[0])));
    let messages = before.filter(|nal| kind(nal[0]) == h265::NalType::PrefixSei);
    let messages = messages.map(|nal| Sei::parse(nal.get(2..).unwrap_or_default()));
    Ok(Media::H265 { sets, parsed: Box::new(parsed), hdr: hdr_of(messages) })
}

/// What the sequence header in a unit says.
pub(super) fn av1(unit: &[u8]) -> Result<Media, Error> {
    let lacks = |what| Error::Configuration { codec: Codec::Av1, what };
    let head = av1::Head::of(unit);
    let parsed = head.parse_sequence().map(Box::new);
    let sequence = head.sequence.ok_or(lacks("sequence header"))?;
    Ok(Media::Av1 { sequence, parsed: parsed.ok_or(lacks("readable sequence header"))?, hdr: head.hdr })
}

/// What the messages in front of a picture say of its light.
fn hdr_of(units: impl Iterator<Item = Sei>) -> Hdr {
    let units: Vec<Sei> = units.take(SEI_MAX).collect();
    Hdr::of(units.iter().flat_map(Sei::messages))
}

/// Units of messages in front of a picture that are looked at: encoders write some two or three.
const SEI_MAX: usize = 16;

/// Appends the NAL units of a sample, without parameter sets, which are those of the track.
fn write_h265(unit: &[u8], sets: &[Vec<u8>], out: &mut Vec<u8>) -> Result<(), Error> {
    for nal in nals(unit) {
        match h265::NalType::of(nal.bytes[0]) {
            kind if kind.is_parameter_set() => {
                if !sets.iter().any(|set| nal.bytes == &set[..]) {
                    return Err(Error::Changed);
                }
            }
            h265::NalType::AccessUnitDelimiter | h265::NalType::Filler => {}
            _ => write_nal(nal.bytes, out),
        }
    }
    Ok(())
}

/// Picture parameter sets that a track takes; their number is told in 8 bits, and encoders have one.
const PPS_MAX: usize = 16;
const SET_MAX_BYTES: usize = u16::MAX as usize;

fn write_nal(nal: &[u8], out: &mut Vec<u8>) {
    out.u32(nal.len() as u32);
    out.extend_from_slice(nal);
}

/// The object type indication of MPEG audio (14496-1 table 5, as the registration authority keeps it).
pub(super) const fn mp3_object_type(low_rate: bool) -> u8 {
    if low_rate { 0x69 } else { 0x6b }
}
