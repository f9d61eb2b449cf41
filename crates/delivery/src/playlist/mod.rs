//! Playlists and manifests, rendered from a [`crate::packager::Presentation`]: text out, nothing kept.
//!
//! * [`names`]: the addresses of objects, written and understood.
//! * [`hls`]: LL-HLS, and when a request for a playlist that is not there yet is answered.
//! * [`dash`]: LL-DASH.

pub mod dash;
mod date;
pub mod hls;
pub mod names;
mod query;

pub use names::Object;
pub use query::Carried;

#[cfg(test)]
pub(crate) mod check;
#[cfg(test)]
mod tests;
