//! Frames out of an IVF file or pipe, and the rate of its pictures.

use crate::{failure, output};
use anyhow::Result;
use glassline_media::FrameRate;
use glassline_media::container::ivf::{FRAME_HEADER_BYTES, HEADER_BYTES, Header, IvfError, Reader};
use glassline_media::container::ivf_rate::{PictureRate, is_shown};
use glassline_media::container::ivf_salvage::{Found, SalvagingReader};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader, IsTerminal, Read};
use std::time::{Duration, Instant};

/// Bytes that are read at once.
const READ_BYTES: usize = 256 * 1024;
/// How often the progress line changes.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// Stamps of a pipe that are looked at before its first picture is given, where it takes so many.
const PIPE_STAMPS: u64 = 64;
/// As many are enough where stamps count pictures.
const COUNTING_STAMPS: u64 = 3;
/// Frames that wait for the rate at most: an encoder may leave pictures out, or hide them.
const WAITING_MAX: usize = 256;

/// What becomes of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    /// It is told, and the next frame that is found follows.
    PassedOver,
    /// It is an error.
    Ends,
}

/// How bytes become frames.
enum Frames {
    Strict {
        reader: Reader,
        buffer: Vec<u8>,
        /// What of `buffer` is read and not yet parsed.
        unparsed: std::ops::Range<usize>,
    },
    Salvaging {
        reader: SalvagingReader,
        buffer: Vec<u8>,
    },
}

pub(super) struct Input {
    source: Box<dyn Read>,
    frames: Frames,
    is_ended: bool,
    progress: Option<Progress>,
    /// What was read ahead, to know the rate.
    waiting: VecDeque<Found>,
    rate: PictureRate,
    /// The rate is known as well as it gets.
    is_rated: bool,
}

/// A line on the terminal that says how far the file is read.
struct Progress {
    size_bytes: u64,
    read_bytes: u64,
    shown: Instant,
}

impl Input {
    /// Opens a file, or standard input for `-`. `is_rated`: the rate of its pictures is asked for.
    pub(super) fn open(name: &str, damage: Damage, is_rated: bool) -> Result<Input> {
        let mut rate = PictureRate::default();
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
            if about.is_file() && is_rated {
                // What of it is damaged tells no stamps.
                let _ = read_stamps(File::open(name).map_err(unreadable)?, &mut rate);
            }
            (Box::new(file), about.is_file().then_some(about.len()))
        };
        let progress = size_bytes
            .filter(|&bytes| bytes > 0 && io::stderr().is_terminal())
            .map(|size_bytes| Progress { size_bytes, read_bytes: 0, shown: Instant::now() });
        let buffer = vec![0; READ_BYTES];
        let frames = match damage {
            Damage::Ends => Frames::Strict { reader: Reader::new(), buffer, unparsed: 0..0 },
            Damage::PassedOver => Frames::Salvaging { reader: SalvagingReader::new(), buffer },
        };
        let is_rated = !is_rated || rate.steps() > 0;
        Ok(Input { source, frames, is_ended: false, progress, waiting: VecDeque::new(), rate, is_rated })
    }

    /// The next frame, or what is there instead of one; none at the end.
    pub(super) fn next(&mut self) -> Result<Option<Found>> {
        while !self.is_rated {
            let Some(found) = self.read()? else {
                self.is_rated = true;
                break;
            };
            if let Found::Frame(frame) = &found
                && is_shown(frame.bytes.first())
            {
                self.rate.push(frame.time_stamp);
            }
            self.waiting.push_back(found);
            let counts = self.header().is_some_and(|header| self.rate.rate(header.rate) == header.rate);
            let enough = if counts { COUNTING_STAMPS } else { PIPE_STAMPS };
            self.is_rated = self.rate.steps() >= enough || self.waiting.len() >= WAITING_MAX;
        }
        match self.waiting.pop_front() {
            Some(found) => Ok(Some(found)),
            None => self.read(),
        }
    }

    /// Pictures a second. Known once there was a frame.
    pub(super) fn rate(&self) -> Option<FrameRate> {
        Some(self.rate.rate(self.header()?.rate))
    }

    fn header(&self) -> Option<&Header> {
        match &self.frames {
            Frames::Strict { reader, .. } => reader.header(),
            Frames::Salvaging { reader, .. } => reader.header(),
        }
    }

    fn read(&mut self) -> Result<Option<Found>> {
        loop {
            let found = self.frames.next().map_err(no_ivf)?;
            if let Some(header) = self.header() {
                check_codec(header)?;
                if found.is_some() {
                    return Ok(found);
                }
            }
            if self.is_ended {
                return Ok(None);
            }
            let Some(count) = self.frames.fill(&mut *self.source)? else { continue };
            if count == 0 {
                self.is_ended = true;
                self.frames.end()?;
            } else if let Some(progress) = &mut self.progress {
                progress.update(count);
            }
        }
    }
}

impl Frames {
    fn next(&mut self) -> Result<Option<Found>, IvfError> {
        match self {
            Frames::Strict { reader, buffer, unparsed } => {
                let mut rest = &buffer[unparsed.clone()];
                let before = rest.len();
                let frame = reader.parse(&mut rest)?;
                unparsed.start += before - rest.len();
                Ok(frame.map(Found::Frame))
            }
            Frames::Salvaging { reader, .. } => reader.poll(),
        }
    }

    /// Reads on; `None` where a signal came instead. How many bytes came, 0 at the end.
    fn fill(&mut self, source: &mut dyn Read) -> Result<Option<usize>> {
        let (Frames::Strict { buffer, .. } | Frames::Salvaging { buffer, .. }) = self;
        let count = match source.read(buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        match self {
            Frames::Strict { unparsed, .. } => *unparsed = 0..count,
            Frames::Salvaging { reader, buffer } => reader.push(&buffer[..count]),
        }
        Ok(Some(count))
    }

    /// Nothing follows.
    fn end(&mut self) -> Result<()> {
        match self {
            Frames::Strict { reader, .. } => reader.finish().map_err(|error| {
                failure::failed(error, "the file was cut; what is in front of that was decoded")
            }),
            Frames::Salvaging { reader, .. } => {
                reader.end();
                Ok(())
            }
        }
    }
}

fn no_ivf(error: IvfError) -> anyhow::Error {
    failure::failed(error, "decode takes VP8 in IVF, as vpxenc and ffmpeg write it")
}

/// Reads the stamps of a file's shown pictures, without the pictures.
fn read_stamps(file: File, rate: &mut PictureRate) -> io::Result<()> {
    let mut file = BufReader::new(file);
    let mut header = [0; HEADER_BYTES];
    file.read_exact(&mut header)?;
    let more = usize::from(u16::from_le_bytes([header[6], header[7]])).saturating_sub(HEADER_BYTES);
    file.seek_relative(more as i64)?;
    let mut head = [0; FRAME_HEADER_BYTES];
    loop {
        file.read_exact(&mut head)?;
        let [l0, l1, l2, l3, stamp @ ..] = head;
        let length = u32::from_le_bytes([l0, l1, l2, l3]);
        let mut first = [0];
        if length > 0 {
            file.read_exact(&mut first)?;
            file.seek_relative(i64::from(length) - 1)?;
        }
        if is_shown((length > 0).then_some(&first[0])) {
            rate.push(u64::from_le_bytes(stamp));
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
