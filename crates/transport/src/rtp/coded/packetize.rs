//! Access units to packets: the inverse of what the assemblers do.

use super::av1::write_leb128;
use super::parameter_sets::ParameterSets;
use crate::rtp::pcm::Depth;
use crate::rtp::{HEADER_BYTES, Header};
use glassline_media::bitstream::h264::nals;
use glassline_media::bitstream::{adts, av1, s302m};
use glassline_media::{AccessUnit, Codec};
use thiserror::Error;

/// Bytes of a payload at least: headers of all formats fit, and something behind them.
const PAYLOAD_MIN: usize = 64;

/// Why a packetizer cannot be made.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum PacketizerError {
    /// A codec with no payload format here.
    #[error("{} has no RTP payload format here", .0.name())]
    Codec(Codec),
    /// Too little room in a packet.
    #[error("payloads of {0} bytes are too small: {PAYLOAD_MIN} and more are taken")]
    Payload(usize),
}

/// Packets of one track.
#[derive(Clone, Debug)]
pub struct Packetizer {
    codec: Codec,
    payload_type: u8,
    ssrc: u32,
    sequence: u16,
    payload_bytes: usize,
    packets: u32,
    bytes: u32,
    /// The newest parameter sets, for key frames that come without them.
    sets: ParameterSets,
    /// Of uncompressed samples.
    depth: Depth,
}

/// Where a packet goes.
type Out<'a> = &'a mut dyn FnMut(&[u8]);

impl Packetizer {
    /// Packets with this payload type (7 bits) and SSRC; the first has the number `sequence`, and no payload more than
    /// `payload_bytes`. SSRC and number are random where they are not known (RFC 3550 §5.1).
    ///
    /// # Errors
    /// [`PacketizerError::Codec`] and [`PacketizerError::Payload`].
    pub fn new(
        codec: Codec,
        payload_type: u8,
        ssrc: u32,
        sequence: u16,
        payload_bytes: usize,
    ) -> Result<Packetizer, PacketizerError> {
        let is_known = matches!(
            codec,
            Codec::H264
                | Codec::H265
                | Codec::Av1
                | Codec::Aac
                | Codec::Opus
                | Codec::MpegAudio
                | Codec::S302m
        );
        if !is_known {
            return Err(PacketizerError::Codec(codec));
        }
        if payload_bytes < PAYLOAD_MIN {
            return Err(PacketizerError::Payload(payload_bytes));
        }
        let sets = ParameterSets::default();
        let (packets, bytes, depth) = (0, 0, Depth::L24);
        Ok(Packetizer { codec, payload_type, ssrc, sequence, payload_bytes, packets, bytes, sets, depth })
    }

    /// Uncompressed samples leave in this depth; without it as L24.
    #[must_use]
    pub fn with_depth(self, depth: Depth) -> Packetizer {
        Packetizer { depth, ..self }
    }

    /// The number of the next packet.
    pub fn next_sequence(&self) -> u16 {
        self.sequence
    }

    /// The sender that packets name.
    pub fn ssrc(&self) -> u32 {
        self.ssrc
    }

    /// Packets so far, and bytes of payload in them, modulo 2³², as sender reports have them.
    pub fn sent(&self) -> (u32, u32) {
        (self.packets, self.bytes)
    }

    /// Gives the packets of a unit to `out`. `timestamp` is its presentation time on the RTP clock: 90 kHz, of AAC the sampling
    /// rate of its header, of Opus and ST 302 48 kHz. A unit of another codec gives none.
    pub fn packetize(&mut self, unit: &AccessUnit, timestamp: u32, out: Out<'_>) {
        if unit.codec != self.codec {
            return;
        }
        match self.codec {
            Codec::H264 | Codec::H265 if unit.random_access => {
                // A receiver may begin with any key frame, and a description that is older than the sets has others.
                self.sets.update(self.codec, &unit.data);
                let whole = self.sets.complete(self.codec, unit.data.to_vec());
                self.write_nals(&whole, timestamp, out);
            }
            Codec::H264 | Codec::H265 => self.write_nals(&unit.data, timestamp, out),
            Codec::Av1 => self.write_obus(&unit.data, timestamp, out),
            Codec::Aac => self.write_aac(&unit.data, timestamp, out),
            Codec::MpegAudio => self.write_mpeg_audio(&unit.data, timestamp, out),
            Codec::S302m => self.write_samples(&unit.data, timestamp, out),
            _ => self.send(&[&unit.data], true, timestamp, out),
        }
    }

    fn send(&mut self, payload: &[&[u8]], marker: bool, timestamp: u32, out: Out<'_>) {
        let (payload_type, sequence, ssrc) = (self.payload_type, self.sequence, self.ssrc);
        let header = Header { marker, payload_type, sequence, timestamp, ssrc };
        let bytes = payload.iter().fold(0usize, |sum, part| sum.saturating_add(part.len()));
        let mut packet = Vec::with_capacity(HEADER_BYTES.saturating_add(bytes));
        packet.extend_from_slice(&header.write());
        payload.iter().for_each(|part| packet.extend_from_slice(part));
        self.sequence = self.sequence.wrapping_add(1);
        self.packets = self.packets.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add(u32::try_from(bytes).unwrap_or(0));
        out(&packet);
    }

    /// NAL units: small ones together, large ones in pieces.
    fn write_nals(&mut self, unit: &[u8], timestamp: u32, out: Out<'_>) {
        let codec = self.codec;
        // Delimiters and filler say nothing that packets do not.
        let is_sent = |nal: &&[u8]| match codec {
            Codec::H265 => !matches!(nal.first().map(|header| header >> 1 & 0x3f), None | Some(35 | 38)),
            _ => !matches!(nal.first().map(|header| header & 0x1f), None | Some(9 | 12)),
        };
        let nals: Vec<&[u8]> = nals(unit).map(|nal| nal.bytes).filter(is_sent).collect();
        let mut rest = &nals[..];
        while let [first, behind @ ..] = rest {
            let header_bytes = if codec == Codec::H265 { 2 } else { 1 };
            let mut bytes: usize = header_bytes;
            let fits = |nal: &&&[u8]| {
                bytes = bytes.saturating_add(nal.len()).saturating_add(2);
                bytes <= self.payload_bytes
            };
            let together = rest.iter().take_while(fits).count();
            if together > 1 {
                let (group, behind) = rest.split_at(together);
                self.write_group(group, behind.is_empty(), timestamp, out);
                rest = behind;
                continue;
            }
            if first.len() <= self.payload_bytes {
                self.send(&[first], behind.is_empty(), timestamp, out);
            } else {
                self.write_pieces(first, behind.is_empty(), timestamp, out);
            }
            rest = behind;
        }
    }

    fn write_group(&mut self, group: &[&[u8]], is_last: bool, timestamp: u32, out: Out<'_>) {
        let mut payload = match self.codec {
            // The lowest layer and temporal layer of all (RFC 7798 §4.4.2): streams here have one layer.
            Codec::H265 => {
                let temporal = group.iter().filter_map(|nal| nal.get(1)).map(|second| second & 7).min();
                vec![48 << 1, temporal.unwrap_or(1)]
            }
            // The highest importance of all (RFC 6184 §5.3).
            _ => {
                let importance = group.iter().filter_map(|nal| nal.first()).map(|first| first & 0x60).max();
                vec![importance.unwrap_or(0) | 24]
            }
        };
        for nal in group {
            payload.extend_from_slice(&u16::try_from(nal.len()).unwrap_or(0).to_be_bytes());
            payload.extend_from_slice(nal);
        }
        self.send(&[&payload], is_last, timestamp, out);
    }

    fn write_pieces(&mut self, nal: &[u8], is_last: bool, timestamp: u32, out: Out<'_>) {
        let (head, kind, body) = match (self.codec, nal) {
            (Codec::H265, [first, second, body @ ..]) => {
                (vec![first & 0x81 | 49 << 1, *second], first >> 1 & 0x3f, body)
            }
            (_, [first, body @ ..]) => (vec![first & 0xe0 | 28], first & 0x1f, body),
            _ => return,
        };
        let room = self.payload_bytes.saturating_sub(head.len()).saturating_sub(1).max(1);
        let count = body.len().div_ceil(room);
        for (number, piece) in body.chunks(room).enumerate() {
            let (starts, ends) = (number == 0, number.saturating_add(1) == count);
            let fragment = u8::from(starts) << 7 | u8::from(ends) << 6 | kind;
            self.send(&[&head, &[fragment], piece], is_last && ends, timestamp, out);
        }
    }

    /// OBUs without their sizes, each packet with the length of each piece in front of it.
    fn write_obus(&mut self, unit: &[u8], timestamp: u32, out: Out<'_>) {
        let mut sample = Vec::new();
        av1::to_sample(unit, &mut sample);
        let mut obus: Vec<Vec<u8>> = Vec::new();
        let mut has_sequence = false;
        for obu in av1::obus(&sample) {
            has_sequence |= obu.kind() == av1::ObuType::SequenceHeader;
            let mut bytes = vec![obu.header & !2];
            bytes.extend(obu.extension);
            bytes.extend_from_slice(obu.payload);
            obus.push(bytes);
        }
        // Room for the aggregation header, and for a length of up to three bytes.
        let room = self.payload_bytes.saturating_sub(4);
        let (mut payload, mut is_first, mut continues) = (vec![0u8], true, false);
        let count = obus.len();
        for (number, obu) in obus.iter().enumerate() {
            let mut rest = &obu[..];
            while !rest.is_empty() {
                let free = room.saturating_sub(payload.len());
                if free < 8 {
                    self.send_obus(
                        &mut payload,
                        (is_first && has_sequence, continues, false),
                        timestamp,
                        out,
                    );
                    (is_first, continues) = (false, false);
                    continue;
                }
                let (piece, behind) = rest.split_at(rest.len().min(free));
                write_leb128(piece.len(), &mut payload);
                payload.extend_from_slice(piece);
                rest = behind;
                let is_end = rest.is_empty() && number.saturating_add(1) == count;
                if !rest.is_empty() {
                    self.send_obus(&mut payload, (is_first && has_sequence, continues, true), timestamp, out);
                    (is_first, continues) = (false, true);
                } else if is_end {
                    let flags = u8::from(continues) << 7 | u8::from(is_first && has_sequence) << 3;
                    payload[0] = flags;
                    self.send(&[&payload], true, timestamp, out);
                }
            }
        }
    }

    fn send_obus(
        &mut self,
        payload: &mut Vec<u8>,
        (is_new, continues, goes_on): (bool, bool, bool),
        timestamp: u32,
        out: Out<'_>,
    ) {
        payload[0] = u8::from(continues) << 7 | u8::from(goes_on) << 6 | u8::from(is_new) << 3;
        self.send(&[payload], false, timestamp, out);
        payload.truncate(1);
    }

    /// `AAC-hbr`: the frames of a unit, each in packets of its own where it does not fit with others.
    fn write_aac(&mut self, unit: &[u8], timestamp: u32, out: Out<'_>) {
        let mut timestamp = timestamp;
        for (header, frame) in adts::frames(unit) {
            let body = frame.get(header.overhead_bytes()..).unwrap_or_default();
            let size = u16::try_from(body.len()).unwrap_or(0) << 3;
            let head = [&16u16.to_be_bytes()[..], &size.to_be_bytes()].concat();
            let room = self.payload_bytes.saturating_sub(head.len()).max(1);
            let count = body.len().div_ceil(room);
            for (number, piece) in body.chunks(room).enumerate() {
                self.send(&[&head, piece], number.saturating_add(1) == count, timestamp, out);
            }
            timestamp = timestamp.wrapping_add(header.samples());
        }
    }

    fn write_mpeg_audio(&mut self, frame: &[u8], timestamp: u32, out: Out<'_>) {
        let room = self.payload_bytes.saturating_sub(4).max(1);
        let mut offset = 0usize;
        for piece in frame.chunks(room) {
            let head = u32::try_from(offset).unwrap_or(0).to_be_bytes();
            self.send(&[&head, piece], offset == 0, timestamp, out);
            offset = offset.saturating_add(piece.len());
        }
    }

    /// Samples of ST 302 as L16 or L24.
    fn write_samples(&mut self, unit: &[u8], timestamp: u32, out: Out<'_>) {
        let Ok((header, samples)) = s302m::read(unit) else { return };
        let mut bytes = Vec::new();
        self.depth.encode(&samples.collect::<Vec<f32>>(), &mut bytes);
        let frame_bytes = usize::from(header.channels).saturating_mul(self.depth.bytes());
        let frames = self.payload_bytes.checked_div(frame_bytes).unwrap_or(1).max(1);
        let mut timestamp = timestamp;
        for piece in bytes.chunks(frames.saturating_mul(frame_bytes)) {
            self.send(&[piece], false, timestamp, out);
            let count = piece.len().checked_div(frame_bytes).unwrap_or(0);
            timestamp = timestamp.wrapping_add(u32::try_from(count).unwrap_or(0));
        }
    }
}
