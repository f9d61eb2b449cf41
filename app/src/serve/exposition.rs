//! The text in which metrics are told.

use glassline_streams::status::StreamStatus;
use std::fmt::{Display, Write as _};

/// The text of an exposition, family by family.
#[derive(Default)]
pub(super) struct Exposition(pub(super) String);

impl Exposition {
    pub(super) fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.0, "# HELP glassline_{name} {help}\n# TYPE glassline_{name} {kind}\n");
    }

    pub(super) fn total(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        let _ = writeln!(self.0, "glassline_{name} {value}");
    }

    /// A family with one sample a stream. Stream names need no escape.
    pub(super) fn streams<V: Display>(
        &mut self,
        streams: &[StreamStatus],
        (name, kind, help): (&str, &str, &str),
        value: impl Fn(&StreamStatus) -> Option<V>,
    ) {
        self.family(name, kind, help);
        for stream in streams {
            if let Some(value) = value(stream) {
                let _ = writeln!(self.0, "glassline_{name}{{stream=\"{}\"}} {value}", stream.name);
            }
        }
    }
}
