//! Being told to end by SIGINT or SIGTERM, for all commands but `serve`, which has more signals, and `lab link`, which passes
//! them on.

use anyhow::{Context, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::{flag, low_level};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

const ENDING: [i32; 2] = [SIGINT, SIGTERM];

/// Becomes true at a signal, so that what there is can be ended well; a second one ends the process at once.
pub(crate) fn on_signal() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in ENDING {
        flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop))
            .and_then(|_| flag::register(signal, Arc::clone(&stop)))
            .context(CANNOT)?;
    }
    Ok(stop)
}

/// Signals, caught from the moment that this is made.
pub(crate) struct StopSignals(Signals);

/// What a signal does while something is being ended already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Second {
    /// It asks again.
    Asks,
    /// It ends the process: the end may hang.
    EndsProcess,
}

impl StopSignals {
    /// Catches them from now on.
    pub(crate) fn catch() -> Result<StopSignals> {
        Ok(StopSignals(Signals::new(ENDING).context(CANNOT)?))
    }

    /// Takes those that have come since the last call. Returns whether there were any.
    pub(crate) fn poll(&mut self) -> bool {
        let came = self.0.pending().next();
        if let Some(signal) = came {
            tracing::info!(signal, "ending");
        }
        came.is_some()
    }

    /// Has a thread call `stop` with each.
    pub(crate) fn call(mut self, second: Second, mut stop: impl FnMut(i32) + Send + 'static) -> Result<()> {
        let listen = move || {
            for (count, signal) in self.0.forever().enumerate() {
                if count > 0 && second == Second::EndsProcess {
                    let _ = low_level::emulate_default_handler(signal);
                }
                stop(signal);
            }
        };
        let thread = thread::Builder::new().name("signals".into()).spawn(listen);
        thread.context("cannot start the thread for signals").map(drop)
    }
}

const CANNOT: &str = "cannot wait for signals";
