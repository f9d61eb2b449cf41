//! The lab from outside: experiments in virtual time.
#![allow(clippy::unwrap_used)]

#[cfg(feature = "av1")]
mod av1;
mod corpus;
mod experiment;
mod outages;
