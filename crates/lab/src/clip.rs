//! The video of the experiments: people before a camera (`people_480p30.mp4` of the shared test data) as raw pictures of 1280x720,
//! 30 a second, made once by FFmpeg. And where the shared test data is.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Its name, for reports.
pub const NAME: &str = "people_480p30";
/// How it is made larger: to the width, and the height cut.
const FILTER: &str = "scale=1280:960:flags=lanczos,crop=1280:720:0:60,format=yuv420p";

/// The folder of the shared test data: what `GLASSLINE_SHARED` says, or `../shared`.
pub fn shared() -> PathBuf {
    std::env::var_os("GLASSLINE_SHARED").map_or_else(|| PathBuf::from("../shared"), PathBuf::from)
}

/// The clip as y4m in `folder`, made where it is not there: 1.8 GB, in some seconds.
///
/// # Errors
/// Where the shared test data or FFmpeg is not there, or the disk is full.
pub fn people_720p30(shared: &Path, folder: &Path) -> Result<PathBuf> {
    let clip = folder.join("people.y4m");
    if clip.exists() {
        return Ok(clip);
    }
    let source = shared.join("media").join(NAME).with_extension("mp4");
    ensure!(
        source.exists(),
        "{} is not there: GLASSLINE_SHARED names the folder of the shared test data",
        source.display()
    );
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let half = folder.join("people.half.y4m");
    let made = Command::new("ffmpeg")
        .args(["-v", "error", "-nostdin", "-y", "-i"])
        .arg(&source)
        .args(["-vf", FILTER, "-r", "30"])
        .arg(&half)
        .status()
        .context("cannot start ffmpeg, which makes the video of the experiments")?;
    ensure!(made.success(), "ffmpeg ended with {made}");
    std::fs::rename(&half, &clip).with_context(|| format!("cannot keep {}", clip.display()))?;
    Ok(clip)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use glassline_test_support::program::Scratch;

    #[test]
    fn a_clip_that_is_there_is_not_made_again() {
        let scratch = Scratch::new("clip");
        let nowhere = PathBuf::from(scratch.file("nowhere"));
        let clip = PathBuf::from(scratch.file("people.y4m"));
        let folder = clip.parent().unwrap();
        let error = people_720p30(&nowhere, folder).unwrap_err().to_string();
        assert!(error.contains("people_480p30.mp4 is not there"), "{error}");
        std::fs::write(&clip, "YUV4MPEG2").unwrap();
        assert_eq!(people_720p30(&nowhere, folder).unwrap(), clip);
    }
}
