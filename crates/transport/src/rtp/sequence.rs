//! Numbers that wrap, against a count that does not.

/// How far from `from` the nearest number is that has the low `bits` (1 to 64) of `value`: half a turn back to half a
/// turn less one ahead. Added to `from`, it unwraps a sequence number (RFC 3550 A.1) over as many wraps as there were.
pub(crate) fn distance(from: u64, value: u64, bits: u32) -> i64 {
    let unused = u64::BITS.saturating_sub(bits);
    // Shifted to the top and back, the difference loses all but its low bits, and these get its sign.
    (value.wrapping_sub(from) << unused).cast_signed() >> unused
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_wrap_is_a_step_ahead_and_half_a_turn_is_behind() {
        assert_eq!(distance(0x1_FFFF, 0, 16), 1);
        assert_eq!(distance(0x2_0000, 0xFFFF, 16), -1);
        assert_eq!(distance(0x1_0000, 0x7FFF, 16), 0x7FFF);
        assert_eq!(distance(0x1_0000, 0x8000, 16), -0x8000);
        assert_eq!(distance(0x1_FFFF_FFFF, 4, 32), 5);
        assert_eq!(distance(7, u64::MAX, 64), -8);
    }

    proptest! {
        #[test]
        fn any_number_within_half_a_turn_is_found_again(from: u64, near: i64, bits in prop::sample::select(vec![8u32, 16, 32])) {
            let half = 1i64 << (bits - 1);
            let near = near.rem_euclid(2 * half) - half;
            let value = from.wrapping_add_signed(near) & ((1 << bits) - 1);
            prop_assert_eq!(distance(from, value, bits), near);
            // What stands above the bits does not count.
            prop_assert_eq!(distance(from, value | 1 << 60, bits), near);
        }
    }
}
