//! The bare loops: what a receiver can do at most that trusts its sender. They look into no header, and know where packets
//! belong since these come in order; they end when nothing has come for a while, and say how many came.

use crate::stream::{BURST_PACKETS, Packet, Stream};
use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use glassline_io::pages::{Block, Pool};
use glassline_io::udp::flow::{Flow, FlowSettings, Received, Room};
use glassline_media::pixels::{PlanarLines, Unpacker};
use glassline_media::{Memory, Picture, Time};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use serde_json::json;
use std::hint::spin_loop;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Frames that are written in turn.
const FRAMES: usize = 4;
/// Messages that a call takes.
const MESSAGES: usize = 8;
/// Bytes of a message at most.
const MESSAGE_BYTES: usize = 64 << 10;
/// How long the first packet is waited for, and the next one.
const BEGINNING: Duration = Duration::from_secs(20);
const SILENCE: Duration = Duration::from_secs(1);
/// What a loop for single datagrams has room for.
const DATAGRAM_BYTES: usize = 9216;

/// How they receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// `UDP_GRO` and `recvmmsg`, payloads straight into the frame
    Aimed,
    /// `UDP_GRO` and `recvmmsg` of eight messages, one copy into the frame
    Copy,
    /// The same, but unpacked into planes instead of copied
    Unpack,
    /// `recv` of one datagram, one copy into the frame
    Recv,
}

/// Receives until nothing comes any more, and prints a line of JSON. `work` is what each packet costs beside.
pub(crate) fn run(kind: Kind, stream: &Stream, address: SocketAddr, work: Duration) -> Result<()> {
    let mut frames = Frames::new(stream)?;
    match kind {
        Kind::Aimed => aimed(&mut frames, address)?,
        Kind::Copy => collected(&mut frames, address, work)?,
        Kind::Unpack => unpacked(&mut frames, stream, address)?,
        Kind::Recv => single(&mut frames, address)?,
    }
    println!("{}", json!({"packets": frames.count, "frames": frames.count / frames.packets.len() as u64}));
    Ok(())
}

/// Memory for frames, and how far the one is that comes.
struct Frames {
    packets: Vec<Packet>,
    blocks: Vec<Block>,
    current: usize,
    /// The next packet of the current frame.
    next: usize,
    /// All packets so far.
    count: u64,
}

impl Frames {
    fn new(stream: &Stream) -> Result<Frames> {
        let pool = Pool::new(stream.frame_bytes()?, FRAMES).context("no memory for frames")?;
        let blocks = std::iter::from_fn(|| pool.take()).collect();
        Ok(Frames { packets: stream.packets()?, blocks, current: 0, next: 0, count: 0 })
    }

    /// One packet more has come.
    fn step(&mut self) {
        self.count += 1;
        self.next += 1;
        if self.next == self.packets.len() {
            (self.next, self.current) = (0, (self.current + 1) % self.blocks.len());
        }
    }

    /// Copies a datagram's samples to where they belong.
    fn copy(&mut self, datagram: &[u8]) {
        let (packet, frame) = (&self.packets[self.next], self.blocks[self.current].bytes_mut());
        let mut samples = datagram.get(packet.head.len()..).unwrap_or_default();
        for place in &packet.places {
            let length = place.len().min(samples.len());
            let (now, rest) = samples.split_at(length);
            frame[place.start..place.start + length].copy_from_slice(now);
            samples = rest;
        }
        self.step();
    }
}

/// Opens the socket as ours is opened.
fn open(address: SocketAddr) -> Result<Flow> {
    Flow::open(&FlowSettings::at(address)).with_context(|| format!("cannot receive at {address}"))
}

/// Whether something comes: the first packet is waited for longer.
fn waits(flow: &Flow, count: u64) -> Result<bool> {
    let time = if count == 0 { BEGINNING } else { SILENCE };
    let until = Instant::now() + time;
    while Instant::now() < until {
        if flow.wait(Some(until - Instant::now()))? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn aimed(frames: &mut Frames, address: SocketAddr) -> Result<()> {
    let head_bytes = frames.packets[0].head.len();
    ensure!(
        frames.packets.iter().all(|packet| packet.head.len() == head_bytes),
        "packets with headers of several lengths: a loop that looks into none cannot aim"
    );
    let flow = open(address)?;
    let (mut room, mut heads) = (Room::new(), vec![0; head_bytes * BURST_PACKETS * MESSAGES]);
    loop {
        let mut batch = room.batch();
        let mut rest = frames.blocks[frames.current].bytes_mut();
        let mut scratch = heads.chunks_exact_mut(head_bytes);
        let mut at = 0;
        let ahead = frames.packets[frames.next..].iter().take(BURST_PACKETS * MESSAGES);
        for (number, packet) in ahead.enumerate() {
            if number > 0 && number.is_multiple_of(BURST_PACKETS) {
                batch.end_message();
            }
            if let Some(head) = scratch.next() {
                batch.push(head);
            }
            for place in &packet.places {
                let (_, behind) = rest.split_at_mut(place.start - at);
                let (piece, behind) = behind.split_at_mut(place.len());
                batch.push(piece);
                (rest, at) = (behind, place.end);
            }
        }
        let messages = flow.receive(&mut batch)?;
        let datagrams: usize = room.received().iter().map(Received::datagrams).sum();
        (0..datagrams).for_each(|_| frames.step());
        if messages == 0 && !waits(&flow, frames.count)? {
            return Ok(());
        }
    }
}

/// Receives eight messages at a time, and hands each datagram on; `each_message` gets how many a message had.
fn receive(
    address: SocketAddr,
    frames: &mut Frames,
    mut each: impl FnMut(&mut Frames, &[u8]),
    mut each_message: impl FnMut(usize),
) -> Result<()> {
    let flow = open(address)?;
    let pool = Pool::new(MESSAGE_BYTES * MESSAGES, 1).context("no memory for messages")?;
    let mut buffer = pool.take().context("no memory for messages")?;
    let mut room = Room::new();
    loop {
        let mut batch = room.batch();
        for message in buffer.bytes_mut().chunks_exact_mut(MESSAGE_BYTES) {
            batch.push(message);
            batch.end_message();
        }
        let messages = flow.receive(&mut batch)?;
        for (received, message) in room.received().iter().zip(buffer.bytes().chunks_exact(MESSAGE_BYTES)) {
            let segment = received.segment_bytes().max(1);
            message[..received.bytes].chunks(segment).for_each(|datagram| each(frames, datagram));
            each_message(received.datagrams());
        }
        if messages == 0 && !waits(&flow, frames.count)? {
            return Ok(());
        }
    }
}

fn collected(frames: &mut Frames, address: SocketAddr, work: Duration) -> Result<()> {
    let busy = |packets: usize| {
        if !work.is_zero() {
            let until = Instant::now() + work * packets as u32;
            while Instant::now() < until {
                spin_loop();
            }
        }
    };
    receive(address, frames, Frames::copy, busy)
}

fn unpacked(frames: &mut Frames, stream: &Stream, address: SocketAddr) -> Result<()> {
    let (format, unpacker) = (stream.format()?, Unpacker::new());
    let group = format.pixels().pgroup().context("a format without pgroups")?;
    let line_bytes = format.line_bytes();
    let mut pictures = [(); FRAMES].map(|()| {
        let mut picture = Picture::new(format.pixels().to_planar(), format.size(), Time::ZERO);
        // Touched, as the memory of frames is.
        picture.planes_mut().iter_mut().for_each(|plane| plane.bytes_mut().fill(1));
        picture
    });
    let mut planes = pictures.each_mut().map(PlanarLines::of);
    let each = |frames: &mut Frames, datagram: &[u8]| {
        let packet = &frames.packets[frames.next];
        let mut samples = datagram.get(packet.head.len()..).unwrap_or_default();
        for place in &packet.places {
            let mut at = place.start;
            while at < place.end && !samples.is_empty() {
                let (line, start) = (at / line_bytes, at % line_bytes);
                let length = (line_bytes - start).min(place.end - at).min(samples.len());
                let x_px = (start / group.bytes) as u32 * group.width;
                // What is no whole group is left out: a bare loop looks at no error.
                let _ =
                    unpacker.unpack_run(&samples[..length], (x_px, line as u32), &mut planes[frames.current]);
                (at, samples) = (at + length, &samples[length..]);
            }
        }
        frames.step();
    };
    receive(address, frames, each, |_| {})
}

fn single(frames: &mut Frames, address: SocketAddr) -> Result<()> {
    let socket = UdpSocket::bind(address).with_context(|| format!("cannot receive at {address}"))?;
    let bytes = FlowSettings::at(address).buffer_bytes;
    // Without the privilege it has what `net.core.rmem_max` allows.
    if set_socket_recv_buffer_size_force(&socket, bytes).is_err() {
        rustix::net::sockopt::set_socket_recv_buffer_size(&socket, bytes)?;
    }
    socket.set_read_timeout(Some(BEGINNING))?;
    let mut buffer = vec![0; DATAGRAM_BYTES];
    loop {
        match socket.recv(&mut buffer) {
            Ok(length) => {
                if frames.count == 0 {
                    socket.set_read_timeout(Some(SILENCE))?;
                }
                frames.copy(&buffer[..length]);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Ok(());
            }
            Err(error) => return Err(error).context("the socket"),
        }
    }
}
