//! The figures of a bench: a table for people, JSON for programs.
//!
//! ```text
//! {
//!   "machine": "…", "date": "…",                   where and when it was measured last
//!   "measured": [{"date", "how", "cases": […]}],   which cases when, and for how long; the rest of an earlier run is kept
//!   "notes": ["…"],
//!   "rows": [{"case", "who", "metric", "unit", "value", "runs": […], "min", "max", "disturbed": runs of them,
//!             "ratio_to": {"who", "value"}, "context": true}],
//!   "terms": [{"text", "value", "bound": "least" or "most", "limit", "held"}]
//! }
//! ```
//! A row's value is the median of its runs. `disturbed` is left out where nobody looked at what else ran.

use crate::{earlier, machine};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

/// Whose figures are compared with the others'; settings of ours are told apart by a word behind it.
pub const OURS: &str = "glassline";

/// Above this share of a core that other programs had, a run's times are not those of the program that is measured.
pub const DISTURBED: f64 = 0.1;

fn is_ours(who: &str) -> bool {
    who.split(' ').next() == Some(OURS)
}

/// One figure of one program in one case.
#[derive(Clone, Debug)]
struct Row {
    case: String,
    who: String,
    metric: &'static str,
    unit: &'static str,
    /// It tells of the measurement, not of the program: no ratio.
    context: bool,
    /// One value a run, in order.
    runs: Vec<f64>,
    /// Of these runs, those of which it is known whether other programs had the processor, and those where they had.
    watched: usize,
    disturbed: usize,
}

/// All figures of a bench.
#[derive(Clone, Debug)]
pub struct Report {
    name: &'static str,
    reference: Option<&'static str>,
    how: String,
    keeps_earlier: bool,
    notes: Vec<String>,
    rows: Vec<Row>,
    terms: Vec<Term>,
    /// By case and program: whether the run whose figures are being added was disturbed.
    disturbance: BTreeMap<(String, String), bool>,
}

/// What a figure must be, and what it is.
#[derive(Clone, Debug)]
struct Term {
    text: String,
    value: f64,
    limit: f64,
    most: bool,
    held: bool,
}

impl Report {
    /// A report without figures. `name` names the file.
    pub fn new(name: &'static str) -> Report {
        Report {
            name,
            reference: None,
            how: String::new(),
            keeps_earlier: false,
            notes: Vec::new(),
            rows: Vec::new(),
            terms: Vec::new(),
            disturbance: BTreeMap::new(),
        }
    }

    /// Whether the file keeps the cases of an earlier run on this machine that this run does not measure: for a run of
    /// some parts. Otherwise the file holds this run alone.
    #[must_use]
    pub fn onto_earlier(self, keeps_earlier: bool) -> Report {
        Report { keeps_earlier, ..self }
    }

    /// Says in a few words how many runs of what length there were; pages tell it beside date and machine.
    pub fn how(&mut self, how: impl Into<String>) {
        self.how = how.into();
    }

    /// Compares everybody's figures with this program's, where otherwise ours are compared with the first peer's.
    #[must_use]
    pub fn beside(self, who: &'static str) -> Report {
        Report { reference: Some(who), ..self }
    }

    /// Adds a sentence on how it was measured or what is missing; it is told at once, too.
    pub fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        eprintln!("{}: {note}", self.name);
        self.notes.push(note);
    }

    /// Says what share of a core other programs had during the run of `who` in `case` whose figures are added next
    /// (`process::Others`). Above [`DISTURBED`] these figures are marked in table, JSON and pages.
    pub fn disturbance(&mut self, case: &str, who: &str, others: f64) {
        let disturbed = others > DISTURBED;
        self.disturbance.insert((case.to_owned(), who.to_owned()), disturbed);
        if disturbed {
            self.note(format!(
                "{case}, {who}: DISTURBED, other programs had {:.0} % of a core; believe no time of this run",
                others * 100.0
            ));
        }
    }

    /// Adds a run's value of a figure. Runs of two programs that are added in the same order are compared in pairs.
    pub fn add(&mut self, case: &str, who: &str, metric: &'static str, unit: &'static str, value: f64) {
        self.add_run(case, who, metric, unit, false, value);
    }

    /// Adds a run's value that tells how well it was measured. It is not compared.
    pub fn add_context(
        &mut self,
        case: &str,
        who: &str,
        metric: &'static str,
        unit: &'static str,
        value: f64,
    ) {
        self.add_run(case, who, metric, unit, true, value);
    }

    fn add_run(
        &mut self,
        case: &str,
        who: &str,
        metric: &'static str,
        unit: &'static str,
        context: bool,
        value: f64,
    ) {
        let known =
            self.rows.iter().position(|row| row.case == case && row.who == who && row.metric == metric);
        let at = known.unwrap_or_else(|| {
            let (case, who) = (case.to_owned(), who.to_owned());
            self.rows.push(Row {
                case,
                who,
                metric,
                unit,
                context,
                runs: Vec::new(),
                watched: 0,
                disturbed: 0,
            });
            self.rows.len() - 1
        });
        let disturbance = self.disturbance.get(&(case.to_owned(), who.to_owned()));
        let row = &mut self.rows[at];
        row.runs.push(value);
        row.watched += usize::from(disturbance.is_some());
        row.disturbed += usize::from(disturbance == Some(&true));
    }

    /// Says what `value` has to be at most (`most`) or at least, and whether it is; told in the table and the JSON.
    pub fn term(&mut self, text: impl Into<String>, value: f64, limit: f64, most: bool) -> bool {
        let held = if most { value <= limit } else { value >= limit };
        self.terms.push(Term { text: text.into(), value, limit, most, held });
        held
    }

    fn row(&self, case: &str, who: &str, metric: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.case == case && row.who == who && row.metric == metric)
    }

    /// The median of a figure's runs.
    pub fn value(&self, case: &str, who: &str, metric: &str) -> Option<f64> {
        self.row(case, who, metric).map(|row| median(&row.runs))
    }

    /// A figure by that of the program that it is compared with.
    pub fn ratio_of(&self, case: &str, who: &str, metric: &str) -> Option<f64> {
        self.ratio(self.row(case, who, metric)?).map(|(_, ratio)| ratio)
    }

    /// How a figure compares with the peer's: the peer, and the median over the runs of this by theirs.
    fn ratio(&self, row: &Row) -> Option<(&str, f64)> {
        // Decibels are a ratio already.
        if row.context || row.unit == "dB" {
            return None;
        }
        let peer = match self.reference {
            Some(reference) if reference != row.who => self.row(&row.case, reference, row.metric)?,
            None if is_ours(&row.who) => self
                .rows
                .iter()
                .find(|other| !is_ours(&other.who) && other.case == row.case && other.metric == row.metric)?,
            _ => return None,
        };
        let ratios: Vec<_> = row.runs.iter().zip(&peer.runs).map(|(ours, theirs)| ours / theirs).collect();
        let ratio = median(&ratios);
        ratio.is_finite().then_some((peer.who.as_str(), ratio))
    }

    /// All cases, in the order in which they came.
    fn cases(&self) -> Vec<&str> {
        let mut cases: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !cases.contains(&row.case.as_str()) {
                cases.push(&row.case);
            }
        }
        cases
    }

    /// The table: one block a case, one column a program; behind a figure of ours its ratio to the peer's.
    pub fn table(&self) -> String {
        let mut table = String::new();
        for case in self.cases() {
            self.table_of(case, &mut table);
        }
        for term in &self.terms {
            let verdict = if term.held { "held" } else { "NOT HELD" };
            let (value, limit, bound) = (number(term.value), number(term.limit), sign(term.most));
            let _ = writeln!(table, "  {verdict:<9}{}: {value}, must be {bound} {limit}", term.text);
        }
        for note in &self.notes {
            let _ = writeln!(table, "  {note}");
        }
        table
    }

    fn table_of(&self, case: &str, table: &mut String) {
        let rows: Vec<_> = self.rows.iter().filter(|row| row.case == case).collect();
        let (mut programs, mut metrics) = (Vec::new(), Vec::new());
        let mut cells = BTreeMap::new();
        for row in rows {
            if !programs.contains(&row.who.as_str()) {
                programs.push(row.who.as_str());
            }
            if !metrics.contains(&(row.metric, row.unit)) {
                metrics.push((row.metric, row.unit));
            }
            cells.insert((row.metric, row.who.as_str()), row);
        }
        // A program's name and, below, what tells apart its settings.
        let names = programs.iter().map(|program| program.split_once(' ').unwrap_or((program, "")));
        let (heads, tails): (Vec<_>, Vec<_>) = names.unzip();
        for (start, words) in [(case, heads), ("", tails)] {
            if words.iter().all(|word| word.is_empty()) {
                continue;
            }
            let _ = write!(table, "{start:<36}");
            for word in words {
                let _ = write!(table, "{word:>8}       ");
            }
            table.truncate(table.trim_end().len());
            table.push('\n');
        }
        for (metric, unit) in metrics {
            let name = format!("{metric}{}{unit}", if unit.is_empty() { "" } else { ", " });
            let _ = write!(table, "  {name:<34}");
            for program in &programs {
                let row = cells.get(&(metric, program));
                let value = row.map_or("-".into(), |row| number(median(&row.runs)));
                let ratio = row.and_then(|row| self.ratio(row));
                let ratio = ratio.map_or(String::new(), |(_, ratio)| times(ratio));
                let _ = write!(table, "{value:>8}{ratio:>7}");
            }
            table.truncate(table.trim_end().len());
            table.push('\n');
        }
        table.push('\n');
    }

    /// The figures for programs, as the module's head shows them.
    pub fn json(&self) -> Value {
        let rows: Vec<_> = self.rows.iter().map(|row| self.row_json(row)).collect();
        let terms: Vec<_> = self
            .terms
            .iter()
            .map(|term| {
                json!({
                    "text": term.text, "value": term.value, "limit": term.limit, "held": term.held,
                    "bound": if term.most { "most" } else { "least" },
                })
            })
            .collect();
        let date = date();
        json!({
            "machine": machine::description(), "date": date, "notes": self.notes, "rows": rows, "terms": terms,
            "measured": [{"date": date, "how": self.how, "cases": self.cases()}],
        })
    }

    fn row_json(&self, row: &Row) -> Value {
        let least = row.runs.iter().copied().fold(f64::INFINITY, f64::min);
        let most = row.runs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut value = json!({
            "case": row.case, "who": row.who, "metric": row.metric, "value": median(&row.runs),
            "unit": row.unit, "runs": row.runs, "min": least, "max": most,
        });
        if row.watched == row.runs.len() || row.disturbed > 0 {
            value["disturbed"] = json!(row.disturbed);
        }
        if row.context {
            value["context"] = json!(true);
        }
        if let Some((peer, ratio)) = self.ratio(row) {
            value["ratio_to"] = json!({"who": peer, "value": ratio});
        }
        value
    }

    /// Prints the table and writes `FOLDER/NAME.json`.
    pub fn finish(&self, folder: &Path) -> Result<()> {
        print!("{}", self.table());
        let file = folder.join(self.name).with_extension("json");
        let mut json = self.json();
        if self.keeps_earlier
            && let Some(earlier) = fs::read(&file).ok().and_then(|text| serde_json::from_slice(&text).ok())
        {
            json = earlier::keep(&json, &earlier);
        }
        let text = serde_json::to_string_pretty(&json).context("the figures do not fit into JSON")?;
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        fs::write(&file, text + "\n").with_context(|| format!("cannot write {}", file.display()))
    }
}

/// The median; between the two in the middle of an even number. NaN of nothing.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// Three significant digits, whole numbers as they are.
pub(crate) fn number(value: f64) -> String {
    let digits = match value.abs() {
        whole if whole.fract() == 0.0 || whole >= 100.0 => 0,
        large if large >= 10.0 => 1,
        medium if medium >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// How a term's value stands to its limit.
pub(crate) fn sign(most: bool) -> &'static str {
    if most { "≤" } else { "≥" }
}

pub(crate) fn times(ratio: f64) -> String {
    if ratio < 9.995 { format!("{ratio:.2} ×") } else { format!("{ratio:.0} ×") }
}

/// As in HTTP: `Sun, 06 Nov 1994 08:49:37 GMT`.
fn date() -> String {
    httpdate::fmt_http_date(SystemTime::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_is_compared_with_the_peer_run_by_run() {
        let mut report = Report::new("test");
        for (ours, theirs) in [(1.0, 2.0), (6.0, 3.0), (3.0, 3.0)] {
            report.add("a", OURS, "delay", "ms", ours);
            report.add("a", "peer", "delay", "ms", theirs);
        }
        report.add("b", OURS, "delay", "ms", 7.0);
        report.add_context("a", OURS, "load", "%", 7.0);
        report.add_context("a", "peer", "load", "%", 9.0);
        let json = report.json();
        assert_eq!(json["rows"][0]["value"], 3.0);
        assert_eq!(json["rows"][0]["ratio_to"], json!({"who": "peer", "value": 1.0}));
        assert_eq!(json["rows"][1].get("ratio_to"), None);
        assert_eq!(json["rows"][2].get("ratio_to"), None);
        assert_eq!(json["rows"][3].get("ratio_to"), None);
        assert!(report.table().contains("1.00 ×"), "{}", report.table());
    }

    #[test]
    fn everybody_is_compared_with_the_reference() {
        let mut report = Report::new("test").beside("peer");
        for (who, value) in [(OURS, 2.0), ("floor", 1.0), ("peer", 4.0)] {
            report.add("a", who, "delay", "ms", value);
        }
        assert_eq!(report.ratio_of("a", OURS, "delay"), Some(0.5));
        assert_eq!(
            (report.ratio_of("a", "floor", "delay"), report.value("a", "floor", "delay")),
            (Some(0.25), Some(1.0))
        );
        assert_eq!(
            (report.ratio_of("a", "peer", "delay"), report.ratio_of("b", OURS, "delay")),
            (None, None)
        );
        assert!(report.term("delay", 0.5, 0.6, true) && !report.term("rate", 0.5, 0.6, false));
        assert!(report.table().contains("NOT HELD rate"), "{}", report.table());
        assert_eq!(report.json()["terms"][1]["held"], false);
    }

    #[test]
    fn runs_have_a_spread_and_a_mark_where_others_had_the_processor() {
        let mut report = Report::new("test");
        for (value, others) in [(3.0, 0.02), (1.0, 0.5), (2.0, 0.0)] {
            report.disturbance("a", OURS, others);
            report.add("a", OURS, "delay", "ms", value);
            report.add("a", "peer", "delay", "ms", value);
        }
        report.term("delay", 2.0, 1.0, true);
        report.how("3 runs of 1 s");
        let json = report.json();
        let row = &json["rows"][0];
        assert_eq!((&row["min"], &row["value"], &row["max"]), (&json!(1.0), &json!(2.0), &json!(3.0)));
        assert_eq!(row["runs"], json!([3.0, 1.0, 2.0]));
        assert_eq!(row["disturbed"], 1, "one run of three");
        assert_eq!(json["rows"][1].get("disturbed"), None, "nobody looked");
        assert_eq!(json["terms"][0]["bound"], "most");
        assert_eq!(
            (&json["measured"][0]["how"], &json["measured"][0]["cases"]),
            (&json!("3 runs of 1 s"), &json!(["a"]))
        );
        assert!(json["notes"][0].as_str().is_some_and(|note| note.contains("DISTURBED")), "{json}");
    }

    #[test]
    fn a_ratio_to_zero_is_left_out() {
        let mut report = Report::new("test");
        report.add("a", OURS, "wrong", "", 0.0);
        report.add("a", "peer", "wrong", "", 0.0);
        assert_eq!(report.json()["rows"][0].get("ratio_to"), None);
    }
}
