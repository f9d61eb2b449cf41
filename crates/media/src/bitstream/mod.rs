//! Coded bits: what decoders and containers need to know about them.

pub mod aac_config;
pub mod ac3;
pub mod adts;
pub mod av1;
pub mod captions;
pub mod g711;
pub mod h264;
pub mod h265;
pub mod hdr;
pub mod klv;
pub mod latm;
pub mod mavlink;
pub mod mpeg_audio;
pub mod opus;
pub mod program_config;
pub mod s302m;
pub mod silence;
#[cfg(test)]
pub(crate) mod testing;
pub mod unit_finder;

use crate::access_unit::Codec;
use h264::sei::USER_DATA_UNREGISTERED;
use h264::{Join, Nal, Sei};

/// Whether and how decoding can begin at an access unit of pictures, which is behind start codes. Looks at no byte behind the first
/// slice's header.
pub fn join(codec: Codec, access_unit: &[u8]) -> Option<Join> {
    match codec {
        Codec::H264 => h264::join(access_unit),
        Codec::H265 => h265::is_key(access_unit).then_some(Join::Idr),
        Codec::Av1 => av1::is_key(access_unit).then_some(Join::Idr),
        _ => None,
    }
}

/// Whether an access unit of pictures is a key frame: an IDR picture of H.264, an IRAP picture of H.265, a shown key
/// frame of AV1.
pub fn is_key(codec: Codec, access_unit: &[u8]) -> bool {
    match codec {
        Codec::H264 => h264::is_key(access_unit),
        Codec::H265 => h265::is_key(access_unit),
        Codec::Av1 => av1::is_key(access_unit),
        _ => false,
    }
}

/// The NAL units in front of a picture's first slice, in Annex B form (of AV1 the OBUs in front of its first frame), and where that
/// slice's header begins; `None` where there is no slice. Looks at no byte behind that header.
pub fn head(codec: Codec, access_unit: &[u8]) -> (impl Iterator<Item = Nal<'_>>, Option<usize>) {
    h264::nal::head(access_unit, move |header| is_slice(codec, header))
}

/// Whether a NAL unit with this first byte is a slice of a picture; of AV1, whether an OBU begins a frame.
pub fn is_slice(codec: Codec, header: u8) -> bool {
    match codec {
        Codec::H265 => h265::NalType::of(header).is_slice(),
        Codec::Av1 => av1::ObuType::of(header).begins_frame(),
        _ => h264::NalType::of(header).is_slice(),
    }
}

/// The messages in a NAL unit; `None` of one that is something else. Of AV1, user data in a metadata OBU are the one message.
pub fn messages(codec: Codec, nal: &Nal<'_>) -> Option<Sei> {
    match codec {
        Codec::H264 if nal.kind() == h264::NalType::Sei => Some(Sei::parse(nal.payload())),
        Codec::H265 if h265::NalType::of(*nal.bytes.first()?) == h265::NalType::PrefixSei => {
            Some(Sei::parse(nal.bytes.get(h265::HEADER_BYTES..)?))
        }
        Codec::Av1 => av1::user_data(nal.bytes).map(|payload| Sei::of_user_data(&payload)),
        _ => None,
    }
}

/// Appends a NAL unit of one message of unregistered user data, of H.264 or H.265, with a start code of four bytes. It belongs in
/// front of the slice of which the header begins with the bytes `slice`. Of AV1 it is an OBU of metadata with a start code of three
/// bytes, which belongs in front of the frame.
pub fn write_user_message(codec: Codec, slice: &[u8], payload: &[u8], out: &mut Vec<u8>) {
    if codec == Codec::Av1 {
        return av1::write_user_data(payload, out);
    }
    let start = out.len();
    h264::sei::write_message(USER_DATA_UNREGISTERED, payload, out);
    if codec == Codec::H265 {
        // The header alone is another one. Its layer in time is the slice's: in a lower one it would outlive that.
        let layer = slice.get(1).map_or(1, |second| second & 7);
        let header = start.saturating_add(4);
        out.splice(header..header.saturating_add(1), [h265::PREFIX_SEI, layer]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Utc;

    #[test]
    fn a_message_stands_in_front_of_the_slice_of_either_codec() {
        let captured = Utc::from_nanos(0x0102_0000_0000_0003);
        let payload = h264::write_capture_utc(captured);
        for (codec, before, slice) in [
            (Codec::H264, &[0, 0, 0, 1, 0x09, 0xf0][..], [0x41, 0x9a]),
            (Codec::H264, &[0, 0, 0, 1, 0x09, 0xf0], [0x65, 0x88]),
            (Codec::H265, &h265::ACCESS_UNIT_DELIMITER, [0x02, 0x03]),
            (Codec::H265, &h265::ACCESS_UNIT_DELIMITER, [0x2a, 0x01]),
            (Codec::Av1, &av1::TEMPORAL_DELIMITER, [0x32, 0x02]),
        ] {
            let mut unit = before.to_vec();
            write_user_message(codec, &slice, &payload, &mut unit);
            let at = unit.len() + 3;
            unit.extend_from_slice(&[0, 0, 1]);
            unit.extend_from_slice(&slice);
            unit.extend_from_slice(&[0x80, 0, 0, 1, slice[0], slice[1]]);
            let (nals, found) = head(codec, &unit);
            let nals: Vec<_> = nals.collect();
            assert_eq!((nals.len(), found), (2, Some(at)));
            let said: Vec<_> = nals.iter().filter_map(|nal| messages(codec, nal)).collect();
            assert_eq!(said.iter().map(Sei::capture_utc).collect::<Vec<_>>(), [Some(captured)]);
            assert!(codec != Codec::H265 || nals[1].bytes[1] == slice[1], "its layer in time");
            assert_eq!(head(codec, before).1, None);
        }
    }
}
