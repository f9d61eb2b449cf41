//! `--budget FILE.svg`: the run's latency budget as a picture.

use crate::failure;
use anyhow::Result;
use glassline_inspect::report::budget::{self, Budget, Part};
use glassline_studio::encode::{Row, Stats};
use std::path::Path;

/// Draws the budget of a run. `about` says what ran.
pub(super) fn draw(stats: &Stats, about: &str) -> String {
    let part = |row: Row| {
        let (from, to) = row.ends(stats.has_look_ahead());
        Part { from, to, p50_ms: stats.quantile(row, 0.5), p99_ms: stats.quantile(row, 0.99) }
    };
    let total = stats.histogram(Row::Total);
    let counts = total
        .iter_recorded()
        .map(|value| (value.value_iterated_to() as f64 / 1e6, value.count_since_last_iteration()));
    budget::draw(&Budget {
        title: "Latency budget of glassline encode".to_owned(),
        about: format!("{about}, {} pictures", stats.pictures()),
        parts: stats.rows().filter(|row| Row::STAGES.contains(row)).map(part).collect(),
        total: part(Row::Total),
        marks: [Row::FirstPacket, Row::LastPacket].map(part).into(),
        counts: counts.collect(),
    })
}

/// Writes such pictures to `path`; those of further renditions beside it, as `NAME-2.svg` and so on.
pub(super) fn write(path: &Path, pictures: &[String]) -> Result<()> {
    for (index, picture) in pictures.iter().enumerate() {
        let path = numbered(path, index);
        std::fs::write(&path, picture).map_err(|error| {
            let message = format_args!("cannot write {}: {error}", path.display());
            failure::failed(message, "choose another name or folder for --budget")
        })?;
    }
    Ok(())
}

fn numbered(path: &Path, index: usize) -> std::path::PathBuf {
    if index == 0 {
        return path.to_owned();
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}-{}.{extension}", index + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rendition_gets_a_file_of_its_own() {
        let path = Path::new("a/b.svg");
        assert_eq!(numbered(path, 0), path);
        assert_eq!(numbered(path, 2), Path::new("a/b-3.svg"));
    }
}
