//! Which object of a rendition is asked for next: from the newest on, or all of a recording.

use super::listing::{Address, Again, Listing, Object, PARTS_AGAIN};
use glassline_delivery::http1::Url;
use glassline_media::Time;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Objects that are listed and not got yet, before the newest one is gone to.
const BEHIND: usize = 200;
/// How soon something that is not there is asked for again, and for how long.
const REFUSED_AGAIN: Duration = Duration::from_millis(400);
const REFUSED_FOR: Duration = Duration::from_secs(2);
/// A listing that ends before what was got is an old copy, unless it is more segments back than this, or for longer.
const BACK: u64 = 5;
const BACK_FOR: Duration = Duration::from_secs(3);

/// What is done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The listing is loaded.
    Look(Option<Url>),
    /// An initialisation segment is.
    Init(Arc<Address>),
    /// An object is.
    Get(Object),
    /// What comes next is on another timeline, or does not follow what came.
    Break,
    /// Nothing until then.
    Wait(Time),
    /// Nothing any more: all of a recording was got.
    Over,
}

/// Follows one rendition.
#[derive(Clone, Debug, Default)]
pub struct Follower {
    queue: VecDeque<Object>,
    /// The newest that was queued.
    last: Option<(u64, u64)>,
    timeline: Option<u64>,
    /// The initialisation that was got.
    init: Option<Arc<Address>>,
    is_break: bool,
    has_begun: bool,
    /// It had ended when it was listed first.
    is_recording: bool,
    has_ended: bool,
    patience: Duration,
    look_at: Time,
    ask: Option<Url>,
    /// The listing before had nothing new.
    is_idle: bool,
    not_before: Time,
    refused_since: Option<Time>,
    back_since: Option<Time>,
}

impl Follower {
    /// Takes what is listed at `now`. Returns how many objects the server says that it has not got.
    pub fn update(&mut self, listing: Listing, now: Time) -> u64 {
        let Listing { objects, has_ended, patience, again } = listing;
        (self.has_ended, self.patience) = (has_ended, patience);
        let asked = self.ask.take();
        (self.look_at, self.ask) = match again {
            Again::After(pause) => (now + pause, None),
            Again::At(url) => (now, Some(url)),
        };
        if !std::mem::replace(&mut self.has_begun, true) {
            self.is_recording = has_ended;
        }
        let newest = objects.last().map(|object| object.id);
        if let (Some(last), Some(newest)) = (self.last, newest)
            && newest < last
        {
            let since = *self.back_since.get_or_insert(now);
            if newest.0.saturating_add(BACK) >= last.0 && now.since(since) < BACK_FOR {
                self.pause(now);
                return 0;
            }
            // The server has begun anew.
            (self.last, self.is_break) = (None, true);
            self.queue.clear();
        }
        self.back_since = None;
        match self.last {
            Some(last) => self.is_break |= objects.first().is_some_and(|first| !follows(first.id, last)),
            None if !self.is_recording => {
                // From the newest one with which decoding can begin.
                let start = objects.iter().rposition(|object| object.is_independent && !object.is_gap);
                self.last = start.unwrap_or(0).checked_sub(1).map(|before| objects[before].id);
            }
            None => {}
        }
        let (mut missing, mut is_idle) = (0, true);
        for object in objects {
            if self.last.is_none_or(|last| object.id > last) {
                is_idle = false;
                self.last = Some(object.id);
                if object.is_gap {
                    missing += 1;
                } else {
                    self.queue.push_back(object);
                }
            }
        }
        // The end of a segment is news without an object, but only once in a row: the next one begins with an object.
        if is_idle && (self.is_idle || self.ask == asked) {
            self.pause(now);
        }
        self.is_idle = is_idle;
        if !self.is_recording && self.queue.len() > BEHIND {
            let newest = self.queue.iter().rposition(|object| object.is_independent);
            self.queue.drain(..newest.unwrap_or(self.queue.len() - 1));
            self.is_break = true;
        }
        missing
    }

    /// A server that says it waits, and answered without news, is not asked again as fast as it answers.
    fn pause(&mut self, now: Time) {
        if self.ask.is_some() {
            self.look_at = now + PARTS_AGAIN;
        }
    }

    /// What is done at `now`.
    pub fn next(&mut self, now: Time) -> Step {
        if now < self.not_before {
            return Step::Wait(self.not_before);
        }
        if std::mem::take(&mut self.is_break) {
            return Step::Break;
        }
        let Some(object) = self.queue.front() else {
            return match () {
                () if self.is_recording => Step::Over,
                () if now >= self.look_at => Step::Look(self.ask.clone()),
                () => Step::Wait(self.look_at),
            };
        };
        if self.timeline.replace(object.timeline).is_some_and(|before| before != object.timeline) {
            return Step::Break;
        }
        match &object.init {
            Some(init) if self.init.as_ref() != Some(init) => Step::Init(Arc::clone(init)),
            _ => Step::Get(object.clone()),
        }
    }

    /// The initialisation was got.
    pub fn has_init(&mut self, init: Arc<Address>) {
        (self.init, self.refused_since) = (Some(init), None);
    }

    /// The object was got, or as much of it as there is.
    pub fn done(&mut self) {
        self.refused_since = None;
        self.queue.pop_front();
    }

    /// The object, or its initialisation, is not there. Returns whether it is given up.
    pub fn refused(&mut self, now: Time) -> bool {
        let since = *self.refused_since.get_or_insert(now);
        self.not_before = now + REFUSED_AGAIN;
        let is_given_up = now.since(since) >= REFUSED_FOR;
        if is_given_up {
            self.done();
        }
        is_given_up
    }

    /// The listing is not there. It is asked for again without waiting.
    pub fn is_lost(&mut self, now: Time) {
        (self.look_at, self.ask) = (now + REFUSED_AGAIN, None);
    }

    /// What comes next is another stream: it is followed from its newest object on.
    pub fn begin_anew(&mut self) {
        let Follower { look_at, is_recording, .. } = *self;
        *self = Follower { look_at, is_recording, has_begun: true, ..Follower::default() };
    }

    /// Everything that was listed was got.
    pub fn is_at_edge(&self) -> bool {
        self.queue.is_empty()
    }

    /// The stream was live, and is over.
    pub fn has_ended(&self) -> bool {
        self.has_ended && self.queue.is_empty()
    }

    /// All of it is there already.
    pub fn is_recording(&self) -> bool {
        self.is_recording
    }

    /// After so long without news something is missing.
    pub fn patience(&self) -> Duration {
        self.patience
    }
}

/// Whether nothing lies between the listing's first object and the newest one that was queued.
fn follows(first: (u64, u64), last: (u64, u64)) -> bool {
    first <= last || first == (last.0, last.1.saturating_add(1)) || first == (last.0.saturating_add(1), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(segment: u64, timeline: u64, is_gap: bool) -> Object {
        let url: Url = format!("http://h/{segment}").parse().unwrap();
        let init =
            Some(Arc::new(Address { url: format!("http://h/i{timeline}").parse().unwrap(), range: None }));
        Object {
            id: (segment, 0),
            is_part: false,
            at: Address { url, range: None },
            init,
            duration: Duration::from_secs(2),
            is_independent: true,
            is_gap,
            timeline,
        }
    }

    fn listing(segments: std::ops::Range<u64>, timeline: u64) -> Listing {
        Listing {
            objects: segments.map(|segment| object(segment, timeline, false)).collect(),
            has_ended: false,
            patience: Duration::from_secs(3),
            again: Again::After(Duration::from_secs(1)),
        }
    }

    /// All that is done at `now` until something has to be waited for.
    fn steps(follower: &mut Follower, now: Time) -> Vec<String> {
        let mut told = Vec::new();
        loop {
            match follower.next(now) {
                Step::Init(init) => {
                    told.push(init.url.target().to_owned());
                    follower.has_init(init);
                }
                Step::Get(object) => {
                    told.push(object.at.url.target().to_owned());
                    follower.done();
                }
                Step::Break => told.push("break".to_owned()),
                Step::Look(_) | Step::Wait(_) | Step::Over => return told,
            }
        }
    }

    const NOW: Time = Time::from_millis(1000);

    #[test]
    fn the_newest_comes_first_and_then_each_once() {
        let mut follower = Follower::default();
        assert_eq!(follower.next(NOW), Step::Look(None));
        follower.update(listing(3..6, 0), NOW);
        assert_eq!(steps(&mut follower, NOW), ["/i0", "/5"]);
        assert_eq!(follower.next(NOW), Step::Wait(NOW + Duration::from_secs(1)));
        follower.update(listing(4..8, 0), NOW);
        assert_eq!(steps(&mut follower, NOW), ["/6", "/7"]);
        // What fell out of the window before it was got, and what is announced, does not follow.
        follower.update(listing(9..10, 0), NOW);
        assert_eq!(steps(&mut follower, NOW), ["break", "/9"]);
        follower.update(listing(10..11, 1), NOW);
        assert_eq!(steps(&mut follower, NOW), ["break", "/i1", "/10"]);
    }

    #[test]
    fn gaps_are_counted_and_what_is_refused_is_given_up() {
        let mut follower = Follower::default();
        follower.update(listing(0..1, 0), NOW);
        steps(&mut follower, NOW);
        let with_gap = Listing { objects: vec![object(1, 0, true), object(2, 0, false)], ..listing(0..0, 0) };
        assert_eq!(follower.update(with_gap, NOW), 1);
        let mut now = NOW;
        while !follower.refused(now) {
            assert!(matches!(follower.next(now), Step::Wait(_)));
            now += REFUSED_AGAIN;
            assert!(matches!(follower.next(now), Step::Get(_)));
        }
        assert!((REFUSED_FOR..REFUSED_FOR * 2).contains(&now.since(NOW)) && follower.is_at_edge());
    }

    #[test]
    fn an_old_copy_is_passed_over_and_a_new_beginning_is_followed() {
        let mut follower = Follower::default();
        follower.update(listing(7..9, 0), NOW);
        steps(&mut follower, NOW);
        follower.update(listing(6..8, 0), NOW);
        assert_eq!(steps(&mut follower, NOW), [""; 0]);
        follower.update(listing(0..2, 0), NOW);
        assert_eq!(steps(&mut follower, NOW), ["break", "/1"]);
        // One that goes back by little is a new beginning if it stays so.
        follower.update(listing(0..1, 0), NOW);
        assert_eq!(steps(&mut follower, NOW), [""; 0]);
        let later = NOW + BACK_FOR;
        follower.update(listing(0..1, 0), later);
        assert_eq!(steps(&mut follower, later), ["break", "/0"]);
    }

    #[test]
    fn a_server_that_does_not_wait_is_not_asked_at_the_speed_of_its_answers() {
        let asking = |segments: std::ops::Range<u64>, next: u64| Listing {
            again: Again::At(format!("http://h/?_HLS_msn={next}").parse().unwrap()),
            ..listing(segments, 0)
        };
        let mut follower = Follower::default();
        // When it looks again after a listing, and all that is new in it was got.
        let mut next = |listing: Listing, now: Time| {
            follower.update(listing, now);
            steps(&mut follower, now);
            follower.next(now)
        };
        let look = |next: u64| Step::Look(Some(format!("http://h/?_HLS_msn={next}").parse().unwrap()));
        let pause = |now: Time| Step::Wait(now + PARTS_AGAIN);
        assert_eq!(next(asking(3..6, 6), NOW), look(6));
        assert_eq!(next(asking(3..6, 6), NOW), pause(NOW), "the same listing, answered at once");
        let later = NOW + PARTS_AGAIN;
        assert_eq!(next(asking(3..6, 6), later), pause(later));
        assert_eq!(next(asking(3..7, 7), later), look(7), "what it waited for");
        assert_eq!(next(asking(2..5, 5), later), pause(later), "an old copy");
        assert_eq!(next(asking(3..7, 7), later), look(7), "the end of a segment");
        assert_eq!(next(asking(3..7, 8), later), pause(later), "numbers without segments");
        assert_eq!(next(asking(3..9, 9), later), look(9));
    }

    #[test]
    fn a_recording_is_got_whole_and_a_live_stream_that_ends_is_looked_at_again() {
        let mut follower = Follower::default();
        let ended = |segments| Listing { has_ended: true, ..listing(segments, 0) };
        follower.update(ended(0..3), NOW);
        assert_eq!(steps(&mut follower, NOW), ["/i0", "/0", "/1", "/2"]);
        assert!(follower.is_recording() && follower.next(NOW) == Step::Over);
        let mut follower = Follower::default();
        follower.update(listing(0..3, 0), NOW);
        follower.update(ended(0..4), NOW);
        assert_eq!(steps(&mut follower, NOW), ["/i0", "/2", "/3"]);
        assert!(follower.has_ended() && follower.next(NOW + Duration::from_secs(1)) == Step::Look(None));
    }
}
