//! The disk behind an edge's memory: what lies in files outlives the process, and nothing that is wrong with files is seen by
//! those who ask.

use crate::edge::{Asked, Origin, pattern, whole};
use crate::hot::upgrade;
use crate::serve;
use glassline_test_support::http::{ask, get};
use glassline_test_support::program::{Scratch, Server};
use glassline_test_support::skip;
use glassline_test_support::wait::until;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Three blocks of a file, the last one short.
const BODY_BYTES: usize = 300_000;

/// An object that is another one for each target.
fn body(target: &str) -> Vec<u8> {
    [target.as_bytes(), &pattern(BODY_BYTES)].concat()
}

/// Answers with the target's body, or the part of it that is asked for.
fn answer(asked: &Asked, fields: &str, connection: &mut TcpStream) -> bool {
    let body = body(&asked.target);
    let range = asked.field("range").and_then(|range| range.strip_prefix("bytes=")?.split('-').next());
    let from = range.map(|from| from.parse::<usize>().unwrap());
    let answer = match from {
        None => whole(&body, fields),
        Some(from) => {
            let (rest, last, all) = (&body[from..], body.len() - 1, body.len());
            let range = format!("Content-Range: bytes {from}-{last}/{all}\r\n{fields}");
            let part = whole(rest, &range);
            [b"HTTP/1.1 206 Partial Content", &part["HTTP/1.1 200 OK".len()..]].concat()
        }
    };
    connection.write_all(&answer).is_ok()
}

/// An origin whose objects last for an hour.
fn origin() -> Origin {
    Origin::start(|asked, connection| {
        answer(asked, "ETag: \"1\"\r\nCache-Control: max-age=3600\r\n", connection)
    })
}

/// An edge whose files are in `disk`.
fn edge(scratch: &Scratch, origin: &Origin, disk: &str, more: &str) -> Server {
    // A busy machine shall not send the tests to the origin.
    let (origin, text) = (origin.url(), "cache = '1MiB'\nnegative_ttl = '0s'\ndisk_timeout = '10s'\n");
    let config = format!("[upstream]\nservers = ['{origin}']\ndisk = '{disk}'\n{text}{more}");
    serve(&["--config", &scratch.write("glassline.toml", config)])
}

fn figure(edge: &Server, name: &str) -> u64 {
    edge.metrics().sum(&format!("glassline_cache_disk_{name}"), "") as u64
}

fn wait_for(edge: &Server, name: &str, count: u64) {
    until(&format!("{name} to be {count}"), || figure(edge, name) == count);
}

fn has(edge: &Server, target: &str) {
    let answer = get(edge.address(), target);
    assert_eq!(answer.status, 200, "{target}: {}", answer.text());
    assert!(answer.body == body(target), "{target}");
}

/// The files in `directory`, by their endings.
fn files(directory: &Path, ending: &str) -> Vec<PathBuf> {
    let listed = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    listed.filter(|path| path.extension().is_some_and(|extension| extension == ending)).collect()
}

#[test]
fn what_lies_on_the_disk_is_there_after_a_crash() {
    let (origin, scratch) = (origin(), Scratch::new("disk"));
    let targets = ["/a.m4s", "/b.m4s?x=1", "/c.mp4"];
    let mut first = edge(&scratch, &origin, "kept", "");
    targets.iter().for_each(|target| has(&first, target));
    wait_for(&first, "written_total", 3);
    assert_eq!((figure(&first, "objects"), figure(&first, "skipped_total")), (3, 0));
    first.process.kill();
    let disk = scratch.path().join("kept");
    // What was being written when the process died, and what is no file of ours.
    fs::write(disk.join("notes.txt"), "mine").unwrap();
    let second = edge(&scratch, &origin, "kept", "");
    wait_for(&second, "objects", 3);
    targets.iter().for_each(|target| has(&second, target));
    for target in targets {
        assert_eq!(origin.count(target), 1, "{target} came from the disk");
        has(&second, target);
    }
    wait_for(&second, "read_total", 3);
    let metrics = second.metrics();
    let found = |found: &str| metrics.sum("glassline_cache_requests_total", &format!("\"{found}\""));
    assert_eq!((found("disk"), found("hit"), found("miss")), (3.0, 3.0, 0.0));
    assert_eq!(metrics.sum("glassline_object_first_byte_seconds_count", "\"disk\""), 3.0);
    let part = glassline_test_support::http::ask(second.address(), "GET", "/a.m4s", &["Range: bytes=5-9"]);
    assert_eq!((part.status, part.body), (206, body("/a.m4s")[5..10].to_vec()));
    assert!(disk.join("notes.txt").exists());
}

#[test]
fn the_next_program_reads_what_the_last_one_has_written() {
    let (origin, scratch) = (origin(), Scratch::new("disk"));
    let mut edge = edge(&scratch, &origin, "kept", "");
    has(&edge, "/a");
    wait_for(&edge, "objects", 1);
    upgrade(&mut edge, &scratch.file("glassline.toml"));
    wait_for(&edge, "objects", 1);
    has(&edge, "/a");
    wait_for(&edge, "read_total", 1);
    has(&edge, "/b");
    wait_for(&edge, "objects", 2);
    assert_eq!(
        (origin.count("/a"), figure(&edge, "damaged_total"), figure(&edge, "errors_total")),
        (1, 0, 0)
    );
}

#[test]
fn what_is_old_on_the_disk_is_asked_about_and_given_where_nobody_answers() {
    let fails = Arc::new(AtomicBool::new(false));
    let (is_down, scratch) = (Arc::clone(&fails), Scratch::new("disk"));
    let origin = Origin::start(move |asked, connection| {
        if is_down.load(Ordering::Acquire) {
            return connection.write_all(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n").is_ok();
        }
        if asked.field("if-none-match") == Some("\"1\"") {
            return connection.write_all(b"HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n").is_ok();
        }
        answer(asked, "ETag: \"1\"\r\nCache-Control: max-age=0, stale-if-error=3600\r\n", connection)
    });
    let mut first = edge(&scratch, &origin, "kept", "");
    has(&first, "/a");
    has(&first, "/b");
    wait_for(&first, "objects", 2);
    first.process.kill();
    let second = edge(&scratch, &origin, "kept", "");
    wait_for(&second, "objects", 2);
    has(&second, "/a");
    assert_eq!(origin.count("/a"), 2, "it was asked about");
    let bytes = second.metrics().sum("glassline_upstream_bytes_total", "");
    assert!(bytes < 1000.0, "the body came from the disk: {bytes}");
    fails.store(true, Ordering::Release);
    has(&second, "/b");
    assert_eq!(figure(&second, "read_total"), 2);
}

#[test]
fn what_was_used_longest_ago_makes_room_on_the_disk_also_after_a_restart() {
    let (origin, scratch) = (origin(), Scratch::new("disk"));
    let size = "disk_size = '1MiB'\n";
    let mut first = edge(&scratch, &origin, "kept", size);
    for (target, written) in [("/a", 1), ("/b", 2), ("/c", 3)] {
        has(&first, target);
        wait_for(&first, "written_total", written);
    }
    first.process.kill();
    let mut second = edge(&scratch, &origin, "kept", size);
    wait_for(&second, "objects", 3);
    has(&second, "/a");
    wait_for(&second, "read_total", 1);
    has(&second, "/d");
    wait_for(&second, "evicted_total", 1);
    wait_for(&second, "written_total", 1);
    assert!(figure(&second, "bytes") <= 1 << 20);
    second.process.kill();
    let third = edge(&scratch, &origin, "kept", size);
    wait_for(&third, "objects", 3);
    // The file of /a was used after that of /c, in an earlier run.
    has(&third, "/e");
    wait_for(&third, "evicted_total", 1);
    wait_for(&third, "written_total", 1);
    for (target, count) in [("/a", 1), ("/d", 1), ("/b", 2), ("/c", 2)] {
        has(&third, target);
        assert_eq!(origin.count(target), count, "{target}");
    }
}

#[test]
fn damaged_files_are_dropped_and_nobody_gets_their_bytes() {
    let (origin, scratch) = (origin(), Scratch::new("disk"));
    let disk = scratch.path().join("kept");
    let mut first = edge(&scratch, &origin, "kept", "");
    has(&first, "/cut");
    wait_for(&first, "written_total", 1);
    let cut = files(&disk, "obj").remove(0);
    has(&first, "/begin");
    wait_for(&first, "written_total", 2);
    let begin = files(&disk, "obj").into_iter().find(|file| *file != cut).unwrap();
    has(&first, "/end");
    wait_for(&first, "written_total", 3);
    let end = files(&disk, "obj").into_iter().find(|file| *file != cut && *file != begin).unwrap();
    first.process.kill();

    let open = |file: &Path| OpenOptions::new().write(true).open(file).unwrap();
    open(&cut).set_len(200_000).unwrap();
    open(&begin).write_all_at(b"other bytes", 1000).unwrap();
    let length = fs::metadata(&end).unwrap().len();
    open(&end).write_all_at(b"other bytes", length - 100).unwrap();
    fs::write(disk.join(format!("{:032x}.obj", 7)), "nonsense").unwrap();

    let second = edge(&scratch, &origin, "kept", "");
    wait_for(&second, "damaged_total", 2);
    wait_for(&second, "objects", 2);
    for target in ["/cut", "/begin", "/end"] {
        has(&second, target);
        assert_eq!(origin.count(target), 2, "{target}");
    }
    assert_eq!(figure(&second, "damaged_total"), 4);
    let resumed = second.metrics().sum("glassline_upstream_resumed_total", "");
    assert_eq!(resumed, 1.0, "the end alone is fetched where the rest was good");
    wait_for(&second, "objects", 3);
}

/// Every object comes, `count` objects lie on the disk, and the log says once that more do not.
fn goes_on_with_memory_alone(edge: &Server, targets: &[&str], count: u64) {
    targets.iter().for_each(|target| has(edge, target));
    until("the complaint", || edge.process.output().contains("the cache's directory fails"));
    targets.iter().for_each(|target| has(edge, target));
    until("what is not written to be counted", || figure(edge, "skipped_total") > 0);
    assert!(figure(edge, "errors_total") > 0);
    assert_eq!(figure(edge, "objects"), count);
    assert_eq!(edge.process.output().matches("the cache's directory fails").count(), 1);
}

#[test]
fn an_edge_whose_directory_cannot_be_made_goes_on_with_memory_alone() {
    let (origin, scratch) = (origin(), Scratch::new("disk"));
    scratch.write("file", "no directory");
    let edge = edge(&scratch, &origin, "file/kept", "");
    goes_on_with_memory_alone(&edge, &["/a", "/b"], 0);
}

/// A disk that is taken away again at the end.
struct TinyDisk(PathBuf);

impl TinyDisk {
    fn mount(directory: PathBuf, size: &str) -> Result<TinyDisk, String> {
        fs::create_dir(&directory).unwrap();
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(&directory);
        match command.output() {
            Ok(made) if made.status.success() => Ok(TinyDisk(directory)),
            Ok(made) => Err(String::from_utf8_lossy(&made.stderr).trim().to_owned()),
            Err(error) => Err(format!("mount: {error}")),
        }
    }
}

impl Drop for TinyDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn an_edge_whose_disk_is_full_goes_on_with_memory_alone() {
    let scratch = Scratch::new("disk");
    let disk = match TinyDisk::mount(scratch.path().join("kept"), "500k") {
        Ok(disk) => disk,
        Err(why) => {
            return skip(
                "an_edge_whose_disk_is_full_goes_on_with_memory_alone",
                &format!("no small file system can be mounted: {why}"),
            );
        }
    };
    let origin = origin();
    let edge = edge(&scratch, &origin, "kept", "");
    has(&edge, "/a");
    wait_for(&edge, "objects", 1);
    goes_on_with_memory_alone(&edge, &["/b", "/c"], 1);
    assert!(edge.process.output().contains("No space left on device"));
    assert_eq!(files(&disk.0, "tmp"), Vec::<PathBuf>::new(), "what could not be finished is gone");
    assert_eq!(origin.count("/a"), 1);
}

#[test]
fn what_is_purged_is_asked_for_again_in_memory_and_on_the_disk() {
    let (origin, scratch) = (origin(), Scratch::new("disk"));
    let edge = edge(&scratch, &origin, "kept", "");
    let all = ["/a/1.m4s", "/a/1.m4s?x=1", "/a/2.m4s", "/b/1.m4s"];
    all.iter().for_each(|target| has(&edge, target));
    wait_for(&edge, "objects", 4);
    let purge =
        |query: &str| ask(edge.address(), "POST", &format!("/api/purge?{query}"), &["Content-Length: 0"]);
    let counts = || all.map(|target| origin.count(target));
    // The memory has room for some of them alone.
    let purged = |query: &str, files: u64| {
        let answer = purge(query);
        assert_eq!(answer.status, 200, "{query}: {}", answer.text());
        assert!(answer.json()["purged"].as_u64() <= Some(4), "{query}");
        wait_for(&edge, "objects", files);
        all.iter().for_each(|target| has(&edge, target));
        wait_for(&edge, "objects", 4);
    };
    purged("path=/a/1.m4s", 2);
    assert_eq!(counts(), [2, 2, 1, 1], "with every query, and nothing else");
    purged("prefix=/a/", 1);
    assert_eq!(counts(), [3, 3, 2, 1]);
    purged("prefix=/c", 4);
    assert_eq!(counts(), [3, 3, 2, 1]);
    for query in ["", "path=/a&prefix=/a", "path=a"] {
        assert_eq!(purge(query).status, 400, "{query}");
    }
    let read = ask(edge.address(), "GET", "/api/purge?path=/a", &[]);
    assert!(read.status == 405 && read.text().contains("POST"), "{}", read.text());
    // Not for pages of others, and not on an edge that is none.
    let foreign = ask(
        edge.address(),
        "POST",
        "/api/purge?prefix=/",
        &["Content-Length: 0", "Origin: http://elsewhere.example"],
    );
    assert_eq!(foreign.status, 403, "{}", foreign.text());
    assert_eq!(ask(serve(&[]).address(), "POST", "/api/purge?prefix=/", &["Content-Length: 0"]).status, 409);
}
