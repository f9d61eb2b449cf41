use super::super::super::CacheStatus;
use super::super::super::testing::{bytes, freshness, text};
use super::super::testing::{Bench, pattern, tagged};
use super::*;
use glassline_delivery::fill::disk::BLOCK_BYTES;
use glassline_delivery::fill::{Bytes, Head, Object};
use glassline_media::Utc;
use std::time::Duration;

const HOUR: u64 = 3600;
const READER: super::super::super::Reader = super::super::super::Reader { thread: 0, token: 0 };

/// A disk with its reads.
fn reads(bench: &Bench) -> Reads {
    Reads::new(Arc::clone(&bench.cache), Arc::clone(&bench.mailbox))
}

/// An object is asked of the disk, which begins to read it.
fn ask(bench: &mut Bench, reads: &mut Reads, target: &str) -> Reader {
    let (job, reading) = bench.job(target);
    let found = bench.disk.read(job, bench.clock.utc(), bench.clock.now()).expect("it is in the index");
    let task = lock(&bench.disk.tasks).reads.pop_front();
    let Some(super::super::Task::Read { name, claim, .. }) = task else { panic!("a read") };
    reads.begin(name, found, claim, &mut bench.directory);
    reading
}

/// Reads until nothing is left to be read, or all that is left is ahead of its readers.
fn read_all(bench: &mut Bench, reads: &mut Reads) {
    while reads.is_busy() {
        reads.read_next(&mut bench.directory);
    }
}

#[test]
fn a_fresh_object_is_read_into_what_its_reader_reads_and_kept_in_memory() {
    let mut bench = Bench::new(4 << 20);
    bench.write("/a", tagged(pattern(2 * BLOCK_BYTES + 7)), freshness(HOUR, 0, 0));
    let mut reads = reads(&bench);
    assert_eq!(reads.room(), READING_MAX);
    let reading = ask(&mut bench, &mut reads, "/a");
    assert_eq!((reads.room(), reads.is_empty()), (READING_MAX - 1, false));
    for blocks in 1..=2 {
        reads.read_next(&mut bench.directory);
        assert_eq!(reading.look(Object::filled), (blocks * BLOCK_BYTES) as u64);
        assert_eq!(reading.look(|object| object.progress().total), Some((2 * BLOCK_BYTES + 7) as u64));
    }
    reads.read_next(&mut bench.directory);
    assert_eq!(reading.look(bytes), pattern(2 * BLOCK_BYTES + 7));
    let head = reading.look(|object| object.progress()).head.unwrap();
    assert_eq!(*head, Head::new("video/mp4").with("ETag", "\"1\""));
    assert!(reads.is_empty() && !bench.disk.is_awaited() && bench.fetched().is_empty());
    assert_eq!(
        (bench.disk.figures().read, bench.cache.find("/a", bench.clock.now()).1),
        (1, CacheStatus::Hit)
    );
}

#[test]
fn an_object_without_bytes_is_whole_with_its_head() {
    let mut bench = Bench::new(1 << 20);
    bench.write("/a", tagged(Vec::new()), freshness(HOUR, 0, 0));
    let mut reads = reads(&bench);
    let reading = ask(&mut bench, &mut reads, "/a");
    read_all(&mut bench, &mut reads);
    assert!(reading.look(|object| object.progress().is_whole));
}

#[test]
fn an_object_was_sent_when_it_came_however_long_it_lay_on_the_disk() {
    let mut bench = Bench::new(1 << 20);
    let came = Utc::from_nanos(bench.clock.utc().as_nanos() - 500_000_000_000);
    let writing = bench.begin("/a", tagged(b"hello".to_vec()), freshness(HOUR, 0, 0), came).unwrap();
    assert!(writing.go_on(&mut bench.directory).is_none());
    let mut reads = reads(&bench);
    let before = bench.clock.now();
    let reading = ask(&mut bench, &mut reads, "/a");
    read_all(&mut bench, &mut reads);
    // On a machine that runs for less than that, the clock had not begun.
    let sent = reading.look(|object| object.progress().sent).unwrap();
    let lay = Duration::from_secs(500);
    assert!(sent == Time::ZERO || bench.clock.now().since(sent) >= lay, "{sent:?}");
    assert!(sent <= bench.clock.now() && sent < before, "{sent:?}");
}

#[test]
fn several_objects_are_read_block_by_block_in_turn() {
    let mut bench = Bench::new(4 << 20);
    for target in ["/a", "/b"] {
        bench.write(target, tagged(pattern(3 * BLOCK_BYTES)), freshness(HOUR, 0, 0));
    }
    let mut reads = reads(&bench);
    let readings = ["/a", "/b"].map(|target| ask(&mut bench, &mut reads, target));
    let mut seen = Vec::new();
    for _ in 0..4 {
        reads.read_next(&mut bench.directory);
        seen.push(readings.each_ref().map(|it| it.look(Object::filled) / BLOCK_BYTES as u64));
    }
    assert_eq!(seen, [[1, 0], [1, 1], [2, 1], [2, 2]]);
}

#[test]
fn a_block_that_is_damaged_is_not_handed_on_and_the_rest_is_fetched() {
    let mut bench = Bench::new(4 << 20);
    bench.write("/a", tagged(pattern(3 * BLOCK_BYTES)), freshness(HOUR, 0, 0));
    bench.spoil("/a", |file| *file.last_mut().unwrap() ^= 1);
    let mut reads = reads(&bench);
    let reading = ask(&mut bench, &mut reads, "/a");
    read_all(&mut bench, &mut reads);
    assert_eq!(reading.look(bytes), pattern(3 * BLOCK_BYTES)[..2 * BLOCK_BYTES]);
    assert!(!reading.look(Object::is_over));
    let jobs = bench.fetched();
    let begun = jobs[0].begun.as_ref().unwrap();
    let expected = ("\"1\"", 2 * BLOCK_BYTES as u64, 3 * BLOCK_BYTES as u64);
    assert_eq!((begun.etag.as_str(), begun.filled, begun.total), expected);
    let figures = bench.disk.figures();
    assert_eq!((figures.damaged, figures.objects, bench.path("/a").exists()), (1, 0, false));
}

#[test]
fn what_has_begun_and_can_be_continued_by_no_server_fails() {
    let mut bench = Bench::new(4 << 20);
    let head = Head::new("video/mp4").with("ETag", "W/\"weak\"");
    let object = Object::whole(head, Bytes::from(pattern(2 * BLOCK_BYTES)));
    bench.write("/a", object, freshness(HOUR, 0, 0));
    bench.spoil("/a", |file| *file.last_mut().unwrap() ^= 1);
    let mut reads = reads(&bench);
    let reading = ask(&mut bench, &mut reads, "/a");
    read_all(&mut bench, &mut reads);
    assert_eq!(reading.look(Object::failure), Some(Failure::Malformed));
    assert!(bench.fetched().is_empty());
    assert_eq!(bench.cache.find("/a", bench.clock.now()).1, CacheStatus::Miss, "the next request tries anew");
}

/// Every way in which a file can be spoiled before its first block is given.
#[test]
fn a_file_that_is_no_whole_one_of_this_version_is_dropped_and_its_object_fetched() {
    type Spoil = fn(&mut Vec<u8>);
    let spoils: [(&str, Spoil); 8] = [
        ("empty", |file| file.clear()),
        ("cut in its head", |file| file.truncate(40)),
        ("cut in its block", |file| file.truncate(file.len() - 1)),
        ("longer", |file| file.push(0)),
        ("of another version", |file| file[7] = 2),
        ("of something else", |file| file[0] = b'X'),
        ("with another key", |file| file[60] ^= 1),
        ("with another first block", |file| *file.last_mut().unwrap() ^= 1),
    ];
    for (what, spoil) in spoils {
        let mut bench = Bench::new(1 << 20);
        bench.write("/a", tagged(b"hello".to_vec()), freshness(HOUR, 0, 0));
        bench.spoil("/a", spoil);
        let mut reads = reads(&bench);
        let reading = ask(&mut bench, &mut reads, "/a");
        read_all(&mut bench, &mut reads);
        let jobs = bench.fetched();
        assert!(jobs.len() == 1 && jobs[0].begun.is_none(), "{what}");
        assert_eq!(reading.look(|object| (object.filled(), object.is_over())), (0, false), "{what}");
        assert_eq!((bench.disk.figures().damaged, bench.files().len()), (1, 0), "{what}");
    }
}

#[test]
fn a_file_that_another_process_has_removed_is_no_damage() {
    let mut bench = Bench::new(1 << 20);
    bench.write("/a", tagged(b"hello".to_vec()), freshness(HOUR, 0, 0));
    std::fs::remove_file(bench.path("/a")).unwrap();
    let mut reads = reads(&bench);
    let _reading = ask(&mut bench, &mut reads, "/a");
    assert_eq!(bench.fetched().len(), 1);
    let figures = bench.disk.figures();
    assert_eq!((figures.damaged, figures.errors, figures.objects), (0, 0, 0));
}

#[test]
fn a_file_of_another_key_is_not_given_and_stays() {
    let mut bench = Bench::new(1 << 20);
    bench.write("/other", tagged(b"other".to_vec()), freshness(HOUR, 0, 0));
    bench.write("/a", tagged(b"hello".to_vec()), freshness(HOUR, 0, 0));
    std::fs::copy(bench.path("/other"), bench.path("/a")).unwrap();
    let mut reads = reads(&bench);
    let _reading = ask(&mut bench, &mut reads, "/a");
    assert!(reads.is_empty() && bench.path("/a").exists());
    assert_eq!((bench.fetched().len(), bench.disk.figures().damaged), (1, 0));
}

#[test]
fn an_old_object_is_read_as_a_whole_and_then_asked_about() {
    let mut bench = Bench::new(1 << 20);
    let came = Utc::from_nanos(bench.clock.utc().as_nanos() - 10_000_000_000);
    let writing = bench.begin("/a", tagged(b"hello".to_vec()), freshness(5, 0, HOUR), came).unwrap();
    assert!(writing.go_on(&mut bench.directory).is_none());
    let mut reads = reads(&bench);
    let reading = ask(&mut bench, &mut reads, "/a");
    read_all(&mut bench, &mut reads);
    assert_eq!(reading.look(Object::filled), 0, "its reader gets what the server says");
    let jobs = bench.fetched();
    assert_eq!(text(jobs[0].old.as_ref().unwrap()), "hello");
    let left = jobs[0].old_until.since(bench.clock.now());
    assert!(left <= Duration::from_secs(HOUR - 5) && left > Duration::from_secs(HOUR - 5 - 600), "{left:?}");
}

#[test]
fn what_a_fetch_has_taken_over_is_read_no_further() {
    let mut bench = Bench::new(4 << 20);
    bench.write("/a", tagged(pattern(2 * BLOCK_BYTES)), freshness(HOUR, 0, 0));
    let mut reads = reads(&bench);
    let reading = ask(&mut bench, &mut reads, "/a");
    let late = bench.clock.now() + bench.disk.settings.timeout;
    assert_eq!(bench.disk.take_overdue(late).len(), 1);
    read_all(&mut bench, &mut reads);
    assert_eq!((reading.look(Object::filled), bench.fetched().len()), (0, 0));
    assert_eq!((bench.disk.figures().late, bench.path("/a").exists()), (1, true));
}

#[test]
fn what_no_reader_waits_for_is_read_no_further_and_fails() {
    let mut bench = Bench::new(4 << 20);
    bench.write("/a", tagged(pattern(2 * BLOCK_BYTES)), freshness(HOUR, 0, 0));
    let mut reads = reads(&bench);
    let reading = ask(&mut bench, &mut reads, "/a");
    reads.read_next(&mut bench.directory);
    let growing = Arc::clone(&reading);
    drop(reading);
    read_all(&mut bench, &mut reads);
    assert!(reads.is_empty() && !bench.disk.is_awaited());
    assert_eq!(growing.look(Object::filled), BLOCK_BYTES as u64);
    assert!(growing.look(Object::failure).is_some(), "a reader that comes by another way does not wait");
    assert_eq!(bench.fetched().len(), 0);
}

#[test]
fn an_object_that_is_ahead_of_its_reader_rests_until_that_goes_on() {
    let mut bench = Bench::new(32 << 20);
    // An eighth of the memory, and a block.
    let ahead = (8 << 20) + BLOCK_BYTES;
    bench.write("/a", tagged(pattern(ahead + BLOCK_BYTES)), freshness(HOUR, 0, 0));
    let mut reads = reads(&bench);
    let reading = ask(&mut bench, &mut reads, "/a");
    read_all(&mut bench, &mut reads);
    let filled = reading.look(Object::filled);
    assert!((filled as usize) < ahead && !reads.is_empty() && !reads.is_busy());
    assert_eq!(
        bench.disk.take_overdue(bench.clock.now() + bench.disk.settings.timeout * 2).len(),
        0,
        "the disk is not late"
    );
    assert!(reads.take_resting() && !reads.take_resting());
    reading.look_or_wait(READER, (filled, filled), |_| Some(()));
    read_all(&mut bench, &mut reads);
    assert!(reading.look(|object| object.progress().is_whole) && reads.is_empty());
}

#[test]
fn what_is_asked_for_when_the_thread_ends_fails() {
    let mut bench = Bench::new(4 << 20);
    bench.write("/a", tagged(pattern(2 * BLOCK_BYTES)), freshness(HOUR, 0, 0));
    let mut reads = reads(&bench);
    let reading = ask(&mut bench, &mut reads, "/a");
    reads.read_next(&mut bench.directory);
    reads.fail_all(&bench.directory);
    assert_eq!(reading.look(Object::failure), Some(Failure::Upstream));
    assert!(!bench.disk.is_awaited());
}

#[test]
fn a_head_that_is_longer_than_nearly_all_is_read_too() {
    for length in [3900, 4096, 60_000] {
        let mut bench = Bench::new(1 << 20);
        let head = Head::new("video/mp4").with("Content-Disposition", &"x".repeat(length));
        let object = Object::whole(head.clone(), Bytes::from_static(b"hello"));
        bench.write("/a", object, freshness(HOUR, 0, 0));
        let mut reads = reads(&bench);
        let reading = ask(&mut bench, &mut reads, "/a");
        read_all(&mut bench, &mut reads);
        assert_eq!(text(&reading), "hello", "{length}");
        assert_eq!(reading.look(|object| object.progress()).head.as_deref(), Some(&head), "{length}");
    }
}

#[test]
fn a_file_that_says_of_itself_that_its_head_is_longer_than_it_is_is_damaged() {
    let mut bench = Bench::new(1 << 20);
    bench.write("/a", tagged(b"hello".to_vec()), freshness(HOUR, 0, 0));
    // The lengths of key and head fit together, and not to the file.
    bench.spoil("/a", |file| {
        for at in [8, 52] {
            let length = u32::from_be_bytes(file[at..at + 4].try_into().unwrap()) + 30_000;
            file[at..at + 4].copy_from_slice(&length.to_be_bytes());
        }
    });
    let mut reads = reads(&bench);
    let _reading = ask(&mut bench, &mut reads, "/a");
    assert_eq!((bench.fetched().len(), bench.disk.figures().damaged, bench.files().len()), (1, 1, 0));
}

#[test]
fn something_else_in_a_files_place_is_an_error_and_not_read() {
    let mut bench = Bench::new(1 << 20);
    bench.write("/a", tagged(b"hello".to_vec()), freshness(HOUR, 0, 0));
    let path = bench.path("/a");
    let elsewhere = bench.directory.path().join("elsewhere");
    std::fs::rename(&path, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    let mut reads = reads(&bench);
    let _reading = ask(&mut bench, &mut reads, "/a");
    let figures = bench.disk.figures();
    assert_eq!((bench.fetched().len(), figures.errors, figures.damaged, figures.objects), (1, 1, 0, 0));
    assert!(elsewhere.exists() && !path.is_symlink(), "the link alone is removed");
}
