//! The spool's log as files of a folder, which one process has at a time.

use bytes::Bytes;
use glassline_delivery::archive::log::{self, HEADER_BYTES, Header, Kind, Piece};
use glassline_delivery::archive::spool::{Log, LogFailed, Recovery};
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, IoSlice, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files that are kept open, to be read.
const OPEN_MAX: usize = 32;
/// Of a part, so much is read at a start: its line is within.
const PART_HEAD_BYTES: u64 = 4 << 10;
/// So many of the newest files are read whole at a start; what is older was on the disk long before a crash.
const WHOLE_FILES: usize = 2;
/// Slices that one call of the system writes.
const SLICES_MAX: usize = 64;
const LOCK_NAME: &str = "lock";
/// So much is read at once where the next record is looked for behind a damaged one.
const SEARCH_BYTES: u64 = 1 << 20;

/// The log.
#[derive(Debug)]
pub(crate) struct LogFiles {
    folder: PathBuf,
    /// Locked as long as it is open.
    _lock: File,
    newest: Option<(u32, Arc<File>, u64)>,
    open: BTreeMap<u32, Arc<File>>,
    /// Written, and not known to be on the disk.
    dirty: BTreeMap<u32, Arc<File>>,
    /// Files that go when what was written before they were deleted is on the disk: first those of the next synchronization, then
    /// those of the one that is under way.
    condemned: (Vec<u32>, Vec<u32>),
    /// Why the last thing failed.
    failure: Option<String>,
}

fn path_of(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("{number:08}.log"))
}

impl LogFiles {
    /// Opens the log in `folder`, which is made where only its last part is missing.
    ///
    /// # Errors
    /// Why it cannot be had, in words.
    pub(crate) fn open(folder: &Path) -> Result<LogFiles, String> {
        let told = |what: &str, error: &io::Error| format!("the spool {}: {what}: {error}", folder.display());
        match fs::create_dir(folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(told("the folder cannot be made", &error));
            }
            _ => {}
        }
        let mut options = OpenOptions::new();
        let lock = options.read(true).write(true).create(true).truncate(false).open(folder.join(LOCK_NAME));
        let mut lock = lock.map_err(|error| told("its lock cannot be opened", &error))?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut holder = String::new();
            let _ = (&lock).take(20).read_to_string(&mut holder);
            return Err(format!(
                "the spool {} is used by another process ({}): give each server a spool of its own",
                folder.display(),
                holder.trim()
            ));
        }
        let written = lock.set_len(0).and_then(|()| lock.seek(SeekFrom::Start(0)));
        let written = written.and_then(|_| writeln!(lock, "process {}", std::process::id()));
        written.map_err(|error| told("nothing can be written there", &error))?;
        Ok(LogFiles {
            folder: folder.into(),
            _lock: lock,
            newest: None,
            open: BTreeMap::new(),
            dirty: BTreeMap::new(),
            condemned: (Vec::new(), Vec::new()),
            failure: None,
        })
    }

    /// Why the last thing failed; then that is told.
    pub(crate) fn take_failure(&mut self) -> Option<String> {
        self.failure.take()
    }

    /// The files that were written since the last call. [`LogFiles::synced`] says when the disk has them; it is not called again
    /// before.
    pub(crate) fn take_dirty(&mut self) -> Vec<Arc<File>> {
        let (next, under_way) = &mut self.condemned;
        under_way.append(next);
        std::mem::take(&mut self.dirty).into_values().collect()
    }

    /// The disk has what was taken last: what that replaces goes.
    pub(crate) fn synced(&mut self) {
        for number in std::mem::take(&mut self.condemned.1) {
            if let Err(error) = fs::remove_file(path_of(&self.folder, number)) {
                let _ = self.fail("a file cannot be deleted", &error);
            }
        }
    }

    /// The disk may not have what was taken last: what that replaces stays for the next start.
    pub(crate) fn sync_failed(&mut self) {
        self.condemned = (Vec::new(), Vec::new());
    }

    /// The disk is full: what it need not have any more goes at once, after what replaces that is on it. False where nothing has gone.
    fn free(&mut self) -> bool {
        if self.condemned.0.is_empty() && self.condemned.1.is_empty() {
            return false;
        }
        // What another thread puts onto the disk at the moment is among what was written to the newest file, or the one before.
        let newest = self.newest.iter().map(|(_, file, _)| file).chain(self.open.values());
        if newest.chain(self.dirty.values()).any(|file| file.sync_data().is_err()) {
            return false;
        }
        let (next, under_way) = &mut self.condemned;
        under_way.append(next);
        self.synced();
        true
    }

    /// Reads what a former process has left.
    ///
    /// # Errors
    /// Where the folder or a file cannot be read, in words.
    pub(crate) fn recover(&mut self, recovery: &mut Recovery) -> Result<(), String> {
        let told = |path: &Path, error: io::Error| format!("the spool {}: {error}", path.display());
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(|error| told(&self.folder, error))? {
            let name = entry.map_err(|error| told(&self.folder, error))?.file_name();
            let digits = name.to_str().and_then(|name| name.strip_suffix(".log"));
            numbers.extend(
                digits.filter(|digits| digits.len() == 8).and_then(|digits| digits.parse::<u32>().ok()),
            );
        }
        numbers.sort_unstable();
        let whole_from = numbers.len().saturating_sub(WHOLE_FILES);
        for (index, number) in numbers.iter().enumerate() {
            let path = path_of(&self.folder, *number);
            let is_newest = index + 1 == numbers.len();
            let read = read_file(&path, *number, (index >= whole_from, is_newest), recovery);
            read.map_err(|error| told(&path, error))?;
        }
        Ok(())
    }

    fn fail(&mut self, what: &str, error: &io::Error) -> LogFailed {
        self.failure = Some(format!("the spool {}: {what}: {error}", self.folder.display()));
        LogFailed
    }

    fn file(&mut self, number: u32) -> Option<Arc<File>> {
        if let Some((newest, file, _)) = &self.newest
            && *newest == number
        {
            return Some(Arc::clone(file));
        }
        if let Some(file) = self.open.get(&number) {
            return Some(Arc::clone(file));
        }
        let file = Arc::new(File::open(path_of(&self.folder, number)).ok()?);
        if self.open.len() >= OPEN_MAX {
            self.open.pop_first();
        }
        self.open.insert(number, Arc::clone(&file));
        Some(file)
    }
}

/// Reads a file's records: with their payloads where `is_whole`. What is behind the last whole one of the newest file was torn by a
/// crash and is cut off; what is not whole between others is damage, and is left out.
fn read_file(
    path: &Path,
    number: u32,
    (is_whole, is_newest): (bool, bool),
    recovery: &mut Recovery,
) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let length = file.metadata()?.len();
    let mut at = 0;
    let mut records = Vec::new();
    while at < length {
        if let Some((header, head)) = read_record(&file, at, length, is_whole)? {
            records.push((header, head, at as usize + HEADER_BYTES));
            at += header.record_bytes();
            continue;
        }
        let next = find_record(&file, at + 1, length)?.filter(|_| !is_newest);
        let bytes = next.unwrap_or(length) - at;
        if next.is_none() && is_newest {
            tracing::info!(file = %path.display(), bytes, "what a crash has torn is cut off");
            file.set_len(at)?;
            break;
        }
        tracing::warn!(file = %path.display(), at, bytes, "the spool's disk has not what was written to it; that is left out");
        at += bytes;
    }
    recovery.file(number, at);
    for (header, head, at) in records {
        recovery.record(&header, &head, at);
    }
    Ok(())
}

/// Where the next header of a record is, from `at` on.
fn find_record(file: &File, mut at: u64, length: u64) -> io::Result<Option<u64>> {
    let mut bytes = Vec::new();
    while at < length {
        let end = length.min(at + SEARCH_BYTES);
        bytes.resize((end - at) as usize, 0);
        file.read_exact_at(&mut bytes, at)?;
        if let Some(found) = log::find(&bytes) {
            return Ok(Some(at + found as u64));
        }
        if end == length {
            break;
        }
        // A header may lie across the end.
        at = end - HEADER_BYTES as u64;
    }
    Ok(None)
}

/// The record at a place, and its payload or, of a part, the beginning of it; `None` where it is not whole.
fn read_record(file: &File, at: u64, length: u64, is_whole: bool) -> io::Result<Option<(Header, Vec<u8>)>> {
    let mut bytes = [0; HEADER_BYTES];
    if length.saturating_sub(at) < HEADER_BYTES as u64 {
        return Ok(None);
    }
    file.read_exact_at(&mut bytes, at)?;
    let Ok(header) = Header::read(&bytes) else { return Ok(None) };
    if header.record_bytes() > length - at {
        return Ok(None);
    }
    let has_media = matches!(header.kind, Kind::Part | Kind::MpegTs);
    let wanted = if is_whole || !has_media {
        u64::from(header.length)
    } else {
        u64::from(header.length).min(PART_HEAD_BYTES)
    };
    let mut payload = vec![0; wanted as usize];
    file.read_exact_at(&mut payload, at + HEADER_BYTES as u64)?;
    if wanted == u64::from(header.length) && !header.has(&payload) {
        return Ok(None);
    }
    if has_media {
        let end = payload.iter().position(|byte| *byte == b'\n').map_or(payload.len(), |end| end + 1);
        payload.truncate(end);
    }
    Ok(Some((header, payload)))
}

/// Writes all of `slices` at the end of `file`.
fn write_all(file: &mut &File, slices: &[&[u8]]) -> io::Result<()> {
    for slices in slices.chunks(SLICES_MAX) {
        let mut slices: Vec<IoSlice<'_>> = slices.iter().map(|slice| IoSlice::new(slice)).collect();
        let mut rest = &mut slices[..];
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            match file.write_vectored(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => IoSlice::advance_slices(&mut rest, count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

impl Log for LogFiles {
    fn append(&mut self, header: &[u8; HEADER_BYTES], payload: &[Bytes]) -> Result<(), LogFailed> {
        let slices: Vec<&[u8]> =
            [&header[..]].into_iter().chain(payload.iter().map(|piece| &piece[..])).collect();
        let Some((_, file, length)) = &self.newest else {
            return Err(self.fail("cannot be written", &io::Error::other("no file of it could be begun")));
        };
        let (mut written, file, length) = (write_all(&mut &**file, &slices), Arc::clone(file), *length);
        let is_full = |error: &io::Error| error.kind() == ErrorKind::StorageFull;
        if written.as_ref().is_err_and(is_full) && file.set_len(length).is_ok() && self.free() {
            written = write_all(&mut &*file, &slices);
        }
        let Some((number, file, length)) = &mut self.newest else { return Err(LogFailed) };
        match written {
            Ok(()) => {
                *length += slices.iter().map(|slice| slice.len() as u64).sum::<u64>();
                self.dirty.insert(*number, Arc::clone(file));
                Ok(())
            }
            Err(error) => {
                // A full disk still makes files shorter; what stays there all the same is cut off at the next start.
                let (file, length) = (Arc::clone(file), *length);
                if let Err(error) = file.set_len(length) {
                    self.newest = None;
                    return Err(self.fail("cannot be written, nor be cut to what was written", &error));
                }
                Err(self.fail("cannot be written", &error))
            }
        }
    }

    fn begin_file(&mut self, number: u32) -> Result<(), LogFailed> {
        let path = path_of(&self.folder, number);
        let opened = OpenOptions::new().read(true).append(true).create(true).truncate(false).open(&path);
        let mut file = opened.and_then(|file| file.set_len(0).map(|()| file));
        if file.as_ref().is_err_and(|error| error.kind() == ErrorKind::StorageFull) && self.free() {
            file = OpenOptions::new().read(true).append(true).create(true).truncate(false).open(&path);
        }
        let file = file.map_err(|error| self.fail("a file cannot be made", &error))?;
        if let Some((number, file, _)) = self.newest.take() {
            self.open.insert(number, file);
        }
        // The file's name is on the disk with the folder.
        if let Ok(folder) = File::open(&self.folder) {
            self.dirty.insert(0, Arc::new(folder));
        }
        self.newest = Some((number, Arc::new(file), 0));
        Ok(())
    }

    fn delete_file(&mut self, number: u32) {
        self.open.remove(&number);
        self.dirty.remove(&number);
        // What has come in its place may not be on the disk yet: one that loses its power now must have the file.
        self.condemned.0.push(number);
    }

    fn has_file(&self) -> bool {
        self.newest.is_some()
    }

    fn read(&mut self, piece: Piece) -> Option<Bytes> {
        let file = self.file(piece.file)?;
        let mut bytes = vec![0; piece.length as usize];
        match file.read_exact_at(&mut bytes, piece.at.into()) {
            Ok(()) => Some(bytes.into()),
            Err(error) => {
                let _ = self.fail("cannot be read", &error);
                None
            }
        }
    }
}

#[cfg(test)]
#[path = "log_files_tests.rs"]
mod tests;
