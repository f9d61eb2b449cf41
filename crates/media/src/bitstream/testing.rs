//! Pictures of H.264 written by hand, for tests of what cuts and carries them.

use proptest::prelude::*;

/// Writes bits, the highest first.
#[derive(Default)]
struct Bits(Vec<bool>);

impl Bits {
    fn bits(mut self, value: u32, count: u32) -> Bits {
        self.0.extend((0..count).rev().map(|bit| value >> bit & 1 == 1));
        self
    }

    fn ue(self, value: u32) -> Bits {
        let digits = 32 - (value + 1).leading_zeros();
        self.bits(0, digits - 1).bits(value + 1, digits)
    }

    /// The NAL unit, start code included.
    fn nal(mut self, long: bool, header: &[u8]) -> Vec<u8> {
        self.0.push(true);
        self.0.resize(self.0.len().next_multiple_of(8), false);
        let payload: Vec<u8> = self
            .0
            .chunks(8)
            .map(|bits| bits.iter().fold(0, |byte, &bit| byte << 1 | u8::from(bit)))
            .collect();
        let mut out = if long { vec![0, 0, 0, 1] } else { vec![0, 0, 1] };
        out.extend_from_slice(header);
        super::h264::escape(&payload, &mut out);
        out
    }
}

/// A main profile set: four bits of `frame_num`, 64×64 pixels.
pub(crate) fn sps(interlaced: bool) -> Vec<u8> {
    let head = Bits::default().bits(77, 8).bits(0, 8).bits(30, 8).ue(0).ue(0).ue(2).ue(4).bits(0, 1);
    let size = head.ue(3).ue(if interlaced { 1 } else { 3 }).bits(u32::from(!interlaced), 1);
    let size = if interlaced { size.bits(0, 1) } else { size };
    size.bits(1, 1).bits(0, 1).bits(0, 1).nal(true, &[0x67])
}

pub(crate) fn pps() -> Vec<u8> {
    Bits::default().ue(0).ue(0).bits(0b11, 2).ue(0).ue(0).nal(false, &[0x68])
}

/// A slice: its first macroblock, `frame_num`, and the field that it belongs to where it is of one.
pub(crate) fn slice(
    header: u8,
    first_mb: u32,
    frame_num: u32,
    field: Option<Option<bool>>,
    body: &[u8],
) -> Vec<u8> {
    let bits = Bits::default().ue(first_mb).ue(7).ue(0).bits(frame_num, 4);
    let bits = match field {
        None => bits,
        Some(None) => bits.bits(0, 1),
        Some(Some(bottom)) => bits.bits(1, 1).bits(bottom.into(), 1),
    };
    body.iter().fold(bits, |bits, &byte| bits.bits(byte.into(), 8)).nal(first_mb.is_multiple_of(2), &[header])
}

pub(crate) const AUD: &[u8] = &[0, 0, 0, 1, 9, 0xf0];
const SEI: &[u8] = &[0, 0, 1, 6, 5, 1, 7, 0x80];

/// How a picture of a stream is laid out.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) delimiter: bool,
    pub(crate) message: bool,
    pub(crate) sets: bool,
    pub(crate) slices: u32,
    pub(crate) reference: bool,
    pub(crate) idr: bool,
    pub(crate) filler: bool,
    pub(crate) body: Vec<u8>,
}

pub(crate) fn layout() -> impl Strategy<Value = Layout> {
    let bools = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (bools, 1u32..5, prop::collection::vec(prop_oneof![Just(0u8), Just(1), any::<u8>()], 0..40)).prop_map(
        |((delimiter, message, sets, reference, idr, filler), slices, body)| Layout {
            delimiter,
            message,
            sets: sets || idr,
            slices,
            reference: reference || idr,
            idr,
            filler,
            body,
        },
    )
}

/// The units of a stream that is laid out so; as fields, each frame's two.
pub(crate) fn units(layouts: &[Layout], fields: bool) -> Vec<Vec<u8>> {
    let (mut frame_num, mut units) = (0, Vec::new());
    for (index, layout) in layouts.iter().enumerate() {
        if layout.idr {
            frame_num = 0;
        }
        let mut unit = Vec::new();
        for field in 0..if fields { 2 } else { 1 } {
            if layout.delimiter {
                unit.extend_from_slice(AUD);
            }
            if (index == 0 || layout.sets) && field == 0 {
                unit.extend([sps(fields), pps()].concat());
            }
            if layout.message {
                unit.extend_from_slice(SEI);
            }
            let kind = if layout.idr && field == 0 { 5 } else { 1 };
            let header = kind | if layout.reference { 0x60 } else { 0 };
            for number in 0..layout.slices {
                let field = fields.then_some(Some(field == 1));
                unit.extend(slice(header, number * 3, frame_num, field, &layout.body));
            }
            if layout.filler {
                unit.extend([0, 0, 1, 12, 0xff, 0x80]);
            }
        }
        frame_num = (frame_num + u32::from(layout.reference)) % 16;
        units.push(unit);
    }
    units
}
