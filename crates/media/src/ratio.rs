//! Ratios of whole numbers.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

/// `above` to `below` in the smallest whole numbers; both as they are where both are 0.
pub fn shortened(above: u128, below: u128) -> (u128, u128) {
    let (mut divisor, mut rest) = (above, below);
    while let Some(next) = divisor.checked_rem(rest) {
        (divisor, rest) = (rest, next);
    }
    let by = |value: u128| value.checked_div(divisor).unwrap_or(value);
    (by(above), by(below))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_multiplied_is_undone(above in 0u64.., below in 0u64.., factor in 1u32..) {
            let short = shortened(above.into(), below.into());
            let factor = u128::from(factor);
            prop_assert_eq!(shortened(u128::from(above) * factor, u128::from(below) * factor), short);
            prop_assert_eq!(short.0 * u128::from(below), short.1 * u128::from(above));
        }
    }

    #[test]
    fn common_ratios() {
        assert_eq!(shortened(128, 120), (16, 15));
        assert_eq!((shortened(0, 7), shortened(7, 0), shortened(0, 0)), ((0, 1), (1, 0), (0, 0)));
    }
}
