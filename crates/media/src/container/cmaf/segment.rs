//! What may stand in front of a segment or chunk: its type (`styp`, ISO/IEC 14496-12 §8.16.2; brands of 23000-19 §7.3) and
//! events (`emsg`, ISO/IEC 23009-1 §5.10.3.3).

use super::boxes::{Fields, full, plain};

/// What a piece of a CMAF track is, by its brand (ISO/IEC 23000-19 §7.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentKind {
    /// One or more whole fragments (`cmfs`), a DASH media segment too (`msdh`).
    Segment,
    /// A whole fragment, which begins where decoding can (`cmff`).
    Fragment,
    /// A part of a fragment: one `moof` and its `mdat` (`cmfl`).
    Chunk,
}

/// Appends the type of the segment or chunk that follows (`styp`).
pub fn write_segment_type(kind: SegmentKind, out: &mut Vec<u8>) {
    let brands: &[&[u8; 4]] = match kind {
        SegmentKind::Segment => &[b"cmfs", b"msdh"],
        SegmentKind::Fragment => &[b"cmff", b"msdh"],
        SegmentKind::Chunk => &[b"cmfl"],
    };
    plain(out, b"styp", |out| {
        out.extend_from_slice(brands[0]);
        out.u32(0);
        brands.iter().for_each(|brand| out.extend_from_slice(*brand));
    });
}

/// When an event begins, in ticks of its own timescale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventTime {
    /// A time on the track's presentation (version 1).
    At(u64),
    /// So long after the segment that carries it begins (version 0).
    After(u32),
}

/// An event for the application that plays a track (`emsg`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventMessage {
    /// A URI that says what kind of event it is: `urn:scte:scte35:2013:bin`. Ends at its first NUL.
    pub scheme_id_uri: String,
    /// What the scheme makes of it. Ends at its first NUL.
    pub value: String,
    /// Ticks a second of the times below.
    pub timescale: u32,
    /// When it begins.
    pub presentation_time: EventTime,
    /// How long it lasts, in ticks; [`EventMessage::UNKNOWN_DURATION`] where that is not known.
    pub duration: u32,
    /// Events of the same scheme, value and number are one event that is repeated.
    pub id: u32,
    /// What the scheme says about it.
    pub message_data: Vec<u8>,
}

/// The scheme of [`EventMessage::capture`]: the UUID of the message in the picture itself, as a URN (RFC 9562).
pub const CAPTURE_SCHEME: &str = "urn:uuid:9d1f3c52-6b0e-4f7a-8c21-676c6c636170";

impl EventMessage {
    /// What a chunk's first picture says of its capture and of its sender's stages, for readers that do not look into samples:
    /// `message` is what stands behind the UUID in the picture's own message
    /// ([`Sei::capture_and_record`](crate::bitstream::h264::Sei::capture_and_record)). It holds at `presented`, in ticks of the
    /// track.
    pub fn capture(timescale: u32, presented: u64, id: u32, message: Vec<u8>) -> EventMessage {
        EventMessage {
            scheme_id_uri: CAPTURE_SCHEME.to_owned(),
            value: String::new(),
            timescale,
            presentation_time: EventTime::At(presented),
            duration: 0,
            id,
            message_data: message,
        }
    }

    /// The duration of an event with an unknown end.
    pub const UNKNOWN_DURATION: u32 = u32::MAX;
}

/// Appends an event: version 1 of `emsg` where its time is a point, version 0 where it counts from the segment. It stands in
/// front of the `moof` that it belongs to, behind `styp`.
pub fn write_event(event: &EventMessage, out: &mut Vec<u8>) {
    let version = u8::from(matches!(event.presentation_time, EventTime::At(_)));
    full(out, b"emsg", version, 0, |out| match event.presentation_time {
        EventTime::At(time) => {
            out.u32(event.timescale);
            out.u64(time);
            out.u32(event.duration);
            out.u32(event.id);
            write_text(&event.scheme_id_uri, out);
            write_text(&event.value, out);
            out.extend_from_slice(&event.message_data);
        }
        EventTime::After(delta) => {
            write_text(&event.scheme_id_uri, out);
            write_text(&event.value, out);
            out.u32(event.timescale);
            out.u32(delta);
            out.u32(event.duration);
            out.u32(event.id);
            out.extend_from_slice(&event.message_data);
        }
    });
}

/// A text that ends with NUL and can therefore have none.
fn write_text(text: &str, out: &mut Vec<u8>) {
    let end = text.find('\0').unwrap_or(text.len());
    out.extend_from_slice(&text.as_bytes()[..end]);
    out.u8(0);
}
