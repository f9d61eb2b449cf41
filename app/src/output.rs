//! Standard output: what a command was asked for, and nothing else. Beside it, on standard error, what it says to people.
//!
//! All text of the program goes through here or through the log. Much of it comes from outside (names, addresses of
//! redirects, values of session descriptions), so it is written as [`printable`] has it: nothing in it steers a terminal.

use glassline_media::printable;
use std::io::{self, Write};

/// Whoever read our standard output has gone: a reason to end, not an error to report.
#[derive(Debug, thiserror::Error)]
#[error("the reader of standard output has gone")]
pub(crate) struct ReaderGone;

/// Writes `text` to standard output and flushes it.
///
/// Fails with [`ReaderGone`] where the pipe's other end is closed: other errors that happen to be a broken pipe
/// (a server that closes a connection) stay errors.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(printable::lines(text).as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(ReaderGone.into()),
        Err(error) => Err(anyhow::Error::from(error).context("cannot write to standard output")),
    }
}

/// Writes to standard error what was asked for where standard output is for something else.
///
/// # Errors
/// Where it cannot be written, as on a full disk: whoever asked does not have it.
pub(crate) fn print_aside(text: &str) -> anyhow::Result<()> {
    let written = io::stderr().lock().write_all(printable::lines(text).as_bytes());
    written.map_err(|error| anyhow::Error::from(error).context("cannot write to standard error"))
}

/// Says something on standard error. Where that cannot be written there is nowhere left to say so, and it is no reason to
/// end: `eprintln!` would panic.
pub(crate) fn print_to_stderr(text: &str) {
    let _ = io::stderr().lock().write_all(printable::lines(text).as_bytes());
}

/// Shows `text` as the line at a terminal's bottom, on standard error, in place of the one before.
pub(crate) fn show_progress(text: &str) {
    // A terminal that has gone is no reason to end.
    let _ = write!(io::stderr(), "\r{}\x1b[K", printable::line(text));
}

/// Takes the line of [`show_progress`] away.
pub(crate) fn clear_progress() {
    show_progress("");
}
