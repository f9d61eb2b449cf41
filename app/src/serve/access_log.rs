//! The access log: a file with a line for each exchange, in the Combined Log Format that log readers know, with the
//! duration in seconds at the end.

use crate::failure;
use anyhow::Result;
use glassline_relay::Access;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::SystemTime;

/// Lines that may wait for a slow disk. Further ones are dropped, so that no viewer waits for the log.
const WAITING_LINES: usize = 16_384;

/// An access log. Dropping it writes the waiting lines.
pub(super) struct AccessLog {
    lines: Mutex<Option<SyncSender<String>>>,
    left_out: Arc<AtomicU64>,
    writer: Option<JoinHandle<()>>,
}

/// An access log's open file.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) file: File,
    /// Whether the file was newly created.
    pub(super) is_new: bool,
}

/// The mode of a new file. Viewers' addresses are personal data, for operators only. The group may read, for programs
/// that evaluate logs.
const MODE: u32 = 0o640;

/// Opens the file at `path` for appending, and creates it if it does not exist. An existing file keeps its mode.
pub(super) fn open(path: &Path) -> Result<Opened> {
    let made = OpenOptions::new().append(true).create_new(true).mode(MODE).open(path);
    let opened = match made {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let file = OpenOptions::new().append(true).create(true).mode(MODE).open(path);
            file.map(|file| Opened { file, is_new: false })
        }
        made => made.map(|file| Opened { file, is_new: true }),
    };
    opened.map_err(|error| {
        failure::failed(
            format!("cannot write the access log {}: {error}", path.display()),
            "check [log] access in the configuration, and that this user may write there",
        )
    })
}

impl AccessLog {
    /// Starts to write.
    pub(super) fn start(file: File) -> Result<AccessLog> {
        let (sender, lines) = sync_channel(WAITING_LINES);
        let left_out = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&left_out);
        let writer = std::thread::Builder::new().name("access-log".into());
        let writer = writer.spawn(move || write_all(file, &lines, &counter))?;
        Ok(AccessLog { lines: Mutex::new(Some(sender)), left_out, writer: Some(writer) })
    }

    /// Adds a line. Never waits.
    pub(super) fn log(&self, access: &Access) {
        let line = line(access, SystemTime::now());
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = lines.as_ref().map_or(Ok(()), |lines| lines.try_send(line));
        if let Err(TrySendError::Full(_)) = sent {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        *self.lines.lock().unwrap_or_else(PoisonError::into_inner) = None;
        if let Some(writer) = self.writer.take() {
            // A panic of the thread has been reported on standard error.
            let _ = writer.join();
        }
    }
}

/// Writes lines as they come. Whenever no line is waiting, the file is complete.
fn write_all(file: File, lines: &Receiver<String>, left_out: &AtomicU64) {
    let mut file = BufWriter::new(file);
    let mut failed = false;
    while let Ok(first) = lines.recv() {
        let written = std::iter::once(first)
            .chain(lines.try_iter())
            .try_for_each(|line| file.write_all(line.as_bytes()))
            .and_then(|()| file.flush());
        match written {
            Ok(()) => failed = false,
            Err(error) if !failed => {
                tracing::error!(%error, "the access log cannot be written");
                failed = true;
            }
            Err(_) => {}
        }
        let lines = left_out.swap(0, Ordering::Relaxed);
        if lines > 0 {
            tracing::warn!(lines, "the access log was too slow; lines were left out");
        }
    }
}

/// `address - - [time] "request" status bytes "referer" "user agent" seconds`; for an object also its source and the
/// seconds until its first byte. The referer is left out, because it may contain the token of a signed address.
fn line(access: &Access, now: SystemTime) -> String {
    let Access { peer, verb, path, protocol, status, bytes, took, user_agent, object } = access;
    let mut line = format!("{peer} - - [{}] \"{verb} ", time(now));
    escape(path, &mut line);
    let _ = write!(line, " {protocol}\" {status} {bytes} \"-\" \"");
    escape(user_agent.as_deref().unwrap_or("-"), &mut line);
    let _ = write!(line, "\" {:.3}", took.as_secs_f64());
    if let Some((source, wait)) = object {
        let _ = write!(line, " {} {:.4}", source.name(), wait.as_secs_f64());
    }
    line.push('\n');
    line
}

/// As in `10/Oct/2000:13:55:36 +0000`.
fn time(now: SystemTime) -> String {
    // "Tue, 10 Oct 2000 13:55:36 GMT" (RFC 9110 §5.6.7) has each part at its fixed place.
    let date = httpdate::fmt_http_date(now);
    format!("{}/{}/{}:{} +0000", &date[5..7], &date[8..11], &date[12..16], &date[17..25])
}

/// Quotes, backslashes and characters other than plain ASCII come from outside, and must not end a field or control a
/// terminal.
fn escape(text: &str, out: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            b' '..=b'~' => out.push(char::from(byte)),
            _ => {
                let _ = write!(out, "\\x{byte:02x}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn access(path: &str, user_agent: &str) -> Access {
        Access {
            peer: "2001:db8::7".parse().unwrap(),
            verb: "GET",
            path: path.into(),
            protocol: "HTTP/1.1".into(),
            status: 200,
            bytes: 12_345,
            took: Duration::from_millis(90_061),
            user_agent: Some(user_agent.into()),
            object: None,
        }
    }

    #[test]
    fn a_line_is_what_log_readers_know() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(971_186_136);
        assert_eq!(
            line(&access("/live/stage.ts", "VLC/3.0.18 LibVLC"), now),
            "2001:db8::7 - - [10/Oct/2000:13:55:36 +0000] \"GET /live/stage.ts HTTP/1.1\" 200 12345 \"-\" \
             \"VLC/3.0.18 LibVLC\" 90.061\n"
        );
    }

    #[test]
    fn what_comes_from_outside_stays_in_its_field() {
        let line = line(&access("/a\"b", "x\\\u{1b}[31m\nä\""), SystemTime::UNIX_EPOCH);
        assert!(line.contains(r#""GET /a\"b HTTP/1.1""#), "{line}");
        assert!(line.contains(r#""x\\\x1b[31m\x0a\xc3\xa4\"" "#), "{line}");
        assert_eq!(line.matches('\n').count(), 1);
    }
}
