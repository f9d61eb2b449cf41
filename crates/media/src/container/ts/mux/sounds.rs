//! Further sounds of a program: other languages, commentary.

use super::{AudioFormat, Muxer, Stream, UnitHead, audio_stream, unit_prefix};
use crate::access_unit::AccessUnit;
use crate::container::ts::Error;
use crate::container::ts::packet::NULL_PID;
use crate::container::ts::packetize::{Field, packetize};
use crate::container::ts::pes::write_header;
use crate::container::ts::psi::ElementaryStream;

impl Muxer {
    /// Adds another sound to a program that has one, on the PID behind the last one. Returns what [`Muxer::write_sound`] calls it by: 1 is
    /// the first of them. Where the tables are on the wire already, those in front of the next unit have another version.
    ///
    /// # Errors
    /// Those of [`Muxer::new`] about sound; [`Error::NoStream`] where the program has no sound, or no PID is left;
    /// [`Error::ConstantRate`] at a constant rate.
    pub fn add_sound(&mut self, format: AudioFormat) -> Result<usize, Error> {
        if self.shaper.is_some() {
            return Err(Error::ConstantRate);
        }
        let (stream_type, stream_id, descriptors) = audio_stream(format)?;
        let Some(first) = &self.audio else { return Err(Error::NoStream) };
        let last = self.further.last().map_or(first.pid, |stream| stream.pid);
        let is_taken =
            |pid: &u16| *pid == self.map_pid || self.program.streams.iter().any(|it| it.pid == *pid);
        let mut pids = last.saturating_add(1)..NULL_PID;
        let pid = pids.find(|pid| !is_taken(pid)).ok_or(Error::NoStream)?;
        self.further.push(Stream { pid, codec: format.codec, stream_id, continuity: 0 });
        self.program.streams.push(ElementaryStream::new(pid, stream_type, descriptors));
        if self.tables_at.take().is_some() {
            self.program.version = (self.program.version + 1) % 32;
        }
        self.pmt.clear();
        self.program.write(&mut self.pmt);
        Ok(self.further.len())
    }

    /// Appends the packets of a unit of sound `which`: 0 is the program's first.
    ///
    /// # Errors
    /// [`Error::Codec`] for a unit of another codec, or of a sound that the program does not have; nothing is written then.
    pub fn write_sound(&mut self, which: usize, unit: &AccessUnit, out: &mut Vec<u8>) -> Result<(), Error> {
        let Some(index) = which.checked_sub(1) else { return self.write(unit, out) };
        let is_it = |stream: &Stream| stream.codec == unit.codec;
        if !self.further.get(index).is_some_and(is_it) {
            let expected = "a sound of the program";
            return Err(Error::Codec { what: "access unit", found: unit.codec, expected });
        }
        let head = UnitHead::of(unit);
        let jump = self.advance(head.dts);
        if jump || self.tables_due() {
            self.append_tables(out);
        }
        let Some(stream) = self.further.get_mut(index) else { return Ok(()) };
        let (prefix, delay) = (unit_prefix(unit), self.settings.decode_delay);
        let bytes = prefix.len() + unit.data.len();
        self.head.clear();
        write_header(stream.stream_id, head.pts + delay, head.dts + delay, bytes, &mut self.head);
        self.head.extend_from_slice(&prefix);
        let field = Field { discontinuity: false, random_access: false, pcr: None };
        packetize(stream.pid, &mut stream.continuity, field, [&self.head, &unit.data, &[]], out);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::ts::packet::packets;
    use crate::container::ts::{Demuxer, Event, MuxSettings, Scanner};
    use crate::{Codec, Stamps, Ticks};
    use bytes::Bytes;

    fn unit(codec: Codec, dts: i64, byte: u8) -> AccessUnit {
        let data = match codec {
            // An access unit delimiter and a slice: pictures are found by their NAL units.
            Codec::H264 => vec![0, 0, 0, 1, 9, 0xf0, 0, 0, 0, 1, 0x65, 0x88, byte, byte],
            _ => vec![0xfc, byte, byte, byte],
        };
        let data = Bytes::from(data);
        let pts = Ticks(dts);
        AccessUnit { codec, data, pts, dts: pts, random_access: false, stamps: Stamps::default() }
    }

    const OPUS: AudioFormat =
        AudioFormat { codec: Codec::Opus, channels: 2, language: Some(*b"deu"), he_aac: None };

    fn both() -> Muxer {
        let settings = MuxSettings { video: Some(Codec::H264), audio: Some(OPUS), ..MuxSettings::default() };
        Muxer::new(settings).unwrap()
    }

    #[test]
    fn each_sound_has_a_pid_and_its_own_units() {
        let mut muxer = both();
        let english = AudioFormat { language: Some(*b"eng"), ..OPUS };
        assert_eq!(muxer.add_sound(english), Ok(1));
        assert_eq!(muxer.add_sound(OPUS), Ok(2));
        let mut out = Vec::new();
        for frame in 0..20 {
            muxer.write(&unit(Codec::H264, frame * 3600, 1), &mut out).unwrap();
            for which in 0..3 {
                muxer
                    .write_sound(which, &unit(Codec::Opus, frame * 3600, which as u8 + 10), &mut out)
                    .unwrap();
            }
        }
        let mut scanner = Scanner::new();
        packets(&out).for_each(|packet| _ = scanner.scan(packet));
        assert_eq!(scanner.continuity_errors(), 0);
        let program = scanner.program().unwrap();
        assert_eq!((program.version, program.pcr_pid), (0, super::super::VIDEO_PID));
        let pids: Vec<u16> = program.streams.iter().map(|stream| stream.pid).collect();
        assert_eq!(pids, [0x100, 0x101, 0x102, 0x103]);
        let mut demuxer = Demuxer::new();
        demuxer.push(&out);
        demuxer.finish();
        let mut found = [0; 4];
        while let Some(event) = demuxer.poll() {
            if let Event::AccessUnit { pid, unit, .. } = event {
                let at = usize::from(pid - 0x100);
                found[at] += 1;
                assert!(at == 0 || unit.data.ends_with(&[at as u8 + 9; 3]), "{pid:x} {:?}", unit.data);
            }
        }
        assert_eq!(found, [20; 4]);
    }

    #[test]
    fn one_that_begins_later_is_in_other_tables_and_what_joins_the_program_leaves_it_there() {
        let mut muxer = Muxer::new(MuxSettings { audio: Some(OPUS), ..MuxSettings::default() }).unwrap();
        let mut out = Vec::new();
        muxer.write(&unit(Codec::Opus, 0, 1), &mut out).unwrap();
        muxer.add_sound(OPUS).unwrap();
        muxer.write_sound(1, &unit(Codec::Opus, 1800, 2), &mut out).unwrap();
        muxer.add(Some(Codec::H264), None, &mut out).unwrap();
        muxer.write(&unit(Codec::H264, 3600, 3), &mut out).unwrap();
        muxer.write_sound(1, &unit(Codec::Opus, 3600, 4), &mut out).unwrap();
        let mut scanner = Scanner::new();
        packets(&out).for_each(|packet| _ = scanner.scan(packet));
        let program = scanner.program().unwrap();
        let pids: Vec<u16> = program.streams.iter().map(|stream| stream.pid).collect();
        assert_eq!((program.version, pids), (2, vec![0x100, 0x101, 0x102]));
        assert_eq!(scanner.continuity_errors(), 0);
    }

    #[test]
    fn what_no_program_can_have_is_refused() {
        let mut silent =
            Muxer::new(MuxSettings { video: Some(Codec::H264), ..MuxSettings::default() }).unwrap();
        assert_eq!(silent.add_sound(OPUS), Err(Error::NoStream));
        let mut muxer = both();
        assert!(muxer.add_sound(AudioFormat { channels: 9, ..OPUS }).is_err());
        assert!(muxer.write_sound(1, &unit(Codec::Opus, 0, 1), &mut Vec::new()).is_err());
        muxer.add_sound(OPUS).unwrap();
        let mut out = Vec::new();
        assert!(muxer.write_sound(1, &unit(Codec::Aac, 0, 1), &mut out).is_err() && out.is_empty());
    }
}
