use super::*;
use glassline_test_support::wait::PATIENCE;
use glassline_transport::link::{CloseReason, Credentials, Event, Key};

fn settings() -> Settings {
    Settings::new(Credentials::Shared(Key([7; 32])))
}

fn open(locals: &[&str]) -> Endpoint {
    let locals: Vec<_> = locals.iter().map(|local| Local::at(local.parse().unwrap())).collect();
    Endpoint::open(settings(), &locals).unwrap()
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[test]
fn a_socket_reaches_addresses_of_its_family_and_one_of_both_reaches_all() {
    for (local, remote, is_so) in [
        ("127.0.0.1:1", "192.0.2.1:2", true),
        ("127.0.0.1:1", "[2001:db8::1]:2", false),
        ("[::1]:1", "[2001:db8::1]:2", true),
        ("[::1]:1", "192.0.2.1:2", false),
        ("[::]:1", "192.0.2.1:2", true),
        ("0.0.0.0:1", "[2001:db8::1]:2", false),
    ] {
        assert_eq!(reaches(address(local), address(remote)), is_so, "{local} to {remote}");
    }
}

#[test]
fn addresses_are_tried_in_their_order_by_the_first_socket_of_their_family() {
    let endpoint = open(&["127.0.0.1:0", "127.0.0.1:0"]);
    let paths = endpoint.paths_to(&["192.0.2.1:7", "[2001:db8::1]:7", "192.0.2.2:8"].map(address));
    let told: Vec<_> = paths.iter().map(|path| (path.remote, path.via)).collect();
    assert_eq!(told, [(address("192.0.2.1:7"), 0), (address("192.0.2.2:8"), 0)]);
    assert!(matches!(endpoint.connect(address("[2001:db8::1]:7")), Err(Error::NoAddress)));
    assert!(matches!(endpoint.connect_any(&[]), Err(Error::NoAddress)));
}

#[test]
fn an_endpoint_has_one_to_255_sockets() {
    let none = Endpoint::open(settings(), &[]).unwrap_err();
    assert_eq!(none.kind(), io::ErrorKind::InvalidInput);
    let many = vec![Local::at(address("127.0.0.1:0")); 256];
    assert_eq!(Endpoint::open(settings(), &many).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    let endpoint = open(&["127.0.0.1:0"]);
    assert_eq!(endpoint.local_addresses().len(), 1);
    assert!(endpoint.local_addresses()[0].port() != 0);
}

#[test]
fn an_endpoint_that_does_not_listen_takes_no_peer() {
    let (ground, air) = (open(&["127.0.0.1:0"]), open(&["127.0.0.1:0"]));
    let settings = Settings { connect_timeout: Duration::from_millis(200), ..settings() };
    let impatient = Endpoint::open(settings, &[Local::at(address("127.0.0.1:0"))]).unwrap();
    let link = impatient.connect(ground.local_addresses()[0]).unwrap();
    loop {
        if let Event::Closed { reason } = link.wait_event(PATIENCE).expect("it gives up") {
            assert_eq!(reason, CloseReason::Unreachable);
            break;
        }
    }
    assert!(ground.accept_timeout(Duration::ZERO).unwrap().is_none());
    drop(air);
}

#[test]
fn a_second_path_needs_a_socket_that_was_opened_and_a_link_that_we_connected() {
    let ground = Endpoint::listen(settings(), &[Local::at(address("127.0.0.1:0"))]).unwrap();
    let air = open(&["127.0.0.1:0", "127.0.0.1:0"]);
    let to = ground.local_addresses()[0];
    let up = air.connect(to).unwrap();
    assert!(up.wait_connected(PATIENCE).unwrap());
    let down = ground.accept_timeout(PATIENCE).unwrap().expect("a peer");
    assert!(matches!(air.add_path(&up, 2, to, None), Err(Error::Path { .. })));
    assert!(ground.add_path(&down, 0, air.local_addresses()[0], None).is_err());
    air.add_path(&up, 1, to, None).unwrap();
    assert!(air.add_path(&up, 1, to, None).is_err(), "it has two already");
    assert!(ground.retarget(&down, &[to]).is_err());
    assert!(air.retarget(&up, &[address("[2001:db8::1]:7")]).is_err());
}

#[test]
fn an_endpoint_has_as_many_links_as_its_settings_allow() {
    let few = Settings { max_links: 1, ..settings() };
    let endpoint = Endpoint::open(few, &[Local::at(address("127.0.0.1:0"))]).unwrap();
    let first = endpoint.connect(address("127.0.0.1:9")).unwrap();
    assert!(endpoint.connect(address("127.0.0.1:9")).is_err());
    drop(first);
    glassline_test_support::wait::until("room", || endpoint.connect(address("127.0.0.1:9")).is_ok());
}
