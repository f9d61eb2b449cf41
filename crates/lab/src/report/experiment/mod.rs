//! The page of the paper's experiments: one file of HTML, with everything in it, for light and dark screens.

mod distribution;
mod scatter;
mod series;
pub mod set;

use crate::experiment::Record;
use crate::experiment::paper::{CHOSEN, Case, FIGURES, Figure, Point, STATES};
use glassline_inspect::report::svg::{STYLE, escape};
use scatter::Mark;
use std::fmt::Write as _;

/// What the page has beyond the pictures' style.
const PAGE_STYLE: &str = "
  body { background: var(--ground); color: var(--ink); margin: 2rem auto; max-width: 60rem; padding: 0 1rem; line-height: 1.5;
         font-family: system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif; }
  svg { max-width: 100%; height: auto; }
  table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; font-size: 0.9rem; }
  th, td { border-bottom: 1px solid var(--grid); padding: 0.25rem 0.7rem; text-align: right; }
  th:first-child, td:first-child { text-align: left; } th { vertical-align: bottom; }
  .paper td { color: var(--soft); } summary { cursor: pointer; } nav a { margin-right: 1rem; } a { color: var(--bar); }
  .dotted { stroke-dasharray: 3 4; }
";

/// The page of all `records`, of which the last one of each case counts; figures of which there is none are left out.
pub fn page(records: &[Record]) -> String {
    let figures: Vec<(&Figure, Vec<(&Case, &Record)>)> = FIGURES
        .iter()
        .map(|figure| (figure, runs(figure, records)))
        .filter(|(_, runs)| !runs.is_empty())
        .collect();
    let mut out = String::from("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    let _ = write!(
        out,
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>The experiments of Salsify's paper</title>\n\
         <style>{STYLE}{PAGE_STYLE}</style>\n</head>\n<body>\n"
    );
    introduction(&mut out, records);
    out.push_str("<nav>");
    for (figure, _) in &figures {
        let _ = write!(out, "<a href=\"#{}\">{}</a>", figure.key, escape(figure.title));
    }
    out.push_str("</nav>\n");
    for (figure, runs) in &figures {
        section(&mut out, figure, runs);
    }
    decisions(&mut out, records);
    settings(&mut out, records);
    out.push_str("</body>\n</html>\n");
    out
}

/// The runs of a figure, in its order.
fn runs<'a>(figure: &Figure, records: &'a [Record]) -> Vec<(&'static Case, &'a Record)> {
    let of = |name: &&str| {
        let record = records.iter().rev().find(|record| record.case == **name)?;
        Some((Case::named(name)?, record))
    };
    figure.cases.iter().filter_map(of).collect()
}

fn introduction(out: &mut String, records: &[Record]) {
    out.push_str(
        "<h1>The experiments of Salsify's paper</h1>\n\
         <p>Fouladi et al., NSDI 2018, §5, run with Glassline in virtual time: the real encoder, link and decoder over an \
         emulated network; packets, clocks and processors are modelled. Delay is from capture to the end of decoding, and \
         a picture that was never shown arrives with the next one that is. SSIM is that of luma as Daala's tools compute \
         it, which is the paper's; x264's stands beside it in the tables and is another measure.</p>\n\
         <p>The paper's figures were measured with another clip (720p60) on other processors, so that quality is comparable \
         in its order and less in its decibels.</p>\n",
    );
    match records.iter().rev().find(|record| record.case == "testbed") {
        Some(record) => {
            let _ = writeln!(
                out,
                "<p>Without a network a picture takes {:.1} ms (p95 {:.1} ms), for coding and decoding alone. This is part \
                 of all delays of ours here; the paper has taken its testbed's 66.7 ms off its own.</p>",
                record.summary.delay_p50_ms, record.summary.delay_p95_ms
            );
        }
        None => out.push_str(
            "<p>What the testbed itself takes was not measured (the case <code>testbed</code>).</p>\n",
        ),
    }
}

fn section(out: &mut String, figure: &Figure, runs: &[(&Case, &Record)]) {
    let _ = writeln!(out, "<h2 id=\"{}\">{}</h2>", figure.key, escape(figure.title));
    let note = if figure.is_comparable { compared(figure.points, runs) } else { None };
    for text in [Some(figure.note.to_owned()), note].into_iter().flatten().filter(|text| !text.is_empty()) {
        let _ = writeln!(out, "<p>{}</p>", escape(&text));
    }
    let ours = runs.iter().filter_map(|(case, record)| {
        let ssim_db = record.summary.ssim_daala_db?;
        Some(Mark { name: case.who(), delay_p95_ms: record.summary.delay_p95_ms, ssim_db, is_ours: true })
    });
    let theirs = figure.points.iter().map(|point| Mark {
        name: point.who.to_owned(),
        delay_p95_ms: point.delay_p95_ms,
        ssim_db: point.ssim_daala_db,
        is_ours: false,
    });
    let marks: Vec<Mark> = ours.chain(theirs).collect();
    out.push_str(&scatter::draw(&format!("{}-scatter", figure.key), figure.title, &marks));
    figures_table(out, figure, runs);
    let named: Vec<(String, &Record)> = runs.iter().map(|(case, record)| (case.who(), *record)).collect();
    out.push_str("<details open><summary>Delays</summary>\n");
    out.push_str(&distribution::draw(&format!("{}-delays", figure.key), "Delays of pictures", &named));
    out.push_str("</details>\n");
    let Some(panels) = figure.panels else { return };
    // One processor differs from two too little to be seen.
    let over_time = runs.iter().filter(|(case, _)| case.processors > 1 || runs.len() == 1);
    for (index, (case, record)) in over_time.enumerate() {
        let open = if index == 0 { " open" } else { "" };
        let _ = writeln!(out, "<details{open}><summary>Over time: {}</summary>", escape(&case.who()));
        out.push_str(&series::draw(&format!("{}-time", case.name), &case.who(), record, panels));
        out.push_str("</details>\n");
    }
}

/// How ours, on the most processors, stands to the paper's.
fn compared(points: &[Point], runs: &[(&Case, &Record)]) -> Option<String> {
    let (case, record) = runs.iter().max_by_key(|(case, _)| case.processors)?;
    let (delay, quality) = (record.summary.delay_p95_ms, record.summary.ssim_daala_db?);
    let salsify = points.iter().find(|point| point.who == "Salsify-2c")?;
    let better: Vec<&str> = points
        .iter()
        .filter(|point| point.delay_p95_ms <= delay && point.ssim_daala_db >= quality)
        .map(|point| point.who)
        .collect();
    let front = if better.is_empty() {
        "No system of the paper's is both as quick and as good.".to_owned()
    } else {
        format!("As quick and as good, or more so: {}.", better.join(", "))
    };
    Some(format!(
        "{} over {:.0} s beside Salsify-2c: {:.2} times the delay, {:+.1} dB. {front}",
        case.who(),
        record.settings.duration_ms as f64 / 1e3,
        delay / salsify.delay_p95_ms,
        quality - salsify.ssim_daala_db
    ))
}

fn figures_table(out: &mut String, figure: &Figure, runs: &[(&Case, &Record)]) {
    out.push_str(
        "<table><thead><tr><th></th><th>delay p50, ms</th><th>p95, ms</th><th>p99, ms</th><th>SSIM (Daala), dB</th>\
         <th>SSIM (x264), dB</th><th>of the way used</th><th>queue p50, ms</th><th>shown, /s</th></tr></thead>\n<tbody>\n",
    );
    let or_dash = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.1}"));
    for (case, record) in runs {
        let summary = &record.summary;
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{:.0}</td><td>{:.0}</td><td>{:.0}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.1}</td>\
             <td>{:.1}</td></tr>",
            escape(&case.who()),
            summary.delay_p50_ms,
            summary.delay_p95_ms,
            summary.delay_p99_ms,
            or_dash(summary.ssim_daala_db),
            or_dash(summary.ssim_y_db),
            summary.used.map_or("–".to_owned(), percent),
            summary.queue_p50_ms,
            summary.shown_per_s,
        );
    }
    for point in figure.points {
        let _ = writeln!(
            out,
            "<tr class=\"paper\"><td>{} (paper)</td><td></td><td>{:.0}</td><td></td><td>{:.1}</td><td></td><td></td><td></td>\
             <td></td></tr>",
            escape(point.who),
            point.delay_p95_ms,
            point.ssim_daala_db
        );
    }
    out.push_str("</tbody></table>\n");
}

/// What was chosen, and what both ends held.
fn decisions(out: &mut String, records: &[Record]) {
    out.push_str(
        "<h2 id=\"decisions\">What was chosen, and states held</h2>\n\
         <p>Of which share of the encoded pictures the finest candidate was sent, one between, the coarsest, or none. Salsify \
         has two candidates, a better and a worse one.</p>\n\
         <table><thead><tr><th></th><th>finest</th><th>between</th><th>coarsest</th><th>none</th>\
         <th>sender's states, mean (most)</th><th>receiver's</th></tr></thead>\n<tbody>\n",
    );
    for record in records {
        let [finest, between, coarsest, none] = record.summary.chosen.map(percent);
        let held = |(mean, most): (f64, u64)| format!("{mean:.1} ({most})");
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{finest}</td><td>{between}</td><td>{coarsest}</td><td>{none}</td><td>{}</td><td>{}</td></tr>",
            escape(&record.case),
            held(record.summary.sender_states),
            held(record.summary.receiver_states)
        );
    }
    let [better, worse, none] = CHOSEN.map(percent);
    let _ = writeln!(
        out,
        "<tr class=\"paper\"><td>Salsify (paper)</td><td>{better}</td><td>–</td><td>{worse}</td><td>{none}</td><td>{}</td>\
         <td>{}</td></tr>\n</tbody></table>",
        STATES[0], STATES[1]
    );
}

fn settings(out: &mut String, records: &[Record]) {
    out.push_str(
        "<h2 id=\"settings\">What was run</h2>\n<table><thead><tr><th>case</th><th>network</th><th>sender</th><th>video</th>\
         <th>seconds</th><th>seed</th><th>version</th></tr></thead>\n<tbody>\n",
    );
    for record in records {
        let settings = &record.settings;
        let _ = writeln!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.0}</td><td>{}</td><td>{}</td></tr>",
            escape(&record.case),
            escape(&settings.network),
            escape(&settings.sender),
            escape(&settings.video),
            settings.duration_ms as f64 / 1e3,
            settings.seed,
            escape(&settings.version)
        );
    }
    out.push_str("</tbody></table>\n");
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::record_for_tests as record;

    #[test]
    fn a_page_has_figures_tables_and_the_papers_points() {
        let records = [record("att-1c", 90, 300), record("att-2c", 60, 300), record("testbed", 8, 30)];
        let page = page(&records);
        for words in [
            "<!doctype html>",
            "AT&amp;T LTE",
            "Salsify-2c (paper)",
            "Glassline-2c over 60 s beside Salsify-2c",
            "Without a network a picture takes",
            "prefers-color-scheme: dark",
            "50 %",
            "ATT-LTE-driving.down, back ATT-LTE-driving.up, 20 ms each way, queues of 256 packets",
        ] {
            assert!(page.contains(words), "{words}: {page}");
        }
        // Delay against quality, delays, and one run over time.
        assert_eq!(page.matches("<svg ").count(), 3);
        assert_eq!(page.matches("</style>").count(), 1);
        assert!(!page.contains("T-Mobile"), "what was not run is left out");
        assert!(!page.contains("NaN") && !page.contains("http-equiv") && !page.contains("src="), "{page}");
        let ids: Vec<&str> = page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let own: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(ids.len(), own.len(), "{ids:?}");
    }

    #[test]
    fn what_is_not_on_the_papers_network_is_not_compared() {
        let page = page(&[record("verizon-2c", 60, 300)]);
        assert!(page.contains("longer recording") && !page.contains("beside Salsify-2c"), "{page}");
        assert!(page.contains("was not measured"), "{page}");
    }

    #[test]
    fn the_front_of_the_papers_systems_is_told() {
        let found = |delay| {
            let record = record("wifi-2c", delay, 300);
            let figure = FIGURES.iter().find(|figure| figure.key == "wifi").unwrap();
            compared(figure.points, &runs(figure, &[record])).unwrap()
        };
        assert!(found(60).contains("No system"), "{}", found(60));
        // 16.25 dB are better than all of them, however late.
        assert!(found(9_000).contains("No system"));
        let mut late = record("wifi-2c", 900, 300);
        late.summary.ssim_daala_db = Some(9.0);
        let figure = FIGURES.iter().find(|figure| figure.key == "wifi").unwrap();
        let told = compared(figure.points, &runs(figure, &[late])).unwrap();
        assert!(told.contains("Salsify-1c, Salsify-2c, WebRTC"), "{told}");
    }

    #[test]
    fn a_page_of_nothing_is_a_page() {
        assert!(page(&[]).ends_with("</html>\n"));
    }
}
