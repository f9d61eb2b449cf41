//! What strangers do: each manner has a thread, which does it again and again at both servers.

use crate::files::{GOOD_BYTES, byte};
use anyhow::{Context, Result, ensure};
use glassline_bench::http::{connect, read_all};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What is done once, at the origin and the edge; the number tells the rounds apart. An error is an answer that should not have
/// come.
type Act = fn(&mut Held, [SocketAddr; 2], u64) -> Result<()>;

/// Connections that a manner keeps open.
#[derive(Default)]
struct Held(Vec<TcpStream>);

struct Manner {
    name: &'static str,
    act: Act,
    rest: Duration,
}

const fn manner(name: &'static str, act: Act, rest_ms: u64) -> Manner {
    Manner { name, act, rest: Duration::from_millis(rest_ms) }
}

const MANNERS: [Manner; 14] = [
    manner("good objects", good_object, 50),
    manner("ranges without an end", endless_range, 50),
    manner("large objects by many queries", many_queries, 250),
    manner("blocking reloads, hung up", hung_up, 7),
    manner("long Via", long_via, 3),
    manner("forwarded fields", forwarded, 20),
    manner("redirects", redirects, 100),
    manner("long queries of playlists", long_queries, 50),
    manner("idle connections", idle, 20),
    manner("refused publishers", refused_publishers, 20),
    manner("stage reports", reports, 20),
    manner("paths of many readings", paths, 20),
    manner("garbage", garbage, 50),
    manner("half requests", half_requests, 50),
];
/// The number of the manner that is none of an attacker's.
const GOOD: usize = 0;
/// Idle connections that one address keeps at each server.
const IDLE_MAX: usize = 700;
const COMPLAINTS: usize = 5;
/// A good object may take this long, however busy the servers are.
const GOOD_OBJECT_TIMEOUT: Duration = Duration::from_secs(10);

/// What was done, as one process tells it to another.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// How often each manner was done, in the order of [`names`].
    pub(crate) counts: Vec<u64>,
    /// Good objects that did not come, or not as they are.
    pub(crate) wrong: u64,
    pub(crate) complaints: Vec<String>,
}

/// The manners' names.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    MANNERS.iter().map(|manner| manner.name)
}

/// What was done.
pub(crate) struct Done {
    counts: [AtomicU64; MANNERS.len()],
    left_out: Vec<String>,
    wrong: AtomicU64,
    complaints: Mutex<Vec<String>>,
}

impl Done {
    /// Nothing yet; the manners `left_out` are not done.
    pub(crate) fn new(left_out: &[String]) -> Done {
        Done {
            counts: Default::default(),
            left_out: left_out.to_vec(),
            wrong: AtomicU64::new(0),
            complaints: Mutex::default(),
        }
    }

    /// The sum of it.
    pub(crate) fn figures(&self) -> Figures {
        Figures {
            counts: self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect(),
            wrong: self.wrong.load(Ordering::Relaxed),
            complaints: self.complaints.lock().map(|complaints| complaints.clone()).unwrap_or_default(),
        }
    }

    fn count(&self, index: usize, result: Result<()>) {
        self.counts[index].fetch_add(1, Ordering::Relaxed);
        // What becomes of an attacker is no concern, as long as it is answered at all or hung up on.
        let Err(error) = result else { return };
        if index == GOOD {
            self.wrong.fetch_add(1, Ordering::Relaxed);
        }
        if let Ok(mut complaints) = self.complaints.lock()
            && complaints.len() < COMPLAINTS
        {
            complaints.push(format!("{}: {error:#}", MANNERS[index].name));
        }
    }
}

/// Lets them all come until `over`.
pub(crate) fn come(servers: [SocketAddr; 2], over: &AtomicBool, done: &Done) {
    std::thread::scope(|scope| {
        for (index, manner) in MANNERS.iter().enumerate() {
            if done.left_out.iter().any(|name| name == manner.name) {
                continue;
            }
            scope.spawn(move || {
                let mut held = Held::default();
                for round in 0.. {
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    done.count(index, (manner.act)(&mut held, servers, round));
                    sleep(manner.rest);
                }
            });
        }
    });
}

/// Sends a request whose head is `fields` behind the first line, and returns the connection.
fn ask(server: SocketAddr, line: &str, fields: &str) -> Result<TcpStream> {
    let mut stream = connect(server)?;
    // The server may hang up before it has all.
    let _ = stream.write_all(format!("{line} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n").as_bytes());
    Ok(stream)
}

/// Reads what comes for a moment.
fn sip(mut stream: TcpStream) {
    let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
    let _ = stream.read(&mut [0; 4096]);
}

fn good_object(_: &mut Held, [_, edge]: [SocketAddr; 2], round: u64) -> Result<()> {
    let began = Instant::now();
    let path = format!("GET /files/good-{}", round % 3);
    let mut stream = ask(edge, &path, "Connection: close\r\n")?;
    let answer = read_all(&mut stream)?;
    let head_end = answer.windows(4).position(|four| four == b"\r\n\r\n").context("no head")? + 4;
    let head = String::from_utf8_lossy(&answer[..head_end]);
    ensure!(head.starts_with("HTTP/1.1 200 "), "{}", head.lines().next().unwrap_or_default());
    let body = &answer[head_end..];
    ensure!(body.len() == GOOD_BYTES, "{} bytes", body.len());
    ensure!(body.iter().enumerate().all(|(at, found)| *found == byte(at)), "wrong bytes");
    ensure!(began.elapsed() < GOOD_OBJECT_TIMEOUT, "it took {:?}", began.elapsed());
    Ok(())
}

fn endless_range(_: &mut Held, [origin, edge]: [SocketAddr; 2], round: u64) -> Result<()> {
    let ranges =
        ["0-18446744073709551615", "18446744073709551615-18446744073709551615", "-18446744073709551615"];
    let range = format!("Range: bytes={}\r\n", ranges[round as usize % ranges.len()]);
    sip(ask(edge, &format!("GET /files/grow-{}", round % 5), &range)?);
    for server in [origin, edge] {
        sip(ask(server, "GET /live/show/video/init-0.mp4", &range)?);
    }
    Ok(())
}

fn many_queries(_: &mut Held, [_, edge]: [SocketAddr; 2], round: u64) -> Result<()> {
    for number in 0..8 {
        sip(ask(edge, &format!("GET /files/large?{round}-{number}"), "")?);
    }
    Ok(())
}

fn hung_up(_: &mut Held, servers: [SocketAddr; 2], round: u64) -> Result<()> {
    for server in servers {
        drop(ask(
            server,
            &format!("GET /live/show/video.m3u8?_HLS_msn={}&x={round}", 1_000_000_000 + round),
            "",
        )?);
    }
    Ok(())
}

fn long_via(_: &mut Held, [_, edge]: [SocketAddr; 2], round: u64) -> Result<()> {
    let via = format!("Via: {}\r\n", "1.1 a, ".repeat(2200));
    drop(ask(
        edge,
        if round.is_multiple_of(2) { "GET /live/show/index.m3u8" } else { "GET /files/good-0" },
        &via,
    )?);
    Ok(())
}

fn forwarded(_: &mut Held, servers: [SocketAddr; 2], round: u64) -> Result<()> {
    let value = "x".repeat(4000);
    let fields = ["X-Forwarded-For", "Forwarded", "Cookie", "Authorization", "If-None-Match", "Accept"];
    let field = format!("{}: {value}\r\n", fields[round as usize % fields.len()]);
    for server in servers {
        sip(ask(server, "GET /files/good-1", &field)?);
    }
    Ok(())
}

fn redirects(_: &mut Held, [_, edge]: [SocketAddr; 2], round: u64) -> Result<()> {
    sip(ask(edge, &format!("GET /files/moved-{}", round % 4), "")?);
    Ok(())
}

fn long_queries(_: &mut Held, servers: [SocketAddr; 2], round: u64) -> Result<()> {
    for server in servers {
        let target = format!("GET /live/show/index.m3u8?a{round}={}", "b".repeat(4000));
        sip(ask(server, &target, "")?);
    }
    Ok(())
}

fn idle(held: &mut Held, servers: [SocketAddr; 2], _: u64) -> Result<()> {
    for server in servers {
        let mut stream = ask(server, "GET /gen204", "")?;
        let _ = stream.read(&mut [0; 512]);
        held.0.push(stream);
    }
    if held.0.len() >= 2 * IDLE_MAX {
        held.0.clear();
    }
    Ok(())
}

fn refused_publishers(_: &mut Held, servers: [SocketAddr; 2], round: u64) -> Result<()> {
    for server in servers {
        // The name is an encoder's, or somebody's who is there.
        for target in ["PUT /live/show.ts", "PUT /live/soak.ts", "PUT /live/../x.ts"] {
            sip(ask(server, target, "Transfer-Encoding: chunked\r\n")?);
        }
        sip(ask(server, &format!("GET /live/unknown-{round}.ts"), "Connection: close\r\n")?);
    }
    Ok(())
}

fn reports(_: &mut Held, servers: [SocketAddr; 2], round: u64) -> Result<()> {
    let body = "{\"parts\":{\"network\":[1000000000,1000000000]},\"pictures\":4000000000}";
    for server in servers {
        let origin = if round.is_multiple_of(2) { "Origin: http://example.com\r\n" } else { "" };
        let fields = format!("Content-Type: text/plain\r\n{origin}Content-Length: {}\r\n", body.len());
        let mut stream = ask(server, "POST /live/show/stages", &fields)?;
        let _ = stream.write_all(body.as_bytes());
        sip(stream);
    }
    Ok(())
}

fn paths(_: &mut Held, servers: [SocketAddr; 2], round: u64) -> Result<()> {
    let paths = [
        "/live;x/show.ts",
        "/LIVE/show.ts",
        "/.%00/live/show.ts",
        "/%2e%2e/live/show.ts",
        "//live/show.ts",
        "/live/./show.ts",
        "/live\\show.ts",
        "/%252e%252e/live/show.ts",
    ];
    for server in servers {
        sip(ask(server, &format!("GET {}", paths[round as usize % paths.len()]), "Connection: close\r\n")?);
    }
    Ok(())
}

fn garbage(_: &mut Held, servers: [SocketAddr; 2], round: u64) -> Result<()> {
    let length = 100 + round * 37 % 20_000;
    let bytes: Vec<u8> =
        (0..length).map(|at| ((at.wrapping_mul(2_654_435_761) + round * 7919) >> 13) as u8).collect();
    for server in servers {
        let mut stream = connect(server)?;
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(Shutdown::Write);
        sip(stream);
    }
    Ok(())
}

fn half_requests(held: &mut Held, servers: [SocketAddr; 2], round: u64) -> Result<()> {
    for server in servers {
        let mut stream = connect(server)?;
        let _ = write!(stream, "GET /live/show/index.m3u8?{round} HTTP/1.1\r\nHost: local");
        held.0.push(stream);
    }
    if held.0.len() > 200 {
        held.0.clear();
    }
    Ok(())
}
