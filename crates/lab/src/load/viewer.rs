//! One viewer: a connection, its request, and what comes back.

use super::check::{Body, Landmark, Tracker};
use super::pace::Pace;
use super::tally::Tally;
use super::target::Target;
use glassline_delivery::http1::client::{Client, Event, Request};
use glassline_delivery::http1::{Limits, Method};
use glassline_io::client::Wire;
use glassline_media::Time;
use std::io;
use std::time::Duration;

/// How a viewer's watching ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Refused(String),
    Dropped(String),
    Finished,
    Left,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Connecting,
    /// TLS is being agreed on.
    Securing,
    /// The request is sent.
    Asked,
    Receiving,
}

/// The marks that bound what a viewer may be asked for.
pub(super) struct Terms {
    /// A wait that is longer is a stall.
    pub(super) stall: Duration,
}

/// Stamps that are older than this, or of the future, are by another clock.
const OLDEST_STAMP: Duration = Duration::from_secs(3600);
/// A stream that shows no key frame in so many bytes marks none, or has no video.
const KEY_FRAME_BYTES: u64 = 32 << 20;
/// A viewer is behind where its newest frame is older than this when it comes.
const BEHIND: Duration = Duration::from_millis(500);
/// A viewer's mean rate tells something after this time.
const RATE_TIME: Duration = Duration::from_secs(1);

/// A viewer on its connection. About 300 bytes, without what it reads into; 1 kB where its packets are checked.
#[derive(Debug)]
pub(super) struct Viewer {
    pub(super) wire: Wire,
    pub(super) state: State,
    pub(super) pace: Option<Pace>,
    /// Its pace lets it read later; the load knows when.
    pub(super) paused: bool,
    client: Client,
    /// Until the first key frame or picture; of viewers with packets that are checked, to the end.
    tracker: Option<Box<Tracker>>,
    checked: bool,
    key_frame_seen: bool,
    picture_seen: bool,
    /// Begin of the connection, then of the request.
    since: Time,
    asked: Time,
    last_read: Time,
    /// From send to read, of the newest frame.
    newest_delay: Duration,
    window_began: Time,
    window_bytes: u64,
    stalls: u64,
    longest_gap: Duration,
}

impl Viewer {
    /// `tracker` looks for the first key frame, and, if `checked`, at every packet.
    pub(super) fn new(wire: Wire, pace: Option<Pace>, tracker: Tracker, checked: bool, now: Time) -> Viewer {
        Viewer {
            wire,
            state: State::Connecting,
            pace,
            paused: false,
            client: Request::new(Method::Get, "", "").client(Limits::DEFAULT),
            tracker: Some(Box::new(tracker)),
            checked,
            key_frame_seen: false,
            picture_seen: false,
            since: now,
            asked: now,
            last_read: now,
            newest_delay: Duration::ZERO,
            window_began: now,
            window_bytes: 0,
            stalls: 0,
            longest_gap: Duration::ZERO,
        }
    }

    /// Whether nothing came since `time`.
    pub(super) fn is_idle_since(&self, time: Time) -> bool {
        self.last_read <= time
    }

    /// Packets that are wrong, missing or repeated so far.
    pub(super) fn errors(&self) -> u64 {
        let tracker =
            self.tracker.as_ref().filter(|tracker| self.checked && tracker.body() == Body::Transport);
        tracker.map_or(0, |tracker| tracker.checker().verdict().errors())
    }

    /// How long it has waited for the connection or the answer.
    pub(super) fn unanswered(&self, now: Time) -> Option<Duration> {
        (self.state != State::Receiving).then(|| now.since(self.since))
    }

    /// The connection stands or has failed: sends the request, or agrees on TLS first.
    pub(super) fn connected(&mut self, target: &Target, now: Time, tally: &mut Tally) -> Result<(), Ending> {
        self.wire.socket().connected().map_err(|error| refused(&error))?;
        if self.wire.is_handshaking() {
            self.state = State::Securing;
            return self.wire.flush().map(drop).map_err(|error| refused(&error));
        }
        self.ask(target, now, tally)
    }

    /// Goes on with TLS, in room for [`glassline_io::tls::READ_BYTES_MIN`], and sends the request once it stands.
    pub(super) fn secure(
        &mut self,
        target: &Target,
        room: &mut [u8],
        now: Time,
        tally: &mut Tally,
    ) -> Result<(), Ending> {
        self.wire.flush().map_err(|error| refused(&error))?;
        match self.wire.read(room) {
            Ok(None) if self.wire.is_handshaking() => Ok(()),
            Ok(None) => self.ask(target, now, tally),
            Ok(Some(_)) => Err(Ending::Refused("closed before TLS was agreed on".into())),
            Err(error) => Err(refused(&error)),
        }
    }

    fn ask(&mut self, target: &Target, now: Time, tally: &mut Tally) -> Result<(), Ending> {
        tally.viewers.connected += 1;
        tally.connect.record_time(now.since(self.since));
        let request = target.url().request(Method::Get);
        self.client = request.client(Limits::DEFAULT);
        let bytes = request.without_body();
        match self.wire.write(&bytes) {
            Ok(Some(count)) if count == bytes.len() => {}
            // It fits into any fresh socket's buffer.
            Ok(_) => return Err(Ending::Refused("the request was not taken".into())),
            Err(error) => return Err(refused(&error)),
        }
        (self.state, self.since, self.asked) = (State::Asked, now, now);
        Ok(())
    }

    /// Takes what was read at `now`; nothing is the connection's end.
    pub(super) fn take(
        &mut self,
        mut bytes: &[u8],
        now: Time,
        terms: &Terms,
        tally: &mut Tally,
    ) -> Result<(), Ending> {
        if bytes.is_empty() {
            return Err(match (self.state, self.client.end()) {
                (State::Receiving, Ok(())) => Ending::Dropped("the server closed the connection".into()),
                (State::Receiving, Err(error)) => Ending::Dropped(error.to_string()),
                _ => Ending::Refused("closed without an answer".into()),
            });
        }
        loop {
            match self.client.next(&mut bytes) {
                Ok(None) => return Ok(()),
                Ok(Some(Event::Data(data))) => self.take_body(data, now, terms, tally),
                Ok(Some(Event::End)) => return Err(Ending::Finished),
                Ok(Some(Event::Head(head))) if (200..300).contains(&head.status) => {}
                Ok(Some(Event::Head(head))) => {
                    let reason: String = head.reason.chars().take(40).collect();
                    return Err(Ending::Refused(format!("answered {} {reason}", head.status).trim().into()));
                }
                Err(error) if self.state == State::Receiving => {
                    return Err(Ending::Dropped(error.to_string()));
                }
                Err(error) => return Err(Ending::Refused(error.to_string())),
            }
        }
    }

    fn take_body(&mut self, data: &[u8], now: Time, terms: &Terms, tally: &mut Tally) {
        if self.state != State::Receiving {
            self.state = State::Receiving;
            tally.first_byte.record_time(now.since(self.asked));
            (self.last_read, self.window_began) = (now, now);
        } else if self.pace.is_none() {
            self.note_gap(now, terms);
        }
        self.last_read = now;
        self.window_bytes += data.len() as u64;
        tally.window.bytes += data.len() as u64;
        self.track(data, now, tally);
    }

    #[inline]
    fn note_gap(&mut self, now: Time, terms: &Terms) {
        let gap = now.since(self.last_read);
        self.longest_gap = self.longest_gap.max(gap);
        self.stalls += u64::from(gap > terms.stall);
    }

    fn track(&mut self, data: &[u8], now: Time, tally: &mut Tally) {
        let Some(tracker) = &mut self.tracker else { return };
        let (asked, limited) = (self.asked, self.pace.is_some());
        let (key_frame_seen, picture_seen) = (&mut self.key_frame_seen, &mut self.picture_seen);
        let newest_delay = &mut self.newest_delay;
        tracker.push(data, &mut |landmark| {
            let (sent, delays) = match landmark {
                Landmark::KeyFrame => {
                    if !std::mem::replace(key_frame_seen, true) {
                        tally.first_key_frame.record_time(now.since(asked));
                    }
                    return;
                }
                Landmark::Picture => {
                    *picture_seen = true;
                    return tally.first_picture.record_time(now.since(asked));
                }
                Landmark::First(sent) => (sent, &mut tally.window.first_packet),
                Landmark::Last(sent) => (sent, &mut tally.window.last_packet),
            };
            let delay = now.since(sent);
            *newest_delay = delay;
            if sent > now || delay > OLDEST_STAMP {
                tally.window.foreign_stamps += 1;
            } else if sent >= asked && !limited {
                // What was sent before is the server's backlog, and a slow reader's delay is its own.
                delays.record_time(delay);
            }
        });
        // A whole picture can be told of a stamped stream alone.
        let seen = if tracker.checker().is_stamped() { self.picture_seen } else { self.key_frame_seen };
        let found = seen || tracker.bytes() > KEY_FRAME_BYTES;
        let done = !self.checked && (found || tracker.body() == Body::Other);
        if done {
            self.tracker = None;
        }
    }

    /// A window begins.
    pub(super) fn begin_window(&mut self, now: Time) {
        (self.window_began, self.window_bytes) = (now, 0);
        (self.stalls, self.longest_gap) = (0, Duration::ZERO);
        if self.state == State::Receiving {
            self.last_read = now;
        }
    }

    /// Adds what it has seen to `tally`, at its end or in the middle.
    pub(super) fn sum_up(&self, now: Time, terms: &Terms, tally: &mut Tally) {
        if self.state != State::Receiving {
            return;
        }
        let window = &mut tally.window;
        let time = now.since(self.window_began);
        if time >= RATE_TIME {
            let rate = (self.window_bytes as f64 * 8.0 / time.as_secs_f64()) as u64;
            if self.pace.is_some() { &mut window.limited_rate } else { &mut window.rate }.record(rate);
        }
        if self.pace.is_none() {
            // A viewer that waits counts with its wait.
            let wait = now.since(self.last_read);
            let stalls = self.stalls + u64::from(wait > terms.stall);
            window.stalls += stalls;
            window.stalled_viewers += u64::from(stalls > 0);
            window.longest_gap = window.longest_gap.max(self.longest_gap).max(wait);
        }
        let Some(tracker) = self.tracker.as_ref().filter(|_| self.checked) else { return };
        match tracker.final_body() {
            Body::Transport => {
                tally.checked += 1;
                let is_stamped = tracker.checker().is_stamped();
                tally.stamped += u64::from(is_stamped);
                let delay = self.newest_delay.max(now.since(self.last_read));
                let is_behind = is_stamped && self.pace.is_none() && delay >= BEHIND;
                tally.window.viewers_behind += u64::from(is_behind);
                tally.verdict.merge(&tracker.checker().verdict());
            }
            Body::Other => tally.other_bodies += 1,
            Body::Undecided => {}
        }
    }
}

/// A refusal by the operating system's error, with what to do where the load itself is short of something.
pub(super) fn refused(error: &io::Error) -> Ending {
    Ending::Refused(match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".into(),
        io::ErrorKind::AddrNotAvailable | io::ErrorKind::AddrInUse => {
            "no local port left, or no such source address (give several with --source)".into()
        }
        _ => error.to_string(),
    })
}
