use super::super::super::testing::at;
use super::*;
use glassline_test_support::wait::until;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn server(url: &str) -> Server {
    Server::new(url.parse().unwrap(), 7)
}

fn millis(millis: u64) -> Time {
    Time::from_millis(millis)
}

/// The resolver's answer to a server of this name, which it is asked for.
fn answer(server: &mut Server, found: io::Result<Vec<SocketAddr>>) {
    let (answers, answer) = channel();
    answers.send(found).unwrap();
    server.resolving = Some(answer);
}

#[test]
fn a_server_with_a_number_has_its_address_and_is_never_looked_up() {
    for (url, address) in [
        ("http://192.0.2.1", "192.0.2.1:80"),
        ("https://192.0.2.1/x", "192.0.2.1:443"),
        ("http://[::1]:81", "[::1]:81"),
    ] {
        let mut server = server(url);
        assert!(server.is_well(at(0)) && server.has_address(), "{url}");
        server.look_up(at(0), || panic!("there is no answer"));
        assert!(!server.is_resolving());
        assert_eq!(server.next_address(), Some(address.parse().unwrap()));
    }
}

#[test]
fn a_name_without_an_address_cannot_be_asked() {
    let mut server = server("http://origin.example");
    assert!(!server.is_well(at(0)) && !server.has_address() && !server.is_resolving());
    assert_eq!(server.next_address(), None);
    server.take_addresses(at(0));
    assert!(!server.has_address(), "nothing was looked up");
}

#[test]
fn a_name_is_looked_up_in_the_background_and_wakes_when_it_is_found() {
    let mut server = server("http://localhost:81");
    let woken = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&woken);
    server.look_up(at(5), move || _ = seen.fetch_add(1, Ordering::SeqCst));
    assert!(server.is_resolving() && !server.is_well(at(5)));
    server.look_up(at(5), || panic!("it is asked for once at a time"));
    until("the resolver", || woken.load(Ordering::SeqCst) == 1);
    server.take_addresses(at(6));
    assert!(server.is_well(at(6)) && !server.is_resolving());
    assert!(server.next_address().is_some_and(|address| address.ip().is_loopback() && address.port() == 81));
}

#[test]
fn addresses_take_turns() {
    let mut server = server("http://origin.example:80");
    let addresses: Vec<SocketAddr> =
        ["192.0.2.1:80", "192.0.2.2:80", "192.0.2.3:80"].iter().map(|it| it.parse().unwrap()).collect();
    answer(&mut server, Ok(addresses.clone()));
    server.take_addresses(at(1));
    let mut three: Vec<_> = (0..3).filter_map(|_| server.next_address()).collect();
    let again = server.next_address();
    assert_eq!(again, Some(three[0]));
    three.sort();
    assert_eq!(three, addresses);
}

#[test]
fn addresses_are_believed_for_a_minute() {
    let mut server = server("http://origin.example:80");
    answer(&mut server, Ok(vec!["192.0.2.1:80".parse().unwrap()]));
    server.take_addresses(at(10));
    server.look_up(at(69), || {});
    assert!(!server.is_resolving());
    // What is looked up next is not to ask the network.
    server.url = "http://localhost".parse().unwrap();
    server.look_up(at(70), || {});
    assert!(server.is_resolving() && server.is_well(at(70)), "meanwhile the old ones are good");
}

#[test]
fn a_name_that_is_not_found_is_a_failure_of_its_server() {
    let mut server = server("http://origin.example:80");
    answer(&mut server, Ok(vec!["192.0.2.1:80".parse().unwrap()]));
    server.take_addresses(at(0));
    answer(&mut server, Err(io::ErrorKind::NotFound.into()));
    server.take_addresses(at(60));
    assert!(!server.is_well(at(60)) && server.has_address() && !server.is_resolving());
}

#[test]
fn a_server_that_fails_rests_for_a_time_that_doubles() {
    let mut server = server("http://192.0.2.1");
    let mut now = at(100);
    let (mut least, mut rests) = (Duration::from_millis(100), Vec::new());
    for _ in 0..9 {
        server.fail(now);
        let until = server.down_until.unwrap();
        let rest = until.since(now);
        rests.push(rest);
        assert!(!server.is_well(
            until.since(Time::ZERO).checked_sub(Duration::from_nanos(1)).map(|it| Time::ZERO + it).unwrap()
        ));
        assert!(server.is_well(until));
        assert!(rest >= least && rest <= least * 2, "{rest:?}");
        least = (least * 2).min(Duration::from_secs(5));
        now = until;
    }
    assert!(rests[0] <= BACKOFF[0] && rests[8] <= BACKOFF[1], "{rests:?}");
}

#[test]
fn failures_of_one_rest_are_one() {
    let mut server = server("http://192.0.2.1");
    server.fail(millis(1000));
    let until = server.down_until;
    server.fail(millis(1001));
    assert_eq!(server.down_until, until, "connections that were open fail together");
}

#[test]
fn an_answer_ends_the_rest_and_the_next_failure_is_a_first_one() {
    let mut server = server("http://192.0.2.1");
    for second in [0, 20, 40, 60] {
        server.fail(at(second));
    }
    server.succeed();
    assert!(server.is_well(at(60)));
    server.fail(at(61));
    assert!(server.is_well(at(61) + BACKOFF[0]) && !server.is_well(at(61)));
}

#[test]
fn refusals_are_told_once_in_a_minute_whatever_they_are() {
    let mut server = server("http://edge:KEY@192.0.2.1");
    server.tell_refusal(Refusal::OurKey, "/live/a.ts", at(5));
    assert_eq!(server.refusal_told, Some(at(5)));
    server.tell_refusal(Refusal::Asked, "/live/b.ts", at(64));
    assert_eq!(server.refusal_told, Some(at(5)));
    server.tell_refusal(Refusal::Asked, "/live/b.ts?token=secret", at(65));
    assert_eq!(server.refusal_told, Some(at(65)));
}
