//! The figures of a bench as Markdown, and where they go in a page.
//!
//! ```text
//! <!-- figures: NAME -->            all cases, and what was asked of them
//! <!-- figures: NAME, WORDS -->     the cases whose names hold these words
//!   … replaced by what target/bench/NAME.json says …
//! <!-- end of figures -->
//! ```

use crate::report::{number, times};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::fmt::Write;

const BEGIN: &str = "<!-- figures: ";
const END: &str = "<!-- end of figures -->";

/// Fills every place for figures in `page`; `find` gives a bench's JSON by its name, or `None` where it has not run:
/// that place stays as it is.
///
/// # Errors
/// Where a place has no end, or the JSON is not a bench's.
pub fn fill(page: &str, mut find: impl FnMut(&str) -> Result<Option<Value>>) -> Result<String> {
    let (mut out, mut rest) = (String::with_capacity(page.len()), page);
    while let Some(at) = rest.find(BEGIN) {
        let line_end = rest[at..].find("-->").context("a place for figures whose first line has no end")?;
        let inside = at + line_end + "-->".len();
        let Some(length) = rest[inside..].find(END) else { bail!("a place for figures has no {END:?}") };
        let wanted = rest[at + BEGIN.len()..at + line_end].trim();
        let (name, words) =
            wanted.split_once(',').map_or((wanted, None), |(name, words)| (name, Some(words.trim())));
        out.push_str(&rest[..inside]);
        match find(name)? {
            Some(json) => {
                let _ = write!(out, "\n\n{}\n", markdown(&json, words)?);
            }
            None => out.push_str(&rest[inside..inside + length]),
        }
        out.push_str(END);
        rest = &rest[inside + length + END.len()..];
    }
    out.push_str(rest);
    Ok(out)
}

/// The tables of all cases, or of those whose names hold `words`; then what was asked, when and where it was measured.
///
/// # Errors
/// Where it is not the JSON of a bench.
pub fn markdown(json: &Value, words: Option<&str>) -> Result<String> {
    let rows = json["rows"].as_array().context("there are no rows")?;
    let mut out = String::new();
    let mut cases: Vec<&str> = Vec::new();
    for row in rows {
        let case = text(row, "case")?;
        let shown = row["context"] != true && words.is_none_or(|words| case.contains(words));
        if shown && !cases.contains(&case) {
            cases.push(case);
        }
    }
    for case in cases {
        table(case, rows, &mut out)?;
    }
    let terms = json["terms"].as_array().filter(|terms| words.is_none() && !terms.is_empty());
    if let Some(terms) = terms {
        out.push_str("| asked | is | must be | |\n|---|---|---|---|\n");
        for term in terms {
            let value = |key: &str| term[key].as_f64().map(number).context("a term without a figure");
            let held = if term["held"] == true { "held" } else { "**not held**" };
            let _ = writeln!(
                out,
                "| {} | {} | {} | {held} |",
                text(term, "text")?,
                value("value")?,
                value("limit")?
            );
        }
        out.push('\n');
    }
    let _ = writeln!(out, "{}, {}.", text(json, "date")?, text(json, "machine")?);
    Ok(out)
}

/// One case: a row a metric, a column a program.
fn table(case: &str, rows: &[Value], out: &mut String) -> Result<()> {
    let rows = || rows.iter().filter(|row| row["case"] == case && row["context"] != true);
    let (mut programs, mut metrics) = (Vec::new(), Vec::new());
    for row in rows() {
        let (who, metric) = (text(row, "who")?, (text(row, "metric")?, text(row, "unit")?));
        if !programs.contains(&who) {
            programs.push(who);
        }
        if !metrics.contains(&metric) {
            metrics.push(metric);
        }
    }
    let _ = writeln!(out, "| {case} | {} |\n|---|{}", programs.join(" | "), "---|".repeat(programs.len()));
    for (metric, unit) in metrics {
        let _ = write!(out, "| {metric}{}{unit} |", if unit.is_empty() { "" } else { ", " });
        for who in &programs {
            let row = rows().find(|row| row["who"] == *who && row["metric"] == metric);
            let value = row.and_then(|row| row["value"].as_f64()).map_or("–".into(), number);
            let ratio = row.and_then(|row| row["ratio_to"]["value"].as_f64());
            let ratio = ratio.map_or(String::new(), |ratio| format!(" ({})", times(ratio)));
            let _ = write!(out, " {value}{ratio} |");
        }
        out.push('\n');
    }
    out.push('\n');
    Ok(())
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str> {
    value[key].as_str().with_context(|| format!("no {key} in {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{OURS, Report};

    fn report() -> Value {
        let mut report = Report::new("test");
        report.add("fast", OURS, "delay", "ms", 2.0);
        report.add("fast", "peer", "delay", "ms", 4.0);
        report.add_context("fast", OURS, "others", "%", 7.0);
        report.add("slow", OURS, "lost", "", 0.0);
        report.add_context("nothing but context", OURS, "others", "%", 7.0);
        report.term("delay, ms", 2.0, 1.0, true);
        report.json()
    }

    #[test]
    fn places_are_filled_and_the_rest_stays() {
        let page = "a\n<!-- figures: test, fast -->\nold\n<!-- end of figures -->\nb\n\
                    <!-- figures: none -->\nkept\n<!-- end of figures -->\n";
        let find = |name: &str| Ok((name == "test").then(report));
        let filled = fill(page, find).unwrap();
        assert!(
            filled.starts_with("a\n<!-- figures: test, fast -->\n\n| fast | glassline | peer |\n"),
            "{filled}"
        );
        assert!(filled.contains("| delay, ms | 2 (0.50 ×) | 4 |\n") && !filled.contains("old"), "{filled}");
        assert!(
            !filled.contains("others")
                && !filled.contains("nothing but")
                && !filled.contains("slow")
                && !filled.contains("held"),
            "{filled}"
        );
        assert!(filled.ends_with("b\n<!-- figures: none -->\nkept\n<!-- end of figures -->\n"), "{filled}");
        assert_eq!(fill(&filled, find).unwrap(), filled, "a second time changes nothing");
    }

    #[test]
    fn all_cases_come_with_what_was_asked() {
        let text = markdown(&report(), None).unwrap();
        assert!(text.contains("| slow |") && text.contains("| delay, ms | 2 | 1 | **not held** |"), "{text}");
    }

    #[test]
    fn what_is_no_place_is_told() {
        assert!(fill("<!-- figures: test -->\n", |_| Ok(None)).is_err());
        assert!(markdown(&Value::Null, None).is_err());
    }
}
