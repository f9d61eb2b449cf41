//! From when until when a certificate is good (RFC 5280 §4.1.2.5), read from its DER (ITU-T X.690).
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::TlsError;
use crate::small_file::{self, Accept};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::path::Path;

/// When a certificate is good, both ends included, in seconds since 1970 (UTC).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// From then on.
    pub from_seconds: i64,
    /// Until then.
    pub until_seconds: i64,
}

impl Validity {
    /// When all certificates of a file in PEM are good: a chain is as old as its oldest link.
    ///
    /// # Errors
    /// [`TlsError::File`] where it cannot be read, [`TlsError::Lacks`] where it holds no certificate, or one without dates.
    pub fn of_file(chain: &Path, accept: Accept) -> Result<Validity, TlsError> {
        let lacks = || TlsError::Lacks { file: chain.into(), what: "certificate in PEM" };
        let text = small_file::read(chain, accept)?;
        let all: Vec<CertificateDer<'static>> =
            CertificateDer::pem_slice_iter(&text).collect::<Result<_, _>>().map_err(|_| lacks())?;
        let each: Option<Vec<Validity>> = all.iter().map(|certificate| validity(certificate)).collect();
        each.unwrap_or_default()
            .into_iter()
            .reduce(|one, other| Validity {
                from_seconds: one.from_seconds.max(other.from_seconds),
                until_seconds: one.until_seconds.min(other.until_seconds),
            })
            .ok_or_else(lacks)
    }
}

/// `INTEGER`, `UTCTime`, `GeneralizedTime`, `SEQUENCE`, and the version's `[0]` (X.690 §8).
const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// The dates of a certificate: `Certificate { tbs { [version], serial, algorithm, issuer, validity { from, until }, … } … }`.
fn validity(certificate: &[u8]) -> Option<Validity> {
    let mut tbs = element(&mut element(&mut &*certificate, SEQUENCE)?, SEQUENCE)?;
    if tbs.first() == Some(&VERSION) {
        element(&mut tbs, VERSION)?;
    }
    element(&mut tbs, INTEGER)?;
    element(&mut tbs, SEQUENCE)?;
    element(&mut tbs, SEQUENCE)?;
    let mut dates = element(&mut tbs, SEQUENCE)?;
    Some(Validity { from_seconds: time(&mut dates)?, until_seconds: time(&mut dates)? })
}

/// The content of the element of kind `tag` at the front, which is cut off.
fn element<'a>(bytes: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    let (&found, rest) = bytes.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let mut length = usize::from(first);
    if first >= 0x80 {
        // The count of bytes that the length takes; of three, an element of a certificate has 16 MiB.
        let count = usize::from(first & 0x7f);
        let (digits, behind) = rest.split_at_checked(count).filter(|_| (1..=3).contains(&count))?;
        length = digits.iter().fold(0, |sum, digit| (sum << 8) | usize::from(*digit));
        rest = behind;
    }
    let (content, behind) = rest.split_at_checked(length)?;
    *bytes = behind;
    (found == tag).then_some(content)
}

/// `YYMMDDhhmmssZ`, years from 50 on being of 1900, or `YYYYMMDDhhmmssZ`: RFC 5280 allows no other form.
fn time(bytes: &mut &[u8]) -> Option<i64> {
    let tag = *bytes.first()?;
    let digits = element(bytes, tag)?.strip_suffix(b"Z")?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |digits: &[u8]| {
        digits.iter().fold(0_i64, |sum, digit| {
            sum.saturating_mul(10).saturating_add(i64::from(digit.wrapping_sub(b'0')))
        })
    };
    let (year, rest) = match (tag, digits.len()) {
        (UTC_TIME, 12) => {
            let (year, rest) = digits.split_at(2);
            let year = number(year);
            (year.saturating_add(if year < 50 { 2000 } else { 1900 }), rest)
        }
        (GENERALIZED_TIME, 14) => {
            let (year, rest) = digits.split_at(4);
            (number(year), rest)
        }
        _ => return None,
    };
    let mut pairs = rest.chunks(2).map(number);
    let mut next = |most: i64| pairs.next().filter(|found| (0..=most).contains(found));
    let (month, day) = (next(12)?, next(31)?);
    let (hour, minute, second) = (next(23)?, next(59)?, next(60)?);
    let days = days_since_1970(year, month.max(1), day.max(1))?;
    let of_day = hour.checked_mul(3600)?.checked_add(minute.checked_mul(60)?)?.checked_add(second)?;
    days.checked_mul(86_400)?.checked_add(of_day)
}

/// Days of the Gregorian calendar; a year begins in March, so that the leap day is its last.
fn days_since_1970(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_late = month <= 2;
    let year = year.checked_sub(i64::from(is_late))?;
    let month = if is_late { month.checked_add(9)? } else { month.checked_sub(3)? };
    let of_year = month.checked_mul(153)?.checked_add(2)?.checked_div(5)?.checked_add(day)?.checked_sub(1)?;
    let leaps = year.div_euclid(4).checked_sub(year.div_euclid(100))?.checked_add(year.div_euclid(400))?;
    // Days from March of year 0 to 1970.
    year.checked_mul(365)?.checked_add(leaps)?.checked_add(of_year)?.checked_sub(719_468)
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_test_support::program::Scratch;
    use glassline_test_support::tls::Identity;
    use proptest::prelude::*;

    #[test]
    fn days_are_counted_from_1970() {
        for ((year, month, day), expected) in [
            ((1970, 1, 1), 0),
            ((1970, 3, 1), 59),
            ((2000, 2, 29), 11_016),
            ((2000, 3, 1), 11_017),
            ((2100, 3, 1), 47_541),
            ((1969, 12, 31), -1),
        ] {
            assert_eq!(days_since_1970(year, month, day), Some(expected), "{year}-{month}-{day}");
        }
    }

    #[test]
    fn both_forms_of_a_time_are_read() {
        let read = |tag, text: &[u8]| {
            let bytes = [&[tag, u8::try_from(text.len()).unwrap()], text].concat();
            time(&mut &bytes[..])
        };
        assert_eq!(read(UTC_TIME, b"700101000000Z"), Some(0));
        assert_eq!(read(UTC_TIME, b"490101000000Z"), read(GENERALIZED_TIME, b"20490101000000Z"));
        assert_eq!(read(UTC_TIME, b"500101000000Z"), read(GENERALIZED_TIME, b"19500101000000Z"));
        assert_eq!(read(GENERALIZED_TIME, b"20010909014640Z"), Some(1_000_000_000));
        for bad in [&b"700101000000"[..], b"7001010000Z", b"70010100000xZ", b"701301000000Z", b"", b"Z"] {
            assert_eq!(read(UTC_TIME, bad), None, "{bad:?}");
        }
        assert_eq!(read(INTEGER, b"700101000000Z"), None);
    }

    #[test]
    fn a_chain_is_good_as_long_as_all_of_it() {
        let folder = Scratch::new("validity");
        let (long, short) = (Identity::authority(&["a"], 2051), Identity::authority(&["b"], 2031));
        let file = folder.write("chain.pem", format!("{}{}", long.chain, short.chain));
        let found = Validity::of_file(file.as_ref(), Accept::AnyFile).unwrap();
        // 2020 and 2031 on their first days.
        assert_eq!(found, Validity { from_seconds: 1_577_836_800, until_seconds: 1_924_992_000 });
        let alone = folder.write("long.pem", &long.chain);
        let found = Validity::of_file(alone.as_ref(), Accept::AnyFile).unwrap();
        assert_eq!(found.until_seconds, 2_556_144_000, "a date behind 2049 is in the other form");
        let key = folder.write("key.pem", &long.key);
        let refused = Validity::of_file(key.as_ref(), Accept::AnyFile);
        assert!(matches!(refused, Err(TlsError::Lacks { .. })), "{refused:?}");
    }

    proptest! {
        #[test]
        fn no_certificate_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0usize..500, to: u8) {
            let _ = validity(&bytes);
            let mut whole = Identity::new(&["a"]).der;
            let at = at % whole.len();
            whole[at] = to;
            let _ = validity(&whole);
            let _ = validity(&whole[..at]);
        }
    }
}
