//! `EXT-X-DATERANGE` (the draft §4.4.5.1): times that cues of SCTE 35 announce.

use super::super::date::date_time;
use crate::packager::{DateRange, Presentation};
use glassline_media::Utc;
use std::fmt::Write as _;

/// Writes the ranges that are not over at `from`, where the playlist's first segment begins. All of them stand in front of the
/// segments, so that a playlist that skips some has them, too.
///
/// Attributes that were told once stay as they are: a splice that is returned from gets a second tag of the same name for that
/// (§4.4.5.1.1). Each has `START-DATE`, which players insist on.
pub(super) fn write_date_ranges(out: &mut String, presentation: &Presentation, from: Utc) {
    for range in presentation.date_ranges(from) {
        let DateRange { id, start, planned, out: left, back, command, .. } = range;
        let begin = |out: &mut String| {
            let _ = write!(out, "#EXT-X-DATERANGE:ID=\"{id}\",START-DATE=\"{}\"", date_time(*start));
        };
        if left.is_some() || command.is_some() {
            begin(out);
            if let Some(planned) = planned {
                let _ = write!(out, ",PLANNED-DURATION={:.3}", planned.as_secs_f64());
            }
            for (name, section) in [("OUT", left), ("CMD", command)] {
                if let Some(section) = section {
                    write_section(out, name, section);
                }
            }
            out.push('\n');
        }
        if let Some((_, section)) = back {
            begin(out);
            if let Some(duration) = range.duration() {
                let _ = write!(out, ",DURATION={:.3}", duration.as_secs_f64());
            }
            write_section(out, "IN", section);
            out.push('\n');
        }
    }
}

/// A section as a number with base 16.
fn write_section(out: &mut String, name: &str, section: &[u8]) {
    let _ = write!(out, ",SCTE35-{name}=0x");
    for byte in section {
        let _ = write!(out, "{byte:02X}");
    }
}
