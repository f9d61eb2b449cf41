//! What measurements look like: pictures that anyone can read, as SVG.

pub mod budget;
pub mod flight;
pub mod link;
pub mod svg;
