//! Many packets of one large message: what [`Link::write_packet`] does, without asking before each what cannot have
//! changed since the one before.

use glassline_media::Time;

use super::Link;
use super::pacing::BURST;
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
        if self.paths.are_many() {
            return 0;
        }
        let Some(channel) = self.channels.running_channel(&self.paths[on]) else { return 0 };
        let Some(sender) = self.channels.sender_mut(channel) else { return 0 };
        let path = &mut self.paths[on];
        let Some(room) = size.checked_sub(DATA_OVERHEAD) else { return 0 };
        let (until, mut count) = (now + BURST, 0usize);
        while count < most && path.next_send <= until && path.has_window() {
            let start = out.len();
            let number = path.sealer.next_number();
            write_data_header(path.remote, path.sealer.key_phase(), number, out);
            let Some(part) = sender.write_filling(room, out) else {
                out.truncate(start);
                break;
            };
            sender.charge(1, part.length);
            path.sealer.seal(start, out);
            path.recovery.handle_sent(now, number, size, true, &[Content::Data { channel, part }]);
            path.pace(now, size);
            count = count.saturating_add(1);
        }
        if count > 0 {
            (path.unasked, path.last_sent, path.last_asked) = (0, now, now);
            path.unanswered_since.get_or_insert(now);
            self.statistics.handle_sent(count, count.saturating_mul(size));
        }
        count
    }
}
