//! Datagrams that carry no messages and leave alone: to addresses that may not be the peer's, to find out what a path
//! takes, and the last one.

use crate::counter::count;
use glassline_media::Time;
use std::time::Duration;

use super::Link;
use super::session::CHALLENGE_SIZE;
use crate::link::content::Content;
use crate::link::recovery::MAX_PROBE_GAP;
use crate::link::wire::frame::Frame;
use crate::link::wire::packet::{TAG, write_data_header};
use crate::link::{Ecn, Path, Transmit};

/// The least time for which the answer to a probe of a datagram's size is waited for.
const LEAST_PATIENCE: Duration = Duration::from_millis(200);

impl Link {
    /// Challenges and their answers go to addresses that may not be the peer's; each in a packet of its own.
    pub(super) fn write_elsewhere(&mut self, now: Time, on: usize, out: &mut Vec<u8>) -> Option<Transmit> {
        let session = &mut self.paths[on];
        let own = session.path;
        if let Some(at) = session.responses.iter().position(|response| response.0 != own) {
            let (path, data) = session.responses.remove(at);
            return self.write_single(now, on, path, Frame::Response(data), out);
        }
        let due = session.candidate_timeout() <= now;
        // Where the round trip is long, or was measured when packets were lost, a challenge that is lost itself must not
        // be waited for: everything else goes to the old address until one is answered.
        let gap = session.recovery.probe_time().min(MAX_PROBE_GAP);
        let candidate = session.candidate.as_mut().filter(|_| due)?;
        candidate.next_at = now + gap;
        count(&mut candidate.sent, CHALLENGE_SIZE);
        let (path, challenge) = (candidate.path, candidate.challenge);
        self.write_single(now, on, path, Frame::Challenge(challenge), out)
    }

    pub(super) fn write_single(
        &mut self,
        now: Time,
        on: usize,
        path: Path,
        frame: Frame<'_>,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let session = &mut self.paths[on];
        write_data_header(session.remote, session.sealer.key_phase(), session.sealer.next_number(), out);
        frame.write(out);
        let number = session.sealer.seal(0, out);
        session.recovery.handle_sent(now, number, out.len(), false, &[]);
        self.statistics.handle_sent(1, out.len());
        Some(Transmit { path, bytes: out.len(), segment_bytes: out.len(), ecn: Ecn::NotCapable })
    }

    /// A datagram larger than those before, to see whether the path carries it (RFC 8899 §4.1). It is no part of what
    /// window and losses are reckoned by.
    pub(super) fn write_size_probe(&mut self, now: Time, on: usize, out: &mut Vec<u8>) -> Option<Transmit> {
        let session = &mut self.paths[on];
        if session.mtu_timeout() > now {
            return None;
        }
        let patience = session.recovery.probe_time().saturating_mul(3).max(LEAST_PATIENCE);
        let size = session.mtu.poll(now, patience)?;
        write_data_header(session.remote, session.sealer.key_phase(), session.sealer.next_number(), out);
        Frame::Ping.write(out);
        out.resize(usize::from(size).saturating_sub(TAG), 0);
        let number = session.sealer.seal(0, out);
        session.recovery.handle_sent(now, number, out.len(), false, &[Content::SizeProbe(size)]);
        session.pace(now, out.len());
        session.last_sent = now;
        self.statistics.handle_sent(1, out.len());
        let (path, bytes) = (session.path, out.len());
        Some(Transmit { path, bytes, segment_bytes: bytes, ecn: session.marking.mark() })
    }

    /// A datagram that says nothing: how fast some of them come, one right after the other, tells what the path carries.
    pub(super) fn write_padding(&mut self, now: Time, on: usize, out: &mut Vec<u8>) -> Option<Transmit> {
        let percent = self.settings.probing_percent;
        let session = &mut self.paths[on];
        if session.padding_timeout(percent) > now {
            return None;
        }
        if session.padding_left == 0 {
            session.padding_left = session.padding_packets();
        }
        session.padding_left = session.padding_left.saturating_sub(1);
        session.measured_at = now;
        if !session.has_window() {
            session.padding_left = 0;
            return None;
        }
        write_data_header(session.remote, session.sealer.key_phase(), session.sealer.next_number(), out);
        session.write_grace(now, out);
        Frame::Ping.write(out);
        out.resize(session.datagram.saturating_sub(TAG), 0);
        let number = session.sealer.seal(0, out);
        if session.padding_left == 0 {
            session.recovery.mark_app_limited();
            session.idle_since.get_or_insert(now);
        }
        session.recovery.handle_sent(now, number, out.len(), true, &[]);
        session.pace(now, out.len());
        (session.last_sent, session.last_asked, session.unasked) = (now, now, 0);
        session.unanswered_since.get_or_insert(now);
        self.statistics.handle_sent(1, out.len());
        let (path, bytes) = (session.path, out.len());
        Some(Transmit { path, bytes, segment_bytes: bytes, ecn: session.marking.mark() })
    }

    pub(super) fn write_close(&mut self, on: usize, out: &mut Vec<u8>) -> Option<Transmit> {
        let session = &mut self.paths[on];
        if !std::mem::take(&mut session.close_due) {
            return None;
        }
        let (code, reason) = self.close.as_ref()?;
        write_data_header(session.remote, session.sealer.key_phase(), session.sealer.next_number(), out);
        Frame::Close { code: *code, reason }.write(out);
        session.sealer.seal(0, out);
        let (path, bytes) = (session.path, out.len());
        Some(Transmit { path, bytes, segment_bytes: bytes, ecn: session.marking.mark() })
    }
}
