//! When a camera's pictures come: from before the encoder's beginning, behind a stall, at another rate than the header
//! says. None of that may delay the pictures that come afterwards.

use crate::Args;
use crate::clip::{Clip, RATE};
use crate::encoders;
use crate::find_quantiles;
use crate::measure::{FIRST_P50, add_delays, run};
use anyhow::{Context, Result, ensure};
use glassline_bench::report::{OURS, Report};
use glassline_media::FrameRate;
use std::time::Duration;

/// A camera that writes into a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pattern {
    /// One picture each period, from the encoder's beginning on.
    Steady,
    /// So many pictures are there before that.
    Bunch(u64),
    /// Nothing comes for half a second after the first; then all that was captured meanwhile.
    Stall,
    /// So many pictures in 100 s, where the header says 5,000.
    Rate(u64),
}

const STALL: Duration = Duration::from_millis(500);
/// When the stall begins.
const STALL_AT: Duration = Duration::from_secs(2);
/// How long it may take until nothing of a beginning or a stall is left.
const SETTLE: Duration = Duration::from_secs(6);

const PATTERNS: [Pattern; 6] = [
    Pattern::Steady,
    Pattern::Bunch(1),
    Pattern::Bunch(12),
    Pattern::Stall,
    Pattern::Rate(4_994),
    Pattern::Rate(5_006),
];

impl Pattern {
    fn name(self) -> String {
        match self {
            Pattern::Steady => "a steady camera".to_owned(),
            Pattern::Bunch(1) => "a picture that waits at the start".to_owned(),
            Pattern::Bunch(pictures) => format!("{pictures} pictures that wait at the start"),
            Pattern::Stall => "behind a stall".to_owned(),
            Pattern::Rate(pictures) => format!("{:.2} of {RATE} pictures/s", pictures as f64 / 100.0),
        }
    }

    /// When picture `number` is there.
    fn due(self, rate: FrameRate, number: u64) -> Duration {
        match self {
            Pattern::Steady => rate.time_of(number),
            Pattern::Bunch(pictures) => rate.time_of(number.saturating_sub(pictures)),
            Pattern::Stall => {
                let time = rate.time_of(number);
                let stalls = (STALL_AT..STALL_AT + STALL).contains(&time);
                if stalls { STALL_AT + STALL } else { time }
            }
            Pattern::Rate(pictures) => Duration::from_nanos(number * 100_000_000_000 / pictures),
        }
    }
}

/// Ours with each pattern by turns, each preset.
pub(crate) fn measure_all(args: &Args, report: &mut Report) -> Result<()> {
    let (clip, why) = Clip::load(args.content)?;
    report.note(
        "arrivals: pictures from 6 s after the beginning on; what is left out behind a stall is counted",
    );
    if let Some(why) = why {
        report.note(why);
    }
    for preset in &args.presets {
        let case = |pattern: Pattern| format!("{preset}, {}", pattern.name());
        for _ in 0..args.runs {
            for pattern in PATTERNS {
                measure(pattern, preset, &case(pattern), &clip, args, report)?;
            }
        }
        let steady = report.value(&case(Pattern::Steady), OURS, FIRST_P50);
        for pattern in PATTERNS.into_iter().filter(|pattern| *pattern != Pattern::Steady) {
            let Some((first, steady)) = report.value(&case(pattern), OURS, FIRST_P50).zip(steady) else {
                continue;
            };
            let text = format!("{}, {FIRST_P50} by a steady camera's", case(pattern));
            report.term(text, first / steady, 1.5, true);
        }
    }
    Ok(())
}

fn measure(
    pattern: Pattern,
    preset: &str,
    case: &str,
    clip: &Clip,
    args: &Args,
    report: &mut Report,
) -> Result<()> {
    let rate = u64::from(RATE);
    let settle = SETTLE.as_secs() * rate;
    let count = settle + args.seconds * rate;
    let due = |number| pattern.due(clip.rate(), number);
    let ran = run(OURS, &|to| encoders::live(preset, to), clip, &due, (settle, count))?;
    // Pictures are left out behind a stall alone, so the last are the last.
    let dropped = ran.written.len().saturating_sub(ran.arrivals.len());
    let most =
        if pattern == Pattern::Stall { (STALL.as_millis() as u64 * rate / 1000) as usize + 1 } else { 0 };
    ensure!(
        dropped <= most && ran.arrivals.len() <= ran.written.len(),
        "{case}: {} pictures became of {}",
        ran.arrivals.len(),
        ran.written.len()
    );
    let measured = usize::try_from(count - settle)?;
    let mut pairs: Vec<_> = ran.written.iter().rev().zip(ran.arrivals.iter().rev()).take(measured).collect();
    pairs.reverse();
    add_delays(OURS, case, &pairs, report)?;
    let [held, most] = find_quantiles(&ran.told, "held before queued")
        .with_context(|| format!("glassline encode --stats tells nothing of holding:\n{}", ran.told))?;
    report.add(case, OURS, "held p50", "ms", held);
    report.add(case, OURS, "held p99", "ms", most);
    report.add(case, OURS, "pictures left out", "", dropped as f64);
    ran.tell_others(OURS, case, report);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_come_when_the_pattern_says() {
        let rate = FrameRate::new(50, 1).unwrap();
        let due = |pattern: Pattern, number| pattern.due(rate, number).as_micros();
        assert_eq!([0, 1, 2].map(|number| due(Pattern::Bunch(1), number)), [0, 0, 20_000]);
        let stall = [99, 100, 124, 125].map(|number| due(Pattern::Stall, number));
        assert_eq!(stall, [1_980_000, 2_500_000, 2_500_000, 2_500_000]);
        assert_eq!(due(Pattern::Stall, 126), 2_520_000);
        assert_eq!(due(Pattern::Rate(4_994), 4_994), 100_000_000);
    }
}
