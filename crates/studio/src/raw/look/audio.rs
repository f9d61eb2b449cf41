//! A flow of sound: packets, levels, clock.

use super::super::datagrams::Datagram;
use super::Clocks;
use super::path::{Came, Path};
use super::report::{AudioReport, Merged, Spread};
use crate::raw::described;
use glassline_io::clock::Clock;
use glassline_media::Time;
use glassline_transport::raw_video::MediaClock;
use glassline_transport::rtp::pcm::{Block, Depacketizer, Depth, Format, Settings};
use glassline_transport::rtp::source::Origin;
use glassline_transport::rtp::{self, Packet};
use glassline_transport::sdp::{Audio, Flow};
use std::time::Duration;

/// What is found of a flow of sound.
pub(super) struct AudioSeen {
    audio: Audio,
    format: Format,
    pub(super) paths: Vec<Path>,
    depacketizer: Depacketizer,
    levels: Levels,
    /// The fewest and the most samples of a packet.
    packet_samples: Option<(u32, u32)>,
}

/// What is made of the blocks.
struct Levels {
    clock: Clock,
    media_clock: MediaClock,
    clocks: Clocks,
    /// Of each channel, of full scale.
    peaks: Vec<f32>,
    /// When the first block that came was captured by its arrival, and the last one; its stamps' progress.
    run: Option<(Time, Time)>,
    last_timestamp: u32,
    ticks: u64,
}

impl Levels {
    fn push(&mut self, block: &Block) {
        let channels = self.peaks.len().max(1);
        for frame in block.audio.samples.chunks_exact(channels) {
            for (peak, sample) in self.peaks.iter_mut().zip(frame) {
                *peak = peak.max(sample.abs());
            }
        }
        let length = Duration::from_secs(block.audio.frames() as u64) / block.audio.rate_hz.max(1);
        // What waited least came when its last sample was captured.
        let arrived = block.audio.captured + length;
        let utc = self.clock.utc_at(arrived);
        let captured = self.media_clock.captured(block.timestamp, arrived, utc);
        let is_related = self.media_clock.is_related();
        self.clocks.captured_by = Some(if is_related { "stamps" } else { "arrivals" });
        if is_related {
            let age = arrived.since(captured).as_secs_f64() * 1e3;
            self.clocks.age_ms = Some(Spread::including(self.clocks.age_ms, age));
        }
    }

    /// A packet came in its turn: how fast the sender's clock is.
    fn follow(&mut self, timestamp: u32, at: Time, rate_hz: u32) {
        let step = timestamp.wrapping_sub(self.last_timestamp);
        match self.run {
            // A leap begins anew.
            Some((began, _)) if step < rate_hz => {
                self.ticks += u64::from(step);
                self.run = Some((began, at));
            }
            Some(_) if step.cast_signed() < 0 && step.cast_signed() > -rate_hz.cast_signed() => return,
            _ => (self.run, self.ticks) = (Some((at, at)), 0),
        }
        self.last_timestamp = timestamp;
    }
}

impl AudioSeen {
    pub(super) fn new(flow: &Flow, audio: &Audio, skew: Duration, clock: Clock) -> Option<AudioSeen> {
        let depth = if audio.bits == 16 { Depth::L16 } else { Depth::L24 };
        let format = Format::new(depth, audio.channels, audio.rate_hz).ok()?;
        let reorder = rtp::Settings { window: skew, ..rtp::Settings::default() };
        let settings = Settings { format, payload_type: flow.payload_type, reorder };
        let path = |path| Path::new(flow.payload_type, audio.rate_hz, described::path_lock(path));
        Some(AudioSeen {
            audio: audio.clone(),
            format,
            paths: flow.paths.iter().map(path).collect(),
            depacketizer: Depacketizer::new(settings).with_lock(described::lock(flow)),
            levels: Levels {
                clock,
                media_clock: MediaClock::with_rate(described::direct_offset(flow), audio.rate_hz),
                clocks: Clocks::default(),
                peaks: vec![0.0; usize::from(audio.channels)],
                run: None,
                last_timestamp: 0,
                ticks: 0,
            },
            packet_samples: None,
        })
    }

    pub(super) fn take(&mut self, path: usize, datagram: Datagram<'_>) {
        let Datagram { bytes, at, drops, from } = datagram;
        let came = Came { bytes: bytes.len(), at, drops, from };
        let origin = Origin { path, address: from };
        let Some(path) = self.paths.get_mut(path) else { return };
        let Some(seen) = path.push(bytes, came, false) else {
            // It is counted there too.
            let _ = self.depacketizer.handle_datagram(bytes, origin, at, &mut |_| {});
            return;
        };
        let levels = &mut self.levels;
        let taken = self.depacketizer.handle_datagram(bytes, origin, at, &mut |block| levels.push(&block));
        if taken.is_err() {
            path.refuse_payload();
            return;
        }
        let payload = Packet::parse(bytes).map_or(0, |packet| packet.payload.len());
        let samples = (payload / self.format.frame_bytes()) as u32;
        let (least, most) = self.packet_samples.unwrap_or((samples, samples));
        self.packet_samples = Some((least.min(samples), most.max(samples)));
        levels.follow(seen.header.timestamp, at, self.audio.rate_hz);
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.depacketizer.poll_timeout()
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        let levels = &mut self.levels;
        self.depacketizer.handle_timeout(now, &mut |block| levels.push(&block));
    }

    pub(super) fn report(&self) -> (Merged, AudioReport, Clocks) {
        let counters = self.depacketizer.counters();
        let micros = |samples: u32| f64::from(samples) * 1e6 / f64::from(self.audio.rate_hz.max(1));
        let run = self.levels.run.map(|(began, ended)| ended.since(began).as_secs_f64());
        let report = AudioReport {
            depth_bits: self.audio.bits,
            rate_hz: self.audio.rate_hz,
            channels: self.audio.channels,
            channel_order: self.audio.channel_order.clone(),
            described_packet_us: micros(self.audio.packet_samples()),
            packet_us: self.packet_samples.map(|(least, most)| [micros(least), micros(most)]),
            received_rate_hz: run
                .filter(|seconds| *seconds > 0.0)
                .map(|seconds| self.levels.ticks as f64 / seconds),
            samples: counters.samples,
            silence: counters.silence,
            jumps: counters.jumps,
            peak_dbfs: self.levels.peaks.iter().map(|peak| decibels(*peak)).collect(),
        };
        (merged(&counters.packets, counters.refused), report, self.levels.clocks.clone())
    }
}

/// What an order of packets has counted, without what the kernel dropped.
pub(super) fn merged(packets: &rtp::Counters, refused: u64) -> Merged {
    Merged {
        packets: packets.received.saturating_sub(packets.duplicate + packets.late + packets.stray),
        lost: packets.lost,
        reordered: packets.reordered,
        duplicates: packets.duplicate,
        late: packets.late,
        refused,
        restarts: packets.restarts,
        kernel_drops: 0,
    }
}

/// Below full scale.
fn decibels(peak: f32) -> Option<f64> {
    (peak > 0.0).then(|| 20.0 * f64::from(peak).log10())
}

#[cfg(test)]
#[path = "audio_tests.rs"]
mod tests;
