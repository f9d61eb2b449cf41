//! The figures of a bench as Markdown, and where they go in a page.
//!
//! ```text
//! <!-- figures: NAME -->            all cases, and what was asked of them
//! <!-- figures: NAME, WORDS -->     the cases whose names hold these words, and what was asked of those
//!   … replaced by what docs/figures/NAME.json says …
//! <!-- end of figures -->
//! ```
//! The files in `docs/figures` are those of the benches' last runs that pages show; `take` brings newer ones there. So each
//! page can be made again from what is committed, and a test here says whether it is.

use crate::report::{number, sign, times};
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

/// The benches whose figures `page` has places for, each once.
pub fn names(page: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for place in page.split(BEGIN).skip(1) {
        let wanted = place.split("-->").next().unwrap_or_default();
        let name = wanted.split(',').next().unwrap_or_default().trim();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Whether `new` was measured later than `old`.
///
/// # Errors
/// Where one of them has no date, or one that is none of HTTP's (RFC 9110 §5.6.7).
pub fn is_newer(new: &Value, old: &Value) -> Result<bool> {
    let date = |json: &Value| {
        let date = text(json, "date")?.to_owned();
        httpdate::parse_http_date(&date).with_context(|| format!("{date:?} is no date as in HTTP"))
    };
    Ok(date(new)? > date(old)?)
}

/// The tables of all cases, or of those whose names hold `words`; then what was asked, when and where it was measured.
/// Cells are medians of the runs, behind them the least and the most, then the ratio to the peer's.
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
    for case in &cases {
        table(case, rows, &mut out)?;
    }
    asked(json, words, &mut out)?;
    let absent: Vec<&str> = json["notes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .filter(|note| ["SKIPPED", "FAILED"].iter().any(|word| note.starts_with(word)))
        .filter(|note| words.is_none_or(|words| note.contains(words)))
        .collect();
    for note in &absent {
        let _ = writeln!(out, "* {}", note.lines().next().unwrap_or_default());
    }
    if !absent.is_empty() {
        out.push('\n');
    }
    measured(json, &cases, &mut out)?;
    Ok(out)
}

/// What was asked of the figures, and what they are.
fn asked(json: &Value, words: Option<&str>, out: &mut String) -> Result<()> {
    let terms = json["terms"].as_array().map_or(&[][..], Vec::as_slice);
    let mut begun = false;
    for term in terms {
        let asked = text(term, "text")?;
        if words.is_some_and(|words| !asked.contains(words)) {
            continue;
        }
        if !begun {
            out.push_str("| asked | is | must be | |\n|---|---|---|---|\n");
            begun = true;
        }
        let value = |key: &str| term[key].as_f64().map(number).context("a term without a figure");
        let bound = match term["bound"].as_str() {
            Some(bound) => format!("{} ", sign(bound == "most")),
            None => String::new(),
        };
        let held = if term["held"] == true { "held" } else { "**not held**" };
        let _ = writeln!(out, "| {asked} | {} | {bound}{} | {held} |", value("value")?, value("limit")?);
    }
    if begun {
        out.push('\n');
    }
    Ok(())
}

/// When, how and where the cases were measured.
fn measured(json: &Value, cases: &[&str], out: &mut String) -> Result<()> {
    let mut sessions = Vec::new();
    for session in json["measured"].as_array().into_iter().flatten() {
        let measured = session["cases"].as_array().map_or(&[][..], Vec::as_slice);
        if cases.iter().any(|case| measured.iter().any(|known| known == case)) {
            let (date, how) = (text(session, "date")?, session["how"].as_str().unwrap_or_default());
            sessions.push(if how.is_empty() { date.to_owned() } else { format!("{date} ({how})") });
        }
    }
    if sessions.is_empty() {
        sessions.push(text(json, "date")?.to_owned());
    }
    let _ = writeln!(out, "Measured {}; {}.", sessions.join(" and "), text(json, "machine")?);
    Ok(())
}

fn runs(row: &Value) -> usize {
    row["runs"].as_array().map_or(1, Vec::len)
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
    let most_runs = rows().map(runs).max().unwrap_or_default();
    let runs_told = if most_runs == 1 { "1 run".to_owned() } else { format!("{most_runs} runs") };
    let heads = programs.iter().map(|who| {
        let disturbed =
            rows().filter(|row| row["who"] == *who).filter_map(|row| row["disturbed"].as_u64()).max();
        match disturbed.unwrap_or_default() {
            0 => (*who).to_owned(),
            disturbed => format!("{who}, **DISTURBED** ({disturbed} of {most_runs})"),
        }
    });
    let heads: Vec<_> = heads.collect();
    let _ = writeln!(
        out,
        "| {case} ({runs_told}) | {} |\n|---|{}",
        heads.join(" | "),
        "---|".repeat(programs.len())
    );
    for (metric, unit) in metrics {
        let _ = write!(out, "| {metric}{}{unit} |", if unit.is_empty() { "" } else { ", " });
        for who in &programs {
            let row = rows().find(|row| row["who"] == *who && row["metric"] == metric);
            let _ = write!(out, " {} |", row.map_or("–".into(), |row| cell(row, most_runs)));
        }
        out.push('\n');
    }
    out.push('\n');
    Ok(())
}

/// The median, the spread, the ratio to the peer's; how many runs there were, where these were fewer than `most_runs`.
fn cell(row: &Value, most_runs: usize) -> String {
    let mut cell = row["value"].as_f64().map_or("–".into(), number);
    let (least, most) = (row["min"].as_f64().map(number), row["max"].as_f64().map(number));
    if let Some((least, most)) = least.zip(most).filter(|(least, most)| least != most) {
        let _ = write!(cell, " [{least}…{most}]");
    }
    if let Some(ratio) = row["ratio_to"]["value"].as_f64() {
        let _ = write!(cell, " ({})", times(ratio));
    }
    if runs(row) < most_runs {
        let _ = write!(cell, " ({} of {most_runs} runs)", runs(row));
    }
    cell
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str> {
    value[key].as_str().with_context(|| format!("no {key} in {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{OURS, Report};
    use std::fs;
    use std::path::Path;

    fn report() -> Value {
        let mut report = Report::new("test");
        for (ours, others) in [(2.0, 0.0), (3.0, 0.6), (1.0, 0.0)] {
            report.disturbance("fast", OURS, others);
            report.add("fast", OURS, "delay", "ms", ours);
        }
        report.add("fast", "peer", "delay", "ms", 4.0);
        report.add_context("fast", OURS, "others", "%", 7.0);
        report.add("slow", OURS, "lost", "", 0.0);
        report.add_context("nothing but context", OURS, "others", "%", 7.0);
        report.term("fast: delay, ms", 2.0, 1.0, true);
        report.term("slow: lost", 0.0, 0.0, true);
        report.note("SKIPPED a third one: it is not here");
        report.how("3 runs of 1 s");
        report.json()
    }

    #[test]
    fn places_are_filled_and_the_rest_stays() {
        let page = "a\n<!-- figures: test, fast -->\nold\n<!-- end of figures -->\nb\n\
                    <!-- figures: none -->\nkept\n<!-- end of figures -->\n";
        let find = |name: &str| Ok((name == "test").then(report));
        let filled = fill(page, find).unwrap();
        let head = "a\n<!-- figures: test, fast -->\n\n\
                    | fast (3 runs) | glassline, **DISTURBED** (1 of 3) | peer |\n";
        assert!(filled.starts_with(head), "{filled}");
        assert!(filled.contains("| delay, ms | 2 [1…3] (0.50 ×) | 4 (1 of 3 runs) |\n"), "{filled}");
        assert!(filled.contains("| fast: delay, ms | 2 | ≤ 1 | **not held** |"), "{filled}");
        for absent in ["old", "others", "nothing but", "slow", "SKIPPED"] {
            assert!(!filled.contains(absent), "{absent}: {filled}");
        }
        assert!(filled.ends_with("b\n<!-- figures: none -->\nkept\n<!-- end of figures -->\n"), "{filled}");
        assert_eq!(fill(&filled, find).unwrap(), filled, "a second time changes nothing");
        assert_eq!(names(&filled), ["test", "none"]);
    }

    #[test]
    fn all_cases_come_with_what_was_asked_when_and_how_it_was_measured() {
        let json = report();
        let text = markdown(&json, None).unwrap();
        assert!(
            text.contains("| slow (1 run) |") && text.contains("| slow: lost | 0 | ≤ 0 | held |"),
            "{text}"
        );
        assert!(text.contains("* SKIPPED a third one: it is not here\n"), "{text}");
        let date = json["date"].as_str().unwrap();
        assert!(text.contains(&format!("Measured {date} (3 runs of 1 s); ")), "{text}");
    }

    #[test]
    fn what_is_no_place_is_told() {
        assert!(fill("<!-- figures: test -->\n", |_| Ok(None)).is_err());
        assert!(markdown(&Value::Null, None).is_err());
    }

    #[test]
    fn newer_is_what_was_measured_later() {
        let date = |date: &str| serde_json::json!({"date": date});
        let (old, new) = (date("Sun, 06 Nov 1994 08:49:37 GMT"), date("Mon, 07 Nov 1994 08:49:37 GMT"));
        assert!(
            is_newer(&new, &old).unwrap() && !is_newer(&old, &new).unwrap() && !is_newer(&old, &old).unwrap()
        );
        assert!(is_newer(&date("yesterday"), &old).is_err());
    }

    /// Each place in the pages holds what the committed figures give, to the letter, and nothing where there are none:
    /// nothing is typed there.
    #[test]
    fn pages_show_the_committed_figures() {
        let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut pages = vec![top.join("README.md")];
        for entry in fs::read_dir(top.join("docs")).unwrap() {
            pages.push(entry.unwrap().path());
        }
        let mut places = 0;
        for page in pages.iter().filter(|page| page.extension().is_some_and(|extension| extension == "md")) {
            let text = fs::read_to_string(page).unwrap();
            places += names(&text).len();
            let kept = |name: &str| -> Result<Option<Value>> {
                let file = top.join("docs/figures").join(name).with_extension("json");
                if !file.exists() {
                    return Ok(None);
                }
                let json = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
                Ok(Some(serde_json::from_str(&json)?))
            };
            let filled = fill(&text, kept).unwrap_or_else(|error| panic!("{}: {error:#}", page.display()));
            assert!(
                filled == text,
                "{}: its figures are not those of docs/figures; run make figures",
                page.display()
            );
            for name in names(&text).into_iter().filter(|name| matches!(kept(name), Ok(None))) {
                let place = format!("{BEGIN}{name}");
                // One name may begin another.
                let rests = text.split(&place).skip(1).filter(|rest| rest.starts_with([' ', ',']));
                let typed = rests.filter_map(|rest| {
                    rest.split_once("-->")?.1.split_once(END).map(|(inside, _)| inside.trim())
                });
                let typed: String = typed.collect();
                assert!(
                    typed.is_empty(),
                    "{}: there are no figures of {name} to show: {typed}",
                    page.display()
                );
            }
        }
        assert!(places >= 5, "{places} places");
    }
}
