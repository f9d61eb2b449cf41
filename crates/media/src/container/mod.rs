//! Containers: how coded units and pictures lie in a file or on the wire.

pub mod ts;
pub mod y4m;
