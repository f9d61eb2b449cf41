//! By which time the age of recordings is judged: the store's own, as long as that may be believed.
//!
//! An object is written for it, `.glassline/clock`: the store says when it got that, and it holds for the next start the time that was
//! believed last, and behind it for how many seconds the clock has been ahead of that.

use super::Worker;
use crate::store::{Store, StoreError, StoreErrorKind};
use bytes::Bytes;
use glassline_delivery::archive::retention::Rules;
use glassline_delivery::archive::store_clock::{Belief, StoreClock};
use glassline_delivery::packager::later;
use glassline_delivery::playlist::{date_time, parse_date_time};
use glassline_media::{Time, Utc};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The folder of the object: no stream has such a name.
const FOLDER: &str = ".glassline";
/// How often the store's clock is looked at while it is believed: what it says in between is what it said, and the time that has passed.
const LOOK_EVERY: Duration = Duration::from_secs(3600);

/// What is known of the clock of a store.
pub(super) struct Believed {
    clock: StoreClock,
    /// What the store's clock said when it was believed, since the start, and when that was.
    since_start: Option<(Utc, Time)>,
    /// It was told that the clock is ahead.
    is_told: bool,
    looked_at: Time,
}

impl Worker {
    /// What goes by `rules`: where the store's clock is not believed, nothing for its age.
    pub(super) fn rules_now(&mut self, store: &Store, rules: &Rules) -> Result<(Rules, Utc), StoreError> {
        let now = self.clock.now();
        if !rules.has_age() {
            self.is_held.store(false, Ordering::Relaxed);
            return Ok((rules.clone(), self.clock.utc()));
        }
        let is_due = self.believed.as_ref().is_none_or(|it| now.since(it.looked_at) >= LOOK_EVERY)
            || self.is_held.load(Ordering::Relaxed);
        if is_due && let Err(error) = self.look_at_clock(store) {
            // As long as it is not known what time it is there, nothing goes for its age.
            self.is_held.store(true, Ordering::Relaxed);
            return Err(error);
        }
        let utc = self.store_utc();
        if self.is_held.load(Ordering::Relaxed) {
            return Ok((rules.without_age(), utc));
        }
        Ok((rules.clone(), utc))
    }

    /// What time it is by the store's clock, as far as that is known.
    pub(super) fn store_utc(&self) -> Utc {
        let known = self.believed.as_ref().and_then(|believed| believed.since_start);
        let of_store = |(at, then): (Utc, Time)| later(at, self.clock.now().since(then));
        known.map_or_else(|| self.clock.utc(), of_store)
    }

    fn look_at_clock(&mut self, store: &Store) -> Result<(), StoreError> {
        let path = format!("{FOLDER}/clock");
        let mut believed = match self.believed.take() {
            Some(believed) => believed,
            None => self.begin_belief(store, &path)?,
        };
        let seen = write(store, &path, &believed.clock).and_then(|()| seen(store, &path));
        let now = self.clock.now();
        let belief = seen.map(|at| (at, believed.clock.look(at, now)));
        let mut written = Ok(());
        if let Ok((at, belief)) = &belief {
            written = write(store, &path, &believed.clock);
            let is_held = matches!(belief, Belief::Held { .. });
            self.is_held.store(is_held, Ordering::Relaxed);
            match (std::mem::replace(&mut believed.is_told, is_held), belief) {
                (_, Belief::Believed) => believed.since_start = Some((*at, now)),
                (false, Belief::Held { ahead, left }) => tracing::warn!(
                    clock = date_time(*at),
                    ahead_secs = ahead.as_secs(),
                    believed_in_secs = left.as_secs(),
                    "the clock of the store has jumped ahead: nothing is deleted for its age until it is put right, or has stayed so"
                ),
                (true, Belief::Held { .. }) => {}
            }
            believed.looked_at = now;
        }
        self.believed = Some(believed);
        belief.and(written)
    }

    /// What was believed before the start: what the object holds, or when the store got the newest part of an index.
    fn begin_belief(&self, store: &Store, path: &str) -> Result<Believed, StoreError> {
        let text = match store.get_blocking(path, None) {
            Err(error) if error.kind() == StoreErrorKind::NotFound => Bytes::new(),
            text => text?,
        };
        let mut lines = std::str::from_utf8(&text).unwrap_or_default().lines();
        let believed = lines.next().and_then(|line| parse_date_time(line.trim()));
        let held = lines
            .next()
            .and_then(|line| line.trim().parse().ok())
            .map_or(Duration::ZERO, Duration::from_secs);
        let at = believed.or_else(|| self.newest_written());
        let now = self.clock.now();
        Ok(Believed {
            clock: StoreClock::restarted(at, held, now),
            since_start: None,
            is_told: false,
            looked_at: now,
        })
    }
}

/// Writes what the next start has to know.
fn write(store: &Store, path: &str, clock: &StoreClock) -> Result<(), StoreError> {
    let text = match clock.remembered() {
        (Some(at), held) => format!("{}\n{}\n", date_time(at), held.as_secs()),
        (None, _) => String::new(),
    };
    store.put_blocking(path, vec![Bytes::from(text)])
}

/// When the store got the object.
fn seen(store: &Store, path: &str) -> Result<Utc, StoreError> {
    let listed = store.list_blocking(FOLDER, 16)?.into_iter().find(|listed| listed.path == path);
    listed.map(|listed| listed.modified).ok_or_else(|| {
        let words =
            format!("the store does not list {path}, which it has just got: what time it has is not known");
        StoreError::new(StoreErrorKind::Other, words)
    })
}
