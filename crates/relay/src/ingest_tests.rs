use super::*;
use crate::settings::Settings;
use crate::test_connections::counted;
use crate::test_streams::{hub, name};
use glassline_delivery::http1::Limits;
use glassline_delivery::http1::server::{Event, Server};
use std::time::Duration;

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
const FAR: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7));
const ID: ConnectionId = ConnectionId { worker: 0, token: 7 };

fn request(query: &str, fields: &str) -> Request {
    let wire = format!("PUT /live/a/video.cmfv{query} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
    let mut server = Server::new(Limits::DEFAULT, Time::ZERO);
    match server.next(&mut wire.as_bytes(), Time::ZERO) {
        Ok(Some(Event::Request(request))) => *request,
        other => panic!("{other:?}"),
    }
}

/// A publisher of the stream `a`, as `request` of `address` asks for it at `now`.
fn enter(
    hub: &Hub,
    request: &Request,
    address: IpAddr,
    now: Time,
    meter: Option<Meter>,
) -> Result<Arc<IngestSession>, AcquireError> {
    let asking = Asking {
        name: &name("a"),
        request,
        address,
        protocol: Protocol::Http,
        connection: ID,
        meter,
        take_over: asks_to_take_over(request),
    };
    hub.ingests.enter(hub, asking, now, || {
        hub.presence.count(address, Purpose::Publish, 0);
        Ok(())
    })
}

fn publishers(hub: &Hub, address: IpAddr) -> usize {
    counted(hub, address, Purpose::Publish)
}

#[test]
fn requests_with_one_credential_are_one_publishers() {
    let (hub, now) = (hub(Settings::default(), 1), Time::from_millis(5));
    let keyed = request("", "Authorization: Bearer one\r\n");
    let first = enter(&hub, &keyed, HERE, now, None).unwrap();
    assert!(Arc::ptr_eq(&first, &enter(&hub, &keyed, HERE, now, None).unwrap()));
    let mapped = "::ffff:127.0.0.1".parse().unwrap();
    assert!(Arc::ptr_eq(&first, &enter(&hub, &keyed, mapped, now, None).unwrap()), "it is the same address");
    assert_eq!((publishers(&hub, HERE), hub.ingests.counts().publishers), (1, 1));
    for (other, address) in [
        (request("", ""), HERE),
        (request("?key=one", ""), HERE),
        (request("", "Authorization: Bearer two\r\n"), HERE),
        (keyed, FAR),
    ] {
        let refused = enter(&hub, &other, address, now, None).unwrap_err();
        assert!(matches!(refused, AcquireError::Taken { .. }), "{refused:?}");
    }
    assert_eq!((publishers(&hub, HERE), publishers(&hub, FAR)), (1, 0));
}

#[test]
fn a_publisher_that_takes_over_ends_the_one_before() {
    let (hub, now) = (hub(Settings::default(), 1), Time::from_millis(5));
    let first = enter(&hub, &request("", ""), HERE, now, None).unwrap();
    let body = first.begin("video.cmfv", now).unwrap();
    let second = enter(&hub, &request("?takeover=true", ""), FAR, now, None).unwrap();
    assert!(!Arc::ptr_eq(&first, &second));
    assert_eq!((publishers(&hub, HERE), publishers(&hub, FAR)), (0, 1));
    assert_eq!(first.begin("audio.cmfa", now), Err(Refused::Over(Over::Evicted)));
    assert_eq!(first.push(body, b"x", &hub, now).0, Err(Refused::Over(Over::Evicted)));
    assert_eq!(first.outcome(body), Some(Err(Refused::Over(Over::Evicted))));
    assert_eq!((first.close(body, &hub, now), first.handle_timeout(&hub, now)), (None, None));
    assert!(second.begin("video.cmfv", now).is_ok());
}

#[test]
fn a_publisher_whose_stream_another_one_has_taken_is_over() {
    let (hub, now) = (hub(Settings::default(), 1), Time::from_millis(5));
    let session = enter(&hub, &request("", ""), HERE, now, None).unwrap();
    let body = session.begin("video.cmfv", now).unwrap();
    assert_eq!(session.outcome(body), None);
    hub.streams.find(&name("a")).unwrap().acquire(None, true, None, now);
    assert_eq!(session.outcome(body), Some(Err(Refused::Over(Over::Evicted))));
    hub.look_at_ingests(now);
    assert_eq!((publishers(&hub, HERE), hub.ingests.counts().publishers), (0, 0));
    assert_eq!(hub.counters.timed_out.value(), 0);
}

#[test]
fn a_publisher_that_is_silent_for_too_long_is_over_and_its_name_is_free() {
    let hub = hub(Settings { silence_timeout: Duration::from_secs(5), ..Settings::default() }, 1);
    let at = Time::from_millis;
    let session = enter(&hub, &request("", ""), HERE, at(1000), None).unwrap();
    session.begin("video.cmfv", at(3000)).unwrap();
    let silent = at(8000) + session.expected_quiet();
    hub.look_at_ingests(at(7999));
    assert_eq!(hub.ingests.counts().publishers, 1);
    hub.look_at_ingests(silent);
    assert_eq!((hub.ingests.counts().publishers, hub.counters.timed_out.value()), (0, 1));
    assert_eq!((publishers(&hub, HERE), hub.streams.find(&name("a")).unwrap().published_since()), (0, None));
    assert_eq!(session.begin("video.cmfv", silent), Err(Refused::Over(Over::Silent)));
    assert!(enter(&hub, &request("", ""), FAR, silent, None).is_ok());
}

#[test]
fn a_publisher_that_sends_more_than_it_may_is_over() {
    let (hub, now) = (hub(Settings::default(), 1), Time::from_millis(5));
    let session = enter(&hub, &request("", ""), HERE, now, Some(Meter::new(8000, now))).unwrap();
    let body = session.begin("video.cmfv", now).unwrap();
    // Five seconds' worth may come at once.
    let (refused, _) = session.push(body, &[0; 5001], &hub, now);
    let over = Over::TooFast { limit_bps: 8000 };
    assert_eq!(refused, Err(Refused::Over(over)));
    assert_eq!((publishers(&hub, HERE), session.outcome(body)), (0, Some(Err(Refused::Over(over)))));
    assert_eq!(hub.streams.find(&name("a")).unwrap().published_since(), None);
}

#[test]
fn a_fault_in_a_publishers_tracks_ends_it_and_no_other() {
    let (hub, now) = (hub(Settings::default(), 1), Time::from_millis(5));
    let session = enter(&hub, &request("", ""), HERE, now, None).unwrap();
    let body = session.begin("video.cmfv", now).unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _core = session.lock();
        panic!("a test's");
    }));
    assert!(panicked.is_err());
    assert_eq!(session.push(body, b"x", &hub, now).0, Err(Refused::Over(Over::Fault)));
    assert_eq!(session.outcome(body), Some(Err(Refused::Over(Over::Fault))));
    hub.look_at_ingests(now);
    assert_eq!((hub.ingests.counts().publishers, publishers(&hub, HERE)), (0, 0));
}

#[test]
fn what_enter_refuses_takes_no_name() {
    let hub = hub(Settings { max_streams: 1, ..Settings::default() }, 1);
    let _other = hub.streams.acquire(SlotRequest {
        name: &name("b"),
        mux: Mux::MpegTs,
        origin: Origin::Inside,
        take_over: false,
        piece: None,
    });
    let refused = enter(&hub, &request("", ""), HERE, Time::ZERO, None);
    assert!(matches!(refused, Err(AcquireError::TooMany { .. })), "{refused:?}");
    assert_eq!((publishers(&hub, HERE), hub.ingests.counts().publishers), (0, 0));
}

#[test]
fn a_publisher_of_one_stream_makes_no_way_and_needs_none() {
    let (hub, now) = (hub(Settings::default(), 1), Time::from_millis(5));
    assert!(hub.ingests.make_way(&name("a"), false, &hub, now), "no publisher is there");
    let session = enter(&hub, &request("", ""), HERE, now, None).unwrap();
    // The stream's own slot decides.
    assert!(hub.ingests.make_way(&name("a"), true, &hub, now));
    assert!(session.begin("video.cmfv", now).is_ok());
    // A ladder has its name to itself.
    session.lock().is_ladder = true;
    assert!(!hub.ingests.make_way(&name("a"), false, &hub, now));
    assert!(hub.ingests.make_way(&name("a"), true, &hub, now));
    assert_eq!(session.begin("video.cmfv", now), Err(Refused::Over(Over::Evicted)));
    assert_eq!((hub.ingests.counts().publishers, publishers(&hub, HERE)), (0, 0));
}

#[test]
fn a_publisher_ends_once() {
    let (hub, now) = (hub(Settings::default(), 1), Time::from_millis(5));
    let session = enter(&hub, &request("", ""), HERE, now, None).unwrap();
    hub.presence.count(HERE, Purpose::Publish, 0);
    hub.ingests.retire(&session, Over::Silent, &hub, now);
    hub.ingests.retire(&session, Over::Ended, &hub, now);
    assert_eq!(publishers(&hub, HERE), 1, "it has given back one place, its own");
    assert_eq!(session.begin("video.cmfv", now), Err(Refused::Over(Over::Silent)), "the first reason stays");
}

#[test]
fn each_end_is_explained_by_a_status_and_what_to_do() {
    for (over, status, words) in [
        (Over::Evicted, 409, "?takeover=1"),
        (Over::Silent, 408, "put the headers again"),
        (Over::Ended, 408, "put the headers again"),
        (Over::TooFast { limit_bps: 1 }, 429, "max_bitrate"),
        (Over::NoRoom, 507, "publish again later"),
        (Over::Fault, 500, "the server's log"),
    ] {
        let (told, advice) = Refused::from(over).explain();
        assert!(told == status && advice.contains(words), "{over:?}: {told} {advice}");
    }
    assert_eq!(Over::TooFast { limit_bps: 8000 }.to_string(), "more than 8000 bit/s");
}

#[test]
fn a_credential_is_the_one_beside_the_address_or_else_the_one_in_it() {
    assert_eq!(credential(&request("", "")), None);
    assert_eq!(credential(&request("?key=in", "")), Some(Secret::new("in")));
    assert_eq!(
        credential(&request("?key=in", "Authorization: Bearer beside\r\n")),
        Some(Secret::new("Bearer beside"))
    );
    for (query, takes_over) in [
        ("", false),
        ("?takeover=1", true),
        ("?takeover=true", true),
        ("?takeover=0", false),
        ("?takeover", false),
    ] {
        assert_eq!(asks_to_take_over(&request(query, "")), takes_over, "{query}");
    }
}
