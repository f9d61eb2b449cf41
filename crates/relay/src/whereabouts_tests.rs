use super::*;
use crate::Relay;
use crate::pull::Pull;
use crate::settings::Settings;
use crate::test_connections::{PEER, Stage, TestSite, beside, get, opening, stage};
use crate::test_streams::{hub, name};
use glassline_delivery::fill::{Head, Object, Via};
use glassline_delivery::pull::Source;
use glassline_delivery::stream::Mux;
use glassline_edge::{Growing, Reader, RecordedObjects, RecordedRequest, UpstreamSettings, Wake};
use glassline_streams::Live;
use glassline_test_support::wait::until;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

fn at(port: u16, epoch: u64) -> Whereabouts {
    Whereabouts::At { servers: vec![format!("http://127.0.0.1:{port}/").parse().unwrap()], epoch }
}

/// One place for all streams, and whether it has heard of all.
#[derive(Debug)]
struct Somewhere(Mutex<Whereabouts>, AtomicBool);

impl Directory for Somewhere {
    fn find(&self, _name: &StreamName) -> Whereabouts {
        self.0.lock().unwrap().clone()
    }

    fn find_version(&self, group: &StreamName) -> Whereabouts {
        if group.as_str() == "ladder" { self.find(group) } else { Whereabouts::Unknown }
    }

    fn is_complete(&self) -> bool {
        self.1.load(Ordering::Relaxed)
    }

    fn may_publish(&self, name: &StreamName, takes_over: bool) -> Result<(), NameRefusal> {
        let is_taken = name.as_str() == "taken" && !takes_over;
        if is_taken { Err(NameRefusal("node b has its publisher".to_owned())) } else { Ok(()) }
    }

    fn publishers_changed(&self) {}
}

fn hub_of(whereabouts: Whereabouts) -> (Arc<Hub>, Arc<Somewhere>) {
    let mut settings = Settings { listen: Vec::new(), ..Settings::default() };
    settings.upstream = Some(UpstreamSettings::new(Vec::new()));
    settings.places =
        StaticDirectory::new([("fixed".to_owned(), "http://127.0.0.1:29".parse().unwrap())]).unwrap();
    let hub = hub(settings, 1).into_shared();
    hub.arrange_edge().expect("a thread that fetches");
    let directory = Arc::new(Somewhere(Mutex::new(whereabouts), AtomicBool::new(false)));
    hub.set_directory(Some(Arc::clone(&directory) as Arc<dyn Directory>));
    (hub, directory)
}

fn sources(hub: &Hub) -> Vec<String> {
    hub.demands.pulls().iter().map(|pull| pull.source.to_string()).collect()
}

fn publish(hub: &Hub, stream: &str, take_over: bool) -> Result<glassline_streams::Acquired, AcquireError> {
    let name = name(stream);
    let slot_request =
        SlotRequest { name: &name, mux: Mux::MpegTs, origin: Origin::Door, take_over, piece: None };
    hub.streams.acquire(slot_request)
}

#[test]
fn a_stream_is_pulled_from_where_the_directory_says_and_follows_it() {
    let (hub, directory) = hub_of(at(9, 1));
    let via = Via::default();
    hub.demand(&name("a"), Mux::MpegTs, &via, hub.clock.now()).expect("it is asked for");
    hub.demand(&name("fixed"), Mux::MpegTs, &via, hub.clock.now()).expect("it is asked for");
    assert_eq!(sources(&hub), ["http://127.0.0.1:9/live/a.ts", "http://127.0.0.1:29/live/fixed.ts"]);
    let own = hub.edge().unwrap().name().to_owned();
    assert_eq!(hub.all_pulls()[0].via, Some(format!("1.1 {own}")), "a circle is found by that");
    *directory.0.lock().unwrap() = at(19, 2);
    hub.follow_stream(&name("a"));
    assert_eq!(sources(&hub)[0], "http://127.0.0.1:19/live/a.ts");
    assert!(hub.pulls().has(&name("a")));
}

#[test]
fn nothing_is_asked_of_others_where_the_directory_names_none() {
    for whereabouts in [
        Whereabouts::Unknown,
        Whereabouts::Here,
        Whereabouts::Away { retry_after: std::time::Duration::ZERO },
    ] {
        let (hub, _directory) = hub_of(whereabouts);
        assert!(hub.demand(&name("a"), Mux::MpegTs, &Via::default(), hub.clock.now()).is_none());
    }
}

#[test]
fn a_publisher_is_refused_where_another_server_has_the_name_and_takes_the_place_of_a_pull() {
    let (hub, _directory) = hub_of(at(9, 1));
    let refused = publish(&hub, "taken", false).unwrap_err();
    assert_eq!(refused.to_string(), "stream taken: node b has its publisher");
    assert!(publish(&hub, "fixed", true).unwrap_err().to_string().contains("publish it there"));
    hub.demand(&name("a"), Mux::MpegTs, &Via::default(), hub.clock.now()).expect("it is asked for");
    let pulled = hub.streams.publish(&name("a"), Mux::MpegTs).expect("the pull's own slot");
    assert!(hub.own_publishers().is_empty());
    let here = publish(&hub, "a", false).expect("it takes the pull's place");
    assert!(hub.demands.pulls().is_empty() && !hub.pulls().has(&name("a")));
    drop(pulled);
    assert!(here.live.published_since().is_some() && !here.live.has_ended());
    assert_eq!(hub.own_publishers(), [name("a")]);
}

#[test]
fn viewers_of_a_publisher_whose_name_is_lost_get_the_stream_from_elsewhere() {
    let (hub, _directory) = hub_of(at(9, 2));
    let watched = publish(&hub, "a", false).expect("a free name");
    watched.live.viewer_comes_over(0);
    let unwatched = publish(&hub, "b", false).expect("a free name");
    hub.give_up(&name("a"));
    hub.give_up(&name("b"));
    assert!(watched.live.published_since().is_none() && !watched.live.has_ended());
    assert_eq!(sources(&hub), ["http://127.0.0.1:9/live/a.ts"]);
    assert!(unwatched.live.has_ended(), "there is nothing to be served from it any more");
    let mut late = glassline_test_support::ts::Source::default();
    assert!(watched.live.push(watched.session, &late.tables(), hub.clock.now()).is_err(), "it has to go");
}

#[test]
fn requests_that_wait_for_a_pull_are_told_of_the_publisher_that_takes_its_place() {
    const READER: Reader = Reader { thread: 0, token: 7 };
    let (hub, _directory) = hub_of(at(9, 1));
    let demand = || hub.demand(&name("a"), Mux::MpegTs, &Via::default(), hub.clock.now());
    let waiting = demand().expect("it is asked for");
    assert!(waiting.look_or_wait(READER, |_| None::<()>).is_none());
    let a = name("a");
    let mut slot_request =
        SlotRequest { name: &a, mux: Mux::MpegTs, origin: Origin::Door, take_over: false, piece: None };
    hub.admit_publisher(&mut slot_request).expect("it may come");
    assert!(slot_request.take_over && hub.demands.pulls().is_empty() && !hub.pulls().has(&a));
    assert_eq!(waiting.waiting(), 1, "there is nothing to look for yet");
    assert!(Arc::ptr_eq(&waiting, &demand().expect("it waits, too")), "the pull does not begin again");
    let here = publish(&hub, "a", false).expect("a free name");
    assert_eq!(waiting.waiting(), 0);
    assert_eq!(hub.own_publishers(), [name("a")]);
    drop(here);
}

#[test]
fn what_is_pulled_follows_a_map_that_changes_and_ends_where_it_is_nowhere() {
    let (hub, directory) = hub_of(Whereabouts::Unknown);
    let via = Via::default();
    hub.demand(&name("fixed"), Mux::MpegTs, &via, hub.clock.now()).expect("it is asked for");
    assert_eq!(sources(&hub), ["http://127.0.0.1:29/live/fixed.ts"]);
    let mut settings = Settings { listen: Vec::new(), ..Settings::default() };
    settings.upstream = Some(UpstreamSettings::new(Vec::new()));
    let places = [("fixed".to_owned(), "http://127.0.0.1:39".parse().unwrap())];
    settings.places = StaticDirectory::new(places).unwrap();
    let former = hub.places();
    hub.reconfigure(settings.clone());
    hub.follow_map(&former);
    assert_eq!(sources(&hub), ["http://127.0.0.1:39/live/fixed.ts"]);
    let former = hub.places();
    settings.places = StaticDirectory::default();
    hub.reconfigure(settings);
    hub.follow_map(&former);
    assert_eq!(sources(&hub).len(), 1, "the registry may say where it is");
    directory.1.store(true, Ordering::Relaxed);
    hub.follow_map(&hub.places());
    assert_eq!(sources(&hub).len(), 1, "the map has not changed");
    hub.follow_map(&former);
    assert!(sources(&hub).is_empty() && !hub.pulls().has(&name("fixed")));
}

/// A stream that has had a publisher, and has a viewer still.
fn watched(hub: &Hub, stream: &str) -> Arc<Live> {
    let mut publisher = hub.publish(&name(stream)).expect("a free name");
    publisher.push(&opening(3).1).expect("it has the slot");
    let live = hub.streams.find(&name(stream)).expect("it has begun");
    live.viewer_comes_over(0);
    live
}

#[test]
fn what_is_pulled_goes_on_through_a_reload_and_a_failed_handover_though_no_directory_knows_it_then() {
    let mut settings = Settings { listen: Vec::new(), workers: 1, ..Settings::default() };
    settings.upstream = Some(UpstreamSettings::new(Vec::new()));
    let mut relay = Relay::start(settings.clone(), Arc::new(TestSite::default())).expect("threads");
    let hub = Arc::clone(relay.hub());
    let live = watched(&hub, "a");
    hub.set_directory(Some(Arc::new(Somewhere(Mutex::new(at(9, 1)), AtomicBool::new(false)))));
    hub.demand(&name("a"), Mux::MpegTs, &Via::default(), hub.clock.now()).expect("it is asked for");
    let goes_on = |when: &str| {
        assert_eq!(sources(&hub), ["http://127.0.0.1:9/live/a.ts"], "{when}");
        assert!(!live.has_ended() && hub.pulls().has(&name("a")), "{when}");
        let own = hub.edge().unwrap().name().to_owned();
        assert_eq!(hub.all_pulls()[0].via, Some(format!("1.1 {own}")), "{when}");
        own
    };
    let first = goes_on("at first");
    // As a process has it that takes over, and one of which the hand-over has failed.
    hub.set_directory(None);
    relay.reload(settings.clone()).expect("a reload");
    goes_on("after a reload");
    assert!(relay.hand_over(|_, _| Err(std::io::Error::other("it has gone"))).is_err());
    goes_on("after a failed hand-over");
    hub.set_directory(Some(Arc::new(Somewhere(Mutex::new(Whereabouts::Unknown), AtomicBool::new(false)))));
    settings.upstream.as_mut().unwrap().cache_bytes += 1;
    relay.reload(settings).expect("a reload");
    assert_ne!(goes_on("with another edge"), first, "its pulls go on under its new name");
}

/// Has a recording of everything.
#[derive(Debug)]
struct Tapes;

impl RecordedObjects for Tapes {
    fn find(&self, request: RecordedRequest<'_>, wake: &Arc<dyn Wake>) -> Option<Arc<Growing>> {
        let object = Object::whole(Head::new("text/plain"), "recorded".into());
        (!request.is_elsewhere).then(|| Growing::new(object, Arc::clone(wake)))
    }
}

/// A connection of a server whose directory says this of all streams.
fn stage_of(whereabouts: Whereabouts) -> (Stage, Arc<Somewhere>) {
    let stage = stage(|settings| settings.upstream = Some(UpstreamSettings::new(Vec::new())));
    stage.hub.arrange_edge().expect("a thread that fetches");
    let directory = Arc::new(Somewhere(Mutex::new(whereabouts), AtomicBool::new(false)));
    stage.hub.set_directory(Some(Arc::clone(&directory) as Arc<dyn Directory>));
    (stage, directory)
}

#[test]
fn what_is_recorded_here_is_not_given_in_place_of_a_stream_that_another_server_has() {
    let recorded = |whereabouts: Whereabouts, query: &str| {
        let (mut stage, _directory) = stage_of(whereabouts);
        stage.hub.set_recorded(Some(Arc::new(Tapes)));
        stage.say(get(&format!("/live/x/index.m3u8{query}")));
        stage.turn();
        // What another server is asked for has not come yet.
        stage.answers().pop().map(|answer| (answer.status, answer.text().contains("recorded")))
    };
    let away = Whereabouts::Away { retry_after: std::time::Duration::from_secs(1) };
    for query in ["", "?from=-5m"] {
        assert_eq!(recorded(Whereabouts::Unknown, query), Some((200, true)));
        assert_eq!(recorded(away.clone(), query), Some((503, false)));
        assert!(recorded(at(9, 1), query).is_none_or(|(status, is_recorded)| status >= 400 && !is_recorded));
    }
}

#[test]
fn what_is_pulled_and_waits_is_not_given_to_another_server() {
    const VIA: &str = "Via: 1.1 glassline-0000000000000001\r\n";
    let (first, _directory) = stage_of(at(9, 1));
    let live = first.hub.streams.begin(&name("a"), Mux::MpegTs).expect("room");
    first.hub.demand(&name("a"), Mux::MpegTs, &Via::default(), first.now).expect("it is asked for");
    let status = |token: u64, fields: &str| {
        let mut stage = beside(&first, PEER, token);
        stage.say(format!("GET /live/a.ts HTTP/1.1\r\nHost: h\r\n{fields}\r\n"));
        stage.turn();
        let heard = String::from_utf8_lossy(&stage.heard()).into_owned();
        heard.split(' ').nth(1).map(str::to_owned)
    };
    assert_eq!(status(8, VIA).as_deref(), Some("503"), "it would be given its own bytes back");
    assert_ne!(status(9, "").as_deref(), Some("503"), "viewers of this server wait for what comes");
    let _pulled = first.hub.streams.publish(&name("a"), Mux::MpegTs).expect("the pull's own slot");
    assert!(live.published_since().is_some());
    assert_ne!(status(10, VIA).as_deref(), Some("503"), "there is something to give");
}

#[test]
fn a_server_that_waits_for_one_origin_lets_another_server_wait() {
    let stage = stage(|settings| {
        settings.upstream = Some(UpstreamSettings::new(vec!["http://127.0.0.1:9".parse().unwrap()]));
    });
    stage.hub.arrange_edge().expect("a thread that fetches");
    let _paused = stage.hub.streams.begin(&name("a"), Mux::MpegTs).expect("room");
    stage.hub.demand(&name("a"), Mux::MpegTs, &Via::default(), stage.now).expect("it is asked for");
    let mut asking = beside(&stage, PEER, 8);
    asking.say("GET /live/a.ts HTTP/1.1\r\nHost: h\r\nVia: 1.1 glassline-0000000000000001\r\n\r\n");
    asking.turn();
    let heard = String::from_utf8_lossy(&asking.heard()).into_owned();
    assert!(!heard.contains(" 503 "), "{heard}");
}

#[test]
fn the_playlists_of_versions_come_from_the_server_that_has_the_versions() {
    let (hub, directory) = hub_of(Whereabouts::Unknown);
    assert_eq!(hub.whereabouts_of_presentation(&name("ladder")), Whereabouts::Unknown);
    *directory.0.lock().unwrap() = at(9, 1);
    // One version is pulled for a viewer here: it makes no presentation of its own, and no part of one.
    hub.demand(&name("ladder-720p50"), Mux::MpegTs, &Via::default(), hub.clock.now())
        .expect("it is asked for");
    let _pulled = hub.streams.publish(&name("ladder-720p50"), Mux::MpegTs).expect("the pull's own slot");
    assert!(hub.ladder(&name("ladder")).is_none() && hub.demands.are_of_another(&name("ladder")));
    assert!(!hub.demands.are_of_another(&name("lad")) && !hub.demands.are_of_another(&name("ladder-720p")));
    let _own = hub.streams.publish(&name("ladder-360p25"), Mux::MpegTs).expect("a free name");
    let ladder = hub.ladder(&name("ladder")).expect("its own version");
    assert_eq!(ladder.names(), [name("ladder-360p25")]);
}

#[test]
fn a_presentation_that_has_ended_here_gives_way_to_the_stream_of_another_server() {
    let (hub, directory) = hub_of(Whereabouts::Unknown);
    let former = hub.streams.begin(&name("a"), Mux::MpegTs).expect("room");
    let store = hub.presentation_store(&name("a"));
    hub.streams.end(&former);
    hub.follow_stream(&name("a"));
    assert!(hub.presentations.find(&name("a")).is_some(), "no other server has it");
    *directory.0.lock().unwrap() = at(9, 1);
    hub.follow_stream(&name("a"));
    assert!(hub.presentations.find(&name("a")).is_none());
    drop(store);
}

#[test]
fn a_publisher_that_came_while_a_request_looked_for_it_is_not_taken_for_a_pull() {
    let (hub, _directory) = hub_of(at(9, 1));
    // The request has found no stream; then the publisher has come.
    let here = publish(&hub, "a", false).expect("a free name");
    assert!(hub.demand(&name("a"), Mux::MpegTs, &Via::default(), hub.clock.now()).is_none());
    assert_eq!(hub.own_publishers(), [name("a")]);
    assert!(here.live.published_since().is_some() && !hub.pulls().has(&name("a")));
}

/// Settings with a source for the stream.
fn with_source(stream: &str) -> Settings {
    let mut settings = Settings { listen: Vec::new(), workers: 1, ..Settings::default() };
    settings.upstream = Some(UpstreamSettings::new(Vec::new()));
    settings.pulls = vec![Pull {
        name: name(stream),
        source: Source::parse("http://127.0.0.1:49/source.ts").unwrap(),
        alternates: Vec::new(),
        mux: None,
        ca: None,
        via: None,
        renewed: 0,
    }];
    settings
}

/// A hub with a source for the stream `taken`, of which another server has a publisher.
fn hub_with_source() -> (Arc<Hub>, Arc<Somewhere>) {
    let hub = hub(with_source("taken"), 1).into_shared();
    hub.arrange_edge().expect("a thread that fetches");
    let directory = Arc::new(Somewhere(Mutex::new(at(9, 1)), AtomicBool::new(false)));
    hub.set_directory(Some(Arc::clone(&directory) as Arc<dyn Directory>));
    (hub, directory)
}

fn pulled_from(hub: &Hub, stream: &str) -> String {
    hub.pulls().status(&name(stream), hub.clock.now()).expect("it is pulled").url
}

#[test]
fn a_stream_with_a_source_here_comes_from_the_server_that_has_it_and_from_the_source_again_when_none_has() {
    let (hub, directory) = hub_with_source();
    assert_eq!(pulled_from(&hub, "taken"), "http://127.0.0.1:49/source.ts");
    let refused = hub.streams.publish(&name("taken"), Mux::MpegTs).map(drop).unwrap_err();
    assert!(refused.to_string().contains("node b has its publisher"), "the source has no slot: {refused}");
    let waiting = hub.demand(&name("taken"), Mux::MpegTs, &Via::default(), hub.clock.now());
    assert!(waiting.is_some(), "viewers here get it from there");
    assert_eq!(pulled_from(&hub, "taken"), "http://127.0.0.1:9/live/taken.ts");
    let pulled = hub.streams.publish(&name("taken"), Mux::MpegTs).expect("the pull's own slot");
    assert!(hub.own_publishers().is_empty());
    drop(pulled);
    hub.look_at_demands();
    assert!(hub.demands.has(&name("taken")), "another server has it still");
    // As in a process that has just taken over.
    *directory.0.lock().unwrap() = Whereabouts::Unknown;
    let there = hub_with_source().0;
    there.inherit_demands(hub.demands_left());
    hub.look_at_demands();
    for hub in [&hub, &there] {
        assert_eq!(
            pulled_from(hub, "taken"),
            "http://127.0.0.1:9/live/taken.ts",
            "it goes on until it fails"
        );
    }
    *directory.0.lock().unwrap() = Whereabouts::Here;
    hub.look_at_demands();
    assert!(!hub.demands.has(&name("taken")));
    assert_eq!(pulled_from(&hub, "taken"), "http://127.0.0.1:49/source.ts");
}

#[test]
fn a_source_here_is_asked_again_when_the_server_that_had_the_stream_gives_nothing_and_it_may_be_published_here()
 {
    for (stream, returns) in [("free", true), ("taken", false)] {
        let relay = Relay::start(with_source(stream), Arc::new(TestSite::default())).expect("threads");
        let hub = Arc::clone(relay.hub());
        let live = watched(&hub, stream);
        hub.set_directory(Some(Arc::new(Somewhere(Mutex::new(at(9, 1)), AtomicBool::new(false)))));
        hub.follow_stream(&name(stream));
        assert!(hub.demands.is_of_another(&name(stream)));
        if returns {
            until("the source to be asked", || pulled_from(&hub, stream) == "http://127.0.0.1:49/source.ts");
        } else {
            until("the server to be asked in vain", || {
                hub.pulls().status(&name(stream), hub.clock.now()).is_some_and(|status| status.failures > 1)
            });
            assert!(hub.demands.is_of_another(&name(stream)), "another server has its publisher");
        }
        assert!(!live.has_ended());
    }
}

#[test]
fn a_source_whose_publisher_is_lost_gives_its_viewers_to_the_server_that_has_the_stream() {
    let (hub, directory) = hub_with_source();
    *directory.0.lock().unwrap() = Whereabouts::Unknown;
    let free = SlotRequest {
        name: &name("taken"),
        mux: Mux::MpegTs,
        origin: Origin::Inside,
        take_over: true,
        piece: None,
    };
    let source = hub.streams.acquire(free).expect("the source's slot");
    source.live.viewer_comes_over(0);
    assert_eq!(hub.own_publishers(), [name("taken")]);
    *directory.0.lock().unwrap() = at(9, 2);
    hub.give_up(&name("taken"));
    assert!(source.live.published_since().is_none() && !source.live.has_ended());
    assert_eq!(pulled_from(&hub, "taken"), "http://127.0.0.1:9/live/taken.ts");
    // A stream that has viewers still is found at the next look.
    *directory.0.lock().unwrap() = Whereabouts::Here;
    hub.look_at_demands();
    assert!(!hub.demands.has(&name("taken")));
    *directory.0.lock().unwrap() = at(9, 3);
    hub.look_at_demands();
    assert!(hub.demands.is_pulled(&name("taken")));
}

#[test]
fn a_publisher_that_the_configuration_refuses_ends_no_pull_and_one_that_is_about_to_come_has_no_name_yet() {
    let (hub, _directory) = hub_of(at(9, 1));
    let mut settings = (*hub.settings()).clone();
    settings.reserved = [name("coded")].into();
    hub.reconfigure(settings);
    for stream in ["a", "coded"] {
        hub.demand(&name(stream), Mux::MpegTs, &Via::default(), hub.clock.now()).expect("it is asked for");
    }
    assert!(publish(&hub, "coded", true).is_err());
    assert!(hub.demands.is_pulled(&name("coded")), "its viewers go on");
    let pulled = hub.streams.publish(&name("a"), Mux::MpegTs).expect("the pull's own slot");
    assert!(hub.end_demand(&name("a")));
    assert!(hub.own_publishers().is_empty(), "the slot is the pull's for a moment");
    drop(pulled);
}
