//! Work that may be done side by side, without knowing of threads.

use std::fmt::Debug;

/// Runs tasks, on threads or one after the other. The encoder's bytes are the same with any of them.
pub trait Parallel: Debug + Sync {
    /// How many tasks run at a time.
    fn threads(&self) -> usize;

    /// Runs all tasks, in any order, and returns when all of them are done.
    fn run(&self, tasks: &mut [&mut (dyn FnMut() + Send)]);
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
