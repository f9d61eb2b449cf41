//! A link session: a link that is made again after it was lost, or a listener with several peers. Their channels are
//! connected to inputs and outputs.
//!
//! A session reads its [`Input`]s and sends their messages to every peer; what peers send is written to its [`Output`]s. When
//! all inputs have ended and what they gave is delivered, it tells its peers so on [`CONTROL`]. A session that connects is
//! over once it has said so and, where it has outputs, the peer has said the same. A peer that goes without that was stopped
//! or has failed: a session that connects tries again, one that listens waits for the next peer.
//!
//! ```text
//! Input   ─► a thread for each ─► Peers (waits for the first one) ─► Link::send, for each peer
//! Output  ◄─ a thread for each and peer ◄─ Link::receive_all
//! caller  ◄─ SessionEvent ◄─ thread "link session" ◄─ links' events, ends of inputs, Stopper::stop
//! ```
//! `examples/link.rs` is a whole program.

mod account;
mod delays;
mod peer;
mod peers;
mod queues;
mod run;
mod shared;

pub use account::Continuity;
pub use delays::Delays;
pub use peer::{ChannelFigures, PeerStatistics};

use super::{Endpoint, Link};
use bytes::Bytes;
use glassline_io::containment::{Border, Panicked, contain};
use glassline_media::Utc;
use glassline_media::quantity::ByteRate;
use glassline_transport::link::{CloseReason, Error as LinkError, Event, MAX_CHANNELS, Options, Received};
use peers::Peers;
use run::Run;
use shared::{Message, Running, Shared};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The channel by which sessions tell each other that they have no more to say. The channels below it are free.
pub const CONTROL: u8 = MAX_CHANNELS as u8 - 1;

/// Why a session cannot begin, or has ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The list of channels makes no sense.
    #[error("channel {channel}: {what}")]
    Channel {
        /// Its number.
        channel: u8,
        /// What is wrong.
        what: &'static str,
    },
    /// A fault of this program's own has ended it.
    #[error(transparent)]
    Fault(#[from] Panicked),
    /// The system has no thread left.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
    /// The endpoint makes no link.
    #[error("cannot connect")]
    Connect(#[source] LinkError),
    /// The link takes no further path.
    #[error("cannot add a further path")]
    Path(#[source] LinkError),
    /// The link takes no channel with these options.
    #[error(transparent)]
    Open(LinkError),
    /// The listener does not answer, and [`Mode::Connect`] asks to give up then.
    #[error("the other end does not answer")]
    Unreachable {
        /// It has answered before.
        was_up: bool,
    },
    /// The listener does not take us, and [`Mode::Connect`] asks to give up then: see [`SessionEvent::Refused`].
    #[error("the listener has another peer of this name or key, which answers")]
    Refused,
    /// All was sent, the listener does not answer any more, and nothing tells whether it has got that.
    #[error("the listener has gone, and has not said that it has all")]
    Unheard,
    /// Another process of our name or key on this machine has connected to the listener, which has ended our link for it.
    #[error("another process of this name or key has connected from this machine")]
    Replaced,
    /// A channel's other end, or this one, may lack something of what was sent: see [`Continuity`].
    #[error("channel {channel}: the link with {peer} was lost, and what was on its way with it")]
    Torn {
        /// The channel.
        channel: u8,
        /// The peer's name.
        peer: String,
    },
    /// An input has failed.
    #[error("channel {channel}: cannot read: {source}")]
    Input {
        /// The channel that it is the input of.
        channel: u8,
        /// What the input says.
        source: io::Error,
    },
    /// A message of an input cannot be sent: it is larger than its channel takes.
    #[error("channel {channel}: cannot send: {source}")]
    Send {
        /// The channel.
        channel: u8,
        /// What the link says.
        source: LinkError,
    },
    /// An output has failed.
    #[error("channel {channel}: cannot write: {source}")]
    Output {
        /// The channel that it is the output of.
        channel: u8,
        /// What the output says.
        source: io::Error,
    },
    /// What a service writes to has failed.
    #[error("cannot write: {0}")]
    Service(#[source] io::Error),
    /// The reader of what a service writes has gone ([`io::ErrorKind::BrokenPipe`]).
    #[error("the reader of the output has gone")]
    ServiceClosed,
    /// The reader of an output has gone ([`io::ErrorKind::BrokenPipe`]).
    #[error("channel {channel}: the reader of the output has gone")]
    OutputClosed {
        /// The channel.
        channel: u8,
    },
}

/// Where messages of a channel come from. Each is read by a thread of its own, so that it may block.
pub trait Input: Send {
    /// The next message; `None` at the end.
    ///
    /// # Errors
    /// Any: it ends the session with [`Error::Input`].
    fn next(&mut self) -> io::Result<Option<Bytes>>;
}

/// Where messages of a channel go to. It may block; one thread at a time calls it.
pub trait Output: Send {
    /// Writes a message; it may wait in a buffer for [`Output::flush`].
    ///
    /// # Errors
    /// Any: it ends the session with [`Error::Output`], and `BrokenPipe` with [`Error::OutputClosed`]; beside services, what they
    /// do goes on until its own end first.
    fn write(&mut self, message: &Bytes) -> io::Result<()>;

    /// As [`Output::write`], with the time at which the peer read the message, by its wall clock; `None` where the peer's channel
    /// is not [`Options::stamped`].
    ///
    /// # Errors
    /// As those of [`Output::write`].
    fn write_stamped(&mut self, message: &Bytes, _stamp: Option<Utc>) -> io::Result<()> {
        self.write(message)
    }

    /// As [`Output::write_stamped`], with all that is known of when it came, and the link that it came by. This is what the session
    /// calls.
    ///
    /// # Errors
    /// As those of [`Output::write`].
    fn write_received(&mut self, message: &Received, _link: &Link) -> io::Result<()> {
        self.write_stamped(&message.bytes, message.stamp)
    }

    /// Writes out what waits in a buffer.
    ///
    /// # Errors
    /// As those of [`Output::write`].
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A channel of a session.
pub struct Channel {
    /// Its number, below [`CONTROL`].
    pub id: u8,
    /// How messages are sent on it. Receipts are always on. On a [stamped](Options::stamped) channel each message is sent with the
    /// time at which the input gave it, by the wall clock.
    pub options: Options,
    /// What is sent to every peer.
    pub input: Option<Box<dyn Input>>,
    /// What takes the messages of all peers. Without it they are dropped and counted.
    pub output: Option<Box<dyn Output>>,
    /// What it means where a peer may lack something of what is sent reliably,
    pub sends: Continuity,
    /// and where something may be lacking of what a peer sends reliably.
    pub takes: Continuity,
    /// The output needs stamps: [`SessionEvent::Unstamped`] tells where a peer sends none.
    pub needs_stamps: bool,
}

impl Channel {
    /// A channel with neither input nor output.
    pub fn new(id: u8, options: Options) -> Channel {
        let live = Continuity::Live;
        Channel { id, options, input: None, output: None, sends: live, takes: live, needs_stamps: false }
    }

    /// The channel with this input.
    #[must_use]
    pub fn with_input(self, input: impl Input + 'static) -> Channel {
        Channel { input: Some(Box::new(input)), ..self }
    }

    /// The channel with this output.
    #[must_use]
    pub fn with_output(self, output: impl Output + 'static) -> Channel {
        Channel { output: Some(Box::new(output)), ..self }
    }
}

/// Sends and takes on channels of its own, by each link's handle: what needs the link's budget, or when messages came.
pub trait Service: Send + Sync {
    /// The channels that it sends on, and how. Receipts are always on.
    fn sends(&self) -> Vec<(u8, Options)>;

    /// The channels that it takes messages of. No other code takes these.
    fn takes(&self) -> Vec<u8>;

    /// Serves a link, on a thread of its own, until that has ended ([`LinkError::Closed`] somewhere), or there is nothing more
    /// to send: then it returns [`Served::All`], and the session may end. A service that only takes returns
    /// [`Served::ThisLink`].
    ///
    /// # Errors
    /// What it writes to has failed: ends the session with [`Error::Service`], and `BrokenPipe` with
    /// [`Error::ServiceClosed`].
    fn serve(&self, link: &Link) -> io::Result<Served>;

    /// What happens to a link, as far as it has to do with the channels that it sends on, or with the whole link.
    fn handle_event(&self, link: &Link, event: &Event);

    /// Whether the session goes on until it has sent all.
    fn is_input(&self) -> bool;
}

/// How far a service has come with a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// The link has ended.
    ThisLink,
    /// There is nothing more to send.
    All,
}

/// Which end of the link this is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Peers connect to us, one or several. The endpoint listens ([`Endpoint::listen`]).
    Listen {
        /// The session is over when the peers that came have gone.
        once: bool,
    },
    /// We connect, and again 300 ms after a link has ended.
    Connect {
        /// Where the listener is: its addresses, the most promising first ([`Endpoint::connect_any`]).
        to: Vec<SocketAddr>,
        /// A listener that does not answer within the settings' `connect_timeout` is an error; otherwise it is tried on.
        give_up: bool,
        /// By the endpoint's sockets, each of which is a path: below which rate of the others a path is used that is a spare one
        /// ([`Endpoint::add_spare_path`](glassline_transport::link::Endpoint::add_spare_path)). Those beyond the end are none such.
        spares: Vec<Option<ByteRate>>,
    },
}

/// With what a session ends that connects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// With all inputs, at both ends.
    #[default]
    Inputs,
    /// With its services, once what was sent until then has arrived: inputs of channels that have not ended are cut off, and
    /// what the other end has still to send is not waited for.
    Services,
}

/// What happens to a session. `peer` is the name that a peer gives itself, without control characters; `"?"` before it is
/// known.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SessionEvent {
    /// Messages pass.
    Connected {
        /// The peer's name.
        peer: String,
        /// Where it is.
        address: Option<SocketAddr>,
        /// The same link was up before; what was under way is lost.
        again: bool,
        /// Whether both ends hold the same dictionary; `None` where neither has one.
        shares_dictionary: Option<bool>,
    },
    /// The listener has not answered; it is tried on unless the mode says otherwise.
    Unreachable {
        /// The link was up before.
        was_up: bool,
    },
    /// The listener does not take us: another peer of our name or key answers there, on a machine of another boot.
    Refused {
        /// When it is asked again.
        retry_after: Duration,
    },
    /// Nothing comes from a peer any more, and its link waits for its return.
    Silent {
        /// The peer's name.
        peer: String,
        /// Why the link does not go on.
        reason: CloseReason,
    },
    /// A peer that was silent is back, and every channel goes on where it was.
    Resumed {
        /// The peer's name.
        peer: String,
        /// Where it is.
        address: Option<SocketAddr>,
    },
    /// A peer of a listener may lack something of what was sent, or something may be lacking of what it has sent: see
    /// [`Continuity`].
    Torn {
        /// The peer's name.
        peer: String,
        /// The first channel of which that is so.
        channel: u8,
    },
    /// A link has ended, and not because we have ended it.
    Lost {
        /// The peer's name.
        peer: String,
        /// Why.
        reason: CloseReason,
    },
    /// A new link will be made.
    Reconnecting,
    /// The listener is looked for at another address from now on ([`Session::set_remote`]).
    RemoteChanged(SocketAddr),
    /// The peer's address has changed.
    PathChanged {
        /// The peer's name.
        peer: String,
        /// Its new address.
        address: SocketAddr,
    },
    /// A further path is there.
    PathUp {
        /// The peer's name.
        peer: String,
        /// Its address on that path.
        address: SocketAddr,
    },
    /// One of two paths has gone.
    PathDown {
        /// The peer's name.
        peer: String,
        /// Its address on that path.
        address: SocketAddr,
    },
    /// The path to a peer carries no datagrams of 1,200 bytes, though smaller ones pass: larger messages do not arrive.
    PathTooNarrow {
        /// The peer's name.
        peer: String,
        /// Its address on that path.
        address: SocketAddr,
    },
    /// The output of a channel beside a service has failed: what comes for it is dropped, and the session ends with that error at
    /// last.
    OutputFailed {
        /// Why, for people.
        error: String,
    },
    /// The peer sends on a channel that has no output here; what comes is dropped.
    NoOutput {
        /// The channel.
        channel: u8,
    },
    /// The peer sends on a channel without stamps, and the output here needs them.
    Unstamped {
        /// The peer's name.
        peer: String,
        /// The channel.
        channel: u8,
    },
    /// The peer does not know of stamps: what is sent to it on stamped channels goes without.
    StampsNotTaken {
        /// The peer's name.
        peer: String,
    },
    /// A link has ended on which messages were dropped for lack of an output.
    Dropped {
        /// The peer's name.
        peer: String,
        /// How many, at least 1.
        messages: u64,
    },
    /// Both ends of a link have no more to say; it is about to be closed.
    Finished {
        /// The last figures of all peers.
        statistics: Vec<PeerStatistics>,
    },
    /// The session is about to end its links.
    Ending {
        /// The last figures of all peers.
        statistics: Vec<PeerStatistics>,
    },
    /// It is over: [`Session::join`] returns at once. No other event follows.
    Ended,
}

/// Ends a session from any thread.
#[derive(Clone, Debug)]
pub struct Stopper(Sender<Message>);

impl Stopper {
    /// Ends the session: peers are told, and outputs have two seconds to take what came. A second call ends that wait.
    pub fn stop(&self) {
        // The session may be over.
        let _ = self.0.send(Message::Stop);
    }
}

/// A running session. Dropping it stops it and waits for its end.
#[derive(Debug)]
pub struct Session {
    shared: Arc<Shared>,
    messages: Sender<Message>,
    events: Receiver<SessionEvent>,
    addresses: Vec<SocketAddr>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Session {
    /// Begins a session on an endpoint, which it closes at its end. Where that has two sockets and connects, the link has
    /// two paths.
    ///
    /// # Errors
    /// A channel's number is given twice or not free, or the system has no thread left. What happens later is told by
    /// [`Session::join`].
    pub fn open(endpoint: Endpoint, mode: Mode, channels: Vec<Channel>) -> Result<Session, Error> {
        Session::open_with(endpoint, mode, channels, Vec::new(), Extent::Inputs)
    }

    /// The same, with services beside the channels, and as long as `extent` says.
    ///
    /// # Errors
    /// As those of [`Session::open`]; the channels of services count.
    pub fn open_with(
        endpoint: Endpoint,
        mode: Mode,
        channels: Vec<Channel>,
        services: Vec<Arc<dyn Service>>,
        extent: Extent,
    ) -> Result<Session, Error> {
        check(&channels, &services)?;
        let (messages, inbox) = mpsc::channel();
        let (events_to, events) = mpsc::channel();
        let (mut options, mut inputs, mut outputs) = (Vec::new(), Vec::new(), BTreeMap::new());
        let mut continuity = BTreeMap::new();
        let is_waited_for = channels.iter().any(|it| it.input.is_some() && it.options.reliable);
        let gives_stamps = channels.iter().any(|it| it.input.is_some() && it.options.stamped);
        let needing = channels.iter().filter(|it| it.output.is_some() && it.needs_stamps);
        let needs_stamps = needing.map(|channel| channel.id).collect();
        for channel in channels {
            let sends = if channel.options.reliable { channel.sends } else { Continuity::Live };
            continuity.insert(channel.id, [sends, channel.takes]);
            options.push((channel.id, Options { receipts: true, ..channel.options }));
            inputs.extend(channel.input.map(|input| (channel.id, input)));
            outputs.extend(channel.output.map(|output| (channel.id, Mutex::new(output))));
        }
        for (id, service) in services.iter().flat_map(|service| service.sends()) {
            options.push((id, Options { receipts: true, ..service }));
        }
        let services_in = services.iter().filter(|service| service.is_input()).count();
        let shared = Arc::new(Shared {
            messages: messages.clone(),
            events: events_to,
            peers: Peers::default(),
            inputs_ended: AtomicBool::new(inputs.is_empty() && services_in == 0),
            channels: options,
            is_waited_for,
            continuity,
            outputs,
            gives_stamps,
            needs_stamps,
            services: services.into_iter().map(Running::new).collect(),
        });
        let addresses = endpoint.local_addresses().to_vec();
        let run = Run::new(Arc::clone(&shared), endpoint, mode, extent, inputs.len(), services_in);
        let thread = thread::Builder::new()
            .name("link session".into())
            .spawn(move || {
                let ended = contain(Border::Worker, || run.run(inputs, &inbox));
                ended.unwrap_or_else(|panicked| Err(panicked.into()))
            })
            .map_err(Error::Thread)?;
        Ok(Session { shared, messages, events, addresses, thread: Some(thread) })
    }

    /// Where the endpoint's sockets are.
    pub fn local_addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The next event; waits no longer than `timeout`. Events that are not taken are kept.
    pub fn next_event(&self, timeout: Duration) -> Option<SessionEvent> {
        self.events.recv_timeout(timeout).ok()
    }

    /// Figures of the peers that are there. Their [`ChannelFigures::delays`] are those since the last call or event that
    /// had figures.
    pub fn statistics(&self) -> Vec<PeerStatistics> {
        self.shared.statistics()
    }

    /// Says where the listener is now: its addresses, the most promising first. A link that is up stays where it is;
    /// otherwise the session connects there, with all that waits.
    pub fn set_remote(&self, addresses: Vec<SocketAddr>) {
        self.remote_setter()(addresses);
    }

    /// As [`Session::set_remote`], for another thread.
    pub fn remote_setter(&self) -> impl Fn(Vec<SocketAddr>) + Send + 'static {
        let messages = self.messages.clone();
        move |addresses| {
            // The session may be over.
            let _ = messages.send(Message::RemoteIsAt(addresses));
        }
    }

    /// What ends the session from any thread.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.messages.clone())
    }

    /// Waits until the session is over.
    ///
    /// # Errors
    /// Why it has ended early. It is none that it was stopped.
    pub fn join(mut self) -> Result<(), Error> {
        self.wait()
    }

    fn wait(&mut self) -> Result<(), Error> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.stopper().stop();
            // A program that drops a session does not ask how it ended.
            let _ = thread.join();
        }
    }
}

fn check(channels: &[Channel], services: &[Arc<dyn Service>]) -> Result<(), Error> {
    let mut ids = BTreeSet::new();
    let taken: BTreeSet<u8> = services.iter().flat_map(|service| service.takes()).collect();
    let sent = services.iter().flat_map(|service| service.sends()).map(|(id, _)| id);
    for channel in channels.iter().map(|channel| channel.id).chain(sent) {
        if channels.iter().any(|ours| ours.id == channel && taken.contains(&channel)) {
            return Err(Error::Channel { channel, what: "the session's own services take it" });
        }
        if channel >= CONTROL {
            return Err(Error::Channel {
                channel,
                what: "its number is not below that of the control channel",
            });
        }
        if !ids.insert(channel) {
            return Err(Error::Channel { channel, what: "it is given twice" });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
