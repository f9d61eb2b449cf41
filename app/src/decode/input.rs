//! Frames out of an IVF file or pipe.

use crate::{failure, output};
use anyhow::Result;
use glassline_media::FrameRate;
use glassline_media::container::ivf::{Frame, Header, Reader};
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::time::{Duration, Instant};

/// Bytes that are read at once.
const READ_BYTES: usize = 256 * 1024;
/// How often the progress line changes.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

pub(super) struct Input {
    source: Box<dyn Read>,
    reader: Reader,
    buffer: Vec<u8>,
    /// What of `buffer` is read and not yet parsed.
    unparsed: std::ops::Range<usize>,
    progress: Option<Progress>,
}

/// A line on the terminal that says how far the file is read.
struct Progress {
    size_bytes: u64,
    read_bytes: u64,
    shown: Instant,
}

impl Input {
    /// Opens a file, or standard input for `-`.
    pub(super) fn open(name: &str) -> Result<Input> {
        let (source, size_bytes): (Box<dyn Read>, _) = if name == "-" {
            (Box::new(io::stdin().lock()), None)
        } else {
            let unreadable = |error: io::Error| {
                failure::failed(
                    format!("cannot read {name}: {error}"),
                    "name an IVF file, or - for standard input",
                )
            };
            let file = File::open(name).map_err(unreadable)?;
            let about = file.metadata().map_err(unreadable)?;
            if about.is_dir() {
                return Err(unreadable(io::ErrorKind::IsADirectory.into()));
            }
            (Box::new(file), about.is_file().then_some(about.len()))
        };
        let progress = size_bytes
            .filter(|&bytes| bytes > 0 && io::stderr().is_terminal())
            .map(|size_bytes| Progress { size_bytes, read_bytes: 0, shown: Instant::now() });
        Ok(Input { source, reader: Reader::new(), buffer: vec![0; READ_BYTES], unparsed: 0..0, progress })
    }

    /// The next frame, and how many are to be shown a second; none at the end.
    pub(super) fn frame(&mut self) -> Result<Option<(Frame, FrameRate)>> {
        loop {
            let mut rest = &self.buffer[self.unparsed.clone()];
            let before = rest.len();
            let no_ivf =
                |error| failure::failed(error, "decode takes VP8 in IVF, as vpxenc and ffmpeg write it");
            let frame = self.reader.parse(&mut rest).map_err(no_ivf)?;
            self.unparsed.start += before - rest.len();
            if let Some(header) = self.reader.header() {
                check_codec(header)?;
                if let Some(frame) = frame {
                    return Ok(Some((frame, header.rate)));
                }
            }
            let count = match self.source.read(&mut self.buffer) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            if count == 0 {
                return match self.reader.finish() {
                    Ok(()) => Ok(None),
                    Err(error) => {
                        Err(failure::failed(error, "the file was cut; what is in front of that was decoded"))
                    }
                };
            }
            self.unparsed = 0..count;
            if let Some(progress) = &mut self.progress {
                progress.update(count);
            }
        }
    }
}

fn check_codec(header: &Header) -> Result<()> {
    if header.codec == Header::VP8 {
        return Ok(());
    }
    let codec = header.codec.escape_ascii();
    Err(failure::failed(
        format!("the file holds {codec}"),
        "decode takes VP80 alone; for others there is ffmpeg",
    ))
}

impl Progress {
    fn update(&mut self, bytes: usize) {
        self.read_bytes += bytes as u64;
        if self.shown.elapsed() >= PROGRESS_INTERVAL {
            let percent = self.read_bytes.min(self.size_bytes) * 100 / self.size_bytes;
            output::show_progress(&format!("{percent:3} % of {} kB", self.size_bytes / 1000));
            self.shown = Instant::now();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        output::clear_progress();
    }
}
