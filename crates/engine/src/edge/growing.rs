//! An object that fills, and who waits for more of it.

use glassline_delivery::fill::Object;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Somebody who reads an object: a thread, and what that thread knows the reader by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reader {
    /// The thread's number.
    pub thread: usize,
    /// What the thread knows the reader by.
    pub token: u64,
}

/// Tells readers that there is news of what they wait for. Called from any thread, perhaps under locks of whoever fills the
/// object: it must not look at objects itself.
pub trait Wake: Send + Sync {
    /// All of `readers` are of one thread.
    fn wake(&self, thread: usize, readers: Vec<u64>);
}

/// An object that one fills and many read. A reader that has read all there is says that it waits, in the same look; it is
/// woken once by the next change, and then looks again.
pub struct Growing {
    shared: Mutex<Shared>,
    wake: Arc<dyn Wake>,
}

struct Shared {
    object: Object,
    waiting: BTreeSet<Reader>,
}

impl fmt::Debug for Growing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Growing").field(&self.look(Object::progress)).finish()
    }
}

impl Growing {
    /// `object`, whose readers are woken by `wake`.
    pub fn new(object: Object, wake: Arc<dyn Wake>) -> Arc<Growing> {
        Arc::new(Growing { shared: Mutex::new(Shared { object, waiting: BTreeSet::new() }), wake })
    }

    /// `object`, for one of the readers of this one alone.
    pub fn beside(&self, object: Object) -> Arc<Growing> {
        Growing::new(object, Arc::clone(&self.wake))
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // An object is as good after each change as before it, whatever panicked in between.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the object, and wakes all who wait for that.
    pub fn change<T>(&self, change: impl FnOnce(&mut Object) -> T) -> T {
        let mut shared = self.lock();
        let changed = change(&mut shared.object);
        let waiting = std::mem::take(&mut shared.waiting);
        drop(shared);
        let mut waiting = waiting.into_iter().peekable();
        while let Some(Reader { thread, token }) = waiting.next() {
            let mut tokens = vec![token];
            while let Some(reader) = waiting.next_if(|reader| reader.thread == thread) {
                tokens.push(reader.token);
            }
            self.wake.wake(thread, tokens);
        }
        changed
    }

    /// Looks at the object.
    pub fn look<T>(&self, look: impl FnOnce(&Object) -> T) -> T {
        look(&self.lock().object)
    }

    /// Looks at the object as `reader`, who waits from now on if `look` returns `None`.
    pub fn look_or_wait<T>(&self, reader: Reader, look: impl FnOnce(&Object) -> Option<T>) -> Option<T> {
        let mut shared = self.lock();
        let seen = look(&shared.object);
        if seen.is_none() {
            shared.waiting.insert(reader);
        }
        seen
    }

    /// `reader` waits no longer.
    pub fn leave(&self, reader: Reader) {
        self.lock().waiting.remove(&reader);
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_delivery::fill::{Bytes, Head};

    #[derive(Default)]
    struct Woken(Mutex<Vec<(usize, Vec<u64>)>>);

    impl Wake for Woken {
        fn wake(&self, thread: usize, readers: Vec<u64>) {
            self.0.lock().unwrap().push((thread, readers));
        }
    }

    #[test]
    fn who_waits_is_woken_once_a_thread() {
        let woken = Arc::new(Woken::default());
        let growing = Growing::new(Object::new(), Arc::clone(&woken) as Arc<dyn Wake>);
        let reader = |thread, token| Reader { thread, token };
        let more = |object: &Object| (object.filled() > 0).then(|| object.filled());
        for (thread, token) in [(1, 5), (0, 9), (1, 4), (0, 9)] {
            assert_eq!(growing.look_or_wait(reader(thread, token), more), None);
        }
        growing.look_or_wait(reader(0, 7), more);
        growing.leave(reader(0, 7));
        assert_eq!(growing.waiting(), 3);
        growing.change(|object| {
            object.begin(Head::new("video/mp4"), None);
            object.append(Bytes::from_static(b"ab"));
        });
        assert_eq!(*woken.0.lock().unwrap(), [(0, vec![9]), (1, vec![4, 5])]);
        assert_eq!(growing.look_or_wait(reader(0, 9), more), Some(2));
        growing.change(Object::finish);
        assert_eq!(woken.0.lock().unwrap().len(), 2, "nobody waited any more");
    }
}
