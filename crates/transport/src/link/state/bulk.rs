//! Many packets of one large message: what [`Link::write_packet`] does, without asking before each what cannot have
//! changed since the one before.

use glassline_media::Time;

use super::Link;
use super::outbound::BURST;
use super::room::Windows;
use crate::link::content::Content;
use crate::link::wire::packet::{DATA_OVERHEAD, write_data_header};

impl Link {
    /// Fills packets of `size` bytes with the message that is under way, `most` of them at most, as far as window and pace
    /// allow and while nothing else has something to say. Gives how many.
    pub(super) fn write_run(
        &mut self,
        now: Time,
        on: usize,
        size: usize,
        most: usize,
        out: &mut Vec<u8>,
    ) -> usize {
        let Some(channel) = self.running_channel(on) else { return 0 };
        let Some(sender) = self.channels.sender_mut(channel) else { return 0 };
        let session = &mut self.paths[on];
        let Some(room) = size.checked_sub(DATA_OVERHEAD) else { return 0 };
        let (until, mut count) = (now + BURST, 0usize);
        while count < most && session.next_send <= until && session.has_window() {
            let start = out.len();
            let number = session.sealer.next_number();
            write_data_header(session.remote, session.sealer.key_phase(), number, out);
            let Some(part) = sender.write_filling(room, out) else {
                out.truncate(start);
                break;
            };
            sender.charge(1, part.length);
            session.sealer.seal(start, out);
            session.recovery.handle_sent(now, number, size, true, &[Content::Data { channel, part }]);
            session.pace(now, size);
            count = count.saturating_add(1);
        }
        if count > 0 {
            (session.unasked, session.last_sent, session.last_asked) = (0, now, now);
            session.unanswered_since.get_or_insert(now);
            self.statistics.handle_sent(count, count.saturating_mul(size));
        }
        count
    }

    /// The one channel that has something to send, if that is the rest of a message, and packets need nothing else.
    fn running_channel(&self, on: usize) -> Option<u8> {
        let session = &self.paths[on];
        let plain = session.capacity.is_fast()
            && !session.probe
            && session.idle_since.is_none()
            && session.duplicates.is_empty()
            && !session.received.is_asked()
            && !session.recovery.is_blind();
        if self.paths.len() > 1 || !plain {
            return None;
        }
        let windows = Windows::new(&self.channels.senders, session);
        let mut running = None;
        for &channel in &self.channels.order {
            let Some(sender) = self.channels.sender(channel) else { continue };
            if !sender.has_data(windows.of(sender)) {
                continue;
            }
            if running.is_some() || !sender.is_running() {
                return None;
            }
            running = Some(channel);
        }
        running
    }
}
