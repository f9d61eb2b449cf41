//! Webhooks as they run: a thread for each receiver, so that one that hangs or lies holds up no other, and none holds up the
//! program: [`WebhookSender::send`] puts an event into bounded outboxes and returns.
//!
//! ```text
//! send ─► Outbox of receiver 0 ─► thread ─► resolve, judge each address, connect, POST, read the answer's head ─► Outbox
//!     └─► Outbox of receiver 1 ─► thread ─► …
//! ```
//! Which message is sent when, again, or no more is [`delivery::webhook`](glassline_delivery::webhook)'s, which is pure; here are
//! threads, sockets and the bounds on one exchange. Redirects are not followed, and nothing of an answer's body is read.

mod exchange;

use crate::log_throttle::LogThrottle;
use exchange::{Exchange, Failure};
use glassline_delivery::http1::Url;
use glassline_delivery::webhook::{
    Counters, Destinations, Message, Outbox, Outcome, Policy, Verdict, WebhookSecret,
};
use glassline_io::clock::Clock;
use glassline_io::containment::{Border, contain, inject};
use glassline_io::random;
use glassline_io::small_file::Accept;
use glassline_io::tls::{Connector, Roots, TlsError};
use glassline_media::Utc;
use serde::Serialize;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long an exchange may take in all; Standard Webhooks recommends 15 to 30 s ("Request timeouts").
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(15);

/// Where events go, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The receivers. Each gets every event, and has a thread.
    pub urls: Vec<Url>,
    /// The key that all of them verify by.
    pub secret: WebhookSecret,
    /// Which addresses may be connected to.
    pub destinations: Destinations,
    /// The authorities that are trusted for `https:`.
    pub roots: Roots,
    /// How persistent it is.
    pub policy: Policy,
    /// How long connecting, sending and the answer may take together; resolving the name is not bounded by it.
    pub exchange_timeout: Duration,
}

impl Settings {
    /// Receivers on the internet, with the usual bounds.
    pub fn new(urls: Vec<Url>, secret: WebhookSecret) -> Settings {
        Settings {
            urls,
            secret,
            destinations: Destinations::default(),
            roots: Roots::System,
            policy: Policy::default(),
            exchange_timeout: EXCHANGE_TIMEOUT,
        }
    }
}

/// How one receiver fares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiverStatus {
    /// Its host and port. The rest of its URL may be a secret.
    pub receiver: String,
    /// Messages that wait.
    pub pending: usize,
    /// What was done so far.
    pub counters: Counters,
}

/// Sends events to receivers. Dropping it ends the threads, each after the exchange that it is in; what waits is lost.
#[derive(Debug)]
pub struct WebhookSender {
    receivers: Vec<Arc<Receiver>>,
    clock: Clock,
}

/// What a receiver's thread shares with those that send.
#[derive(Debug)]
struct Receiver {
    url: Url,
    shared: Mutex<Shared>,
    changed: Condvar,
}

#[derive(Debug)]
struct Shared {
    outbox: Outbox,
    is_over: bool,
}

impl Receiver {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        // No panic leaves an outbox half changed: its calls do not panic.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WebhookSender {
    /// Starts a thread for each receiver.
    ///
    /// # Errors
    /// [`TlsError`] in an `io::Error` where `https:` is wanted and no authority can be read; what the system says where it gives
    /// no thread.
    pub fn start(settings: Settings) -> io::Result<WebhookSender> {
        let connector = connector(&settings).map_err(io::Error::other)?;
        let clock = Clock::new();
        // Dropped where a thread cannot be started, which ends those before it.
        let mut sender = WebhookSender { receivers: Vec::new(), clock };
        for url in &settings.urls {
            let seed = clock.seed().wrapping_add(sender.receivers.len() as u64);
            let shared = Mutex::new(Shared { outbox: Outbox::new(settings.policy, seed), is_over: false });
            let receiver = Arc::new(Receiver { url: url.clone(), shared, changed: Condvar::new() });
            sender.receivers.push(Arc::clone(&receiver));
            let exchange = Exchange {
                secret: settings.secret.clone(),
                destinations: settings.destinations.clone(),
                connector: connector.clone(),
                timeout: settings.exchange_timeout,
            };
            let thread = std::thread::Builder::new().name("webhook".into());
            thread
                .spawn(move || run(&receiver, clock, |message| exchange.deliver(&receiver.url, message)))?;
        }
        Ok(sender)
    }

    /// Has `event` sent to every receiver: what becomes an object of JSON, of kind `kind` as in `alarm.begun`, that came up at
    /// `at`. Returns at once; takes a lock that is never held while anything is waited for.
    ///
    /// # Errors
    /// Where the event cannot be written as JSON, or the system gives no randomness for the message's name: nothing is sent
    /// then.
    pub fn send(&self, kind: &str, at: Utc, event: &impl Serialize) -> io::Result<()> {
        let mut name = [0; 16];
        name.iter_mut().zip(random::seed()?).for_each(|(to, from)| *to = from);
        let message = Message::new(kind, at, event, name)?;
        let now = self.clock.now();
        for receiver in &self.receivers {
            receiver.lock().outbox.push(message.clone(), now);
            receiver.changed.notify_one();
        }
        Ok(())
    }

    /// How each receiver fares, in the order of [`Settings::urls`].
    pub fn status(&self) -> Vec<ReceiverStatus> {
        let status = |receiver: &Arc<Receiver>| {
            let shared = receiver.lock();
            ReceiverStatus {
                receiver: receiver.url.authority(),
                pending: shared.outbox.len(),
                counters: shared.outbox.counters(),
            }
        };
        self.receivers.iter().map(status).collect()
    }
}

impl Drop for WebhookSender {
    fn drop(&mut self) {
        for receiver in &self.receivers {
            let pending = receiver.lock().outbox.len();
            if pending > 0 {
                tracing::warn!("{pending} webhooks for {} are not sent any more", receiver.url.authority());
            }
            receiver.lock().is_over = true;
            receiver.changed.notify_one();
        }
    }
}

/// What `https:` is spoken by; `None` where no receiver wants it.
fn connector(settings: &Settings) -> Result<Option<Connector>, TlsError> {
    let is_wanted = settings.urls.iter().any(Url::tls);
    is_wanted.then(|| Connector::new(&settings.roots, Accept::RegularFile)).transpose()
}

/// A receiver's thread: `deliver` makes one attempt. Where that panics the attempt has failed, and the thread goes on.
fn run(receiver: &Receiver, clock: Clock, deliver: impl Fn(&Message) -> Result<Outcome, Failure>) {
    let mut log = LogThrottle::default();
    while let Some(message) = next(receiver, clock) {
        let answer = contain(Border::Exchange, || {
            inject(Border::Exchange, || receiver.url.to_string());
            deliver(&message)
        });
        let answer = answer.unwrap_or_else(|panicked| Err(Failure::Fault(panicked)));
        let outcome = match &answer {
            Ok(outcome) => *outcome,
            Err(_) => Outcome::Unanswered,
        };
        let verdict = receiver.lock().outbox.handle_outcome(outcome, clock.now());
        tell(receiver, &mut log, &answer, verdict);
    }
}

/// Waits for the message that is due next; `None` where the thread has to end.
fn next(receiver: &Receiver, clock: Clock) -> Option<Message> {
    let mut shared = receiver.lock();
    loop {
        if shared.is_over {
            return None;
        }
        let now = clock.now();
        if let Some(message) = shared.outbox.poll_attempt(now) {
            return Some(message);
        }
        let wait = shared.outbox.poll_timeout().map(|due| due.since(now));
        shared = wait_for(receiver, shared, wait);
    }
}

fn wait_for<'a>(
    receiver: &'a Receiver,
    shared: MutexGuard<'a, Shared>,
    wait: Option<Duration>,
) -> MutexGuard<'a, Shared> {
    match wait {
        None => receiver.changed.wait(shared).unwrap_or_else(PoisonError::into_inner),
        Some(wait) => {
            // A wait of nothing would spin where clocks round differently.
            let wait = wait.max(Duration::from_millis(1));
            receiver.changed.wait_timeout(shared, wait).unwrap_or_else(PoisonError::into_inner).0
        }
    }
}

/// Puts a failure into the log. Not the URL: receivers of many services have a key in its path.
fn tell(receiver: &Receiver, log: &mut LogThrottle, answer: &Result<Outcome, Failure>, verdict: Verdict) {
    let why = match answer {
        Ok(Outcome::Answered { status: 300..400, .. }) => {
            "answered with a redirect, which is not followed; name the address that it leads to".to_owned()
        }
        Ok(Outcome::Answered { status, .. }) => format!("answered {status}"),
        Ok(Outcome::Unanswered) => "no answer".to_owned(),
        Err(failure) => failure.to_string(),
    };
    let to = receiver.url.authority();
    match verdict {
        Verdict::Delivered => *log = LogThrottle::default(),
        Verdict::Again { wait } if log.should_log(&why) => {
            tracing::warn!(
                receiver = to,
                why,
                retry_in_s = wait.as_secs_f64(),
                "a webhook was not delivered"
            );
        }
        Verdict::Again { .. } => {}
        Verdict::GivenUp => tracing::error!(receiver = to, why, "a webhook is given up"),
        Verdict::Closed => {
            tracing::error!(
                receiver = to,
                "a webhook's receiver wants no more (410); none is sent there until a restart"
            );
        }
    }
}

#[cfg(test)]
#[path = "webhook_tests.rs"]
mod tests;
