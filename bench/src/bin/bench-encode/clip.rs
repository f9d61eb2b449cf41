//! What is encoded: a clip that is played over and over, and the thread that hands it to an encoder's standard input.

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use glassline_io::clock::Clock;
use glassline_measure::pattern::Pattern;
use glassline_media::container::y4m;
use glassline_media::{FrameRate, Size, Time, Utc};
use std::fmt;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::thread;
use std::time::Duration;

pub(crate) const SIZE: Size = Size { width: 1280, height: 720 };
/// Pictures a second.
pub(crate) const RATE: u32 = 50;
/// The clip, which repeats: whole seconds, so that its seam falls on a key frame.
const CLIP_PICTURES: usize = 100;
const PICTURE_BYTES: usize = 1280 * 720 * 3 / 2;

/// What the pictures show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Content {
    /// Plants before a hand-held camera, from the shared test clips
    Flower,
    /// People before a fixed camera, from the shared test clips
    People,
    /// The test pattern
    Pattern,
}

impl Content {
    /// File and filter by which the shared folder's page makes it 1280×720.
    fn clip(self) -> Option<(&'static str, &'static str)> {
        match self {
            Content::Flower => Some(("flower_720p30.mp4", "null")),
            Content::People => Some(("people_480p30.mp4", "scale=1280:960:flags=lanczos,crop=1280:720:0:60")),
            Content::Pattern => None,
        }
    }
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Content::Flower => "the clip flower",
            Content::People => "the clip people",
            Content::Pattern => "the test pattern",
        })
    }
}

/// The pictures, drawn or decoded once.
pub(crate) struct Clip {
    header: Vec<u8>,
    pictures: Vec<Vec<u8>>,
    rate: FrameRate,
}

impl Clip {
    /// The clip that shows `content`, or the test pattern and the reason for it.
    pub(crate) fn load(content: Content) -> Result<(Clip, Option<String>)> {
        let rate = FrameRate::new(RATE, 1).context("the frame rate is above zero")?;
        let Some((file, filter)) = content.clip() else { return Ok((Clip::draw(rate), None)) };
        let folder = std::env::var_os("GLASSLINE_SHARED").map_or_else(|| "../shared".into(), PathBuf::from);
        let file = folder.join("media").join(file);
        if !file.exists() {
            let why = format!("{} is not there (GLASSLINE_SHARED): the test pattern instead", file.display());
            return Ok((Clip::draw(rate), Some(why)));
        }
        let decoded = Command::new("ffmpeg")
            .args(["-v", "error", "-i"])
            .arg(&file)
            .args(["-vf", filter, "-pix_fmt", "yuv420p", "-frames:v", &CLIP_PICTURES.to_string()])
            .args(["-f", "rawvideo", "-"])
            .stdin(Stdio::null())
            .output();
        let Ok(decoded) = decoded else {
            return Ok((
                Clip::draw(rate),
                Some("no ffmpeg to decode the clip: the test pattern instead".into()),
            ));
        };
        let told = String::from_utf8_lossy(&decoded.stderr).into_owned();
        let bytes = decoded.stdout;
        ensure!(decoded.status.success(), "ffmpeg cannot decode {}: {told}", file.display());
        ensure!(
            bytes.len() == CLIP_PICTURES * PICTURE_BYTES,
            "{} gave {} bytes, not {CLIP_PICTURES} pictures of 1280x720",
            file.display(),
            bytes.len()
        );
        let framed = |picture: &[u8]| [b"FRAME\n", picture].concat();
        let pictures = bytes.chunks_exact(PICTURE_BYTES).map(framed).collect();
        Ok((Clip { header: Clip::header(rate), pictures, rate }, None))
    }

    fn draw(rate: FrameRate) -> Clip {
        let mut pattern = Pattern::new(SIZE, rate);
        let pictures = (0..CLIP_PICTURES as u64)
            .map(|number| {
                let picture = pattern.draw(number, Time::ZERO + rate.time_of(number), Utc::default());
                let mut bytes = Vec::new();
                y4m::write_picture(&picture, &mut bytes);
                bytes
            })
            .collect();
        Clip { header: Clip::header(rate), pictures, rate }
    }

    fn header(rate: FrameRate) -> Vec<u8> {
        let picture = Pattern::new(SIZE, rate).draw(0, Time::ZERO, Utc::default());
        let mut header = Vec::new();
        y4m::write_header(&y4m::Header::of(&picture, rate), &mut header)
            .expect("the pattern is planar YCbCr");
        header
    }

    /// Writes `count` pictures to a file.
    pub(crate) fn save(&self, path: &Path, count: u64) -> Result<()> {
        let write = || -> std::io::Result<()> {
            let mut file = BufWriter::new(File::create(path)?);
            file.write_all(&self.header)?;
            (0..count)
                .zip(self.pictures.iter().cycle())
                .try_for_each(|(_, picture)| file.write_all(picture))?;
            file.flush()
        };
        write().with_context(|| path.display().to_string())
    }

    /// The rate that its header says.
    pub(crate) fn rate(&self) -> FrameRate {
        self.rate
    }

    /// Writes `count` pictures, each at its time after the first (`due`), and returns when each was there to be taken,
    /// and when all but what the pipe holds was taken. Tells `before` of each picture before it is written.
    pub(crate) fn play(
        &self,
        mut into: ChildStdin,
        count: u64,
        due: &(dyn Fn(u64) -> Duration + Sync),
        clock: Clock,
        before: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<Vec<Written>> {
        into.write_all(&self.header).context("the encoder takes no header")?;
        let start = clock.now();
        let mut written = Vec::new();
        for (number, picture) in (0..count).zip(self.pictures.iter().cycle()) {
            before(number)?;
            let due = start + due(number);
            let late = clock.now() > due;
            if !late {
                thread::sleep(due.since(clock.now()));
            }
            let offered = if late { due } else { clock.now() };
            into.write_all(picture).with_context(|| format!("the encoder takes no picture {number}"))?;
            written.push(Written { offered, taken: clock.now() });
        }
        Ok(written)
    }
}

/// A picture's way into the encoder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    /// When its write began, or should have begun where the pipe was still taken by the picture before.
    pub(crate) offered: Time,
    /// When the pipe had its last byte.
    pub(crate) taken: Time,
}
