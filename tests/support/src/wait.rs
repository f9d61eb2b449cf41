//! Waiting for something to become true, with a bound.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Long enough for any machine; nothing waits for it when all is well.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Asks `done` again and again until it says yes.
///
/// # Panics
/// After [`PATIENCE`], naming `what` was waited for.
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    until_some(what, || done().then_some(()));
}

/// Asks `found` again and again until it gives something.
///
/// # Panics
/// After [`PATIENCE`], naming `what` was waited for.
pub fn until_some<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = found() {
            return value;
        }
        assert!(Instant::now() < deadline, "waited in vain for: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What `measure` gives of a time in which this machine did not stand still: where it did, what was measured is of the machine, and
/// `measure` is called again.
///
/// # Panics
/// The machine stood still each time.
pub fn undisturbed<T>(measure: impl Fn() -> T) -> T {
    for _ in 0..TRIES {
        let is_over = AtomicBool::new(false);
        let (measured, longest) = std::thread::scope(|scope| {
            let watch = scope.spawn(|| longest_standstill(&is_over));
            let ends_watch = SetWhenDropped(&is_over);
            let measured = measure();
            drop(ends_watch);
            (measured, watch.join().expect("it looks at a clock alone"))
        });
        if longest < STANDSTILL {
            return measured;
        }
        eprintln!("the machine stood still for {longest:?}: measured again");
    }
    panic!("this machine stands still all the time: nothing can be measured on it");
}

/// Sets a flag, also where a panic drops it: the scope above waits for its thread.
struct SetWhenDropped<'a>(&'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A thread that sleeps for a moment and comes back this late shows that none of this machine's did anything.
const STANDSTILL: Duration = Duration::from_millis(100);
const TRIES: usize = 6;

fn longest_standstill(is_over: &AtomicBool) -> Duration {
    let (mut longest, mut last) = (Duration::ZERO, Instant::now());
    while !is_over.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(5));
        let now = Instant::now();
        longest = longest.max(now - last);
        last = now;
    }
    longest
}

/// Does both at the same time, each of which waits for most of its time: for a live stream's next seconds, say. What
/// keeps a processor busy, and what is not to be disturbed, does not belong here.
///
/// # Panics
/// Where one of them does, when both have ended.
pub fn at_once(one: impl FnOnce(), other: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        scope.spawn(other);
        one();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_while_it_is_measured_fails() {
        let measured = std::panic::catch_unwind(|| undisturbed(|| -> () { panic!("nothing was there") }));
        assert!(measured.is_err());
    }
}
