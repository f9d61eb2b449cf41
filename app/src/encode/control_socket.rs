//! `--control PATH`: a Unix socket that takes one command per line, and answers each with a line of JSON.
//!
//! ```text
//! keyframe                 {"ok":true}
//! bitrate 3M [RENDITION]   {"ok":true}
//! size 640x360 [RENDITION] {"ok":true}
//! rate 25 [RENDITION]      {"ok":true}
//! preset slow [RENDITION]  {"ok":true}
//! status                   {"ok":true,"renditions":[…],"outputs":[…]}
//! anything else            {"ok":false,"error":"…"}
//! ```

use super::words;
use crate::failure;
use anyhow::{Context, Result};
use glassline_io::local::{Listener, Removal};
use glassline_media::quantity::{self, Bitrate};
use glassline_studio::encode::{Controls, Status};
use glassline_studio::output::{Status as OutputStatus, StatusHandle};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The length limit of a command with its line break.
const LINE_MAX_BYTES: u64 = 1024;
/// The largest number of connections. For a further one, the connection with the oldest last command is closed.
const CONNECTIONS_MAX: usize = 8;
/// A connection is closed if it sends nothing, or accepts no answer, for this long.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// What commands read and change.
struct Subject {
    controls: Controls,
    outputs: Vec<StatusHandle>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Answer {
    Done { ok: bool },
    Status { ok: bool, renditions: Vec<Status>, outputs: Vec<OutputStatus> },
    Refused { ok: bool, error: String },
}

/// Listens at `path` until the returned value is dropped.
///
/// # Errors
/// A usage error if the name is taken.
pub(super) fn listen(path: &Path, controls: Controls, outputs: Vec<StatusHandle>) -> Result<Removal> {
    let listener = Listener::bind(path).map_err(|error| {
        let what = match error.kind() {
            ErrorKind::AddrInUse => "another encoder listens there".to_owned(),
            ErrorKind::AlreadyExists => "there is a file of this name".to_owned(),
            _ => error.to_string(),
        };
        failure::usage(format_args!("--control {}: {what}", path.display()), "choose another path")
    })?;
    let removal = listener.removal();
    let subject = Arc::new(Subject { controls, outputs });
    // The thread is not joined: it waits for connections until the process ends.
    thread::Builder::new()
        .name("control".to_owned())
        .spawn(move || serve(&listener, &subject))
        .context("cannot start the thread for --control")?;
    Ok(removal)
}

fn serve(listener: &Listener, subject: &Arc<Subject>) {
    let open = Arc::new(Open::default());
    while let Ok(stream) = listener.accept() {
        let Ok(number) = open.enter(&stream) else { continue };
        let (subject, seat) = (Arc::clone(subject), Seat { open: Arc::clone(&open), number });
        // If the thread cannot be started, its closure is dropped, and the seat with it.
        let _ = thread::Builder::new().name("control".to_owned()).spawn(move || {
            // The client has gone if reading or writing fails: there is no one to report the error to.
            let _ = converse(stream, &subject, &seat);
        });
    }
}

/// The open connections. When there are as many as allowed, the connection with the oldest last command is closed for
/// a new one, so that idle connections do not keep others out.
#[derive(Default)]
struct Open {
    table: Mutex<Table>,
    left: Condvar,
}

#[derive(Default)]
struct Table {
    /// Each connection with the number of its last command, by the order in which the connections began.
    connections: BTreeMap<u64, (UnixStream, u64)>,
    next: u64,
}

impl Table {
    fn take_number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

impl Open {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection, for which another one may have to be closed. Returns the connection's key in the table.
    fn enter(&self, stream: &UnixStream) -> io::Result<u64> {
        let stream = stream.try_clone()?;
        let mut table = self.table();
        while table.connections.len() >= CONNECTIONS_MAX {
            let idlest = table.connections.values().min_by_key(|(_, last)| *last);
            if let Some((stream, _)) = idlest {
                // The connection's thread reads the end of the stream, or fails to write, and removes its entry.
                let _ = stream.shutdown(Shutdown::Both);
            }
            table = self.left.wait(table).unwrap_or_else(PoisonError::into_inner);
        }
        let number = table.take_number();
        table.connections.insert(number, (stream, number));
        Ok(number)
    }
}

/// A connection's entry in the table of open connections.
struct Seat {
    open: Arc<Open>,
    number: u64,
}

impl Seat {
    /// Notes that the connection has sent a command.
    fn note_command(&self) {
        let mut table = self.open.table();
        let now = table.take_number();
        if let Some((_, last)) = table.connections.get_mut(&self.number) {
            *last = now;
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.open.table().connections.remove(&self.number);
        self.open.left.notify_one();
    }
}

fn converse(stream: UnixStream, subject: &Subject, seat: &Seat) -> io::Result<()> {
    stream.set_read_timeout(Some(IDLE_TIMEOUT))?;
    stream.set_write_timeout(Some(IDLE_TIMEOUT))?;
    let out = stream.try_clone()?;
    answer_lines(stream, out, subject, || seat.note_command())
}

/// Answers each line of `input` with a line in `out`, until the input ends or a line is too long. Calls
/// `note_command` for each line.
fn answer_lines(
    input: impl Read,
    mut out: impl Write,
    subject: &Subject,
    mut note_command: impl FnMut(),
) -> io::Result<()> {
    let mut lines = BufReader::new(input);
    loop {
        let mut line = Vec::new();
        let length = lines.by_ref().take(LINE_MAX_BYTES).read_until(b'\n', &mut line)?;
        if length == 0 {
            return Ok(());
        }
        note_command();
        let is_cut = length as u64 == LINE_MAX_BYTES && line.last() != Some(&b'\n');
        let answer = if is_cut {
            refused("a command has at most 1023 bytes")
        } else {
            answer(&String::from_utf8_lossy(&line), subject)
        };
        let mut text = serde_json::to_vec(&answer)?;
        text.push(b'\n');
        out.write_all(&text)?;
        if is_cut {
            return Ok(());
        }
    }
}

/// The answers of an encoder with two renditions to `input`, and what was requested from it: a key frame, and a bit
/// rate for each rendition. The second rendition may have at most 8 Mbit/s.
pub(crate) fn answers_to(input: impl Read) -> (Vec<u8>, bool, [Option<Bitrate>; 2]) {
    let rate = Bitrate::from_bits_per_second(5_000_000);
    let status = |name: &str| Status::new(name.to_owned(), rate, "fast");
    let controls = Controls::new(vec![status("64x48@25"), status("32x24@25")]);
    controls.limit_bitrate(1, Bitrate::from_bits_per_second(8_000_000));
    let subject = Subject { controls: controls.clone(), outputs: Vec::new() };
    let mut answers = Vec::new();
    // Writing to memory does not fail. If reading fails, the conversation ends as at the end of the input.
    let _ = answer_lines(input, &mut answers, &subject, || {});
    (answers, controls.take_key_frame(), [0, 1].map(|index| controls.take_bitrate(index)))
}

fn refused(error: impl ToString) -> Answer {
    Answer::Refused { ok: false, error: error.to_string() }
}

fn answer(line: &str, Subject { controls, outputs }: &Subject) -> Answer {
    let words: Vec<&str> = line.split_whitespace().collect();
    let set = |what: &str, value: &str, rendition: &str| -> Result<()> {
        let index: usize = rendition.parse().map_err(|_| {
            failure::usage(format_args!("{rendition:?} is no number of a rendition"), "count from 0")
        })?;
        let asked = match what {
            "size" => controls.set_size(index, quantity::parse_size(value)?),
            "preset" => controls.set_preset(index, value),
            // Pictures a second; with a unit it is a bit rate.
            "rate" if !value.ends_with(['k', 'M']) => {
                controls.set_rate(index, quantity::parse_frame_rate(value)?)
            }
            _ => controls.set_bitrate(index, value.parse()?),
        };
        asked.map_err(|error| words::control(&error))
    };
    let done = |done: Result<()>| match done {
        Ok(()) => Answer::Done { ok: true },
        Err(error) => refused(error),
    };
    match words[..] {
        ["keyframe"] => {
            controls.request_key_frame();
            Answer::Done { ok: true }
        }
        [what @ ("bitrate" | "size" | "rate" | "preset"), value] => done(set(what, value, "0")),
        [what @ ("bitrate" | "size" | "rate" | "preset"), value, rendition] => {
            done(set(what, value, rendition))
        }
        ["status"] => {
            let outputs = outputs.iter().map(StatusHandle::get).collect();
            Answer::Status { ok: true, renditions: controls.status(), outputs }
        }
        _ => refused(
            "commands are: keyframe, status, and bitrate RATE, size WIDTHxHEIGHT, rate PICTURES or preset NAME, \
             each with the number of a rendition behind it where it is not the first",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn ask(stream: &mut UnixStream, command: &str) -> Value {
        writeln!(stream, "{command}").unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    #[test]
    fn commands_are_answered_line_by_line() {
        let folder = std::env::temp_dir().join(format!("glassline-control-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("control");
        let rate = Bitrate::from_bits_per_second(5_000_000);
        let controls = Controls::new(vec![Status::new("64x48@25".to_owned(), rate, "fast")]);
        let listening = listen(&path, controls.clone(), Vec::new()).unwrap();
        assert!(
            listen(&path, controls.clone(), Vec::new()).unwrap_err().to_string().contains("listens there")
        );
        let mut stream = UnixStream::connect(&path).unwrap();
        assert_eq!(ask(&mut stream, "keyframe"), json!({"ok": true}));
        assert!(controls.take_key_frame());
        assert_eq!(ask(&mut stream, "bitrate 3M"), json!({"ok": true}));
        assert_eq!(controls.take_bitrate(0), Some(Bitrate::from_bits_per_second(3_000_000)));
        for command in ["size 640x360", "rate 25", "rate 2M", "preset slow 0", "preset auto"] {
            assert_eq!(ask(&mut stream, command), json!({"ok": true}), "{command}");
        }
        assert_eq!(controls.take_bitrate(0), Some(Bitrate::from_bits_per_second(2_000_000)));
        for (command, complaint) in [
            ("bitrate 3", "unit"),
            ("bitrate 3M 1", "rendition 1"),
            ("bitrate 3M x", "number"),
            ("size 641x360", "even"),
            ("size big", "picture size"),
            ("rate 0", "frame rate"),
            ("rate 3G", "frame rate"),
            ("preset fastest", "ultrafast"),
            ("preset fast 1", "rendition 1"),
            ("size", "commands are"),
            ("", "commands are"),
        ] {
            let answer = ask(&mut stream, command);
            assert_eq!(answer["ok"], false);
            assert!(answer["error"].as_str().unwrap().contains(complaint), "{answer}");
        }
        let status = ask(&mut stream, "status");
        assert_eq!(
            (&status["ok"], &status["renditions"][0]["bitrate_bps"]),
            (&json!(true), &json!(5_000_000))
        );
        assert_eq!(status["outputs"], json!([]));
        // Several may ask at once; one that talks too much is cut off.
        let mut other = UnixStream::connect(&path).unwrap();
        other.write_all(&[b'x'; 2000]).unwrap();
        let mut answer = String::new();
        BufReader::new(&other).read_line(&mut answer).unwrap();
        assert!(answer.contains("at most"), "{answer}");
        assert_eq!(ask(&mut stream, "keyframe"), json!({"ok": true}));
        drop(listening);
        assert!(!path.exists());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_rests_gives_way_to_newcomers() {
        let folder = std::env::temp_dir().join(format!("glassline-control-idle-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("control");
        let rate = Bitrate::from_bits_per_second(5_000_000);
        let controls = Controls::new(vec![Status::new("64x48@25".to_owned(), rate, "fast")]);
        let _listening = listen(&path, controls, Vec::new()).unwrap();
        let connect = || {
            let stream = UnixStream::connect(&path).unwrap();
            stream.set_read_timeout(Some(IDLE_TIMEOUT)).unwrap();
            stream
        };
        let mut first = connect();
        assert_eq!(ask(&mut first, "keyframe"), json!({"ok": true}));
        // They never say anything.
        let mut silent: Vec<UnixStream> = Vec::new();
        for _ in 0..5 {
            silent.extend((1..CONNECTIONS_MAX).map(|_| connect()));
            let mut newcomer = connect();
            assert_eq!(ask(&mut newcomer, "keyframe"), json!({"ok": true}));
        }
        let ended = silent[0].read(&mut [0]).unwrap();
        assert_eq!(ended, 0, "it rested longest");
        let mut busy = connect();
        for _ in 0..5 * CONNECTIONS_MAX {
            assert_eq!(ask(&mut busy, "keyframe"), json!({"ok": true}));
            let mut newcomer = connect();
            assert_eq!(ask(&mut newcomer, "keyframe"), json!({"ok": true}));
            silent.push(newcomer);
        }
        assert_eq!(ask(&mut busy, "keyframe"), json!({"ok": true}));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
