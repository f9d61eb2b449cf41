//! A connection without a server, for the unit tests of this room: its peer, its hub and its time are a test's.

use crate::access::GONE;
use crate::connection::{Connection, LAST_ACTS, Turn};
use crate::hub::Hub;
use crate::inboxes::Message;
use crate::test_streams::hub_with;
use crate::turn::{TurnBuffers, TurnContext};
use crate::viewer::Allowance;
use crate::wire::Wire;
use crate::{Access, ListenerRole, Settings, Site};
use glassline_delivery::http1::Response;
use glassline_delivery::http1::server::Request;
use glassline_io::tcp::Connection as Socket;
use glassline_media::Time;
use glassline_streams::ConnectionId;
use glassline_streams::presence::Purpose;
use glassline_test_support::ts::Source;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a socket holds of what its peer has not read, about.
pub(crate) const SOCKET_BYTES: usize = 64 << 10;

/// A site that says the path back; `/absent/` is not there, `/long/` takes long, `/large/` is an answer of 300,000 bytes.
/// It keeps what it was told.
#[derive(Default)]
pub(crate) struct TestSite {
    pub(crate) asked: Mutex<Vec<String>>,
    pub(crate) accesses: Mutex<Vec<Access>>,
}

impl Site for TestSite {
    fn respond(&self, request: &Request, door: ListenerRole, _peer: IpAddr, _hub: &Hub) -> Response {
        self.asked.lock().unwrap().push(format!("{door:?} {}", request.path));
        match request.path.split('/').nth(1) {
            Some("absent") => Response::new(404),
            Some("large") => Response::ok("text/plain", vec![b'x'; 300_000]),
            _ => Response::ok("text/plain", request.path.clone()),
        }
    }

    fn takes_long(&self, request: &Request, _door: ListenerRole, _peer: IpAddr, _hub: &Hub) -> bool {
        request.path.starts_with("/long/")
    }

    fn logs_access(&self) -> bool {
        true
    }

    fn log_access(&self, access: Access) {
        self.accesses.lock().unwrap().push(access);
    }
}

/// An answer as a client reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The value of a field, in the spelling that the relay gives it.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head.split("\r\n").find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("a text")
    }

    /// Whether the connection ends behind it.
    pub(crate) fn is_closed_behind(&self) -> bool {
        self.field("Connection") == Some("close")
    }
}

/// The answers in `bytes`, one behind the other; each body has the length that its head tells, or goes to the end.
pub(crate) fn answers(mut bytes: &[u8]) -> Vec<Answer> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a whole head") + 4;
        let head = String::from_utf8(bytes[..end].to_vec()).expect("a head is a text");
        let status = head[9..12].parse().expect("a status");
        let mut answer = Answer { status, head, body: Vec::new() };
        bytes = &bytes[end..];
        let is_without = matches!(status, 100 | 204 | 304);
        let length = match answer.field("Content-Length") {
            Some(length) => length.parse().expect("a length"),
            None if is_without => 0,
            None => bytes.len(),
        };
        answer.body = bytes[..length].to_vec();
        bytes = &bytes[length..];
        found.push(answer);
    }
    found
}

/// A connection, what a worker lends to it, and its peer.
pub(crate) struct Stage {
    pub(crate) hub: Arc<Hub>,
    pub(crate) site: Arc<TestSite>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) buffers: TurnBuffers,
    pub(crate) connection: Connection,
    pub(crate) peer: Option<Socket>,
    pub(crate) now: Time,
}

pub(crate) const PEER: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 50_000);
pub(crate) const ID: ConnectionId = ConnectionId { worker: 0, token: 7 };

/// A connection of a client on this machine.
pub(crate) fn stage(change: impl FnOnce(&mut Settings)) -> Stage {
    let mut settings = Settings { listen: Vec::new(), ..Settings::default() };
    change(&mut settings);
    let site = Arc::new(TestSite::default());
    let hub = hub_with(settings, 1, Arc::clone(&site) as _).into_shared();
    on(hub, site, PEER, ID)
}

/// One more connection of the same hub.
pub(crate) fn beside(stage: &Stage, peer: SocketAddr, token: u64) -> Stage {
    let id = ConnectionId { worker: 0, token };
    on(Arc::clone(&stage.hub), Arc::clone(&stage.site), peer, id)
}

fn on(hub: Arc<Hub>, site: Arc<TestSite>, from: SocketAddr, id: ConnectionId) -> Stage {
    let (ours, theirs) = Socket::pair(SOCKET_BYTES).expect("a pair of sockets");
    let (settings, now) = (hub.settings(), hub.clock.now());
    // A worker counts each connection when it lets it in.
    assert!(hub.admit_connection(from.ip(), 0) && hub.admit_unanswered(from.ip(), 0));
    let connection = Connection::new(Wire::plain(ours), from, false, id, &settings, now);
    Stage { hub, site, settings, buffers: TurnBuffers::new(), connection, peer: Some(theirs), now }
}

impl Stage {
    /// Does something with the connection, with what its worker lends.
    pub(crate) fn with<T>(&mut self, act: impl FnOnce(&mut Connection, &mut TurnContext<'_>) -> T) -> T {
        let allowance = Allowance::new(true, 1);
        let mut context = self.buffers.context(&self.hub, &self.settings, allowance, self.now);
        act(&mut self.connection, &mut context)
    }

    /// The peer sends, and all of it fits.
    pub(crate) fn say(&mut self, bytes: impl AsRef<[u8]>) {
        let (bytes, peer) = (bytes.as_ref(), self.peer.as_ref().expect("it is there"));
        assert_eq!(peer.write(bytes).expect("an open socket"), Some(bytes.len()), "it fits");
    }

    /// The connection has turns, as its worker gives them, until it rests.
    pub(crate) fn turn(&mut self) -> Turn {
        let mut turn = self.with(Connection::take_turn);
        while matches!(turn, Turn::Again | Turn::Watches) {
            turn = self.with(Connection::take_turn);
        }
        let now = self.now;
        self.with(|connection, context| {
            connection.count_answers(context.hub);
            if matches!(turn, Turn::Rests) {
                connection.end_if_written(now);
                connection.count_answers(context.hub);
            }
        });
        turn
    }

    /// What has come to the peer.
    pub(crate) fn heard(&mut self) -> Vec<u8> {
        let (mut all, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
        let peer = self.peer.as_ref().expect("it is there");
        while let Some(count @ 1..) = peer.read(&mut buffer).expect("an open socket") {
            all.extend_from_slice(&buffer[..count]);
        }
        all
    }

    /// The answers that have come to the peer.
    pub(crate) fn answers(&mut self) -> Vec<Answer> {
        answers(&self.heard())
    }

    /// The one answer that comes to what the peer sends.
    pub(crate) fn ask(&mut self, bytes: impl AsRef<[u8]>) -> Answer {
        self.say(bytes);
        self.turn();
        let mut answers = self.answers();
        assert_eq!(answers.len(), 1, "{answers:?}");
        answers.remove(0)
    }

    /// The one answer to `GET target`.
    pub(crate) fn get(&mut self, target: &str) -> Answer {
        self.ask(get(target))
    }

    /// Whether our side has ended, and all before that was read.
    pub(crate) fn sees_end(&mut self) -> bool {
        let peer = self.peer.as_ref().expect("it is there");
        peer.read(&mut [0]).expect("an open socket") == Some(0)
    }

    /// The peer ends its side.
    pub(crate) fn end(&mut self) {
        self.peer.as_ref().expect("it is there").end().expect("an open socket");
    }

    /// Time passes, and the time limits are looked at, as a worker's sweep does. Returns whether the connection is over.
    pub(crate) fn pass(&mut self, time: Duration) -> bool {
        self.now += time;
        let now = self.now;
        self.with(|connection, context| {
            let over = connection.check_time(context);
            connection.end_if_written(now);
            connection.count_answers(context.hub);
            over
        })
    }

    /// The connection is closed, as its worker does it.
    pub(crate) fn close(&mut self) {
        for act in LAST_ACTS {
            self.with(act);
        }
    }

    /// How many connections from the peer's address are counted for `purpose`.
    pub(crate) fn counted(&self, purpose: Purpose) -> usize {
        counted(&self.hub, self.connection.peer().ip(), purpose)
    }

    /// What was told to the worker's inbox.
    pub(crate) fn messages(&self) -> Vec<Message> {
        let mut messages = Vec::new();
        self.hub.inboxes.collect(0, &mut messages);
        messages
    }

    /// What the access log was told: path, status and bytes of each exchange.
    pub(crate) fn logged(&self) -> Vec<(String, u16, u64)> {
        let accesses = self.site.accesses.lock().unwrap();
        accesses.iter().map(|access| (access.path.clone(), access.status, access.bytes)).collect()
    }
}

/// How many of `address` are counted for `purpose`.
pub(crate) fn counted(hub: &Hub, address: IpAddr, purpose: Purpose) -> usize {
    let seen = hub.presence.enter(address, purpose, 0, |of_address, _| Err::<(), _>(of_address.count));
    seen.expect_err("it is only looked at")
}

pub(crate) fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

/// The head of a request that publishes a stream without an end.
pub(crate) fn put(target: &str) -> String {
    format!("PUT {target} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
}

pub(crate) fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// Tables and a key frame of so many packets, as a source begins.
pub(crate) fn opening(packets: usize) -> (Source, Vec<u8>) {
    let mut source = Source::default();
    let bytes = [source.tables(), source.picture(true, packets)].concat();
    (source, bytes)
}

/// What the log says of a peer that was gone before its answer.
pub(crate) const LEFT: u16 = GONE;
