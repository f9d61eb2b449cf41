//! Streams that are decoded: those whose access units we see, with their stages, and whatever FFmpeg opens.

use super::Args;
use super::report::{Measured, Opened};
use crate::probe::{glass, server_clock, source};
use anyhow::{Context, Result};
use glassline_io::clock::Clock;
use glassline_lab::glass::{Decoder, Proof, SETTLE, Sights, Told};
use glassline_lab::inspect::WallClock;
use std::time::Duration;

/// So long FFmpeg may take to open an address, beside the time that is listened for.
const OPENING: Duration = Duration::from_secs(10);

/// A stream of MPEG-TS: its units go to FFmpeg one by one, as `probe --glass` gives them.
pub(super) fn ours(args: &Args) -> Result<Measured> {
    let clock = server_clock::of(&args.target, &args.trust);
    let mut source = source::open(&args.target, &args.trust, Clock.now() + args.duration)?;
    let decoder = Decoder::start(SETTLE + args.duration, Sights::new(clock))?;
    let mut told = Told::default();
    let heard = glass::listen(&mut source, decoder, args.duration, |unit, now| told.unit(unit, now))
        .with_context(|| format!("cannot measure {}", args.target))?;
    told.finish();
    let proof = Proof::new(&told, &heard.look);
    let mut warnings = Vec::new();
    if heard.dropped_datagrams > 0 {
        warnings.push(format!("{} datagrams were not taken in time and are lost.", heard.dropped_datagrams));
    }
    let opened = Opened { source: &args.target, by: "glassline", units: Some(heard.units) };
    Measured::new(opened, clock, heard.look, Some(proof), &heard.complaints, warnings)
}

/// Whatever FFmpeg opens. Only what it decodes is seen.
pub(super) fn by_ffmpeg(args: &Args) -> Result<Measured> {
    let at = Clock.now();
    let clock = WallClock { at, utc: Clock.utc_at(at), whose: "local", uncertainty_ms: None };
    let (patience, time) = (OPENING + args.duration, SETTLE + args.duration);
    let decoder = Decoder::open(&args.target, patience, time, Sights::new(clock))?;
    decoder.listen(patience, time);
    let (sights, complaints) = decoder.finish().with_context(|| format!("cannot measure {}", args.target))?;
    let opened = Opened { source: &args.target, by: "ffmpeg", units: None };
    Measured::new(opened, clock, sights, None, &complaints, Vec::new())
}
