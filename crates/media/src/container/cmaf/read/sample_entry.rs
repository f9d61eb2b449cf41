//! Sample entries, read: the codec of a track and its configuration (ISO/IEC 14496-15 §5.3.3, 14496-14 §5.6, 14496-3 §1.6,
//! "Encapsulation of Opus in ISOBMFF" §4.3).

use super::body::Body;
use super::error::ReadError;
use crate::bitstream::adts;
use crate::bitstream::h264::BitReader;
use crate::container::cmaf::{Media, track};

/// Bytes of a sample entry in front of the boxes in it.
const VISUAL_BYTES: usize = 78;
const SOUND_BYTES: usize = 28;
/// MPEG-4 audio, as `esds` names it (ISO/IEC 14496-1 table 5).
const MPEG4_AUDIO: u8 = 0x40;

/// What turns a track's samples into access units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    H264 {
        /// Bytes of the length in front of each NAL unit, 1 to 4.
        length_bytes: usize,
        /// The parameter sets of the sample entry, in Annex B form.
        sets: Vec<u8>,
    },
    /// The header that each frame gets, all but its length.
    Aac(adts::Header),
    Opus,
    /// No access units are made of these.
    Other,
}

/// Reads the codec of a track, and what is to be known of it.
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
        b"mp4a" => {
            entry.take(SOUND_BYTES, "the fields of an audio sample entry")?;
            let mut esds = entry.need(b"esds")?;
            esds.version_and_flags()?;
            let found = audio_specific_config(esds.rest()).and_then(parse_aac);
            Ok(found.map_or((Form::Other, None), |(header, media)| (Form::Aac(header), Some(media))))
        }
        b"Opus" => {
            entry.take(SOUND_BYTES, "the fields of an audio sample entry")?;
            parse_opus(entry.need(b"dOps")?)
        }
        _ => Ok((Form::Other, None)),
    }
}

/// Bits a second on average, or at most, where the entry of a video track says it (`btrt`, ISO/IEC 14496-12 §8.5.2).
pub(super) fn bitrate_bps(mut entry: Body<'_>) -> Option<u32> {
    if !matches!(&entry.kind.0, b"avc1" | b"avc3") {
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
    let length_bytes = usize::from(avcc.u8("lengthSizeMinusOne")? & 3) + 1;
    let mut sets = Vec::new();
    for mask in [0x1f, 0xff] {
        for _ in 0..avcc.u8("the number of parameter sets")? & mask {
            let bytes = avcc.u16("the length of a parameter set")?;
            sets.extend_from_slice(&[0, 0, 0, 1]);
            sets.extend_from_slice(avcc.take(bytes.into(), "a parameter set")?);
        }
    }
    let media = track::h264(&sets, in_band).ok();
    Ok((Form::H264 { length_bytes, sets }, media))
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

/// Finds `AudioSpecificConfig` among the descriptors of an `esds`: ES, in it DecoderConfig, in it DecoderSpecificInfo.
fn audio_specific_config(descriptors: &[u8]) -> Option<&[u8]> {
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
    if *decoder.first()? != MPEG4_AUDIO {
        return None;
    }
    find_descriptor(decoder.get(13..)?, 5)
}

/// `AudioSpecificConfig` of what ADTS can say: object types 1 to 4, frames of 1024 samples. Of spectral band replication and
/// parametric stereo, which ADTS leaves to the decoder to find, what they stand on.
fn parse_aac(config: &[u8]) -> Option<(adts::Header, Media)> {
    let mut bits = BitReader::new(config);
    let mut object_type = bits.bits(5)?;
    let rate_hz = sampling_frequency(&mut bits)?;
    let channels = u8::try_from(bits.bits(4)?).ok()?;
    if matches!(object_type, 5 | 29) {
        sampling_frequency(&mut bits)?;
        object_type = bits.bits(5)?;
    }
    let is_short_frame = bits.bit()?;
    if is_short_frame || !(1..=7).contains(&channels) {
        return None;
    }
    let header = adts::Header {
        object_type: u8::try_from(object_type).ok()?,
        rate_hz,
        channels,
        checksum: false,
        frame_bytes: adts::HEADER_BYTES,
        blocks: 1,
    };
    header.write()?;
    let media = Media::Aac {
        config: header.audio_specific_config()?,
        rate_hz,
        channels: if channels == 7 { 8 } else { channels.into() },
    };
    Some((header, media))
}

/// Samples a second, by index or in full.
fn sampling_frequency(bits: &mut BitReader<'_>) -> Option<u32> {
    match bits.bits(4)? as usize {
        15 => bits.bits(24),
        index => adts::RATES_HZ.get(index).copied(),
    }
}
