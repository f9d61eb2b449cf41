//! The time that a sender gives its message: the first bytes of each message on a channel with
//! [`Options::stamped`](crate::link::Options::stamped).
//!
//! ```text
//! stamp:8 message:rest      stamp: microseconds since 1970-01-01T00:00:00Z, big-endian; 0: not known
//! ```

use bytes::Bytes;
use glassline_media::Utc;

/// What a stamp takes of a message.
pub(crate) const STAMP_BYTES: u8 = 8;
const LENGTH: usize = STAMP_BYTES as usize;

/// The message as it is carried, behind its stamp.
pub(crate) fn put(stamp: Option<Utc>, message: &[u8]) -> Bytes {
    let micros = stamp.map_or(0, Utc::as_micros);
    [&micros.to_be_bytes()[..], message].concat().into()
}

/// The stamp of a message that was carried, if its time is known, and the message behind it; `None` where there is no stamp.
pub(crate) fn split(carried: &Bytes) -> Option<(Option<Utc>, Bytes)> {
    let micros = u64::from_be_bytes(*carried.first_chunk()?);
    Some(((micros > 0).then(|| Utc::from_micros(micros)), without(carried)))
}

/// The message without its stamp, for a peer that knows of none.
pub(crate) fn without(carried: &Bytes) -> Bytes {
    carried.slice(LENGTH.min(carried.len())..)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_message_and_its_time_are_read_as_they_were_written(
            micros in proptest::option::of(1..=u64::MAX / 1000), message in prop::collection::vec(any::<u8>(), 0..50),
        ) {
            let carried = put(micros.map(Utc::from_micros), &message);
            prop_assert_eq!(carried.len(), message.len() + LENGTH);
            let (stamp, rest) = split(&carried).unwrap();
            prop_assert_eq!((stamp.map(Utc::as_micros), &rest[..]), (micros, &message[..]));
            prop_assert_eq!(without(&carried), message);
        }

        #[test]
        fn any_bytes_are_a_stamp_and_a_message_or_too_few(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            let carried = Bytes::from(bytes);
            let read = split(&carried);
            prop_assert_eq!(read.is_some(), carried.len() >= LENGTH);
            prop_assert!(without(&carried).len() == carried.len().saturating_sub(LENGTH));
        }
    }
}
