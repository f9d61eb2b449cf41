//! How near shown pictures are to what was captured: SSIM of luma.

use super::clip::{Clip, mono};
use super::matching::Matched;
use anyhow::{Context, Result};
use glassline_measure::ssim::Ssim;
use glassline_media::Size;
use glassline_media::pixels::Scaler;

/// Judges pictures that were kept.
pub(super) struct Judge<'a> {
    clip: &'a Clip,
    scaler: Scaler,
    /// Of all that was judged.
    pub(super) ssim: Ssim,
    /// How many that are.
    pub(super) pictures: u64,
}

impl Judge<'_> {
    pub(super) fn new(clip: &Clip) -> Judge<'_> {
        Judge { clip, scaler: Scaler::new(clip.size()), ssim: Ssim::default(), pictures: 0 }
    }

    /// Judges what was shown as picture `number` of the clip, and notes it in its slot, if it is the first to show one. A picture of
    /// another size is brought to the clip's, as a display would.
    pub(super) fn judge(
        &mut self,
        matched: &mut Matched,
        shown: usize,
        number: Option<u32>,
        size: Size,
        luma: &[u8],
    ) -> Result<()> {
        let (Some(Some(slot)), Some(number)) = (matched.first.get(shown), number) else { return Ok(()) };
        let picture = self.scaler.scale(&mono(luma, size)?);
        let ssim =
            Ssim::of(&self.clip.luma(number.into())?, &picture).context("pictures cannot be compared")?;
        matched.slots[*slot].ssim_y = ssim.plane(0);
        self.ssim.add(&ssim);
        self.pictures += 1;
        Ok(())
    }
}
