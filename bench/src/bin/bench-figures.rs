//! Copies the figures of benches into the pages that show them: `bench-figures FOLDER PAGE...`, where FOLDER holds
//! what the benches wrote.

use anyhow::{Context, Result, bail};
use glassline_bench::figures;
use std::path::PathBuf;

fn main() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let Some(folder) = arguments.next() else { bail!("usage: bench-figures FOLDER PAGE...") };
    for page in arguments {
        let name = page.display().to_string();
        let text = std::fs::read_to_string(&page).with_context(|| name.clone())?;
        let filled = figures::fill(&text, |bench| {
            let file = folder.join(bench).with_extension("json");
            match std::fs::read_to_string(&file) {
                Ok(json) => {
                    Ok(Some(serde_json::from_str(&json).with_context(|| file.display().to_string())?))
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    eprintln!(
                        "{name}: no figures of {bench} yet (make bench-{bench}); its place stays as it is"
                    );
                    Ok(None)
                }
                Err(error) => Err(error).with_context(|| file.display().to_string()),
            }
        })
        .with_context(|| name.clone())?;
        if filled != text {
            std::fs::write(&page, filled).with_context(|| name.clone())?;
            println!("{name}: figures copied");
        }
    }
    Ok(())
}
