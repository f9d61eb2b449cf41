use super::super::super::testing::{freshness, plain};
use super::super::testing::{Bench, pattern, tagged};
use super::*;
use glassline_delivery::fill::Head;
use glassline_delivery::fill::disk::{HEAD_BYTES_MAX, OpenSeal};
use std::sync::atomic::Ordering;

const HOUR: u64 = 3600;

/// The head of the file of this object, and its bytes.
fn read(bench: &Bench, target: &str) -> (FileHead, Vec<u8>) {
    let file = std::fs::read(bench.path(target)).unwrap();
    let (head, mut seal, at): (FileHead, OpenSeal, usize) =
        FileHead::parse(&file, file.len() as u64).unwrap();
    let (mut rest, mut bytes) = (&file[at..], Vec::new());
    while seal.sealed_bytes() > 0 {
        let (sealed, left) = rest.split_at(seal.sealed_bytes());
        bytes.extend_from_slice(seal.next(sealed).unwrap());
        rest = left;
    }
    assert!(rest.is_empty());
    (head, bytes)
}

#[test]
fn an_object_lies_in_a_file_with_its_key_its_head_and_what_it_is_worth() {
    let mut bench = Bench::new(1 << 20);
    let came = bench.clock.utc();
    let object = tagged(b"hello".to_vec());
    let writing = bench.begin("/a?x=1", object.clone(), freshness(HOUR, 5, 7), came).unwrap();
    assert!(writing.go_on(&mut bench.directory).is_none());
    let (head, bytes) = read(&bench, "/a?x=1");
    assert_eq!((head.key, head.bytes), ("http://origin.example/base/a?x=1".to_owned(), 5));
    assert_eq!((head.came, head.freshness), (came, freshness(HOUR, 5, 7)));
    assert_eq!(
        (Some(head.head), bytes),
        (object.progress().head.map(|head| (*head).clone()), b"hello".to_vec())
    );
    let figures = bench.disk.figures();
    assert_eq!((figures.objects, figures.written, figures.written_bytes), (1, 1, 5));
}

#[test]
fn a_file_has_its_name_behind_the_last_block_alone() {
    let mut bench = Bench::new(4 << 20);
    let object = tagged(pattern(2 * BLOCK_BYTES + 1));
    let mut writing = bench.begin("/a", object, freshness(HOUR, 0, 0), bench.clock.utc());
    let unfinished = format!("{}.{}.tmp", bench.name("/a"), std::process::id());
    for block in 0..3 {
        assert_eq!(bench.files(), [unfinished.as_str()], "{block}");
        assert!(!lock(&bench.disk.index).has(bench.name("/a")));
        writing = writing.and_then(|writing| writing.go_on(&mut bench.directory));
    }
    assert!(writing.is_none());
    assert_eq!(bench.files(), [format!("{}.obj", bench.name("/a"))]);
    assert_eq!(read(&bench, "/a").1, pattern(2 * BLOCK_BYTES + 1));
}

#[test]
fn an_object_without_bytes_has_a_file_without_blocks() {
    let mut bench = Bench::new(1 << 20);
    bench.write("/a", tagged(Vec::new()), freshness(HOUR, 0, 0));
    assert_eq!(read(&bench, "/a").1, b"");
}

#[test]
fn a_later_object_takes_the_place_of_an_earlier_one_of_its_key() {
    let mut bench = Bench::new(1 << 20);
    bench.write("/a", tagged(b"one".to_vec()), freshness(HOUR, 0, 0));
    bench.write("/a", tagged(b"two".to_vec()), freshness(HOUR, 0, 0));
    assert_eq!((read(&bench, "/a").1, bench.disk.figures().objects), (b"two".to_vec(), 1));
}

#[test]
fn what_is_given_up_leaves_no_file() {
    let mut bench = Bench::new(1 << 20);
    let writing = bench.begin("/a", tagged(pattern(1000)), freshness(HOUR, 0, 0), bench.clock.utc()).unwrap();
    assert_eq!(bench.files().len(), 1);
    assert_eq!(writing.abandon(), bench.name("/a"));
    assert!(bench.files().is_empty());
}

#[test]
fn an_object_of_which_no_head_is_known_is_not_written() {
    let mut bench = Bench::new(1 << 20);
    assert!(bench.begin("/a", Object::new(), freshness(HOUR, 0, 0), bench.clock.utc()).is_none());
    assert!(bench.files().is_empty());
}

#[test]
fn an_object_that_the_disk_cannot_hold_is_not_written_and_its_earlier_file_goes() {
    let mut bench = Bench::new(64 << 10);
    bench.write("/a", tagged(b"fits".to_vec()), freshness(HOUR, 0, 0));
    bench.write("/a", tagged(pattern(64 << 10)), freshness(HOUR, 0, 0));
    let figures = bench.disk.figures();
    assert_eq!((figures.written, figures.skipped, figures.objects), (1, 1, 0));
    assert!(bench.files().is_empty());
}

#[test]
fn a_head_that_is_longer_than_heads_may_be_is_not_written() {
    let mut bench = Bench::new(4 << 20);
    let long = Head::new("video/mp4").with("X-Long", &"x".repeat(HEAD_BYTES_MAX));
    let object = Object::whole(long, b"hello"[..].into());
    assert!(bench.begin("/a", object, freshness(HOUR, 0, 0), bench.clock.utc()).is_none());
    assert_eq!((bench.files().len(), bench.disk.figures().skipped), (0, 1));
}

#[test]
fn files_that_were_used_longest_ago_make_room() {
    // Each takes five units of 4 KiB: three fit.
    let mut bench = Bench::new(79 << 10);
    for target in ["/a", "/b", "/c"] {
        bench.write(target, tagged(pattern(20_000)), freshness(HOUR, 0, 0));
    }
    lock(&bench.disk.index).touch(bench.name("/a"));
    bench.write("/d", tagged(pattern(20_000)), freshness(HOUR, 0, 0));
    let there = ["/a", "/b", "/c", "/d"].map(|target| bench.path(target).exists());
    assert_eq!((there, bench.disk.figures().evicted), ([true, false, true, true], 1));
}

#[test]
fn what_the_system_refuses_is_counted_and_nothing_is_written_for_a_while() {
    let mut bench = Bench::new(1 << 20);
    let object = Object::whole(plain(), b"hello"[..].into());
    let writing = bench.begin("/a", object, freshness(HOUR, 0, 0), bench.clock.utc()).unwrap();
    assert!(!bench.directory.rests());
    // The directory goes while it is written.
    std::fs::remove_dir_all(bench.directory.path()).unwrap();
    assert!(writing.go_on(&mut bench.directory).is_none());
    let figures = bench.disk.figures();
    assert_eq!((figures.errors, figures.written, figures.objects), (1, 0, 0));
    assert!(bench.directory.rests());
    assert_eq!(bench.disk.counters.errors.load(Ordering::Relaxed), 1);
}

#[test]
fn a_file_that_cannot_be_made_is_an_error_and_no_other_file_is_harmed() {
    let mut bench = Bench::new(1 << 20);
    bench.write("/a", tagged(b"hello".to_vec()), freshness(HOUR, 0, 0));
    let (name, key) = (bench.name("/b"), bench.key("/b"));
    // Something else lies in its place.
    std::fs::create_dir(bench.directory.unfinished_path_of(name)).unwrap();
    let came = bench.clock.utc();
    let begun =
        Writing::begin(&mut bench.directory, name, key, tagged(Vec::new()), freshness(HOUR, 0, 0), came);
    assert!(begun.is_err());
    assert_eq!(read(&bench, "/a").1, b"hello");
}
