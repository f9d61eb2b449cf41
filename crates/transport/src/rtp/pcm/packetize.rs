//! Sound to datagrams.

use super::{DATAGRAM_BYTES_MAX, Error, Format};
use crate::rtp::{HEADER_BYTES, Header};
use glassline_media::AudioBlock;
use std::time::Duration;

/// How much sound a packet has (AES67 §7.2, ST 2110-30 §7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PacketTime {
    /// 1 ms, which every receiver takes.
    #[default]
    Millisecond,
    /// 125 µs: less delay, or more channels.
    Eighth,
}

impl PacketTime {
    /// Samples of each channel in a packet. Rates of 44.1 kHz's family have as many as those of 48 kHz's, so that their packets
    /// last a little longer (AES67 §7.2.1).
    pub fn samples(self, rate_hz: u32) -> u32 {
        let even =
            if rate_hz.is_multiple_of(44_100) { (rate_hz / 44_100).saturating_mul(48_000) } else { rate_hz };
        match self {
            PacketTime::Millisecond => (even / 1_000).max(1),
            PacketTime::Eighth => (even / 8_000).max(1),
        }
    }
}

/// How sound is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketizerSettings {
    /// What the samples are.
    pub format: Format,
    /// How much a packet has.
    pub packet_time: PacketTime,
    /// The payload type, 7 bits.
    pub payload_type: u8,
    /// The synchronization source.
    pub ssrc: u32,
    /// The first packet's sequence number.
    pub first_sequence: u16,
    /// The first sample's time stamp.
    pub first_timestamp: u32,
}

/// Makes datagrams of one size, with time stamps that go on without a gap.
#[derive(Clone, Debug)]
pub struct Packetizer {
    settings: PacketizerSettings,
    samples: u32,
    sequence: u16,
    timestamp: u32,
    /// Less than a packet.
    rest: Vec<f32>,
    datagram: Vec<u8>,
}

impl Packetizer {
    /// Before the first sample.
    ///
    /// # Errors
    /// [`Error::Datagram`] where a packet time of so many channels does not fit into a datagram.
    pub fn new(settings: PacketizerSettings) -> Result<Packetizer, Error> {
        let samples = settings.packet_time.samples(settings.format.rate_hz());
        let found =
            (samples as usize).saturating_mul(settings.format.frame_bytes()).saturating_add(HEADER_BYTES);
        if found > DATAGRAM_BYTES_MAX {
            return Err(Error::Datagram { found });
        }
        Ok(Packetizer {
            settings,
            samples,
            sequence: settings.first_sequence,
            timestamp: settings.first_timestamp,
            rest: Vec::new(),
            datagram: Vec::with_capacity(found),
        })
    }

    /// Samples of all channels in a packet.
    fn packet_values(&self) -> usize {
        (self.samples as usize).saturating_mul(self.settings.format.channels().into())
    }

    /// Samples of each channel in a packet.
    pub fn packet_samples(&self) -> u32 {
        self.samples
    }

    /// From one packet to the next, rounded down to the nanosecond.
    pub fn packet_time(&self) -> Duration {
        let rate_hz = self.settings.format.rate_hz();
        Duration::from_secs(u64::from(self.samples)).checked_div(rate_hz).unwrap_or_default()
    }

    /// The time stamp of the next packet.
    pub fn timestamp(&self) -> u32 {
        self.timestamp
    }

    /// Takes a block and calls `out` with each datagram that is full; what is left over waits for the next block.
    ///
    /// # Errors
    /// [`Error::Samples`] where the block has other channels or another rate; nothing of it is taken.
    pub fn push(&mut self, block: &AudioBlock, out: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
        let format = self.settings.format;
        let (found, channels, rate_hz) = (block.samples.len(), block.channels, block.rate_hz);
        let is_whole = found.is_multiple_of(usize::from(format.channels()));
        if channels != format.channels() || rate_hz != format.rate_hz() || !is_whole {
            return Err(Error::Samples { found, channels, rate_hz });
        }
        let size = self.packet_values();
        let mut samples = &block.samples[..];
        if !self.rest.is_empty() {
            let (now, later) = samples.split_at(samples.len().min(size.saturating_sub(self.rest.len())));
            self.rest.extend_from_slice(now);
            samples = later;
            if self.rest.len() == size {
                let mut rest = std::mem::take(&mut self.rest);
                self.send(&rest, out);
                rest.clear();
                self.rest = rest;
            }
        }
        let packets = samples.chunks_exact(size);
        // Empty where `rest` is not: what filled it up has used up all.
        self.rest.extend_from_slice(packets.remainder());
        packets.for_each(|packet| self.send(packet, out));
        Ok(())
    }

    /// Ends a run of sound: what is left over goes out with silence behind it, so that all packets are of one size.
    pub fn flush(&mut self, out: &mut dyn FnMut(&[u8])) {
        if self.rest.is_empty() {
            return;
        }
        let mut rest = std::mem::take(&mut self.rest);
        rest.resize(self.packet_values(), 0.0);
        self.send(&rest, out);
    }

    /// Leaves out samples of each channel that never came: the time stamps go on, so that receivers put silence there. To be
    /// called behind [`Packetizer::flush`].
    pub fn skip(&mut self, samples: u32) {
        self.timestamp = self.timestamp.wrapping_add(samples);
    }

    fn send(&mut self, samples: &[f32], out: &mut dyn FnMut(&[u8])) {
        let header = Header {
            // Without pauses there is no first packet behind one (RFC 3551 §4.1).
            marker: false,
            payload_type: self.settings.payload_type,
            sequence: self.sequence,
            timestamp: self.timestamp,
            ssrc: self.settings.ssrc,
        };
        self.datagram.clear();
        self.datagram.extend_from_slice(&header.write());
        self.settings.format.depth().encode(samples, &mut self.datagram);
        self.sequence = self.sequence.wrapping_add(1);
        self.timestamp = self.timestamp.wrapping_add(self.samples);
        out(&self.datagram);
    }
}
