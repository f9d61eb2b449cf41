use super::*;
use crate::Recorder;
use crate::Settings;
use crate::test_connections::opening;
use crate::test_streams::{hub, live, name};
use glassline_delivery::fill::Via;
use glassline_delivery::packager::{Event, Presentation};
use glassline_edge::{ChunkObserver, UpstreamSettings};
use glassline_streams::StaticDirectory;

/// A packager without a thread, and the presentation of `stream`, which was asked for.
fn packaging(stream: &Live) -> (Packaging, Arc<PresentationStore>) {
    let hub = Arc::new(hub(Settings::default(), 1));
    let store = hub.presentation_store(&stream.name);
    let mut packaging = Packaging::new(&hub, Poller::new().expect("a poller"));
    packaging.begin(&stream.name);
    (packaging, store)
}

fn presentation_of(stream: &Live, packaging: &Packaging) -> Arc<PresentationStore> {
    packaging.hub.presentations.find(&stream.name).expect("a presentation")
}

#[test]
fn an_end_that_is_told_of_twice_is_one() {
    let (first, next) = (live(1, "a", 1), live(2, "a", 1));
    let (mut packaging, store) = packaging(&first);
    packaging.handle_news(&first);
    assert!(!store.has_ended());
    first.end();
    packaging.handle_news(&first);
    packaging.handle_news(&first);
    assert!(store.has_ended() && Arc::ptr_eq(&presentation_of(&first, &packaging), &store));

    // The next stream of the name begins another, which news of the first do not end.
    packaging.handle_news(&next);
    let second = presentation_of(&next, &packaging);
    assert!(!Arc::ptr_eq(&second, &store));
    packaging.handle_news(&first);
    assert!(!second.has_ended() && Arc::ptr_eq(&presentation_of(&next, &packaging), &second));
    next.end();
    packaging.handle_news(&first);
    assert!(!second.has_ended(), "the rest of it was not read");
    packaging.handle_news(&next);
    assert!(second.has_ended());
}

#[test]
fn a_presentation_that_a_fault_has_ended_begins_anew_while_its_stream_goes_on() {
    let stream = live(1, "a", 1);
    let (mut packaging, store) = packaging(&stream);
    packaging.handle_news(&stream);
    let looked_at = Arc::clone(&store);
    let fault = std::thread::spawn(move || looked_at.look(|_| panic!("a test's"))).join();
    assert!(fault.is_err());
    store.look(|_| ());
    assert!(store.has_ended(), "the next look finds it broken");
    packaging.handle_news(&stream);
    let next = presentation_of(&stream, &packaging);
    assert!(!Arc::ptr_eq(&next, &store) && !next.has_ended());
    assert!(packaging.following[&stream.name].reader.is_some() && !stream.has_ended());
}

#[test]
fn what_ended_before_it_was_looked_at_is_a_presentation_with_an_end() {
    let short = live(1, "a", 1);
    let (mut packaging, store) = packaging(&short);
    short.end();
    packaging.handle_news(&short);
    assert!(store.has_ended() && Arc::ptr_eq(&presentation_of(&short, &packaging), &store));
}

#[test]
fn what_no_client_has_asked_for_in_a_while_is_packaged_no_longer() {
    let stream = live(1, "a", 1);
    let (mut packaging, store) = packaging(&stream);
    packaging.handle_news(&stream);
    let (idle, asked) = (packaging.hub.settings().packaging.idle, store.wanted_at());
    packaging.look(asked + (idle - Duration::from_nanos(1)));
    assert!(packaging.following.contains_key(&stream.name));
    packaging.look(asked + idle);
    assert!(packaging.following.is_empty() && store.has_ended());
    assert!(packaging.hub.presentations.find(&stream.name).is_none());
}

#[test]
fn a_presentation_that_begins_with_its_stream_lasts_as_long() {
    let mut settings = Settings::default();
    settings.packaging.on_demand = false;
    let hub = Arc::new(hub(settings, 1));
    let stream = live(1, "a", 1);
    let store = hub.presentation_store(&stream.name);
    let mut packaging = Packaging::new(&hub, Poller::new().expect("a poller"));
    packaging.begin(&stream.name);
    packaging.handle_news(&stream);
    let late = store.wanted_at() + hub.settings().packaging.idle * 100;
    packaging.look(late);
    assert!(packaging.following.contains_key(&stream.name));
    stream.end();
    packaging.handle_news(&stream);
    packaging.look(late);
    assert!(packaging.following.is_empty());
}

#[test]
fn what_has_been_asked_for_twice_is_begun_once() {
    let stream = live(1, "a", 1);
    let (mut packaging, store) = packaging(&stream);
    packaging.handle_news(&stream);
    packaging.begin(&stream.name);
    assert!(packaging.following[&stream.name].reader.is_some(), "what it has read of it stays");
    let again = packaging.hub.presentation_store(&stream.name);
    assert!(Arc::ptr_eq(&again, &store));
    let mut messages = Vec::new();
    packaging.hub.inboxes.collect(packaging.hub.inboxes.packager(), &mut messages);
    assert_eq!(messages.len(), 1, "the packager is told once");
}

#[test]
fn a_stream_that_is_only_carried_is_followed_by_no_presentation() {
    let carried = Arc::new(Live::new(
        1,
        crate::test_streams::name("a"),
        Mux::Ogg,
        crate::test_streams::SETTINGS,
        1,
        Time::ZERO,
    ));
    let (mut packaging, _store) = packaging(&carried);
    packaging.handle_news(&carried);
    assert!(packaging.following[&carried.name].reader.is_none());
}

#[test]
fn what_came_faster_than_it_was_packaged_is_counted() {
    let settings = Settings { stream: crate::test_streams::SETTINGS, ..Settings::default() };
    let hub = Arc::new(hub(settings, 1));
    let mut publisher = hub.publish(&name("a")).expect("a free name");
    let (mut source, opening) = opening(3);
    publisher.push(&opening).expect("it has the slot");
    let stream = hub.streams.find(&name("a")).expect("it is there");
    let _store = hub.presentation_store(&stream.name);
    let mut packaging = Packaging::new(&hub, Poller::new().expect("a poller"));
    packaging.begin(&stream.name);
    assert_eq!(hub.totals().unpackaged_bytes, 0);
    // Many times what the stream keeps, in groups of pictures of a tenth of it.
    let read = stream.chain.head();
    for _ in 0..200 {
        publisher.push(&source.picture(true, 557)).expect("it has the slot");
    }
    packaging.handle_news(&stream);
    let left_out = hub.totals().unpackaged_bytes;
    let came = stream.chain.head() - read;
    assert!(left_out > came / 2 && left_out < came - (1 << 19), "{left_out} of {came}");
    publisher.push(&source.picture(true, 557)).expect("it has the slot");
    packaging.handle_news(&stream);
    assert_eq!(hub.totals().unpackaged_bytes, left_out, "what is kept is packaged");
    // The rest of a stream that ends behind its last key frame is none that is read on from.
    (0..200).for_each(|_| publisher.push(&source.picture(false, 557)).expect("it has the slot"));
    let head = stream.chain.head();
    stream.end();
    packaging.handle_news(&stream);
    let rest = hub.totals().unpackaged_bytes - left_out;
    assert!(rest > (head - read - came) / 2, "{rest} of {}", head - read - came);
}

#[test]
fn a_fault_ends_one_presentation_and_no_other() {
    let (one, other) = (live(1, "a", 1), live(2, "b", 1));
    let (mut packaging, first) = packaging(&one);
    packaging.handle_news(&one);
    let second = packaging.hub.presentation_store(&other.name);
    packaging.begin(&other.name);
    packaging.handle_news(&other);
    packaging.of_stream(&one.name, |_| panic!("a test's"));
    assert!(first.has_ended() && !second.has_ended());
    assert!(packaging.hub.presentations.find(&one.name).is_none());
    assert_eq!(packaging.following.keys().collect::<Vec<_>>(), [&other.name]);
    // The next request begins another.
    let next = packaging.hub.presentation_store(&one.name);
    assert!(!Arc::ptr_eq(&next, &first) && !next.has_ended());
}

#[test]
fn news_of_a_stream_that_is_not_packaged_do_nothing() {
    let (asked, other) = (live(1, "a", 1), live(2, "b", 1));
    let (mut packaging, _store) = packaging(&asked);
    packaging.handle_news(&other);
    packaging.handle_stall(&other.name);
    assert_eq!(packaging.following.keys().collect::<Vec<_>>(), [&asked.name]);
}

#[test]
fn a_presentation_that_another_server_gives_from_now_on_ends_here() {
    let stream = live(1, "a", 1);
    let (mut packaging, store) = packaging(&stream);
    packaging.handle_news(&stream);
    let told = |packaging: &Packaging| {
        let mut messages = Vec::new();
        packaging.hub.inboxes.collect(packaging.hub.inboxes.packager(), &mut messages);
        messages.iter().filter(|message| matches!(message, Message::Package(_))).count()
    };
    assert_eq!(told(&packaging), 1);
    packaging.hub.leave_presentation(&stream.name);
    assert!(!store.has_ended(), "the packager ends it, which knows what it has read");
    assert_eq!(told(&packaging), 1);
    packaging.begin(&stream.name);
    assert!(store.has_ended() && packaging.following.is_empty());
    packaging.handle_news(&stream);
    assert!(packaging.hub.presentations.find(&stream.name).is_none(), "none begins");
    // One that has begun in its place is followed alone.
    let next = packaging.hub.presentation_store(&stream.name);
    packaging.begin(&stream.name);
    packaging.hub.presentations.remove(&stream.name);
    let last = packaging.hub.presentation_store(&stream.name);
    packaging.begin(&stream.name);
    assert!(next.has_ended() && !last.has_ended());
}

/// Records everything.
struct Tape;

impl Recorder for Tape {
    fn is_recorded(&self, _name: &StreamName) -> bool {
        true
    }

    fn begin(&self, _name: &StreamName) -> Arc<dyn ChunkObserver> {
        Arc::new(Tape)
    }
}

impl ChunkObserver for Tape {
    fn handle_event(&self, _event: &Event, _presentation: &Presentation) {}

    fn handle_end(&self) {}
}

#[test]
fn what_is_pulled_from_the_server_that_has_it_is_recorded_there_alone() {
    let mut settings = Settings { listen: Vec::new(), ..Settings::default() };
    settings.upstream = Some(UpstreamSettings::new(Vec::new()));
    let places = [("there".to_owned(), "http://127.0.0.1:9".parse().unwrap())];
    settings.places = StaticDirectory::new(places).unwrap();
    let hub = hub(settings, 1).into_shared();
    hub.arrange_edge().expect("a thread that fetches");
    hub.set_recorder(Arc::new(Tape));
    let there = name("there");
    hub.demand(&there, Mux::MpegTs, &Via::default(), hub.clock.now()).expect("it is asked for");
    for (stream, is_recorded) in [("here", true), ("there", false)] {
        let (name, store) = (name(stream), hub.presentation_store(&name(stream)));
        record(&hub, &name, &store);
        assert_eq!(store.has_chunk_observer(), is_recorded, "{stream}");
    }
}
