//! FFmpeg as a child, which decodes a file to y4m.

use crate::failure;
use anyhow::Result;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// What y4m can carry and [`Converter`](glassline_media::pixels::Converter) takes: of these FFmpeg chooses the one
/// that loses least, so that what is one of them already is not touched by its scaler.
const FORMATS: &str = "format=pix_fmts=yuv420p|yuv422p|yuv444p|yuv411p|gray|yuv420p10le|yuv422p10le|yuv444p10le|\
                       yuv420p12le|yuv422p12le|yuv444p12le|gray10le|gray12le";
/// Of FFmpeg's complaints the last lines are kept: the first error is often not the one that ended it.
const MAX_COMPLAINTS: usize = 4;
const MAX_LINE_BYTES: u64 = 512;

/// The child, for whoever ends it.
#[derive(Clone, Debug)]
pub(in super::super) struct DecoderHandle(Arc<Mutex<Child>>);

impl DecoderHandle {
    /// Ends the child and waits until it is gone. Again: does nothing.
    pub(in super::super) fn end(&self) {
        let mut child = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// The y4m that FFmpeg makes of a file. Reading gives its error where it failed.
pub(super) struct Decoder {
    handle: DecoderHandle,
    pictures: ChildStdout,
    complaints: Option<JoinHandle<String>>,
}

impl Decoder {
    /// Starts FFmpeg on `path`, over and over if `looped`.
    pub(super) fn start(path: &Path, looped: bool) -> Result<Decoder> {
        // FFmpeg's own word for a file that is not there is found out late and says little.
        let name = path.display();
        match std::fs::metadata(path) {
            Err(error) => return Err(failure::failed(format_args!("{name}: {error}"), "check the name")),
            Ok(found) if found.is_dir() => {
                return Err(failure::failed(format_args!("{name} is a folder"), "name a file in it"));
            }
            Ok(_) => {}
        }
        let mut command = Command::new("ffmpeg");
        command.args(["-nostdin", "-hide_banner", "-loglevel", "error"]);
        if looped {
            command.args(["-stream_loop", "-1"]);
        }
        // `file:` in front: no name is mistaken for an option or a protocol.
        let mut name = std::ffi::OsString::from("file:");
        name.push(path);
        command.arg("-i").arg(name);
        // A variable rate becomes the nominal one, by repeating and leaving out.
        command.args(["-map", "0:v:0", "-fps_mode", "cfr", "-vf", FORMATS]);
        command.args(["-f", "yuv4mpegpipe", "-strict", "-1", "pipe:1"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own: Ctrl-C reaches it through us, after the stream has been ended well.
        command.process_group(0);
        let mut child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => failure::failed(
                format_args!("{} is to be decoded by ffmpeg, which is not installed", path.display()),
                "install ffmpeg, or give y4m",
            ),
            _ => failure::failed(format_args!("cannot start ffmpeg: {error}"), "check its installation"),
        })?;
        let pictures = child.stdout.take().expect("its output was asked for");
        let errors = child.stderr.take().expect("its errors were asked for");
        let complaints = thread::Builder::new().name("ffmpeg".to_owned()).spawn(move || listen(errors)).ok();
        Ok(Decoder { handle: DecoderHandle(Arc::new(Mutex::new(child))), pictures, complaints })
    }

    /// For whoever ends the child.
    pub(super) fn handle(&self) -> DecoderHandle {
        self.handle.clone()
    }

    /// Whether it ended well, after its last byte.
    fn ended(&mut self) -> io::Result<()> {
        let status = self.handle.0.lock().unwrap_or_else(PoisonError::into_inner).wait()?;
        if status.success() {
            return Ok(());
        }
        let said = self.complaints.take().and_then(|listener| listener.join().ok()).unwrap_or_default();
        let said = if said.is_empty() { status.to_string() } else { said };
        Err(io::Error::other(format!("ffmpeg failed: {said}")))
    }
}

impl Read for Decoder {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.pictures.read(buffer)?;
        if count == 0 && !buffer.is_empty() {
            self.ended()?;
        }
        Ok(count)
    }
}

impl Drop for Decoder {
    fn drop(&mut self) {
        self.handle.end();
    }
}

/// Its last complaints, on one line.
fn listen(errors: ChildStderr) -> String {
    let (mut errors, mut lines) = (BufReader::new(errors), Vec::new());
    loop {
        let mut line = Vec::new();
        match errors.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return lines.join("; "),
            Ok(_) => {}
        }
        let line = String::from_utf8_lossy(&line).trim().to_owned();
        if !line.is_empty() {
            if lines.len() == MAX_COMPLAINTS {
                lines.remove(0);
            }
            lines.push(line);
        }
    }
}
