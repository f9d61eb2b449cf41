//! Whether another size would have been better: the picture that was sent last, encoded once more.

use super::{Pending, Sender};
use glassline_codec::vp8::{EncodeError, Encoded, Parallel, Quality, Request, encode_in};
use glassline_media::measure::ssim::Ssim;
use glassline_media::pixels::Scaler;
use glassline_media::{Picture, Size, Time};

/// A picture that was sent, for a comparison.
pub(super) struct Sample {
    /// As it was captured.
    source: Picture,
    pending: Pending,
    encoded: Encoded,
}

impl Sender {
    /// Keeps what was sent, where it is good for a comparison.
    pub(super) fn keep_sample(&mut self, pending: Pending, encoded: Encoded) {
        // A key frame says nothing of those behind it.
        let source = self.source.take().filter(|_| pending.source.is_some());
        self.sample = source.map(|source| Sample { source, pending, encoded });
    }

    /// Where it is time for it: encodes the picture that was sent last once more, at the next smaller or larger size, and takes
    /// that size from the next picture on if it is nearer to the source. To be called when a picture has left and there is
    /// time until the next one: it takes as long as encoding a picture in two or three qualities. Returns the size that was
    /// tried.
    ///
    /// # Errors
    /// The picture cannot be encoded.
    pub fn compare_sizes(&mut self, now: Time, parallel: &dyn Parallel) -> Result<Option<Size>, EncodeError> {
        let Some(sample) = self.sample.take() else { return Ok(None) };
        let Some(size) = self.sizes.poll_comparison(now) else { return Ok(None) };
        let Sample { source, pending, encoded } = sample;
        let state = pending.state.resampled(size, &mut self.frames);
        let picture = Scaler::new(size).scale(&source);
        let quality = Quality::Bytes { target: encoded.bytes.len(), never_above: true };
        let speed = self.sizes.speed_at(size, self.settings.speed);
        let request = Request { quality, speed, ..pending.request };
        let ours = distortion(&source, &encoded.picture);
        let other = match encode_in(&state, &picture, &request, &mut self.workspace, parallel) {
            Ok(other) => distortion(&source, &other.picture),
            // Not even the coarsest quantiser makes it so small.
            Err(EncodeError::Target { .. }) => f64::INFINITY,
            Err(error) => return Err(error),
        };
        if let Some(factor) = self.sizes.compared(now, ours, other) {
            self.ladder.rescale(factor);
        }
        Ok(Some(size))
    }
}

/// How far a picture is from its source when it is shown at its size: 1 - SSIM of luma.
pub(super) fn distortion(source: &Picture, shown: &Picture) -> f64 {
    let shown = Scaler::new(source.size()).scale(shown);
    let ssim = Ssim::of(source, &shown).ok().and_then(|ssim| ssim.plane(0));
    1.0 - ssim.unwrap_or(0.0)
}
