use super::*;
use crate::link::session::peers::Peers;
use crate::link::{Endpoint, Local};
use glassline_test_support::wait::{PATIENCE, until};
use glassline_transport::link::{Credentials, Key, MessageId, Path, Settings};
use std::sync::mpsc::{self, Receiver};

const MESSAGES: u8 = 2;
const STREAM: u8 = 5;

/// A peer with a link that is up, its session, and the other end of the link.
struct Stage {
    shared: Arc<Shared>,
    inbox: Receiver<Message>,
    events: Receiver<SessionEvent>,
    peer: Arc<Peer>,
    other: Link,
    _endpoints: [Endpoint; 2],
}

fn endpoint(name: &str, listen: bool) -> Endpoint {
    let name = name.as_bytes().to_vec();
    let settings = Settings { name, listen, ..Settings::new(Credentials::Shared(Key([7; 32]))) };
    Endpoint::open(settings, &[Local::at("127.0.0.1:0".parse().unwrap())]).unwrap()
}

fn stage() -> Stage {
    let (air, ground) = (endpoint("air\n\u{1b}[1m", false), endpoint("ground", true));
    let other = air.connect(ground.local_addresses()[0]).unwrap();
    assert!(other.wait_connected(PATIENCE).unwrap());
    let link = ground.accept_timeout(PATIENCE).unwrap().expect("a peer");
    let ((messages, inbox), (to, events)) = (mpsc::channel(), mpsc::channel());
    let options = Options { receipts: true, ..Options::default() };
    for channel in [MESSAGES, STREAM, CONTROL] {
        link.open(channel, options).unwrap();
    }
    let shared = Shared {
        messages,
        events: to,
        peers: Peers::default(),
        inputs_ended: AtomicBool::new(false),
        channels: vec![(MESSAGES, options), (STREAM, options)],
        is_waited_for: false,
        continuity: [
            (MESSAGES, [Continuity::Messages, Continuity::Messages]),
            (STREAM, [Continuity::Live, Continuity::Stream]),
        ]
        .into(),
        outputs: BTreeMap::new(),
        gives_stamps: true,
        needs_stamps: [3].into(),
        services: Vec::new(),
    };
    Stage {
        shared: Arc::new(shared),
        inbox,
        events,
        peer: Arc::new(Peer::new(link)),
        other,
        _endpoints: [air, ground],
    }
}

impl Stage {
    fn handle(&self, event: Event) {
        handle(&self.shared, &self.peer, event);
    }

    fn messages(&self) -> Vec<Message> {
        self.inbox.try_iter().collect()
    }

    fn events(&self) -> Vec<SessionEvent> {
        self.events.try_iter().collect()
    }

    fn torn(&self, gone: Gone) -> Option<u8> {
        self.peer.torn_channel(&self.shared, gone)
    }
}

fn finished(channel: u8, message: u64, outcome: Outcome) -> Event {
    Event::Finished { channel, message: MessageId(message), outcome }
}

#[test]
fn a_peer_is_called_by_what_can_be_printed_of_its_name_once_that_is_known() {
    let stage = stage();
    assert_eq!(stage.peer.name(), "?");
    stage.handle(Event::Connected { again: false });
    let name = stage.peer.name();
    assert!(name.starts_with("air") && !name.chars().any(char::is_control), "{name:?}");
    assert!(stage.peer.was_up.load(Ordering::Relaxed));
    let [SessionEvent::Connected { peer, again: false, address: Some(_), .. }] = &stage.events()[..] else {
        panic!("it is told once")
    };
    assert_eq!(*peer, name);
    assert!(matches!(stage.messages()[..], [Message::Changed]));
}

#[test]
fn the_end_of_what_was_said_counts_when_the_peer_has_it() {
    let stage = stage();
    stage.handle(finished(CONTROL, 0, Outcome::Lost));
    assert!(!stage.peer.end_delivered.load(Ordering::Relaxed));
    stage.handle(finished(CONTROL, 1, Outcome::Delivered));
    assert!(stage.peer.end_delivered.load(Ordering::Relaxed));
    assert!(matches!(stage.messages()[..], [Message::Changed, Message::Changed]));
    assert!(stage.events().is_empty());
}

#[test]
fn a_peer_that_is_away_is_told_of_and_so_is_its_return() {
    let stage = stage();
    stage.handle(Event::Suspended { reason: CloseReason::TimedOut });
    assert!(stage.peer.is_away.load(Ordering::Relaxed));
    stage.handle(Event::Resumed);
    assert!(!stage.peer.is_away.load(Ordering::Relaxed));
    let told = stage.events();
    assert!(matches!(&told[0], SessionEvent::Silent { reason: CloseReason::TimedOut, .. }));
    assert!(matches!(&told[1], SessionEvent::Resumed { address: Some(_), .. }) && told.len() == 2);
}

#[test]
fn each_end_of_a_link_is_told_to_those_that_it_concerns() {
    let stage = stage();
    stage.handle(Event::Closed { reason: CloseReason::Local });
    assert!(stage.events().is_empty() && stage.messages().is_empty(), "it was our own wish");
    stage.handle(Event::Closed { reason: CloseReason::Unreachable });
    assert!(matches!(stage.messages()[..], [Message::Unreachable { was_up: false }]));
    stage.peer.was_up.store(true, Ordering::Relaxed);
    stage.handle(Event::Closed { reason: CloseReason::Unreachable });
    assert!(matches!(stage.messages()[..], [Message::Unreachable { was_up: true }]));
    stage.handle(Event::Closed { reason: CloseReason::Refused });
    assert!(matches!(stage.messages()[..], [Message::Refused]) && stage.events().is_empty());
    stage.handle(Event::Closed { reason: CloseReason::Reset });
    assert!(matches!(&stage.events()[..], [SessionEvent::Lost { reason: CloseReason::Reset, .. }]));
    stage.handle(Event::Refused { retry_after: Duration::from_secs(3) });
    let [SessionEvent::Refused { retry_after }] = stage.events()[..] else { panic!("it is told") };
    assert_eq!(retry_after, Duration::from_secs(3));
}

#[test]
fn changes_of_paths_are_told_with_the_address() {
    let stage = stage();
    let path = Path { remote: "192.0.2.1:7".parse().unwrap(), via: 0 };
    for event in [
        Event::PathChanged { path },
        Event::PathUp { path },
        Event::PathDown { path },
        Event::PathTooNarrow { path },
    ] {
        stage.handle(event);
    }
    let told = stage.events();
    let [
        SessionEvent::PathChanged { address: one, .. },
        SessionEvent::PathUp { address: two, .. },
        SessionEvent::PathDown { address: three, .. },
        SessionEvent::PathTooNarrow { address: four, .. },
    ] = &told[..]
    else {
        panic!("{told:?}")
    };
    assert_eq!([one, two, three, four], [&path.remote; 4]);
}

#[test]
fn a_channel_without_an_output_is_told_of_and_what_is_reliable_on_others_counts() {
    let stage = stage();
    let reliable = Options { reliable: true, ..Options::default() };
    stage.handle(Event::Opened { channel: 9, options: reliable });
    assert!(matches!(stage.events()[..], [SessionEvent::NoOutput { channel: 9 }]));
    stage.handle(Event::Opened { channel: CONTROL, options: reliable });
    assert!(stage.events().is_empty());
    stage.peer.account(STREAM, |account| account.came = true);
    assert_eq!((stage.torn(Gone::Left), stage.torn(Gone::Vanished)), (None, Some(STREAM)));
    stage.peer.end_received.store(true, Ordering::Relaxed);
    assert_eq!(stage.torn(Gone::Vanished), None, "it has said that this was all");
}

#[test]
fn what_was_sent_and_not_delivered_is_torn_with_the_peer_unless_it_knows_the_end() {
    let stage = stage();
    stage.peer.send(MESSAGES, Bytes::from_static(b"x"), Utc::default(), PATIENCE).unwrap();
    assert_eq!((stage.torn(Gone::Restarted), stage.torn(Gone::Vanished)), (None, Some(MESSAGES)));
    stage.peer.end_delivered.store(true, Ordering::Relaxed);
    assert_eq!(stage.torn(Gone::Vanished), None);
    stage.peer.end_delivered.store(false, Ordering::Relaxed);
    stage.handle(finished(MESSAGES, 0, Outcome::Delivered));
    assert_eq!(stage.torn(Gone::Vanished), None);
    let figures = stage.peer.statistics(&stage.shared.channels).expect("the link is there");
    let [of_messages, of_stream] = &figures.channels[..] else { panic!("two channels") };
    assert!(of_messages.delays.is_some() && of_stream.delays.is_none());
    assert_eq!((of_messages.counts.channel, of_messages.counts.sent.messages), (MESSAGES, 1));
    assert!(!figures.is_connected, "it has not been told yet that it is up");
}

#[test]
fn a_message_that_has_no_room_was_not_sent() {
    let stage = stage();
    assert!(
        stage.peer.send(MESSAGES, Bytes::from(vec![0; 1 << 30]), Utc::default(), Duration::ZERO).is_err()
    );
    assert_eq!((stage.torn(Gone::Vanished), stage.torn(Gone::Left)), (None, None));
}

#[test]
fn another_process_in_a_peers_place_has_been_told_nothing() {
    let stage = stage();
    stage.handle(Event::Connected { again: false });
    stage.peer.send(MESSAGES, Bytes::from_static(b"x"), Utc::default(), PATIENCE).unwrap();
    stage.handle(finished(MESSAGES, 0, Outcome::Lost));
    for flag in [&stage.peer.end_received, &stage.peer.is_reported] {
        flag.store(true, Ordering::Relaxed);
    }
    drop((stage.events(), stage.messages()));
    stage.handle(Event::Connected { again: true });
    let told = stage.messages();
    assert!(matches!(&told[0], Message::Torn { channel: MESSAGES, .. }), "one was lost");
    let flags = [&stage.peer.end_received, &stage.peer.end_delivered, &stage.peer.is_reported];
    assert!(flags.iter().all(|flag| !flag.load(Ordering::Relaxed)));
    stage.handle(Event::Connected { again: true });
    assert!(stage.messages().iter().all(|told| !matches!(told, Message::Torn { .. })), "it begins anew");
}

#[test]
fn how_a_peer_has_gone_is_told_by_its_last_word() {
    let stage = stage();
    assert_eq!(stage.peer.gone(), Gone::Left, "it is there");
    stage.other.close_with(CloseCode::Failed, "out of paper");
    until("its end", || stage.peer.link.has_ended());
    assert_eq!(stage.peer.gone(), Gone::Vanished);
    let wished = self::stage();
    wished.other.close("done");
    until("its end", || wished.peer.link.has_ended());
    assert_eq!(wished.peer.gone(), Gone::Left);
    wished.peer.was_given_up.store(true, Ordering::Relaxed);
    assert_eq!(wished.peer.gone(), Gone::Vanished);
}

#[test]
fn a_link_that_is_served_says_all_that_came_of_it_before_it_is_over() {
    let stage = stage();
    serve(&stage.shared, &stage.peer);
    stage.other.open(9, Options::default()).unwrap();
    stage.other.open(CONTROL, Options::default()).unwrap();
    stage.other.send(9, &b"for none"[..]).unwrap();
    stage.other.send(CONTROL, &b"another word"[..]).unwrap();
    stage.other.send(CONTROL, END).unwrap();
    until("the end of what it says", || stage.peer.end_received.load(Ordering::Relaxed));
    until("what is dropped", || stage.peer.dropped.load(Ordering::Relaxed) == 2);
    stage.other.close("done");
    let last = loop {
        if let Message::Over(id) = stage.inbox.recv_timeout(PATIENCE).expect("a message") {
            break id;
        }
    };
    assert_eq!(last, stage.peer.id());
}

#[test]
fn the_end_is_said_when_all_before_it_has_arrived() {
    let stage = stage();
    stage.peer.send(MESSAGES, Bytes::from(vec![1; 100_000]), Utc::default(), PATIENCE).unwrap();
    finish(&stage.shared, &stage.peer);
    let told = stage.other.receive_timeout(CONTROL, PATIENCE).unwrap().expect("the end");
    assert_eq!(told, END);
    let message = stage.other.receive_timeout(MESSAGES, Duration::ZERO).unwrap();
    assert_eq!(message.map(|message| message.len()), Some(100_000), "it was here before");
    until("that it is known", || stage.peer.end_sent.load(Ordering::Relaxed));
}
