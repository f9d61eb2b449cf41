//! One ANC packet (ST 291-1 §6, RFC 8331 §2.1).

use super::{Error, LINE_ANY, OFFSET_ANY};
use std::fmt;

/// User data words of a packet at most.
pub const WORDS_MAX: usize = 255;
/// Bytes of C, line number, offset, S and stream number.
const PLACE_BYTES: usize = 4;
/// Words beside those of the user: DID, SDID, Data_Count, Checksum_Word.
const FIXED_WORDS: usize = 4;

/// What an ANC packet carries, by its data identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A caption distribution packet with CEA-708 captions (ST 334-2): DID 0x61, SDID 0x01.
    Cea708,
    /// CEA-608 captions (ST 334-1): 0x61, 0x02.
    Cea608,
    /// Ancillary time code (ST 12-2): 0x60, 0x60.
    TimeCode,
    /// Active format description and bars (ST 2016-3): 0x41, 0x05.
    Afd,
    /// Splice messages (SCTE 104 in ST 2010): 0x41, 0x07.
    Scte104,
    /// Teletext subtitles (OP-47, RDD 8), a subtitling distribution packet: 0x43, 0x02.
    Op47Subtitles,
    /// Other VANC data in an OP-47 multipacket: 0x43, 0x03.
    Op47Multipacket,
    /// Something else.
    Other {
        /// Data identifier.
        did: u8,
        /// Secondary data identifier; of type 1 (`did` of 0x80 and more), the data block number.
        sdid: u8,
    },
}

impl Kind {
    /// What these identifiers stand for.
    pub const fn of(did: u8, sdid: u8) -> Kind {
        match (did, sdid) {
            (0x61, 0x01) => Kind::Cea708,
            (0x61, 0x02) => Kind::Cea608,
            (0x60, 0x60) => Kind::TimeCode,
            (0x41, 0x05) => Kind::Afd,
            (0x41, 0x07) => Kind::Scte104,
            (0x43, 0x02) => Kind::Op47Subtitles,
            (0x43, 0x03) => Kind::Op47Multipacket,
            (did, sdid) => Kind::Other { did, sdid },
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Cea708 => "CEA-708 captions",
            Kind::Cea608 => "CEA-608 captions",
            Kind::TimeCode => "time code",
            Kind::Afd => "AFD and bar data",
            Kind::Scte104 => "SCTE 104",
            Kind::Op47Subtitles => "OP-47 subtitles",
            Kind::Op47Multipacket => "OP-47 multipacket",
            Kind::Other { did, sdid } => return write!(f, "DID 0x{did:02X} SDID 0x{sdid:02X}"),
        })
    }
}

/// Which of several SDI streams of an interface a packet is of (S and StreamNum).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// Whether the number counts.
    pub is_used: bool,
    /// The number, 7 bits.
    pub number: u8,
}

/// An ANC packet. Words have 10 bits: 8 of data, their even parity, and its complement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// It is in the color-difference samples of the line, not in luma (C).
    pub is_color_difference: bool,
    /// The line, 11 bits; see [`LINE_ANY`] and its neighbours.
    pub line: u16,
    /// Words from the start of active video, 12 bits; see [`OFFSET_ANY`] and its neighbours.
    pub offset: u16,
    /// Which SDI stream it is of.
    pub stream: Stream,
    /// Data identifier, 10 bits.
    did: u16,
    /// Secondary data identifier, 10 bits.
    sdid: u16,
    /// How many user data words there are, 10 bits.
    count: u16,
    words: Vec<u16>,
    checksum: u16,
    /// What fills it to whole 32 bits; zero, if its sender does as RFC 8331 says.
    align: u32,
}

impl Packet {
    /// A packet of 8-bit data on no particular line, with parity and checksum; `None` where there are more than
    /// [`WORDS_MAX`] bytes.
    pub fn new(did: u8, sdid: u8, data: &[u8]) -> Option<Packet> {
        let count = u8::try_from(data.len()).ok()?;
        let mut packet = Packet {
            is_color_difference: false,
            line: LINE_ANY,
            offset: OFFSET_ANY,
            stream: Stream::default(),
            did: with_parity(did),
            sdid: with_parity(sdid),
            count: with_parity(count),
            words: data.iter().copied().map(with_parity).collect(),
            checksum: 0,
            align: 0,
        };
        packet.checksum = packet.sum();
        Some(packet)
    }

    /// Data identifier.
    pub fn did(&self) -> u8 {
        low(self.did)
    }

    /// Secondary data identifier, or data block number.
    pub fn sdid(&self) -> u8 {
        low(self.sdid)
    }

    /// What it carries.
    pub fn kind(&self) -> Kind {
        Kind::of(self.did(), self.sdid())
    }

    /// Its user data words, 10 bits each, at most [`WORDS_MAX`].
    pub fn words(&self) -> &[u16] {
        &self.words
    }

    /// The low 8 bits of its user data words.
    pub fn data(&self) -> impl ExactSizeIterator<Item = u8> + '_ {
        self.words.iter().map(|word| low(*word))
    }

    /// Words with a wrong parity among identifiers, count and user data. User data of 10 bits have no parity; no sender
    /// of the kinds that are known here sends them.
    pub fn parity_errors(&self) -> usize {
        let fixed = [self.did, self.sdid, self.count];
        fixed.iter().chain(&self.words).filter(|word| **word != with_parity(low(**word))).count()
    }

    /// Whether its checksum is that of its words.
    pub fn is_checksum_right(&self) -> bool {
        self.checksum == self.sum()
    }

    /// The sum of nine bits of each word, and the complement of its highest (ST 291-1 §6.4).
    fn sum(&self) -> u16 {
        let fixed = [self.did, self.sdid, self.count];
        let sum = fixed.iter().chain(&self.words).fold(0u16, |sum, word| sum.wrapping_add(word & 0x1FF));
        sum & 0x1FF | (!sum & 0x100) << 1
    }

    /// Bytes that it takes in a payload, a multiple of 4.
    pub fn bytes(&self) -> usize {
        bytes_of(self.words.len())
    }

    /// Reads the packet at the beginning of `bytes`, and returns what is behind it.
    pub(super) fn read(bytes: &[u8]) -> Result<(Packet, &[u8]), Error> {
        let found = bytes.len();
        let short = |expected| Error::Short { found, expected };
        let least = bytes_of(0);
        let mut bits = Bits { bytes, at: 0 };
        let place = bits.take(32).filter(|_| found >= least).ok_or(short(least))?;
        let mut word = || bits.take(10).and_then(|word| u16::try_from(word).ok());
        let [Some(did), Some(sdid), Some(count)] = [word(), word(), word()] else { return Err(short(least)) };
        let expected = bytes_of(usize::from(count & 0xFF));
        let (_, rest) = bytes.split_at_checked(expected).ok_or(short(expected))?;
        let words: Vec<u16> = (0..count & 0xFF).filter_map(|_| word()).collect();
        let checksum = word().ok_or(short(expected))?;
        let align = bits.take(expected.saturating_mul(8).saturating_sub(bits.at)).ok_or(short(expected))?;
        let [p0, p1, p2, p3] = place.to_be_bytes();
        let stream = Stream { is_used: p3 & 0x80 != 0, number: p3 & 0x7F };
        let packet = Packet {
            is_color_difference: place >> 31 != 0,
            line: u16::from_be_bytes([p0, p1]) >> 4 & 0x7FF,
            offset: u16::from_be_bytes([p1, p2]) & 0xFFF,
            stream,
            did,
            sdid,
            count,
            words,
            checksum,
            align,
        };
        Ok((packet, rest))
    }

    /// Appends it to a payload.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let place = u32::from(self.is_color_difference) << 31
            | u32::from(self.line & 0x7FF) << 20
            | u32::from(self.offset & 0xFFF) << 8
            | u32::from(self.stream.is_used) << 7
            | u32::from(self.stream.number & 0x7F);
        out.extend(place.to_be_bytes());
        // The bits that are not out yet, below 8 of them.
        let (mut waiting, mut count) = (0u64, 0usize);
        let mut put = |value: u32, bits: usize| {
            waiting = waiting << bits | u64::from(value);
            count = bits.saturating_add(count);
            while count >= 8 {
                count = count.saturating_sub(8);
                let [.., byte] = (waiting >> count).to_be_bytes();
                out.push(byte);
            }
        };
        let fixed = [self.did, self.sdid, self.count];
        let words = fixed.iter().chain(&self.words).chain([&self.checksum]);
        words.for_each(|word| put(u32::from(*word), 10));
        put(self.align, align_bits(self.words.len()));
    }
}

/// The eight bits of data of a word.
fn low(word: u16) -> u8 {
    let [_, low] = word.to_be_bytes();
    low
}

/// A byte with its parity: bit 8 makes the ones of bits 0 to 8 even, bit 9 is its complement.
fn with_parity(byte: u8) -> u16 {
    let parity = u16::from(byte.count_ones() & 1 != 0);
    u16::from(byte) | parity << 8 | (parity ^ 1) << 9
}

/// Bytes of a packet with so many user data words.
fn bytes_of(words: usize) -> usize {
    bits_of(words).div_ceil(32).saturating_mul(4).saturating_add(PLACE_BYTES)
}

/// Bits of its words.
fn bits_of(words: usize) -> usize {
    words.saturating_add(FIXED_WORDS).saturating_mul(10)
}

/// Bits that fill up such a packet, less than 32.
fn align_bits(words: usize) -> usize {
    bytes_of(words).saturating_sub(PLACE_BYTES).saturating_mul(8).saturating_sub(bits_of(words))
}

/// Reads bits, the highest first.
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    /// The next `count` bits, at most 32; `None` behind the end.
    fn take(&mut self, count: usize) -> Option<u32> {
        let behind = self.at.checked_add(count)?;
        let (first, end) = (self.at / 8, behind.div_ceil(8));
        let bytes = self.bytes.get(first..end)?;
        let all = bytes.iter().fold(0u64, |all, byte| all << 8 | u64::from(*byte));
        self.at = behind;
        let value = all >> end.saturating_mul(8).saturating_sub(behind) & (1u64 << count).saturating_sub(1);
        u32::try_from(value).ok()
    }
}
