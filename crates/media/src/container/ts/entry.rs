//! Where a viewer can join a running stream, and what must be sent to them first.

use super::continuity::ContinuityChecker;
use super::packet::{NULL_PID, PACKET_BYTES, SYNC_BYTE};
use super::tables::Packets;
use serde::{Deserialize, Serialize};

/// PIDs that an entry point keeps the counter of.
pub(super) const TRACKED_PIDS: usize = 16;

/// Everything that a stream says before a point and that a decoder needs to start there: the packets of PAT and
/// PMT, the parameter sets that the picture at the point lacks, and the last continuity counter of up to 16 PIDs. Cloning does not
/// allocate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryPoint {
    /// Whole packets, their counters zeroed.
    pat: Packets,
    pmt: Packets,
    /// A PES packet of the parameter sets; empty where the stream repeats them.
    #[serde(default = "no_packets")]
    sets: Packets,
    pids: [u16; TRACKED_PIDS],
    /// Parallel to `pids`, the last counter before the point.
    counters: [u8; TRACKED_PIDS],
    count: u8,
}

impl EntryPoint {
    /// The state after the packets that `continuity` has seen.
    pub(super) fn new(
        pat: Packets,
        pmt: Packets,
        tracked: &[u16],
        continuity: &ContinuityChecker,
    ) -> EntryPoint {
        let mut entry = EntryPoint {
            pat,
            pmt,
            sets: no_packets(),
            pids: [0; TRACKED_PIDS],
            counters: [0; TRACKED_PIDS],
            count: 0,
        };
        for &pid in tracked.iter().take(TRACKED_PIDS) {
            if let Some(last) = continuity.last(pid) {
                entry.pids[usize::from(entry.count)] = pid;
                entry.counters[usize::from(entry.count)] = last;
                entry.count += 1;
            }
        }
        entry
    }

    /// With the packets of the parameter sets that the picture at the point lacks, their counters zeroed.
    #[must_use]
    pub(super) fn with_sets(self, sets: Packets) -> EntryPoint {
        EntryPoint { sets, ..self }
    }

    /// The whole packets to send in front of the first packet of this point.
    ///
    /// First the PAT and the PMT as they were last seen, then the parameter sets of a stream that said them only once;
    /// their counters are such that the next packets of their PIDs in the stream follow them. For a viewer that has
    /// already seen an earlier part (`discontinuity`), one [`discontinuity_packet`] for each PID stands before them, so
    /// that every counter is either announced as jumping or continuous.
    pub fn prelude(&self, discontinuity: bool) -> Vec<u8> {
        let mut out = Vec::with_capacity(
            self.pat.len()
                + self.pmt.len()
                + self.sets.len()
                + usize::from(discontinuity) * TRACKED_PIDS * PACKET_BYTES,
        );
        if discontinuity {
            for (&pid, &last) in self.pids.iter().zip(&self.counters).take(usize::from(self.count)) {
                let before = last.wrapping_sub(self.table_packets(pid)) & 0x0f;
                out.extend_from_slice(&discontinuity_packet(pid, before));
            }
        }
        for table in [&self.pat, &self.pmt, &self.sets] {
            let packets = table.as_chunks::<PACKET_BYTES>().0;
            for (index, packet) in packets.iter().enumerate() {
                let pid = pid_of(packet);
                let following = (packets.len() - 1 - index) as u8;
                let continuity = self.last(pid).wrapping_sub(following) & 0x0f;
                let start = out.len();
                out.extend_from_slice(packet);
                out[start + 3] |= continuity;
            }
        }
        out
    }

    /// How many of the packets in front are on `pid`.
    fn table_packets(&self, pid: u16) -> u8 {
        let on_pid = |table: &[u8]| {
            table.as_chunks::<PACKET_BYTES>().0.iter().filter(|packet| pid_of(packet) == pid).count() as u8
        };
        on_pid(&self.pat) + on_pid(&self.pmt) + on_pid(&self.sets)
    }

    fn last(&self, pid: u16) -> u8 {
        let known = &self.pids[..usize::from(self.count)];
        known.iter().position(|&known| known == pid).map_or(0, |index| self.counters[index])
    }
}

fn no_packets() -> Packets {
    Packets::from([])
}

fn pid_of(packet: &[u8; PACKET_BYTES]) -> u16 {
    u16::from_be_bytes([packet[1] & 0x1f, packet[2]])
}

/// A packet without payload that announces a discontinuity on `pid`: the next packet with a payload there is
/// continuous if its counter is `continuity` + 1 (13818-1 §2.4.3.5, `discontinuity_indicator`).
pub fn discontinuity_packet(pid: u16, continuity: u8) -> [u8; PACKET_BYTES] {
    let mut packet = [0xff; PACKET_BYTES];
    let [high, low] = (pid & NULL_PID).to_be_bytes();
    packet[..6].copy_from_slice(&[SYNC_BYTE, high, low, 0x20 | continuity & 0x0f, 183, 0x80]);
    packet
}
