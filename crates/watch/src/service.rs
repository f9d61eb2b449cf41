//! The thread of a server that watches its streams.
//!
//! It looks at them twenty times a second, reads what has come by a subscription as any reader inside this process does, and
//! decodes. No worker waits for it: where it is behind, it loses its place as a slow viewer does, and that is counted. Without
//! settings it sleeps and has subscribed to nothing.

use crate::alarms::Alarms;
use crate::feed::Feed;
use crate::pictures::Jpeg;
use crate::state_file::StateFile;
use crate::thumbnail::Thumbnail;
use glassline_delivery::policy::StreamName;
use glassline_delivery::stream::Mux;
use glassline_delivery::watch::{Alarm, Raised, Rules, Saved, State};
use glassline_io::clock::Clock;
use glassline_io::containment::{Border, contain};
use glassline_media::Time;
use glassline_streams::{Entering, Read, Streams, Subscription};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often streams are looked at.
const TURN: Duration = Duration::from_millis(50);
/// What is read of a stream at once, and in a turn at most: the others wait for no more.
const READ_BYTES: usize = 128 << 10;
const TURN_READS: usize = 16;
/// How long a stream may keep the others waiting, and of that its pictures.
const TURN_TIME: Duration = Duration::from_millis(60);
const PICTURES_TIME: Duration = Duration::from_millis(40);
/// An alarm of a stream begins at most once in this time: one that comes and goes faster is told as one, and keeps others from being
/// lost among its events.
const AGAIN: Duration = Duration::from_secs(2);
/// A publisher that has been gone for so long needs no decoders.
const REST: Duration = Duration::from_secs(5);
/// A stream has another newest picture at most once in this time.
const PICTURE_AGAIN: Duration = Duration::from_secs(5);
/// A publisher that has been gone for so long has no picture any more.
const PICTURE_GONE: Duration = Duration::from_secs(60);
/// Nor has a stream none of the pictures of which were decoded for so long, as where sound alone goes on.
const PICTURE_OLD: Duration = Duration::from_secs(300);
/// How long an upgrade waits for what was learnt.
const PAUSE: Duration = Duration::from_secs(2);
/// What a stream that is watched takes at most: the pictures that its decoder holds (256 MiB), units that are open (8 MiB for each of
/// eight elementary streams), that wait for their times, and the last key frame, copies of luma, small pictures.
const STREAM_BYTES_MAX: u64 = 384 << 20;
/// Streams that are watched at once; further ones are not.
const STREAMS_MAX: usize = 1024;
/// A stream that has been gone for so long is forgotten, but for one that is named.
const FORGOTTEN: Duration = Duration::from_secs(600);

/// What is watched.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Names of streams, `*` in them for any letters. One without `*` is missed where it is not there.
    pub streams: Vec<String>,
    /// Streams that are not watched.
    pub except: BTreeSet<StreamName>,
    /// What they are watched for.
    pub rules: Rules,
    /// The file that keeps what is learnt of them; `None`: a later run begins anew.
    pub state_file: Option<PathBuf>,
}

impl Settings {
    /// What the watch takes at most, in bytes, on a server that has `max_streams`.
    pub fn memory_bytes(&self, max_streams: usize) -> u64 {
        let is_open = self.streams.iter().any(|pattern| pattern.contains('*'));
        let names: BTreeSet<StreamName> = self.named().collect();
        let streams = if is_open { max_streams.max(names.len()) } else { names.len() };
        streams.min(STREAMS_MAX) as u64 * STREAM_BYTES_MAX
    }

    fn covers(&self, name: &StreamName) -> bool {
        !self.except.contains(name) && self.streams.iter().any(|pattern| matches(pattern, name.as_str()))
    }

    /// The streams that are missed where they are not there.
    fn named(&self) -> impl Iterator<Item = StreamName> {
        let names = self.streams.iter().filter_map(|pattern| StreamName::parse(pattern));
        names.filter(|name| !self.except.contains(name))
    }
}

/// Whether `name` is of the form `pattern`.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut rest) = name.strip_prefix(head) else { return false };
    let mut parts: Vec<&str> = tail.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some((_, behind)) = rest.split_once(part) else { return false };
        rest = behind;
    }
    rest.ends_with(last)
}

#[derive(Debug, Default)]
struct Orders {
    settings: Option<Settings>,
    /// Alarms are not over, though nothing is watched.
    is_paused: bool,
    /// What was learnt is in its file since then.
    has_paused: bool,
    is_over: bool,
}

#[derive(Debug, Default)]
struct Desk {
    orders: Mutex<Orders>,
    changed: Condvar,
    paused: Condvar,
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running watch. Dropping it ends it.
#[derive(Debug)]
pub struct Service {
    desk: Arc<Desk>,
    thread: Option<JoinHandle<()>>,
}

impl Service {
    /// Starts the thread; what it finds is told to `alarms`.
    ///
    /// # Errors
    /// The system starts no thread.
    pub fn start(
        streams: Arc<Streams>,
        alarms: Arc<Alarms>,
        settings: Option<Settings>,
    ) -> io::Result<Service> {
        let desk = Arc::new(Desk::default());
        desk.lock().settings = settings;
        let of_thread = Arc::clone(&desk);
        let turns = Turns {
            streams,
            alarms,
            watched: BTreeMap::new(),
            rules: None,
            state_file: StateFile::default(),
            has_warned: false,
        };
        let run = move || turns.run(&of_thread);
        let thread = thread::Builder::new().name("watch".into()).spawn(run)?;
        Ok(Service { desk, thread: Some(thread) })
    }

    /// Watches something else from now on; `None`: nothing.
    pub fn configure(&self, settings: Option<Settings>) {
        let mut orders = self.desk.lock();
        (orders.settings, orders.is_paused, orders.has_paused) = (settings, false, false);
        drop(orders);
        self.desk.changed.notify_one();
    }

    /// Watches nothing from now on, and says nothing of that: another process goes on, with what was learnt until now, for which this
    /// waits a moment.
    pub fn pause(&self) {
        let mut orders = self.desk.lock();
        (orders.settings, orders.is_paused, orders.has_paused) = (None, true, false);
        self.desk.changed.notify_one();
        let is_pausing = |orders: &mut Orders| !orders.has_paused;
        // The file is written in milliseconds; with a disk that hangs it is as old as the last minute's.
        drop(self.desk.paused.wait_timeout_while(orders, PAUSE, is_pausing));
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.desk.lock().is_over = true;
        self.desk.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // Its panic has been told.
            let _ = thread.join();
        }
    }
}

/// A stream that is watched.
struct Watched {
    feed: Feed,
    subscription: Option<Subscription>,
    /// Since when it has not been there.
    gone_since: Option<Time>,
    has_been: bool,
    is_resting: bool,
    told: Told,
    /// When its newest picture was made.
    picture_at: Option<Time>,
}

/// What was told of one stream, so that an alarm that comes and goes is not told each time.
#[derive(Default)]
struct Told {
    /// When each alarm was last told to have begun.
    begun: BTreeMap<Alarm, Time>,
    /// Alarms that have begun again and are not told yet.
    held: BTreeMap<Alarm, (Raised, Option<Arc<Thumbnail>>)>,
}

impl Told {
    /// Whether `raised` is told at `now`; if not, it is kept with its picture.
    fn tells(&mut self, raised: &Raised, picture: &Option<Arc<Thumbnail>>, now: Time) -> bool {
        let is_again = self.begun.get(&raised.alarm).is_some_and(|begun| now.since(*begun) < AGAIN);
        match raised.state {
            State::Begun if is_again => {
                self.held.insert(raised.alarm, (*raised, picture.clone()));
                false
            }
            State::Begun => {
                self.begun.insert(raised.alarm, now);
                true
            }
            State::Over => self.held.remove(&raised.alarm).is_none(),
        }
    }

    /// Those that are still there, and are told now.
    fn due(&mut self, now: Time) -> Vec<(Raised, Option<Arc<Thumbnail>>)> {
        let is_due = |alarm: &Alarm| self.begun.get(alarm).is_none_or(|begun| now.since(*begun) >= AGAIN);
        let (due, held): (BTreeMap<_, _>, _) =
            std::mem::take(&mut self.held).into_iter().partition(|(alarm, _)| is_due(alarm));
        self.held = held;
        self.begun.extend(due.keys().map(|alarm| (*alarm, now)));
        due.into_values().collect()
    }
}

struct Turns {
    streams: Arc<Streams>,
    alarms: Arc<Alarms>,
    watched: BTreeMap<StreamName, Watched>,
    rules: Option<Rules>,
    state_file: StateFile,
    /// That not all streams are watched was told.
    has_warned: bool,
}

impl Turns {
    fn run(mut self, desk: &Desk) {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let orders = desk.lock();
            if orders.is_over {
                drop(orders);
                return self.save();
            }
            let Some(settings) = orders.settings.clone() else {
                // What was watched is no longer.
                let is_paused = orders.is_paused;
                drop(orders);
                self.save();
                if is_paused {
                    // Where the next process does not come up, this one goes on with the alarms that are there.
                    self.watched.values_mut().for_each(|watched| watched.subscription = None);
                } else {
                    self.forget(|_| true);
                }
                let mut orders = desk.lock();
                orders.has_paused = orders.is_paused;
                desk.paused.notify_all();
                if orders.settings.is_none() && !orders.is_over {
                    drop(desk.changed.wait(orders).unwrap_or_else(PoisonError::into_inner));
                }
                continue;
            };
            drop(desk.changed.wait_timeout(orders, TURN).unwrap_or_else(PoisonError::into_inner));
            self.turn(&settings, &mut buffer, desk);
        }
    }

    fn turn(&mut self, settings: &Settings, buffer: &mut [u8], desk: &Desk) {
        let now = Clock.now();
        self.state_file.set_path(settings.state_file.as_deref(), now, Clock.utc());
        if self.rules.replace(settings.rules) != Some(settings.rules) {
            self.watched.values_mut().for_each(|watched| watched.feed.set_rules(settings.rules));
        }
        let there =
            self.streams.all().into_iter().filter(|live| !live.has_ended()).map(|live| live.name.clone());
        for name in settings.named().chain(there.filter(|name| settings.covers(name))) {
            let is_new = !self.watched.contains_key(&name);
            if is_new && self.watched.len() >= STREAMS_MAX {
                if !std::mem::replace(&mut self.has_warned, true) {
                    tracing::warn!(
                        "{STREAMS_MAX} streams are watched for alarms, which is the most: {name} and others are not"
                    );
                }
            } else if is_new {
                let saved = self.state_file.saved(name.as_str());
                self.watched.entry(name).or_insert_with(|| Watched::new(settings.rules, &saved));
            }
        }
        let mut lost = BTreeSet::new();
        for (name, watched) in &mut self.watched {
            let orders = desk.lock();
            if orders.is_over || orders.is_paused {
                return;
            }
            drop(orders);
            // What a stream does to its decoder ends the watch of that stream, which begins anew.
            let turn = contain(Border::Output, || watched.turn(name, &self.streams, buffer, now));
            if turn.is_err() {
                lost.insert(name.clone());
                continue;
            }
            watched.tell(name, &self.alarms);
            watched.show(name, &self.alarms, now);
        }
        self.alarms.settle(now);
        let named: BTreeSet<StreamName> = settings.named().collect();
        self.forget(|(name, watched)| {
            let is_old = watched.gone_since.is_some_and(|since| now.since(since) > FORGOTTEN);
            lost.contains(name) || !settings.covers(name) || (is_old && !named.contains(name))
        });
        if self.state_file.is_due(now) {
            let covers = |name: &str| StreamName::parse(name).is_some_and(|name| settings.covers(&name));
            self.state_file.retain(covers);
            self.save();
        }
    }

    /// Puts what is known of the streams into the file.
    fn save(&mut self) {
        for (name, watched) in &self.watched {
            self.state_file.keep(name.as_str(), watched.feed.save());
        }
        self.state_file.write(Clock.now(), Clock.utc());
    }

    /// Ends the watch of those streams for which `is_over` is true, and their alarms.
    fn forget(&mut self, is_over: impl Fn((&StreamName, &Watched)) -> bool) {
        let Turns { alarms, state_file, watched, .. } = self;
        watched.retain(|name, watched| {
            let stays = !is_over((name, watched));
            if !stays {
                state_file.keep(name.as_str(), watched.feed.save());
                watched.feed.end();
                watched.tell(name, alarms);
                alarms.forget(name.as_str());
            }
            stays
        });
    }
}

/// A picture as JPEG; what a stream does to the encoder ends with this picture.
fn jpeg_of(small: &Thumbnail) -> Option<Arc<[u8]>> {
    contain(Border::Output, || small.jpeg()).ok().flatten()
}

impl Watched {
    fn new(rules: Rules, saved: &Saved) -> Watched {
        let mut feed = Feed::new(rules, saved);
        feed.keep_pictures();
        Watched {
            feed,
            subscription: None,
            gone_since: None,
            has_been: false,
            is_resting: false,
            told: Told::default(),
            picture_at: None,
        }
    }

    /// Gives `alarms` the newest picture, where there is another one and it is time.
    fn show(&mut self, name: &StreamName, alarms: &Alarms, now: Time) {
        let age = self.picture_at.map(|at| now.since(at));
        if age.is_none_or(|age| age >= PICTURE_AGAIN)
            && let Some(jpeg) = self.feed.take_newest_picture().and_then(|small| jpeg_of(&small))
        {
            self.picture_at = Some(now);
            alarms.set_picture(name.as_str(), Some(Jpeg::of_stream(jpeg)));
            return;
        }
        let is_gone = self.gone_since.is_some_and(|since| now.since(since) > PICTURE_GONE);
        if self.picture_at.is_some() && (is_gone || age.is_some_and(|age| age > PICTURE_OLD)) {
            self.picture_at = None;
            self.feed.forget_pictures();
            alarms.set_picture(name.as_str(), None);
        }
    }

    fn turn(&mut self, name: &StreamName, streams: &Streams, buffer: &mut [u8], now: Time) {
        let live = streams.find(name);
        // A slate stands still and is silent as it should: its publisher counts as gone, and nothing of it is judged.
        let is_slate = live.as_ref().is_some_and(|live| live.shows_slate());
        let is_published = !is_slate && live.as_ref().is_some_and(|live| live.published_since().is_some());
        if is_published {
            (self.gone_since, self.is_resting) = (None, false);
        } else {
            let since = *self.gone_since.get_or_insert(now);
            self.feed.push_gone(now);
            if now.since(since) >= REST && !std::mem::replace(&mut self.is_resting, true) {
                self.feed.rest();
            }
        }
        if is_slate {
            self.subscription = None;
        } else if self.subscription.is_none() && live.is_some() {
            self.subscription = streams.subscribe(name, Entering::Newest, Waker::noop().clone());
            if std::mem::replace(&mut self.has_been, true) {
                self.feed.push_anew();
            }
        }
        self.read(buffer, Clock.now());
        self.feed.handle_timeout(now);
    }

    fn read(&mut self, buffer: &mut [u8], now: Time) {
        let Some(subscription) = &mut self.subscription else { return };
        let is_known = subscription.mux() == Mux::MpegTs;
        self.feed.allow(PICTURES_TIME);
        for _ in 0..TURN_READS {
            if Clock.now().since(now) >= TURN_TIME {
                return;
            }
            match subscription.read(buffer) {
                Ok(Read::Entered { prelude, moved }) if is_known => {
                    if moved {
                        self.feed.push_left_out();
                    }
                    self.feed.push(&prelude, now);
                }
                Ok(Read::Bytes(count)) if is_known => self.feed.push(&buffer[..count], now),
                Ok(Read::Bytes(_)) => self.feed.push_unknown(now),
                Ok(Read::Entered { .. } | Read::FellBehind) => {}
                Ok(Read::Pending) | Err(_) => return,
                Ok(Read::Ended) => {
                    self.subscription = None;
                    return;
                }
            }
        }
    }

    fn tell(&mut self, name: &StreamName, alarms: &Alarms) {
        while let Some(failure) = self.feed.take_failure() {
            tracing::warn!(stream = %name, "{failure}");
        }
        let now = Clock.now();
        let push = |raised: &Raised, small: Option<Arc<Thumbnail>>| {
            let picture = small.and_then(|small| jpeg_of(&small));
            alarms.push(name.as_str(), raised, Clock.utc(), picture);
        };
        while let Some((raised, small)) = self.feed.poll_with_picture() {
            if self.told.tells(&raised, &small, now) {
                push(&raised, small);
            }
        }
        for (raised, small) in self.told.due(now) {
            push(&raised, small);
        }
        alarms.count(name.as_str(), self.feed.counts());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_that_comes_and_goes_is_told_once_in_two_seconds() {
        let raised = |alarm, state| Raised { alarm, state, at: Time::ZERO, value: None, limit: 0.0 };
        let (begun, over) =
            (raised(Alarm::Discontinuity, State::Begun), raised(Alarm::Discontinuity, State::Over));
        let mut told = Told::default();
        let at = Time::from_millis;
        assert!(told.tells(&begun, &None, at(0)) && told.tells(&over, &None, at(10)));
        for turn in 1..20 {
            assert!(
                !told.tells(&begun, &None, at(100 * turn)) && !told.tells(&over, &None, at(100 * turn + 10))
            );
        }
        assert!(told.due(at(1_990)).is_empty());
        // One that stays is told when the time is over, and then that it is.
        assert!(!told.tells(&begun, &None, at(1_995)));
        assert!(
            told.tells(&raised(Alarm::Black, State::Begun), &None, at(1_996)),
            "another alarm is not held back"
        );
        assert!(matches!(&told.due(at(2_000))[..], [(due, None)] if *due == begun));
        assert!(told.tells(&over, &None, at(2_100)));
        assert!(told.tells(&begun, &None, at(4_000)));
    }

    #[test]
    fn the_memory_of_a_watch_is_that_of_the_streams_that_it_may_have() {
        let name = |name| StreamName::parse(name).unwrap();
        let mut settings = Settings {
            streams: vec!["hall".to_owned(), "bar".to_owned(), "off".to_owned()],
            except: [name("off")].into(),
            rules: Rules::default(),
            state_file: None,
        };
        assert_eq!(settings.memory_bytes(256), 2 * STREAM_BYTES_MAX);
        settings.streams.push("*.720p".to_owned());
        assert_eq!(settings.memory_bytes(256), 256 * STREAM_BYTES_MAX);
        assert_eq!(settings.memory_bytes(1), 2 * STREAM_BYTES_MAX);
        assert_eq!(settings.memory_bytes(usize::MAX), 1024 * STREAM_BYTES_MAX);
    }

    #[test]
    fn names_match_patterns() {
        for (pattern, name, is_match) in [
            ("*", "hall", true),
            ("hall", "hall", true),
            ("hall", "halls", false),
            ("hall*", "hall.720p", true),
            ("*.720p", "hall.720p", true),
            ("*.720p", "hall.720p.x", false),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "ac", false),
            ("ab*ba", "aba", false),
        ] {
            assert_eq!(matches(pattern, name), is_match, "{pattern} {name}");
        }
    }
}
