//! Servers that find each other's streams by a real server of NATS.

use crate::cluster::{Feed, free_address, see_jump};
use crate::hot::upgrade;
use crate::pull::{HASTE, SHAPE, see, watch};
use crate::{GLASSLINE, glassline};
use glassline_test_support::http::{get, publish, read_head};
use glassline_test_support::numbered::Check;
use glassline_test_support::program::{Running, Scratch, Server};
use glassline_test_support::wait::until;
use glassline_test_support::{has_program, skip};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// A server of NATS with JetStream.
pub(crate) struct Nats {
    pub(crate) address: SocketAddr,
    scratch: Scratch,
    more: Vec<String>,
    process: Option<Running>,
}

impl Nats {
    /// One with these arguments more, or `None` where there is no such program, which is counted.
    pub(crate) fn start(test: &str, more: &[&str]) -> Option<Nats> {
        if !has_program("nats-server") {
            skip(test, "there is no nats-server; apt install nats-server");
            return None;
        }
        let scratch = Scratch::new("nats");
        let more = more.iter().map(|word| (*word).to_owned()).collect();
        let mut nats = Nats { address: free_address("127.31.9.8"), scratch, more, process: None };
        nats.run();
        Some(nats)
    }

    pub(crate) fn run(&mut self) {
        let store = self.scratch.file("store");
        let (host, port) = (self.address.ip().to_string(), self.address.port().to_string());
        let mut command = Command::new("nats-server");
        command.args(["-js", "-sd", &store, "-a", &host, "-p", &port]).args(&self.more);
        self.process = Some(Running::start(&mut command));
        until("NATS to listen", || TcpStream::connect(self.address).is_ok());
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
        }
    }

    fn url(&self) -> String {
        format!("nats://{}", self.address)
    }
}

/// A server of the cluster.
pub(crate) struct Node {
    pub(crate) server: Server,
    pub(crate) scratch: Scratch,
}

pub(crate) fn config(name: &str, zone: &str, address: SocketAddr, nats: &str, more: &str) -> String {
    // Longer than a lease, and than anything here may take.
    let patient = HASTE.replace("silence_timeout = '2s'", "silence_timeout = '60s'");
    format!(
        "{patient}{more}\n[cluster]\nnats = ['{nats}']\nnode = '{name}'\naddress = 'http://{address}'\nzone = '{zone}'\n"
    )
}

impl Node {
    fn start(name: &str, nats: &str) -> Node {
        Node::start_in("here", name, nats)
    }

    fn start_in(zone: &str, name: &str, nats: &str) -> Node {
        Node::start_by(zone, name, nats, ["", ""])
    }

    /// With lines more in front of `[cluster]`, and in it.
    pub(crate) fn start_with(name: &str, nats: &str, more: &str, of_cluster: &str) -> Node {
        Node::start_by("here", name, nats, [more, of_cluster])
    }

    fn start_by(zone: &str, name: &str, nats: &str, [more, of_cluster]: [&str; 2]) -> Node {
        let address = free_address("127.31.9.9");
        let scratch = Scratch::new("node");
        let text = config(name, zone, address, nats, more) + of_cluster + "\n";
        let file = scratch.write("glassline.toml", text);
        let server = Server::start_at(GLASSLINE, &address.to_string(), &["--config", &file]);
        Node { server, scratch }
    }

    pub(crate) fn report(&self) -> serde_json::Value {
        get(self.server.address(), "/api/cluster").json()
    }

    pub(crate) fn hears(&self) -> bool {
        self.report()["registry"]["heard"] == true
    }

    /// Which node has the stream live, as this one knows.
    fn owner(&self, name: &str) -> Option<String> {
        let report = self.report();
        let streams = report["streams"].as_array()?;
        let stream = streams.iter().find(|stream| stream["name"] == name && stream["live"] == true)?;
        Some(stream["node"].as_str()?.to_owned())
    }

    /// From which node the stream comes here, and after how many hops.
    fn pulled(&self, name: &str) -> Option<(String, u64)> {
        let report = self.report();
        let pulled = report["pulled"].as_array()?.iter().find(|pulled| pulled["stream"] == name)?.clone();
        Some((pulled["node"].as_str()?.to_owned(), pulled["hops"].as_u64()?))
    }

    pub(crate) fn until_pulled(&self, name: &str, node: &str, hops: u64) {
        let wanted = Some((node.to_owned(), hops));
        until(&format!("{name} to come from {node}"), || self.pulled(name) == wanted);
    }

    /// Waits until that node is known to carry the stream.
    pub(crate) fn until_carried(&self, name: &str, node: &str) {
        until(&format!("{node} to carry {name}"), || {
            let report = self.report();
            let stream = report["streams"]
                .as_array()
                .and_then(|all| all.iter().find(|it| it["name"] == name).cloned());
            let carriers =
                stream.and_then(|stream| stream["carriers"].as_array().cloned()).unwrap_or_default();
            carriers.iter().any(|carrier| carrier["node"] == node)
        });
    }

    pub(crate) fn until_owner(&self, name: &str, node: &str) {
        until(&format!("{name} to be at {node}"), || self.owner(name).as_deref() == Some(node));
    }
}

pub(crate) fn cluster<const N: usize>(nats: &Nats, names: [&str; N]) -> [Node; N] {
    cluster_in(nats, names.map(|name| ("here", name)))
}

/// Servers, each of a zone.
pub(crate) fn cluster_in<const N: usize>(nats: &Nats, names: [(&str, &str); N]) -> [Node; N] {
    let nodes = names.map(|(zone, name)| Node::start_in(zone, name, &nats.url()));
    for node in &nodes {
        until("the registry to be heard", || {
            let report = node.report();
            let alive = report["nodes"]
                .as_array()
                .map_or(0, |nodes| nodes.iter().filter(|node| node["alive"] == true).count());
            alive == N
        });
    }
    nodes
}

#[test]
fn a_publisher_moves_to_another_server_when_its_own_is_killed_and_viewers_elsewhere_follow() {
    let Some(nats) = Nats::start(
        "a_publisher_moves_to_another_server_when_its_own_is_killed_and_viewers_elsewhere_follow",
        &[],
    ) else {
        return;
    };
    let [mut a, b, c] = cluster(&nats, ["a", "b", "c"]);
    let feed = Feed::start(&a.server, "/live/numbers.ts", 0);
    c.until_owner("numbers", "a");
    let mut viewer = watch(&c.server, "numbers");
    let mut check = Check::new(SHAPE);
    see(&mut viewer, &mut check, 200);
    // The name is taken in all of the cluster.
    let mut refused = publish(b.server.address(), "/live/numbers.ts");
    let answer = read_head(&mut refused);
    assert_eq!(answer.status, 409, "{}", answer.text());
    let next = feed.next_group();
    a.server.process.kill();
    drop(feed);
    // An encoder tries again until it is let in.
    let mut feed = Feed::start(&b.server, "/live/numbers.ts", next);
    until("the publisher to be let in", || {
        if b.server.count("numbers", "bytes_in") == 0 && feed.is_over() {
            feed = Feed::start(&b.server, "/live/numbers.ts", next);
        }
        b.owner("numbers").as_deref() == Some("b")
    });
    see_jump(&mut viewer, &mut check, 1);
    c.until_owner("numbers", "b");
    let metrics = get(b.server.address(), "/metrics").text();
    assert!(
        metrics.contains("glassline_cluster_up 1\n")
            && metrics.contains("glassline_cluster_streams_here 1\n")
    );
}

#[test]
fn a_publisher_that_takes_over_ends_the_old_one_and_its_viewers_follow() {
    let Some(nats) = Nats::start("a_publisher_that_takes_over_ends_the_old_one_and_its_viewers_follow", &[])
    else {
        return;
    };
    let [a, b] = cluster(&nats, ["a", "b"]);
    let old = Feed::start(&a.server, "/live/numbers.ts", 0);
    b.until_owner("numbers", "a");
    let mut viewer = watch(&a.server, "numbers");
    let mut check = Check::new(SHAPE);
    see(&mut viewer, &mut check, 200);
    let _new = Feed::start(&b.server, "/live/numbers.ts?takeover=1", old.next_group() + 5000);
    until("the old publisher to be ended", || old.is_over());
    see_jump(&mut viewer, &mut check, 1);
    a.until_owner("numbers", "b");
}

#[test]
fn what_runs_goes_on_while_nats_is_away_and_joins_by_what_was_heard_last() {
    let Some(mut nats) =
        Nats::start("what_runs_goes_on_while_nats_is_away_and_joins_by_what_was_heard_last", &[])
    else {
        return;
    };
    let [a, b] = cluster(&nats, ["a", "b"]);
    let _feed = Feed::start(&a.server, "/live/numbers.ts", 0);
    b.until_owner("numbers", "a");
    nats.process = None;
    until("both to notice", || !a.hears() && !b.hears());
    let report = b.report();
    assert!(report["registry"]["error"].is_string(), "{report}");
    let mut viewer = watch(&b.server, "numbers");
    let mut check = Check::new(SHAPE);
    see(&mut viewer, &mut check, 200);
    let _other = Feed::start(&b.server, "/live/other.ts", 0);
    until("the publisher to have begun", || b.server.stream("other").is_some());
    let mut watching = watch(&b.server, "other");
    see(&mut watching, &mut Check::new(SHAPE), 100);
    nats.run();
    until("both to hear it", || a.hears() && b.hears());
    a.until_owner("other", "b");
    a.until_owner("numbers", "a");
    let seen = check.packets;
    see(&mut viewer, &mut check, seen + 200);
    assert_eq!(check.moves, 0);
}

#[test]
fn a_server_that_ends_gives_its_streams_back_and_one_that_dies_is_told_to_be_away() {
    let Some(nats) =
        Nats::start("a_server_that_ends_gives_its_streams_back_and_one_that_dies_is_told_to_be_away", &[])
    else {
        return;
    };
    let [mut a, b, mut c] = cluster(&nats, ["a", "b", "c"]);
    let feed = Feed::start(&a.server, "/live/numbers.ts", 0);
    let lost = Feed::start(&c.server, "/live/lost.ts", 0);
    b.until_owner("numbers", "a");
    b.until_owner("lost", "c");
    a.server.process.signal("TERM");
    a.server.process.wait();
    c.server.process.kill();
    drop((feed, lost));
    until("both to be gone", || b.owner("numbers").is_none() && b.owner("lost").is_none());
    assert_eq!(get(b.server.address(), "/live/numbers.ts").status, 404);
    let answer = get(b.server.address(), "/live/lost.ts");
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")), "{}", answer.text());
    let answer = get(b.server.address(), "/live/lost/index.m3u8");
    assert_eq!(answer.status, 503, "{}", answer.text());
    // The next publisher is let in here.
    let _feed = Feed::start(&b.server, "/live/numbers.ts", 0);
    b.until_owner("numbers", "b");
    write_entry(&nats, "stream/news", br#"{"v":9,"owners":["x"]}"#);
    until("the stranger to be seen", || b.report()["unread"][0]["name"] == "news");
    let mut refused = publish(b.server.address(), "/live/news.ts");
    assert_eq!(read_head(&mut refused).status, 409, "it is not written over");
    assert!(b.server.process.output().contains("is not read, and is left as it is"));
}

/// Writes an entry of the bucket as any program may.
fn write_entry(nats: &Nats, key: &str, value: &[u8]) {
    tell_nats(nats, &format!("$KV.glassline.{key}"), value);
}

fn tell_nats(nats: &Nats, subject: &str, value: &[u8]) {
    tell_nats_all(nats, &[(subject.to_owned(), value)]);
}

fn tell_nats_all(nats: &Nats, messages: &[(String, &[u8])]) {
    use std::io::{BufRead, BufReader};
    let mut connection = TcpStream::connect(nats.address).unwrap();
    let mut lines = BufReader::new(connection.try_clone().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("INFO"));
    let mut wire = b"CONNECT {\"verbose\":false}\r\n".to_vec();
    for (subject, value) in messages {
        wire.extend_from_slice(format!("PUB {subject} {}\r\n", value.len()).as_bytes());
        wire.extend_from_slice(value);
        wire.extend_from_slice(b"\r\n");
    }
    wire.extend_from_slice(b"PING\r\n");
    connection.write_all(&wire).unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "PONG");
}

#[test]
fn wrong_credentials_are_told_and_the_server_goes_on() {
    let Some(nats) =
        Nats::start("wrong_credentials_are_told_and_the_server_goes_on", &["--user", "u", "--pass", "p"])
    else {
        return;
    };
    let address = nats.address;
    let good = Node::start("good", &format!("nats://u:p@{address}"));
    until("the registry to be heard", || good.hears());
    let bad = Node::start("bad", &format!("nats://u:wrong@{address}"));
    until("the error", || {
        bad.report()["registry"]["error"]
            .as_str()
            .is_some_and(|error| error.contains("authorization") && error.contains("credentials_file"))
    });
    let _feed = Feed::start(&bad.server, "/live/a.ts", 0);
    until("the publisher", || bad.server.stream("a").is_some_and(|stream| stream["live"] == true));
    let mut viewer = watch(&bad.server, "a");
    see(&mut viewer, &mut Check::new(SHAPE), 100);
    let said = bad.server.process.output();
    assert!(said.contains("registry is not heard") && !said.contains("wrong"), "{said}");
    assert!(get(bad.server.address(), "/metrics").text().contains("glassline_cluster_up 0\n"));
}

#[test]
fn what_is_missing_for_a_registry_is_told() {
    let scratch = Scratch::new("missing");
    for (text, words) in [
        ("nats = ['nats://h']", "cluster.node: is needed with nats"),
        ("nats = ['nats://h']\nnode = 'a'", "cluster.address: is needed with nats"),
        ("nats = ['h:4222']\nnode = 'a'", "cluster.nats: each is an address as nats://HOST:4222"),
        (
            "nats = ['nats://h']\nnode = 'a'\naddress = 'http://h'\nreplicas = 2",
            "cluster.replicas: is 1, 3 or 5",
        ),
    ] {
        let file = scratch.write("glassline.toml", format!("[cluster]\n{text}\n"));
        let outcome = glassline(&["serve", "--test-config", "--config", &file]);
        assert!(outcome.status == Some(2) && outcome.stderr.contains(words), "{}", outcome.stderr);
    }
}

#[test]
fn a_bucket_that_is_removed_is_made_anew_and_all_streams_are_found_again() {
    let test = "a_bucket_that_is_removed_is_made_anew_and_all_streams_are_found_again";
    let Some(nats) = Nats::start(test, &[]) else { return };
    let [a, b] = cluster(&nats, ["a", "b"]);
    let feed = Feed::start(&a.server, "/live/numbers.ts", 0);
    b.until_owner("numbers", "a");
    let mut viewer = watch(&b.server, "numbers");
    let mut check = Check::new(SHAPE);
    see(&mut viewer, &mut check, 100);
    let sessions = |node: &Node| node.report()["registry"]["sessions"].as_u64();
    let before = [&a, &b].map(sessions);
    tell_nats(&nats, "$JS.API.STREAM.DELETE.KV_glassline", b"");
    until("both to notice and to hear it again", || {
        let is_new = |node: &Node, before: Option<u64>| node.hears() && sessions(node) > before;
        is_new(&a, before[0]) && is_new(&b, before[1])
    });
    b.until_owner("numbers", "a");
    a.until_owner("numbers", "a");
    let seen = check.packets;
    see(&mut viewer, &mut check, seen + 300);
    assert!(check.moves == 0 && !feed.is_over(), "what runs goes on");
}

#[test]
fn a_second_server_of_the_same_name_is_told_of() {
    let Some(nats) = Nats::start("a_second_server_of_the_same_name_is_told_of", &[]) else { return };
    let [one] = cluster(&nats, ["same"]);
    assert_eq!(one.report()["registry"]["twin"], false);
    let other = Node::start("same", &nats.url());
    let has_twin = |node: &Node| node.report()["registry"]["twin"] == true;
    until("both to notice", || has_twin(&one) && has_twin(&other));
    drop(other);
    until("it to be told of no longer", || !has_twin(&one));
}

#[test]
fn an_upgrade_or_a_reload_of_a_server_that_pulls_ends_none_of_its_viewers() {
    let test = "an_upgrade_or_a_reload_of_a_server_that_pulls_ends_none_of_its_viewers";
    let Some(nats) = Nats::start(test, &[]) else { return };
    let [mut a, mut b] = cluster(&nats, ["a", "b"]);
    let feed = Feed::start(&a.server, "/live/numbers.ts", 0);
    b.until_owner("numbers", "a");
    let mut viewer = watch(&b.server, "numbers");
    let mut check = Check::new(SHAPE);
    see(&mut viewer, &mut check, 200);
    let goes_on = |viewer: &mut TcpStream, check: &mut Check| {
        let seen = check.packets;
        see(viewer, check, seen + 500);
    };
    let file = b.scratch.file("glassline.toml");
    upgrade(&mut b.server, &file);
    // Where the new process has not heard where the stream is, it makes no objects of its own meanwhile. Where it has, it asks for them in
    // vain: there are no pictures in this stream.
    let address = b.server.address();
    let asked = std::thread::spawn(move || get(address, "/live/numbers/index.m3u8").status);
    goes_on(&mut viewer, &mut check);
    b.until_owner("numbers", "a");
    let file = a.scratch.file("glassline.toml");
    upgrade(&mut a.server, &file);
    b.server.process.signal("HUP");
    goes_on(&mut viewer, &mut check);
    until("the new process to have it", || a.owner("numbers").as_deref() == Some("a"));
    b.until_owner("numbers", "a");
    goes_on(&mut viewer, &mut check);
    assert!(check.moves == 0 && !feed.is_over());
    let status = asked.join().unwrap();
    assert!([200, 502, 503].contains(&status), "{status}");
    assert!(!b.server.process.output().contains("packaging begins"), "{}", b.server.process.output());
}

/// Players of LL-HLS, which ask for one playlist again and again until they are dropped, and what they were answered.
struct Players {
    ends: Arc<AtomicBool>,
    answers: Arc<Mutex<Vec<u16>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Players {
    fn start(address: SocketAddr, target: &'static str) -> Players {
        let (ends, answers) = (Arc::<AtomicBool>::default(), Arc::<Mutex<Vec<u16>>>::default());
        let player = |_| {
            let (ends, answers) = (Arc::clone(&ends), Arc::clone(&answers));
            std::thread::spawn(move || {
                while !ends.load(Ordering::Relaxed) {
                    let status = get(address, target).status;
                    answers.lock().unwrap().push(status);
                    std::thread::sleep(Duration::from_millis(2));
                }
            })
        };
        let threads = (0..2).map(player).collect();
        Players { ends, answers, threads }
    }

    /// Waits until all goes on, and sees that none of them was told that the stream is not there: a player ends then.
    fn go_on(&self, behind: &str) {
        let before = self.answers.lock().unwrap().len();
        until(&format!("players to go on behind {behind}"), || {
            let answers = self.answers.lock().unwrap();
            answers.len() >= before + 20 && answers[answers.len() - 10..].iter().all(|status| *status == 200)
        });
        let answers = self.answers.lock().unwrap();
        let other = answers.iter().find(|status| ![200, 503].contains(status));
        assert_eq!(other, None, "behind {behind}");
    }
}

impl Drop for Players {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[test]
fn an_upgrade_or_a_reload_of_either_server_ends_no_player_of_ll_hls() {
    let test = "an_upgrade_or_a_reload_of_either_server_ends_no_player_of_ll_hls";
    let Some(nats) = Nats::start(test, &[]) else { return };
    let [mut a, mut b] = cluster(&nats, ["a", "b"]);
    let mut encoder = Command::new(GLASSLINE);
    encoder.args("encode test:160x90@25 --keyint 1s --preset ultrafast --audio none".split(' '));
    let mut encoder = Running::start(encoder.arg(a.server.url("/live/clip.ts")));
    b.until_owner("clip", "a");
    let (address, target) = (b.server.address(), "/live/clip/video.m3u8");
    until("the playlist", || get(address, target).status == 200);
    let players = Players::start(address, target);
    players.go_on("the beginning");
    let file = b.scratch.file("glassline.toml");
    for _ in 0..2 {
        upgrade(&mut b.server, &file);
        players.go_on("an upgrade of their server");
        b.until_owner("clip", "a");
    }
    for (node, seen_by) in [(&b, &a), (&a, &b)] {
        let text = std::fs::read_to_string(node.scratch.file("glassline.toml")).unwrap();
        node.scratch.write("glassline.toml", text.replace("zone = 'here'", "zone = 'there'"));
        node.server.process.signal("HUP");
        until("the other zone", || {
            let report = seen_by.report();
            let nodes = report["nodes"].as_array().unwrap();
            nodes.iter().any(|known| known["zone"] == "there" && known["own"] == false)
        });
        b.until_owner("clip", "a");
        players.go_on("a reload");
    }
    let file = a.scratch.file("glassline.toml");
    for _ in 0..2 {
        upgrade(&mut a.server, &file);
        until("the new process to have it", || a.owner("clip").as_deref() == Some("a"));
        b.until_owner("clip", "a");
        players.go_on("an upgrade of the other server");
    }
    assert!(encoder.ended().is_none());
    assert!(!b.server.process.output().contains("packaging begins"), "{}", b.server.process.output());
}

#[test]
fn a_bucket_with_many_names_is_heard_by_a_server_that_comes() {
    const NAMES: usize = 20_000;
    let Some(nats) = Nats::start("a_bucket_with_many_names_is_heard_by_a_server_that_comes", &[]) else {
        return;
    };
    let [a] = cluster(&nats, ["a"]);
    let value = br#"{"v":1,"node":"gone","incarnation":"00000000000000ff","live":false}"#;
    let entries: Vec<(String, &[u8])> =
        (0..NAMES).map(|number| (format!("$KV.glassline.stream/old{number}"), &value[..])).collect();
    tell_nats_all(&nats, &entries);
    let known = |node: &Node| node.report()["streams"].as_array().map_or(0, Vec::len);
    until("all of them", || known(&a) == NAMES);
    let feed = Feed::start(&a.server, "/live/numbers.ts", 0);
    let b = Node::start("b", &nats.url());
    until("all of them at the other server", || b.hears() && known(&b) == NAMES + 1);
    b.until_owner("numbers", "a");
    assert_eq!(b.report()["registry"]["sessions"], 1, "{}", b.server.process.output());
    assert!(!feed.is_over());
}

#[test]
fn versions_of_a_capture_are_one_presentation_at_each_server() {
    let test = "versions_of_a_capture_are_one_presentation_at_each_server";
    let Some(nats) = Nats::start(test, &[]) else { return };
    let encode = "[encode.hall]\ninput = 'test:320x180@25'\npreset = 'ultrafast'\nkeyint = '1s'\nthreads = 1\n\
                  renditions = ['320x180@25:500k', '160x90@25:300k']\n";
    let a = Node::start_with("a", &nats.url(), encode, "");
    let b = Node::start("b", &nats.url());
    let names = ["hall-180p25", "hall-90p25"];
    names.iter().for_each(|name| b.until_owner(name, "a"));
    // A viewer of one version, which is pulled for it, makes no other presentation at B.
    let mut viewer = watch(&b.server, names[1]);
    let mut some = [0; 188 * 64];
    std::io::Read::read_exact(&mut viewer, &mut some).unwrap();
    let text = |node: &Node, path: &str| {
        let answer = get(node.server.address(), path);
        (answer.status == 200).then(|| answer.text().to_owned())
    };
    until("the playlist of both", || {
        let path = "/live/hall/index.m3u8";
        let (here, there) = (text(&b, path), text(&a, path));
        here.as_ref().is_some_and(|text| names.iter().all(|name| text.contains(name))) && here == there
    });
    let playlist = |node: &Node| text(node, "/live/hall-90p25/video.m3u8");
    until("the same objects at both", || playlist(&b).is_some_and(|text| Some(text) == playlist(&a)));
    assert!(!b.server.process.output().contains("packaging begins"), "{}", b.server.process.output());
}

#[test]
fn a_stream_is_pulled_from_a_carrier_of_the_zone_and_that_is_told() {
    let test = "a_stream_is_pulled_from_a_carrier_of_the_zone_and_that_is_told";
    let Some(nats) = Nats::start(test, &[]) else { return };
    let [far, one, two, three] =
        cluster_in(&nats, [("far", "far"), ("near", "one"), ("near", "two"), ("far", "three")]);
    let feed = Feed::start(&far.server, "/live/numbers.ts", 0);
    two.until_owner("numbers", "far");
    one.until_owner("numbers", "far");
    three.until_owner("numbers", "far");
    let mut first = watch(&one.server, "numbers");
    see(&mut first, &mut Check::new(SHAPE), 100);
    one.until_pulled("numbers", "far", 1);
    two.until_carried("numbers", "one");
    let mut viewer = watch(&two.server, "numbers");
    let mut check = Check::new(SHAPE);
    see(&mut viewer, &mut check, 200);
    two.until_pulled("numbers", "one", 2);
    // A server of the owner's own zone asks the owner.
    three.until_carried("numbers", "one");
    see(&mut watch(&three.server, "numbers"), &mut Check::new(SHAPE), 100);
    three.until_pulled("numbers", "far", 1);
    let shown = glassline(&["cluster", "status", "--server", &two.server.url("")]).text();
    let line = shown.lines().skip_while(|line| !line.starts_with("PULLED HERE")).nth(1).unwrap_or_default();
    assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["numbers", "one", "2"], "{shown}");
    let metrics = get(two.server.address(), "/metrics").text();
    assert!(metrics.contains("glassline_cluster_streams_pulled{hops=\"2\"} 1\n"), "{metrics}");
    assert!(!feed.is_over());
}

#[test]
fn a_carrier_that_does_not_have_the_stream_any_more_is_passed_over_at_once() {
    let test = "a_carrier_that_does_not_have_the_stream_any_more_is_passed_over_at_once";
    let Some(nats) = Nats::start(test, &[]) else { return };
    let [far, one, two] = cluster_in(&nats, [("far", "far"), ("near", "one"), ("near", "two")]);
    let _feed = Feed::start(&far.server, "/live/numbers.ts", 0);
    two.until_owner("numbers", "far");
    // A server that is about to have no stream any more is told of still: another name of the one that has none.
    let epoch = two.report()["streams"][0]["epoch"].as_u64().unwrap();
    let run = r#""v":1,"node":"ghost","incarnation":"00000000000000ff""#;
    let node = format!(r#"{{{run},"address":"{}","zone":"near"}}"#, one.server.url(""));
    let entry = format!(r#"{{{run},"streams":{{"numbers":[{epoch},1]}}}}"#);
    write_entry(&nats, "node/ghost", node.as_bytes());
    write_entry(&nats, "carries/ghost", entry.as_bytes());
    two.until_carried("numbers", "ghost");
    let mut viewer = watch(&two.server, "numbers");
    let mut check = Check::new(SHAPE);
    see(&mut viewer, &mut check, 200);
    two.until_pulled("numbers", "far", 1);
    let metrics = get(two.server.address(), "/metrics").text();
    let passed = "glassline_cluster_passed_over_total{reason=\"waits\"} 1\n";
    assert!(metrics.contains(passed) && check.moves == 0, "{metrics}");
    assert!(one.pulled("numbers").is_none(), "nothing is pulled for another server");
    // A stranger's entry and one of a later version are told of and left as they are.
    for (key, value) in [("carries/x", &b"{\"v\":2}"[..]), ("carries/ghost", b"hello")] {
        write_entry(&nats, key, value);
    }
    until("both to be told", || {
        let said = two.server.process.output();
        said.matches("is not read, and is left as it is").count() >= 2
    });
}

#[test]
fn a_stream_goes_on_with_no_byte_twice_when_its_carrier_dies_or_stands_still() {
    let test = "a_stream_goes_on_with_no_byte_twice_when_its_carrier_dies_or_stands_still";
    let Some(nats) = Nats::start(test, &[]) else { return };
    let [far, mut one, two, three] =
        cluster_in(&nats, [("far", "far"), ("near", "one"), ("near", "two"), ("near", "three")]);
    let feed = Feed::start(&far.server, "/live/numbers.ts", 0);
    [&one, &two, &three].iter().for_each(|node| node.until_owner("numbers", "far"));
    let mut first = watch(&one.server, "numbers");
    see(&mut first, &mut Check::new(SHAPE), 100);
    two.until_carried("numbers", "one");
    three.until_carried("numbers", "one");
    let mut viewer = watch(&two.server, "numbers");
    let mut check = Check::new(SHAPE);
    see(&mut viewer, &mut check, 200);
    two.until_pulled("numbers", "one", 2);
    // It says nothing any more, and its system takes connections still. Bytes are missing then.
    one.server.process.signal("STOP");
    let mut joins = watch(&three.server, "numbers");
    see(&mut joins, &mut Check::new(SHAPE), 100);
    see_jump(&mut viewer, &mut check, 1);
    two.until_pulled("numbers", "far", 1);
    one.server.process.kill();
    // One that dies tells so by itself: of what comes from the owner then, all that was here before is passed over.
    let four = Node::start_in("far-off", "four", &nats.url());
    let five = Node::start_in("far-off", "five", &nats.url());
    [&four, &five].iter().for_each(|node| node.until_owner("numbers", "far"));
    let mut first = watch(&four.server, "numbers");
    see(&mut first, &mut Check::new(SHAPE), 100);
    five.until_carried("numbers", "four");
    let mut viewer = watch(&five.server, "numbers");
    let mut check = Check::new(SHAPE);
    see(&mut viewer, &mut check, 200);
    five.until_pulled("numbers", "four", 2);
    drop(four);
    let seen = check.packets;
    see(&mut viewer, &mut check, seen + 500);
    five.until_pulled("numbers", "far", 1);
    assert!(check.moves <= 1 && !feed.is_over(), "{}", check.moves);
    let metrics = get(five.server.address(), "/metrics").text();
    let passed = metrics
        .lines()
        .filter(|line| line.starts_with("glassline_cluster_passed_over_total") && !line.ends_with(" 0"));
    assert_eq!(passed.count(), 1, "{metrics}");
}
