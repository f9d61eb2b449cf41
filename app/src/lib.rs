//! The program `glassline`: one file or folder for each command, and what they share: the command line, the
//! configuration, the log and the exit status.
//!
//! It is a library so that fuzz targets and tests reach what reads bytes from outside ([`fuzzing`]); nothing else of it
//! is public, and it is no interface for other programs.
#![forbid(unsafe_code)]

mod brief;
mod choice;
mod cli;
mod cluster;
mod completions;
mod config;
#[cfg(test)]
mod corpus;
mod decode;
mod direct;
mod doctor;
mod durations;
mod encode;
#[cfg(feature = "archive")]
mod export;
mod failure;
#[doc(hidden)]
pub mod fuzzing;
mod key;
mod lab;
mod layout;
mod link;
mod logging;
mod options;
mod output;
mod picture_file;
mod probe;
mod raw;
mod send_raw;
mod serde_text;
mod serve;
mod sign;
mod sound_source;
mod stop;
mod tracks;
mod trust;

// The bodies of the fuzz targets call the library by its name.
#[cfg(test)]
extern crate self as glassline;

use clap::Parser;
use std::process::ExitCode;

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    // Bad usage ends here, with clap's explanation and status 2; `--help` and `--version` with status 0.
    let cli = cli::Cli::try_parse().unwrap_or_else(|error| failure::explain_usage(&error));
    glassline_io::containment::watch(cli.command.outside_of_borders());
    let outcome = logging::start(&cli.log).and_then(|()| cli.command.run());
    logging::finish();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::report(&error),
    }
}
