//! The program changes under its viewers, and they see nothing of it.

use crate::{GLASSLINE, glassline, serve_with};
use glassline_io::handover::Channel;
use glassline_test_support::http::read_once;
use glassline_test_support::http::{connect, get, publish, read_head};
use glassline_test_support::numbered::{Check, Shape};
use glassline_test_support::program::{Scratch, Server};
use glassline_test_support::wait::until;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// 2.3 Mbit/s at 25 pictures a second; a key frame every 0.4 s.
const SHAPE: Shape = Shape { packets: 60, group: 10 };
const VIEWERS: usize = 40;
const TURNS: usize = 20;

/// Sends pictures through one connection until told to end; returns how many.
fn send(mut publisher: TcpStream, over: &AtomicBool, sent: &AtomicU64) {
    for number in 0.. {
        if over.load(Ordering::Acquire) {
            return;
        }
        let picture = SHAPE.picture(number);
        // Cut anywhere: what was read of a packet or a chunk has to be carried over too.
        let (first, rest) = picture.split_at(number as usize * 7919 % picture.len());
        publisher.write_all(first).unwrap();
        sent.fetch_add(1, Ordering::AcqRel);
        std::thread::sleep(Duration::from_millis(10));
        publisher.write_all(rest).unwrap();
    }
}

/// Watches to the stream's end and returns the pictures seen, all of them right and none missing.
fn watch(address: SocketAddr, joined: &AtomicU64) -> u64 {
    let mut stream = connect(address);
    write!(stream, "GET /live/hot.ts HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    assert_eq!(read_head(&mut stream).status, 200);
    joined.fetch_add(1, Ordering::AcqRel);
    let (mut check, mut buffer) = (Check::new(SHAPE), vec![0; 64 << 10]);
    loop {
        match read_once(&mut stream, &mut buffer).unwrap() {
            0 => break,
            count => check.push(&buffer[..count]).unwrap_or_else(|wrong| panic!("{wrong}")),
        }
    }
    assert_eq!(check.moves, 0, "nobody fell behind");
    check.packets / SHAPE.packets
}

/// Lets viewers watch while `turn` is taken [`TURNS`] times, and then sees whether they missed anything.
fn nobody_notices(server: &mut Server, mut turn: impl FnMut(&mut Server, usize)) {
    let (over, sent, joined) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let address = server.address();
    let publisher = publish(address, "/live/hot.ts");
    std::thread::scope(|scope| {
        let over = Ends(&over);
        let sending = scope.spawn(|| send(publisher, over.0, &sent));
        is_live(server, "hot");
        let viewers: Vec<_> = (0..VIEWERS).map(|_| scope.spawn(|| watch(address, &joined))).collect();
        until("all viewers", || joined.load(Ordering::Acquire) == VIEWERS as u64);
        // A connection that waits for its next request stays too.
        let mut idle = connect(address);
        for number in 0..TURNS {
            let before = sent.load(Ordering::Acquire);
            turn(server, number);
            until("the next pictures", || sent.load(Ordering::Acquire) >= before + 3);
            write!(idle, "GET /gen204 HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            assert_eq!(read_head(&mut idle).status, 204);
        }
        assert_eq!(server.count("hot", "viewers"), VIEWERS as u64);
        assert_eq!(server.count("hot", "publishers"), 1, "the publisher stays");
        drop(over);
        sending.join().unwrap();
        let pictures = sent.load(Ordering::Acquire);
        for viewer in viewers {
            let seen = viewer.join().unwrap();
            assert!(seen > TURNS as u64 * 3 - 1 && seen <= pictures, "{seen} of {pictures}");
        }
    });
}

/// Ends the sending however the test ends, so that its scope does.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn is_live(server: &Server, name: &str) {
    until("the stream", || server.stream(name).is_some_and(|stream| stream["live"] == true));
}

fn says(server: &Server, words: &str) -> usize {
    server.process.output().matches(words).count()
}

const CONFIG: &str = "workers = 2\n[publish]\nsilence_timeout = \"60s\"\nreturn_window = \"0s\"\n";

fn rewrite(scratch: &Scratch, more: &str) {
    scratch.write("glassline.toml", format!("{CONFIG}{more}"));
}

#[test]
fn a_reload_is_not_seen_by_viewers_or_publishers() {
    let (mut server, scratch) = serve_with(CONFIG);
    nobody_notices(&mut server, |server, number| {
        let flush = ["frame", "balanced", "thrifty"][number % 3];
        let path = ["auto", "sendfile"][number % 2];
        let pacing = ["3x", "off", "20M"][number % 3];
        rewrite(
            &scratch,
            &format!("[viewer]\nflush = \"{flush}\"\nsend_path = \"{path}\"\npacing = \"{pacing}\"\n"),
        );
        server.process.signal("HUP");
        until("the reload", || says(server, "the configuration was read again") == number + 1);
    });
}

#[test]
fn a_reload_changes_what_is_configured_and_refuses_what_is_wrong() {
    let (mut server, scratch) = serve_with(CONFIG);
    let access = scratch.file("access.log");
    let reload = |server: &Server, more: &str, words: &str| {
        let before = says(server, words);
        rewrite(&scratch, more);
        server.process.signal("HUP");
        until(words, || says(server, words) > before);
    };
    let good = "the configuration was read again";
    let contact = |server: &Server| get(server.address(), "/api/streams").json()["server"]["contact"].clone();

    scratch
        .write("glassline.toml", format!("contact = \"call Ada\"\n{CONFIG}[log]\naccess = \"{access}\"\n"));
    server.process.signal("HUP");
    until("the reload", || says(&server, good) == 1);
    assert_eq!(contact(&server), "call Ada");
    until("a line", || std::fs::read_to_string(&access).is_ok_and(|text| text.contains("/api/streams")));
    // As logrotate does it.
    std::fs::rename(&access, scratch.file("access.log.1")).unwrap();
    reload(&server, &format!("[log]\naccess = \"{access}\"\n"), good);
    assert!(contact(&server).is_null());
    until("a line in the new file", || {
        std::fs::read_to_string(&access).is_ok_and(|text| text.contains("/api/streams"))
    });

    reload(&server, "[viewer]\nflush = \"never\"\n", "the configuration stays as it was");
    assert!(server.process.output().contains("thrifty"), "{}", server.process.output());
    reload(&server, "[viewer]\nnetworks = [\"192.0.2.0/24\"]\n", good);
    drop(publish(server.address(), "/live/a.ts"));
    let mut publisher = publish(server.address(), "/live/b.ts");
    for number in 0..12 {
        publisher.write_all(&SHAPE.picture(number)).unwrap();
    }
    is_live(&server, "b");
    assert_eq!(get(server.address(), "/live/b.ts").status, 403);
    reload(&server, "[demo]\nenabled = true\nsize = \"320x180\"\n", good);
    server.wait_for_pictures("demo");
    reload(&server, "", good);
    until("the demo's end", || server.stream("demo").is_none_or(|stream| stream["live"] == false));
    server.process.signal("TERM");
    assert_eq!(server.process.wait().code(), Some(0));
}

/// Starts a new program that takes over from `server`, and waits until it has.
pub(crate) fn upgrade(server: &mut Server, config: &str) {
    let address = server.address().to_string();
    // A program that has just taken over holds the place to meet only a moment after its predecessor has ended.
    let name = format!("@glassline serve {address}");
    until("the place to meet", || std::fs::read_to_string("/proc/net/unix").unwrap().contains(&name));
    let mut other = Server::start_at(GLASSLINE, &address, &["--upgrade", "--config", config]);
    std::mem::swap(server, &mut other);
    assert_eq!(other.process.wait().code(), Some(0), "the old program ends well");
}

#[test]
fn an_upgrade_is_not_seen_by_viewers_or_publishers() {
    let (mut server, scratch) = serve_with(CONFIG);
    let config = scratch.file("glassline.toml");
    nobody_notices(&mut server, |server, number| {
        // Another number of workers too.
        rewrite(&scratch, "");
        let workers = format!("workers = {}\n", 1 + number % 3);
        let text = std::fs::read_to_string(&config).unwrap().replace("workers = 2\n", &workers);
        scratch.write("glassline.toml", text);
        upgrade(server, &config);
    });
    server.process.signal("TERM");
    assert_eq!(server.process.wait().code(), Some(0));
}

#[test]
fn who_comes_to_take_over_and_fails_changes_nothing() {
    let (mut server, scratch) = serve_with(CONFIG);
    let config = scratch.file("glassline.toml");
    let meeting = format!("glassline serve {}", server.address());
    nobody_notices(&mut server, |server, number| {
        let before = says(server, "no new process took over");
        match number % 5 {
            // Says something else; says nothing; takes all and goes; takes all and does not want it.
            way @ 0..4 => {
                let mut channel = Channel::connect(&meeting).unwrap();
                let hello: &[u8] = if way == 0 { b"who is there?" } else { b"glassline: take over" };
                if way != 1 {
                    channel.send(hello, &[]).unwrap();
                }
                if way >= 2 {
                    let (message, descriptors) = channel.receive(1 << 30).unwrap();
                    assert!(message.len() > 1000 && descriptors.len() > VIEWERS);
                }
                if way == 3 {
                    channel.send(b"oh, no!", &[]).unwrap();
                }
            }
            // A real one, whose configuration asks for an address that is taken.
            _ => {
                let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
                let (taken, address) = (taken.local_addr().unwrap(), server.address().to_string());
                let arguments = ["serve", "--upgrade", "--config", &config, "--listen", &address];
                let outcome = glassline(&[&arguments[..], &["--listen", &taken.to_string()]].concat());
                assert_eq!(outcome.status, Some(1), "{}", outcome.stderr);
            }
        }
        until("the old one goes on", || says(server, "no new process took over") > before);
    });
    assert!(server.process.output().contains("oh, no!"), "why not is logged");
}

/// As systemd has it (`Type=notify`): the process that was the server names the next one before it ends.
#[test]
fn a_supervisor_is_told_which_process_is_the_server() {
    let scratch = Scratch::new("supervised");
    let (config, place) = (scratch.write("glassline.toml", CONFIG), scratch.file("notify"));
    let supervisor = UnixDatagram::bind(&place).unwrap();
    supervisor.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let heard = || {
        let mut words = [0; 256];
        let count = supervisor.recv(&mut words).unwrap();
        String::from_utf8_lossy(&words[..count]).trim().to_owned()
    };
    let mut command = Command::new(GLASSLINE);
    command.env("NOTIFY_SOCKET", &place);
    let mut server = Server::start_by(command, "127.0.0.1:0", &["--config", &config]);
    assert_eq!(heard(), "READY=1");
    server.process.signal("USR2");
    let told = heard();
    assert_eq!(server.process.wait().code(), Some(0));
    let successor = told.strip_prefix("MAINPID=").unwrap_or_else(|| panic!("{told}"));
    let output = server.process.output();
    assert!(output.contains(&format!("process={successor}\n")), "{told}: {output}");
    assert_eq!(get(server.address(), "/healthz").status, 200);
    assert_eq!(glassline_test_support::program::run("kill", &["-TERM", successor], 10).status, Some(0));
    assert_eq!(heard(), "STOPPING=1");
}

#[test]
fn a_signal_replaces_the_program_and_nobody_to_replace_is_said() {
    let (mut server, scratch) = serve_with(CONFIG);
    let mut publisher = publish(server.address(), "/live/a.ts");
    publisher.write_all(&SHAPE.picture(0)).unwrap();
    is_live(&server, "a");
    server.process.signal("USR2");
    assert_eq!(server.process.wait().code(), Some(0));
    publisher.write_all(&SHAPE.picture(1)).unwrap();
    until("the rest", || {
        server.count("a", "bytes_in") == SHAPE.picture(0).len() as u64 + SHAPE.picture(1).len() as u64
    });
    let output = server.process.output();
    let process =
        output.split("process=").nth(1).unwrap().split(char::is_whitespace).next().unwrap().to_owned();
    let ended = glassline_test_support::program::run("kill", &["-TERM", &process], 10);
    assert_eq!(ended.status, Some(0));
    drop(publisher);
    let config = scratch.file("glassline.toml");
    until("its end", || std::net::TcpStream::connect(server.address()).is_err());
    let outcome = glassline(&["serve", "--upgrade", "--config", &config, "--listen", "127.0.0.1:9"]);
    assert_eq!(outcome.status, Some(1));
    assert!(outcome.stderr.contains("start it without --upgrade"), "{}", outcome.stderr);
}
