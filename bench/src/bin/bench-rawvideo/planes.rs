//! Ours to planes: the library's receiver, which unpacks them as they come, and somebody who takes its frames, both on one core.

use anyhow::{Context, Result};
use glassline_io::clock::Clock;
use glassline_media::Layout;
use glassline_studio::raw::described::{self, Options, PoolSize};
use glassline_studio::raw::receive::Receiver;
use serde_json::json;
use std::path::Path;
use std::time::Duration;

/// As many as `glassline record … null:` has.
const FRAMES: usize = 24;
const BEGINNING: Duration = Duration::from_secs(20);
const SILENCE: Duration = Duration::from_secs(1);

/// Receives until nothing comes any more, and prints what `glassline record --json` prints.
pub(crate) fn run(description: &Path, processor: usize) -> Result<()> {
    let description = described::read(description)?;
    let options = Options {
        processor: Some(processor),
        layout: Layout::Planar,
        pool: PoolSize::Frames(FRAMES),
        ..Options::default()
    };
    let settings = described::settings(&description, &options)?;
    let mut receiver = Receiver::start(&settings, Clock::new()).context("cannot receive")?;
    let mut time = BEGINNING;
    while receiver.next(time)?.is_some() {
        time = SILENCE;
    }
    let report = receiver.report();
    let counters = report.counters;
    let json = json!({
        "frames": report.frames(), "packets": counters.packets, "lost": counters.lost, "in_place": counters.in_place,
        "dropped_frames": counters.dropped, "kernel_drops": report.kernel_drops,
    });
    println!("{json}");
    Ok(())
}
