//! The file for a drawing: `--flight FILE.svg`, `--budget FILE.svg`.

use crate::failure;
use anyhow::Result;
use std::path::{Path, PathBuf};

/// Takes a name that ends in `.svg`. Another name after the option is probably the source to probe, since the
/// option's value is optional.
pub(crate) fn parse(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    let is_svg = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("svg"));
    if is_svg && !text.contains("://") {
        return Ok(path);
    }
    Err("the picture's name must end in .svg (name the source to probe before the option)".into())
}

/// Fails if the file could not be written, so that the error comes before the measurement.
pub(crate) fn check(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    if !folder.is_dir() {
        let problem = format!("cannot write {}: there is no folder {}", path.display(), folder.display());
        return Err(failure::failed(problem, "name a folder that exists"));
    }
    if path.is_dir() {
        return Err(failure::failed(
            format!("cannot write {}: it is a folder", path.display()),
            "name a file",
        ));
    }
    Ok(())
}

/// Writes the drawing.
pub(crate) fn write(path: &Path, svg: &str) -> Result<()> {
    std::fs::write(path, svg).map_err(|error| {
        failure::failed(format!("cannot write {}: {error}", path.display()), "name a file that you may write")
    })
}
