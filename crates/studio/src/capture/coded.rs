//! Pictures that come coded already: H.264 in a byte stream, from a file, from standard input, where a camera's own encoder
//! writes it (`rpicam-vid -o -`), from a capture device that codes, or from a stream that is fetched ([`fetched`](super::fetched)).
//!
//! A file's units are handed over when their time has come, by the rate that its parameter sets name. Standard input is
//! treated as a camera: a unit is complete when the writer pauses behind it, and was captured when its first bytes came. A
//! device hands over a unit in each buffer, with its own stamp.

use super::coded_outlet::{CodedItem, Outlet};
use super::fetched::{self, Fetched};
use super::source::{MAX_LOST, STOP_CHECK_INTERVAL, believed};
use super::{CodedDevice, Error, Length, Result};
use glassline_io::capture::v4l2::CodedV4l2;
use glassline_io::capture::{CodedCapture, EncoderControls};
use glassline_io::clock::Clock;
use glassline_media::FrameRate;
use glassline_media::bitstream::h264::units::Splitter;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

const READ_BYTES: usize = 1 << 16;
/// What y4m begins with has so many bytes.
const Y4M_MAGIC_BYTES: usize = 10;
/// Reads of standard input that wait to be looked at.
const READS_WAITING: usize = 16;
/// A writer that pauses for so long behind a slice has written the whole picture.
const PAUSE: Duration = Duration::from_millis(4);
/// A file that has no picture in so many bytes is none.
const LOOKED_AT_MAX: u64 = 1 << 20;

/// The descriptor itself: [`std::io::Stdin`] would copy short reads.
pub(super) fn stdin() -> io::Result<File> {
    io::stdin().as_fd().try_clone_to_owned().map(File::from)
}

/// An input of coded pictures.
pub struct CodedInput {
    kind: Kind,
    looped: bool,
    length: Length,
    clock: Clock,
}

enum Kind {
    File { file: File, path: PathBuf },
    Stdin { file: File, begun: Vec<u8> },
    Device { capture: Box<dyn CodedCapture>, controls: Option<Box<dyn EncoderControls>>, name: String },
    Fetched(Arc<dyn Fetched>),
}

impl CodedInput {
    /// A file in Annex B, over and over if `looped`.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn file(path: &Path, looped: bool, length: Length, clock: Clock) -> Result<CodedInput> {
        let name = || path.display().to_string();
        let file = File::open(path).map_err(|error| Error::Open { name: name(), error })?;
        let path = path.to_owned();
        Ok(CodedInput { kind: Kind::File { file, path }, looped, length, clock })
    }

    /// A capture device that codes its pictures itself. It is set up, and starts with [`CodedInput::run`].
    ///
    /// # Errors
    /// It cannot be used as asked.
    pub fn device(device: &CodedDevice, length: Length, clock: Clock) -> Result<CodedInput> {
        let name = device.device.display().to_string();
        let opened = CodedV4l2::open(&device.device, &device.requested, clock);
        let capture = opened.map_err(|error| Error::Device { name: name.clone(), error })?;
        let controls = capture.controls();
        Ok(CodedInput::of_capture(Box::new(capture), controls, name, length, clock))
    }

    /// An input of a device that is open already, and the controls of its encoder. `name` is for messages.
    #[must_use]
    pub fn of_capture(
        capture: Box<dyn CodedCapture>,
        controls: Box<dyn EncoderControls>,
        name: String,
        length: Length,
        clock: Clock,
    ) -> CodedInput {
        let kind = Kind::Device { capture, controls: Some(controls), name };
        CodedInput { kind, looped: false, length, clock }
    }

    /// The pictures of a stream that is fetched into this process.
    #[must_use]
    pub fn fetched(source: Arc<dyn Fetched>, length: Length, clock: Clock) -> CodedInput {
        CodedInput { kind: Kind::Fetched(source), looped: false, length, clock }
    }

    /// Why there will be no picture, where that is known before [`CodedInput::run`]: a source that is fetched is refused.
    #[must_use]
    pub fn refusal(&self) -> Option<Error> {
        match &self.kind {
            Kind::Fetched(source) => fetched::refused(&**source),
            Kind::File { .. } | Kind::Stdin { .. } | Kind::Device { .. } => None,
        }
    }

    /// The controls of a device's encoder, once; `None` of files, and of standard input, where the writer has them.
    pub fn take_controls(&mut self) -> Option<Box<dyn EncoderControls>> {
        match &mut self.kind {
            Kind::Device { controls, .. } => controls.take(),
            Kind::File { .. } | Kind::Stdin { .. } | Kind::Fetched(_) => None,
        }
    }

    /// Pictures a second, where a device names them.
    #[must_use]
    pub fn rate(&self) -> Option<FrameRate> {
        match &self.kind {
            Kind::Device { capture, .. } => capture.rate(),
            Kind::File { .. } | Kind::Stdin { .. } | Kind::Fetched(_) => None,
        }
    }

    /// What is on standard input, by its first bytes: the input, where that is H.264 in Annex B; else the bytes that were
    /// read, for [`Request::begun`](super::Request::begun). Waits for the first bytes.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn on_stdin(length: Length, clock: Clock) -> Result<Result<CodedInput, Vec<u8>>> {
        let name = "standard input";
        let mut file = stdin().map_err(Error::read(name))?;
        let mut begun = Vec::new();
        // Four bytes of H.264, or those that y4m begins with: an error shows what stands there.
        while begun.len() < 4 && begun.iter().all(|byte| *byte == 0)
            || begun.len() < Y4M_MAGIC_BYTES && begun.first().is_some_and(|byte| *byte != 0)
        {
            let mut byte = [0];
            if file.read(&mut byte).map_err(Error::read(name))? == 0 {
                break;
            }
            begun.extend(byte);
        }
        Ok(match begun[..] {
            [0, 0, 1] | [0, 0, 0, 1] => {
                Ok(CodedInput { kind: Kind::Stdin { file, begun }, looped: false, length, clock })
            }
            _ => Err(begun),
        })
    }

    /// Hands units to `take` until the input ends, the length is reached or `take` returns false. Takes as long as that takes.
    ///
    /// # Errors
    /// Reading fails, or there is no picture in what is read.
    pub fn run(self, take: &dyn Fn(CodedItem) -> bool) -> Result<()> {
        let CodedInput { kind, looped, length, clock } = self;
        let mut outlet = Outlet::new(take, clock, length);
        match kind {
            Kind::Device { mut capture, name, .. } => run_device(&mut *capture, &name, &mut outlet),
            Kind::File { file, path } => run_file(file, &path, looped, &mut outlet),
            Kind::Stdin { file, begun } => run_live(file, begun, &mut outlet),
            Kind::Fetched(source) => fetched::run(&source, &mut outlet),
        }
    }
}

fn run_file(mut file: File, path: &Path, looped: bool, outlet: &mut Outlet<'_>) -> Result<()> {
    let name = path.display().to_string();
    let mut buffer = vec![0; READ_BYTES];
    let mut pieces = Vec::new();
    loop {
        let (mut splitter, mut looked_at, before) = (Splitter::new(), 0, outlet.number);
        loop {
            let length = file.read(&mut buffer).map_err(Error::read(&name))?;
            looked_at += length as u64;
            match buffer.get(..length) {
                Some([]) | None => splitter.flush(&mut pieces),
                Some(bytes) => splitter.push(bytes, &mut pieces),
            }
            for piece in pieces.drain(..) {
                if !outlet.push_timed(piece) {
                    return Ok(());
                }
            }
            let has_none = outlet.number == before;
            if has_none && (length == 0 || looked_at > LOOKED_AT_MAX) {
                return Err(Error::H264 { name, bytes: looked_at });
            }
            if length == 0 {
                break;
            }
        }
        if !looped {
            return Ok(());
        }
        file.rewind().map_err(Error::read(&name))?;
    }
}

/// A buffer ends a unit: the device hands over what it has coded of one picture. One with parameter sets alone waits for the
/// slices behind it.
fn run_device(capture: &mut dyn CodedCapture, name: &str, outlet: &mut Outlet<'_>) -> Result<()> {
    outlet.rate = capture.rate();
    let (mut splitter, mut pieces) = (Splitter::new(), Vec::new());
    let (mut expected, mut looked_at): (Option<u32>, u64) = (None, 0);
    loop {
        let Some(frame) = capture.next(STOP_CHECK_INTERVAL).map_err(Error::DeviceFailed)? else { continue };
        let lost = expected.map_or(0, |expected| frame.sequence.wrapping_sub(expected));
        outlet.follows_gap |= (1..MAX_LOST).contains(&lost);
        expected = Some(frame.sequence.wrapping_add(1));
        let captured = believed(frame.captured, outlet.clock.now());
        looked_at += frame.bytes.len() as u64;
        splitter.push(frame.bytes, &mut pieces);
        splitter.flush(&mut pieces);
        if pieces.is_empty() && outlet.number == 0 && looked_at > LOOKED_AT_MAX {
            return Err(Error::H264 { name: name.to_owned(), bytes: looked_at });
        }
        for piece in pieces.drain(..) {
            if !outlet.push(piece, captured) {
                return Ok(());
            }
        }
    }
}

fn run_live(file: File, begun: Vec<u8>, outlet: &mut Outlet<'_>) -> Result<()> {
    let (to, reads) = sync_channel(READS_WAITING);
    // Not joined: it may hang in a read, which nothing but the end of the process ends.
    thread::Builder::new()
        .name("standard input".to_owned())
        .spawn(move || read_on(file, begun, &to))
        .map_err(|error| Error::Thread { what: "standard input", error })?;
    let (mut splitter, mut pieces) = (Splitter::new(), Vec::new());
    let mut captured = outlet.clock.now();
    let (mut is_held, mut looked_at) = (false, 0);
    loop {
        // Nothing ends a unit but a pause, and the next one.
        let wait = if is_held { PAUSE } else { Duration::MAX };
        let read = match reads.recv_timeout(wait) {
            Ok(read) => Some(read.map_err(Error::read("standard input"))?),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                splitter.flush(&mut pieces);
                if pieces.is_empty() && outlet.number == 0 {
                    return Err(Error::H264 { name: "standard input".to_owned(), bytes: looked_at });
                }
                // Whether more is wanted makes no difference at the end.
                let _ = pieces.drain(..).all(|piece| outlet.push(piece, captured));
                return Ok(());
            }
        };
        let now = outlet.clock.now();
        if let Some(bytes) = read {
            looked_at += bytes.len() as u64;
            if !is_held {
                captured = now;
            }
            splitter.push(&bytes, &mut pieces);
            is_held = true;
        } else {
            splitter.flush(&mut pieces);
            is_held = false;
        }
        for piece in pieces.drain(..) {
            if !outlet.push(piece, captured) {
                return Ok(());
            }
            captured = now;
        }
    }
}

fn read_on(mut file: File, begun: Vec<u8>, to: &SyncSender<io::Result<Vec<u8>>>) {
    if to.send(Ok(begun)).is_err() {
        return;
    }
    loop {
        let mut buffer = vec![0; READ_BYTES];
        match file.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => buffer.truncate(length),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                // It fails where the receiving thread has ended, which needs no error any more.
                let _ = to.send(Err(error));
                return;
            }
        }
        if to.send(Ok(buffer)).is_err() {
            return;
        }
    }
}

#[cfg(test)]
#[path = "coded_tests.rs"]
mod tests;
