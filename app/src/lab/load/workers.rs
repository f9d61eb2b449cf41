//! A load in several processes: each has its own descriptors and its own core, and tells the one that started it
//! how far it is and what it saw, a line of JSON each. A process whose standard input closes ends early.

use super::session::{self, Plan, TELL};
use crate::{failure, output};
use anyhow::{Context, Result};
use glassline_lab::load::{Progress, Settings, Tally};
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// What a process tells.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Message {
    Progress(Progress),
    Tally(Box<Tally>),
}

/// How soon a signal is heeded.
const STEP: Duration = Duration::from_millis(100);

/// Does one process' part, and tells.
pub(super) fn work(settings: Settings, plan: Plan) -> Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    // A terminal's Ctrl-C comes here too, before or after the end of standard input that it leads to.
    for signal in [SIGINT, SIGTERM] {
        flag::register(signal, Arc::clone(&stop)).context("cannot wait for signals")?;
    }
    let ended = Arc::clone(&stop);
    std::thread::spawn(move || {
        let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
        ended.store(true, Ordering::Relaxed);
    });
    let tell = |message: &Message| {
        let line = serde_json::to_string(message).context("cannot write JSON")?;
        output::print(&(line + "\n"))
    };
    let tally = session::run(settings, plan, &stop, &mut |progress| tell(&Message::Progress(*progress)))?;
    tell(&Message::Tally(Box::new(tally)))
}

/// A started process; it ends with this.
struct Worker {
    child: Child,
    /// Open for as long as it shall go on.
    input: Option<ChildStdin>,
    progress: Progress,
    tally: Option<Box<Tally>>,
}

impl Worker {
    fn start(index: usize, arguments: &[String], told: &Sender<(usize, Option<Message>)>) -> Result<Worker> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a process of the load")?;
        let (input, out) = (child.stdin.take(), child.stdout.take());
        let told = told.clone();
        std::thread::spawn(move || pass_on(index, out, &told));
        Ok(Worker { child, input, progress: Progress::default(), tally: None })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Fails only where it has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Passes on what a process tells, and its end as `None`.
fn pass_on(index: usize, out: Option<ChildStdout>, told: &Sender<(usize, Option<Message>)>) {
    let lines = out.into_iter().flat_map(|out| BufReader::new(out).lines());
    for line in lines.map_while(Result::ok) {
        if let Ok(message) = serde_json::from_str(&line)
            && told.send((index, Some(message))).is_err()
        {
            return;
        }
    }
    let _ = told.send((index, None));
}

/// Starts a process for each command line and adds up what they saw. `show` gets the progress of all once a second.
pub(super) fn run(
    arguments: Vec<Vec<String>>,
    stop: &AtomicBool,
    show: &mut dyn FnMut(&Progress),
) -> Result<Tally> {
    let (told, telling) = mpsc::channel();
    let mut workers: Vec<Worker> = arguments
        .iter()
        .enumerate()
        .map(|(index, arguments)| Worker::start(index, arguments, &told))
        .collect::<Result<_>>()?;
    drop(told);
    let mut shown = Instant::now();
    loop {
        match telling.recv_timeout(STEP) {
            Ok((index, Some(Message::Progress(progress)))) => workers[index].progress = progress,
            Ok((index, Some(Message::Tally(tally)))) => workers[index].tally = Some(tally),
            Ok((index, None)) if workers[index].tally.is_none() => {
                return Err(failure::failed(
                    "a process of the load has ended without its report",
                    "see above what it says",
                ));
            }
            Ok((_, None)) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if stop.load(Ordering::Relaxed) {
            workers.iter_mut().for_each(|worker| worker.input = None);
        }
        if shown.elapsed() >= TELL {
            shown = Instant::now();
            let mut sum = Progress::default();
            workers.iter().for_each(|worker| sum.merge(&worker.progress));
            show(&sum);
        }
    }
    let mut sum = Tally::default();
    workers.iter().filter_map(|worker| worker.tally.as_deref()).for_each(|tally| sum.merge(tally));
    Ok(sum)
}
