//! The report for people.

use glassline_inspect::machine::{Row, State};
use std::fmt::Write as _;

/// The rows as text, the worst first.
pub(super) fn table(rows: &[Row]) -> String {
    let mut sorted: Vec<&Row> = rows.iter().collect();
    sorted.sort_by_key(|row| std::cmp::Reverse(row.state));
    let mut text = String::new();
    for row in sorted {
        let is_good = row.state == State::Ok;
        let _ = writeln!(text, "{:<16} {}: {}", word(row.state), row.check, row.now);
        let mut detail = |name: &str, value: &str| {
            if !value.is_empty() {
                let _ = writeln!(text, "{:<16}   {name:<7} {value}", "");
            }
        };
        if !is_good {
            detail("wanted:", &row.wanted);
            detail("type:", row.command.as_deref().unwrap_or_default());
        }
        if !is_good || row.worth.starts_with("measured") {
            detail("worth:", &row.worth);
        }
    }
    let count = |state| rows.iter().filter(|row| row.state == state).count();
    let [fails, better, good] = [State::Fails, State::Better, State::Ok].map(count);
    let _ = writeln!(text, "{fails} will fail, {better} could be better, {good} ok");
    text
}

fn word(state: State) -> &'static str {
    match state {
        State::Ok => "ok",
        State::Better => "could be better",
        State::Fails => "will fail",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(check: &str, state: State, command: Option<&str>, worth: &str) -> Row {
        Row {
            check: check.to_owned(),
            state,
            now: "1".to_owned(),
            wanted: "2".to_owned(),
            command: command.map(str::to_owned),
            worth: worth.to_owned(),
        }
    }

    #[test]
    fn the_worst_comes_first_and_what_is_good_takes_one_line() {
        let text = table(&[
            row("a", State::Ok, None, "reason"),
            row("b", State::Better, Some("do b"), "speed"),
            row("c", State::Fails, Some("do c"), "the server does not start"),
            row("d", State::Ok, None, "measured now: 3 µs"),
        ]);
        let expected = "\
will fail        c: 1
                   wanted: 2
                   type:   do c
                   worth:  the server does not start
could be better  b: 1
                   wanted: 2
                   type:   do b
                   worth:  speed
ok               a: 1
ok               d: 1
                   worth:  measured now: 3 µs
1 will fail, 1 could be better, 2 ok
";
        assert_eq!(text, expected);
    }
}
