//! Standard output has only the result of a command. Messages for people go to standard error.
//!
//! All text of the program is written here or in the log. Much of it comes from outside (names, addresses of
//! redirects, values of session descriptions), so it is written by [`printable`]: nothing in it can control the
//! terminal.

use glassline_media::printable;
use std::io::{self, Write};

/// The reader of our standard output has gone: a reason to end, not an error to report.
#[derive(Debug, thiserror::Error)]
#[error("the reader of standard output has gone")]
pub(crate) struct ReaderGone;

/// Writes `text` to standard output and flushes it.
///
/// Fails with [`ReaderGone`] if the other end of the pipe is closed. Other errors that happen to be a broken pipe (a
/// server that closes a connection) stay errors.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(printable::lines(text).as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(ReaderGone.into()),
        Err(error) => Err(anyhow::Error::from(error).context("cannot write to standard output")),
    }
}

/// Writes a requested result to standard error, if standard output is used for something else.
///
/// # Errors
/// If it cannot be written, for example on a full disk: the requested result is then missing.
pub(crate) fn print_aside(text: &str) -> anyhow::Result<()> {
    let written = io::stderr().lock().write_all(printable::lines(text).as_bytes());
    written.map_err(|error| anyhow::Error::from(error).context("cannot write to standard error"))
}

/// Writes a message to standard error. If that fails, the message is lost and the program continues; `eprintln!` would
/// panic.
pub(crate) fn print_to_stderr(text: &str) {
    let _ = io::stderr().lock().write_all(printable::lines(text).as_bytes());
}

/// Shows `text` as the line at a terminal's bottom, on standard error, in place of the one before.
pub(crate) fn show_progress(text: &str) {
    // A terminal that has gone is no reason to end.
    let _ = write!(io::stderr(), "\r{}\x1b[K", printable::line(text));
}

/// Clears the line of [`show_progress`].
pub(crate) fn clear_progress() {
    show_progress("");
}
