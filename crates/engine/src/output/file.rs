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

/// A transport stream.
pub(super) struct TsFile {
    status: StatusHandle,
    file: File,
}

impl TsFile {
    pub(super) fn create(path: &Path, status: StatusHandle) -> Result<TsFile> {
        Ok(TsFile { file: create(path)?, status })
    }
}

impl Output for TsFile {
    fn write(&mut self, packets: &Packets<'_>) -> Result<Demand> {
        self.file.write_all(packets.bytes).map_err(Error::write(self.status.name()))?;
        self.status.sent(packets.bytes.len());
        Ok(Demand::Nothing)
    }
}

/// Fragmented MP4: the access units out of the packets, a fragment for each group of pictures.
pub(super) struct Mp4File {
    status: StatusHandle,
    file: File,
    demuxer: Demuxer,
    recorder: Option<Recorder>,
    bytes: Vec<u8>,
}

impl Mp4File {
    pub(super) fn create(path: &Path, status: StatusHandle) -> Result<Mp4File> {
        let file = create(path)?;
        Ok(Mp4File { status, file, demuxer: Demuxer::new(), recorder: None, bytes: Vec::new() })
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
        Error::Record { name: self.status.name().to_owned(), error }
    }

    fn flush(&mut self) -> Result<()> {
        self.file.write_all(&self.bytes).map_err(Error::write(self.status.name()))?;
        self.status.sent(self.bytes.len());
        self.bytes.clear();
        Ok(())
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
            && self.file.metadata().is_ok_and(|metadata| metadata.is_file())
        {
            let patched = self.file.write_all_at(&patch.bytes, patch.offset);
            patched.map_err(Error::write(self.status.name()))?;
        }
        Ok(())
    }
}
