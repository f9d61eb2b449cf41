//! A stream of this server that is sent on over a link: a thread that reads it as a viewer does.

use super::outgoing::{Outgoing, Pushed};
use glassline_delivery::policy::StreamName;
use glassline_delivery::stream::{Mux, Seams};
use glassline_media::container::ts::PACKET_BYTES;
use glassline_streams::{Entering, Read, Streams};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Wake, Waker};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

/// Bytes that are read at once: a picture of a few megabits a second.
const READ_BYTES: usize = 256 * PACKET_BYTES;
/// How often it is looked for a stream that is not there, or a link.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How often in a row a stream may fail to be read: the system may have no memory for a moment.
const READ_TRIES: u32 = 10;

/// The thread. Dropping it ends it.
pub(super) struct Forward {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    is_stopping: AtomicBool,
    /// Times that the link was too slow for the stream and it went on at the newest key frame.
    moved_forward: AtomicU64,
    /// Why it has ended by itself.
    error: OnceLock<String>,
}

impl Shared {
    fn fail(&self, why: String) {
        tracing::error!("{why}; a reload tries again");
        self.error.get_or_init(|| why);
    }
}

/// Wakes the thread when the stream has grown.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Forward {
    pub(super) fn start(streams: &Arc<Streams>, name: &StreamName, outgoing: &Arc<Outgoing>) -> Forward {
        let shared = Arc::new(Shared::default());
        let (own, streams, name) = (Arc::clone(&shared), Arc::clone(streams), name.clone());
        let outgoing = Arc::clone(outgoing);
        let thread = thread::Builder::new().name("link forward".into());
        let thread = thread.spawn(move || run(&streams, &name, &outgoing, &own));
        let thread =
            thread.inspect_err(|error| shared.fail(format!("no thread to send a stream on: {error}")));
        Forward { thread: thread.ok(), shared }
    }

    /// Why it has ended by itself, if it has.
    pub(super) fn error(&self) -> Option<&str> {
        self.shared.error.get().map(String::as_str)
    }

    pub(super) fn moved_forward(&self) -> u64 {
        self.shared.moved_forward.load(Ordering::Relaxed)
    }
}

impl Forward {
    /// Has it end, and does not wait for that.
    pub(super) fn stop(&self) {
        self.shared.is_stopping.store(true, Ordering::Release);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(streams: &Arc<Streams>, name: &StreamName, outgoing: &Outgoing, shared: &Shared) {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut has_begun = false;
    while !shared.is_stopping.load(Ordering::Acquire) {
        if !outgoing.wait_up(LOOK_AGAIN) {
            continue;
        }
        // The newest key frame, which a peer that has just come begins with.
        match streams.subscribe(name, Entering::Newest, waker.clone()) {
            Some(mut subscription) if subscription.mux() == Mux::MpegTs => {
                let read = |buffer: &mut [u8]| subscription.read(buffer);
                if let Err(error) = follow(read, outgoing, shared, &mut has_begun) {
                    return shared.fail(format!("{name} cannot be read and is sent on no longer: {error}"));
                }
            }
            _ => thread::park_timeout(LOOK_AGAIN),
        }
    }
}

/// Sends the stream that `read` gives until it has ended, or the peer has to begin anew.
///
/// # Errors
/// The last of many in a row by which it could not be read.
fn follow(
    mut read: impl FnMut(&mut [u8]) -> io::Result<Read>,
    outgoing: &Outgoing,
    shared: &Shared,
    has_begun: &mut bool,
) -> io::Result<()> {
    let mut failures = 0;
    let mut buffer = vec![0; READ_BYTES];
    let mut out = Vec::new();
    let (mut joinable, mut seams) = (false, None);
    while !shared.is_stopping.load(Ordering::Acquire) {
        let found = read(&mut buffer);
        failures = if found.is_err() { failures + 1 } else { 0 };
        match found {
            Ok(Read::Entered { prelude, .. }) => {
                out.extend_from_slice(&prelude);
                joinable = true;
                // What came before at the peer does not go on here.
                seams = has_begun.then(Seams::new);
            }
            Ok(Read::Bytes(count)) => {
                out.extend_from_slice(&buffer[..count]);
                let whole = out.len() - out.len() % PACKET_BYTES;
                let rest = out.split_off(whole);
                if let Some(seams) = &mut seams {
                    seams.announce(&mut out);
                }
                if !out.is_empty() {
                    match outgoing.push(&out, joinable) {
                        Pushed::Sent => (joinable, *has_begun) = (false, true),
                        Pushed::LeftOut => return Ok(()),
                        Pushed::Full => {
                            shared.moved_forward.fetch_add(1, Ordering::Relaxed);
                            // There is room when older packets have left or are given up.
                            thread::park_timeout(LOOK_AGAIN);
                            return Ok(());
                        }
                    }
                }
                out = rest;
            }
            Ok(Read::FellBehind) => {
                out.clear();
                shared.moved_forward.fetch_add(1, Ordering::Relaxed);
            }
            Ok(Read::Pending) => thread::park_timeout(LOOK_AGAIN),
            Ok(Read::Ended) => return Ok(()),
            Err(error) if failures >= READ_TRIES => return Err(error),
            Err(error) => {
                tracing::debug!(%error, "a stream that is sent on cannot be read");
                thread::park_timeout(LOOK_AGAIN);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "forward_tests.rs"]
mod tests;
