//! Files of access units out of the transport stream: fragmented MP4 and WebM.

use super::file::Pieces;
use super::{Demand, Error, Output, Packets, Result, StatusHandle};
use glassline_media::AccessUnit;
use glassline_media::container::cmaf::{self, Patch};
use glassline_media::container::ts::{Demuxer, Event, Program};
use glassline_media::container::webm::mux as webm;
use std::path::Path;

/// What the file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Container {
    /// Fragmented MP4: a fragment for each group of pictures.
    Mp4,
    /// WebM of AV1 and Opus, block by block.
    WebM,
}

enum Recorder {
    Mp4(cmaf::Recorder),
    WebM(webm::Recorder),
}

impl Container {
    fn recorder(self, program: &Program) -> Recorder {
        let mut streams = program.streams.iter();
        let has_sound = streams.any(|stream| stream.codec.is_some_and(|codec| !codec.is_video()));
        match self {
            Container::Mp4 => Recorder::Mp4(cmaf::Recorder::new(has_sound)),
            Container::WebM => Recorder::WebM(webm::Recorder::new(has_sound)),
        }
    }
}

impl Recorder {
    fn push(&mut self, unit: &AccessUnit, name: &str, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Recorder::Mp4(recorder) => recorder.push(unit, out).map_err(in_mp4(name)),
            Recorder::WebM(recorder) => recorder.push(unit, out).map_err(in_webm(name)),
        }
    }

    /// Ends the file; returns what to put in the place of earlier bytes.
    fn finish(&mut self, name: &str, out: &mut Vec<u8>) -> Result<Option<Patch>> {
        match self {
            Recorder::Mp4(recorder) => recorder.finish(out).map_err(in_mp4(name)),
            Recorder::WebM(recorder) => recorder.finish(out).map(|()| None).map_err(in_webm(name)),
        }
    }

    fn poll_patch(&mut self) -> Option<Patch> {
        match self {
            Recorder::Mp4(_) => None,
            Recorder::WebM(recorder) => recorder.poll_patch(),
        }
    }
}

fn in_mp4(name: &str) -> impl FnOnce(cmaf::Error) -> Error {
    move |error| Error::Record { name: name.to_owned(), error }
}

fn in_webm(name: &str) -> impl FnOnce(webm::Error) -> Error {
    move |error| Error::RecordWebm { name: name.to_owned(), error }
}

/// A file of the access units out of the packets.
pub(super) struct RecordedFile {
    pieces: Pieces,
    container: Container,
    demuxer: Demuxer,
    recorder: Option<Recorder>,
    bytes: Vec<u8>,
}

impl RecordedFile {
    pub(super) fn create(path: &Path, container: Container, status: StatusHandle) -> Result<RecordedFile> {
        let pieces = Pieces::create(path, status)?;
        Ok(RecordedFile { pieces, container, demuxer: Demuxer::new(), recorder: None, bytes: Vec::new() })
    }

    fn record(&mut self) -> Result<()> {
        while let Some(event) = self.demuxer.poll() {
            match event {
                Event::Program(program) => {
                    self.recorder.get_or_insert_with(|| self.container.recorder(&program));
                }
                Event::AccessUnit { unit, .. } => {
                    if let Some(recorder) = &mut self.recorder {
                        recorder.push(&unit, self.pieces.status.name(), &mut self.bytes)?;
                    }
                }
                Event::Data { .. } | Event::Pcr { .. } => {}
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        // Whole fragments, or blocks.
        let appended = self.pieces.append(&self.bytes);
        self.bytes.clear();
        appended?;
        while let Some(patch) = self.recorder.as_mut().and_then(Recorder::poll_patch) {
            self.pieces.patch(&patch)?;
        }
        Ok(())
    }
}

impl Output for RecordedFile {
    fn write(&mut self, packets: &Packets<'_>) -> Result<Demand> {
        self.demuxer.push(packets.bytes);
        let recorded = self.record();
        self.flush()?;
        recorded?;
        Ok(Demand::Nothing)
    }

    fn finish(&mut self) -> Result<()> {
        self.demuxer.finish();
        let recorded = self.record();
        let name = self.pieces.status.name().to_owned();
        let finished = self.recorder.as_mut().map(|recorder| recorder.finish(&name, &mut self.bytes));
        self.flush()?;
        recorded?;
        match finished.transpose()?.flatten() {
            Some(patch) => self.pieces.patch(&patch),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::container::ts::{AudioFormat, MuxSettings, Muxer, PACKET_BYTES};
    use glassline_media::container::webm::demux;
    use glassline_media::{Codec, Stamps, Ticks};
    use glassline_test_support::program::Scratch;
    use std::path::PathBuf;

    const ALL: [Container; 2] = [Container::Mp4, Container::WebM];

    fn open(scratch: &Scratch, container: Container) -> (RecordedFile, PathBuf) {
        let path = scratch.path().join(format!("{container:?}"));
        (RecordedFile::create(&path, container, StatusHandle::new("a film")).unwrap(), path)
    }

    #[test]
    fn a_recording_of_nothing_but_filler_is_an_empty_file_and_no_failure() {
        let scratch = Scratch::new("recorded-nothing");
        let mut packet = [0xff; PACKET_BYTES];
        packet[..4].copy_from_slice(&[0x47, 0x1f, 0xff, 0x10]);
        for container in ALL {
            let (mut file, path) = open(&scratch, container);
            file.write(&Packets::whole(&packet.repeat(100), true)).unwrap();
            file.finish().unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), [0; 0]);
        }
    }

    /// A temporal unit of AV1, 320×180, behind start codes.
    fn picture(number: i64) -> AccessUnit {
        let sequence = b"\0\0\x01\x0a\x0b\0\0\0\x04\x3c\xfe\xcc\xfb\xf9\0\x40";
        let key = number == 0;
        let frame: &[u8] =
            if key { b"\0\0\x01\x32\x03\x10\x07\x80" } else { b"\0\0\x01\x32\x03\x30\x07\x80" };
        let sequence: &[u8] = if key { sequence } else { &[] };
        unit(Codec::Av1, [b"\0\0\x01\x12\0", sequence, frame].concat(), number * 3600, key)
    }

    fn unit(codec: Codec, data: Vec<u8>, pts: i64, random_access: bool) -> AccessUnit {
        let (pts, dts) = (Ticks(pts), Ticks(pts));
        AccessUnit { codec, data: data.into(), pts, dts, random_access, stamps: Stamps::default() }
    }

    /// Half a minute of pictures and sound in packets, a picture each time.
    fn film() -> Vec<Vec<u8>> {
        let audio = AudioFormat { codec: Codec::Opus, channels: 2, language: None, he_aac: None };
        let settings = MuxSettings { video: Some(Codec::Av1), audio: Some(audio), ..MuxSettings::default() };
        let mut muxer = Muxer::new(settings).unwrap();
        let mut film = vec![Vec::new(); 750];
        for (number, packets) in (0..).zip(&mut film) {
            muxer.write(&picture(number), packets).unwrap();
            for half in 0..2 {
                let sound = unit(Codec::Opus, vec![0xfc, 1, 2], number * 3600 + half * 1800, true);
                muxer.write(&sound, packets).unwrap();
            }
        }
        film.push(Vec::new());
        muxer.finish(&mut film[750]);
        film
    }

    /// How many pictures and packets of sound a WebM file has.
    fn counts(bytes: &[u8]) -> [usize; 2] {
        let mut demuxer = demux::Demuxer::new();
        demuxer.push(bytes).unwrap();
        demuxer.finish();
        let mut counts = [0; 2];
        while let Some(event) = demuxer.poll() {
            if let demux::Event::AccessUnit { unit, .. } = event {
                counts[usize::from(unit.codec == Codec::Opus)] += 1;
            }
        }
        assert_eq!(demuxer.counters().damaged_blocks, 0);
        counts
    }

    #[test]
    fn a_webm_file_is_there_picture_by_picture_and_ends_with_its_sizes() {
        let scratch = Scratch::new("recorded-webm");
        let (mut file, path) = open(&scratch, Container::WebM);
        for (number, packets) in film().iter().enumerate() {
            file.write(&Packets::whole(packets, number == 0)).unwrap();
            if number % 100 == 99 {
                // The last ones may wait for the other track.
                let [pictures, sounds] = counts(&std::fs::read(&path).unwrap());
                assert!((number - 1..=number + 1).contains(&pictures), "{pictures} of {number}");
                assert!((2 * number - 2..=2 * number + 2).contains(&sounds), "{sounds} of {number}");
            }
        }
        file.finish().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(counts(&bytes), [750, 1500]);
        // The segment's size, behind the EBML header and its ID.
        let at = bytes.windows(4).position(|id| id == [0x18, 0x53, 0x80, 0x67]).unwrap() + 4;
        let size = u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap()) ^ 1 << 56;
        assert_eq!(size, (bytes.len() - at - 8) as u64);
        // Each cluster says where it ends.
        let clusters = bytes.windows(5).filter(|id| id[..4] == [0x1f, 0x43, 0xb6, 0x75]);
        let sizes: Vec<u8> = clusters.map(|id| id[4]).collect();
        assert!(sizes.len() == 6 && sizes.iter().all(|first| *first == 1), "{sizes:?}");
        assert!(!bytes.windows(4).any(|unknown| unknown == [0x01, 0xff, 0xff, 0xff]));
    }

    #[test]
    fn what_webm_does_not_hold_is_refused_by_the_file_s_name() {
        let scratch = Scratch::new("recorded-h264");
        let (mut file, _) = open(&scratch, Container::WebM);
        let settings = MuxSettings { video: Some(Codec::H264), ..MuxSettings::default() };
        let (mut muxer, mut packets) = (Muxer::new(settings).unwrap(), Vec::new());
        for number in 0..3 {
            let slice = [0, 0, 0, 1, 9, 0xf0, 0, 0, 0, 1, 0x65, 0x9a, 1, 2, 3];
            muxer.write(&unit(Codec::H264, slice.to_vec(), number * 3600, true), &mut packets).unwrap();
        }
        let refused = file.write(&Packets::whole(&packets, true)).unwrap_err();
        assert_eq!(refused.to_string(), "a film: H.264 is not written to WebM; AV1 and Opus are");
    }
}
