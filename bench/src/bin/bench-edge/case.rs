//! Loads: how objects grow, and who follows them.

use glassline_lab::load::objects::Shape;
use std::time::Duration;

/// So many clients of objects that grow so.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) clients: usize,
    pub(crate) shape: Shape,
}

const fn shape(chunks: u32, step_ms: u64, chunk_bytes: usize) -> Shape {
    Shape { chunks, step: Duration::from_millis(step_ms), chunk_bytes }
}

/// A segment of 2 s, 2 Mbit/s, in parts of a quarter of a second.
const SHORT: Shape = shape(8, 250, 62_500);
/// A segment of 4 s of the same stream, in parts of half a second.
const LONG: Shape = shape(8, 500, 125_000);
/// Little enough that 10,000 clients are a matter of connections, not of bytes: 128 kbit/s.
const THIN: Shape = shape(8, 250, 4_000);
/// What a smoke test can afford.
const QUICK: Shape = shape(4, 100, 20_000);

impl Case {
    fn new(name: &str, clients: usize, shape: Shape) -> Case {
        Case { name: format!("{clients} clients, {name}"), clients, shape }
    }

    /// Clients that ask at random moments while 2 s of video come to be.
    pub(crate) fn short(clients: usize) -> Case {
        Case::new("2 s as 8 × 62,500 B", clients, SHORT)
    }

    /// The same of 4 s.
    pub(crate) fn long(clients: usize) -> Case {
        Case::new("4 s as 8 × 125,000 B", clients, LONG)
    }

    /// The same of a thin stream.
    pub(crate) fn followers(clients: usize) -> Case {
        Case::new("2 s as 8 × 4,000 B", clients, THIN)
    }

    /// A few clients of small objects, for a test of the bench itself.
    pub(crate) fn quick() -> Case {
        Case::new("0.4 s as 4 × 20,000 B", 20, QUICK)
    }
}
