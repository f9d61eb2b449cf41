//! Threads that wait for tasks and share them: for work of milliseconds that is divided again and again.
//!
//! The tasks may borrow from the caller, as those of [`std::thread::scope`] may, but no thread is made for them.
#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

/// A task that is run once.
type Task<'a> = &'a mut (dyn FnMut() + Send);

/// Some threads beside the one that asks. They end with the pool.
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Held by the thread that has its tasks run.
    turn: Mutex<()>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// There are tasks, or the pool ends.
    begin: Condvar,
    /// The last task is done.
    done: Condvar,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

#[derive(Default)]
struct State {
    /// Tasks that no thread has begun, the first one last.
    waiting: Vec<Task<'static>>,
    /// Tasks that are not done, begun or not.
    open: usize,
    panicked: bool,
    ends: bool,
}

impl Shared {
    /// The state; nothing panics while it is locked.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs tasks until none waits.
    fn work<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        while let Some(task) = state.waiting.pop() {
            drop(state);
            let panicked = catch_unwind(AssertUnwindSafe(task)).is_err();
            state = self.lock();
            state.panicked |= panicked;
            state.open -= 1;
            if state.open == 0 {
                self.done.notify_all();
            }
        }
        state
    }

    /// A thread of the pool.
    fn serve(&self) {
        let mut state = self.lock();
        while !state.ends {
            state = self.work(state);
            if !state.ends {
                state = self.begin.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

impl Pool {
    /// A pool that runs `threads` tasks at a time, the thread that asks being one of them.
    ///
    /// # Errors
    /// Where the system makes no more threads.
    pub fn new(threads: usize) -> io::Result<Pool> {
        let shared = Arc::new(Shared::default());
        let mut pool = Pool { shared: shared.clone(), threads: Vec::new(), turn: Mutex::new(()) };
        for number in 1..threads {
            let shared = shared.clone();
            let thread = Builder::new().name(format!("pool {number}")).spawn(move || shared.serve())?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// How many tasks run at a time, the caller's thread being one of those that run them.
    pub fn threads(&self) -> usize {
        self.threads.len() + 1
    }

    /// Runs all tasks, each once, and returns when all are done. They begin in the order given. While another thread's
    /// tasks are run, or from within a task, the caller runs its own alone.
    ///
    /// # Panics
    /// When all are done, if one of them has panicked.
    pub fn run(&self, tasks: &mut [&mut (dyn FnMut() + Send)]) {
        let Ok(_turn) = self.turn.try_lock() else {
            return tasks.iter_mut().for_each(|task| task());
        };
        let mut state = self.shared.lock();
        for task in tasks.iter_mut().rev() {
            // SAFETY: the lifetime alone changes. This function takes each task back from `waiting`, or waits until
            // the thread that took it is done with it, before it returns, and nothing between here and there panics:
            // the tasks' own panics are caught, and locks are taken poisoned or not. So no thread has the reference
            // when what it borrows from may go.
            let task = unsafe { mem::transmute::<Task<'_>, Task<'static>>(&mut **task) };
            state.waiting.push(task);
        }
        state.open = tasks.len();
        state.panicked = false;
        match tasks.len() {
            0 | 1 => {}
            2 => self.shared.begin.notify_one(),
            _ => self.shared.begin.notify_all(),
        }
        state = self.shared.work(state);
        while state.open > 0 {
            state = self.shared.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let panicked = state.panicked;
        drop(state);
        drop(_turn);
        assert!(!panicked, "a task of the pool has panicked");
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lock().ends = true;
        self.shared.begin.notify_all();
        for thread in self.threads.drain(..) {
            // It catches all panics, so it has ended well.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn run(pool: &Pool, tasks: &mut [impl FnMut() + Send]) {
        let mut tasks: Vec<Task<'_>> = tasks.iter_mut().map(|task| task as Task<'_>).collect();
        pool.run(&mut tasks);
    }

    #[test]
    fn every_task_is_run_once_and_may_borrow() {
        for threads in [0, 1, 2, 3, 8] {
            let pool = Pool::new(threads).unwrap();
            assert_eq!(pool.threads(), threads.max(1));
            for count in 0..20 {
                let mut runs = vec![0; count];
                let mut tasks: Vec<_> = runs.iter_mut().map(|run| || *run += 1).collect();
                run(&pool, &mut tasks);
                assert_eq!(runs, vec![1; count], "{threads} threads");
            }
        }
    }

    #[test]
    fn as_many_tasks_run_at_a_time_as_there_are_threads() {
        let pool = Pool::new(3).unwrap();
        let all = Barrier::new(3);
        run(&pool, &mut [(); 3].map(|()| || _ = all.wait()));
    }

    #[test]
    fn a_task_may_ask_the_pool_and_so_may_other_threads() {
        let pool = Pool::new(2).unwrap();
        let count = AtomicUsize::new(0);
        let add = || _ = count.fetch_add(1, Ordering::Relaxed);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| run(&pool, &mut [(); 3].map(|()| || run(&pool, &mut [(); 5].map(|()| add)))));
            }
        });
        assert_eq!(count.into_inner(), 4 * 3 * 5);
    }

    #[test]
    fn a_panic_is_passed_on_when_all_is_done() {
        let pool = Pool::new(2).unwrap();
        let count = AtomicUsize::new(0);
        let result = catch_unwind(AssertUnwindSafe(|| {
            let mut numbers = [0, 1, 2, 3];
            let mut tasks: Vec<_> = numbers
                .iter_mut()
                .map(|number| {
                    || {
                        assert_ne!(*number, 1, "as is meant to be");
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                })
                .collect();
            run(&pool, &mut tasks);
        }));
        assert!(result.is_err());
        assert_eq!(count.load(Ordering::Relaxed), 3);
        run(&pool, &mut [(); 2].map(|()| || _ = count.fetch_add(1, Ordering::Relaxed)));
        assert_eq!(count.into_inner(), 5, "it goes on");
    }
}
