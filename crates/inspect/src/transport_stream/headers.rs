//! What the parameter sets of a video say of its pictures: size, profile, sampling, range.

use glassline_media::AccessUnit;
use glassline_media::bitstream::hdr::Range;
use glassline_media::bitstream::{av1, h264, h265};
use glassline_media::container::cmaf::Media;

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
        let media = Media::of(unit, false).ok()?;
        let pictures = media.pictures()?;
        let (profile, level, chroma, bit_depth) = match &media {
            Media::H264 { parsed, .. } => of_h264(parsed),
            Media::H265 { parsed, .. } => of_h265(parsed),
            Media::Av1 { parsed, .. } => of_av1(parsed),
            _ => return None,
        };
        Some(Headers {
            width_px: pictures.width_px,
            height_px: pictures.height_px,
            interlaced: match &media {
                Media::H264 { parsed, .. } => Some(parsed.interlaced),
                _ => None,
            },
            profile,
            level,
            chroma,
            bit_depth,
            codec_string: media.codec_string(),
            frame_rate_hz: pictures.frame_rate.map(|rate| rate.as_f64()),
            range: pictures.range(),
        })
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
