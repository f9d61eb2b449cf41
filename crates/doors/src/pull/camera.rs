//! A camera, or another server of RTSP: the pure session, its connection, and the ports of its tracks.
//!
//! ```text
//! connection ─┐                    ┌─► units ─► delivery::assemble ─► publisher slots
//! ports ──────┴─► ClientSession ───┴─► requests, reports ─► connection, ports
//! ```
//! All sockets of a camera have one token: any of them with news brings it a turn, in which all are read.

use super::dial::{Dial, Dialled};
use super::publisher_slots::PublisherSlots;
use super::retry::Retry;
use super::table::{Phase, PullEntry};
use super::track_feed::{TrackFeed, add, counts_of};
use super::{PullContext, READS_A_TURN, Sources, token};
use crate::outgoing::Outgoing;
use crate::rtp_ports;
use crate::wire::Wire;
use glassline_delivery::pull::{Policy, RtspUrl, UNTRUSTED_REMEDY};
use glassline_io::poll::Watch;
use glassline_io::random;
use glassline_io::tcp::Connection;
use glassline_io::tls;
use glassline_io::udp::Receiver;
use glassline_media::{Time, Utc};
use glassline_streams::status::RtpCounts;
use glassline_transport::rtp;
use glassline_transport::rtsp::auth::Credentials;
use glassline_transport::rtsp::client::{self, ClientSession, ClientSettings, Output};
use glassline_transport::rtsp::transport::Lower;
use glassline_transport::rtsp::uri::Uri;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

/// Bytes that a camera may leave unread: requests and reports have some kilobytes.
const UNREAD_MAX_BYTES: usize = 256 << 10;

pub(super) struct Camera {
    index: usize,
    retry: Retry,
    url: RtspUrl,
    slots: PublisherSlots,
    state: State,
    generation: u32,
    dial: Dial,
    /// What came of the connections before.
    past: RtpCounts,
    /// How packets came when they last came: that is asked for first the next time.
    lower: Option<Lower>,
    seed: u64,
}

enum State {
    Waiting { until: Time },
    Running(Box<Running>),
}

/// A session, with its sockets.
struct Running {
    session: ClientSession,
    wire: Option<Wire>,
    /// The host that the certificate has to be for, where TLS is spoken.
    secured: Option<String>,
    outgoing: Outgoing,
    /// The ports of each track, for RTP and RTCP.
    ports: Vec<Option<(Receiver, Receiver)>>,
    feed: TrackFeed,
    /// Since when units come.
    live_since: Option<Time>,
    /// What was sent before is of another session with the camera.
    is_resumed: bool,
    has_told: bool,
    /// The server's certificate is not trusted.
    is_untrusted: bool,
    /// What the connection's packets last came to.
    told: RtpCounts,
}

impl Camera {
    pub(super) fn new(
        server: &dyn Sources,
        index: usize,
        entry: Arc<PullEntry>,
        url: RtspUrl,
        policy: Policy,
        seed: u64,
    ) -> Camera {
        let slots = PublisherSlots::new(server.streams(), &entry.names, entry.mux);
        Camera {
            index,
            retry: Retry::new(entry, policy, seed),
            url,
            slots,
            state: State::Waiting { until: Time::ZERO },
            generation: 0,
            dial: Dial::default(),
            past: RtpCounts::default(),
            lower: None,
            seed,
        }
    }

    /// Applies a new retry policy, from the next session on.
    pub(super) fn reconfigure(&mut self, policy: Policy) {
        self.retry.reconfigure(policy);
    }

    pub(super) fn entry(&self) -> &Arc<PullEntry> {
        &self.retry.entry
    }

    pub(super) fn poll_timeout(&self) -> Time {
        match &self.state {
            State::Waiting { until } => *until,
            State::Running(running) => running.session.poll_timeout().min(running.feed.poll_timeout()),
        }
    }

    pub(super) fn handle_timeout(&mut self, context: &mut PullContext<'_>) {
        match &mut self.state {
            State::Waiting { until } if *until <= context.now => self.begin(context),
            State::Waiting { .. } => {}
            State::Running(running) => {
                running.session.handle_timeout(context.now);
                running.feed.handle_timeout(context.now);
            }
        }
        self.settle(context);
    }

    /// A name's addresses have come, or none.
    pub(super) fn handle_resolved(
        &mut self,
        addresses: io::Result<Vec<SocketAddr>>,
        context: &mut PullContext<'_>,
    ) {
        let place = (self.index, self.generation);
        let dialled = self.dial.handle_resolved(addresses, place, context);
        self.handle_dialled(dialled, context);
        self.settle(context);
    }

    /// A socket has news. Returns whether more of them wait.
    pub(super) fn take_turn(&mut self, generation: u32, context: &mut PullContext<'_>) -> bool {
        if generation != self.generation {
            return false;
        }
        let place = (self.index, self.generation);
        if matches!(self.state, State::Waiting { .. }) {
            return false;
        }
        let dialled = self.dial.look(place, context);
        self.handle_dialled(dialled, context);
        let more = match self.read(context) {
            Ok(more) => more,
            Err(words) => {
                self.fail(&words, context);
                false
            }
        };
        self.settle(context);
        more && generation == self.generation
    }

    fn begin(&mut self, context: &PullContext<'_>) {
        // It was checked when the configuration was read.
        let Some(server) = Uri::parse(&self.url.request()) else {
            return self.fail("its address is none of RTSP", context);
        };
        let credentials = self.url.credentials().map(|(user, password)| Credentials::new(user, password));
        let random = random::seed().ok().and_then(|seed| seed.first_chunk().copied().map(u64::from_le_bytes));
        let settings = ClientSettings {
            server,
            credentials,
            lower: self.lower.filter(|lower| *lower == Lower::Tcp),
            silence_timeout: self.retry.policy.silence_timeout,
            reorder: rtp::Settings { window: self.retry.policy.reorder, ..rtp::Settings::default() },
            random: random.unwrap_or(self.seed ^ context.now.as_nanos()),
        };
        self.state = State::Running(Box::new(Running {
            session: ClientSession::new(settings, context.now),
            wire: None,
            secured: None,
            outgoing: Outgoing::default(),
            ports: Vec::new(),
            feed: TrackFeed::default(),
            live_since: None,
            is_resumed: false,
            has_told: false,
            is_untrusted: false,
            told: RtpCounts::default(),
        }));
        if self.retry.note.failures == 0 {
            self.retry.note.phase = Phase::Connecting;
        }
    }

    fn handle_dialled(&mut self, dialled: Dialled, context: &mut PullContext<'_>) {
        let State::Running(running) = &mut self.state else { return };
        match dialled {
            Dialled::Waits => {}
            Dialled::Failed(words) => self.fail(&format!("cannot connect: {words}"), context),
            Dialled::Open(connection, ip) => match running.open(connection, &self.retry.entry, context) {
                Ok(()) => running.session.handle_connected(ip, context.now),
                Err(words) => self.fail(&words, context),
            },
        }
    }

    /// Reads what has come on all sockets, up to a turn's worth. Returns whether more waits.
    fn read(&mut self, context: &mut PullContext<'_>) -> Result<bool, String> {
        let State::Running(running) = &mut self.state else { return Ok(false) };
        let utc = context.server.clock().utc();
        let mut more = false;
        for _ in 0..READS_A_TURN {
            let connection = running.read_connection(context, utc).map_err(|error| {
                running.is_untrusted = tls::is_untrusted(&error);
                error.to_string()
            })?;
            let ports = running.read_ports(context, utc);
            running.pump(&mut self.slots, &mut self.retry, context)?;
            more = connection || ports;
            if !more {
                break;
            }
        }
        Ok(more)
    }

    /// Does what the session asks for, passes units on, and tells what has changed.
    fn settle(&mut self, context: &mut PullContext<'_>) {
        if let Err(words) = self.serve(context) {
            self.fail(&words, context);
        }
        self.publish_status(context);
    }

    fn serve(&mut self, context: &mut PullContext<'_>) -> Result<(), String> {
        loop {
            let State::Running(running) = &mut self.state else { return Ok(()) };
            running.pump(&mut self.slots, &mut self.retry, context)?;
            let Some(output) = running.session.poll_output() else { break };
            match output {
                Output::Connect(uri) => {
                    self.generation = self.generation.wrapping_add(1) & 0x7FFF_FFFF;
                    self.past = add(self.past, std::mem::take(&mut running.told));
                    running.close();
                    running.is_resumed = self.slots.are_taken();
                    running.secured = uri.is_secured.then(|| uri.host.clone());
                    let place = (self.index, self.generation);
                    let failures = self.retry.note.failures;
                    let dialled = self.dial.begin(&uri.host, uri.port, failures, place, context);
                    self.handle_dialled(dialled, context);
                }
                Output::Send(bytes) => running.send(bytes).map_err(|error| error.to_string())?,
                Output::OpenPorts { track } => {
                    let place = token(self.index, self.generation);
                    running.open_ports(track, place, context);
                }
                Output::Datagram { track, is_rtcp, to, data } => {
                    running.send_datagram(track, is_rtcp, to, &data);
                }
                Output::Close => {
                    self.dial.stop();
                    running.close();
                }
            }
        }
        let State::Running(running) = &self.state else { return Ok(()) };
        match running.session.phase() {
            client::Phase::Over(error) => Err(error.to_string()),
            _ => Ok(()),
        }
    }

    /// Ends the session for a while.
    fn fail(&mut self, why: &str, context: &PullContext<'_>) {
        let State::Running(running) = &mut self.state else { return };
        let live_since = running.live_since;
        let remedy = match running.session.phase() {
            _ if self.retry.note.sessions > 0 => None,
            client::Phase::Over(error) => error.remedy(),
            _ if running.is_untrusted => Some(UNTRUSTED_REMEDY),
            _ => None,
        };
        // Where it sent nothing, the other way may be the better one.
        self.lower = live_since.map(|_| running.session.lower());
        running.session.tear_down();
        running.say_last_words();
        self.past = add(self.past, running.counts());
        self.retry.note.rtp = Some(self.past);
        self.dial.stop();
        if let Some(since) = live_since {
            self.retry.lived(context.now.since(since));
        }
        self.slots.release();
        let until = self.retry.close(why, remedy, context.now);
        self.state = State::Waiting { until };
        self.retry.post();
    }

    fn publish_status(&mut self, context: &PullContext<'_>) {
        let State::Running(running) = &mut self.state else { return };
        if running.live_since.is_some() && !running.has_told {
            running.has_told = true;
            let is_told = self.retry.begin_live(context.now);
            let (source, streams) = (&self.retry.entry.source, &self.retry.entry.names);
            let tracks = running.session.tracks().iter().map(|track| track.format.name());
            let (tracks, lower) = (tracks.collect::<Vec<_>>().join(", "), running.session.lower());
            if is_told {
                tracing::info!(%source, ?streams, %tracks, transport = ?lower, "source is live");
                for sentence in running.session.left_out() {
                    tracing::warn!(%source, ?streams, "{sentence}");
                }
            }
        }
        self.retry.note.redirects = self.retry.note.redirects.max(running.session.redirects().into());
        if running.live_since.is_some() {
            running.told = running.counts();
            self.retry.note.rtp = Some(add(self.past, running.told));
        }
        self.retry.post();
    }
}

impl Drop for Camera {
    /// Small cameras have few sessions: they are told that this one is over.
    fn drop(&mut self) {
        if let State::Running(running) = &mut self.state {
            running.session.tear_down();
            running.say_last_words();
        }
    }
}

impl Running {
    fn open(
        &mut self,
        connection: Connection,
        entry: &PullEntry,
        context: &mut PullContext<'_>,
    ) -> Result<(), String> {
        let _ = connection.send_at_once();
        self.wire = Some(match &self.secured {
            None => Wire::plain(connection),
            Some(host) => {
                let session =
                    context.trust.connect_rtsp(&entry.roots, host).map_err(|error| error.to_string())?;
                Wire::secured(connection, session)
            }
        });
        Ok(())
    }

    fn close(&mut self) {
        (self.wire, self.outgoing, self.feed) = (None, Outgoing::default(), TrackFeed::default());
        self.ports.clear();
    }

    /// Sends what the session still wants to have sent, as far as there is room at once.
    fn say_last_words(&mut self) {
        while let Some(output) = self.session.poll_output() {
            match output {
                Output::Send(bytes) => drop(self.send(bytes)),
                // What comes behind a close is of a next connection, which is not wanted.
                Output::Connect(_) => break,
                Output::OpenPorts { .. } | Output::Datagram { .. } | Output::Close => {}
            }
        }
    }

    fn send(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        let Some(wire) = &mut self.wire else { return Ok(()) };
        self.outgoing.push(bytes);
        self.outgoing.flush(wire)?;
        if self.outgoing.len() > UNREAD_MAX_BYTES {
            return Err(io::Error::other("the camera asks, and does not read what it is answered"));
        }
        Ok(())
    }

    fn send_datagram(&mut self, track: usize, is_rtcp: bool, to: SocketAddr, data: &[u8]) {
        if let Some(Some((rtp, rtcp))) = self.ports.get(track) {
            // One that is lost is no matter, and neither is one that no way leads for.
            let _ = if is_rtcp { rtcp } else { rtp }.send_to(data, to);
        }
    }

    fn open_ports(&mut self, track: usize, token: u64, context: &PullContext<'_>) {
        let ours = self.wire.as_ref().and_then(|wire| wire.tcp().local_address().ok());
        let ports = ours.and_then(|ours| rtp_ports::open(ours.ip()).ok());
        let watched = ports.and_then(|(rtp, rtcp)| {
            context.poller.add(&rtp, token, Watch::Edges).ok()?;
            context.poller.add(&rtcp, token, Watch::Edges).ok()?;
            let numbers = (rtp.local_address().ok()?.port(), rtcp.local_address().ok()?.port());
            Some(((rtp, rtcp), numbers))
        });
        match watched {
            Some((ports, numbers)) => {
                self.ports.resize_with(track.max(self.ports.len()), || None);
                self.ports.insert(track, Some(ports));
                self.session.handle_ports(track, numbers, context.now);
            }
            None => self.session.handle_no_ports(context.now),
        }
    }

    /// Reads once from the connection. Returns whether more may wait.
    fn read_connection(&mut self, context: &mut PullContext<'_>, utc: Utc) -> io::Result<bool> {
        let Some(wire) = &mut self.wire else { return Ok(false) };
        wire.flush()?;
        self.outgoing.flush(wire)?;
        let Some(count) = wire.read(context.scratch)? else { return Ok(false) };
        if !wire.is_handshaking() {
            // The handshake's end may just have come.
            self.outgoing.flush(wire)?;
        }
        if count == 0 {
            self.session.handle_end();
            return Ok(false);
        }
        self.session.handle_bytes(&context.scratch[..count], context.now, utc);
        Ok(true)
    }

    /// Reads a batch from each port. Returns whether more may wait.
    fn read_ports(&mut self, context: &mut PullContext<'_>, utc: Utc) -> bool {
        let mut more = false;
        for (track, ports) in self.ports.iter().enumerate() {
            let Some((rtp, rtcp)) = ports else { continue };
            for socket in [rtp, rtcp] {
                // What a port says of datagrams that found no way concerns those that were sent.
                if socket.receive(context.inbox).is_err() {
                    continue;
                }
                for (sender, datagram) in context.inbox.received() {
                    if let Some(sender) = sender {
                        self.session.handle_datagram(track, datagram, sender, context.now, utc);
                    }
                }
                more |= context.inbox.is_full();
            }
        }
        more
    }

    /// Passes on the units that are whole.
    fn pump(
        &mut self,
        slots: &mut PublisherSlots,
        retry: &mut Retry,
        context: &PullContext<'_>,
    ) -> Result<(), String> {
        if let Some(receiver) = self.session.receiver() {
            let formats = self.session.tracks().iter().map(|track| &track.format);
            self.feed.tell_losses(formats, receiver.counters(), &retry.entry);
        }
        while let Some((track, placed)) = self.session.poll_unit() {
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

    fn counts(&self) -> RtpCounts {
        let tracks = self.session.receiver().into_iter().flat_map(|receiver| receiver.counters());
        counts_of(self.session.stray_packets(), tracks)
    }
}
