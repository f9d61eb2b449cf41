//! Brings the figures of benches into the pages that show them: `bench-figures MEASURED KEPT PAGE...`. MEASURED is where
//! benches write (`target/bench`), KEPT where the figures of pages are committed (`docs/figures`). What is newer there
//! becomes what is kept; then each page is made of that.

use anyhow::{Context, Result, bail};
use glassline_bench::figures;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

fn main() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(measured), Some(kept)) = (arguments.next(), arguments.next()) else {
        bail!("usage: bench-figures MEASURED KEPT PAGE...")
    };
    let mut pages = Vec::new();
    for page in arguments {
        let text = fs::read_to_string(&page).with_context(|| page.display().to_string())?;
        pages.push((page, text));
    }
    let names: BTreeSet<&str> = pages.iter().flat_map(|(_, text)| figures::names(text)).collect();
    for name in names {
        take(name, &measured, &kept)?;
    }
    for (page, text) in &pages {
        let filled = figures::fill(text, |bench| {
            let json = read(&kept.join(bench).with_extension("json"))?;
            if json.is_none() {
                eprintln!(
                    "{}: no figures of {bench} yet (make bench-{bench}); its place stays as it is",
                    page.display()
                );
            }
            Ok(json)
        })
        .with_context(|| page.display().to_string())?;
        if filled != *text {
            fs::write(page, filled).with_context(|| page.display().to_string())?;
            println!("{}: figures copied", page.display());
        }
    }
    Ok(())
}

/// Keeps what a bench has measured, where that is newer than what is kept.
fn take(name: &str, measured: &Path, kept: &Path) -> Result<()> {
    let (from, to) = (measured.join(name).with_extension("json"), kept.join(name).with_extension("json"));
    let Some(new) = read(&from)? else { return Ok(()) };
    let is_newer = match read(&to)? {
        Some(old) => figures::is_newer(&new, &old).with_context(|| format!("{name}.json"))?,
        None => true,
    };
    if is_newer {
        fs::create_dir_all(kept).with_context(|| kept.display().to_string())?;
        fs::copy(&from, &to).with_context(|| to.display().to_string())?;
        println!("{}: taken from {}", to.display(), from.display());
    }
    Ok(())
}

/// A bench's JSON, if it is there.
fn read(file: &Path) -> Result<Option<Value>> {
    match fs::read_to_string(file) {
        Ok(json) => Ok(Some(serde_json::from_str(&json).with_context(|| file.display().to_string())?)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| file.display().to_string()),
    }
}
