//! The slates of streams as they run: a thread that plays all of them, and one that has them coded.
//!
//! ```text
//! arrange ─► thread "slate": each stream's gate, when it is due ─► Live::play_slate ─► viewers
//!                 │ a stream's pictures are of a format that was not coded yet    ▲
//!                 └─► thread "slate-coder": Picture::code, one at a time ─────────┘ once for each file and format
//! ```
//! When a slate is shown, and with what stamps, is [`delivery::slate`](glassline_delivery::slate)'s, which is pure. What it shows comes
//! from a [`Picture`], so that nothing here knows an encoder. While publishers are shown, the thread sleeps until the next of them
//! could have been silent for too long.

use glassline_delivery::policy::StreamName;
use glassline_delivery::slate::{Change, Format, Reel};
use glassline_delivery::stream::Mux;
use glassline_io::containment::{Border, contain};
use glassline_media::Time;
use glassline_streams::{Live, SlatePlayed, SlateSettings, Streams};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

/// A stream that has ended, or is of a mux without slates, is looked for again after this time.
const LOOK: Duration = Duration::from_secs(1);
/// Formats that are kept of one file, the newest ones, beside those that streams wait for or show.
pub const FORMATS_MAX: usize = 8;

/// What a slate shows.
pub trait Picture: Send + Sync {
    /// What tells it from others: the same for one that shows the same.
    fn identity(&self) -> &str;

    /// Whether it is one reel for all formats.
    fn has_one_format(&self) -> bool;

    /// Codes it for `format`. Takes as long as it takes, on a thread of its own.
    ///
    /// # Errors
    /// In words for people.
    fn code(&self, format: Format) -> Result<Reel, String>;
}

/// A stream's slate.
#[derive(Clone)]
pub struct Slate {
    /// The stream.
    pub stream: StreamName,
    /// What it shows.
    pub picture: Arc<dyn Picture>,
    /// A publisher that has sent nothing for so long is not shown until its next key frame.
    pub silence: Duration,
}

impl fmt::Debug for Slate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let picture = self.picture.identity();
        f.debug_struct("Slate")
            .field("stream", &self.stream)
            .field("picture", &picture)
            .finish_non_exhaustive()
    }
}

/// All slates of a server.
#[derive(Debug, Default)]
pub struct Slates(Mutex<Option<Running>>);

#[derive(Debug)]
struct Running {
    mailbox: Sender<Message>,
    thread: JoinHandle<()>,
}

enum Message {
    Arrange(Vec<Slate>),
    /// A stream has lost its publisher.
    Woken,
    Coded(Coded),
    End,
}

/// What coding a picture came to.
struct Coded {
    identity: String,
    format: Option<Format>,
    reel: Result<Reel, String>,
}

impl Slates {
    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        // One is put in the other's place at once.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has these slates and no others. Threads run while there is one.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn arrange(&self, streams: &Arc<Streams>, slates: Vec<Slate>) -> io::Result<()> {
        let mut running = self.lock();
        if running.is_none() && slates.is_empty() {
            take_from_others(streams, |_| false);
            return Ok(());
        }
        if running.is_none() {
            *running = Some(start(Arc::clone(streams))?);
        }
        if let Some(Running { mailbox, .. }) = &*running {
            let _ = mailbox.send(Message::Arrange(slates));
        }
        Ok(())
    }

    /// Ends the threads; what is shown stays as it is, for the next process to go on.
    pub fn end(&self) {
        let running = self.lock().take();
        if let Some(Running { mailbox, thread }) = running {
            let _ = mailbox.send(Message::End);
            let _ = thread.join();
        }
    }
}

impl Drop for Slates {
    fn drop(&mut self) {
        self.end();
    }
}

/// Takes the slate from streams that should have none. A process before this one may have left them one.
fn take_from_others(streams: &Streams, has_one: impl Fn(&StreamName) -> bool) {
    for live in streams.all().into_iter().filter(|live| live.has_slate() && !has_one(&live.name)) {
        live.set_slate(None, streams.clock().now());
        streams.announce(&live, None);
    }
}

fn start(streams: Arc<Streams>) -> io::Result<Running> {
    let (mailbox, messages) = channel();
    let (jobs, wanted) = channel::<(Arc<dyn Picture>, Option<Format>, Format)>();
    let coded = mailbox.clone();
    std::thread::Builder::new().name("slate-coder".into()).spawn(move || {
        for (picture, key, format) in wanted {
            let reel = contain(Border::Encoder, || picture.code(format));
            let reel = reel.unwrap_or_else(|panicked| Err(panicked.to_string()));
            let identity = picture.identity().to_owned();
            if coded.send(Message::Coded(Coded { identity, format: key, reel })).is_err() {
                return;
            }
        }
    })?;
    let waking = Arc::new(Waking { mailbox: mailbox.clone(), is_woken: AtomicBool::new(false) });
    let mut player = Player {
        streams,
        waking,
        jobs,
        playing: BTreeMap::new(),
        reels: BTreeMap::new(),
        wanted: BTreeMap::new(),
    };
    let thread = std::thread::Builder::new().name("slate".into());
    let thread = thread.spawn(move || player.run(&messages))?;
    Ok(Running { mailbox, thread })
}

/// Wakes the thread, once until it has looked.
struct Waking {
    mailbox: Sender<Message>,
    is_woken: AtomicBool,
}

impl Wake for Waking {
    fn wake(self: Arc<Self>) {
        if !self.is_woken.swap(true, Ordering::AcqRel) {
            let _ = self.mailbox.send(Message::Woken);
        }
    }
}

/// The reels of one file, each by its format, the newest last.
type Reels = Vec<(Option<Format>, Coding)>;

/// How far the coding of a file for one format has come.
enum Coding {
    Waits,
    Failed,
    Done(Arc<Reel>),
}

/// The thread's own.
struct Player {
    streams: Arc<Streams>,
    waking: Arc<Waking>,
    jobs: Sender<(Arc<dyn Picture>, Option<Format>, Format)>,
    playing: BTreeMap<StreamName, Playing>,
    reels: BTreeMap<String, Reels>,
    /// What each stream shows or waits for, by identity and format.
    wanted: BTreeMap<StreamName, (String, Option<Format>)>,
}

struct Playing {
    slate: Slate,
    live: Option<Arc<Live>>,
    /// What its stream was given last, by identity and format.
    given: Option<(String, Option<Format>)>,
    next: Time,
    /// That there is no room was said.
    is_refused: bool,
}

impl Player {
    fn run(&mut self, messages: &Receiver<Message>) {
        loop {
            let now = self.streams.clock().now();
            let next = self.playing.values().map(|playing| playing.next).min();
            let message = match next {
                None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(next) => messages.recv_timeout(next.since(now)),
            };
            match message {
                Ok(Message::Arrange(slates)) => self.arrange(slates),
                Ok(Message::Woken) => {
                    // Before the look, so that what comes during it wakes again.
                    self.waking.is_woken.store(false, Ordering::Release);
                    self.playing.values_mut().for_each(|playing| playing.next = Time::ZERO);
                }
                Ok(Message::Coded(coded)) => self.take(coded),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => return,
            }
            self.play_due();
        }
    }

    fn arrange(&mut self, slates: Vec<Slate>) {
        let mut before = std::mem::take(&mut self.playing);
        for slate in slates {
            let former = before.remove(&slate.stream);
            let (live, given) = former.map_or((None, None), |former| (former.live, former.given));
            if let Some(live) = &live {
                live.set_slate(Some(self.settings(&slate)), self.streams.clock().now());
            }
            let playing = Playing { live, given, next: Time::ZERO, is_refused: false, slate };
            self.playing.insert(playing.slate.stream.clone(), playing);
        }
        take_from_others(&self.streams, |name| self.playing.contains_key(name));
        self.wanted.retain(|name, _| self.playing.contains_key(name));
        let identities: Vec<&str> =
            self.playing.values().map(|playing| playing.slate.picture.identity()).collect();
        self.reels.retain(|identity, _| identities.contains(&identity.as_str()));
    }

    fn settings(&self, slate: &Slate) -> SlateSettings {
        SlateSettings { silence: slate.silence, waker: Waker::from(Arc::clone(&self.waking)) }
    }

    fn take(&mut self, Coded { identity, format, reel }: Coded) {
        let reel = match reel {
            Ok(reel) => Coding::Done(Arc::new(reel)),
            Err(error) => {
                tracing::warn!("no slate of {identity}: {error}");
                Coding::Failed
            }
        };
        let Some(reels) = self.reels.get_mut(&identity) else { return };
        if let Some(place) = reels.iter_mut().find(|(of, _)| *of == format) {
            place.1 = reel;
        }
        self.playing.values_mut().for_each(|playing| playing.next = Time::ZERO);
    }

    fn play_due(&mut self) {
        let now = self.streams.clock().now();
        let mut playing = std::mem::take(&mut self.playing);
        for playing in playing.values_mut().filter(|playing| playing.next <= now) {
            let stream = playing.slate.stream.clone();
            if let Err(panicked) = contain(Border::Encoder, || self.play(playing)) {
                tracing::error!(%stream, "its slate was stopped by a fault: {panicked}");
                playing.next = now + LOOK;
            }
        }
        self.playing = playing;
    }

    fn play(&mut self, playing: &mut Playing) {
        let now = self.streams.clock().now();
        playing.next = now + LOOK;
        let Some(live) = self.live(playing, now) else { return };
        let Some((played, SlatePlayed { flushed, next, format, change })) = live.play_slate(now) else {
            return;
        };
        self.streams.notify(&live, flushed);
        let stream = &playing.slate.stream;
        if let Err(error) = played {
            tracing::warn!(%stream, "its slate cannot be shown: {error}");
            return;
        }
        if let Some(change) = change {
            tell(stream, change);
        }
        self.give(playing, &live, format);
        // The end of a publisher wakes this thread; without a reel there is nothing to do before one is coded.
        playing.next = next.unwrap_or(now + LOOK);
    }

    /// The stream, with its slate; `None` where there is no room for it.
    fn live(&self, playing: &mut Playing, now: Time) -> Option<Arc<Live>> {
        if let Some(live) = playing.live.as_ref().filter(|live| !live.has_ended()) {
            return Some(Arc::clone(live));
        }
        let begun = self.streams.begin(&playing.slate.stream, Mux::MpegTs);
        match begun {
            Ok(live) => {
                live.set_slate(Some(self.settings(&playing.slate)), now);
                (playing.live, playing.given, playing.is_refused) = (Some(Arc::clone(&live)), None, false);
                Some(live)
            }
            Err(error) => {
                if !std::mem::replace(&mut playing.is_refused, true) {
                    tracing::warn!(stream = %playing.slate.stream, "no slate is shown: {error}");
                }
                None
            }
        }
    }

    /// Gives the stream the reel for its pictures, or has it coded.
    fn give(&mut self, playing: &mut Playing, live: &Live, format: Format) {
        let picture = &playing.slate.picture;
        let key = (!picture.has_one_format()).then_some(format);
        let identity = picture.identity();
        if playing.given.as_ref().is_some_and(|(given, of)| given == identity && *of == key) {
            return;
        }
        let stream = &playing.slate.stream;
        if self.waits(stream, identity, key) {
            return;
        }
        self.wanted.insert(stream.clone(), (identity.to_owned(), key));
        let reels = self.reels.entry(identity.to_owned()).or_default();
        match reels.iter().find(|(of, _)| *of == key) {
            Some((_, Coding::Done(reel))) => {
                live.set_slate_reel(Some(Arc::clone(reel)));
                playing.given = Some((identity.to_owned(), key));
            }
            Some((_, Coding::Waits | Coding::Failed)) => {}
            None => {
                // What is waited for would be asked for again at once, without end.
                let is_wanted = |of: &Option<Format>| {
                    self.wanted.values().any(|(wanted, format)| wanted == identity && format == of)
                };
                let is_free = |(of, coding): &(_, Coding)| !matches!(coding, Coding::Waits) && !is_wanted(of);
                while reels.len() >= FORMATS_MAX
                    && let Some(oldest) = reels.iter().position(is_free)
                {
                    reels.remove(oldest);
                }
                reels.push((key, Coding::Waits));
                let _ = self.jobs.send((Arc::clone(picture), key, format));
            }
        }
    }

    /// Whether `stream` waits for what it wanted before: it has one job at a time, so that there are no more than streams.
    fn waits(&self, stream: &StreamName, identity: &str, key: Option<Format>) -> bool {
        let Some((wanted, format)) = self.wanted.get(stream) else { return false };
        let is_other = (wanted.as_str(), *format) != (identity, key);
        let reels = self.reels.get(wanted).into_iter().flatten();
        is_other && reels.filter(|(of, _)| of == format).any(|(_, coding)| matches!(coding, Coding::Waits))
    }
}

fn tell(stream: &StreamName, change: Change) {
    match change {
        Change::Shown { instead_of, without_sound } => {
            tracing::info!(%stream, "the slate is shown: the publisher is silent or away");
            if let Some(codec) = instead_of {
                tracing::warn!(%stream, "the publisher's pictures are {}, the slate's are not: some players stop there", codec.name());
            }
            if without_sound {
                tracing::warn!(%stream, "the slate has no sound: silence is made of AAC and Opus only");
            }
        }
        Change::Unplayable { codec } => {
            tracing::warn!(%stream, "the slate cannot be shown: MPEG-TS has no place for {}", codec.name());
        }
        Change::Over => tracing::info!(%stream, "the slate is over: the publisher is shown"),
    }
}

#[cfg(test)]
#[path = "slate_tests.rs"]
mod tests;
