//! Peers in C: small programs around libenet and libsrt, compiled here where the libraries are, that speak as our own
//! ends do ([`crate::end`]).

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Foreign {
    Enet,
    Srt,
}

impl Foreign {
    fn parts(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Foreign::Enet => ("enet", "libenet", include_str!("enet.c")),
            Foreign::Srt => ("srt", "srt", include_str!("srt.c")),
        }
    }

    /// Compiles it into `folder`; or says why it cannot be had.
    pub(crate) fn build(self, folder: &Path) -> Result<Result<PathBuf, String>> {
        let (name, package, source) = self.parts();
        let flags = Command::new("pkg-config").args(["--cflags", "--libs", package]).output();
        let Some(flags) = flags.ok().filter(|flags| flags.status.success()) else {
            return Ok(Err(format!("pkg-config knows no {package}")));
        };
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let (file, program) = (folder.join(name).with_extension("c"), folder.join(name));
        fs::write(&file, source).with_context(|| file.display().to_string())?;
        let built = Command::new("cc")
            .args(["-O2", "-Wall", "-Werror", "-o"])
            .args([&program, &file])
            .args(String::from_utf8_lossy(&flags.stdout).split_whitespace())
            .output();
        match built {
            Ok(built) if built.status.success() => Ok(Ok(fs::canonicalize(program)?)),
            Ok(built) => Ok(Err(String::from_utf8_lossy(&built.stderr).into_owned())),
            Err(error) => Ok(Err(format!("no C compiler: {error}"))),
        }
    }
}
