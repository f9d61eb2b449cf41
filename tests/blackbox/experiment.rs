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

#[test]
fn a_set_of_traces_is_run_one_by_one_and_summed_up() {
    let scratch = Scratch::new("traces");
    // 1.2 Mbit/s, 0.6 Mbit/s, and a pair of which the way back is slow.
    scratch.write("fast", "10\n");
    scratch.write("slow", "20\n");
    scratch.write("pair.down", "10\n");
    scratch.write("pair.up", "100\n");
    scratch.write("README.md", "Where these are from.\n");
    let (folder, svg) = (scratch.path().to_string_lossy().into_owned(), scratch.file("set.svg"));
    let run = |more: &[&str]| {
        let base = [
            "lab",
            "experiment",
            "test:64x48@25",
            "--traces",
            &folder,
            "--delay",
            "10ms",
            "--duration",
            "2s",
        ];
        glassline(&[&base[..], more].concat())
    };
    let outcome = run(&["--beside", "salsify", "--svg", &svg]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("left out: README.md"), "{}", outcome.stderr);
    let told = String::from_utf8_lossy(&outcome.stdout);
    let first = |word: &str| told.lines().filter(|line| line.starts_with(word)).count();
    assert_eq!(["fast", "slow", "pair ", "median", "worst"].map(first), [2; 5], "{told}");
    let drawn = std::fs::read_to_string(&svg).unwrap();
    assert!(drawn.contains("salsify: median of 3") && drawn.contains("fast (adaptive)"), "{drawn}");
    let outcome = run(&["--json"]);
    let told = String::from_utf8_lossy(&outcome.stdout);
    let lines: Vec<serde_json::Value> =
        told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), &lines[3]["left_out"][0]), (4, &"README.md".into()), "{told}");
    assert_eq!((&lines[1]["network"], &lines[1]["controller"]), (&"pair".into(), &"adaptive".into()));
    assert_eq!(lines[3]["controllers"][0]["networks"], 3);
    // What is no folder, and what has an error.
    let missing = scratch.file("missing");
    let none = ["lab", "experiment", "test:64x48@25", "--traces", &missing];
    assert_fails(&glassline(&none), 2, &["--traces takes a folder"]);
    scratch.write("broken", "1\nx\n");
    assert_fails(&run(&[]), 2, &["broken is no trace"]);
    assert_fails(&run(&["--real-time"]), 2, &["--real-time"]);
}

#[test]
fn several_lines_have_figures_of_their_own_and_are_told_apart() {
    let run = |more: &[&str]| {
        let base = ["lab", "experiment", "test:64x48@25", "--duration", "2s"];
        glassline(&[&base[..], more].concat())
    };
    let scratch = Scratch::new("lines");
    // 12 Mbit/s, and a tenth of it.
    let trace = scratch.write("fast", "1\n");
    let (one, two) = (format!("up={trace},delay=up=10ms"), "up=1M,down=1M,delay=30ms,queue=64p");
    let lines = ["--line", &one, "--line", two, "--scale", "1/10"];
    let outcome = run(&[&lines[..], &["--json"]].concat());
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let summary: serde_json::Value = serde_json::from_slice(&outcome.stdout).unwrap();
    let figures = summary["lines"].as_array().unwrap();
    assert_eq!((figures.len(), &summary["pictures"]), (2, &50.into()), "{summary}");
    // 1504 bytes each 10 ms.
    let capacity = figures[0]["bits_per_s"].as_f64().unwrap() / figures[0]["used"].as_f64().unwrap();
    assert!((capacity / 1_203_200.0 - 1.0).abs() < 0.01, "{summary}");
    let svg = scratch.file("lines.svg");
    let told = run(&[&lines[..], &["--svg", &svg]].concat()).text();
    let drawn = std::fs::read_to_string(&svg).unwrap();
    assert!(drawn.contains("over 2 lines") && drawn.contains("Line 1: fast"), "{drawn}");
    assert!(told.contains("\nline 1  ") && told.contains("\nline 2  "), "{told}");

    // One line is what the options of a single one say, to the last bit.
    let line = run(&["--line", "up=1M,down=2M,delay=30ms,loss=up=2%", "--json"]);
    let options = run(&["--up", "1M", "--down", "2M", "--delay", "30ms", "--loss", "up=2%", "--json"]);
    assert_eq!((line.status, line.text()), (Some(0), options.text()), "{}", line.stderr);
    assert!(!line.text().contains("\"lines\""), "{}", line.text());

    let many = ["--line", two].repeat(5);
    assert_fails(&run(&many), 2, &["--line is given 5 times", "paths"]);
    for beside in ["--up", "--down", "--delay", "--queue", "--loss", "--reorder", "--outage"] {
        let value = match beside {
            "--up" | "--down" => "1M",
            "--delay" => "10ms",
            "--queue" => "64p",
            "--loss" => "1%",
            "--reorder" => "1%:10ms",
            _ => "once:1s/1s",
        };
        assert_fails(&run(&["--line", two, beside, value]), 2, &["--line", beside, "cannot be used with"]);
    }
    // Most is sent over each of the two.
    let outcome = run(&["--line", two, "--line", "up=5M,delay=5ms", "--bonding", "both", "--json"]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let summary: serde_json::Value = serde_json::from_slice(&outcome.stdout).unwrap();
    let carried: f64 = [0, 1].iter().map(|line| summary["lines"][line]["bits_per_s"].as_f64().unwrap()).sum();
    assert!(carried > 1.5 * summary["bits_per_s"].as_f64().unwrap(), "{summary}");
    let both = [&["--line", two].repeat(3)[..], &["--bonding", "both"]].concat();
    assert_fails(&run(&both), 2, &["--line is given 3 times", "2 paths"]);
    assert_fails(&run(&["--line", two, "--bonding", "both"]), 2, &["--bonding", "a second time"]);
    assert_fails(&run(&["--up", "1M", "--bonding", "sum"]), 2, &["--bonding", "--line"]);
    let peer = [&["--line", two].repeat(2)[..], &["--peer", "webrtc-vp8"]].concat();
    assert_fails(&run(&peer), 2, &["--peer is measured over one line", "2 times"]);
    assert_fails(&run(&["--line", "up=1M,dely=30ms"]), 2, &["no key \"dely\"", "up, down, delay"]);
    assert_fails(&run(&["--line", "delay=30ms"]), 2, &["up is missing", "up=5M"]);
    assert_fails(&run(&["--up", "1M", "--scale", "1/10"]), 2, &["--scale has no trace", "--up 5M"]);
    assert_fails(&run(&["--up", &trace, "--scale", "0"]), 2, &["a scale of 0", "1/1000 to 100"]);
}
