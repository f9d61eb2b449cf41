//! FFmpeg as a child that decodes: access units in, pictures out, without a container around either; or a whole stream that it
//! opens itself.

use anyhow::{Context, Result};
use glassline_io::child::without_capabilities;
use glassline_io::clock::Clock;
use glassline_media::bitstream::h264::ACCESS_UNIT_DELIMITER;
use glassline_media::container::y4m;
use glassline_media::{Picture, Time, Utc};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use thiserror::Error;

/// How much longer than it is needed the child may live: one that hangs is ended.
const GRACE: Duration = Duration::from_secs(10);
/// A file is decoded for so long at most; twice that is granted.
const FILE_LONGEST: Duration = Duration::from_secs(1800);
/// Complaints that are kept, and bytes of each.
const COMPLAINTS_MAX: usize = 1000;
const COMPLAINT_BYTES: u64 = 1024;
const READ_BYTES: usize = 1 << 20;

/// One thread decodes in the order of the stream, so that no picture waits for another thread. The parser needs the
/// delimiter behind each unit, the demuxer hands on what a read brings, and nothing is analysed in advance; `nobuffer`
/// is left out, because it loses the first picture.
const ARGUMENTS: &str = "-hide_banner -nostats -v warning -flags low_delay -threads 1 -probesize 32 -analyzeduration 0 \
                         -raw_packet_size 65536 -f h264 -i - \
                         -an -fps_mode passthrough -pix_fmt yuv420p -f yuv4mpegpipe -flush_packets 1 -";
/// In front of what it opens itself: it looks for as short as it can at what there is, and hands on what comes.
const OPENING: &str = "-hide_banner -nostdin -nostats -v warning -fflags nobuffer -flags low_delay -threads 1 -probesize 500000 \
                       -analyzeduration 500000 -i";
/// Behind it.
const GIVING: &str = "-map 0:v:0 -fps_mode passthrough -pix_fmt yuv420p -f yuv4mpegpipe -flush_packets 1 -";

/// There is no decoder.
#[derive(Debug, Error)]
#[error("cannot start ffmpeg: {0}; install it (apt install ffmpeg): pictures are decoded with it")]
pub struct NoDecoder(#[source] io::Error);

/// Looks at the pictures that are decoded, on a thread of its own.
pub trait Look: Send + 'static {
    /// Takes the next picture in the order in which they are shown. Its last byte came from the decoder at `at`, which was `utc`
    /// on this machine's wall clock.
    fn look(&mut self, picture: &Picture, at: Time, utc: Utc);
}

/// The running child. It is ended with this.
#[derive(Debug)]
pub struct Decoder<L> {
    child: Arc<Mutex<Child>>,
    has_hung: Arc<AtomicBool>,
    /// `None` once it took no more.
    input: Option<ChildStdin>,
    /// Says when the first picture came; gone with the last one.
    first: Receiver<()>,
    pictures: Option<JoinHandle<Result<L>>>,
    complaints: Option<JoinHandle<Vec<String>>>,
    /// Its end tells the guard that the child has ended by itself.
    _guard: Sender<()>,
    unit: Vec<u8>,
}

impl<L: Look> Decoder<L> {
    /// Starts FFmpeg for access units of H.264, which is needed for `time` from the first byte on.
    ///
    /// # Errors
    /// Where it, or a thread, cannot be started.
    pub fn start(time: Duration, look: L) -> Result<Decoder<L>> {
        let mut command = Command::new("ffmpeg");
        command.args(ARGUMENTS.split_whitespace()).stdin(Stdio::piped());
        Decoder::run(&mut command, time, look)
    }

    /// Starts FFmpeg on what it opens itself: an address of any kind that it knows, a pipe's path, or `-`, this process's
    /// standard input. The first picture has to come within `timeout`; it is needed for `time` from then on
    /// ([`listen`](Decoder::listen)).
    ///
    /// # Errors
    /// Where it, or a thread, cannot be started.
    pub fn open(target: &str, timeout: Duration, time: Duration, look: L) -> Result<Decoder<L>> {
        let target = if target == "-" { "pipe:0" } else { target };
        let mut command = Command::new("ffmpeg");
        command.args(OPENING.split_whitespace()).arg(target).args(GIVING.split_whitespace());
        command.stdin(if target == "pipe:0" { Stdio::inherit() } else { Stdio::null() });
        Decoder::run(&mut command, timeout + time, look)
    }

    /// Starts FFmpeg on a file, all of which it decodes: [`finish`](Decoder::finish) waits for that, an hour at most.
    ///
    /// # Errors
    /// Where it, or a thread, cannot be started.
    pub fn file(path: &str, look: L) -> Result<Decoder<L>> {
        let mut command = Command::new("ffmpeg");
        command.args(["-hide_banner", "-nostdin", "-nostats", "-v", "warning", "-i"]).arg(path);
        command.args(GIVING.split_whitespace()).stdin(Stdio::null());
        Decoder::run(&mut command, FILE_LONGEST, look)
    }

    fn run(command: &mut Command, time: Duration, look: L) -> Result<Decoder<L>> {
        without_capabilities(command).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(NoDecoder)?;
        let input = child.stdin.take();
        let output = child.stdout.take().context("the decoder's output")?;
        let errors = child.stderr.take().context("the decoder's complaints")?;
        let child = Arc::new(Mutex::new(child));
        let (is_first, first) = mpsc::channel();
        let pictures = thread::Builder::new().name("pictures".to_owned());
        let pictures = pictures.spawn(move || read_pictures(output, look, &is_first))?;
        let complaints = thread::Builder::new().name("complaints".to_owned()).spawn(|| read_lines(errors))?;
        let (guard, ended) = mpsc::channel();
        let watched = Arc::clone(&child);
        let has_hung = Arc::new(AtomicBool::new(false));
        let hung = Arc::clone(&has_hung);
        // What is listened to may begin late, by as much as it lasts.
        let timeout = time * 2 + GRACE;
        thread::Builder::new().name("guard".to_owned()).spawn(move || {
            if ended.recv_timeout(timeout) == Err(RecvTimeoutError::Timeout) {
                hung.store(true, Ordering::Relaxed);
                kill(&watched);
            }
        })?;
        let (pictures, complaints) = (Some(pictures), Some(complaints));
        Ok(Decoder { child, has_hung, input, first, pictures, complaints, _guard: guard, unit: Vec::new() })
    }

    /// Waits until pictures have come for `time`, the first of them within `timeout`, and ends it then. Returns earlier where
    /// it ends by itself.
    pub fn listen(&self, timeout: Duration, time: Duration) {
        if self.first.recv_timeout(timeout).is_ok() {
            // Nothing more is said: it waits for the time, or for the end of the pictures.
            let _ = self.first.recv_timeout(time);
        }
        kill(&self.child);
    }

    /// Gives it an access unit, all of it at once, which may wait for it to have room.
    ///
    /// # Errors
    /// Where it cannot be written to; that it has ended is none ([`is_alive`](Decoder::is_alive)).
    pub fn decode(&mut self, unit: &[u8]) -> Result<()> {
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
    pub fn is_alive(&self) -> bool {
        self.input.is_some()
    }

    /// Waits for what it still has. Returns the [`Look`], and what the decoder itself said.
    ///
    /// # Errors
    /// Where what it gave are no pictures.
    pub fn finish(mut self) -> Result<(L, Vec<String>)> {
        self.input = None;
        let pictures = self.pictures.take().context("the decoder's thread")?;
        let look = pictures.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let complaints = self.complaints.take().context("the thread of its complaints")?;
        let mut complaints = complaints.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        if self.has_hung.load(Ordering::Relaxed) {
            complaints.insert(0, "it hung, and was ended".to_owned());
        }
        Ok((look?, complaints))
    }
}

impl<L> Drop for Decoder<L> {
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

fn read_pictures<L: Look>(mut output: ChildStdout, mut look: L, is_first: &Sender<()>) -> Result<L> {
    let (mut reader, mut is_first) = (y4m::Reader::new(), Some(is_first));
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let count = output.read(&mut buffer).context("cannot read ffmpeg's pictures")?;
        if count == 0 {
            return Ok(look);
        }
        let mut bytes = &buffer[..count];
        while let Some(picture) = reader.parse(&mut bytes).context("ffmpeg's pictures")? {
            let at = Clock.now();
            look.look(&picture, at, Clock.utc_at(at));
            if let Some(first) = is_first.take() {
                // Where access units are decoded, nothing reads the other end.
                let _ = first.send(());
            }
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

    /// How many pictures there were.
    #[derive(Debug, Default)]
    struct Count(u64);

    impl Look for Count {
        fn look(&mut self, _: &Picture, _: Time, _: Utc) {
            self.0 += 1;
        }
    }

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
        let error = Decoder::run(&mut Command::new("/no/such/ffmpeg"), Duration::ZERO, Count(0))
            .unwrap_err()
            .to_string();
        assert!(error.contains("cannot start ffmpeg") && error.contains("apt install ffmpeg"), "{error}");
    }

    #[test]
    fn a_decoder_that_ends_or_writes_nonsense_is_no_hang() {
        let start = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).stdin(Stdio::piped());
            Decoder::run(&mut command, Duration::from_secs(60), Count(0)).unwrap()
        };
        let mut gone = start("echo went wrong >&2");
        let deadline = Instant::now() + Duration::from_secs(60);
        while gone.is_alive() {
            gone.decode(&[0; 4096]).unwrap();
            assert!(Instant::now() < deadline);
        }
        let (count, complaints) = gone.finish().unwrap();
        assert_eq!((count.0, &complaints[..]), (0, &["went wrong".to_owned()][..]));
        let mut nonsense = start("echo no pictures; cat >/dev/null");
        nonsense.decode(&[0; 16]).unwrap();
        assert!(nonsense.finish().is_err());
    }
    #[test]
    fn what_it_opens_itself_is_ended_after_the_time_and_where_no_picture_comes() {
        let picture = "printf 'YUV4MPEG2 W2 H2 F25:1\\nFRAME\\n123456'";
        let forever = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", &format!("{script}; exec cat")]).stdin(Stdio::piped());
            Decoder::run(&mut command, Duration::from_secs(60), Count(0)).unwrap()
        };
        let pictures = forever(picture);
        pictures.listen(Duration::from_secs(60), Duration::from_millis(20));
        assert_eq!(pictures.finish().unwrap().0.0, 1);
        let silent = forever("true");
        silent.listen(Duration::from_millis(20), Duration::from_secs(60));
        assert_eq!(silent.finish().unwrap().0.0, 0);
    }
}
