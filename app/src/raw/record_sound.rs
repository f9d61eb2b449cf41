//! `glassline record rtp:FILE.sdp FILE.wav`: the sound of a description.

use super::options::{cannot_receive, describe};
use super::record::Args;
use crate::stop::{Second, StopSignals};
use crate::{failure, output};
use anyhow::{Context, Result};
use glassline_studio::raw::described;
use glassline_studio::raw::record::{Reason, SoundLimits, SoundProgress, SoundRecording};
use serde::Serialize;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often the line is written.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// The last line of `--json`.
#[derive(Serialize)]
struct Json<'a> {
    schema: u32,
    input: &'a str,
    output: &'a str,
    channels: u8,
    rate_hz: u32,
    bits: u8,
    /// Samples of each channel in the file.
    written_samples: u64,
    /// Of them those that are silence, since their packets were lost.
    silent_samples: u64,
    packets: u64,
    lost: u64,
    reordered: u64,
    written_bytes: u64,
    seconds: f64,
    ended: &'static str,
}

/// Records until the end is asked for, or the length is there.
pub(super) fn run(args: &Args) -> Result<()> {
    let description = describe(&args.input)?;
    let Some((flow, audio)) = description.audio() else {
        return Err(failure::usage(
            format!("{} describes no sound", args.input),
            "name a description with L16 or L24 (ST 2110-30, AES67), or FILE.y4m for its pictures",
        ));
    };
    let addresses = described::addresses(flow);
    let signals = StopSignals::catch()?;
    let mut recording =
        SoundRecording::open(flow, audio, &args.receiving.options()?, Path::new(&args.output))
            .map_err(|error| cannot_receive(&error, &addresses))?;
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    signals.call(Second::EndsProcess, move |_| asked.store(true, Ordering::Relaxed))?;
    tracing::info!(
        "receiving at {addresses}: L{}, {} Hz, {} channels",
        audio.bits,
        audio.rate_hz,
        audio.channels
    );
    let seconds = |progress: SoundProgress| progress.samples as f64 / f64::from(audio.rate_hz.max(1));
    let is_terminal = std::io::stderr().is_terminal();
    let mut told = Instant::now();
    let mut show = |progress: SoundProgress| {
        if is_terminal && told.elapsed() >= LINE_INTERVAL {
            told = Instant::now();
            let lost = progress.counters.packets.lost;
            output::print_to_stderr(&format!("\r{:.1} s of sound, {lost} packets lost ", seconds(progress)));
        }
    };
    let limits = SoundLimits { length: args.duration, silence: args.timeout };
    let ended = recording.run(limits, &stop, &mut show);
    if is_terminal {
        output::print_to_stderr("\r");
    }
    let progress = recording.progress();
    let packets = progress.counters.packets;
    tracing::info!(
        "{:.1} s of sound, {:.3} s of it silence for what was lost; {} packets, {} lost, {} reordered; {:.1} MB written",
        seconds(progress),
        progress.counters.silence as f64 / f64::from(audio.rate_hz.max(1)),
        packets.received,
        packets.lost,
        packets.reordered,
        progress.bytes as f64 / 1e6
    );
    if args.json {
        let json = Json {
            schema: 1,
            input: &args.input,
            output: &args.output,
            channels: audio.channels,
            rate_hz: audio.rate_hz,
            bits: audio.bits,
            written_samples: progress.samples,
            silent_samples: progress.counters.silence,
            packets: packets.received,
            lost: packets.lost,
            reordered: packets.reordered,
            written_bytes: progress.bytes,
            seconds: seconds(progress),
            ended: match &ended {
                Ok(Reason::Length) => "duration",
                Ok(Reason::SenderStopped) => "sender_stopped",
                Ok(Reason::Silence) => "timeout",
                Ok(Reason::Stopped) => "signal",
                Err(_) => "error",
            },
        };
        output::print(&format!("{}\n", serde_json::to_string(&json).context("cannot write JSON")?))?;
    }
    let reason = ended.map_err(|error| {
        failure::failed(
            format!("{}: {error}", args.output),
            format!("{:.1} s of sound are in it", seconds(progress)),
        )
    })?;
    if reason == Reason::Silence && packets.received == 0 {
        return Err(failure::failed(
            format!("nothing has come to {addresses} within {:?}", args.timeout.unwrap_or_default()),
            "is the sender on, does the group reach this interface (--interface), does a firewall drop it?",
        ));
    }
    Ok(())
}
