//! `link` and `key`: messages between files, pipes, datagrams and serial lines over an encrypted link.

use crate::{GLASSLINE, glassline};
use glassline_test_support::http::read_once;
use glassline_test_support::program::{Outcome, Running, Scratch};
use glassline_test_support::skip;
use glassline_test_support::wait::{PATIENCE, until, until_some};
use std::fs::{File, Permissions};
use std::io::{Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

pub(super) fn key(scratch: &Scratch) -> String {
    let file = scratch.file("link.key");
    if !std::path::Path::new(&file).exists() {
        assert_eq!(glassline(&["key", "new", &file]).status, Some(0));
    }
    file
}

pub(super) fn start(arguments: &[&str]) -> Running {
    Running::start(Command::new(GLASSLINE).arg("link").args(arguments))
}

/// A listener, and where it is.
pub(super) fn listen(arguments: &[&str]) -> (Running, String) {
    listen_at("127.0.0.1:0", arguments)
}

pub(super) fn listen_at(address: &str, arguments: &[&str]) -> (Running, String) {
    let mut running = start(&[&["listen", address], arguments].concat());
    let address = said(&mut running, "listening address=");
    (running, address)
}

/// The word that stands behind `what` in the log.
pub(super) fn said(running: &mut Running, what: &str) -> String {
    until_some(what, || {
        let output = running.output();
        let ended = running.ended();
        let found =
            output.split_once(what).map(|(_, rest)| rest.split_whitespace().next().unwrap().to_owned());
        assert!(found.is_some() || ended.is_none(), "it ended with {ended:?}: {output}");
        found
    })
}

/// A command to its end.
pub(super) fn connect(arguments: &[&str]) -> Outcome {
    glassline(&[&["link", "connect"], arguments].concat())
}

pub(super) fn udp() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

pub(super) fn port(socket: &UdpSocket) -> u16 {
    socket.local_addr().unwrap().port()
}

/// Sends numbered datagrams to `to` until one arrives at `at`.
fn until_one_arrives(what: &str, to: SocketAddr, at: &UdpSocket) {
    let sender = udp();
    at.set_nonblocking(true).unwrap();
    let mut number = 0u32;
    until(what, || {
        number += 1;
        let _ = sender.send_to(format!("{what} {number}").as_bytes(), to);
        let mut buffer = [0; 100];
        // What was on its way before may still come.
        std::iter::from_fn(|| at.recv(&mut buffer).ok().map(|length| buffer[..length].to_vec()))
            .any(|datagram| datagram.starts_with(what.as_bytes()))
    });
}

/// A pseudo-terminal: its master's side, and the other one's name.
pub(super) fn terminal() -> Option<(File, String)> {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).ok()?;
    grantpt(&master).ok()?;
    unlockpt(&master).ok()?;
    let name = ptsname(&master, Vec::new()).ok()?.into_string().ok()?;
    Some((master.into(), name))
}

fn framed(messages: &[&[u8]]) -> Vec<u8> {
    messages
        .iter()
        .flat_map(|message| [&(message.len() as u32).to_be_bytes()[..], message].concat())
        .collect()
}

#[test]
fn keys_are_made_once_and_for_their_owner_alone() {
    let scratch = Scratch::new("key");
    let (shared, pair) = (scratch.file("shared.key"), scratch.file("pair.key"));
    let made = glassline(&["key", "new", &shared]);
    assert_eq!(made.status, Some(0), "{}", made.stderr);
    let mode = std::fs::metadata(&shared).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(glassline(&["key", "show", &shared]).text(), made.text());
    let before = std::fs::read(&shared).unwrap();
    let again = glassline(&["key", "new", &shared]);
    assert_eq!(again.status, Some(2));
    assert!(again.stderr.contains("exists"), "{}", again.stderr);
    assert_eq!(std::fs::read(&shared).unwrap(), before);

    let public = glassline(&["key", "new", "--pair", &pair]).text();
    assert_eq!(public.trim().len(), 64, "{public}");
    assert_eq!(glassline(&["key", "show", &pair]).text(), public);
    let text = glassline(&["key", "new"]).text();
    assert!(text.lines().last().unwrap().starts_with("shared "), "{text}");
    let other = scratch.write("other", "what");
    std::fs::set_permissions(&other, Permissions::from_mode(0o600)).unwrap();
    assert!(glassline(&["key", "show", &other]).stderr.contains("no key of a link"));
}

#[test]
fn a_key_that_others_may_read_is_refused_with_what_to_type() {
    let scratch = Scratch::new("key");
    let (shared, pair) = (key(&scratch), scratch.file("pair.key"));
    let public = glassline(&["key", "new", "--pair", &pair]).text().trim().to_owned();
    for file in [&shared, &pair] {
        std::fs::set_permissions(file, Permissions::from_mode(0o644)).unwrap();
        let peer = if *file == pair { &["--peer", &public][..] } else { &[] };
        let way = ["--channel", "1:lines,in=-", "--connect-timeout", "100ms", "--key", file];
        let connecting = [&["link", "connect", "127.0.0.1:9"], &way[..], peer].concat();
        for arguments in [&connecting[..], &["key", "show", file]] {
            let outcome = glassline(arguments);
            assert_eq!(outcome.status, Some(2), "{arguments:?}: {}", outcome.stderr);
            let remedy = format!("chmod 600 {file}");
            assert!(outcome.stderr.contains(&remedy), "{arguments:?}: {}", outcome.stderr);
            assert!(outcome.stderr.contains("mode 0644"), "{arguments:?}: {}", outcome.stderr);
        }
        assert!(Command::new("chmod").args(["600", file]).status().unwrap().success());
        assert_eq!(glassline(&["key", "show", file]).status, Some(0));
        // It fails because nobody is there, and no more because of the key.
        assert_eq!(glassline(&connecting).status, Some(1));
    }
}

/// An address of this machine that is free; nobody else takes it on purpose.
fn free_address() -> String {
    let socket = udp();
    socket.local_addr().unwrap().to_string()
}

/// A listener's first datagram after the restart of a link's other end, as somebody sees who has recorded the link's data.
fn asked_with(data: &[u8], address: &str) -> Option<Vec<u8>> {
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.set_read_timeout(Some(std::time::Duration::from_millis(500))).unwrap();
    stranger.send_to(data, address).unwrap();
    let mut answer = [0; 2000];
    stranger.recv(&mut answer).ok().map(|length| answer[..length].to_vec())
}

#[test]
fn a_listener_resets_its_own_links_alone_by_a_secret_beside_its_key() {
    let scratch = Scratch::new("reset");
    let key = key(&scratch);
    let kept = format!("{key}.reset");
    let (first, second) = (free_address(), free_address());
    let arguments = ["--key", &key, "--channel", "1:lines,out=-"];
    let (mut listener, _) = listen_at(&first, &arguments);
    assert_eq!(std::fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    let secret = std::fs::read_to_string(&kept).unwrap();

    // Somebody on the way, who records a data packet of the link.
    let recorder = udp();
    let at = recorder.local_addr().unwrap().to_string();
    let connector = start(&["connect", &at, "--key", &key, "--channel", "1:lines,in=udp:127.0.0.1:0"]);
    let (mut buffer, mut caller, mut data) = ([0; 2000], None, None);
    let to: SocketAddr = first.parse().unwrap();
    while data.is_none() || !connector.output().contains("the link is up") {
        let (length, from) = recorder.recv_from(&mut buffer).unwrap();
        if from == to {
            recorder.send_to(&buffer[..length], caller.unwrap()).unwrap();
            continue;
        }
        caller = Some(from);
        if buffer[0] & 0x40 != 0 {
            data = Some(buffer[..length].to_vec());
        }
        recorder.send_to(&buffer[..length], to).unwrap();
    }
    let mut data = data.unwrap();
    // Longer than the answer may be, and as good a question.
    data.resize(100, 0);

    // Another listener of this machine and key, and one of another machine with the same key.
    let copy = scratch.write("copy.key", std::fs::read(&key).unwrap());
    std::fs::set_permissions(&copy, Permissions::from_mode(0o600)).unwrap();
    let (mut near, _) = listen_at(&second, &arguments);
    assert_eq!(asked_with(&data, &second), None);
    near.kill();
    let (mut far, _) = listen_at(&second, &["--key", &copy, "--channel", "1:lines,out=-"]);
    assert_eq!(asked_with(&data, &second), None);
    assert_ne!(std::fs::read_to_string(format!("{copy}.reset")).unwrap(), secret);
    far.kill();
    // The one that had the link, after a restart.
    listener.kill();
    let (mut listener, _) = listen_at(&first, &arguments);
    let reset = asked_with(&data, &first).expect("a Reset");
    assert_eq!((reset[0], reset.len(), &reset[2..10]), (0x84, 26, &data[1..9]));
    assert!(!listener.output().contains("no resets"), "{}", listener.output());
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), secret);
    // Where the secret is none any more, there are no Resets, and that is said.
    listener.kill();
    std::fs::set_permissions(&kept, Permissions::from_mode(0o644)).unwrap();
    let (listener, _) = listen_at(&first, &arguments);
    assert_eq!(asked_with(&data, &first), None);
    let output = listener.output();
    assert!(
        output.contains("no resets are sent") && output.contains(&format!("chmod 600 {kept}")),
        "{output}"
    );
}

#[test]
fn files_pass_both_ways_to_the_last_byte_and_both_ends_end() {
    let scratch = Scratch::new("link");
    let key = key(&scratch);
    let bytes: Vec<u8> =
        (0..3_000_000u32).map(|at| (at ^ (at >> 7)).to_le_bytes()[at as usize % 3]).collect();
    let film = scratch.write("film", &bytes);
    let messages = framed(&[b"one", b"", &bytes[..100_000], b"four"]);
    let commands = scratch.write("commands", &messages);
    let (film_out, commands_out) = (scratch.file("film.out"), scratch.file("commands.out"));
    let (stats, stats_too) = (scratch.file("a.jsonl"), scratch.file("b.jsonl"));
    let (mut listener, address) = listen(&[
        "--key",
        &key,
        "--channel",
        &format!("0:priority=0,in={commands}"),
        "--channel",
        &format!("5:raw,out={film_out}"),
        "--stats",
        &stats,
    ]);
    let outcome = connect(&[
        &address,
        "--key",
        &key,
        "--channel",
        &format!("5:raw,in={film}"),
        "--channel",
        &format!("0:out={commands_out}"),
        "--stats",
        &stats_too,
    ]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    assert_eq!(listener.wait().code(), Some(0));
    assert!(std::fs::read(&film_out).unwrap() == bytes);
    assert!(std::fs::read(&commands_out).unwrap() == messages);
    for file in [stats, stats_too] {
        let text = std::fs::read_to_string(file).unwrap();
        let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert!(last["time_s"].as_f64().is_some() && last["links"].is_array(), "{text}");
    }
}

#[test]
fn lines_pass_by_standard_input_and_output() {
    let scratch = Scratch::new("link");
    let key = key(&scratch);
    let lines = scratch.write("lines", "one\n\nthree\n");
    let (mut listener, address) = listen(&["--key", &key, "--channel", &format!("1:lines,in={lines},out=-")]);
    let mut child = Command::new(GLASSLINE)
        .args(["link", "connect", &address, "--key", &key, "--channel", "1:lines,in=-,out=-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"arm\nclimb 10\nland").unwrap();
    let outcome = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&outcome.stdout), "one\n\nthree\n");
    assert!(outcome.status.success());
    assert_eq!(listener.wait().code(), Some(0));
    // Its log stands between them.
    until("all lines", || {
        let output = listener.output();
        let places: Vec<_> = ["arm\n", "climb 10\n", "land\n"].iter().map(|line| output.find(line)).collect();
        places.iter().all(Option::is_some) && places.is_sorted()
    });
}

#[test]
fn datagrams_are_messages() {
    let scratch = Scratch::new("link");
    let key = key(&scratch);
    let (near, far) = (udp(), udp());
    let channel =
        |socket: &UdpSocket| format!("2:unreliable,in=udp:127.0.0.1:0,out=udp:127.0.0.1:{}", port(socket));
    let (mut listener, address) = listen(&["--key", &key, "--channel", &channel(&far)]);
    let mut connector = start(&["connect", &address, "--key", &key, "--channel", &channel(&near)]);
    let to_far: SocketAddr = said(&mut connector, "datagrams are taken channel=2 address=").parse().unwrap();
    let to_near: SocketAddr = said(&mut listener, "datagrams are taken channel=2 address=").parse().unwrap();
    until_one_arrives("up", to_far, &far);
    until_one_arrives("down", to_near, &near);
    connector.signal("TERM");
    assert_eq!(connector.wait().code(), Some(0));
    // Told to end at the same time, it might not look at what has come.
    until("the end", || listener.output().contains("the peer has ended the link"));
    listener.signal("TERM");
    assert_eq!(listener.wait().code(), Some(0));
}

#[test]
fn two_paths_carry_packed_messages_and_both_are_told_of() {
    let scratch = Scratch::new("link");
    let (key, stats) = (key(&scratch), scratch.file("stats.jsonl"));
    let far = udp();
    let out = format!("2:compress=zstd,out=udp:127.0.0.1:{}", port(&far));
    let (_listener, address) = listen(&["--key", &key, "--channel", &out]);
    let ways = ["--path", "127.0.0.1", "--path", "127.0.0.2", "--bonding", "both"];
    let rest = ["--key", &key, "--channel", "2:compress=zstd,in=udp:127.0.0.1:0", "--stats", &stats];
    let mut connector = start(&[&["connect", &address][..], &ways, &rest].concat());
    let to: SocketAddr = said(&mut connector, "datagrams are taken channel=2 address=").parse().unwrap();
    until("the second path", || connector.output().contains("a further path is there"));
    let message = "the same words, over and over; ".repeat(40);
    far.set_nonblocking(false).unwrap();
    udp().send_to(message.as_bytes(), to).unwrap();
    let mut buffer = [0; 2000];
    let length = far.recv(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], message.as_bytes());
    until("both in the statistics", || {
        let text = std::fs::read_to_string(&stats).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok()).any(|line| {
            let link = &line["links"][0];
            let saved = link["channels"][0]["saved_bytes"].as_u64();
            link["paths"].as_array().is_some_and(|paths| paths.len() == 2)
                && saved.is_some_and(|saved| saved > 500)
        })
    });
}

#[test]
fn a_dictionary_that_both_ends_have_packs_small_messages() {
    let scratch = Scratch::new("link");
    let (key, stats, dictionary) = (key(&scratch), scratch.file("stats.jsonl"), scratch.file("dictionary"));
    let line = |step: u32| {
        format!("{{\"battery_mv\":{},\"latitude\":52.{step},\"longitude\":13.{step}}}\n", 11_000 + step)
    };
    std::fs::write(&dictionary, (0..40).map(line).collect::<String>()).unwrap();
    let input = scratch.file("input");
    std::fs::write(&input, line(77)).unwrap();
    let (here, out) = (format!("1:lines,compress=zstd,in={input}"), scratch.file("output"));
    let there = format!("1:lines,out={out}");
    let (listener, address) = listen(&["--key", &key, "--dictionary", &dictionary, "--channel", &there]);
    let saved = |more: &[&str]| {
        let common = [&address, "--key", &key, "--stats", &stats, "--channel", &here];
        let outcome = connect(&[&common, more].concat());
        assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
        let text = std::fs::read_to_string(&stats).unwrap();
        // The last line of the link's: one more may tell that it has gone.
        let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let last = lines.rev().find(|line| line["links"][0].is_object()).unwrap();
        (last["links"][0]["channels"][0]["saved_bytes"].as_u64().unwrap(), outcome.stderr)
    };
    let (with, log) = saved(&["--dictionary", &dictionary]);
    assert!(with > 20 && !log.contains("dictionaries"), "{with} {log}");
    // Who has none is told so, and heard all the same.
    let (without, log) = saved(&[]);
    assert!(without < with && log.contains("different dictionaries"), "{without} {log}");
    until("both messages", || std::fs::read_to_string(&out).is_ok_and(|text| text == line(77).repeat(2)));
    assert!(listener.output().contains("different dictionaries"));
}

#[test]
fn an_idle_path_is_measured_by_padding() {
    let scratch = Scratch::new("link");
    let (key, stats) = (key(&scratch), scratch.file("stats.jsonl"));
    let far = udp();
    let out = format!("1:out=udp:127.0.0.1:{}", port(&far));
    let (_listener, address) = listen(&["--key", &key, "--channel", &out]);
    let rest = ["--key", &key, "--channel", "1:in=udp:127.0.0.1:0", "--stats", &stats, "--probing", "50"];
    let _connector = start(&[&["connect", &address][..], &rest].concat());
    // Half of the least rate that is ever assumed are twenty a second; otherwise two or three tell that the ends are there.
    until("padding", || {
        let text = std::fs::read_to_string(&stats).unwrap_or_default();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let mut sent = lines.filter_map(|line| line["links"][0]["sent_packets"].as_u64());
        sent.any(|sent| sent > 300)
    });
}

#[test]
fn a_wrong_key_meets_silence_and_it_is_said() {
    let scratch = Scratch::new("link");
    let (right, wrong) = (key(&scratch), scratch.file("wrong.key"));
    assert_eq!(glassline(&["key", "new", &wrong]).status, Some(0));
    let (listener, address) = listen(&["--key", &right, "--channel", "1:lines,out=-"]);
    let try_with =
        |arguments: &[&str]| connect(&[&[&address[..], "--channel", "1:lines,in=-"], arguments].concat());
    for arguments in [&["--key", &wrong[..]][..], &["--insecure"]] {
        let outcome = try_with(&[arguments, &["--connect-timeout", "700ms"]].concat());
        assert_eq!(outcome.status, Some(1), "{}", outcome.stderr);
        assert!(
            outcome.stderr.contains("does not answer") && outcome.stderr.contains("key"),
            "{}",
            outcome.stderr
        );
    }
    // Standard input is empty: all is said at once.
    assert_eq!(try_with(&["--key", &right]).status, Some(0));
    until("the one link", || listener.output().contains("the peer has ended the link"));
    assert_eq!(listener.output().matches("the link is up").count(), 1, "{}", listener.output());
}

#[test]
fn key_pairs_let_in_whom_they_name() {
    let scratch = Scratch::new("link");
    let names = ["ground", "one", "two", "stranger"];
    let pairs: Vec<(String, String)> = names
        .iter()
        .map(|name| {
            let file = scratch.file(name);
            let made = glassline(&["key", "new", "--pair", &file]);
            (file, made.text().trim().to_owned())
        })
        .collect();
    let (listener, address) = listen(&[
        "--key",
        &pairs[0].0,
        "--peer",
        &pairs[1].1,
        "--peer",
        &pairs[2].1,
        "--channel",
        "1:lines,out=-",
    ]);
    for (index, status) in [(1, 0), (2, 0), (3, 1)] {
        let said = scratch.write("said", format!("I am {}\n", names[index]));
        let channel = format!("1:lines,in={said}");
        let outcome = connect(&[
            &address,
            "--key",
            &pairs[index].0,
            "--peer",
            &pairs[0].1,
            "--channel",
            &channel,
            "--connect-timeout",
            if status == 0 { "50s" } else { "700ms" },
        ]);
        assert_eq!(outcome.status, Some(status), "{}: {}", names[index], outcome.stderr);
    }
    until("both", || listener.output().contains("I am one") && listener.output().contains("I am two"));
    assert!(!listener.output().contains("stranger"));
}

#[test]
fn bad_usage_is_said_before_anything_runs() {
    let scratch = Scratch::new("link");
    let shared = key(&scratch);
    let pair = scratch.file("pair");
    let public = glassline(&["key", "new", "--pair", &pair]).text().trim().to_owned();
    let absent = scratch.file("absent");
    for (arguments, complaint) in [
        (&["--channel", "1:in=-"][..], "--key"),
        (&["--key", &shared], "--channel"),
        (&["--key", &absent, "--channel", "1:in=-"], "glassline key new"),
        (&["--key", &pair, "--channel", "1:in=-"], "--peer is missing"),
        (&["--key", &shared, "--peer", &public, "--channel", "1:in=-"], "shared key"),
        (&["--key", &shared, "--peer", "12", "--channel", "1:in=-"], "64 hexadecimal digits"),
        (&["--key", &shared, "--channel", "1:relaible"], "\"reliable\" meant"),
        (&["--key", &shared, "--channel", "1:in=-", "--channel", "1:out=-"], "given twice"),
        (&["--key", &shared, "--channel", "1:in=-", "--channel", "2:in=-"], "in=-"),
        (&["--key", &shared, "--channel", &format!("1:in={absent}")], "mkfifo"),
        (
            &["--key", &shared, "--channel", "1:in=-", "--path", "127.0.0.1", "--bonding", "both"],
            "second time",
        ),
        (&["--key", &shared, "--channel", "1:in=-", "--path", "::1"], "IPv6"),
        (&["--key", &shared, "--channel", "1:in=-", "--path", "no-such-if"], "this machine has"),
        (&["--key", &shared, "--channel", "1:in=-", "--path", "lo", "--path", "lo"], "given twice"),
        (&["--key", &shared, "--channel", "1:in=-", "--dictionary", &absent], "zstd --train"),
        (&["--key", &shared, "--channel", "1:in=-", "--probing", "51"], "--probing"),
    ] {
        let outcome = connect(&[&["127.0.0.1:9"], arguments].concat());
        assert_eq!(outcome.status, Some(2), "{arguments:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(complaint), "{arguments:?}: {}", outcome.stderr);
    }
    let outcome = connect(&["127.0.0.1:9", "--key", &shared, "--channel", "1:in=serial:/dev/null,9600"]);
    assert!(outcome.status == Some(1) && outcome.stderr.contains("no serial line"), "{}", outcome.stderr);
}

#[test]
fn either_end_may_be_killed_and_come_back() {
    let scratch = Scratch::new("link");
    let key = key(&scratch);
    let (near, far) = (udp(), udp());
    let channel = |socket: &UdpSocket| format!("3:in=udp:127.0.0.1:0,out=udp:127.0.0.1:{}", port(socket));
    let taken = "datagrams are taken channel=3 address=";
    let (mut listener, address) = listen(&["--key", &key, "--channel", &channel(&far)]);
    let connecting = ["connect", &address, "--key", &key, "--channel", &channel(&near)];
    let mut connector = start(&connecting);
    let mut to_far: SocketAddr = said(&mut connector, taken).parse().unwrap();
    until_one_arrives("first", to_far, &far);
    // The listener.
    listener.kill();
    let (mut listener, _) = listen_at(&address, &["--key", &key, "--channel", &channel(&far)]);
    until_one_arrives("second", to_far, &far);
    let to_near: SocketAddr = said(&mut listener, taken).parse().unwrap();
    until_one_arrives("third", to_near, &near);
    // The connector, with a name that says that it is the same.
    connector.kill();
    let mut connector = start(&connecting);
    to_far = said(&mut connector, taken).parse().unwrap();
    until_one_arrives("fourth", to_far, &far);
    until_one_arrives("fifth", to_near, &near);
    until("the same peer", || listener.output().contains("the link is up again"));
    // Stopped and not killed, and back again.
    listener.signal("TERM");
    assert_eq!(listener.wait().code(), Some(0));
    until("connecting again", || connector.output().contains("connecting again"));
    let _listener = listen_at(&address, &["--key", &key, "--channel", &channel(&far)]);
    until_one_arrives("sixth", to_far, &far);
}

#[test]
fn several_peers_share_a_listener() {
    let scratch = Scratch::new("link");
    let key = key(&scratch);
    let (mut listener, address) =
        listen(&["--key", &key, "--channel", "1:lines,out=-", "--channel", "2:lines,in=udp:127.0.0.1:0"]);
    let to_all: SocketAddr = said(&mut listener, "datagrams are taken channel=2 address=").parse().unwrap();
    let mut peers: Vec<Running> = (0..3)
        .map(|number| {
            let said = scratch.write(&format!("said{number}"), format!("I am {number}\n"));
            start(&[
                "connect",
                &address,
                "--key",
                &key,
                "--channel",
                &format!("1:lines,in={said}"),
                "--channel",
                "2:lines,out=-",
            ])
        })
        .collect();
    until("all three", || (0..3).all(|number| listener.output().contains(&format!("I am {number}\n"))));
    udp().send_to(b"to all of you", to_all).unwrap();
    for peer in &peers {
        until("what is said to all", || peer.output().contains("to all of you\n"));
    }
    // One leaves, and the others stay.
    peers.pop().unwrap().signal("TERM");
    udp().send_to(b"to who is left", to_all).unwrap();
    for peer in &peers {
        until("what is said to the rest", || peer.output().contains("to who is left\n"));
    }
}

#[test]
fn garbage_disturbs_nobody() {
    let scratch = Scratch::new("link");
    let key = key(&scratch);
    let bytes: Vec<u8> = (0..1_000_000u32).map(|at| (at * 7) as u8).collect();
    let (film, out) = (scratch.write("film", &bytes), scratch.file("film.out"));
    let (mut listener, address) =
        listen(&["--key", &key, "--once", "--channel", &format!("5:raw,out={out}")]);
    let target: SocketAddr = address.parse().unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            let stranger = udp();
            let mut random = 1u32;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                let mut datagram = vec![0; 1 + random as usize % 1400];
                for byte in &mut datagram {
                    random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    *byte = (random >> 24) as u8;
                }
                datagram[0] = [0x40, 0x60, 0x81, 0x82, 0x83, 0x84, 0xff][random as usize % 7];
                stranger.send_to(&datagram, target).unwrap();
                // Many, and not so many that the kernel has no room for others.
                std::thread::sleep(std::time::Duration::from_micros(100));
            }
            stranger.set_nonblocking(true).unwrap();
            assert!(stranger.recv(&mut [0; 2000]).is_err(), "strangers meet silence");
        });
        let outcome = connect(&[&address, "--key", &key, "--channel", &format!("5:raw,in={film}")]);
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        outcome
    });
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    assert_eq!(listener.wait().code(), Some(0));
    assert!(std::fs::read(out).unwrap() == bytes);
}

#[test]
fn fifos_stay_when_their_readers_change() {
    let scratch = Scratch::new("link");
    let key = key(&scratch);
    let fifo = scratch.file("out.pipe");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let (_listener, address) = listen(&["--key", &key, "--channel", &format!("1:lines,out={fifo}")]);
    let mut connector =
        start(&["connect", &address, "--key", &key, "--channel", "1:lines,in=udp:127.0.0.1:0"]);
    let to: SocketAddr = said(&mut connector, "datagrams are taken channel=1 address=").parse().unwrap();
    let sender = udp();
    for reader in ["first", "second"] {
        // Opening it waits for the writer, who opens it when there is a message.
        sender.send_to(format!("for the {reader}").as_bytes(), to).unwrap();
        let mut pipe = File::open(&fifo).unwrap();
        let mut text = Vec::new();
        // What the one before has not read is lost; there is more.
        until("a line", || {
            sender.send_to(format!("again for the {reader}").as_bytes(), to).unwrap();
            let mut part = [0; 256];
            let length = read_once(&mut pipe, &mut part).unwrap();
            text.extend_from_slice(&part[..length]);
            text.windows(reader.len()).any(|window| window == reader.as_bytes())
        });
    }
}

#[test]
fn a_serial_line_is_a_channel() {
    let Some((mut autopilot, name)) = terminal() else {
        return skip("a_serial_line_is_a_channel", "no pseudo-terminals");
    };
    let scratch = Scratch::new("link");
    let key = key(&scratch);
    let out = udp();
    let ground = format!("0:in=udp:127.0.0.1:0,out=udp:127.0.0.1:{}", port(&out));
    let (mut listener, address) = listen(&["--key", &key, "--channel", &ground]);
    let line = format!("0:in=serial:{name},57600,out=serial:{name},57600");
    let connector = start(&["connect", &address, "--key", &key, "--channel", &line]);
    until("the link", || connector.output().contains("the link is up"));
    let sent = b"\xfd\x09\x00\r\n\x03\x11\x13\xff heartbeat";
    autopilot.write_all(sent).unwrap();
    let (mut got, mut buffer) = (Vec::new(), [0; 2000]);
    while got.len() < sent.len() {
        let length = out.recv(&mut buffer).unwrap();
        got.extend_from_slice(&buffer[..length]);
    }
    assert_eq!(got, sent);
    let back: SocketAddr = said(&mut listener, "datagrams are taken channel=0 address=").parse().unwrap();
    out.send_to(sent, back).unwrap();
    let mut answer = vec![0; sent.len()];
    autopilot.read_exact(&mut answer).unwrap();
    assert_eq!(answer, sent);
}

#[test]
fn what_has_no_output_is_said() {
    let scratch = Scratch::new("link");
    let key = key(&scratch);
    let lines = scratch.write("lines", "one\ntwo\n");
    let (mut listener, address) = listen(&["--key", &key, "--once", "--channel", "1:lines,out=-"]);
    let outcome = connect(&[&address, "--key", &key, "--channel", &format!("9:lines,in={lines}")]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    assert_eq!(listener.wait().code(), Some(0));
    until("a warning", || listener.output().contains("no output here"));
}

#[test]
fn a_terminal_shows_links_and_channels() {
    let Some((mut master, name)) = terminal() else {
        return skip("a_terminal_shows_links_and_channels", "no pseudo-terminals");
    };
    let scratch = Scratch::new("link");
    let key = key(&scratch);
    let slave = File::options().read(true).write(true).open(&name).unwrap();
    let mut child = Command::new(GLASSLINE)
        .args(["link", "listen", "127.0.0.1:0", "--key", &key, "--channel", "7:lines,out=-"])
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(slave)
        .spawn()
        .unwrap();
    let shown = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let collected = std::sync::Arc::clone(&shown);
    // It ends when nobody has the terminal open any more.
    let reader = std::thread::spawn(move || {
        let mut part = [0; 4096];
        while let Ok(length @ 1..) = read_once(&mut master, &mut part) {
            collected.lock().unwrap().push_str(&String::from_utf8_lossy(&part[..length]));
        }
    });
    let shown = || shown.lock().unwrap().clone();
    let address = until_some("the address", || {
        let text = shown();
        let (_, rest) = text.split_once("listening address=")?;
        rest.split_once('\r').map(|(address, _)| address.to_owned())
    });
    until("nobody", || shown().contains("no peer"));
    let connector = start(&["connect", &address, "--key", &key, "--channel", "7:lines,in=udp:127.0.0.1:0"]);
    until("a link in the view", || shown().contains("channel  7") && shown().contains("RTT"));
    assert!(shown().contains("\x1b["), "it is written over");
    drop(connector);
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap();
}
