//! A load in several processes: each has its own descriptors and its own core, and reports to the process that
//! started it: its progress and its results, as one line of JSON each. A process ends early if its standard input is
//! closed.

use super::session::TELL;
use crate::{failure, output};
use anyhow::{Context, Result};
use glassline_lab::load::live::LiveTally;
use glassline_lab::load::{Progress, Tally};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// A message of a process.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Message<T> {
    Progress(Progress),
    Tally(Box<T>),
}

/// Results of a process, which can be added up.
pub(super) trait Sum: Default + Serialize + DeserializeOwned + Send + 'static {
    /// Adds the results of another process.
    fn add(&mut self, other: &Self);
}

impl Sum for Tally {
    fn add(&mut self, other: &Tally) {
        self.merge(other);
    }
}

impl Sum for LiveTally {
    fn add(&mut self, other: &LiveTally) {
        self.merge(other);
    }
}

/// How soon a signal takes effect.
const STEP: Duration = Duration::from_millis(100);

/// Runs this process' part, which is `run`, and reports.
pub(super) fn work<T: Sum>(
    run: impl FnOnce(&AtomicBool, &mut dyn FnMut(&Progress) -> Result<()>) -> Result<T>,
) -> Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    // Ctrl-C in a terminal reaches this process, too, before or after its standard input is closed because of it.
    for signal in [SIGINT, SIGTERM] {
        flag::register(signal, Arc::clone(&stop)).context("cannot wait for signals")?;
    }
    let ended = Arc::clone(&stop);
    std::thread::spawn(move || {
        let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
        ended.store(true, Ordering::Relaxed);
    });
    let tell = |message: &Message<T>| {
        let line = serde_json::to_string(message).context("cannot write JSON")?;
        output::print(&(line + "\n"))
    };
    let tally = run(&stop, &mut |progress| tell(&Message::Progress(*progress)))?;
    tell(&Message::Tally(Box::new(tally)))
}

/// A process' index and its message; `None` when the process has ended.
type Told<T> = (usize, Option<Message<T>>);

/// A started process. Dropping it ends the process.
struct Worker<T> {
    child: Child,
    /// Open as long as the process shall run.
    input: Option<ChildStdin>,
    progress: Progress,
    tally: Option<Box<T>>,
}

impl<T: Sum> Worker<T> {
    fn start(index: usize, arguments: &[String], told: &Sender<Told<T>>) -> Result<Worker<T>> {
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

impl<T> Drop for Worker<T> {
    fn drop(&mut self) {
        // This fails only if the process has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Passes on the messages of a process, and its end as `None`.
fn pass_on<T: Sum>(index: usize, out: Option<ChildStdout>, told: &Sender<Told<T>>) {
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

/// Starts a process for each command line and adds up the results. `show` gets the total progress once per second.
pub(super) fn run<T: Sum>(
    arguments: Vec<Vec<String>>,
    stop: &AtomicBool,
    show: &mut dyn FnMut(&Progress),
) -> Result<T> {
    let (told, telling) = mpsc::channel();
    let mut workers: Vec<Worker<T>> = arguments
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
    let mut sum = T::default();
    workers.iter().filter_map(|worker| worker.tally.as_deref()).for_each(|tally| sum.add(tally));
    Ok(sum)
}
