//! A configuration file that anybody may have written.

use glassline::fuzzing::Configuration;

/// Stands in front of each text as the publish key: no error and no `Debug` may repeat it.
const KEY: &str = "Xq7-Vm2-Zr9-Wk4";
/// The most that an error's words take beside what they quote of the text.
const WORDS_BYTES: usize = 4096;

/// Reads the text. Panics where the same configuration, written otherwise, is another one, where a secret is shown, and
/// where an error names no line of the file or is out of proportion.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // A byte order mark may stand at the very beginning alone.
    let text = text.trim_start_matches('\u{FEFF}');
    let parsed = Configuration::parse(text);
    assert_eq!(parsed, Configuration::parse(text));
    match &parsed {
        Ok(config) => check_accepted(config, text),
        Err(words) => check_error(words, text),
    }
    check_secret(text);
}

/// Comments, ends of lines, and how tables and values are written have no influence.
fn check_accepted(config: &Configuration, text: &str) {
    let same = |other: String| assert_eq!(Configuration::parse(&other).as_ref(), Ok(config), "{other}");
    same(format!("# one line more\n{text}\n# and one behind it"));
    let rewritten = Configuration::rewritten(text).expect("what was accepted is TOML");
    same(rewritten);
    // What lies between values of a text without strings of many lines.
    if !text.contains("\"\"\"") && !text.contains("'''") {
        same(text.replace("\r\n", "\n").replace('\n', "\r\n"));
    }
}

/// The place is in the file, the words are few, and are one more line below where the text has a line more in front.
fn check_error(words: &str, text: &str) {
    assert!(words.len() <= WORDS_BYTES + 8 * text.len(), "{} bytes about {}", words.len(), text.len());
    let (line, words) = place(words);
    let lines = text.split('\n').count();
    assert!(line.is_none_or(|line| (1..=lines).contains(&line)), "line {line:?} of {lines}: {words}");
    let below = Configuration::parse(&format!("\n{text}")).expect_err("a line in front changes nothing");
    assert_eq!(place(&below), (line.map(|line| line + 1), words));
}

/// The line that an error names, and what it says.
fn place(words: &str) -> (Option<usize>, &str) {
    let rest = words.strip_prefix("glassline.toml").expect("an error begins with the file's name");
    if let Some(words) = rest.strip_prefix(": ") {
        return (None, words);
    }
    let (line, words) = rest[1..].split_once(": ").expect("a line, and words behind it");
    (Some(line.parse().expect("a number")), words)
}

fn check_secret(text: &str) {
    if text.contains(KEY) {
        return;
    }
    let shown = match Configuration::parse(&format!("publish.key = \"{KEY}\"\n{text}")) {
        Ok(config) => format!("{config:?}"),
        Err(words) => words,
    };
    assert!(!shown.contains(KEY), "{shown}");
}
