use super::*;
use crate::Settings;
use crate::test_streams::{hub, name};
use glassline_delivery::policy::{Credential, Protocol, PublishPolicy, Rules, StreamRules, WatchPolicy};
use glassline_delivery::stream::Mux;
use glassline_doors::entrance::{Attendance, Client, Contribution, Over, Refused};
use glassline_media::container::ts::PACKET_BYTES;
use glassline_streams::presence::Purpose;
use glassline_streams::{Origin, SlotRequest};
use std::sync::Arc;
use std::task::Waker;

const PEER: &str = "192.0.2.7:5000";

fn client(key: Option<&'static str>) -> Client<'static> {
    let credential = Credential { key: key.map(Into::into), ..Credential::default() };
    Client { peer: PEER.parse().unwrap(), protocol: Protocol::Srt, credential, program: None }
}

fn server(change: impl FnOnce(&mut Settings)) -> (Arc<Hub>, Arc<dyn Entrance>) {
    let publish = PublishPolicy { key: Some("publisher".into()), ..PublishPolicy::default() };
    let general = StreamRules { publish, ..StreamRules::default() };
    let mut settings = Settings { rules: Rules { general, ..Rules::default() }, ..Settings::default() };
    change(&mut settings);
    let hub = hub(settings, 1).into_shared();
    (Arc::clone(&hub), hub)
}

fn count(hub: &Hub, purpose: Purpose) -> usize {
    let mut seen = 0;
    let peer = PEER.parse::<std::net::SocketAddr>().unwrap().ip();
    let _ = hub.presence.enter(peer, purpose, 0, |of_address, _| {
        seen = of_address.count;
        Err::<(), ()>(())
    });
    seen
}

fn null_packet() -> [u8; PACKET_BYTES] {
    let mut packet = [0xff; PACKET_BYTES];
    packet[..4].copy_from_slice(&[0x47, 0x1f, 0xff, 0x10]);
    packet
}

#[test]
fn a_publisher_at_a_door_has_the_rules_of_all_publishers() {
    let (hub, server) = server(|settings| {
        settings.max_publishers_per_address = 1;
        settings.max_streams = 1;
        settings.reserved.insert(name("inside"));
    });
    let refused = |key, stream: &str| {
        Contribution::enter(&server, &client(key), &name(stream), true).map(drop).unwrap_err()
    };
    assert_eq!(refused(None, "a").status(), 401);
    assert_eq!(refused(Some("publisher"), "inside").status(), 409);
    assert_eq!(count(&hub, Purpose::Publish), 0, "one that is refused is not counted");

    let first = Contribution::enter(&server, &client(Some("publisher")), &name("a"), false).unwrap();
    assert_eq!(refused(Some("publisher"), "b"), Refused::Publishers(1));
    assert!(first.is_held());
    drop(first);
    assert_eq!(count(&hub, Purpose::Publish), 0);
    drop(Contribution::enter(&server, &client(Some("publisher")), &name("a"), false).unwrap());
}

#[test]
fn a_publisher_loses_its_name_to_one_that_takes_over_and_to_no_other() {
    let (_hub, server) = server(|_| {});
    let enter = |take_over| Contribution::enter(&server, &client(Some("publisher")), &name("a"), take_over);
    let mut first = enter(false).unwrap();
    assert_eq!(enter(false).unwrap_err().status(), 409);
    first.push(&null_packet()).unwrap();
    let mut second = enter(true).unwrap();
    assert!(matches!(first.push(&null_packet()), Err(Over::Evicted)));
    second.push(&null_packet()).unwrap();
    drop(first);
    assert!(second.is_held(), "what is over gives nothing up any more");
    assert_eq!(second.bytes(), 188);
}

#[test]
fn a_publisher_that_sends_more_than_it_may_is_ended() {
    let (_hub, server) = server(|settings| settings.rules.general.max_publish_bps = Some(8 * 188));
    let mut publisher = Contribution::enter(&server, &client(Some("publisher")), &name("a"), false).unwrap();
    // What may come at once is the rate of five seconds.
    (0..5).for_each(|_| publisher.push(&null_packet()).unwrap());
    let over = (0..2).find_map(|_| publisher.push(&null_packet()).err());
    assert!(matches!(over, Some(Over::TooFast { limit_bps: 1504 })), "{over:?}");
}

#[test]
fn a_viewer_at_a_door_is_counted_and_has_the_limits_of_all_viewers() {
    let watch = WatchPolicy { max_per_stream: 1, ..WatchPolicy::default() };
    let (hub, server) = server(|settings| settings.rules.general.watch = watch);
    let enter =
        |stream: &str| Attendance::enter(&server, &client(None), &name(stream), Waker::noop().clone());
    assert_eq!(enter("a").unwrap_err(), Refused::Absent(name("a")));
    let publisher = Contribution::enter(&server, &client(Some("publisher")), &name("a"), false).unwrap();
    let viewer = enter("a").unwrap();
    let viewers = || hub.stream(&name("a")).map_or(0, |status| status.viewers);
    assert_eq!((viewers(), count(&hub, Purpose::Watch)), (1, 1));
    assert!(matches!(enter("a"), Err(Refused::Full(_))));
    drop(viewer);
    assert_eq!((viewers(), count(&hub, Purpose::Watch)), (0, 0));
    drop(publisher);

    let flv = SlotRequest {
        name: &name("f"),
        mux: Mux::Flv,
        origin: Origin::Inside,
        take_over: false,
        piece: None,
    };
    let _flv = hub.streams.acquire(flv).unwrap();
    assert_eq!(enter("f").unwrap_err(), Refused::Mux(Mux::Flv));
}

#[test]
fn a_stream_with_a_key_tells_strangers_the_same_whether_it_is_there_or_not() {
    let watch = WatchPolicy { key: Some("a-viewer-key".into()), ..WatchPolicy::default() };
    let (_hub, server) = server(|settings| settings.rules.general.watch = watch);
    let enter = |key, stream: &str| {
        Attendance::enter(&server, &client(key), &name(stream), Waker::noop().clone()).map(drop)
    };
    let _publisher = Contribution::enter(&server, &client(Some("publisher")), &name("a"), false).unwrap();
    let (there, absent) = (enter(None, "a").unwrap_err(), enter(None, "b").unwrap_err());
    assert_eq!((&there, there.status()), (&absent, 401));
    assert_eq!(enter(Some("a-viewer-key"), "a"), Ok(()));
}

#[test]
fn a_door_sends_viewers_that_come_to_another_server_while_this_one_is_emptied_and_that_one_is_there() {
    #[derive(Debug)]
    struct Other(Option<&'static str>);
    impl glassline_streams::Directory for Other {
        fn find(&self, _name: &StreamName) -> glassline_streams::Whereabouts {
            glassline_streams::Whereabouts::Unknown
        }
        fn find_version(&self, _group: &StreamName) -> glassline_streams::Whereabouts {
            glassline_streams::Whereabouts::Unknown
        }
        fn is_complete(&self) -> bool {
            true
        }
        fn refuge(&self, _name: &StreamName) -> Option<Url> {
            self.0.map(|url| url.parse().unwrap())
        }
        fn may_publish(&self, _: &StreamName, _: bool) -> Result<(), glassline_streams::NameRefusal> {
            Ok(())
        }
        fn publishers_changed(&self) {}
    }
    let (hub, server) = server(|_| {});
    let _publisher = hub.publish(&name("a")).unwrap();
    let watch = || Attendance::enter(&server, &client(None), &name("a"), Waker::noop().clone());
    let publish = || Contribution::enter(&server, &client(Some("publisher")), &name("b"), false).map(drop);
    hub.drain(Some(std::time::Duration::ZERO));
    hub.set_directory(Some(Arc::new(Other(None)) as _));
    let viewer = watch().unwrap();
    hub.set_directory(Some(Arc::new(Other(Some("http://other.example:8080/"))) as _));
    let refused = watch().unwrap_err();
    assert_eq!(refused, Refused::Draining { name: name("a"), host: "other.example".to_owned() });
    assert_eq!((refused.status(), publish().unwrap_err().status()), (503, 503));
    assert_eq!(viewer.live().viewers(), 1, "what runs goes on");
    hub.drain(None);
    watch().unwrap();
    publish().unwrap();
}
