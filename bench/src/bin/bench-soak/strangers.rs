//! Those who come and go beside the viewers: each manner has a thread, which does it again and again.

use anyhow::{Context, Result, ensure};
use glassline_bench::http::{connect, read_all};
use glassline_lab::load::stamped::Source;
use glassline_media::Time;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What is done once; the number tells the rounds apart. An error is an answer that should not have come.
type Act = fn(SocketAddr, u64) -> Result<()>;

/// A manner, and how long it rests in between.
struct Manner {
    name: &'static str,
    act: Act,
    rest: Duration,
}

const MANNERS: [Manner; 5] = [
    Manner { name: "send garbage", act: send_garbage, rest: Duration::from_millis(50) },
    Manner { name: "close half", act: close_half, rest: Duration::from_millis(100) },
    Manner { name: "ask several things at once", act: pipeline, rest: Duration::from_millis(100) },
    Manner { name: "publish and go", act: publish, rest: Duration::from_millis(200) },
    Manner { name: "publish and break off", act: break_off, rest: Duration::from_millis(200) },
];
/// Who reads nothing comes this often and stays so long, if the server lets it.
const STALL_EVERY: Duration = Duration::from_millis(200);
const STALL_FOR: Duration = Duration::from_secs(8);
/// Names that publishers come and go under.
const NAMES: u64 = 4;
/// Complaints that are kept.
const COMPLAINTS: usize = 5;

/// What strangers have done.
#[derive(Default)]
pub(crate) struct Tally {
    /// How often each manner was done, those who read nothing last.
    done: [AtomicU64; MANNERS.len() + 1],
    pub(crate) wrong: AtomicU64,
    complaints: Mutex<Vec<String>>,
}

impl Tally {
    /// How often each was done.
    pub(crate) fn done(&self) -> Vec<(&'static str, u64)> {
        let names = MANNERS.iter().map(|manner| manner.name).chain(["ask and read nothing"]);
        names.zip(self.done.iter().map(|count| count.load(Ordering::Relaxed))).collect()
    }

    /// Some of the answers that should not have come.
    pub(crate) fn complaints(&self) -> Vec<String> {
        self.complaints.lock().map(|complaints| complaints.clone()).unwrap_or_default()
    }

    fn count(&self, index: usize, name: &str, result: Result<()>) {
        self.done[index].fetch_add(1, Ordering::Relaxed);
        if let Err(error) = result {
            self.wrong.fetch_add(1, Ordering::Relaxed);
            if let Ok(mut complaints) = self.complaints.lock()
                && complaints.len() < COMPLAINTS
            {
                complaints.push(format!("those who {name}: {error:#}"));
            }
        }
    }
}

/// Lets them all come until `over`.
pub(crate) fn come(address: SocketAddr, over: &AtomicBool, tally: &Tally) {
    std::thread::scope(|scope| {
        for (index, manner) in MANNERS.iter().enumerate() {
            scope.spawn(move || {
                for round in 0.. {
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    tally.count(index, manner.name, (manner.act)(address, round));
                    sleep(manner.rest);
                }
            });
        }
        scope.spawn(|| stall(address, over, tally));
    });
}

fn ask_to_watch(address: SocketAddr) -> Result<TcpStream> {
    let mut stream = connect(address)?;
    write!(stream, "GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n", crate::PATH)?;
    Ok(stream)
}

/// Viewers whose connections take nothing: the server lets them go, or they go.
fn stall(address: SocketAddr, over: &AtomicBool, tally: &Tally) {
    let mut held: VecDeque<(Instant, Option<TcpStream>)> = VecDeque::new();
    while !over.load(Ordering::Relaxed) {
        let asked = ask_to_watch(address);
        let (stream, result) = match asked {
            Ok(stream) => (Some(stream), Ok(())),
            Err(error) => (None, Err(error)),
        };
        held.push_back((Instant::now(), stream));
        tally.count(MANNERS.len(), "ask and read nothing", result);
        while held.front().is_some_and(|(since, _)| since.elapsed() > STALL_FOR) {
            held.pop_front();
        }
        sleep(STALL_EVERY);
    }
}

fn send_garbage(address: SocketAddr, round: u64) -> Result<()> {
    let mut stream = connect(address)?;
    let length = 100 + round * 37 % 20_000;
    let garbage: Vec<u8> =
        (0..length).map(|at| ((at.wrapping_mul(2_654_435_761) + round * 7919) >> 13) as u8).collect();
    let heads = [
        "",
        "GET / HTTP/1.1\r\nHost: ",
        "PUT /live/rubbish.ts?takeover=1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "PUT /live/rubbish.ts?takeover=1 HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST /api/streams HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999\r\n\r\n",
        "\x16\x03\x01\x02\x00",
    ];
    // The server may close before it has all.
    let _ = stream.write_all(heads[round as usize % heads.len()].as_bytes());
    let _ = stream.write_all(&garbage);
    let _ = stream.shutdown(Shutdown::Write);
    let answer = read_all(&mut stream)?;
    ensure!(!answer.starts_with(b"HTTP/1.1 5"), "{}", String::from_utf8_lossy(&answer));
    Ok(())
}

fn close_half(address: SocketAddr, round: u64) -> Result<()> {
    let mut stream = ask_to_watch(address)?;
    stream.shutdown(Shutdown::Write)?;
    let _ = stream.read(&mut [0; 4096]);
    let mut publisher = connect(address)?;
    write!(publisher, "PUT /live/half-{}.ts?takeover=1 HTTP/1.1\r\nHost: localhost\r\n\r\n", round % NAMES)?;
    let _ = publisher.write_all(&frames(1)[..1000]);
    publisher.shutdown(Shutdown::Write)?;
    read_all(&mut publisher)?;
    Ok(())
}

fn pipeline(address: SocketAddr, _: u64) -> Result<()> {
    let mut stream = connect(address)?;
    let asked =
        [("HEAD /healthz", "200"), ("GET /gen204", "204"), ("GET /metrics", "200"), ("GET /none", "404")];
    for (request, _) in asked {
        write!(stream, "{request} HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    }
    write!(stream, "HEAD {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", crate::PATH)?;
    let text = String::from_utf8_lossy(&read_all(&mut stream)?).into_owned();
    let statuses: Vec<&str> = text.split("HTTP/1.1 ").skip(1).filter_map(|answer| answer.get(..3)).collect();
    let expected: Vec<&str> = asked.iter().map(|(_, status)| *status).chain(["200"]).collect();
    ensure!(statuses == expected, "{statuses:?} instead of {expected:?}");
    Ok(())
}

/// The first frames of a stamped stream.
fn frames(count: usize) -> Vec<u8> {
    let (mut source, mut bytes) = (Source::default(), Vec::new());
    (0..count).for_each(|_| source.frame(Time::ZERO, &mut bytes));
    bytes
}

fn begin(address: SocketAddr, name: &str) -> Result<TcpStream> {
    let mut publisher = connect(address)?;
    write!(publisher, "PUT /live/{name}.ts?takeover=1 HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    Ok(publisher)
}

fn publish(address: SocketAddr, round: u64) -> Result<()> {
    let mut publisher = begin(address, &format!("come-{}", round % NAMES))?;
    publisher.write_all(&frames(20))?;
    publisher.shutdown(Shutdown::Write)?;
    let answer = read_all(&mut publisher)?;
    let told = String::from_utf8_lossy(&answer);
    let status = told.get(9..12).context("a publisher is not answered")?;
    ensure!(matches!(status, "200" | "204"), "a publisher is answered {status}");
    Ok(())
}

fn break_off(address: SocketAddr, round: u64) -> Result<()> {
    let mut publisher = begin(address, &format!("torn-{}", round % NAMES))?;
    publisher.write_all(&frames(3)[..5000 + round as usize * 61 % 5000])?;
    Ok(())
}
