//! `glassline lab link`: a program behind an emulated network.
//!
//! [`quantity`] reads what only links have, [`line`] all that one is like, [`programs`] starts and ends the programs on both sides.

pub(super) mod line;
mod programs;
pub(super) mod quantity;

use crate::{failure, output};
use anyhow::{Context, Result};
use glassline_lab::link::{
    Addresses, DirectionSettings, Emulation, Ends, EndsError, LineEnds, Report, Settings, line_seed,
};
use glassline_lab::report::link as picture;
use glassline_transport::emulator::{Loss, Outages, Queue, Reorder};
use line::LineOptions;
use programs::Programs;
use quantity::{Sided, Speed};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  glassline lab link --up 3M --down 3M --delay 20ms --queue 256p -- bash
                                     a shell behind a slow link
  glassline lab link --up 5M --down lte.down --delay 20ms --svg link.svg \\
      --far 'exec glassline serve --listen 100.64.0.1:8080 --open-publish' -- \\
      glassline encode test:1280x720@25 http://100.64.0.1:8080/live/a.ts --bitrate 4M
                                     both sides at once, and a drawing of what happened
  glassline lab link --loss ge:0.0085/0.25/0.6 --loss down=0% -- COMMAND
                                     bursts of loss, only in the direction up
  glassline lab link --line up=2M,delay=30ms,queue=256p --line up=3M,delay=80ms,outage=once:10s/5s -- COMMAND
                                     two lines, of which one fails for 5 s

COMMAND runs in a network of its own, with the address 100.64.0.2. The other side has 100.64.0.1;
--far runs there and, as root, every other program of this machine. If several links run at the
same time, the third number distinguishes them. COMMAND and --far find both addresses in the
environment, as GLASSLINE_NEAR and GLASSLINE_FAR. With several lines these are the first line's, and
GLASSLINE_DEVICE_N, GLASSLINE_NEAR_N and GLASSLINE_FAR_N are those of each, N from 1 up. Only IPv4 is carried, and only within this machine.

Exit status: the command's; 128 plus the signal's number if a signal ended it; 1 if the link
failed, 2 wrong usage. docs/lab.md says what is emulated and how exactly, and explains the report.";

/// Run a program behind an emulated network: rate, trace, delay, queue, loss
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Capacity for what the command sends: a rate (5M), or a trace file in Mahimahi's format
    #[arg(long, value_name = "TRACE|RATE", default_value = "unlimited")]
    up: Speed,
    /// Capacity for what the command receives
    #[arg(long, value_name = "TRACE|RATE", default_value = "unlimited")]
    down: Speed,
    /// Do not repeat traces: after their last line nothing passes
    #[arg(long)]
    once: bool,
    /// One-way delay; here and below, up= or down= before a value limits it to one direction
    #[arg(long, value_name = "[up=|down=]TIME", value_parser = sided_duration)]
    delay: Vec<Sided<Duration>>,
    /// Additional delay of a packet, up to this; packets do not overtake each other
    #[arg(long, value_name = "[up=|down=]TIME", value_parser = sided_duration)]
    jitter: Vec<Sided<Duration>>,
    /// The queue in front of the bottleneck: packets (256p), bytes (64k), both (256p+64k), drophead:…; infinite
    #[arg(long, value_name = "[up=|down=]QUEUE", value_parser = |text: &str| Sided::parse(text, quantity::queue))]
    queue: Vec<Sided<Queue>>,
    /// Packet loss: 2%, or in bursts ge:TO_BAD/TO_GOOD/LOSS_IN_BAD (Gilbert-Elliott)
    #[arg(long, value_name = "[up=|down=]LOSS", value_parser = |text: &str| Sided::parse(text, quantity::loss))]
    loss: Vec<Sided<Loss>>,
    /// Share of packets that arrive twice
    #[arg(long, value_name = "[up=|down=]SHARE", value_parser = |text: &str| Sided::parse(text, quantity::duplicates))]
    duplicate: Vec<Sided<f64>>,
    /// Packets that are held back, so that others overtake them: 1%:10ms
    #[arg(long, value_name = "[up=|down=]SHARE:TIME", value_parser = |text: &str| Sided::parse(text, quantity::reorder))]
    reorder: Vec<Sided<Reorder>>,
    /// Outages of the link: random:ON/OFF (means), periodic:ON/OFF, once:AFTER/OFF; with ,hold packets wait until it
    /// is over
    #[arg(long, value_name = "[up=|down=]OUTAGE", value_parser = |text: &str| Sided::parse(text, quantity::outages))]
    outage: Vec<Sided<Outages>>,
    /// The largest packet, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = clap::value_parser!(u32).range(68..=65_535))]
    mtu: u32,
    /// One of several lines, once for each, in place of the options from --up to --outage: their names as keys, up=
    /// required, such as up=2M,down=3M,delay=30ms,queue=256p. Each line is a network device of its own
    #[arg(
        long,
        value_name = "KEY=VALUE,...",
        conflicts_with_all = ["up", "down", "delay", "jitter", "queue", "loss", "duplicate", "reorder", "outage"]
    )]
    line: Vec<LineOptions>,
    /// Seed of all random numbers: the same seed gives the same losses
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// A shell command to run on the other side; it is ended after the command has ended
    #[arg(long, value_name = "COMMAND")]
    far: Option<String>,
    /// Write FILE.up and FILE.down: every arrival, departure and drop, in mm-link's log format; of several lines
    /// FILE.N.up and FILE.N.down
    #[arg(long, value_name = "FILE")]
    packet_log: Option<PathBuf>,
    /// Draw rate, queue and delay over time; of several lines each into a file of its own, link.1.svg, link.2.svg
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print the report as JSON; the command's output then goes to standard error
    #[arg(long)]
    json: bool,
    /// The program to run, with its arguments
    #[arg(value_name = "COMMAND", required = true, last = true)]
    command: Vec<OsString>,
}

pub(super) fn sided_duration(text: &str) -> Result<Sided<Duration>, String> {
    Sided::parse(text, quantity::duration)
}

/// What a packet of a trace counts beyond its own bytes: Mahimahi's header of a TUN device.
pub(super) const TRACE_OVERHEAD_BYTES: u32 = 4;

impl Args {
    /// The lines that are asked for: those of `--line`, or the one that the options describe.
    fn lines(&self) -> Vec<LineOptions> {
        if !self.line.is_empty() {
            return self.line.clone();
        }
        vec![LineOptions {
            up: self.up.clone(),
            down: self.down.clone(),
            delay: self.delay.clone(),
            jitter: self.jitter.clone(),
            queue: self.queue.clone(),
            loss: self.loss.clone(),
            duplicate: self.duplicate.clone(),
            reorder: self.reorder.clone(),
            outage: self.outage.clone(),
        }]
    }

    /// A line in one direction. `number` tells one of several from the others.
    fn way(&self, line: &LineOptions, number: Option<usize>, is_up: bool) -> Result<DirectionSettings> {
        let config = line.config(is_up, self.once);
        let (side, speed) = if is_up { ("up", &line.up) } else { ("down", &line.down) };
        let of = number.map_or_else(String::new, |number| format!("line {number}, "));
        config.check().map_err(|error| failure::usage(format!("{of}{side}: {error}"), "see --help"))?;
        let log = self.packet_log.as_deref().map(|path| {
            let path = number.map_or_else(|| path.into(), |number| with_suffix(path, &number.to_string()));
            open_log(&path, side, &speed.name())
        });
        Ok(DirectionSettings { config, log: log.transpose()? })
    }

    /// What a line is like, for a heading.
    fn about(&self, line: &LineOptions) -> String {
        let words = |is_up| {
            let config = line.config(is_up, self.once);
            let queue = match (config.queue.packets, config.queue.bytes) {
                (None, None) => String::new(),
                (Some(packets), None) => format!(", queue {packets} packets"),
                (None, Some(bytes)) => format!(", queue {bytes} bytes"),
                (Some(packets), Some(bytes)) => format!(", queue {packets} packets, {bytes} bytes"),
            };
            let loss = match config.loss.mean() {
                none if none <= 0.0 => String::new(),
                share => format!(", loss {:.1} %", share * 100.0),
            };
            format!("delay {} ms{queue}{loss}", config.delay.as_secs_f64() * 1e3)
        };
        format!(
            "Up: {}, {}. Down: {}, {}. Seed {}.",
            line.up.name(),
            words(true),
            line.down.name(),
            words(false),
            self.seed
        )
    }
}

/// The path with a dot and `suffix` behind its name.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{suffix}"));
    name.into()
}

/// The path with `number` before its extension, or at its end where it has none.
fn numbered(path: &Path, number: usize) -> PathBuf {
    let Some(extension) = path.extension() else { return with_suffix(path, &number.to_string()) };
    let mut name = with_suffix(&path.with_extension(""), &format!("{number}.")).into_os_string();
    name.push(extension);
    name.into()
}

/// `FILE.up` or `FILE.down`, with the head that mm-link writes.
fn open_log(path: &Path, side: &str, speed: &str) -> Result<Box<dyn Write + Send>> {
    let name = with_suffix(path, side);
    let file = File::create(&name).with_context(|| format!("cannot write {}", name.display()))?;
    let mut log = BufWriter::new(file);
    writeln!(log, "# glassline lab link ({side}) {speed}").context("cannot write the log")?;
    Ok(Box::new(log))
}

/// Runs the command to its end.
pub(super) fn run(args: &Args) -> Result<()> {
    let lines = args.lines();
    // What is wrong is said before anything is made.
    let is_alone = lines.len() == 1;
    let settings = |(index, line): (usize, &LineOptions)| -> Result<Settings> {
        let number = (!is_alone).then_some(index + 1);
        let seed = u8::try_from(index).map(|index| line_seed(args.seed, index)).map_err(|_| too_many())?;
        Ok(Settings { up: args.way(line, number, true)?, down: args.way(line, number, false)?, seed })
    };
    let settings: Vec<Settings> = lines.iter().enumerate().map(settings).collect::<Result<_>>()?;
    let Ends { lines: ends, networks } = Ends::make(args.mtu, lines.len()).map_err(no_network)?;
    // Before there are other threads, so that they leave signals to us.
    let mut programs = Programs::new()?;
    let (mut addresses, mut emulations) = (Vec::new(), Vec::new());
    for (LineEnds { near, far, addresses: of_line }, settings) in ends.into_iter().zip(settings) {
        addresses.push(of_line);
        emulations.push(Emulation::start(near, far, settings)?);
    }
    let ended = programs.run(args, &networks, &addresses, &emulations);
    drop(programs);
    let mut reports = emulations.into_iter().map(Emulation::stop).collect::<Result<Vec<Report>>>()?;
    reports.iter_mut().for_each(|report| report.seed = args.seed);
    let status = ended?;
    let all: Vec<_> = lines.iter().zip(addresses).zip(&reports).collect();
    match &all[..] {
        [((line, addresses), report)] => say(args, line, addresses, report)?,
        several => say_several(args, several)?,
    }
    if status == 0 { Ok(()) } else { Err(failure::passed_on(status)) }
}

/// More than devices have numbers.
fn too_many() -> anyhow::Error {
    failure::usage("--line is given more than 256 times", "256 lines at a time have addresses")
}

/// What became of the only line.
fn say(args: &Args, line: &LineOptions, addresses: &Addresses, report: &Report) -> Result<()> {
    if let Some(path) = &args.svg {
        draw(args, line, report, path, "a link")?;
    }
    if args.json {
        return output::print(&format!("{:#}\n", json(addresses, report)?));
    }
    // Standard output is the command's.
    output::print_aside(&report.table())
}

/// What became of each of several lines.
fn say_several(args: &Args, lines: &[((&LineOptions, Addresses), &Report)]) -> Result<()> {
    let (mut table, mut objects) = (String::new(), Vec::new());
    for (number, ((line, addresses), report)) in (1..).zip(lines) {
        if let Some(path) = &args.svg {
            draw(args, line, report, &numbered(path, number), &format!("line {number}, a link"))?;
        }
        let Addresses { device, near, far } = addresses;
        table += &format!("line {number}: {device}, near {near}, far {far}\n{}", report.table());
        let mut object = json(addresses, report)?;
        object["device"] = device.as_str().into();
        objects.push(object);
    }
    if args.json {
        let whole = serde_json::json!({ "schema": 1, "seed": args.seed, "lines": objects });
        return output::print(&format!("{whole:#}\n"));
    }
    output::print_aside(&table)
}

fn draw(args: &Args, line: &LineOptions, report: &Report, path: &Path, what: &str) -> Result<()> {
    let name = args.command[0].to_string_lossy();
    let title = format!("{name} behind {what} of {:.0} s", report.duration_s);
    std::fs::write(path, picture::draw(&title, &args.about(line), report))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// A line's report with its addresses.
fn json(addresses: &Addresses, report: &Report) -> Result<serde_json::Value> {
    let mut json = serde_json::to_value(report)?;
    json["near"] = addresses.near.to_string().into();
    json["far"] = addresses.far.to_string().into();
    Ok(json)
}

/// Says what would help.
pub(super) fn no_network(error: EndsError) -> anyhow::Error {
    let advice = match &error {
        EndsError::Tun(glassline_io::tun::TunError::Absent { .. }) => {
            "load the kernel's module tun (modprobe tun), or give the container the device /dev/net/tun"
        }
        EndsError::Full { .. } => "end some of the links",
        _ => {
            "run it as root, or allow user namespaces (sysctl user.max_user_namespaces, and where the system has it \
             kernel.apparmor_restrict_unprivileged_userns=0; a container needs NET_ADMIN and SYS_ADMIN)"
        }
    };
    failure::failed(format!("no network can be made: {error}"), advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_several_lines_have_their_numbers_in_their_names() {
        let name = |path: &str| numbered(Path::new(path), 2).display().to_string();
        assert_eq!(
            ["link.svg", "a.b/link.x.svg", "link"].map(name),
            ["link.2.svg", "a.b/link.x.2.svg", "link.2"]
        );
    }
}
