//! The thread of a forward: it waits for its stream, publishes it, and tries again.
//!
//! ```text
//! idle ─ the stream has a publisher ─► connecting ─► publishing ─ the stream is over ─► idle
//!                                       ▲    │            │ the service closes, refuses, takes nothing
//!                                       └────┴─ waiting ◄─┘ 1 s, 2 s, 4 s … 60 s
//! ```

use super::connect::{Connecting, NoConnection, Target, Waiting};
use super::line::{FAREWELL, Line, OUT_BYTES, Over, STALL, Source, failed, refused};
use super::status::{Board, Phase};
use crate::log_throttle::LogThrottle;
use glassline_delivery::backoff::Backoff;
use glassline_delivery::forward::Feed;
use glassline_delivery::policy::StreamName;
use glassline_delivery::stream::Mux;
use glassline_io::poll::{Poller, Waker};
use glassline_io::tls::Roots;
use glassline_media::container::flv::mux::TagFormat;
use glassline_media::{Codec, Time};
use glassline_streams::{Entering, Streams};
use glassline_transport::rtmp::Address;
use std::sync::Arc;
use std::time::Duration;

pub(super) use super::connect::WAKER;

/// A forward that a configuration asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedForward {
    /// The stream.
    pub stream: StreamName,
    /// Where it is published.
    pub address: Address,
    /// The authorities that are trusted for `rtmps:`.
    pub roots: Roots,
}

/// How long is waited for the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pauses {
    /// After the first failure, and after a stream that has ended; twice as long after each further failure, up to `most`.
    pub least: Duration,
    /// The longest.
    pub most: Duration,
}

impl Default for Pauses {
    fn default() -> Pauses {
        Pauses { least: Duration::from_secs(1), most: Duration::from_secs(60) }
    }
}

/// How often it is looked for a stream that is not there.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// A stream that was published for so long was a good one: the next failure is a first one.
const GOOD_RUN: Duration = Duration::from_secs(60);
/// Figures are written down this often.
const FIGURES: Duration = Duration::from_millis(250);
/// A service may send a publisher on so often.
const REDIRECTS_MAX: usize = 3;
/// All that a tag can carry.
const CODECS: [Codec; 8] = [
    Codec::H264,
    Codec::H265,
    Codec::Av1,
    Codec::Aac,
    Codec::MpegAudio,
    Codec::Opus,
    Codec::Ac3,
    Codec::EAc3,
];

/// What wakes a subscription's reader.
struct Wakes(Waker);

impl std::task::Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.wake();
    }
}

pub(super) struct Worker {
    streams: Arc<Streams>,
    wanted: WantedForward,
    board: Arc<Board>,
    waiting: Waiting,
    connecting: Connecting,
    throttle: LogThrottle,
    pauses: Pauses,
}

impl Worker {
    pub(super) fn new(
        streams: Arc<Streams>,
        wanted: WantedForward,
        board: Arc<Board>,
        (poller, waker): (Poller, Waker),
        pauses: Pauses,
    ) -> Worker {
        let waiting = Waiting::new(poller, waker, streams.clock());
        let (connecting, throttle) = (Connecting::default(), LogThrottle::default());
        Worker { streams, wanted, board, waiting, connecting, throttle, pauses }
    }

    fn now(&self) -> Time {
        self.waiting.clock.now()
    }

    /// Publishes the stream whenever it is there, until the thread has to end.
    pub(super) fn run(&mut self) {
        let mut backoff = Backoff::new(self.pauses.least, self.pauses.most, self.waiting.clock.seed());
        while self.wait_for_stream().is_ok() {
            self.board.enter(Phase::Connecting);
            let mut published = None;
            let over = self.attempt(&mut published);
            self.board.leave();
            let (stream, forward) = (&self.wanted.stream, self.wanted.address.to_string());
            if published.is_some_and(|since| self.now().since(since) >= GOOD_RUN) {
                backoff.reset();
            }
            let (reason, is_refused) = match over {
                Over::Stopped => return,
                Over::StreamEnded => {
                    tracing::info!(%stream, forward, "forward is over with its stream");
                    self.board.enter(Phase::Idle);
                    // Services want a moment before the next stream of a key.
                    let until = self.now() + self.pauses.least;
                    match self.rest(until) {
                        Ok(_) => continue,
                        Err(_) => return,
                    }
                }
                Over::Redirected(_) => (format!("redirected more than {REDIRECTS_MAX} times"), false),
                Over::Failed { reason, is_refused, .. } => (reason, is_refused),
            };
            let (now, pause) = (self.waiting.clock.now(), backoff.fail());
            if self.throttle.end(&reason, GOOD_RUN, now) {
                let retry_in_s = (pause.as_secs_f64() * 10.0).round() / 10.0;
                tracing::warn!(%stream, forward, retry_in_s, "forward is not there: {reason}");
            }
            self.board.fail(&reason, is_refused);
            self.board.enter(Phase::Waiting { until: now + pause, is_refused });
            match self.rest(now + pause) {
                // The next publisher has done nothing wrong.
                Ok(true) => backoff.reset(),
                Ok(false) => {}
                Err(_) => return,
            }
        }
    }

    /// Waits until then, and after the shortest pause no longer than the stream has a publisher. Returns whether that has gone.
    fn rest(&mut self, until: Time) -> Result<bool, NoConnection> {
        let least = self.now() + self.pauses.least;
        loop {
            let now = self.now();
            if now >= until {
                return Ok(false);
            }
            if now >= least && !self.is_published() {
                return Ok(true);
            }
            self.waiting.wait(until.min(now + LOOK_AGAIN), &self.board)?;
        }
    }

    /// Whether the stream has a publisher.
    fn is_published(&self) -> bool {
        let live = self.streams.find(&self.wanted.stream);
        live.is_some_and(|live| live.published_since().is_some())
    }

    /// Waits until the stream has a publisher.
    fn wait_for_stream(&mut self) -> Result<(), NoConnection> {
        let mut is_idle = false;
        while !self.is_published() {
            if !std::mem::replace(&mut is_idle, true) {
                self.board.enter(Phase::Idle);
            }
            let until = self.now() + LOOK_AGAIN;
            self.waiting.wait(until, &self.board)?;
        }
        Ok(())
    }

    /// One attempt, with the redirects of the service.
    fn attempt(&mut self, published: &mut Option<Time>) -> Over {
        // What is carried as something else is not connected for.
        if let Some(live) = self.streams.find(&self.wanted.stream)
            && let Err(over) = check(live.mux)
        {
            return over;
        }
        let mut address = self.wanted.address.clone();
        for redirects in 0..=REDIRECTS_MAX {
            let target = if redirects == 0 { Target::Configured } else { Target::Redirected };
            let to = match self.publish(&address, target, published) {
                Err(Over::Redirected(to)) => to,
                // A redirect may have a stream key where it should have a name.
                Err(Over::Failed { reason, is_refused, is_ours }) => {
                    return Over::Failed { reason: address.hide_key(&reason), is_refused, is_ours };
                }
                Err(over) => return over,
                Ok(()) => return Over::StreamEnded,
            };
            match address.redirected(&to) {
                Ok(next) => address = next,
                Err(wrong) => return failed(format!("the server {wrong}")),
            }
            // The application of a redirect may be a stream key: host and port alone are told.
            let (host, port) = (address.hide_key(&address.host), address.port);
            if self.throttle.should_log(&format!("redirected to {host}")) {
                tracing::info!(stream = %self.wanted.stream, "forward is redirected to {host} port {port}");
            }
        }
        Over::Redirected(String::new())
    }

    /// Connects, and publishes the stream until it is over.
    fn publish(
        &mut self,
        address: &Address,
        target: Target,
        published: &mut Option<Time>,
    ) -> Result<(), Over> {
        let Worker { connecting, waiting, board, wanted, .. } = self;
        let wire = connecting.connect(address, target, &wanted.roots, waiting, board)?;
        let mut line =
            Line::new(wire, address.clone(), self.now()).map_err(|error| failed(error.to_string()))?;
        let over = self.converse(&mut line, published);
        let is_theirs = matches!(over, Err(Over::Failed { is_ours: false, .. }));
        if !is_theirs {
            line.farewell(&mut self.waiting);
        }
        let counters = line.finish();
        self.board.observe(line.outgoing.sent(), counters, Duration::ZERO);
        over
    }

    fn converse(&mut self, line: &mut Line, published: &mut Option<Time>) -> Result<(), Over> {
        let mut figures_due = Time::ZERO;
        let mut ends_by: Option<Time> = None;
        loop {
            let now = self.now();
            let read = line.read(now)?;
            if read.is_published {
                *published = Some(now);
                self.began(line, now)?;
            }
            line.session.handle_timeout(now)?;
            let (has_more, has_ended) = line.take_units(now)?;
            line.write(now)?;
            if has_ended {
                let by = *ends_by.get_or_insert(now + FAREWELL);
                let is_drained = line.outgoing.waits() == 0
                    && line.source.as_ref().is_none_or(|source| source.feed.poll_timeout() == Time::NEVER);
                if is_drained || now >= by {
                    return Ok(());
                }
            }
            if let Some(source) = &line.source
                && now >= figures_due
            {
                figures_due = now + FIGURES;
                self.board.observe(line.outgoing.sent(), line.counters(), source.feed.behind(now));
            }
            if has_more || read.has_more {
                self.waiting.wait(now, &self.board)?;
                continue;
            }
            let mut due = line.session.poll_timeout().min(ends_by.unwrap_or(Time::NEVER));
            if line.outgoing.waits() > 0 {
                due = due.min(line.moved + STALL);
            }
            if let Some(source) = &line.source {
                due = due.min(figures_due);
                if line.outgoing.waits() < OUT_BYTES {
                    due = due.min(source.feed.poll_timeout());
                }
            }
            self.waiting.wait(due, &self.board)?;
        }
    }

    /// The service has the stream from now on.
    fn began(&mut self, line: &mut Line, now: Time) -> Result<(), Over> {
        let Worker { streams, wanted, waiting, .. } = self;
        let waker = std::task::Waker::from(Arc::new(Wakes(waiting.waker.clone())));
        let Some(subscription) = streams.subscribe(&wanted.stream, Entering::Newest, waker) else {
            return Err(Over::StreamEnded);
        };
        check(subscription.mux())?;
        let units = subscription.into_units().ok_or_else(|| refused("the stream is no MPEG-TS"))?;
        // A server that lists no letters is not asked further: services take H.265 and AV1 without saying so, as OBS sends them.
        let takes = |codec: &Codec| match TagFormat::of(*codec) {
            Some(TagFormat::Number(_)) => true,
            Some(TagFormat::Letters(letters)) => line.session.lists(letters).unwrap_or(codec.is_video()),
            None => false,
        };
        let codecs: Vec<Codec> = CODECS.into_iter().filter(takes).collect();
        line.source = Some(Source { units, feed: Feed::new(&codecs), began: now });
        self.board.enter(Phase::Publishing { since: now });
        if self.throttle.begin(now) {
            let (stream, forward) = (&self.wanted.stream, self.wanted.address.to_string());
            tracing::info!(%stream, forward, "forward is published");
        }
        Ok(())
    }
}

/// Whether a stream that is carried so can be forwarded.
fn check(mux: Mux) -> Result<(), Over> {
    if mux == Mux::MpegTs {
        return Ok(());
    }
    Err(refused(format!("the stream is carried as {}; only MPEG-TS is forwarded", mux.extension())))
}
