//! Any bytes as a picture that may have captions (CEA-608 and CEA-708). The first byte chooses the codec.

use glassline_media::Codec;
use glassline_media::bitstream::captions;
use glassline_media::bitstream::h264::sei::write_message;

/// A message with a construct of captions.
const MESSAGE: &[u8] = b"\xb5\0\x31GA94\x03\x41\xff\xfc\x80\x80\xff";

/// Panics where a promise is broken: captions in front of a picture are found, and those of MPEG-2 whatever follows them.
pub fn run(data: &[u8]) {
    let Some((&choice, bytes)) = data.split_first() else { return };
    let codecs = [Codec::H264, Codec::H265, Codec::Av1, Codec::Mpeg2Video];
    let codec = codecs[usize::from(choice) % codecs.len()];
    let are_there = captions::are_in(codec, bytes);
    match codec {
        Codec::H264 => {
            let mut unit = Vec::new();
            write_message(4, MESSAGE, &mut unit);
            unit.extend_from_slice(&[0, 0, 1]);
            unit.extend_from_slice(bytes);
            assert!(captions::are_in(codec, &unit), "they stand in front");
        }
        Codec::Mpeg2Video => {
            let longer = [bytes, bytes].concat();
            assert!(!are_there || captions::are_in(codec, &longer), "all of a picture is looked through");
        }
        _ => {}
    }
}
