//! A time of recordings written to a file, or to memory.
//!
//! ```text
//! index ─► Plan ─► objects, some steps ahead, of spool or store ─► delivery::archive::export ─► FILE beside, then in its place
//!                                                                                           └► memory, of a bounded size
//! ```

use crate::reading::{Archive, StepObjects};
use crate::store::{StoreError, StoreErrorKind};
use crate::waits::Waits;
use bytes::Bytes;
use glassline_delivery::archive::export::{Container, Export, ExportError, Plan, Recoder, Report, Step};
use glassline_delivery::archive::query::Span;
use glassline_delivery::archive::window::{Source, TooLong, Window};
use glassline_delivery::policy::StreamName;
use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// Steps of which the objects are fetched ahead of the one that is written.
const AHEAD: usize = 8;
/// Bytes that are collected before they are written.
const WRITE_BYTES: usize = 1 << 20;
/// Bytes that are copied behind the head between two looks at whether it is still wanted.
const COPY_BYTES: u64 = 64 << 20;
/// Room for the head of what is made in memory: that of five minutes has less.
const HEAD_BYTES: usize = 1 << 20;
/// Hidden names that are tried for an unfinished file.
const NAMES_MAX: u32 = 100;
/// How often an object is asked for of a store that is busy or cannot be reached, and how long it is waited before the second time;
/// twice as long before each next one.
const TRIES: u32 = 6;
const TRY_AGAIN: Duration = Duration::from_millis(500);
/// How often it is looked whether it is still wanted, while the store has not answered.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long a process that ends at once waits for one that makes or names a file.
const ABANDON_WITHIN: Duration = Duration::from_secs(1);

/// What is exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportRequest {
    /// The stream.
    pub name: StreamName,
    /// From when to when; `None`: the newest recording.
    pub span: Option<Span>,
    /// As what.
    pub container: Container,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportProgress {
    /// What has been written lasts so long.
    pub done: Duration,
    /// All of it does.
    pub all: Duration,
}

/// Why there is no file.
#[derive(Debug, thiserror::Error)]
pub enum ExportFailure {
    /// The store does not say what is recorded, or does not give an object.
    #[error("the store of the recordings: {0}")]
    Store(#[from] StoreError),
    /// Nothing is recorded of the stream.
    #[error("nothing of {name} is recorded in this store{}", known(.streams))]
    NoStream {
        /// The stream.
        name: StreamName,
        /// Those that are recorded.
        streams: Vec<StreamName>,
    },
    /// There is nothing in that time.
    #[error("nothing of {0} is recorded in that time")]
    NothingThen(StreamName),
    /// More than is read at once.
    #[error("{0}")]
    TooLong(#[from] TooLong),
    /// What was recorded cannot be put into the file.
    #[error("{0}")]
    Export(#[from] ExportError),
    /// The file cannot be written.
    #[error("cannot write {path}: {error}")]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// There is a file of that name, which was not to be replaced.
    #[error("{path} exists")]
    Exists {
        /// Which.
        path: PathBuf,
    },
    /// What has that name is no file.
    #[error("{path} is not a file")]
    NoFile {
        /// Which.
        path: PathBuf,
    },
    /// It would take more memory than it may.
    #[error("that time has {bytes} bytes, and may have {most} here")]
    TooLarge {
        /// About so many bytes.
        bytes: u64,
        /// At most so many.
        most: u64,
    },
    /// It was ended by the one that wanted it.
    #[error("ended before it was whole; there is no file")]
    Stopped,
}

/// What becomes of a file that has the name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Former {
    /// It stays, and there is no other one.
    Kept,
    /// It is replaced.
    Replaced,
}

fn known(streams: &[StreamName]) -> String {
    match streams {
        [] => ", and nothing of any other stream".to_owned(),
        streams => {
            let names: Vec<_> = streams.iter().take(20).map(StreamName::as_str).collect();
            format!("; there are recordings of {}", names.join(", "))
        }
    }
}

/// The unfinished files of this process. What makes one, and what gives it its name, holds it meanwhile.
static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn unfinished() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes all unfinished files and calls `end`, before which no other one is made: for a process that ends at once.
pub fn abandon_all(end: impl FnOnce()) {
    let begun = Instant::now();
    // A disk that does not answer may hold the one that has it.
    let unfinished = loop {
        match UNFINISHED.try_lock() {
            Ok(unfinished) => break Some(unfinished),
            Err(TryLockError::Poisoned(poisoned)) => break Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if begun.elapsed() < ABANDON_WITHIN => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(TryLockError::WouldBlock) => break None,
        }
    };
    for path in unfinished.iter().flat_map(|paths| paths.iter()) {
        let _ = std::fs::remove_file(path);
    }
    end();
    drop(unfinished);
}

/// A file that is removed unless it gets its name.
struct Unfinished {
    path: PathBuf,
    file: Option<BufWriter<File>>,
}

impl Unfinished {
    /// A file beside `target`, which others do not take for it.
    fn beside(target: &Path, kind: &str) -> io::Result<Unfinished> {
        let name = target.file_name().ok_or_else(|| io::Error::other("it names no file"))?;
        let mut number = 0u32;
        loop {
            let hidden = format!(".{}.{kind}-{}-{number}", name.to_string_lossy(), std::process::id());
            let path = target.with_file_name(hidden);
            let mut unfinished = unfinished();
            // What has the name already is another's, or a link to elsewhere.
            match File::options().read(true).write(true).create_new(true).open(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < NAMES_MAX => {
                    number += 1;
                }
                opened => {
                    let file = Some(BufWriter::with_capacity(WRITE_BYTES, opened?));
                    unfinished.insert(path.clone());
                    return Ok(Unfinished { path, file });
                }
            }
        }
    }

    fn file(&mut self) -> io::Result<&mut BufWriter<File>> {
        self.file.as_mut().ok_or_else(|| io::Error::other("it is closed"))
    }

    /// All of it is there: it gets its name.
    fn finish(mut self, target: &Path, former: Former) -> io::Result<()> {
        let file = self.file.take().ok_or_else(|| io::Error::other("it is closed"))?;
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        if former == Former::Kept {
            // A link fails where the name is there, also one that came meanwhile. Not all file systems have links.
            match std::fs::hard_link(&self.path, target) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
                Err(_) if target.symlink_metadata().is_ok() => {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                Err(_) => {}
            }
        }
        let mut unfinished = unfinished();
        std::fs::rename(&self.path, target)?;
        unfinished.remove(&std::mem::take(&mut self.path));
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.path.as_os_str().is_empty() {
            let mut unfinished = unfinished();
            let _ = std::fs::remove_file(&self.path);
            unfinished.remove(&self.path);
        }
    }
}

/// Whether a file may get this name.
fn check_name(target: &Path, former: Former) -> Result<(), ExportFailure> {
    match target.metadata() {
        Ok(found) if !found.is_file() => Err(ExportFailure::NoFile { path: target.to_owned() }),
        Ok(_) if former == Former::Kept => Err(ExportFailure::Exists { path: target.to_owned() }),
        _ => Ok(()),
    }
}

/// Writes what `request` says to `target`, which appears when it is whole. With a `recoder` it begins with the first picture at the wanted
/// time or later, and without one with the key frame before. `progress` is told after each row of segments and while the
/// store is waited for, and ends it by returning false.
///
/// # Errors
/// [`ExportFailure`]; there is no file then, or the one that was there before.
pub fn export(
    recordings: &Archive,
    request: &ExportRequest,
    target: &Path,
    former: Former,
    recoder: Option<Recoder>,
    mut progress: impl FnMut(ExportProgress) -> bool,
) -> Result<Report, ExportFailure> {
    check_name(target, former)?;
    let unwritten = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => ExportFailure::Exists { path: target.to_owned() },
        _ => ExportFailure::Write { path: target.to_owned(), error },
    };
    // Before the store is asked: what cannot be written is told at once.
    let mut data = Unfinished::beside(target, "data").map_err(unwritten)?;
    let (plan, mut export) = plan(recordings, request, &mut progress)?;
    if let Some(recoder) = recoder {
        export.begin_exactly(recoder)?;
    }
    let write = |bytes: &[u8]| data.file().and_then(|file| file.write_all(bytes)).map_err(unwritten);
    let done = make(recordings, &plan, &mut export, &mut progress, write)?;
    let mut bytes = Vec::new();
    let finished = export.finish(&mut bytes);
    let (head, report) =
        finished.map_err(|error| if progress(done) { error.into() } else { ExportFailure::Stopped })?;
    data.file().and_then(|file| file.write_all(&bytes)).map_err(unwritten)?;
    if head.is_empty() {
        data.finish(target, former).map_err(unwritten)?;
        return Ok(report);
    }
    let mut whole = Unfinished::beside(target, "part").map_err(unwritten)?;
    if !copy_behind(&head, &mut data, &mut whole, || progress(done)).map_err(unwritten)? {
        return Err(ExportFailure::Stopped);
    }
    drop(data);
    whole.finish(target, former).map_err(unwritten)?;
    Ok(report)
}

/// Writes what was made elsewhere to `target`, which appears when it is whole.
///
/// # Errors
/// [`ExportFailure`]; there is no file then, or the one that was there before.
pub fn write_file(target: &Path, former: Former, bytes: &[u8]) -> Result<(), ExportFailure> {
    check_name(target, former)?;
    let unwritten = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => ExportFailure::Exists { path: target.to_owned() },
        _ => ExportFailure::Write { path: target.to_owned(), error },
    };
    let mut file = Unfinished::beside(target, "part").map_err(unwritten)?;
    file.file().and_then(|file| file.write_all(bytes)).map_err(unwritten)?;
    file.finish(target, former).map_err(unwritten)
}

/// Makes what `request` says in memory: `most` bytes, by and large. `progress` is told as by [`export()`].
///
/// # Errors
/// [`ExportFailure`], [`ExportFailure::TooLarge`] before anything is read but the index.
pub fn export_to_memory(
    recordings: &Archive,
    request: &ExportRequest,
    most: u64,
    mut progress: impl FnMut(ExportProgress) -> bool,
) -> Result<(Bytes, Report), ExportFailure> {
    let (plan, mut export) = plan(recordings, request, &mut progress)?;
    if plan.bytes > most {
        return Err(ExportFailure::TooLarge { bytes: plan.bytes, most });
    }
    // Room for the head, so that the data is not moved behind it. Packets of a transport stream take a little more than what they carry.
    let bound = most.saturating_add(most / 4);
    let mut data = Vec::with_capacity(HEAD_BYTES.saturating_add(usize::try_from(plan.bytes).unwrap_or(0)));
    data.resize(HEAD_BYTES, 0);
    let fits = |data: &[u8]| match data.len() as u64 {
        bytes if bytes > bound => Err(ExportFailure::TooLarge { bytes, most }),
        _ => Ok(()),
    };
    make(recordings, &plan, &mut export, &mut progress, |bytes| {
        data.extend_from_slice(bytes);
        fits(&data)
    })?;
    let (head, report) = export.finish(&mut data)?;
    fits(&data)?;
    let bytes = match HEAD_BYTES.checked_sub(head.len()) {
        Some(begins) => {
            if let Some(room) = data.get_mut(begins..HEAD_BYTES) {
                room.copy_from_slice(&head);
            }
            Bytes::from(data).slice(begins..)
        }
        None => [&head, data.get(HEAD_BYTES..).unwrap_or_default()].concat().into(),
    };
    Ok((bytes, report))
}

/// What the file needs. Waits for what has been captured and is recorded in a moment, where it is asked for.
fn plan(
    recordings: &Archive,
    request: &ExportRequest,
    progress: &mut impl FnMut(ExportProgress) -> bool,
) -> Result<(Plan, Export), ExportFailure> {
    let ExportRequest { name, span, container } = request;
    let mut waits = None;
    loop {
        let current = recordings.current(name, *span)?;
        let sources: Vec<_> = current
            .iter()
            .map(|(recording, is_running)| Source { recording, is_running: *is_running })
            .collect();
        let now = recordings.utc();
        let widened = span.map(|span| Plan::widened(&sources, span));
        let window = Window::of(&sources, widened, now)?;
        let is_awaited = window.as_ref().is_some_and(Window::is_awaited);
        let passed = recordings.now();
        let waits = waits.get_or_insert_with(|| Waits::begin(&sources, passed, now));
        if is_awaited && !waits.are_over(passed) {
            if !progress(ExportProgress { done: Duration::ZERO, all: Duration::ZERO }) {
                return Err(ExportFailure::Stopped);
            }
            std::thread::sleep(LOOK_EVERY);
            continue;
        }
        let Some(window) = window else {
            let streams = recordings.names()?;
            return Err(if streams.contains(name) {
                ExportFailure::NothingThen(name.clone())
            } else {
                ExportFailure::NoStream { name: name.clone(), streams }
            });
        };
        let plan = Plan::new(&window, *span, now);
        let export = Export::new(&plan, *container);
        return Ok((plan, export));
    }
}

/// Fetches what is planned, and gives the bytes of the file to `write`, without its head and its end.
fn make(
    recordings: &Archive,
    plan: &Plan,
    export: &mut Export,
    progress: &mut impl FnMut(ExportProgress) -> bool,
    mut write: impl FnMut(&[u8]) -> Result<(), ExportFailure>,
) -> Result<ExportProgress, ExportFailure> {
    let (mut coming, mut next) = (VecDeque::new(), plan.steps.iter());
    let mut told = ExportProgress { done: Duration::ZERO, all: plan.lasts };
    let mut bytes = Vec::new();
    for step in &plan.steps {
        while coming.len() < AHEAD
            && let Some(ahead) = next.next()
        {
            coming.push_back(recordings.fetch_step(ahead));
        }
        let Some(objects) = coming.pop_front() else { break };
        let objects = objects_of(recordings, step, objects, || progress(told))?;
        let pushed = export.push(step, &objects, &mut bytes);
        // What it was ended in is no error of its own.
        pushed.map_err(|error| if progress(told) { error.into() } else { ExportFailure::Stopped })?;
        if bytes.len() >= WRITE_BYTES {
            write(&bytes)?;
            bytes.clear();
        }
        told.done += step.lasts();
        if !progress(told) {
            return Err(ExportFailure::Stopped);
        }
    }
    write(&bytes)?;
    Ok(told)
}

/// Puts the data behind the head, which is known when all data is. Returns false where it is no longer wanted.
fn copy_behind(
    head: &[u8],
    data: &mut Unfinished,
    whole: &mut Unfinished,
    mut is_wanted: impl FnMut() -> bool,
) -> io::Result<bool> {
    let from = data.file()?;
    from.flush()?;
    from.get_mut().seek(SeekFrom::Start(0))?;
    let into = whole.file()?;
    into.write_all(head)?;
    into.flush()?;
    // By the kernel, which shares the blocks where the file system can.
    while io::copy(&mut from.get_mut().take(COPY_BYTES), into.get_mut())? > 0 {
        if !is_wanted() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What comes, unless it is no longer wanted.
fn wait(
    received: &Receiver<Result<Bytes, StoreError>>,
    is_wanted: &mut impl FnMut() -> bool,
) -> Result<Result<Bytes, StoreError>, ExportFailure> {
    loop {
        match received.recv_timeout(LOOK_EVERY) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Disconnected) => return Ok(Err(StoreError::thread_ended())),
            Err(RecvTimeoutError::Timeout) if is_wanted() => {}
            Err(RecvTimeoutError::Timeout) => return Err(ExportFailure::Stopped),
        }
    }
}

/// The objects of a step as they have come. One that is not there, or damaged, is left out; a store that does not answer ends it, asked
/// again and again.
fn objects_of(
    recordings: &Archive,
    step: &Step,
    coming: StepObjects,
    mut is_wanted: impl FnMut() -> bool,
) -> Result<Vec<Option<Bytes>>, ExportFailure> {
    let mut objects = Vec::new();
    for (planned, received) in step.objects.iter().zip(coming) {
        let mut result = wait(&received, &mut is_wanted)?;
        for (tries, pause) in (1..TRIES).zip(std::iter::successors(Some(TRY_AGAIN), |pause| Some(*pause * 2)))
        {
            let Err(error) = &result else { break };
            if !matches!(error.kind(), StoreErrorKind::Busy | StoreErrorKind::Unreachable) {
                break;
            }
            tracing::debug!(object = %planned.object, %error, tries, "a recorded object is asked for again");
            let until = Instant::now() + pause;
            while let Some(left) = until.checked_duration_since(Instant::now()) {
                std::thread::sleep(left.min(LOOK_EVERY));
                if !is_wanted() {
                    return Err(ExportFailure::Stopped);
                }
            }
            let mut again = step.clone();
            again.objects = vec![planned.clone()];
            let again = recordings.fetch_step(&again).pop();
            result = match again {
                Some(again) => wait(&again, &mut is_wanted)?,
                None => Err(StoreError::thread_ended()),
            };
        }
        objects.push(match result {
            Ok(bytes) => {
                let is_whole = planned.checksum.is_none_or(|(length, crc)| {
                    length == bytes.len() as u64 && crc == glassline_delivery::archive::index::crc32c(&bytes)
                });
                if !is_whole {
                    tracing::warn!(object = %planned.object, "a recorded object is damaged and left out");
                }
                Some(bytes).filter(|_| is_whole)
            }
            Err(error) if error.kind() == StoreErrorKind::NotFound => {
                tracing::warn!(object = %planned.object, "a recorded object is not there and left out");
                None
            }
            Err(error) => return Err(error.into()),
        });
    }
    Ok(objects)
}

#[cfg(test)]
#[path = "export_tests.rs"]
mod tests;
