//! An emulated network, in virtual time: how it delays, queues, loses, doubles and reorders packets.
//!
//! Packets and `now` come in; packets, events and the next deadline come out. The same model runs in tests, where time
//! jumps from one event to the next, and in `glassline lab link`, where it is the clock's.
//!
//! * [`Link`]: one direction. [`LinkConfig`] says what it is like: rate or [`Trace`], [`Queue`], delay, jitter, [`Loss`],
//!   duplicates, reordering, [`Outages`].
//! * [`Network`]: two ends and a link each way, for simulations of datagram protocols.
//! * [`Event`], [`Figures`]: what happened on a link, as a log in Mahimahi's format and as figures over time.
//! * [`Random`]: chance that repeats with its seed.
//!
//! A link with a trace is Mahimahi's `mm-link` to the byte and the millisecond. (Netravali et al.: "Mahimahi: Accurate
//! Record-and-Replay for HTTP", USENIX ATC 2015.)

mod bottleneck;
mod config;
mod event;
mod figures;
mod link;
mod network;
mod outage;
mod packets;
mod random;
mod record;
mod scale;
mod trace;

pub use config::{
    ConfigError, Discipline, LinkConfig, Loss, OutageEffect, OutageTimes, Outages, Queue, Reorder, Service,
};
pub use event::{DropReason, Event};
pub use figures::{Bin, Figures, Spread};
pub use link::{Counters, Link};
pub use network::{Datagram, Delivery, End, Network, NetworkCounters};
pub use packets::{Delivered, Flow};
pub use random::Random;
pub use scale::{Scale, ScaleError};
pub use trace::{OPPORTUNITY_BYTES, Trace, TraceError};

#[cfg(test)]
mod tests;
