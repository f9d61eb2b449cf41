use super::*;
use crate::link::{Endpoint, Local};
use glassline_test_support::wait::PATIENCE;
use glassline_transport::link::{Credentials, Key, Settings};

fn endpoint(listen: bool) -> Endpoint {
    let settings = Settings { listen, ..Settings::new(Credentials::Shared(Key([7; 32]))) };
    Endpoint::open(settings, &[Local::at("127.0.0.1:0".parse().unwrap())]).unwrap()
}

#[test]
fn the_link_that_came_last_is_served_until_it_ends() {
    let (air, ground) = (endpoint(false), endpoint(true));
    let latest = Latest::default();
    let [one, other] = [(); 2].map(|()| air.connect(ground.local_addresses()[0]).unwrap());
    let first = latest.begin();
    assert!(latest.wait_connected(first, &one, || false).is_ok());
    assert!(!latest.is_over(first, &one));
    let second = latest.begin();
    assert!(latest.is_over(first, &one) && !latest.is_over(second, &other));
    other.close("over");
    assert!(latest.is_over(second, &other));
}

#[test]
fn a_wait_for_a_link_ends_with_the_link_with_the_next_one_or_with_the_source() {
    let (air, silent) = (endpoint(false), std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
    let link = air.connect(silent.local_addr().unwrap()).unwrap();
    let latest = Latest::default();
    let turn = latest.begin();
    assert_eq!(latest.wait_connected(turn, &link, || true), Err(Served::All));
    // The next one comes while this one is waited for.
    let next = |_: &()| {
        latest.begin();
        false
    };
    assert_eq!(latest.wait_connected(turn, &link, || next(&())), Err(Served::ThisLink));
    let turn = latest.begin();
    link.close("over");
    assert_eq!(latest.wait_connected(turn, &link, || false), Err(Served::ThisLink));
}

#[test]
fn a_link_that_comes_up_while_it_is_waited_for_is_served() {
    let (air, ground) = (endpoint(false), endpoint(true));
    let link = air.connect(ground.local_addresses()[0]).unwrap();
    let latest = Latest::default();
    assert_eq!(latest.wait_connected(latest.begin(), &link, || false), Ok(()));
    assert!(link.is_connected() && ground.accept_timeout(PATIENCE).unwrap().is_some());
}
