use super::*;
use crate::live::{Acquisition, LiveState};
use crate::pieces::{EndedPiece, Piece, Publisher};
use crate::registry::{Origin, SlotRequest};
use crate::test_streams::{acquired, live, name, streams};
use glassline_media::FrameRate;
use glassline_test_support::ts::Source;
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

fn settings() -> SlateSettings {
    SlateSettings { silence: Duration::from_secs(2), waker: Waker::noop().clone() }
}

fn reel() -> Arc<Reel> {
    let picture = |key: bool| {
        let nal = if key { 0x65 } else { 0x41 };
        vec![0, 0, 0, 1, 0x67, 0x42, 0, 0, 0, 1, 0x68, 0xce, 0, 0, 0, 1, nal, 0x88, 9, 9]
    };
    let pictures = (0..50).map(|number| picture(number == 0).into()).collect();
    Arc::new(Reel::still(pictures, FrameRate::new(25, 1).expect("a rate")).expect("pictures"))
}

fn with_slate(at: Time) -> Arc<Live> {
    let live = live(0, "a", 1);
    live.set_slate(Some(settings()), at);
    live.set_slate_reel(Some(reel()));
    live
}

/// Plays until `until`, whenever it is due. Returns what has happened.
fn play(live: &Live, from: Time, until: Time) -> Vec<Change> {
    let (mut now, mut changes) = (from, Vec::new());
    loop {
        let (played, SlatePlayed { next, change, .. }) = live.play_slate(now).expect("it has a slate");
        played.expect("room");
        changes.extend(change);
        match next.filter(|next| *next <= until) {
            Some(next) => now = next.max(now),
            None => return changes,
        }
    }
}

fn at(millis: u64) -> Time {
    Time::from_millis(millis)
}

#[test]
fn a_slate_leaves_the_slot_free_and_keeps_the_stream() {
    let live = with_slate(at(0));
    assert!(matches!(play(&live, at(0), at(1000))[..], [Change::Shown { .. }]));
    assert!(live.shows_slate() && live.published_since().is_none());
    assert!(live.chain.head() > 0, "viewers see it");
    assert!(!live.is_abandoned(Duration::ZERO, at(1_000_000)) && live.waits_since().is_none());
    let session = acquired(&live, at(1000));
    let mut source = Source::default();
    let key = [source.tables(), source.recovery_point(true, 3)].concat();
    live.push(session, &key, at(1000)).expect("it is let in");
    assert!(live.shows_slate(), "its key frame is not whole");
    live.push(session, &source.picture(false, 2), at(1040)).expect("it is let in");
    assert!(!live.shows_slate());
    assert_eq!(play(&live, at(1040), at(1040)), [Change::Over]);
    assert_eq!(live.status(at(1040)).bytes_in, (key.len() + 2 * 188) as u64);
    live.release(session, at(1080));
    assert!(matches!(play(&live, at(1080), at(2000))[..], [Change::Shown { .. }]));
    // Without a slate the stream is one like others.
    live.set_slate(None, at(2000));
    assert!(live.play_slate(at(2000)).is_none() && !live.shows_slate());
    assert!(live.is_abandoned(Duration::from_secs(1), at(1_000_000)));
}

#[test]
fn a_publisher_of_another_mux_may_have_the_name_of_a_slate() {
    let streams = streams();
    let live = streams.begin(&name("a"), Mux::MpegTs).expect("room");
    assert_eq!(live.status(at(0)).sessions, 0, "no publisher has come");
    live.set_slate(Some(settings()), at(0));
    assert!(Arc::ptr_eq(&live, &streams.begin(&name("a"), Mux::MpegTs).expect("it is there")));
    let name = name("a");
    let request =
        SlotRequest { name: &name, mux: Mux::Flv, origin: Origin::Door, take_over: false, piece: None };
    let other = streams.acquire(request).expect("the slate gives way");
    assert!(live.has_ended() && other.live.mux == Mux::Flv);
    // Of that mux there is none.
    other.live.set_slate(Some(settings()), at(0));
    assert!(other.live.play_slate(at(0)).is_none());
}

#[test]
fn the_next_process_goes_on_with_a_slate_that_is_shown() {
    let before = with_slate(at(0));
    play(&before, at(0), at(60_000));
    let session = acquired(&before, at(60_000));
    let (state, links) = before.state();
    let bytes = rmp_serde::to_vec_named(&state).expect("it is written");
    let state: LiveState = rmp_serde::from_slice(&bytes).expect("it is understood");
    let links = links.iter().map(|link| link.as_fd().try_clone_to_owned().expect("a descriptor"));
    let after = Live::restore(state, name("a"), links.collect(), 1).expect("its links are there");
    assert!(after.reclaim(session, None));
    // Its publisher has shown no key frame yet, and is not shown until it has one, or for 12 s from here on.
    let head = after.chain.head();
    let mut source = Source::default();
    let packets = [source.tables(), source.picture(false, 3), source.picture(false, 3)].concat();
    after.push(session, &packets, at(60_000)).expect("it goes on");
    after.pause(at(60_100));
    assert_eq!(after.chain.head(), head);
    after.set_slate(Some(settings()), at(60_100));
    after.set_slate_reel(Some(reel()));
    play(&after, at(60_100), at(60_500));
    assert!(after.shows_slate() && after.chain.head() > head);
}

/// A publisher that puts each buffer in a request of its own.
struct Sender<'a> {
    live: &'a Live,
    publisher: Publisher,
    tells_place: bool,
    sent: u64,
}

impl<'a> Sender<'a> {
    fn new(live: &'a Live, tells_place: bool) -> Sender<'a> {
        let publisher =
            Publisher { address: "192.0.2.7".parse().expect("an address"), credential: None, program: None };
        Sender { live, publisher, tells_place, sent: 0 }
    }

    /// Sends the next piece. Returns how many there were before it.
    fn send(&mut self, bytes: &[u8], now: Time) -> u32 {
        let from = self.tells_place.then_some(self.sent);
        let piece = Piece { publisher: self.publisher.clone(), from };
        let Acquisition::Granted { session, continued, .. } =
            self.live.acquire(None, false, Some(&piece), now)
        else {
            panic!("its own name")
        };
        self.live.push(session, bytes, now).expect("a transport stream");
        let (before, publisher) = (continued.map_or(0, |continued| continued.count), &self.publisher);
        let bytes = bytes.len() as u64;
        let ended = EndedPiece { publisher, from: self.sent, bytes, before, meter: None };
        self.live.rest(session, &ended, now + Duration::from_secs(5), now);
        self.sent += bytes;
        before
    }
}

#[test]
fn a_publisher_of_pieces_is_shown_and_one_that_was_started_again_waits_for_its_key_frame() {
    for tells_place in [true, false] {
        let live = with_slate(at(0));
        play(&live, at(0), at(1000));
        let mut source = Source::default();
        let mut sender = Sender::new(&live, tells_place);
        // A buffer holds a part of a picture, and once of a packet.
        let key = [source.tables(), source.recovery_point(true, 20)].concat();
        let buffers = key.chunks(4 * 188).chain([&[][..]]);
        let next = source.picture(false, 2);
        let (half, rest) = next.split_at(100);
        let pieces: Vec<&[u8]> = buffers.filter(|buffer| !buffer.is_empty()).chain([half, rest]).collect();
        for (number, piece) in pieces.iter().enumerate() {
            assert!(live.shows_slate(), "its key frame is not whole: {number}");
            assert_eq!(sender.send(piece, at(1000 + 40 * number as u64)), number as u32);
        }
        assert!(!live.shows_slate(), "it is shown");
        assert_eq!(live.status(at(2000)).sessions, 1);
        // Started again in the middle of a picture, on other counters.
        let mut again = Source::default();
        let _ = [again.tables(), again.recovery_point(true, 6)];
        let picture = again.picture(false, 3);
        live.pause(at(1400));
        let head = live.chain.head();
        if tells_place {
            sender = Sender::new(&live, true);
        }
        sender.send(&picture[188..], at(1400));
        play(&live, at(1400), at(1401));
        live.pause(at(1401));
        assert_eq!(live.status(at(1401)).sessions, 2);
        assert!(live.shows_slate() || live.chain.head() == head, "nothing of it was shown");
        let rest = [again.tables(), again.recovery_point(true, 3), again.picture(false, 1)].concat();
        sender.send(&rest, at(1440));
        play(&live, at(1441), at(1441));
        assert!(!live.shows_slate() && live.chain.head() > head, "its key frame is");
    }
}

#[test]
fn a_publisher_that_ends_a_request_with_a_length_is_gone_soon_after() {
    let live = with_slate(at(0));
    live.set_slate(Some(SlateSettings { silence: Duration::from_secs(60), ..settings() }), at(0));
    let mut source = Source::default();
    let mut sender = Sender::new(&live, true);
    let first = [source.tables(), source.recovery_point(true, 3), source.picture(false, 2)].concat();
    sender.send(&first, at(1000));
    play(&live, at(1000), at(1400));
    assert!(!live.shows_slate(), "the next piece may come");
    play(&live, at(1400), at(1900));
    assert!(live.shows_slate(), "none has come");
    // From the second piece on the name is kept: until that time is over.
    sender.send(&[source.recovery_point(true, 3), source.picture(false, 2)].concat(), at(2000));
    sender.send(&source.picture(false, 2), at(2040));
    play(&live, at(2040), at(7000));
    assert!(!live.shows_slate());
    live.is_abandoned(Duration::ZERO, at(7100));
    play(&live, at(7100), at(7200));
    assert!(live.shows_slate(), "its name was given up");
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn the_slates_thread_is_woken_where_a_publisher_is_replaced_or_begins_anew() {
    let live = with_slate(at(0));
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    live.set_slate(Some(SlateSettings { silence: Duration::from_secs(60), waker }), at(0));
    let show = |session| {
        let mut source = Source::default();
        let bytes = [source.tables(), source.recovery_point(true, 3), source.picture(false, 2)].concat();
        live.push(session, &bytes, at(1000)).expect("a transport stream");
        assert!(!live.shows_slate());
        wakes.0.swap(0, Ordering::Relaxed)
    };
    let session = acquired(&live, at(1000));
    show(session);
    let Acquisition::Granted { session, .. } = live.acquire(None, true, None, at(1000)) else {
        panic!("it is taken over")
    };
    assert_eq!(show(session), 1, "woken by the takeover");
    let session = live.begin_anew(session, at(1000)).expect("it has the slot");
    assert_eq!(show(session), 1, "woken by the new beginning");
}
