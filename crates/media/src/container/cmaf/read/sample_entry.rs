//! Sample entries, read: the codec of a track and its configuration (ISO/IEC 14496-15 §5.3.3 and §8.3.3, 14496-14 §5.6, 14496-3
//! §1.6, ETSI TS 102 366 annex F, "Encapsulation of Opus in ISOBMFF" §4.3).

use super::body::{Body, Head};
use super::error::{FourCc, ReadError};
use crate::access_unit::Codec;
use crate::bitstream::aac_config::AudioSpecificConfig;
use crate::bitstream::h264::BitReader;
use crate::bitstream::{adts, av1, h265};
use crate::container::cmaf::{Media, track};

/// Bytes of a sample entry in front of the boxes in it.
const VISUAL_BYTES: usize = 78;
const SOUND_BYTES: usize = 28;
const SOUND_CHANNELS_AT: usize = 16;
/// MPEG-4 audio, as `esds` names it (ISO/IEC 14496-1 table 5).
const MPEG4_AUDIO: u8 = 0x40;
/// MPEG audio: of 13818-3, and of 11172-3.
const MPEG2_LAYERS: u8 = 0x69;
const MPEG1_LAYERS: u8 = 0x6b;

/// What turns a track's samples into access units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::container) enum Form {
    H264(NalForm),
    H265(NalForm),
    Av1 {
        /// The OBUs of the sample entry, with their sizes.
        config: Vec<u8>,
    },
    Aac {
        /// The header that each frame gets, all but its length.
        header: adts::Header,
        /// The element that says which channels there are where the header does not; empty where it does.
        program: Vec<u8>,
    },
    Opus,
    /// Frames that a transport stream has as they are.
    Frames {
        codec: Codec,
        /// Channels, 1 to 8.
        channels: u8,
    },
    /// No access units are made of these.
    Other,
}

/// How NAL units lie in samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::container) struct NalForm {
    /// Bytes of the length in front of each, 1 to 4; 0 where they lie behind start codes.
    pub(super) length_bytes: usize,
    /// The parameter sets of the sample entry, in Annex B form.
    pub(super) sets: Vec<u8>,
}

impl Form {
    /// The form of samples of `codec` with the configuration `record` of a container that has no boxes: what `avcC`, `hvcC`,
    /// `av1C` and `dOps` hold, or `AudioSpecificConfig`; and the media parameters that the record states. Errors name the box that
    /// would hold it.
    ///
    /// # Errors
    /// Where the record is cut off. One that is whole but not understood, or of another codec, is [`Form::Other`].
    pub(in crate::container) fn of_record(
        codec: Codec,
        record: &[u8],
    ) -> Result<(Form, Option<Media>), ReadError> {
        let body = |kind| {
            let content_bytes = record.len() as u64;
            Body::new(Head { kind: FourCc(kind), at: 0, bytes: 0, content_bytes }, record)
        };
        match codec {
            Codec::H264 => parse_h264(body(*b"avcC"), false),
            Codec::H265 => parse_h265(body(*b"hvcC")),
            Codec::Av1 => Ok(parse_av1(body(*b"av1C"))),
            Codec::Opus => parse_opus(body(*b"dOps")),
            Codec::Aac => {
                Ok(parse_aac(record).map_or((Form::Other, None), |(form, media)| (form, Some(media))))
            }
            _ => Ok((Form::Other, None)),
        }
    }
}

impl Form {
    /// The form of pictures of H.264 or H.265 in Annex B form, which bring their parameter sets; [`Form::Other`] of other codecs.
    pub(in crate::container) fn annex_b(codec: Codec) -> Form {
        let form = NalForm { length_bytes: 0, sets: Vec::new() };
        match codec {
            Codec::H264 => Form::H264(form),
            Codec::H265 => Form::H265(form),
            _ => Form::Other,
        }
    }
}

impl NalForm {
    fn new(length_size_minus_one: u8) -> NalForm {
        NalForm { length_bytes: usize::from(length_size_minus_one & 3) + 1, sets: Vec::new() }
    }

    fn add(&mut self, set: &[u8]) {
        self.sets.extend_from_slice(&[0, 0, 0, 1]);
        self.sets.extend_from_slice(set);
    }
}

/// Reads the codec of a track, and its media parameters where the entry states them.
///
/// # Errors
/// Where boxes are missing or cut off. A configuration that is whole but not understood is [`Form::Other`].
pub(super) fn parse(mut entry: Body<'_>) -> Result<(Form, Option<Media>), ReadError> {
    match &entry.kind.0 {
        b"avc1" | b"avc3" => {
            let in_band = entry.is(b"avc3");
            entry.take(VISUAL_BYTES, "the fields of a visual sample entry")?;
            parse_h264(entry.need(b"avcC")?, in_band)
        }
        b"hvc1" | b"hev1" => {
            entry.take(VISUAL_BYTES, "the fields of a visual sample entry")?;
            parse_h265(entry.need(b"hvcC")?)
        }
        b"av01" => {
            entry.take(VISUAL_BYTES, "the fields of a visual sample entry")?;
            Ok(parse_av1(entry.need(b"av1C")?))
        }
        b"mp4a" => {
            let channels = sound_fields(&mut entry)?;
            let mut esds = entry.need(b"esds")?;
            esds.version_and_flags()?;
            Ok(match decoder_config(esds.rest()) {
                Some((MPEG4_AUDIO, specific)) => find_descriptor(specific, 5)
                    .and_then(parse_aac)
                    .map_or((Form::Other, None), |(form, media)| (form, Some(media))),
                Some((MPEG1_LAYERS | MPEG2_LAYERS, _)) => frames(Codec::MpegAudio, channels),
                _ => (Form::Other, None),
            })
        }
        b"Opus" => {
            sound_fields(&mut entry)?;
            parse_opus(entry.need(b"dOps")?)
        }
        b"ac-3" => Ok(frames(Codec::Ac3, sound_fields(&mut entry)?)),
        b"ec-3" => Ok(frames(Codec::EAc3, sound_fields(&mut entry)?)),
        _ => Ok((Form::Other, None)),
    }
}

/// Reads the fields of an audio sample entry. Returns the channels.
fn sound_fields(entry: &mut Body<'_>) -> Result<u16, ReadError> {
    const WHAT: &str = "the fields of an audio sample entry";
    entry.take(SOUND_CHANNELS_AT, WHAT)?;
    let channels = entry.u16(WHAT)?;
    entry.take(SOUND_BYTES - SOUND_CHANNELS_AT - 2, WHAT)?;
    Ok(channels)
}

/// A codec with frames that describe themselves. The number of channels is the sample entry's, which many muxers leave at two
/// (14496-12 §12.2.3.2); at most eight.
fn frames(codec: Codec, channels: u16) -> (Form, Option<Media>) {
    let channels = u8::try_from(channels).unwrap_or(u8::MAX).clamp(1, 8);
    (Form::Frames { codec, channels }, None)
}

/// Bits a second on average, or at most, where the entry of a video track says it (`btrt`, ISO/IEC 14496-12 §8.5.2).
pub(super) fn bitrate_bps(mut entry: Body<'_>) -> Option<u32> {
    if !matches!(&entry.kind.0, b"avc1" | b"avc3" | b"hvc1" | b"hev1" | b"av01") {
        return None;
    }
    entry.take(VISUAL_BYTES, "the fields of a visual sample entry").ok()?;
    let mut btrt = entry.find(b"btrt").ok()??;
    btrt.u32("bufferSizeDB").ok()?;
    let (most, average) = (btrt.u32("maxBitrate").ok()?, btrt.u32("avgBitrate").ok()?);
    [average, most].into_iter().find(|&bits| bits > 0)
}

/// `avcC`.
fn parse_h264(mut avcc: Body<'_>, in_band: bool) -> Result<(Form, Option<Media>), ReadError> {
    avcc.take(4, "version, profile and level")?;
    let mut form = NalForm::new(avcc.u8("lengthSizeMinusOne")?);
    for mask in [0x1f, 0xff] {
        for _ in 0..avcc.u8("the number of parameter sets")? & mask {
            let bytes = avcc.u16("the length of a parameter set")?;
            form.add(avcc.take(bytes.into(), "a parameter set")?);
        }
    }
    let media = track::h264(&form.sets, in_band).ok();
    Ok((Form::H264(form), media))
}

/// `hvcC`: arrays of NAL units, of which the parameter sets are kept and what else a decoder may be told (SEI) is not.
fn parse_h265(mut hvcc: Body<'_>) -> Result<(Form, Option<Media>), ReadError> {
    hvcc.take(21, "profile, level and what pictures are like")?;
    let mut form = NalForm::new(hvcc.u8("lengthSizeMinusOne")?);
    for _ in 0..hvcc.u8("the number of arrays")? {
        hvcc.u8("the kind of an array")?;
        for _ in 0..hvcc.u16("the number of NAL units")? {
            let bytes = hvcc.u16("the length of a NAL unit")?;
            let nal = hvcc.take(bytes.into(), "a NAL unit")?;
            if nal.first().is_some_and(|&header| h265::NalType::of(header).is_parameter_set()) {
                form.add(nal);
            }
        }
    }
    let media = track::h265(&form.sets).ok();
    Ok((Form::H265(form), media))
}

/// `av1C` ("AV1 Codec ISO Media File Format Binding" §2.3). FFmpeg leaves it empty where it writes the header before the first
/// picture; the sequence header stands in the samples too.
fn parse_av1(av1c: Body<'_>) -> (Form, Option<Media>) {
    let config = av1c.rest().get(4..).unwrap_or_default().to_vec();
    let media = av1::sequence_unit(&config).and_then(|unit| track::av1(&unit).ok());
    (Form::Av1 { config }, media)
}

/// `dOps`. More than two channels are coded as several streams, of which no access units are made.
fn parse_opus(mut dops: Body<'_>) -> Result<(Form, Option<Media>), ReadError> {
    dops.u8("Version")?;
    let channels = dops.u8("OutputChannelCount")?;
    dops.take(8, "PreSkip, InputSampleRate and OutputGain")?;
    let family = dops.u8("ChannelMappingFamily")?;
    let is_plain = family == 0 && (1..=2).contains(&channels);
    Ok(if is_plain {
        (Form::Opus, Some(Media::Opus { channels: channels.into() }))
    } else {
        (Form::Other, None)
    })
}

/// A descriptor (14496-1 §8.3.3): its tag and content, and what follows.
fn descriptor(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, mut rest) = bytes.split_first()?;
    let mut length = 0;
    for _ in 0..4 {
        let (&byte, behind) = rest.split_first()?;
        rest = behind;
        length = length << 7 | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            break;
        }
    }
    let (content, behind) = rest.split_at_checked(length)?;
    Some((tag, content, behind))
}

/// The content of the first descriptor with this tag.
fn find_descriptor(mut bytes: &[u8], wanted: u8) -> Option<&[u8]> {
    loop {
        let (tag, content, behind) = descriptor(bytes)?;
        if tag == wanted {
            return Some(content);
        }
        bytes = behind;
    }
}

/// Finds DecoderConfig among the descriptors of an `esds`: its object type, and the descriptors in it.
fn decoder_config(descriptors: &[u8]) -> Option<(u8, &[u8])> {
    let stream = find_descriptor(descriptors, 3)?;
    let flags = *stream.get(2)?;
    // Perhaps another stream that it depends on, an address, a clock.
    let mut rest = stream.get(3..)?;
    if flags & 0x80 != 0 {
        rest = rest.get(2..)?;
    }
    if flags & 0x40 != 0 {
        let (length, behind) = rest.split_first()?;
        rest = behind.get(usize::from(*length)..)?;
    }
    if flags & 0x20 != 0 {
        rest = rest.get(2..)?;
    }
    let decoder = find_descriptor(rest, 4)?;
    Some((*decoder.first()?, decoder.get(13..)?))
}

/// `AudioSpecificConfig` of what ADTS can say: object types 1 to 4, frames of 1024 samples. Of spectral band replication and
/// parametric stereo ADTS has what they stand on.
fn parse_aac(config: &[u8]) -> Option<(Form, Media)> {
    let config = AudioSpecificConfig::parse(&mut BitReader::new(config), Some(0))?;
    let AudioSpecificConfig { object_type, rate_hz, channels, .. } = config;
    let frame_bytes = adts::HEADER_BYTES;
    let header = adts::Header { object_type, rate_hz, channels, checksum: false, frame_bytes, blocks: 1 };
    header.write()?;
    let mut element = Vec::new();
    if let Some(program) = &config.program {
        program.write_element(&mut element);
    }
    Some((Form::Aac { header, program: element }, track::aac(config)?))
}
