//! Load on a server over HTTP: very many viewers in one thread, and whether each gets the right bytes in time.
//!
//! ```text
//! stamped::Source ─► Feed ─► [ the server ] ─► Load: viewer, viewer, … ─► check ─► Tally ─► Report
//!                             (any of HTTP/1)         └ pace: slow readers        (adds up over processes)
//! ```
//! [`Load`] holds the viewers, ramps them up and churns them; [`Tally`] is what they saw, [`Report`] its figures. Any
//! body can be read; an MPEG-TS one is checked by its continuity counters, and one that [`stamped`] made by every
//! byte, with the delay of each frame.

pub mod check;
pub mod exchange;
mod feed;
mod generator;
pub mod live;
pub mod objects;
mod pace;
mod report;
mod settings;
pub mod stamped;
mod tally;
mod target;
mod viewer;

pub use feed::{Feed, plain};
pub use generator::{Load, Progress};
pub use pace::Limit;
pub use report::{Percentiles, Report};
pub use settings::{Check, Settings};
pub use tally::{Spread, Tally, Viewers, Window};
pub use target::Target;
