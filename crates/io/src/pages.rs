//! Memory for pictures that the kernel writes into: huge pages, touched before they are needed, used again and again.
//!
//! A receiver of raw video takes a [`Block`] for each picture, has the kernel put packets into it, and lends it to a picture's
//! planes as their [`Memory`]. When the last clone of the picture is dropped, on whatever thread, the block goes back to its
//! [`Pool`]. With pages of 4 KiB a picture of 1080p is a thousand entries of the processor's page table, and the first byte that
//! is written to each of them is a fault of the kernel's; with pages of 2 MiB, touched in advance, it is two or three entries and
//! no fault.
#![allow(unsafe_code)]

use glassline_media::Memory;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mlock, mmap_anonymous, munmap};
use std::fmt;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a huge page, and what a pool begins at a multiple of.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// What each block begins at a multiple of: a small page, which is also what direct writes to disks want
/// ([`crate::direct_file`]).
pub const BLOCK_ALIGN: usize = 4096;

/// A fixed number of blocks of one size. Clones are handles of the same pool.
#[derive(Clone, Debug)]
pub struct Pool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    mapping: Mapping,
    /// Bytes of a block that its user sees, and bytes from one block to the next.
    bytes_each: usize,
    stride: usize,
    count: usize,
    /// Numbers of the free blocks, the one that came back last at the end: it is the likeliest to be in a cache.
    free: Mutex<Vec<usize>>,
}

impl Pool {
    /// A pool of `count` blocks of `bytes_each`. Takes the memory at once: from the system's reserve of huge pages
    /// (`vm.nr_hugepages`) where that has enough, else as ordinary memory for which huge pages are asked. All bytes are zero.
    /// The cost is that of clearing all of the memory, some milliseconds for each 100 MB.
    ///
    /// # Errors
    /// `InvalidInput` where there would be no bytes or more than an address space has; `OutOfMemory` or what else the system
    /// says where it has not enough.
    pub fn new(bytes_each: usize, count: usize) -> io::Result<Pool> {
        let stride = bytes_each.checked_next_multiple_of(BLOCK_ALIGN);
        let bytes = stride.and_then(|stride| stride.checked_mul(count)).filter(|bytes| *bytes > 0);
        let (Some(stride), Some(bytes)) = (stride, bytes) else {
            let what = format!("{count} blocks of {bytes_each} bytes are no pool");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        };
        let mapping = Mapping::touched(bytes).map_err(|error| {
            let what = format!("no memory for {count} blocks of {bytes_each} bytes: {error}");
            io::Error::new(error.kind(), what)
        })?;
        let free = Mutex::new((0..count).rev().collect());
        Ok(Pool(Arc::new(Shared { mapping, bytes_each, stride, count, free })))
    }

    /// A free block, with the bytes that its last holder left in it; `None` where all are held. Neither allocates nor calls the
    /// system.
    pub fn take(&self) -> Option<Block> {
        let index = self.0.free().pop()?;
        Some(Block { pool: self.0.clone(), index })
    }

    /// Free blocks.
    pub fn free(&self) -> usize {
        self.0.free().len()
    }

    /// All blocks, held or not.
    pub fn count(&self) -> usize {
        self.0.count
    }

    /// Bytes of a block.
    pub fn bytes_each(&self) -> usize {
        self.0.bytes_each
    }

    /// Whether nine tenths of it or more lay in huge pages when it was made. A small pool's tail may be in small ones.
    pub fn is_huge(&self) -> bool {
        self.0.mapping.is_huge
    }

    /// Keeps the memory from being written to a swap disk.
    ///
    /// # Errors
    /// `OutOfMemory` or `PermissionDenied` where the process may not lock that much (`RLIMIT_MEMLOCK`). The pool is as good as
    /// before then, if the machine does not swap.
    pub fn lock(&self) -> io::Result<()> {
        let mapping = &self.0.mapping;
        // SAFETY: the range is the mapping's own, and being locked changes none of its bytes.
        Ok(unsafe { mlock(mapping.base.as_ptr().cast(), mapping.bytes) }?)
    }
}

impl Shared {
    fn free(&self) -> MutexGuard<'_, Vec<usize>> {
        // The lock is held only to push or pop a number: no panic leaves the list half changed.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes of a pool that one holder has to itself, until they are dropped. The pool's memory stays for as long as any of its
/// blocks does.
pub struct Block {
    pool: Arc<Shared>,
    index: usize,
}

impl Block {
    fn start(&self) -> *mut u8 {
        // Within the mapping: it has `stride` bytes for each index.
        self.pool.mapping.base.as_ptr().wrapping_add(self.index * self.pool.stride)
    }
}

impl Memory for Block {
    fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping has `bytes_each` initialised bytes there and lives for as long as `pool`, which is longer than the
        // borrow. Only the one block that has this index lends them, and its own borrow keeps them from being changed.
        unsafe { std::slice::from_raw_parts(self.start(), self.pool.bytes_each) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; the block is borrowed mutably, so that nothing else is lent of it.
        unsafe { std::slice::from_raw_parts_mut(self.start(), self.pool.bytes_each) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // There is room for all numbers, so this never allocates.
        self.pool.free().push(self.index);
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Block {{ index: {}, bytes: {} }}", self.index, self.pool.bytes_each)
    }
}

/// Memory of this process alone, from a multiple of [`HUGE_PAGE_BYTES`] on.
#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
    is_huge: bool,
}

// SAFETY: the mapping belongs to the process, not to a thread. Its bytes are lent by blocks alone, each of which has its own.
unsafe impl Send for Mapping {}
// SAFETY: as above; its fields never change.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// At least `bytes` bytes, all of them written once.
    fn touched(bytes: usize) -> io::Result<Mapping> {
        let too_large = || io::Error::from(io::ErrorKind::OutOfMemory);
        let bytes = bytes.checked_next_multiple_of(HUGE_PAGE_BYTES).ok_or_else(too_large)?;
        if let Ok(mut reserved) = Mapping::new(bytes, MapFlags::HUGETLB | MapFlags::HUGE_2MB)
            // Only the kernel's own way tells where a page is missing all the same; a write would end the process.
            && reserved.advise(Advice::LinuxPopulateWrite).is_ok()
        {
            // What a fork would share, each side would have to copy at its next write.
            let _ = reserved.advise(Advice::LinuxDontFork);
            reserved.is_huge = true;
            return Ok(reserved);
        }
        let mut mapping = Mapping::aligned(bytes)?;
        let _ = mapping.advise(Advice::LinuxHugepage);
        let _ = mapping.advise(Advice::LinuxDontFork);
        match mapping.advise(Advice::LinuxPopulateWrite) {
            // A kernel before 5.14.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => mapping.touch(),
            other => other?,
        }
        mapping.is_huge = mapping.huge_bytes() >= bytes / 10 * 9;
        Ok(mapping)
    }

    fn new(bytes: usize, kind: MapFlags) -> io::Result<Mapping> {
        let (access, kind) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | kind);
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that Rust knows of.
        let base = unsafe { mmap_anonymous(ptr::null_mut(), bytes, access, kind) }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { base, bytes, is_huge: false })
    }

    /// Ordinary memory, aligned by cutting off what is too much: the kernel aligns to small pages alone.
    fn aligned(bytes: usize) -> io::Result<Mapping> {
        let total = bytes.checked_add(HUGE_PAGE_BYTES).ok_or(io::ErrorKind::OutOfMemory)?;
        let whole = Mapping::new(total, MapFlags::empty())?;
        let before = whole.base.as_ptr().align_offset(HUGE_PAGE_BYTES);
        let start = whole.base.as_ptr().wrapping_add(before);
        // From here on this function has it, not the value that would unmap all of it.
        let first = std::mem::ManuallyDrop::new(whole).base.as_ptr();
        for (cut, length) in [(first, before), (start.wrapping_add(bytes), HUGE_PAGE_BYTES - before)] {
            if length > 0 {
                // SAFETY: both ends are parts of the mapping that was just made, of whole pages, and nothing was lent of it.
                unsafe { munmap(cut.cast(), length) }?;
            }
        }
        let base = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { base, bytes, is_huge: false })
    }

    fn advise(&self, advice: Advice) -> io::Result<()> {
        // SAFETY: the range is this mapping's own, and nothing of it is lent yet. None of the advice that is given here drops
        // its bytes: huge pages, fault all pages in, leave it out of forks.
        Ok(unsafe { madvise(self.base.as_ptr().cast(), self.bytes, advice) }?)
    }

    fn touch(&mut self) {
        for at in (0..self.bytes).step_by(BLOCK_ALIGN) {
            // SAFETY: the byte is one of the mapping's, and nothing of it is lent yet. The write is not left away although it
            // changes nothing.
            unsafe { self.base.as_ptr().wrapping_add(at).write_volatile(0) };
        }
    }

    /// How much of it the kernel has put into huge pages, 0 where it does not tell.
    fn huge_bytes(&self) -> usize {
        let told = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
        huge_bytes(&told, self.base.as_ptr() as usize, self.bytes)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: base and bytes are those of a mapping that this value alone owns; all blocks of it, which lend its bytes,
        // are gone.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

/// Bytes of `bytes` from `address` on that are in huge pages, by `/proc/PID/smaps` (proc(5)). A neighbour may be of the same
/// kind, so that the kernel lists both as one: the share is that of both then.
fn huge_bytes(smaps: &str, address: usize, bytes: usize) -> usize {
    let mut lines = smaps.lines();
    let range = |line: &str| {
        let (from, to) = line.split_once(' ')?.0.split_once('-')?;
        Some(usize::from_str_radix(from, 16).ok()?..usize::from_str_radix(to, 16).ok()?)
    };
    let Some(found) = lines.find_map(|line| range(line).filter(|range| range.contains(&address))) else {
        return 0;
    };
    let huge = lines
        .take_while(|line| range(line).is_none())
        .find_map(|line| line.strip_prefix("AnonHugePages:")?.trim().strip_suffix("kB")?.trim().parse().ok());
    let huge = huge.map_or(0, |kib: usize| kib << 10);
    ((huge as u128 * bytes as u128) / found.len().max(1) as u128) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_apart_and_come_back() {
        let pool = Pool::new(1_000_003, 3).unwrap();
        assert_eq!((pool.count(), pool.free(), pool.bytes_each()), (3, 3, 1_000_003));
        let mut blocks: Vec<Block> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!((blocks.len(), pool.free()), (3, 0));
        for (number, block) in blocks.iter_mut().enumerate() {
            assert!(block.bytes().iter().all(|byte| *byte == 0) && block.bytes().len() == 1_000_003);
            assert_eq!(block.bytes().as_ptr() as usize % BLOCK_ALIGN, 0);
            block.bytes_mut().fill(number as u8 + 1);
        }
        assert_eq!(blocks[0].bytes().as_ptr() as usize % HUGE_PAGE_BYTES, 0);
        for (number, block) in blocks.iter().enumerate() {
            assert!(block.bytes().iter().all(|byte| *byte == number as u8 + 1));
        }
        // The one that came back last is the next, as it was left.
        drop(blocks.remove(1));
        assert_eq!(pool.free(), 1);
        assert_eq!(pool.take().unwrap().bytes()[1_000_002], 2);
        drop(blocks);
        assert_eq!(pool.free(), 3);
    }

    #[test]
    fn the_memory_outlives_the_pool_and_blocks_end_on_any_thread() {
        let pool = Pool::new(5000, 16).unwrap();
        let blocks: Vec<Block> = std::iter::from_fn(|| pool.take()).collect();
        let threads: Vec<_> = blocks
            .into_iter()
            .map(|mut block| {
                std::thread::spawn(move || {
                    block.bytes_mut().fill(9);
                    let shared: Arc<dyn Memory> = Arc::new(block);
                    let other = shared.clone();
                    drop(shared);
                    other.bytes().iter().map(|byte| usize::from(*byte)).sum::<usize>()
                })
            })
            .collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap(), 9 * 5000);
        }
        assert_eq!(pool.free(), 16);
        let mut last = pool.take().unwrap();
        drop(pool);
        last.bytes_mut().fill(3);
        assert!(last.bytes().iter().all(|byte| *byte == 3));
    }

    /// Page faults of the calling thread so far that needed no disk.
    fn faults() -> u64 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        // Fields behind the name, which may hold anything (proc(5)): state, ppid, pgrp, session, tty, tpgid, flags, minflt.
        let behind = stat.rsplit_once(')').unwrap().1;
        behind.split_ascii_whitespace().nth(7).unwrap().parse().unwrap()
    }

    #[test]
    fn writing_to_blocks_faults_no_more() {
        let pool = Pool::new(8 << 20, 4).unwrap();
        let mut blocks: Vec<Block> = std::iter::from_fn(|| pool.take()).collect();
        let before = faults();
        blocks.iter_mut().for_each(|block| block.bytes_mut().fill(1));
        // Not one for each of the 8,192 small pages; some are of the test's own reading and may be of a huge page's move.
        let taken = faults() - before;
        assert!(taken < 100, "{taken} faults");
    }

    #[test]
    fn huge_pages_are_told_where_the_system_has_them() {
        let pool = Pool::new(8 << 20, 4).unwrap();
        // Locking is for those who may; the pool works without.
        let _ = pool.lock();
        let enabled = "/sys/kernel/mm/transparent_hugepage/enabled";
        let enabled = std::fs::read_to_string(enabled).unwrap_or_default();
        if !pool.is_huge() {
            let reason = format!("the system gave no huge pages (transparent_hugepage: {})", enabled.trim());
            glassline_test_support::skip("huge_pages_are_told_where_the_system_has_them", &reason);
        }
    }

    #[test]
    fn the_share_of_huge_pages_is_read() {
        let smaps = "7f0000000000-7f0000400000 rw-p 00000000 00:00 0 \nSize: 4096 kB\nAnonHugePages:      4096 kB\n\
                     7f0000400000-7f0000c00000 rw-p 00000000 00:00 0 [stack]\nAnonHugePages:      2048 kB\nTHPeligible: 1\n\
                     7f0000c00000-7f0000d00000 rw-p 00000000 00:00 0\n";
        assert_eq!(huge_bytes(smaps, 0x7f00_0000_0000, 4 << 20), 4 << 20);
        // A quarter of the eight MiB that both neighbours have.
        assert_eq!(huge_bytes(smaps, 0x7f00_0060_0000, 4 << 20), 1 << 20);
        assert_eq!(huge_bytes(smaps, 0x7f00_00c0_0000, 1 << 20), 0);
        assert_eq!(huge_bytes(smaps, 0x7000_0000_0000, 1 << 20), 0);
        assert_eq!(huge_bytes("nonsense", 5, 5), 0);
    }

    #[test]
    fn what_is_no_pool_is_refused() {
        for (bytes, count) in [(0, 4), (4096, 0), (usize::MAX, 1), (usize::MAX / 2, 3)] {
            let error = Pool::new(bytes, count).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{bytes} × {count}: {error}");
        }
        let error = Pool::new(1 << 46, 8).unwrap_err();
        assert!(error.to_string().contains("8 blocks"), "{error}");
    }
}
