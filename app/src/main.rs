//! The program `glassline`.
fn main() {}
