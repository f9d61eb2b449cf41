//! What a datagram does to a link.

use crate::counter::count;
use glassline_media::Time;
use std::time::Duration;

use super::session::{Candidate, MAX_RESPONSES, Session};
use super::{Link, Standing};
use crate::capacity::Feedback;
use crate::link::channel::receive::Receiver;
use crate::link::content::Content;
use crate::link::recovery::Sample;
use crate::link::wire::frame::{Ack, Frame};
use crate::link::wire::packet::ConnectionId;
use crate::link::wire::varint::Reader;
use crate::link::{CloseCode, CloseReason, Compression, Ecn, Event, Options, Path};

/// The share of lost packets from which copies and parity are worth their bytes,
const LOSSY: f64 = 0.003;
/// and for how long after the last loss: bursts come at intervals.
const LOSSY_FOR: Duration = Duration::from_secs(10);

/// An application that has paused within this time sends in bursts.
const PAUSING: Duration = Duration::from_secs(1);

impl Link {
    /// Takes a data packet for the path with the connection ID `to`, which is opened in place. `false`: it is not from the peer, or it came
    /// before.
    pub(crate) fn handle_data_packet(
        &mut self,
        now: Time,
        path: Path,
        to: ConnectionId,
        datagram: &mut [u8],
    ) -> bool {
        let Some(on) = self.paths.iter().position(|session| session.local == to) else { return false };
        let taken = self.handle_packet(now, on, path, datagram);
        self.choose(now);
        taken
    }

    #[inline]
    fn handle_packet(&mut self, now: Time, on: usize, path: Path, datagram: &mut [u8]) -> bool {
        let session = &mut self.paths[on];
        let size = datagram.len();
        let before = session.opener.largest();
        let Ok((number, payload)) = session.opener.open(datagram) else {
            count(&mut self.statistics.refused_packets, 1);
            return false;
        };
        session.last_received = now;
        count(&mut self.statistics.received_packets, 1);
        count(&mut self.statistics.received_bytes, size as u64);
        if path != session.path && before.is_none_or(|before| number > before) {
            session.handle_other_path(now, path, size);
        }
        if let Standing::Closing { .. } = self.standing {
            // The peer still sends: it does not know that the link is closed.
            session.close_due = true;
            return true;
        }
        let Some((eliciting, grace)) = self.handle_frames(now, on, path, payload) else { return true };
        let session = &mut self.paths[on];
        session.received.insert(now, number, eliciting);
        if eliciting {
            session.arrival.handle_packet(now, size, grace);
        }
        true
    }

    /// The packet that came last for the path with the connection ID `to` bore this mark.
    pub(crate) fn handle_mark(&mut self, to: ConnectionId, mark: Ecn) {
        if let Some(session) = self.paths.iter_mut().find(|session| session.local == to) {
            count(&mut session.marks[usize::from(mark.bits())], 1);
        }
    }

    /// Does what the frames of a packet from the peer say: whether one asks for an acknowledgement, and how long the
    /// sender had paused. `None` if the link has ended with them.
    pub(crate) fn handle_frames(
        &mut self,
        now: Time,
        on: usize,
        path: Path,
        frames: &[u8],
    ) -> Option<(bool, Duration)> {
        let (mut eliciting, mut grace, mut reader) = (false, Duration::ZERO, Reader::new(frames));
        while !reader.is_empty() {
            let Some(frame) = Frame::parse(&mut reader) else {
                self.violated(now, "a malformed frame");
                return None;
            };
            eliciting |= frame.is_eliciting();
            if let Frame::Grace(micros) = frame {
                grace = Duration::from_micros(micros);
            } else if let Err(what) = self.handle_frame(now, on, path, frame) {
                self.violated(now, what);
                return None;
            }
            if self.standing != Standing::Up {
                return None;
            }
        }
        Some((eliciting, grace))
    }

    #[inline]
    fn handle_frame(
        &mut self,
        now: Time,
        on: usize,
        path: Path,
        frame: Frame<'_>,
    ) -> Result<(), &'static str> {
        match frame {
            Frame::Data(data) => {
                return self.take_in(data.channel, |receiver| receiver.handle_data(now, &data));
            }
            Frame::Packed(data) => {
                return self.take_in(data.channel, |receiver| receiver.handle_packed(now, &data));
            }
            Frame::Row(row) => {
                return self.take_in(row.channel, |receiver| receiver.handle_row(now, &row));
            }
            Frame::Parity(parity) => {
                return self.take_in(parity.channel, |receiver| receiver.handle_parity(now, &parity));
            }
            Frame::Ack(ack) => return self.handle_ack(now, on, &ack),
            Frame::Padding | Frame::Ping | Frame::Grace(_) => {}
            Frame::Marks { ect1, ect0, ce } => {
                let session = &mut self.paths[on];
                let new = session.marking.handle_told(ect1, ect0, ce);
                session.capacity.handle_marks(new, session.marking.mark() == Ecn::Ect1);
            }
            Frame::Open { channel, options } => self.handle_open(on, channel, options),
            Frame::Consumed { channel, next } => {
                if let Some(sender) = self.channels.sender_mut(channel) {
                    sender.handle_consumed(next);
                }
            }
            Frame::Cancel { channel, message } => {
                let is_known = self.channels.receiver(channel).is_some();
                if is_known {
                    return self.take_in(channel, |receiver| Ok(receiver.handle_cancel(message)));
                }
            }
            Frame::Skipped { channel, message } => {
                if let Some(sender) = self.channels.sender_mut(channel) {
                    sender.handle_skipped(message, &mut self.events);
                }
            }
            Frame::Challenge(data) => {
                let session = &mut self.paths[on];
                session.responses.truncate(MAX_RESPONSES - 1);
                session.responses.push((path, data));
            }
            Frame::Response(data) => self.handle_response(now, on, data),
            Frame::Close { code, .. }
                if code == CloseCode::NameTaken.number()
                    && self.is_ours
                    && self.suspend(now, CloseReason::Refused) => {}
            Frame::Close { code, reason } => {
                let reason = String::from_utf8_lossy(reason).into_owned();
                self.standing = Standing::Closed;
                self.unwanted = true;
                self.events.push_back(Event::Closed { reason: CloseReason::Peer { code, reason } });
            }
        }
        Ok(())
    }

    fn handle_open(&mut self, on: usize, channel: u8, options: Options) {
        let index = usize::from(channel);
        if self.channels.receivers.len() <= index {
            self.channels.receivers.resize_with(index + 1, || None);
        }
        if self.channels.receivers[index].is_none() {
            let mut receiver =
                Receiver::new(options, self.channels.own[index].as_ref(), self.settings.window_bytes);
            if options.compression != Compression::None {
                receiver.use_dictionary(self.paths[on].dictionary.clone());
            }
            self.channels.receivers[index] = Some(Box::new(receiver));
            self.share_room();
            self.events.push_back(Event::Opened { channel, options });
        }
    }

    fn handle_ack(&mut self, now: Time, on: usize, ack: &Ack<'_>) -> Result<(), &'static str> {
        let session = &mut self.paths[on];
        let silent = session.recovery.probes() > 0;
        let mut sample =
            session.recovery.handle_ack(now, ack).map_err(|_| "an acknowledgement of what was never sent")?;
        session.marking.handle_acked(sample.packets.0);
        session.peer_arrival_ns = ack.arrival_ns;
        if ack.arrival_ns > 0 {
            session.capacity.handle_arrival(Duration::from_nanos(ack.arrival_ns));
        }
        session.sealer.update(self.settings.key_update_packets, session.recovery.largest_acked());
        let one_way = sample.largest_sent_at.map(|sent| {
            let sent_us = (sent - session.epoch).as_micros();
            let received_us = i64::try_from(ack.received_us).unwrap_or(i64::MAX);
            received_us.saturating_sub(i64::try_from(sent_us).unwrap_or(i64::MAX))
        });
        if sample.acked_bytes > 0 {
            session.blind_until = Time::ZERO;
            let left = session.recovery.in_flight() > 0;
            session.unanswered_since = left.then_some(now);
            if silent {
                session.silent_until = now;
            }
        }
        if sample.largest_sent_at.is_none_or(|sent| sent < session.silent_until) {
            (sample.rate, sample.train_rate) = (None, None);
        }
        self.settle(now, on, &sample, one_way);
        Ok(())
    }

    /// Hands what an acknowledgement or a timeout settled to the channels, and the rest to the estimate.
    pub(super) fn settle(&mut self, now: Time, on: usize, sample: &Sample, one_way_us: Option<i64>) {
        let session = &mut self.paths[on];
        count(&mut self.statistics.lost_packets, sample.packets.1);
        self.statistics.lost_packets = self.statistics.lost_packets.saturating_sub(sample.late_packets);
        count(&mut self.statistics.late_packets, sample.late_packets);
        for _ in 0..sample.late_packets.min(1000) {
            // As if it had not been counted.
            session.loss = (session.loss - 0.005).max(0.0);
        }
        for (packets, lost) in [(sample.packets.0, 0.0), (sample.packets.1, 1.0)] {
            // As of some 200 packets.
            session.loss += (lost - session.loss) * (1.0 - 0.995f64.powi(packets.min(1000) as i32));
        }
        if session.loss > LOSSY && sample.packets.1 > 0 {
            session.lossy_until = now + LOSSY_FOR;
        }
        if sample.rate.is_some_and(|rate| rate.1) {
            session.paused_at = Some(now);
        }
        if sample.packets != (0, 0) {
            let rtt = &session.recovery.rtt;
            session.capacity.handle_feedback(
                now,
                &Feedback {
                    acked_bytes: sample.acked_bytes,
                    lost_bytes: sample.lost_bytes,
                    lost_sent_at: sample.lost_sent_at,
                    in_flight: session.recovery.in_flight(),
                    sent_at: sample.largest_sent_at,
                    one_way_us,
                    rate: sample.rate.map(|rate| rate.0),
                    app_limited: sample.rate.is_some_and(|rate| rate.1),
                    train_rate: sample.train_rate,
                    pausing: session.paused_at.is_some_and(|paused| now - paused < PAUSING),
                    wants_more: self.demand.wants_more(now),
                    rtt: rtt.smoothed,
                    least_rtt: rtt.least,
                },
            );
        }
        if sample.train_rate.is_some() || sample.rate.is_some_and(|rate| !rate.1) {
            session.measured_at = now;
        }
        session.mtu.handle_given_up(session.recovery.take_given_up());
        session.mtu.handle_settled(now, sample.largest.0, sample.largest.1);
        if session.mtu.take_narrow() {
            self.events.push_back(Event::PathTooNarrow { path: session.path });
        }
        session.fit();
        let mut acked = std::mem::take(&mut session.recovery.acked);
        let mut lost = std::mem::take(&mut session.recovery.lost);
        acked.drain(..).for_each(|content| self.handle_content_acked(now, on, content));
        lost.drain(..).for_each(|content| self.handle_content_lost(on, content));
        let recovery = &mut self.paths[on].recovery;
        (recovery.acked, recovery.lost) = (acked, lost);
    }

    #[inline]
    fn handle_content_acked(&mut self, now: Time, on: usize, content: Content) {
        let session = &mut self.paths[on];
        match content {
            Content::Ack(largest) => session.received.handle_ack_of_ack(largest),
            Content::SizeProbe(size) => {
                session.mtu.handle_probe_acked(now, size);
                session.fit();
            }
            other => self.channels.handle_acked(other, &mut self.events),
        }
    }

    /// What was in a packet of the path is lost with it.
    pub(super) fn handle_content_lost(&mut self, on: usize, content: Content) {
        match content {
            Content::Duplicate { channel, part } => {
                if self.note_lost_on(on, channel, part) {
                    self.channels.handle_lost(Content::Data { channel, part }, &mut self.events);
                }
            }
            other => self.channels.handle_lost(other, &mut self.events),
        }
    }

    fn handle_response(&mut self, now: Time, on: usize, data: [u8; 8]) {
        let session = &mut self.paths[on];
        let Some(candidate) = session.candidate.take_if(|candidate| candidate.challenge == data) else {
            return;
        };
        let moved = session.path.remote.ip() != candidate.path.remote.ip();
        session.path = candidate.path;
        if moved {
            session.handle_new_path(now);
        }
        // What was sent to the old address since it went is lost; it need not be waited for.
        session.probe = true;
        self.events.push_back(Event::PathChanged { path: candidate.path });
    }
}

impl Session {
    /// The newest packet came from another address: the peer may have moved, or another machine forwards its packets.
    fn handle_other_path(&mut self, now: Time, path: Path, size: usize) {
        match &mut self.candidate {
            Some(candidate) if candidate.path == path => count(&mut candidate.received, size as u64),
            _ => {
                let challenge = self.random.array();
                let candidate = Candidate { path, challenge, received: size as u64, sent: 0, next_at: now };
                self.candidate = Some(candidate);
            }
        }
    }
}
