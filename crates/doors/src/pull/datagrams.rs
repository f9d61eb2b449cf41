//! A source that sends datagrams, of TS packets or of RTP with them: nothing is asked, only listened to.
//!
//! ```text
//! Closed (cannot be opened, or sends no TS) ─► Listening ─► Live ─► silent: Listening
//! ```

use super::publisher_slots::PublisherSlots;
use super::retry::Retry;
use super::table::{Note, PullEntry};
use super::{PullContext, READS_A_TURN, Sources, token};
use glassline_delivery::pull::{Policy, PullError, Source, UdpAddress};
use glassline_io::poll::{Poller, Watch};
use glassline_io::udp::{Receiver, Settings};
use glassline_media::Time;
use glassline_media::container::ts::SYNC_BYTE;
use glassline_streams::status::RtpCounts;
use glassline_transport::rtp;
use glassline_transport::rtp::mpeg_ts::{Depacketizer, is_surely_rtp};
use glassline_transport::rtp::source::{Origin, SourceLock, Standing};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// How often the kernel is asked what it has dropped.
const DROPS_TIME: Duration = Duration::from_secs(1);
/// Datagrams of no use after which a source is given up for a while, in bytes.
const REFUSED_BYTES: u64 = 64 << 10;
/// Bare TS packets have no SSRC: their sender is told by its address alone.
const NO_SSRC: u32 = 0;

pub(super) struct Datagrams {
    index: usize,
    retry: Retry,
    settings: Settings,
    /// For a source that sends RTP, or has sent it.
    rtp: Option<Depacketizer>,
    /// Whether what comes now is RTP.
    is_rtp: bool,
    /// The sender of the bare TS packets that are taken.
    lock: SourceLock,
    slots: PublisherSlots,
    state: State,
    generation: u32,
    received: u64,
    dropped: u64,
}

/// See [`Datagrams::state`].
#[derive(Serialize, Deserialize)]
pub(super) struct DatagramsState {
    note: Note,
    sessions: Vec<u64>,
    rtp: Option<Depacketizer>,
    is_rtp: bool,
    #[serde(default)]
    lock: SourceLock,
    received: u64,
    dropped: u64,
    live: Option<(Time, Time)>,
    dropped_of_socket: u32,
}

/// Where an address is none of this machine.
const ADDRESS_REMEDY: &str =
    "name an address of this machine, at which the datagrams arrive, or 0.0.0.0 for all of them";

enum State {
    Closed { until: Time },
    Open(Box<Open>),
}

struct Open {
    socket: Receiver,
    /// Since when datagrams come, and the newest; `None` where none does.
    live: Option<(Time, Time)>,
    /// What the kernel had dropped of this socket's datagrams when it was last asked.
    dropped: u32,
    next_drops: Time,
}

impl Datagrams {
    pub(super) fn new(
        server: &dyn Sources,
        index: usize,
        entry: Arc<PullEntry>,
        address: UdpAddress,
        policy: Policy,
        seed: u64,
    ) -> Datagrams {
        let slots = PublisherSlots::new(server.streams(), &entry.names, entry.mux);
        let UdpAddress { address, interface, sender } = address;
        let is_rtp = matches!(entry.source, Source::Rtp(_));
        Datagrams {
            index,
            retry: Retry::new(entry, policy, seed),
            settings: Settings { address, interface, sender },
            rtp: is_rtp.then(|| Depacketizer::new(rtp_settings(policy))),
            is_rtp,
            lock: SourceLock::new(),
            slots,
            state: State::Closed { until: Time::ZERO },
            generation: 0,
            received: 0,
            dropped: 0,
        }
    }

    /// What the next process needs of it, if its socket is open.
    pub(super) fn state(&self) -> Option<(DatagramsState, BorrowedFd<'_>)> {
        let State::Open(open) = &self.state else { return None };
        let state = DatagramsState {
            note: self.retry.note.clone(),
            sessions: self.slots.sessions(),
            rtp: self.rtp.clone(),
            is_rtp: self.is_rtp,
            lock: self.lock.clone(),
            received: self.received,
            dropped: self.dropped,
            live: open.live,
            dropped_of_socket: open.dropped,
        };
        Some((state, open.socket.as_fd()))
    }

    /// Goes on where another process left off. Where a publisher slot has been lost, it begins anew.
    pub(super) fn restore(
        &mut self,
        state: DatagramsState,
        socket: OwnedFd,
        poller: &Poller,
    ) -> io::Result<()> {
        if !self.slots.restore(&state.sessions) {
            return Ok(());
        }
        self.generation = 1;
        poller.add(&socket, token(self.index, self.generation), Watch::Edges)?;
        let socket = Receiver::from_descriptor(socket);
        let (live, dropped) = (state.live, state.dropped_of_socket);
        self.state = State::Open(Box::new(Open { socket, live, dropped, next_drops: Time::ZERO }));
        (self.retry.note, self.rtp, self.is_rtp, self.lock) =
            (state.note, state.rtp, state.is_rtp, state.lock);
        (self.received, self.dropped) = (state.received, state.dropped);
        self.reconfigure(self.retry.policy);
        self.publish_status();
        Ok(())
    }

    /// Applies a new retry policy.
    pub(super) fn reconfigure(&mut self, policy: Policy) {
        self.retry.reconfigure(policy);
        if let Some(rtp) = &mut self.rtp {
            rtp.reconfigure(rtp_settings(policy));
        }
    }

    pub(super) fn entry(&self) -> &Arc<PullEntry> {
        &self.retry.entry
    }

    pub(super) fn poll_timeout(&self) -> Time {
        match &self.state {
            State::Closed { until } => *until,
            State::Open(open) => match open.live {
                Some((_, newest)) => {
                    let rtp = self.rtp.as_ref().and_then(Depacketizer::poll_timeout).unwrap_or(Time::NEVER);
                    rtp.min(open.next_drops).min(newest + self.retry.policy.silence_timeout)
                }
                None => Time::NEVER,
            },
        }
    }

    pub(super) fn handle_timeout(&mut self, context: &mut PullContext<'_>) {
        match &mut self.state {
            State::Closed { .. } => {
                if let Err(error) = self.open(context) {
                    let is_elsewhere =
                        error.kind() == io::ErrorKind::AddrNotAvailable && self.retry.note.sessions == 0;
                    let remedy = is_elsewhere.then_some(ADDRESS_REMEDY);
                    self.fail(&format!("cannot receive there: {error}"), remedy, context);
                }
            }
            State::Open(open) => {
                self.dropped += open.count_drops(context.now);
                if let Err(words) = self.give_up_packets(context) {
                    self.fail(&words, None, context);
                }
                self.check_silence(context.now);
            }
        }
        self.publish_status();
    }

    /// Passes on what waited for packets that do not come.
    fn give_up_packets(&mut self, context: &mut PullContext<'_>) -> Result<(), String> {
        let Some(rtp) = &mut self.rtp else { return Ok(()) };
        context.gathered.clear();
        rtp.handle_timeout(context.now, &mut |packets| context.gathered.extend_from_slice(packets));
        self.pass_on(context)
    }

    fn check_silence(&mut self, now: Time) {
        let State::Open(open) = &mut self.state else { return };
        let Some((began, newest)) = open.live else { return };
        if now.since(newest) < self.retry.policy.silence_timeout {
            return;
        }
        open.live = None;
        self.retry.lived(newest.since(began));
        self.leave();
        let time = self.retry.policy.silence_timeout;
        self.retry.wait(&PullError::Silent { what: "no datagram", time }.to_string(), newest);
    }

    fn leave(&mut self) {
        self.slots.release();
        self.lock.release();
        self.is_rtp = matches!(self.retry.entry.source, Source::Rtp(_));
        if let Some(rtp) = &mut self.rtp {
            rtp.reset();
        }
    }

    fn open(&mut self, context: &PullContext<'_>) -> io::Result<()> {
        let socket = Receiver::open(&self.settings)?;
        self.generation = self.generation.wrapping_add(1) & 0x7FFF_FFFF;
        context.poller.add(&socket, token(self.index, self.generation), Watch::Edges)?;
        self.state = State::Open(Box::new(Open { socket, live: None, dropped: 0, next_drops: context.now }));
        self.retry.note.remedy = None;
        self.retry.begin_listening();
        if self.retry.note.failures == 0 {
            let PullEntry { source, names, .. } = &*self.retry.entry;
            tracing::info!(%source, streams = ?names, "waiting for datagrams");
        }
        Ok(())
    }

    /// Datagrams have come. Returns whether more of them wait.
    pub(super) fn take_turn(&mut self, generation: u32, context: &mut PullContext<'_>) -> bool {
        if generation != self.generation {
            return false;
        }
        let more = match self.try_turn(context) {
            Ok(more) => more,
            Err(words) => {
                self.fail(&words, None, context);
                false
            }
        };
        self.publish_status();
        more
    }

    fn try_turn(&mut self, context: &mut PullContext<'_>) -> Result<bool, String> {
        for _ in 0..READS_A_TURN {
            let State::Open(open) = &mut self.state else { return Ok(false) };
            let lost = |error: io::Error| PullError::Lost(error.to_string()).to_string();
            open.socket.receive(context.inbox).map_err(lost)?;
            context.gathered.clear();
            let mut refusal = None;
            for (sender, datagram) in context.inbox.received() {
                self.received += 1;
                let from = Origin::of(sender);
                let is_first = open.live.is_none() && context.gathered.is_empty();
                if is_first && !self.is_rtp && is_surely_rtp(datagram) {
                    self.is_rtp = true;
                    self.rtp.get_or_insert_with(|| Depacketizer::new(rtp_settings(self.retry.policy)));
                }
                let mut gather = |packets: &[u8]| context.gathered.extend_from_slice(packets);
                match self.rtp.as_mut().filter(|_| self.is_rtp) {
                    None if takes_bare(&mut self.lock, from, datagram, context.now) => gather(datagram),
                    None => {}
                    Some(rtp) => {
                        let taken = rtp.handle_datagram(datagram, from, context.now, &mut gather);
                        refusal = taken.err().or(refusal);
                    }
                }
            }
            if let (Some(why), Some(rtp)) = (refusal, &self.rtp)
                && rtp.refused_bytes_in_a_row() > REFUSED_BYTES
            {
                let words =
                    format!("found no MPEG-TS in {} bytes of datagrams: {why}", rtp.refused_bytes_in_a_row());
                return Err(PullError::Refused(words).to_string());
            }
            self.pass_on(context)?;
            if !context.inbox.is_full() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Gives what was gathered to the streams, which begin with it.
    fn pass_on(&mut self, context: &PullContext<'_>) -> Result<(), String> {
        let State::Open(open) = &mut self.state else { return Ok(()) };
        if context.gathered.is_empty() {
            return Ok(());
        }
        if !self.slots.are_taken() {
            self.slots.acquire().map_err(|words| PullError::Refused(words).to_string())?;
            self.retry.note.sessions += 1;
            if self.retry.begin_live(context.now) {
                let PullEntry { source, names, .. } = &*self.retry.entry;
                tracing::info!(%source, streams = ?names, "source is live");
            }
        }
        let (began, _) = open.live.unwrap_or((context.now, context.now));
        open.live = Some((began, context.now));
        self.slots.push(context.gathered).map_err(|words| PullError::Refused(words).to_string())
    }

    /// Closes the socket for a while.
    fn fail(&mut self, why: &str, remedy: Option<&'static str>, context: &PullContext<'_>) {
        self.generation = self.generation.wrapping_add(1) & 0x7FFF_FFFF;
        if let State::Open(open) = &mut self.state {
            self.dropped += open.count_drops(Time::NEVER);
        }
        self.leave();
        let until = self.retry.close(why, remedy, context.now);
        self.state = State::Closed { until };
    }

    fn publish_status(&mut self) {
        self.retry.note.datagrams = Some((self.received, self.dropped));
        self.retry.note.rtp = self.rtp.as_ref().map(counts);
        self.retry.post();
    }
}

impl Open {
    /// Datagrams dropped since the last call, asked for once in a while.
    fn count_drops(&mut self, now: Time) -> u64 {
        if now < self.next_drops {
            return 0;
        }
        self.next_drops = now + DROPS_TIME;
        let Ok(dropped) = self.socket.dropped() else { return 0 };
        u64::from(dropped.wrapping_sub(std::mem::replace(&mut self.dropped, dropped)))
    }
}

/// Whether a datagram of bare TS packets is of the sender that is listened to, which the first one with a packet at its
/// beginning is.
fn takes_bare(lock: &mut SourceLock, from: Origin, datagram: &[u8], now: Time) -> bool {
    if lock.weigh(from, NO_SSRC, now) == Standing::Stranger {
        return false;
    }
    if lock.is_at(from) || datagram.first() == Some(&SYNC_BYTE) {
        lock.renew(from, NO_SSRC, now);
    }
    true
}

fn rtp_settings(policy: Policy) -> rtp::Settings {
    rtp::Settings { window: policy.reorder, ..rtp::Settings::default() }
}

fn counts(rtp: &Depacketizer) -> RtpCounts {
    let rtp::Counters { received, lost, reordered, late, duplicate, stray, restarts } = rtp.counters();
    RtpCounts {
        received,
        lost,
        reordered,
        late,
        duplicate,
        refused: rtp.refused() + stray,
        restarts,
        damaged_units: 0,
    }
}

#[cfg(test)]
#[path = "datagrams_tests.rs"]
mod tests;
