//! G.711 (ITU-T G.711, 11/1988): a sample of telephone sound in each byte, by the μ-law or the A-law.

/// Which law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// μ-law (table 2), `PCMU`.
    Mu,
    /// A-law (table 1), `PCMA`.
    A,
}

impl Law {
    /// The byte of silence.
    pub const fn silence(self) -> u8 {
        match self {
            Law::Mu => 0xff,
            Law::A => 0xd5,
        }
    }

    /// The linear value of a byte in 16 bits: G.711's values of 14 bits (μ-law) and 13 bits (A-law), times 4 and 8.
    pub const fn decode(self, byte: u8) -> i16 {
        match self {
            Law::Mu => mu_law(byte),
            Law::A => a_law(byte),
        }
    }
}

/// All bits are sent inverted; a sign, a segment of 3 bits, and 4 bits within it, on a scale that is moved by 33.
const fn mu_law(byte: u8) -> i16 {
    let byte = !byte;
    let (segment, step) = (byte >> 4 & 7, (byte & 15) as i16);
    let magnitude = (((step << 1) + 33) << segment) - 33;
    let value = magnitude << 2;
    if byte & 0x80 != 0 { -value } else { value }
}

/// Every second bit is sent inverted; a sign, which is 1 of positive values, a segment of 3 bits, and 4 bits within it.
const fn a_law(byte: u8) -> i16 {
    let byte = byte ^ 0x55;
    let (segment, step) = (byte >> 4 & 7, (byte & 15) as i16);
    let within = (step << 4) + 8;
    let value = if segment == 0 { within } else { (within + 0x100) << (segment - 1) };
    if byte & 0x80 != 0 { value } else { -value }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of the tables 1a and 2a of G.711: the ends of the scale, the smallest, and one of each segment of positive values.
    #[test]
    fn bytes_have_the_values_of_the_tables() {
        let mu = [
            (0x80, 8031),
            (0x8f, 4191),
            (0x9f, 2079),
            (0xaf, 1023),
            (0xbf, 495),
            (0xcf, 231),
            (0xdf, 99),
            (0xef, 33),
            (0xfe, 2),
            (0xff, 0),
            (0x7f, 0),
            (0x7e, -2),
            (0x00, -8031),
        ];
        for (byte, value) in mu {
            assert_eq!(Law::Mu.decode(byte), value * 4, "{byte:#x}");
        }
        // Without the inversion: 1 to 128 of the table, from 1 in steps of 2 up to 4,032 of 4,096.
        let a = [
            (0x80, 1),
            (0x8f, 31),
            (0x90, 33),
            (0x9f, 63),
            (0xa0, 66),
            (0xb0, 132),
            (0xc0, 264),
            (0xd0, 528),
            (0xe0, 1056),
            (0xf0, 2112),
            (0xff, 4032),
            (0x00, -1),
            (0x7f, -4032),
        ];
        for (byte, value) in a {
            assert_eq!(Law::A.decode(byte ^ 0x55), value * 8, "{byte:#x}");
        }
        assert_eq!((Law::Mu.decode(Law::Mu.silence()), Law::A.decode(Law::A.silence())), (0, 8));
    }

    #[test]
    fn each_value_but_zero_has_one_byte_and_its_opposite_another() {
        for law in [Law::Mu, Law::A] {
            let mut values: Vec<i16> = (0..=255).map(|byte| law.decode(byte)).collect();
            assert!(values.iter().all(|value| values.contains(&-value)));
            values.sort_unstable();
            values.dedup();
            assert_eq!(values.len(), if law == Law::Mu { 255 } else { 256 });
        }
    }
}
