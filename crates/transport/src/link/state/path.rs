//! The state of one path of a link, from the handshake on it until it is lost or replaced: keys, packet numbers, recovery,
//! capacity, marks and datagram size (RFC 9000 §9, RFC 9002).

use glassline_media::Time;
use glassline_media::quantity::ByteRate;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::marking::Marking;
use super::mtu::{BASE, Mtu};
use super::rounded_down;
use super::statistics::PathStatistics;
use super::trial::Trial;
use crate::capacity::{Arrival, Capacity, Controller};
use crate::counter::count;
use crate::link::channel::send::Written;
use crate::link::received::Received;
use crate::link::recovery::Recovery;
use crate::link::secure::keys::{Opener, Sealer};
use crate::link::secure::noise::Secrets;
use crate::link::wire::frame::Frame;
use crate::link::wire::packet::{ConnectionId, DATA_OVERHEAD, write_data_header};
use crate::link::wire::parameters::Parameters;
use crate::link::{Bonding, CloseCode, Dictionary, Path, Random, Settings};

/// What a handshake gives.
pub(crate) struct Agreed {
    pub(crate) secrets: Secrets,
    /// The ID on what we receive.
    pub(crate) local: ConnectionId,
    /// The ID on what we send.
    pub(crate) remote: ConnectionId,
    pub(crate) path: Path,
    pub(crate) peer: Parameters,
    /// What names the link's state at both ends: first that of the end that connected.
    pub(crate) instance: Option<[u64; 2]>,
    /// Which of the link's paths it is.
    pub(crate) number: u8,
    pub(crate) bonding: Bonding,
    /// See [`PathState::spare`].
    pub(crate) spare: Option<ByteRate>,
    /// The round trip that the handshake took, if it was not repeated.
    pub(crate) rtt: Option<Duration>,
    pub(crate) random: Random,
}

/// A peer's address that is not validated yet (RFC 9000 §8.2).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) path: Path,
    pub(crate) challenge: [u8; 8],
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) next_at: Time,
}

/// Bytes of a packet with a CHALLENGE alone.
pub(crate) const CHALLENGE_SIZE: u64 = (DATA_OVERHEAD + 9) as u64;

/// How long a datagram above the least size may keep the path busy: what is urgent waits behind it.
const DATAGRAM_TIME: Duration = Duration::from_millis(3);

/// Bytes of a block of AES.
const AES_BLOCK: usize = 16;

/// How long a train of padding occupies the path.
const PADDING_TIME: Duration = Duration::from_millis(16);
/// The least datagrams of a train.
const LEAST_PADDING: f64 = 8.0;
/// The least time between two trains.
const LEAST_PADDING_GAP: Duration = Duration::from_millis(100);

/// The most challenges that wait for their answers to leave.
pub(crate) const MAX_RESPONSES: usize = 4;

/// How a path answers. It is not the probe timer that tells: each packet that leaves puts that off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// In time.
    Well,
    /// Not in time.
    Late,
    /// Not at all.
    Silent,
}

/// On a path that loses packets the last one before a pause may be lost, behind which nothing is acknowledged until the next ones
/// are: it is waited for so much longer.
const LOSSY_PATIENCE: Duration = Duration::from_millis(50);
/// A path is silent when it has not answered for so much longer than the probe timeout.
const SILENT_AFTER: Duration = Duration::from_millis(100);

pub(crate) struct PathState {
    pub(crate) local: ConnectionId,
    pub(crate) remote: ConnectionId,
    pub(crate) peer: Parameters,
    /// Where it leads.
    pub(crate) address: Path,
    /// The origin of the times in our acknowledgements.
    pub(crate) epoch: Time,
    pub(crate) sealer: Sealer,
    pub(crate) opener: Opener,
    pub(crate) received: Received,
    pub(crate) recovery: Recovery,
    pub(crate) capacity: Capacity,
    pub(crate) arrival: Arrival,
    /// The peer's estimate of how our packets arrive, nanoseconds for 1000 bytes.
    pub(crate) peer_arrival_ns: u64,
    /// What the path carries.
    pub(crate) mtu: Mtu,
    /// The largest datagram to be sent now, bytes.
    pub(crate) datagram: usize,
    /// The same, whatever the processor likes best.
    pub(crate) largest: usize,
    /// When pace lets the next packet leave.
    pub(crate) next_send: Time,
    /// Since when there was nothing to send though it might have been.
    pub(crate) idle_since: Option<Time>,
    /// When a packet was last acknowledged behind which the application had nothing more to send.
    pub(crate) paused_at: Option<Time>,
    pub(crate) last_received: Time,
    pub(crate) last_sent: Time,
    /// When a packet last left that asks for an acknowledgement.
    pub(crate) last_asked: Time,
    /// Since when something is under way and nothing is answered.
    pub(crate) unanswered_since: Option<Time>,
    /// How the path answers, where there are two.
    pub(crate) health: Health,
    /// Since when it has not been silent.
    pub(crate) well_since: Time,
    pub(crate) instance: Option<[u64; 2]>,
    /// Which of the link's paths it is.
    pub(crate) number: u8,
    pub(crate) bonding: Bonding,
    /// It carries messages only while those that are none such carry less together than this, or do not answer.
    pub(crate) spare: Option<ByteRate>,
    /// How long our packets are under way by both ends' clocks, plus what these are apart: microseconds, smoothed.
    pub(super) one_way_us: Option<f64>,
    /// Parts of messages that were sent on the other path and that this one still has to send as duplicates, and their
    /// size ([`Written::duplicate_cost`]).
    pub(crate) duplicates: VecDeque<(u8, Written)>,
    pub(crate) duplicate_bytes: u64,
    /// How many of them, in front, go ahead of other messages under [`Bonding::Sum`].
    pub(crate) urgent_duplicates: usize,
    /// Shards of parity of reliable messages that leave here once nothing else waits, and their size
    /// ([`Written::duplicate_cost`]).
    pub(super) parity: VecDeque<(u8, Written)>,
    pub(super) parity_bytes: u64,
    /// How a path that is too slow to be used is tried all the same.
    pub(super) trial: Trial,
    /// A CLOSE has to be sent.
    pub(crate) close_due: bool,
    pub(crate) candidate: Option<Candidate>,
    pub(crate) responses: Vec<(Path, [u8; 8])>,
    /// An ack-eliciting packet has to leave, whatever window and pace say.
    pub(crate) probe: bool,
    /// Packets without a request since the last one that had one.
    pub(crate) unasked: u32,
    /// The share of packets that are lost, smoothed.
    pub(crate) loss: f64,
    /// Packets were lost not long ago: until then it may happen again.
    pub(crate) lossy_until: Time,
    /// What our datagrams are marked with.
    pub(crate) marking: Marking,
    /// How many datagrams came with each mark, by [`Ecn::bits`].
    pub(crate) marks: [u64; 4],
    /// The path was silent until then: what was sent before says nothing of its rate.
    pub(crate) silent_until: Time,
    /// When what the path carries was measured last, or padding was last sent for that.
    pub(crate) measured_at: Time,
    /// Datagrams of padding that are still to leave in this row.
    pub(crate) padding_left: u32,
    /// When the next message may begin while nothing is acknowledged.
    pub(crate) blind_until: Time,
    pub(crate) random: Random,
    /// The dictionary that both ends hold.
    pub(crate) dictionary: Option<Arc<Dictionary>>,
}

impl PathState {
    pub(crate) fn new(now: Time, agreed: Agreed, settings: &Settings) -> PathState {
        let mtu = Mtu::new(now, agreed.peer.max_datagram.min(settings.datagram_bytes));
        let datagram = usize::from(mtu.size());
        let mut recovery = Recovery::new(now);
        let mut capacity = Capacity::new(now, datagram, settings.controller);
        if let Some(rtt) = agreed.rtt {
            recovery.rtt.update(rtt, Duration::ZERO);
            capacity.handle_handshake(rtt);
        }
        let dictionary = settings.dictionary.clone();
        let dictionary = dictionary.filter(|dictionary| agreed.peer.dictionary == Some(dictionary.id()));
        PathState {
            local: agreed.local,
            remote: agreed.remote,
            peer: agreed.peer,
            address: agreed.path,
            epoch: now,
            sealer: Sealer::new(agreed.secrets.send),
            opener: Opener::new(agreed.secrets.receive),
            received: Received::default(),
            recovery,
            capacity,
            arrival: Arrival::default(),
            peer_arrival_ns: 0,
            mtu,
            datagram,
            largest: datagram,
            next_send: now,
            idle_since: None,
            paused_at: None,
            last_received: now,
            last_sent: now,
            last_asked: now,
            unanswered_since: None,
            health: Health::Well,
            well_since: now,
            instance: agreed.instance,
            number: agreed.number,
            bonding: agreed.bonding,
            spare: agreed.spare,
            one_way_us: None,
            duplicates: VecDeque::new(),
            duplicate_bytes: 0,
            urgent_duplicates: 0,
            parity: VecDeque::new(),
            parity_bytes: 0,
            trial: Trial::default(),
            close_due: false,
            candidate: None,
            responses: Vec::new(),
            probe: false,
            unasked: 0,
            loss: 0.0,
            lossy_until: Time::ZERO,
            marking: Marking::new(settings.ecn),
            marks: [0; 4],
            silent_until: Time::ZERO,
            measured_at: now,
            padding_left: 0,
            blind_until: Time::ZERO,
            random: agreed.random,
            dictionary,
        }
    }

    /// A datagram with CLOSE alone, for a path that no link has any more.
    pub(crate) fn write_close(&mut self, code: CloseCode, reason: &str) -> Vec<u8> {
        let mut out = Vec::new();
        write_data_header(self.remote, self.sealer.key_phase(), self.sealer.next_number(), &mut out);
        Frame::Close { code: code.number(), reason: reason.as_bytes() }.write(&mut out);
        self.sealer.seal(0, &mut out);
        out
    }

    /// Updates the size of datagrams: what the path was found to carry, unless one of that size would keep a
    /// slow path busy for long. While the path is silent it is what every path carries, lest it is the size that makes
    /// it silent.
    pub(crate) fn fit(&mut self) {
        let (base, found) = (usize::from(BASE), usize::from(self.mtu.size()));
        let quick = rounded_down(self.capacity.bandwidth().bytes_in(DATAGRAM_TIME));
        let quick = usize::try_from(quick).unwrap_or(usize::MAX);
        let mut datagram = if self.recovery.probes() > 0 { base } else { quick.clamp(base, found) };
        self.largest = datagram;
        if self.capacity.is_fast() {
            // The last block of AES costs a sixth of all the others if it is not a whole one.
            datagram = datagram.saturating_sub(datagram.saturating_sub(DATA_OVERHEAD) % AES_BLOCK);
        }
        if datagram != self.datagram {
            self.datagram = datagram;
            self.capacity.resize_packets(datagram);
        }
    }

    /// The path has changed: its MTU, rate and ECN state are found anew (RFC 9000 §9.4).
    pub(crate) fn handle_new_path(&mut self, now: Time) {
        self.mtu = self.mtu.anew(now);
        self.capacity.handle_new_path(now);
        self.marking.handle_new_path();
        self.fit();
    }

    /// When a CHALLENGE to the address that is being validated is due again.
    pub(crate) fn candidate_timeout(&self) -> Time {
        // The anti-amplification limit (RFC 9000 §8.1), here without the factor of three: at most as many bytes are sent to
        // an address that is not validated as came from it.
        let candidate = self.candidate.as_ref();
        let affordable =
            candidate.filter(|candidate| candidate.sent.saturating_add(CHALLENGE_SIZE) <= candidate.received);
        affordable.map_or(Time::NEVER, |candidate| candidate.next_at)
    }

    /// When the search for the path's datagram size has something to do. It begins once the peer has answered, and
    /// rests while it does not.
    pub(crate) fn mtu_timeout(&self) -> Time {
        let answered = self.recovery.largest_acked().is_some() && self.recovery.probes() == 0;
        if answered || self.mtu.is_probing() { self.mtu.next_timeout() } else { Time::NEVER }
    }

    /// How many datagrams of padding in a row measure the path.
    pub(crate) fn padding_packets(&self) -> u32 {
        let bytes = self.capacity.bandwidth().bytes_in(PADDING_TIME);
        let packets = rounded_down((bytes / self.datagram as f64).ceil().max(LEAST_PADDING));
        u32::try_from(packets).unwrap_or(u32::MAX)
    }

    /// When padding leaves to measure the path, for which `percent` of its rate may be taken; never while it is silent.
    pub(crate) fn padding_timeout(&self, percent: u8) -> Time {
        if percent == 0 || self.recovery.probes() > 0 || self.recovery.largest_acked().is_none() {
            return Time::NEVER;
        }
        if self.padding_left > 0 {
            return self.next_send;
        }
        let bytes = f64::from(self.padding_packets()) * self.datagram as f64;
        let rate = self.capacity.pacing_rate().bytes_per_second().max(1) as f64 * f64::from(percent.min(100))
            / 100.0;
        self.measured_at + Duration::from_secs_f64(bytes / rate).max(LEAST_PADDING_GAP)
    }

    /// The smoothed round trip.
    pub(crate) fn rtt(&self) -> Duration {
        self.recovery.rtt.smoothed
    }

    /// Whether the path does not answer.
    pub(super) fn is_silent(&self) -> bool {
        self.health == Health::Silent
    }

    /// Whether all that was asked has been answered in time so far.
    pub(super) fn is_well(&self) -> bool {
        self.health == Health::Well
    }

    /// Since when something is under way that is not answered. Where other paths take over at once it is the oldest packet that
    /// counts, and not the newest answer.
    fn unanswered(&self) -> Option<Time> {
        let oldest = self.recovery.oldest_unanswered().filter(|_| self.bonding == Bonding::Sum);
        let oldest = oldest.map(|at| if at < self.lossy_until { at + LOSSY_PATIENCE } else { at });
        self.unanswered_since.into_iter().chain(oldest).min()
    }

    /// When it is late, and when it is silent, if nothing is answered until then.
    pub(super) fn health_timeouts(&self) -> HealthTimeouts {
        let late = self.unanswered().map_or(Time::NEVER, |since| since + self.recovery.probe_time());
        let silent = if late == Time::NEVER { late } else { late + SILENT_AFTER };
        HealthTimeouts { late, silent }
    }

    /// Updates its health; `true` if it was well and is not any more.
    pub(super) fn examine(&mut self, now: Time) -> bool {
        let before = self.health;
        let timeouts = self.health_timeouts();
        if self.bonding == Bonding::Sum && timeouts.late <= now {
            // What is given up now is waited for no more, and the path is as late as before.
            self.unanswered_since = self.unanswered();
        }
        self.health = match () {
            () if timeouts.silent <= now => Health::Silent,
            () if timeouts.late <= now => Health::Late,
            () => Health::Well,
        };
        if before == Health::Silent && !self.is_silent() {
            self.well_since = now;
        }
        before == Health::Well && !self.is_well()
    }

    /// When its health changes though nothing came.
    pub(super) fn next_health_timeout(&self) -> Time {
        let timeouts = self.health_timeouts();
        match self.health {
            Health::Well => timeouts.late,
            Health::Late => timeouts.silent,
            Health::Silent => Time::NEVER,
        }
    }

    /// How long nothing that was sent has been answered, beyond the time that answers take; zero where answers come, or nothing
    /// is under way.
    pub(super) fn silence(&self, now: Time) -> Duration {
        let since = self.unanswered_since.map_or(Duration::ZERO, |since| now.since(since));
        since.saturating_sub(self.recovery.probe_time())
    }

    /// What is left of an estimate, 1 to 0: of one that is as old again as answers take, a half.
    pub(super) fn freshness(&self, now: Time) -> f64 {
        if matches!(self.capacity.controller(), Controller::Fixed(_)) {
            return 1.0;
        }
        let (usual, silence) = (self.recovery.probe_time(), self.silence(now));
        usual.as_secs_f64() / usual.saturating_add(silence).as_secs_f64().max(1e-9)
    }

    /// Its measures; `carries` is whether messages go over it now, and `behind` how much longer packets take than by the quickest.
    pub(super) fn statistics(&self, carries: bool, behind: Duration) -> PathStatistics {
        PathStatistics {
            path: self.address,
            number: self.number,
            carries,
            silent: self.is_silent(),
            rtt: self.rtt(),
            loss: self.loss,
            bandwidth: self.capacity.bandwidth(),
            queue_delay: self.capacity.queue_delay(),
            sent_bytes: self.recovery.sent_bytes,
            spare: self.spare.is_some(),
            behind,
            datagram_bytes: self.mtu.size(),
        }
    }

    /// A packet of the peer's has come, which sends one each `keep_alive` at least. Where none had come for longer than that and
    /// nothing was answered, both ways were silent and are back together as a rule: the next message need not wait for an answer
    /// to a probe.
    pub(super) fn handle_heard(&mut self, now: Time, keep_alive: Duration) {
        let silence = now.since(std::mem::replace(&mut self.last_received, now));
        let longest = keep_alive.saturating_add(self.recovery.probe_time());
        if self.recovery.is_blind() && silence > longest {
            self.blind_until = Time::ZERO;
            self.unanswered_since = Some(now);
        }
    }

    /// The newest packet came from another address: the peer may have moved, or another machine forwards its packets.
    pub(super) fn handle_other_address(&mut self, now: Time, address: Path, size: usize) {
        match &mut self.candidate {
            Some(candidate) if candidate.path == address => count(&mut candidate.received, size as u64),
            _ => {
                let challenge = self.random.array();
                let received = size as u64;
                self.candidate =
                    Some(Candidate { path: address, challenge, received, sent: 0, next_at: now });
            }
        }
    }

    /// The peer has answered the CHALLENGE that was sent to an address: it is the path's address from now on (RFC 9000
    /// §9.3). Gives it; nothing where no such challenge is under way.
    pub(super) fn handle_response(&mut self, now: Time, data: [u8; 8]) -> Option<Path> {
        let candidate = self.candidate.take_if(|candidate| candidate.challenge == data)?;
        let moved = self.address.remote.ip() != candidate.path.remote.ip();
        self.address = candidate.path;
        if moved {
            self.handle_new_path(now);
        }
        // What was sent to the old address since it went is lost; it need not be waited for.
        self.probe = true;
        Some(candidate.path)
    }

    /// The peer asks whether we are at the address that it has sent a CHALLENGE to.
    pub(super) fn handle_challenge(&mut self, from: Path, data: [u8; 8]) {
        self.responses.truncate(MAX_RESPONSES - 1);
        self.responses.push((from, data));
    }
}

/// See [`PathState::health_timeouts`].
#[derive(Clone, Copy)]
pub(super) struct HealthTimeouts {
    pub(super) late: Time,
    pub(super) silent: Time,
}
