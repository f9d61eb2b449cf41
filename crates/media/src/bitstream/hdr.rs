//! What supplemental messages say of high dynamic range: the display on which pictures were mastered, how light they are, and another
//! transfer function than that of the parameter set. The same numbers and payloads in H.264 (§D.1.29, §D.1.31, §D.1.32) and H.265
//! (§D.2.28, §D.2.35, §D.2.38).
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

/// `mastering_display_colour_volume`.
const MASTERING: u32 = 137;
/// `content_light_level_info`.
const LIGHT: u32 = 144;
/// `alternative_transfer_characteristics`.
const ALTERNATIVE_TRANSFER: u32 = 147;

/// `transfer_characteristics` of perceptual quantisation (SMPTE ST 2084) and of hybrid log-gamma (ARIB STD-B67), as H.273 numbers
/// them.
const PQ: u8 = 16;
const HLG: u8 = 18;

/// What is said; nothing by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hdr {
    /// Primaries, white point and luminances of the display, as in the message and in the box `mdcv` (ISO/IEC 14496-12 §12.1.6).
    pub mastering: Option<[u8; 24]>,
    /// `MaxCLL` and `MaxFALL`, cd/m², as in the message and in the box `clli`.
    pub light: Option<[u8; 4]>,
    /// The transfer function that displays with a wide range should take instead of the parameter set's: HLG, where the parameter
    /// set states that of television.
    pub preferred_transfer: Option<u8>,
}

/// How light and dark pictures can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Range {
    /// As on televisions ever since.
    #[default]
    Sdr,
    /// By hybrid log-gamma.
    Hlg,
    /// By perceptual quantisation.
    Pq,
}

impl Range {
    /// Of `transfer_characteristics` (H.273).
    pub const fn of(transfer: u8) -> Range {
        match transfer {
            PQ => Range::Pq,
            HLG => Range::Hlg,
            _ => Range::Sdr,
        }
    }

    /// As HLS names it (`VIDEO-RANGE`).
    pub const fn name(self) -> &'static str {
        match self {
            Range::Sdr => "SDR",
            Range::Hlg => "HLG",
            Range::Pq => "PQ",
        }
    }
}

impl Hdr {
    /// Of a picture's messages: type and payload, emulation prevention taken out. Of several of a kind the first counts; one of
    /// another length is none.
    pub fn of<'a>(messages: impl Iterator<Item = (u32, &'a [u8])>) -> Hdr {
        let mut hdr = Hdr::default();
        for (kind, payload) in messages {
            match kind {
                MASTERING => hdr.mastering = hdr.mastering.or(payload.try_into().ok()),
                LIGHT => hdr.light = hdr.light.or(payload.try_into().ok()),
                ALTERNATIVE_TRANSFER => {
                    hdr.preferred_transfer = hdr.preferred_transfer.or(payload.first().copied());
                }
                _ => {}
            }
        }
        hdr
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_the_right_length_count_and_the_first_of_each_kind() {
        let mastering = [7; 24];
        let messages: [(u32, &[u8]); 6] = [
            (5, &[1; 40]),
            (LIGHT, &[1, 2, 3]),
            (MASTERING, &mastering),
            (LIGHT, &[3, 232, 1, 144]),
            (ALTERNATIVE_TRANSFER, &[HLG]),
            (LIGHT, &[0; 4]),
        ];
        let hdr = Hdr::of(messages.into_iter());
        assert_eq!(
            hdr,
            Hdr { mastering: Some(mastering), light: Some([3, 232, 1, 144]), preferred_transfer: Some(18) }
        );
        assert_eq!([1, 14, 16, 18].map(|transfer| Range::of(transfer).name()), ["SDR", "SDR", "PQ", "HLG"]);
    }
}
