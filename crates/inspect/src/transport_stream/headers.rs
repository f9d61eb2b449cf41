//! What the parameter sets of a video say of its pictures: size, profile, sampling, range.

use glassline_media::bitstream::h264::ColourDescription;
use glassline_media::bitstream::hdr::Range;
use glassline_media::bitstream::{av1, h264, h265};
use glassline_media::container::cmaf::Media;
use glassline_media::{AccessUnit, Codec, FrameRate};

/// Sampling of the colours by `chroma_format_idc` (H.264 table 6-1, H.265 the same).
const CHROMA: [&str; 4] = ["4:0:0", "4:2:0", "4:2:2", "4:4:4"];

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Headers {
    pub(super) width_px: u32,
    pub(super) height_px: u32,
    /// Only H.264 says it there.
    pub(super) interlaced: Option<bool>,
    pub(super) profile: String,
    pub(super) level: String,
    pub(super) chroma: &'static str,
    pub(super) bit_depth: u8,
    pub(super) codec_string: String,
    pub(super) frame_rate_hz: Option<f64>,
    pub(super) range: Range,
}

impl Headers {
    /// Those of a unit; `None` where it has none that can be read.
    pub(super) fn of(unit: &AccessUnit) -> Option<Headers> {
        let mut headers = match unit.codec {
            Codec::H264 => {
                let sets = h264::nals(&unit.data).filter(|nal| nal.kind() == h264::NalType::Sps);
                let sps = sets.filter_map(|nal| h264::Sps::parse(nal.payload()).ok()).last()?;
                let (size, interlaced) = ((sps.width_px, sps.height_px), Some(sps.interlaced));
                Headers::new(size, interlaced, of_h264(&sps), sps.codec_string(), sps.frame_rate, sps.colour)
            }
            Codec::H265 => {
                let is_sps = |byte: &u8| h265::NalType::of(*byte) == h265::NalType::Sps;
                let sets = h264::nals(&unit.data).filter(|nal| nal.bytes.first().is_some_and(is_sps));
                let sps = sets.filter_map(|nal| h265::Sps::parse(nal.bytes).ok()).last()?;
                let size = (sps.width_px, sps.height_px);
                Headers::new(size, None, of_h265(&sps), sps.codec_string(), sps.frame_rate, sps.colour)
            }
            Codec::Av1 => {
                let sequence = av1::Head::of(&unit.data).parse_sequence()?;
                let size = (sequence.width_px, sequence.height_px);
                let (name, rate) = (sequence.codec_string(), sequence.frame_rate);
                Headers::new(size, None, of_av1(&sequence), name, rate, sequence.colour)
            }
            _ => return None,
        };
        // A message in front of the picture may say more of its light than the parameter set.
        if let Some(pictures) = Media::of(unit, false).ok().and_then(|media| media.pictures()) {
            headers.range = pictures.range();
        }
        Some(headers)
    }

    fn new(
        (width_px, height_px): (u32, u32),
        interlaced: Option<bool>,
        (profile, level, chroma, bit_depth): Coding,
        codec_string: String,
        frame_rate: Option<FrameRate>,
        colour: Option<ColourDescription>,
    ) -> Headers {
        let frame_rate_hz = frame_rate.map(|rate| rate.as_f64());
        let range = colour.map_or(Range::Sdr, |colour| Range::of(colour.transfer));
        Headers {
            width_px,
            height_px,
            interlaced,
            profile,
            level,
            chroma,
            bit_depth,
            codec_string,
            frame_rate_hz,
            range,
        }
    }
}

/// Profile, level, sampling and depth.
type Coding = (String, String, &'static str, u8);

/// H.264 annex A.
fn of_h264(sps: &h264::Sps) -> Coding {
    let profile = match sps.profile {
        // constraint_set1: what main profile decodes, too.
        66 if sps.constraints & 0x40 != 0 => "Constrained Baseline".into(),
        66 => "Baseline".into(),
        77 => "Main".into(),
        88 => "Extended".into(),
        100 => "High".into(),
        110 => "High 10".into(),
        122 => "High 4:2:2".into(),
        244 => "High 4:4:4 Predictive".into(),
        other => format!("profile {other}"),
    };
    let level = level_of_h264(sps.profile, sps.constraints, sps.level);
    (profile, level, CHROMA[usize::from(sps.chroma_format.min(3))], sps.bit_depth)
}

/// The level. Level 1b has the number of 1.1 with constraint_set3 in the profiles that are older than it, and 9 in the others
/// (H.264 §A.3.1, §A.3.2).
fn level_of_h264(profile: u8, constraints: u8, level: u8) -> String {
    let is_old = matches!(profile, 66 | 77 | 88);
    match level {
        9 => "1b".to_owned(),
        11 if is_old && constraints & 0x10 != 0 => "1b".to_owned(),
        level => format!("{}.{}", level / 10, level % 10),
    }
}

/// H.265 annex A.
fn of_h265(sps: &h265::Sps) -> Coding {
    let name = match sps.profile.profile {
        1 => "Main".to_owned(),
        2 => "Main 10".to_owned(),
        3 => "Main Still Picture".to_owned(),
        4 => "Format Range Extensions".to_owned(),
        other => format!("profile {other}"),
    };
    let tier = if sps.profile.high_tier { ", High tier" } else { "" };
    let level = format!("{}.{}", sps.profile.level / 30, sps.profile.level % 30 / 3);
    (name + tier, level, CHROMA[usize::from(sps.chroma_format.min(3))], sps.bit_depth)
}

/// AV1 §6.4.1, annex A.
fn of_av1(sequence: &av1::SequenceHeader) -> Coding {
    let name = match sequence.profile {
        0 => "Main".to_owned(),
        1 => "High".to_owned(),
        2 => "Professional".to_owned(),
        other => format!("profile {other}"),
    };
    let tier = if sequence.high_tier { ", High tier" } else { "" };
    let level = match sequence.level {
        31 => "unlimited".to_owned(),
        index => format!("{}.{}", 2 + index / 4, index % 4),
    };
    let chroma = match (sequence.monochrome, sequence.subsampling) {
        (true, _) => CHROMA[0],
        (_, (true, true)) => CHROMA[1],
        (_, (true, false)) => CHROMA[2],
        _ => CHROMA[3],
    };
    (name + tier, level, chroma, sequence.bit_depth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn level_1b_is_told_from_1_1() {
        let cases = [
            ((66, 0x10, 11), "1b"),
            ((77, 0x50, 11), "1b"),
            ((88, 0xd0, 11), "1b"),
            ((66, 0xe0, 11), "1.1"),
            ((100, 0x10, 11), "1.1"),
            ((100, 0, 9), "1b"),
            ((66, 0x10, 31), "3.1"),
            ((100, 0, 40), "4.0"),
        ];
        for ((profile, constraints, level), expected) in cases {
            assert_eq!(
                level_of_h264(profile, constraints, level),
                expected,
                "{profile} {constraints:x} {level}"
            );
        }
    }
}
