//! Datagrams to sound.

use super::{DATAGRAM_BYTES_MAX, Error, Format};
use crate::counter::count;
use crate::raw_video::MediaClock;
use crate::rtp::source::{Origin, SourceLock};
use crate::rtp::{self, Packet, Reorder};
use glassline_media::{AudioBlock, Time, Utc};

/// Silence that fills a gap at most, in seconds, and in the long run no more than time passes: a sender with stamps
/// that leap does not make much of little. A longer gap is a stream that begins anew.
const SILENCE_SECONDS: u32 = 1;
/// A block of silence has as many samples at most as a datagram can bring, so that no gap needs more memory than sound does.
const SILENCE_BYTES: usize = DATAGRAM_BYTES_MAX;
/// In front of a payload while it waits for its turn: time stamp and arrival.
const PREFIX_BYTES: usize = 12;

/// Which stream, and how long to wait for its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What its samples are.
    pub format: Format,
    /// Its payload type, 7 bits.
    pub payload_type: u8,
    /// How long missing packets are waited for. Sound that is complete does not wait.
    pub reorder: rtp::Settings,
}

/// A run of samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// The samples. They were captured when the samples' clock says, as far as arrivals tell (see [`MediaClock`]): the packet
    /// that waited least was captured one packet time before it came.
    pub audio: AudioBlock,
    /// The first sample's time stamp.
    pub timestamp: u32,
    /// It stands for packets that are missing.
    pub is_silence: bool,
}

/// What has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets: those that are lost among them.
    pub packets: rtp::Counters,
    /// Datagrams of no use: no RTP, of another type, of a wrong size.
    pub refused: u64,
    /// Samples of each channel that came.
    pub samples: u64,
    /// Samples of each channel that were missing and are silence.
    pub silence: u64,
    /// Times that the time stamp went back, or so far on that no silence fills the gap.
    pub jumps: u64,
}

/// Takes one stream's sound out of its datagrams, in order and without gaps.
///
/// Datagrams of two paths that carry the same packets (ST 2022-7) may both be put in: each packet counts once.
#[derive(Clone, Debug)]
pub struct Depacketizer {
    reorder: Reorder,
    player: Player,
    payload_type: u8,
    refused: u64,
    /// A packet on its way into the order.
    scratch: Vec<u8>,
}

impl Depacketizer {
    /// Before the first datagram.
    pub fn new(settings: Settings) -> Depacketizer {
        let format = settings.format;
        let clock = MediaClock::with_rate(None, format.rate_hz());
        Depacketizer {
            reorder: Reorder::new(settings.reorder),
            player: Player {
                format,
                clock,
                next: None,
                credit: SILENCE_SECONDS * format.rate_hz(),
                latest: Time::NEVER,
                counters: Counters::default(),
            },
            payload_type: settings.payload_type,
            refused: 0,
            scratch: Vec::new(),
        }
    }

    /// With a lock that knows which senders are allowed.
    #[must_use]
    pub fn with_lock(mut self, lock: SourceLock) -> Depacketizer {
        self.reorder = self.reorder.with_lock(lock);
        self
    }

    /// Takes a datagram that came from `from` at `now`, and calls `out` with each block that is next in the order. A
    /// packet of the stream with a payload of a wrong size keeps its place in the order; it becomes silence.
    ///
    /// # Errors
    /// Why the datagram is of no use; it is counted.
    pub fn handle_datagram(
        &mut self,
        datagram: &[u8],
        from: Origin,
        now: Time,
        out: &mut dyn FnMut(Block),
    ) -> Result<(), Error> {
        let taken = self.take(datagram, from, now, out);
        count(&mut self.refused, taken.is_err().into());
        taken
    }

    fn take(
        &mut self,
        datagram: &[u8],
        from: Origin,
        now: Time,
        out: &mut dyn FnMut(Block),
    ) -> Result<(), Error> {
        if datagram.len() > DATAGRAM_BYTES_MAX {
            return Err(Error::Datagram { found: datagram.len() });
        }
        let packet = Packet::parse(datagram)?;
        let header = packet.header;
        if header.payload_type != self.payload_type {
            return Err(Error::PayloadType { found: header.payload_type, expected: self.payload_type });
        }
        let (found, frame) = (packet.payload.len(), self.player.format.frame_bytes());
        let is_whole = found > 0 && found.is_multiple_of(frame);
        self.scratch.clear();
        if is_whole {
            self.scratch.extend(header.timestamp.to_be_bytes());
            self.scratch.extend(now.as_nanos().to_be_bytes());
            self.scratch.extend(packet.payload);
        }
        let player = &mut self.player;
        self.reorder.push(&header, &self.scratch, from, now, &mut |held| player.play(held, out));
        if is_whole { Ok(()) } else { Err(Error::Payload { found, frame }) }
    }

    /// When [`Depacketizer::handle_timeout`] gives up packets that are missing; `None` while nothing is held. Changes with
    /// [`Depacketizer::handle_datagram`], [`Depacketizer::handle_timeout`] and [`Depacketizer::flush`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.reorder.poll_timeout()
    }

    /// Gives up packets that do not come.
    pub fn handle_timeout(&mut self, now: Time, out: &mut dyn FnMut(Block)) {
        let player = &mut self.player;
        self.reorder.handle_timeout(now, &mut |held| player.play(held, out));
    }

    /// The sender is gone: gives out what is held. The next packet begins anew; the counters stay.
    pub fn flush(&mut self, out: &mut dyn FnMut(Block)) {
        let player = &mut self.player;
        self.reorder.flush(&mut |held| player.play(held, out));
        player.next = None;
    }

    /// What has come.
    pub fn counters(&self) -> Counters {
        Counters { packets: self.reorder.counters(), refused: self.refused, ..self.player.counters }
    }
}

/// Makes blocks of packets that are in order.
#[derive(Clone, Debug)]
struct Player {
    format: Format,
    clock: MediaClock,
    /// The time stamp that is to come.
    next: Option<u32>,
    /// Samples of silence that may be made, as of the latest arrival.
    credit: u32,
    latest: Time,
    counters: Counters,
}

impl Player {
    fn play(&mut self, held: &[u8], out: &mut dyn FnMut(Block)) {
        let Some((prefix, payload)) = held.split_first_chunk::<PREFIX_BYTES>() else { return };
        let [t0, t1, t2, t3, arrived @ ..] = *prefix;
        let timestamp = u32::from_be_bytes([t0, t1, t2, t3]);
        let arrived = Time::from_nanos(u64::from_be_bytes(arrived));
        let Some(samples) = self.samples_in(payload.len()) else { return };
        let gap = timestamp.wrapping_sub(self.next.unwrap_or(timestamp));
        self.earn(arrived);
        let is_jump = gap > self.credit;
        if is_jump {
            count(&mut self.counters.jumps, 1);
            self.clock = MediaClock::with_rate(None, self.format.rate_hz());
        }
        // A packet is sent once its last sample is there.
        let sent = Time::from_nanos(arrived.as_nanos().saturating_sub(self.nanos(samples)));
        let captured = self.clock.captured(timestamp, sent, Utc::default());
        if !is_jump {
            self.credit = self.credit.saturating_sub(gap);
            self.fill(gap, timestamp, captured, out);
        }
        let mut audio = self.block(captured, samples);
        self.format.depth().decode(payload, &mut audio.samples);
        count(&mut self.counters.samples, samples.into());
        self.next = Some(timestamp.wrapping_add(samples));
        out(Block { audio, timestamp, is_silence: false });
    }

    /// Silence may be made for the time that has passed.
    fn earn(&mut self, arrived: Time) {
        let (rate, passed) = (self.format.rate_hz(), arrived.since(self.latest));
        let samples =
            (passed.as_nanos().min(1_000_000_000) as u64).saturating_mul(rate.into()) / 1_000_000_000;
        let samples = u32::try_from(samples).unwrap_or(u32::MAX);
        self.credit = self.credit.saturating_add(samples).min(SILENCE_SECONDS.saturating_mul(rate));
        self.latest = if self.latest == Time::NEVER { arrived } else { self.latest.max(arrived) };
    }

    /// Puts silence in front of what was captured at `end`.
    fn fill(&mut self, gap: u32, timestamp: u32, end: Time, out: &mut dyn FnMut(Block)) {
        let most = self.samples_in(SILENCE_BYTES).unwrap_or(0).max(1);
        let mut left = gap;
        while left > 0 {
            let samples = left.min(most);
            let captured = Time::from_nanos(end.as_nanos().saturating_sub(self.nanos(left)));
            let mut audio = self.block(captured, samples);
            audio.samples.resize((samples as usize).saturating_mul(audio.channels.into()), 0.0);
            count(&mut self.counters.silence, samples.into());
            out(Block { audio, timestamp: timestamp.wrapping_sub(left), is_silence: true });
            left = left.saturating_sub(samples);
        }
    }

    fn block(&self, captured: Time, samples: u32) -> AudioBlock {
        let channels = self.format.channels();
        let room = (samples as usize).saturating_mul(channels.into());
        AudioBlock { samples: Vec::with_capacity(room), channels, rate_hz: self.format.rate_hz(), captured }
    }

    fn nanos(&self, samples: u32) -> u64 {
        let nanos = u64::from(samples).saturating_mul(1_000_000_000);
        nanos.checked_div(self.format.rate_hz().into()).unwrap_or(0)
    }

    /// How many samples of each channel so many bytes are.
    fn samples_in(&self, bytes: usize) -> Option<u32> {
        u32::try_from(bytes.checked_div(self.format.frame_bytes())?).ok()
    }
}
