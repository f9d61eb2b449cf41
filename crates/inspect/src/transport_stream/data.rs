//! Streams of data: KLV by its sets, and what the newest one of a drone says; cues of SCTE 35 in words.

use super::report::{CueReport, DataReport, DroneReport, SetReport};
use glassline_media::bitstream::klv::{self, uas};
use glassline_media::container::ts::scte35::SpliceInfo;
use glassline_media::container::ts::{DataKind, DataUnit};
use glassline_media::time::Ticks;
use std::fmt::Write as _;

/// Kinds of sets that are told.
const SETS_MAX: usize = 16;
/// Cues that are told, the first ones.
const CUES_MAX: usize = 64;

/// What is known of a stream of data.
#[derive(Clone, Debug, Default)]
pub(super) struct DataTrack {
    kind: Option<DataKind>,
    stamped: u64,
    sets: Vec<SetReport>,
    other_packets: u64,
    drone: Option<DroneReport>,
    cues: Vec<(DataUnit, CueReport)>,
    cues_left_out: u64,
}

/// Bytes with base 16.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl DataTrack {
    /// Takes a unit that began with this packet of the stream.
    pub(super) fn push(&mut self, unit: &DataUnit, packet: u64) {
        self.kind = Some(unit.kind);
        self.stamped += u64::from(unit.pts.is_some());
        match unit.kind {
            DataKind::Klv { .. } => klv::packets(&unit.data).for_each(|packet| self.take_set(&packet)),
            DataKind::Splice => self.take_cue(unit, packet),
        }
    }

    fn take_set(&mut self, packet: &klv::Packet<'_>) {
        let key = hex(&packet.key);
        if let Some(set) = self.sets.iter_mut().find(|set| set.key == key) {
            set.packets += 1;
        } else if self.sets.len() < SETS_MAX {
            self.sets.push(SetReport { key, name: packet.name(), packets: 1 });
        } else {
            self.other_packets += 1;
        }
        if let Some(newest) = uas::Set::parse(packet) {
            let before = self.drone.take();
            let wrong = before.as_ref().map_or(0, |drone| drone.checksums_wrong);
            let wrong = wrong + u64::from(newest.checksum_right == Some(false));
            let first_time_micros = before.and_then(|drone| drone.first_time_micros).or(newest.time_micros);
            self.drone = Some(DroneReport { first_time_micros, checksums_wrong: wrong, newest });
        }
    }

    fn take_cue(&mut self, unit: &DataUnit, packet: u64) {
        if let Some((_, cue)) = self.cues.iter_mut().find(|(known, _)| known.data == unit.data) {
            cue.times += 1;
        } else if self.cues.len() == CUES_MAX {
            self.cues_left_out += 1;
        } else if let Ok(info) = SpliceInfo::parse(&unit.data) {
            let cue = CueReport {
                packet,
                pts_s: unit.pts.map(Ticks::as_secs_f64),
                times: 1,
                words: info.to_string(),
                section: hex(&unit.data),
            };
            self.cues.push((unit.clone(), cue));
        }
    }

    /// What was found in `units` units within so many seconds; `None` before the first unit.
    pub(super) fn report(&self, units: u64, seconds: Option<f64>) -> Option<DataReport> {
        let kind = self.kind?;
        Some(DataReport {
            format: match kind {
                DataKind::Klv { .. } => "klv",
                DataKind::Splice => "scte35",
            },
            synchronous: match kind {
                DataKind::Klv { synchronous } => Some(synchronous),
                DataKind::Splice => None,
            },
            units_per_s: seconds.filter(|seconds| *seconds > 0.0).map(|seconds| units as f64 / seconds),
            stamped_units: self.stamped,
            sets: self.sets.clone(),
            other_packets: self.other_packets,
            drone: self.drone.clone(),
            cues: self.cues.iter().map(|(_, cue)| cue.clone()).collect(),
            cues_left_out: self.cues_left_out,
        })
    }
}
