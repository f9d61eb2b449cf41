//! A stream that joins a program which is on the wire already.

use super::{AudioFormat, MuxSettings, Muxer};
use crate::access_unit::Codec;
use crate::container::ts::{ElementaryStream, Error};

impl Muxer {
    /// Adds pictures or sound to a program that has none: the tables in front of the next unit have another version (ISO/IEC 13818-1
    /// §2.4.4.9) and name it. What the program has already stays as it is; the clock moves to pictures where they are added.
    /// Appends the end of an open unit.
    ///
    /// # Errors
    /// Those of [`Muxer::new`]; [`Error::ConstantRate`] at a constant rate, which is made for the streams of the beginning. The
    /// program is as it was then.
    pub fn add(
        &mut self,
        video: Option<Codec>,
        audio: Option<AudioFormat>,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let video = self.settings.video.or(video);
        let audio = self.settings.audio.or(audio);
        if (video, audio) == (self.settings.video, self.settings.audio) {
            return Ok(());
        }
        if self.shaper.is_some() {
            return Err(Error::ConstantRate);
        }
        let table_version = (self.program.version % 32).wrapping_add(1) % 32;
        let mut added = Muxer::new(MuxSettings { video, audio, table_version, ..self.settings.clone() })?;
        self.end(out);
        for stream in &mut added.program.streams {
            // Of AV1 the descriptors say more than the codec.
            if let Some(known) = self.program.streams.iter().find(|known| known.pid == stream.pid) {
                *stream = known.clone();
            }
        }
        let is_further = |stream: &&ElementaryStream| self.further.iter().any(|it| it.pid == stream.pid);
        added.program.streams.extend(self.program.streams.iter().filter(is_further).cloned());
        added.pmt.clear();
        added.program.write(&mut added.pmt);
        self.video = self.video.take().or(added.video);
        self.audio = self.audio.take().or(added.audio);
        (self.program, self.pmt, self.settings) = (added.program, added.pmt, added.settings);
        self.tables_at = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::ts::packet::packets;
    use crate::container::ts::{ConstantRate, Demuxer, Event, Scanner};
    use crate::{AccessUnit, Stamps, Ticks};
    use bytes::Bytes;

    fn unit(codec: Codec, dts: i64) -> AccessUnit {
        let data = Bytes::from_static(&[0xfc, 0x55, 0x55, 0x55]);
        let (pts, stamps) = (Ticks(dts), Stamps::default());
        AccessUnit { codec, data, pts, dts: pts, random_access: false, stamps }
    }

    const OPUS: AudioFormat = AudioFormat { codec: Codec::Opus, channels: 2, language: None, he_aac: None };

    #[test]
    fn sound_that_begins_later_is_in_tables_of_another_version() {
        let settings = MuxSettings { video: Some(Codec::H264), table_version: 31, ..MuxSettings::default() };
        let mut muxer = Muxer::new(settings).unwrap();
        let (mut out, mut scanner) = (Vec::new(), Scanner::new());
        for frame in 0..4 {
            muxer.write(&unit(Codec::H264, frame * 3600), &mut out).unwrap();
        }
        packets(&out).for_each(|packet| _ = scanner.scan(packet));
        assert_eq!(scanner.program().unwrap().version, 31);
        muxer.add(None, Some(OPUS), &mut out).unwrap();
        for frame in 4..8 {
            muxer.write(&unit(Codec::Opus, frame * 3600), &mut out).unwrap();
            muxer.write(&unit(Codec::H264, frame * 3600), &mut out).unwrap();
        }
        let mut scanner = Scanner::new();
        packets(&out).for_each(|packet| _ = scanner.scan(packet));
        assert_eq!(scanner.continuity_errors(), 0);
        let program = scanner.program().unwrap();
        assert_eq!((program.version, program.streams.len()), (0, 2));
        let mut demuxer = Demuxer::new();
        demuxer.push(&out);
        demuxer.finish();
        let mut sounds = 0;
        while let Some(event) = demuxer.poll() {
            sounds +=
                usize::from(matches!(event, Event::AccessUnit { unit, .. } if unit.codec == Codec::Opus));
        }
        assert_eq!(sounds, 4);
    }

    #[test]
    fn pictures_that_begin_later_bring_the_clock() {
        let mut muxer = Muxer::new(MuxSettings { audio: Some(OPUS), ..MuxSettings::default() }).unwrap();
        let mut out = Vec::new();
        muxer.write(&unit(Codec::Opus, 0), &mut out).unwrap();
        muxer.add(Some(Codec::H264), None, &mut out).unwrap();
        muxer.write(&unit(Codec::H264, 1800), &mut out).unwrap();
        let mut scanner = Scanner::new();
        packets(&out).for_each(|packet| _ = scanner.scan(packet));
        assert_eq!(scanner.program().unwrap().pcr_pid, super::super::VIDEO_PID);
        assert_eq!(scanner.continuity_errors(), 0);
    }

    #[test]
    fn what_cannot_be_added_changes_nothing() {
        let mut muxer =
            Muxer::new(MuxSettings { video: Some(Codec::H264), ..MuxSettings::default() }).unwrap();
        let mut out = Vec::new();
        muxer.write(&unit(Codec::H264, 0), &mut out).unwrap();
        let pictures = AudioFormat { codec: Codec::H264, ..OPUS };
        assert!(matches!(muxer.add(None, Some(pictures), &mut out), Err(Error::Codec { .. })));
        assert!(muxer.write(&unit(Codec::Opus, 0), &mut out).is_err());
        muxer.add(None, None, &mut out).unwrap();
        assert_eq!(muxer.program.version, 0);
        let frame_rate = crate::time::FrameRate::new(25, 1).unwrap();
        let constant_rate = Some(ConstantRate { mux_rate_bps: 8_000_000, frame_rate });
        let settings = MuxSettings { video: Some(Codec::H264), constant_rate, ..MuxSettings::default() };
        let mut muxer = Muxer::new(settings).unwrap();
        assert_eq!(muxer.add(None, Some(OPUS), &mut out), Err(Error::ConstantRate));
    }
}
