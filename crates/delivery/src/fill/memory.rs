//! How much memory the bytes of objects take, in all places together.
//!
//! Each run of bytes is counted from the moment it is made until the last reference to it goes: in an object that fills, in
//! one that is kept, in the queue of a client's socket, on its way into a file. So the count is what is really taken, and not
//! what is kept.

use bytes::Bytes;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counts bytes while they are in use. Clones count together.
///
/// ```
/// let memory = glassline_delivery::fill::Memory::default();
/// let bytes = memory.hold(vec![0; 100]);
/// let part = bytes.slice(..1);
/// drop(bytes);
/// assert_eq!(memory.bytes(), 100, "a part holds the whole run");
/// drop(part);
/// assert_eq!(memory.bytes(), 0);
/// ```
#[derive(Clone, Default)]
pub struct Memory(Arc<Count>);

#[derive(Default)]
struct Count {
    bytes: AtomicU64,
    /// The next release has to call `on_release`.
    is_awaited: AtomicBool,
    on_release: Option<Box<dyn Fn() + Send + Sync>>,
}

impl fmt::Debug for Memory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Memory").field(&self.bytes()).finish()
    }
}

impl Memory {
    /// A count of nothing. After [`Memory::await_release`], `on_release` is called once, by the thread that lets bytes go,
    /// perhaps under locks of that thread.
    pub fn new(on_release: impl Fn() + Send + Sync + 'static) -> Memory {
        Memory(Arc::new(Count { on_release: Some(Box::new(on_release)), ..Count::default() }))
    }

    /// Bytes that are in use.
    pub fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// Has the next release call `on_release`. The caller calls this before it reads [`Memory::bytes`], so that it does not miss
    /// a release in between.
    pub fn await_release(&self) {
        self.0.is_awaited.store(true, Ordering::SeqCst);
    }

    /// Counts `bytes` until what is returned is dropped.
    #[must_use]
    pub fn charge(&self, bytes: u64) -> Charge {
        self.0.bytes.fetch_add(bytes, Ordering::SeqCst);
        Charge { memory: self.clone(), bytes }
    }

    /// The same bytes, counted until the last reference to them is dropped. What the vector has reserved beyond them is
    /// given back first.
    pub fn hold(&self, mut bytes: Vec<u8>) -> Bytes {
        bytes.shrink_to_fit();
        let charge = self.charge(bytes.capacity() as u64);
        Bytes::from_owner(Held { bytes, _charge: charge })
    }
}

/// Bytes that count for as long as this lives.
#[derive(Debug)]
pub struct Charge {
    memory: Memory,
    bytes: u64,
}

impl Drop for Charge {
    fn drop(&mut self) {
        let Count { bytes, is_awaited, on_release } = &*self.memory.0;
        bytes.fetch_sub(self.bytes, Ordering::SeqCst);
        if is_awaited.load(Ordering::SeqCst)
            && is_awaited.swap(false, Ordering::SeqCst)
            && let Some(on_release) = on_release
        {
            on_release();
        }
    }
}

struct Held {
    bytes: Vec<u8>,
    _charge: Charge,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_until_the_last_reference_goes() {
        let memory = Memory::default();
        let (one, charge) = (memory.hold(vec![1; 1000]), memory.charge(24));
        let piece = one.slice(10..20);
        assert_eq!(memory.bytes(), 1024);
        drop((one, charge));
        assert_eq!((memory.bytes(), &piece[..]), (1000, &[1; 10][..]));
        drop(piece);
        assert_eq!(memory.bytes(), 0);
    }

    #[test]
    fn a_release_is_told_once_where_it_is_awaited() {
        let calls = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&calls);
        let memory = Memory::new(move || _ = seen.fetch_add(1, Ordering::Relaxed));
        drop(memory.hold(vec![0; 10]));
        assert_eq!(calls.load(Ordering::Relaxed), 0);
        let held = [memory.hold(vec![0; 10]), memory.hold(vec![0; 10])];
        memory.await_release();
        drop(held);
        assert_eq!(calls.load(Ordering::Relaxed), 1);
    }
}
