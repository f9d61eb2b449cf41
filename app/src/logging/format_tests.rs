//! What the log writes of hostile and of many lines.

use super::limit::Limit;
use super::{fields, json};
use glassline_media::printable::is_control;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::{Registry, fmt as text_layer};

/// What was written.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Written {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

const HOSTILE: &str = "a\x1b[2J\nb\u{9b}31m\u{202e}";

fn log_hostile_lines() {
    tracing::warn!(name = HOSTILE, shown = %HOSTILE, debug = ?Some(HOSTILE), count = 3, good = true, "{HOSTILE}");
    tracing::info!(long = %"ä".repeat(100_000), "long");
}

/// What `log` writes by a layer that is made of a writer.
fn written(
    layer: impl FnOnce(Written) -> Box<dyn Layer<Registry> + Send + Sync>,
    log: impl FnOnce(),
) -> String {
    let written = Written::default();
    let layers = tracing_subscriber::registry().with(layer(written.clone()));
    tracing::subscriber::with_default(layers, log);
    written.text()
}

fn text(written: Written) -> Box<dyn Layer<Registry> + Send + Sync> {
    let layer = text_layer::layer().with_writer(move || written.clone());
    layer.fmt_fields(fields::text()).with_ansi(false).with_target(false).boxed()
}

#[test]
fn a_line_for_people_is_one_line_and_harmless() {
    let said = written(text, log_hostile_lines);
    assert!(!said.chars().any(|character| is_control(character) && character != '\n'), "{said:?}");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    let clean = "a\\u001b[2J\\u000ab\\u009b31m\\u202e";
    assert!(lines[0].contains(&format!(" WARN {clean} name=")), "{}", lines[0]);
    assert!(lines[0].contains(&format!(" shown={clean} debug=Some(")), "{}", lines[0]);
    assert!(lines[0].ends_with(" count=3 good=true"), "{}", lines[0]);
    assert!(lines[1].contains("long long=ää") && lines[1].ends_with("ä…"), "{}", lines[1]);
    assert!(lines[1].len() < 1200, "{} bytes", lines[1].len());
}

#[test]
fn a_line_for_machines_is_an_object_with_what_was_said() {
    let layer = |written: Written| {
        let layer = text_layer::layer().with_writer(move || written.clone());
        layer.event_format(json::Json).boxed()
    };
    let said = written(layer, log_hostile_lines);
    assert!(!said.chars().any(|character| is_control(character) && character != '\n'), "{said:?}");
    let lines: Vec<serde_json::Value> =
        said.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert_eq!(lines.len(), 2);
    for field in ["message", "name", "shown"] {
        assert_eq!(lines[0][field], HOSTILE, "{field}");
    }
    assert_eq!((&lines[0]["count"], &lines[0]["good"]), (&3.into(), &true.into()));
    assert_eq!((&lines[0]["level"], &lines[1]["level"]), (&"WARN".into(), &"INFO".into()));
    assert!(lines[0]["timestamp"].as_str().unwrap().ends_with('Z'));
    assert_eq!(lines[0]["target"], module_path!());
    assert!(lines[1]["long"].as_str().unwrap().len() <= 1024 + '…'.len_utf8());
}

#[test]
fn lines_of_one_place_are_counted_when_they_are_many() {
    let limit = Limit::new();
    let written = Written::default();
    let writer = written.clone();
    let layers = tracing_subscriber::registry()
        .with(limit.clone())
        .with(text_layer::layer().with_writer(move || writer.clone()).with_ansi(false));
    tracing::subscriber::with_default(layers, || {
        for number in 0..1000 {
            tracing::warn!(number, "refused");
            tracing::debug!(number, "asked for");
        }
        tracing::info!("something else");
        limit.finish();
    });
    let said = written.text();
    assert_eq!(said.lines().filter(|line| line.contains("refused number=")).count(), 51, "{said}");
    assert_eq!(said.lines().filter(|line| line.contains("asked for")).count(), 1000);
    assert!(said.contains("something else"));
    let last = said.lines().last().unwrap();
    assert!(last.contains(" WARN ") && last.contains("950 more like this in "), "{last}");
    assert!(last.ends_with(": refused number=50"), "{last}");
}
