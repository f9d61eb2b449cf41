//! Any bytes as KLV packets: as they are, and as the value of a set of a drone.

use glassline_media::bitstream::klv::{self, Packet, uas};

/// Panics where a promise is broken: packets and items lie within the bytes, and what a set says survives being written.
pub fn run(data: &[u8]) {
    check(data);
    if let Ok(length) = u16::try_from(data.len()) {
        let mut packet = uas::KEY.to_vec();
        packet.push(0x82);
        packet.extend_from_slice(&length.to_be_bytes());
        packet.extend_from_slice(data);
        check(&packet);
    }
}

fn check(bytes: &[u8]) {
    let mut whole = 0;
    for packet in klv::packets(bytes) {
        whole += packet.bytes.len();
        let within: usize = klv::items(packet.value).map(|(_, value)| value.len() + 2).sum();
        assert!(within <= packet.value.len(), "items are within their set");
        let Some(set) = uas::Set::parse(&packet) else { continue };
        let written = set.write();
        let again = Packet::parse(&written).expect("what is written is a packet");
        assert_eq!(again.bytes.len(), written.len());
        let again = uas::Set::parse(&again).expect("of the same kind");
        assert_eq!(again.checksum_right, Some(true));
        assert_eq!(
            (again.time_micros, again.latitude_deg.is_some()),
            (set.time_micros, set.latitude_deg.is_some())
        );
    }
    assert!(whole <= bytes.len(), "packets are within the bytes");
}
