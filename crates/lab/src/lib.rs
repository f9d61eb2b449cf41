//! The lab: what measures live video from outside. Everything here is a black box to what it measures, and works
//! with other products too.
//!
//! * [`load`]: many viewers of one server, and whether each gets the right bytes in time.
//! * [`link`]: an emulated network between a command and the rest of the machine.
//! * [`flight`]: how bursty packets arrive; [`pcap`] reads them from captures, [`report`] draws them.
#![forbid(unsafe_code)]

pub mod flight;
pub mod link;
pub mod load;
pub mod pcap;
pub mod report;
