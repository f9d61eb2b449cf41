use super::super::Direction;
use super::*;
use crate::contribution::CHANNEL;
use crate::link::session::{Extent, Mode, Served, Service, Session};
use crate::link::{Endpoint, Link, Local};
use glassline_media::container::ts::{PACKET_BYTES, SYNC_BYTE};
use glassline_test_support::wait::{PATIENCE, until};
use glassline_transport::link::{Credentials, Error, Event, Key, Options, Settings};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

fn settings(name: &str) -> Settings {
    let key = Credentials::Shared(Key([7; 32]));
    Settings { name: name.as_bytes().to_vec(), ..Settings::new(key) }
}

/// A peer that takes all, or nothing at all.
struct Peer {
    takes: bool,
    bytes: AtomicUsize,
    has_ended: AtomicBool,
}

impl Service for Peer {
    fn sends(&self) -> Vec<(u8, Options)> {
        Vec::new()
    }

    fn takes(&self) -> Vec<u8> {
        vec![CHANNEL]
    }

    fn serve(&self, link: &Link) -> io::Result<Served> {
        let channel = if self.takes { CHANNEL } else { CHANNEL + 1 };
        // What has arrived is there to be read after the link's end, too: the end comes when all of it has been.
        while !self.has_ended.load(Ordering::Relaxed) {
            match link.receive_message(channel, Duration::from_millis(20)) {
                Ok(Some(message)) => _ = self.bytes.fetch_add(message.bytes.len(), Ordering::Relaxed),
                Err(Error::Closed) => break,
                Ok(None) | Err(_) => {}
            }
        }
        Ok(Served::ThisLink)
    }

    fn handle_event(&self, _: &Link, _: &Event) {}

    fn is_input(&self) -> bool {
        false
    }
}

/// A listener with it.
fn listener(takes: bool) -> (Session, Arc<Peer>, SocketAddr) {
    let settings = Settings { window_bytes: 64 << 10, ..settings("listener") };
    let settings = if takes { Settings { window_bytes: 8 << 20, ..settings } } else { settings };
    let endpoint = Endpoint::listen(settings, &[Local::at("127.0.0.1:0".parse().unwrap())]).unwrap();
    let peer = Arc::new(Peer { takes, bytes: AtomicUsize::new(0), has_ended: AtomicBool::new(false) });
    let services = vec![Arc::clone(&peer) as Arc<dyn Service>];
    let mode = Mode::Listen { once: false };
    let session = Session::open_with(endpoint, mode, Vec::new(), services, Extent::Services).unwrap();
    let address = session.local_addresses()[0];
    (session, peer, address)
}

fn output(to: SocketAddr, deadline: Duration, live: bool) -> LinkOutput {
    let locals = move |_: &[SocketAddr]| Ok(vec![Local::towards(to)]);
    let direction = Direction::Connect { to: to.to_string(), locals: Arc::new(locals), spares: Vec::new() };
    let way = Way { name: "test".to_owned(), settings: settings("sender"), direction };
    let connection = Connection::start(way, Outgoing::new(deadline, false));
    let liveness = Liveness { live, ..Liveness::default() };
    LinkOutput::new(connection, liveness, StatusHandle::new("link://test"))
}

fn packets(count: usize) -> Vec<u8> {
    let mut packet = [0; PACKET_BYTES];
    packet[0] = SYNC_BYTE;
    packet.repeat(count)
}

fn write(output: &mut LinkOutput, count: usize) {
    let bytes = packets(count);
    output.write(&Packets::whole(&bytes, true)).unwrap();
}

fn failure(mut output: LinkOutput) -> String {
    output.finish().expect_err("the stream has not arrived").to_string()
}

#[test]
fn a_link_that_was_never_up_is_a_failure() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut output = output(silent.local_addr().unwrap(), Duration::from_secs(1), true);
    write(&mut output, 10);
    let said = failure(output);
    assert!(said.starts_with("link://test: the link was never up"), "{said}");
}

#[test]
fn a_stream_that_has_arrived_is_none() {
    let (_session, peer, address) = listener(true);
    let mut output = output(address, PATIENCE, true);
    assert!(output.connection.outgoing.wait_up(PATIENCE));
    write(&mut output, 1000);
    output.finish().unwrap();
    let figures = output.connection.outgoing.figures();
    assert!(figures.is_finished, "{figures:?}");
    until("all bytes", || peer.bytes.load(Ordering::Relaxed) == 1000 * PACKET_BYTES);
}

/// Many times what the link keeps in its queue.
#[test]
fn a_source_that_can_wait_waits_for_room() {
    let (_session, peer, address) = listener(true);
    let mut output = output(address, PATIENCE, false);
    let count = 10_000;
    for _ in 0..14 {
        write(&mut output, count);
    }
    output.finish().unwrap();
    until("all bytes", || peer.bytes.load(Ordering::Relaxed) == 14 * count * PACKET_BYTES);
    assert_eq!(output.connection.outgoing.figures().left_out, 0);
}

#[test]
fn what_a_peer_does_not_take_in_time_is_said_with_its_figures() {
    let (_session, _peer, address) = listener(false);
    let mut output = output(address, Duration::from_millis(100), false);
    write(&mut output, 2000);
    let said = failure(output);
    assert!(said.contains("messages were given up, lost or older than the deadline"), "{said}");
}

#[test]
fn a_link_that_is_lost_before_the_end_has_arrived_is_a_failure() {
    let (session, peer, address) = listener(false);
    let mut output = output(address, PATIENCE, true);
    assert!(output.connection.outgoing.wait_up(PATIENCE));
    write(&mut output, 2000);
    peer.has_ended.store(true, Ordering::Relaxed);
    drop(session);
    let said = failure(output);
    assert!(
        said.contains("the end of the stream may be missing there (") && said.contains("under way"),
        "{said}"
    );
}
