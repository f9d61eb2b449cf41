//! TCP, one connection for each way. With pictures: a small limit for what waits unsent in the kernel, so that the
//! newest picture can replace one that has not begun.

use anyhow::{Context, Result};
use bytes::{Buf, Bytes, BytesMut};
use rustix::event::PollFlags;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use crate::carrier::{Carrier, Lane, Load, wait_for};
use crate::rows::{Row, frame};

/// Bytes unsent in the kernel, with pictures.
const UNSENT: u32 = 16_000;
/// Bytes that wait here.
const ROOM: usize = 1 << 20;
const READ: usize = 1 << 16;
/// How long the other end may take to listen.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// One connection.
struct Way {
    stream: TcpStream,
    out: VecDeque<Bytes>,
    out_bytes: usize,
    waiting: Option<Bytes>,
    row: Row,
    received: VecDeque<Bytes>,
    full: bool,
}

pub(crate) struct Tcp {
    ways: Vec<Way>,
    load: Load,
    closed: bool,
    buffer: Vec<u8>,
}

fn count(load: Load) -> usize {
    if load == Load::Video { 2 } else { 1 }
}

/// Connects; where two carriers listen beside each other, ours may be there before TCP is.
fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    let deadline = Instant::now() + CONNECT_TIMEOUT;
    loop {
        match TcpStream::connect(address) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(10));
            }
            connected => return connected,
        }
    }
}

impl Tcp {
    pub(crate) fn listen(address: SocketAddr, load: Load, control: &str) -> Result<Tcp> {
        let listener = TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
        println!("ready");
        let streams: std::io::Result<Vec<_>> =
            (0..count(load)).map(|_| listener.accept().map(|accepted| accepted.0)).collect();
        Tcp::new(streams.context("nobody connects")?, load, control)
    }

    pub(crate) fn connect(address: SocketAddr, load: Load, control: &str) -> Result<Tcp> {
        // One after the other, so that they are accepted in this order.
        let streams: std::io::Result<Vec<_>> = (0..count(load)).map(|_| connect(address)).collect();
        Tcp::new(streams.context("cannot connect")?, load, control)
    }

    fn new(streams: Vec<TcpStream>, load: Load, control: &str) -> Result<Tcp> {
        let mut ways = Vec::new();
        for stream in streams {
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            rustix::net::sockopt::set_tcp_congestion(&stream, control)
                .with_context(|| format!("congestion control {control}"))?;
            if load == Load::Video {
                socket2::SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT)?;
            }
            ways.push(Way {
                stream,
                out: VecDeque::new(),
                out_bytes: 0,
                waiting: None,
                row: Row::default(),
                received: VecDeque::new(),
                full: false,
            });
        }
        Ok(Tcp { ways, load, closed: false, buffer: vec![0; READ] })
    }

    fn way(&mut self, lane: Lane) -> &mut Way {
        let last = self.ways.len() - 1;
        &mut self.ways[if lane == Lane::Reliable { 0 } else { last }]
    }
}

impl Way {
    fn push(&mut self, message: &Bytes) {
        let mut framed = BytesMut::with_capacity(4 + message.len());
        framed.extend_from_slice(&frame(message.len()));
        framed.extend_from_slice(message);
        self.out_bytes += framed.len();
        self.out.push_back(framed.freeze());
    }

    fn write(&mut self) -> Result<()> {
        self.full = false;
        loop {
            if self.out.is_empty()
                && let Some(message) = self.waiting.take()
            {
                self.push(&message);
            }
            let Some(front) = self.out.front_mut() else { return Ok(()) };
            match self.stream.write(front) {
                Ok(written) => {
                    front.advance(written);
                    self.out_bytes -= written;
                    if front.is_empty() {
                        self.out.pop_front();
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.full = true;
                    return Ok(());
                }
                Err(error) => return Err(error).context("TCP"),
            }
        }
    }

    /// `false`: the peer has ended it.
    fn read(&mut self, buffer: &mut [u8]) -> Result<bool> {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return Ok(false),
                Ok(count) => self.row.push(Bytes::copy_from_slice(&buffer[..count]), &mut self.received),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(false),
                Err(error) => return Err(error).context("TCP"),
            }
        }
    }
}

impl Carrier for Tcp {
    fn drive(&mut self, wait: Duration) -> Result<()> {
        for way in &mut self.ways {
            way.write()?;
            self.closed |= !way.read(&mut self.buffer)?;
        }
        if wait.is_zero() || self.closed || self.ways.iter().any(|way| !way.received.is_empty()) {
            return Ok(());
        }
        let asked = |way: &Way| if way.full { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let descriptors: Vec<_> = self.ways.iter().map(|way| (way.stream.as_fd(), asked(way))).collect();
        wait_for(&descriptors, wait)
    }

    fn send(&mut self, lane: Lane, message: &Bytes) -> Result<bool> {
        let newest = lane == Lane::Unreliable && self.load == Load::Video;
        let way = self.way(lane);
        if newest {
            way.waiting = Some(message.clone());
            return Ok(true);
        }
        if way.out_bytes > ROOM {
            return Ok(false);
        }
        way.push(message);
        Ok(true)
    }

    fn receive(&mut self, lane: Lane) -> Option<Bytes> {
        self.way(lane).received.pop_front()
    }

    fn is_up(&self) -> bool {
        true
    }

    fn is_idle(&mut self) -> bool {
        self.ways.iter().all(|way| way.out.is_empty() && way.waiting.is_none())
    }

    fn is_closed(&self) -> bool {
        self.closed
    }

    fn close(&mut self) -> Result<()> {
        for way in &self.ways {
            // It fails where the peer was quicker.
            let _ = way.stream.shutdown(Shutdown::Write);
        }
        Ok(())
    }
}
