//! `glassline lab load source`: a live stream with a number and a send time in each packet.

use super::session::Line;
use crate::trust::Trust;
use crate::{failure, output, stop};
use anyhow::{Context, Result};
use glassline_io::clock::Clock;
use glassline_lab::load::stamped::Shape;
use glassline_lab::load::{Feed, Load, Settings, Target};
use glassline_media::FrameRate;
use glassline_media::quantity::{self, Bitrate};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::Ordering;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  glassline lab load source http://127.0.0.1:8080/live/load.ts
                                     publish 5 Mbit/s, 50 frames per second, until Ctrl-C
  glassline lab load source 'http://127.0.0.1:8080/live/load.ts?key=KEY' --rate 20M --frames 25 --duration 1m
  glassline lab load source --listen 127.0.0.1:9000
                                     wait for a server that fetches its stream (Cubemap: src=...)

The stream is valid MPEG-TS with a key frame each second, but no decoder can make pictures of it:
from its contents, `glassline lab load http` knows the right value of every byte and the delay of
each frame. Delays are reported if source and viewers run on one machine, which has one clock.";

/// Publish a live stream that is made for measurements
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// URL to publish to, by HTTP PUT
    #[arg(value_name = "URL", value_parser = url, required_unless_present = "listen")]
    url: Option<String>,
    /// Do not publish, but wait at this address for one request for the stream
    #[arg(long, value_name = "ADDR:PORT", conflicts_with = "url")]
    listen: Option<SocketAddr>,
    #[command(flatten)]
    trust: Trust,
    /// Average bit rate
    #[arg(long, value_name = "RATE", default_value = "5M", value_parser = bitrate)]
    rate: Bitrate,
    /// Frames per second
    #[arg(long, value_name = "RATE", default_value = "50", value_parser = quantity::parse_frame_rate)]
    frames: FrameRate,
    /// Stop after this time
    #[arg(long, value_name = "TIME", value_parser = quantity::parse_duration)]
    duration: Option<Duration>,
}

fn url(text: &str) -> Result<String, String> {
    Target::check(text).map(|()| text.to_owned()).map_err(|error| error.to_string())
}

fn bitrate(text: &str) -> Result<Bitrate, String> {
    text.parse().map_err(|error: quantity::QuantityError| error.to_string())
}

const STEP: Duration = Duration::from_millis(100);

/// Sends until the time is over or a signal comes.
pub(super) fn run(args: &Args) -> Result<()> {
    let shape = Shape::new(args.rate.bits_per_second(), args.frames).map_err(|least| {
        let least = Bitrate::from_bits_per_second(least.div_ceil(1000) * 1000);
        failure::usage(
            format!("{} cannot carry {} frames a second of two packets each", args.rate, args.frames),
            format!("use at least --rate {least}, or fewer --frames"),
        )
    })?;
    let stop = stop::on_signal()?;
    let feed = feed(args)?;
    let mut load = Load::new(Settings::of_nobody())?;
    load.feed(feed, shape)?;
    let began = Clock.now();
    let mut line = Line::new();
    while !stop.load(Ordering::Relaxed) {
        let passed = Clock.now().since(began);
        let left = args.duration.map_or(STEP, |duration| duration.saturating_sub(passed).min(STEP));
        if left.is_zero() {
            break;
        }
        load.run(left).map_err(|error| {
            failure::failed(
                format!("{error:#}"),
                "see docs/serve.md for the rules of publishing, and the server's log",
            )
        })?;
        let (frames, bytes, waiting) = load.progress().source.unwrap_or_default();
        line.write(&format!("{frames} frames, {} MB, {waiting} bytes wait", bytes / 1_000_000));
    }
    drop(line);
    let (frames, bytes, _) = load.progress().source.unwrap_or_default();
    let seconds = Clock.now().since(began).as_secs_f64();
    let rate = bytes as f64 * 8.0 / seconds / 1e6;
    let waits = load.source_waits().map_or((0, 0), |waits| (waits.quantile(0.5), waits.max()));
    let [usual, longest] = [waits.0, waits.1].map(|nanos| nanos as f64 / 1e6);
    output::print(&format!(
        "{frames} frames, {bytes} bytes in {seconds:.1} s: {rate:.2} Mbit/s\n\
         a frame waited {usual:.1} ms (median) to {longest:.1} ms (longest) until the server took it\n"
    ))
}

fn feed(args: &Args) -> Result<Feed> {
    if let Some(address) = args.listen {
        let listener = TcpListener::bind(address).map_err(|error| {
            failure::failed(format!("cannot listen on {address}: {error}"), "choose another address")
        })?;
        return Feed::serve(listener).context("cannot wait for a request");
    }
    let advice = "check host and port, and that the server runs";
    let failed = |error: anyhow::Error| failure::failed(format!("{error:#}"), advice);
    let target = Target::resolve(args.url.as_deref().unwrap_or_default()).map_err(failed)?;
    let trust = target.url().tls().then(|| args.trust.connector()).transpose()?;
    Feed::publish(&target, trust.as_ref()).map_err(failed)
}
