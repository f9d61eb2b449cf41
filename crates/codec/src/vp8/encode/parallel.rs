//! Work that may be done side by side, without knowing of threads.

use std::fmt::Debug;
use std::sync::Mutex;

/// Runs tasks, on threads or one after the other. The encoder's bytes are the same with any of them that [do not
/// hurry](Parallel::spent).
pub trait Parallel: Debug + Sync {
    /// How many tasks run at a time.
    fn threads(&self) -> usize;

    /// Runs all tasks, in any order, and returns when all of them are done.
    fn run(&self, tasks: &mut [&mut (dyn FnMut() + Send)]);

    /// The share of the time for this picture that is gone, where there is a bound to it: 1 is all of it. Row by row the encoder
    /// takes as much less care as is needed to keep it. Zero, as here, has it take none of this into account.
    fn spent(&self) -> f64 {
        0.0
    }
}

/// One task after the other, on the thread that asks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Serial;

impl Parallel for Serial {
    fn threads(&self) -> usize {
        1
    }

    fn run(&self, tasks: &mut [&mut (dyn FnMut() + Send)]) {
        tasks.iter_mut().for_each(|task| task());
    }
}

/// What is left of work that tasks share, in order.
pub(crate) struct Waiting<I>(Mutex<I>);

impl<I: Iterator> Waiting<I> {
    /// The next one. A task that has panicked leaves nothing to be done for the others.
    pub(crate) fn next(&self) -> Option<I::Item> {
        self.0.lock().ok()?.next()
    }
}

/// Runs `work` in as many tasks as `parallel` runs at a time, though not in more than there are `items`: each takes the
/// next item until none is left.
pub(crate) fn share<T: Send>(
    parallel: &dyn Parallel,
    items: Vec<T>,
    work: impl Fn(&Waiting<std::vec::IntoIter<T>>) + Sync,
) {
    let count = parallel.threads().min(items.len());
    let waiting = Waiting(Mutex::new(items.into_iter()));
    let mut tasks: Vec<_> = (0..count).map(|_| || work(&waiting)).collect();
    let mut tasks: Vec<&mut (dyn FnMut() + Send)> =
        tasks.iter_mut().map(|task| task as &mut (dyn FnMut() + Send)).collect();
    parallel.run(&mut tasks);
}
