//! How a door lets publishers and viewers in, whatever its protocol.
//!
//! ```text
//! a protocol's request ─► Client ─► Contribution::enter ─► rules, limits, publisher slot ─► push ─► Live
//!                            └────► Attendance::enter ───► rules, limits, subscription ───► read ◄─ Live
//! ```
//! What the server allows stands in [`Entrance`]. A contribution and an attendance give back what they took when they are dropped,
//! and write the line of the access log.

use crate::Server;
use glassline_delivery::http1::Url;
use glassline_delivery::http1::access::{explain, explain_full};
use glassline_delivery::policy::{
    AccessRequest, Action, Caller, Credential, Full, Load, Meter, Protocol, Refusal, Route, Secret,
    StreamName,
};
use glassline_delivery::stream::Mux;
use glassline_io::tls::{Session, TlsError};
use glassline_media::Time;
use glassline_streams::presence::{Presence, Purpose, subscriber};
use glassline_streams::{
    AcquireError, Acquired, Entering, Live, Origin, PushError, Read, SlotRequest, Subscription,
};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;
use thiserror::Error;

/// A server that has doors beside the one of its workers.
pub trait Entrance: Server {
    /// Whether what is asked may be done now.
    fn check(&self, asked: &AccessRequest<'_>) -> Result<(), Refusal>;

    /// Whether one more viewer, which takes `bps` bits a second, may watch `live` beside those that its address and all addresses
    /// have.
    fn check_load(&self, live: &Live, of_address: Load, in_all: Load, bps: u64) -> Result<(), Full>;

    /// What a publisher of `name` may do.
    fn publish_limits(&self, name: &StreamName) -> PublishLimits;

    /// Whether a publisher may have `name`: no ladder is put under it, or it is asked to give way.
    fn make_way(&self, name: &StreamName, take_over: bool) -> bool;

    /// Has the stream `name` fetched, which is not here, from another server that has it or may have it, as for a viewer over HTTP.
    /// `None`: there is no such server.
    fn fetch(&self, name: &StreamName) -> Option<Arc<dyn Arriving>>;

    /// The address of the server at which viewers of `name` are served while this one is emptied; `None` where they are served here.
    fn refuge(&self, name: &StreamName) -> Option<Url>;

    /// The counts of viewers and publishers by address.
    fn presence(&self) -> &Presence;

    /// TLS with a client that has just come in, by the certificates that the server shows.
    ///
    /// # Errors
    /// No session can be made. Where there is no certificate its handshake fails.
    fn accept_tls(&self) -> Result<Session, TlsError>;

    /// The key that a client has to show, for protocols in which it proves that it has it by a digest. `None`: there is none.
    fn key(&self, name: &StreamName, action: Action) -> Option<Secret>;

    /// Writes the line of the access log, where there is one.
    fn log(&self, visit: Visit);
}

/// A stream that is being fetched from another server.
pub trait Arriving: Send + Sync {
    /// Whether no server that was asked has it.
    fn has_failed(&self) -> bool;
}

/// What a publisher may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishLimits {
    /// Publishers from one address at once; 0 is any number.
    pub max_per_address: usize,
    /// Bits a second in the mean; `None` is anything.
    pub max_bps: Option<u64>,
    /// After this time without a byte a publisher gives up its name.
    pub silence_timeout: Duration,
}

/// What has taken place, for the access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// The client's address.
    pub peer: IpAddr,
    /// The stream.
    pub name: StreamName,
    /// What the client did.
    pub action: Action,
    /// By which protocol.
    pub protocol: Protocol,
    /// The status of HTTP that says the same: 200, or that of the refusal.
    pub status: u16,
    /// Bytes of the stream that came or went.
    pub bytes: u64,
    /// From the beginning to the end.
    pub took: Duration,
    /// What the client calls itself.
    pub program: Option<String>,
}

/// A client at a door, and what it asks by.
#[derive(Clone, Debug)]
pub struct Client<'a> {
    /// Its address.
    pub peer: SocketAddr,
    /// Its protocol.
    pub protocol: Protocol,
    /// What it shows to be let in.
    pub credential: Credential<'a>,
    /// What it calls itself.
    pub program: Option<&'a str>,
}

/// Why a client is not let in.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// It may not.
    #[error("{}", explain(*.0, *.1).1)]
    Access(Refusal, Action),
    /// Its address has as many publishers as one may have.
    #[error("this address has {0} publishers already; end one of them, or raise [publish] max_per_address")]
    Publishers(usize),
    /// It does not get the name.
    #[error("{0}")]
    Slot(#[from] AcquireError),
    /// There are as many viewers as there may be.
    #[error("{}", explain_full(*.0).1)]
    Full(Full),
    /// This server is emptied, and another one serves the stream.
    #[error("this server is emptied; watch {name} at another server of the cluster, as {host}")]
    Draining {
        /// The stream.
        name: StreamName,
        /// The other server.
        host: String,
    },
    /// There is no such stream now.
    #[error("there is no stream {0:?} now")]
    Absent(StreamName),
    /// The stream is of a mux that the protocol does not carry.
    #[error("the stream is {0}, which this protocol does not carry")]
    Mux(Mux),
}

impl Refused {
    /// The status of HTTP that says the same (RFC 9110 §15).
    pub fn status(&self) -> u16 {
        match self {
            Refused::Access(refusal, action) => explain(*refusal, *action).0,
            Refused::Publishers(_) => 429,
            Refused::Slot(AcquireError::TooMany { .. } | AcquireError::Draining)
            | Refused::Draining { .. } => 503,
            Refused::Slot(_) => 409,
            Refused::Full(full) => explain_full(*full).0,
            Refused::Absent(_) => 404,
            Refused::Mux(_) => 415,
        }
    }
}

/// Why a publisher is ended.
#[derive(Debug, Error)]
pub enum Over {
    /// Another publisher has its name.
    #[error("another publisher has taken the name over")]
    Evicted,
    /// It sends more than it may.
    #[error("it sends more than {limit_bps} bit/s, which is what it may (max_bitrate)")]
    TooFast {
        /// What it may send in the mean.
        limit_bps: u64,
    },
    /// Its bytes are not taken.
    #[error("{0}")]
    Refused(PushError),
}

/// What a visit is logged with.
struct Guest {
    server: Arc<dyn Entrance>,
    peer: SocketAddr,
    protocol: Protocol,
    program: Option<String>,
    name: StreamName,
    action: Action,
    began: Time,
    bytes: u64,
}

impl Guest {
    fn new(server: &Arc<dyn Entrance>, client: &Client<'_>, name: &StreamName, action: Action) -> Guest {
        Guest {
            server: Arc::clone(server),
            peer: client.peer,
            protocol: client.protocol,
            program: client.program.map(str::to_owned),
            name: name.clone(),
            action,
            began: server.clock().now(),
            bytes: 0,
        }
    }

    fn check(&self, client: &Client<'_>) -> Result<(), Refused> {
        let (peer, credential) = (client.peer.ip(), client.credential.clone());
        let caller = Caller { peer, credential, route: Route::DIRECT };
        let Guest { name, action, protocol, .. } = self;
        let asked = AccessRequest { name, action: *action, protocol: *protocol, caller: &caller };
        self.server.check(&asked).map_err(|refusal| Refused::Access(refusal, *action))
    }

    fn took(&self) -> Duration {
        self.server.clock().now().since(self.began)
    }

    fn log(&self, status: u16) {
        let Guest { server, protocol, program, name, action, bytes, .. } = self;
        server.log(Visit {
            peer: self.peer.ip(),
            name: name.clone(),
            action: *action,
            protocol: *protocol,
            status,
            bytes: *bytes,
            took: self.took(),
            program: program.clone(),
        });
    }

    fn refused(&self, refused: Refused) -> Refused {
        let (peer, stream, protocol) = (&self.peer, &self.name, &self.protocol);
        match self.action {
            Action::Publish => tracing::warn!(%peer, %stream, %protocol, %refused, "publisher refused"),
            Action::Watch if matches!(refused, Refused::Draining { .. }) => {
                tracing::info!(%peer, %stream, %protocol, %refused, "viewer refused");
            }
            Action::Watch => tracing::debug!(%peer, %stream, %protocol, %refused, "viewer refused"),
        }
        self.log(refused.status());
        refused
    }
}

/// A publisher that was let in. Dropping it gives its name up; viewers stay for a while and wait for the next one.
pub struct Contribution {
    guest: Guest,
    live: Arc<Live>,
    session: u64,
    meter: Option<Meter>,
    limits: PublishLimits,
    how: &'static str,
}

impl fmt::Debug for Contribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Contribution");
        shown.field("stream", &self.guest.name).field("session", &self.session).finish_non_exhaustive()
    }
}

impl Contribution {
    /// Lets `client` publish MPEG-TS as `name`, in the place of another publisher where it asks to `take_over`.
    ///
    /// # Errors
    /// Why it may not; that is logged.
    pub fn enter(
        server: &Arc<dyn Entrance>,
        client: &Client<'_>,
        name: &StreamName,
        take_over: bool,
    ) -> Result<Contribution, Refused> {
        let guest = Guest::new(server, client, name, Action::Publish);
        let limits = server.publish_limits(name);
        match acquire(server, client, &guest, limits, take_over) {
            Ok((live, session)) => {
                let (peer, stream, protocol) = (&guest.peer, &guest.name, &guest.protocol);
                tracing::info!(%peer, %stream, %protocol, "publisher began");
                let meter = limits.max_bps.map(|limit| Meter::new(limit, guest.began));
                Ok(Contribution { guest, live, session, meter, limits, how: "ended" })
            }
            Err(refused) => Err(guest.refused(refused)),
        }
    }

    /// The stream.
    pub fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// The stream's name.
    pub fn name(&self) -> &StreamName {
        &self.guest.name
    }

    /// Its address.
    pub fn peer(&self) -> SocketAddr {
        self.guest.peer
    }

    /// Bytes that it has sent.
    pub fn bytes(&self) -> u64 {
        self.guest.bytes
    }

    /// Since it was let in.
    pub fn took(&self) -> Duration {
        self.guest.took()
    }

    /// What it may do.
    pub fn limits(&self) -> PublishLimits {
        self.limits
    }

    /// Whether it still has its name. It loses that to one that takes over.
    pub fn is_held(&self) -> bool {
        self.live.is_held_by(self.session)
    }

    /// Appends bytes of MPEG-TS, in any chop. Viewers get them when the stream's flush policy says so; a call is taken for all that
    /// there is at the moment.
    ///
    /// # Errors
    /// Why it has to end.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Over> {
        self.push_held(bytes, None)
    }

    /// [`Contribution::push`] of what came at `held_since` and was held back by its transport since.
    pub fn push_held(&mut self, bytes: &[u8], held_since: Option<Time>) -> Result<(), Over> {
        let now = self.guest.server.clock().now();
        self.guest.bytes += bytes.len() as u64;
        if let Some(meter) = &mut self.meter
            && !meter.allow(bytes.len(), now)
        {
            return Err(Over::TooFast { limit_bps: meter.limit_bps() });
        }
        let (pushed, flushed) = self.live.push_held(self.session, bytes, held_since, now);
        self.guest.server.streams().notify(&self.live, flushed);
        pushed.map_err(|error| match error {
            PushError::Evicted => Over::Evicted,
            error => Over::Refused(error),
        })
    }

    /// What comes from here on does not continue what came before.
    pub fn begin_anew(&mut self) {
        // Where the slot is lost, the next bytes show it.
        let session = self.live.begin_anew(self.session, self.guest.server.clock().now());
        self.session = session.unwrap_or(self.session);
        self.guest.server.streams().announce(&self.live, None);
    }

    /// Ends it; the log says `how`: `ended`, `fell silent`.
    pub fn leave(mut self, how: &'static str) {
        self.how = how;
    }
}

impl Drop for Contribution {
    fn drop(&mut self) {
        let Contribution { guest, live, session, how, .. } = self;
        let server = &guest.server;
        live.release(*session, server.clock().now());
        server.streams().announce(live, None);
        server.presence().leave(guest.peer.ip(), Purpose::Publish, 0);
        let (peer, stream, protocol, bytes) = (&guest.peer, &guest.name, &guest.protocol, guest.bytes);
        let seconds = guest.took().as_secs();
        tracing::info!(%peer, %stream, %protocol, bytes, seconds, "publisher {how}");
        guest.log(200);
    }
}

/// Takes the publisher slot.
fn acquire(
    server: &Arc<dyn Entrance>,
    client: &Client<'_>,
    guest: &Guest,
    limits: PublishLimits,
    take_over: bool,
) -> Result<(Arc<Live>, u64), Refused> {
    guest.check(client)?;
    let (name, limit) = (&guest.name, limits.max_per_address);
    server.presence().enter(client.peer.ip(), Purpose::Publish, 0, |of_address, _| {
        let count = of_address.count;
        if limit == 0 || count < limit { Ok(()) } else { Err(Refused::Publishers(count)) }
    })?;
    let taken = AcquireError::Taken { name: name.clone() };
    let slot_request = SlotRequest { name, mux: Mux::MpegTs, origin: Origin::Door, take_over, piece: None };
    let acquired = match server.make_way(name, take_over) {
        true => server.streams().acquire(slot_request),
        false => Err(taken),
    };
    match acquired {
        Ok(Acquired { live, session, .. }) => Ok((live, session)),
        Err(error) => {
            server.presence().leave(client.peer.ip(), Purpose::Publish, 0);
            Err(error.into())
        }
    }
}

/// A viewer that was let in. Dropping it ends it.
pub struct Attendance {
    guest: Guest,
    subscription: Subscription,
    waker: Waker,
    bps: u64,
}

impl fmt::Debug for Attendance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attendance").field("stream", &self.guest.name).finish_non_exhaustive()
    }
}

impl Attendance {
    /// Lets `client` watch `name`, a stream of MPEG-TS, from the newest key frame on. `waker` is woken when there is more, once until
    /// the stream is read again.
    ///
    /// # Errors
    /// Why it may not; that is logged. A client that may not watch is told the same whether there is such a stream or not.
    pub fn enter(
        server: &Arc<dyn Entrance>,
        client: &Client<'_>,
        name: &StreamName,
        waker: Waker,
    ) -> Result<Attendance, Refused> {
        let guest = Guest::new(server, client, name, Action::Watch);
        match subscribe(server, client, &guest, waker.clone()) {
            Ok((subscription, bps)) => {
                let (peer, stream, protocol) = (&guest.peer, &guest.name, &guest.protocol);
                tracing::debug!(%peer, %stream, %protocol, "viewer joined");
                Ok(Attendance { guest, subscription, waker, bps })
            }
            Err(refused) => Err(guest.refused(refused)),
        }
    }

    /// The stream's name.
    pub fn name(&self) -> &StreamName {
        &self.guest.name
    }

    /// The stream.
    pub fn live(&self) -> &Arc<Live> {
        self.subscription.live()
    }

    /// Bytes that were read for it.
    pub fn bytes(&self) -> u64 {
        self.guest.bytes
    }

    /// Since it was let in.
    pub fn took(&self) -> Duration {
        self.guest.took()
    }

    /// Reads what is next, as [`Subscription::read`] does. Where the publisher has been replaced by one with another header, or the
    /// stream began anew under its name, it goes on with that.
    ///
    /// # Errors
    /// The system cannot read memory that the stream is in. The same call may be tried again.
    pub fn read(&mut self, into: &mut [u8]) -> io::Result<Read> {
        let mut read = self.subscription.read(into)?;
        if read == Read::Ended && self.rejoin() {
            read = self.subscription.read(into)?;
        }
        let bytes = match &read {
            Read::Bytes(count) => *count,
            Read::Entered { prelude, .. } => prelude.len(),
            Read::FellBehind => {
                self.live().counters.moved_forward.increment();
                0
            }
            Read::Pending | Read::Ended => 0,
        };
        self.guest.bytes += bytes as u64;
        self.live().counters.bytes_out.add(bytes as u64);
        Ok(read)
    }

    /// Bits a second of the stream when it was let in.
    pub fn bps(&self) -> u64 {
        self.bps
    }

    /// Goes on with the stream that has its name now, from its newest key frame on, where that is MPEG-TS. Returns whether there is
    /// one.
    pub fn rejoin(&mut self) -> bool {
        let streams = self.guest.server.streams();
        let subscription = streams.subscribe(&self.guest.name, Entering::Newest, self.waker.clone());
        let Some(subscription) = subscription.filter(|subscription| subscription.mux() == Mux::MpegTs) else {
            return false;
        };
        subscription.live().viewer_joins_at_door();
        self.subscription.live().viewer_leaves_door();
        self.subscription = subscription;
        true
    }
}

impl Drop for Attendance {
    fn drop(&mut self) {
        self.live().viewer_leaves_door();
        let Attendance { guest, bps, .. } = self;
        guest.server.presence().leave(guest.peer.ip(), Purpose::Watch, *bps);
        let (peer, stream, protocol, bytes) = (&guest.peer, &guest.name, &guest.protocol, guest.bytes);
        let seconds = guest.took().as_secs();
        tracing::debug!(%peer, %stream, %protocol, bytes, seconds, "viewer left");
        guest.log(200);
    }
}

/// Counts a viewer and gives it its place. Returns also the stream's rate, which it takes.
fn subscribe(
    server: &Arc<dyn Entrance>,
    client: &Client<'_>,
    guest: &Guest,
    waker: Waker,
) -> Result<(Subscription, u64), Refused> {
    guest.check(client)?;
    let name = &guest.name;
    if let Some(url) = server.refuge(name) {
        return Err(Refused::Draining { name: name.clone(), host: url.host().to_owned() });
    }
    let absent = || Refused::Absent(name.clone());
    let subscription = server.streams().subscribe(name, Entering::Newest, waker).ok_or_else(absent)?;
    if subscription.mux() != Mux::MpegTs {
        return Err(Refused::Mux(subscription.mux()));
    }
    let live = subscription.live();
    let bps = live.bitrate_bps(guest.began);
    server.presence().enter(client.peer.ip(), Purpose::Watch, bps, |of_address, in_all| {
        server.check_load(live, of_address, in_all, bps).map_err(Refused::Full)?;
        live.viewer_joins_at_door();
        Ok::<(), Refused>(())
    })?;
    live.watchers().join(subscriber(client.peer.ip()), guest.began);
    Ok((subscription, bps))
}
