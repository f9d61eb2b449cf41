//! Sample entries, written (ISO/IEC 14496-12 §12, 14496-14 §5.6, 14496-15 §5.3.3 and §8.3.3, ETSI TS 102 366 annex F).

use super::boxes::{Fields, full, plain};
use super::track::{Media, Pictures, mp3_object_type};
use crate::bitstream::h264::Sps;
use crate::bitstream::hdr::Hdr;
use crate::bitstream::{ac3, h265, opus};
/// The sample entry (14496-12 §8.5.2).
pub(super) fn write_sample_entry(media: &Media, out: &mut Vec<u8>) {
    match media {
        Media::H264 { in_band, .. } => {
            write_picture_entry(if *in_band { b"avc3" } else { b"avc1" }, media, out, |out| {
                plain(out, b"avcC", |out| write_configuration(media, out));
            });
        }
        Media::H265 { .. } => write_picture_entry(b"hvc1", media, out, |out| {
            plain(out, b"hvcC", |out| write_configuration(media, out));
        }),
        Media::Av1 { .. } => write_picture_entry(b"av01", media, out, |out| {
            plain(out, b"av1C", |out| write_configuration(media, out));
        }),
        Media::Aac { config, written } => {
            let (channels, rate_hz) = (config.output_channels().into(), config.output_rate_hz());
            write_sound_entry(b"mp4a", channels, rate_hz, out, |out| write_esds(written, out));
        }
        Media::Opus { channels } => write_sound_entry(b"Opus", *channels, opus::RATE_HZ, out, |out| {
            plain(out, b"dOps", |out| write_configuration(media, out));
        }),
        Media::Mp3 { rate_hz, channels, low_rate } => {
            write_sound_entry(b"mp4a", *channels, *rate_hz, out, |out| {
                write_descriptors(mp3_object_type(*low_rate), &[], out);
            });
        }
        Media::Ac3 { header } => {
            let kind = if header.enhanced { b"ec-3" } else { b"ac-3" };
            write_sound_entry(kind, header.channels().into(), header.rate_hz, out, |out| {
                write_ac3_configuration(header, out);
            });
        }
    }
}

impl Media {
    /// What a decoder is told before the first sample, as the codec's box has it: of H.264 the `AVCDecoderConfigurationRecord`, of
    /// H.265 and AV1 theirs, of AAC the `AudioSpecificConfig`, of Opus what is in `dOps`. Empty of MP3, AC-3 and E-AC-3.
    pub fn configuration(&self) -> Vec<u8> {
        let mut out = Vec::new();
        write_configuration(self, &mut out);
        out
    }
}

/// Appends what a decoder is told before the first sample, without a box around it: `AVCDecoderConfigurationRecord`,
/// `HEVCDecoderConfigurationRecord`, `AV1CodecConfigurationRecord`, `AudioSpecificConfig`, or what `dOps` has of Opus; nothing of
/// codecs with frames that say all themselves.
pub(super) fn write_configuration(media: &Media, out: &mut Vec<u8>) {
    match media {
        Media::H264 { sps, pps, parsed, .. } => write_h264_configuration(sps, pps, parsed, out),
        Media::H265 { sets, parsed, .. } => write_h265_configuration(sets, parsed, out),
        Media::Av1 { sequence, parsed, .. } => parsed.write_configuration(sequence, out),
        Media::Aac { written, .. } => out.extend_from_slice(written),
        Media::Opus { channels } => {
            out.u8(0);
            out.u8(*channels as u8);
            // A live stream is joined on its way: nothing in front is the encoder's own.
            out.u16(0);
            out.u32(opus::RATE_HZ);
            out.u16(0);
            out.u8(0);
        }
        Media::Mp3 { .. } | Media::Ac3 { .. } => {}
    }
}

/// A sample entry of pictures (14496-12 §12.1.3).
fn write_picture_entry(
    kind: &[u8; 4],
    media: &Media,
    out: &mut Vec<u8>,
    configuration: impl FnOnce(&mut Vec<u8>),
) {
    let Some(pictures) = media.pictures() else { return };
    plain(out, kind, |out| {
        out.zeros(6);
        out.u16(1);
        out.zeros(16);
        out.u16(u16::try_from(pictures.width_px).unwrap_or(u16::MAX));
        out.u16(u16::try_from(pictures.height_px).unwrap_or(u16::MAX));
        // 72 dots an inch; players ignore it.
        out.u32(0x0048_0000);
        out.u32(0x0048_0000);
        out.u32(0);
        out.u16(1);
        out.zeros(32);
        out.u16(0x18);
        out.u16(u16::MAX);
        configuration(out);
        write_colour(&pictures, out);
        write_light(&pictures.hdr, out);
        if let Some((horizontal, vertical)) = pictures.sample_aspect {
            plain(out, b"pasp", |out| {
                out.u32(horizontal.into());
                out.u32(vertical.into());
            });
        }
    });
}

/// What is in `hvcC` (14496-15 §8.3.2.1).
fn write_h265_configuration(sets: &[Vec<u8>], parsed: &h265::Sps, out: &mut Vec<u8>) {
    out.u8(1);
    parsed.profile.write(out);
    // How pictures divide for decoding in parallel is not said.
    out.u16(0xf000);
    out.u8(0xfc);
    out.u8(0xfc | parsed.chroma_format);
    out.u8(0xf8 | parsed.bit_depth.saturating_sub(8));
    out.u8(0xf8 | parsed.chroma_bit_depth.saturating_sub(8));
    // Nor the average frame rate.
    out.u16(0);
    out.u8(parsed.temporal_layers << 3 | u8::from(parsed.temporal_nesting) << 2 | 3);
    let arrays: Vec<_> = sets.chunk_by(|one, next| one[0] >> 1 == next[0] >> 1).collect();
    out.u8(arrays.len() as u8);
    for array in arrays {
        // All of this kind are here, and none among the samples.
        out.u8(0x80 | array[0][0] >> 1 & 0x3f);
        out.u16(array.len() as u16);
        for set in array {
            out.u16(set.len() as u16);
            out.extend_from_slice(set);
        }
    }
}

/// `dac3` or `dec3` (ETSI TS 102 366 §F.4, §F.6).
fn write_ac3_configuration(header: &ac3::Header, out: &mut Vec<u8>) {
    let bits = |fields: &[(u32, u32)]| {
        fields.iter().fold(0u64, |all, (value, bits)| all << bits | u64::from(*value))
    };
    let (mode, low) = (u32::from(header.channel_mode), u32::from(header.low_frequencies));
    let (rate, version, service) =
        (u32::from(header.rate_code), u32::from(header.version), u32::from(header.service));
    if header.enhanced {
        let frame_bits = header.frame_bytes as u64 * 8;
        let bitrate = frame_bits * u64::from(header.rate_hz) / u64::from(header.samples().max(1)) / 1000;
        let first = bits(&[(bitrate.min(0x1fff) as u32, 13), (0, 3)]);
        let substream =
            [(rate, 2), (version, 5), (0, 2), (service, 3), (mode, 3), (low, 1), (0, 3), (0, 4), (0, 1)];
        plain(out, b"dec3", |out| {
            out.u16(first as u16);
            out.extend_from_slice(&(bits(&substream) as u32).to_be_bytes()[1..]);
        });
    } else {
        let index = header.rate_index.into();
        let fields = [(rate, 2), (version, 5), (service, 3), (mode, 3), (low, 1), (index, 5), (0, 5)];
        plain(out, b"dac3", |out| out.extend_from_slice(&(bits(&fields) as u32).to_be_bytes()[1..]));
    }
}

/// What is in `avcC` (14496-15 §5.3.3.1).
fn write_h264_configuration(sps: &[u8], pps: &[Vec<u8>], parsed: &Sps, out: &mut Vec<u8>) {
    out.extend_from_slice(&[1, parsed.profile, parsed.constraints, parsed.level, 0xfc | 3, 0xe0 | 1]);
    out.u16(sps.len() as u16);
    out.extend_from_slice(sps);
    out.u8(pps.len() as u8);
    for pps in pps {
        out.u16(pps.len() as u16);
        out.extend_from_slice(pps);
    }
    if matches!(parsed.profile, 100 | 110 | 122 | 144) {
        let depth = 0xf8 | parsed.bit_depth.saturating_sub(8);
        out.extend_from_slice(&[0xfc | parsed.chroma_format, depth, depth, 0]);
    }
}

/// `colr` (14496-12 §12.1.5).
fn write_colour(pictures: &Pictures, out: &mut Vec<u8>) {
    let Some(colour) = pictures.colour else { return };
    plain(out, b"colr", |out| {
        out.extend_from_slice(b"nclx");
        out.u16(colour.primaries.into());
        out.u16(colour.transfer.into());
        out.u16(colour.matrix.into());
        out.u8(u8::from(colour.full_range) << 7);
    });
}

/// Appends `mdcv` and `clli` (14496-12 §12.1.6, §12.1.7), which have the same fields as the messages.
fn write_light(hdr: &Hdr, out: &mut Vec<u8>) {
    if let Some(mastering) = hdr.mastering {
        plain(out, b"mdcv", |out| out.extend_from_slice(&mastering));
    }
    if let Some(light) = hdr.light {
        plain(out, b"clli", |out| out.extend_from_slice(&light));
    }
}

fn write_sound_entry(
    kind: &[u8; 4],
    channels: u16,
    rate_hz: u32,
    out: &mut Vec<u8>,
    configuration: impl FnOnce(&mut Vec<u8>),
) {
    plain(out, kind, |out| {
        out.zeros(6);
        out.u16(1);
        out.zeros(8);
        out.u16(channels);
        out.u16(16);
        out.zeros(4);
        // 16.16; rates above 65535 Hz stand in the configuration alone.
        out.u32(u16::try_from(rate_hz).map_or(0, |rate| u32::from(rate) << 16));
        configuration(out);
    });
}

/// `esds` of AAC.
fn write_esds(config: &[u8], out: &mut Vec<u8>) {
    write_descriptors(0x40, config, out);
}

/// `esds` (ISO/IEC 14496-14 §5.6) with the descriptors of 14496-1 §7.2.6; `config` is of fewer than 64 bytes, and left out where it
/// is empty.
fn write_descriptors(object_type: u8, config: &[u8], out: &mut Vec<u8>) {
    let length = config.len() as u8;
    let specific = if config.is_empty() { 0 } else { length + 2 };
    full(out, b"esds", 0, 0, |out| {
        // ES, DecoderConfig, DecoderSpecificInfo, SLConfig: tag, length, content.
        out.extend_from_slice(&[0x03, 21 + specific, 0, 0, 0]);
        out.extend_from_slice(&[0x04, 13 + specific, object_type, 0x05 << 2 | 1]);
        out.zeros(11);
        if !config.is_empty() {
            out.extend_from_slice(&[0x05, length]);
            out.extend_from_slice(config);
        }
        out.extend_from_slice(&[0x06, 1, 2]);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bitstream::h264::ColourDescription;

    #[test]
    fn colour_and_shape_of_the_parameter_set_stand_in_the_sample_entry() {
        // x264, 1280×720, high profile.
        let sps = [
            0x67, 0x64, 0x00, 0x1f, 0xac, 0xd9, 0x40, 0x50, 0x05, 0xbb, 0x01, 0x10, 0x00, 0x00, 0x03, 0x00,
            0x10, 0x00, 0x00, 0x03, 0x03, 0x20, 0xf1, 0x83, 0x19, 0x60,
        ];
        let mut parsed = Sps::parse(&sps[1..]).unwrap();
        let entry = |parsed: Sps, hdr: Hdr| {
            let mut out = Vec::new();
            let media = Media::H264 { sps: sps.to_vec(), pps: vec![vec![0x68]], in_band: false, parsed, hdr };
            write_sample_entry(&media, &mut out);
            out
        };
        (parsed.colour, parsed.sample_aspect) = (None, None);
        let bare = entry(parsed, Hdr::default());
        // Width and height (14496-12 §12.1.3).
        assert_eq!(bare[32..36], [0x05, 0x00, 0x02, 0xd0]);
        parsed.colour = Some(ColourDescription { full_range: true, primaries: 9, transfer: 14, matrix: 9 });
        parsed.sample_aspect = Some((64, 45));
        let told = entry(parsed, Hdr::default());
        let boxes = b"\0\0\0\x13colrnclx\0\x09\0\x0e\0\x09\x80\0\0\0\x10pasp\0\0\0\x40\0\0\0\x2d";
        assert_eq!(told[bare.len()..], boxes[..]);
        assert_eq!(told[..4], (told.len() as u32).to_be_bytes());
        let hdr = Hdr { mastering: Some([7; 24]), light: Some([1, 2, 3, 4]), ..Hdr::default() };
        let light = [b"\0\0\0\x20mdcv", &[7; 24][..], b"\0\0\0\x0cclli\x01\x02\x03\x04"].concat();
        let lit = entry(parsed, hdr);
        assert_eq!(lit[bare.len() + 19..][..light.len()], light[..]);
    }
}
