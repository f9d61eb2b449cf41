use super::*;
use crate::fuzzing::passed_on;
use crate::test_connections::{PEER, Stage, TestSite, beside, chunk, get, opening, put, stage};
use crate::test_streams::name;
use crate::turn::TurnBuffers;
use glassline_delivery::stream::Pacing;
use glassline_io::poll::Poller;
use glassline_streams::presence::Purpose;
use proptest::prelude::*;

/// A message and its descriptors, as they were delivered.
struct Left {
    bytes: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

impl Left {
    fn state(&self) -> HandoverState {
        read(&self.bytes).expect("a message")
    }

    /// The same descriptors with a message that `change` has changed.
    fn with(self, change: impl FnOnce(&mut HandoverState)) -> Left {
        let mut state = self.state();
        change(&mut state);
        Left { bytes: rmp_serde::to_vec_named(&state).expect("a message"), ..self }
    }

    fn taken(self, settings: Settings, count: usize) -> Result<Inherited, HandoverError> {
        unpack(settings, Arc::new(TestSite::default()), count, &self.bytes, self.descriptors)
    }
}

fn settings() -> Settings {
    let mut settings = Settings { listen: Vec::new(), ..Settings::default() };
    settings.stream.pacing = Pacing::Off;
    settings
}

/// Gives the worker the connection of `stage`. Returns the stage without one.
fn adopt(worker: &mut Worker, stage: Stage) -> Option<Socket> {
    let Stage { mut connection, peer, .. } = stage;
    let copy = connection.socket.tcp().as_fd().try_clone_to_owned().expect("a descriptor");
    let adopted = worker.adopt(Wire::plain(Socket::from_descriptor(copy)), |wire, _| {
        connection.socket = wire;
        Some(connection)
    });
    assert!(adopted.expect("a poller"));
    peer
}

fn threads(workers: Vec<Worker>) -> Threads {
    Threads { workers, fetcher: None, feeder: None, packager: None }
}

fn worker_of(hub: &Arc<Hub>) -> Worker {
    Worker::new(Arc::clone(hub), 0, Poller::new().expect("a poller"))
}

/// What a process leaves with these workers.
fn left(hub: &Hub, threads: &Threads) -> Left {
    let mut left = Left { bytes: Vec::new(), descriptors: Vec::new() };
    let staying = pack(hub, threads, |bytes, descriptors| {
        left.bytes = bytes.to_vec();
        let copies = descriptors.iter().map(|descriptor| descriptor.try_clone_to_owned());
        left.descriptors = copies.collect::<io::Result<_>>()?;
        Ok(())
    });
    let RemainingTls { connections, sources } = staying.expect("it is delivered");
    assert!(connections.is_empty() && sources.is_empty(), "nothing speaks TLS");
    left
}

/// A show that is handed over: a publisher of the stream `a`, a viewer that has all there is, and a connection that has said half a
/// request. Returns what is left, and the peers.
fn show() -> (Left, [Socket; 3]) {
    let mut publisher = stage(|of| *of = settings());
    publisher.say(put("/live/a.ts"));
    publisher.turn();
    publisher.say(chunk(&opening(3).1));
    publisher.turn();
    let mut viewer = beside(&publisher, PEER, 8);
    viewer.say(get("/live/a.ts"));
    viewer.turn();
    viewer.heard();
    let mut asking = beside(&publisher, PEER, 9);
    asking.say("GET /pa");
    asking.turn();
    let hub = Arc::clone(&publisher.hub);
    let mut worker = worker_of(&hub);
    let peers = [publisher, viewer, asking].map(|stage| adopt(&mut worker, stage).expect("a peer"));
    hub.counters.accepted.add(3);
    (left(&hub, &threads(vec![worker])), peers)
}

/// The connection in `slot` of the worker, with its peer.
fn restored(inherited: &mut Inherited, worker: usize, slot: usize, peer: Socket) -> Stage {
    let hub = Arc::clone(&inherited.hub);
    let connection = inherited.threads.workers[worker].part_with(slot).expect("a connection");
    let (settings, now) = (hub.settings(), hub.clock.now());
    let site = Arc::new(TestSite::default());
    Stage { hub, site, settings, buffers: TurnBuffers::new(), connection, peer: Some(peer), now }
}

#[test]
fn publishers_viewers_and_half_requests_go_on_in_the_next_process() {
    let (left, [publisher, viewer, asking]) = show();
    let mut there = left.taken(settings(), 1).expect("it is taken over");
    let hub = Arc::clone(&there.hub);
    let counters = &hub.counters;
    assert_eq!((counters.accepted.value(), counters.connections.value()), (3, 3));
    let live = hub.streams.find(&name("a")).expect("its stream");
    assert_eq!((live.bytes_in(), live.viewers(), live.published_since().is_some()), (940, 1, true));
    let mut publisher = restored(&mut there, 0, 0, publisher);
    let mut viewer = restored(&mut there, 0, 1, viewer);
    let mut asking = restored(&mut there, 0, 2, asking);
    assert_eq!((viewer.counted(Purpose::Watch), viewer.counted(Purpose::Publish)), (1, 1));
    assert_eq!(asking.ask("ge HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 200);
    let picture = opening(3).0.picture(false, 4);
    publisher.say(chunk(&picture));
    publisher.turn();
    viewer.turn();
    assert_eq!(viewer.heard(), picture);
    assert_eq!(publisher.ask("0\r\n\r\n").status, 204);
}

#[test]
fn what_is_left_is_left_again_the_same() {
    let (left, peers) = show();
    let before = left.state();
    let there = left.taken(settings(), 1).expect("it is taken over");
    let again = self::left(&there.hub, &there.threads);
    let after = again.state();
    assert_eq!((before.connections.len(), before.streams.len()), (3, 1));
    let text = |state: &HandoverState| {
        let connections: Vec<_> = state.connections.iter().map(|it| format!("{:?}", it.state)).collect();
        (connections, state.streams[0].0.id, state.streams[0].1, state.format)
    };
    assert_eq!(text(&after), text(&before));
    assert_eq!(rmp_serde::to_vec_named(&after.hub).unwrap(), rmp_serde::to_vec_named(&before.hub).unwrap());
    drop(peers);
}

#[test]
fn connections_are_divided_among_as_many_workers_as_there_are_now() {
    let (left, _peers) = show();
    let left = left.with(|state| {
        for (at, connection) in state.connections.iter_mut().enumerate() {
            connection.worker = at + 5;
        }
    });
    let there = left.taken(settings(), 2).expect("it is taken over");
    let counts: Vec<_> = there.threads.workers.iter().map(|worker| worker.connections().count()).collect();
    assert_eq!(counts, [1, 2]);
}

#[test]
fn streams_take_the_settings_of_the_new_process() {
    let (left, _peers) = show();
    let mut changed = settings();
    changed.stream.pacing = Pacing::Rate(5_000_000);
    let there = left.taken(changed, 1).expect("it is taken over");
    assert!(there.hub.streams.find(&name("a")).expect("its stream").paces_all());
}

#[test]
fn a_viewer_of_a_stream_that_has_ended_is_not_left() {
    let mut publisher = stage(|of| *of = settings());
    publisher.say(put("/live/a.ts"));
    publisher.turn();
    publisher.say(chunk(&opening(3).1));
    publisher.turn();
    let mut viewer = beside(&publisher, PEER, 8);
    viewer.say(get("/live/a.ts"));
    viewer.turn();
    let hub = Arc::clone(&publisher.hub);
    hub.streams.end(&hub.streams.find(&name("a")).expect("its stream"));
    let mut worker = worker_of(&hub);
    let _peer = adopt(&mut worker, viewer);
    let left = left(&hub, &threads(vec![worker]));
    assert_eq!(
        (left.state().connections.len(), left.state().streams.len(), left.descriptors.len()),
        (0, 0, 0)
    );
}

#[test]
fn a_message_says_beforehand_how_many_descriptors_it_needs_at_most() {
    let (left, _peers) = show();
    let most = descriptor_count(&left.bytes).expect("a message");
    assert!(most >= left.descriptors.len(), "{most} for {}", left.descriptors.len());
    let another = left.state().streams.remove(0);
    let huge = left.with(|state| {
        state.streams.push(another);
        state.streams.iter_mut().for_each(|(_, links)| *links = usize::MAX);
    });
    assert_eq!(descriptor_count(&huge.bytes).expect("a message"), usize::MAX);
    assert!(descriptor_count(b"nonsense").is_err());
}

#[test]
fn descriptors_that_are_missing_are_told_of() {
    let (mut left, _peers) = show();
    for _ in 0..left.descriptors.len() {
        left.descriptors.pop();
        let copies = left.descriptors.iter().map(|it| it.try_clone().expect("a descriptor"));
        let fewer = Left { bytes: left.bytes.clone(), descriptors: copies.collect() };
        let refused = fewer.taken(settings(), 1).err().expect("one is missing");
        assert_eq!(
            refused.to_string(),
            "cannot read what the running server leaves: descriptors are missing"
        );
    }
}

#[test]
fn another_format_is_refused_with_the_ones_that_are_known() {
    for (format, is_known) in [(0, false), (1, true), (2, true), (3, false), (u32::MAX, false)] {
        let (left, _peers) = show();
        let taken = left.with(|state| state.format = format);
        let text = format!("it has format {format}, this program knows 1 to 2");
        match read(&taken.bytes) {
            Ok(_) => assert!(is_known, "{format}"),
            Err(error) => assert!(!is_known && error.to_string().ends_with(&text), "{error}"),
        }
    }
}

#[test]
fn a_message_of_an_earlier_version_without_demands_has_none() {
    #[derive(Serialize)]
    struct Earlier {
        format: u32,
        hub: HubState,
        listeners: Vec<(Listen, SocketAddr)>,
        streams: Vec<(LiveState, usize)>,
        connections: Vec<ConnectionHandover>,
        sources: Vec<SourceHandover>,
        outputs: Vec<OutputHandover>,
    }
    let (left, _peers) = show();
    let HandoverState { format, hub, listeners, streams, connections, sources, outputs, .. } = left.state();
    let earlier = Earlier { format, hub, listeners, streams, connections, sources, outputs };
    let bytes = rmp_serde::to_vec_named(&earlier).expect("a message");
    assert!(read(&bytes).expect("a message").demands.is_empty());
    assert!(Left { bytes, ..left }.taken(settings(), 1).is_ok());
}

#[test]
fn a_field_of_a_later_version_is_passed_over() {
    let (left, _peers) = show();
    let mut bytes = left.bytes.clone();
    assert_eq!(bytes[0], 0x88, "a map of eight fields");
    bytes[0] = 0x89;
    bytes.extend([0xA5, b'l', b'a', b't', b'e', b'r', 0xC0]);
    let state = read(&bytes).expect("a message");
    assert_eq!(rmp_serde::to_vec_named(&state).expect("a message"), left.bytes);
}

#[test]
fn a_message_that_is_cut_short_anywhere_is_refused() {
    let (left, _peers) = show();
    // Most of it is the stream's figures, which are all alike.
    let (begin, end) = (0..200, left.bytes.len() - 100..left.bytes.len());
    for cut in begin.chain((0..left.bytes.len()).step_by(997)).chain(end) {
        assert!(matches!(read(&left.bytes[..cut]), Err(HandoverError::Unreadable(_))), "{cut}");
    }
}

#[test]
fn a_name_that_no_stream_can_have_is_refused() {
    let (left, _peers) = show();
    let refused = left.with(|state| state.streams[0].0.name = "../a".to_owned()).taken(settings(), 1);
    let error = refused.err().expect("it is no name");
    assert!(error.to_string().contains("\"../a\" is no stream's name"), "{error}");
}

#[test]
fn what_cannot_be_delivered_stays() {
    let publisher = stage(|of| *of = settings());
    let hub = Arc::clone(&publisher.hub);
    let mut worker = worker_of(&hub);
    let _peer = adopt(&mut worker, publisher);
    let threads = threads(vec![worker]);
    let refused = pack(&hub, &threads, |_, _| Err(io::Error::other("the other end has gone")));
    assert_eq!(refused.err().expect("it is refused").to_string(), "the other end has gone");
    assert_eq!(threads.workers[0].connections().count(), 1);
}

/// A worker with a listener for each of `listen`, and what it leaves.
fn listening(listen: &[Listen], each: usize) -> (Left, Vec<SocketAddr>) {
    let hub = Arc::clone(&stage(|of| *of = settings()).hub);
    let (mut listeners, mut addresses) = (Vec::new(), Vec::new());
    for listen in listen {
        let group = Listener::bind_group(listen.address, each).expect("a port");
        addresses.push(group[0].local_address().expect("an address"));
        listeners.extend(group.into_iter().map(|listener| (listen.clone(), listener)));
    }
    let mut worker = worker_of(&hub);
    worker.reconfigure(listeners, 1);
    (left(&hub, &threads(vec![worker])), addresses)
}

fn at(port: u16) -> Listen {
    SocketAddr::from(([127, 0, 0, 1], port)).into()
}

#[test]
fn listeners_go_over_and_each_worker_gets_one() {
    let (left, addresses) = listening(&[at(0)], 1);
    let there = left.taken(Settings { listen: vec![at(0)], ..settings() }, 3).expect("it is taken over");
    let [(opened, group)] = &there.listeners[..] else { panic!("one group") };
    assert_eq!((opened.address, opened.listen.clone(), group.len()), (addresses[0], at(0), 3));
    for listener in group {
        assert_eq!(listener.local_address().expect("an address"), addresses[0]);
    }
}

#[test]
fn more_listeners_than_workers_all_stay_so_that_no_caller_is_lost() {
    let (left, _) = listening(&[at(0)], 4);
    assert_eq!((left.descriptors.len(), left.state().listeners.len()), (4, 4));
    let there = left.taken(Settings { listen: vec![at(0)], ..settings() }, 2).expect("it is taken over");
    assert_eq!(there.listeners[0].1.len(), 4);
}

#[test]
fn a_free_port_may_be_configured_by_the_number_that_it_got() {
    let (left, addresses) = listening(&[at(0)], 1);
    let fixed = Listen { is_admin: true, ..at(addresses[0].port()) };
    let there =
        left.taken(Settings { listen: vec![fixed.clone()], ..settings() }, 1).expect("it is taken over");
    assert_eq!(there.listeners[0].0, Opened { listen: fixed, address: addresses[0] });
}

#[test]
fn a_listener_that_is_not_wanted_any_more_is_closed() {
    let (left, addresses) = listening(&[at(0), at(0)], 1);
    let kept = at(addresses[1].port());
    let there = left.taken(Settings { listen: vec![kept], ..settings() }, 1).expect("it is taken over");
    assert_eq!(there.listeners.len(), 1);
    assert!(std::net::TcpStream::connect(addresses[0]).is_err());
    assert!(std::net::TcpStream::connect(addresses[1]).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_damaged_message_is_taken_or_refused_and_nothing_else(at in 0usize..100_000, byte: u8) {
        let (mut left, _peers) = show();
        let at = at % left.bytes.len();
        left.bytes[at] = byte;
        if let Ok(again) = passed_on(&left.bytes) {
            prop_assert!(read(&again).is_ok(), "what it passes on is a message");
        }
    }
}
