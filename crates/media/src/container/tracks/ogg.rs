//! Ogg (RFC 3533): the first packet of each stream, on a page of its own that begins it.

use super::{Kind, TRACKS_MAX, Track, shown};
use crate::picture::Size;

const PAGE_HEAD_BYTES: usize = 27;
const BEGINS: u8 = 2;

pub(super) fn tracks(header: &[u8]) -> Vec<Track> {
    let begins = pages(header).filter(|(flags, _)| flags & BEGINS != 0);
    begins.filter_map(|(_, packet)| track(packet)).take(TRACKS_MAX).collect()
}

/// The pages, each with its flags, up to the first that is not whole.
fn pages(mut header: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (head, rest) = header.split_at_checked(PAGE_HEAD_BYTES)?;
        let (lengths, rest) = rest.split_at_checked(usize::from(head[26]))?;
        let bytes = lengths.iter().map(|length| usize::from(*length)).sum();
        let (payload, behind) = rest.split_at_checked(bytes).filter(|_| head.starts_with(b"OggS"))?;
        header = behind;
        Some((head[5], payload))
    })
}

/// From a stream's first packet. `None` for Skeleton, which says words about the others.
fn track(packet: &[u8]) -> Option<Track> {
    let number = |range: std::ops::Range<usize>| {
        packet.get(range).map(|bytes| bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    };
    let size = |width, height| Size::new(number(width)?, number(height)?).ok();
    Some(match packet {
        // Theora I §6.2: PICW and PICH.
        [0x80, b't', b'h', b'e', b'o', b'r', b'a', ..] => {
            Track { size: size(14..17, 17..20), ..Track::new(Kind::Video, "Theora") }
        }
        [b'O', b'V', b'P', b'8', b'0', ..] => {
            Track { size: size(8..10, 10..12), ..Track::new(Kind::Video, "VP8") }
        }
        [1, b'v', b'o', b'r', b'b', b'i', b's', ..] => Track::new(Kind::Audio, "Vorbis"),
        [b'O', b'p', b'u', b's', b'H', b'e', b'a', b'd', ..] => Track::new(Kind::Audio, "Opus"),
        [b'S', b'p', b'e', b'e', b'x', b' ', b' ', b' ', ..] => Track::new(Kind::Audio, "Speex"),
        [0x7F, b'F', b'L', b'A', b'C', ..] => Track::new(Kind::Audio, "FLAC"),
        [b'f', b'i', b's', b'h', b'e', b'a', b'd', 0, ..] => return None,
        other => Track::new(Kind::Other, shown(&other[..other.len().min(8)])),
    })
}
