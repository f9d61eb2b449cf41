//! How a command fails: one line for people, and an exit status for scripts.
//!
//! Commands return `anyhow::Result`. What the user can correct is a [`Failure`], made by [`usage`] (status 2) or
//! [`failed`] (status 1), with advice; any other error ends with status 1.

use crate::config::ConfigError;
use crate::output;
use glassline_media::printable;
use std::ffi::OsString;
use std::fmt;
use std::process::ExitCode;

/// The exit status of a command that failed while running.
const FAILED: u8 = 1;
/// The exit status of bad usage or configuration; the one that clap uses.
const BAD_USAGE: u8 = 2;

/// The exit status of a command that did what it could, and has told what is missing.
#[cfg(feature = "archive")]
const INCOMPLETE: u8 = 3;

/// An error that includes advice.
#[derive(Debug)]
pub(crate) struct Failure {
    status: u8,
    message: String,
    advice: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.message, self.advice)
    }
}

impl std::error::Error for Failure {}

/// Wrong usage or configuration: what is wrong and why, and what to do about it. Exit status 2.
pub(crate) fn usage(message: impl fmt::Display, advice: impl fmt::Display) -> anyhow::Error {
    Failure { status: BAD_USAGE, message: message.to_string(), advice: advice.to_string() }.into()
}

/// A failure while running: what is wrong and why, and what to do about it. Exit status 1.
pub(crate) fn failed(message: impl fmt::Display, advice: impl fmt::Display) -> anyhow::Error {
    Failure { status: FAILED, message: message.to_string(), advice: advice.to_string() }.into()
}

/// An exit status without a message: that of a program that was run for the user and has printed its own error, or of a
/// command that has told what is missing.
#[derive(Debug)]
struct PassedOn(u8);

impl fmt::Display for PassedOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the command ended with status {}", self.0)
    }
}

impl std::error::Error for PassedOn {}

/// Ends with the status of a program that was run for the user, without a message.
pub(crate) fn passed_on(status: u8) -> anyhow::Error {
    PassedOn(status).into()
}

/// Ends with status 3, without a message: there is a result, and it has been told what is missing in it.
#[cfg(feature = "archive")]
pub(crate) fn incomplete() -> anyhow::Error {
    passed_on(INCOMPLETE)
}

/// The message for people: the error and its causes, joined by colons, without line breaks.
fn line(error: &anyhow::Error) -> String {
    format!("glassline: {error:#}").split('\n').map(str::trim).collect::<Vec<_>>().join(" ")
}

/// The exit status for an error: that of the first cause that has one.
fn status(error: &anyhow::Error) -> u8 {
    let asked = |cause: &(dyn std::error::Error + 'static)| match cause.downcast_ref::<Failure>() {
        Some(failure) => Some(failure.status),
        None => cause.is::<ConfigError>().then_some(BAD_USAGE),
    };
    error.chain().find_map(asked).unwrap_or(FAILED)
}

/// Prints clap's message, for wrong usage to standard error, and ends with its status. An argument may be a file name
/// that another user has chosen: if an argument contains control characters, the message is printed without colours
/// and without these characters.
pub(crate) fn explain_usage(error: &clap::Error) -> ! {
    let is_hostile = |argument: OsString| argument.to_string_lossy().chars().any(printable::is_control);
    if error.use_stderr() && std::env::args_os().any(is_hostile) {
        output::print_to_stderr(&error.render().to_string());
        std::process::exit(error.exit_code());
    }
    error.exit()
}

/// Prints the error to standard error and returns the exit status. If the reader of standard output has gone away
/// (`glassline … | head`), it prints nothing and succeeds.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if error.chain().any(|cause| cause.is::<output::ReaderGone>()) {
        return ExitCode::SUCCESS;
    }
    if let Some(PassedOn(status)) = error.downcast_ref() {
        return ExitCode::from(*status);
    }
    output::print_to_stderr(&format!("{}\n", line(error)));
    ExitCode::from(status(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;
    use glassline_io::small_file::Accept;

    #[test]
    fn an_error_is_one_line_that_ends_in_what_to_do() {
        let error: anyhow::Result<()> = Err(usage("port 0\nis taken", "choose another"));
        let error = error.context("cannot listen").unwrap_err();
        assert_eq!(line(&error), "glassline: cannot listen: port 0 is taken; choose another");
        assert_eq!(status(&error), 2);
    }

    #[test]
    fn only_bad_usage_has_status_2() {
        assert_eq!(status(&failed("it broke", "mend it")), 1);
        assert_eq!(status(&anyhow::anyhow!("it broke")), 1);
        let error = crate::config::Config::load("/no/such/file".as_ref(), Accept::AnyFile).unwrap_err();
        assert_eq!(status(&anyhow::Error::from(error).context("cannot serve")), 2);
    }
}
