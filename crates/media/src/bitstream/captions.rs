//! Captions of CEA-608 and CEA-708 inside coded pictures (ATSC A/53 part 4 §6.2.3, SCTE 128-1 §8.1): that they are there.
//!
//! ```text
//! user_data_registered_itu_t_t35: b5 │ 00 31 │ "GA94" │ 03 │ reserved:1 process_cc_data:1 zero:1 cc_count:5 │ …
//! MPEG-2 user data: 00 00 01 b2 │ "GA94" │ 03 │ the same
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

use super::h264::sei::USER_DATA_REGISTERED;
use super::{head, messages};
use crate::access_unit::Codec;

/// Country (USA) and provider (ATSC).
const ATSC: [u8; 3] = [0xb5, 0x00, 0x31];
/// The kind of ATSC's user data, and of that the one with captions.
const CAPTIONS: &[u8] = b"GA94\x03";
/// The start code of MPEG-2's user data.
const USER_DATA: [u8; 4] = [0, 0, 1, 0xb2];

/// Whether an access unit of pictures has captions, padding among them. Looks at no byte behind the first slice's header, but of
/// MPEG-2, where all of the unit is looked through.
pub fn are_in(codec: Codec, access_unit: &[u8]) -> bool {
    if codec == Codec::Mpeg2Video {
        let mut bodies = access_unit.windows(USER_DATA.len()).enumerate();
        return bodies.any(|(at, code)| {
            code == USER_DATA
                && access_unit.get(at.saturating_add(USER_DATA.len())..).is_some_and(has_captions)
        });
    }
    let (nals, _) = head(codec, access_unit);
    nals.filter_map(|nal| messages(codec, &nal)).any(|sei| {
        sei.messages().any(|(kind, payload)| {
            kind == USER_DATA_REGISTERED && payload.strip_prefix(&ATSC).is_some_and(has_captions)
        })
    })
}

/// Whether there is at least one construct that is said to be processed.
fn has_captions(data: &[u8]) -> bool {
    let flags = data.strip_prefix(CAPTIONS).and_then(|rest| rest.first());
    flags.is_some_and(|flags| flags & 0x40 != 0 && flags & 0x1f != 0)
}

#[cfg(test)]
mod tests {
    use super::super::h264::sei::write_message;
    use super::*;
    use proptest::prelude::*;

    /// A picture of H.264 with a message in front.
    fn picture(kind: u32, payload: &[u8]) -> Vec<u8> {
        let mut unit = Vec::new();
        write_message(kind, payload, &mut unit);
        unit.extend_from_slice(&[0, 0, 0, 1, 0x65, 0x88, 0x84]);
        unit
    }

    #[test]
    fn captions_are_found_where_there_are_some() {
        let payload = b"\xb5\x00\x31GA94\x03\x41\xff\xfc\x80\x80\xff";
        assert!(are_in(Codec::H264, &picture(4, payload)));
        assert!(!are_in(Codec::H264, &picture(5, payload)), "unregistered");
        assert!(!are_in(Codec::H264, &picture(4, b"\xb5\x00\x31GA94\x06\x41")), "bar data");
        assert!(!are_in(Codec::H264, &picture(4, b"\xb5\x00\x31GA94\x03\x40\xff")), "no construct");
        assert!(!are_in(Codec::H264, &picture(4, b"\xb5\x00\x31GA94\x03")), "cut off");
        assert!(!are_in(Codec::H264, &picture(4, b"\xb5\x00\x2fDTG1\x41")), "DirecTV's");
        let mut h265 = vec![0, 0, 1, 39 << 1, 1, 4, payload.len() as u8];
        h265.extend_from_slice(payload);
        h265.extend_from_slice(&[0x80, 0, 0, 1, 19 << 1, 1, 0x80]);
        assert!(are_in(Codec::H265, &h265));
        let mpeg2 =
            [&[0, 0, 1, 0xb3, 1, 0, 0, 1, 0xb2][..], b"GA94\x03\x54\xff\xfc\x80\x80", &[0, 0, 1, 1]].concat();
        assert!(are_in(Codec::Mpeg2Video, &mpeg2));
        assert!(!are_in(Codec::Mpeg2Video, &mpeg2[..14]));
        assert!(!are_in(Codec::Av1, &h265));
    }

    proptest! {
        #[test]
        fn any_bytes_are_looked_through(bytes in proptest::collection::vec(prop_oneof![0u8..4, any::<u8>()], 0..300)) {
            for codec in [Codec::H264, Codec::H265, Codec::Av1, Codec::Mpeg2Video, Codec::Aac] {
                let _ = are_in(codec, &bytes);
            }
        }
    }
}
