//! What is encoded: the shared test clips, as y4m files that are made once.

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the pictures show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Content {
    /// Plants before a hand-held camera
    Flower,
    /// People before a fixed camera, with cuts
    People,
    /// A street with trees and cars, the cleanest detail; 54 frames. Held out: nothing is tuned by it
    Street,
    /// Big Buck Bunny, drawn; 132 frames. Held out as well
    Bbb,
}

impl Content {
    fn source(self) -> Source {
        let source = |file, filter, frames, rate| Source { file, filter, frames, rate };
        match self {
            Content::Flower => source("flower_720p30.mp4", "null", 300, 30),
            Content::People => {
                source("people_480p30.mp4", "scale=1280:960:flags=lanczos,crop=1280:720:0:60", 1323, 30)
            }
            Content::Street => source("street_720p25.mp4", "null", 54, 25),
            Content::Bbb => source("bbb_720p25.mp4", "null", 132, 25),
        }
    }
}

/// Where a clip comes from.
struct Source {
    file: &'static str,
    /// The filter by which the shared folder's page makes it 1280×720.
    filter: &'static str,
    frames: u32,
    /// Frames a second.
    rate: u32,
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Content::Flower => "flower",
            Content::People => "people",
            Content::Street => "street",
            Content::Bbb => "bbb",
        })
    }
}

/// How large the pictures are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Height {
    /// 1280×720
    #[value(name = "720")]
    P720,
    /// 640×360
    #[value(name = "360")]
    P360,
}

impl Height {
    fn lines(self) -> u32 {
        match self {
            Height::P720 => 720,
            Height::P360 => 360,
        }
    }
}

/// A clip on disk.
#[derive(Clone, Debug)]
pub(crate) struct Clip {
    /// For the table: `flower 720p`.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) frames: u32,
    /// Frames a second.
    pub(crate) rate: f64,
}

/// Where shared test data lies.
fn shared() -> PathBuf {
    let root = std::env::var_os("GLASSLINE_SHARED");
    root.map_or_else(|| "../shared".into(), PathBuf::from).join("media")
}

impl Clip {
    /// The clip in `folder`, `frames` of it or as many as it has, made by FFmpeg where it is not there yet; or why it
    /// cannot be had.
    pub(crate) fn make(
        content: Content,
        height: Height,
        frames: u32,
        folder: &Path,
    ) -> Result<Result<Clip, String>> {
        let Source { file, filter, frames: most, rate } = content.source();
        let (source, frames) = (shared().join(file), frames.min(most));
        if !source.exists() {
            return Ok(Err(format!("{} is not there (GLASSLINE_SHARED)", source.display())));
        }
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let lines = height.lines();
        let path = folder.join(format!("{content}-{lines}p-{frames}.y4m"));
        if !path.exists() {
            // Under another name until it is whole.
            let part = path.with_extension("part");
            let filter = match height {
                Height::P720 => filter.to_owned(),
                Height::P360 => format!("{filter},scale=640:360:flags=lanczos"),
            };
            let made = Command::new("ffmpeg")
                .args(["-v", "error", "-y", "-i"])
                .arg(&source)
                .args(["-vf", &format!("{filter},format=yuv420p"), "-r", &rate.to_string()])
                .args(["-frames:v", &frames.to_string(), "-f", "yuv4mpegpipe"])
                .arg(&part)
                .stdin(Stdio::null())
                .output();
            let Ok(made) = made else { return Ok(Err("no ffmpeg to make the clips".to_owned())) };
            let told = String::from_utf8_lossy(&made.stderr);
            ensure!(made.status.success(), "ffmpeg cannot make {}: {told}", path.display());
            fs::rename(&part, &path).with_context(|| path.display().to_string())?;
        }
        let picture_bytes = u64::from(lines * (lines * 16 / 9)) * 3 / 2 + 6;
        let found = fs::metadata(&path).with_context(|| path.display().to_string())?.len() / picture_bytes;
        ensure!(
            found == u64::from(frames),
            "{} holds {found} frames, not {frames}; remove it",
            path.display()
        );
        Ok(Ok(Clip { name: format!("{content} {lines}p"), path, frames, rate: f64::from(rate) }))
    }
}
