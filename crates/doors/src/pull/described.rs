//! A source that sends coded tracks in RTP, as a session description in a file says: nothing is asked, only listened to.
//!
//! ```text
//! Closed (no description, a port is taken) ─► Listening ─► Live ─► silent, or all goodbyes: Listening
//!    ▲ the file says something else                          another SSRC of the first track: a marked discontinuity
//! ```
//! All sockets of a source have one token: any of them with news brings it a turn, in which all are read. The file is looked at
//! while it is used: control systems write it anew, and a description that no longer holds brings nothing.

use super::publisher_slots::PublisherSlots;
use super::retry::Retry;
use super::table::{Phase, PullEntry};
use super::track_feed::{TrackFeed, add, counts_of};
use super::{PullContext, READS_A_TURN, Sources, token};
use glassline_delivery::pull::{Policy, PullError, SdpFile};
use glassline_io::poll::Watch;
use glassline_io::random;
use glassline_io::small_file::{self, Accept};
use glassline_io::udp::{Receiver, Route, Sender, Settings};
use glassline_media::{Time, Utc};
use glassline_streams::status::RtpCounts;
use glassline_transport::rtp;
use glassline_transport::rtp::session::described::{Described, DescribedSession, OwnReport, Port};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// How often it is looked whether the file has changed, and what the kernel has dropped.
const LOOK_TIME: Duration = Duration::from_secs(1);

pub(super) struct DescribedSource {
    index: usize,
    retry: Retry,
    file: SdpFile,
    slots: PublisherSlots,
    state: State,
    generation: u32,
    /// What came of the sessions before.
    past: RtpCounts,
    received: u64,
    dropped: u64,
    seed: u64,
}

enum State {
    Closed { until: Time },
    Open(Box<Open>),
}

/// What a description says, with its sockets.
struct Open {
    /// The file, as it was read.
    text: Vec<u8>,
    /// Another text that it had at the last look. It is followed once it reads the same again: half of a file may be a description,
    /// too.
    other: Option<Vec<u8>>,
    described: Described,
    /// By the numbers of the description's ports; `None`: one for reports that could not be opened.
    sockets: Vec<Option<Socket>>,
    session: DescribedSession,
    feed: TrackFeed,
    /// Since when units come; `None` where none does.
    live_since: Option<Time>,
    /// How often the first track's sender has begun anew.
    restarts: u64,
    is_resumed: bool,
    has_told_type: bool,
    next_look: Time,
}

struct Socket {
    receiver: Receiver,
    /// What the kernel had dropped of its datagrams when it was last asked.
    dropped: u32,
    /// By which our reports leave to a group.
    to_group: Option<Sender>,
}

impl DescribedSource {
    pub(super) fn new(
        server: &dyn Sources,
        index: usize,
        entry: Arc<PullEntry>,
        file: SdpFile,
        policy: Policy,
        seed: u64,
    ) -> DescribedSource {
        let slots = PublisherSlots::new(server.streams(), &entry.names, entry.mux);
        DescribedSource {
            index,
            retry: Retry::new(entry, policy, seed),
            file,
            slots,
            state: State::Closed { until: Time::ZERO },
            generation: 0,
            past: RtpCounts::default(),
            received: 0,
            dropped: 0,
            seed,
        }
    }

    /// Applies a new retry policy; what packets wait for, from the next session on.
    pub(super) fn reconfigure(&mut self, policy: Policy) {
        self.retry.reconfigure(policy);
    }

    pub(super) fn entry(&self) -> &Arc<PullEntry> {
        &self.retry.entry
    }

    pub(super) fn poll_timeout(&self) -> Time {
        match &self.state {
            State::Closed { until } => *until,
            State::Open(open) => {
                let silent =
                    open.newest().map_or(Time::NEVER, |newest| newest + self.retry.policy.silence_timeout);
                open.next_look.min(silent).min(open.session.poll_timeout()).min(open.feed.poll_timeout())
            }
        }
    }

    pub(super) fn handle_timeout(&mut self, context: &mut PullContext<'_>) {
        match &mut self.state {
            State::Closed { .. } => {
                if let Err(words) = self.open(context) {
                    self.fail(&words, context);
                }
            }
            State::Open(open) => {
                open.session.handle_timeout(context.now);
                open.feed.handle_timeout(context.now);
                self.settle(context);
                self.look(context);
            }
        }
        self.publish_status();
    }

    /// Sockets have news. Returns whether more of them wait.
    pub(super) fn take_turn(&mut self, generation: u32, context: &mut PullContext<'_>) -> bool {
        if generation != self.generation {
            return false;
        }
        let mut more = false;
        for _ in 0..READS_A_TURN {
            // It has failed in the turn before, and that is told, too.
            let State::Open(open) = &mut self.state else { break };
            let utc = context.server.clock().utc();
            let (count, is_full) = open.read(context, utc);
            self.received += count;
            more = is_full;
            self.settle(context);
            if !more {
                break;
            }
        }
        self.publish_status();
        more && matches!(self.state, State::Open(_))
    }

    fn open(&mut self, context: &PullContext<'_>) -> Result<(), String> {
        let text = read(&self.file)?;
        let described = Described::parse_bytes(&text)
            .map_err(|error| format!("{}: {error}", self.file.path.display()))?;
        let place = token(self.index, self.generation.wrapping_add(1) & 0x7FFF_FFFF);
        let mut sockets = Vec::new();
        for (number, port) in described.ports.iter().enumerate() {
            let is_for_packets = described.tracks.iter().any(|track| track.rtp == number);
            match open_port(port, &self.file, place, context) {
                Ok(socket) => sockets.push(Some(socket)),
                // Reports are worth less than the stream is.
                Err(error) if !is_for_packets => {
                    let (source, port) = (&self.retry.entry.source, port.address);
                    tracing::warn!(%source, "no reports are received at {port}: {error}");
                    sockets.push(None);
                }
                Err(error) => return Err(format!("cannot receive at {}: {error}", port.address)),
            }
        }
        self.generation = self.generation.wrapping_add(1) & 0x7FFF_FFFF;
        let session = self.session(&described, context);
        let tracks: Vec<_> = described.tracks.iter().map(|track| track.format.name()).collect();
        let (source, streams, tracks) =
            (&self.retry.entry.source, &self.retry.entry.names, tracks.join(", "));
        tracing::info!(%source, ?streams, %tracks, "waiting for packets");
        described.notices.iter().for_each(|sentence| tracing::warn!(%source, "{sentence}"));
        self.state = State::Open(Box::new(Open {
            text,
            other: None,
            described,
            sockets,
            session,
            feed: TrackFeed::default(),
            live_since: None,
            restarts: 0,
            is_resumed: false,
            has_told_type: false,
            next_look: context.now + LOOK_TIME,
        }));
        self.retry.begin_listening();
        Ok(())
    }

    fn session(&self, described: &Described, context: &PullContext<'_>) -> DescribedSession {
        let random = random::seed().ok().and_then(|seed| seed.first_chunk().copied().map(u64::from_le_bytes));
        let random = random.unwrap_or(self.seed ^ context.now.as_nanos());
        let reorder = rtp::Settings { window: self.retry.policy.reorder, ..rtp::Settings::default() };
        DescribedSession::new(described, random, reorder)
    }

    /// Passes units on, sends the reports that are due, and sees whether the sender has ended.
    fn settle(&mut self, context: &PullContext<'_>) {
        let State::Open(open) = &mut self.state else { return };
        let passed = open.pump(&mut self.slots, &mut self.retry, context);
        for report in open.session.poll_reports(context.now) {
            open.report(&report, self.file.interface.as_deref());
        }
        let has_ended = open.session.receiver().has_ended();
        let silent =
            open.newest().is_some_and(|it| context.now.since(it) >= self.retry.policy.silence_timeout);
        match passed {
            Err(words) => self.fail(&PullError::Refused(words).to_string(), context),
            Ok(()) if has_ended => self.leave("the sender said goodbye", context),
            Ok(()) if silent => {
                let time = self.retry.policy.silence_timeout;
                self.leave(&PullError::Silent { what: "no packet", time }.to_string(), context);
            }
            Ok(()) => self.tell(context.now),
        }
    }

    /// Looks at the file, and asks what the kernel has dropped.
    fn look(&mut self, context: &PullContext<'_>) {
        let State::Open(open) = &mut self.state else { return };
        if context.now < open.next_look {
            return;
        }
        open.next_look = context.now + LOOK_TIME;
        self.dropped += open.count_drops();
        // A file that is away or half written is looked at again; what was read holds until then.
        let is_other = |text: &Vec<u8>| *text != open.text && Described::parse_bytes(text).is_ok();
        let other = read(&self.file).ok().filter(is_other);
        let is_whole = other.is_some() && other == open.other;
        open.other = other;
        if is_whole {
            tracing::info!(source = %self.retry.entry.source, "the session description has changed");
            self.past = add(self.past, open.counts());
            self.slots.release();
            self.retry.note.error = None;
            self.state = State::Closed { until: context.now };
        }
    }

    /// The sender is silent, or has ended: others may begin.
    fn leave(&mut self, why: &str, context: &PullContext<'_>) {
        let State::Open(open) = &self.state else { return };
        let session = self.session(&open.described, context);
        let State::Open(open) = &mut self.state else { return };
        self.past = add(self.past, open.counts());
        (open.session, open.feed, open.restarts) = (session, TrackFeed::default(), 0);
        if let Some(since) = open.live_since.take() {
            self.retry.lived(context.now.since(since));
        }
        self.slots.release();
        self.retry.wait(why, context.now);
    }

    /// Closes the sockets for a while.
    fn fail(&mut self, why: &str, context: &PullContext<'_>) {
        self.generation = self.generation.wrapping_add(1) & 0x7FFF_FFFF;
        if let State::Open(open) = &mut self.state {
            self.past = add(self.past, open.counts());
            self.dropped += open.count_drops();
        }
        self.slots.release();
        let until = self.retry.close(why, None, context.now);
        self.state = State::Closed { until };
    }

    /// Tells once that the source sends, and what is other than described.
    fn tell(&mut self, now: Time) {
        let State::Open(open) = &mut self.state else { return };
        let Some(since) = open.live_since else { return };
        if self.retry.note.phase != Phase::Live && self.retry.begin_live(now) {
            let PullEntry { source, names, .. } = &*self.retry.entry;
            tracing::info!(%source, streams = ?names, "source is live");
        }
        self.retry.lived(now.since(since));
        let source = &self.retry.entry.source;
        if !open.has_told_type
            && let Some((said, found)) = open.session.other_payload_types().next()
        {
            open.has_told_type = true;
            tracing::warn!(%source, "packets have the payload type {found}, and the description says {said}: they are taken");
        }
    }

    fn publish_status(&mut self) {
        self.retry.note.datagrams = Some((self.received, self.dropped));
        let now = if let State::Open(open) = &self.state { open.counts() } else { RtpCounts::default() };
        self.retry.note.rtp = Some(add(self.past, now));
        self.retry.post();
    }
}

impl Open {
    /// When the newest packet came, of a session that has begun.
    fn newest(&self) -> Option<Time> {
        self.session.receiver().newest()
    }

    /// Reads a batch from each socket. Returns how many datagrams came, and whether more may wait.
    fn read(&mut self, context: &mut PullContext<'_>, utc: Utc) -> (u64, bool) {
        let (mut count, mut more) = (0, false);
        for (port, socket) in self.sockets.iter().enumerate() {
            let Some(socket) = socket else { continue };
            // What a port says of datagrams that found no way concerns the reports that were sent.
            if socket.receiver.receive(context.inbox).is_err() {
                more = true;
                continue;
            }
            for (sender, datagram) in context.inbox.received() {
                count += 1;
                if let Some(sender) = sender {
                    self.session.handle_datagram(port, datagram, sender, context.now, utc);
                }
            }
            more |= context.inbox.is_full();
        }
        (count, more)
    }

    /// Passes on the units that are whole.
    fn pump(
        &mut self,
        slots: &mut PublisherSlots,
        retry: &mut Retry,
        context: &PullContext<'_>,
    ) -> Result<(), String> {
        let formats = self.session.tracks().iter().map(|track| &track.format);
        self.feed.tell_losses(formats, self.session.receiver().counters(), &retry.entry);
        let restarts = self.session.receiver().counters().next().map_or(0, |track| track.packets.restarts);
        if restarts != std::mem::replace(&mut self.restarts, restarts) && slots.are_taken() {
            self.is_resumed = true;
        }
        while let Some((track, placed)) = self.session.poll() {
            if !self.feed.is_open() {
                let formats = self.session.tracks().iter().map(|track| &track.format);
                self.feed.open(formats, context.now)?;
            }
            self.feed.push(track, placed, context.now);
        }
        if self.feed.pass_on(slots, &mut retry.note, &mut self.is_resumed)? {
            self.live_since.get_or_insert(context.now);
        }
        Ok(())
    }

    /// Sends a report of ours. One that is lost is no matter, and neither is one that no way leads for.
    fn report(&mut self, report: &OwnReport, interface: Option<&str>) {
        let Some(Some(socket)) = self.sockets.get_mut(report.port) else { return };
        if !report.to.ip().is_multicast() {
            let _ = socket.receiver.send_to(&report.bytes, report.to);
            return;
        }
        if socket.to_group.is_none() {
            let interface = interface.map(str::to_owned);
            let route = Route { interface, ttl: report.ttl, ..Route::to(report.to) };
            socket.to_group = Sender::open(&route).ok();
        }
        if let Some(sender) = &socket.to_group {
            let _ = sender.send(&[&report.bytes]);
        }
    }

    fn count_drops(&mut self) -> u64 {
        let mut count = 0;
        for socket in self.sockets.iter_mut().flatten() {
            let Ok(dropped) = socket.receiver.dropped() else { continue };
            count += u64::from(dropped.wrapping_sub(std::mem::replace(&mut socket.dropped, dropped)));
        }
        count
    }

    fn counts(&self) -> RtpCounts {
        counts_of(self.session.refused(), self.session.receiver().counters())
    }
}

/// The file's text. It is of bounded size, and no pipe.
fn read(file: &SdpFile) -> Result<Vec<u8>, String> {
    let text = small_file::read(&file.path, Accept::RegularFile).map_err(|error| error.to_string())?;
    Ok(text.to_vec())
}

/// A socket for what comes to a port. Where the address is none of ours, as in descriptions that name the sender's or that of a
/// router, what comes to any of ours is received.
fn open_port(port: &Port, file: &SdpFile, token: u64, context: &PullContext<'_>) -> io::Result<Socket> {
    let (address, ip) = (port.address, port.address.ip());
    let sender = match &port.sources[..] {
        [one] if ip.is_multicast() => Some(*one),
        // Several are joined for all of them; the session refuses others.
        _ => None,
    };
    let interface = file.interface.clone().filter(|_| ip.is_multicast());
    let opened = Receiver::open(&Settings { address, interface, sender });
    let receiver = match opened {
        Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable && !ip.is_multicast() => {
            let any = if ip.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
            let address = SocketAddr::new(any, address.port());
            let receiver = Receiver::open(&Settings { address, interface: None, sender: None })?;
            tracing::warn!(
                "rtp:{}: {ip} is no address of this machine: packets to port {} are received at any of its addresses",
                file.path.display(),
                address.port()
            );
            receiver
        }
        other => other?,
    };
    context.poller.add(&receiver, token, Watch::Edges)?;
    Ok(Socket { receiver, dropped: 0, to_group: None })
}

#[cfg(test)]
#[path = "described_tests.rs"]
mod tests;
