//! `link` where the network, the other end or a name goes away: what goes on, and what is an error.

use crate::link::{connect, key, listen, listen_at, start, terminal, udp};
use glassline_test_support::http::read_once;
use glassline_test_support::program::{Running, Scratch};
use glassline_test_support::skip;
use glassline_test_support::wait::until;
use std::fs::File;
use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a [`Relay`] does to datagrams.
struct Network {
    /// Nothing passes, either way.
    is_down: AtomicBool,
    /// Larger ones do not pass towards the listener.
    most_bytes: AtomicUsize,
    is_over: AtomicBool,
}

/// A network between one who connects and a listener.
struct Relay {
    address: SocketAddr,
    network: Arc<Network>,
}

impl Relay {
    fn new(listener: &str) -> Relay {
        let network = Arc::new(Network {
            is_down: AtomicBool::new(false),
            most_bytes: AtomicUsize::new(usize::MAX),
            is_over: AtomicBool::new(false),
        });
        let (front, back) = (udp(), udp());
        back.connect(listener).unwrap();
        let address = front.local_addr().unwrap();
        let client = Arc::new(Mutex::new(None));
        for socket in [&front, &back] {
            socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        }
        let (from_client, to_client) = (front.try_clone().unwrap(), front);
        let (to_listener, from_listener) = (back.try_clone().unwrap(), back);
        let (one, other) = (Arc::clone(&client), client);
        Relay::carry(&network, from_client, move |network, bytes, from| {
            *one.lock().unwrap() = Some(from);
            if bytes.len() <= network.most_bytes.load(Ordering::Relaxed) {
                let _ = to_listener.send(bytes);
            }
        });
        Relay::carry(&network, from_listener, move |_, bytes, _| {
            if let Some(client) = *other.lock().unwrap() {
                let _ = to_client.send_to(bytes, client);
            }
        });
        Relay { address, network }
    }

    fn carry(
        network: &Arc<Network>,
        from: UdpSocket,
        to: impl Fn(&Network, &[u8], SocketAddr) + Send + 'static,
    ) {
        let network = Arc::clone(network);
        std::thread::spawn(move || {
            let mut buffer = [0; 65_535];
            while !network.is_over.load(Ordering::Relaxed) {
                // A listener that is not there any more says so by an error.
                let Ok((length, peer)) = from.recv_from(&mut buffer) else { continue };
                if !network.is_down.load(Ordering::Relaxed) {
                    to(&network, &buffer[..length], peer);
                }
            }
        });
    }

    fn set_down(&self, is_down: bool) {
        self.network.is_down.store(is_down, Ordering::Relaxed);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.network.is_over.store(true, Ordering::Relaxed);
    }
}

/// A FIFO, and what writes into it.
fn fifo(scratch: &Scratch, name: &str) -> (String, Writer) {
    let path = scratch.file(name);
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    // Both ways, so that it opens before it has a reader.
    let file = File::options().read(true).write(true).open(&path).unwrap();
    (path, Writer::new(file))
}

/// Writes on a thread of its own, since a FIFO whose reader has gone takes nothing any more.
struct Writer(Sender<Vec<u8>>);

impl Writer {
    fn new(mut file: File) -> Writer {
        let (sender, parts) = channel::<Vec<u8>>();
        std::thread::spawn(move || {
            for part in parts {
                file.write_all(&part).unwrap();
            }
        });
        Writer(sender)
    }

    fn write(&self, part: &[u8]) {
        self.0.send(part.to_vec()).unwrap();
    }
}

fn bytes(count: usize) -> Vec<u8> {
    (0..count as u32).map(|at| (at ^ (at >> 7)).to_le_bytes()[at as usize % 3]).collect()
}

fn says(running: &Running, what: &str) {
    until(what, || running.output().contains(what));
}

const SILENT: &str = "nothing comes from the peer any more";
const TORN: &str = "not everything can have arrived";

/// Sends on a channel of bytes through a network that goes away in the middle for longer than the link waits; the ends, as
/// they are when both have noticed.
struct Cut {
    listener: Running,
    connector: Running,
    relay: Relay,
    input: Writer,
    out: String,
}

fn cut(scratch: &Scratch, name: &str, options: &[&str], once: &[&str]) -> Cut {
    let key = key(scratch);
    let (path, input) = fifo(scratch, &format!("{name}.fifo"));
    let out = scratch.file(&format!("{name}.out"));
    let to = format!("1:raw,out={out}");
    let (listener, address) = listen(&[&["--key", &key, "--channel", &to], options, once].concat());
    let relay = Relay::new(&address);
    let from = format!("1:raw,in={path}");
    let relayed = relay.address.to_string();
    let connector = start(&[&["connect", &relayed, "--key", &key, "--channel", &from], options].concat());
    let all = bytes(3_000_000);
    input.write(&all[..1_000_000]);
    until("the first part", || std::fs::metadata(&out).is_ok_and(|meta| meta.len() == 1_000_000));
    relay.set_down(true);
    // This is on its way when the link is given up.
    input.write(&all[1_000_000..]);
    Cut { listener, connector, relay, input, out }
}

#[test]
fn an_outage_that_is_longer_than_the_link_waits_loses_nothing() {
    let scratch = Scratch::new("link");
    let Cut { mut listener, mut connector, relay, input, out } = cut(&scratch, "kept", &[], &["--once"]);
    says(&connector, SILENT);
    says(&listener, SILENT);
    relay.set_down(false);
    says(&connector, "the link is up again, and goes on where it was");
    says(&listener, "the link is up again, and goes on where it was");
    drop(input);
    until("all of it", || std::fs::metadata(&out).is_ok_and(|meta| meta.len() == 3_000_000));
    assert_eq!(connector.wait().code(), Some(0), "{}", connector.output());
    assert_eq!(listener.wait().code(), Some(0), "{}", listener.output());
    assert!(std::fs::read(&out).unwrap() == bytes(3_000_000));
}

#[test]
fn where_nothing_is_kept_the_loss_is_an_error() {
    let scratch = Scratch::new("link");
    let mut served = cut(&scratch, "served", &["--resume", "0s"], &[]);
    let mut once = cut(&scratch, "once", &["--resume", "0s"], &["--once"]);
    // The listener of one peer alone.
    assert_eq!(once.listener.wait().code(), Some(1), "{}", once.listener.output());
    assert!(once.listener.output().contains(TORN), "{}", once.listener.output());
    // The one that serves others, too, says it, goes on, and has it in its status at the end; the sender ends.
    says(&served.listener, TORN);
    says(&served.connector, SILENT.split(';').next().unwrap());
    served.relay.set_down(false);
    assert_eq!(served.connector.wait().code(), Some(1), "{}", served.connector.output());
    assert!(served.connector.output().contains(TORN), "{}", served.connector.output());
    assert!(served.listener.ended().is_none());
    served.listener.signal("TERM");
    assert_eq!(served.listener.wait().code(), Some(1), "{}", served.listener.output());
}

#[test]
fn a_listener_that_is_started_again_in_the_middle_of_a_file_is_an_error() {
    let scratch = Scratch::new("link");
    let key = key(&scratch);
    let (path, input) = fifo(&scratch, "in");
    let out = scratch.file("out");
    let channel = format!("1:raw,out={out}");
    let (mut listener, address) = listen(&["--key", &key, "--channel", &channel]);
    let mut connector =
        start(&["connect", &address, "--key", &key, "--channel", &format!("1:raw,in={path}")]);
    input.write(&bytes(100_000));
    until("a part", || std::fs::metadata(&out).is_ok_and(|meta| meta.len() == 100_000));
    listener.kill();
    let (_listener, _) = listen_at(&address, &["--key", &key, "--channel", &channel]);
    assert_eq!(connector.wait().code(), Some(1), "{}", connector.output());
    assert!(connector.output().contains(TORN), "{}", connector.output());
}

#[test]
fn a_command_that_is_started_again_ends_its_older_self() {
    let scratch = Scratch::new("link");
    let key = key(&scratch);
    let (listener, address) = listen(&["--key", &key, "--channel", "1:lines,out=-"]);
    let named = |input: &str| {
        start(&[
            "connect",
            &address,
            "--key",
            &key,
            "--name",
            "drone",
            "--channel",
            &format!("1:lines,in={input}"),
        ])
    };
    let (path, _older_input) = fifo(&scratch, "older");
    let mut older = named(&path);
    says(&older, "the link is up");
    let (path, input) = fifo(&scratch, "newer");
    let mut newer = named(&path);
    assert_eq!(older.wait().code(), Some(1), "{}", older.output());
    let text = older.output();
    assert!(text.contains("replaced this one") && text.contains("--name"), "{text}");
    input.write(b"here\n");
    says(&listener, "here");
    assert!(newer.ended().is_none(), "{}", newer.output());
}

#[test]
fn all_addresses_of_a_name_are_tried() {
    let scratch = Scratch::new("link");
    let key = key(&scratch);
    let named: Vec<_> = ("localhost", 0).to_socket_addrs().unwrap().collect();
    // Whichever of them the listener is at, and whichever stands first.
    for address in [&named[0], &named[named.len() - 1]] {
        let arguments = ["--key", &key, "--once", "--channel", "1:lines,out=-"];
        let (mut listener, address) = listen_at(&address.to_string(), &arguments);
        let (_, port) = address.rsplit_once(':').unwrap();
        let hello = scratch.write("hello", "hello\n");
        let channel = format!("1:lines,in={hello}");
        let outcome = connect(&[&format!("localhost:{port}"), "--key", &key, "--channel", &channel]);
        assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
        assert_eq!(listener.wait().code(), Some(0));
        says(&listener, "hello");
    }
}

#[test]
fn a_path_that_is_too_narrow_is_said() {
    let scratch = Scratch::new("link");
    let key = key(&scratch);
    let (path, input) = fifo(&scratch, "in");
    let out = scratch.file("out");
    let (_listener, address) = listen(&["--key", &key, "--channel", &format!("1:raw,out={out}")]);
    let relay = Relay::new(&address);
    let relayed = relay.address.to_string();
    let connector = start(&["connect", &relayed, "--key", &key, "--channel", &format!("1:raw,in={path}")]);
    input.write(b"begin");
    until("the link", || std::fs::metadata(&out).is_ok_and(|meta| meta.len() == 5));
    relay.network.most_bytes.store(600, Ordering::Relaxed);
    input.write(&bytes(50_000));
    says(&connector, "none of the 1200 bytes that a link needs");
    // And all comes once the path is as wide as it has to be.
    relay.network.most_bytes.store(usize::MAX, Ordering::Relaxed);
    until("all of it", || std::fs::metadata(&out).is_ok_and(|meta| meta.len() == 50_005));
}

#[test]
fn a_serial_line_that_goes_away_is_opened_again() {
    let (Some((first, first_name)), Some((mut second, second_name))) = (terminal(), terminal()) else {
        return skip("a_serial_line_that_goes_away_is_opened_again", "no pseudo-terminals");
    };
    let scratch = Scratch::new("link");
    let key = key(&scratch);
    let (path, input) = fifo(&scratch, "in");
    let device = scratch.file("device");
    std::os::unix::fs::symlink(first_name, &device).unwrap();
    let to_listener = format!("1:raw,in={path},out=-");
    let (listener, address) = listen(&["--key", &key, "--channel", &to_listener]);
    let line = format!("1:in=serial:{device},57600,out=serial:{device},57600");
    let connector = start(&["connect", &address, "--key", &key, "--channel", &line]);
    (&first).write_all(b"before\n").unwrap();
    says(&listener, "before");
    std::fs::remove_file(&device).unwrap();
    drop(first);
    says(&connector, "has gone");
    // What comes meanwhile has nowhere to go, and ends nothing.
    input.write(b"to nobody");
    std::os::unix::fs::symlink(second_name, &device).unwrap();
    says(&connector, "is back");
    second.write_all(b"after\n").unwrap();
    says(&listener, "after");
    input.write(b"answer");
    let mut got = Vec::new();
    while !got.ends_with(b"answer") {
        let mut buffer = [0; 100];
        let length = read_once(&mut second, &mut buffer).unwrap();
        got.extend_from_slice(&buffer[..length]);
    }
}
