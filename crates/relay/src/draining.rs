//! A server that is emptied for maintenance: since when, in which time its viewers are sent on, what was done, and which players ask it
//! still.

use glassline_delivery::policy::StreamName;
use glassline_media::Time;
use glassline_streams::ConnectionId;
use glassline_streams::presence::subscriber;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A player reads its playlist again much sooner than this: one that has not is gone.
const PLAYER_LASTS: Duration = Duration::from_secs(30);
/// Addresses of players that are kept apart. Of more it is known that there are some.
const PLAYERS_MAX: usize = 16 << 10;

/// What was done to empty the server. All but the first are counted since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrainCounts {
    /// Addresses from which a player has read a playlist or manifest here in the last 30 seconds.
    pub players: usize,
    /// Publishers that were answered by the address of another server.
    pub publishers_sent: u64,
    /// Requests of viewers and players that were.
    pub viewers_sent: u64,
    /// Responses to viewers that were ended at a key frame.
    pub viewers_ended: u64,
    /// Publishers at doors other than HTTP's that were refused.
    pub publishers_refused: u64,
    /// Viewers there.
    pub viewers_refused: u64,
}

/// Since when, and in which time running viewers are sent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DrainPlan {
    since: Time,
    over: Duration,
}

impl DrainPlan {
    pub(super) fn new(since: Time, over: Duration) -> DrainPlan {
        DrainPlan { since, over }
    }

    /// Whether it says the same of another time.
    pub(super) fn is_like(&self, other: &DrainPlan) -> bool {
        self.over == other.over
    }

    /// The same, for viewers that can be sent on since then.
    pub(super) fn from(self, since: Time) -> DrainPlan {
        DrainPlan { since: self.since.max(since), ..self }
    }

    /// When the viewer at this connection has its turn: all are spread evenly over the time, so that they do not come to the other
    /// servers at once.
    pub(super) fn turn_of(&self, id: ConnectionId) -> Time {
        // splitmix64: neighbouring numbers are far apart.
        let mixed = (id.token ^ (id.worker as u64) << 48).wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        let part = (mixed ^ mixed >> 31) as f64 / u64::MAX as f64;
        self.since + self.over.mul_f64(part)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Draining {
    /// Whether there is a plan: it is asked at each read of a publisher.
    is_on: AtomicBool,
    plan: Mutex<Option<DrainPlan>>,
    players: Mutex<Players>,
    /// Since when viewers of each stream can be sent on, those over TLS apart.
    refuges: Mutex<BTreeMap<(StreamName, bool), Time>>,
    publishers_sent: AtomicU64,
    viewers_sent: AtomicU64,
    viewers_ended: AtomicU64,
    pub(super) publishers_refused: AtomicU64,
    pub(super) viewers_refused: AtomicU64,
}

/// When each address last read a playlist here.
#[derive(Debug, Default)]
struct Players {
    read_at: BTreeMap<IpAddr, Time>,
    /// When one last did for which there was no room.
    others_at: Option<Time>,
}

impl Players {
    fn note(&mut self, address: IpAddr, now: Time) {
        if self.read_at.len() >= PLAYERS_MAX && !self.read_at.contains_key(&address) {
            self.others_at = Some(now);
        } else {
            self.read_at.insert(address, now);
        }
    }

    fn count(&mut self, now: Time) -> usize {
        let lasts = |at: Time| now.since(at) < PLAYER_LASTS;
        self.read_at.retain(|_, at| lasts(*at));
        self.read_at.len() + usize::from(self.others_at.is_some_and(lasts))
    }
}

impl Draining {
    fn plan(&self) -> MutexGuard<'_, Option<DrainPlan>> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn players(&self) -> MutexGuard<'_, Players> {
        self.players.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the next process needs of it.
    pub(super) fn left(&self) -> Option<DrainPlan> {
        *self.plan()
    }

    pub(super) fn set(&self, plan: Option<DrainPlan>) {
        self.refuges.lock().unwrap_or_else(PoisonError::into_inner).clear();
        *self.plan() = plan;
        self.is_on.store(plan.is_some(), Ordering::Relaxed);
    }

    /// Viewers of this stream can be sent on now, or cannot. Returns since when they can.
    pub(super) fn note_refuge(&self, stream: (StreamName, bool), has_one: bool, now: Time) -> Option<Time> {
        let mut refuges = self.refuges.lock().unwrap_or_else(PoisonError::into_inner);
        if has_one {
            return Some(*refuges.entry(stream).or_insert(now));
        }
        refuges.remove(&stream);
        None
    }

    /// The player at `address` has asked for a playlist, wherever it was sent.
    pub(super) fn note_player(&self, address: IpAddr, now: Time) {
        self.players().note(subscriber(address), now);
    }

    pub(super) fn note_viewer_sent(&self) {
        self.viewers_sent.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn note_viewer_ended(&self) {
        self.viewers_ended.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn note_publisher_sent(&self) {
        self.publishers_sent.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether there is a plan.
    pub(super) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    pub(super) fn counts(&self, now: Time) -> DrainCounts {
        DrainCounts {
            players: self.players().count(now),
            publishers_sent: self.publishers_sent.load(Ordering::Relaxed),
            viewers_sent: self.viewers_sent.load(Ordering::Relaxed),
            viewers_ended: self.viewers_ended.load(Ordering::Relaxed),
            publishers_refused: self.publishers_refused.load(Ordering::Relaxed),
            viewers_refused: self.viewers_refused.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_viewers_have_their_turn_within_the_time_and_not_at_once() {
        let plan = DrainPlan { since: Time::from_millis(5_000), over: Duration::from_secs(10) };
        let turns: Vec<u64> = (0..1_000)
            .map(|token| plan.turn_of(ConnectionId { worker: token % 4, token: token as u64 }))
            .map(|at| at.since(plan.since).as_secs())
            .collect();
        for second in 0..10 {
            let count = turns.iter().filter(|at| **at == second).count();
            assert!((60..150).contains(&count), "{second}: {count}");
        }
    }

    #[test]
    fn players_that_have_read_a_playlist_lately_are_counted_once_each() {
        let mut players = Players::default();
        let address = |number: u32| IpAddr::V4(number.into());
        (0..=PLAYERS_MAX as u32).for_each(|number| players.note(address(number), Time::ZERO));
        assert_eq!(players.count(Time::ZERO), PLAYERS_MAX + 1);
        players.note(address(7), Time::ZERO + Duration::from_secs(1));
        assert_eq!(players.count(Time::ZERO + PLAYER_LASTS), 1);
        assert_eq!(players.count(Time::ZERO + 2 * PLAYER_LASTS), 0);
    }
}
