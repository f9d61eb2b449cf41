//! Files: the transport stream as it is, or fragmented MP4.

use super::{Demand, Error, Output, Packets, Result, StatusHandle};
use glassline_media::container::cmaf::{self, Recorder};
use glassline_media::container::ts::{Demuxer, Event, Program};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

fn create(path: &Path) -> Result<File> {
    File::create(path).map_err(|error| Error::Create { name: path.display().to_string(), error })
}

/// A file of pieces, which ends with a whole one also where the disk is full.
struct Pieces {
    status: StatusHandle,
    file: File,
    /// Bytes of whole pieces.
    whole: u64,
}

impl Pieces {
    fn create(path: &Path, status: StatusHandle) -> Result<Pieces> {
        Ok(Pieces { file: create(path)?, status, whole: 0 })
    }

    fn append(&mut self, piece: &[u8]) -> Result<()> {
        if let Err(error) = self.file.write_all(piece) {
            // A pipe cannot be cut; its reader sees that it ends.
            let _ = self.file.set_len(self.whole);
            return Err(Error::write(self.status.name())(error));
        }
        self.whole += piece.len() as u64;
        self.status.sent(piece.len());
        Ok(())
    }
}

/// A transport stream.
pub(super) struct TsFile(Pieces);

impl TsFile {
    pub(super) fn create(path: &Path, status: StatusHandle) -> Result<TsFile> {
        Ok(TsFile(Pieces::create(path, status)?))
    }
}

impl Output for TsFile {
    fn write(&mut self, packets: &Packets<'_>) -> Result<Demand> {
        self.0.append(packets.bytes)?;
        Ok(Demand::Nothing)
    }
}

/// Fragmented MP4: the access units out of the packets, a fragment for each group of pictures.
pub(super) struct Mp4File {
    pieces: Pieces,
    demuxer: Demuxer,
    recorder: Option<Recorder>,
    bytes: Vec<u8>,
}

impl Mp4File {
    pub(super) fn create(path: &Path, status: StatusHandle) -> Result<Mp4File> {
        let pieces = Pieces::create(path, status)?;
        Ok(Mp4File { pieces, demuxer: Demuxer::new(), recorder: None, bytes: Vec::new() })
    }

    fn record(&mut self) -> Result<()> {
        while let Some(event) = self.demuxer.poll() {
            match event {
                Event::Program(program) => {
                    self.recorder.get_or_insert_with(|| Recorder::new(has_sound(&program)));
                }
                Event::AccessUnit { unit, .. } => {
                    if let Some(recorder) = &mut self.recorder {
                        recorder.push(&unit, &mut self.bytes).map_err(|error| self.refused(error))?;
                    }
                }
                Event::Pcr { .. } => {}
            }
        }
        Ok(())
    }

    fn refused(&self, error: cmaf::Error) -> Error {
        Error::Record { name: self.pieces.status.name().to_owned(), error }
    }

    fn flush(&mut self) -> Result<()> {
        // Whole fragments.
        let appended = self.pieces.append(&self.bytes);
        self.bytes.clear();
        appended
    }
}

fn has_sound(program: &Program) -> bool {
    program.streams.iter().any(|stream| stream.codec.is_some_and(|codec| !codec.is_video()))
}

impl Output for Mp4File {
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
        let patch = self.recorder.as_mut().map(|recorder| recorder.finish(&mut self.bytes)).transpose();
        self.flush()?;
        recorded?;
        // What cannot be sought, as a pipe, is as good without the duration in front.
        if let Some(patch) = patch.map_err(|error| self.refused(error))?.flatten()
            && self.pieces.file.metadata().is_ok_and(|metadata| metadata.is_file())
        {
            let patched = self.pieces.file.write_all_at(&patch.bytes, patch.offset);
            patched.map_err(Error::write(self.pieces.status.name()))?;
        }
        Ok(())
    }
}
