//! Random schedules of what goes wrong in a cluster of three servers, in real processes: servers are killed, stopped for a while, cut from
//! NATS and from each other, and NATS itself is killed. Five schedules; `GLASSLINE_SCHEDULES` says how many, `GLASSLINE_SEED` which.

use crate::GLASSLINE;
use crate::cluster::free_address;
use crate::cluster_nats::{Nats, config};
use crate::pull::SHAPE;
use glassline_test_support::http::get;
use glassline_test_support::numbered::Check;
use glassline_test_support::program::{Scratch, Server};
use glassline_test_support::wait::until;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const TARGET: &str = "/live/numbers.ts";
const NODES: [&str; 3] = ["a", "b", "c"];
/// For an encoder and a viewer the connection is broken after this.
const PATIENCE_OF_CLIENTS: Duration = Duration::from_secs(1);
/// How soon they try again.
const PAUSE: Duration = Duration::from_millis(50);

/// A line to NATS, or to a server, that can be cut.
struct Line {
    address: SocketAddr,
    is_cut: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Line {
    fn to(far: SocketAddr) -> Line {
        let listener = TcpListener::bind("127.31.9.10:0").unwrap();
        let line =
            Line { address: listener.local_addr().unwrap(), is_cut: Arc::default(), open: Arc::default() };
        let (is_cut, open) = (Arc::clone(&line.is_cut), Arc::clone(&line.open));
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Some(far) = TcpStream::connect(far).ok().filter(|_| !is_cut.load(Ordering::SeqCst))
                else {
                    continue;
                };
                let ends = [near.try_clone().unwrap(), far.try_clone().unwrap()];
                open.lock().unwrap().extend(ends);
                for (mut from, mut to) in [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)]
                {
                    std::thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
            }
        });
        line
    }

    fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
        for end in self.open.lock().unwrap().drain(..) {
            let _ = end.shutdown(Shutdown::Both);
        }
    }

    fn heal(&self) {
        self.is_cut.store(false, Ordering::SeqCst);
    }
}

struct Member {
    address: SocketAddr,
    file: String,
    /// To NATS.
    line: Line,
    /// By which the other servers reach this one; viewers and encoders come straight.
    door: Line,
    server: Option<Server>,
    _scratch: Scratch,
}

impl Member {
    fn new(name: &str, nats: SocketAddr) -> Member {
        let (address, scratch, line) = (free_address("127.31.9.11"), Scratch::new("member"), Line::to(nats));
        let url = format!("nats://{}", line.address);
        let door = Line::to(address);
        let file = scratch.write("glassline.toml", config(name, "here", door.address, &url, ""));
        let mut member = Member { address, file, line, door, server: None, _scratch: scratch };
        member.start();
        member
    }

    fn start(&mut self) {
        let listen = self.address.to_string();
        self.server = Some(Server::start_at(GLASSLINE, &listen, &["--config", &self.file]));
    }

    fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.process.kill();
        }
    }

    fn signal(&self, name: &str) {
        if let Some(server) = &self.server {
            server.process.signal(name);
        }
    }
}

/// A connection whose peer may be stopped, or gone.
fn connect(address: SocketAddr, request: &str) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE_OF_CLIENTS)?;
    stream.set_read_timeout(Some(PATIENCE_OF_CLIENTS))?;
    stream.set_write_timeout(Some(PATIENCE_OF_CLIENTS))?;
    stream.set_nodelay(true)?;
    write!(stream, "{request} {TARGET} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    Ok(stream)
}

/// What all threads of a run have in common.
struct Shared {
    ends: AtomicBool,
    addresses: [SocketAddr; 3],
    /// The next picture.
    next: AtomicU64,
    /// The server that the encoder is connected to, or tries.
    at: AtomicUsize,
    /// The newest packet of each viewer.
    newest: [AtomicU64; 3],
    connections: AtomicU64,
    faults: Mutex<Vec<String>>,
    begun: Instant,
}

impl Shared {
    fn goes_on(&self) -> bool {
        !self.ends.load(Ordering::Relaxed)
    }

    fn fault(&self, what: String) {
        self.faults.lock().unwrap().push(format!("{:.3} s: {what}", self.begun.elapsed().as_secs_f64()));
    }

    /// An encoder, which goes to the next server when its connection is refused or broken, with a key frame later than all that it has
    /// sent.
    fn encode(&self) {
        while self.goes_on() {
            let server = self.at.load(Ordering::Relaxed);
            if let Ok(mut stream) = connect(self.addresses[server], "PUT") {
                let group = self.next.load(Ordering::Relaxed).div_ceil(SHAPE.group) + 1;
                for number in group * SHAPE.group.. {
                    if !self.goes_on() || stream.write_all(&SHAPE.picture(number)).is_err() {
                        break;
                    }
                    self.next.store(number + 1, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
            std::thread::sleep(PAUSE);
            self.at.store((server + 1) % NODES.len(), Ordering::Relaxed);
        }
    }

    /// A viewer that stays with its server, and comes again when the connection has ended.
    fn watch(&self, index: usize) {
        while self.goes_on() {
            if let Ok(stream) = connect(self.addresses[index], "GET")
                && let Err(wrong) = self.view(stream, index)
            {
                self.fault(format!("viewer of {}: {wrong}", NODES[index]));
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn view(&self, mut stream: TcpStream, index: usize) -> Result<(), String> {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read(&mut byte) {
                Ok(1) => head.push(byte[0]),
                _ => return Ok(()),
            }
        }
        let head = String::from_utf8_lossy(&head).into_owned();
        match head.split(' ').nth(1) {
            Some("200") => {}
            Some("503") if head.to_ascii_lowercase().contains("\r\nretry-after: ") => return Ok(()),
            // It has just begun and nothing was published, or what was is forgotten.
            Some("404") => return Ok(()),
            _ => return Err(head),
        }
        self.connections.fetch_add(1, Ordering::Relaxed);
        let chunked = head.to_ascii_lowercase().contains("transfer-encoding");
        assert!(!chunked, "{head}");
        let (mut check, mut buffer) = (Check::new(SHAPE), vec![0; 64 << 10]);
        while self.goes_on() {
            let count = match stream.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => count,
                // Its server is stopped, or waits for a publisher.
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
                Err(_) => return Ok(()),
            };
            check.push(&buffer[..count]).map_err(|wrong| wrong.to_string())?;
            if let Some(last) = check.last_packet() {
                self.newest[index].store(last, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Looks at all servers, again and again: a stream's epoch is one server's.
    fn look(&self) {
        let mut owners: BTreeMap<(String, u64), BTreeSet<String>> = BTreeMap::new();
        while self.goes_on() {
            for address in self.addresses {
                let Some(report) = report(address) else { continue };
                for stream in report["streams"].as_array().into_iter().flatten() {
                    let key = (stream["name"].to_string(), stream["epoch"].as_u64().unwrap_or(0));
                    let known = owners.entry(key.clone()).or_default();
                    if known.insert(stream["node"].to_string()) && known.len() > 1 {
                        self.fault(format!("two owners of {key:?}: {known:?}"));
                    }
                }
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// What a server tells of the cluster, where it answers.
fn report(address: SocketAddr) -> Option<serde_json::Value> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE_OF_CLIENTS).ok()?;
    stream.set_read_timeout(Some(PATIENCE_OF_CLIENTS)).ok()?;
    write!(stream, "GET /api/cluster HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let body = answer.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    serde_json::from_slice(&answer[body..]).ok()
}

/// A generator of numbers that look random (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound
    }

    fn time(&mut self, most: u64) -> Duration {
        Duration::from_millis(100 + self.below(most))
    }
}

/// Nothing happens for this time, which is a part of the schedule.
fn pass(time: Duration) {
    std::thread::sleep(time);
}

/// One thing, or two at once, that goes wrong and is well again.
fn go_wrong(random: &mut Random, members: &mut [Member; 3], nats: &mut Nats) -> String {
    let mut told = Vec::new();
    let (mut killed, mut stopped, mut cut, mut alone, mut without_nats) =
        (Vec::new(), None, None, None, false);
    for _ in 0..1 + random.below(2) {
        let index = random.below(3) as usize;
        match random.below(5) {
            0 if stopped != Some(index) && !killed.contains(&index) => {
                members[index].kill();
                killed.push(index);
                told.push(format!("kill {}", NODES[index]));
            }
            1 if !killed.contains(&index) && stopped.is_none() => {
                members[index].signal("STOP");
                stopped = Some(index);
                told.push(format!("stop {}", NODES[index]));
            }
            2 if cut.is_none() => {
                members[index].line.cut();
                cut = Some(index);
                told.push(format!("cut {} from NATS", NODES[index]));
            }
            3 if alone.is_none() => {
                members[index].door.cut();
                alone = Some(index);
                told.push(format!("cut {} from the others", NODES[index]));
            }
            4 if !without_nats => {
                nats.kill();
                without_nats = true;
                told.push("kill NATS".to_owned());
            }
            _ => {}
        }
        pass(random.time(800));
    }
    pass(random.time(2_500));
    if without_nats {
        nats.run();
    }
    if let Some(index) = cut {
        members[index].line.heal();
    }
    if let Some(index) = alone {
        members[index].door.heal();
    }
    if let Some(index) = stopped {
        members[index].signal("CONT");
    }
    killed.into_iter().for_each(|index| members[index].start());
    told.join(", ")
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn whatever_goes_wrong_each_viewer_gets_the_stream_again_and_no_wrong_byte() {
    let test = "whatever_goes_wrong_each_viewer_gets_the_stream_again_and_no_wrong_byte";
    let Some(mut nats) = Nats::start(test, &[]) else { return };
    let (schedules, seed) = (number("GLASSLINE_SCHEDULES", 5), number("GLASSLINE_SEED", 1));
    let mut members = NODES.map(|name| Member::new(name, nats.address));
    let addresses = [0, 1, 2].map(|index: usize| members[index].address);
    for address in addresses {
        until("the registry to be heard", || {
            get(address, "/api/cluster").json()["registry"]["heard"] == true
        });
    }
    let shared = Arc::new(Shared {
        ends: AtomicBool::new(false),
        addresses,
        next: AtomicU64::new(0),
        at: AtomicUsize::new(0),
        newest: Default::default(),
        connections: AtomicU64::new(0),
        faults: Mutex::default(),
        begun: Instant::now(),
    });
    let run = |act: fn(&Shared)| {
        let shared = Arc::clone(&shared);
        std::thread::spawn(move || act(&shared))
    };
    let threads: [JoinHandle<()>; 5] = [
        run(Shared::encode),
        run(|shared| shared.watch(0)),
        run(|shared| shared.watch(1)),
        run(|shared| shared.watch(2)),
        run(Shared::look),
    ];
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut longest = Duration::ZERO;
    for schedule in 0..=schedules {
        // The first one is of what goes well.
        let told = if schedule == 0 { String::new() } else { go_wrong(&mut random, &mut members, &mut nats) };
        let healed = Instant::now();
        // What is newer than all that was sent until now.
        let newer = (shared.next.load(Ordering::Relaxed) + SHAPE.group) * SHAPE.packets;
        until(&format!("all viewers to get what is new after {schedule}: {told}"), || {
            let faults = shared.faults.lock().unwrap();
            assert!(faults.is_empty(), "{schedule}: {told}: {faults:#?}");
            shared.newest.iter().all(|newest| newest.load(Ordering::Relaxed) > newer)
        });
        longest = longest.max(healed.elapsed());
        eprintln!("{schedule}: {told}: all have it after {:.2} s", healed.elapsed().as_secs_f64());
    }
    shared.ends.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let faults = shared.faults.lock().unwrap();
    assert!(faults.is_empty(), "{faults:#?}");
    eprintln!("{schedules} schedules: the longest took {:.2} s", longest.as_secs_f64());
}
