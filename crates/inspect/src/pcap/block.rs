//! The fields of pcapng's blocks, and what both formats make of time stamps.

use super::PcapError;
use glassline_media::Time;

/// Interfaces of a section that are remembered.
pub(super) const INTERFACES_MAX: usize = 4096;
const OPTION_END: u16 = 0;
const OPTION_RESOLUTION: u16 = 9;
const OPTION_OFFSET: u16 = 14;

/// The order of the bytes in what is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Big,
    Little,
}

impl Order {
    /// The number at `at`; zero where `bytes` are too short, which callers see to.
    pub(super) fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let field = bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
        match self {
            Order::Big => u16::from_be_bytes(field),
            Order::Little => u16::from_le_bytes(field),
        }
    }

    /// As [`Order::u16`].
    pub(super) fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let field = bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
        match self {
            Order::Big => u32::from_be_bytes(field),
            Order::Little => u32::from_le_bytes(field),
        }
    }
}

/// What a unit of a time stamp is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resolution {
    /// 10⁻ⁿ s.
    Decimal(u8),
    /// 2⁻ⁿ s.
    Binary(u8),
}

impl Resolution {
    pub(super) const MICROS: Resolution = Resolution::Decimal(6);

    /// Nanoseconds of `units`, rounded down.
    fn nanos(self, units: u64) -> u128 {
        let units = u128::from(units);
        match self {
            Resolution::Decimal(digits @ 0..=9) => {
                10u128.pow(9u32.saturating_sub(digits.into())).saturating_mul(units)
            }
            // More than 10³⁸ is more than any 64-bit number.
            Resolution::Decimal(digits) => {
                let parts = 10u128.checked_pow(u32::from(digits).saturating_sub(9));
                parts.and_then(|parts| units.checked_div(parts)).unwrap_or(0)
            }
            Resolution::Binary(bits) => {
                units.saturating_mul(1_000_000_000).checked_shr(bits.into()).unwrap_or(0)
            }
        }
    }
}

/// What an interface's packets need to be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Interface {
    pub(super) link_type: u16,
    resolution: Resolution,
    offset_s: i64,
}

impl Interface {
    /// Reads the body of an interface description block, or as much of it as there is.
    pub(super) fn parse(body: &[u8], order: Order) -> Interface {
        let mut interface =
            Interface { link_type: order.u16(body, 0), resolution: Resolution::MICROS, offset_s: 0 };
        let mut options = body.get(8..).unwrap_or_default();
        while options.len() >= 4 {
            let (code, length) = (order.u16(options, 0), usize::from(order.u16(options, 2)));
            let Some(value) = options.get(4..length.saturating_add(4)) else { break };
            match (code, value) {
                (OPTION_END, _) => break,
                (OPTION_RESOLUTION, [unit]) if unit & 0x80 != 0 => {
                    interface.resolution = Resolution::Binary(unit & 0x7f);
                }
                (OPTION_RESOLUTION, [unit]) => interface.resolution = Resolution::Decimal(*unit),
                (OPTION_OFFSET, [_, _, _, _, _, _, _, _]) => {
                    let (first, second) = (order.u32(value, 0), order.u32(value, 4));
                    let (high, low) = if order == Order::Big { (first, second) } else { (second, first) };
                    interface.offset_s = (u64::from(high) << 32 | u64::from(low)).cast_signed();
                }
                _ => {}
            }
            options = options.get(length.next_multiple_of(4).saturating_add(4)..).unwrap_or_default();
        }
        interface
    }

    /// The time of a stamp; what lies outside of [`Time`]'s range is its nearest end.
    pub(super) fn time(&self, stamp: u64) -> Time {
        // Both terms are below 2¹²⁷: 64 bits times 10⁹.
        let stamp = i128::try_from(self.resolution.nanos(stamp)).unwrap_or(i128::MAX);
        let nanos = stamp.saturating_add(i128::from(self.offset_s).saturating_mul(1_000_000_000));
        Time::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
    }
}

/// Reads the 24 bytes of the classic format's header: byte order, nanoseconds or not, link type.
pub(super) fn classic_header(bytes: &[u8]) -> Result<(Order, bool, u16), PcapError> {
    let magic: [u8; 4] = bytes.first_chunk().copied().unwrap_or_default();
    let (order, nanos) = match magic {
        [0xa1, 0xb2, 0xc3, 0xd4] => (Order::Big, false),
        [0xd4, 0xc3, 0xb2, 0xa1] => (Order::Little, false),
        [0xa1, 0xb2, 0x3c, 0x4d] => (Order::Big, true),
        [0x4d, 0x3c, 0xb2, 0xa1] => (Order::Little, true),
        [0xa1, 0xb2, 0xcd, 0x34] | [0x34, 0xcd, 0xb2, 0xa1] => return Err(PcapError::Modified),
        _ => return Err(PcapError::Magic(magic)),
    };
    let (major, minor) = (order.u16(bytes, 4), order.u16(bytes, 6));
    if major != 2 {
        return Err(PcapError::Version(major, minor, 4));
    }
    // The upper half holds the length of frame check sequences, which lies behind what is read here.
    let link_type_at = if order == Order::Big { 22 } else { 20 };
    Ok((order, nanos, order.u16(bytes, link_type_at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_of_any_resolution() {
        let nanos = |resolution, offset_s, stamp| {
            Interface { link_type: 1, resolution, offset_s }.time(stamp).as_nanos()
        };
        assert_eq!(nanos(Resolution::MICROS, 0, 1_500_000), 1_500_000_000);
        assert_eq!(nanos(Resolution::Decimal(9), 0, 7), 7);
        assert_eq!(nanos(Resolution::Decimal(0), 0, 7), 7_000_000_000);
        assert_eq!(nanos(Resolution::Decimal(12), 0, 7999), 7);
        assert_eq!(nanos(Resolution::Decimal(127), 0, u64::MAX), 0);
        assert_eq!(nanos(Resolution::Binary(20), 0, 3 << 19), 1_500_000_000);
        assert_eq!(nanos(Resolution::Binary(127), 0, u64::MAX), 0);
        assert_eq!(nanos(Resolution::MICROS, -1, 1_500_000), 500_000_000);
        assert_eq!(nanos(Resolution::MICROS, -2, 1_500_000), 0);
        assert_eq!(nanos(Resolution::Decimal(0), i64::MAX, u64::MAX), u64::MAX);
    }
}
