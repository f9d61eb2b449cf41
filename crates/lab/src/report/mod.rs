//! What measurements look like: pictures that anyone can read, as SVG.

pub mod budget;
pub mod experiment;
pub mod flight;
pub mod link;
pub(crate) mod live;
mod panel;
pub mod score;
pub mod svg;
