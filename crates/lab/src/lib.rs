//! What measures: a black box that looks at any product's streams from outside.
#![forbid(unsafe_code)]

pub mod flight;
pub mod pcap;
pub mod report;
