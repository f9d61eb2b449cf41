//! The registry itself: three servers of NATS of which one dies, of Debian's version and of the newest, over TLS, and away while a server
//! is upgraded.

use crate::cluster::{Feed, free_address};
use crate::cluster_nats::{Nats, Node};
use crate::hot::upgrade;
use crate::pull::{SHAPE, see, watch};
use glassline_test_support::numbered::Check;
use glassline_test_support::program::{Running, Scratch};
use glassline_test_support::tls::Identity;
use glassline_test_support::wait::until;
use glassline_test_support::{has_program, skip};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;

/// As `scripts/setup` has it.
const NEWEST: &str = "2.15.3";

/// The newest NATS, where `scripts/setup` could build it.
fn newest() -> Option<PathBuf> {
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home)?;
    let program = cache.join(format!("glassline/nats-server-{NEWEST}/bin/nats-server"));
    program.exists().then_some(program)
}

/// Three servers of NATS that are one.
struct Three {
    program: PathBuf,
    scratch: Scratch,
    /// For clients, and for each other.
    addresses: [(SocketAddr, SocketAddr); 3],
    running: [Option<Running>; 3],
}

impl Three {
    fn start(program: PathBuf) -> Three {
        let addresses = [10, 11, 12].map(|host| {
            let host = format!("127.31.10.{host}");
            (free_address(&host), free_address(&host))
        });
        let mut three =
            Three { program, scratch: Scratch::new("nats"), addresses, running: [None, None, None] };
        (0..3).for_each(|index| three.run(index));
        three
    }

    fn run(&mut self, index: usize) {
        let (client, route) = self.addresses[index];
        let routes: Vec<_> = self.addresses.iter().map(|(_, route)| format!("nats://{route}")).collect();
        let mut command = Command::new(&self.program);
        command.args([
            "-js",
            "-sd",
            &self.scratch.file(&format!("store{index}")),
            "-n",
            &format!("n{index}"),
        ]);
        command.args(["-a", &client.ip().to_string(), "-p", &client.port().to_string()]);
        command.args(["-cluster_name", "three", "-cluster", &format!("nats://{route}")]);
        command.args(["-routes", &routes.join(",")]);
        self.running[index] = Some(Running::start(&mut command));
        until("NATS to listen", || TcpStream::connect(client).is_ok());
    }

    fn kill(&mut self, index: usize) {
        if let Some(mut running) = self.running[index].take() {
            running.kill();
        }
    }

    /// A server of ours that knows all three, this one first.
    fn node(&self, name: &str, first: usize) -> Node {
        let urls: Vec<_> =
            (0..3).map(|index| format!("nats://{}", self.addresses[(first + index) % 3].0)).collect();
        // The configuration has the list's quotes.
        Node::start_with(name, &urls.join("', '"), "", "replicas = 3")
    }
}

/// Each of the three dies in turn, the one that leads the bucket among them: what runs goes on, and new streams are claimed and found.
fn one_of_three_dies(program: PathBuf) {
    let mut nats = Three::start(program);
    let [a, b] = [nats.node("a", 0), nats.node("b", 1)];
    let _feed = Feed::start(&a.server, "/live/numbers.ts", 0);
    b.until_owner("numbers", "a");
    let mut viewer = watch(&b.server, "numbers");
    let mut check = Check::new(SHAPE);
    see(&mut viewer, &mut check, 100);
    for index in 0..3 {
        nats.kill(index);
        let name = format!("new{index}");
        let feed = Feed::start(&b.server, &format!("/live/{name}.ts"), 0);
        a.until_owner(&name, "b");
        // It is let go and claimed by the other, so that a write is agreed on too.
        let next = feed.next_group();
        let _over = Feed::start(&a.server, &format!("/live/{name}.ts?takeover=1"), next + 5000);
        until("the old publisher to be ended", || feed.is_over());
        b.until_owner(&name, "a");
        nats.run(index);
        until("both to hear it", || a.hears() && b.hears());
        let seen = check.packets;
        see(&mut viewer, &mut check, seen + 100);
    }
    assert_eq!(check.moves, 0, "what runs goes on");
}

#[test]
fn one_of_three_servers_of_nats_dies_and_streams_are_claimed_and_found_all_the_same() {
    let test = "one_of_three_servers_of_nats_dies_and_streams_are_claimed_and_found_all_the_same";
    match has_program("nats-server") {
        true => one_of_three_dies("nats-server".into()),
        false => skip(test, "there is no nats-server; apt install nats-server"),
    }
}

#[test]
fn the_newest_nats_serves_as_a_registry_too() {
    match newest() {
        Some(program) => one_of_three_dies(program),
        None => skip(
            "the_newest_nats_serves_as_a_registry_too",
            "the newest nats-server is not installed (scripts/setup test builds it where Go is new enough)",
        ),
    }
}

#[test]
fn a_registry_over_tls_is_trusted_by_its_authority_alone() {
    let test = "a_registry_over_tls_is_trusted_by_its_authority_alone";
    let (scratch, identity, other) =
        (Scratch::new("certificates"), Identity::new(&["127.31.9.8"]), Identity::new(&["127.31.9.8"]));
    identity.write(&scratch, "nats");
    other.write(&scratch, "other");
    let [chain, key, wrong] = ["nats.pem", "nats.key", "other.pem"].map(|name| scratch.file(name));
    let Some(nats) = Nats::start(test, &["--tls", "--tlscert", &chain, "--tlskey", &key]) else { return };
    let url = format!("tls://{}", nats.address);
    let good = Node::start_with("good", &url, "", &format!("nats_ca = '{chain}'"));
    until("the registry to be heard", || good.hears());
    for (name, authority) in [("wrong", format!("nats_ca = '{wrong}'")), ("none", String::new())] {
        let node = Node::start_with(name, &url, "", &authority);
        until("the error", || {
            let report = node.report();
            let error = report["registry"]["error"].as_str().unwrap_or_default();
            error.contains("certificate") || error.contains("nats_ca")
        });
        let report = node.report();
        let error = report["registry"]["error"].as_str().unwrap_or_default().to_owned();
        assert!(error.contains("nats_ca"), "it says what to do: {error}");
        // It serves its own streams all the same.
        let _feed = Feed::start(&node.server, "/live/a.ts", 0);
        until("the publisher", || node.server.stream("a").is_some_and(|stream| stream["live"] == true));
    }
}

#[test]
fn a_server_that_is_upgraded_while_nats_is_away_keeps_its_streams_and_what_it_pulls() {
    let test = "a_server_that_is_upgraded_while_nats_is_away_keeps_its_streams_and_what_it_pulls";
    let Some(mut nats) = Nats::start(test, &[]) else { return };
    let [mut a, mut b] = crate::cluster_nats::cluster(&nats, ["a", "b"]);
    let feed = Feed::start(&a.server, "/live/numbers.ts", 0);
    b.until_owner("numbers", "a");
    let mut viewer = watch(&b.server, "numbers");
    let mut check = Check::new(SHAPE);
    see(&mut viewer, &mut check, 200);
    nats.kill();
    until("both to notice", || !a.hears() && !b.hears());
    for node in [&mut b, &mut a] {
        let file = node.scratch.file("glassline.toml");
        upgrade(&mut node.server, &file);
        let seen = check.packets;
        see(&mut viewer, &mut check, seen + 500);
    }
    assert!(check.moves == 0 && !feed.is_over(), "what runs goes on");
    nats.run();
    until("both to hear it", || a.hears() && b.hears());
    a.until_owner("numbers", "a");
    b.until_owner("numbers", "a");
    let seen = check.packets;
    see(&mut viewer, &mut check, seen + 300);
    assert!(check.moves == 0 && !feed.is_over(), "what runs goes on");
}

#[test]
fn a_server_that_was_upgraded_notices_the_death_of_another_one() {
    let test = "a_server_that_was_upgraded_notices_the_death_of_another_one";
    let Some(nats) = Nats::start(test, &[]) else { return };
    let [mut a, mut b] = crate::cluster_nats::cluster(&nats, ["a", "b"]);
    let _feed = Feed::start(&a.server, "/live/numbers.ts", 0);
    b.until_owner("numbers", "a");
    let file = b.scratch.file("glassline.toml");
    upgrade(&mut b.server, &file);
    until("the new process to hear it", || b.hears());
    b.until_owner("numbers", "a");
    a.server.process.kill();
    let is_alive = |node: &Node| {
        let report = node.report();
        let nodes = report["nodes"].as_array().cloned().unwrap_or_default();
        nodes.iter().any(|node| node["name"] == "a" && node["alive"] == true)
    };
    until("the death to be noticed", || !is_alive(&b));
    // Its stream may be published there.
    let _next = Feed::start(&b.server, "/live/numbers.ts", 5000);
    b.until_owner("numbers", "b");
}
