//! The disk as it decides what its thread does, without that thread.

use super::claims::Claim;
use super::purging::Purging;
use super::testing::{Bench, pattern, tagged};
use super::*;
use crate::cache::Begun;
use crate::testing::{at, cache, freshness, job, plain};
use crate::{Growing, Reading};
use glassline_delivery::fill::{Bytes, Failure, Head, Object, Route};

const HOUR: u64 = 3600;

/// A job the object of which is whole.
fn whole(bench: &Bench, target: &str, object: Object) -> Job {
    let growing = bench.cache.fresh();
    growing.change(|it| *it = object);
    job(&bench.cache, target, &growing)
}

fn offer(bench: &Bench, job: &Job, seconds: u64) {
    bench.disk.offer(job, freshness(seconds, 0, 0), bench.clock.utc(), bench.clock.now());
}

/// What waits to be done with files.
fn waits(bench: &Bench) -> Vec<String> {
    let tasks = lock(&bench.disk.tasks);
    let told = tasks.writes.iter().map(|task| match task {
        Task::Write { key, .. } => {
            format!("write {}", key.strip_prefix("http://origin.example/base").unwrap())
        }
        Task::Remove(_) => "remove".to_owned(),
        Task::Read { .. } => "read".to_owned(),
    });
    told.collect()
}

fn purge(path: &str) -> Purge {
    Purge::new(std::iter::empty(), path, false).unwrap()
}

#[test]
fn what_lasts_is_written_and_what_is_old_before_long_is_not() {
    let bench = Bench::new(1 << 20);
    let object = || tagged(b"hello".to_vec());
    offer(&bench, &whole(&bench, "/lasts", object()), 30);
    offer(&bench, &whole(&bench, "/short", object()), 29);
    let missing = Object::whole(Head::of_status(404), Bytes::from_static(b"none"));
    offer(&bench, &whole(&bench, "/missing", missing), HOUR);
    assert_eq!(waits(&bench), ["write /lasts"]);
    assert_eq!((lock(&bench.disk.tasks).unwritten_bytes, bench.disk.figures().skipped), (5, 0));
}

#[test]
fn a_file_is_removed_when_its_object_was_answered_anew_with_less() {
    let mut bench = Bench::new(1 << 20);
    bench.write("/a", tagged(b"hello".to_vec()), freshness(HOUR, 0, 0));
    offer(&bench, &whole(&bench, "/a", tagged(b"other".to_vec())), 1);
    assert_eq!(waits(&bench), ["remove"]);
}

#[test]
fn an_object_that_was_purged_or_is_gone_in_part_is_not_written() {
    let bench = Bench::new(1 << 20);
    let job = whole(&bench, "/a", tagged(b"hello".to_vec()));
    job.growing.slide();
    offer(&bench, &job, HOUR);
    assert!(waits(&bench).is_empty());
}

#[test]
fn what_waits_to_be_written_has_a_bound() {
    let (bench, piece) = (Bench::new(1 << 30), Bytes::from(vec![0; 16 << 20]));
    assert_eq!(bench.disk.unwritten_bytes_max, 64 << 20, "no more than the memory");
    let object = Object::whole(plain(), piece);
    for number in 0..6 {
        offer(&bench, &whole(&bench, &format!("/{number}"), object.clone()), HOUR);
    }
    assert_eq!((waits(&bench).len(), bench.disk.figures().skipped), (4, 2));
}

#[test]
fn a_disk_that_hangs_is_asked_for_nothing_and_given_nothing() {
    let mut bench = Bench::new(1 << 20);
    bench.write("/a", tagged(b"hello".to_vec()), freshness(HOUR, 0, 0));
    offer(&bench, &whole(&bench, "/b", tagged(b"hello".to_vec())), HOUR);
    let now = bench.clock.now();
    bench.disk.begin_step(now);
    let late = now + bench.disk.settings.timeout;
    assert!(bench.disk.hangs(late) && !bench.disk.hangs(now));
    let (job, _reading) = bench.job("/a");
    assert!(bench.disk.read(job, bench.clock.utc(), late).is_err());
    let offered = whole(&bench, "/c", tagged(b"hello".to_vec()));
    bench.disk.offer(&offered, freshness(HOUR, 0, 0), bench.clock.utc(), late);
    assert_eq!((waits(&bench), bench.disk.figures().skipped), (vec!["write /b".to_owned()], 1));
    assert!(bench.disk.take_overdue(late).is_empty());
    assert_eq!((waits(&bench), bench.disk.figures().skipped), (vec!["remove".to_owned()], 2));
    assert_eq!(lock(&bench.disk.tasks).unwritten_bytes, 0);
    bench.disk.end_step();
    assert!(!bench.disk.hangs(late));
}

#[test]
fn what_is_not_there_or_of_no_use_comes_back_to_be_fetched() {
    let mut bench = Bench::new(1 << 20);
    let long_ago = Utc::from_nanos(bench.clock.utc().as_nanos() - 100_000_000_000);
    let untagged = Object::whole(plain(), Bytes::from_static(b"hello"));
    let writing = bench.begin("/useless", untagged, freshness(10, 0, 0), long_ago).unwrap();
    assert!(writing.go_on(&mut bench.directory).is_none());
    for target in ["/none", "/useless"] {
        let (job, _reading) = bench.job(target);
        let back = bench.disk.read(job, bench.clock.utc(), bench.clock.now()).unwrap_err();
        assert_eq!(back.target, target);
    }
    assert!(!bench.disk.is_awaited());
}

#[test]
fn so_many_reads_wait_and_further_ones_are_fetched() {
    let mut bench = Bench::new(1 << 20);
    bench.write("/a", tagged(b"hello".to_vec()), freshness(HOUR, 0, 0));
    let (job, _reading) = bench.job("/a");
    let read = |job| bench.disk.read(job, bench.clock.utc(), bench.clock.now());
    for _ in 0..READS_MAX {
        assert_eq!(read(job.clone()).ok(), Some(Found::Fresh));
    }
    assert!(read(job.clone()).is_err());
    lock(&bench.disk.tasks).reads.clear();
    bench.disk.end();
    assert!(read(job).is_err(), "it ends");
}

#[test]
fn a_purge_takes_back_what_waits_and_hides_what_lies_there_until_that_was_looked_at() {
    let mut bench = Bench::new(1 << 20);
    for target in ["/a", "/a?x=1", "/b"] {
        bench.write(target, tagged(b"hello".to_vec()), freshness(HOUR, 0, 0));
        offer(&bench, &whole(&bench, target, tagged(b"newer".to_vec())), HOUR);
    }
    bench.disk.purge(purge("/a"));
    assert_eq!((waits(&bench), lock(&bench.disk.tasks).unwritten_bytes), (vec!["write /b".to_owned()], 5));
    let is_found = |bench: &Bench, target| {
        let (job, _reading) = bench.job(target);
        bench.disk.read(job, bench.clock.utc(), bench.clock.now()).is_ok()
    };
    assert_eq!(["/a", "/a?x=1", "/b"].map(|it| is_found(&bench, it)), [false, false, true]);
    let mut purging = Some(Purging::begin(&mut None, &mut bench.directory));
    while let Some(at_work) = purging {
        purging = at_work.go_on(&mut bench.directory);
    }
    assert_eq!(bench.files(), [format!("{}.obj", bench.name("/b"))]);
    assert!(lock(&bench.disk.purges).is_empty() && bench.disk.figures().objects == 1);
}

#[test]
fn a_purge_looks_at_a_few_files_in_each_turn_and_drops_those_it_cannot_read() {
    let mut bench = Bench::new(16 << 20);
    for number in 0..40 {
        bench.write(&format!("/{number}"), tagged(b"x".to_vec()), freshness(HOUR, 0, 0));
    }
    bench.spoil("/7", |file| file.truncate(10));
    bench.disk.purge(purge("/nothing"));
    let mut turns = 0;
    let mut purging = Some(Purging::begin(&mut None, &mut bench.directory));
    while let Some(at_work) = purging {
        assert_eq!(lock(&bench.disk.purges).len(), 1, "it stands until all were looked at");
        purging = at_work.go_on(&mut bench.directory);
        turns += 1;
    }
    assert_eq!((turns, bench.disk.figures().objects, bench.disk.figures().damaged), (3, 39, 1));
}

#[test]
fn what_is_being_written_when_its_purge_begins_is_dropped_with_its_earlier_file() {
    let mut bench = Bench::new(4 << 20);
    bench.write("/a", tagged(b"before".to_vec()), freshness(HOUR, 0, 0));
    let came = bench.clock.utc();
    let mut writing = bench.begin("/a", tagged(pattern(1000)), freshness(HOUR, 0, 0), came);
    let mut other = bench.begin("/b", tagged(pattern(1000)), freshness(HOUR, 0, 0), came);
    bench.disk.purge(purge("/a"));
    drop(Purging::begin(&mut other, &mut bench.directory));
    drop(Purging::begin(&mut writing, &mut bench.directory));
    assert!(writing.is_none() && other.is_some());
    assert!(!bench.path("/a").exists() && bench.files().len() == 1);
}

#[test]
fn equal_purges_that_wait_are_one_and_of_too_many_all_files_go() {
    let bench = Bench::new(1 << 20);
    for _ in 0..3 {
        bench.disk.purge(purge("/a"));
    }
    assert_eq!(lock(&bench.disk.purges).len(), 1);
    for number in 1..PURGES_MAX {
        bench.disk.purge(purge(&format!("/{number}")));
    }
    assert_eq!(lock(&bench.disk.purges).len(), PURGES_MAX);
    assert!(!bench.disk.is_purged(&bench.key("/other")));
    bench.disk.purge(purge("/one-more"));
    assert_eq!(lock(&bench.disk.purges).len(), 1);
    assert!(bench.disk.is_purged(&bench.key("/other")));
}

#[test]
fn a_purge_is_about_an_object_by_the_route_and_the_host_that_it_was_asked_by() {
    let rule = Route::new(None, Some("/vod/"), Some("/vod"), true).unwrap();
    let servers = |url: &str| vec![url.parse::<Url>().unwrap()];
    let groups = [servers("https://o.example/base/"), servers("http://v.example:81"), Vec::new()];
    let settings = DiskSettings { directory: "/nowhere".into(), bytes: 1, timeout: Duration::from_secs(1) };
    let disk = Disk::new(settings, 1, groups.iter().map(Vec::as_slice));
    assert_eq!(disk.origins, ["https://o.example/base", "http://v.example:81", ""]);
    let (cache, _) = cache(1 << 20);
    let growing: Arc<Growing> = cache.fresh();
    let mut job = job(&cache, "/a?x=1", &growing);
    assert_eq!(disk.key(&job), "https://o.example/base/a?x=1");
    (job.group, job.host) = (1, Some("b.example".to_owned()));
    let routed = disk.key(&job);
    assert_eq!(routed, "http://v.example:81 b.example /a?x=1");
    let purge = |path| Purge::new([&rule].into_iter(), path, false).unwrap();
    assert!(disk.is_meant(&purge("/vod/a"), &routed) && !disk.is_meant(&purge("/a"), &routed));
    assert!(disk.is_meant(&purge("/a"), "https://o.example/base/a"));
    assert!(!disk.is_meant(&purge("/a"), "https://other.example/a"));
    drop(job);
}

#[test]
fn a_claim_goes_to_the_fetch_with_what_a_server_can_continue() {
    let bench = Bench::new(1 << 20);
    let claim = |begun: Option<&str>| {
        let (job, _reading): (Job, Reading) = bench.job("/a");
        let begun = begun.map(|etag| Begun {
            etag: etag.to_owned(),
            filled: 5,
            total: 9,
            freshness: freshness(1, 0, 0),
        });
        Claim { job: Box::new(job), since: at(0), is_resting: false, begun }.into_fetch()
    };
    assert!(claim(None).is_ok_and(|job| job.begun.is_none()));
    assert!(claim(Some("\"1\"")).is_ok_and(|job| job.begun.is_some_and(|begun| begun.filled == 5)));
    assert!(claim(Some("W/\"1\"")).is_err() && claim(Some("")).is_err());
}

#[test]
fn what_the_disk_does_not_give_in_time_is_taken_from_it() {
    let mut bench = Bench::new(1 << 20);
    for target in ["/a", "/b"] {
        bench.write(target, tagged(b"hello".to_vec()), freshness(HOUR, 0, 0));
    }
    let now = bench.clock.now();
    let timeout = bench.disk.settings.timeout;
    let readings = [("/a", now), ("/b", now + timeout / 2)].map(|(target, since)| {
        let (job, reading) = bench.job(target);
        bench.disk.read(job, bench.clock.utc(), since).unwrap();
        reading
    });
    let targets = |later: Duration| -> Vec<String> {
        let overdue = bench.disk.take_overdue(now + later);
        overdue.into_iter().map(|job| job.unwrap().target.clone()).collect()
    };
    assert!(targets(timeout - Duration::from_nanos(1)).is_empty());
    assert_eq!(targets(timeout), ["/a"]);
    assert!(bench.disk.is_awaited());
    // The job that was taken has gone without an end, as by a panic: its object fails.
    assert_eq!(readings[0].look(Object::failure), Some(Failure::Fault));
    assert_eq!((targets(timeout * 2), bench.disk.figures().late), (vec!["/b".to_owned()], 2));
    assert!(!bench.disk.is_awaited());
}
