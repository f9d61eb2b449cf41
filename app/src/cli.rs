//! The command line. Each command's arguments are in its own module; this module only combines them.

#[cfg(feature = "archive")]
use crate::export;
use crate::{
    cluster, completions, decode, direct, doctor, encode, key, lab, link, logging, probe, raw, send_raw,
    serve, sign,
};
use clap::{CommandFactory, Parser, Subcommand};
use glassline_io::containment::Outside;

/// Live video from glass to glass: encode, relay, watch, measure.
#[derive(Debug, Parser)]
#[command(name = "glassline", version, propagate_version = true, after_help = EXAMPLES)]
#[command(arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) log: logging::Options,
}

const EXAMPLES: &str = "\
Examples:
  glassline serve --demo             a live test picture at http://127.0.0.1:8080/
  glassline encode test:1280x720@50 http://127.0.0.1:8080/live/test.ts
  glassline send --help              live video that adapts each frame to a bad network
  glassline record --help            record uncompressed video over RTP without losing a packet
  glassline send-raw --help          send uncompressed video over RTP (ST 2110)
  glassline link --help              message channels over an encrypted link on a bad network
  glassline export --help            a time of a recorded stream as MP4 or MPEG-TS
  glassline probe recording.ts       analyse a transport stream
  glassline doctor                   what this machine has and lacks, and what to type
  glassline lab load http http://127.0.0.1:8080/live/test.ts --viewers 1000
  glassline cluster status           which server of a cluster has which stream
  glassline completions bash         print the shell completion for bash

Exit status: 0 success, 1 failure while running, 2 wrong usage or configuration.
`glassline COMMAND --help` explains a command and shows examples of it.";

/// What the program does. To add a command: its variant here, and its arm in [`Command::run`].
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(serve::Args),
    Encode(Box<encode::Line>),
    Decode(decode::Args),
    Record(Box<raw::RecordArgs>),
    Send(Box<direct::SendArgs>),
    Receive(Box<direct::ReceiveArgs>),
    SendRaw(Box<send_raw::Args>),
    Link(Box<link::Args>),
    Key(key::Args),
    #[cfg(feature = "archive")]
    Export(Box<export::Args>),
    Probe(Box<probe::Args>),
    Doctor(doctor::Args),
    Lab(Box<lab::Args>),
    Sign(sign::Args),
    Cluster(cluster::Args),
    Completions(completions::Args),
}

impl Command {
    /// What a panic outside of all containment borders does. Servers with many clients continue without the thread; a
    /// command with a single task has failed.
    pub(crate) fn outside_of_borders(&self) -> Outside {
        match self {
            Command::Serve(_) | Command::Link(_) => Outside::EndsThread,
            _ => Outside::EndsProcess,
        }
    }

    /// Runs the command to its end.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self {
            Command::Serve(args) => serve::run(&args),
            Command::Encode(args) => encode::run(*args),
            Command::Decode(args) => decode::run(&args),
            Command::Record(args) => raw::record(&args),
            Command::Send(args) => direct::send(&args),
            Command::Receive(args) => direct::receive(&args),
            Command::SendRaw(args) => send_raw::run(&args),
            Command::Link(args) => link::run(&args),
            Command::Key(args) => key::run(&args),
            #[cfg(feature = "archive")]
            Command::Export(args) => export::run(&args),
            Command::Probe(args) => probe::run(&args),
            Command::Doctor(args) => doctor::run(&args),
            Command::Lab(args) => lab::run(*args),
            Command::Sign(args) => sign::run(&args),
            Command::Cluster(args) => cluster::run(&args),
            Command::Completions(args) => completions::run(&args, Cli::command()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    /// A command with all those below it.
    fn all(command: clap::Command) -> Vec<clap::Command> {
        let below: Vec<_> = command.get_subcommands().cloned().flat_map(all).collect();
        std::iter::once(command).chain(below).collect()
    }

    #[test]
    fn every_command_teaches_with_examples() {
        for command in &all(Cli::command()) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Examples:\n"), "{} has no examples", command.get_name());
            assert!(help.contains("  glassline "), "{} has no example to copy", command.get_name());
        }
    }

    #[test]
    fn every_command_and_argument_is_explained() {
        for command in &all(Cli::command()) {
            assert!(command.get_about().is_some(), "{} has no description", command.get_name());
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{} {}", command.get_name(), argument.get_id());
            }
        }
    }
}
