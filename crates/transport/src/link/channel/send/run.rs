//! Parts of one large message in a row, each of which fills a packet.

use super::{Announced, MIN_FRAGMENT, Sender, Written, data_head};

impl Sender {
    /// Whether only the message that began last goes on: nothing has to be sent again, or told first.
    pub(crate) fn is_running(&self) -> bool {
        let plain = self.begun.back().is_some_and(|begun| begun.parity.is_none());
        self.unfinished && plain && self.resend.is_empty() && self.announced == Announced::Yes
    }

    /// Writes the next part of the message that began last into a packet that has `room` bytes left, and fills it. `None`:
    /// there is too little left of the message, or too little room.
    #[inline]
    pub(crate) fn write_filling(&mut self, room: usize, out: &mut Vec<u8>) -> Option<Written> {
        let number = self.next_number().checked_sub(1)?;
        let begun = self.begun.back_mut()?;
        let (total, offset) = (begun.total(), begun.sent);
        // It needs no length, which would take one byte at least.
        let length = room.saturating_add(1).checked_sub(data_head(number, total, offset, 0))?;
        if length < MIN_FRAGMENT || length >= total.saturating_sub(offset) as usize {
            return None;
        }
        let length = u32::try_from(length).ok()?;
        begun.write(self.id, number, offset, length, true, out);
        begun.sent = begun.sent.saturating_add(length);
        Some(Written { message: number, offset, length, again: false, parity: false })
    }
}
