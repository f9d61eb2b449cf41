//! Publishers of CMAF: each sends many requests at once, which any worker may have, and which share one publisher slot.
//!
//! Requests for one name from one address with one credential are one publisher's. The first of them takes the
//! publisher slot, as a request with MPEG-TS does, and the others join. [`Ingest`] makes transport streams of what they
//! bring, which go into streams like any publisher's bytes.

use crate::IngestCounts;
use crate::entitled::OwnHosts;
use crate::hub::Hub;
use glassline_delivery::http1::access;
use glassline_delivery::http1::server::Request;
use glassline_delivery::ingest::{Counters, Ended, Ingest, IngestError, Output};
use glassline_delivery::policy::{AccessRequest, Action, Meter, Protocol, Secret, StreamName};
use glassline_delivery::stream::Mux;
use glassline_media::Time;
use glassline_streams::counters::Counter;
use glassline_streams::presence::Purpose;
use glassline_streams::{AcquireError, PushError};
use glassline_streams::{Acquired, Origin, SlotRequest};
use glassline_streams::{ConnectionId, Live};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thiserror::Error;

/// All publishers of CMAF.
#[derive(Debug, Default)]
pub(super) struct Ingests {
    sessions: Mutex<BTreeMap<StreamName, Arc<IngestSession>>>,
    pub(super) requests: Counter,
    pub(super) refused: Counter,
    pub(super) manifests: Counter,
    /// The counts of publishers that are over.
    before: Mutex<Counters>,
}

/// What tells publishers apart: requests with the same owner are one publisher's.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owner {
    address: IpAddr,
    credential: Option<Secret>,
}

/// A publisher of CMAF.
#[derive(Debug)]
pub(super) struct IngestSession {
    name: StreamName,
    owner: Owner,
    /// The request that it began with, by which further streams are allowed or not.
    first: Request,
    protocol: Protocol,
    core: Mutex<Core>,
}

#[derive(Debug)]
struct Core {
    ingest: Ingest,
    /// The streams that it has the publisher slot of, by the numbers that [`Ingest`] gives them; `None` for one that it
    /// did not get, or has lost.
    slots: Vec<Option<(Arc<Live>, u64)>>,
    /// All streams are versions, and there is none of the name itself.
    is_ladder: bool,
    connection: ConnectionId,
    began: Time,
    last_bytes: Time,
    bytes: u64,
    meter: Option<Meter>,
    /// Some worker will call [`IngestSession::handle_timeout`] then.
    armed: Option<Time>,
    over: Option<Over>,
    /// A panic has left its tracks half-written; the next look at all publishers ends it.
    is_broken: bool,
}

/// Why a publisher is no longer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum Over {
    /// Another publisher has its name.
    #[error("another publisher has taken the name over")]
    Evicted,
    /// It sent nothing.
    #[error("nothing was sent for too long")]
    Silent,
    /// All its tracks have ended.
    #[error("all tracks have ended")]
    Ended,
    /// It sent more than it may.
    #[error("more than {limit_bps} bit/s")]
    TooFast {
        /// The limit.
        limit_bps: u64,
    },
    /// There is no room for what it sends.
    #[error("no room for the stream's bytes")]
    NoRoom,
    /// A fault of this program's own.
    #[error("an internal fault of this server has ended it")]
    Fault,
}

/// Why a request is not taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum Refused {
    /// The publisher is no longer one.
    #[error(transparent)]
    Over(#[from] Over),
    /// What it sends cannot be used.
    #[error(transparent)]
    Ingest(#[from] IngestError),
}

impl Refused {
    /// Status, and what the publisher can do.
    pub(super) fn explain(&self) -> (u16, &'static str) {
        match self {
            Refused::Over(Over::Evicted) => (409, "Publish again with ?takeover=1 to take the name back."),
            Refused::Over(Over::Silent | Over::Ended) => {
                (408, "The name was given up; put the headers again when there is something to send.")
            }
            Refused::Over(Over::TooFast { .. }) => (
                429,
                "Send at a lower bit rate, or raise the stream's max_bitrate in the server's configuration.",
            ),
            Refused::Over(Over::NoRoom) => {
                (507, "The server is out of memory for this stream; publish again later.")
            }
            Refused::Over(Over::Fault) => (500, "Publish again; the server's log says what the fault was."),
            Refused::Ingest(error) => (error.status(), error.advice()),
        }
    }
}

/// A request for a publisher slot.
pub(super) struct Asking<'a> {
    pub(super) name: &'a StreamName,
    pub(super) request: &'a Request,
    pub(super) address: IpAddr,
    pub(super) protocol: Protocol,
    pub(super) connection: ConnectionId,
    pub(super) meter: Option<Meter>,
    pub(super) take_over: bool,
}

/// A publisher's credential, however it shows it.
pub(super) fn credential(request: &Request) -> Option<Secret> {
    let header = request.headers.first("authorization").map(Secret::from);
    header.or_else(|| request.parameter("key").map(Secret::new))
}

impl Ingests {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<StreamName, Arc<IngestSession>>> {
        // The map is whole after every single change, whatever panicked in between.
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The publisher that the request `asking` belongs to. A new one takes the publisher slot, after `enter` has
    /// allowed one publisher more.
    pub(super) fn enter<E: From<AcquireError>>(
        &self,
        hub: &Hub,
        asking: Asking<'_>,
        now: Time,
        enter: impl FnOnce() -> Result<(), E>,
    ) -> Result<Arc<IngestSession>, E> {
        let Asking { name, request, address, protocol, connection, meter, take_over } = asking;
        let owner = Owner { address: address.to_canonical(), credential: credential(request) };
        let mut sessions = self.lock();
        if let Some(session) = sessions.get(name).filter(|session| session.owner == owner)
            && session.lock().holds()
        {
            return Ok(Arc::clone(session));
        }
        if let Some(session) = sessions.get(name).filter(|_| !take_over)
            && session.lock().holds()
        {
            return Err(AcquireError::Taken { name: name.clone() }.into());
        }
        enter()?;
        let slot_request = SlotRequest {
            name,
            mux: Mux::MpegTs,
            origin: Origin::Connection(connection),
            take_over,
            piece: None,
        };
        let Acquired { live, session, .. } = match hub.streams.acquire(slot_request) {
            Ok(acquired) => acquired,
            Err(error) => {
                hub.presence.leave(address, Purpose::Publish, 0);
                return Err(error.into());
            }
        };
        let core = Core {
            ingest: Ingest::new(),
            slots: vec![Some((live, session))],
            is_ladder: false,
            connection,
            began: now,
            last_bytes: now,
            bytes: 0,
            meter,
            armed: None,
            over: None,
            is_broken: false,
        };
        let (name, first) = (name.clone(), request.clone());
        let session =
            Arc::new(IngestSession { name: name.clone(), owner, first, protocol, core: Mutex::new(core) });
        if let Some(former) = sessions.insert(name, Arc::clone(&session)) {
            drop(sessions);
            self.retire(&former, Over::Evicted, hub, now);
        }
        Ok(session)
    }

    /// Ends a publisher.
    fn retire(&self, session: &IngestSession, how: Over, hub: &Hub, now: Time) {
        let mut core = session.lock();
        if core.ended_before(how) {
            return;
        }
        for (live, number) in core.slots.iter().flatten() {
            live.release(*number, now);
            hub.streams.announce(live, None);
        }
        add(&mut self.before.lock().unwrap_or_else(PoisonError::into_inner), core.ingest.counters());
        core.ingest = Ingest::new();
        hub.presence.leave(session.owner.address, Purpose::Publish, 0);
        let (bytes, seconds) = (core.bytes, super::in_seconds(now.since(core.began)));
        tracing::info!(peer = %session.owner.address, stream = %session.name, bytes, seconds, "publisher of CMAF: {how}");
    }

    /// Whether another publisher may have `name`: no ladder is put under it, or it is asked to give way.
    pub(super) fn make_way(&self, name: &StreamName, take_over: bool, hub: &Hub, now: Time) -> bool {
        let mut sessions = self.lock();
        let is_ladder = |session: &Arc<IngestSession>| {
            let core = session.lock();
            core.is_ladder && core.holds()
        };
        if !sessions.get(name).is_some_and(is_ladder) {
            return true;
        }
        let former = take_over.then(|| sessions.remove(name)).flatten();
        drop(sessions);
        if let Some(former) = &former {
            self.retire(former, Over::Evicted, hub, now);
        }
        former.is_some()
    }

    /// What they have put.
    pub(super) fn counts(&self) -> IngestCounts {
        let mut media = *self.before.lock().unwrap_or_else(PoisonError::into_inner);
        let sessions = self.lock();
        for session in sessions.values() {
            add(&mut media, session.lock().ingest.counters());
        }
        IngestCounts {
            publishers: sessions.len() as u64,
            requests: self.requests.value(),
            refused: self.refused.value(),
            manifests: self.manifests.value(),
            media,
        }
    }
}

fn add(sum: &mut Counters, more: Counters) {
    sum.chunks += more.chunks;
    sum.late_units += more.late_units;
    sum.stray_units += more.stray_units;
    sum.bad_samples += more.bad_samples;
    sum.gaps += more.gaps;
    sum.refused_tracks += more.refused_tracks;
}

impl Core {
    /// Whether it has the publisher slot of the stream that was asked for; where that is a ladder, that of any version.
    fn holds(&self) -> bool {
        let held = |slot: &Option<(Arc<Live>, u64)>| {
            slot.as_ref().is_some_and(|(live, session)| live.is_held_by(*session))
        };
        let needed = if self.is_ladder { &self.slots[..] } else { &self.slots[..1] };
        self.standing().is_none() && needed.iter().any(held)
    }

    /// Why it takes no more, if so.
    fn standing(&self) -> Option<Over> {
        self.over.or(self.is_broken.then_some(Over::Fault))
    }

    /// Marks it as over. Returns whether it was before.
    fn ended_before(&mut self, how: Over) -> bool {
        let before = self.over.is_some();
        self.over = self.over.or(Some(how));
        before
    }
}

impl IngestSession {
    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(|poisoned| {
            // A panic has left the tracks half-written: nothing of them is read any more, and no more is taken.
            let mut core = poisoned.into_inner();
            core.ingest = Ingest::new();
            core.is_broken = true;
            self.core.clear_poison();
            core
        })
    }

    /// The stream that was asked for.
    pub(super) fn name(&self) -> &StreamName {
        &self.name
    }

    /// A request for `path` begins. Returns its number.
    pub(super) fn begin(&self, path: &str, now: Time) -> Result<u64, Refused> {
        let mut core = self.lock();
        if let Some(over) = core.standing() {
            return Err(over.into());
        }
        core.last_bytes = now;
        Ok(core.ingest.begin(path, now)?)
    }

    /// Takes bytes of a request. Returns also when the caller has to call [`IngestSession::handle_timeout`], if it has
    /// to.
    pub(super) fn push(
        &self,
        body: u64,
        bytes: &[u8],
        hub: &Hub,
        now: Time,
    ) -> (Result<(), Refused>, Option<Time>) {
        let mut core = self.lock();
        if let Some(over) = core.standing() {
            return (Err(over.into()), None);
        }
        core.last_bytes = now;
        core.bytes += bytes.len() as u64;
        if let Some(meter) = &mut core.meter
            && !meter.allow(bytes.len(), now)
        {
            let limit_bps = meter.limit_bps();
            drop(core);
            let over = Over::TooFast { limit_bps };
            hub.ingests.retire(self, over, hub, now);
            return (Err(over.into()), None);
        }
        let pushed = core.ingest.push(body, bytes, now).map_err(Refused::from);
        let given = self.give(&mut core, hub, now);
        let at = arm(&mut core);
        drop(core);
        if let Err(over) = given {
            hub.ingests.retire(self, over, hub, now);
            return (Err(over.into()), None);
        }
        (pushed, at)
    }

    /// The last byte of a request has come. The time is as that of [`IngestSession::push`].
    pub(super) fn end(&self, body: u64, hub: &Hub, now: Time) -> (Result<Ended, Refused>, Option<Time>) {
        let mut core = self.lock();
        if let Some(over) = core.standing() {
            return (Err(over.into()), None);
        }
        core.last_bytes = now;
        let ended = core.ingest.end(body, now).map_err(Refused::from);
        let given = self.give(&mut core, hub, now).map_err(Refused::from);
        (given.and(ended), arm(&mut core))
    }

    /// What has become of a request that waits, or of its publisher; `None` while nothing has.
    pub(super) fn outcome(&self, body: u64) -> Option<Result<(), Refused>> {
        let core = self.lock();
        match core.standing() {
            Some(over) => Some(Err(over.into())),
            None if !core.holds() => Some(Err(Over::Evicted.into())),
            None => Some(core.ingest.outcome(body)?.map_err(Refused::from)),
        }
    }

    /// Forgets a request. The time is as that of [`IngestSession::push`].
    pub(super) fn close(&self, body: u64, hub: &Hub, now: Time) -> Option<Time> {
        let mut core = self.lock();
        if core.standing().is_some() {
            return None;
        }
        core.ingest.close(body, now);
        // A lost slot is seen again with the publisher's next bytes, or at the next look at all publishers.
        let _ = self.give(&mut core, hub, now);
        arm(&mut core)
    }

    /// How long one of its requests may bring nothing, beside what any publisher may.
    pub(super) fn expected_quiet(&self) -> std::time::Duration {
        self.lock().ingest.expected_quiet()
    }

    /// A time has come that was asked for. Returns the next one.
    pub(super) fn handle_timeout(&self, hub: &Hub, now: Time) -> Option<Time> {
        let mut core = self.lock();
        core.armed = None;
        if core.standing().is_some() {
            return None;
        }
        core.ingest.handle_timeout(now);
        let given = self.give(&mut core, hub, now);
        let at = arm(&mut core);
        drop(core);
        if let Err(over) = given {
            hub.ingests.retire(self, over, hub, now);
            return None;
        }
        at
    }

    /// Gives the streams what has become ready.
    fn give(&self, core: &mut Core, hub: &Hub, now: Time) -> Result<(), Over> {
        while let Some(output) = core.ingest.poll() {
            match output {
                Output::Begin { stream, version } => {
                    let name = format!("{}-{version}", self.name);
                    let acquired = self.acquire_version(&name, core.connection, hub);
                    if let Err(reason) = &acquired {
                        tracing::warn!(peer = %self.owner.address, stream = name, %reason, "version refused");
                        core.ingest.refuse_stream(stream, &name, reason);
                    }
                    if stream > 0 {
                        debug_assert_eq!(core.slots.len(), stream);
                        core.slots.push(acquired.ok());
                        continue;
                    }
                    // A ladder has its name to itself, and no stream of that name.
                    core.is_ladder = true;
                    if let Some((live, session)) = std::mem::replace(&mut core.slots[0], acquired.ok())
                        && live.is_held_by(session)
                    {
                        live.end_replaced();
                        hub.streams.announce(&live, None);
                    }
                }
                Output::Seam { stream } => {
                    let Some(Some((live, session))) = core.slots.get_mut(stream) else { continue };
                    // Where the slot is lost, the next packets show it.
                    *session = live.begin_anew(*session, now).unwrap_or(*session);
                    hub.streams.announce(live, None);
                }
                Output::Packets { stream, bytes } => {
                    let Some(Some((live, session))) = core.slots.get(stream) else { continue };
                    let (pushed, flushed) = live.push_all(*session, &bytes, now);
                    hub.streams.notify(live, flushed);
                    let Err(error) = pushed else { continue };
                    match error {
                        PushError::Evicted => {
                            let name = live.name.to_string();
                            core.slots[stream] = None;
                            core.ingest.refuse_stream(stream, &name, "another publisher has taken it over");
                            if !core.holds() {
                                return Err(Over::Evicted);
                            }
                        }
                        PushError::Refused(_) | PushError::Spool(_) => {
                            return Err(Over::NoRoom);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes the publisher slot of a further stream, where its publisher may publish that.
    fn acquire_version(
        &self,
        name: &str,
        connection: ConnectionId,
        hub: &Hub,
    ) -> Result<(Arc<Live>, u64), String> {
        let name = StreamName::parse(name).ok_or("the name is too long")?;
        let settings = hub.settings();
        let hosts = OwnHosts::of(hub, &settings);
        let caller = access::caller(self.owner.address, &self.first, &hosts);
        let asked =
            AccessRequest { name: &name, action: Action::Publish, protocol: self.protocol, caller: &caller };
        settings
            .rules
            .check(&asked, hub.clock.utc())
            .map_err(|refusal| access::explain(refusal, asked.action).1)?;
        let take_over = asks_to_take_over(&self.first);
        let slot_request = SlotRequest {
            name: &name,
            mux: Mux::MpegTs,
            origin: Origin::Connection(connection),
            take_over,
            piece: None,
        };
        let acquired = hub.streams.acquire(slot_request).map_err(|error| error.to_string())?;
        Ok((acquired.live, acquired.session))
    }
}

/// Whether a publisher asks to replace another one.
pub(super) fn asks_to_take_over(request: &Request) -> bool {
    request.parameter("takeover").is_some_and(|value| value == "1" || value == "true")
}

/// When a worker has to call [`IngestSession::handle_timeout`]; `None` where nothing waits, or one will call it
/// already.
fn arm(core: &mut Core) -> Option<Time> {
    let at = core.ingest.poll_timeout()?;
    let is_new = core.armed.is_none_or(|armed| at < armed);
    is_new.then(|| {
        core.armed = Some(at);
        at
    })
}

impl Hub {
    /// Ends the publishers of CMAF that are over, silent, or no longer have their slots. Called by one worker.
    pub(super) fn look_at_ingests(&self, now: Time) {
        let silence = self.settings().silence_timeout;
        let mut over = Vec::new();
        self.ingests.lock().retain(|_, session| {
            let core = session.lock();
            let timeout = silence + core.ingest.expected_quiet();
            let how = match core.standing() {
                Some(over) => Some(over),
                None if !core.holds() => Some(Over::Evicted),
                None if core.ingest.is_over() => Some(Over::Ended),
                None if now.since(core.last_bytes) >= timeout => Some(Over::Silent),
                None => None,
            };
            drop(core);
            over.extend(how.map(|how| (Arc::clone(session), how)));
            how.is_none()
        });
        for (session, how) in over {
            self.ingests.retire(&session, how, self, now);
            if how == Over::Silent {
                self.counters.timed_out.increment();
            }
        }
    }
}

#[cfg(test)]
#[path = "ingest_tests.rs"]
mod tests;
