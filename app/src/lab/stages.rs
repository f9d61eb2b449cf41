//! Where the time of pictures goes, for people.

use glassline_lab::experiment::StageTime;

/// Where the time of pictures went, a line for each stage.
pub(super) fn stages_table(stages: &[StageTime]) -> String {
    let line = |(index, stage): (usize, &StageTime)| {
        let StageTime { stage, p50_ms, p95_ms, p99_ms } = stage;
        let title = if index == 0 { "where the time goes, until" } else { "" };
        format!("{title:30} {stage:12} p50 {p50_ms:6.2}  p95 {p95_ms:6.2}  p99 {p99_ms:6.2} ms\n")
    };
    stages.iter().enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_stand_below_each_other_and_the_title_once() {
        let stage = |name: &str, p50_ms| StageTime {
            stage: name.to_owned(),
            p50_ms,
            p95_ms: 120.5,
            p99_ms: 1_000.25,
        };
        let table = stages_table(&[stage("encoded", 8.0), stage("reassembled", 19.25)]);
        let [first, second] = table.lines().collect::<Vec<_>>()[..] else { panic!("two lines: {table}") };
        assert!(first.starts_with("where the time goes") && first.len() == second.len(), "{table}");
        assert!(second.contains("reassembled  p50  19.25  p95 120.50  p99 1000.25 ms"), "{table}");
        assert_eq!(stages_table(&[]), "");
    }
}
