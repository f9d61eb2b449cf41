//! Streams of data put beside the pictures of a transport stream.

use crate::synthetic::{PICTURES, picture};
use glassline_media::container::ts::packet::packets;
use glassline_media::container::ts::pes::PesHeader;
use glassline_media::container::ts::psi::{Pmt, write_packets};
use glassline_media::container::ts::{ElementaryStream, MuxSettings, Muxer, Packet, mux};
use glassline_media::{Codec, Ticks};

/// Bytes of a section of SCTE 35 (35 §14.1 of the samples): provider placement opportunity start, of 307 s, at PTS 0x072bd0050.
pub const PLACEMENT_START: &[u8] = b"\xfc\x30\x34\x00\x00\x00\x00\x00\x00\xff\xff\xf0\x05\x06\xfe\x72\xbd\x00\x50\x00\x1e\x02\x1cCUEI\x48\x00\x00\x8e\x7f\xcf\x00\x01\xa5\x99\xb0\x08\x08\x00\x00\x00\x00\x2c\xa0\xa1\x8a\x34\x02\x00\x9a\xc9\xd1\x7e";

/// A picture parameter set behind a start code, and the start code and type of a key frame's slice.
const PPS: [u8; 9] = [0, 0, 0, 1, 0x68, 0xcb, 0x83, 0xcb, 0x20];
const KEY_SLICE: [u8; 5] = [0, 0, 0, 1, 0x65];

/// The synthetic pictures with all parameter sets that a header of MP4 needs, 4 s with a key frame every second, so many ticks later.
///
/// # Panics
/// Where the muxer does not take them.
pub fn film(later: i64) -> Vec<u8> {
    // The stamps are the pictures' own.
    let decode_delay = Ticks(0);
    let settings = MuxSettings { video: Some(Codec::H264), decode_delay, ..MuxSettings::default() };
    let mut muxer = Muxer::new(settings).expect("a stream that the muxer takes");
    let mut out = Vec::new();
    for number in 0..PICTURES {
        let mut unit = picture(number);
        if let Some(at) = unit.data.windows(KEY_SLICE.len()).position(|bytes| bytes == KEY_SLICE) {
            unit.data = [&unit.data[..at], &PPS, &unit.data[at..]].concat().into();
        }
        (unit.pts, unit.dts) = (unit.pts + Ticks(later), unit.dts + Ticks(later));
        muxer.write(&unit, &mut out).expect("a stream that the muxer takes");
    }
    out
}

/// The stream that our own muxer wrote, its map with `streams` in front of its own and with this PID of the clock (`None`: its
/// own). `at_picture` appends packets in front of each picture; it is told the picture's number and time stamp.
pub fn with_data(
    ts: &[u8],
    streams: &[ElementaryStream],
    pcr_pid: Option<u16>,
    at_picture: &mut dyn FnMut(usize, Ticks, &mut Vec<u8>),
) -> Vec<u8> {
    let (mut out, mut counter, mut number) = (Vec::new(), 0, 0);
    for bytes in packets(ts) {
        let packet = Packet::parse(bytes).expect("a packet");
        if packet.pid == mux::PMT_PID && packet.unit_start {
            let section = packet.payload.get(1..).expect("a section");
            let end = 3 + usize::from(u16::from_be_bytes([section[1] & 0x0f, section[2]]));
            let mut pmt = Pmt::parse(&section[..end]).expect("a map");
            pmt.streams.splice(..0, streams.iter().cloned());
            pmt.pcr_pid = pcr_pid.unwrap_or(pmt.pcr_pid);
            let mut section = Vec::new();
            pmt.write(&mut section);
            write_packets(mux::PMT_PID, &section, &mut counter, &mut out);
            continue;
        }
        if packet.pid == mux::VIDEO_PID
            && packet.unit_start
            && let Some(pts) = PesHeader::parse(packet.payload).ok().and_then(|header| header.pts)
        {
            at_picture(number, Ticks(pts as i64), &mut out);
            number += 1;
        }
        out.extend_from_slice(bytes);
    }
    out
}

/// The packets of these PIDs, end to end.
pub fn only(ts: &[u8], pids: &[u16]) -> Vec<u8> {
    let is_one = |bytes: &&[u8; 188]| Packet::parse(bytes).is_ok_and(|packet| pids.contains(&packet.pid));
    packets(ts).filter(is_one).flatten().copied().collect()
}
