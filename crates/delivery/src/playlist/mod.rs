//! Playlists and manifests, rendered from a [`crate::packager::Presentation`]: text out, nothing kept.
//!
//! [`names`] has the addresses of objects, written and understood; [`hls`] renders LL-HLS, and says when a request for a
//! playlist that is not there yet is answered; [`dash`] renders LL-DASH. [`rewrite`] is about those of other servers.

pub mod dash;
mod date;
pub mod hls;
pub mod names;
mod query;
pub mod rewrite;
mod variant;

pub use date::{basic_date_time, date_time, date_time_micros, parse_basic_date_time, parse_date_time};
pub use names::Object;
pub use query::Carried;
pub use variant::Variant;

#[cfg(test)]
pub(crate) mod check;
#[cfg(test)]
mod tests;
