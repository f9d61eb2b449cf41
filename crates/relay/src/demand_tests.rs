use super::*;
use crate::settings::Settings;
use crate::test_streams::{hub, name};
use glassline_delivery::http1::server::{Event, Server};
use glassline_delivery::http1::{Headers, Limits};
use glassline_edge::{Reader, UpstreamSettings};
use std::sync::Arc;

const READER: Reader = Reader { thread: 0, token: 7 };

/// A hub behind two upstream servers that do not answer.
fn hub_with(change: impl FnOnce(&mut Settings)) -> Arc<Hub> {
    let servers =
        ["http://127.0.0.1:9", "http://127.0.0.1:19/tv/"].map(|server| server.parse().expect("a server"));
    let mut settings = Settings { listen: Vec::new(), ..Settings::default() };
    settings.upstream = Some(UpstreamSettings::new(servers.to_vec()));
    change(&mut settings);
    let hub = hub(settings, 1).into_shared();
    hub.arrange_edge().expect("a thread that fetches");
    hub
}

fn headers(wire: &str) -> Headers {
    let mut input = wire.as_bytes();
    match Server::new(Limits::DEFAULT, Time::ZERO).next(&mut input, Time::ZERO) {
        Ok(Some(Event::Request(request))) => request.headers,
        other => panic!("{other:?}"),
    }
}

fn demand(hub: &Hub, stream: &str) -> Option<Arc<Growing>> {
    hub.demand(&name(stream), Mux::MpegTs, &Via::default(), hub.clock.now())
}

/// Whether a request that waits for the stream is told something by `act`.
fn tells(waiting: &Growing, act: impl FnOnce()) -> bool {
    assert!(waiting.look_or_wait(READER, |_| None::<()>).is_none());
    act();
    waiting.waiting() == 0
}

#[test]
fn the_first_request_for_a_stream_has_it_pulled_from_all_servers_and_others_wait_with_it() {
    let hub = hub_with(|_| {});
    assert!(hub.pulls().is_empty());
    let first = demand(&hub, "a").expect("it is asked for");
    let again = demand(&hub, "a").expect("it is asked for");
    assert!(Arc::ptr_eq(&first, &again));
    let pulls = hub.demands.pulls();
    assert_eq!((pulls.len(), &pulls[0].name, pulls[0].mux), (1, &name("a"), Some(Mux::MpegTs)));
    let Source::Http(url) = &pulls[0].source else { panic!("{:?}", pulls[0].source) };
    assert_eq!(url.to_string(), "http://127.0.0.1:9/live/a.ts");
    let alternates: Vec<_> = pulls[0].alternates.iter().map(ToString::to_string).collect();
    assert_eq!(alternates, ["http://127.0.0.1:19/tv/live/a.ts"]);
    assert!(hub.pulls().has(&name("a")) && hub.demands.have(&name("a")));
}

#[test]
fn without_upstream_servers_no_stream_is_asked_for() {
    let hub = hub_with(|settings| settings.upstream = None);
    assert!(demand(&hub, "a").is_none() && hub.demands.pulls().is_empty());
}

#[test]
fn a_stream_that_the_configuration_gives_a_source_is_not_asked_for_elsewhere() {
    let configured = Pull {
        name: name("a"),
        source: Source::parse("http://127.0.0.1:29/a.ts").expect("a source"),
        alternates: Vec::new(),
        mux: None,
        ca: None,
        via: None,
        renewed: 0,
    };
    let hub = hub_with(|settings| settings.pulls = vec![configured]);
    assert!(demand(&hub, "a").is_none());
    assert!(demand(&hub, "b").is_some());
    assert!(hub.pulls().has(&name("a")) && hub.pulls().has(&name("b")), "both are pulled");
}

#[test]
fn strangers_may_ask_for_so_many_streams_at_once() {
    let hub = hub_with(|_| {});
    for number in 0..DEMANDS_MAX {
        assert!(demand(&hub, &format!("s{number}")).is_some(), "{number}");
    }
    assert!(demand(&hub, "other").is_none());
    assert!(demand(&hub, "s0").is_some(), "it is one of them");
}

#[test]
fn a_stream_that_begins_wakes_the_requests_that_wait_for_it_alone() {
    let hub = hub_with(|_| {});
    let (a, b) = (demand(&hub, "a").expect("it is asked for"), demand(&hub, "b").expect("it is asked for"));
    assert!(!tells(&b, || assert!(!hub.demands.tell(&name("a")))));
    assert!(tells(&a, || assert!(!hub.demands.tell(&name("a")))));
    hub.demands.tell(&name("c"));
    assert_eq!((a.waiting(), b.waiting()), (0, 1));
}

#[test]
fn a_stream_that_no_client_watches_is_pulled_for_half_a_minute_more() {
    let hub = hub_with(|_| {});
    let asked = hub.clock.now();
    let waiting = hub.demand(&name("a"), Mux::MpegTs, &Via::default(), asked).expect("it is asked for");
    hub.look_at_demands();
    assert!(hub.demands.have(&name("a")), "it was asked for just now");
    // It was asked for long ago.
    hub.demands.lock().get_mut(&name("a")).expect("it is there").watched_at = Time::ZERO;
    let is_over = hub.clock.now().since(Time::ZERO) > UNWATCHED;
    assert!(is_over, "the clock of this machine has gone for half a minute");
    assert!(tells(&waiting, || hub.look_at_demands()));
    assert_eq!(waiting.look(|object| object.failure()), Some(Failure::Upstream));
    assert!(!hub.demands.have(&name("a")) && !hub.pulls().has(&name("a")));
}

#[test]
fn a_stream_with_a_viewer_or_players_goes_on_however_long_ago_it_was_asked_for() {
    for watches in [true, false] {
        let hub = hub_with(|_| {});
        demand(&hub, "a").expect("it is asked for");
        let publisher = hub.streams.restore_publisher(&name("a"), 1);
        assert!(publisher.is_none(), "there is no stream yet");
        if watches {
            let claimed = crate::test_streams::live(99, "a", 1);
            claimed.viewer_joins(0);
            hub.streams.inherit(100, vec![claimed]);
        } else {
            hub.presentation_store(&name("a"));
        }
        hub.demands.lock().get_mut(&name("a")).expect("it is there").watched_at = Time::ZERO;
        hub.look_at_demands();
        assert!(hub.demands.have(&name("a")), "watched: {watches}");
        let watched_at = hub.demands.lock()[&name("a")].watched_at;
        assert!(watched_at > Time::ZERO, "and that is noted");
    }
}

#[test]
fn a_stream_that_is_here_ends_with_its_pull() {
    let hub = hub_with(|settings| settings.return_window = Duration::from_secs(1 << 40));
    demand(&hub, "a").expect("it is asked for");
    let live = crate::test_streams::live(99, "a", 1);
    hub.streams.inherit(100, vec![Arc::clone(&live)]);
    // A window that is longer than half a minute is none of what is pulled on demand.
    hub.demands.lock().get_mut(&name("a")).expect("it is there").watched_at = Time::ZERO;
    hub.look_at_demands();
    assert!(live.has_ended() && hub.streams.find(&name("a")).is_none());
}

#[test]
fn what_is_pulled_on_demand_goes_over_to_the_next_process() {
    let here = hub_with(|_| {});
    demand(&here, "a").expect("it is asked for");
    here.demand(&name("b"), Mux::WebM, &Via::default(), here.clock.now()).expect("it is asked for");
    let left = rmp_serde::to_vec_named(&here.demands_left()).unwrap();
    let there = hub_with(|_| {});
    there.inherit_demands(rmp_serde::from_slice(&left).unwrap());
    let told = |hub: &Hub| {
        let pulls = hub.demands.pulls().into_iter();
        pulls
            .map(|pull| (pull.name.clone(), format!("{:?} {:?}", pull.source, pull.alternates), pull.mux))
            .collect::<Vec<_>>()
    };
    assert_eq!(told(&there), told(&here));
    assert!(there.pulls().has(&name("a")) && there.pulls().has(&name("b")));
    // Where there are no upstream servers any more, or the stream has a source by now, it is not.
    let alone = hub_with(|settings| settings.upstream = None);
    alone.inherit_demands(rmp_serde::from_slice(&left).unwrap());
    assert!(alone.demands.pulls().is_empty());
    let pull = here.demands.pulls().remove(0);
    let configured = hub_with(|settings| settings.pulls = vec![pull]);
    configured.inherit_demands(rmp_serde::from_slice(&left).unwrap());
    assert_eq!(told(&configured).len(), 1);
}

#[test]
fn a_demand_with_a_name_that_no_stream_can_have_is_passed_over() {
    let hub = hub_with(|_| {});
    demand(&hub, "a").expect("it is asked for");
    let mut left = hub.demands_left();
    left[0].name = "../a".to_owned();
    let there = hub_with(|_| {});
    there.inherit_demands(left);
    assert!(there.demands.pulls().is_empty());
}

#[test]
fn versions_of_a_capture_that_are_asked_for_are_the_captures_too() {
    let hub = hub_with(|_| {});
    demand(&hub, "hall-720p50").expect("it is asked for");
    for (stream, is_one) in
        [("hall-720p50", true), ("hall", true), ("hal", false), ("hall-720p5", false), ("hall-360p25", false)]
    {
        assert_eq!(hub.demands.have(&name(stream)), is_one, "{stream}");
    }
    demand(&hub, "hall-a-wing").expect("it is asked for");
    demand(&hub, "hall2-720p50").expect("it is asked for");
    assert!(hub.demands.have(&name("hall")) && hub.demands.have(&name("hall2")));
}

#[test]
fn presentations_of_what_is_pulled_on_demand_are_upstream_servers_to_give_until_one_is_made_here() {
    let hub = hub_with(|_| {});
    assert!(!hub.is_presented_upstream(&name("a")));
    demand(&hub, "a").expect("it is asked for");
    assert!(hub.is_presented_upstream(&name("a")));
    hub.presentation_store(&name("a"));
    assert!(!hub.is_presented_upstream(&name("a")));
}

#[test]
fn a_stream_is_received_once_its_publisher_is_there_and_not_before() {
    let hub = hub_with(|_| {});
    let before = hub.clock.now();
    let _publisher = hub.publish(&name("hall-720p50")).expect("the name is free");
    let after = hub.clock.now();
    assert!(hub.receives(&name("hall-720p50"), after) && hub.receives(&name("hall"), after));
    assert!(!hub.receives(&name("hall"), Time::from_nanos(before.as_nanos() - 1)));
    assert!(!hub.receives(&name("other"), after));
}

#[test]
fn a_pull_says_by_which_servers_its_request_came_until_its_stream_has_begun() {
    let hub = hub_with(|_| {});
    let wire = "GET /live/a.ts HTTP/1.1\r\nHost: h\r\nVia: 1.1 glassline-0000000000000001\r\n\r\n";
    let came_by = Via::of(&headers(wire));
    hub.demand(&name("a"), Mux::MpegTs, &came_by, hub.clock.now()).expect("it is asked for");
    demand(&hub, "b").expect("it is asked for");
    let told = |hub: &Hub| {
        let own = format!("1.1 {}", hub.edge().expect("an edge").name());
        let via = hub.all_pulls().remove(0).via.expect("it says so");
        assert!(via.ends_with(&own), "{via}");
        via.trim_end_matches(&own).to_owned()
    };
    assert_eq!(told(&hub), "1.1 glassline-0000000000000001, ");
    let _pulled = hub.streams.publish(&name("a"), Mux::MpegTs).expect("the pull's own slot");
    assert_eq!(told(&hub), "", "from now on it is pulled for this server's own viewers");
    // The next process has another name.
    let there = hub_with(|_| {});
    there.inherit_demands(hub.demands_left());
    assert_eq!(told(&there), "");
}

#[test]
fn a_pull_goes_on_for_its_viewers_where_the_publisher_that_it_gave_way_to_has_not_come() {
    for is_watched in [true, false] {
        let hub = hub_with(|_| {});
        demand(&hub, "a").expect("it is asked for");
        let live = crate::test_streams::live(99, "a", 1);
        if is_watched {
            live.viewer_joins(0);
        }
        hub.streams.inherit(100, vec![live]);
        assert!(hub.end_demand(&name("a")) && !hub.pulls().has(&name("a")));
        hub.look_at_demands();
        assert!(hub.demands.has(&name("a")), "the publisher may come yet");
        hub.demands.lock().get_mut(&name("a")).expect("it is there").gives_way_since = Some(Time::ZERO);
        hub.look_at_demands();
        assert_eq!(
            (hub.demands.is_pulled(&name("a")), hub.pulls().has(&name("a"))),
            (is_watched, is_watched)
        );
    }
}
