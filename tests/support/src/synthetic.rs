//! Transport streams whose properties are known, made packet by packet.

use glassline_media::Utc;
use glassline_media::access_unit::{AccessUnit, Codec};
use glassline_media::bitstream::h264::{RecoveryPoint, sei, write_capture_utc_nal};
use glassline_media::container::ts::{MuxSettings, Muxer, PACKET_BYTES};
use glassline_media::stamps::Stamps;
use glassline_media::time::{Ticks, Time};

/// 320x240, main profile, level 1.3, 25 pictures a second.
pub const SPS: &[u8] = &[
    0, 0, 0, 1, 0x67, 0x4d, 0x40, 0x0d, 0xec, 0xa0, 0xa0, 0xfd, 0x80, 0x88, 0, 0, 3, 0, 8, 0, 0, 3, 1, 0x90,
    0x78, 0xa1, 0x4c, 0xb0,
];
/// From picture to picture.
pub const PICTURE_TICKS: i64 = 3600;
/// Pictures of the stream.
pub const PICTURES: i64 = 100;
/// At this many packets a picture, the synthetic stream has a constant rate: 1000 packets a second.
pub const SLOT_PACKETS: usize = 40;
/// From key frame to key frame, in pictures.
pub const KEY_INTERVAL: i64 = 25;
/// The PID of pictures.
pub const VIDEO_PID: u16 = 0x100;

/// A packet.
pub type PacketBytes = [u8; PACKET_BYTES];

/// A packet without content.
pub fn null_packet() -> PacketBytes {
    let mut packet = [0xff; PACKET_BYTES];
    packet[..4].copy_from_slice(&[0x47, 0x1f, 0xff, 0x10]);
    packet
}

/// The PID of a packet.
pub fn pid_of(packet: &PacketBytes) -> u16 {
    u16::from_be_bytes([packet[1] & 0x1f, packet[2]])
}

/// Picture `number`: a key frame each second.
pub fn picture(number: i64) -> AccessUnit {
    let key = number % KEY_INTERVAL == 0;
    let mut data = vec![0, 0, 0, 1, 9, 0xf0];
    if key {
        data.extend_from_slice(SPS);
    }
    // A slice header begins with the codes of "macroblock 0" and "only I" or "only P".
    data.extend_from_slice(if key { &[0, 0, 0, 1, 0x65, 0x88] } else { &[0, 0, 0, 1, 0x41, 0x98] });
    data.resize(2000, 0x55);
    let pts = Ticks(90_000 + number * PICTURE_TICKS);
    AccessUnit {
        codec: Codec::H264,
        data: data.into(),
        pts,
        dts: pts,
        random_access: key,
        stamps: Stamps::default(),
    }
}

/// A stream of constant rate with a key frame every second, 4 s long. Each picture takes a slot of 40 packets, in
/// which its first packet, the one with the clock, always stands in the third place.
pub fn constant_rate() -> Vec<PacketBytes> {
    constant_rate_from(0)
}

/// The same, its stamps and its clock so many ticks later.
pub fn constant_rate_from(later: i64) -> Vec<PacketBytes> {
    let settings =
        MuxSettings { video: Some(Codec::H264), table_interval: Ticks(90_000), ..MuxSettings::default() };
    let mut muxer = Muxer::new(settings).expect("a stream that the muxer takes");
    let mut out = Vec::new();
    for number in 0..PICTURES {
        let mut bytes = Vec::new();
        let mut unit = picture(number);
        (unit.pts, unit.dts) = (unit.pts + Ticks(later), unit.dts + Ticks(later));
        muxer.write(&unit, &mut bytes).expect("a stream that the muxer takes");
        let mut packets = bytes.as_chunks::<PACKET_BYTES>().0.to_vec();
        let first =
            packets.iter().position(|packet| pid_of(packet) == VIDEO_PID).expect("a packet of pictures");
        packets.splice(0..0, std::iter::repeat_n(null_packet(), 2 - first));
        packets.resize(SLOT_PACKETS, null_packet());
        out.extend(packets);
    }
    out
}

/// A stream without a key frame, a picture each 40 ms: recovery points at the pictures 3, 13, … of 30, after which four
/// are not right. Each picture says that it was captured 25 ms (and its number of microseconds) before its end comes.
pub fn intra_refresh_units() -> Vec<(Time, Vec<u8>)> {
    let mut muxer = Muxer::new(MuxSettings { video: Some(Codec::H264), ..MuxSettings::default() })
        .expect("a stream that the muxer takes");
    let mut units = Vec::new();
    for number in 0..30 {
        let arrival = Time::from_millis(1000 + number as u64 * 40);
        let is_point = number % 10 == 3;
        let mut data = vec![0, 0, 0, 1, 9, 0xf0];
        if is_point {
            data.extend_from_slice(SPS);
            data.extend_from_slice(&[0, 0, 0, 1, 0x68, 0xce]);
            let point = RecoveryPoint { frames: 4, exact: true, broken_link: false };
            sei::write_message(sei::RECOVERY_POINT, &point.write(), &mut data);
        }
        let captured = UTC_AT_ZERO + arrival.as_nanos() - 25_000_000 - number as u64 * 1000;
        write_capture_utc_nal(Utc::from_nanos(captured), &mut data);
        data.extend_from_slice(&[0, 0, 0, 1, 0x41, 0x98]);
        data.resize(2000, 0x55);
        let (pts, stamps) = (Ticks(90_000 + number * PICTURE_TICKS), Stamps::default());
        let (codec, dts, random_access) = (Codec::H264, pts, is_point);
        let mut bytes = Vec::new();
        let unit = AccessUnit { codec, data: data.into(), pts, dts, random_access, stamps };
        muxer.write(&unit, &mut bytes).expect("a stream that the muxer takes");
        units.push((arrival, bytes));
    }
    units
}

/// The wall clock at the origin of the monotonic one.
pub const UTC_AT_ZERO: u64 = 1_700_000_000_000_000_000;
