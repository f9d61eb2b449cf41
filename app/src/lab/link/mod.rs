//! `glassline lab link`: a program behind an emulated network.
//!
//! [`quantity`] reads what only links have, [`line`] all that one is like, [`programs`] starts and ends the programs on both sides.

pub(super) mod line;
mod programs;
pub(super) mod quantity;

use crate::{failure, output};
use anyhow::{Context, Result};
use glassline_lab::link::{DirectionSettings, Emulation, Ends, EndsError, Networks, Report, Settings};
use glassline_lab::report::link as picture;
use glassline_transport::emulator::{LinkConfig, Loss, Outages, Queue, Reorder};
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

COMMAND runs in a network of its own, with the address 100.64.0.2. The other side has 100.64.0.1;
--far runs there and, as root, every other program of this machine. If several links run at the
same time, the third number distinguishes them. COMMAND and --far find both addresses in the
environment, as GLASSLINE_NEAR and GLASSLINE_FAR. Only IPv4 is carried, and only within this machine.

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
    /// Seed of all random numbers: the same seed gives the same losses
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// A shell command to run on the other side; it is ended after the command has ended
    #[arg(long, value_name = "COMMAND")]
    far: Option<String>,
    /// Write FILE.up and FILE.down: every arrival, departure and drop, in mm-link's log format
    #[arg(long, value_name = "FILE")]
    packet_log: Option<PathBuf>,
    /// Draw rate, queue and delay over time
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
    /// What the options say of the link.
    fn line(&self) -> LineOptions {
        LineOptions {
            up: self.up.clone(),
            down: self.down.clone(),
            delay: self.delay.clone(),
            jitter: self.jitter.clone(),
            queue: self.queue.clone(),
            loss: self.loss.clone(),
            duplicate: self.duplicate.clone(),
            reorder: self.reorder.clone(),
            outage: self.outage.clone(),
        }
    }

    fn config(&self, is_up: bool) -> LinkConfig {
        self.line().config(is_up, self.once)
    }

    fn way(&self, is_up: bool) -> Result<DirectionSettings> {
        let config = self.config(is_up);
        let (side, speed) = if is_up { ("up", &self.up) } else { ("down", &self.down) };
        config.check().map_err(|error| failure::usage(format!("{side}: {error}"), "see --help"))?;
        let log = self.packet_log.as_deref().map(|path| open_log(path, side, &speed.name())).transpose()?;
        Ok(DirectionSettings { config, log })
    }

    /// What the link is like, for a heading.
    fn about(&self) -> String {
        let words = |is_up| {
            let config = self.config(is_up);
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
            self.up.name(),
            words(true),
            self.down.name(),
            words(false),
            self.seed
        )
    }
}

/// `FILE.up` or `FILE.down`, with the head that mm-link writes.
fn open_log(path: &Path, side: &str, speed: &str) -> Result<Box<dyn Write + Send>> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{side}"));
    let file = File::create(&name).with_context(|| format!("cannot write {}", Path::new(&name).display()))?;
    let mut log = BufWriter::new(file);
    writeln!(log, "# glassline lab link ({side}) {speed}").context("cannot write the log")?;
    Ok(Box::new(log))
}

/// Runs the command to its end.
pub(super) fn run(args: &Args) -> Result<()> {
    // What is wrong is said before anything is made.
    let (up, down) = (args.way(true)?, args.way(false)?);
    let ends = Ends::make(args.mtu).map_err(no_network)?;
    let Ends { near, far, networks } = ends;
    // Before there are other threads, so that they leave signals to us.
    let mut programs = Programs::new()?;
    let emulation = Emulation::start(near, far, Settings { up, down, seed: args.seed })?;
    let ended = programs.run(args, &networks, &emulation);
    drop(programs);
    let report = emulation.stop()?;
    let status = ended?;
    say(args, &networks, &report)?;
    if status == 0 { Ok(()) } else { Err(failure::passed_on(status)) }
}

fn say(args: &Args, networks: &Networks, report: &Report) -> Result<()> {
    if let Some(path) = &args.svg {
        let name = args.command[0].to_string_lossy();
        let title = format!("{name} behind a link of {:.0} s", report.duration_s);
        std::fs::write(path, picture::draw(&title, &args.about(), report))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if args.json {
        let mut json = serde_json::to_value(report)?;
        json["near"] = networks.near_address.to_string().into();
        json["far"] = networks.far_address.to_string().into();
        return output::print(&format!("{json:#}\n"));
    }
    // Standard output is the command's.
    output::print_aside(&report.table())
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
