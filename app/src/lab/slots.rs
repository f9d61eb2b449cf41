//! `--slots`: a line for each picture of an experiment, for plots.

use anyhow::{Context, Result};
use glassline_lab::experiment::Outcome;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

/// Writes what became of each picture to a file of comma-separated values.
pub(super) fn write_slots(path: &Path, outcome: &Outcome) -> Result<()> {
    let begun = outcome.slots.first().map(|slot| slot.captured).unwrap_or_default();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let mut text =
        "captured_ms,shown_ms,delay_ms,bytes,ssim_y,daala_ssim_y,sent_bytes,capacity_bytes\n".to_owned();
    let mut delays = outcome.delays().into_iter();
    for slot in &outcome.slots {
        let or_none = |value: Option<String>| value.unwrap_or_default();
        let _ = writeln!(
            text,
            "{:.3},{},{},{},{},{},{},{}",
            ms(slot.captured.since(begun)),
            or_none(slot.shown.map(|shown| format!("{:.3}", ms(shown.since(begun))))),
            or_none(delays.next().map(|(_, delay)| format!("{:.3}", ms(delay)))),
            or_none(slot.bytes.map(|bytes| bytes.to_string())),
            or_none(slot.ssim_y.map(|ssim| format!("{ssim:.6}"))),
            or_none(slot.daala_ssim.map(|ssim| format!("{ssim:.6}"))),
            slot.sent_bytes,
            or_none(slot.capacity_bytes.map(|bytes| format!("{bytes:.0}"))),
        );
    }
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
