//! Runs of TS packets as messages of a link.

use glassline_media::container::ts::{PACKET_BYTES, SYNC_BYTE};

/// TS packets of a message at most. A message is lost or late as a whole, and is handed on when all of it is there: a few datagrams.
pub const MESSAGE_PACKETS: usize = 28;

/// The messages that carry `bytes`, which are whole packets.
pub(super) fn messages(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.chunks(MESSAGE_PACKETS * PACKET_BYTES)
}

/// Whether a message of a peer is a run of whole packets.
pub(super) fn are_whole(message: &[u8]) -> bool {
    let (packets, rest) = message.as_chunks::<PACKET_BYTES>();
    !packets.is_empty() && rest.is_empty() && packets.iter().all(|packet| packet[0] == SYNC_BYTE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_run_of_packets_is_told() {
        let mut packet = vec![0; PACKET_BYTES];
        packet[0] = SYNC_BYTE;
        assert!(are_whole(&packet) && are_whole(&packet.repeat(3)));
        for bad in [&packet[..187], &[packet.as_slice(), &[SYNC_BYTE]].concat(), &[], &[0; PACKET_BYTES]] {
            assert!(!are_whole(bad));
        }
        assert!(!are_whole(&[packet.as_slice(), &[0; PACKET_BYTES]].concat()));
    }

    proptest! {
        #[test]
        fn whole_packets_stay_whole_and_in_order(count in 0usize..200) {
            let mut bytes = vec![0; count * PACKET_BYTES];
            for (number, packet) in bytes.chunks_mut(PACKET_BYTES).enumerate() {
                (packet[0], packet[1]) = (SYNC_BYTE, number as u8);
            }
            prop_assert!(messages(&bytes).all(are_whole));
            prop_assert_eq!(messages(&bytes).flatten().copied().collect::<Vec<u8>>(), bytes);
        }
    }
}
