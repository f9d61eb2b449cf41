//! Inspection from outside: corpora.
#![allow(clippy::unwrap_used)]

mod corpus;
