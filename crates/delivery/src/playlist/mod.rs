//! Playlists and manifests, rendered from a [`crate::packager::Presentation`]: text out, nothing kept.

pub mod names;

pub use names::Object;
