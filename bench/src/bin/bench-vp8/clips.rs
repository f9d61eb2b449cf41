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
}

impl Content {
    /// File, and the filter by which the shared folder's page makes it 1280×720.
    fn source(self) -> (&'static str, &'static str) {
        match self {
            Content::Flower => ("flower_720p30.mp4", "null"),
            Content::People => ("people_480p30.mp4", "scale=1280:960:flags=lanczos,crop=1280:720:0:60"),
        }
    }
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Content::Flower => "flower",
            Content::People => "people",
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

/// Of both clips.
const RATE: f64 = 30.0;

/// Where shared test data lies.
fn shared() -> PathBuf {
    let root = std::env::var_os("GLASSLINE_SHARED");
    root.map_or_else(|| "../shared".into(), PathBuf::from).join("media")
}

impl Clip {
    /// The clip in `folder`, made by FFmpeg where it is not there yet; or why it cannot be had.
    pub(crate) fn make(
        content: Content,
        height: Height,
        frames: u32,
        folder: &Path,
    ) -> Result<Result<Clip, String>> {
        let (file, filter) = content.source();
        let source = shared().join(file);
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
                .args(["-vf", &format!("{filter},format=yuv420p"), "-r", "30"])
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
        Ok(Ok(Clip { name: format!("{content} {lines}p"), path, frames, rate: RATE }))
    }
}
