//! A picture that is encoded once more at another size, with as many bytes: because it would be beyond recognition as it is, or to
//! see whether pictures had better be coded at that size.

use super::{Pending, Sender, told_size};
use glassline_codec::vp8::{EncodeError, Encoded, Parallel, Quality, Request, State, encode_in};
use glassline_media::measure::ssim::Ssim;
use glassline_media::pixels::Scaler;
use glassline_media::{Picture, Size, Time};

/// A picture is sent at a smaller size at once where that leaves this share of its distortion or less.
const RESCUE_SHARE: f64 = 0.8;

/// A picture that was sent, for a comparison.
pub(super) struct Sample {
    /// As it was captured.
    source: Picture,
    pending: Pending,
    encoded: Encoded,
}

/// A picture at another size than it was encoded at before.
struct Resized {
    /// What is coded.
    picture: Picture,
    /// What it is coded against.
    state: State,
    encoded: Encoded,
}

impl Sender {
    /// Encodes `source` at `size` as `pending` was encoded at its own, with no more than so many bytes. `None`: not even the
    /// coarsest quantiser makes it so small.
    fn encode_at(
        &mut self,
        size: Size,
        source: &Picture,
        pending: &Pending,
        bytes: usize,
        parallel: &dyn Parallel,
    ) -> Result<Option<Resized>, EncodeError> {
        let state = pending.state.resampled(size, &mut self.frames);
        let picture = Scaler::new(size).scale(source);
        let quality = Quality::Bytes { target: bytes, never_above: true };
        let speed = self.sizes.speed_at(size, self.settings.speed);
        let request = Request { quality, speed, ..pending.request };
        match encode_in(&state, &picture, &request, &mut self.workspace, parallel) {
            Ok(encoded) => Ok(Some(Resized { picture, state, encoded })),
            Err(EncodeError::Target { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Where the chosen candidate is so coarse that the picture can hardly be recognised, as at a cut on a narrow path: encodes
    /// the picture in as many bytes at a smaller size, and takes that instead if it is clearly nearer to the source. Returns
    /// whether it does.
    pub(super) fn rescue(
        &mut self,
        pending: &mut Pending,
        chosen: usize,
        parallel: &dyn Parallel,
    ) -> Result<bool, EncodeError> {
        let (quantizer, bytes) = {
            let Encoded { stats, bytes, .. } = &pending.candidates[chosen];
            (stats.quantizer, bytes.len())
        };
        let Some(source) = self.source.clone() else { return Ok(false) };
        let Some(size) = self.sizes.rescue(quantizer) else { return Ok(false) };
        let resized = self.encode_at(size, &source, pending, bytes, parallel)?;
        let Some(Resized { picture, state, encoded }) = resized else { return Ok(false) };
        // What stands still in a picture is worth more than what is new in it, where its references are good.
        let ours = distortion(&source, &pending.candidates[chosen].picture);
        if distortion(&source, &encoded.picture) > RESCUE_SHARE * ours {
            return Ok(false);
        }
        self.ladder.rescale(self.sizes.rescued(size, encoded.stats.quantizer));
        pending.size = told_size(pending.source_size, source.size(), size);
        (pending.candidates[chosen], pending.picture, pending.state) = (encoded, picture, state);
        Ok(true)
    }

    /// Keeps what was sent, where it is good for a comparison.
    pub(super) fn keep_sample(&mut self, pending: Pending, encoded: Encoded) {
        // A key frame says nothing of those behind it.
        let source = self.source.take().filter(|_| pending.source.is_some());
        self.sample = source.map(|source| Sample { source, pending, encoded });
    }

    /// Where it is time for it: encodes the picture that was sent last once more, at the next smaller or larger size, and takes
    /// that size from the next picture on if it is nearer to the source. To be called when a picture has left and there is
    /// time until the next one ([`Sender::may_compare`]): it takes as long as encoding a picture in two or three qualities.
    /// Returns the size that was tried.
    ///
    /// # Errors
    /// The picture cannot be encoded.
    pub fn compare_sizes(&mut self, now: Time, parallel: &dyn Parallel) -> Result<Option<Size>, EncodeError> {
        let Some(sample) = self.sample.take() else { return Ok(None) };
        let Some(size) = self.sizes.poll_comparison(now) else { return Ok(None) };
        let Sample { source, pending, encoded } = sample;
        let other = self.encode_at(size, &source, &pending, encoded.bytes.len(), parallel)?;
        let other = other.map_or(f64::INFINITY, |other| distortion(&source, &other.encoded.picture));
        let ours = distortion(&source, &encoded.picture);
        if let Some(factor) = self.sizes.compared(now, ours, other) {
            self.ladder.rescale(factor);
        }
        Ok(Some(size))
    }
}

/// How far a picture is from its source when it is shown at its size: 1 - SSIM of luma.
fn distortion(source: &Picture, shown: &Picture) -> f64 {
    let shown = Scaler::new(source.size()).scale(shown);
    let ssim = Ssim::of(source, &shown).ok().and_then(|ssim| ssim.plane(0));
    1.0 - ssim.unwrap_or(0.0)
}
