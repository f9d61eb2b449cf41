//! FFmpeg as a child that decodes: access units in, pictures out, without a container around either.

use super::ages::Ages;
use crate::failure;
use anyhow::{Context, Result};
use glassline_io::child::without_capabilities;
use glassline_io::clock::Clock;
use glassline_media::bitstream::h264::ACCESS_UNIT_DELIMITER;
use glassline_media::container::y4m;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How much longer than it is needed the child may live: one that hangs is ended.
const GRACE: Duration = Duration::from_secs(10);
/// Complaints that are kept, and bytes of each.
const COMPLAINTS_MAX: usize = 1000;
const COMPLAINT_BYTES: u64 = 1024;
const READ_BYTES: usize = 1 << 20;

/// One thread decodes in the order of the stream and waits for nobody. The parser needs the delimiter behind each
/// unit, the demuxer hands on what a read brings, and nothing is analysed in advance; `nobuffer` is left out, for it
/// loses the first picture.
const ARGUMENTS: &str = "-hide_banner -nostats -v warning -flags low_delay -threads 1 -probesize 32 -analyzeduration 0 \
                         -raw_packet_size 65536 -f h264 -i - \
                         -an -fps_mode passthrough -pix_fmt yuv420p -f yuv4mpegpipe -flush_packets 1 -";

/// The running child. It is ended with this.
pub(super) struct Decoder {
    child: Arc<Mutex<Child>>,
    /// `None` once it took no more.
    input: Option<ChildStdin>,
    pictures: Option<JoinHandle<Result<Ages>>>,
    complaints: Option<JoinHandle<Vec<String>>>,
    /// Its end tells the guard that the child has ended by itself.
    _guard: Sender<()>,
    unit: Vec<u8>,
}

impl Decoder {
    /// Starts FFmpeg, which is needed for `time` from the first byte on.
    pub(super) fn start(time: Duration) -> Result<Decoder> {
        Decoder::run(Command::new("ffmpeg").args(ARGUMENTS.split_whitespace()), time)
    }

    fn run(command: &mut Command, time: Duration) -> Result<Decoder> {
        without_capabilities(command).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn();
        let mut child = child.map_err(|error| {
            let advice = "install it (apt install ffmpeg): --glass decodes with it";
            failure::failed(format!("cannot start ffmpeg: {error}"), advice)
        })?;
        let input = child.stdin.take();
        let output = child.stdout.take().context("the decoder's output")?;
        let errors = child.stderr.take().context("the decoder's complaints")?;
        let child = Arc::new(Mutex::new(child));
        let pictures = thread::Builder::new().name("pictures".to_owned()).spawn(|| read_pictures(output))?;
        let complaints = thread::Builder::new().name("complaints".to_owned()).spawn(|| read_lines(errors))?;
        let (guard, ended) = mpsc::channel();
        let watched = Arc::clone(&child);
        // What is listened to may begin late, by as much as it lasts.
        let patience = time * 2 + GRACE;
        thread::Builder::new().name("guard".to_owned()).spawn(move || {
            if ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                tracing::warn!("ffmpeg hangs and is ended");
                kill(&watched);
            }
        })?;
        let (pictures, complaints) = (Some(pictures), Some(complaints));
        Ok(Decoder { child, input, pictures, complaints, _guard: guard, unit: Vec::new() })
    }

    /// Gives it an access unit, all of it at once, which may wait for it to have room.
    pub(super) fn decode(&mut self, unit: &[u8]) -> Result<()> {
        let Some(input) = &mut self.input else { return Ok(()) };
        self.unit.clear();
        self.unit.extend_from_slice(without_delimiter(unit));
        self.unit.extend_from_slice(&ACCESS_UNIT_DELIMITER);
        match input.write_all(&self.unit).and_then(|()| input.flush()) {
            Ok(()) => Ok(()),
            // It has ended, and says why where it complains.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.input = None;
                Ok(())
            }
            Err(error) => Err(error).context("cannot write to ffmpeg"),
        }
    }

    /// Whether it still takes pictures.
    pub(super) fn is_alive(&self) -> bool {
        self.input.is_some()
    }

    /// Waits for what it still has. Returns what its pictures say, and what it says itself.
    pub(super) fn finish(mut self) -> Result<(Ages, Vec<String>)> {
        self.input = None;
        let pictures = self.pictures.take().context("the decoder's thread")?;
        let ages = pictures.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let complaints = self.complaints.take().context("the thread of its complaints")?;
        let complaints = complaints.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((ages?, complaints))
    }
}

impl Drop for Decoder {
    fn drop(&mut self) {
        kill(&self.child);
    }
}

fn kill(child: &Mutex<Child>) {
    let mut child = child.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // Fails only where it has ended by itself.
    let _ = child.kill();
    let _ = child.wait();
}

/// The unit without the delimiter that may stand in front of it: it stood behind the unit before.
fn without_delimiter(unit: &[u8]) -> &[u8] {
    let behind_code = unit.strip_prefix(&[0, 0, 0, 1]).or_else(|| unit.strip_prefix(&[0, 0, 1]));
    match behind_code {
        Some([header, _, rest @ ..]) if header & 0x1F == 9 => rest,
        _ => unit,
    }
}

fn read_pictures(mut output: ChildStdout) -> Result<Ages> {
    let (mut reader, mut ages) = (y4m::Reader::new(), Ages::default());
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let count = output.read(&mut buffer).context("cannot read ffmpeg's pictures")?;
        if count == 0 {
            return Ok(ages);
        }
        let mut bytes = &buffer[..count];
        while let Some(picture) = reader.parse(&mut bytes).context("ffmpeg's pictures")? {
            ages.push(&picture, Clock.utc());
        }
    }
}

/// Reads to the end, whatever the lines hold; the first of them are kept.
fn read_lines(errors: ChildStderr) -> Vec<String> {
    let (mut errors, mut lines) = (BufReader::new(errors), Vec::new());
    loop {
        let mut line = Vec::new();
        match errors.by_ref().take(COMPLAINT_BYTES).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return lines,
            Ok(_) if lines.len() < COMPLAINTS_MAX => {
                let line = String::from_utf8_lossy(&line).trim().to_owned();
                if !line.is_empty() {
                    lines.push(line);
                }
            }
            Ok(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_delimiter_in_front_is_taken_off() {
        assert_eq!(without_delimiter(&[0, 0, 0, 1, 9, 0xF0, 0, 0, 1, 0x65, 1]), [0, 0, 1, 0x65, 1]);
        assert_eq!(without_delimiter(&[0, 0, 1, 9, 0x10, 0, 0, 1, 0x41]), [0, 0, 1, 0x41]);
        for unit in [&[0, 0, 1, 0x65, 9][..], &[0, 0, 0, 1], &[0, 0, 1, 9], &[]] {
            assert_eq!(without_delimiter(unit), unit);
        }
    }

    #[test]
    fn a_decoder_that_is_not_there_is_named() {
        let error =
            Decoder::run(&mut Command::new("/no/such/ffmpeg"), Duration::ZERO).err().unwrap().to_string();
        assert!(error.contains("cannot start ffmpeg") && error.contains("apt install ffmpeg"), "{error}");
    }

    #[test]
    fn a_decoder_that_ends_or_writes_nonsense_is_no_hang() {
        let start = |script: &str| {
            Decoder::run(Command::new("sh").args(["-c", script]), Duration::from_secs(60)).unwrap()
        };
        let mut gone = start("echo went wrong >&2");
        let deadline = Instant::now() + Duration::from_secs(60);
        while gone.is_alive() {
            gone.decode(&[0; 4096]).unwrap();
            assert!(Instant::now() < deadline);
        }
        let (ages, complaints) = gone.finish().unwrap();
        assert_eq!((ages.decoded(), &complaints[..]), (0, &["went wrong".to_owned()][..]));
        let mut nonsense = start("echo no pictures; cat >/dev/null");
        nonsense.decode(&[0; 16]).unwrap();
        assert!(nonsense.finish().is_err());
    }
}
