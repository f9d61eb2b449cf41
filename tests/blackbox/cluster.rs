//! Servers that have streams of each other: by a map in the configuration.

use crate::edge::playlist;
use crate::pull::{HASTE, SHAPE, see, watch};
use crate::{GLASSLINE, serve, serve_with};
use glassline_test_support::http::{connect, get, publish, read_head};
use glassline_test_support::numbered::Check;
use glassline_test_support::program::Server;
use glassline_test_support::wait::until;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Publishes numbered pictures over HTTP until it is dropped, or refused.
pub(crate) struct Feed {
    ends: Arc<AtomicBool>,
    next: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Feed {
    /// From the picture `from` on.
    pub(crate) fn start(server: &Server, target: &str, from: u64) -> Feed {
        let (ends, next) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(from)));
        let mut connection = publish(server.address(), target);
        let (is_over, number) = (Arc::clone(&ends), Arc::clone(&next));
        let thread = std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed)
                && connection.write_all(&SHAPE.picture(number.load(Ordering::Relaxed))).is_ok()
            {
                number.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        Feed { ends, next, thread: Some(thread) }
    }

    /// The first key frame that another publisher may begin with: later than all that was sent.
    pub(crate) fn next_group(&self) -> u64 {
        (self.next.load(Ordering::Relaxed) / SHAPE.group + 2) * SHAPE.group
    }

    /// Whether it is over, since its server has ended it.
    pub(crate) fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// An address that no other test's server is given.
pub(crate) fn free_address(host: &str) -> SocketAddr {
    TcpListener::bind((host, 0)).unwrap().local_addr().unwrap()
}

/// Reads on until a jump was announced for the `moves`th time, and something behind it.
pub(crate) fn see_jump(viewer: &mut TcpStream, check: &mut Check, moves: u64) {
    while check.moves < moves {
        let seen = check.packets;
        see(viewer, check, seen + 1);
    }
    let seen = check.packets;
    see(viewer, check, seen + 100);
    assert_eq!(check.moves, moves);
}

#[test]
fn a_map_leads_viewers_to_streams_of_another_server_through_its_end_and_return() {
    let address = free_address("127.31.9.1");
    let start = || Server::start_at(GLASSLINE, &address.to_string(), &["--demo"]);
    let mut far = start();
    far.wait_for_pictures("demo");
    let feed = Feed::start(&far, "/live/numbers.ts", 0);
    let places = format!("static = {{ demo = 'http://{address}', 'num*' = 'http://{address}' }}");
    let (near, _scratch) = serve_with(&format!("{HASTE}[cluster]\n{places}\n"));
    let mut viewer = watch(&near, "numbers");
    let mut check = Check::new(SHAPE);
    see(&mut viewer, &mut check, 200);
    // A stream of no pattern is asked of no server, and one that is elsewhere is not published here.
    assert_eq!(get(near.address(), "/live/other.ts").status, 404);
    let mut refused = publish(near.address(), "/live/numbers.ts");
    assert_eq!(read_head(&mut refused).status, 409);
    // Objects have the same names and bytes at both.
    let header = |server: &Server| {
        let text = playlist(server, "/live/demo/video.m3u8");
        let line = text.lines().find(|line| line.starts_with("#EXT-X-MAP")).unwrap();
        line.split('"').nth(1).unwrap().to_owned()
    };
    let name = header(&near);
    assert_eq!(name, header(&far));
    let target = format!("/live/demo/{name}");
    assert_eq!(get(near.address(), &target).body, get(far.address(), &target).body);
    assert!(!near.process.output().contains("packaging begins"), "{}", near.process.output());

    let next = feed.next_group();
    far.process.kill();
    drop(feed);
    far = start();
    let _feed = Feed::start(&far, "/live/numbers.ts", next);
    see_jump(&mut viewer, &mut check, 1);
    far.wait_for_pictures("demo");
    until("the playlist of the server that is back", || {
        let answer = get(near.address(), "/live/demo/video.m3u8");
        answer.status == 200 && answer.text() == get(far.address(), "/live/demo/video.m3u8").text()
    });
}

#[test]
fn servers_whose_maps_lead_in_a_circle_are_told() {
    let address = free_address("127.31.9.2");
    let (one, _scratch) = serve_with(&format!("{HASTE}[cluster]\nstatic = {{ '*' = 'http://{address}' }}\n"));
    let config = format!("{HASTE}[cluster]\nstatic = {{ '*' = '{}' }}\n", one.url(""));
    let scratch = glassline_test_support::program::Scratch::new("circle");
    let file = scratch.write("glassline.toml", config);
    let other = Server::start_at(GLASSLINE, &address.to_string(), &["--config", &file]);
    assert_eq!(get(one.address(), "/live/a/index.m3u8").status, 508);
    // The pull of each is refused by the other, and the viewer waits no longer than that takes.
    assert_eq!(get(other.address(), "/live/a.ts").status, 404);
    assert!(one.process.output().contains("508") || other.process.output().contains("508"));
}

#[test]
fn upstream_servers_and_other_servers_are_not_taken_together() {
    let scratch = glassline_test_support::program::Scratch::new("both");
    let text = "[upstream]\nservers = ['http://o']\n[cluster]\nstatic = { a = 'http://p' }\n";
    let file = scratch.write("glassline.toml", text);
    let outcome = crate::glassline(&["serve", "--test-config", "--config", &file]);
    assert_eq!(outcome.status, Some(2), "{}", outcome.text());
    let words = "upstream.servers: has servers, and so has [cluster]";
    assert!(outcome.stderr.contains(words), "{}", outcome.stderr);
}

/// Asks for a stream, and gives the head of the answer.
fn asked(server: &Server, name: &str) -> u16 {
    let mut viewer = connect(server.address());
    write!(viewer, "GET /live/{name}.ts HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    read_head(&mut viewer).status
}

#[test]
fn a_server_alone_asks_no_other() {
    let alone = serve(&[]);
    assert_eq!(asked(&alone, "a"), 404);
}
