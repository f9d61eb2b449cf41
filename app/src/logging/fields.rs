//! How the fields of a line are written: each value without what would steer a terminal or begin another line, and no longer
//! than a line may be. Values come from outside.

use glassline_media::printable::{self, Bounded};
use std::fmt::{self, Debug, Write};
use tracing::Event;
use tracing::field::{Field, Visit};
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{Writer, debug_fn};

/// Bytes of a value at most, before what is not to be shown is written in digits.
const VALUE_MAX_BYTES: usize = 1024;
/// Bytes of a line that stands as an example in another one.
const EXAMPLE_MAX_BYTES: usize = 300;

/// The fields of text for people, as tracing-subscriber's own: the message, then `name=value`.
pub(super) fn text() -> impl for<'a> FormatFields<'a> + Send + Sync + 'static {
    debug_fn(|writer: &mut Writer<'_>, field, value| {
        let has_colours = writer.has_ansi_escapes();
        write_field(writer, field, value, has_colours)
    })
    .delimited(" ")
}

/// A line's fields, as the example of many.
pub(super) fn in_one_line(event: &Event<'_>) -> String {
    struct Line(Bounded);
    impl Visit for Line {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            // An error is the end of its room.
            let _ = write_field(&mut self.0, field, value, false).and_then(|()| self.0.write_char(' '));
        }
    }
    let mut line = Line(Bounded::new(EXAMPLE_MAX_BYTES));
    event.record(&mut line);
    line.0.into_string().trim_end().to_owned()
}

/// A value, no longer than it may be.
pub(super) fn bounded(value: fmt::Arguments<'_>) -> String {
    let mut text = Bounded::new(VALUE_MAX_BYTES);
    // An error is the end of its room, which the text shows.
    let _ = text.write_fmt(value);
    text.into_string()
}

fn write_field(writer: &mut impl Write, field: &Field, value: &dyn Debug, has_colours: bool) -> fmt::Result {
    let text = bounded(format_args!("{value:?}"));
    match field.name() {
        "message" => {}
        name if has_colours => write!(writer, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m")?,
        name => write!(writer, "{name}=")?,
    }
    writer.write_str(&printable::line(&text))
}
