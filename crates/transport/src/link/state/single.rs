//! Datagrams that carry no messages and leave alone: to addresses that may not be the peer's, to find out what a path
//! takes, and the last one.

use crate::counter::count;
use glassline_media::Time;
use std::time::Duration;

use super::nanos;
use super::outgoing::{LARGEST_CONTROL, Place};
use super::path::{CHALLENGE_SIZE, PathState};
use crate::link::content::Content;
use crate::link::recovery::MAX_PROBE_GAP;
use crate::link::wire::frame::Frame;
use crate::link::wire::packet::{TAG, write_data_header};
use crate::link::{Ecn, Path, Transmit};

/// The largest size of a MARKS frame, bytes.
const MARKS_SIZE: usize = 1 + 3 * 8;
/// The least time for which the answer to a probe of a datagram's size is waited for.
const LEAST_SIZE_PROBE_TIMEOUT: Duration = Duration::from_millis(200);

impl PathState {
    /// Challenges and their answers go to addresses that may not be the peer's; each in a packet of its own.
    pub(super) fn write_elsewhere(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
        let own = self.address;
        if let Some(at) = self.responses.iter().position(|response| response.0 != own) {
            let (to, data) = self.responses.remove(at);
            return Some(self.write_frame(now, to, Frame::Response(data), out));
        }
        let due = self.candidate_timeout() <= now;
        // Where the round trip is long, or was measured when packets were lost, a challenge that is lost itself must not
        // be waited for: everything else goes to the old address until one is answered.
        let gap = self.recovery.probe_time().min(MAX_PROBE_GAP);
        let candidate = self.candidate.as_mut().filter(|_| due)?;
        candidate.next_at = now + gap;
        count(&mut candidate.sent, CHALLENGE_SIZE);
        let (to, challenge) = (candidate.path, candidate.challenge);
        Some(self.write_frame(now, to, Frame::Challenge(challenge), out))
    }

    fn write_frame(&mut self, now: Time, to: Path, frame: Frame<'_>, out: &mut Vec<u8>) -> Transmit {
        write_data_header(self.remote, self.sealer.key_phase(), self.sealer.next_number(), out);
        frame.write(out);
        let number = self.sealer.seal(0, out);
        self.recovery.handle_sent(now, number, out.len(), false, &[]);
        Transmit { path: to, bytes: out.len(), segment_bytes: out.len(), ecn: Ecn::NotCapable }
    }

    /// A datagram larger than those before, to see whether the path carries it (RFC 8899 §4.1). It is no part of what
    /// window and losses are reckoned by.
    pub(super) fn write_size_probe(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
        if self.mtu_timeout() > now {
            return None;
        }
        let timeout = self.recovery.probe_time().saturating_mul(3).max(LEAST_SIZE_PROBE_TIMEOUT);
        let size = self.mtu.poll(now, timeout)?;
        write_data_header(self.remote, self.sealer.key_phase(), self.sealer.next_number(), out);
        Frame::Ping.write(out);
        out.resize(usize::from(size).saturating_sub(TAG), 0);
        let number = self.sealer.seal(0, out);
        self.recovery.handle_sent(now, number, out.len(), false, &[Content::SizeProbe(size)]);
        self.pace(now, out.len());
        self.last_sent = now;
        Some(self.transmit(out))
    }

    /// A datagram that says nothing: how fast some of them come, one right after the other, tells what the path carries.
    /// `percent` of its rate may be taken for that.
    pub(super) fn write_padding(&mut self, now: Time, percent: u8, out: &mut Vec<u8>) -> Option<Transmit> {
        if self.padding_timeout(percent) > now {
            return None;
        }
        if self.padding_left == 0 {
            self.padding_left = self.padding_packets();
        }
        self.padding_left = self.padding_left.saturating_sub(1);
        self.measured_at = now;
        if !self.has_window() {
            self.padding_left = 0;
            return None;
        }
        write_data_header(self.remote, self.sealer.key_phase(), self.sealer.next_number(), out);
        self.write_grace(now, out);
        Frame::Ping.write(out);
        out.resize(self.datagram.saturating_sub(TAG), 0);
        let number = self.sealer.seal(0, out);
        if self.padding_left == 0 {
            self.recovery.mark_app_limited();
            self.idle_since.get_or_insert(now);
        }
        self.recovery.handle_sent(now, number, out.len(), true, &[]);
        self.pace(now, out.len());
        (self.last_sent, self.last_asked, self.unasked) = (now, now, 0);
        self.unanswered_since.get_or_insert(now);
        Some(self.transmit(out))
    }

    /// CLOSE with a code and words, where one is due.
    pub(super) fn write_due_close(
        &mut self,
        code: u64,
        reason: &[u8],
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if !std::mem::take(&mut self.close_due) {
            return None;
        }
        write_data_header(self.remote, self.sealer.key_phase(), self.sealer.next_number(), out);
        Frame::Close { code, reason }.write(out);
        self.sealer.seal(0, out);
        Some(self.transmit(out))
    }

    /// Writes ACK into a packet of the path, and MARKS where datagrams have come with some, if an ACK is asked for and fits.
    #[inline]
    pub(super) fn write_acknowledgement(
        &mut self,
        now: Time,
        place: Place,
        out: &mut Vec<u8>,
        contents: &mut Vec<Content>,
    ) {
        if !self.received.is_asked() || self.received.ack_size() > place.room(out) {
            return;
        }
        let arrival = self.arrival.per_kilobyte().map_or(0, nanos);
        if let Some(largest) = self.received.write_ack(now, self.epoch, arrival, out) {
            contents.push(Content::Ack(largest));
        }
        let [_, ect1, ect0, ce] = self.marks;
        if [ect1, ect0, ce] != [0; 3] && place.room(out) > MARKS_SIZE {
            Frame::Marks { ect1, ect0, ce }.write(out);
        }
    }

    /// Writes the answers to CHALLENGEs that fit.
    pub(super) fn write_responses(&mut self, place: Place, out: &mut Vec<u8>) {
        for (_, data) in self.responses.drain(..) {
            if place.room(out) >= LARGEST_CONTROL {
                Frame::Response(data).write(out);
            }
        }
    }

    /// The one datagram in `out`, for the path's address.
    fn transmit(&self, out: &[u8]) -> Transmit {
        let bytes = out.len();
        Transmit { path: self.address, bytes, segment_bytes: bytes, ecn: self.marking.mark() }
    }
}
