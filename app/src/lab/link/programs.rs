//! The programs on both sides of a link.

use super::Args;
use crate::failure;
use anyhow::{Context, Result};
use glassline_io::child::{self, Caught, Orphans, Signal, Signals};
use glassline_io::poll::{Poller, Watch};
use glassline_lab::link::{Addresses, Emulation, Networks};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// How long the program on the far side may take to end after SIGTERM.
const TERMINATION_TIMEOUT: Duration = Duration::from_secs(2);
/// How often to check that the link still works.
const LOOK: Duration = Duration::from_secs(1);

/// Starts programs and ends them, whatever happens.
pub(super) struct Programs {
    signals: Signals,
    poller: Poller,
    far: Option<Child>,
    orphans: Orphans,
}

impl Programs {
    /// Catches this process' signals, which are passed on to the command.
    pub(super) fn new() -> Result<Programs> {
        let signals = Signals::block().context("cannot wait for signals")?;
        let poller = Poller::new()?;
        poller.add(&signals, 0, Watch::Accepts)?;
        let orphans = Orphans::adopt().context("cannot answer for what programs leave behind")?;
        Ok(Programs { signals, poller, far: None, orphans })
    }

    /// Runs the command until it ends, and beside it the program of the far side. Returns the command's exit status.
    /// `lines` has the devices of each line.
    pub(super) fn run(
        &mut self,
        args: &Args,
        networks: &Networks,
        lines: &[Addresses],
        emulations: &[Emulation],
    ) -> Result<u8> {
        let addressed = |command: &mut Command| {
            command.env("GLASSLINE_NEAR", networks.addresses.near.to_string());
            command.env("GLASSLINE_FAR", networks.addresses.far.to_string());
            for (number, line) in (1..).zip(lines).filter(|_| lines.len() > 1) {
                command.env(format!("GLASSLINE_DEVICE_{number}"), &line.device);
                command.env(format!("GLASSLINE_NEAR_{number}"), line.near.to_string());
                command.env(format!("GLASSLINE_FAR_{number}"), line.far.to_string());
            }
        };
        if let Some(far) = &args.far {
            let mut command = Command::new("sh");
            // The shell gets a process group of its own, so that all programs that it starts can be ended. Its output
            // is not the command's.
            command.args(["-c", far]).process_group(0).stdin(Stdio::null()).stdout(own_stderr()?);
            addressed(&mut command);
            self.far =
                Some(child::spawn_with_capabilities(&mut command).context("cannot start a shell for --far")?);
        }
        let mut command = Command::new(&args.command[0]);
        command.args(&args.command[1..]);
        addressed(&mut command);
        if args.json {
            command.stdout(own_stderr()?);
        }
        let child = networks.within(|| child::spawn_with_capabilities(&mut command))?.map_err(|error| {
            let name = args.command[0].to_string_lossy();
            failure::usage(
                format!("cannot run {name:?}: {error}"),
                "after -- comes a program and its arguments",
            )
        })?;
        self.wait(child, emulations)
    }

    /// Waits until the command ends, and passes signals on to it.
    fn wait(&mut self, mut child: Child, emulations: &[Emulation]) -> Result<u8> {
        let mut ready = Vec::new();
        loop {
            while let Some(Caught { signal, is_of_kernel }) = self.signals.next() {
                // The terminal sends its signals to the command, too, which is in the foreground: passing them on
                // would deliver them twice.
                let is_had = signal == Signal::CHILD || is_of_kernel;
                if !is_had {
                    // It may have ended meanwhile.
                    let _ = child::send(&child, signal);
                }
            }
            if let Some(status) = child.try_wait().context("cannot wait for the command")? {
                return Ok(exit_status(status));
            }
            if emulations.iter().any(Emulation::has_failed) {
                let _ = child.kill();
                let _ = child.wait();
                // The emulation reports its own error.
                return Ok(1);
            }
            self.poller.wait(Some(LOOK), &mut ready)?;
        }
    }

    /// Ends the program of the far side: with SIGTERM, and after a while with SIGKILL.
    fn end_far(&mut self) -> io::Result<()> {
        let Some(mut far) = self.far.take() else { return Ok(()) };
        child::send_to_group(&far, Signal::TERM);
        let step = Duration::from_millis(10);
        let mut waited = Duration::ZERO;
        // The shell is waited for first. Its process and group numbers are not reused as long as it has not been
        // waited for.
        while waited < TERMINATION_TIMEOUT && far.try_wait()?.is_none() {
            std::thread::sleep(step);
            waited += step;
        }
        while waited < TERMINATION_TIMEOUT && child::is_group_left(&far) {
            std::thread::sleep(step);
            waited += step;
        }
        child::send_to_group(&far, Signal::KILL);
        far.wait().map(drop)
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        if let Err(error) = self.end_far() {
            tracing::warn!("cannot end the program of --far: {error}");
        }
        // Without the link these programs would keep running in a network that leads nowhere.
        let left = self.orphans.end(TERMINATION_TIMEOUT);
        if left > 0 {
            let programs = if left == 1 { "program" } else { "programs" };
            tracing::info!(
                "{left} {programs} that the command had started and not waited for ended with the link"
            );
        }
    }
}

/// A copy of this program's standard error, for the output of another program.
fn own_stderr() -> Result<Stdio> {
    let copy = io::stderr().as_fd().try_clone_to_owned().context("cannot copy standard error")?;
    Ok(copy.into())
}

/// The exit status as shells compute it.
fn exit_status(status: ExitStatus) -> u8 {
    let signal = status.signal().map(|signal| 128 + signal);
    u8::try_from(status.code().or(signal).unwrap_or(1)).unwrap_or(1)
}
