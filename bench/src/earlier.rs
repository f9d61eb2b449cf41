//! A bench that ran in parts: what an earlier run has measured of other cases stays in its file.

use crate::machine;
use serde_json::{Value, json};

/// `new` with what `earlier` has of cases that are not in it: their rows, the notes that name them, and the terms that are
/// not stated anew. Of another machine nothing is kept: its figures cannot stand beside these.
pub(crate) fn keep(new: &Value, earlier: &Value) -> Value {
    if earlier["machine"] != machine::description() {
        return new.clone();
    }
    let cases = |of: &Value| -> Vec<String> {
        let mut cases: Vec<String> = Vec::new();
        for case in list(&of["rows"]).iter().filter_map(|row| row["case"].as_str()) {
            if !cases.iter().any(|known| known == case) {
                cases.push(case.to_owned());
            }
        }
        cases
    };
    let (anew, before) = (cases(new), cases(earlier));
    let is_kept =
        |case: &str| !anew.iter().any(|known| known == case) && before.iter().any(|known| known == case);
    let mut rows = Vec::new();
    // A case that is measured again stays in its place.
    for case in before.iter().chain(anew.iter().filter(|case| !before.contains(case))) {
        let from = if is_kept(case) { earlier } else { new };
        rows.extend(list(&from["rows"]).iter().filter(|row| row["case"] == **case).cloned());
    }
    let mut terms = list(&new["terms"]).to_vec();
    for term in list(&earlier["terms"]) {
        if !terms.iter().any(|known| known["text"] == term["text"]) {
            terms.push(term.clone());
        }
    }
    let mut notes = list(&new["notes"]).to_vec();
    for note in list(&earlier["notes"]) {
        let names_kept =
            note.as_str().is_some_and(|text| before.iter().any(|case| is_kept(case) && text.contains(case)));
        if names_kept && !notes.contains(note) {
            notes.push(note.clone());
        }
    }
    let mut measured = list(&new["measured"]).to_vec();
    for session in list(&earlier["measured"]) {
        let left: Vec<&str> =
            list(&session["cases"]).iter().filter_map(Value::as_str).filter(|case| is_kept(case)).collect();
        if !left.is_empty() {
            measured.push(json!({"date": session["date"], "how": session["how"], "cases": left}));
        }
    }
    json!({
        "machine": new["machine"], "date": new["date"], "notes": notes, "rows": rows, "terms": terms,
        "measured": measured,
    })
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{OURS, Report};

    fn report(cases: &[(&str, f64)]) -> Value {
        let mut report = Report::new("test");
        report.how(format!("{} cases", cases.len()));
        for &(case, value) in cases {
            report.disturbance(case, OURS, 1.0);
            report.add(case, OURS, "delay", "ms", value);
            report.term(format!("{case}: delay"), value, 1.0, true);
        }
        report.json()
    }

    #[test]
    fn other_cases_stay_with_their_place_their_date_and_their_notes() {
        let kept = keep(&report(&[("b", 7.0), ("c", 3.0)]), &report(&[("a", 1.0), ("b", 2.0)]));
        let values: Vec<_> =
            list(&kept["rows"]).iter().map(|row| (row["case"].clone(), row["value"].clone())).collect();
        assert_eq!(values, [(json!("a"), json!(1.0)), (json!("b"), json!(7.0)), (json!("c"), json!(3.0))]);
        assert_eq!(kept["measured"][0]["cases"], json!(["b", "c"]));
        assert_eq!(
            (&kept["measured"][1]["cases"], &kept["measured"][1]["how"]),
            (&json!(["a"]), &json!("2 cases"))
        );
        let texts: Vec<_> = list(&kept["terms"]).iter().map(|term| term["text"].clone()).collect();
        assert_eq!(texts, [json!("b: delay"), json!("c: delay"), json!("a: delay")]);
        assert_eq!(list(&kept["notes"]).len(), 3, "b's old note is gone: {kept}");
    }

    #[test]
    fn figures_of_another_machine_are_not_mixed_in() {
        let (new, mut earlier) = (report(&[("b", 7.0)]), report(&[("a", 1.0)]));
        earlier["machine"] = json!("another one");
        assert_eq!(keep(&new, &earlier), new);
        assert_eq!(keep(&new, &json!({"rows": "none"})), new);
    }
}
