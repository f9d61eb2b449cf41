//! What a load does, and which of its viewers are checked or slow.

use super::pace::Limit;
use super::target::Target;
use glassline_io::tls::Connector;
use std::net::IpAddr;
use std::time::Duration;

/// Which viewers' packets are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Every viewer's.
    All,
    /// This many viewers', spread evenly.
    Sample(usize),
    /// No viewer's.
    None,
}

/// What the load does.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What is asked for, in turn.
    pub targets: Vec<Target>,
    /// The certificates that `https://` servers' are checked by; those targets are refused without.
    pub trust: Option<Connector>,
    /// Addresses to connect from, in turn; the system's choice where there are none.
    pub sources: Vec<IpAddr>,
    /// Viewers at once.
    pub viewers: usize,
    /// Viewers that come each second until all are there.
    pub ramp: f64,
    /// Viewers that leave, each for another one, each second once all are there.
    pub churn: f64,
    /// How fast each reads at most.
    pub limit: Option<Limit>,
    /// So many of them read as fast as this at most.
    pub slow: Option<(usize, Limit)>,
    /// Which viewers' packets are checked.
    pub check: Check,
    /// A viewer that gets nothing for longer has stalled.
    pub stall: Duration,
    /// A viewer that has no answer after this time is refused.
    pub timeout: Duration,
    /// Ask again for a body that was read to its end.
    pub repeat: bool,
}

impl Settings {
    /// `viewers` of `target`, all read at once and checked.
    pub fn new(target: Target, viewers: usize) -> Settings {
        Settings { targets: vec![target], viewers, ..Settings::of_nobody() }
    }

    /// Settings without viewers: for a load that is a source alone.
    pub fn of_nobody() -> Settings {
        Settings {
            targets: Vec::new(),
            trust: None,
            sources: Vec::new(),
            viewers: 0,
            ramp: 1000.0,
            churn: 0.0,
            limit: None,
            slow: None,
            check: Check::All,
            stall: Duration::from_millis(500),
            timeout: Duration::from_secs(10),
            repeat: false,
        }
    }

    /// Whether the packets of this viewer are checked.
    pub(super) fn is_checked(&self, index: usize) -> bool {
        match self.check {
            Check::All => true,
            Check::Sample(count) => is_chosen(index, count, self.viewers),
            Check::None => false,
        }
    }

    /// How fast this viewer reads at most.
    pub(super) fn limit(&self, index: usize) -> Option<Limit> {
        // From the other end than the sample, so that small ones don't coincide.
        let slow = self.slow.filter(|(count, _)| is_chosen(self.viewers - 1 - index, *count, self.viewers));
        slow.map(|(_, limit)| limit).or(self.limit)
    }
}

/// Whether `index` is one of `count` among `all`, spread evenly; the first one is.
pub(super) fn is_chosen(index: usize, count: usize, all: usize) -> bool {
    let count = count.min(all) as u128;
    let (index, all) = (index as u128, all as u128);
    count > 0 && (index == 0 || index * count / all > (index - 1) * count / all)
}
