//! The session description of what is sent.

use super::settings::{ClockSource, PathSettings, Settings, Shape};
use super::sound::DEPTH;
use crate::capture::SOUND_RATE_HZ;
use glassline_io::nic;
use glassline_media::{Colour, FrameRate, ratio};
use glassline_transport::ancillary::Cdp;
use glassline_transport::raw_video::{Format, Scan};
use glassline_transport::sdp::{
    Ancillary, Audio, Description, Flow, Media, MediaClockSource, NTP_BEFORE_PTP_S, Path, ReferenceClock,
    SenderType, Video,
};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// Bytes of UDP's header, which `MAXUDP` counts along.
const UDP_BYTES: u32 = 8;
/// The largest datagrams of ST 2110-10 §6.4, UDP's header counted along.
const EXTENDED_BYTES: u32 = 8960;
/// DID and SDID of ancillary time code (ST 12-2).
const TIME_CODE: (u8, u8) = (0x60, 0x60);
/// Time to live where groups are sent to and nothing is said.
const GROUP_TTL: u8 = 1;

/// What is known of the frames beside the settings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) format: Format,
    /// `None` where there is no telling.
    pub(super) rate: Option<FrameRate>,
    pub(super) colour: Colour,
    /// Width to height of a sample.
    pub(super) sample_aspect: (u32, u32),
    /// Whether frames begin on the grid of whole periods since PTP's epoch.
    pub(super) is_on_grid: bool,
    /// Whether bursts leave by launch times on all paths.
    pub(super) is_exact: bool,
    /// Channels of the sound beside the pictures.
    pub(super) sound_channels: Option<u8>,
    pub(super) has_time_code: bool,
    /// The film's captions are sent.
    pub(super) has_captions: bool,
}

/// Describes it; `session_id` names the session, and is its version too.
pub(super) fn describe(name: &str, session_id: u64, settings: &Settings, sent: &Sent) -> Description {
    let to = settings.paths.first().map(|path| path.route.address.ip());
    let any: IpAddr = Ipv4Addr::UNSPECIFIED.into();
    let origin = settings.paths.first().and_then(|path| path.route.source);
    let origin = origin.or_else(|| to.and_then(nic::source_of)).unwrap_or(any);
    let flow = |media: Media, payload_type: u8, paths: &[PathSettings]| {
        let (reference_clock, media_clock) = clock(settings, media.rate_hz());
        let (reference_clock, media_clock) = (Some(reference_clock), Some(media_clock));
        Flow { media, payload_type, paths: paths.iter().map(path).collect(), reference_clock, media_clock }
    };
    let mut flows = vec![flow(Media::Video(video(settings, sent)), settings.payload_type, &settings.paths)];
    if let (Some(channels), Some(sound)) = (sent.sound_channels, &settings.sound) {
        flows.push(flow(Media::Audio(audio(channels)), sound.payload_type, &sound.paths));
    }
    let ids = [(sent.has_time_code, TIME_CODE), (sent.has_captions, Cdp::DATA_ID)];
    let data_ids: Vec<_> = ids.into_iter().filter(|(is_sent, _)| *is_sent).map(|(_, id)| id).collect();
    if let (false, Some(ancillary)) = (data_ids.is_empty(), &settings.ancillary) {
        let data = Ancillary { data_ids, vpid_code: None, rate: sent.rate };
        flows.push(flow(Media::Ancillary(data), ancillary.payload_type, &ancillary.paths));
    }
    let name = name.to_owned();
    Description {
        name,
        session_id,
        version: session_id,
        origin,
        flows,
        skipped: Vec::new(),
        notices: Vec::new(),
    }
}

/// What `MAXUDP` says.
pub(super) fn max_udp_bytes(settings: &Settings) -> u32 {
    settings.datagram_bytes as u32 + UDP_BYTES
}

fn video(settings: &Settings, sent: &Sent) -> Video {
    let datagram_bytes = max_udp_bytes(settings);
    let is_scheduled = settings.shape != Shape::Burst && sent.is_on_grid && sent.rate.is_some();
    let sender = match settings.shape {
        _ if !is_scheduled => None,
        // Only a sender that has each burst leave by a queueing discipline promises to be even.
        Shape::Narrow if sent.is_exact => Some(SenderType::Narrow),
        Shape::Linear if sent.is_exact => Some(SenderType::NarrowLinear),
        _ => Some(SenderType::Wide),
    };
    let rate = sent.rate.unwrap_or_else(|| FrameRate::new(1, 1).expect("no part is zero"));
    Video {
        rate: sent.rate,
        colour: sent.colour,
        pixel_aspect: shortened(sent.sample_aspect),
        packing: settings.packing,
        sender,
        max_datagram_bytes: Some(datagram_bytes),
        is_standard_2110: is_scheduled && datagram_bytes <= EXTENDED_BYTES,
        ..Video::new(sent.format, rate)
    }
}

/// A packet has a millisecond (ST 2110-30 §6.2.1, level A).
fn audio(channels: u8) -> Audio {
    // The groups of ST 2110-30 §6.2.2 with channels in the order that FFmpeg and WAVE have; of eight these have another one
    // at the sides.
    let order = match channels {
        1 => "M".to_owned(),
        2 => "ST".to_owned(),
        6 => "51".to_owned(),
        channels => format!("U{channels:02}"),
    };
    Audio {
        bits: 8 * DEPTH.bytes() as u8,
        rate_hz: SOUND_RATE_HZ,
        channels,
        packet_time: Duration::from_millis(1),
        channel_order: Some(format!("SMPTE2110.({order})")),
    }
}

/// The smallest whole numbers of a ratio (ST 2110-20 §7.3, `PAR`).
fn shortened((across, down): (u32, u32)) -> (u32, u32) {
    let (across, down) = ratio::shortened(across.into(), down.into());
    (across as u32, down as u32)
}

fn path(settings: &PathSettings) -> Path {
    let route = &settings.route;
    let is_group = route.address.ip().is_multicast();
    let ttl = route.ttl.or(is_group.then_some(GROUP_TTL)).filter(|_| is_group && route.address.is_ipv4());
    Path { to: route.address, sources: route.source.into_iter().collect(), ttl }
}

/// Which clock stamps are of: TAI of this machine's wall clock since PTP's epoch, and what keeps that right.
fn clock(settings: &Settings, rate_hz: u32) -> (ReferenceClock, MediaClockSource) {
    let direct = |offset| MediaClockSource::Direct { offset };
    match settings.clock {
        ClockSource::Ptp => (ReferenceClock::traceable_ptp(), direct(0)),
        // What stamps would be at NTP's epoch, which is earlier than PTP's.
        ClockSource::Ntp => {
            let offset = ((NTP_BEFORE_PTP_S * u64::from(rate_hz)) as u32).wrapping_neg();
            (ReferenceClock::Ntp("/traceable/".to_owned()), direct(offset))
        }
        ClockSource::Local => (ReferenceClock::LocalMac(ethernet_address(settings)), direct(0)),
    }
}

/// Of the interface that packets leave by; where that has none, of any; zeros where there is none.
fn ethernet_address(settings: &Settings) -> [u8; 6] {
    let route = settings.paths.first().map(|path| &path.route);
    let named = route.and_then(|route| {
        let by_route = || nic::interface_of(route.source.unwrap_or(route.address.ip())).ok().flatten();
        route.interface.clone().or_else(by_route)
    });
    let of = |name: String| nic::ethernet_address(&name).ok().flatten();
    let any = || nic::interfaces().unwrap_or_default().into_iter().find_map(of);
    named.and_then(of).or_else(any).unwrap_or_default()
}

/// Whether frames of two fields are of two times.
pub(super) fn has_fields(format: &Format) -> bool {
    format.scan() == Scan::Interlaced
}

#[cfg(test)]
#[path = "describe_tests.rs"]
mod tests;
