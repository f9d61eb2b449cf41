//! What a stream's bytes are, as its address says.

use glassline_media::container::split::Container;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A stream's container. MPEG-TS is understood; the others are carried as they are, and FLV is taken apart to be packaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Mux {
    /// MPEG transport stream.
    #[default]
    MpegTs,
    /// Flash Video.
    Flv,
    /// WebM, and any Matroska.
    WebM,
    /// Ogg.
    Ogg,
    /// Any other, of which an upstream's Metacube blocks say what has to be known.
    Raw,
}

impl Mux {
    /// All of them.
    pub const ALL: [Mux; 5] = [Mux::MpegTs, Mux::Flv, Mux::WebM, Mux::Ogg, Mux::Raw];

    /// What an address ends with, without the dot.
    pub const fn extension(self) -> &'static str {
        match self {
            Mux::MpegTs => "ts",
            Mux::Flv => "flv",
            Mux::WebM => "webm",
            Mux::Ogg => "ogg",
            Mux::Raw => "raw",
        }
    }

    /// The one with addresses that end with `extension`.
    pub fn of_extension(extension: &str) -> Option<Mux> {
        Mux::ALL.into_iter().find(|mux| mux.extension() == extension)
    }

    /// The media type, where the stream does not say another one.
    pub const fn media_type(self) -> &'static str {
        match self {
            Mux::MpegTs => "video/mp2t",
            Mux::Flv => "video/x-flv",
            Mux::WebM => "video/webm",
            Mux::Ogg => "application/ogg",
            Mux::Raw => "application/octet-stream",
        }
    }

    /// What a publisher is to send.
    pub const fn advice(self) -> &'static str {
        match self {
            Mux::MpegTs => "Send MPEG-TS with packets of 188 bytes, as 'ffmpeg … -f mpegts' makes it.",
            Mux::Flv => "Send FLV, as 'ffmpeg … -f flv' makes it; other muxes have other addresses.",
            Mux::WebM => {
                "Send WebM, as 'ffmpeg … -f webm -live 1' makes it; other muxes have other addresses."
            }
            Mux::Ogg => "Send Ogg, as 'ffmpeg … -f ogg' makes it; other muxes have other addresses.",
            Mux::Raw => {
                "A raw stream cannot be published: it is pulled from a source in Metacube, whose blocks say where \
                 viewers may begin."
            }
        }
    }

    /// Whether LL-HLS and LL-DASH are made of it.
    pub const fn is_packaged(self) -> bool {
        matches!(self, Mux::MpegTs | Mux::Flv | Mux::WebM)
    }

    /// How it is split, where it is carried as it is.
    pub(super) const fn container(self) -> Option<Container> {
        match self {
            Mux::MpegTs | Mux::Raw => None,
            Mux::Flv => Some(Container::Flv),
            Mux::WebM => Some(Container::WebM),
            Mux::Ogg => Some(Container::Ogg),
        }
    }

    /// What a link of the file's chain holds whole: bytes of a packet, or single bytes.
    pub const fn record_bytes(self) -> u64 {
        match self {
            Mux::MpegTs => 188,
            Mux::Flv | Mux::WebM | Mux::Ogg | Mux::Raw => 1,
        }
    }
}

impl fmt::Display for Mux {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mux::MpegTs => "MPEG-TS",
            Mux::Flv => "FLV",
            Mux::WebM => "WebM",
            Mux::Ogg => "Ogg",
            Mux::Raw => "raw",
        })
    }
}
