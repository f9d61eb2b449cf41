//! When a picture was captured, and what its sender says of its way, in band: an SEI message of unregistered user data (H.264 §D.1.7) in the picture's
//! own access unit.
//!
//! ```text
//! payload: 9d1f3c52 6b0e 4f7a 8c21 676c6c636170 │ nanoseconds since 1970-01-01T00:00:00Z, UTC: 64 bits, big-endian │
//!          record of stages (crate::stamps::Record), or nothing
//! ```
//! Written by `encode`; read by `probe`, the page and receivers. `docs/capture-utc.md` is the format's own page.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::sei::{Sei, USER_DATA_UNREGISTERED, write_message};
use crate::stamps::{RECORD_BYTES_MAX, Record};
use crate::time::Utc;

/// The UUID that tells the message from other user data; its last six bytes read `gllcap`.
pub const CAPTURE_UTC_UUID: [u8; 16] =
    [0x9d, 0x1f, 0x3c, 0x52, 0x6b, 0x0e, 0x4f, 0x7a, 0x8c, 0x21, 0x67, 0x6c, 0x6c, 0x63, 0x61, 0x70];

/// Bytes of the message's payload without a record: UUID and time.
pub const CAPTURE_UTC_BYTES: usize = 24;
/// The time and the longest record behind it.
const CAPTURE_AND_RECORD_BYTES_MAX: usize = CAPTURE_UTC_BYTES - CAPTURE_UTC_UUID.len() + RECORD_BYTES_MAX;

/// The payload of the message that says `captured`: 24 bytes, UUID first, to be framed as a message of type
/// [`USER_DATA_UNREGISTERED`] with emulation prevention, as [`write_message`] or x264's `extra_sei` do.
pub fn write_capture_utc(captured: Utc) -> Vec<u8> {
    [&CAPTURE_UTC_UUID[..], &captured.as_nanos().to_be_bytes()].concat()
}

/// The same payload with what the sender says of its stages behind the time: at most
/// [`RECORD_BYTES_MAX`](crate::stamps::RECORD_BYTES_MAX) more.
pub fn write_capture(captured: Utc, record: &Record) -> Vec<u8> {
    let mut payload = write_capture_utc(captured);
    record.write(&mut payload);
    payload
}

/// Appends a whole SEI NAL unit, four-byte start code included, that says `captured`.
pub fn write_capture_utc_nal(captured: Utc, out: &mut Vec<u8>) {
    write_message(USER_DATA_UNREGISTERED, &write_capture_utc(captured), out);
}

impl Sei {
    /// When the picture was captured, if its encoder says so.
    pub fn capture_utc(&self) -> Option<Utc> {
        let (nanos, _) = self.user_data(&CAPTURE_UTC_UUID)?.split_first_chunk()?;
        Some(Utc::from_nanos(u64::from_be_bytes(*nanos)))
    }

    /// The time and the record of stages behind it, as they stand in the message, without what later versions put behind them;
    /// `None` where there is no record that this version reads.
    pub fn capture_and_record(&self) -> Option<&[u8]> {
        self.stamp_record()?;
        let payload = self.user_data(&CAPTURE_UTC_UUID)?;
        payload.get(..payload.len().min(CAPTURE_AND_RECORD_BYTES_MAX))
    }

    /// What the picture's sender says of its stages, if it says something that this version reads.
    pub fn stamp_record(&self) -> Option<Record> {
        let (_, record) = self.user_data(&CAPTURE_UTC_UUID)?.split_first_chunk::<8>()?;
        Record::parse(record)
    }
}

#[cfg(test)]
mod tests {
    use super::super::nal::nals;
    use super::*;
    use crate::stamps::{Stage, Stamps};
    use crate::time::Time;
    use proptest::prelude::*;

    #[test]
    fn the_payload_is_uuid_and_big_endian_nanoseconds() {
        let payload = write_capture_utc(Utc::from_nanos(0x0102_0304_0506_0708));
        assert_eq!(payload.len(), CAPTURE_UTC_BYTES);
        assert_eq!(payload[..16], *b"\x9d\x1f\x3c\x52\x6b\x0e\x4f\x7a\x8c\x21gllcap");
        assert_eq!(payload[16..], [1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn other_user_data_and_cut_times_say_nothing() {
        let said = |payload: &[u8]| {
            let mut nal = Vec::new();
            write_message(USER_DATA_UNREGISTERED, payload, &mut nal);
            Sei::parse(&nal[5..]).capture_utc()
        };
        let payload = write_capture_utc(Utc::from_nanos(7));
        assert_eq!(said(&payload), Some(Utc::from_nanos(7)));
        assert_eq!(said(&[&payload[..], b"more"].concat()), Some(Utc::from_nanos(7)));
        assert_eq!(said(&payload[..23]), None);
        let mut other = payload.clone();
        other[0] ^= 1;
        assert_eq!(said(&other), None);
    }

    #[test]
    fn the_record_stands_behind_the_time() {
        let own = Stamps::captured_at(Time::ZERO).with(Stage::Queued, Time::from_millis(3));
        let record = Record { own, ..Record::default() };
        let payload = write_capture(Utc::from_nanos(7), &record);
        let mut nal = Vec::new();
        write_message(USER_DATA_UNREGISTERED, &payload, &mut nal);
        let sei = Sei::parse(&nal[5..]);
        assert_eq!((sei.capture_utc(), sei.stamp_record()), (Some(Utc::from_nanos(7)), Some(record)));
        assert_eq!(sei.capture_and_record(), Some(&payload[16..]));
        nal.clear();
        write_message(USER_DATA_UNREGISTERED, &payload[..payload.len() - 1], &mut nal);
        let cut = Sei::parse(&nal[5..]);
        assert_eq!((cut.capture_utc(), cut.stamp_record()), (Some(Utc::from_nanos(7)), None));
        assert_eq!(cut.capture_and_record(), None);
    }

    proptest! {
        #[test]
        fn any_time_survives_the_byte_stream(nanos in prop_oneof![any::<u64>(), 0u64..1000]) {
            let mut stream = Vec::new();
            write_capture_utc_nal(Utc::from_nanos(nanos), &mut stream);
            let units: Vec<_> = nals(&stream).collect();
            prop_assert_eq!(units.len(), 1);
            prop_assert_eq!(Sei::parse(units[0].payload()).capture_utc(), Some(Utc::from_nanos(nanos)));
        }
    }
}
