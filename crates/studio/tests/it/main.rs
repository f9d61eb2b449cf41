//! What the studio's parts do together.
#![allow(clippy::unwrap_used)]

mod parallel;
