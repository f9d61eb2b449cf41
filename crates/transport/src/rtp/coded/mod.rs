//! Coded pictures and sound in RTP: packets to access units, and back.
//!
//! ```text
//! packets ─► Reorder ─► an assembler by payload format ─► CodedUnit ─► Timeline ─► PTS, DTS, capture time
//!                       H.264 (RFC 6184), H.265 (RFC 7798), AV1, AAC (RFC 3640), LATM (RFC 6416),
//!                       Opus (RFC 7587), MPEG audio (RFC 2250), L16 and L24 (RFC 3551, RFC 3190), G.711 (RFC 3551)
//! AccessUnit ─► Packetizer ─► packets
//! ```
//! A picture ends with its marker bit, or where the time stamp changes: cameras forget either. A loss damages the unit that it
//! falls into, and no other: that one is dropped and counted. Whether pictures that refer to a dropped one are shown is the
//! decoder's choice; some conceal it, others wait for a key frame, and dropping them here would take that choice away.
//!
//! Interleaved modes of RFC 6184 (STAP-B, MTAP, FU-B) are not read: packets of these are counted as malformed.

mod aac;
mod av1;
mod decode_order;
mod format;
mod latm;
mod nal;
mod narrow;
mod packetize;
mod parameter_sets;
mod sound;
#[cfg(test)]
mod tests;
mod timeline;

pub use format::{Format, FormatError};
pub use packetize::{Packetizer, PacketizerError};
pub(super) use parameter_sets::{SET_BYTES_MAX, SETS_MAX};
pub use timeline::{Placed, Timeline};

use super::source::Origin;
use super::{Counters, Error, Header, Packet, Reorder, Settings, distance};
use crate::counter::count;
use aac::AacAssembler;
use av1::Av1Assembler;
use bytes::Bytes;
use glassline_media::{Codec, Time};
use latm::LatmAssembler;
use nal::NalAssembler;
use narrow::NarrowAssembler;
use sound::{MpegAudioAssembler, OpusAssembler, PcmAssembler};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// Bytes of an access unit at most; a larger one is dropped. A key frame of 8K at the highest rates has 4 MB.
pub const UNIT_BYTES_MAX: usize = 8 << 20;

/// An access unit, on the RTP clock of its track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodedUnit {
    /// What it is coded in.
    pub codec: Codec,
    /// The coded bytes in the form that [`Codec`] names.
    pub data: Bytes,
    /// When it is presented: its RTP time stamp, unwrapped, in ticks of the track's clock. The first one is at least 2³², less what a
    /// filter lags behind.
    pub timestamp: u64,
    /// When it is decoded, by the same clock; RTP does not carry that, and it is concluded from the order of pictures.
    pub decode_timestamp: u64,
    /// Whether decoding can begin here.
    pub random_access: bool,
}

/// What became of a track's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrackCounters {
    /// Packets by their order.
    pub packets: Counters,
    /// Access units that came out.
    pub units: u64,
    /// Access units that were dropped since a part of them is missing, or since they are too large.
    pub damaged: u64,
    /// Packets with a payload that contradicts its format.
    pub malformed: u64,
    /// Packets of another payload type than the track's.
    pub other_type: u64,
}

/// One packet's payload in its turn.
struct Piece<'a> {
    payload: &'a [u8],
    timestamp: u64,
    marker: bool,
    /// Packets before it are missing, or it is the first one.
    is_after_loss: bool,
    /// When it was taken out of the order.
    now: Time,
}

/// What assemblers give.
#[derive(Debug, Default)]
struct Collected {
    units: VecDeque<CodedUnit>,
    given: u64,
    damaged: u64,
    malformed: u64,
}

impl Collected {
    fn push(&mut self, unit: CodedUnit) {
        count(&mut self.given, 1);
        self.units.push_back(unit);
    }

    /// A unit of sound, which is decoded when it is presented.
    fn push_sound(&mut self, codec: Codec, data: Vec<u8>, timestamp: u64) {
        let decode_timestamp = timestamp;
        self.push(CodedUnit {
            codec,
            data: Bytes::from(data),
            timestamp,
            decode_timestamp,
            random_access: true,
        });
    }

    fn damage(&mut self) {
        count(&mut self.damaged, 1);
    }

    fn malform(&mut self) {
        count(&mut self.malformed, 1);
    }
}

#[derive(Debug)]
enum Assembler {
    Nal(Box<NalAssembler>),
    Av1(Box<Av1Assembler>),
    Aac(Box<AacAssembler>),
    Latm(Box<LatmAssembler>),
    Opus(OpusAssembler),
    MpegAudio(MpegAudioAssembler),
    Pcm(PcmAssembler),
    Narrow(Box<NarrowAssembler>),
}

impl Assembler {
    fn push(&mut self, piece: &Piece<'_>, out: &mut Collected) {
        match self {
            Assembler::Nal(assembler) => assembler.push(piece, out),
            Assembler::Av1(assembler) => assembler.push(piece, out),
            Assembler::Aac(assembler) => assembler.push(piece, out),
            Assembler::Latm(assembler) => assembler.push(piece, out),
            Assembler::Opus(assembler) => assembler.push(piece, out),
            Assembler::MpegAudio(assembler) => assembler.push(piece, out),
            Assembler::Pcm(assembler) => assembler.push(piece, out),
            Assembler::Narrow(assembler) => assembler.push(piece, out),
        }
    }

    fn end(&mut self, out: &mut Collected) {
        match self {
            Assembler::Nal(assembler) => assembler.end(out),
            Assembler::Av1(assembler) => assembler.finish(out),
            _ => {}
        }
    }
}

/// The sender's numbers and time stamps, as packets come out in order.
#[derive(Debug, Default)]
struct Order {
    next: Option<(u32, u16)>,
    timestamp: Option<u64>,
    /// When packets came or were given up last.
    now: Time,
}

impl Order {
    fn piece<'a>(&mut self, header: &Header, payload: &'a [u8]) -> Piece<'a> {
        let is_after_loss = self.next != Some((header.ssrc, header.sequence));
        self.next = Some((header.ssrc, header.sequence.wrapping_add(1)));
        let wire = u64::from(header.timestamp);
        let timestamp = match self.timestamp {
            // One turn ahead, so that looking back never ends below zero.
            None => 1 << 32 | wire,
            Some(newest) => newest.saturating_add_signed(distance(newest, wire, 32)),
        };
        self.timestamp = Some(timestamp);
        Piece { payload, timestamp, marker: header.marker, is_after_loss, now: self.now }
    }
}

/// So many packets of another payload type than the description's, of senders that are allowed, and none of that: it is theirs.
const OTHER_TYPE_MAX: u64 = 16;

/// Access units of one track's packets. Bounded: by [`Settings::packets`] packets that wait for their turn, and by
/// [`UNIT_BYTES_MAX`] for the unit that is not whole; what [`Depacketizer::poll`] leaves is the caller's business.
#[derive(Debug)]
pub struct Depacketizer {
    reorder: Reorder,
    /// The one that is taken now, and the description's.
    payload_type: u8,
    described_type: u8,
    /// A packet of the description's type was taken: no other is any more.
    is_as_described: bool,
    /// The last packet of the description's type while another one is taken, and its sender.
    described: Option<(Header, Origin)>,
    order: Order,
    assembler: Assembler,
    out: Collected,
    other_type: u64,
}

impl Depacketizer {
    /// Of packets in `format` with this payload type (7 bits).
    pub fn new(format: &Format, payload_type: u8, settings: Settings) -> Depacketizer {
        Depacketizer {
            reorder: Reorder::new(settings),
            payload_type,
            described_type: payload_type,
            is_as_described: false,
            described: None,
            order: Order::default(),
            assembler: format.assembler(),
            out: Collected::default(),
            other_type: 0,
        }
    }

    /// Packets are taken from these addresses alone; from any where there are none. For one that has taken no packet.
    pub fn allow(&mut self, sources: Vec<IpAddr>) {
        self.reorder.allow(sources);
    }

    /// The SSRC that is listened to, and its address.
    pub fn source(&self) -> Option<(u32, Option<SocketAddr>)> {
        self.reorder.source()
    }

    /// The payload type of the track's packets.
    pub fn payload_type(&self) -> u8 {
        self.payload_type
    }

    /// Takes a datagram that came from `from` at `now`. Returns whether it is of the track's sender and of its payload type, and not
    /// refused.
    ///
    /// A packet of another payload type is passed over and counted, until so many have come of senders that are allowed and none of its
    /// own: the description was wrong then. Two packets of the described type that follow each other end that: what came before was a
    /// stranger's.
    ///
    /// # Errors
    /// [`Error`] where it is no RTP packet.
    pub fn handle_packet(&mut self, datagram: &[u8], from: Origin, now: Time) -> Result<bool, Error> {
        let header = Packet::parse(datagram)?.header;
        // Senders that are not allowed are refused first, whatever they send: they decide nothing.
        if header.payload_type != self.payload_type
            && self.reorder.allows(from)
            && !self.is_its_type(&header, from)
        {
            count(&mut self.other_type, 1);
            return Ok(false);
        }
        self.order.now = now;
        let (order, assembler, out) = (&mut self.order, &mut self.assembler, &mut self.out);
        // The order holds whole datagrams, since marker and time stamp are needed when their turn comes.
        let mut take = |datagram: &[u8]| assemble(datagram, order, assembler, out);
        let is_taken = self.reorder.push(&header, datagram, from, now, &mut take);
        self.is_as_described |= is_taken && self.payload_type == self.described_type;
        Ok(is_taken)
    }

    /// Whether a payload type other than the present one is the track's from now on.
    fn is_its_type(&mut self, header: &Header, from: Origin) -> bool {
        if header.payload_type != self.described_type {
            if self.is_as_described
                || self.payload_type != self.described_type
                || self.other_type.saturating_add(1) < OTHER_TYPE_MAX
            {
                return false;
            }
            self.payload_type = header.payload_type;
            return true;
        }
        let follows = |(last, origin): (Header, Origin)| {
            (last.ssrc, last.sequence.wrapping_add(1), origin) == (header.ssrc, header.sequence, from)
        };
        if !self.described.replace((*header, from)).is_some_and(follows) {
            return false;
        }
        // Its sender is another one than the one that is listened to, which is let go.
        self.finish();
        let order = Order { now: self.order.now, ..Order::default() };
        (self.payload_type, self.order, self.described) = (self.described_type, order, None);
        true
    }

    /// When [`Depacketizer::handle_timeout`] gives up packets that are missing; `None` while none is waited for.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.reorder.poll_timeout()
    }

    /// Gives up packets that were waited for long enough.
    pub fn handle_timeout(&mut self, now: Time) {
        self.order.now = now;
        let (order, assembler, out) = (&mut self.order, &mut self.assembler, &mut self.out);
        self.reorder.handle_timeout(now, &mut |datagram: &[u8]| assemble(datagram, order, assembler, out));
    }

    /// The next unit.
    pub fn poll(&mut self) -> Option<CodedUnit> {
        self.out.units.pop_front()
    }

    /// No more packets come: what waits is given out, and the picture that had begun.
    pub fn finish(&mut self) {
        let (order, assembler, out) = (&mut self.order, &mut self.assembler, &mut self.out);
        self.reorder.flush(&mut |datagram: &[u8]| assemble(datagram, order, assembler, out));
        self.assembler.end(&mut self.out);
    }

    /// What has come so far.
    pub fn counters(&self) -> TrackCounters {
        let Collected { given, damaged, malformed, .. } = self.out;
        let (packets, other_type) = (self.reorder.counters(), self.other_type);
        TrackCounters { packets, units: given, damaged, malformed, other_type }
    }
}

fn assemble(datagram: &[u8], order: &mut Order, assembler: &mut Assembler, out: &mut Collected) {
    // It was parsed before it was put into the order.
    let Ok(packet) = Packet::parse(datagram) else { return };
    let piece = order.piece(&packet.header, packet.payload);
    assembler.push(&piece, out);
}
