use super::*;
use crate::settings::Settings;
use crate::test_connections::{PEER, Stage, beside, stage};
use crate::test_streams::{hub, name};
use glassline_delivery::fill::Via;
use glassline_delivery::http1::Url;
use glassline_delivery::ownership::{HOPS_MAX, Level, NodeName};
use glassline_delivery::stream::Mux;
use glassline_edge::UpstreamSettings;
use glassline_media::Time;
use glassline_streams::{Directory, Holder, NameRefusal, Whereabouts};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The owner of all streams and the epoch, and the servers that carry them.
#[derive(Debug, Default)]
struct Registry(Mutex<(u16, u64, Vec<Holder>)>);

fn holder(port: u16, hops: u8) -> Holder {
    let node = NodeName::parse(&format!("n{port}")).unwrap();
    Holder { node, url: format!("http://127.0.0.1:{port}/").parse().unwrap(), hops }
}

impl Directory for Registry {
    fn find(&self, _name: &StreamName) -> Whereabouts {
        let (owner, epoch, _) = &*self.0.lock().unwrap();
        Whereabouts::At { servers: vec![holder(*owner, 0).url], epoch: *epoch }
    }

    fn find_version(&self, _group: &StreamName) -> Whereabouts {
        Whereabouts::Unknown
    }

    fn is_complete(&self) -> bool {
        true
    }

    fn holders(&self, _name: &StreamName, level: Level, from: Option<&NodeName>) -> Vec<Holder> {
        let (owner, _, carriers) = &*self.0.lock().unwrap();
        let mut carriers: Vec<_> = carriers
            .iter()
            .filter(|carrier| carrier.hops < level.hops() && self.may_carry(&carrier.node))
            .cloned()
            .collect();
        carriers.sort_by_key(|carrier| Some(&carrier.node) != from);
        carriers.into_iter().take(1).chain([holder(*owner, 0)]).collect()
    }

    fn gateway(&self, _name: &StreamName, from: &NodeName) -> Option<NodeName> {
        let (owner, _, carriers) = &*self.0.lock().unwrap();
        let first = carriers.iter().find(|carrier| carrier.hops == 1)?;
        (from.as_str() == format!("n{owner}")).then(|| first.node.clone())
    }

    fn may_carry(&self, node: &NodeName) -> bool {
        node.as_str() != "n39"
    }

    fn may_publish(&self, _name: &StreamName, _takes_over: bool) -> Result<(), NameRefusal> {
        Ok(())
    }

    fn publishers_changed(&self) {}
}

fn registry_of(owner: u16, epoch: u64, carriers: &[Holder]) -> Arc<Registry> {
    Arc::new(Registry(Mutex::new((owner, epoch, carriers.to_vec()))))
}

fn set(registry: &Registry, owner: u16, epoch: u64, carriers: &[Holder]) {
    *registry.0.lock().unwrap() = (owner, epoch, carriers.to_vec());
}

fn hub_of(registry: &Arc<Registry>) -> Arc<Hub> {
    let mut settings = Settings { listen: Vec::new(), ..Settings::default() };
    settings.upstream = Some(UpstreamSettings::new(Vec::new()));
    let hub = hub(settings, 1).into_shared();
    hub.arrange_edge().expect("a thread that fetches");
    hub.set_directory(Some(Arc::clone(registry) as Arc<dyn Directory>));
    hub
}

fn demand(hub: &Hub) {
    hub.demand(&name("a"), Mux::MpegTs, &Via::default(), hub.clock.now()).expect("it is asked for");
}

/// From which ports the stream `a` is pulled, in order.
fn asked(hub: &Hub) -> Vec<u16> {
    let pull = hub.demands.pull(&name("a")).expect("it is pulled");
    let glassline_delivery::pull::Source::Http(url) = pull.source else { panic!("over HTTP") };
    [url].iter().chain(&pull.alternates).map(Url::port).collect()
}

/// The address of the server number `turn` of those that are asked.
fn source(hub: &Hub, turn: usize) -> Url {
    let pull = hub.demands.pull(&name("a")).expect("it is pulled");
    let glassline_delivery::pull::Source::Http(url) = pull.source else { panic!("over HTTP") };
    [url]
        .into_iter()
        .chain(pull.alternates)
        .nth(turn)
        .unwrap_or_else(|| "http://127.0.0.1:99/".parse().unwrap())
}

fn begins(hub: &Hub, turn: usize) {
    hub.note_pull(&[name("a")], &source(hub, turn), Ok(()));
}

fn fails(hub: &Hub, turn: usize, error: &PullError) {
    hub.note_pull(&[name("a")], &source(hub, turn), Err(error));
}

fn limit(hub: &Hub, turn: usize) -> Option<u8> {
    hub.pull_limit(&name("a"), &source(hub, turn))
}

fn told(hub: &Hub) -> (Option<String>, Option<u8>) {
    let pulled = hub.pulled().remove(0);
    (pulled.node, pulled.hops)
}

fn carried(hub: &Hub) -> Option<(u64, u8)> {
    hub.carried().get(&name("a")).map(|carried| (carried.epoch, carried.hops))
}

#[test]
fn a_carrier_is_asked_before_the_owner_and_each_for_a_stream_that_has_passed_fewer_servers() {
    let hub = hub_of(&registry_of(9, 4, &[holder(19, 2)]));
    demand(&hub);
    assert_eq!((asked(&hub), told(&hub), carried(&hub)), (vec![19, 9], (None, None), None));
    let limits = |hub: &Hub| [0, 1, 2].map(|turn| limit(hub, turn));
    assert_eq!(
        limits(&hub),
        [Some(3), Some(1), Some(1)],
        "of a server that is asked no more: what its own publisher sends"
    );
    begins(&hub, 0);
    assert_eq!((told(&hub), carried(&hub)), ((Some("n19".to_owned()), Some(3)), Some((4, 3))));
    // It turns to the owner, and never to a server that is as far away as itself again.
    fails(&hub, 0, &PullError::Status { status: 503 });
    assert_eq!((told(&hub), carried(&hub)), ((None, None), None));
    begins(&hub, 1);
    assert_eq!((told(&hub), carried(&hub)), ((Some("n9".to_owned()), Some(1)), Some((4, 1))));
    assert_eq!(limits(&hub), [Some(1); 3]);
    let passed: Vec<_> = hub.passed_over().filter(|(_, count)| *count > 0).collect();
    assert_eq!(passed, [("waits", 1)]);
}

#[test]
fn reasons_for_which_a_carrier_is_passed_over_are_counted_each_and_those_of_an_owner_are_not() {
    let hub = hub_of(&registry_of(9, 4, &[holder(19, 1)]));
    demand(&hub);
    for status in [404, 410, 503, 508, 403] {
        fails(&hub, 0, &PullError::Status { status });
    }
    let silent = PullError::Silent { what: "no byte of the stream", time: Duration::from_secs(1) };
    for error in [
        PullError::Connect(String::new()),
        PullError::Lost(String::new()),
        PullError::Ended,
        silent,
        PullError::BadRedirect(String::new()),
    ] {
        fails(&hub, 0, &error);
        fails(&hub, 1, &error);
    }
    let counts: Vec<u64> = hub.passed_over().map(|(_, count)| count).collect();
    assert_eq!(counts, [2, 1, 1, 1, 1, 1, 1, 1, 1]);
}

#[test]
fn what_comes_from_a_carrier_goes_on_when_the_owner_changes_and_is_told_of_under_the_old_epoch_until_it_has_followed()
 {
    let registry = registry_of(9, 4, &[holder(19, 1)]);
    let hub = hub_of(&registry);
    demand(&hub);
    begins(&hub, 0);
    let table = hub.pulls();
    set(&registry, 29, 5, &[]);
    hub.follow_stream(&name("a"));
    hub.look_at_demands();
    assert_eq!((asked(&hub), carried(&hub)), (vec![19, 9], Some((4, 2))));
    // Another carrier is there before, with fewer viewers or not.
    set(&registry, 29, 5, &[holder(59, 1), holder(19, 1)]);
    hub.look_at_demands();
    assert_eq!(carried(&hub), Some((5, 2)), "it has followed");
    assert!(Arc::ptr_eq(&table, &hub.pulls()), "nothing was interrupted");
    // Behind its end the owner is asked that is heard of now, and not the one from before.
    fails(&hub, 0, &PullError::Ended);
    assert_eq!(asked(&hub), [59, 29]);
    begins(&hub, 0);
    fails(&hub, 0, &PullError::Ended);
    set(&registry, 49, 6, &[holder(59, 1)]);
    hub.look_at_demands();
    assert_eq!(asked(&hub), [59, 49]);
}

#[test]
fn what_comes_from_an_owner_turns_to_the_new_one_and_not_to_what_it_gives_on_itself() {
    let registry = registry_of(9, 4, &[]);
    let hub = hub_of(&registry);
    demand(&hub);
    begins(&hub, 0);
    set(&registry, 9, 5, &[holder(19, 1)]);
    hub.follow_stream(&name("a"));
    assert_eq!((asked(&hub), carried(&hub)), (vec![9], Some((5, 1))), "it is the same server");
    set(&registry, 29, 6, &[holder(19, 1), holder(39, 2)]);
    hub.follow_stream(&name("a"));
    assert_eq!((asked(&hub), carried(&hub)), (vec![29], None));
}

#[test]
fn what_is_pulled_by_the_registry_goes_over_to_the_next_process_with_its_distance() {
    let hub = hub_of(&registry_of(9, 4, &[holder(19, 1)]));
    demand(&hub);
    begins(&hub, 0);
    let left = rmp_serde::to_vec_named(&hub.demands_left()).unwrap();
    let there = hub_of(&registry_of(9, 4, &[]));
    there.inherit_demands(rmp_serde::from_slice(&left).unwrap());
    assert_eq!((asked(&there), told(&there), carried(&there)), (asked(&hub), told(&hub), carried(&hub)));
    assert_eq!(limit(&there, 1), Some(1));
    there.look_at_demands();
    assert_eq!(asked(&there), [19, 9], "it goes on");
}

#[test]
fn without_a_carrier_that_the_registry_names_nothing_is_said_of_hops() {
    let hub = hub_of(&registry_of(9, 4, &[]));
    hub.set_directory(None);
    let mut settings = (*hub.settings()).clone();
    let place = ("a".to_owned(), "http://127.0.0.1:29".parse().unwrap());
    settings.places = glassline_streams::StaticDirectory::new([place]).unwrap();
    hub.reconfigure(settings);
    demand(&hub);
    begins(&hub, 0);
    assert_eq!((asked(&hub), limit(&hub, 0), carried(&hub)), (vec![29], None, None));
    assert!(hub.pulled().is_empty());
}

/// A connection of a server that has this registry, and the answer to a server that asks with this limit.
fn status(first: &Stage, token: u64, limit: u8) -> String {
    let mut stage = beside(first, PEER, token);
    let fields = format!("Via: 1.1 glassline-0000000000000001\r\nGlassline-Hops: {limit}\r\n");
    stage.say(format!("GET /live/a.ts HTTP/1.1\r\nHost: h\r\n{fields}\r\n"));
    stage.turn();
    let heard = String::from_utf8_lossy(&stage.heard()).into_owned();
    heard.split(' ').nth(1).unwrap_or("waits").to_owned()
}

#[test]
fn a_server_gives_on_what_it_has_to_those_farther_away_alone_and_pulls_nothing_for_others() {
    let first = stage(|settings| settings.upstream = Some(UpstreamSettings::new(Vec::new())));
    first.hub.arrange_edge().expect("a thread that fetches");
    first.hub.set_directory(Some(registry_of(9, 4, &[]) as Arc<dyn Directory>));
    assert_eq!(status(&first, 8, HOPS_MAX), "503", "it has said long ago that it had it");
    assert!(!first.hub.demands.has(&name("a")));
    first.hub.demand(&name("a"), Mux::MpegTs, &Via::default(), first.now).expect("it is asked for");
    assert_eq!(status(&first, 9, HOPS_MAX), "503", "it waits itself");
    let mut pulled = first.hub.streams.publish(&name("a"), Mux::MpegTs).expect("the pull's own slot");
    pulled.push(&crate::test_connections::opening(3).1).expect("it has the slot");
    begins(&first.hub, 0);
    assert_eq!([1, 2, 3].map(|limit| status(&first, 9 + u64::from(limit), limit)), ["508", "200", "200"]);
}

#[test]
fn a_server_with_the_publisher_gives_the_stream_to_all() {
    let first = stage(|settings| settings.upstream = Some(UpstreamSettings::new(Vec::new())));
    first.hub.arrange_edge().expect("a thread that fetches");
    first.hub.set_directory(Some(registry_of(9, 4, &[]) as Arc<dyn Directory>));
    let mut publisher = first.hub.publish(&name("a")).expect("a free name");
    publisher.push(&crate::test_connections::opening(3).1).expect("it has the slot");
    assert_eq!(status(&first, 8, 1), "200");
}

#[test]
fn what_comes_from_a_carrier_that_is_dead_or_emptied_turns_to_another_server() {
    let hub = hub_of(&registry_of(9, 4, &[]));
    let registry = registry_of(9, 4, &[holder(19, 1)]);
    demand(&hub);
    {
        let mut demands = hub.demands.lock();
        let descent = &mut demands.get_mut(&name("a")).unwrap().descent;
        (descent.holders, descent.epoch) = (vec![holder(39, 1), holder(9, 0)], 4);
    }
    hub.set_directory(Some(registry as Arc<dyn Directory>));
    begins(&hub, 0);
    assert_eq!(told(&hub), (Some("n39".to_owned()), Some(2)));
    hub.look_at_demands();
    assert_eq!((asked(&hub), told(&hub)), (vec![19, 9], (None, None)));
    begins(&hub, 0);
    hub.look_at_demands();
    assert_eq!(told(&hub), (Some("n19".to_owned()), Some(2)), "and stays there");
}

#[test]
fn what_a_server_says_that_is_asked_no_more_is_not_taken_for_what_another_one_says() {
    let registry = registry_of(9, 4, &[]);
    let hub = hub_of(&registry);
    demand(&hub);
    begins(&hub, 0);
    let former = source(&hub, 0);
    set(&registry, 29, 5, &[]);
    hub.follow_stream(&name("a"));
    assert_eq!((asked(&hub), carried(&hub)), (vec![29], None));
    // The pulling thread has not heard yet that another server is asked.
    hub.note_pull(&[name("a")], &former, Ok(()));
    assert_eq!((told(&hub), carried(&hub)), ((None, None), None));
    begins(&hub, 0);
    hub.note_pull(&[name("a")], &former, Err(&PullError::Ended));
    assert_eq!(told(&hub), (Some("n29".to_owned()), Some(1)));
}

#[test]
fn what_comes_from_another_zone_is_pulled_from_the_gateway_of_this_one_later_unless_it_is_given_on() {
    let registry = registry_of(9, 4, &[]);
    let hub = hub_of(&registry);
    demand(&hub);
    begins(&hub, 0);
    set(&registry, 9, 4, &[holder(19, 1)]);
    let looks = |hub: &Hub, is_due: bool| {
        if is_due {
            hub.demands.lock().get_mut(&name("a")).unwrap().descent.looks_at = Time::ZERO;
        }
        hub.turn_to_gateways(hub.clock.now());
        asked(hub)
    };
    assert_eq!(looks(&hub, false), [9], "it has just been chosen");
    // Servers that have it from here would have it from one as far away as themselves.
    hub.demands.begin_giving(&name("a"));
    assert_eq!(looks(&hub, true), [9]);
    assert_eq!(looks(&hub, false), [9], "it is looked once in a while");
    hub.demands.end_giving(&name("a"));
    let _ = hub.may_give_on(&name("a"), None, HOPS_MAX);
    assert_eq!(looks(&hub, true), [9], "it is about to be given on");
    hub.demands.lock().get_mut(&name("a")).unwrap().given_at = Time::ZERO;
    assert_eq!(looks(&hub, true), [19, 9]);
    assert_eq!((limit(&hub, 0), limit(&hub, 1), carried(&hub)), (Some(2), Some(1), None));
    begins(&hub, 0);
    assert_eq!((told(&hub), carried(&hub)), ((Some("n19".to_owned()), Some(2)), Some((4, 2))));
    hub.look_at_demands();
    assert_eq!(looks(&hub, true), [19, 9], "and stays there");
    // Where that one gives nothing, the stream comes from the owner again.
    fails(&hub, 0, &PullError::Ended);
    begins(&hub, 1);
    assert_eq!(told(&hub), (Some("n9".to_owned()), Some(1)));
    assert_eq!(
        (looks(&hub, true), told(&hub)),
        (vec![19, 9], (Some("n9".to_owned()), Some(1))),
        "for a while"
    );
    let table = hub.pulls();
    hub.demands.lock().get_mut(&name("a")).unwrap().descent.shunned = None;
    assert_eq!(looks(&hub, true), [19, 9], "the same servers, of which the first is asked anew");
    assert!(!Arc::ptr_eq(&table, &hub.pulls()) && told(&hub) == (None, None));
    begins(&hub, 0);
    assert_eq!(told(&hub), (Some("n19".to_owned()), Some(2)));
    fails(&hub, 0, &PullError::Ended);
    begins(&hub, 1);
    assert_eq!(told(&hub), (Some("n9".to_owned()), Some(1)));
    let descent = &hub.demands.lock()[&name("a")].descent;
    let (now, node) = (hub.clock.now(), NodeName::parse("n19").unwrap());
    assert!(descent.shuns(&node, now) && !descent.shuns(&node, now + Duration::from_secs(121)));
}
