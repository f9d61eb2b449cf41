//! SRT in live mode: a process of `srt.c` for each end, which carries packets between its pipes. Pictures are cut into
//! packets here; there is one connection for all, as programs have it, and none is replaced: what is too late SRT drops by
//! itself.

use anyhow::{Context, Result, ensure};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use rustix::event::PollFlags;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::carrier::{Carrier, Lane, wait_for};
use crate::pieces::{Cutter, Joiner};

/// The environment's name for the compiled `srt.c`, for the processes behind a link.
pub(crate) const PROGRAM: &str = "GLASSLINE_BENCH_SRT";
/// The default of `SRTO_PAYLOADSIZE`, bytes.
const PACKET: usize = 1316;
/// The first byte of a packet: a message, or a part of a picture.
const MESSAGE: u8 = 0;
const PICTURE: u8 = 1;
const READ: usize = 1 << 16;
/// How long a process may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(8);

pub(crate) struct Srt {
    child: Child,
    /// Closed at the end: the process then sends what it has and ends.
    input: Option<ChildStdin>,
    output: ChildStdout,
    buffer: Vec<u8>,
    packets: Packets,
    cutter: Cutter,
}

/// What comes out of the process.
#[derive(Debug, Default)]
struct Packets {
    bytes: BytesMut,
    joiner: Joiner,
    messages: VecDeque<Bytes>,
    pictures: VecDeque<Bytes>,
    up: bool,
    closed: bool,
}

impl Packets {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        while let Some(size) = self.bytes.first_chunk().map(|size| usize::from(u16::from_be_bytes(*size))) {
            if self.bytes.len() < 2 + size {
                return;
            }
            self.bytes.advance(2);
            let mut packet = self.bytes.split_to(size).freeze();
            self.up = true;
            if packet.is_empty() {
                continue;
            }
            match packet.get_u8() {
                PICTURE => self.pictures.extend(self.joiner.push(packet)),
                _ => self.messages.push_back(packet),
            }
        }
    }
}

/// A packet as the process reads it.
fn framed(kind: u8, bytes: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(3 + bytes.len());
    out.put_u16(1 + bytes.len() as u16);
    out.put_u8(kind);
    out.extend_from_slice(bytes);
    out.freeze()
}

impl Srt {
    pub(crate) fn listen(address: SocketAddr, latency: Duration) -> Result<Srt> {
        Srt::start("live-receive", address, latency)
    }

    pub(crate) fn connect(address: SocketAddr, latency: Duration) -> Result<Srt> {
        Srt::start("live-send", address, latency)
    }

    fn start(role: &str, address: SocketAddr, latency: Duration) -> Result<Srt> {
        let program = std::env::var_os(PROGRAM).with_context(|| format!("{PROGRAM} is not set"))?;
        let mut child = Command::new(program)
            .args([
                role,
                &address.ip().to_string(),
                &address.port().to_string(),
                &latency.as_millis().to_string(),
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start SRT's end")?;
        let input = child.stdin.take();
        let output = child.stdout.take().context("SRT's end has no output")?;
        rustix::io::ioctl_fionbio(&output, true).context("SRT's output")?;
        let (packets, cutter) = (Packets::default(), Cutter::default());
        Ok(Srt { child, input, output, buffer: vec![0; READ], packets, cutter })
    }

    fn read(&mut self) -> Result<()> {
        loop {
            match self.output.read(&mut self.buffer) {
                Ok(0) => {
                    self.packets.closed = true;
                    return Ok(());
                }
                Ok(count) => self.packets.push(&self.buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error).context("SRT's output"),
            }
        }
    }
}

impl Carrier for Srt {
    fn drive(&mut self, wait: Duration) -> Result<()> {
        self.read()?;
        let has_some = !self.packets.messages.is_empty() || !self.packets.pictures.is_empty();
        if self.packets.closed || has_some {
            return Ok(());
        }
        wait_for(&[(self.output.as_fd(), PollFlags::IN)], wait)?;
        self.read()
    }

    fn send(&mut self, lane: Lane, message: &Bytes) -> Result<bool> {
        let input = self.input.as_mut().context("it is closed")?;
        if lane == Lane::Reliable {
            ensure!(message.len() < PACKET, "a message of {} bytes is no packet", message.len());
            input.write_all(&framed(MESSAGE, message)).context("SRT's input")?;
            return Ok(true);
        }
        self.cutter.replace(message.clone());
        while let Some(part) = self.cutter.next(PACKET - 1) {
            input.write_all(&framed(PICTURE, &part)).context("SRT's input")?;
        }
        Ok(true)
    }

    fn receive(&mut self, lane: Lane) -> Option<Bytes> {
        let queue =
            if lane == Lane::Reliable { &mut self.packets.messages } else { &mut self.packets.pictures };
        queue.pop_front()
    }

    fn is_up(&self) -> bool {
        self.packets.up
    }

    /// What has not arrived within the latency never does.
    fn is_idle(&mut self) -> bool {
        true
    }

    fn is_closed(&self) -> bool {
        self.packets.closed
    }

    fn close(&mut self) -> Result<()> {
        self.input = None;
        Ok(())
    }
}

impl Drop for Srt {
    fn drop(&mut self) {
        self.input = None;
        let begin = Instant::now();
        while begin.elapsed() < END_TIMEOUT {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        // Fails only where it has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_become_messages_and_whole_pictures_however_they_come() {
        let (picture, mut cutter) = (Bytes::from(vec![7; 5000]), Cutter::default());
        cutter.replace(picture.clone());
        let parts: Vec<Bytes> = std::iter::from_fn(|| cutter.next(PACKET - 1)).collect();
        assert!(parts.iter().all(|part| part.len() < PACKET), "a packet has one byte more");
        let mut bytes = vec![0, 0];
        bytes.extend(framed(MESSAGE, b"first"));
        parts.iter().for_each(|part| bytes.extend(framed(PICTURE, part)));
        bytes.extend(framed(MESSAGE, b"last"));
        for step in [1, 3, 1000, bytes.len()] {
            let mut packets = Packets::default();
            assert!(!packets.up);
            bytes.chunks(step).for_each(|part| packets.push(part));
            assert!(packets.up);
            assert_eq!(
                packets.messages,
                [Bytes::from_static(b"first"), Bytes::from_static(b"last")],
                "by {step}"
            );
            assert_eq!(packets.pictures, std::slice::from_ref(&picture), "by {step}");
        }
    }
}
