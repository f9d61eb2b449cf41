//! The transport room from outside: the link in virtual time, the emulator beside what others wrote down, corpora.
//! One program, so that what the tests share is compiled and linked once.
#![allow(clippy::unwrap_used)]

mod corpus;
mod emulator_golden;
mod link_budget;
mod link_channels;
mod link_contribution;
mod link_fairness;
mod link_fast;
mod link_hostile;
mod link_idle;
mod link_liars;
mod link_life;
mod link_mtu;
mod link_names;
mod link_parity;
mod link_paths;
mod link_receipts;
mod link_resume;
mod link_shares;
mod link_simulation;
mod link_stamps;
mod link_start;
mod link_sum;
mod link_support;
mod link_video;
mod tcp_models;
