use super::*;
use crate::test_streams::{SETTINGS, acquired, live, name};
use crate::{Entering, Next, StreamReader};
use glassline_delivery::stream;
use glassline_delivery::stream::Mux;
use glassline_test_support::ts::Source;
use std::os::fd::AsFd as _;
use std::sync::Arc;

/// Goes on with `live` as the next process does, once `change` has been made to what is handed over.
fn restored(live: &Live, change: impl FnOnce(&mut LiveState)) -> io::Result<Live> {
    let (state, links) = live.state();
    // Through the bytes that go from one process to the other.
    let bytes = rmp_serde::to_vec_named(&state).expect("it is written");
    let mut state: LiveState = rmp_serde::from_slice(&bytes).expect("it is understood");
    change(&mut state);
    let links = links.iter().map(|link| link.as_fd().try_clone_to_owned().expect("a descriptor"));
    Live::restore(state, live.name.clone(), links.collect(), 1)
}

fn of(settings: stream::Settings) -> Live {
    Live::new(3, name("a"), Mux::MpegTs, settings, 1, Time::ZERO)
}

#[test]
fn what_waits_for_a_deadline_is_shown_before_it_goes_over() {
    let before = of(stream::Settings { flush: FlushPolicy::Thrifty, ..SETTINGS });
    let session = acquired(&before, Time::ZERO);
    let mut source = Source::default();
    let bytes = [source.tables(), source.picture(true, 3)].concat();
    before.push(session, &bytes, Time::ZERO).expect("a transport stream");
    assert_eq!(before.chain.head(), 0, "it waits");
    let after = restored(&before, |_| {}).expect("its links are there");
    assert_eq!((before.chain.head(), after.chain.head()), (bytes.len() as u64, bytes.len() as u64));
}

#[test]
fn the_next_process_reads_the_bytes_that_this_one_was_sent() {
    let before = live(0, "a", 1);
    let session = acquired(&before, Time::ZERO);
    let mut source = Source::default();
    let key = source.picture(true, 40);
    before.push(session, &[source.tables(), key.clone()].concat(), Time::ZERO).expect("a transport stream");
    let after = Arc::new(restored(&before, |_| {}).expect("its links are there"));
    let more = source.picture(false, 9);
    assert!(after.reclaim(session, None));
    after.push(session, &more, Time::from_millis(1)).expect("its publisher goes on");
    after.pause(Time::from_millis(1));
    let mut reader = StreamReader::new(Arc::clone(&after), Entering::Oldest);
    let Next::Entered { entry, moved: false } = reader.poll(Time::ZERO) else {
        panic!("there is a key frame")
    };
    assert_eq!(entry.offset, after.chain.head() - (key.len() + more.len()) as u64);
    let mut read = vec![0; key.len() + more.len()];
    let mut at = 0;
    while at < read.len() {
        let Next::Data { until } = reader.poll(Time::ZERO) else { panic!("there is more") };
        at += reader.read(&mut read[at..], until).expect("memory").expect("it is kept");
    }
    assert!(read == [key, more].concat());
    assert!(matches!(reader.poll(Time::ZERO), Next::Pending));
}

#[test]
fn a_stream_that_has_ended_goes_over_as_one_and_takes_nothing() {
    let before = live(0, "a", 1);
    let session = acquired(&before, Time::ZERO);
    before.end();
    let after = restored(&before, |_| {}).expect("its links are there");
    assert!(after.has_ended() && after.reclaim(session, None) && !after.is_held_by(session));
}

#[test]
fn a_media_type_goes_over_where_it_is_one_of_streams() {
    let before = live(0, "a", 1);
    before.call(Some("video/webm"));
    assert_eq!(restored(&before, |_| {}).unwrap().media_type(), "video/webm");
    let of_an_earlier_version = |state: &mut LiveState| state.media_type = Some("text/html".to_owned());
    let after = restored(&before, of_an_earlier_version).unwrap();
    assert_eq!(after.media_type(), Mux::MpegTs.media_type());
}

#[test]
fn how_viewers_are_sent_to_follows_from_the_settings_that_go_over() {
    let told = |live: &Live| (live.paces_all(), live.holds_pictures_back());
    let plain = of(SETTINGS);
    assert_eq!(told(&restored(&plain, |_| {}).unwrap()), (false, false));
    plain.reconfigure(stream::Settings { flush: FlushPolicy::Thrifty, ..SETTINGS });
    assert_eq!(told(&restored(&plain, |_| {}).unwrap()), (false, true));
    plain.reconfigure(stream::Settings { pacing: Pacing::Rate(1_000_000), ..SETTINGS });
    assert_eq!(told(&restored(&plain, |_| {}).unwrap()), (true, false));
}

#[test]
fn the_number_the_age_and_the_pace_go_over() {
    let before = Live::new(41, name("a"), Mux::MpegTs, SETTINGS, 1, Time::from_millis(200));
    let after = restored(&before, |state| state.pace_bps = 5_000_000).unwrap();
    let status = after.status(Time::from_millis(1_500));
    assert_eq!((after.id, status.age.as_millis(), status.pace_bps), (41, 1_300, Some(5_000_000)));
}

#[test]
fn counts_that_cannot_be_told_apart_refuse_the_stream() {
    let refused = restored(&live(0, "a", 1), |state| state.counts = HandedCounts::Positional(vec![1; 3]));
    let error = refused.expect_err("which is which is not known").to_string();
    assert_eq!(error, "3 counts without names were handed over where 8 are known");
}
