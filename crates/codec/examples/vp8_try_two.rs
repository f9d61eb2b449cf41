//! Try two, keep one: each picture is encoded at two qualities out of one analysis, and the better one that still fits
//! is kept. The state goes on from the one that is kept; the other never happened.
//!
//! `vp8_try_two [BYTES]`: with so many bytes a picture, 6000 if nothing is said. Pictures are the test pattern's.

use glassline_codec::vp8::{Encoded, Quality, Request, State, encode_candidates};
use glassline_measure::pattern::Pattern;
use glassline_measure::psnr::SquaredError;
use glassline_media::{FrameRate, Size, Time, Utc};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let budget: usize = std::env::args().nth(1).map_or(Ok(6000), |bytes| bytes.parse())?;
    let rate = FrameRate::new(30, 1).ok_or("a rate")?;
    let mut pattern = Pattern::new(Size::new(640, 360)?, rate);
    let (mut state, mut quantizer) = (State::new(), 40u8);
    for number in 0..30 {
        let picture = pattern.draw(number, Time::ZERO + rate.time_of(number), Utc::default());
        // One a little better than the last that was kept, one clearly smaller.
        let qualities = [quantizer.saturating_sub(6), (quantizer + 18).min(127)].map(Quality::Quantizer);
        let request = Request { speed: 6, ..Request::default() };
        let candidates = encode_candidates(&state, &picture, &request, &qualities)?;
        let sizes: Vec<usize> = candidates.iter().map(|candidate| candidate.bytes.len()).collect();
        // They come in the order in which they were asked for: the better one first.
        let fitting = candidates.into_iter().find(|candidate| candidate.bytes.len() <= budget);
        let Some(Encoded { bytes, state: after, picture: shown, stats }) = fitting else {
            // Neither fits: this picture is left out, and nothing has to be undone.
            println!("{number:3}  {sizes:6?}  left out");
            quantizer = (quantizer + 18).min(127);
            continue;
        };
        let psnr = SquaredError::of(&picture, &shown)?.plane_db(0).unwrap_or_default();
        println!(
            "{number:3}  {sizes:6?}  kept {:6} bytes, quantiser {:3}, {psnr:.2} dB",
            bytes.len(),
            stats.quantizer
        );
        (state, quantizer) = (after, stats.quantizer);
    }
    Ok(())
}
