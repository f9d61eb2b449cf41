//! Many viewers of one stream, and each gets every byte right.

use crate::serve_with;
use glassline_test_support::http::read_once;
use glassline_test_support::http::{get, publish, read_head};
use glassline_test_support::numbered::{Check, Shape};
use glassline_test_support::program::Server;
use glassline_test_support::wait::{PATIENCE, until};
use socket2::{Domain, Socket, Type};
use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// 2.3 Mbit/s at 25 pictures a second; a key frame every 0.4 s.
const SHAPE: Shape = Shape { packets: 60, group: 10 };
const PICTURE_TIME: Duration = Duration::from_millis(40);
const PICTURE_BYTES: u64 = SHAPE.packets * 188;
const RATE_BPS: f64 = (PICTURE_BYTES * 8 * 25) as f64;
const VIEWERS: u64 = 200;

/// How a viewer behaves. Each is decided by the seed alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// Reads all at once, until it has seen 100 pictures.
    Attentive,
    /// Goes in the middle of things, after so many bytes.
    Leaves { after_bytes: u64 },
    /// Reads so many hundredths of the stream's rate, until it has been moved forward so many times.
    Slow { percent: u64, moves: u64 },
}

/// What the publisher has done, for all to see.
#[derive(Debug, Default)]
struct Air {
    pictures: AtomicU64,
    over: AtomicBool,
}

impl Air {
    fn pictures(&self) -> u64 {
        self.pictures.load(Ordering::Acquire)
    }

    /// Waits until the server has the stream; where it never gets it, the publisher ends.
    fn reaches(&self, server: &Server) {
        let deadline = Instant::now() + PATIENCE;
        while server.count("many", "bytes_in") == 0 {
            if Instant::now() > deadline {
                self.over.store(true, Ordering::Release);
                panic!("the stream does not reach the server");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for a picture; a viewer's sense of time.
    fn wait_for(&self, picture: u64) {
        until("the publisher's next picture", || {
            self.pictures() >= picture || self.over.load(Ordering::Acquire)
        });
    }
}

/// A generator of numbers that looks random (splitmix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ mixed >> 31) % below
    }
}

fn seed() -> u64 {
    let given = std::env::var("GLASSLINE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| std::process::id().into());
    eprintln!("GLASSLINE_SEED={seed}");
    seed
}

/// Sends pictures at their rate until all viewers have seen enough.
fn send(publisher: TcpStream, air: &Air) {
    send_each(PICTURE_TIME, publisher, air);
}

fn send_each(picture_time: Duration, mut publisher: TcpStream, air: &Air) {
    let began = Instant::now();
    for number in 0.. {
        if air.over.load(Ordering::Acquire) {
            return;
        }
        publisher.write_all(&SHAPE.picture(number)).unwrap();
        air.pictures.store(number + 1, Ordering::Release);
        std::thread::sleep((picture_time * (number as u32 + 1)).saturating_sub(began.elapsed()));
    }
}

fn join(server: &Server, manner: Manner) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    if matches!(manner, Manner::Slow { .. }) {
        socket.set_recv_buffer_size(32 << 10).unwrap();
    }
    socket.connect(&server.address().into()).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET /live/many.ts HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    let head = read_head(&mut stream);
    assert_eq!((head.status, head.header("content-type")), (200, Some("video/mp2t")));
    assert_eq!(head.header("transfer-encoding"), None, "the body is the bare stream");
    stream
}

/// Watches in its manner and returns the check with what it saw, or what was wrong.
fn watch(server: &Server, air: &Air, manner: Manner, join_at: u64) -> Result<Check, String> {
    air.wait_for(join_at);
    let mut stream = join(server, manner);
    let (mut check, mut read, began) = (Check::new(SHAPE), 0, air.pictures());
    let mut buffer = vec![0; 64 << 10];
    loop {
        match manner {
            Manner::Attentive if check.packets >= 100 * SHAPE.packets => return Ok(check),
            Manner::Leaves { after_bytes } if read >= after_bytes => return Ok(check),
            Manner::Slow { moves, .. } if check.moves >= moves => return Ok(check),
            Manner::Slow { percent, .. } => {
                air.wait_for(began + read * 100 / percent / PICTURE_BYTES + 1);
            }
            Manner::Attentive | Manner::Leaves { .. } => {}
        }
        let limit = if matches!(manner, Manner::Slow { .. }) { 8 << 10 } else { buffer.len() };
        match read_once(&mut stream, &mut buffer[..limit]) {
            Ok(0) => return Err(format!("ended after {read} bytes")),
            Ok(count) => {
                read += count as u64;
                check.push(&buffer[..count]).map_err(|wrong| wrong.to_string())?;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(format!("after {read} bytes: {error}")),
        }
    }
}

fn manner(dice: &mut Dice) -> Manner {
    match dice.roll(10) {
        0..6 => Manner::Attentive,
        6..9 => Manner::Leaves { after_bytes: 1 + dice.roll(40 * PICTURE_BYTES) },
        _ => Manner::Slow { percent: 15 + dice.roll(25), moves: 1 },
    }
}

#[test]
fn two_hundred_viewers_get_every_byte_right() {
    two_hundred_viewers("flush = 'frame'\nsend_path = 'auto'\n");
}

#[test]
fn two_hundred_viewers_get_every_byte_right_by_sendfile_and_pictures_together() {
    two_hundred_viewers("flush = 'balanced'\nsend_path = 'sendfile'\n");
}

fn two_hundred_viewers(settings: &str) {
    let (server, _scratch) =
        serve_with(&format!("[viewer]\nbacklog = '1s'\nbacklog_max = '1MiB'\n{settings}"));
    let (mut dice, air) = (Dice(seed()), Air::default());
    let publisher = publish(server.address(), "/live/many.ts");
    // At least one slow viewer, whatever the seed says.
    let plans: Vec<(Manner, u64)> = (0..VIEWERS)
        .map(|index| {
            let drawn = manner(&mut dice);
            let manner = if index == 0 { Manner::Slow { percent: 20, moves: 1 } } else { drawn };
            (manner, 1 + dice.roll(100))
        })
        .collect();
    let mut moves_seen = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| send(publisher, &air));
        air.reaches(&server);
        let viewers: Vec<_> = plans
            .iter()
            .map(|&(manner, join_at)| {
                let (server, air) = (&server, &air);
                let watcher = std::thread::Builder::new().stack_size(256 << 10);
                watcher.spawn_scoped(scope, move || watch(server, air, manner, join_at)).unwrap()
            })
            .collect();
        let mut wrong = Vec::new();
        for (viewer, plan) in viewers.into_iter().zip(&plans) {
            match viewer.join() {
                Ok(Ok(check)) => {
                    moves_seen += check.moves;
                    if !matches!(plan.0, Manner::Slow { .. }) && check.moves > 0 {
                        // Allowed on a machine that is too busy, and counted all the same.
                        eprintln!("{plan:?} was moved forward {} times", check.moves);
                    }
                }
                Ok(Err(what)) => wrong.push(format!("{plan:?}: {what}")),
                Err(_) => wrong.push(format!("{plan:?}: panicked")),
            }
        }
        air.over.store(true, Ordering::Release);
        assert!(wrong.is_empty(), "{} of {VIEWERS} viewers: {wrong:#?}", wrong.len());
    });

    let slow = plans.iter().filter(|plan| matches!(plan.0, Manner::Slow { .. })).count() as u64;
    assert!(moves_seen >= slow, "{slow} slow viewers saw {moves_seen} moves");
    let counted = server.metrics().sum("glassline_stream_moved_forward_total", "\"many\"");
    assert!(counted >= moves_seen as f64, "{moves_seen} moves were seen, /metrics counts {counted}");
    until("all viewers to be gone", || server.count("many", "viewers") == 0);
    assert_eq!(server.count("many", "continuity_errors"), 0);
    assert_eq!(server.count("many", "garbage_bytes"), 0);
}

#[test]
fn readers_at_each_tenth_of_the_rate_get_nothing_wrong_over_many_turns_of_the_backlog() {
    // Sixteen times as fast as usual, so that the backlog of 1 MiB turns over four times a second. Each packet bears its
    // number, in all of its bytes: what is wrong, missing or repeated shows, and so does where a move leads.
    let picture_time = PICTURE_TIME / 16;
    for settings in ["send_path = 'auto'\n", "flush = 'balanced'\nsend_path = 'sendfile'\n"] {
        let (server, _scratch) = serve_with(&format!(
            "[viewer]\nbacklog = '1s'\nbacklog_max = '1MiB'\npacing = 'off'\n{settings}"
        ));
        let air = Air::default();
        let publisher = publish(server.address(), "/live/many.ts");
        let (moves, read) = std::thread::scope(|scope| {
            scope.spawn(|| send_each(picture_time, publisher, &air));
            air.reaches(&server);
            let readers: Vec<_> = (1..10)
                .map(|tenth| {
                    // The fastest one needs several turns until it is behind a whole one.
                    let manner = Manner::Slow { percent: tenth * 10, moves: if tenth < 9 { 3 } else { 1 } };
                    let (server, air) = (&server, &air);
                    scope.spawn(move || {
                        watch(server, air, manner, 1).map_err(|what| format!("{manner:?}: {what}"))
                    })
                })
                .collect();
            let seen = |reader: ScopedJoinHandle<'_, _>| reader.join().unwrap_or(Err("panicked".into()));
            let checks: Vec<_> = readers.into_iter().map(seen).collect();
            air.over.store(true, Ordering::Release);
            let checks: Vec<Check> = checks.into_iter().collect::<Result<_, _>>().unwrap();
            let sum = |of: fn(&Check) -> u64| checks.iter().map(of).sum::<u64>();
            (sum(|check| check.moves), sum(|check| check.packets))
        });
        let turns = air.pictures() * PICTURE_BYTES / (1 << 20);
        eprintln!("{moves} moves, {read} packets right, {turns} turns of the backlog");
        assert!(moves >= 25 && turns >= 5, "{moves} moves in {turns} turns");
        let counted = server.metrics().sum("glassline_stream_moved_forward_total", "\"many\"");
        assert!(counted >= moves as f64, "{moves} moves were seen, /metrics counts {counted}");
    }
}

#[test]
fn a_viewer_on_the_whole_way_misses_nothing() {
    for send_path in ["auto", "sendfile"] {
        watch_all(&format!("send_path = '{send_path}'\n"), 400);
    }
}

#[test]
fn what_waits_to_leave_with_the_next_picture_leaves_without_it_too() {
    watch_all("flush = 'balanced'\n", 60);
    watch_all("flush = 'thrifty'\n", 30);
}

/// One viewer of `pictures` pictures, of which each comes only when the one before has been seen whole.
fn watch_all(settings: &str, pictures: u64) {
    let (server, _scratch) = serve_with(&format!("[viewer]\n{settings}"));
    let mut publisher = publish(server.address(), "/live/all.ts");
    publisher.write_all(&SHAPE.picture(0)).unwrap();
    until("the first picture", || server.count("all", "bytes_in") > 0);
    let mut viewer = glassline_test_support::http::connect(server.address());
    write!(viewer, "GET /live/all.ts HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    read_head(&mut viewer);
    let mut check = Check::new(SHAPE);
    let mut buffer = vec![0; 64 << 10];
    for number in 1..pictures {
        publisher.write_all(&SHAPE.picture(number)).unwrap();
        // Every packet arrives with no later one to push it.
        while check.packets < (number + 1) * SHAPE.packets {
            let count = read_once(&mut viewer, &mut buffer).unwrap();
            assert!(count > 0, "ended after {} packets", check.packets);
            check.push(&buffer[..count]).unwrap();
        }
    }
    assert_eq!(check.moves, 0);
}

#[test]
fn a_viewer_is_paced_as_the_stream_is_set() {
    for (section, setting, range) in [
        ("viewer", "4x", 4.0 * 0.7 * RATE_BPS..4.0 * 4.0 * RATE_BPS),
        ("stream.many", "20M", 20e6..20.1e6),
        ("viewer", "off", 0.0..0.0),
    ] {
        let (server, _scratch) = serve_with(&format!("[{section}]\npacing = '{setting}'\n"));
        let air = Air::default();
        let publisher = publish(server.address(), "/live/many.ts");
        std::thread::scope(|scope| {
            scope.spawn(|| send(publisher, &air));
            air.wait_for(30);
            let told = server.stream("many").and_then(|stream| stream["pacing_bps"].as_f64());
            let mut viewer = join(&server, Manner::Attentive);
            let mut buffer = vec![0; 64 << 10];
            let mut seen = None;
            // It is listed once its worker has looked at it.
            for _ in 0..400 {
                assert!(read_once(&mut viewer, &mut buffer).unwrap() > 0);
                let clients = get(server.address(), "/api/clients").json();
                seen = clients["clients"].get(0).map(|client| client["pacing_bps"].as_f64());
                if seen.is_some() {
                    break;
                }
            }
            air.over.store(true, Ordering::Release);
            let seen = seen.expect("it is listed");
            match setting {
                "off" => assert_eq!((told, seen), (None, None)),
                // At a rate that was given everybody is paced; else a path may have shown that it need not be.
                "20M" => assert!(told == seen && range.contains(&seen.unwrap_or(0.0)), "{told:?}, {seen:?}"),
                _ => assert!(
                    [told, seen.or(told)].iter().all(|bps| range.contains(&bps.unwrap_or(0.0))),
                    "{told:?}, {seen:?}"
                ),
            }
        });
    }
}
