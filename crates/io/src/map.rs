//! A file's bytes as memory, for the kernel to read from.
#![allow(unsafe_code)]

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::io;
use std::os::fd::AsFd;
use std::ptr;

/// A shared, read-only mapping of a file's first bytes. It lends addresses to system calls and, below what
/// the file has for good, bytes; it does not matter to Rust that the file grows behind those.
#[derive(Debug)]
pub(crate) struct Map {
    base: *mut c_void,
    bytes: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and nothing is written through it.
unsafe impl Send for Map {}
// SAFETY: as above; its fields never change.
unsafe impl Sync for Map {}

impl Map {
    /// Maps the first `bytes` of `file`; those that the file does not have yet may be lent once it has them.
    pub(crate) fn new(file: impl AsFd, bytes: usize) -> io::Result<Map> {
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that Rust knows of.
        let base = unsafe { mmap(ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, file, 0)? };
        Ok(Map { base, bytes })
    }

    /// The address of byte `offset`.
    pub(crate) fn address(&self, offset: usize) -> *const u8 {
        assert!(offset < self.bytes, "byte {offset} of a mapping of {} bytes", self.bytes);
        self.base.cast::<u8>().cast_const().wrapping_add(offset)
    }

    /// The `length` bytes from `offset` on.
    ///
    /// # Safety
    /// The file has them, and nothing changes them or cuts the file short while they are borrowed.
    pub(crate) unsafe fn bytes(&self, offset: usize, length: usize) -> &[u8] {
        let end = offset.checked_add(length);
        assert!(end.is_some_and(|end| end <= self.bytes), "{length} bytes from {offset} of {}", self.bytes);
        // SAFETY: they lie within the mapping, which lives for as long as the borrow; the rest is the caller's word.
        unsafe { std::slice::from_raw_parts(self.address(offset), length) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: base and bytes are those of a mapping that this value made and alone owns. What it lent is used only
        // while the borrower holds this value.
        let unmapped = unsafe { munmap(self.base, self.bytes) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}
