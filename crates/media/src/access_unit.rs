//! What an encoder gives and a container carries: one coded picture, or one coded run of audio samples.

use crate::stamps::Stamps;
use crate::time::Ticks;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// A coding format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Codec {
    /// ITU-T H.264; access units are in Annex B byte-stream form.
    H264,
    /// ITU-T H.265; access units are in Annex B byte-stream form.
    H265,
    /// AV1; an access unit is a temporal unit, with start codes in front of its OBUs ("Carriage of AV1 in MPEG-2 TS"
    /// §3.2).
    Av1,
    /// ISO/IEC 13818-2 video. Recognised and carried; not parsed.
    Mpeg2Video,
    /// Opus (RFC 6716); an access unit is one packet.
    Opus,
    /// AAC in ADTS frames (ISO/IEC 13818-7 §6.2).
    Aac,
    /// MPEG audio, layers I to III; an access unit is one frame (ISO/IEC 11172-3).
    MpegAudio,
    /// AC-3; an access unit is one frame (ETSI TS 102 366).
    Ac3,
    /// LPCM as SMPTE ST 302 lays it into MPEG-TS; an access unit is the payload of one PES packet.
    S302m,
    /// E-AC-3; an access unit is the frames of six blocks of the independent substream (ETSI TS 102 366, annex E).
    EAc3,
}

impl Codec {
    /// Whether this codes pictures; otherwise it codes sound.
    pub const fn is_video(self) -> bool {
        matches!(self, Codec::H264 | Codec::H265 | Codec::Av1 | Codec::Mpeg2Video)
    }

    /// The name that people read.
    pub const fn name(self) -> &'static str {
        match self {
            Codec::H264 => "H.264",
            Codec::H265 => "H.265",
            Codec::Av1 => "AV1",
            Codec::Mpeg2Video => "MPEG-2 video",
            Codec::Opus => "Opus",
            Codec::Aac => "AAC",
            Codec::MpegAudio => "MPEG audio",
            Codec::Ac3 => "AC-3",
            Codec::S302m => "S302M",
            Codec::EAc3 => "E-AC-3",
        }
    }
}

/// One access unit: the smallest thing that a decoder takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessUnit {
    /// What it is coded in.
    pub codec: Codec,
    /// The coded bytes, in the form that [`Codec`] names.
    pub data: Bytes,
    /// When to present it.
    pub pts: Ticks,
    /// When to decode it; equal to `pts` where nothing is reordered.
    pub dts: Ticks,
    /// Whether decoding can start here (IDR, or announced by the container as a random access point).
    pub random_access: bool,
    /// The hops that it has passed.
    pub stamps: Stamps,
}
