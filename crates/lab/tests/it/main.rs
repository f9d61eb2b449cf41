//! The lab from outside: experiments in virtual time, corpora. One program, so that what the tests share is compiled and
//! linked once.
#![allow(clippy::unwrap_used)]

mod corpus;
mod experiment;
