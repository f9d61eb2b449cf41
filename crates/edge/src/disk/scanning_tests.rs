use super::super::super::testing::freshness;
use super::super::testing::{Bench, pattern, tagged};
use super::*;
use glassline_delivery::fill::{Head, Object};
use glassline_media::Utc;

const HOUR: u64 = 3600;

/// Another run of the server finds its files, of which it may keep so many bytes.
fn restart(bench: &mut Bench, bytes: u64) {
    bench.restart(bytes);
    let mut scan = bench.directory.open().map(Scan::new);
    while let Some(at_work) = scan {
        scan = at_work.go_on(&mut bench.directory);
    }
}

fn set_used(bench: &Bench, target: &str, seconds_ago: u64) {
    let file = fs::File::options().write(true).open(bench.path(target)).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(seconds_ago)).unwrap();
}

#[test]
fn files_of_an_earlier_run_are_found_with_what_they_are_worth() {
    let mut bench = Bench::new(1 << 20);
    bench.write("/a", tagged(b"hello".to_vec()), freshness(HOUR, 0, 0));
    let bytes = bench.disk.figures().bytes;
    restart(&mut bench, 1 << 20);
    let figures = bench.disk.figures();
    assert_eq!((figures.objects, figures.bytes, figures.written), (1, bytes, 0));
    let found = lock(&bench.disk.index).find(bench.name("/a"), bench.clock.utc());
    assert_eq!(found, Some(glassline_delivery::fill::disk::Found::Fresh));
}

#[test]
fn many_files_are_looked_at_over_several_turns() {
    let mut bench = Bench::new(16 << 20);
    for number in 0..2 * LOOKED_AT_A_TURN + 1 {
        bench.write(&format!("/{number}"), tagged(b"x".to_vec()), freshness(HOUR, 0, 0));
    }
    bench.restart(16 << 20);
    let scan = bench.directory.open().map(Scan::new).unwrap();
    let mut counts = Vec::new();
    let mut scan = scan.go_on(&mut bench.directory);
    while let Some(at_work) = scan {
        counts.push(bench.disk.figures().objects);
        scan = at_work.go_on(&mut bench.directory);
    }
    assert_eq!(counts, [0, LOOKED_AT_A_TURN, 2 * LOOKED_AT_A_TURN]);
    assert_eq!(bench.disk.figures().objects, 2 * LOOKED_AT_A_TURN + 1);
}

#[test]
fn what_is_not_ours_is_left_alone() {
    let mut bench = Bench::new(1 << 20);
    let path = bench.directory.path().to_owned();
    for name in ["README", "notes.obj", "0123.obj", &format!("{}.txt", bench.name("/a"))] {
        fs::write(path.join(name), "of the operator").unwrap();
    }
    fs::create_dir(path.join("folder")).unwrap();
    let before = bench.files();
    restart(&mut bench, 1 << 20);
    assert_eq!(bench.files(), before);
    assert_eq!((bench.disk.figures().objects, bench.disk.figures().damaged), (0, 0));
}

#[test]
fn a_file_that_a_process_left_unfinished_goes_when_it_is_a_minute_old() {
    let mut bench = Bench::new(1 << 20);
    let [old, young] = [("/a", 61), ("/b", 0)].map(|(target, age)| {
        let path = bench.directory.path().join(format!("{}.77.tmp", bench.name(target)));
        fs::write(&path, "half").unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        path
    });
    restart(&mut bench, 1 << 20);
    assert_eq!([old.exists(), young.exists()], [false, true], "a server beside may write it");
}

#[test]
fn files_that_are_damaged_or_called_by_another_name_are_dropped() {
    let mut bench = Bench::new(1 << 20);
    for target in ["/good", "/cut", "/spoiled", "/moved"] {
        bench.write(target, tagged(b"hello".to_vec()), freshness(HOUR, 0, 0));
    }
    bench.spoil("/cut", |file| file.truncate(20));
    bench.spoil("/spoiled", |file| file[30] ^= 1);
    fs::rename(bench.path("/moved"), bench.path("/elsewhere")).unwrap();
    restart(&mut bench, 1 << 20);
    assert_eq!(bench.files(), [format!("{}.obj", bench.name("/good"))]);
    assert_eq!((bench.disk.figures().objects, bench.disk.figures().damaged), (1, 3));
}

#[test]
fn what_is_of_no_use_any_more_is_dropped_and_what_can_be_asked_about_is_not() {
    let mut bench = Bench::new(1 << 20);
    let long_ago = Utc::from_nanos(bench.clock.utc().as_nanos() - 100_000_000_000);
    let untagged = Object::whole(Head::new("video/mp4"), b"hello"[..].into());
    for (target, object, worth) in [
        ("/tagged", tagged(b"hello".to_vec()), freshness(10, 0, 0)),
        ("/useless", untagged.clone(), freshness(10, 20, 0)),
        ("/spare", untagged, freshness(10, 0, HOUR)),
    ] {
        let writing = bench.begin(target, object, worth, long_ago).unwrap();
        assert!(writing.go_on(&mut bench.directory).is_none());
    }
    restart(&mut bench, 1 << 20);
    assert_eq!(["/tagged", "/useless", "/spare"].map(|it| bench.path(it).exists()), [true, false, true]);
    assert_eq!((bench.disk.figures().objects, bench.disk.figures().damaged), (2, 0));
}

#[test]
fn where_there_may_be_less_than_before_the_files_used_longest_ago_go() {
    let mut bench = Bench::new(1 << 20);
    for (target, age) in [("/a", 5), ("/b", 30), ("/c", 20), ("/d", 10)] {
        bench.write(target, tagged(pattern(10_000)), freshness(HOUR, 0, 0));
        set_used(&bench, target, age);
    }
    let bytes = bench.disk.figures().bytes;
    // Half of them, and the unit that a further file takes at least.
    restart(&mut bench, bytes / 2 + 4096);
    assert_eq!(["/a", "/b", "/c", "/d"].map(|it| bench.path(it).exists()), [true, false, false, true]);
    assert_eq!((bench.disk.figures().evicted, bench.disk.figures().objects), (2, 2));
}

#[test]
fn a_file_that_was_written_while_they_were_listed_is_not_taken_for_a_former_one() {
    let mut bench = Bench::new(1 << 20);
    for target in ["/a", "/b"] {
        bench.write(target, tagged(b"before".to_vec()), freshness(HOUR, 0, 0));
    }
    bench.restart(1 << 20);
    let listing = bench.directory.open().map(Scan::new).unwrap();
    let mut scan = listing.go_on(&mut bench.directory);
    bench.write("/a", tagged(b"longer than before".to_vec()), freshness(HOUR, 0, 0));
    let with_new = bench.disk.figures();
    while let Some(at_work) = scan {
        scan = at_work.go_on(&mut bench.directory);
    }
    assert_eq!((with_new.objects, bench.disk.figures().objects), (1, 2));
}
