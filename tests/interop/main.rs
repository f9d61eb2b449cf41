//! The program `glassline` beside foreign programs.
#![allow(clippy::unwrap_used)]
