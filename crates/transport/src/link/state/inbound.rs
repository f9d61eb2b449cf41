//! What a datagram does to a link.

use crate::counter::count;
use glassline_media::Time;
use std::time::Duration;

use super::{Link, Standing};
use crate::link::content::Content;
use crate::link::recovery::Sample;
use crate::link::wire::frame::Frame;
use crate::link::wire::packet::ConnectionId;
use crate::link::wire::varint::Reader;
use crate::link::{CloseCode, CloseReason, Ecn, Event, Path};

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
        let Some(on) = self.paths.find(to) else { return false };
        let taken = self.handle_packet(now, on, path, datagram);
        self.choose(now);
        taken
    }

    #[inline]
    fn handle_packet(&mut self, now: Time, on: usize, path: Path, datagram: &mut [u8]) -> bool {
        let state = &mut self.paths[on];
        let size = datagram.len();
        let before = state.opener.largest();
        let Ok((number, payload)) = state.opener.open(datagram) else {
            count(&mut self.statistics.refused_packets, 1);
            return false;
        };
        state.handle_heard(now, self.settings.keep_alive);
        count(&mut self.statistics.received_packets, 1);
        count(&mut self.statistics.received_bytes, size as u64);
        if path != state.address && before.is_none_or(|before| number > before) {
            state.handle_other_address(now, path, size);
        }
        if let Standing::Closing { .. } = self.standing {
            // The peer still sends: it does not know that the link is closed.
            state.close_due = true;
            return true;
        }
        self.return_from_away();
        let Some((eliciting, grace)) = self.handle_frames(now, on, path, payload) else { return true };
        let state = &mut self.paths[on];
        state.received.insert(now, number, eliciting);
        if eliciting {
            state.arrival.handle_packet(now, size, grace);
        }
        true
    }

    /// The packet that came last for the path with the connection ID `to` bore this mark.
    pub(crate) fn handle_mark(&mut self, to: ConnectionId, mark: Ecn) {
        if let Some(on) = self.paths.find(to) {
            count(&mut self.paths[on].marks[usize::from(mark.bits())], 1);
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
        let (channels, events) = (&mut self.channels, &mut self.events);
        match frame {
            Frame::Data(data) => {
                return channels.take_in(data.channel, events, |it| it.handle_data(now, &data));
            }
            Frame::Packed(data) => {
                return channels.take_in(data.channel, events, |it| it.handle_packed(now, &data));
            }
            Frame::Row(row) => return channels.take_in(row.channel, events, |it| it.handle_row(now, &row)),
            Frame::Parity(parity) => {
                return channels.take_in(parity.channel, events, |it| it.handle_parity(now, &parity));
            }
            Frame::Ack(ack) => {
                let acknowledged = self.paths[on].handle_ack(now, &ack, self.settings.key_update_packets)?;
                self.settle(now, on, &acknowledged.sample, acknowledged.one_way_us);
            }
            Frame::Padding | Frame::Ping | Frame::Grace(_) => {}
            Frame::Marks { ect1, ect0, ce } => {
                let state = &mut self.paths[on];
                let new = state.marking.handle_told(ect1, ect0, ce);
                state.capacity.handle_marks(new, state.marking.mark() == Ecn::Ect1);
            }
            Frame::Open { channel, options } => {
                let dictionary = self.paths.get(on).and_then(|path| path.dictionary.as_ref());
                if self.channels.accept(channel, options, &self.settings, dictionary) {
                    events.push_back(Event::Opened { channel, options });
                }
            }
            Frame::Consumed { channel, next } => {
                if let Some(sender) = self.channels.sender_mut(channel) {
                    sender.handle_consumed(next);
                }
            }
            Frame::Cancel { channel, message } => {
                let is_known = self.channels.receiver(channel).is_some();
                if is_known {
                    return self
                        .channels
                        .take_in(channel, events, |receiver| Ok(receiver.handle_cancel(message)));
                }
            }
            Frame::Skipped { channel, message } => {
                if let Some(sender) = self.channels.sender_mut(channel) {
                    sender.handle_skipped(message, events);
                }
            }
            Frame::Challenge(data) => {
                self.paths[on].handle_challenge(path, data);
            }
            Frame::Response(data) => {
                if let Some(path) = self.paths[on].handle_response(now, data) {
                    self.events.push_back(Event::PathChanged { path });
                }
            }
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

    /// Hands what an acknowledgement or a timeout settled to the channels, and the rest to the estimate.
    pub(super) fn settle(&mut self, now: Time, on: usize, sample: &Sample, one_way_us: Option<i64>) {
        let state = &mut self.paths[on];
        one_way_us.into_iter().for_each(|micros| state.handle_one_way(micros));
        state.handle_sample(now, sample, one_way_us, self.demand.wants_more(now), &mut self.statistics);
        if state.mtu.take_narrow() {
            self.events.push_back(Event::PathTooNarrow { path: state.address });
        }
        state.fit();
        let mut acked = std::mem::take(&mut state.recovery.acked);
        let mut lost = std::mem::take(&mut state.recovery.lost);
        acked.drain(..).for_each(|content| self.handle_content_acked(now, on, content));
        lost.drain(..).for_each(|content| self.handle_content_lost(on, content));
        let recovery = &mut self.paths[on].recovery;
        (recovery.acked, recovery.lost) = (acked, lost);
    }

    #[inline]
    fn handle_content_acked(&mut self, now: Time, on: usize, content: Content) {
        let state = &mut self.paths[on];
        match content {
            Content::Ack(largest) => state.received.handle_ack_of_ack(largest),
            Content::SizeProbe(size) => {
                state.mtu.handle_probe_acked(now, size);
                state.fit();
            }
            other => self.channels.handle_acked(other, &mut self.events),
        }
    }

    /// What was in a packet of the path is lost with it.
    pub(super) fn handle_content_lost(&mut self, on: usize, content: Content) {
        match content {
            Content::Duplicate { channel, part } => {
                let other_is_well = self.paths.others_are_well(on);
                if self.half_lost.note(&self.channels, channel, part, other_is_well) {
                    self.channels.handle_lost(Content::Data { channel, part }, &mut self.events);
                }
            }
            other => self.channels.handle_lost(other, &mut self.events),
        }
    }
}
