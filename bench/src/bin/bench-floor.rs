//! The floor beneath all reflectors: `bench-floor LISTEN SOURCE` fetches a stamped stream from SOURCE and gives each
//! frame, when its last packet has come, to each viewer with one `write`. One thread, no protocol, no backlog: whoever
//! asks is answered and gets what comes from then on.
//!
//! What a socket has no room for waits in memory; a viewer for whom much waits is closed.
#![forbid(unsafe_code)]

use anyhow::{Context, Result, ensure};
use glassline_io::poll::{Event, Poller, Watch};
use glassline_lab::load::stamped::{PacketStamp, Position};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

const PACKET: usize = 188;
const LISTENER: u64 = u64::MAX;
const SOURCE: u64 = u64::MAX - 1;
/// A viewer for whom so much waits is gone, or too slow for us.
const WAITING_BYTES: usize = 8 << 20;
const ANSWER: &[u8] = b"HTTP/1.0 200 OK\r\nContent-Type: video/mp2t\r\n\r\n";

struct Viewer {
    socket: TcpStream,
    asked: bool,
    waiting: Vec<u8>,
}

impl Viewer {
    /// Whether it is still there.
    fn send(&mut self, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        while self.waiting.is_empty() && !rest.is_empty() {
            match self.socket.write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return false,
            }
        }
        self.waiting.extend_from_slice(rest);
        self.waiting.len() < WAITING_BYTES
    }

    /// Its socket has room again, or it has asked, or it has gone.
    fn handle(&mut self, event: &Event) -> bool {
        let mut request = [0; 2048];
        if event.readable {
            match self.socket.read(&mut request) {
                Ok(0) => return false,
                Ok(_) if !self.asked => {
                    self.asked = true;
                    if !self.send(ANSWER) {
                        return false;
                    }
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return false,
            }
        }
        let waiting = std::mem::take(&mut self.waiting);
        waiting.is_empty() || self.send(&waiting)
    }
}

/// Bytes of `stream` up to the end of the last whole frame.
fn whole_frames(stream: &[u8]) -> usize {
    let (packets, _) = stream.as_chunks::<PACKET>();
    let ends =
        |packet: &[u8; PACKET]| PacketStamp::read(packet).is_some_and(|mark| mark.position == Position::Last);
    packets.iter().rposition(ends).map_or(0, |last| (last + 1) * PACKET)
}

fn main() -> Result<()> {
    let addresses: Vec<SocketAddr> =
        std::env::args().skip(1).map(|word| word.parse()).collect::<Result<_, _>>().context("addresses")?;
    let [listen, from] = addresses[..] else { anyhow::bail!("usage: bench-floor LISTEN SOURCE") };
    glassline_io::process::raise_descriptor_limit();
    let listener = TcpListener::bind(listen).context("cannot listen")?;
    listener.set_nonblocking(true)?;
    let mut source = TcpStream::connect(from).context("cannot connect to the source")?;
    source.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let (mut head, mut byte) = (Vec::new(), [0]);
    // The source answers when it looks; viewers wait in the listener's queue.
    while !head.ends_with(b"\r\n\r\n") {
        source.read_exact(&mut byte).context("the source's answer")?;
        head.push(byte[0]);
    }
    source.set_nonblocking(true)?;
    let poller = Poller::new()?;
    poller.add(&listener, LISTENER, Watch::Accepts)?;
    poller.add(&source, SOURCE, Watch::Edges)?;
    let (mut viewers, mut ready): (Vec<Option<Viewer>>, _) = (Vec::new(), Vec::new());
    let (mut stream, mut buffer) = (Vec::new(), vec![0; 1 << 20]);
    loop {
        poller.wait(None, &mut ready)?;
        for event in &ready {
            match event.token {
                LISTENER => {
                    if let Ok((socket, _)) = listener.accept() {
                        socket.set_nonblocking(true)?;
                        socket.set_nodelay(true)?;
                        poller.add(&socket, viewers.len() as u64, Watch::Edges)?;
                        viewers.push(Some(Viewer { socket, asked: false, waiting: Vec::new() }));
                    }
                }
                SOURCE => {
                    fetch(&mut source, &mut buffer, &mut stream)?;
                    let frames = whole_frames(&stream);
                    if frames == 0 {
                        continue;
                    }
                    for slot in &mut viewers {
                        let Some(viewer) = slot.as_mut().filter(|viewer| viewer.asked) else { continue };
                        if !viewer.send(&stream[..frames]) {
                            *slot = None;
                        }
                    }
                    stream.drain(..frames);
                }
                number => {
                    let Some(slot) = viewers.get_mut(number as usize) else { continue };
                    if slot.as_mut().is_some_and(|viewer| !viewer.handle(event)) {
                        *slot = None;
                    }
                }
            }
        }
    }
}

/// Reads what has come.
fn fetch(source: &mut TcpStream, buffer: &mut [u8], stream: &mut Vec<u8>) -> Result<()> {
    loop {
        match source.read(buffer) {
            Ok(count) => {
                ensure!(count > 0, "the source has ended");
                stream.extend_from_slice(&buffer[..count]);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error).context("the source"),
        }
    }
}
