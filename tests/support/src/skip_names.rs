//! Each skip has the name of its own test, in the source too: `skip` itself sees only the skips of this machine.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

/// The workspace's Rust files with tests.
fn sources() -> Vec<PathBuf> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders = ["app", "crates", "tests"].map(|name| top.join(name)).to_vec();
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            match entry.extension() {
                None if entry.is_dir() => folders.push(entry),
                Some(ending) if ending == "rs" => files.push(entry),
                _ => {}
            }
        }
    }
    files
}

/// The name in a line that begins a function.
fn function(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = line.strip_prefix("pub(crate) ").or(line.strip_prefix("pub ")).unwrap_or(line);
    line.strip_prefix("fn ")?.split(['(', '<']).next()
}

/// What stands in quotes in a line, as far as it could name a test.
fn names(line: &str) -> impl Iterator<Item = &str> {
    let quoted = line.split('"').skip(1).step_by(2);
    quoted.filter(|word| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "_:".contains(c))
    })
}

/// Whether a test hands what looks like a test's name to a helper, as one that skips it. Metrics look so too.
fn helped(line: &str, name: &str, in_test: bool) -> bool {
    let long = name.matches('_').count() >= 4 && !name.starts_with("glassline_");
    let long = long && !name.contains(|c: char| c.is_ascii_uppercase());
    in_test && long && line.contains(&format!("(\"{name}\""))
}

/// Where a name of a test stands in another one, or a skip has the name of none.
fn wrong(text: &str) -> Vec<String> {
    let (mut tests, mut marked) = (Vec::new(), false);
    for line in text.lines().map(str::trim) {
        marked |= line == "#[test]";
        if let Some(name) = function(line) {
            tests.extend(marked.then_some(name));
            marked = false;
        }
    }
    let (mut inside, mut before, mut wrong) = ("", "", Vec::new());
    for (number, line) in (1..).zip(text.lines()) {
        inside = function(line).unwrap_or(inside);
        let after_skip = before.trim_end().ends_with("skip(");
        for name in names(line) {
            let skips = line.contains(&format!("skip(\"{name}\"")) || after_skip;
            let last = name.rsplit("::").next().unwrap_or(name);
            if (skips || tests.contains(&last) || helped(line, name, tests.contains(&inside)))
                && name != inside
            {
                wrong.push(format!("{number}: {name:?} in {inside}"));
            }
            if after_skip {
                break;
            }
        }
        before = line;
    }
    wrong
}

#[test]
fn a_test_is_skipped_by_its_own_name() {
    let wrong: Vec<String> = sources()
        .iter()
        .filter(|path| !path.ends_with("tests/support/src/skip_names.rs"))
        .flat_map(|path| {
            let found = wrong(&std::fs::read_to_string(path).unwrap());
            found.into_iter().map(|it| format!("{}:{it}", path.display()))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn copied_and_invented_names_are_found() {
    let good = "#[test]\nfn one() {\n    skip(\"one\", \"no device\");\n}\n#[test]\nfn two() {\n    have(\"two\");\n}\n";
    assert_eq!(wrong(good), [""; 0]);
    for (from, to) in [
        ("have(\"two", "have(\"one"),
        ("skip(\"one", "skip(\"kernels"),
        ("\"two", "\"file::two"),
        ("\"two", "\"two_that_is_short_of"),
    ] {
        assert_eq!(wrong(&good.replace(from, to)).len(), 1, "{to}");
    }
    assert_eq!(
        wrong("#[test]\nfn one() {\n    skip(\n        \"x\",\n        \"no device\",\n    );\n}\n").len(),
        1
    );
}
