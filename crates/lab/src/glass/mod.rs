//! From glass to glass: how old the pictures of a test pattern are at the end of any chain, by the barcodes that they show, and
//! whether the stages that a stream tells add up to that.
//!
//! ```text
//! access units ─┬─► Decoder (FFmpeg) ─► picture, when ─► Sights: barcode ─► age ─┐
//!               └─► Told: capture time, stages ──────────────────────────────────┴► Proof: sum of stages | barcode to barcode
//! any address, pipe ─► FFmpeg ─► picture, when ─► Sights
//! film ─► FFmpeg ─► frame ─► Film: barcodes of two screens ─► how far they are apart
//! page ─► Chromium ─► videos and canvases, frame by frame ─► Sights
//! ```
//! [`Ages`], [`Told`], [`Sights`], [`Proof`] and [`Film`] are pure; [`Decoder`] runs FFmpeg, [`Page`] Chromium.

mod ages;
mod decoder;
mod film;
mod page;
mod proof;

pub use ages::{Ages, Seen};
pub use decoder::{Decoder, Look, NoDecoder};
pub use film::{Film, Filmed};
pub use page::Page;
pub use proof::{Proof, Sights, Told};

use glassline_media::Utc;
use std::time::Duration;

/// So much is left out at the start: what waited while the decoder was made ready, and what a server sends at once.
pub const SETTLE: Duration = Duration::from_secs(1);

/// How old what was captured at `captured` is at `now`, in milliseconds. Negative where clocks do not agree.
pub fn age_ms(now: Utc, captured: Utc) -> f64 {
    (i128::from(now.as_nanos()) - i128::from(captured.as_nanos())) as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_in_milliseconds_and_may_be_negative() {
        assert_eq!(age_ms(Utc::from_micros(5_500), Utc::from_micros(3_000)), 2.5);
        assert_eq!(age_ms(Utc::from_micros(3_000), Utc::from_micros(4_000)), -1.0);
    }
}
