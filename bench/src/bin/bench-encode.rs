//! From a picture to its last TS packet: `glassline encode` beside FFmpeg, both with x264, as black boxes.
//!
//! ```text
//! writer thread: y4m picture at its time ──► stdin │ encoder │ stdout ──► reader: TS packets, each with its time
//! ```
//! A picture's delay runs from the start of its write (or from its due time, where the pipe was still taken by the
//! picture before) to the read of its first and of its last packet. The k-th PES packet of the video is the k-th
//! picture: neither drops any from a pipe, and a count that doesn't fit fails the run.
//!
//! Beside it what `glassline encode --stats` tells from inside: x264's own time, and what is added to it.

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use glassline_bench::report::{OURS, Report};
use glassline_bench::{machine, process};
use glassline_io::clock::Clock;
use glassline_media::container::ts::{PACKET_BYTES, Packet};
use glassline_media::container::y4m;
use glassline_media::measure::pattern::Pattern;
use glassline_media::{FrameRate, Size, Time, Utc};
use hdrhistogram::Histogram;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;

/// From a picture to its TS packets, beside FFmpeg
#[derive(Debug, Parser)]
struct Args {
    /// Seconds of each measurement
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Seconds before it
    #[arg(long, default_value_t = 2)]
    warm_up: u64,
    /// Measurements of each encoder
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// Folder for encode.json
    #[arg(long, value_name = "FOLDER", default_value = "target/bench")]
    out: PathBuf,
}

const PRESETS: [&str; 2] = ["ultrafast", "superfast"];
const SIZE: Size = Size { width: 1280, height: 720 };
const RATE: u32 = 50;
/// The clip, which repeats: whole seconds, so that its seam falls on a key frame.
const CLIP_PICTURES: u64 = 100;
const PEER: &str = "ffmpeg";
/// Above this share of one core that others used, delays are not the encoder's.
const DISTURBED: f64 = 0.1;

fn main() -> Result<()> {
    let args = Args::parse();
    let rate = FrameRate::new(RATE, 1).context("the frame rate is above zero")?;
    let mut report = Report::new("encode");
    report.note("1280x720 at 50 pictures/s, 5 Mbit/s, VBV and key frames of 1 s; nobody is pinned");
    let has_peer = Command::new(PEER).arg("-version").stdout(Stdio::null()).status().is_ok();
    if !has_peer {
        report.note("SKIPPED ffmpeg: it is not installed (apt install ffmpeg)");
    }
    let clip = Clip::draw(rate);
    for preset in PRESETS {
        let case = format!("{preset}, y4m in and TS out by pipes");
        for _ in 0..args.runs {
            measure(ours(preset)?, OURS, &case, &clip, &args, &mut report)?;
            if has_peer {
                measure(theirs(preset), PEER, &case, &clip, &args, &mut report)?;
            }
        }
        from_inside(preset, &args, &mut report)?;
    }
    report.finish(&args.out)
}

fn ours(preset: &str) -> Result<Command> {
    let mut command = Command::new(machine::glassline()?);
    command.args([
        "encode",
        "-",
        "-",
        "--preset",
        preset,
        "--bitrate",
        "5M",
        "--vbv",
        "1s",
        "--keyint",
        "1s",
    ]);
    Ok(command)
}

/// FFmpeg with all that is known to keep it from waiting, but `-fflags nobuffer`: it loses the first picture.
fn theirs(preset: &str) -> Command {
    let mut command = Command::new(PEER);
    command.args("-hide_banner -loglevel error -nostats -probesize 32 -analyzeduration 0".split(' '));
    command.args(
        "-f yuv4mpegpipe -i - -c:v libx264 -tune zerolatency -b:v 5M -maxrate 5M -bufsize 5M".split(' '),
    );
    command.args(["-preset", preset]);
    command.args(
        "-g 50 -fps_mode passthrough -f mpegts -muxdelay 0 -muxpreload 0 -flush_packets 1 -".split(' '),
    );
    command
}

/// The pictures, drawn once.
struct Clip {
    header: Vec<u8>,
    pictures: Vec<Vec<u8>>,
    rate: FrameRate,
}

impl Clip {
    fn draw(rate: FrameRate) -> Clip {
        let mut pattern = Pattern::new(SIZE, rate);
        let mut header = Vec::new();
        let mut pictures = Vec::new();
        for number in 0..CLIP_PICTURES {
            let picture = pattern.draw(number, Time::ZERO + rate.time_of(number), Utc::default());
            if number == 0 {
                y4m::write_header(&y4m::Header::of(&picture, rate), &mut header);
            }
            let mut bytes = Vec::new();
            y4m::write_picture(&picture, &mut bytes);
            pictures.push(bytes);
        }
        Clip { header, pictures, rate }
    }

    /// Writes `count` pictures at their times and returns when each was there to be taken, and when all but what the
    /// pipe holds was taken.
    fn play(&self, mut into: ChildStdin, count: u64, clock: Clock) -> Result<Vec<Written>> {
        into.write_all(&self.header).context("the encoder takes no header")?;
        let start = clock.now();
        let mut written = Vec::new();
        for (number, picture) in (0..count).zip(self.pictures.iter().cycle()) {
            let due = start + self.rate.time_of(number);
            let late = clock.now() > due;
            if !late {
                thread::sleep(due.since(clock.now()));
            }
            let offered = if late { due } else { clock.now() };
            into.write_all(picture).with_context(|| format!("the encoder takes no picture {number}"))?;
            written.push(Written { offered, taken: clock.now() });
        }
        Ok(written)
    }
}

/// A picture's way into the encoder.
#[derive(Clone, Copy, Debug)]
struct Written {
    offered: Time,
    taken: Time,
}

/// A picture's packets, as read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Arrival {
    first: Time,
    last: Time,
}

/// Finds pictures in a transport stream.
#[derive(Debug, Default)]
struct Arrivals {
    rest: Vec<u8>,
    video: Option<u16>,
    pictures: Vec<Arrival>,
}

impl Arrivals {
    fn push(&mut self, bytes: &[u8], now: Time) -> Result<()> {
        self.rest.extend_from_slice(bytes);
        let (packets, left) = self.rest.as_chunks::<PACKET_BYTES>();
        for bytes in packets {
            let packet = Packet::parse(bytes).context("the encoder writes no transport stream")?;
            let starts_video = packet.unit_start && matches!(packet.payload, [0, 0, 1, 0xE0..=0xEF, ..]);
            if starts_video && self.video.is_none() {
                self.video = Some(packet.pid);
            }
            if self.video != Some(packet.pid) || !packet.has_payload {
                continue;
            }
            match self.pictures.last_mut() {
                Some(picture) if !starts_video => picture.last = now,
                _ => self.pictures.push(Arrival { first: now, last: now }),
            }
        }
        self.rest = left.to_vec();
        Ok(())
    }
}

/// Ends the encoder whatever happens.
struct Encoder(Child);

impl Drop for Encoder {
    fn drop(&mut self) {
        // Fails only where it has ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn measure(
    mut command: Command,
    who: &str,
    case: &str,
    clip: &Clip,
    args: &Args,
    report: &mut Report,
) -> Result<()> {
    let clock = Clock::new();
    let skip = usize::try_from(args.warm_up * u64::from(RATE))?;
    let count = (args.warm_up + args.seconds) * u64::from(RATE);
    let (started, others_before) = (clock.now(), process::spent_on_others()?);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut encoder = Encoder(child.with_context(|| format!("cannot start {who}"))?);
    let input = encoder.0.stdin.take().context("the encoder's input")?;
    let mut output = encoder.0.stdout.take().context("the encoder's output")?;
    let (written, arrivals) = thread::scope(|scope| -> Result<_> {
        let writer = scope.spawn(|| clip.play(input, count, clock));
        let mut arrivals = Arrivals::default();
        let mut buffer = vec![0; 64 << 10];
        loop {
            let length = output.read(&mut buffer).with_context(|| format!("cannot read from {who}"))?;
            let now = clock.now();
            if length == 0 {
                break;
            }
            arrivals.push(&buffer[..length], now)?;
        }
        let written = writer.join().map_err(|_| anyhow::anyhow!("the writer's thread panicked"))??;
        Ok((written, arrivals.pictures))
    })?;
    let status = encoder.0.wait().with_context(|| format!("cannot wait for {who}"))?;
    let mut told = String::new();
    if let Some(errors) = &mut encoder.0.stderr {
        errors.read_to_string(&mut told).with_context(|| format!("cannot read what {who} tells"))?;
    }
    ensure!(status.success(), "{who} ended with {status}:\n{told}");
    ensure!(
        written.len() == arrivals.len(),
        "{who} made {} pictures of {}: they cannot be told apart",
        arrivals.len(),
        written.len()
    );
    let others = process::spent_on_others()?.saturating_sub(others_before).as_secs_f64();
    let others = others / clock.now().since(started).as_secs_f64();
    if others > DISTURBED {
        report.note(format!(
            "{case}, {who}: DISTURBED, other programs used {:.0} % of a core; believe no delay of this run",
            others * 100.0
        ));
    }
    let mut taken = histogram()?;
    let mut first = histogram()?;
    let mut last = histogram()?;
    for (written, arrival) in written.iter().zip(&arrivals).skip(skip) {
        let record = |histogram: &mut Histogram<u64>, time: Time| {
            histogram.saturating_record(time.since(written.offered).as_nanos() as u64);
        };
        record(&mut taken, written.taken);
        record(&mut first, arrival.first);
        record(&mut last, arrival.last);
    }
    let mut add = |metric, histogram: &Histogram<u64>, quantile| {
        report.add(case, who, metric, "ms", histogram.value_at_quantile(quantile) as f64 / 1e6);
    };
    add("picture taken from the pipe p50", &taken, 0.5);
    add("picture to first packet p50", &first, 0.5);
    add("picture to first packet p99", &first, 0.99);
    add("picture to last packet p50", &last, 0.5);
    add("picture to last packet p99", &last, 0.99);
    report.add_context(case, who, "others' share of a core", "%", others * 100.0);
    Ok(())
}

fn histogram() -> Result<Histogram<u64>> {
    Histogram::new_with_max(60_000_000_000, 3).context("histogram")
}

/// What the encoder tells of itself, with the live test pattern.
fn from_inside(preset: &str, args: &Args, report: &mut Report) -> Result<()> {
    let case = format!("{preset}, test pattern, told by --stats");
    let pictures = (args.seconds * u64::from(RATE)).to_string();
    let output = Command::new(machine::glassline()?)
        .args(["encode", "test:1280x720@50", "null:", "--stats", "--audio", "none", "--preset", preset])
        .args(["--bitrate", "5M", "--limit", &pictures])
        .output()
        .context("cannot start glassline")?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "glassline encode ended with {}:\n{told}", output.status);
    for (line, p50, p99) in [
        ("x264's own time", "x264's own time p50", "x264's own time p99"),
        ("added beyond x264", "added beyond x264 p50", "added beyond x264 p99"),
    ] {
        let Some([median, high]) = find_quantiles(&told, line) else {
            bail!("glassline encode --stats tells nothing of {line:?}:\n{told}");
        };
        report.add(&case, OURS, p50, "ms", median);
        report.add(&case, OURS, p99, "ms", high);
    }
    Ok(())
}

/// Median and 99th percentile of a line that ends with p50, p99 and maximum.
fn find_quantiles(table: &str, line: &str) -> Option<[f64; 2]> {
    let line = table.lines().find(|found| found.starts_with(line))?;
    let mut cells = line.split_whitespace().rev().skip(1).map(str::parse::<f64>);
    let (high, median) = (cells.next()?.ok()?, cells.next()?.ok()?);
    Some([median, high])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(pid: u8, counter: u8, start: bool) -> [u8; PACKET_BYTES] {
        let mut packet = [0xFF; PACKET_BYTES];
        packet[..4].copy_from_slice(&[0x47, u8::from(start) << 6, pid, 0x10 | counter]);
        if start {
            packet[4..8].copy_from_slice(&[0, 0, 1, 0xE0]);
        }
        packet
    }

    #[test]
    fn pictures_are_told_apart_in_any_chop() {
        let (at, mut arrivals) = (Time::from_millis, Arrivals::default());
        let bytes =
            [packet(9, 0, true), packet(9, 1, false), packet(8, 0, false), packet(9, 2, true)].concat();
        arrivals.push(&bytes[..200], at(1)).unwrap();
        arrivals.push(&bytes[200..500], at(2)).unwrap();
        arrivals.push(&bytes[500..], at(3)).unwrap();
        let expected = [Arrival { first: at(1), last: at(2) }, Arrival { first: at(3), last: at(3) }];
        assert_eq!(arrivals.pictures, expected);
    }

    #[test]
    fn quantiles_are_found_in_the_table() {
        let table = "milliseconds   p50   p99   max\nx264's own time    6.100   9.400   12.000\n";
        assert_eq!(find_quantiles(table, "x264's own time"), Some([6.1, 9.4]));
        assert_eq!(find_quantiles(table, "added"), None);
    }
}
