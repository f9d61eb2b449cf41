use super::*;
use crate::live::LiveState;
use crate::registry::{Origin, SlotRequest};
use crate::test_streams::{acquired, live, name, streams};
use glassline_media::FrameRate;
use glassline_test_support::ts::Source;
use std::os::fd::AsFd as _;

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
    play(&before, at(0), at(1000));
    let session = acquired(&before, at(1000));
    let (state, links) = before.state();
    let bytes = rmp_serde::to_vec_named(&state).expect("it is written");
    let state: LiveState = rmp_serde::from_slice(&bytes).expect("it is understood");
    let links = links.iter().map(|link| link.as_fd().try_clone_to_owned().expect("a descriptor"));
    let after = Live::restore(state, name("a"), links.collect(), 1).expect("its links are there");
    assert!(after.reclaim(session, None));
    // Its publisher has shown no key frame yet, and is not shown until it has one.
    let head = after.chain.head();
    let mut source = Source::default();
    after.push(session, &[source.tables(), source.picture(false, 3)].concat(), at(1000)).expect("it goes on");
    after.pause(at(1100));
    assert_eq!(after.chain.head(), head);
    after.set_slate(Some(settings()), at(1100));
    after.set_slate_reel(Some(reel()));
    play(&after, at(1100), at(1500));
    assert!(after.shows_slate() && after.chain.head() > head);
}
