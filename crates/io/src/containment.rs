//! Borders that a panic does not cross.
//!
//! Everything that runs for longer than a call is divided into units that can be ended by themselves: a connection, a link, an
//! exchange with an upstream server, an encoder, an output, and at last a worker thread. [`contain`] runs one wake-up of such a
//! unit. Where that panics, the panic is counted and logged, and the caller ends the unit and nothing else.
//!
//! ```text
//! thread ─► contain(Worker) ─► contain(Connection) ─► one wake-up of a connection ─► panic
//!                                      │ Err(Panicked): the connection is closed, counted, logged
//!                                      └─► the next connection
//! ```
//! What the unit had locked is poisoned by the panic. A lock over state that has to agree with itself (a stream, an object that
//! fills, a presentation, a link) ends that state when it is next taken, so that nothing half-written is read; a lock over plain
//! tables, which are whole after each single change, goes on.
//!
//! [`watch`] installs the process's panic hook, which keeps the place and the backtrace for the border to log. Without it
//! (in programs that embed this library) borders hold all the same, and Rust's own hook prints each panic.

use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, TryLockError};

/// A kind of unit that a panic ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Border {
    /// A client's connection to the relay.
    Connection,
    /// A link between two peers.
    Link,
    /// A request to an upstream server, or a pulled stream.
    Exchange,
    /// A built-in encoder.
    Encoder,
    /// Where a stream goes: datagrams, files, pushes, presentations.
    Output,
    /// A thread, outside of any of the above.
    Worker,
}

impl Border {
    /// All of them, in the order of [`panic_counts`].
    pub const ALL: [Border; 6] =
        [Border::Connection, Border::Link, Border::Exchange, Border::Encoder, Border::Output, Border::Worker];

    /// Its name in metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Border::Connection => "connection",
            Border::Link => "link",
            Border::Exchange => "exchange",
            Border::Encoder => "encoder",
            Border::Output => "output",
            Border::Worker => "worker",
        }
    }
}

/// A panic that a border has stopped. It has been counted and logged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an internal fault (a panic) ended it: {message}. Please report this with the log's lines about it")]
pub struct Panicked {
    /// What the panic said.
    pub message: String,
}

/// What becomes of a panic on a thread that is inside no border.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    /// The process ends with status 1, since all of its work hangs together.
    EndsProcess,
    /// The thread ends, the process goes on.
    EndsThread,
}

static COUNTS: [AtomicU64; Border::ALL.len()] = [const { AtomicU64::new(0) }; Border::ALL.len()];
/// Places of panics that are counted one by one. There are only as many as the code has.
const PLACES_MAX: usize = 256;
/// Places of a backtrace that are told.
const FRAMES_MAX: usize = 16;
/// How often each place has panicked.
static PLACES: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

thread_local! {
    /// How many borders the thread is inside of.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// What the hook has seen of the panic that is on its way to a border.
    static SEEN: RefCell<Option<Seen>> = const { RefCell::new(None) };
}

/// What the hook keeps of a panic.
struct Seen {
    place: String,
    message: String,
    /// How often this place has panicked, this time included.
    times: u64,
    /// Only of a place's first panic: resolving the symbols takes long.
    backtrace: Option<Backtrace>,
}

/// How many panics each border has stopped since the process began, in the order of [`Border::ALL`].
pub fn panic_counts() -> [u64; Border::ALL.len()] {
    std::array::from_fn(|at| COUNTS[at].load(Ordering::Relaxed))
}

/// Runs `work`, one wake-up of a unit. A panic ends it here: it is counted and logged.
///
/// The caller then ends the unit. What `work` has changed is of no use any more, but for what it reached behind locks.
///
/// # Errors
/// `work` has panicked.
pub fn contain<T>(border: Border, work: impl FnOnce() -> T) -> Result<T, Panicked> {
    DEPTH.set(DEPTH.get() + 1);
    let result = catch_unwind(AssertUnwindSafe(work));
    DEPTH.set(DEPTH.get() - 1);
    result.map_err(|payload| stopped(border, &*payload))
}

#[cold]
#[inline(never)]
fn stopped(border: Border, payload: &(dyn std::any::Any + Send)) -> Panicked {
    COUNTS[border as usize].fetch_add(1, Ordering::Relaxed);
    let seen = SEEN.take().unwrap_or_else(|| Seen {
        place: "another thread".to_owned(),
        message: message_of(payload),
        times: 1,
        backtrace: None,
    });
    seen.log(border.name());
    Panicked { message: seen.message }
}

impl Seen {
    /// The first panic at a place is logged with its backtrace, later ones each time that their number has doubled: a peer
    /// that can cause one can cause many.
    fn log(&self, border: &str) {
        let Seen { place, message, times, backtrace } = self;
        if let Some(backtrace) = backtrace {
            let backtrace = own_frames(&backtrace.to_string());
            tracing::error!(border, %place, %backtrace, "panic: {message}");
        } else if times.is_power_of_two() {
            tracing::error!(border, %place, times, "panic: {message}");
        }
    }
}

/// The places of a backtrace that are in this program's own sources, the innermost first, in one line: a value of the log has
/// no room for more, and the frames of Rust's own machinery tell nothing.
fn own_frames(backtrace: &str) -> String {
    let places = backtrace.lines().filter_map(|line| line.trim_start().strip_prefix("at "));
    let is_own = |place: &&str| {
        place.contains(".rs:")
            && !["/rustc/", "/.cargo/", "containment.rs"].iter().any(|other| place.contains(other))
    };
    let mut frames: Vec<&str> = Vec::new();
    for place in places.filter(is_own) {
        let short = place.rsplit_once("crates/").map_or(place, |(_, short)| short);
        if frames.last() != Some(&short) && frames.len() < FRAMES_MAX {
            frames.push(short);
        }
    }
    frames.join(" < ")
}

fn message_of(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_owned()
}

/// Installs the panic hook of this process. `outside` says what becomes of panics that no border stops.
pub fn watch(outside: Outside) {
    std::panic::set_hook(Box::new(move |info| note(info, outside)));
}

fn note(info: &PanicHookInfo<'_>, outside: Outside) {
    let place = info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    let times = count_place(&place);
    let backtrace = (times == 1).then(Backtrace::force_capture);
    let seen = Seen { place, message: message_of(info.payload()), times, backtrace };
    if DEPTH.get() > 0 {
        SEEN.set(Some(seen));
        return;
    }
    let thread = std::thread::current();
    seen.log(thread.name().unwrap_or("a thread"));
    if outside == Outside::EndsProcess {
        let mut words = String::from("glassline: an internal fault (a panic) ends the program. ");
        let _ = write!(words, "Please report this: {} at {}", seen.message, seen.place);
        eprintln!("{words}");
        std::process::exit(1);
    }
}

/// Counts a panic at `place`; how many there were.
fn count_place(place: &str) -> u64 {
    let mut places = match PLACES.try_lock() {
        Ok(places) => places,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        // Another thread panics at this moment: to wait for it here would risk more than an extra line in the log.
        Err(TryLockError::WouldBlock) => return 2,
    };
    if places.len() >= PLACES_MAX && !places.contains_key(place) {
        return 2;
    }
    let times = places.entry(place.to_owned()).or_default();
    *times = times.saturating_add(1);
    *times
}

/// Panics where a test asks for it: in builds with debug assertions, and where the variable `GLASSLINE_TEST_PANIC` has
/// `BORDER=WORD` (several behind commas) and `subject` contains `WORD`. Release builds do nothing here.
#[inline]
#[track_caller]
pub fn inject(border: Border, subject: impl FnOnce() -> String) {
    #[cfg(debug_assertions)]
    if injection::is_asked_for(border, subject) {
        panic!("a test asks for a panic of this {}", border.name());
    }
    #[cfg(not(debug_assertions))]
    let _ = (border, subject);
}

/// As [`inject`], for what happens outside of the unit that has a subject: [`inject_armed`] then panics on the same thread.
#[inline]
pub fn arm(border: Border, subject: impl FnOnce() -> String) {
    #[cfg(debug_assertions)]
    if injection::is_asked_for(border, subject) {
        injection::ARMED.set(Some(border));
    }
    #[cfg(not(debug_assertions))]
    let _ = (border, subject);
}

/// Panics once where [`arm`] has asked for it.
#[inline]
#[track_caller]
pub fn inject_armed(border: Border) {
    #[cfg(debug_assertions)]
    if injection::ARMED.get() == Some(border) {
        injection::ARMED.set(None);
        panic!("a test asks for a panic of this {}", border.name());
    }
    #[cfg(not(debug_assertions))]
    let _ = border;
}

#[cfg(debug_assertions)]
mod injection {
    use super::Border;
    use std::cell::Cell;
    use std::sync::OnceLock;

    const VARIABLE: &str = "GLASSLINE_TEST_PANIC";

    thread_local! {
        pub(super) static ARMED: Cell<Option<Border>> = const { Cell::new(None) };
    }

    pub(super) fn is_asked_for(border: Border, subject: impl FnOnce() -> String) -> bool {
        static ASKED: OnceLock<Vec<(String, String)>> = OnceLock::new();
        let asked = ASKED.get_or_init(|| {
            let text = std::env::var(VARIABLE).unwrap_or_default();
            let parts = text.split(',').filter_map(|part| part.split_once('='));
            parts.map(|(border, word)| (border.to_owned(), word.to_owned())).collect()
        });
        let mut words =
            asked.iter().filter(|(name, _)| name == border.name()).map(|(_, word)| word).peekable();
        if words.peek().is_none() {
            return false;
        }
        let subject = subject();
        words.any(|word| subject.contains(word.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(border: Border) -> u64 {
        panic_counts()[border as usize]
    }

    #[test]
    fn a_backtrace_is_told_by_the_places_of_its_own_sources() {
        let backtrace = "   0: std::panicking::begin\n             at /rustc/5980/library/std/src/panicking.rs:689:5\n   \
             1: inject\n             at /src/crates/io/src/containment.rs:199:9\n   2: turn\n             \
             at ./crates/relay/src/connection/mod.rs:7:9\n   3: with\n             \
             at ./crates/relay/src/worker.rs:8:1\n   4: start_thread\n             at ./nptl/pthread_create.c:442:8\n";
        assert_eq!(own_frames(backtrace), "relay/src/connection/mod.rs:7:9 < relay/src/worker.rs:8:1");
    }

    #[test]
    fn what_does_not_panic_passes() {
        assert_eq!(contain(Border::Link, || 7), Ok(7));
    }

    #[test]
    fn a_panic_stops_at_its_border_and_is_counted_there() {
        let (before, outer) = (count(Border::Encoder), DEPTH.get());
        let stopped: Result<(), _> = contain(Border::Encoder, || panic!("number {}", 7));
        assert_eq!(stopped.map_err(|panicked| panicked.message), Err("number 7".to_owned()));
        assert_eq!((count(Border::Encoder), DEPTH.get()), (before + 1, outer));
    }

    #[test]
    fn the_innermost_border_stops_it() {
        let (outer, inner) = (count(Border::Worker), count(Border::Exchange));
        let result = contain(Border::Worker, || contain(Border::Exchange, || panic!("within")).is_err());
        assert_eq!(result, Ok(true));
        assert_eq!((count(Border::Worker), count(Border::Exchange)), (outer, inner + 1));
    }

    #[test]
    fn every_border_has_its_own_name_and_count() {
        for (at, border) in Border::ALL.into_iter().enumerate() {
            assert_eq!(border as usize, at);
            assert!(Border::ALL[..at].iter().all(|other| other.name() != border.name()));
        }
    }

    #[test]
    fn a_place_is_counted_and_places_are_bounded() {
        let place = "tests.rs:1:1";
        let first = count_place(place);
        assert_eq!(count_place(place), first + 1);
    }
}
