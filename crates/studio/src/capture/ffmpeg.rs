//! A file that FFmpeg reads. What is in it, and FFmpeg as a child that decodes its pictures, and as another one that
//! decodes its sound.
//!
//! ```text
//!            file's beginning    first picture
//!   file     ├───────────────────┤ shift
//!   pictures                     0 ─────────────►  y4m, a picture each frame's time
//!   sound                        0 ─────────────►  samples of 48 kHz, silence where there is none
//! ```
//! Both begin with the first picture: so a sample's number and a picture's tell how they belong together, as exactly as the
//! file does. There are two children because a single one would block for ever as soon as its pictures are read and its sound
//! is not.

use super::tracks::{self, Kind};
use super::{Error, Film, Result, Tracks};
use glassline_io::child::without_capabilities;
use glassline_media::pixels::Converter;
use glassline_media::{Chroma, Colour, PixelFormat, Size};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// What y4m can carry and [`Converter`](glassline_media::pixels::Converter) takes: of these FFmpeg chooses the one
/// that loses least, so that what is one of them already is not touched by its scaler.
const FORMATS: &str = "format=pix_fmts=yuv420p|yuv422p|yuv444p|yuv411p|gray|yuv420p10le|yuv422p10le|yuv444p10le|\
                       yuv420p12le|yuv422p12le|yuv444p12le|gray10le|gray12le";
/// Pixel formats of red, green and blue begin so.
const RGB: [&str; 10] = ["rgb", "bgr", "gbr", "argb", "abgr", "0rgb", "0bgr", "pal8", "x2rgb", "x2bgr"];
/// FFmpeg's names of code points (H.273, tables 2 to 4).
const PRIMARIES: [(u8, &[&str]); 10] = [
    (1, &["bt709"]),
    (4, &["bt470m"]),
    (5, &["bt470bg"]),
    (6, &["smpte170m"]),
    (7, &["smpte240m"]),
    (8, &["film"]),
    (9, &["bt2020"]),
    (10, &["smpte428", "smpte428_1"]),
    (11, &["smpte431"]),
    (12, &["smpte432"]),
];
const TRANSFERS: [(u8, &[&str]); 16] = [
    (1, &["bt709"]),
    (4, &["gamma22", "bt470m"]),
    (5, &["gamma28", "bt470bg"]),
    (6, &["smpte170m"]),
    (7, &["smpte240m"]),
    (8, &["linear"]),
    (9, &["log", "log100"]),
    (10, &["log_sqrt", "log316"]),
    (11, &["iec61966_2_4", "iec61966-2-4"]),
    (12, &["bt1361", "bt1361e"]),
    (13, &["iec61966_2_1", "iec61966-2-1"]),
    (14, &["bt2020_10bit", "bt2020-10"]),
    (15, &["bt2020_12bit", "bt2020-12"]),
    (16, &["smpte2084"]),
    (17, &["smpte428", "smpte428_1"]),
    (18, &["arib-std-b67"]),
];
const MATRICES: [(u8, &[&str]); 10] = [
    (1, &["bt709"]),
    (4, &["fcc"]),
    (5, &["bt470bg"]),
    (6, &["smpte170m"]),
    (7, &["smpte240m"]),
    (8, &["ycgco", "ycocg"]),
    (9, &["bt2020nc", "bt2020_ncl"]),
    (10, &["bt2020c", "bt2020_cl"]),
    (12, &["chroma-derived-nc"]),
    (14, &["ictcp"]),
];
/// Samples a second of the sound.
const RATE_HZ: u32 = 48_000;
/// Of FFmpeg's complaints the last lines are kept: the first error is often not the one that ended it.
const MAX_COMPLAINTS: usize = 4;
const MAX_LINE_BYTES: u64 = 512;
/// So long before a file's end the child begins that plays it again.
const APPROACH: Duration = Duration::from_secs(2);

/// A file that FFmpeg reads, and what is known of it.
#[derive(Clone, Debug)]
pub struct FfmpegInput {
    path: PathBuf,
    /// The tracks that are taken, as FFmpeg's `-map` has them.
    video: String,
    audio: String,
    /// FFmpeg's name of the pictures' format.
    codec: Option<String>,
    /// FFmpeg's name of the container.
    container: Option<String>,
    /// The first picture by the file's own clock, in seconds.
    first: Option<f64>,
    /// From the file's beginning to the first picture, in seconds.
    shift: f64,
    /// Of its track of sound.
    channels: Option<u8>,
    duration: Option<Duration>,
    /// Of its first picture.
    time_code: Option<String>,
    /// Of its pictures, as they are in the file.
    colour: Colour,
    /// Whether they are red, green and blue, of which FFmpeg makes luma with colour differences for us.
    is_rgb: bool,
    size: Option<Size>,
    children: Children,
}

/// What of a file is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// As y4m.
    Pictures,
    /// As 32 bit float, with so many channels.
    Sound(u8),
}

impl FfmpegInput {
    /// Looks into a film. Where it cannot be looked into, its pictures are taken alone; what is wrong shows when they are
    /// decoded.
    ///
    /// # Errors
    /// It is not there, a folder, or a film without pictures; a track that was asked for is not there.
    pub fn open(Film { path, tracks }: &Film) -> Result<FfmpegInput> {
        // FFmpeg's own word for a file that is not there is found out late and says little.
        let name = path.display().to_string();
        let found = match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => return Err(Error::Folder { name }),
            Ok(found) => found,
            Err(error) => return Err(Error::Open { name, error }),
        };
        let mut file = FfmpegInput {
            path: path.clone(),
            // FFmpeg's `V` is no cover.
            video: "0:V:0".to_owned(),
            audio: "0:a:0".to_owned(),
            codec: None,
            container: None,
            first: None,
            shift: 0.0,
            channels: None,
            duration: None,
            time_code: None,
            colour: Colour::UNSPECIFIED,
            is_rgb: false,
            size: None,
            children: Children::default(),
        };
        // What is read out of a pipe is gone.
        let report = if found.is_file() { file.probe() } else { None };
        match report.filter(|report| report["streams"].is_array()) {
            Some(report) => file.learn(&report, tracks)?,
            None if tracks.is_empty() => {}
            None => return Err(Error::NotLookedInto { name }),
        }
        Ok(file)
    }

    fn probe(&self) -> Option<Value> {
        let mut command = Command::new("ffprobe");
        let entries =
            format!("{}:format=format_name,start_time,duration:format_tags=timecode", tracks::ENTRIES);
        command.args(["-v", "quiet", "-show_entries", &entries, "-of", "json", "-i"]).arg(self.url());
        let output = without_capabilities(&mut command).stdin(Stdio::null()).process_group(0).output();
        serde_json::from_slice(&output.ok()?.stdout).ok()
    }

    fn learn(&mut self, report: &Value, wanted: &Tracks) -> Result<()> {
        let name = self.name();
        if let Some(what) = tracks::without_pictures(report) {
            return Err(Error::NoPictures { name, what });
        }
        let video = tracks::chosen(report, Kind::Video, wanted.video.as_ref(), &name)?;
        let audio = tracks::chosen(report, Kind::Audio, wanted.audio.as_ref(), &name)?;
        let map = |track: Option<&Value>| track?["index"].as_u64().map(|index| format!("0:{index}"));
        self.video = map(video).unwrap_or_else(|| self.video.clone());
        self.audio = map(audio).unwrap_or_else(|| self.audio.clone());
        let seconds = |value: &Value| value.as_str()?.parse::<f64>().ok().filter(|time| time.is_finite());
        let start = |of: &Value| seconds(&of["start_time"]);
        self.codec = video.and_then(|video| video["codec_name"].as_str()).map(str::to_owned);
        self.container = report["format"]["format_name"].as_str().map(str::to_owned);
        self.first = video.and_then(start);
        let shift = self.first.zip(start(&report["format"]));
        self.shift = shift.map_or(0.0, |(video, file)| (video - file).max(0.0));
        let channels = audio.and_then(|sound| sound["channels"].as_u64());
        self.channels = channels.and_then(|count| u8::try_from(count).ok()).filter(|&count| count > 0);
        self.time_code = tracks::time_code(report, video);
        if let Some(video) = video {
            let point = |key: &str, names: &[(u8, &[&str])]| {
                let name = video[key].as_str().unwrap_or_default();
                names.iter().find(|(_, names)| names.contains(&name)).map_or(2, |(point, _)| *point)
            };
            self.colour = Colour {
                primaries: point("color_primaries", &PRIMARIES),
                transfer: point("color_transfer", &TRANSFERS),
                matrix: point("color_space", &MATRICES),
                full_range: false,
            };
            let pix_fmt = video["pix_fmt"].as_str().unwrap_or_default();
            self.is_rgb = video["color_space"] == "gbr" || RGB.iter().any(|name| pix_fmt.starts_with(name));
            let side = |key: &str| video[key].as_u64().and_then(|side| u32::try_from(side).ok());
            let size = side("width").zip(side("height"));
            self.size = size.and_then(|(width, height)| Size::new(width, height).ok());
        }
        let duration = seconds(&report["format"]["duration"]).filter(|&length| length > 0.0 && length < 1e9);
        self.duration = duration.map(Duration::from_secs_f64);
        Ok(())
    }

    /// For people.
    #[must_use]
    pub fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Channels of its sound, if it has some.
    #[must_use]
    pub fn channels(&self) -> Option<u8> {
        self.channels
    }

    /// The time code of its first picture, as the file says it; FFmpeg counts each frame of 50 or 60 a second.
    #[must_use]
    pub fn time_code(&self) -> Option<&str> {
        self.time_code.as_deref()
    }

    /// FFmpeg's name of its pictures' codec.
    pub(super) fn codec(&self) -> Option<&str> {
        self.codec.as_deref()
    }

    /// The same film with a list of children of its own: ending the children of one leaves those of the other running.
    #[must_use]
    pub(crate) fn apart(&self) -> FfmpegInput {
        FfmpegInput { children: Children::default(), ..self.clone() }
    }

    /// The track of pictures, as FFmpeg's `-map` has it.
    pub(super) fn video(&self) -> &str {
        &self.video
    }

    /// The first picture by the file's own clock, in seconds, where it says that.
    pub(super) fn first(&self) -> Option<f64> {
        self.first
    }

    /// Whether FFmpeg takes jumps of its clock for what they are, not for pauses: of transport and program streams.
    pub(super) fn has_jumps(&self) -> bool {
        self.container.as_deref().is_some_and(|name| name == "mpegts" || name == "mpeg")
    }

    /// What the samples mean that it is decoded to, of pictures of `size`, but for the range.
    #[must_use]
    pub fn colour(&self, size: Size) -> Colour {
        let of = PixelFormat::planar(if self.is_rgb { Chroma::Rgb } else { Chroma::Yuv420 }, 8);
        Converter::colour(self.colour, of, self.size.unwrap_or(size))
    }

    /// The children that decode it, so that the caller can end them.
    #[must_use]
    pub fn children(&self) -> Children {
        self.children.clone()
    }

    /// `file:` in front: no name is mistaken for an option or a protocol.
    pub(super) fn url(&self) -> OsString {
        let mut url = OsString::from("file:");
        url.push(&self.path);
        url
    }

    fn command(&self, part: Part) -> Command {
        let mut command = Command::new("ffmpeg");
        command.args(["-nostdin", "-hide_banner", "-loglevel", "error", "-i"]).arg(self.url());
        let shift = self.shift;
        match part {
            Part::Pictures => {
                // A variable rate becomes the nominal one, by repeating and leaving out.
                let mut filter = String::new();
                if shift > 0.0 {
                    filter = format!("setpts=PTS-{shift}/TB,");
                }
                // FFmpeg alone would take BT.601 for pictures of any size.
                if let Some(size) = self.size.filter(|_| self.is_rgb) {
                    let matrix = match self.colour(size).matrix {
                        1 => "bt709",
                        9 | 10 => "bt2020",
                        4 => "fcc",
                        7 => "smpte240m",
                        _ => "bt601",
                    };
                    filter = format!("{filter}scale=out_color_matrix={matrix}:out_range=limited,");
                }
                filter.push_str(FORMATS);
                command.args(["-map", &self.video, "-fps_mode", "cfr", "-vf", &filter]);
                command.args(["-f", "yuv4mpegpipe", "-strict", "-1", "pipe:1"]);
            }
            Part::Sound(channels) => {
                // What is missing becomes silence, what comes before the first picture is left out.
                let first = (shift * f64::from(RATE_HZ)).round();
                let filter = format!("aresample={RATE_HZ}:async=1:first_pts={first}");
                command.args(["-map", &self.audio, "-vn", "-af", &filter, "-ac", &channels.to_string()]);
                command.args(["-f", "f32le", "pipe:1"]);
            }
        }
        command
    }

    fn decode(&self, part: Part) -> Result<Decoder> {
        self.start(self.command(part))
    }

    /// Starts a program of FFmpeg's, of which its output is read.
    pub(super) fn start(&self, mut command: Command) -> Result<Decoder> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own: Ctrl-C reaches it through us, after the stream has been ended well.
        without_capabilities(command.process_group(0));
        let (id, bytes, errors) = self.children.start(&mut command).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::FfmpegAbsent { name: self.name() },
            _ => Error::Ffmpeg(error),
        })?;
        let complaints = thread::Builder::new().name("ffmpeg".to_owned()).spawn(move || listen(errors)).ok();
        let program = command.get_program().to_string_lossy().into_owned();
        Ok(Decoder { children: self.children.clone(), program, id, bytes, complaints })
    }
}

/// The processes of FFmpeg that decode a file. Clones mean the same ones.
#[derive(Clone, Debug, Default)]
pub struct Children(Arc<Mutex<Running>>);

#[derive(Debug, Default)]
struct Running {
    started: u64,
    children: BTreeMap<u64, Child>,
    /// No more are to begin.
    over: bool,
}

impl Children {
    /// Ends all of them, and waits until they are gone. None begins any more.
    pub fn end(&self) {
        let mut running = self.lock();
        running.over = true;
        for mut child in std::mem::take(&mut running.children).into_values() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn start(&self, command: &mut Command) -> io::Result<(u64, ChildStdout, ChildStderr)> {
        let mut running = self.lock();
        if running.over {
            return Err(io::Error::other("the end has been asked for"));
        }
        let mut child = command.spawn()?;
        let (output, errors) = (child.stdout.take(), child.stderr.take());
        running.started += 1;
        let id = running.started;
        running.children.insert(id, child);
        Ok((id, output.expect("its output was asked for"), errors.expect("its errors were asked for")))
    }

    /// How a child has ended that ends by itself; `None` for one that was ended.
    fn wait(&self, id: u64) -> io::Result<Option<ExitStatus>> {
        self.lock().children.remove(&id).map(|mut child| child.wait()).transpose()
    }

    fn kill(&self, id: u64) {
        if let Some(mut child) = self.lock().children.remove(&id) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What FFmpeg makes of a part of a file. Reading gives its error where it failed.
pub(super) struct Decoder {
    children: Children,
    /// Its name, for people.
    program: String,
    id: u64,
    bytes: ChildStdout,
    complaints: Option<JoinHandle<String>>,
}

impl Decoder {
    /// Whether it ended well, after its last byte.
    fn ended(&mut self) -> io::Result<()> {
        match self.children.wait(self.id)? {
            Some(status) if !status.success() => {
                let listener = self.complaints.take();
                let said = listener.and_then(|listener| listener.join().ok()).unwrap_or_default();
                let said = if said.is_empty() { status.to_string() } else { said };
                Err(io::Error::other(format!("{} failed: {said}", self.program)))
            }
            _ => Ok(()),
        }
    }
}

impl Read for Decoder {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.bytes.read(buffer)?;
        if count == 0 && !buffer.is_empty() {
            self.ended()?;
        }
        Ok(count)
    }
}

impl Drop for Decoder {
    fn drop(&mut self) {
        self.children.kill(self.id);
    }
}

/// A part of a file, as often as it is wanted.
pub(super) struct FfmpegReader {
    file: FfmpegInput,
    part: Part,
    decoder: Decoder,
    /// The decoder of the next round, started before it is needed, where the file is played again.
    spare: Option<Decoder>,
}

impl FfmpegReader {
    /// Begins to decode.
    pub(super) fn open(file: &FfmpegInput, part: Part) -> Result<FfmpegReader> {
        Ok(FfmpegReader { file: file.clone(), part, decoder: file.decode(part)?, spare: None })
    }

    /// The file it belongs to.
    pub(super) fn file(&self) -> &FfmpegInput {
        &self.file
    }

    /// The file, which will be played again, has been read as far as `position`: near the end this starts the child of the
    /// next round, so that the reader does not wait for it.
    pub(super) fn approach(&mut self, position: Duration) {
        let is_near = self.file.duration.is_some_and(|length| position + APPROACH >= length);
        if self.spare.is_none() && is_near {
            // Where that fails it fails again when it is needed, and is told.
            self.spare = self.file.decode(self.part).ok();
        }
    }

    /// Begins again.
    pub(super) fn again(&mut self) -> Result<()> {
        self.decoder = match self.spare.take() {
            Some(decoder) => decoder,
            None => self.file.decode(self.part)?,
        };
        Ok(())
    }
}

impl Read for FfmpegReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.decoder.read(buffer)
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

#[cfg(test)]
#[path = "ffmpeg_tests.rs"]
mod tests;
