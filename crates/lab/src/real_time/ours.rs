//! `glassline send` and `glassline receive` with a link between them: pictures go in by a pipe at their rate and come out by one.
//!
//! A picture is captured when its first byte is written to the sender, and shown when its last byte is read from the receiver, both
//! by one clock: both pipes are part of the delay.

use super::clip::Clip;
use super::field::{AFTER, CONNECT, Field, Run};
use super::lines::{Carried, Way};
use super::matching::{Seen, matched};
use super::process::Program;
use super::score::Judge;
use crate::experiment::StageTime;
use anyhow::{Context, Result, ensure};
use glassline_direct::SenderCounters;
use glassline_io::clock::Clock;
use glassline_measure::barcode;
use glassline_media::container::y4m;
use glassline_media::{Picture, Size, Stage};
use serde_json::Value;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::net::UdpSocket;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The program, and options of its `send`.
#[derive(Clone, Debug)]
pub struct Direct {
    /// The program `glassline`.
    pub program: PathBuf,
    /// What `send` is told beside input, address, key and, where there are several lines, its paths.
    pub options: Vec<OsString>,
}

/// What has an end of its own looked at while it runs: false once it is dropped.
struct Going<'a>(&'a AtomicBool);

impl Drop for Going<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// A picture that was shown; its luma lies in a file, one behind the other.
#[derive(Clone, Copy, Debug)]
struct Shown {
    seen: Seen,
    size: Size,
    at: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // What was pushed before a panic is whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What both threads note while it runs.
#[derive(Default)]
struct Notes {
    captures: Mutex<Vec<Seen>>,
    shown: Mutex<Vec<Shown>>,
}

/// What is left of a call when both programs have ended.
struct Call {
    carried: Vec<Carried>,
    connected: Duration,
    /// The sender's own.
    report: Value,
    /// The receiver's own.
    received: Value,
}

/// Sends for `length` from the first picture that is shown.
pub(super) fn run(field: &mut Field<'_>, direct: &Direct, way: &Way, length: Duration) -> Result<Run> {
    let file = field.scratch.file("shown.luma");
    let kept = File::options().read(true).write(true).create(true).truncate(true).open(file);
    let (kept, notes) = (kept.context("cannot keep what is shown")?, Notes::default());
    let Call { carried, connected, report, received } = call(field, direct, way, length, &kept, &notes)?;
    let (captures, shown) = (lock(&notes.captures).clone(), lock(&notes.shown).clone());
    let seen: Vec<Seen> = shown.iter().map(|shown| shown.seen).collect();
    let mut matched = matched(&captures, &seen, length);
    let mut judge = Judge::new(field.clip);
    let mut luma = Vec::new();
    for (index, Shown { seen, size, at }) in shown.iter().enumerate().filter(|_| way.is_judged) {
        luma.resize(size.width as usize * size.height as usize, 0);
        kept.read_exact_at(&mut luma, *at).context("cannot read what was shown")?;
        judge.judge(&mut matched, index, seen.1, *size, &luma)?;
        field.watch.pause(Duration::ZERO)?;
    }
    let (ssim, judged) = (judge.ssim, judge.pictures);
    let bytes = report["bytes"].as_u64().unwrap_or(0);
    let lasted = match (captures.first(), captures.last()) {
        (Some((first, _)), Some((last, _))) => last.since(*first).as_secs_f64().max(1e-3),
        _ => 1e-3,
    };
    Ok(Run {
        matched,
        ssim,
        judged,
        sizes: shown.iter().map(|shown| shown.size).collect(),
        carried,
        connected,
        counters: counters(&report),
        stages: stages(&received),
        bits_per_s: bytes as f64 * 8.0 / lasted,
        details: Value::Null,
    })
}

/// A key that both ends share, made once.
fn key(field: &Field<'_>, direct: &Direct) -> Result<PathBuf> {
    let key = field.scratch.file("link.key");
    if !key.exists() {
        let mut command = Command::new(&direct.program);
        command.args(["key", "new"]).arg(&key).stdout(Stdio::null());
        let errors = field.scratch.file("key.err");
        Program::start("glassline key", &mut command, errors)?.finish(CONNECT, &field.watch)?;
    }
    Ok(key)
}

/// Runs both programs and ends them; what was captured and shown is noted.
fn call(
    field: &mut Field<'_>,
    direct: &Direct,
    way: &Way,
    length: Duration,
    kept: &File,
    notes: &Notes,
) -> Result<Call> {
    let key = key(field, direct)?;
    let (scratch, clip, watch) = (field.scratch, field.clip, &field.watch);
    let far = field.lines.networks().addresses.far;
    let bound = UdpSocket::bind((far, 0)).and_then(|socket| socket.local_addr());
    let address = format!("link://{far}:{}", bound.context("no port is free")?.port());
    let going = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let _going = Going(&going);
        let mut command = Command::new(&direct.program);
        // Not with --once: an outage of some seconds would be the sender's end.
        command.args(["receive", &address, "-", "--json", "--key"]).arg(&key);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut receiver = Program::start("glassline receive", &mut command, scratch.file("receive.err"))?;
        let output = receiver.output()?;
        scope.spawn(|| read(output, kept, &notes.shown));
        watch.until("glassline receive to listen", CONNECT, || {
            receiver.check()?;
            Ok(receiver.said().contains("listening").then_some(()))
        })?;
        let begun = Clock::new().now();
        let emulations = field.lines.start(way)?;
        let (said, errors) = (scratch.file("send.json"), scratch.file("send.err"));
        let mut command = Command::new(&direct.program);
        command.args(["send", "-", &address, "--json", "--key"]).arg(&key).args(&direct.options);
        command.args(field.lines.devices().flat_map(|device| ["--path", device]));
        command.stdin(Stdio::piped());
        command.stdout(File::create(&said).context("cannot write what the sender reports")?);
        let started =
            field.lines.networks().within(|| Program::start("glassline send", &mut command, errors));
        let mut sender = started??;
        let input = sender.input()?;
        scope.spawn(|| feed(input, clip, &going, &notes.captures));
        let mut check = || {
            sender.check()?;
            receiver.check()?;
            ensure!(!emulations.have_failed(), "the link has failed");
            Ok(())
        };
        let first = watch.until("the first picture", CONNECT, || {
            check()?;
            Ok(lock(&notes.shown).first().map(|shown: &Shown| shown.seen.0))
        })?;
        emulations.open_window();
        let clock = Clock::new();
        watch.until("the end", length + CONNECT, || {
            check()?;
            Ok((clock.now() >= first + length).then_some(()))
        })?;
        let windows = emulations.close_window()?;
        going.store(false, Ordering::Relaxed);
        sender.finish(AFTER, watch)?;
        receiver.interrupt();
        receiver.finish(AFTER, watch)?;
        let carried = field.lines.end(emulations, windows)?;
        let report = std::fs::read(said).context("cannot read what the sender reports")?;
        let report = serde_json::from_slice(&report).context("the sender's report is no JSON")?;
        let received = json_line(&receiver.said()).context("the receiver reports nothing")?;
        Ok(Call { carried, connected: first.since(begun), report, received })
    })
}

/// What the sender says of itself.
fn counters(report: &Value) -> SenderCounters {
    let count = |key: &str| report[key].as_u64().unwrap_or(0);
    let chosen = |key: &str| report["chosen"][key].as_u64().unwrap_or(0);
    SenderCounters {
        pictures: count("captured").saturating_sub(count("replaced")),
        sent: count("sent"),
        bytes: count("bytes"),
        skipped: count("skipped"),
        lost: count("lost"),
        key: count("key"),
        chosen: ["finest", "between", "coarsest"].map(chosen),
        ..SenderCounters::default()
    }
}

/// The last line of JSON among what a program has written.
fn json_line(said: &str) -> Option<Value> {
    said.lines().rev().filter(|line| line.starts_with('{')).find_map(|line| serde_json::from_str(line).ok())
}

/// Where the receiver says that the time of pictures went, in the order of the stages.
fn stages(report: &Value) -> Vec<StageTime> {
    let of = |stage: Stage| {
        let times = report["stages_ms"].get(stage.name())?;
        let [p50_ms, p95_ms, p99_ms] = ["p50", "p95", "p99"].map(|key| times[key].as_f64());
        Some(StageTime { stage: stage.name().to_owned(), p50_ms: p50_ms?, p95_ms: p95_ms?, p99_ms: p99_ms? })
    };
    Stage::ALL.into_iter().filter_map(of).collect()
}

/// Writes the clip's pictures at their rate, over and over, until the run is over or the sender has ended. A picture is
/// left out if its time passes before the one before it was taken, as with a camera.
fn feed(mut to: ChildStdin, clip: &Clip, going: &AtomicBool, captures: &Mutex<Vec<Seen>>) {
    let (clock, mut frame) = (Clock::new(), Vec::new());
    let (begun, mut number) = (clock.now(), 0);
    // Where the sender has ended, its own words say why.
    if to.write_all(clip.header()).is_err() {
        return;
    }
    while going.load(Ordering::Relaxed) && clip.frame(number, &mut frame).is_ok() {
        let due = begun + clip.rate().time_of(number);
        std::thread::sleep(due.since(clock.now()));
        let at = clock.now();
        lock(captures).push((at, Some((number % clip.pictures()) as u32)));
        if to.write_all(&frame).is_err() {
            return;
        }
        number += 1;
        let now = clock.now();
        while begun + clip.rate().time_of(number + 1) <= now {
            number += 1;
        }
    }
}

/// Reads pictures as they are shown, and keeps their luma.
fn read(mut from: ChildStdout, kept: &File, shown: &Mutex<Vec<Shown>>) {
    let (clock, mut reader, mut buffer) = (Clock::new(), y4m::Reader::new(), vec![0; 1 << 12]);
    let mut end = 0;
    let mut take = |picture: &Picture| {
        let at = clock.now();
        let read = barcode::read(picture);
        let number = read.top_left.or(read.bottom_right).map(|code| code.frame_number);
        let size = picture.size();
        let luma: Vec<u8> = picture.planes()[0].lines().flatten().copied().collect();
        // Without room for it it is missed when pictures are judged.
        let _ = kept.write_all_at(&luma, end);
        lock(shown).push(Shown { seen: (at, number), size, at: end });
        end += luma.len() as u64;
    };
    loop {
        if let Some(room) = reader.room() {
            match from.read(room) {
                Ok(count @ 1..) => {
                    if let Some(picture) = reader.filled(count) {
                        take(&picture);
                    }
                }
                _ => return,
            }
            continue;
        }
        let Ok(count @ 1..) = from.read(&mut buffer) else { return };
        let mut input = &buffer[..count];
        while let Ok(Some(picture)) = reader.parse(&mut input) {
            take(&picture);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_read_from_what_the_receiver_says_last() {
        let said = "glassline: listening\n{\"stages_ms\":{}}\n\
            {\"stages_ms\":{\"shown\":{\"p50\":1.0,\"p95\":2.0,\"p99\":3.0},\
            \"encoder_in\":{\"p50\":0.5,\"p95\":0.5,\"p99\":0.5},\"decoded\":{\"p50\":1}}}\n{ no JSON\n";
        let stages = stages(&json_line(said).unwrap());
        let names: Vec<&str> = stages.iter().map(|stage| stage.stage.as_str()).collect();
        assert_eq!((names, stages[1].p95_ms), (vec!["encoder_in", "shown"], 2.0));
        assert!(json_line("nothing\n").is_none());
    }
}
