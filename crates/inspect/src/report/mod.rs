//! What measurements look like: pictures that anyone can read, as SVG. [`svg`] is what all of them are drawn with.

pub mod budget;
pub mod flight;
pub mod score;
pub mod svg;
