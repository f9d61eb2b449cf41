//! By which time the age of recordings is judged: the store's own, as long as that may be believed.
//!
//! An object is written for it, `.glassline/clock`: the store says when it got that, and it holds the time that was believed last, for
//! the next start.

use super::Worker;
use crate::store::{Store, StoreError};
use bytes::Bytes;
use glassline_delivery::archive::retention::{Rules, removals};
use glassline_delivery::archive::store_clock::{Belief, StoreClock};
use glassline_delivery::packager::later;
use glassline_delivery::playlist::{date_time, parse_date_time};
use glassline_media::{Time, Utc};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The folder of the object: no stream has such a name.
const FOLDER: &str = ".glassline";
/// How often the store's clock is looked at where nothing is old enough to go: what was believed last is known so far.
const LOOK_EVERY: Duration = Duration::from_secs(3600);

/// What is known of the clock of a store.
pub(super) struct Believed {
    clock: StoreClock,
    /// The time that was believed last.
    last: Option<Utc>,
    /// What the store's clock said when it was believed, since the start, and when that was.
    since_start: Option<(Utc, Time)>,
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
            || self.is_held.load(Ordering::Relaxed)
            || self.has_old(rules, self.store_utc());
        if is_due {
            self.look_at_clock(store)?;
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

    fn has_old(&self, rules: &Rules, now: Utc) -> bool {
        !removals(&self.kept(now), rules, now).is_empty()
    }

    fn look_at_clock(&mut self, store: &Store) -> Result<(), StoreError> {
        let path = format!("{FOLDER}/clock");
        let mut believed = match self.believed.take() {
            Some(believed) => believed,
            None => self.begin_belief(store, &path)?,
        };
        let write = |at: Option<Utc>| {
            let text = at.map_or_else(String::new, |at| date_time(at) + "\n");
            store.put_blocking(&path, vec![Bytes::from(text)])
        };
        let told = write(believed.last).and_then(|()| store.list_blocking(FOLDER, 16));
        let at = match told {
            Ok(listed) => listed.into_iter().find(|listed| listed.path == path).map(|it| it.modified),
            Err(error) => {
                self.believed = Some(believed);
                return Err(error);
            }
        };
        let now = self.clock.now();
        // A store that does not list what it has just got is no judge of times; the next look asks it again.
        let belief = at.map(|at| (at, believed.clock.look(at, now)));
        let mut written = Ok(());
        match belief {
            Some((at, Belief::Believed)) => {
                if self.is_held.swap(false, Ordering::Relaxed) {
                    tracing::info!("the clock of the store is believed: what is old is deleted again");
                }
                (believed.last, believed.since_start) = (Some(at), Some((at, now)));
                written = write(Some(at));
            }
            Some((at, Belief::Held { ahead, left })) if !self.is_held.swap(true, Ordering::Relaxed) => {
                tracing::warn!(
                    clock = date_time(at),
                    ahead_secs = ahead.as_secs(),
                    believed_in_secs = left.as_secs(),
                    "the clock of the store has jumped ahead: nothing is deleted for its age until it is put right, or has stayed so"
                );
            }
            _ => {}
        }
        believed.looked_at = now;
        self.believed = Some(believed);
        written
    }

    /// What was believed before the start: what the object holds, or when the store got the newest part of an index.
    fn begin_belief(&self, store: &Store, path: &str) -> Result<Believed, StoreError> {
        use crate::store::StoreErrorKind::NotFound;
        let text = match store.get_blocking(path, None) {
            Err(error) if error.kind() == NotFound => Bytes::new(),
            text => text?,
        };
        let held = std::str::from_utf8(&text).ok().and_then(|text| parse_date_time(text.trim()));
        let at = held.or_else(|| self.newest_written());
        let now = self.clock.now();
        Ok(Believed { clock: StoreClock::restarted(at, now), last: at, since_start: None, looked_at: now })
    }
}
