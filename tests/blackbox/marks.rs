//! Marks of viewers' connections, and the traffic control that goes by them.

use crate::{GLASSLINE, glassline, serve_with};
use glassline_test_support::http::{connect, publish, read_head};
use glassline_test_support::numbered::Shape;
use glassline_test_support::program::{Running, Scratch, Server, run};
use glassline_test_support::wait::until;
use glassline_test_support::{has_program, skip};
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

const SHAPE: Shape = Shape { packets: 60, group: 10 };
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/tc-per-viewer.sh");

/// Whether a program ran well.
fn does(program: &str, arguments: &[&str]) -> bool {
    has_program(program) && run(program, arguments, 60).status == Some(0)
}

/// Whether this process, and so the server that it starts, may mark connections.
fn may_mark() -> bool {
    socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)
        .is_ok_and(|socket| socket.set_mark(1).is_ok())
}

/// A viewer that is let in.
fn watch(server: &Server, target: &str) -> TcpStream {
    let mut stream = connect(server.address());
    write!(stream, "GET {target} HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    assert_eq!(read_head(&mut stream).status, 200);
    stream
}

/// The mark of the server's socket for a viewer, as the kernel tells it.
fn mark_of(server: &Server, viewer: &TcpStream) -> Option<u32> {
    let (here, there) = (server.address().port(), viewer.local_addr().unwrap().port());
    let filter = format!("( sport = :{here} and dport = :{there} )");
    let shown = run("ss", &["-Htne", &filter], 60);
    assert_eq!(shown.status, Some(0), "{}", shown.stderr);
    let text = shown.text();
    let (_, rest) = text.split_once("fwmark:0x")?;
    u32::from_str_radix(rest.split_whitespace().next()?, 16).ok()
}

#[test]
fn each_viewer_has_a_mark_of_its_own_while_there_are_any() {
    let name = "each_viewer_has_a_mark_of_its_own_while_there_are_any";
    if !may_mark() || !has_program("ss") {
        return skip(name, "no CAP_NET_ADMIN, or no ss (iproute2)");
    }
    let (server, _scratch) = serve_with(
        "[viewer]\nmark_pool = '1000-1001'\nmark = 7\n[stream.b]\nmark_pool = '2000-2000'\n[stream.c]\nmark = 9\n",
    );
    let _publishers = ["a", "b", "c"].map(|name| {
        let mut publisher = publish(server.address(), &format!("/live/{name}.ts"));
        publisher.write_all(&SHAPE.picture(0)).unwrap();
        until("the stream", || server.count(name, "bytes_in") > 0);
        publisher
    });
    let mut viewers: Vec<_> = ["/live/a.ts", "/live/c.ts", "/live/a.ts", "/live/c.ts", "/live/b.ts"]
        .map(|target| watch(&server, target))
        .into();
    let marks: Vec<_> = viewers.iter().map(|viewer| mark_of(&server, viewer)).collect();
    assert_eq!(marks, [Some(1000), Some(1001), Some(7), Some(9), Some(2000)]);
    let counts = || {
        let metrics = server.metrics();
        ["glassline_marks_in_use", "glassline_marks_exhausted_total"].map(|name| metrics.sum(name, "") as u64)
    };
    assert_eq!(counts(), [3, 2]);
    // What was given back is given out again.
    drop(viewers.remove(0));
    until("the mark that was given back", || counts()[0] == 2);
    let next = watch(&server, "/live/a.ts");
    assert_eq!((mark_of(&server, &next), counts()), (Some(1000), [3, 2]));
    // A look at the head takes no mark.
    drop((viewers, next));
    until("all marks", || counts() == [0, 2]);
    let mut head = connect(server.address());
    write!(head, "HEAD /live/a.ts HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    assert_eq!(read_head(&mut head).status, 200);
    assert_eq!(counts(), [0, 2]);
}

#[test]
fn marks_that_cannot_be_set_are_an_error_at_the_start() {
    let name = "marks_that_cannot_be_set_are_an_error_at_the_start";
    let scratch = Scratch::new("marks");
    let config =
        scratch.write("glassline.toml", "listen = ['127.0.0.1:0']\n[stream.a]\nmark_pool = '1000-1999'\n");
    let serve = ["serve", "--config", &config];
    let outcome = if may_mark() {
        let without = ["--bounding-set=-net_admin,-net_raw", "--inh-caps=-net_admin,-net_raw", "--"];
        if !does("setpriv", &[&without[..], &["true"]].concat()) {
            return skip(name, "no setpriv that may take capabilities away");
        }
        run("setpriv", &[&without[..], &[GLASSLINE], &serve].concat(), 60)
    } else {
        glassline(&serve)
    };
    assert_eq!(outcome.status, Some(1), "{}", outcome.stderr);
    for words in ["SO_MARK", "setcap cap_net_admin+ep", "AmbientCapabilities=CAP_NET_ADMIN", "mark_pool"] {
        assert!(outcome.stderr.contains(words), "{}", outcome.stderr);
    }
    // Whether the file is good is another question.
    assert_eq!(glassline(&["serve", "--config", &config, "--test-config"]).status, Some(0));
}

#[test]
fn the_script_says_how_it_is_used() {
    assert!(does("bash", &["-n", SCRIPT]));
    for bad in [&[][..], &["eth0"], &["eth0", "1mbit"], &["eth0", "1mbit", "1mbit", "1mbit", "x"]] {
        let outcome = run(SCRIPT, bad, 60);
        assert_eq!(outcome.status, Some(2), "{bad:?}");
        assert!(outcome.stderr.contains("tc-per-viewer.sh DEVICE LINE RATE CEIL"), "{}", outcome.stderr);
    }
    for bad in ["0-9", "9-8", "1-70000", "1-4294967296"] {
        let outcome = run(SCRIPT, &["eth0", "1mbit", "1mbit", "1mbit", bad], 60);
        assert_eq!(outcome.status, Some(2), "{bad}");
        assert!(outcome.stderr.contains("at most 65000"), "{}", outcome.stderr);
    }
}

/// Two network namespaces with a cable between: the server's and the viewers'. Gone with it.
struct Cable {
    server: String,
    viewers: String,
}

impl Cable {
    fn new() -> Option<Cable> {
        let id = std::process::id();
        let cable = Cable { server: format!("glassline-s{id}"), viewers: format!("glassline-v{id}") };
        let (s, v) = (cable.server.as_str(), cable.viewers.as_str());
        let link = ["link", "add", "gl0", "netns", s, "type", "veth", "peer", "name", "gl0", "netns", v];
        let is_there = does("ip", &["netns", "add", s])
            && does("ip", &["netns", "add", v])
            && does("ip", &link)
            && [(s, "10.77.0.1/24"), (v, "10.77.0.2/24")].iter().all(|(name, address)| {
                does("ip", &["-n", name, "addr", "add", address, "dev", "gl0"])
                    && does("ip", &["-n", name, "link", "set", "gl0", "up"])
                    && does("ip", &["-n", name, "link", "set", "lo", "up"])
            });
        is_there.then_some(cable)
    }

    fn within(name: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", name, program]);
        command
    }

    /// Bytes that went through a class of the server's end.
    fn bytes_of(&self, class: &str) -> u64 {
        let shown = run("tc", &["-n", &self.server, "-s", "class", "show", "dev", "gl0"], 60).text();
        let (_, rest) = shown.split_once(&format!("class htb {class} ")).expect("the class");
        let (_, rest) = rest.split_once("Sent ").expect("its counts");
        rest.split_whitespace().next().and_then(|bytes| bytes.parse().ok()).expect("a number")
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for name in [&self.server, &self.viewers] {
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

#[test]
fn traffic_control_has_a_class_for_each_viewer() {
    let name = "traffic_control_has_a_class_for_each_viewer";
    if !may_mark() || !has_program("tc") || !Path::new(SCRIPT).exists() {
        return skip(name, "no CAP_NET_ADMIN, or no tc (iproute2)");
    }
    let Some(cable) = Cable::new() else {
        return skip(name, "network namespaces with a veth pair cannot be made here");
    };
    let script = |arguments: &[&str]| {
        Cable::within(&cable.server, SCRIPT).args(arguments).output().expect("the script runs")
    };
    let tc = |action| ["-n", &cable.server, "qdisc", action, "dev", "gl0", "root", "handle", "1:", "htb"];
    if !does("tc", &tc("add")) || !does("tc", &tc("del")) {
        return skip(name, "this kernel has no HTB");
    }
    let made = script(&["gl0", "900mbit", "20mbit", "40mbit", "1000-1099"]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let scratch = Scratch::new("classes");
    let config = scratch.write(
        "glassline.toml",
        "listen = ['10.77.0.1:8080']\n[publish]\nopen = true\n[viewer]\nmark_pool = '1000-1099'\n",
    );
    let server = Running::start(Cable::within(&cable.server, GLASSLINE).args(["serve", "--config", &config]));
    until("the server", || server.output().contains("open http://"));
    let url = "http://10.77.0.1:8080/live/load.ts";
    let _source = Running::start(
        Cable::within(&cable.server, GLASSLINE).args(["lab", "load", "source", url, "--rate", "2M"]),
    );
    until("the source", || server.output().contains("publisher began"));
    let mut load = Running::start(Cable::within(&cable.viewers, GLASSLINE).args([
        "lab",
        "load",
        "http",
        url,
        "--viewers",
        "3",
        "--duration",
        "1h",
    ]));
    // The classes of the marks 1000, 1001 and 1002, and nobody else's.
    until("bytes in each viewer's class", || {
        ["1:10", "1:11", "1:12"].iter().all(|class| cable.bytes_of(class) > 100_000)
    });
    assert_eq!((cable.bytes_of("1:13"), cable.bytes_of("1:73")), (0, 0));
    load.signal("INT");
    assert_eq!(load.wait().code(), Some(0), "{}", load.output());
    assert!(script(&["gl0", "clean"]).status.success());
    let left = run("tc", &["-n", &cable.server, "class", "show", "dev", "gl0"], 60);
    assert_eq!(left.text(), "");
}
