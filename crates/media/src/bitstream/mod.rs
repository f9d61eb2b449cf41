//! Coded bits: what decoders and containers need to know about them.

pub mod aac_config;
pub mod ac3;
pub mod adts;
pub mod av1;
pub mod h264;
pub mod h265;
pub mod hdr;
pub mod latm;
pub mod mpeg_audio;
pub mod opus;
pub mod program_config;
pub mod s302m;
#[cfg(test)]
pub(crate) mod testing;
pub mod unit_finder;

use crate::access_unit::Codec;
use h264::Join;

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
