//! What the packager gives: objects that begin, grow and end.

use super::RenditionName;
use bytes::Bytes;

/// Something that becomes of an object. In this order for each rendition:
///
/// ```text
/// Init (SegmentBegins (PartBegins Chunk+ PartEnds)+ SegmentEnds)* … Expires* … InitExpires
/// ```
/// Events of different renditions are mixed. A [`Event::Chunk`] belongs to the segment and to the part: kept once, it
/// serves both, since a segment's bytes are its parts' bytes, end to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The CMAF header that segments from now on need, whole.
    Init {
        /// The rendition.
        rendition: RenditionName,
        /// Its number, which is that of the [`super::Epoch`]; it grows with each discontinuity.
        number: u32,
        /// All of it.
        bytes: Bytes,
    },
    /// A segment begins; it has no bytes yet.
    SegmentBegins {
        /// The rendition.
        rendition: RenditionName,
        /// Its number, one more than that of the segment before it or, after a time without this rendition, more.
        segment: u64,
    },
    /// A part begins; it has no bytes yet.
    PartBegins {
        /// The rendition.
        rendition: RenditionName,
        /// Its segment.
        segment: u64,
        /// Its number within the segment, from 0.
        part: u32,
    },
    /// A CMAF chunk, whole: the next bytes of the segment and of the part.
    Chunk {
        /// The rendition.
        rendition: RenditionName,
        /// The segment.
        segment: u64,
        /// The part within the segment.
        part: u32,
        /// `[styp] [emsg] [prft] moof mdat`.
        bytes: Bytes,
    },
    /// A part is complete, and stands in the playlist from now on.
    PartEnds {
        /// The rendition.
        rendition: RenditionName,
        /// Its segment.
        segment: u64,
        /// Its number within the segment.
        part: u32,
    },
    /// A segment is complete, and stands in the playlist from now on.
    SegmentEnds {
        /// The rendition.
        rendition: RenditionName,
        /// Its number.
        segment: u64,
    },
    /// A segment, with its parts, need not be kept any more: it has left the playlist some time ago.
    Expires {
        /// The rendition.
        rendition: RenditionName,
        /// Its number.
        segment: u64,
    },
    /// No segment that is kept needs this CMAF header any more.
    InitExpires {
        /// The rendition.
        rendition: RenditionName,
        /// Its number.
        number: u32,
    },
    /// The presentation has ended: playlists say so, and nothing follows but what is asked for.
    Ended,
}
