//! What of a channel's options the other end learns: the body of OPEN.

use super::varint::{self, Reader};
use crate::link::{Compression, MAX_MESSAGE_BYTES, Options};
use std::time::Duration;

const RELIABLE: u8 = 1;
const ORDERED: u8 = 2;
/// Where in the flags the two bits of the compression begin.
const COMPRESSION: u8 = 2;
const STAMPED: u8 = 16;

impl Options {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let flags = if self.reliable { RELIABLE } else { 0 } | if self.ordered { ORDERED } else { 0 };
        let stamped = if self.stamped { STAMPED } else { 0 };
        out.push(flags | self.compression.code() << COMPRESSION | stamped);
        out.push(self.priority);
        varint::write(u64::from(self.weight), out);
        varint::write(u64::from(self.max_size), out);
        // One more than the milliseconds, so that 0 is none.
        let receive_ms = self
            .max_receive_time
            .map_or(0, |time| time.as_millis().min(0xFFFF_FFFF).saturating_add(1) as u64);
        varint::write(receive_ms, out);
    }

    pub(crate) fn parse(reader: &mut Reader<'_>) -> Option<Options> {
        let flags = reader.byte()?;
        let priority = reader.byte()?;
        let weight = reader.u16_up_to(u16::MAX)?.max(1);
        let max_size = reader.u32_up_to(MAX_MESSAGE_BYTES)?;
        let receive_ms = reader.varint_up_to(u64::from(u32::MAX) + 1)?;
        Some(Options {
            reliable: flags & RELIABLE != 0,
            ordered: flags & ORDERED != 0,
            priority,
            weight,
            max_size,
            compression: Compression::from_code(flags >> COMPRESSION & 3)?,
            stamped: flags & STAMPED != 0,
            max_receive_time: receive_ms.checked_sub(1).map(Duration::from_millis),
            ..Options::default()
        })
    }
}
