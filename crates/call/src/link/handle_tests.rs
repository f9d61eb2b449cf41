use super::*;
use crate::link::{Endpoint, Local};
use glassline_test_support::wait::{PATIENCE, until, until_some};
use glassline_transport::link::{Credentials, Key, Outcome, Settings};
use proptest::prelude::*;
use std::time::Duration;

fn settings(name: &str) -> Settings {
    Settings { name: name.as_bytes().to_vec(), ..Settings::new(Credentials::Shared(Key([7; 32]))) }
}

/// Two endpoints, and the two ends of a link between them.
struct Ends {
    ground: Endpoint,
    air: Endpoint,
    up: Link,
    down: Link,
}

fn ends() -> Ends {
    let any = [Local::at("127.0.0.1:0".parse().unwrap())];
    let ground = Endpoint::listen(settings("ground"), &any).unwrap();
    let air = Endpoint::open(settings("air"), &any).unwrap();
    let up = air.connect(ground.local_addresses()[0]).unwrap();
    assert!(up.wait_connected(PATIENCE).unwrap());
    let down = ground.accept_timeout(PATIENCE).unwrap().expect("a peer");
    Ends { ground, air, up, down }
}

/// The events of a link up to the first that `is_it`.
fn event<T>(link: &Link, is_it: impl Fn(Event) -> Option<T>) -> T {
    until_some("an event", || link.wait_event(PATIENCE).and_then(&is_it))
}

#[test]
fn a_channel_is_opened_once_and_nothing_is_sent_on_one_that_is_not_open() {
    let Ends { up, down: _down, ground: _ground, air: _air } = ends();
    assert!(up.try_send(5, &b"x"[..]).is_err());
    up.open(5, Options::default()).unwrap();
    assert!(up.open(MAX_CHANNELS as u8, Options::default()).is_err());
    assert!(up.try_send(MAX_CHANNELS as u8, &b"x"[..]).is_err());
    up.try_send(5, &b"x"[..]).unwrap();
    assert!(up.open(5, Options { reliable: false, ..Options::default() }).is_err(), "it is in use");
}

#[test]
fn a_message_that_is_too_large_for_its_channel_is_refused() {
    let Ends { up, down, ground: _ground, air: _air } = ends();
    up.open(0, Options { max_size: 1000, ..Options::default() }).unwrap();
    assert!(up.send(0, vec![1; 1001]).is_err());
    up.send(0, vec![2; 1000]).unwrap();
    assert_eq!(down.receive_timeout(0, PATIENCE).unwrap().unwrap(), vec![2; 1000]);
    assert_eq!(up.channel_statistics(0).unwrap().sent.messages, 1);
}

#[test]
fn a_full_queue_is_told_at_once_or_after_the_time_that_was_given() {
    // Nothing is taken from the queue before the link is up.
    let any = [Local::at("127.0.0.1:0".parse().unwrap())];
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let air = Endpoint::open(settings("air"), &any).unwrap();
    let up = air.connect(silent.local_addr().unwrap()).unwrap();
    up.open(2, Options { queue: 3, ..Options::default() }).unwrap();
    for number in 0..3u8 {
        up.try_send(2, vec![number]).unwrap();
    }
    assert_eq!(up.try_send(2, vec![3]), Err(Error::QueueFull { channel: 2 }));
    assert_eq!(up.send_timeout(2, vec![3], Duration::ZERO), Err(Error::QueueFull { channel: 2 }));
    assert_eq!(up.send_timeout(2, vec![3], Duration::from_millis(20)), Err(Error::QueueFull { channel: 2 }));
    assert_eq!((up.waiting(2).unwrap(), up.queued_bytes().unwrap()), (3, 3));
    assert!(!up.is_connected() && !up.wait_connected(Duration::ZERO).unwrap());
    assert!(!up.flush(Duration::ZERO).unwrap(), "they have not ended");
    assert_eq!((up.remote_address(), up.peer_name()), (None, None));
}

#[test]
fn what_was_sent_in_a_row_arrives_in_that_order() {
    let Ends { up, down, ground: _ground, air: _air } = ends();
    up.open(1, Options { queue: 50, ..Options::default() }).unwrap();
    let sender = std::thread::spawn(move || {
        let messages = (0..1000u32).map(|number| Bytes::from(number.to_be_bytes().to_vec()));
        assert_eq!(up.send_all(1, messages), Ok(1000));
        up
    });
    for number in 0..1000u32 {
        assert_eq!(down.receive_timeout(1, PATIENCE).unwrap().unwrap(), number.to_be_bytes()[..]);
    }
    let up = sender.join().unwrap();
    assert_eq!(up.send_all(1, Vec::new()), Ok(0));
}

#[test]
fn messages_before_one_that_fails_were_sent() {
    let Ends { up, down, ground: _ground, air: _air } = ends();
    up.open(1, Options { max_size: 10, ..Options::default() }).unwrap();
    let messages = [vec![1], vec![2], vec![0; 11], vec![3]].map(Bytes::from);
    assert!(up.send_all(1, messages).is_err());
    let got = [(); 2].map(|()| down.receive_timeout(1, PATIENCE).unwrap().unwrap());
    assert_eq!(got, [vec![1], vec![2]].map(Bytes::from));
    assert_eq!(up.channel_statistics(1).unwrap().sent.messages, 2);
}

#[test]
fn of_several_channels_the_lowest_is_taken_first_and_others_stay() {
    let Ends { up, down, ground: _ground, air: _air } = ends();
    for channel in [9, 3, 6] {
        up.open(channel, Options::default()).unwrap();
        up.send(channel, vec![channel]).unwrap();
    }
    assert!(up.flush(PATIENCE).unwrap());
    let of = |channels: Channels| down.receive_any(channels, Duration::ZERO).unwrap();
    assert_eq!(of([6, 9].into_iter().collect()), Some((6, Bytes::from(vec![6]))));
    assert_eq!(of(Channels::ALL.without(3)), Some((9, Bytes::from(vec![9]))));
    assert_eq!(of([6, 9].into_iter().collect()), None);
    assert_eq!(of(Channels::ALL), Some((3, Bytes::from(vec![3]))));
    assert_eq!(of(Channels::ALL), None);
}

#[test]
fn all_that_waits_is_taken_at_once_and_put_behind_what_is_there() {
    let Ends { up, down, ground: _ground, air: _air } = ends();
    up.open(0, Options::default()).unwrap();
    up.send_all(0, (0..20u8).map(|number| Bytes::from(vec![number]))).unwrap();
    assert!(up.flush(PATIENCE).unwrap());
    let mut taken = vec![Bytes::from_static(b"before")];
    let mut count = 0;
    while count < 20 {
        count += down.receive_all(0, &mut taken).unwrap();
    }
    assert_eq!((count, taken.len()), (20, 21));
    assert!(taken[1..].iter().enumerate().all(|(number, message)| message[..] == [number as u8]));
}

#[test]
fn what_is_taken_with_its_way_is_taken_once() {
    let Ends { up, down, ground: _ground, air: _air } = ends();
    up.open(0, Options::default()).unwrap();
    assert!(down.receive_message(0, Duration::ZERO).unwrap().is_none());
    up.send(0, vec![1; 5000]).unwrap();
    let received = down.receive_message(0, PATIENCE).unwrap().expect("a message");
    assert_eq!((received.bytes.len(), received.skipped, received.stale), (5000, 0, false));
    assert!(received.first <= received.last);
    assert!(down.receive_message(0, Duration::ZERO).unwrap().is_none());
}

#[test]
fn a_link_that_was_closed_takes_nothing_and_tells_its_peer_why() {
    let Ends { up, down, ground: _ground, air: _air } = ends();
    up.open(0, Options::default()).unwrap();
    assert_eq!((up.close_reason(), up.has_ended()), (None, false));
    up.close_with(CloseCode::Failed, "out of paper");
    assert!(up.has_ended());
    assert_eq!(up.send(0, &b"x"[..]), Err(Error::Closed));
    assert_eq!(up.try_send(0, &b"x"[..]), Err(Error::Closed));
    assert_eq!(up.receive(0), Err(Error::Closed));
    assert_eq!(up.wait_connected(PATIENCE), Err(Error::Closed));
    until("the peer's end", || down.has_ended());
    let reason = event(&down, |event| match event {
        Event::Closed { reason } => Some(reason),
        _ => None,
    });
    let CloseReason::Peer { code, reason } = reason else { panic!("{reason:?}") };
    assert_eq!((code, &*reason), (CloseCode::Failed.number(), "out of paper"));
    assert!(matches!(down.close_reason(), Some(CloseReason::Peer { .. })));
}

#[test]
fn a_link_goes_with_its_last_handle_and_not_before() {
    let Ends { up, down, ground: _ground, air: _air } = ends();
    let other = up.clone();
    assert_eq!(other.id(), up.id());
    drop(up);
    assert!(other.is_connected());
    other.open(0, Options::default()).unwrap();
    other.send(0, &b"still here"[..]).unwrap();
    assert_eq!(down.receive_timeout(0, PATIENCE).unwrap().unwrap(), "still here");
    drop(other);
    until("the peer's end", || down.has_ended());
}

#[test]
fn receipts_tell_the_number_of_each_message_and_that_it_arrived() {
    let Ends { up, down: _down, ground: _ground, air: _air } = ends();
    up.open(0, Options { receipts: true, ..Options::default() }).unwrap();
    let numbers = [(); 3].map(|()| up.send(0, &b"x"[..]).unwrap().0);
    assert_eq!(numbers, [0, 1, 2]);
    let mut ended = Vec::new();
    while ended.len() < 3 {
        ended.push(event(&up, |event| match event {
            Event::Finished { channel: 0, message, outcome: Outcome::Delivered } => Some(message.0),
            Event::Finished { .. } => panic!("{event:?}"),
            _ => None,
        }));
    }
    ended.sort_unstable();
    assert_eq!(ended, [0, 1, 2]);
    assert!(up.flush(PATIENCE).unwrap());
    assert_eq!((up.waiting(0).unwrap(), up.queued_bytes().unwrap()), (0, 0));
}

#[test]
fn a_wait_for_an_event_ends_with_its_time() {
    let Ends { up, down: _down, ground: _ground, air: _air } = ends();
    until("quiet", || up.events().is_empty());
    assert!(up.wait_event(Duration::ZERO).is_none());
    assert!(up.wait_event(Duration::from_millis(5)).is_none());
}

#[test]
fn links_of_an_endpoint_that_was_closed_have_ended_at_both_ends() {
    let Ends { ground, air, up, down } = ends();
    air.close();
    assert!(up.has_ended());
    assert_eq!((up.statistics().err(), up.paths().err()), (Some(Error::Closed), Some(Error::Closed)));
    assert_eq!((up.queued_bytes().err(), up.waiting(0).err()), (Some(Error::Closed), Some(Error::Closed)));
    assert_eq!(
        (up.budget(0, PATIENCE).err(), up.silence().err()),
        (Some(Error::Closed), Some(Error::Closed))
    );
    assert_eq!(up.channel_statistics(0).err(), Some(Error::Closed));
    assert!(matches!(air.connect(ground.local_addresses()[0]), Err(Error::Closed)));
    assert!(matches!(air.accept(), Err(Error::Closed)));
    until("the peer's end", || down.has_ended());
    air.close();
    assert!(ground.accept_timeout(Duration::ZERO).unwrap().is_none(), "the other endpoint goes on");
}

#[test]
fn a_link_tells_what_it_is_made_of() {
    let Ends { ground: _ground, air, up, down } = ends();
    let paths = up.paths().unwrap();
    assert_eq!(paths.len(), 1);
    assert_eq!((up.peer_name().unwrap(), down.peer_name().unwrap()), (b"ground".to_vec(), b"air".to_vec()));
    assert_eq!(down.remote_address(), Some(air.local_addresses()[0]));
    assert_eq!(up.shares_dictionary(), None);
    up.silence().unwrap();
    up.open(0, Options::default()).unwrap();
    assert!(up.budget(0, Duration::from_millis(10)).unwrap() > 0);
    let unused = up.channel_statistics(9).unwrap();
    assert_eq!(unused, ChannelStatistics { channel: 9, ..Default::default() });
}

proptest! {
    #[test]
    fn sets_of_channels_hold_what_was_put_into_them(
        channels in proptest::collection::vec(any::<u8>(), 0..30),
        without in proptest::collection::vec(any::<u8>(), 0..30),
    ) {
        let set: Channels = channels.iter().copied().collect();
        let less = without.iter().fold(set, |set, channel| set.without(*channel));
        for channel in 0..=u8::MAX {
            let is_one = usize::from(channel) < MAX_CHANNELS;
            prop_assert_eq!(set.0 & bit(channel) != 0, is_one && channels.contains(&channel));
            let stays = channels.contains(&channel) && !without.contains(&channel);
            prop_assert_eq!(less.0 & bit(channel) != 0, is_one && stays);
        }
        prop_assert_eq!(set.without(200), set);
    }
}
