//! The log goes to standard error, so that standard output contains only what was requested.
//!
//! It starts with the settings of the command line. A command with a configuration then passes its `[log]` section to
//! [`configure`], at the start and each time the configuration is read again.
//!
//! Texts from outside are written so that they cannot control the terminal ([`fields`]), and lines that strangers
//! cause again and again are counted and summarised ([`limit`]).

mod fields;
mod json;
mod limit;
mod recurring;

#[cfg(test)]
mod format_tests;

use anyhow::{Context, Result};
use glassline_media::printable;
use limit::Limit;
use serde::Deserialize;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, OnceLock, PoisonError};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Layer, Layered, SubscriberExt};
use tracing_subscriber::{Registry, fmt as text_layer, reload};

/// The default level.
const DEFAULT_FILTER: &str = "info";

/// The format of a line of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    /// For people: time, level, message, fields
    #[default]
    Text,
    /// For machines: one JSON object a line
    Json,
}

/// Which lines are logged: a level, or levels by module as in `warn,glassline_relay=debug`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Filter(String);

impl Default for Filter {
    fn default() -> Filter {
        Filter(DEFAULT_FILTER.to_owned())
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for Filter {
    type Err = String;
    fn from_str(text: &str) -> Result<Filter, String> {
        const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
        // A single word that is no level would be taken as a module's name, and silence the log.
        let is_known = text.contains(['=', ',']) || LEVELS.contains(&text);
        if !is_known {
            return Err(format!(
                "log level {text:?} is not known; one of {}, or MODULE=LEVEL,…",
                LEVELS.join(", ")
            ));
        }
        let filter = Filter(text.to_owned());
        filter.targets().map_err(|error| format!("log level {text:?}: {error}"))?;
        Ok(filter)
    }
}

/// The modules that were parts of another crate until 2026-11, and where they are now.
const FORMER: [(&str, &[&str]); 12] = [
    ("glassline_relay", &["glassline_relay", "glassline_doors"]),
    ("glassline_engine::relay", &["glassline_relay", "glassline_streams", "glassline_doors"]),
    ("glassline_engine::edge", &["glassline_edge"]),
    ("glassline_engine::capture", &["glassline_studio::capture"]),
    ("glassline_engine::encode", &["glassline_studio::encode"]),
    ("glassline_engine::output", &["glassline_studio::output"]),
    ("glassline_engine::raw", &["glassline_studio::raw"]),
    ("glassline_engine::link", &["glassline_call::link"]),
    ("glassline_engine::direct", &["glassline_call::direct"]),
    ("glassline_engine::http", &["glassline_inspect::http"]),
    ("glassline_engine::containment", &["glassline_io::containment"]),
    (
        "glassline_engine",
        &[
            "glassline_relay",
            "glassline_streams",
            "glassline_doors",
            "glassline_edge",
            "glassline_studio",
            "glassline_call",
        ],
    ),
];

impl Filter {
    /// What is logged of which module. Names of modules that have moved since are understood, as configurations have them.
    fn targets(&self) -> Result<Targets, tracing_subscriber::filter::ParseError> {
        let directives = self.0.split(',').flat_map(|directive| {
            let former = FORMER.iter().find_map(|(former, now)| {
                let rest = directive.trim().strip_prefix(former)?;
                // A module's whole name, or what is below it.
                (rest.is_empty() || rest.starts_with(['=', ':'])).then_some((*now, rest))
            });
            match former {
                Some((now, rest)) => now.iter().map(|name| format!("{name}{rest}")).collect(),
                None => vec![directive.to_owned()],
            }
        });
        // What it tells of connections, `glassline_cluster` tells in its own words; asked for by name, it is logged.
        let quiet = (!self.0.contains("async_nats")).then(|| "async_nats=off".to_owned());
        quiet.into_iter().chain(directives).collect::<Vec<_>>().join(",").parse()
    }
}

impl<'de> Deserialize<'de> for Filter {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Filter, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The log options of every command.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Log (to standard error)")]
pub(crate) struct Options {
    /// Format of log lines [default: text]
    #[arg(long, global = true, value_enum, value_name = "FORMAT", hide_short_help = true)]
    log_format: Option<Format>,
    /// Lowest level that is logged: off, error, warn, info, debug, trace; or a level for each module, as in
    /// `warn,glassline_relay=debug` [default: info]
    #[arg(long, global = true, value_name = "LEVEL", env = "GLASSLINE_LOG", hide_short_help = true)]
    log: Option<Filter>,
    /// Log more: -v debug, -vv trace
    #[arg(short, long, global = true, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    verbose: u8,
    /// Log less: -q warnings, -qq errors, -qqq nothing
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    quiet: u8,
}

impl Options {
    /// The filter that the command line asks for, if it asks: `-v` and `-q` go before the environment's level.
    fn filter(&self) -> Option<Filter> {
        let level = match (self.verbose, self.quiet) {
            (0, 0) => return self.log.clone(),
            (1, _) => "debug",
            (2.., _) => "trace",
            (_, 1) => "warn",
            (_, 2) => "error",
            (_, 3..) => "off",
        };
        Some(Filter(level.to_owned()))
    }
}

type Filtered = Layered<Limit, Layered<reload::Layer<Targets, Registry>, Registry>>;
type Writer = Box<dyn Layer<Filtered> + Send + Sync>;

/// The running log: what the command line said, and the means to change the rest. The filter stands beside the
/// writer and not around it: a writer that brings its own filter cannot be exchanged.
struct Running {
    options: Options,
    filter: reload::Handle<Targets, Registry>,
    writer: reload::Handle<Writer, Filtered>,
    limit: Limit,
}

static RUNNING: OnceLock<Running> = OnceLock::new();

/// Starts the log as the command line says. Called once, first of all.
pub(crate) fn start(options: &Options) -> Result<()> {
    let (filter, filter_handle) = reload::Layer::new(targets(options, &Filter::default()));
    let (writer, writer_handle) = reload::Layer::new(writer(options, Format::default()));
    let limit = Limit::new();
    let layers = tracing_subscriber::registry().with(filter).with(limit.clone()).with(writer);
    tracing::subscriber::set_global_default(layers).context("the log can be started once only")?;
    let (filter, writer) = (filter_handle, writer_handle);
    let _ = RUNNING.set(Running { options: options.clone(), filter, writer, limit });
    Ok(())
}

/// Applies a configuration's `[log]` section to the running log. What the command line says goes before it.
/// Does nothing where no log runs (in tests).
pub(crate) fn configure(format: Format, filter: &Filter) -> Result<()> {
    if let Some(running) = RUNNING.get() {
        running.filter.reload(targets(&running.options, filter))?;
        running.writer.reload(writer(&running.options, format))?;
    }
    Ok(())
}

/// Tells what was only counted so far. Called last of all.
pub(crate) fn finish() {
    if let Some(running) = RUNNING.get() {
        running.limit.finish();
    }
}

/// The options' filter, or else `default`.
fn targets(options: &Options, default: &Filter) -> Targets {
    let filter = options.filter();
    filter.as_ref().unwrap_or(default).targets().expect("a filter has been parsed before")
}

/// What writes lines in the options' format, or else in `format`.
fn writer(options: &Options, format: Format) -> Writer {
    let writer = text_layer::layer().with_writer(|| Above);
    match options.log_format.unwrap_or(format) {
        Format::Text => {
            let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            writer.fmt_fields(fields::text()).with_ansi(colours).with_target(false).boxed()
        }
        Format::Json => writer.event_format(json::Json).boxed(),
    }
}

/// What stands below the log on a terminal, and is written over by the next one.
static VIEW: Mutex<String> = Mutex::new(String::new());

/// Shows `text`, whole lines, on standard error, which is a terminal, in place of what was shown before. Lines of the log
/// stand above it. Nothing, for an empty one.
pub(crate) fn show(text: &str) {
    let text = printable::lines(text).into_owned();
    let mut view = VIEW.lock().unwrap_or_else(PoisonError::into_inner);
    let shown = format!("{}{}", erase(&view), unbroken(&text));
    *view = text;
    // A terminal that has gone is no reason to end.
    let _ = io::stderr().lock().write_all(shown.as_bytes());
}

/// What takes a view off a terminal: the cursor goes up by its lines, and everything from there on is cleared.
fn erase(view: &str) -> String {
    match view.lines().count() {
        0 => String::new(),
        lines => format!("\x1b[{lines}A\x1b[J"),
    }
}

/// Lines that are longer than the terminal is wide are cut and not broken, so that their number is known.
fn unbroken(view: &str) -> String {
    format!("\x1b[?7l{view}\x1b[?7h")
}

/// Standard error above the view.
struct Above;

impl Write for Above {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let view = VIEW.lock().unwrap_or_else(PoisonError::into_inner);
        if view.is_empty() {
            return io::stderr().lock().write(line);
        }
        let whole = [erase(&view).as_bytes(), line, unbroken(&view).as_bytes()].concat();
        io::stderr().lock().write_all(&whole)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_go_before_the_level() {
        let options = |log: Option<&str>, verbose, quiet| {
            let log = log.map(|log| log.parse().unwrap());
            Options { log_format: None, log, verbose, quiet }.filter().map(|filter| filter.to_string())
        };
        assert_eq!(options(None, 0, 0), None);
        assert_eq!(options(Some("warn"), 0, 0).as_deref(), Some("warn"));
        assert_eq!(options(Some("warn"), 2, 0).as_deref(), Some("trace"));
        assert_eq!(options(Some("warn"), 0, 2).as_deref(), Some("error"));
    }

    #[test]
    fn a_running_log_can_be_changed_and_still_writes() {
        start(&Options::default()).unwrap();
        configure(Format::Json, &"debug".parse().unwrap()).unwrap();
        tracing::debug!("a line after the change");
        configure(Format::Text, &Filter::default()).unwrap();
        tracing::info!("and one more");
    }

    #[test]
    fn a_word_that_is_no_level_is_refused() {
        assert!("warn,glassline_relay=debug".parse::<Filter>().is_ok());
        assert!("loud".parse::<Filter>().unwrap_err().contains("error, warn, info"));
        assert!("glassline=loud".parse::<Filter>().is_err());
    }

    #[test]
    fn modules_that_have_moved_are_found_by_their_former_names() {
        let logs = |filter: &str, target: &str| {
            let filter: Filter = filter.parse().unwrap();
            filter.targets().unwrap().would_enable(target, &tracing::Level::DEBUG)
        };
        for (filter, target) in [
            ("warn,glassline_engine=debug", "glassline_call::link::session"),
            ("warn,glassline_engine=debug", "glassline_streams::registry"),
            ("warn,glassline_engine::relay=debug", "glassline_relay::worker"),
            ("warn,glassline_engine::relay::pull=debug", "glassline_doors::pull::upstream"),
            ("warn,glassline_relay::pull=debug", "glassline_doors::pull::upstream"),
            ("warn,glassline_relay=debug", "glassline_doors::output"),
            ("warn, glassline_engine::capture=debug", "glassline_studio::capture::ffmpeg"),
        ] {
            assert!(logs(filter, target), "{filter}: {target}");
            assert!(!logs(filter, "hyper"), "{filter}");
        }
        assert!(!logs("warn,glassline_engine::edge=debug", "glassline_relay::worker"));
        assert!("warn,glassline_engine=loud".parse::<Filter>().is_err());
    }
}
