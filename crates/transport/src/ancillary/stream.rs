//! Payloads out of datagrams, and into them.

use super::{Error, Field, HEADER_BYTES, Packet, Payload};
use crate::rtp::source::{Origin, SourceLock};
use crate::rtp::{self, Header, Reorder};
use glassline_media::Time;

/// In front of a payload while it waits for its turn: whether it is the last of its frame, time stamp, arrival.
const PREFIX_BYTES: usize = 13;
/// Packets that a payload counts at most.
const PACKETS_MAX: usize = 255;

/// Which stream, and how long to wait for its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Its payload type, 7 bits.
    pub payload_type: u8,
    /// How long missing packets are waited for. What is complete does not wait.
    pub reorder: rtp::Settings,
}

/// A payload, given out in the order of sequence numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// What it is.
    pub payload: Payload,
    /// Of the frame or field, in ticks of 90 kHz.
    pub timestamp: u32,
    /// It is the last one of its frame or field: its marker is set.
    pub is_last: bool,
    /// When it came.
    pub arrived: Time,
}

/// What has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// RTP packets: those that are lost among them.
    pub packets: rtp::Counters,
    /// Datagrams of no use: no RTP, of another type, or no ancillary payload.
    pub refused: u64,
    /// ANC packets.
    pub ancillary: u64,
    /// ANC packets with a checksum that is wrong.
    pub checksum_errors: u64,
    /// Words of ANC packets with a wrong parity.
    pub parity_errors: u64,
    /// Payloads of no valid field, which are not given out.
    pub invalid_fields: u64,
}

/// Takes one stream's payloads out of its datagrams, in order. Datagrams of two paths (ST 2022-7) may both be put in.
#[derive(Clone, Debug)]
pub struct Depacketizer {
    reorder: Reorder,
    payload_type: u8,
    counters: Counters,
    /// A packet on its way into the order.
    scratch: Vec<u8>,
}

impl Depacketizer {
    /// Before the first datagram.
    pub fn new(settings: Settings) -> Depacketizer {
        Depacketizer {
            reorder: Reorder::new(settings.reorder),
            payload_type: settings.payload_type,
            counters: Counters::default(),
            scratch: Vec::new(),
        }
    }

    /// With a lock that knows which senders are allowed.
    #[must_use]
    pub fn with_lock(mut self, lock: SourceLock) -> Depacketizer {
        self.reorder = self.reorder.with_lock(lock);
        self
    }

    /// Takes a datagram that came from `from` at `now`, and calls `out` with each payload that is next in the order. A
    /// packet of the stream that is no payload keeps its place in the order. ANC packets with a wrong checksum are
    /// given out too: the caller decides whether to use them.
    ///
    /// # Errors
    /// Why the datagram is of no use; it is counted.
    pub fn handle_datagram(
        &mut self,
        datagram: &[u8],
        from: Origin,
        now: Time,
        out: &mut dyn FnMut(Received),
    ) -> Result<(), Error> {
        let taken = self.take(datagram, from, now, out);
        self.counters.refused = self.counters.refused.saturating_add(u64::from(taken.is_err()));
        taken
    }

    fn take(
        &mut self,
        datagram: &[u8],
        from: Origin,
        now: Time,
        out: &mut dyn FnMut(Received),
    ) -> Result<(), Error> {
        let packet = rtp::Packet::parse(datagram)?;
        let header = packet.header;
        if header.payload_type != self.payload_type {
            return Err(Error::PayloadType { found: header.payload_type, expected: self.payload_type });
        }
        let parsed = Payload::parse(packet.payload);
        self.scratch.clear();
        if parsed.is_ok() {
            self.scratch.push(u8::from(header.marker));
            self.scratch.extend(header.timestamp.to_be_bytes());
            self.scratch.extend(now.as_nanos().to_be_bytes());
            self.scratch.extend(packet.payload);
        }
        let counters = &mut self.counters;
        self.reorder.push(&header, &self.scratch, from, now, &mut |held| give_out(counters, held, out));
        parsed.map(|_| ())
    }

    /// When [`Depacketizer::handle_timeout`] gives up packets that are missing; `None` while nothing is held. Changes with
    /// [`Depacketizer::handle_datagram`], [`Depacketizer::handle_timeout`] and [`Depacketizer::flush`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.reorder.poll_timeout()
    }

    /// Gives up packets that do not come.
    pub fn handle_timeout(&mut self, now: Time, out: &mut dyn FnMut(Received)) {
        let counters = &mut self.counters;
        self.reorder.handle_timeout(now, &mut |held| give_out(counters, held, out));
    }

    /// The sender is gone: gives out what is held. The next packet begins anew; the counters stay.
    pub fn flush(&mut self, out: &mut dyn FnMut(Received)) {
        let counters = &mut self.counters;
        self.reorder.flush(&mut |held| give_out(counters, held, out));
    }

    /// What has come.
    pub fn counters(&self) -> Counters {
        Counters { packets: self.reorder.counters(), ..self.counters }
    }
}

fn give_out(counters: &mut Counters, held: &[u8], out: &mut dyn FnMut(Received)) {
    let Some((prefix, payload)) = held.split_first_chunk::<PREFIX_BYTES>() else { return };
    let [marker, t0, t1, t2, t3, arrived @ ..] = *prefix;
    // What is held was parsed before.
    let Ok(payload) = Payload::parse(payload) else { return };
    if payload.field == Field::Invalid {
        counters.invalid_fields = counters.invalid_fields.saturating_add(1);
        return;
    }
    for packet in &payload.packets {
        let wrong = u64::from(!packet.is_checksum_right());
        counters.ancillary = counters.ancillary.saturating_add(1);
        counters.checksum_errors = counters.checksum_errors.saturating_add(wrong);
        counters.parity_errors = counters.parity_errors.saturating_add(packet.parity_errors() as u64);
    }
    out(Received {
        payload,
        timestamp: u32::from_be_bytes([t0, t1, t2, t3]),
        is_last: marker != 0,
        arrived: Time::from_nanos(u64::from_be_bytes(arrived)),
    });
}

/// How ancillary data is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketizerSettings {
    /// The payload type, 7 bits.
    pub payload_type: u8,
    /// The synchronization source.
    pub ssrc: u32,
    /// The first packet's sequence number, 32 bits with its extension.
    pub first_sequence: u32,
    /// A datagram's bytes at most, the RTP header among them.
    pub datagram_bytes: usize,
}

/// Makes datagrams.
#[derive(Clone, Debug)]
pub struct Packetizer {
    settings: PacketizerSettings,
    sequence: u32,
    datagram: Vec<u8>,
}

impl Packetizer {
    /// Before the first frame.
    pub fn new(settings: PacketizerSettings) -> Packetizer {
        Packetizer { settings, sequence: settings.first_sequence, datagram: Vec::new() }
    }

    /// Sends a frame's or field's ANC packets, and calls `out` with each datagram. One goes out where there are none, too, so
    /// that receivers know (ST 2110-40 §5.5). An ANC packet that is larger than a datagram may be has one of its own.
    pub fn frame(&mut self, timestamp: u32, field: Field, packets: &[Packet], out: &mut dyn FnMut(&[u8])) {
        let fixed = const { rtp::HEADER_BYTES + HEADER_BYTES };
        let room = self.settings.datagram_bytes.saturating_sub(fixed);
        let mut rest = packets;
        loop {
            let mut bytes = 0usize;
            let fits = |packet: &&Packet| {
                bytes = bytes.saturating_add(packet.bytes());
                bytes <= room
            };
            let count = rest.iter().take(PACKETS_MAX).take_while(fits).count();
            let (now, later) = rest.split_at(count.max(1).min(rest.len()));
            rest = later;
            self.send(timestamp, field, now, rest.is_empty(), out);
            if rest.is_empty() {
                return;
            }
        }
    }

    fn send(
        &mut self,
        timestamp: u32,
        field: Field,
        packets: &[Packet],
        marker: bool,
        out: &mut dyn FnMut(&[u8]),
    ) {
        let PacketizerSettings { payload_type, ssrc, .. } = self.settings;
        let sequence = self.sequence;
        self.sequence = sequence.wrapping_add(1);
        let [e0, e1, s0, s1] = sequence.to_be_bytes();
        let sequence = u16::from_be_bytes([s0, s1]);
        let header = Header { marker, payload_type, sequence, timestamp, ssrc };
        let extended_sequence = u16::from_be_bytes([e0, e1]);
        let payload = Payload { extended_sequence, field, reserved: 0, packets: packets.to_vec() };
        self.datagram.clear();
        self.datagram.extend_from_slice(&header.write());
        payload.write(&mut self.datagram);
        out(&self.datagram);
    }
}
