use super::*;
use crate::settings::Settings;
use crate::test_streams::{hub, name};
use glassline_delivery::fill::Via;
use glassline_delivery::stream::Mux;
use glassline_edge::{Reader, UpstreamSettings};
use glassline_streams::StaticDirectory;
use std::sync::Mutex;

fn at(port: u16, epoch: u64) -> Whereabouts {
    Whereabouts::At { servers: vec![format!("http://127.0.0.1:{port}/").parse().unwrap()], epoch }
}

/// One place for all streams.
#[derive(Debug)]
struct Somewhere(Mutex<Whereabouts>);

impl Directory for Somewhere {
    fn find(&self, _name: &StreamName) -> Whereabouts {
        self.0.lock().unwrap().clone()
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
    let directory = Arc::new(Somewhere(Mutex::new(whereabouts)));
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
    assert_eq!(hub.demands.pulls()[0].via, Some(format!("1.1 {own}")), "a circle is found by that");
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
    hub.reconfigure(settings.clone());
    hub.follow_all();
    assert_eq!(sources(&hub), ["http://127.0.0.1:39/live/fixed.ts"]);
    settings.places = StaticDirectory::default();
    hub.reconfigure(settings);
    hub.follow_all();
    assert!(sources(&hub).is_empty() && !hub.pulls().has(&name("fixed")));
    drop(directory);
}
