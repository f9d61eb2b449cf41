//! The one sender for everybody: frames in memory, as packets one behind the other; evenly paced by looking at the clock.

use crate::stream::{BURST_PACKETS, Packet, Stream, message_packets};
use anyhow::{Context, Result, bail};
use glassline_io::clock::Clock;
use glassline_io::udp::Route;
use glassline_io::udp::burst::{FlowSender, FlowSenderSettings, Outbox};
use std::hint::spin_loop;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Frames that are sent in turn.
const FRAMES: usize = 2;
/// Who is later than this does not catch up: that would be a burst.
const LATE: Duration = Duration::from_micros(500);
/// The rate at which receivers settle, in bits of video a second.
const SETTLING_BPS: f64 = 0.5e9;
/// How long a socket is waited for that takes nothing.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);
const TICKS_PER_SECOND: f64 = 90_000.0;

/// What is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Bits of video a second.
    pub(crate) bps: f64,
    /// How long receivers settle first, at a rate that everybody takes.
    pub(crate) settling: Duration,
    pub(crate) time: Duration,
    /// Whether the kernel is given messages of many packets, or each by a call of its own.
    pub(crate) has_gso: bool,
}

/// What was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sent {
    pub(crate) frames: u64,
    /// On each path.
    pub(crate) packets: u64,
    /// Bytes of video at the rate that was asked for, and how long that took.
    pub(crate) video_bytes: u64,
    pub(crate) seconds: f64,
}

impl Sent {
    /// Bits of video a second, as they really left.
    pub(crate) fn bps(&self) -> f64 {
        self.video_bytes as f64 * 8.0 / self.seconds.max(1e-9)
    }
}

/// Where a packet is in a frame's bytes.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: usize,
    bytes: usize,
    head_bytes: usize,
}

/// Packets that are sent by one call.
#[derive(Clone, Debug)]
struct Call {
    /// The first of its packets, and how many each of its messages has.
    first: usize,
    messages: Vec<usize>,
    video_bytes: usize,
}

/// Sends a stream on one path or two.
pub(crate) struct Sender {
    paths: Vec<(FlowSender, Outbox)>,
    frames: Vec<Vec<u8>>,
    spans: Vec<Span>,
    packets: Vec<Packet>,
    clock: Clock,
    sequence: u32,
    timestamp: f64,
}

impl Sender {
    pub(crate) fn new(stream: &Stream, to: &[SocketAddr]) -> Result<Sender> {
        let packets = stream.packets()?;
        let frame_bytes = stream.frame_bytes()?;
        let mut spans = Vec::with_capacity(packets.len());
        let mut start = 0;
        for packet in &packets {
            spans.push(Span { start, bytes: packet.bytes, head_bytes: packet.head.len() });
            start += packet.bytes;
        }
        let frames = (0..FRAMES).map(|frame| written(&packets, &noise(frame_bytes, frame as u64))).collect();
        let open = |to: &SocketAddr| -> Result<(FlowSender, Outbox)> {
            let route = Route::to(*to);
            let sender = FlowSender::open(&FlowSenderSettings::of(route))
                .context("cannot open the sender's socket")?;
            Ok((sender, Outbox::new()))
        };
        let paths = to.iter().map(open).collect::<Result<_>>()?;
        Ok(Sender { paths, frames, spans, packets, clock: Clock::new(), sequence: 0, timestamp: 0.0 })
    }

    /// Sends whole frames. `has_settled` becomes true when the rate that is asked for begins.
    ///
    /// # Errors
    /// The socket's.
    pub(crate) fn send(&mut self, load: Load, has_settled: &AtomicBool) -> Result<Sent> {
        let calls = calls(&self.packets, load.has_gso);
        let frame_bytes: usize = calls.iter().map(|call| call.video_bytes).sum();
        let mut sent = Sent::default();
        for (bps, time, counts) in
            [(load.bps.min(SETTLING_BPS), load.settling, false), (load.bps, load.time, true)]
        {
            if counts {
                has_settled.store(true, Ordering::Release);
            }
            let frames = (time.as_secs_f64() * bps / 8.0 / frame_bytes as f64).round().max(1.0) as u64;
            let began = self.clock.now();
            // Where the schedule begins: later, once nobody could keep it.
            let mut origin = began;
            let mut bytes = 0;
            for _ in 0..frames {
                self.timestamp += frame_bytes as f64 * 8.0 / bps * TICKS_PER_SECOND;
                for call in &calls {
                    let due = origin + Duration::from_secs_f64(bytes as f64 * 8.0 / bps);
                    let mut now = self.clock.now();
                    while now < due {
                        spin_loop();
                        now = self.clock.now();
                    }
                    let late = now.since(due);
                    if late > LATE {
                        origin += late;
                    }
                    self.call(call, sent.frames as usize % FRAMES)?;
                    bytes += call.video_bytes;
                }
                sent.frames += 1;
                sent.packets += self.packets.len() as u64;
            }
            // The last packets have their time, too.
            let ended = (origin + Duration::from_secs_f64(bytes as f64 * 8.0 / bps)).max(self.clock.now());
            if counts {
                (sent.video_bytes, sent.seconds) = (bytes as u64, ended.since(began).as_secs_f64());
            }
        }
        Ok(sent)
    }

    fn call(&mut self, call: &Call, frame: usize) -> Result<()> {
        let Sender { paths, frames, spans, .. } = self;
        let bytes = &mut frames[frame];
        let count: usize = call.messages.iter().sum();
        let timestamp = (self.timestamp as u64 as u32).to_be_bytes();
        for span in &spans[call.first..call.first + count] {
            let head = &mut bytes[span.start..span.start + span.head_bytes];
            head[2..4].copy_from_slice(&(self.sequence as u16).to_be_bytes());
            head[4..8].copy_from_slice(&timestamp);
            head[12..14].copy_from_slice(&((self.sequence >> 16) as u16).to_be_bytes());
            self.sequence = self.sequence.wrapping_add(1);
        }
        for (sender, outbox) in paths {
            let mut bursts = outbox.bursts();
            let mut first = call.first;
            for &packets in &call.messages {
                let (head, tail) = (spans[first], spans[first + packets - 1]);
                bursts.push(&bytes[head.start..tail.start + tail.bytes]);
                bursts.end(head.bytes, None);
                first += packets;
            }
            while !sender.send(&mut bursts).context("the sender's socket")? {
                if !sender.wait(Some(SEND_TIMEOUT))? {
                    bail!("the sender's socket takes nothing any more");
                }
            }
        }
        Ok(())
    }
}

/// A frame's packets, one behind the other.
fn written(packets: &[Packet], samples: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for packet in packets {
        out.extend_from_slice(&packet.head);
        packet.places.iter().for_each(|place| out.extend_from_slice(&samples[place.clone()]));
    }
    out
}

/// Bytes that look like no picture: nobody's time may depend on what is in one.
fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    // Marsaglia's xorshift64.
    let mut state = 0x9e37_79b9_7f4a_7c15 ^ seed;
    std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    })
    .flatten()
    .take(bytes)
    .collect()
}

/// How a frame's packets are sent: so many to a call.
fn calls(packets: &[Packet], has_gso: bool) -> Vec<Call> {
    let most = if has_gso { BURST_PACKETS } else { 1 };
    let (mut calls, mut first) = (Vec::new(), 0);
    while first < packets.len() {
        let end = packets.len().min(first + most);
        let (mut messages, mut next) = (Vec::new(), first);
        while next < end {
            let count = message_packets(&packets[next..end], most);
            messages.push(count);
            next += count;
        }
        let samples = packets[first..end].iter().flat_map(|packet| &packet.places);
        calls.push(Call { first, messages, video_bytes: samples.map(|place| place.len()).sum() });
        first = end;
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_transport::raw_video::Packing;
    use std::net::UdpSocket;

    #[test]
    fn calls_hold_each_packet_once() {
        for (packing, has_gso) in
            [(Packing::General, true), (Packing::Block, true), (Packing::General, false)]
        {
            let stream = Stream::new(8, 1450, packing);
            let packets = stream.packets().unwrap();
            let calls = calls(&packets, has_gso);
            let mut next = 0;
            for call in &calls {
                assert_eq!(call.first, next);
                next += call.messages.iter().sum::<usize>();
                assert!(has_gso || call.messages == [1]);
            }
            assert_eq!(next, packets.len());
            let bytes: usize = calls.iter().map(|call| call.video_bytes).sum();
            assert_eq!(bytes, stream.frame_bytes().unwrap());
        }
    }

    #[test]
    fn what_was_sent_is_told_and_numbered() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let stream = Stream { width: 64, height: 16, ..Stream::new(8, 200, Packing::General) };
        let mut sender = Sender::new(&stream, &[socket.local_addr().unwrap()]).unwrap();
        let load = Load { bps: 1e9, settling: Duration::ZERO, time: Duration::ZERO, has_gso: true };
        let has_settled = AtomicBool::new(false);
        let sent = sender.send(load, &has_settled).unwrap();
        // A frame while receivers settle, and one then.
        let frame_packets = stream.packets().unwrap().len() as u64;
        assert_eq!((sent.frames, sent.packets), (2, 2 * frame_packets));
        assert_eq!(sent.video_bytes, stream.frame_bytes().unwrap() as u64);
        assert!(has_settled.into_inner() && sent.bps() > 0.0);
        let mut bytes = [0; 300];
        for number in 0..sent.packets {
            let length = socket.recv(&mut bytes).unwrap();
            assert_eq!(u64::from(u16::from_be_bytes([bytes[2], bytes[3]])), number);
            assert!(length <= 200);
        }
    }
}
