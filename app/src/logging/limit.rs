//! Keeps lines that come very often out of the log, and tells how many there were ([`recurring`](super::recurring)). A kind
//! of lines is a place in the program. Lines for debugging are all told: they are asked for.

use super::fields;
use super::recurring::{Recurring, Summary, Verdict};
use glassline_io::clock::Clock;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use tracing::callsite::Identifier;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

/// The target of the lines that tell how many there were, which are never kept out.
const SUMMARY: &str = "glassline::log";

/// A place in the program that logs, with the level of its lines.
type Place = (Identifier, Level);

/// The layer. Clones are the same one.
#[derive(Clone)]
pub(super) struct Limit(Arc<Shared>);

struct Shared {
    clock: Clock,
    state: Mutex<State>,
    /// There is a first summary to wait for.
    news: Condvar,
}

#[derive(Default)]
struct State {
    recurring: Recurring<Place>,
    has_thread: bool,
}

impl Limit {
    pub(super) fn new() -> Limit {
        Limit(Arc::new(Shared { clock: Clock::new(), state: Mutex::default(), news: Condvar::new() }))
    }

    /// Tells what was counted and not told yet.
    pub(super) fn finish(&self) {
        let summaries = self.state().recurring.finish(self.0.clock.now());
        summaries.iter().for_each(tell);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a line is told.
    fn admits(&self, event: &Event<'_>) -> bool {
        let metadata = event.metadata();
        let place = (metadata.callsite(), *metadata.level());
        let verdict = self.state().recurring.offer(place.clone(), self.0.clock.now());
        if verdict == Verdict::CountFirst {
            // Written without the lock: a value may take a while to be.
            let example = fields::in_one_line(event);
            let mut state = self.state();
            state.recurring.keep_example(&place, example);
            if !state.has_thread {
                let limit = self.clone();
                let thread = thread::Builder::new().name("log".to_owned());
                // Without it what was counted is told at the end.
                state.has_thread = thread.spawn(move || limit.tell_in_time()).is_ok();
            }
            self.0.news.notify_one();
        }
        verdict == Verdict::Tell
    }

    /// Tells at each interval's end what was counted, for as long as the process lives.
    fn tell_in_time(&self) {
        let mut state = self.state();
        loop {
            let now = self.0.clock.now();
            let summaries = state.recurring.handle_timeout(now);
            if !summaries.is_empty() {
                drop(state);
                summaries.iter().for_each(tell);
                state = self.state();
                continue;
            }
            state = match state.recurring.poll_timeout() {
                Some(at) => {
                    let waited = self.0.news.wait_timeout(state, at.since(now));
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.0.news.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

impl<S: Subscriber> Layer<S> for Limit {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let metadata = event.metadata();
        *metadata.level() > Level::INFO || metadata.target() == SUMMARY || self.admits(event)
    }
}

fn tell(summary: &Summary<Place>) {
    let Summary { kind: (_, level), lines, time, example } = summary;
    let seconds = time.as_secs_f64().ceil();
    match *level {
        Level::ERROR => tracing::error!(target: SUMMARY, "{lines} more like this in {seconds} s: {example}"),
        Level::WARN => tracing::warn!(target: SUMMARY, "{lines} more like this in {seconds} s: {example}"),
        _ => tracing::info!(target: SUMMARY, "{lines} more like this in {seconds} s: {example}"),
    }
}
