//! `glassline lab experiment --paper` and `glassline lab report`: runs that are kept, and the page of them.

use crate::commands::assert_fails;
use crate::glassline;
use glassline_test_support::program::Scratch;

#[test]
fn a_run_is_kept_and_shown_and_not_run_again() {
    let scratch = Scratch::new("experiment");
    let results = scratch.file("results");
    let run = |more: &[&str]| {
        let mut arguments =
            vec!["lab", "experiment", "test:64x48@25", "--paper", "--results", &results, "--duration", "2s"];
        arguments.extend(more);
        glassline(&arguments)
    };
    // Networks without traces, so that no shared test data is needed.
    let outcome = run(&["--only", "outage"]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("1 were run"), "{}", outcome.stderr);
    let file = scratch.file("results/outage.json");
    let text = std::fs::read_to_string(&file).unwrap();
    let record: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&record["case"], &record["summary"]["pictures"]), (&"outage".into(), &50.into()));
    assert!(record["settings"]["video"].as_str().unwrap().contains("64x48"), "{}", record["settings"]);
    assert!(record["summary"]["ssim_daala_db"].as_f64().unwrap() > 0.0, "{}", record["summary"]);
    assert_eq!(record["pictures"]["capacity_bytes"].as_array().unwrap().len(), 50);

    // The same again, and one more: what is there is left as it is.
    let outcome = run(&["--only", "outage,testbed"]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("is there already") && outcome.stderr.contains("1 were run"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    // Other settings, or a file that is cut short, are another run.
    assert!(run(&["--only", "outage", "--seed", "7"]).stderr.contains("1 were run"));
    std::fs::write(&file, &text[..text.len() / 2]).unwrap();
    assert!(run(&["--only", "outage"]).stderr.contains("1 were run"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text, "a run repeats exactly");

    let outcome = glassline(&["lab", "report", &results]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let page = std::fs::read_to_string(scratch.file("results/report.html")).unwrap();
    for words in ["<!doctype html>", "An outage of one second", "Without a network a picture takes", "<svg"] {
        assert!(page.contains(words), "{words}");
    }
    let outcome = glassline(&["lab", "report", &results, "-"]);
    assert_eq!(outcome.text(), page);
}

#[test]
fn what_cannot_be_run_or_shown_is_said() {
    let scratch = Scratch::new("experiment-errors");
    let results = scratch.file("results");
    let paper = ["lab", "experiment", "test:64x48@25", "--paper"];
    let with = |more: &[&str]| glassline(&[&paper[..], more].concat());
    assert_fails(&with(&[]), 2, &["--results"]);
    assert_fails(&with(&["--results", &results, "--only", "sprint"]), 2, &["sprint", "att-2c"]);
    assert_fails(&with(&["--results", &results, "--up", "5M"]), 2, &["--up"]);
    assert_fails(&glassline(&["lab", "experiment", "--up", "5M"]), 2, &["INPUT"]);
    assert_fails(&glassline(&["lab", "experiment", "test:64x48@25"]), 2, &["--up"]);
    assert_fails(&glassline(&["lab", "report", &results]), 1, &["no result", "--paper"]);
    let text = scratch.write("outage.json", "{}");
    let folder = scratch.path().to_string_lossy().into_owned();
    assert_fails(&glassline(&["lab", "report", &folder]), 1, &[&text, "no result"]);
}
