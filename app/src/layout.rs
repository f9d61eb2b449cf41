//! What tables are made of: text in columns.

use glassline_media::printable;
use std::fmt::Write;

/// Names come from outside: nothing in them may begin another line. What would steer the terminal is written in digits
/// here already, so that columns have the width of what is shown.
pub(crate) fn clean(text: &str) -> String {
    printable::line(text).into_owned()
}

/// Lines of a name and what there is to say, names aligned.
pub(crate) fn facts(lines: &[(&str, String)]) -> String {
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    lines.iter().fold(String::new(), |mut out, (name, fact)| {
        let _ = writeln!(out, "  {name:width$}  {fact}");
        out
    })
}

/// Rows with aligned columns: the first one to the left, the others to the right.
pub(crate) fn grid(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::from(" ");
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = match column {
                0 => write!(line, " {cell:width$}"),
                _ => write!(line, "  {cell:>width$}"),
            };
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// The warnings, or that there are none.
pub(crate) fn warnings(warnings: &[String]) -> String {
    if warnings.is_empty() {
        return "No warnings.\n".into();
    }
    warnings.iter().fold(String::from("Warnings\n"), |mut out, warning| {
        let _ = writeln!(out, "  - {warning}");
        out
    })
}
