//! Numbers of packets, modulo 2³¹ (§3.1).

/// The number of a data packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sequence(u32);

const MODULUS: u32 = 1 << 31;

impl Sequence {
    /// The lower 31 bits of `value`.
    pub(super) const fn new(value: u32) -> Sequence {
        Sequence(value & (MODULUS - 1))
    }

    /// It, below 2³¹.
    pub(super) const fn value(self) -> u32 {
        self.0
    }

    /// The number `count` behind it.
    pub(super) const fn plus(self, count: u32) -> Sequence {
        Sequence::new(self.0.wrapping_add(count))
    }

    /// How many numbers it is behind `other`; below zero where it is in front of it. At most 2³⁰ either way.
    pub(super) const fn minus(self, other: Sequence) -> i32 {
        // Twice the difference has the sign bit where the difference modulo 2³¹ has its highest one.
        (self.0.wrapping_sub(other.0) << 1) as i32 >> 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_go_on_behind_the_greatest() {
        let last = Sequence::new(MODULUS - 1);
        assert_eq!(last.plus(1), Sequence::new(0));
        assert_eq!((last.plus(3).minus(last), last.minus(last.plus(3))), (3, -3));
    }

    proptest! {
        #[test]
        fn a_distance_leads_there(from in any::<u32>(), distance in 0u32..1 << 30) {
            let from = Sequence::new(from);
            prop_assert_eq!(from.plus(distance).minus(from), distance as i32);
            prop_assert_eq!(from.minus(from.plus(distance)), -(distance as i32));
        }
    }
}
