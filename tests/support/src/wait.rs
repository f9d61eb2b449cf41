//! Waiting for something to become true, with a bound.

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
