//! A transport stream over two lines, of which one is cut: what a relay at the other end has of it.

use crate::link_networks::{Change, LISTENS_AT, Networks, elsewhere, near_device, settings};
use glassline_call::contribution::{Connection, Direction, Outgoing, Pushed, Use, Wanted, Way, Ways};
use glassline_call::link::Local;
use glassline_delivery::policy::StreamName;
use glassline_delivery::stream::{Backlog, FlushPolicy, Pacing, Prebuffer, Settings};
use glassline_io::clock::Clock;
use glassline_streams::status::{Companion, SourceState};
use glassline_streams::{Entering, FreeNames, NoThreads, Read, Streams, Subscription};
use glassline_test_support::numbered::{Check, Shape};
use glassline_test_support::wait::{PATIENCE, until, until_some};
use glassline_transport::link::{self, Bonding};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

const SHAPE: Shape = Shape { packets: 40, group: 10 };
/// Pictures that may be under way.
const AHEAD: u64 = 5;

fn streams() -> Arc<Streams> {
    let settings = Settings {
        backlog: Backlog { time: PATIENCE, bytes: 64 << 20 },
        flush: FlushPolicy::Frame,
        pacing: Pacing::Off,
        prebuffer: Prebuffer::NONE,
    };
    let plan = FreeNames { settings, max_streams: 4 };
    Arc::new(Streams::new(Arc::new(plan), Arc::new(NoThreads), Clock::new()))
}

/// A relay in the far network that takes the stream.
fn relay(networks: &Networks, streams: &Arc<Streams>, settings: link::Settings) -> Ways {
    let ways = Ways::default();
    let wanted = Wanted {
        stream: name(),
        identity: "hall".to_owned(),
        url: format!("link://{LISTENS_AT}"),
        purpose: Use::Source { silence_timeout: PATIENCE },
        way: Way { name: "hall".to_owned(), settings, direction: Direction::Listen(Local::at(LISTENS_AT)) },
    };
    elsewhere(|| {
        // Threads that it starts are in its network.
        networks.far.enter().unwrap();
        ways.arrange(streams, vec![wanted]);
    });
    ways
}

/// A sender in the near network, by these devices.
fn sender(
    networks: &Networks,
    outgoing: &Arc<Outgoing>,
    settings: link::Settings,
    devices: &'static [usize],
) -> Connection {
    let locals = move |_: &[SocketAddr]| {
        let bound =
            |index: &usize| Local { interface: Some(near_device(*index).0), ..Local::towards(LISTENS_AT) };
        Ok(devices.iter().map(bound).collect())
    };
    let direction =
        Direction::Connect { to: LISTENS_AT.to_string(), locals: Arc::new(locals), spares: Vec::new() };
    let way = Way { name: "sender".to_owned(), settings, direction };
    elsewhere(|| {
        networks.near.enter().unwrap();
        Connection::start(way, Arc::clone(outgoing))
    })
}

fn name() -> StreamName {
    StreamName::parse("hall").unwrap()
}

/// The two ends, and a reader of the stream at the far one.
struct Ends {
    outgoing: Arc<Outgoing>,
    ways: Ways,
    reader: Subscription,
    check: Check,
    number: u64,
    _connection: Connection,
}

impl Ends {
    /// With both paths up, and the stream begun.
    fn up(networks: &Networks, bonding: Bonding, twice: bool) -> Ends {
        let streams = streams();
        // Nothing but a device's end is to end a path, on a busy machine neither.
        let patient = |name| link::Settings { idle: PATIENCE / 2, bonding, ..settings(name) };
        let ways = relay(networks, &streams, patient("relay"));
        let outgoing = Outgoing::new(PATIENCE, twice);
        let connection = sender(networks, &outgoing, patient("sender"), &[0, 1]);
        assert!(outgoing.wait_up(PATIENCE));
        until("both paths", || outgoing.paths().len() == 2);
        assert!(outgoing.take_key_frame_wish(), "the peer begins with a key frame");
        assert_eq!(outgoing.push(&SHAPE.picture(1), false), Pushed::LeftOut);
        assert_eq!(outgoing.push(&SHAPE.picture(0), true), Pushed::Sent);
        let reader =
            until_some("the stream", || streams.subscribe(&name(), Entering::Oldest, Waker::noop().clone()));
        Ends { outgoing, ways, reader, check: Check::new(SHAPE), number: 1, _connection: connection }
    }

    /// Sends so many pictures as they arrive. A hole in them is a panic.
    fn pictures(&mut self, count: u64) {
        let mut buffer = vec![0; 64 << 10];
        for _ in 0..count {
            let joinable = self.number.is_multiple_of(SHAPE.group);
            assert_eq!(self.outgoing.push(&SHAPE.picture(self.number), joinable), Pushed::Sent);
            self.number += 1;
            let due = self.number.saturating_sub(AHEAD) * SHAPE.packets;
            until("pictures", || {
                match self.reader.read(&mut buffer).unwrap() {
                    Read::Entered { prelude, .. } => self.check.push(&prelude).unwrap(),
                    Read::Bytes(count) => self.check.push(&buffer[..count]).unwrap(),
                    Read::Pending => {}
                    other => panic!("{other:?}"),
                }
                self.check.packets >= due
            });
        }
    }
}

#[test]
fn of_two_lines_either_may_be_cut_and_the_relay_has_the_whole_stream() {
    let test = "of_two_lines_either_may_be_cut_and_the_relay_has_the_whole_stream";
    for (bonding, twice) in [(Bonding::Both, false), (Bonding::Sum, true), (Bonding::Sum, false)] {
        for gone in [0, 1] {
            let Some(networks) = Networks::make(test, 2) else { return };
            let mut ends = Ends::up(&networks, bonding, twice);
            ends.pictures(100);
            networks.change(Change::Remove(gone));
            ends.pictures(200);
            // It comes back, for the kernel as another device.
            networks.restore(gone);
            ends.pictures(100);
            assert_eq!(ends.check.moves, 0, "{bonding:?}, line {gone}");
            let figures = ends.outgoing.figures();
            assert_eq!(
                (figures.late, figures.links, figures.left_out),
                (0, 1, 1),
                "{bonding:?}, line {gone}"
            );
            let sources = ends.ways.sources();
            let source = sources.values().next().unwrap();
            assert_eq!((source.state, source.garbage_bytes, source.failures), (SourceState::Live, 0, 0));
        }
    }
}

/// The only line is cut for longer than the deadline: what is too old is given up, and the peer gets a place to begin anew.
#[test]
fn a_cut_that_outlasts_the_deadline_asks_for_a_key_frame() {
    let test = "a_cut_that_outlasts_the_deadline_asks_for_a_key_frame";
    let Some(networks) = Networks::make(test, 2) else { return };
    let streams = streams();
    let _relay = relay(&networks, &streams, settings("relay"));
    let short = Outgoing::new(Duration::from_millis(100), false);
    let _sender = sender(&networks, &short, settings("sender"), &[0]);
    assert!(short.wait_up(PATIENCE));
    assert!(short.take_key_frame_wish());
    assert_eq!(short.push(&SHAPE.picture(0), true), Pushed::Sent);
    networks.change(Change::Remove(0));
    let mut number = 1;
    until("packets that are given up", || {
        short.push(&SHAPE.picture(number), number.is_multiple_of(10));
        number += 1;
        short.figures().late > 0
    });
    assert!(short.take_key_frame_wish(), "the peer has missed something");
}
