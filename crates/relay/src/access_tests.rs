use super::*;
use glassline_delivery::http1::Limits;
use glassline_delivery::http1::server::{Event, Server};
use glassline_edge::CacheStatus;

fn open(wire: &str) -> OpenRequest {
    let mut server = Server::new(Limits::DEFAULT, Time::ZERO);
    match server.next(&mut wire.as_bytes(), Time::ZERO) {
        Ok(Some(Event::Request(request))) => OpenRequest::new(&request, Time::from_millis(1000)),
        other => panic!("{other:?}"),
    }
}

const WIRE: &str = "HEAD /live/a/seg1.m4s?token=secret HTTP/1.1\r\nHost: h\r\nUser-Agent: a player\r\nAuthorization: Bearer secret\r\n\r\n";
const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7));

#[test]
fn an_exchange_is_told_without_what_may_be_a_secret() {
    let told = open(WIRE).over(PEER, 200, 0, Time::from_millis(1250));
    let expected = Access {
        peer: PEER,
        verb: "HEAD",
        path: "/live/a/seg1.m4s".to_owned(),
        protocol: "HTTP/1.1".to_owned(),
        status: 200,
        bytes: 0,
        took: Duration::from_millis(250),
        user_agent: Some("a player".to_owned()),
        object: None,
    };
    assert!(!format!("{told:?}").contains("secret"));
    assert_eq!(told, expected);
}

#[test]
fn an_object_is_told_with_its_source_and_its_first_byte() {
    let mut open = open(WIRE);
    open.first_byte(ObjectSource::Upstream(CacheStatus::Miss), Duration::from_millis(30));
    open.first_byte(ObjectSource::Packaged, Duration::from_millis(40));
    let told = open.over(PEER, 206, 77, Time::from_millis(1000));
    assert_eq!(told.object, Some((ObjectSource::Packaged, Duration::from_millis(40))));
    assert_eq!((told.status, told.bytes, told.took), (206, 77, Duration::ZERO));
}

#[test]
fn an_open_request_goes_over_to_the_next_process_but_for_its_object() {
    let mut left = open("GET /a HTTP/1.0\r\n\r\n");
    left.first_byte(ObjectSource::Packaged, Duration::from_millis(40));
    let bytes = rmp_serde::to_vec_named(&left).unwrap();
    let there: OpenRequest = rmp_serde::from_slice(&bytes).unwrap();
    let told = there.over(PEER, GONE, 5, Time::from_millis(3000));
    assert_eq!((told.object, told.protocol.as_str(), told.user_agent), (None, "HTTP/1.0", None));
    assert_eq!((told.took, told.status), (Duration::from_secs(2), 499));
}
