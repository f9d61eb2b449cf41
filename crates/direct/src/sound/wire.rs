//! The messages of channel [`SOUND`](crate::SOUND).
//!
//! ```text
//! sound     version:1=1 flags:1 frame:1 channels:1 number:v captured:v earlier:1 [length:v packet]… packet:rest
//!           flags     bit 0: each packet holds the one before it, coarsely (Opus' own forward error correction)
//!           frame     sound in each packet, in units of 2.5 ms
//!           channels  that were coded, 1 or 2
//!           number    of the last packet, one more for each
//!           captured  when the first sample that it gives was captured; UTC in microseconds
//!           earlier   packets before it that are repeated here, the oldest first
//! ```
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use crate::wire::{NUMBER_MAX, WireError, version};
use bytes::Bytes;
use glassline_media::Utc;
use glassline_transport::link::wire::varint::{self, Reader};
use std::time::Duration;

/// The unit of a packet's length.
pub const FRAME_UNIT: Duration = Duration::from_micros(2_500);
/// The longest packet, in units: 120 ms.
const FRAME_MAX: u8 = 48;
/// Packets that are repeated in one message, at most.
pub(super) const EARLIER_MAX: usize = 4;
const VERSION: u8 = 1;
const SPEECH: u8 = 1;

/// What the packets of a message are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoundHeader {
    /// Sound in each packet, in units of [`FRAME_UNIT`]; 1 to 48.
    pub frame: u8,
    /// Channels that were coded, 1 or 2.
    pub channels: u8,
    /// Whether each packet holds the one before it, coarsely.
    pub recovers: bool,
    /// The last packet's number.
    pub number: u64,
    /// When the first sample that the last packet gives was captured.
    pub captured: Utc,
}

impl SoundHeader {
    /// How long each packet sounds.
    pub fn frame_time(&self) -> Duration {
        FRAME_UNIT.saturating_mul(self.frame.into())
    }
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SoundMessage {
    /// What its packets are.
    pub header: SoundHeader,
    /// Its packets, the oldest first; never none.
    pub packets: Vec<Bytes>,
}

impl SoundMessage {
    /// The bytes. Of more than five packets the oldest are left out.
    pub fn to_bytes(&self) -> Bytes {
        let SoundHeader { frame, channels, recovers, number, captured } = self.header;
        let mut out = vec![VERSION, if recovers { SPEECH } else { 0 }, frame, channels];
        varint::write(number, &mut out);
        varint::write(captured.as_micros(), &mut out);
        let (last, earlier) = self.packets.split_last().map_or((&[][..], &[][..]), |(last, all)| (last, all));
        let earlier = &earlier[earlier.len().saturating_sub(EARLIER_MAX)..];
        out.push(u8::try_from(earlier.len()).unwrap_or(u8::MAX));
        for packet in earlier {
            varint::write(packet.len() as u64, &mut out);
            out.extend_from_slice(packet);
        }
        out.extend_from_slice(last);
        out.into()
    }

    /// Reads a message.
    ///
    /// # Errors
    /// Another version, or no such message.
    pub fn parse(message: &Bytes) -> Result<SoundMessage, WireError> {
        let missing = |what| WireError::Malformed { what };
        let mut reader = Reader::new(message);
        let flags = version(&mut reader)?;
        if flags & !SPEECH != 0 {
            return Err(missing("flags"));
        }
        let frame = reader.byte().filter(|frame| (1..=FRAME_MAX).contains(frame));
        let frame = frame.ok_or(missing("length of a packet"))?;
        let channels = reader.byte().filter(|count| matches!(count, 1 | 2)).ok_or(missing("channels"))?;
        let number = reader.varint_up_to(NUMBER_MAX).ok_or(missing("number"))?;
        let captured = Utc::from_micros(reader.varint_up_to(NUMBER_MAX).ok_or(missing("time of capture"))?);
        let count = reader.byte().filter(|count| usize::from(*count) <= EARLIER_MAX);
        let count = count.filter(|count| u64::from(*count) <= number).ok_or(missing("repeated packets"))?;
        let mut packets = Vec::new();
        for _ in 0..count {
            let length = reader.length_up_to(message.len()).ok_or(missing("repeated packet"))?;
            let packet = reader.bytes(length).filter(|packet| !packet.is_empty());
            packets.push(message.slice_ref(packet.ok_or(missing("repeated packet"))?));
        }
        let last = reader.take_rest();
        if last.is_empty() {
            return Err(missing("packet"));
        }
        packets.push(message.slice_ref(last));
        let header = SoundHeader { frame, channels, recovers: flags & SPEECH != 0, number, captured };
        Ok(SoundMessage { header, packets })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn messages_come_back_and_their_beginnings_are_refused(
            (frame, channels, recovers) in (1u8..=48, 1u8..=2, any::<bool>()),
            (number, micros) in (4u64..1 << 50, 0u64..1 << 52),
            packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..80), 1..=5),
        ) {
            let header = SoundHeader { frame, channels, recovers, number, captured: Utc::from_micros(micros) };
            let last = packets.last().map_or(0, Vec::len);
            let message = SoundMessage { header, packets: packets.into_iter().map(Bytes::from).collect() };
            let bytes = message.to_bytes();
            prop_assert_eq!(SoundMessage::parse(&bytes), Ok(message));
            for end in 0..=bytes.len() - last {
                prop_assert!(SoundMessage::parse(&bytes.slice(..end)).is_err());
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Ok(message) = SoundMessage::parse(&Bytes::from(bytes)) {
                prop_assert!(!message.packets.is_empty() && message.packets.iter().all(|packet| !packet.is_empty()));
            }
        }
    }
}
