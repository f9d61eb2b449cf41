//! `lab link`: programs behind an emulated network, and what they meet there.

use crate::{GLASSLINE, glassline};
use glassline_media::Time;
use glassline_test_support::program::{Outcome, Running, Scratch, run};
use glassline_test_support::wait::{until, until_some};
use glassline_test_support::{has_program, no_private_network, skip};
use glassline_transport::emulator::{Event, Link, LinkConfig, Queue};
use serde_json::Value;
use std::net::UdpSocket;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Whether links can be made here; counts the test as skipped where not.
fn can(test: &str) -> bool {
    if !has_program("bash") {
        skip(test, "no bash");
        return false;
    }
    let outcome = link(&["--", "true"]);
    if let Some(reason) = (outcome.status != Some(0)).then(|| no_private_network(&[])).flatten() {
        skip(test, &reason);
        return false;
    }
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    true
}

fn link(arguments: &[&str]) -> Outcome {
    glassline(&[&["lab", "link"], arguments].concat())
}

/// A run with `--json` that must end with 0; its report.
fn report(arguments: &[&str]) -> Value {
    let outcome = link(&[&["--json"], arguments].concat());
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    serde_json::from_slice(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {}", outcome.text()))
}

fn number(report: &Value, path: &str) -> f64 {
    report.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no number {path} in {report:#}"))
}

/// A UDP socket on every address of this machine that counts what comes, and sends it back if asked to.
struct Far {
    port: u16,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<(u64, Option<Instant>)>>,
}

impl Far {
    fn start(echoes: bool) -> Far {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let (port, stop) = (socket.local_addr().unwrap().port(), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (mut buffer, mut count, mut last) = ([0; 2048], 0, None);
            // What came before the stop is counted.
            loop {
                match socket.recv_from(&mut buffer) {
                    Ok((length, from)) => {
                        (count, last) = (count + 1, Some(Instant::now()));
                        if echoes {
                            socket.send_to(&buffer[..length], from).unwrap();
                        }
                    }
                    Err(_) if stopped.load(Ordering::Relaxed) => return (count, last),
                    Err(_) => {}
                }
            }
        });
        Far { port, stop, thread: Some(thread) }
    }

    /// How many came, and when the last one did.
    fn end(mut self) -> (u64, Option<Instant>) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

#[test]
fn the_command_s_exit_status_and_output_are_passed_on() {
    if !can("the_command_s_exit_status_and_output_are_passed_on") {
        return;
    }
    let outcome = link(&["--", "sh", "-c", "echo out; echo $GLASSLINE_NEAR $GLASSLINE_FAR; exit 7"]);
    assert_eq!(outcome.status, Some(7), "{}", outcome.stderr);
    let text = outcome.text();
    assert!(text.starts_with("out\n100.64.") && text.trim().ends_with(".1"), "{text}");
    assert!(outcome.stderr.contains("packets in"), "the table: {}", outcome.stderr);
    assert!(!outcome.stderr.contains("glassline:"), "no error of ours: {}", outcome.stderr);
    assert_eq!(link(&["--", "sh", "-c", "kill -TERM $$"]).status, Some(143));
    let outcome = link(&["--", "/no/such/program"]);
    assert_eq!(outcome.status, Some(2), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("/no/such/program"), "{}", outcome.stderr);
}

#[test]
fn signals_are_passed_on() {
    if !can("signals_are_passed_on") {
        return;
    }
    for (signal, status) in [("TERM", 9), ("INT", 8), ("USR1", 7)] {
        // It waits without a program of its own: Bash loses a SIGINT that comes just when one ends, one of a
        // hundred, since it takes the signal for that program's.
        let script =
            "trap 'exit 9' TERM; trap 'exit 8' INT; trap 'exit 7' USR1; echo ready; while :; do :; done";
        // A shell cannot trap what was ignored when it started, as SIGINT is where the tests run in the background.
        let command = ["lab", "link", "--", "env", "--default-signal", "bash", "-c", script];
        let mut running = Running::start(Command::new(GLASSLINE).args(command));
        until("the command", || running.output().contains("ready"));
        running.signal(signal);
        assert_eq!(running.wait().code(), Some(status), "{signal}: {}", running.output());
    }
}

#[test]
fn no_packet_is_early() {
    if !can("no_packet_is_early") {
        return;
    }
    let far = Far::start(true);
    // Each exchange's time in µs.
    let script = format!(
        "export LC_ALL=C; exec 3<>/dev/udp/$GLASSLINE_FAR/{}; for i in 1 2 3 4 5 6 7 8; do \
         s=${{EPOCHREALTIME/./}}; echo $i >&3; read -r -N 1 -t 60 -u 3 line || exit 3; \
         echo $((${{EPOCHREALTIME/./}} - s)) $line; done",
        far.port
    );
    let outcome = link(&["--delay", "up=30ms", "--delay", "down=20ms", "--", "bash", "-c", &script]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let text = outcome.text();
    let times: Vec<u64> = text.lines().map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect();
    assert_eq!(times.len(), 8, "{text}");
    assert!(times.iter().all(|&micros| micros >= 50_000), "{text}");
    assert!(text.lines().last().unwrap().ends_with(" 8"), "in order: {text}");
    assert_eq!(far.end().0, 8);
}

#[test]
fn the_rate_is_kept_and_what_the_queue_does_not_take_is_counted() {
    if !can("the_rate_is_kept_and_what_the_queue_does_not_take_is_counted") {
        return;
    }
    let far = Far::start(false);
    // 200 packets of 1000 bytes at once; each takes 40 ms of 200 kbit/s.
    let script = format!(
        "exec 3>/dev/udp/$GLASSLINE_FAR/{}; printf -v data '%972s' x; \
         for ((i = 0; i < 200; i++)); do printf %s \"$data\" >&3; done; sleep 1.2",
        far.port
    );
    let begun = Instant::now();
    let report = report(&["--up", "200k", "--queue", "20p", "--", "bash", "-c", &script]);
    let (count, last) = far.end();
    assert_eq!(number(&report, "/up/arrived/packets"), 200.0);
    assert_eq!(number(&report, "/up/arrived/bytes"), 200_000.0);
    let dropped = number(&report, "/up/dropped/queue/packets");
    assert!(dropped > 0.0, "{report:#}");
    assert_eq!(number(&report, "/up/delivered/packets") + dropped, 200.0, "{report:#}");
    assert_eq!(number(&report, "/up/delivered/packets"), count as f64, "{report:#}");
    // No faster than the rate, by the clock outside; by the link's own figures no slower either: the last that the
    // queue took waited for twenty others and the rest of the one in service.
    let took = last.unwrap() - begun;
    assert!(took >= Duration::from_millis(40) * u32::try_from(count).unwrap(), "{count} in {took:?}");
    let longest = number(&report, "/up/queue_delay_ms/max");
    assert!((780.0..=840.0).contains(&longest), "{report:#}");
    assert_eq!(number(&report, "/up/capacity_bps"), 200_000.0);
}

#[test]
fn losses_and_copies_are_counted() {
    if !can("losses_and_copies_are_counted") {
        return;
    }
    let send = |arguments: &[&str]| {
        let far = Far::start(false);
        let script = format!(
            "exec 3>/dev/udp/$GLASSLINE_FAR/{}; for ((i = 0; i < 100; i++)); do echo x >&3; done; sleep 0.3",
            far.port
        );
        let report = report(&[arguments, &["--", "bash", "-c", script.as_str()]].concat());
        assert_eq!(number(&report, "/up/arrived/packets"), 100.0);
        let delivered = number(&report, "/up/delivered/packets");
        assert_eq!(far.end().0 as f64, delivered, "{report:#}");
        (delivered, number(&report, "/up/dropped/loss/packets"))
    };
    assert_eq!(send(&["--loss", "up=100%"]), (0.0, 100.0));
    assert_eq!(send(&["--duplicate", "up=100%"]), (200.0, 0.0));
    let (delivered, lost) = send(&["--loss", "30%", "--seed", "5"]);
    assert!(lost > 10.0 && delivered + lost == 100.0, "{lost}");
    assert_eq!(send(&["--loss", "30%", "--seed", "5"]).1, lost, "the same seed, the same losses");
    assert_eq!(send(&["--outage", "up=once:0s/1h"]).0, 0.0);
}

#[test]
fn a_log_replays_to_itself_and_a_picture_is_drawn() {
    if !can("a_log_replays_to_itself_and_a_picture_is_drawn") {
        return;
    }
    let scratch = Scratch::new("link");
    let trace = scratch.write("trace", "30\n50\n50\n110\n200\n");
    let (log, svg) = (scratch.file("log"), scratch.file("link.svg"));
    let far = Far::start(false);
    let script = format!(
        "exec 3>/dev/udp/$GLASSLINE_FAR/{}; printf -v data '%1300s' x; \
         for ((i = 1; i < 150; i++)); do printf %.$((i * 8))s \"$data\" >&3; done; sleep 1",
        far.port
    );
    let files = ["--packet-log", log.as_str(), "--svg", svg.as_str()];
    let outcome = link(
        &[&["--up", trace.as_str(), "--queue", "10p"], &files[..], &["--", "bash", "-c", script.as_str()]]
            .concat(),
    );
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let came = far.end().0;
    // The same arrivals, in virtual time, by whole milliseconds as in the log: the same lines.
    let written = std::fs::read_to_string(format!("{log}.up")).unwrap();
    let theirs: Vec<&str> =
        written.lines().filter(|line| !line.starts_with('#') && !line.contains(" # ")).collect();
    assert!(written.contains(" # 1504\n") && written.contains("# base timestamp: 0\n"), "{written}");
    let trace = std::fs::read_to_string(&trace).unwrap().parse().unwrap();
    let config = LinkConfig::trace(Arc::new(trace)).with_queue(Queue::packets(10));
    let mut replayed = Link::new(config, 1, Time::ZERO).unwrap();
    replayed.record_events();
    for line in &theirs {
        let words: Vec<&str> = line.split(' ').collect();
        let at = Time::from_millis(words[0].parse().unwrap());
        if words[1] == "+" {
            replayed.push(at, words[2].parse().unwrap(), ());
        }
    }
    replayed.advance(Time::from_millis(100_000));
    let mut ours = String::new();
    while let Some(event) = replayed.poll_event() {
        if !matches!(event, Event::Opportunity { .. }) {
            event.write_mahimahi(Time::ZERO, &mut ours);
        }
    }
    let departures = |lines: &[&str]| -> Vec<String> {
        lines.iter().filter(|line| !line.contains(" + ")).map(ToString::to_string).collect()
    };
    assert_eq!(departures(&ours.lines().collect::<Vec<_>>()), departures(&theirs));
    let left = theirs.iter().filter(|line| line.contains(" - ")).count();
    assert_eq!(left as u64, came);
    assert!(theirs.iter().any(|line| line.contains(" d ")), "the queue was full: {theirs:?}");
    let svg = std::fs::read_to_string(svg).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("bash behind a link"), "{svg}");
    assert!(std::fs::read_to_string(format!("{log}.down")).unwrap().contains("(down)"));
}

#[test]
fn an_ordinary_user_gets_two_networks_of_their_own() {
    let test = "an_ordinary_user_gets_two_networks_of_their_own";
    if !can(test) {
        return;
    }
    // As root this test becomes somebody else; others are ordinary users anyway.
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let is_root = std::fs::read_to_string("/proc/self/status").unwrap().contains("\nUid:\t0\t");
    let program = |arguments: &[&str]| match is_root {
        true => run("setpriv", &[&nobody[..], &[GLASSLINE], arguments].concat(), 120),
        false => run(GLASSLINE, arguments, 120),
    };
    let reaches_it =
        || run("setpriv", &[&nobody[..], &["test", "-x", GLASSLINE]].concat(), 60).status == Some(0);
    if is_root && (!has_program("setpriv") || !reaches_it()) {
        return skip(test, "setpriv is absent, or another user may not run the program from here");
    }
    // Nobody listens: the answer comes from the far side's kernel, through the link and back.
    let script = "echo $UID; (exec 3<>/dev/tcp/$GLASSLINE_FAR/9) 2>&1 | grep -o refused";
    let far = "exec sleep 1000";
    let outcome =
        program(&["lab", "link", "--json", "--far", far, "--delay", "5ms", "--", "bash", "-c", script]);
    let become_user = if is_root { [&["setpriv"], &nobody[..]].concat() } else { Vec::new() };
    if let Some(reason) = (outcome.status != Some(0)).then(|| no_private_network(&become_user)).flatten() {
        return skip(test, &reason);
    }
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("refused"), "{}", outcome.stderr);
    assert!(!is_root || outcome.stderr.contains("65534\n"), "it stays that user: {}", outcome.stderr);
    let report: Value = serde_json::from_slice(&outcome.stdout).unwrap();
    assert_eq!(report["near"], "100.64.0.2", "nobody else's links are there");
    assert!(number(&report, "/up/delivered/packets") >= 1.0, "{report:#}");
    assert!(number(&report, "/down/delivered/packets") >= 1.0, "{report:#}");
}

/// Whether a process runs: one that has ended, but was not waited for by whoever inherited it, does not.
fn runs(process: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn nothing_is_left_behind() {
    if !can("nothing_is_left_behind") {
        return;
    }
    let scratch = Scratch::new("link");
    let file = |name: &str| scratch.file(name);
    let far = format!("echo $$ >{0}.part; mv {0}.part {0}; exec sleep 1000", file("far"));
    let start = |script: &str| {
        Running::start(
            Command::new(GLASSLINE).args(["lab", "link", "--far", &far, "--", "bash", "-c", script]),
        )
    };
    let read = |name: &str| {
        until_some(name, || std::fs::read_to_string(file(name)).ok().filter(|text| text.ends_with('\n')))
            .trim()
            .to_owned()
    };
    // Killed without a chance to tidy up.
    let script = format!("echo $$ $GLASSLINE_FAR >{}; exec sleep 1000", file("near"));
    let mut killed = start(&script);
    let (near, far_process) = (read("near"), read("far"));
    let (near, address) = near.split_once(' ').unwrap();
    assert!(runs(near) && runs(&far_process));
    // Its number tells the device from one of another test that takes its name. An ordinary user's cannot be seen.
    let device = format!("/sys/class/net/gl{}/ifindex", address.split('.').nth(2).unwrap());
    let before = std::fs::read_to_string(&device).ok();
    killed.kill();
    until("the end of both programs", || !runs(near) && !runs(&far_process));
    if before.is_some() {
        until("the end of the device", || std::fs::read_to_string(&device).ok() != before);
    }
    // The command ends by itself: the far side's program is ended.
    std::fs::remove_file(file("far")).unwrap();
    let mut ended = start(&format!("until [ -s {} ]; do sleep 0.05; done", file("far")));
    assert_eq!(ended.wait().code(), Some(0), "{}", ended.output());
    assert!(!runs(&read("far")));
    // A shell leaves a program behind, which leaves another one behind, which does not end when it is asked.
    let script = format!(
        "(trap '' TERM; echo $BASHPID >{0}.part; mv {0}.part {0}; while :; do sleep 0.1; done) & \
         until [ -s {0} ]; do sleep 0.05; done",
        file("left")
    );
    let mut ended = start(&format!("({script}) & wait"));
    assert_eq!(ended.wait().code(), Some(0), "{}", ended.output());
    assert!(!runs(&read("left")));
    assert!(ended.output().contains("that the command had started"), "{}", ended.output());
}

#[test]
fn each_of_several_lines_is_a_device_of_its_own() {
    let test = "each_of_several_lines_is_a_device_of_its_own";
    if !can(test) {
        return;
    }
    let scratch = Scratch::new("lines");
    let (log, svg) = (scratch.file("log"), scratch.file("link.svg"));
    let far = Far::start(true);
    // Three exchanges with the first line's far address, four with the second one's.
    let script = format!(
        "ask() {{ exec 3<>/dev/udp/$1/{}; for ((i = 0; i < $2; i++)); do \
         echo $i >&3; read -r -N 1 -t 60 -u 3 line || exit 3; done; }}; \
         ask $GLASSLINE_FAR_1 3; ask $GLASSLINE_FAR_2 4; \
         [ $GLASSLINE_FAR = $GLASSLINE_FAR_1 ] && [ $GLASSLINE_NEAR = $GLASSLINE_NEAR_1 ] || exit 4",
        far.port
    );
    let lines = ["--line", "up=5M,delay=10ms", "--line", "up=5M,down=5M,delay=up=40ms,delay=down=30ms"];
    let files = ["--packet-log", &log, "--svg", &svg];
    let report = report(&[&lines[..], &files[..], &["--", "bash", "-c", &script]].concat());
    let packets = |line: usize, way: &str| number(&report, &format!("/lines/{line}/{way}/delivered/packets"));
    assert_eq!((packets(0, "up"), packets(0, "down")), (3.0, 3.0), "{report:#}");
    assert_eq!((packets(1, "up"), packets(1, "down")), (4.0, 4.0), "{report:#}");
    assert!(number(&report, "/lines/0/up/delay_ms/p50") < 35.0, "{report:#}");
    assert!(number(&report, "/lines/1/up/delay_ms/p50") >= 40.0, "{report:#}");
    assert!(number(&report, "/lines/1/down/delay_ms/p50") >= 30.0, "{report:#}");
    let text =
        |key: &str| -> Vec<&str> { [0, 1].map(|line| report["lines"][line][key].as_str().unwrap()).to_vec() };
    for key in ["device", "near", "far"] {
        assert_ne!(text(key)[0], text(key)[1], "{report:#}");
    }
    for number in [1, 2] {
        let log = std::fs::read_to_string(format!("{log}.{number}.up")).unwrap();
        assert!(log.contains(" + "), "{log}");
        let svg = std::fs::read_to_string(scratch.file(&format!("link.{number}.svg"))).unwrap();
        assert!(svg.contains(&format!("behind line {number}")), "{svg}");
    }
    assert_eq!(far.end().0, 7);
    let outcome = link(&[&lines[..], &["--", "true"]].concat());
    assert!(
        outcome.stderr.contains("line 1: gl") && outcome.stderr.contains("line 2: gl"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn a_socket_that_is_bound_to_a_device_reaches_each_far_address_over_it() {
    let test = "a_socket_that_is_bound_to_a_device_reaches_each_far_address_over_it";
    if !can(test) {
        return;
    }
    if !has_program("python3") {
        skip(test, "no python3");
        return;
    }
    let far = Far::start(true);
    let script = format!(
        "import os, socket\n\
         for number in (1, 2):\n\
         \x20   bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
         \x20   bound.setsockopt(socket.SOL_SOCKET, 25, os.environ['GLASSLINE_DEVICE_2'].encode())\n\
         \x20   bound.settimeout(20)\n\
         \x20   bound.sendto(b'x', (os.environ['GLASSLINE_FAR_%d' % number], {}))\n\
         \x20   bound.recvfrom(9)\n",
        far.port
    );
    let lines = ["--line", "up=5M", "--line", "up=5M"];
    let report = report(&[&lines[..], &["--", "python3", "-c", &script]].concat());
    let packets = |line: usize, way: &str| number(&report, &format!("/lines/{line}/{way}/delivered/packets"));
    assert_eq!((packets(0, "up"), packets(1, "up")), (0.0, 2.0), "{report:#}");
    // Answers return over the line whose near address has asked.
    assert_eq!((packets(0, "down"), packets(1, "down")), (0.0, 2.0), "{report:#}");
    assert_eq!(far.end().0, 2);
}

#[test]
fn garbage_is_refused_before_anything_is_made() {
    let scratch = Scratch::new("link");
    let garbage = scratch.write("garbage", "1\n2\nthree\n");
    let falling = scratch.write("falling", "5\n4\n");
    let empty = scratch.write("empty", "");
    for (arguments, words) in [
        (["--up", garbage.as_str()], "line 3 is \"three\""),
        (["--down", falling.as_str()], "line 2 is 4 ms, after 5 ms"),
        (["--up", empty.as_str()], "without a line"),
        (["--up", "/dev/zero"], "at most 67108864"),
        (["--up", "/no/such/trace"], "/no/such/trace"),
        (["--up", "5"], "has no unit"),
        (["--delay", "20"], "has no unit"),
        (["--delay", "2h"], "delay is 7200s; at most 3600s"),
        (["--queue", "256"], "is not a queue"),
        (["--queue", "0p"], "takes nothing"),
        (["--loss", "ge:0.1"], "has 1 parts"),
        (["--loss", "200%"], "is not a probability"),
        (["--reorder", "1%"], "for how long"),
        (["--outage", "random:0s/1s"], "0ns on"),
        (["--outage", "sometimes"], "is no outage"),
        (["--mtu", "20"], "68"),
        (["--duplicate", "101%"], "is not a probability"),
        (["--line", "delay=10ms"], "up is missing"),
        (["--line", "up=5M,rate=5M"], "no key \"rate\""),
        (["--line", "up=5M,delay=2h"], "up: delay is 7200s"),
    ] {
        let outcome = link(&[&arguments[..], &["--", "true"]].concat());
        assert_eq!(outcome.status, Some(2), "{arguments:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(words), "{arguments:?}: {}", outcome.stderr);
    }
    let outcome = link(&["--up", "5M"]);
    assert_eq!(outcome.status, Some(2), "{}", outcome.stderr);
    let outcome = link(&["--line", "up=5M", "--delay", "10ms", "--", "true"]);
    assert_eq!(outcome.status, Some(2), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("cannot be used with"), "{}", outcome.stderr);
}
