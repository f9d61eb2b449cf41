//! The hand-over state: what one process passes to the next, so that the program is upgraded while its connections go
//! on.
//!
//! The old process halts its threads and packs what they have into one message: a tree of plain values (MessagePack,
//! named fields) and the descriptors that belong to it, in the order in which the tree names them. The new process
//! builds everything from it before it says that it is ready; where that fails, the old one goes on as before. Offsets,
//! parsers' states and half-written heads are handed over as they are. The streams' bytes stay where they are, in
//! memory files that both processes have open. TLS sessions cannot be moved: the old process keeps them and
//! [goes on as a TLS proxy](super::tls_ends).

use crate::connection::{Connection, ConnectionState};
use crate::demand::DemandHandover;
use crate::hub::{Hub, HubState};
use crate::output::{Destinations, Feeder, OutputHandover};
use crate::packaging::Packaging;
use crate::pull::{Fetcher, SourceHandover, Sources};
use crate::tls_ends::{PlainEnd, TlsEnd};
use crate::wire::{Wire, WireState};
use crate::worker::Worker;
use crate::{Listen, Opened, Settings, Site, StartError, Threads};
use glassline_delivery::policy::StreamName;
use glassline_io::clock::Clock;
use glassline_io::spool::LinkFile;
use glassline_io::tcp::{Connection as Socket, Listener};
use glassline_streams::{Live, LiveState};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use thiserror::Error;

/// Changes whenever a program could misread what another one has left although each value has its place.
const FORMAT: u32 = 2;
/// The oldest that is understood. In it connections over TLS are left out.
const OLDEST_FORMAT: u32 = 1;

/// Why what another process left cannot be taken over. That process may go on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HandoverError {
    /// It is not what this program understands; mostly because the other one is of another version.
    #[error("cannot read what the running server leaves: {0}")]
    Unreadable(String),
    /// A socket or a file among it cannot be used.
    #[error("cannot use what the running server leaves: {0}")]
    Unusable(#[from] io::Error),
    /// A part that this process sets up itself, such as a further listener, cannot be set up.
    #[error(transparent)]
    Start(#[from] StartError),
}

#[derive(Serialize, Deserialize)]
struct HandoverState {
    format: u32,
    hub: HubState,
    /// As configured and as they are; a descriptor each.
    listeners: Vec<(Listen, SocketAddr)>,
    /// Each with its number of links; a descriptor each.
    streams: Vec<(LiveState, usize)>,
    connections: Vec<ConnectionHandover>,
    /// A descriptor each.
    sources: Vec<SourceHandover>,
    outputs: Vec<OutputHandover>,
    #[serde(default)]
    demands: Vec<DemandHandover>,
}

/// Its descriptors: the socket, the end for plain bytes where its wire has one, and the link of its own where it has
/// one.
#[derive(Serialize, Deserialize)]
struct ConnectionHandover {
    worker: usize,
    state: ConnectionState,
    #[serde(default)]
    wire: WireState,
    own_link: Option<u64>,
}

/// The descriptors of a [`ConnectionHandover`].
struct Ends<'a> {
    socket: &'a Socket,
    plain: Option<PlainEnd<'a>>,
    own_link: Option<LinkFile>,
}

/// What stays in this process once all else is taken over: TLS sessions, with our ends for their plain bytes.
#[derive(Default)]
pub(super) struct RemainingTls {
    /// By worker and slot.
    connections: Vec<(usize, usize, Socket)>,
    /// By the source's number.
    sources: Vec<(usize, Socket)>,
}

impl RemainingTls {
    /// Takes the TLS out of `threads`, for each worker a group of connections.
    pub(super) fn part(self, threads: &mut Threads) -> Vec<Vec<TlsEnd>> {
        let mut groups: Vec<Vec<TlsEnd>> = threads.workers.iter().map(|_| Vec::new()).collect();
        for (worker, slot, end) in self.connections {
            let connection = threads.workers[worker].part_with(slot);
            let secured = connection.and_then(|connection| connection.socket.into_session());
            groups[worker].extend(secured.map(|(socket, session)| TlsEnd::new(socket, session, end)));
        }
        for (index, end) in self.sources {
            let secured = threads.fetcher.as_mut().and_then(|fetcher| fetcher.part_with(index));
            if let (Some((socket, session)), Some(group)) = (secured, groups.first_mut()) {
                group.push(TlsEnd::new(socket, session, end));
            }
        }
        groups
    }
}

/// Makes the message of all that a halted relay has, and has it delivered. Returns what stays then.
pub(super) fn pack(
    hub: &Hub,
    threads: &Threads,
    deliver: impl FnOnce(&[u8], &[BorrowedFd<'_>]) -> io::Result<()>,
) -> io::Result<RemainingTls> {
    let (mut listeners, mut sockets) = (Vec::new(), Vec::new());
    for (listen, listener) in threads.workers.iter().flat_map(Worker::listeners) {
        listeners.push((listen.clone(), listener.local_address()?));
        sockets.push(listener.as_fd());
    }
    let (mut streams, mut links) = (Vec::new(), Vec::new());
    for live in hub.streams.all() {
        let (state, its_links) = live.state();
        streams.push((state, its_links.len()));
        links.extend(its_links);
    }
    let is_kept = |stream: u64| streams.iter().any(|(state, _)| state.id == stream);
    let (connections, ends, slots) = pack_connections(&threads.workers, is_kept);
    let sources = threads.fetcher.as_ref().map(Fetcher::states).unwrap_or_default();
    let (sources, source_sockets): (Vec<_>, Vec<_>) = sources.into_iter().unzip();

    let mut descriptors = sockets;
    descriptors.extend(links.iter().map(LinkFile::as_fd));
    for Ends { socket, plain, own_link } in &ends {
        descriptors.push(socket.as_fd());
        descriptors.extend(plain.as_ref().map(PlainEnd::as_fd));
        descriptors.extend(own_link.as_ref().map(LinkFile::as_fd));
    }
    descriptors.extend(source_sockets.iter().map(|(_, socket)| socket.as_fd()));
    let outputs = threads.feeder.as_ref().map(Feeder::states).unwrap_or_default();
    let (format, demands) = (FORMAT, hub.demands_left());
    let state = HandoverState {
        format,
        hub: hub.state(),
        listeners,
        streams,
        connections,
        sources,
        outputs,
        demands,
    };
    let bytes = rmp_serde::to_vec_named(&state).map_err(io::Error::other)?;
    deliver(&bytes, &descriptors)?;
    let made = |(worker, slot, plain)| match plain {
        Some(PlainEnd::Made(pair)) => Some((worker, slot, pair.ours)),
        Some(PlainEnd::Given(_)) | None => None,
    };
    let slots = slots.into_iter().zip(ends).map(|((worker, slot), ends)| (worker, slot, ends.plain));
    let sources = source_sockets.into_iter().filter_map(|(index, socket)| Some((index, socket.into_ours()?)));
    Ok(RemainingTls { connections: slots.filter_map(made).collect(), sources: sources.collect() })
}

/// The connections of `workers`, their descriptors, and which worker's slots they are in.
fn pack_connections(
    workers: &[Worker],
    is_kept: impl Fn(u64) -> bool,
) -> (Vec<ConnectionHandover>, Vec<Ends<'_>>, Vec<(usize, usize)>) {
    let (mut connections, mut ends, mut slots) = (Vec::new(), Vec::new(), Vec::new());
    let mut lost = None;
    for (worker, its_connections) in workers.iter().map(Worker::connections).enumerate() {
        for (slot, connection) in its_connections {
            let (wire, plain) = match connection.socket.state() {
                Ok(wire) => wire,
                Err(error) => {
                    lost = Some(error);
                    continue;
                }
            };
            let (state, own_link) = connection.state();
            // A stream that is over has left the list: a viewer that has not read its last bytes yet is cut off.
            if state.stream().is_none_or(&is_kept) {
                let own = own_link.as_ref().map(LinkFile::index);
                connections.push(ConnectionHandover { worker, state, wire, own_link: own });
                ends.push(Ends { socket: connection.socket.tcp(), plain, own_link });
                slots.push((worker, slot));
            }
        }
    }
    if let Some(error) = lost {
        tracing::warn!(%error, "some connections over TLS cannot be left to the new program; they end");
    }
    (connections, ends, slots)
}

/// Descriptors in their order.
struct Descriptors(std::vec::IntoIter<OwnedFd>);

impl Descriptors {
    fn take(&mut self) -> Result<OwnedFd, HandoverError> {
        self.0.next().ok_or_else(|| HandoverError::Unreadable("descriptors are missing".into()))
    }
}

/// What a relay needs to go on where another process left off.
pub(super) struct Inherited {
    pub(super) hub: Arc<Hub>,
    pub(super) threads: Threads,
    /// Listeners for the workers, by their configured addresses.
    pub(super) listeners: Vec<(Opened, Vec<Listener>)>,
}

fn read(bytes: &[u8]) -> Result<HandoverState, HandoverError> {
    // Behind a trait object the decoder is compiled once, not for each of three hundred types and fields, which was
    // a tenth of the whole build.
    let mut decoder = rmp_serde::Deserializer::from_read_ref(bytes);
    let state: HandoverState =
        erased_serde::deserialize(&mut <dyn erased_serde::Deserializer>::erase(&mut decoder))
            .map_err(|error| HandoverError::Unreadable(error.to_string()))?;
    if !(OLDEST_FORMAT..=FORMAT).contains(&state.format) {
        let words = format!("it has format {}, this program knows {OLDEST_FORMAT} to {FORMAT}", state.format);
        return Err(HandoverError::Unreadable(words));
    }
    Ok(state)
}

/// How many descriptors a message needs at most, if it is one.
pub(super) fn descriptor_count(bytes: &[u8]) -> Result<usize, HandoverError> {
    let HandoverState { listeners, streams, connections, sources, .. } = read(bytes)?;
    let links = streams.iter().fold(0_usize, |sum, (_, links)| sum.saturating_add(*links));
    Ok(links.saturating_add(listeners.len() + 3 * connections.len() + sources.len()))
}

/// Builds everything out of what another process left. Nothing runs yet, and nothing has been done to any socket.
pub(super) fn unpack(
    settings: Settings,
    site: Arc<dyn Site>,
    count: usize,
    bytes: &[u8],
    descriptors: Vec<OwnedFd>,
) -> Result<Inherited, HandoverError> {
    let state = read(bytes)?;
    let mut descriptors = Descriptors(descriptors.into_iter());
    let listeners = inherit_listeners(state.listeners, &settings, count, &mut descriptors)?;
    let lives = inherit_streams(state.streams, count, &mut descriptors)?;
    let (mut hub, mut pollers) = Hub::new(settings, site, Clock::new(), count)?;
    hub.inherit(state.hub, lives.values().cloned().collect())
        .map_err(|error| HandoverError::Unreadable(error.to_string()))?;
    let hub = hub.into_shared();
    let packager = pollers.pop().map(|poller| Packaging::new(&hub, poller));
    let mut feeder =
        pollers.pop().map(|poller| Feeder::new(Arc::clone(&hub) as Arc<dyn Destinations>, poller));
    let workers = pollers.into_iter().enumerate();
    let mut workers: Vec<_> =
        workers.map(|(index, poller)| Worker::new(Arc::clone(&hub), index, poller)).collect();
    for ConnectionHandover { worker, state, wire, own_link } in state.connections {
        let socket = Socket::from_descriptor(descriptors.take()?);
        let is_apart = matches!(wire, WireState::Apart { .. });
        let plain = if is_apart { Some(Socket::from_descriptor(descriptors.take()?)) } else { None };
        let wire = Wire::restore(wire, socket, plain);
        let own_link =
            own_link.map(|index| Ok::<_, HandoverError>((index, descriptors.take()?))).transpose()?;
        let live = state.stream().and_then(|stream| lives.get(&stream));
        workers[worker % count]
            .adopt(wire, |wire, id| Connection::restore(state, wire, id, live, own_link))?;
    }
    let mut fetcher = Fetcher::new(Arc::clone(&hub) as Arc<dyn Sources>)?;
    hub.inherit_demands(state.demands);
    fetcher.rearrange();
    for source in state.sources {
        fetcher.restore(source, descriptors.take()?)?;
    }
    if let Some(feeder) = &mut feeder {
        feeder.rearrange();
        feeder.restore(&state.outputs);
    }
    let settings = hub.settings();
    for live in lives.values() {
        live.release_absent(hub.clock.now());
        live.reconfigure(settings.of_stream(&live.name));
    }
    Ok(Inherited { hub, threads: Threads { workers, fetcher: Some(fetcher), feeder, packager }, listeners })
}

/// The listeners that are still wanted, as many for each worker as came; more are opened where workers have none.
fn inherit_listeners(
    left: Vec<(Listen, SocketAddr)>,
    settings: &Settings,
    count: usize,
    descriptors: &mut Descriptors,
) -> Result<Vec<(Opened, Vec<Listener>)>, HandoverError> {
    let mut groups: BTreeMap<SocketAddr, (Listen, Vec<Listener>)> = BTreeMap::new();
    for (configured, address) in left {
        let listener = Listener::from_descriptor(descriptors.take()?);
        groups.entry(address).or_insert((configured, Vec::new())).1.push(listener);
    }
    let mut inherited = Vec::new();
    for listen in &settings.listen {
        // A listener that was configured with a free port (0) may now be configured with the port that it got.
        let is_it =
            |configured: &Listen, address: SocketAddr| listen.is_at(configured) || listen.address == address;
        let found = groups.iter().find(|(address, (configured, _))| is_it(configured, **address));
        let Some(address) = found.map(|(address, _)| *address) else { continue };
        let Some((_, mut group)) = groups.remove(&address) else { continue };
        if let (Some(first), missing @ 1..) = (group.first(), count.saturating_sub(group.len())) {
            let more = first.joined_by(missing)?;
            group.extend(more);
        }
        inherited.push((Opened { listen: listen.clone(), address }, group));
    }
    Ok(inherited)
}

fn inherit_streams(
    left: Vec<(LiveState, usize)>,
    workers: usize,
    descriptors: &mut Descriptors,
) -> Result<BTreeMap<u64, Arc<Live>>, HandoverError> {
    let mut lives = BTreeMap::new();
    for (state, count) in left {
        let links = (0..count).map(|_| descriptors.take()).collect::<Result<Vec<_>, _>>()?;
        let Some(name) = StreamName::parse(&state.name) else {
            return Err(HandoverError::Unreadable(format!("{:?} is no stream's name", state.name)));
        };
        lives.insert(state.id, Arc::new(Live::restore(state, name, links, workers)?));
    }
    Ok(lives)
}

#[cfg(test)]
#[path = "handover_tests.rs"]
mod tests;
