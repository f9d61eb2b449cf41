//! The lab from outside: experiments in virtual time.
#![allow(clippy::unwrap_used)]

mod corpus;
mod experiment;
mod outages;
