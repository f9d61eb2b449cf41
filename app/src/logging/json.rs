//! A line of the log for machines: an object with `timestamp`, `level`, the line's fields with `message` among them, and
//! `target`. Texts are bounded as those for people are, and what would steer a terminal is written in digits.

use super::fields;
use glassline_media::printable;
use serde::ser::{SerializeMap, Serializer as _};
use std::fmt::{self, Debug};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// How a line is written.
pub(super) struct Json;

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let mut line = Vec::new();
        write_object(&mut line, &time, event).map_err(|_| fmt::Error)?;
        let line = String::from_utf8(line).map_err(|_| fmt::Error)?;
        writeln!(writer, "{}", printable::line(&line))
    }
}

fn write_object(line: &mut Vec<u8>, time: &str, event: &Event<'_>) -> serde_json::Result<()> {
    let mut serializer = serde_json::Serializer::new(line);
    let mut fields = Fields { map: serializer.serialize_map(None)?, outcome: Ok(()) };
    let metadata = event.metadata();
    fields.map.serialize_entry("timestamp", time)?;
    fields.map.serialize_entry("level", metadata.level().as_str())?;
    event.record(&mut fields);
    fields.outcome?;
    fields.map.serialize_entry("target", metadata.target())?;
    fields.map.end()
}

/// Writes fields as entries of an object.
struct Fields<M: SerializeMap> {
    map: M,
    /// The first error, after which nothing is written.
    outcome: Result<(), M::Error>,
}

impl<M: SerializeMap> Fields<M> {
    fn entry(&mut self, field: &Field, value: &(impl serde::Serialize + ?Sized)) {
        if self.outcome.is_ok() {
            self.outcome = self.map.serialize_entry(field.name(), value);
        }
    }
}

impl<M: SerializeMap> Visit for Fields<M> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.entry(field, &value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.entry(field, &value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.entry(field, &value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.entry(field, &value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.entry(field, &fields::bounded(format_args!("{value}")));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.entry(field, &fields::bounded(format_args!("{value:?}")));
    }
}
