//! What packets carry that must be sent again if they are lost.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::channel::send::{Row, Written};

/// What a packet carried that must not be forgotten if it is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// A part of a message.
    Data { channel: u8, part: Written },
    /// The same, sent on another path too.
    Duplicate { channel: u8, part: Written },
    /// Whole messages in a row.
    Row { channel: u8, row: Row },
    /// OPEN of a channel.
    Open(u8),
    /// CONSUMED of a channel.
    Consumed(u8),
    /// CANCEL of a message.
    Cancel(u8, u64),
    /// SKIPPED of a channel.
    Skipped(u8),
    /// An ACK up to this number.
    Ack(u64),
    /// A datagram of so many bytes, sent to see whether it gets through.
    SizeProbe(u16),
}

impl Content {
    /// Takes in a part of the same message that lies right beside this one, or the messages before or after a row. An
    /// acknowledgement of many packets of a large message, or of many small ones, is one step then.
    #[inline]
    pub(crate) fn join(&mut self, other: Content) -> bool {
        if let (Content::Row { channel, row }, Content::Row { channel: other, row: next }) =
            (&mut *self, other)
        {
            return *channel == other && row.join(next);
        }
        let (Content::Data { channel, part }, Content::Data { channel: other, part: next }) = (self, other)
        else {
            return false;
        };
        let same = *channel == other && part.message == next.message && !part.parity && !next.parity;
        let before = next.end() == part.offset;
        if !same || !before && part.end() != next.offset {
            return false;
        }
        part.offset = part.offset.min(next.offset);
        part.length = part.length.saturating_add(next.length);
        true
    }
}
