//! How long requests for objects waited for their first byte, by name. Each worker writes into a table of its own, and
//! a report adds these up.

use glassline_delivery::telemetry::first_bytes::{Begun, FirstBytes, LAST_MINUTE, SOURCES, Summary};
use glassline_edge::ObjectSource;
use glassline_media::Time;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const _: () = assert!(ObjectSource::ALL.len() <= SOURCES, "each source has its place");

/// The table of one worker. Another thread takes its lock only for the moments in which a report reads one name. Tables
/// share no cache lines, which workers would otherwise take from each other.
#[derive(Debug)]
#[repr(align(128))]
struct Room(Mutex<FirstBytes>);

/// What all workers have seen.
#[derive(Debug)]
pub(super) struct FirstByteRooms(Vec<Room>);

/// The names that were asked for, those with the most requests of the last minute first.
#[derive(Clone, Debug, Default)]
pub struct FirstByteReport {
    /// How many names there are, listed or not.
    pub names: usize,
    /// The listed ones.
    pub list: Vec<(String, Summary)>,
}

impl FirstByteRooms {
    pub(super) fn new(workers: usize) -> FirstByteRooms {
        FirstByteRooms((0..workers).map(|_| Room(Mutex::default())).collect())
    }

    /// Notes that the first byte of an answer of `worker` took `wait` to come.
    pub(super) fn record(&self, worker: usize, begun: &Begun<'_>, wait: Duration, now: Time) {
        if let Some(room) = self.0.get(worker) {
            lock(room).record(begun, wait, now);
        }
    }

    /// At most `limit` names, or `name` alone. Each lock is held for one name at a time: no worker waits for long.
    pub(super) fn report(&self, name: Option<&str>, limit: usize, now: Time) -> FirstByteReport {
        let mut requests: BTreeMap<String, u64> = BTreeMap::new();
        for room in &self.0 {
            for (known, count) in lock(room).names(now, LAST_MINUTE) {
                match requests.get_mut(known) {
                    Some(sum) => *sum += count,
                    None => drop(requests.insert(known.to_owned(), count)),
                }
            }
        }
        let names = requests.len();
        let mut wanted: Vec<(String, u64)> =
            requests.into_iter().filter(|(known, _)| name.is_none_or(|name| name == known)).collect();
        wanted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        wanted.truncate(limit);
        let list = wanted.into_iter().map(|(known, _)| {
            let mut summary = Summary::new(now);
            self.0.iter().for_each(|room| lock(room).add_to(&known, &mut summary));
            (known, summary)
        });
        FirstByteReport { names, list: list.collect() }
    }
}

fn lock(room: &Room) -> MutexGuard<'_, FirstBytes> {
    room.0.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_workers_saw_is_told_together_and_the_busiest_name_first() {
        let (rooms, now) = (FirstByteRooms::new(2), Time::from_millis(5000));
        let ask = |worker, path| {
            let begun = Begun {
                path,
                query: "",
                source: 0,
                is_made_here: false,
                was_waited_for: false,
                is_refusal: false,
            };
            rooms.record(worker, &begun, Duration::from_millis(7), now);
        };
        for (worker, path) in
            [(0, "/live/a/1.m4s"), (0, "/live/b/1.m4s"), (1, "/live/b/2.m4s"), (9, "/live/c/1.m4s")]
        {
            ask(worker, path);
        }
        let report = rooms.report(None, 10, now);
        let counts: Vec<_> =
            report.list.iter().map(|(name, summary)| (&**name, summary.newest(1).requests())).collect();
        assert_eq!((report.names, counts), (2, vec![("b", 2), ("a", 1)]));
        assert_eq!(rooms.report(None, 1, now).list.len(), 1);
        assert_eq!(rooms.report(Some("a"), 10, now).list[0].0, "a");
        assert!(rooms.report(Some("c"), 10, now).list.is_empty());
    }

    fn begun(path: &str, is_refusal: bool) -> Begun<'_> {
        Begun { path, query: "", source: 0, is_made_here: false, was_waited_for: false, is_refusal }
    }

    #[test]
    fn a_report_names_no_more_than_it_may_and_counts_all() {
        let (rooms, now) = (FirstByteRooms::new(3), Time::from_millis(5000));
        for name in 0..20 {
            for worker in 0..=name % 3 {
                rooms.record(worker, &begun(&format!("/live/n{name}/1.m4s"), false), Duration::ZERO, now);
            }
        }
        let report = rooms.report(None, 7, now);
        assert_eq!((report.names, report.list.len()), (20, 7));
        // Those that all three workers saw come first.
        let counts: Vec<_> = report.list.iter().map(|(_, summary)| summary.newest(1).requests()).collect();
        assert_eq!(counts, [3, 3, 3, 3, 3, 3, 2]);
        assert_eq!(rooms.report(None, 0, now).names, 20);
    }

    #[test]
    fn what_was_asked_for_long_ago_no_longer_counts_among_the_busiest() {
        let (rooms, early) = (FirstByteRooms::new(1), Time::from_millis(5000));
        for _ in 0..9 {
            rooms.record(0, &begun("/live/old/1.m4s", false), Duration::ZERO, early);
        }
        let late = early + Duration::from_secs(120);
        rooms.record(0, &begun("/live/new/1.m4s", false), Duration::ZERO, late);
        let names: Vec<_> = rooms.report(None, 9, late).list.into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["new", "old"]);
    }

    #[test]
    fn a_worker_without_a_room_records_nothing() {
        let rooms = FirstByteRooms::new(0);
        rooms.record(0, &begun("/live/a/1.m4s", false), Duration::ZERO, Time::ZERO);
        assert_eq!(rooms.report(None, 9, Time::ZERO).names, 0);
    }
}
