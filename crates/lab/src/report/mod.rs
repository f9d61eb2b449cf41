//! What the lab's measurements look like, drawn with [`glassline_inspect::report::svg`].

pub mod experiment;
pub mod link;
pub mod live;
mod panel;
pub mod path;
