//! `glassline doctor`: what this machine has and lacks for the job that the configuration gives it.
//!
//! [`glassline_io::machine`] reads the system, [`gather`] what the configuration names, and
//! [`glassline_inspect::machine`] judges both.

mod gather;
mod table;

use crate::config::Config;
use crate::{failure, output};
use anyhow::Result;
use glassline_inspect::machine::{State, Trials, judge};
use glassline_io::clock::Clock;
use glassline_io::machine::{Files, Machine};
use glassline_io::small_file::Accept;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  glassline doctor                             this machine, for all that the program does
  glassline doctor --config glassline.toml     for the server with this configuration; run it before that starts
  sudo -u glassline glassline doctor --config /etc/glassline/glassline.toml
                                               as the user that the server is; limits and permissions are that user's
  glassline doctor --json                      [{\"check\",\"state\":\"ok\"|\"better\"|\"fails\",\"now\",\"wanted\",\"command\",\"worth\"}]

Each line is ok, could be better, or will fail; the last two come with what to type and what that is worth: \
measured here just now, measured by this project, or by reference. Nothing is changed. Ports are opened and \
closed at once, and what sockets, batches and large pages are worth is measured on loopback for about a tenth \
of a second. What this user may not read is unknown, never a failure.

Exit status: 0 if nothing will fail, 1 if something will, 2 wrong usage or configuration. docs/tuning.md has \
the reasons.";

/// What this machine has and lacks for the job that the configuration gives it
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Configuration file (TOML) of the server; without it the machine is looked at for all that the program does
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the rows as JSON
    #[arg(long)]
    json: bool,
}

/// Looks, and prints the report.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut config = match &args.config {
        Some(path) => Config::load_without_keys(path, Accept::AnyFile)?,
        None => Config::default(),
    };
    // Before measuring: what the process may be given decides what can be measured.
    let job = gather::job(&mut config, args.config.as_deref());
    let machine = Machine::read(&Files::default());
    let trials = Trials::run(job.large_pages.is_ok());
    let rows = judge(&machine, &job, &trials, Clock::new().utc());
    if args.json {
        output::print(&format!("{:#}\n", serde_json::to_value(&rows)?))?;
    } else {
        output::print(&table::table(&rows))?;
    }
    match rows.iter().filter(|row| row.state == State::Fails).count() {
        0 => Ok(()),
        1 => Err(failure::failed("one thing will fail", "its line says what to do")),
        count => Err(failure::failed(format!("{count} things will fail"), "their lines say what to do")),
    }
}
