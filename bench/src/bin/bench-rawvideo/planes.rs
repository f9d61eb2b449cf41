//! Ours to planes: the library's receiver, and each frame unpacked as it comes, both on one core.

use anyhow::{Context, Result};
use glassline_engine::raw::described::{self, Options, PoolSize};
use glassline_engine::raw::receive::Receiver;
use glassline_io::clock::Clock;
use glassline_media::pixels::Unpacker;
use serde_json::json;
use std::path::Path;
use std::time::Duration;

/// Frames that there is memory for: at 900 frames a second as much time as the usual eight are at 120.
const FRAMES: usize = 60;
const BEGINNING: Duration = Duration::from_secs(20);
const SILENCE: Duration = Duration::from_secs(1);

/// Receives until nothing comes any more, and prints what `glassline record --json` prints.
pub(crate) fn run(description: &Path, processor: usize) -> Result<()> {
    let description = described::read(description)?;
    let options =
        Options { processor: Some(processor), pool: PoolSize::Frames(FRAMES), ..Options::default() };
    let settings = described::settings(&description, &options)?;
    let mut receiver = Receiver::start(&settings, Clock::new()).context("cannot receive")?;
    let mut unpacker = Unpacker::new();
    let mut time = BEGINNING;
    while let Some(frame) = receiver.next(time)? {
        drop(unpacker.unpack(&frame.picture));
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
