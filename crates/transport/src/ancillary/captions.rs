//! Captions: cc_data of CEA-608 and CEA-708, and the caption distribution packet that carries it (ST 334-2) in an ANC packet of
//! DID 0x61 and SDID 0x01 (ST 334-1).
//!
//! ```text
//! 0x96 0x69 │ cdp_length │ cdp_frame_rate 0xF │ flags │ sequence counter, 2 bytes           header (ST 334-2 §5.2)
//! 0x71 │ time code, 4 bytes                                                                 if there is one (§5.3)
//! 0x72 │ 111 cc_count │ cc_count × (11111 cc_valid cc_type │ cc_data_1 │ cc_data_2)         cc_data (§5.4)
//! 0x73 │ reserved, flags, svc_count │ svc_count × 7 bytes                                   if there are some (§5.5)
//! 0x74 │ sequence counter, 2 bytes │ checksum: all bytes add up to 0 modulo 256             footer (§5.7)
//! ```

use super::{Kind, Packet};
use glassline_media::FrameRate;
use thiserror::Error;

/// What a packet begins with (cdp_identifier).
const IDENTIFIER: [u8; 2] = [0x96, 0x69];
const HEADER_BYTES: usize = 7;
const TIME_CODE: u8 = 0x71;
const TIME_CODE_BYTES: usize = 4;
const CC_DATA: u8 = 0x72;
const SERVICES: u8 = 0x73;
const SERVICE_BYTES: usize = 7;
const FOOTER: u8 = 0x74;
/// Sections that later editions may add, each with its length.
const LATER: std::ops::RangeInclusive<u8> = 0x75..=0xEF;
/// ccdata_present, caption_service_active and the reserved bit, which is 1.
const FLAGS: u8 = 0x43;
/// The bits above cc_count and above cc_valid are ones.
const COUNT_MARKER: u8 = 0xE0;
const TRIPLET_MARKER: u8 = 0xF8;
/// cc_count has five bits.
const TRIPLETS_MAX: usize = 31;
/// What fills cc_data of CEA-608 where there is nothing to say: zeros with odd parity (CTA-608-E §8.4).
const NULL_PAIR: [u8; 2] = [0x80, 0x80];

/// What the two bytes of a triplet are of (cc_type, CTA-708-E table 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptionType {
    /// CEA-608, first field: CC1, CC2, T1, T2.
    Field1,
    /// CEA-608, second field: CC3, CC4, T3, T4, XDS.
    Field2,
    /// CEA-708: a packet of the caption channel goes on.
    Data,
    /// CEA-708: a packet of the caption channel begins.
    Start,
}

/// Three bytes of cc_data (CTA-708-E §4.4, A/53 part 4 §6.2.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Triplet {
    /// Whether the bytes count (cc_valid).
    pub is_valid: bool,
    /// What the bytes are of.
    pub kind: CaptionType,
    /// The bytes; of CEA-608 each with odd parity in its highest bit.
    pub data: [u8; 2],
}

impl Triplet {
    /// What fills cc_data where there is nothing of CEA-708: 0xFA 0x00 0x00.
    pub const PADDING: Triplet = Triplet { is_valid: false, kind: CaptionType::Data, data: [0; 2] };

    /// Nothing on a field of CEA-608, which its decoders await in each frame; `is_first`: of the first field.
    #[must_use]
    pub const fn null(is_first: bool) -> Triplet {
        let kind = if is_first { CaptionType::Field1 } else { CaptionType::Field2 };
        Triplet { is_valid: true, kind, data: NULL_PAIR }
    }

    /// Reads three bytes; marker bits are passed over.
    #[must_use]
    pub const fn parse([head, data @ ..]: [u8; 3]) -> Triplet {
        let kind = match head & 3 {
            0 => CaptionType::Field1,
            1 => CaptionType::Field2,
            2 => CaptionType::Data,
            _ => CaptionType::Start,
        };
        Triplet { is_valid: head & 4 != 0, kind, data }
    }

    /// Its three bytes, with marker bits.
    #[must_use]
    pub const fn bytes(self) -> [u8; 3] {
        let kind = match self.kind {
            CaptionType::Field1 => 0,
            CaptionType::Field2 => 1,
            CaptionType::Data => 2,
            CaptionType::Start => 3,
        };
        let valid = if self.is_valid { 4 } else { 0 };
        let [one, two] = self.data;
        [TRIPLET_MARKER | valid | kind, one, two]
    }

    /// Whether it says something: it is valid, and no null pair of CEA-608.
    #[must_use]
    pub fn is_content(self) -> bool {
        let is_null = self.data.iter().all(|byte| byte & 0x7F == 0);
        let is_608 = matches!(self.kind, CaptionType::Field1 | CaptionType::Field2);
        self.is_valid && !(is_608 && is_null)
    }
}

/// Frame rates that captions have a format for (cdp_frame_rate, ST 334-2 table 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CaptionRate {
    /// 24000/1001 a second.
    Film = 1,
    /// 24.
    Hz24,
    /// 25.
    Hz25,
    /// 30000/1001.
    Ntsc,
    /// 30.
    Hz30,
    /// 50.
    Hz50,
    /// 60000/1001.
    DoubleNtsc,
    /// 60.
    Hz60,
}

impl CaptionRate {
    /// All of them, by their codes from 1.
    pub const ALL: [CaptionRate; 8] = [
        CaptionRate::Film,
        CaptionRate::Hz24,
        CaptionRate::Hz25,
        CaptionRate::Ntsc,
        CaptionRate::Hz30,
        CaptionRate::Hz50,
        CaptionRate::DoubleNtsc,
        CaptionRate::Hz60,
    ];

    /// The one of frames at `rate`, exactly; `None` where there is none.
    #[must_use]
    pub fn of(rate: FrameRate) -> Option<CaptionRate> {
        let cross = |one: u32, other: u32| u64::from(one).saturating_mul(other.into());
        Self::ALL.into_iter().find(|found| {
            let (above, below) = found.ratio();
            cross(rate.numerator(), below) == cross(rate.denominator(), above)
        })
    }

    /// The one of a code of cdp_frame_rate; `None` where it stands for none.
    #[must_use]
    pub fn of_code(code: u8) -> Option<CaptionRate> {
        Self::ALL.into_iter().find(|rate| rate.code() == code)
    }

    /// Its code, 4 bits.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Frames a second, as numerator and denominator.
    const fn ratio(self) -> (u32, u32) {
        match self {
            CaptionRate::Film => (24_000, 1001),
            CaptionRate::Hz24 => (24, 1),
            CaptionRate::Hz25 => (25, 1),
            CaptionRate::Ntsc => (30_000, 1001),
            CaptionRate::Hz30 => (30, 1),
            CaptionRate::Hz50 => (50, 1),
            CaptionRate::DoubleNtsc => (60_000, 1001),
            CaptionRate::Hz60 => (60, 1),
        }
    }

    /// Triplets of a frame (cc_count): 9,600 bit/s and the pairs of CEA-608, as CTA-708-E §4.3 divides them among frames.
    #[must_use]
    pub const fn triplets(self) -> usize {
        match self {
            CaptionRate::Film | CaptionRate::Hz24 => 25,
            CaptionRate::Hz25 => 24,
            CaptionRate::Ntsc | CaptionRate::Hz30 => 20,
            CaptionRate::Hz50 => 12,
            CaptionRate::DoubleNtsc | CaptionRate::Hz60 => 10,
        }
    }

    /// Pairs of CEA-608 among a frame's triplets at most. The fields have 60 pairs a second together, so that frames of 24 a
    /// second have two and three in turns.
    #[must_use]
    pub const fn pairs(self) -> usize {
        match self {
            CaptionRate::Film | CaptionRate::Hz24 => 3,
            CaptionRate::Hz25 | CaptionRate::Ntsc | CaptionRate::Hz30 => 2,
            CaptionRate::Hz50 | CaptionRate::DoubleNtsc | CaptionRate::Hz60 => 1,
        }
    }
}

/// Why bytes are no caption distribution packet.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum CdpError {
    /// It begins otherwise, or its header is cut.
    #[error(
        "no caption distribution packet: it begins with {0:02x?}, not with 96 69 and a header of 7 bytes"
    )]
    Header([u8; 2]),
    /// Its length is another one.
    #[error("a caption distribution packet of {found} bytes that says {said}")]
    Length {
        /// Bytes that there are.
        found: usize,
        /// What its header says.
        said: usize,
    },
    /// A code that stands for no frame rate.
    #[error("frame rate code {0} in a caption distribution packet, where 1 to 8 stand for rates")]
    Rate(u8),
    /// A section that is not known, or where it ends is not.
    #[error("section 0x{0:02x} in a caption distribution packet, which is unknown or cut")]
    Section(u8),
    /// The footer is missing, has bytes behind it, or another sequence counter.
    #[error("a caption distribution packet without its footer at its end")]
    Footer,
    /// Its bytes do not add up to 0.
    #[error("a caption distribution packet with bytes that add up to {0}, not 0, modulo 256")]
    Checksum(u8),
}

/// A caption distribution packet (ST 334-2): cc_data of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cdp {
    rate: CaptionRate,
    /// Counts packets, modulo 65,536.
    pub sequence: u16,
    triplets: Vec<Triplet>,
}

impl Packet {
    /// Its captions, where it is a caption distribution packet, or why it is none.
    pub fn captions(&self) -> Option<Result<Cdp, CdpError>> {
        (self.kind() == Kind::Cea708).then(|| Cdp::parse(&self.data().collect::<Vec<_>>()))
    }
}

impl Cdp {
    /// DID and SDID of its ANC packet (ST 334-1).
    pub const DATA_ID: (u8, u8) = (0x61, 0x01);

    /// Of a frame at `rate`: up to [`CaptionRate::triplets`] of them, those of CEA-608 first (CTA-708-E §4.4), filled up with
    /// [`Triplet::PADDING`]; `None` where there are more.
    #[must_use]
    pub fn new(rate: CaptionRate, sequence: u16, triplets: &[Triplet]) -> Option<Cdp> {
        let missing = rate.triplets().checked_sub(triplets.len())?;
        let padding = std::iter::repeat_n(Triplet::PADDING, missing);
        Some(Cdp { rate, sequence, triplets: triplets.iter().copied().chain(padding).collect() })
    }

    /// Of which frame rate it says to be.
    #[must_use]
    pub const fn rate(&self) -> CaptionRate {
        self.rate
    }

    /// Its triplets, padding among them; at most 31.
    #[must_use]
    pub fn triplets(&self) -> &[Triplet] {
        &self.triplets
    }

    /// Its bytes: header, cc_data, footer; 106 at most.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let [high, low] = self.sequence.to_be_bytes();
        let count = u8::try_from(self.triplets.len().min(TRIPLETS_MAX)).unwrap_or(0);
        let mut bytes = IDENTIFIER.to_vec();
        bytes.extend([0, self.rate.code() << 4 | 0xF, FLAGS, high, low, CC_DATA, COUNT_MARKER | count]);
        bytes.extend(self.triplets.iter().take(TRIPLETS_MAX).flat_map(|triplet| triplet.bytes()));
        bytes.extend([FOOTER, high, low]);
        let length = u8::try_from(bytes.len().saturating_add(1)).unwrap_or(0);
        if let Some(place) = bytes.get_mut(IDENTIFIER.len()) {
            *place = length;
        }
        bytes.push(sum(&bytes).wrapping_neg());
        bytes
    }

    /// An ANC packet of it, on no particular line.
    pub fn packet(&self) -> Option<Packet> {
        let (did, sdid) = Cdp::DATA_ID;
        Packet::new(did, sdid, &self.write())
    }

    /// Reads the user data of an ANC packet. Time code, service information and sections of later editions are passed over; cc_data
    /// that is missing is none.
    ///
    /// # Errors
    /// [`CdpError`].
    pub fn parse(bytes: &[u8]) -> Result<Cdp, CdpError> {
        let first = bytes.first_chunk().copied().unwrap_or_default();
        let (head, mut rest) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(CdpError::Header(first))?;
        let [_, _, length, rate, _, high, low] = *head;
        if first != IDENTIFIER {
            return Err(CdpError::Header(first));
        }
        if usize::from(length) != bytes.len() {
            return Err(CdpError::Length { found: bytes.len(), said: length.into() });
        }
        if sum(bytes) != 0 {
            return Err(CdpError::Checksum(sum(bytes)));
        }
        let rate = CaptionRate::of_code(rate >> 4).ok_or(CdpError::Rate(rate >> 4))?;
        let sequence = u16::from_be_bytes([high, low]);
        let mut triplets = Vec::new();
        loop {
            let (id, behind) = rest.split_first().ok_or(CdpError::Footer)?;
            if *id == FOOTER {
                let is_right = matches!(behind, [h, l, _] if (*h, *l) == (high, low));
                return if is_right { Ok(Cdp { rate, sequence, triplets }) } else { Err(CdpError::Footer) };
            }
            let (section, behind) = section(*id, behind).ok_or(CdpError::Section(*id))?;
            if *id == CC_DATA {
                triplets = section.as_chunks::<3>().0.iter().map(|bytes| Triplet::parse(*bytes)).collect();
            }
            rest = behind;
        }
    }
}

/// What a section has behind its identifier and count, and what is behind it; `None` where it is not known, or cut.
fn section(id: u8, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    if id == TIME_CODE {
        return bytes.split_at_checked(TIME_CODE_BYTES);
    }
    let (count, bytes) = bytes.split_first()?;
    let length = match id {
        CC_DATA => usize::from(count & !COUNT_MARKER).saturating_mul(3),
        SERVICES => usize::from(count & 0xF).saturating_mul(SERVICE_BYTES),
        id if LATER.contains(&id) => usize::from(*count),
        _ => return None,
    };
    bytes.split_at_checked(length)
}

fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;
    use proptest::prelude::*;

    /// What `ccconverter` of GStreamer 1.22 makes of FC C8 C5, FD 80 80, FE 41 42 at 30000/1001: cc_count is 20, so that the
    /// length is 7 + 2 + 60 + 4 = 0x49; 0x4F is rate 4, 0xF4 is 20 behind three ones. GStreamer marks the second field's null
    /// pair as not valid (F9).
    const BY_GSTREAMER: [u8; 73] = {
        let mut bytes = [0; 73];
        let head = [
            0x96, 0x69, 0x49, 0x4F, 0x43, 0, 0, 0x72, 0xF4, 0xFC, 0xC8, 0xC5, 0xF9, 0x80, 0x80, 0xFE, 0x41,
            0x42,
        ];
        let mut at = 0;
        while at < 69 {
            bytes[at] = if at < head.len() { head[at] } else { [0xFA, 0, 0][at % 3] };
            at += 1;
        }
        [bytes[69], bytes[70], bytes[71], bytes[72]] = [0x74, 0, 0, 0xAF];
        bytes
    };

    #[test]
    fn a_packet_is_what_gstreamer_writes() {
        let triplets = [[0xFC, 0xC8, 0xC5], [0xF9, 0x80, 0x80], [0xFE, 0x41, 0x42]].map(Triplet::parse);
        let cdp = Cdp::new(CaptionRate::Ntsc, 0, &triplets).unwrap();
        assert_eq!(cdp.write(), BY_GSTREAMER);
        assert_eq!(Cdp::parse(&BY_GSTREAMER), Ok(cdp.clone()));
        let packet = cdp.packet().unwrap();
        assert_eq!((packet.kind(), packet.words().len()), (Kind::Cea708, 73));
    }

    /// The checksum that makes of these a whole packet, and the length.
    fn closed(mut bytes: Vec<u8>) -> Vec<u8> {
        bytes[2] = bytes.len() as u8 + 1;
        bytes.push(sum(&bytes).wrapping_neg());
        bytes
    }

    #[test]
    fn sections_of_others_are_passed_over() {
        let mut bytes = vec![0x96, 0x69, 0, 0x7F, 0xF7, 0x12, 0x34, 0x71, 0xC1, 0x80, 0x80, 0x80];
        bytes.extend([0x72, 0xE1, 0xFC, 0x94, 0x2C, 0x73, 0xD1, 1, 2, 3, 4, 5, 6, 7, 0x80, 2, 9, 9]);
        bytes.extend([0x74, 0x12, 0x34]);
        let cdp = Cdp::parse(&closed(bytes.clone())).unwrap();
        assert_eq!((cdp.rate(), cdp.sequence), (CaptionRate::DoubleNtsc, 0x1234));
        assert_eq!(cdp.triplets(), [Triplet::parse([0xFC, 0x94, 0x2C])]);
        let refused = |at: usize, value: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = value;
            Cdp::parse(&closed(bytes)).unwrap_err()
        };
        assert_eq!(refused(1, 0x68), CdpError::Header([0x96, 0x68]));
        assert_eq!(refused(3, 0x9F), CdpError::Rate(9));
        assert_eq!(refused(12, 0x70), CdpError::Section(0x70));
        assert_eq!(refused(13, 0xFF), CdpError::Section(0x72), "31 triplets are more than there are");
        assert_eq!(refused(31, 0x35), CdpError::Footer, "another sequence counter");
        let mut whole = closed(bytes);
        *whole.last_mut().unwrap() ^= 1;
        assert!(matches!(Cdp::parse(&whole), Err(CdpError::Checksum(_))));
        whole.pop();
        assert_eq!(Cdp::parse(&whole), Err(CdpError::Length { found: 33, said: 34 }));
        assert_eq!(Cdp::parse(&[]), Err(CdpError::Header([0, 0])));
    }

    #[test]
    fn rates_have_codes_and_counts() {
        let rate = |above, below| CaptionRate::of(FrameRate::new(above, below).unwrap());
        assert_eq!(rate(30_000, 1001), Some(CaptionRate::Ntsc));
        assert_eq!(rate(50, 2), Some(CaptionRate::Hz25));
        assert_eq!((rate(15, 1), rate(120, 1), rate(2997, 100)), (None, None, None));
        let counts = CaptionRate::ALL.map(|rate| (rate.code(), rate.triplets(), rate.pairs()));
        let expected =
            [(25, 3), (25, 3), (24, 2), (20, 2), (20, 2), (12, 1), (10, 1), (10, 1)].into_iter().zip(1..);
        assert!(counts.into_iter().eq(expected.map(|((triplets, pairs), code)| (code, triplets, pairs))));
        let many = [Triplet::PADDING; 11];
        assert_eq!(Cdp::new(CaptionRate::Hz60, 0, &many), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            code in 1u8..=8, sequence: u16, data in prop::collection::vec(any::<[u8; 3]>(), 0..=25),
        ) {
            let rate = CaptionRate::of_code(code).unwrap();
            let triplets: Vec<_> = data.into_iter().take(rate.triplets()).map(Triplet::parse).collect();
            let cdp = Cdp::new(rate, sequence, &triplets).unwrap();
            let bytes = cdp.write();
            prop_assert_eq!(sum(&bytes), 0);
            prop_assert_eq!(bytes.len(), 13 + 3 * rate.triplets());
            prop_assert_eq!(Cdp::parse(&bytes), Ok(cdp));
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..260), is_closed: bool) {
            let mut bytes = bytes;
            if is_closed {
                bytes.splice(0..0, [0x96, 0x69, 0, 0x4F, 0x43, 0, 0]);
                bytes.truncate(250);
                bytes.extend([0x74, 0, 0]);
                bytes = closed(bytes);
            }
            if let Ok(cdp) = Cdp::parse(&bytes) {
                prop_assert!(cdp.triplets().len() <= TRIPLETS_MAX);
                prop_assert_eq!(Cdp::parse(&cdp.write()), Ok(cdp));
            }
        }
    }
}
