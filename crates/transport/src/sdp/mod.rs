//! Session descriptions (SDP, RFC 8866) of uncompressed video, audio and ancillary data over RTP: what is sent, where it is
//! sent, and which clock its time stamps are of.
//!
//! ```text
//! v=0
//! o=- 1700000000 1 IN IP4 192.168.100.2              Description: origin, session id, version
//! s=Camera 1                                         its name
//! t=0 0
//! a=group:DUP 1a 1b                                  two sections, the same packets: one Flow with two Paths
//! m=video 50000 RTP/AVP 96                           a Path's port, the Flow's payload type
//! c=IN IP4 239.100.9.10/64                           a Path's address and TTL
//! a=source-filter: incl IN IP4 239.100.9.10 192.168.100.2        its sources
//! a=rtpmap:96 raw/90000                              Media: Video, Audio (L16, L24) or Ancillary (smpte291)
//! a=fmtp:96 sampling=YCbCr-4:2:2; width=1280; …      its parameters
//! a=ts-refclk:ptp=IEEE1588-2008:traceable            ReferenceClock
//! a=mediaclk:direct=0                                MediaClockSource
//! a=mid:1a
//! m=video 50010 RTP/AVP 96
//! …
//! ```
//! Read are descriptions of ST 2110-20, -30 and -40, of TR-03, and those that only know RFC 4175. What is written plays in
//! FFmpeg and GStreamer too. Lines are `sdp_types`' business, their meaning is ours. [`CodedDescription`] reads what RTSP servers
//! say of coded tracks, which is often no good description by the grammar of `sdp_types`.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

mod ancillary;
mod audio;
mod clock;
mod coded;
mod colour;
mod error;
mod lines;
mod parameters;
mod parse;
#[cfg(test)]
mod tests;
mod video;
mod write;

pub use ancillary::Ancillary;
pub use audio::Audio;
pub use clock::{MediaClockSource, PtpClock, ReferenceClock};
pub use coded::{CodedDescription, CodedTrack, Encoding};
pub use error::{SdpError, SectionError};
pub use video::{SenderType, Video};

use std::net::{IpAddr, SocketAddr};

/// Bytes of a description at most.
pub const MAX_BYTES: usize = 64 << 10;
/// What NTP's time, which is UTC from 1900 on, is ahead of PTP's by, which is TAI from 1970 on, in seconds (since 2017).
pub const NTP_BEFORE_PTP_S: u64 = 2_208_988_800 - 37;
/// Flows of a description at most.
pub const MAX_FLOWS: usize = 16;

/// What a sender says about its streams. Written by `Display`, with `\r\n` at the ends of lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The session's name (`s=`).
    pub name: String,
    /// What stays the same when the description changes (`o=`).
    pub session_id: u64,
    /// Higher with each change.
    pub version: u64,
    /// The address of the host that made it; unspecified where the description has a name instead of an address.
    pub origin: IpAddr,
    /// What is sent.
    pub flows: Vec<Flow>,
    /// What is sent and not taken, as `audio 5004 (MPA)`; not written.
    pub skipped: Vec<String>,
    /// What is wrong with the description and does not keep the [flows](Description::flows) from being received, in sentences:
    /// sections that are passed over, parameters that are ignored, paths that are missing. Not written.
    pub notices: Vec<String>,
}

impl Description {
    /// Reads a description.
    ///
    /// Sections of kinds that we do not take are [skipped](Description::skipped), and so are those of our kinds with
    /// parameters that we do not take, with a [notice](Description::notices).
    ///
    /// # Errors
    /// [`SdpError`] where it is none, is too large, or has no section that is taken and one that should be.
    pub fn parse(text: &str) -> Result<Description, SdpError> {
        parse::description(text)
    }

    /// The same of bytes: UTF-8, or Latin-1 as older devices have it.
    ///
    /// # Errors
    /// As [`Description::parse`] has them.
    pub fn parse_bytes(bytes: &[u8]) -> Result<Description, SdpError> {
        parse::description(&lines::text(bytes))
    }

    /// The first video.
    pub fn video(&self) -> Option<(&Flow, &Video)> {
        self.flows.iter().find_map(|flow| match &flow.media {
            Media::Video(video) => Some((flow, video)),
            _ => None,
        })
    }

    /// The first audio.
    pub fn audio(&self) -> Option<(&Flow, &Audio)> {
        self.flows.iter().find_map(|flow| match &flow.media {
            Media::Audio(audio) => Some((flow, audio)),
            _ => None,
        })
    }

    /// The first ancillary data.
    pub fn ancillary(&self) -> Option<(&Flow, &Ancillary)> {
        self.flows.iter().find_map(|flow| match &flow.media {
            Media::Ancillary(ancillary) => Some((flow, ancillary)),
            _ => None,
        })
    }
}

/// One stream of packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// What is in them.
    pub media: Media,
    /// Their payload type, 7 bits.
    pub payload_type: u8,
    /// Where they go: one path, or two that carry the same packets (ST 2022-7).
    pub paths: Vec<Path>,
    /// The clock that time stamps are related to; of two paths, what the first one says.
    pub reference_clock: Option<ReferenceClock>,
    /// How they are related to it.
    pub media_clock: Option<MediaClockSource>,
}

impl Flow {
    /// What [`MediaClock::with_rate`](crate::raw_video::MediaClock::with_rate) takes: what is added to PTP's time in ticks, where
    /// stamps are the time of a clock that we can have too: PTP, NTP, and this machine's own, which `ours`, the Ethernet
    /// addresses of its interfaces, tell. `None` where the sender follows another one.
    pub fn direct_offset(&self, ours: &[[u8; 6]]) -> Option<u32> {
        let Some(MediaClockSource::Direct { offset }) = self.media_clock else { return None };
        match self.reference_clock.as_ref()? {
            ReferenceClock::Ptp { .. } => Some(offset),
            ReferenceClock::Ntp(_) => {
                let ticks = NTP_BEFORE_PTP_S.wrapping_mul(self.media.rate_hz().into());
                Some(offset.wrapping_add((ticks & 0xFFFF_FFFF) as u32))
            }
            ReferenceClock::LocalMac(address) => ours.contains(address).then_some(offset),
            ReferenceClock::Other(_) => None,
        }
    }
}

/// What a flow carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Media {
    /// Uncompressed video.
    Video(Video),
    /// Uncompressed audio.
    Audio(Audio),
    /// Ancillary data.
    Ancillary(Ancillary),
}

impl Media {
    /// Ticks a second of its time stamps.
    pub fn rate_hz(&self) -> u32 {
        match self {
            Media::Video(_) | Media::Ancillary(_) => 90_000,
            Media::Audio(audio) => audio.rate_hz,
        }
    }
}

impl Media {
    /// Whether packets of both can be the same (ST 2022-7), as far as parameters tell: what does not concern samples may differ.
    fn has_samples_of(&self, other: &Media) -> bool {
        match (self, other) {
            (Media::Video(one), Media::Video(other)) => one.has_samples_of(other),
            (Media::Audio(one), Media::Audio(other)) => one.has_samples_of(other),
            (Media::Ancillary(_), Media::Ancillary(_)) => true,
            _ => false,
        }
    }
}

/// Where packets go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The receiver, or the group.
    pub to: SocketAddr,
    /// The addresses that may send (`a=source-filter`, RFC 4570): a group is joined for these alone. Empty: any.
    pub sources: Vec<IpAddr>,
    /// Routers that packets may pass; an IPv4 group needs it (RFC 8866 §5.7), IPv6 has none here.
    pub ttl: Option<u8>,
}
