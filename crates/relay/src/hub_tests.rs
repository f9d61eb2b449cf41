use super::*;
use crate::pull::{Pull, Sources};
use crate::test_streams::{hub, name};
use glassline_delivery::pull::{Policy, Source};
use glassline_delivery::stream::Pacing;
use glassline_streams::status::SourceState;
use glassline_streams::{Origin, SlotRequest};

fn pull(stream: &str) -> Pull {
    let source = Source::parse("http://127.0.0.1:9/a.ts").expect("a source");
    Pull { name: name(stream), source, alternates: Vec::new(), mux: None, ca: None, via: None, renewed: 0 }
}

fn with_pulls(pulls: Vec<Pull>) -> Settings {
    Settings { listen: Vec::new(), pulls, ..Settings::default() }
}

#[test]
fn a_pulled_stream_is_listed_while_its_source_is_not_there() {
    let hub = hub(with_pulls(vec![pull("b")]), 1).into_shared();
    let _publisher = hub.publish(&name("a")).expect("the name is free");
    let listed = hub.streams();
    let names: Vec<_> = listed.iter().map(|stream| (stream.name.as_str(), stream.live)).collect();
    assert_eq!(names, [("a", true), ("b", false)]);
    assert!(listed[0].source.is_none() && listed[1].source.is_some());
    let absent = hub.stream(&name("b")).expect("it is configured");
    assert!(!absent.live && absent.source.is_some_and(|source| source.state != SourceState::Live));
    assert!(hub.stream(&name("c")).is_none());
}

#[test]
fn connections_of_an_address_are_admitted_up_to_a_limit_and_counted_until_they_go() {
    let hub = hub(with_pulls(Vec::new()), 1);
    let (here, there) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
    let admitted: Vec<_> = (0..4).map(|_| hub.admit_connection(here, 2)).collect();
    assert_eq!(admitted, [true, true, false, false]);
    assert!(hub.admit_connection(there, 2), "another address has its own");
    assert!(hub.admit_connection(here, 0), "0 is any number");
    assert!(!hub.admit_connection(here, 3));
    hub.disconnected(here);
    assert!(hub.admit_connection(here, 3));
    // Those that wait for an answer are another count.
    assert!(hub.admit_unanswered(here, 1) && !hub.admit_unanswered(here, 1));
    hub.answered(here);
    assert!(hub.admit_unanswered(here, 1));
}

#[test]
fn workers_that_are_started_again_are_counted_each_once() {
    let hub = hub(with_pulls(Vec::new()), 3);
    assert_eq!(hub.workers_down(), (0, 3));
    hub.worker_is_down(1, true);
    hub.worker_is_down(1, true);
    hub.worker_is_down(2, true);
    assert_eq!(hub.workers_down(), (2, 3));
    hub.worker_is_down(1, false);
    hub.worker_is_down(0, false);
    assert_eq!(hub.workers_down(), (1, 3));
}

#[test]
fn threads_run_halt_and_stop_and_a_rest_ends_with_that() {
    let hub = hub(with_pulls(Vec::new()), 1);
    assert!(hub.is_running() && !hub.is_stopping());
    hub.enter(Phase::Halted);
    assert!(!hub.is_running() && !hub.is_stopping());
    // It would last for an hour.
    hub.rest(Duration::from_secs(3600));
    hub.enter(Phase::Stopping);
    assert!(!hub.is_running() && hub.is_stopping());
    hub.enter(Phase::Running);
    hub.rest(Duration::ZERO);
    assert!(hub.is_running());
}

#[test]
fn other_settings_hold_for_the_streams_that_are_there_and_keep_sources_on_demand_apart() {
    let hub = hub(with_pulls(vec![pull("old")]), 1).into_shared();
    let _publisher = hub.publish(&name("a")).expect("the name is free");
    let live = hub.streams.find(&name("a")).expect("it is published");
    assert!(!live.paces_all());
    let mut changed = with_pulls(vec![pull("new")]);
    changed.stream.pacing = Pacing::Rate(1_000_000);
    hub.reconfigure(changed);
    assert!(live.paces_all());
    assert!(!hub.pulls().has(&name("old")) && hub.pulls().has(&name("new")));
    let mut messages = Vec::new();
    hub.inboxes.collect(0, &mut messages);
    assert!(messages.is_empty(), "no viewer is there to be told");
}

#[test]
fn a_stream_is_packaged_from_its_beginning_where_the_settings_say_so() {
    for on_demand in [true, false] {
        let mut settings = with_pulls(Vec::new());
        settings.packaging.on_demand = on_demand;
        let hub = hub(settings, 1).into_shared();
        let _publisher = hub.publish(&name("a")).expect("the name is free");
        assert_eq!(hub.presentations.find(&name("a")).is_some(), !on_demand);
        let claimant = SlotRequest {
            name: &name("b"),
            mux: Mux::Ogg,
            origin: Origin::Inside,
            take_over: false,
            piece: None,
        };
        hub.streams.acquire(claimant).expect("the name is free");
        assert!(hub.presentations.find(&name("b")).is_none(), "a stream of this kind is not packaged");
    }
}

#[test]
fn the_outputs_thread_takes_the_streams_that_it_was_told_of_and_nothing_else() {
    let hub = hub(with_pulls(Vec::new()), 1);
    let live = crate::test_streams::live(1, "a", 1);
    let thread = hub.inboxes.outputs();
    hub.inboxes.send(thread, Message::Stream(News::Flushed(Arc::clone(&live))));
    hub.inboxes.send(thread, Message::Stream(News::Evicted(7)));
    hub.inboxes.send(thread, Message::Grown(vec![1]));
    let mut news = Vec::new();
    hub.take_news(&mut news);
    assert!(matches!(&news[..], [told] if Arc::ptr_eq(told, &live)));
    hub.take_news(&mut news);
    assert_eq!(news.len(), 1, "each is told once");
    assert_eq!((hub.thread(), hub.policy()), (1, Policy::default()));
    assert_eq!(Destinations::pacing(&hub, &name("a")), Settings::default().stream.pacing);
}

#[test]
fn totals_are_what_was_counted_each_in_its_place() {
    let hub = hub(with_pulls(Vec::new()), 1);
    let counters = &hub.counters;
    let all = [
        &counters.connections,
        &counters.accepted,
        &counters.refused,
        &counters.refused_unanswered,
        &counters.gave_way,
        &counters.requests,
        &counters.errors,
        &counters.timed_out,
        &counters.bodies_timed_out,
        &counters.streams_displaced,
        &counters.tls_handshakes,
        &counters.tls_failed,
        &counters.tls_apart,
    ];
    for (number, counter) in (1..).zip(all) {
        counter.add(number);
    }
    let totals = hub.totals();
    let told = [
        totals.connections,
        totals.accepted,
        totals.refused,
        totals.refused_unanswered,
        totals.gave_way,
        totals.requests,
        totals.errors,
        totals.timed_out,
        totals.bodies_timed_out,
        totals.streams_displaced,
        totals.tls_handshakes,
        totals.tls_failed,
        totals.tls_apart,
    ];
    assert!(told.into_iter().eq(1..=13), "{told:?}");
    assert_eq!((totals.marks_in_use, totals.marks_exhausted), (0, 0));
}

#[test]
fn what_an_earlier_program_counted_beside_its_other_counts_goes_on() {
    let mut here = hub(with_pulls(Vec::new()), 1);
    here.counters.accepted.add(5);
    let left = HubState { gave_way: 3, ..here.state() };
    let next_id = here.streams.next_id();
    let mut there = hub(with_pulls(Vec::new()), 1);
    there.inherit(left, vec![crate::test_streams::live(9, "a", 1)]).expect("its counts are known");
    assert_eq!((there.counters.accepted.value(), there.counters.gave_way.value()), (5, 3));
    assert!(there.began == here.began && there.streams.find(&name("a")).is_some());
    assert!(there.streams.next_id() >= next_id);
    let unknown = HubState { counts: HandedCounts::Positional(vec![1]), ..here.state() };
    assert!(here.inherit(unknown, Vec::new()).is_err());
}

#[test]
fn how_a_stream_was_is_told_of_those_that_are_there() {
    let hub = hub(with_pulls(Vec::new()), 1).into_shared();
    let _publisher = hub.publish(&name("a")).expect("the name is free");
    assert!(hub.history(&name("a"), |_| ()).is_some() && hub.history(&name("b"), |_| ()).is_none());
    assert!(hub.stages(&name("a"), |_, _| ()).is_some() && hub.stages(&name("b"), |_, _| ()).is_none());
    let live = hub.streams.find(&name("a")).expect("it is published");
    let later = hub.clock.now() + Duration::from_secs(2);
    assert!(live.telemetry.is_due(later));
    hub.record_history(later);
    assert!(!live.telemetry.is_due(later), "once a second");
}
