//! A stream of data put into a transport stream that another multiplexer writes.
//!
//! ```text
//! in:  PAT │ PMT: pictures, sound                │ pictures … │ PAT │ PMT …
//! out: PAT │ PMT: pictures, sound, and the data  │ pictures … │ data │ PAT │ PMT …
//! ```
//! The program map is written anew, with the multiplexer's version: it has the stream from its first copy on, so that nothing changes
//! while the stream goes on. Its packets, which may become more, get counters of their own; all other packets stay as they are, and
//! with them the clock. One program is looked at, the first that the PAT has.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::metadata::DataWriter;
use super::packet::{self, NULL_PID, Packet};
use super::pes::PesHeader;
use super::psi::{self, DataKind, PAT_PID, Pat, Pmt, SectionReader};
use crate::time::Ticks;

/// The first PID that is taken, where the program has none such: behind those of [`Muxer`](super::Muxer).
const FIRST_PID: u16 = 0x102;

/// When a picture was captured, and its time stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PictureTime {
    /// What the program's clock says at its first byte: of [`Muxer`](super::Muxer) the time of capture.
    pub captured: Ticks,
    /// Its time stamp on the wire.
    pub pts: Ticks,
}

/// Puts a stream of data into the packets that pass.
#[derive(Clone, Debug)]
pub struct DataInserter {
    kind: DataKind,
    tables: SectionReader,
    map: SectionReader,
    map_pid: Option<u16>,
    map_continuity: u8,
    video_pid: Option<u16>,
    writer: Option<DataWriter>,
    /// Of the newest picture: the clock's base and the time stamp, 33 bits each.
    picture: Option<(u64, u64)>,
}

impl DataInserter {
    /// An inserter before the first packet.
    pub fn new(kind: DataKind) -> DataInserter {
        DataInserter {
            kind,
            tables: SectionReader::new(),
            map: SectionReader::new(),
            map_pid: None,
            map_continuity: 0,
            video_pid: None,
            writer: None,
            picture: None,
        }
    }

    /// Whether the program map has been written, so that data may follow.
    pub fn is_announced(&self) -> bool {
        self.writer.is_some()
    }

    /// Appends `packets`, which are whole ones, with the program map that has the stream.
    pub fn pass(&mut self, packets: &[u8], out: &mut Vec<u8>) {
        for bytes in packet::packets(packets) {
            if let Ok(packet) = Packet::parse(bytes)
                && self.take(&packet, out)
            {
                continue;
            }
            out.extend_from_slice(bytes);
        }
    }

    /// Appends a unit as [`DataWriter::write`] does; nothing before [`DataInserter::is_announced`].
    pub fn write(&mut self, data: &[u8], pts: Ticks, out: &mut Vec<u8>) {
        if let Some(writer) = &mut self.writer {
            writer.write(data, Some(pts), out);
        }
    }

    /// The newest picture that has begun, its times unwrapped to what is nearest to `reference`.
    pub fn picture(&self, reference: Ticks) -> Option<PictureTime> {
        let (captured, pts) = self.picture?;
        let captured = Ticks::unwrap_near(captured, reference);
        Some(PictureTime { captured, pts: Ticks::unwrap_near(pts, captured) })
    }

    /// Looks at a packet. Returns whether something was written in its place.
    fn take(&mut self, packet: &Packet<'_>, out: &mut Vec<u8>) -> bool {
        if packet.pid == PAT_PID {
            let map_pid = &mut self.map_pid;
            self.tables.push(packet.payload, packet.unit_start, &mut |section, _| {
                let program = Pat::parse(section)
                    .ok()
                    .and_then(|pat| pat.programs.into_iter().find(|(number, _)| *number != 0));
                *map_pid = program.map(|(_, pid)| pid);
            });
            return false;
        }
        if Some(packet.pid) == self.map_pid {
            let mut maps = Vec::new();
            self.map.push(packet.payload, packet.unit_start, &mut |section, _| {
                maps.extend(Pmt::parse(section));
            });
            maps.into_iter().for_each(|map| self.write_map(packet.pid, map, out));
            return true;
        }
        if Some(packet.pid) == self.video_pid
            && packet.unit_start
            && let Ok(PesHeader { pts: Some(pts), dts, .. }) = PesHeader::parse(packet.payload)
        {
            let captured = packet.pcr().map_or(dts.unwrap_or(pts), |clock| clock.base());
            self.picture = Some((captured, pts));
        }
        false
    }

    fn write_map(&mut self, map_pid: u16, mut map: Pmt, out: &mut Vec<u8>) {
        let (kind, taken) = (self.kind, |pid: u16| {
            pid == map_pid || pid == map.pcr_pid || map.streams.iter().any(|stream| stream.pid == pid)
        });
        let first_free = || (FIRST_PID..NULL_PID).find(|pid| !taken(*pid)).unwrap_or(FIRST_PID);
        let writer = self.writer.get_or_insert_with(|| DataWriter::new(first_free(), kind));
        self.video_pid = map.streams.iter().find(|stream| stream.is_video()).map(|stream| stream.pid);
        map.streams.push(writer.announced());
        let mut section = Vec::new();
        map.write(&mut section);
        psi::write_packets(map_pid, &section, &mut self.map_continuity, out);
    }
}

#[cfg(test)]
#[path = "insert_tests.rs"]
mod tests;
