use super::*;
use crate::link::Local;
use glassline_io::clock::Clock;
use glassline_test_support::wait::{PATIENCE, until};
use glassline_transport::link::{Credentials, Key, Settings};
use std::net::UdpSocket;

fn settings(name: &str, key: u8) -> Settings {
    Settings {
        name: name.as_bytes().to_vec(),
        connect_timeout: Duration::from_millis(300),
        reset_secret: Some(Key([8; 32]).of_listener(name)),
        ..Settings::new(Credentials::Shared(Key([key; 32])))
    }
}

fn listening_at(address: &str) -> Endpoint {
    Endpoint::listen(settings("ground", 7), &[Local::at(address.parse().unwrap())]).unwrap()
}

/// What a program holds of a session with one channel that has both ends.
struct Ends {
    session: Session,
    input: Option<Sender<Bytes>>,
    output: Receiver<Bytes>,
}

const CHANNEL: u8 = 4;

fn open(endpoint: Endpoint, mode: Mode) -> Ends {
    let (input, from) = mpsc::channel();
    let (to, output) = mpsc::channel();
    let channel = Channel::new(CHANNEL, Options::default()).with_input(from).with_output(to);
    Ends { session: Session::open(endpoint, mode, vec![channel]).unwrap(), input: Some(input), output }
}

fn listener() -> Ends {
    open(listening_at("127.0.0.1:0"), Mode::Listen { once: false })
}

fn caller(name: &str, to: SocketAddr) -> Ends {
    let endpoint = Endpoint::open(settings(name, 7), &[Local::towards(to)]).unwrap();
    open(endpoint, Mode::Connect { to: vec![to], give_up: false, spares: Vec::new() })
}

impl Ends {
    fn address(&self) -> SocketAddr {
        self.session.local_addresses()[0]
    }

    fn send(&self, text: &'static str) {
        self.input.as_ref().unwrap().send(Bytes::from(text)).unwrap();
    }

    fn take(&self) -> Bytes {
        self.output.recv_timeout(PATIENCE).expect("a message")
    }

    /// Takes events up to the first that `is_it`.
    fn event<T>(&self, is_it: impl Fn(SessionEvent) -> Option<T>) -> T {
        loop {
            let event = self.session.next_event(PATIENCE).expect("an event");
            if let Some(found) = is_it(event) {
                return found;
            }
        }
    }

    /// Waits for a link; returns the peer's name and whether it was up before.
    fn connected(&self) -> (String, bool) {
        self.event(|event| match event {
            SessionEvent::Connected { peer, again, .. } => Some((peer, again)),
            _ => None,
        })
    }

    fn ended(&self) {
        self.event(|event| matches!(event, SessionEvent::Ended).then_some(()));
    }
}

#[test]
fn messages_pass_both_ways_and_the_end_of_both_inputs_ends_who_connected() {
    let mut ground = listener();
    let mut air = caller("air", ground.address());
    air.send("hello");
    ground.send("welcome");
    assert_eq!((ground.take(), air.take()), ("hello".into(), "welcome".into()));
    assert_eq!(ground.connected(), ("air".to_owned(), false));
    assert_eq!(air.connected(), ("ground".to_owned(), false));
    (air.input, ground.input) = (None, None);
    let last = air.event(|event| match event {
        SessionEvent::Finished { statistics } => Some(statistics),
        _ => None,
    });
    let figures = &last[0].channels[0];
    assert_eq!((last[0].name.as_str(), figures.counts.channel), ("ground", CHANNEL));
    assert_eq!((figures.counts.sent.delivered, figures.counts.received.messages), (1, 1));
    air.ended();
    air.session.join().unwrap();
    // A listener is done when those that it said all to have gone.
    ground.ended();
    ground.session.join().unwrap();
}

#[test]
fn several_peers_get_every_message_and_their_own_arrive_in_one_output() {
    let ground = listener();
    let airs = ["one", "two", "three"].map(|name| caller(name, ground.address()));
    let mut names: Vec<_> = airs.iter().map(|_| ground.connected().0).collect();
    names.sort();
    assert_eq!(names, ["one", "three", "two"]);
    ground.send("to all");
    for air in &airs {
        assert_eq!(air.take(), "to all");
        air.send("here");
        assert_eq!(ground.take(), "here");
    }
    assert_eq!(ground.session.statistics().len(), 3);
    let [one, ..] = airs;
    drop(one);
    let gone = ground.event(|event| match event {
        SessionEvent::Lost { peer, reason } => Some((peer, reason)),
        _ => None,
    });
    assert_eq!(gone.0, "one");
    assert!(matches!(gone.1, CloseReason::Peer { .. }), "{:?}", gone.1);
    until("two peers", || ground.session.statistics().len() == 2);
}

#[test]
fn a_listener_that_went_is_connected_to_again() {
    let ground = listener();
    let address = ground.address();
    let air = caller("air", address);
    air.send("before");
    assert_eq!(ground.take(), "before");
    ground.session.stopper().stop();
    ground.session.join().unwrap();
    air.event(|event| matches!(event, SessionEvent::Lost { .. }).then_some(()));
    air.event(|event| matches!(event, SessionEvent::Reconnecting).then_some(()));
    let ground = open(listening_at(&address.to_string()), Mode::Listen { once: true });
    air.connected();
    air.send("after");
    assert_eq!(ground.take(), "after");
    // With `once` the listener is over when its only peer has gone.
    drop(air);
    ground.ended();
    ground.session.join().unwrap();
}

#[test]
fn a_session_goes_to_where_the_listener_is_now() {
    // Nobody answers at a socket that nobody reads.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let ground = listener();
    let air = caller("air", silent.local_addr().unwrap());
    let was_up = air.event(|event| match event {
        SessionEvent::Unreachable { was_up } => Some(was_up),
        _ => None,
    });
    assert!(!was_up);
    air.session.set_remote(vec![ground.address()]);
    let to = air.event(|event| match event {
        SessionEvent::RemoteChanged(address) => Some(address),
        _ => None,
    });
    assert_eq!(to, ground.address());
    air.send("found");
    assert_eq!(ground.take(), "found");
}

#[test]
fn a_peer_that_is_away_holds_no_other_up_and_is_waited_for_where_it_is_the_only_one() {
    let idle = Duration::from_millis(600);
    let local = [Local::at("127.0.0.1:0".parse().unwrap())];
    let endpoint = Endpoint::listen(Settings { idle, ..settings("ground", 7) }, &local).unwrap();
    let (input, from) = mpsc::channel();
    let few = Options { queue: 8, ..Options::default() };
    let channel = Channel::new(CHANNEL, few).with_input(from);
    let session = Session::open(endpoint, Mode::Listen { once: false }, vec![channel]).unwrap();
    let to = session.local_addresses()[0];
    // One that goes without a word.
    let gone = Endpoint::open(settings("gone", 7), &[Local::towards(to)]).unwrap();
    let link = gone.connect(to).unwrap();
    assert!(link.wait_connected(PATIENCE).unwrap());
    until("the first peer", || session.statistics().len() == 1);
    gone.abandon();
    for number in 0..100u8 {
        input.send(Bytes::from(vec![number; 100_000])).unwrap();
    }
    let is_silent = || {
        let event = session.next_event(PATIENCE).expect("an event");
        matches!(event, SessionEvent::Silent { .. })
    };
    while !is_silent() {}
    assert_eq!(session.statistics().len(), 1, "it is the only one, and is waited for");
    // What it has not room for goes to the next one that comes.
    let air = caller("air", to);
    let mut taken = Vec::new();
    while taken.last() != Some(&99) {
        taken.push(air.take()[0]);
    }
    assert!(taken.is_sorted_by(|one, next| one + 1 == *next) && taken.len() >= 50, "{taken:?}");
    until("the one that is there", || session.statistics().len() == 1);
}

#[test]
fn who_has_said_all_leaves_a_listener_that_has_gone_unless_it_has_to_arrive() {
    for reliable in [false, true] {
        let idle = Duration::from_millis(400);
        let local = [Local::at("127.0.0.1:0".parse().unwrap())];
        let ground = Endpoint::listen(settings("ground", 7), &local).unwrap();
        let to = ground.local_addresses()[0];
        let endpoint =
            Endpoint::open(Settings { idle, ..settings("air", 7) }, &[Local::towards(to)]).unwrap();
        let (input, from) = mpsc::channel();
        let options = Options { reliable, ..Options::default() };
        let channel = Channel::new(CHANNEL, options).with_input(from);
        let mode = Mode::Connect { to: vec![to], give_up: false, spares: Vec::new() };
        let air = Session::open(endpoint, mode, vec![channel]).unwrap();
        let accepted = ground.accept().unwrap();
        assert!(accepted.wait_connected(PATIENCE).unwrap());
        until("the link is up", || air.statistics().first().is_some_and(|peer| peer.is_connected));
        // Without a word.
        ground.abandon();
        drop(input);
        if reliable {
            while !matches!(air.next_event(PATIENCE).expect("an event"), SessionEvent::Silent { .. }) {}
            let until = std::time::Instant::now() + Duration::from_millis(2_600);
            while let Some(event) = air.next_event(until.saturating_duration_since(std::time::Instant::now()))
            {
                assert!(!matches!(event, SessionEvent::Ending { .. }), "{event:?}");
            }
        } else {
            while !matches!(air.next_event(PATIENCE).expect("an event"), SessionEvent::Ended) {}
            assert!(matches!(air.join(), Err(Error::Unheard)));
        }
    }
}

#[test]
fn another_key_is_refused_by_silence() {
    let ground = listener();
    let to = ground.address();
    let endpoint = Endpoint::open(settings("stranger", 9), &[Local::towards(to)]).unwrap();
    let stranger = open(endpoint, Mode::Connect { to: vec![to], give_up: true, spares: Vec::new() });
    stranger.ended();
    assert!(matches!(stranger.session.join(), Err(Error::Unreachable { was_up: false })));
    assert!(ground.session.statistics().is_empty());
}

#[test]
fn a_stop_ends_a_session_and_those_who_wait_for_a_peer() {
    let ground = listener();
    // The input's thread waits for the first peer with this.
    ground.send("nobody is there");
    let stopper = ground.session.stopper();
    stopper.stop();
    ground.event(|event| matches!(event, SessionEvent::Ending { .. }).then_some(()));
    ground.ended();
    ground.session.join().unwrap();
    stopper.stop();
    let input = ground.input.unwrap();
    until("the input's thread has gone", || input.send(Bytes::new()).is_err());
}

#[test]
fn what_has_no_output_is_dropped_and_counted() {
    let endpoint = listening_at("127.0.0.1:0");
    let to = endpoint.local_addresses()[0];
    let ground = Session::open(endpoint, Mode::Listen { once: true }, vec![]).unwrap();
    let mut air = caller("air", to);
    air.send("one");
    air.send("two");
    air.input = None;
    air.event(|event| matches!(event, SessionEvent::Finished { .. }).then_some(()));
    air.ended();
    let (mut channels, mut dropped) = (Vec::new(), 0);
    loop {
        match ground.next_event(PATIENCE).expect("an event") {
            SessionEvent::NoOutput { channel } => channels.push(channel),
            SessionEvent::Dropped { messages, .. } => dropped = messages,
            SessionEvent::Ended => break,
            _ => {}
        }
    }
    assert_eq!((channels, dropped), (vec![CHANNEL], 2));
}

/// Fails at the first message.
struct Failing(io::ErrorKind);

impl Input for Failing {
    fn next(&mut self) -> io::Result<Option<Bytes>> {
        Err(self.0.into())
    }
}

impl Output for Failing {
    fn write(&mut self, _: &Bytes) -> io::Result<()> {
        Err(self.0.into())
    }
}

#[test]
fn an_input_an_output_or_a_message_that_fails_ends_the_session() {
    let listen = |channel: Channel| {
        Session::open(listening_at("127.0.0.1:0"), Mode::Listen { once: false }, vec![channel]).unwrap()
    };
    let channel = || Channel::new(CHANNEL, Options { max_size: 10, ..Options::default() });
    let failed = listen(channel().with_input(Failing(io::ErrorKind::Other))).join();
    assert!(matches!(failed, Err(Error::Input { channel: CHANNEL, .. })), "{failed:?}");

    for kind in [io::ErrorKind::StorageFull, io::ErrorKind::BrokenPipe] {
        let ground = listen(channel().with_output(Failing(kind)));
        let air = caller("air", ground.local_addresses()[0]);
        air.send("a message");
        let failed = ground.join();
        match kind {
            io::ErrorKind::BrokenPipe => {
                assert!(matches!(failed, Err(Error::OutputClosed { channel: CHANNEL })));
            }
            _ => assert!(matches!(failed, Err(Error::Output { channel: CHANNEL, .. })), "{failed:?}"),
        }
    }

    let (input, from) = mpsc::channel();
    let ground = listen(channel().with_input(from));
    let _air = caller("air", ground.local_addresses()[0]);
    input.send(Bytes::from_static(b"more than ten bytes")).unwrap();
    let failed = ground.join();
    assert!(matches!(failed, Err(Error::Send { channel: CHANNEL, .. })), "{failed:?}");
}

#[test]
fn channels_that_make_no_sense_are_refused() {
    let refused = |ids: &[u8]| {
        let channels = ids.iter().map(|id| Channel::new(*id, Options::default())).collect();
        Session::open(listening_at("127.0.0.1:0"), Mode::Listen { once: false }, channels)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(refused(&[1, 2, 1]), "channel 1: it is given twice");
    assert!(refused(&[CONTROL]).contains("control channel"));
}

/// Gives messages on with their stamps.
struct Stamped(Sender<(Bytes, Option<Utc>)>);

impl Output for Stamped {
    fn write(&mut self, message: &Bytes) -> io::Result<()> {
        self.write_stamped(message, None)
    }

    fn write_stamped(&mut self, message: &Bytes, stamp: Option<Utc>) -> io::Result<()> {
        self.0.send((message.clone(), stamp)).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

#[test]
fn messages_of_a_stamped_channel_come_with_the_time_at_which_they_were_read() {
    let stamped = |stamped: bool, endpoint: Endpoint, mode: Mode| {
        let ((input, from), (to, output)) = (mpsc::channel(), mpsc::channel());
        let channel = Channel::new(CHANNEL, Options { stamped, ..Options::default() });
        let channel = Channel { needs_stamps: true, ..channel.with_input(from).with_output(Stamped(to)) };
        (Session::open(endpoint, mode, vec![channel]).unwrap(), input, output)
    };
    let (ground, to_air, at_ground) =
        stamped(false, listening_at("127.0.0.1:0"), Mode::Listen { once: false });
    let to = ground.local_addresses()[0];
    let endpoint = Endpoint::open(settings("air", 7), &[Local::towards(to)]).unwrap();
    let mode = Mode::Connect { to: vec![to], give_up: false, spares: Vec::new() };
    let (air, to_ground, at_air) = stamped(true, endpoint, mode);
    let clock = Clock::new();
    let micros = |utc: Utc| utc.as_micros();
    let before = micros(clock.utc());
    to_ground.send(Bytes::from("position")).unwrap();
    let (message, stamp) = at_ground.recv_timeout(PATIENCE).unwrap();
    let read = micros(stamp.expect("a stamp"));
    assert_eq!(message, "position");
    assert!(before <= read && read <= micros(clock.utc()), "{before} {read}");
    // It is counted once it is written, which the reader may see first.
    let mut figures = None;
    until("its age is told", || {
        figures = Some(ground.statistics()[0].channels[0]).filter(|figures| figures.ages.is_some());
        figures.is_some()
    });
    let figures = figures.unwrap();
    assert_eq!(figures.last_stamp.map(micros), Some(read));
    assert!(figures.ages.unwrap().max <= Duration::from_micros(micros(clock.utc()) - before + 100_000));
    // The other direction has options of its own.
    to_air.send(Bytes::from("command")).unwrap();
    assert_eq!(at_air.recv_timeout(PATIENCE).unwrap(), (Bytes::from("command"), None));
    let told = loop {
        if let SessionEvent::Unstamped { peer, channel } = air.next_event(PATIENCE).expect("an event") {
            break (peer, channel);
        }
    };
    assert_eq!(told, ("ground".to_owned(), CHANNEL));
    let own: Vec<_> = std::iter::from_fn(|| ground.next_event(Duration::ZERO)).collect();
    assert!(!own.iter().any(|event| matches!(event, SessionEvent::Unstamped { .. })), "{own:?}");
}
