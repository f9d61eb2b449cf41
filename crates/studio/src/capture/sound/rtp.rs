//! Live sound out of a session description: uncompressed audio over RTP (ST 2110-30, AES67).

use super::live::{Arrival, LiveSound, Timer};
use crate::capture::{Error, Result};
use crate::raw::datagrams::Datagrams;
use crate::raw::described::{self, Options};
use glassline_io::clock::Clock;
use glassline_media::Time;
use glassline_media::samples::Format;
use glassline_transport::raw_video::MediaClock;
use glassline_transport::rtp;
use glassline_transport::rtp::pcm::{self, Block, Depacketizer, Depth};
use glassline_transport::rtp::source::Origin;
use glassline_transport::sdp::{Audio, Flow};
use std::time::Duration;

/// Channels that are taken, from the first one on.
const CHANNELS_MAX: u8 = 2;
/// How long nothing may come before it is looked whether anybody still wants sound.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// How long missing packets are waited for, at most: what is complete does not wait.
const REORDER: Duration = Duration::from_millis(10);
/// Room in the kernel for packets that were not read yet.
const SOCKET_BYTES: usize = 1 << 20;
/// How often losses are told.
const TOLD: Duration = Duration::from_secs(10);

/// A flow of sound that is being received.
pub(super) struct RtpSound {
    datagrams: Datagrams,
    depacketizer: Depacketizer,
    blocks: Blocks,
    addresses: String,
    clock: Clock,
    /// The lost packets at the last warning, and when that was logged.
    told: (u64, Time),
}

/// Makes samples of blocks.
struct Blocks {
    format: Format,
    clock: Clock,
    media_clock: MediaClock,
    /// When the last sample was captured.
    end: Option<Time>,
    /// The time stamp that comes next.
    next: Option<u32>,
    /// Samples were lost for which there is no silence.
    has_leapt: bool,
}

impl RtpSound {
    pub(super) fn open(flow: &Flow, audio: &Audio, options: &Options, clock: Clock) -> Result<RtpSound> {
        let addresses = described::addresses(flow);
        let receive = |error| Error::Receive { addresses: addresses.clone(), error };
        let depth = if audio.bits == 16 { Depth::L16 } else { Depth::L24 };
        let format = pcm::Format::new(depth, audio.channels, audio.rate_hz)
            .map_err(|error| receive(std::io::Error::new(std::io::ErrorKind::Unsupported, error)))?;
        // Of two paths the later one may be the only one that has a packet.
        let window = if flow.paths.len() > 1 { options.skew } else { REORDER };
        let reorder = rtp::Settings { window, ..rtp::Settings::default() };
        let settings = pcm::Settings { format, payload_type: flow.payload_type, reorder };
        let datagrams = Datagrams::open(&described::paths(flow, options, SOCKET_BYTES)).map_err(receive)?;
        let channels = audio.channels.min(CHANNELS_MAX);
        tracing::info!(
            "sound at {addresses}: L{} at {} Hz, {channels} of {} channels",
            audio.bits,
            audio.rate_hz,
            audio.channels
        );
        let blocks = Blocks {
            format: Format { rate_hz: audio.rate_hz, channels },
            clock,
            media_clock: MediaClock::with_rate(described::direct_offset(flow), audio.rate_hz),
            end: None,
            next: None,
            has_leapt: false,
        };
        let depacketizer = Depacketizer::new(settings).with_lock(described::lock(flow));
        Ok(RtpSound { datagrams, depacketizer, blocks, addresses, clock, told: (0, Time::ZERO) })
    }

    /// Says what was lost, now and then.
    fn tell(&mut self, now: Time) {
        let (lost, (told, at)) = (self.depacketizer.counters().packets.lost, self.told);
        if lost > told && (told == 0 || now.since(at) >= TOLD) {
            self.told = (lost, now);
            tracing::warn!(
                "sound at {}: {lost} packets were lost so far, silence is in their place",
                self.addresses
            );
        }
    }
}

impl Blocks {
    /// Appends a block's samples.
    fn push(&mut self, block: &Block, samples: &mut Vec<f32>) {
        let (channels, wanted) =
            (usize::from(block.audio.channels.max(1)), usize::from(self.format.channels));
        if self.next.is_some_and(|next| next != block.timestamp) {
            // What came before the leap does not go with what comes behind it.
            samples.clear();
            self.has_leapt = true;
        }
        self.next = Some(block.timestamp.wrapping_add(block.audio.frames() as u32));
        samples.extend(
            block.audio.samples.chunks_exact(channels).flat_map(|frame| frame.iter().take(wanted).copied()),
        );
        let length = Duration::from_secs(block.audio.frames() as u64) / block.audio.rate_hz.max(1);
        // What is of a clock in common has its time, as pictures have; all else goes by arrivals, which the block does already.
        let end = block.audio.captured + length;
        let captured = self.media_clock.captured(block.timestamp, end, self.clock.utc_at(end));
        let is_related = self.media_clock.is_related();
        self.end = Some(if is_related { captured + length } else { end });
    }
}

impl LiveSound for RtpSound {
    fn format(&self) -> Format {
        self.blocks.format
    }

    /// Without any samples where none came for a while.
    fn read(&mut self, _: &dyn Timer, samples: &mut Vec<f32>) -> Result<Option<Arrival>> {
        let now = self.clock.now();
        let due = self.depacketizer.poll_timeout().map_or(STOP_CHECK_INTERVAL, |due| due.since(now));
        let RtpSound { datagrams, depacketizer, blocks, .. } = self;
        blocks.has_leapt = false;
        let taken = datagrams.receive(due.min(STOP_CHECK_INTERVAL), &mut |path, datagram| {
            let mut push = |block| blocks.push(&block, samples);
            // The depacketizer counts what it refuses; a log line for each would help no user.
            let origin = Origin { path, address: datagram.from };
            let _ = depacketizer.handle_datagram(datagram.bytes, origin, datagram.at, &mut push);
        });
        taken.map_err(|error| Error::Receive { addresses: self.addresses.clone(), error })?;
        let now = self.clock.now();
        if self.depacketizer.poll_timeout().is_some_and(|due| due <= now) {
            let blocks = &mut self.blocks;
            self.depacketizer.handle_timeout(now, &mut |block| blocks.push(&block, samples));
        }
        self.tell(now);
        Ok(Some(Arrival { end: self.blocks.end.unwrap_or(now), lost: self.blocks.has_leapt }))
    }
}

impl Drop for RtpSound {
    fn drop(&mut self) {
        let counters = self.depacketizer.counters();
        tracing::info!(
            "sound at {}: {} packets, {} lost ({} samples of silence), {} datagrams of no use",
            self.addresses,
            counters.packets.received,
            counters.packets.lost,
            counters.silence,
            counters.refused
        );
    }
}

#[cfg(test)]
#[path = "rtp_tests.rs"]
mod tests;
