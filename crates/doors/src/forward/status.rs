//! What other threads read of a forward, and how they end it.

use glassline_delivery::forward::ForwardCounters;
use glassline_media::Time;
use glassline_streams::status::{ForwardState, ForwardStatus, PeerFigure};
use glassline_transport::rtmp::Address;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What a forward has done, over all of its connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) bytes: u64,
    pub(super) pictures: u64,
    pub(super) sounds: u64,
    pub(super) dropped_pictures: u64,
    pub(super) dropped_sounds: u64,
    pub(super) damaged: u64,
    pub(super) jumps: u64,
    pub(super) connections: u64,
    pub(super) failures: u64,
    pub(super) refused: u64,
}

impl Totals {
    pub(super) fn add(&mut self, other: &Totals) {
        self.bytes += other.bytes;
        self.pictures += other.pictures;
        self.sounds += other.sounds;
        self.dropped_pictures += other.dropped_pictures;
        self.dropped_sounds += other.dropped_sounds;
        self.damaged += other.damaged;
        self.jumps += other.jumps;
        self.connections += other.connections;
        self.failures += other.failures;
        self.refused += other.refused;
    }

    fn add_counters(&mut self, counters: &ForwardCounters) {
        self.pictures += counters.pictures;
        self.sounds += counters.sounds;
        self.dropped_pictures += counters.dropped_pictures;
        self.dropped_sounds += counters.dropped_sounds;
        self.damaged += counters.damaged;
        self.jumps += counters.jumps;
    }
}

/// Where a forward is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    Idle,
    Connecting,
    Publishing {
        since: Time,
    },
    Waiting {
        until: Time,
        is_refused: bool,
    },
}

#[derive(Debug, Default)]
struct Entry {
    phase: Phase,
    reason: Option<String>,
    address: Option<SocketAddr>,
    behind: Duration,
    /// Of the connections that are over.
    before: Totals,
    /// Of the present one.
    bytes: u64,
    counters: ForwardCounters,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Board {
    entry: Mutex<Entry>,
    is_stopping: AtomicBool,
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, Entry> {
        self.entry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    pub(super) fn is_publishing(&self) -> bool {
        matches!(self.lock().phase, Phase::Publishing { .. })
    }

    /// The forward is there from now on.
    pub(super) fn enter(&self, phase: Phase) {
        let mut entry = self.lock();
        entry.phase = phase;
        if let Phase::Publishing { .. } = phase {
            entry.reason = None;
            entry.before.connections += 1;
        }
    }

    /// A connection to this address has begun.
    pub(super) fn connected(&self, address: SocketAddr) {
        self.lock().address = Some(address);
    }

    /// How the present connection does.
    pub(super) fn observe(&self, bytes: u64, counters: ForwardCounters, behind: Duration) {
        let mut entry = self.lock();
        (entry.bytes, entry.counters, entry.behind) = (bytes, counters, behind);
    }

    /// The connection is over, and what it did is added up.
    pub(super) fn leave(&self) {
        let mut entry = self.lock();
        let (bytes, counters) = (std::mem::take(&mut entry.bytes), std::mem::take(&mut entry.counters));
        entry.before.bytes += bytes;
        entry.before.add_counters(&counters);
        (entry.address, entry.behind) = (None, Duration::ZERO);
    }

    /// An attempt or a connection has failed.
    pub(super) fn fail(&self, reason: &str, is_refused: bool) {
        let mut entry = self.lock();
        entry.reason = Some(reason.to_owned());
        entry.before.failures += 1;
        entry.before.refused += u64::from(is_refused);
    }

    /// The thread has ended by a panic.
    pub(super) fn fault(&self) {
        self.leave();
        self.fail("ended by a fault of this program", false);
        self.enter(Phase::Idle);
    }

    pub(super) fn totals(&self) -> Totals {
        let entry = self.lock();
        let mut totals = entry.before;
        totals.bytes += entry.bytes;
        totals.add_counters(&entry.counters);
        totals
    }

    pub(super) fn status(&self, target: &Address, now: Time) -> ForwardStatus {
        let totals = self.totals();
        let entry = self.lock();
        let state = match entry.phase {
            Phase::Idle => ForwardState::Idle,
            Phase::Connecting => ForwardState::Connecting,
            Phase::Publishing { .. } => ForwardState::Publishing,
            Phase::Waiting { until, is_refused: false } => {
                ForwardState::Waiting { retry_in: until.since(now) }
            }
            Phase::Waiting { until, is_refused: true } => {
                ForwardState::Refused { retry_in: until.since(now) }
            }
        };
        let publishing = match entry.phase {
            Phase::Publishing { since } => now.since(since),
            _ => Duration::ZERO,
        };
        let figure = |name, words, value: u64| PeerFigure { name, words, value: value as f64 };
        ForwardStatus {
            protocol: if target.tls { "rtmps" } else { "rtmp" },
            target: target.to_string(),
            state,
            reason: entry.reason.clone(),
            address: entry.address,
            publishing,
            bytes: totals.bytes,
            figures: vec![
                figure("pictures", "Pictures", totals.pictures),
                figure("sounds", "Units of sound", totals.sounds),
                figure("dropped_pictures", "Dropped pictures", totals.dropped_pictures),
                figure("dropped_sounds", "Dropped units of sound", totals.dropped_sounds),
                figure("damaged_units", "Damaged units", totals.damaged),
                figure("clock_jumps", "Jumps of the stream's clock", totals.jumps),
                figure("restarts", "Restarts", totals.connections.saturating_sub(1)),
                figure("failures", "Failures", totals.failures),
                PeerFigure {
                    name: "behind_ms",
                    words: "Not taken yet (ms)",
                    value: entry.behind.as_secs_f64() * 1e3,
                },
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_connections_did_adds_up_and_the_state_is_told() {
        let (board, now) = (Board::default(), Time::from_millis(10_000));
        let target = Address::parse("rtmps://h/app/SECRET").unwrap();
        assert_eq!(board.status(&target, now).state, ForwardState::Idle);
        for round in 1..=2 {
            board.enter(Phase::Connecting);
            board.enter(Phase::Publishing { since: Time::from_millis(4000) });
            let counters =
                ForwardCounters { pictures: 10, dropped_pictures: 2, ..ForwardCounters::default() };
            board.observe(1000, counters, Duration::from_millis(40));
            let status = board.status(&target, now);
            assert_eq!((status.state, status.reason), (ForwardState::Publishing, None));
            assert_eq!((status.bytes, status.publishing), (1000 * round, Duration::from_secs(6)));
            board.leave();
            board.fail("closed", false);
        }
        board.enter(Phase::Waiting { until: Time::from_millis(12_000), is_refused: true });
        let status = board.status(&target, now);
        assert_eq!(status.state.retry_in(), Some(Duration::from_secs(2)));
        assert_eq!((status.state.name(), status.reason.as_deref()), ("refused", Some("closed")));
        let figure = |name: &str| status.figures.iter().find(|figure| figure.name == name).unwrap().value;
        assert_eq!((figure("pictures"), figure("dropped_pictures")), (20.0, 4.0));
        assert_eq!((figure("restarts"), figure("failures")), (1.0, 2.0));
        assert!(!format!("{status:?}").contains("SECRET"));
    }
}
