//! Bytes that wait in a socket are references to the spool's pages. Whatever the spool does meanwhile, the
//! peer must read what was sent: on small pages, on an ext4 file, and on huge pages.

use glassline_io::spool::{Backing, LinkFile, Reader, Sent, Settings, Spool};
use glassline_io::tcp::{Connection, Listener};
use glassline_test_support::skip;
use std::io::Read;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

const LINK: u64 = 2 << 20;

fn byte_at(offset: u64) -> u8 {
    // A different sequence in each link and no period that divides a page.
    ((offset * 2_654_435_761) >> 13) as u8 ^ (offset / LINK) as u8
}

fn pattern(from: u64, length: usize) -> Vec<u8> {
    (from..from + length as u64).map(byte_at).collect()
}

fn pair() -> (Connection, TcpStream) {
    let listener = Listener::bind_group("127.0.0.1:0".parse().unwrap(), 1).unwrap().remove(0);
    let client = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    client.set_recv_buffer_size(64 << 10).unwrap();
    client.connect(&listener.local_address().unwrap().into()).unwrap();
    let server = loop {
        if let Some((server, _)) = listener.accept().unwrap() {
            break server;
        }
    };
    socket2::SockRef::from(&server).set_send_buffer_size(16 << 20).unwrap();
    (server, client.into())
}

/// Fills a socket's queue from the spool, lets the links go, writes as much again and more, and only then
/// lets the peer read. Returns how many bytes were queued while that went on.
fn queue_drop_and_read(backing: Backing) -> u64 {
    let settings = Settings { backing, link_bytes: LINK, record_bytes: 1 };
    let mut spool = Spool::new(settings);
    let (server, mut client) = pair();
    let mut reader = Reader::new(spool.chain(), 0);

    spool.append(&pattern(0, 3 * LINK as usize)).unwrap();
    spool.publish();
    let end = spool.head();
    while reader.offset() < end {
        match reader.send(&server, end, u64::MAX).unwrap() {
            Sent::Bytes(_) => {}
            Sent::Blocked => break,
            Sent::Gone => panic!("nothing was dropped yet"),
        }
    }
    let queued = reader.offset();
    drop(reader);
    for _ in 0..4 {
        let from = spool.head();
        spool.append(&vec![0xEE; 2 * LINK as usize]).unwrap();
        spool.publish();
        spool.drop_before(from);
    }
    drop(spool);

    server.end().unwrap();
    let mut got = Vec::new();
    client.read_to_end(&mut got).unwrap();
    assert_eq!(got.len() as u64, queued);
    let wrong = got.iter().enumerate().filter(|(at, byte)| **byte != byte_at(*at as u64)).count();
    assert_eq!(wrong, 0, "wrong bytes of {queued}");
    queued
}

fn assert_enough(queued: u64) {
    assert!(queued >= LINK, "only {queued} bytes were queued: the test proves nothing");
}

#[test]
fn on_memory_files() {
    assert_enough(queue_drop_and_read(Backing::Memory));
}

/// Whether files there are ext4's (or its elders', which have the same number): EXT4_SUPER_MAGIC.
fn is_ext4(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|found| found.f_type == 0xEF53)
}

#[test]
fn on_an_ext4_file() {
    let candidates = [PathBuf::from(env!("CARGO_TARGET_TMPDIR")), std::env::temp_dir()];
    match candidates.into_iter().find(|path| is_ext4(path)) {
        Some(path) => assert_enough(queue_drop_and_read(Backing::Directory(path))),
        None => skip("on_an_ext4_file", "no ext4 file system to write to"),
    }
}

/// A tmpfs of huge pages, unmounted at the end.
struct HugeTmpfs(PathBuf);

impl HugeTmpfs {
    fn mount() -> Option<HugeTmpfs> {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("huge-tmpfs");
        std::fs::create_dir_all(&path).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "huge=always,size=64m", "glassline-test"])
            .arg(&path)
            .output()
            .is_ok_and(|output| output.status.success());
        mounted.then_some(HugeTmpfs(path))
    }
}

impl Drop for HugeTmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

fn huge_shared_kib() -> u64 {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("ShmemHugePages:"));
    line.and_then(|value| value.trim().strip_suffix(" kB")?.trim().parse().ok()).unwrap_or(0)
}

#[test]
fn on_huge_pages() {
    let name = "on_huge_pages";
    let Some(tmpfs) = HugeTmpfs::mount() else {
        return skip(name, "may not mount a tmpfs of huge pages (not root?)");
    };
    let before = huge_shared_kib();
    // A plain file tells what the system gives; then the spool must have it as well.
    let plain = tmpfs.0.join("plain");
    std::fs::write(&plain, vec![1; LINK as usize]).unwrap();
    if huge_shared_kib() <= before {
        return skip(name, "the system gives shared memory no huge pages");
    }
    std::fs::remove_file(plain).unwrap();
    let before = huge_shared_kib();
    let mut probe = Spool::new(Settings {
        backing: Backing::Directory(tmpfs.0.clone()),
        link_bytes: LINK,
        record_bytes: 1,
    });
    probe.append(&vec![1; LINK as usize]).unwrap();
    assert!(huge_shared_kib() > before, "the spool's file has no huge pages");
    assert_enough(queue_drop_and_read(Backing::Directory(tmpfs.0.clone())));
}

/// The counter-example that gives the tests above their meaning: a file that is overwritten, as a ring is,
/// does change what waits in a socket.
#[test]
fn overwriting_instead_would_change_them() {
    let file = tempfile();
    std::os::unix::fs::FileExt::write_all_at(&file, &[1; 1 << 20], 0).unwrap();
    let (server, mut client) = pair();
    let mut offset = 0;
    while offset < 1 << 20 {
        let left = (1 << 20) - offset as usize;
        match rustix::fs::sendfile(&server, &file, Some(&mut offset), left) {
            Ok(_) => {}
            Err(rustix::io::Errno::AGAIN) => break,
            Err(error) => panic!("{error}"),
        }
    }
    std::os::unix::fs::FileExt::write_all_at(&file, &[2; 1 << 20], 0).unwrap();
    server.end().unwrap();
    let mut got = Vec::new();
    client.read_to_end(&mut got).unwrap();
    assert!(
        got.contains(&2),
        "queued pages were copied: this kernel does not behave as the spool's design assumes"
    );
}

fn tempfile() -> std::fs::File {
    rustix::fs::memfd_create("ring", rustix::fs::MemfdFlags::CLOEXEC).unwrap().into()
}

#[test]
fn links_behind_the_first_have_large_pages_where_the_process_may_mount_them() {
    let name = "links_behind_the_first_have_large_pages_where_the_process_may_mount_them";
    if let Err(error) = glassline_io::spool::large_pages::prepare() {
        return skip(name, &format!("may not mount a tmpfs of large pages (not root?): {error}"));
    }
    // A tmpfs says that its blocks are as large as its pages.
    let is_large = |link: &LinkFile| rustix::fs::fstat(link).unwrap().st_blksize as u64 == LINK;
    let mut spool = Spool::new(Settings { backing: Backing::Memory, link_bytes: LINK, record_bytes: 1 });
    spool.append(&vec![1; 3 * LINK as usize]).unwrap();
    let found: Vec<_> = spool.links().iter().map(is_large).collect();
    if !found.contains(&true) {
        return skip(name, "the system gives shared memory no large pages");
    }
    assert_eq!(found, [false, true, true]);
    drop(spool);
    assert_enough(queue_drop_and_read(Backing::Memory));
}
