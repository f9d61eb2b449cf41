//! One picture on its way out: each slice is muxed and written as soon as x264 has finished it, while it is still at
//! the next ones.

use super::{Error, Result};
use crate::output::{Demand, Output, Packets};
use glassline_codec::h264::x264::NalUnit;
use glassline_io::clock::Clock;
use glassline_media::bitstream::h264::NalType;
use glassline_media::container::ts::{Muxer, UnitHead};
use glassline_media::{AccessUnit, Codec, Stage, Stamps, Ticks, Time};
use std::time::Duration;

/// Muxes and writes the NAL units of one picture. Called on x264's threads.
pub(super) struct PictureWriter<'a> {
    muxer: &'a mut Muxer,
    packets: &'a mut Vec<u8>,
    output: &'a mut dyn Output,
    clock: Clock,
    times: UnitTimes,
    /// What it has passed so far.
    stamps: Stamps,
    /// What comes before the first slice, and leaves with it: it is there at once and tells what the picture is.
    head: Vec<u8>,
    begun: bool,
    random_access: bool,
    ended: bool,
    demand: Demand,
    failed: Option<Error>,
    bytes: usize,
    /// Time in muxer and outputs before the last slice came.
    outside: Duration,
}

/// When a picture is presented and decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnitTimes {
    pub(super) pts: Ticks,
    pub(super) dts: Ticks,
}

impl UnitTimes {
    /// Of a picture that waits for no other.
    pub(super) const fn same(pts: Ticks) -> UnitTimes {
        UnitTimes { pts, dts: pts }
    }
}

/// What became of a picture, once all of it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Written {
    /// When it passed what, from capture until the outputs were done with its last packets. The last slice is that, or the filler
    /// behind it.
    pub(super) stamps: Stamps,
    /// How long x264's thread was kept by muxer and outputs before the last slice.
    pub(super) outside: Duration,
    /// Bytes of transport stream.
    pub(super) bytes: usize,
    /// What the outputs want.
    pub(super) demand: Demand,
}

impl<'a> PictureWriter<'a> {
    pub(super) fn new(
        muxer: &'a mut Muxer,
        packets: &'a mut Vec<u8>,
        output: &'a mut dyn Output,
        clock: Clock,
        times: UnitTimes,
        stamps: Stamps,
    ) -> PictureWriter<'a> {
        PictureWriter {
            muxer,
            packets,
            output,
            clock,
            times,
            stamps,
            head: Vec::new(),
            begun: false,
            random_access: false,
            ended: false,
            demand: Demand::Nothing,
            failed: None,
            bytes: 0,
            outside: Duration::ZERO,
        }
    }

    /// Takes the picture's next NAL unit. After a failure of the output nothing more is written.
    pub(super) fn take(&mut self, unit: &NalUnit<'_>) {
        if self.failed.is_some() {
            return;
        }
        if !self.begun && !unit.kind.is_slice() {
            self.random_access |= unit.kind == NalType::Sps;
            self.head.extend_from_slice(unit.bytes);
            return;
        }
        let given = self.clock.now();
        self.set_first(Stage::FirstSlice, given);
        self.stamps.set(Stage::Encoded, given);
        if let Err(error) = self.write(unit) {
            self.failed = Some(error);
        }
        if !unit.last {
            self.outside += self.clock.now().since(given);
        }
    }

    /// Takes the whole of a picture at once.
    pub(super) fn take_whole(&mut self, data: Vec<u8>, random_access: bool) {
        let given = self.clock.now();
        self.set_first(Stage::FirstSlice, given);
        self.stamps.set(Stage::Encoded, given);
        self.random_access = random_access;
        self.packets.clear();
        let written = self.write_whole(data).and_then(|()| {
            self.begun = true;
            self.send(random_access, true)
        });
        self.failed = written.err();
    }

    /// Its length can be told.
    fn write_whole(&mut self, data: Vec<u8>) -> Result<()> {
        let UnitTimes { pts, dts } = self.times;
        let (stamps, random_access) = (self.stamps, self.random_access);
        let unit = AccessUnit { codec: Codec::H264, data: data.into(), pts, dts, random_access, stamps };
        self.muxer.fill_up(dts, self.packets);
        Ok(self.muxer.write(&unit, self.packets)?)
    }

    /// Only the first call for a stage counts.
    fn set_first(&mut self, stage: Stage, now: Time) {
        if self.stamps.at(stage).is_none() {
            self.stamps.set(stage, now);
        }
    }

    /// Writes a packet of sound that came meanwhile, between two slices: it does not wait for the picture's end.
    pub(super) fn take_sound(&mut self, unit: &AccessUnit) {
        if self.failed.is_some() {
            return;
        }
        self.packets.clear();
        let written = self.muxer.write(unit, self.packets).map_err(Error::from).and_then(|()| {
            let ends_picture = !self.begun || self.ended;
            self.bytes += self.packets.len();
            // At a constant rate sound waits for its place.
            if self.packets.is_empty() {
                return Ok(Demand::Nothing);
            }
            Ok(self.output.write(&Packets { bytes: self.packets, joinable: false, ends_picture })?)
        });
        match written {
            Ok(Demand::KeyFrame) => self.demand = Demand::KeyFrame,
            Ok(Demand::Nothing) => {}
            Err(error) => self.failed = Some(error),
        }
    }

    fn write(&mut self, unit: &NalUnit<'_>) -> Result<()> {
        self.packets.clear();
        let UnitTimes { pts, dts } = self.times;
        let (stamps, random_access) = (self.stamps, self.random_access);
        let joinable = random_access && !self.begun;
        if !self.begun && unit.last {
            self.head.extend_from_slice(unit.bytes);
            let data = std::mem::take(&mut self.head);
            self.write_whole(data)?;
        } else {
            if !self.begun {
                let captured = stamps.at(Stage::Captured);
                self.muxer.fill_up(dts, self.packets);
                self.muxer.begin(&UnitHead { pts, dts, random_access, captured }, self.packets)?;
                self.muxer.slice(&self.head, self.packets);
            }
            self.muxer.slice(unit.bytes, self.packets);
            if unit.last {
                self.muxer.end(self.packets);
            }
        }
        self.begun = true;
        self.send(joinable, unit.last)
    }

    fn send(&mut self, joinable: bool, ends_picture: bool) -> Result<()> {
        self.stamps.set(Stage::Muxed, self.clock.now());
        self.ended = ends_picture;
        self.bytes += self.packets.len();
        if self.packets.is_empty() && !ends_picture {
            return Ok(());
        }
        if self.output.write(&Packets { bytes: self.packets, joinable, ends_picture })? == Demand::KeyFrame {
            self.demand = Demand::KeyFrame;
        }
        let sent = self.clock.now();
        self.set_first(Stage::FirstSent, sent);
        self.stamps.set(Stage::Sent, sent);
        Ok(())
    }

    /// x264 has given all that it has. `None` where that was no slice at all.
    ///
    /// # Errors
    /// The output's.
    pub(super) fn finish(mut self) -> Result<Option<Written>> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if self.begun && !self.ended {
            self.packets.clear();
            self.muxer.end(self.packets);
            self.send(false, true)?;
        }
        let PictureWriter { stamps, outside, bytes, demand, .. } = self;
        Ok(stamps.at(Stage::Sent).map(|_| Written { stamps, outside, bytes, demand }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output;
    use bytes::Bytes;
    use glassline_media::bitstream::h264;
    use glassline_media::container::ts::{AudioFormat, Demuxer, Event, MuxSettings, PACKET_BYTES};

    const SLICE: [u8; 5] = [0, 0, 1, 0x65, 0x88];
    /// One that is not its picture's first.
    const LATER: [u8; 5] = [0, 0, 1, 0x65, 0x42];

    /// Bytes, whether a viewer can join there, whether it ends a picture.
    type Got = Vec<(Vec<u8>, bool, bool)>;

    /// Writes units (kind, bytes, whether last) and gives what the sink got, and the result.
    fn write(units: &[(NalType, &[u8], bool)], fail: bool) -> (Got, Result<Option<Written>>) {
        let mut muxer =
            Muxer::new(MuxSettings { video: Some(Codec::H264), ..MuxSettings::default() }).unwrap();
        let mut got = Vec::new();
        let mut output = |packets: &Packets<'_>| {
            got.push((packets.bytes.to_vec(), packets.joinable, packets.ends_picture));
            if fail { Err(output::Error::ReaderGone) } else { Ok(Demand::KeyFrame) }
        };
        let mut packets = Vec::new();
        let mut writer = PictureWriter::new(
            &mut muxer,
            &mut packets,
            &mut output,
            Clock::new(),
            UnitTimes::same(Ticks(900)),
            Stamps::default(),
        );
        for &(kind, bytes, last) in units {
            writer.take(&NalUnit { bytes, kind, last });
        }
        let written = writer.finish();
        (got, written)
    }

    fn units(got: &[(Vec<u8>, bool, bool)]) -> Vec<AccessUnit> {
        let mut demuxer = Demuxer::new();
        got.iter().for_each(|(bytes, ..)| demuxer.push(bytes));
        std::iter::from_fn(|| demuxer.poll())
            .filter_map(|event| match event {
                Event::AccessUnit { unit, .. } => Some(unit),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn each_slice_leaves_and_the_last_says_so() {
        let head = [0, 0, 0, 1, 9, 0xf0];
        let sps = [0, 0, 0, 1, 0x67, 1];
        let large = [&SLICE[..], &[7; 1000]].concat();
        let later = [&LATER[..], &[7; 1000]].concat();
        let given = [
            (NalType::AccessUnitDelimiter, &head[..], false),
            (NalType::Sps, &sps[..], false),
            (NalType::Idr, &large[..], false),
            (NalType::Idr, &LATER[..], false),
            (NalType::Idr, &later[..], true),
        ];
        let (got, written) = write(&given, false);
        let written = written.unwrap().unwrap();
        // The second slice fills no packet: it leaves with the third.
        let flags: Vec<_> = got.iter().map(|&(_, joinable, ends)| (joinable, ends)).collect();
        assert_eq!(flags, [(true, false), (false, true)]);
        assert!(got.iter().all(|(bytes, ..)| bytes.len().is_multiple_of(PACKET_BYTES)));
        let found = units(&got);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].data, [&head[..], &sps, &large, &LATER, &later].concat());
        assert!(found[0].random_access);
        assert_eq!(written.demand, Demand::KeyFrame);
        assert_eq!(written.bytes, got.iter().map(|(bytes, ..)| bytes.len()).sum::<usize>());
        let order = [Stage::FirstSlice, Stage::FirstSent, Stage::Encoded, Stage::Muxed, Stage::Sent]
            .map(|stage| written.stamps.at(stage).unwrap_or_else(|| panic!("{stage:?} was not passed")));
        assert!(order.is_sorted(), "{order:?}");
    }

    #[test]
    fn one_slice_is_written_with_its_length_and_an_end_that_is_missing_is_made() {
        let (got, _) = write(&[(NalType::Slice, &SLICE, true)], false);
        let at = got[0].0.windows(4).position(|window| window == [0, 0, 1, 0xe0]).unwrap();
        assert_ne!(got[0].0[at + 4..at + 6], [0, 0]);
        let (got, _) = write(&[(NalType::Slice, &SLICE, false)], false);
        assert!(got.last().unwrap().2);
        assert_eq!(units(&got).len(), 1);
        assert!(write(&[(NalType::Sps, &SLICE, false)], false).1.unwrap().is_none());
    }

    #[test]
    fn sound_leaves_between_two_slices() {
        let audio = Some(AudioFormat { codec: Codec::Opus, channels: 2, language: None, he_aac: None });
        let program = MuxSettings { video: Some(Codec::H264), audio, ..MuxSettings::default() };
        let mut muxer = Muxer::new(program).unwrap();
        let large = [&SLICE[..], &[7; 1000]].concat();
        let later = [&LATER[..], &[7; 1000]].concat();
        let data = Bytes::from_static(&[0xfc, 1, 2]);
        let (pts, stamps) = (Ticks(450), Stamps::default());
        let sound = AccessUnit { codec: Codec::Opus, data, pts, dts: pts, random_access: true, stamps };
        let mut got: Got = Vec::new();
        let mut output = |packets: &Packets<'_>| {
            got.push((packets.bytes.to_vec(), packets.joinable, packets.ends_picture));
            Ok(Demand::Nothing)
        };
        let mut packets = Vec::new();
        let mut writer = PictureWriter::new(
            &mut muxer,
            &mut packets,
            &mut output,
            Clock::new(),
            UnitTimes::same(Ticks(900)),
            Stamps::default(),
        );
        writer.take_sound(&sound);
        writer.take(&NalUnit { kind: NalType::Idr, bytes: &large, last: false });
        writer.take_sound(&AccessUnit { pts: Ticks(900), dts: Ticks(900), ..sound.clone() });
        writer.take(&NalUnit { kind: NalType::Idr, bytes: &later, last: true });
        writer.finish().unwrap();
        assert_eq!(got.iter().map(|&(.., ends)| ends).collect::<Vec<_>>(), [true, false, false, true]);
        let found = units(&got);
        let codecs: Vec<_> = found.iter().map(|unit| unit.codec).collect();
        assert_eq!(codecs, [Codec::Opus, Codec::Opus, Codec::H264]);
        assert_eq!(found[2].data.len(), h264::ACCESS_UNIT_DELIMITER.len() + 2 * large.len());
    }

    #[test]
    fn a_sink_that_fails_gets_nothing_more() {
        let large = [&SLICE[..], &[7; 1000]].concat();
        let (got, written) = write(&[(NalType::Slice, &large, false), (NalType::Slice, &large, true)], true);
        assert_eq!(got.len(), 1);
        assert_eq!(written.unwrap_err().to_string(), output::Error::ReaderGone.to_string());
    }
}
