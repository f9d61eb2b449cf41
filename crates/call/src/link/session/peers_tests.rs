use super::*;
use crate::link::{Endpoint, Link, Local};
use glassline_test_support::wait::{PATIENCE, until};
use glassline_transport::link::{Credentials, Key, Options, Settings};
use std::sync::mpsc;

/// One that goes by `name`, by which a listener tells its peers apart.
fn endpoint(name: &str, listen: bool) -> Endpoint {
    let name = name.as_bytes().to_vec();
    let settings = Settings { name, listen, ..Settings::new(Credentials::Shared(Key([7; 32]))) };
    Endpoint::open(settings, &[Local::at("127.0.0.1:0".parse().unwrap())]).unwrap()
}

/// A peer of the listener `to`, and the other end of its link.
fn peer(from: &Endpoint, to: &Endpoint, options: Options) -> (Arc<Peer>, Link) {
    let up = from.connect(to.local_addresses()[0]).unwrap();
    assert!(up.wait_connected(PATIENCE).unwrap());
    let down = to.accept_timeout(PATIENCE).unwrap().expect("a peer");
    down.open(0, options).unwrap();
    (Arc::new(Peer::new(down)), up)
}

fn receive(link: &Link) -> Bytes {
    link.receive_timeout(0, PATIENCE).unwrap().expect("a message")
}

#[test]
fn a_message_goes_to_every_peer_and_waits_for_the_first_one() {
    let [air, wing] = ["air", "wing"].map(|name| endpoint(name, false));
    let ground = endpoint("ground", true);
    let peers = Arc::new(Peers::default());
    let sender = {
        let peers = Arc::clone(&peers);
        std::thread::spawn(move || peers.send(0, &Bytes::from_static(b"first"), Utc::default()))
    };
    assert!(peers.all().is_empty());
    let (one, there) = peer(&air, &ground, Options::default());
    peers.add(Arc::clone(&one));
    assert_eq!(sender.join().unwrap(), Ok(true));
    assert_eq!(receive(&there), "first");
    let (other, elsewhere) = peer(&wing, &ground, Options::default());
    peers.add(other);
    assert_eq!(peers.send(0, &Bytes::from_static(b"second"), Utc::default()), Ok(true));
    assert_eq!((receive(&there), receive(&elsewhere)), ("second".into(), "second".into()));
    assert_eq!(peers.remove(one.id()).map(|peer| peer.id()), Some(one.id()));
    assert!(peers.remove(one.id()).is_none());
    assert_eq!(peers.send(0, &Bytes::from_static(b"third"), Utc::default()), Ok(true));
    assert_eq!(receive(&elsewhere), "third");
    assert_eq!(there.receive_timeout(0, Duration::ZERO), Ok(None));
}

#[test]
fn threads_that_wait_for_a_peer_give_up_at_the_end() {
    let peers = Arc::new(Peers::default());
    let (told, ends) = mpsc::channel();
    for _ in 0..3 {
        let (peers, told) = (Arc::clone(&peers), told.clone());
        std::thread::spawn(move || told.send(peers.send(0, &Bytes::new(), Utc::default())));
    }
    peers.end();
    for _ in 0..3 {
        assert_eq!(ends.recv_timeout(PATIENCE), Ok(Ok(false)));
    }
    assert_eq!(peers.send(0, &Bytes::new(), Utc::default()), Ok(false));
}

#[test]
fn a_peer_that_has_ended_counts_as_none() {
    let [air, wing] = ["air", "wing"].map(|name| endpoint(name, false));
    let ground = endpoint("ground", true);
    let peers = Arc::new(Peers::default());
    let (gone, _there) = peer(&air, &ground, Options::default());
    gone.link.close("over");
    until("its end", || gone.link.has_ended());
    peers.add(gone);
    let sender = {
        let peers = Arc::clone(&peers);
        std::thread::spawn(move || peers.send(0, &Bytes::from_static(b"to the next"), Utc::default()))
    };
    let (next, there) = peer(&wing, &ground, Options::default());
    peers.add(next);
    assert_eq!(sender.join().unwrap(), Ok(true));
    assert_eq!(receive(&there), "to the next");
}

#[test]
fn a_message_that_the_channel_does_not_take_is_told() {
    let (air, ground) = (endpoint("air", false), endpoint("ground", true));
    let (one, _there) = peer(&air, &ground, Options { max_size: 10, ..Options::default() });
    let peers = Peers::default();
    peers.add(Arc::clone(&one));
    assert!(peers.send(0, &Bytes::from(vec![0; 11]), Utc::default()).is_err());
    assert!(peers.send(9, &Bytes::new(), Utc::default()).is_err(), "it is not open");
    assert_eq!(peers.send(0, &Bytes::from(vec![0; 10]), Utc::default()), Ok(true));
}
