//! Files that are written once, at gigabytes a second, past the page cache.
//!
//! Through the cache each byte is copied, and what was written for a while comes back as a stall when the system decides to
//! write it out. With `O_DIRECT` the disk reads from our memory: it wants blocks that begin at multiples of 4 KiB, in memory
//! and in the file, so that bytes are gathered first where they do not lie that way. A file system that knows no direct writes
//! (tmpfs before Linux 6.6, some network ones) gets ordinary ones, and is made to write out early and to forget what it has
//! written.
#![allow(unsafe_code)]

use crate::pages::{BLOCK_ALIGN, Block, Pool};
use glassline_media::Memory;
use rustix::fs::{Advice, OFlags, fadvise, fcntl_getfl, fcntl_setfl};
use std::fs::File;
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Bytes that are gathered for one write.
const GATHERED_BYTES: usize = 4 << 20;
/// Shortest run of bytes that is written from where it lies.
const STRAIGHT_BYTES: usize = 256 << 10;
/// Bytes of a file without direct writes after which the system is made to write out what came so far.
const WINDOW_BYTES: u64 = 8 << 20;

/// A new file that is written from its beginning to its end. [`DirectFile::finish`] ends it; one that is dropped before writes
/// its last bytes too, but an error of that is not reported.
#[derive(Debug)]
pub struct DirectFile {
    file: File,
    path: PathBuf,
    is_direct: bool,
    gathered: Block,
    filled: usize,
    /// Bytes that the file has, without those that are gathered.
    written: u64,
    /// Bytes that the system was told to write out.
    pushed: u64,
}

impl DirectFile {
    /// Makes a file, or empties the one that is there.
    ///
    /// # Errors
    /// Where it cannot be made, with its path.
    pub fn create(path: &Path) -> io::Result<DirectFile> {
        let file = File::create(path).map_err(|error| described(error, "cannot make", path))?;
        let gathered = Pool::new(GATHERED_BYTES, 1)?.take().ok_or(io::ErrorKind::OutOfMemory)?;
        // Pipes and devices are written to as they are.
        let is_direct = file.metadata()?.is_file() && set_direct(&file, true).is_ok();
        let path = path.to_owned();
        Ok(DirectFile { file, path, is_direct, gathered, filled: 0, written: 0, pushed: 0 })
    }

    /// Whether writes go past the page cache; a file system may refuse that at the first write only.
    pub fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Bytes that were given to it so far.
    pub fn length(&self) -> u64 {
        self.written + self.filled as u64
    }

    /// Adds `bytes`. They are written from where they lie if that is a multiple of [`BLOCK_ALIGN`] and nothing is gathered, as
    /// a [`Block`] that is written whole; else they are copied once. Waits for the disk about once in 4 MiB.
    ///
    /// # Errors
    /// What the system says of writing, with the path and how far it came: `StorageFull`, for one. The file then
    /// has, or is still to be given, [`DirectFile::length`] bytes; what is gathered of them the next call tries to write again.
    pub fn append(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let is_aligned = (bytes.as_ptr() as usize).is_multiple_of(BLOCK_ALIGN);
            if self.filled == 0 && bytes.len() >= STRAIGHT_BYTES && (is_aligned || !self.is_direct) {
                let whole =
                    if self.is_direct { bytes.len() / BLOCK_ALIGN * BLOCK_ALIGN } else { bytes.len() };
                self.put(&bytes[..whole])?;
                bytes = &bytes[whole..];
            } else {
                let taken = bytes.len().min(GATHERED_BYTES - self.filled);
                self.gathered.bytes_mut()[self.filled..][..taken].copy_from_slice(&bytes[..taken]);
                self.filled += taken;
                bytes = &bytes[taken..];
                if self.filled == GATHERED_BYTES {
                    self.put_gathered()?;
                }
            }
        }
        Ok(())
    }

    /// Writes what is left, and waits until the disk has all of it. Returns the file's length.
    ///
    /// # Errors
    /// What the system says of writing, with the path.
    pub fn finish(mut self) -> io::Result<u64> {
        self.put_rest()?;
        Ok(self.written)
    }

    /// The same for a file that is looked at, or cut, afterwards. The caller must not append anything to it any more.
    ///
    /// # Errors
    /// As those of [`DirectFile::finish`].
    pub fn put_rest(&mut self) -> io::Result<()> {
        self.put_tail()?;
        self.file.sync_data().or_else(|error| match error.kind() {
            // Pipes and devices have nothing to be waited for.
            io::ErrorKind::InvalidInput => Ok(()),
            _ => Err(described(error, "cannot finish", &self.path)),
        })
    }

    /// Bytes that the file has.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Ends it after a failure with its first `bytes`: what is gathered is forgotten, and what was written behind them is cut off,
    /// where it is a file that can be cut.
    ///
    /// # Errors
    /// What the system says, with the path.
    pub fn cut(mut self, bytes: u64) -> io::Result<()> {
        self.filled = 0;
        if bytes >= self.written || !self.file.metadata()?.is_file() {
            return Ok(());
        }
        self.file.set_len(bytes).map_err(|error| described(error, "cannot cut", &self.path))
    }

    /// The last bytes are no whole block: they go through the cache, so that the file ends where they do.
    fn put_tail(&mut self) -> io::Result<()> {
        if !self.filled.is_multiple_of(BLOCK_ALIGN) {
            self.give_up_direct();
        }
        self.put_gathered()
    }

    fn put_gathered(&mut self) -> io::Result<()> {
        // A failure may come after some of it was written.
        let before = self.written;
        let result =
            put(&self.file, &mut self.is_direct, &self.gathered.bytes()[..self.filled], &mut self.written);
        let put = (self.written - before) as usize;
        self.gathered.bytes_mut().copy_within(put..self.filled, 0);
        self.filled -= put;
        self.after_writing(result)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        let result = put(&self.file, &mut self.is_direct, bytes, &mut self.written);
        self.after_writing(result)
    }

    fn after_writing(&mut self, result: io::Result<()>) -> io::Result<()> {
        if !self.is_direct && self.written - self.pushed >= WINDOW_BYTES {
            self.push_out();
        }
        result
            .map_err(|error| described(error, &format!("at byte {} cannot write", self.written), &self.path))
    }

    fn give_up_direct(&mut self) {
        if self.is_direct {
            // What a kernel has set it can clear.
            let _ = set_direct(&self.file, false);
            self.is_direct = false;
            self.pushed = self.written;
        }
    }

    /// Has the system begin to write what came since the last time, wait for what came before that, and forget it. All of it
    /// is for the sake of a steady pace alone: failures come back with the next write, or at the end.
    fn push_out(&mut self) {
        let window = self.written - self.pushed;
        self.sync(self.pushed, window, libc::SYNC_FILE_RANGE_WRITE);
        if let Some(before) = NonZeroU64::new(self.pushed.min(window)) {
            let start = self.pushed - before.get();
            let all = libc::SYNC_FILE_RANGE_WAIT_BEFORE
                | libc::SYNC_FILE_RANGE_WRITE
                | libc::SYNC_FILE_RANGE_WAIT_AFTER;
            self.sync(start, before.get(), all);
            let _ = fadvise(&self.file, start, Some(before), Advice::DontNeed);
        }
        self.pushed = self.written;
    }

    fn sync(&self, from: u64, bytes: u64, how: libc::c_uint) {
        // SAFETY: the call takes numbers alone.
        let _ = unsafe { libc::sync_file_range(self.file.as_raw_fd(), from as i64, bytes as i64, how) };
    }
}

impl Write for DirectFile {
    /// [`DirectFile::append`]: takes all of it.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.append(bytes).map(|()| bytes.len())
    }

    /// Does nothing: what is gathered is no whole block yet. [`DirectFile::finish`] writes it.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for DirectFile {
    fn drop(&mut self) {
        if self.filled > 0 {
            let _ = self.put_tail();
        }
    }
}

/// Writes all of `bytes`, and counts in `written` what was. Where a direct write is refused, goes on with ordinary ones.
fn put(mut file: &File, is_direct: &mut bool, mut bytes: &[u8], written: &mut u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                *written += count as u64;
                bytes = &bytes[count..];
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Larger blocks than ours, or a write that ended within one.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput && *is_direct => {
                set_direct(file, false)?;
                *is_direct = false;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn set_direct(file: &File, is_direct: bool) -> io::Result<()> {
    let mut flags = fcntl_getfl(file)?;
    flags.set(OFlags::DIRECT, is_direct);
    Ok(fcntl_setfl(file, flags)?)
}

fn described(error: io::Error, what: &str, path: &Path) -> io::Error {
    io::Error::new(error.kind(), format!("{what} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A file of this test alone in `folder`, which goes with the value.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(folder: &Path, name: &str) -> Scratch {
            Scratch(folder.join(format!("glassline-direct-{}-{name}", std::process::id())))
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    /// A disk's file system, as far as this machine has one there, and one in memory.
    fn folders() -> Vec<PathBuf> {
        let mut folders = vec![std::env::temp_dir()];
        folders.extend(Some(PathBuf::from("/dev/shm")).filter(|memory| memory.is_dir()));
        folders
    }

    fn numbered(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| (at * 7 / 5 + at / 4096) as u8).collect()
    }

    #[test]
    fn bytes_arrive_however_they_are_chopped() {
        let bytes = numbered(9_500_123);
        for folder in folders() {
            for is_direct in [true, false] {
                for chop in [1_000, 4096, 262_144, 1_000_003, 5_000_000, bytes.len()] {
                    let path = Scratch::new(&folder, "chopped");
                    // What was there before is gone.
                    fs::write(&path.0, vec![1; 10_000_000]).unwrap();
                    let mut file = DirectFile::create(&path.0).unwrap();
                    if !is_direct {
                        file.give_up_direct();
                    }
                    for part in bytes.chunks(chop) {
                        file.write_all(part).unwrap();
                    }
                    file.flush().unwrap();
                    assert_eq!(file.length(), bytes.len() as u64);
                    assert_eq!(file.finish().unwrap(), bytes.len() as u64);
                    assert!(fs::read(&path.0).unwrap() == bytes, "{folder:?} {is_direct} {chop}");
                }
            }
        }
    }

    #[test]
    fn blocks_are_written_from_where_they_lie() {
        let pool = Pool::new(1_200_000, 2).unwrap();
        for folder in folders() {
            let path = Scratch::new(&folder, "blocks");
            let mut file = DirectFile::create(&path.0).unwrap();
            let mut expected = Vec::new();
            for number in 0..4u8 {
                let mut block = pool.take().unwrap();
                block.bytes_mut().fill(number);
                expected.extend_from_slice(block.bytes());
                file.append(block.bytes()).unwrap();
                // Where it is direct, the first leaves nothing but its tail behind; then nothing lies as it should.
                if number == 0 && file.is_direct() {
                    assert_eq!(file.filled, 1_200_000 % BLOCK_ALIGN);
                }
            }
            file.finish().unwrap();
            assert!(fs::read(&path.0).unwrap() == expected);
        }
    }

    #[test]
    fn empty_files_and_dropped_ones_are_whole() {
        for folder in folders() {
            let path = Scratch::new(&folder, "short");
            assert_eq!(DirectFile::create(&path.0).unwrap().finish().unwrap(), 0);
            assert_eq!(fs::read(&path.0).unwrap(), b"");
            let mut file = DirectFile::create(&path.0).unwrap();
            file.append(&[4; 5000]).unwrap();
            drop(file);
            assert_eq!(fs::read(&path.0).unwrap(), [4; 5000]);
            let mut file = DirectFile::create(&path.0).unwrap();
            file.append(&[5; 2 * BLOCK_ALIGN]).unwrap();
            assert_eq!(file.finish().unwrap(), 8192);
            assert_eq!(fs::read(&path.0).unwrap(), [5; 8192]);
        }
    }

    #[test]
    fn a_file_is_cut_where_it_is_to_end() {
        for folder in folders() {
            let path = Scratch::new(&folder, "cut");
            let bytes = numbered(GATHERED_BYTES + 70_000);
            let mut file = DirectFile::create(&path.0).unwrap();
            file.append(&bytes).unwrap();
            // The rest is gathered still.
            let written = file.written();
            assert!((GATHERED_BYTES as u64..bytes.len() as u64).contains(&written), "{written}");
            file.cut(1_000_001).unwrap();
            assert!(fs::read(&path.0).unwrap() == bytes[..1_000_001]);
            let mut file = DirectFile::create(&path.0).unwrap();
            file.append(&bytes).unwrap();
            file.cut(u64::MAX).unwrap();
            assert_eq!(fs::metadata(&path.0).unwrap().len(), written, "there is no more than was written");
        }
    }

    #[test]
    fn what_cannot_be_written_is_told_with_its_path() {
        let error = DirectFile::create(Path::new("/no/such/folder/video.y4m")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("/no/such/folder/video.y4m"), "{error}");
        let full = Path::new("/dev/full");
        if !full.exists() {
            let test = "what_cannot_be_written_is_told_with_its_path";
            return glassline_test_support::skip(test, "this machine has no /dev/full");
        }
        let mut file = DirectFile::create(full).unwrap();
        assert!(!file.is_direct());
        file.append(&[0; 1000]).unwrap();
        let error = file.append(&vec![0; GATHERED_BYTES]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().contains("/dev/full") && error.to_string().contains("byte 0"), "{error}");
        assert_eq!(file.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
