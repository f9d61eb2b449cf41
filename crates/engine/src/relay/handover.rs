//! What one process leaves to the next, so that the program changes under its viewers.
//!
//! All threads are at a halt; what they have becomes one message: a tree of plain values (MessagePack, named fields)
//! and the descriptors that belong to it, in the order in which the tree names them. The next process builds
//! everything from it before it says that it is ready; where that fails, the first one goes on as if nothing had been.
//! Offsets, parsers' states and half-written heads come over as they are; the streams' bytes stay where they are, in
//! memory files that both processes see.

use crate::relay::connection::{Connection, ConnectionState};
use crate::relay::hub::{Hub, HubState};
use crate::relay::live::{Live, LiveState};
use crate::relay::output::{Feeder, LeftOutput};
use crate::relay::pull::{Fetcher, LeftSource};
use crate::relay::worker::Worker;
use crate::relay::{Crew, Listen, Opened, Settings, Site, StartError};
use glassline_delivery::policy::StreamName;
use glassline_io::clock::Clock;
use glassline_io::spool::LinkFile;
use glassline_io::tcp::{Connection as Socket, Listener};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use thiserror::Error;

/// Changes whenever a program could misread what another one has left although each value has its place.
const FORMAT: u32 = 1;

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
    /// What is to be begun beside it cannot be.
    #[error(transparent)]
    Start(#[from] StartError),
}

#[derive(Serialize, Deserialize)]
struct Estate {
    format: u32,
    hub: HubState,
    /// As configured and as they are; a descriptor each.
    listeners: Vec<(Listen, SocketAddr)>,
    /// Each with its number of links; a descriptor each.
    streams: Vec<(LiveState, usize)>,
    connections: Vec<LeftConnection>,
    /// A descriptor each.
    sources: Vec<LeftSource>,
    outputs: Vec<LeftOutput>,
}

/// Two descriptors where it has a link of its own, or else one.
#[derive(Serialize, Deserialize)]
struct LeftConnection {
    worker: usize,
    state: ConnectionState,
    own_link: Option<u64>,
}

/// Makes the message of all that a halted relay has, and has it delivered.
pub(super) fn pack<R>(
    hub: &Hub,
    crew: &Crew,
    deliver: impl FnOnce(&[u8], &[BorrowedFd<'_>]) -> io::Result<R>,
) -> io::Result<R> {
    let (mut listeners, mut sockets) = (Vec::new(), Vec::new());
    for (listen, listener) in crew.workers.iter().flat_map(Worker::listeners) {
        listeners.push((listen.clone(), listener.local_address()?));
        sockets.push(listener.as_fd());
    }
    let (mut streams, mut links) = (Vec::new(), Vec::new());
    for live in hub.all() {
        let (state, its_links) = live.state();
        streams.push((state, its_links.len()));
        links.extend(its_links);
    }
    let is_kept = |stream: u64| streams.iter().any(|(state, _)| state.id == stream);
    let (mut connections, mut ends) = (Vec::new(), Vec::new());
    for (worker, its_connections) in crew.workers.iter().map(Worker::connections).enumerate() {
        for connection in its_connections.filter(|connection| connection.can_be_left()) {
            let (state, own_link) = connection.state();
            // A stream that is over has left the list; who has still to read its last bytes is cut off.
            if state.stream().is_none_or(is_kept) {
                let own = own_link.as_ref().map(LinkFile::index);
                connections.push(LeftConnection { worker, state, own_link: own });
                ends.push((connection.socket.as_fd(), own_link));
            }
        }
    }
    let sources = crew.fetcher.as_ref().map(Fetcher::states).unwrap_or_default();
    let (sources, source_sockets): (Vec<_>, Vec<_>) = sources.into_iter().unzip();

    let mut descriptors = sockets;
    descriptors.extend(links.iter().map(LinkFile::as_fd));
    for (socket, own_link) in &ends {
        descriptors.push(*socket);
        descriptors.extend(own_link.as_ref().map(LinkFile::as_fd));
    }
    descriptors.extend(source_sockets);
    let outputs = crew.feeder.as_ref().map(Feeder::states).unwrap_or_default();
    let estate =
        Estate { format: FORMAT, hub: hub.state(), listeners, streams, connections, sources, outputs };
    let bytes = rmp_serde::to_vec_named(&estate).map_err(io::Error::other)?;
    deliver(&bytes, &descriptors)
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
    pub(super) crew: Crew,
    /// Listeners for the workers, by their configured addresses.
    pub(super) listeners: Vec<(Opened, Vec<Listener>)>,
}

/// Builds everything out of what another process left. Nothing runs yet, and nothing has been done to any socket.
pub(super) fn unpack(
    settings: Settings,
    site: Arc<dyn Site>,
    count: usize,
    bytes: &[u8],
    descriptors: Vec<OwnedFd>,
) -> Result<Inherited, HandoverError> {
    let estate: Estate =
        rmp_serde::from_slice(bytes).map_err(|error| HandoverError::Unreadable(error.to_string()))?;
    if estate.format != FORMAT {
        let words = format!("it has format {}, this program has {FORMAT}", estate.format);
        return Err(HandoverError::Unreadable(words));
    }
    let mut descriptors = Descriptors(descriptors.into_iter());
    let listeners = inherit_listeners(estate.listeners, &settings, count, &mut descriptors)?;
    let lives = inherit_streams(estate.streams, count, &mut descriptors)?;
    let (mut hub, mut pollers) = Hub::new(settings, site, Clock::new(), count)?;
    hub.inherit(estate.hub, lives.values().cloned().collect());
    let hub = Arc::new(hub);
    let mut feeder = pollers.pop().map(|poller| Feeder::new(&hub, poller));
    let workers = pollers.into_iter().enumerate();
    let mut workers: Vec<_> =
        workers.map(|(index, poller)| Worker::new(Arc::clone(&hub), index, poller)).collect();
    for LeftConnection { worker, state, own_link } in estate.connections {
        let socket = Socket::from_descriptor(descriptors.take()?);
        let own_link =
            own_link.map(|index| Ok::<_, HandoverError>((index, descriptors.take()?))).transpose()?;
        let live = state.stream().and_then(|stream| lives.get(&stream));
        workers[worker % count]
            .adopt(socket, |socket, seat| Connection::restore(state, socket, seat, live, own_link))?;
    }
    let mut fetcher = Fetcher::new(&hub)?;
    fetcher.rearrange();
    for source in estate.sources {
        fetcher.restore(source, descriptors.take()?)?;
    }
    if let Some(feeder) = &mut feeder {
        feeder.rearrange();
        feeder.restore(&estate.outputs);
    }
    let settings = hub.settings();
    for live in lives.values() {
        live.release_absent(hub.clock.now());
        live.reconfigure(settings.of_stream(&live.name));
    }
    Ok(Inherited { hub, crew: Crew { workers, fetcher: Some(fetcher), feeder }, listeners })
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
        // What was told to take a free port may now be asked for by the one that it got.
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
