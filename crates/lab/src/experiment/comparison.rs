//! What was shown, beside what was captured. Nothing of a run hangs on it, so that some are made side by side.

use super::outcome::Outcome;
use glassline_codec::vp8::Parallel;
use glassline_measure::CompareError;
use glassline_measure::daala_ssim::DaalaSsim;
use glassline_measure::ssim::Ssim;
use glassline_media::Picture;
use glassline_media::pixels::Scaler;

/// A picture that was shown, and the reference that it is compared with.
pub(super) struct Comparison {
    /// Its place among the source's pictures.
    slot: usize,
    reference: Picture,
    shown: Picture,
    found: Option<Result<(Ssim, DaalaSsim), CompareError>>,
}

impl Comparison {
    pub(super) fn new(slot: usize, reference: Picture, shown: Picture) -> Comparison {
        Comparison { slot, reference, shown, found: None }
    }

    fn compare(&mut self) {
        // Where the network takes little, pictures are coded at a smaller size than they are shown at.
        let shown = Scaler::new(self.reference.size()).scale(&self.shown);
        let found = Ssim::of(&self.reference, &shown)
            .and_then(|ssim| Ok((ssim, DaalaSsim::of(&self.reference, &shown)?)));
        self.found = Some(found);
    }
}

/// Makes them, and writes down what they give in their order.
pub(super) fn compare(
    mut comparisons: Vec<Comparison>,
    parallel: &dyn Parallel,
    outcome: &mut Outcome,
) -> Result<(), CompareError> {
    let each = comparisons.len().div_ceil(parallel.threads().max(1)).max(1);
    let mut tasks: Vec<_> = comparisons
        .chunks_mut(each)
        .map(|some| move || some.iter_mut().for_each(Comparison::compare))
        .collect();
    let mut tasks: Vec<&mut (dyn FnMut() + Send)> =
        tasks.iter_mut().map(|task| task as &mut (dyn FnMut() + Send)).collect();
    parallel.run(&mut tasks);
    for Comparison { slot, found, .. } in comparisons {
        let Some(found) = found else { continue };
        let (ssim, daala_ssim) = found?;
        let slot = &mut outcome.slots[slot];
        (slot.ssim_y, slot.daala_ssim) = (ssim.plane(0), daala_ssim.luma());
        outcome.ssim.add(&ssim);
        outcome.daala_ssim.add(&daala_ssim);
    }
    Ok(())
}
