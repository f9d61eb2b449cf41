//! Streams that are decoded: with stages if Glassline itself demultiplexes them, and without if FFmpeg opens them.

use super::Args;
use super::report::{Measured, Opened};
use crate::lab::real_time::browser;
use crate::probe::{glass, server_clock, source};
use anyhow::{Context, Result};
use glassline_inspect::transport_stream::WallClock;
use glassline_io::child::Signals;
use glassline_io::clock::Clock;
use glassline_lab::glass::{Decoder, Page, Proof, SETTLE, Sights, Told};
use std::time::Duration;

/// How long FFmpeg may take to open an address, in addition to the measuring time.
const OPENING: Duration = Duration::from_secs(10);

/// Measures a stream of MPEG-TS: its access units go to FFmpeg one by one, as in `probe --glass`.
pub(super) fn ours(args: &Args, target: &str) -> Result<Measured> {
    let clock = server_clock::of(target, &args.trust);
    let mut source = source::open(target, &args.trust, Clock.now() + args.duration)?;
    let decoder = Decoder::start(SETTLE + args.duration, Sights::new(clock))?;
    let mut told = Told::default();
    let heard = glass::listen(&mut source, decoder, args.duration, |unit, now| told.unit(unit, now))
        .with_context(|| format!("cannot measure {target}"))?;
    told.finish();
    let proof = Proof::new(&told, &heard.look);
    let mut warnings = Vec::new();
    if heard.dropped_datagrams > 0 {
        warnings.push(format!("{} datagrams were not taken in time and are lost.", heard.dropped_datagrams));
    }
    let opened = Opened { source: target, by: "glassline", units: Some(heard.units) };
    Measured::new(opened, clock, heard.look, Some(proof), &heard.complaints, warnings)
}

/// Measures a stream that FFmpeg opens. Only decoded pictures are seen.
pub(super) fn by_ffmpeg(args: &Args, target: &str) -> Result<Measured> {
    let clock = here();
    let (timeout, time) = (OPENING + args.duration, SETTLE + args.duration);
    let decoder = Decoder::open(target, timeout, time, Sights::new(clock))?;
    decoder.listen(timeout, time);
    let (sights, complaints) = decoder.finish().with_context(|| format!("cannot measure {target}"))?;
    let opened = Opened { source: target, by: "ffmpeg", units: None };
    Measured::new(opened, clock, sights, None, &complaints, Vec::new())
}

/// Measures what a page shows.
pub(super) fn in_a_browser(args: &Args, page: &str) -> Result<Measured> {
    let browser = browser(args.browser.as_deref())?;
    // Signals are blocked before other threads start.
    let signals = Signals::block().context("cannot wait for signals")?;
    let (clock, url) = (here(), page.to_owned());
    let page = Page { browser, url: url.clone(), size: args.size };
    let sights = page
        .watch(clock, OPENING + args.duration, args.duration, &signals)
        .with_context(|| format!("cannot measure {url}"))?;
    let opened = Opened { source: &url, by: "chromium", units: None };
    Measured::new(opened, clock, sights, None, &[], Vec::new())
}

/// This machine's clock.
fn here() -> WallClock {
    let at = Clock.now();
    WallClock { at, utc: Clock.utc_at(at), whose: "local", uncertainty_ms: None }
}
