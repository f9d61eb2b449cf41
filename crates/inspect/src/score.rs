//! How good pictures are that went through a codec: pairs of reference and distorted pictures in, PSNR and SSIM of
//! each and of all out.

use glassline_measure::CompareError;
use glassline_measure::daala_ssim::DaalaSsim;
use glassline_measure::psnr::SquaredError;
use glassline_measure::ssim::{self, Ssim};
use glassline_media::Picture;
use serde::Serialize;

/// Takes pairs of pictures in their order.
#[derive(Clone, Debug, Default)]
pub struct Score {
    error: SquaredError,
    ssim: Ssim,
    daala_ssim: DaalaSsim,
    pictures: Vec<Figures>,
}

/// How near pictures are to their reference. What is infinite, since nothing differs, is `None`, and `null` in JSON;
/// so is what there is no plane for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// PSNR of luma, dB.
    pub psnr_y_db: Option<f64>,
    /// PSNR of Cb.
    pub psnr_cb_db: Option<f64>,
    /// PSNR of Cr.
    pub psnr_cr_db: Option<f64>,
    /// PSNR over the samples of all planes.
    pub psnr_db: Option<f64>,
    /// SSIM of luma, −1 to 1.
    pub ssim_y: Option<f64>,
    /// SSIM of all planes, weighted by their samples.
    pub ssim: Option<f64>,
    /// −10 · log10(1 − `ssim_y`).
    pub ssim_y_db: Option<f64>,
    /// −10 · log10(1 − `ssim`).
    pub ssim_db: Option<f64>,
    /// SSIM of luma as the tools of Daala compute it ([`glassline_measure::daala_ssim`]); not to be compared with the others.
    pub ssim_daala_y: Option<f64>,
    /// −10 · log10(1 − `ssim_daala_y`).
    pub ssim_daala_y_db: Option<f64>,
}

impl Figures {
    fn new(error: &SquaredError, ssim: &Ssim, daala_ssim: &DaalaSsim) -> Figures {
        let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
        let decibels = |value: Option<f64>| finite(value.map(ssim::decibels));
        Figures {
            psnr_y_db: finite(error.plane_db(0)),
            psnr_cb_db: finite(error.plane_db(1)),
            psnr_cr_db: finite(error.plane_db(2)),
            psnr_db: finite(error.all_db()),
            ssim_y: ssim.plane(0),
            ssim: ssim.all(),
            ssim_y_db: decibels(ssim.plane(0)),
            ssim_db: decibels(ssim.all()),
            ssim_daala_y: daala_ssim.luma(),
            ssim_daala_y_db: decibels(daala_ssim.luma()),
        }
    }
}

impl Score {
    /// Compares the next pair. Three passes over the samples, of which Daala's SSIM is the one that takes long.
    ///
    /// # Errors
    /// Where the two have no samples in common; see [`CompareError`].
    pub fn push(&mut self, reference: &Picture, distorted: &Picture) -> Result<(), CompareError> {
        let (error, ssim) = (SquaredError::of(reference, distorted)?, Ssim::of(reference, distorted)?);
        let daala_ssim = DaalaSsim::of(reference, distorted)?;
        self.pictures.push(Figures::new(&error, &ssim, &daala_ssim));
        self.error.add(&error);
        self.ssim.add(&ssim);
        self.daala_ssim.add(&daala_ssim);
        Ok(())
    }

    /// Each picture's, in order.
    pub fn pictures(&self) -> &[Figures] {
        &self.pictures
    }

    /// Of all: PSNR of the mean squared error and the mean of SSIM, both then in decibels. (The mean of decibels would
    /// let a few very good pictures outweigh bad ones.)
    pub fn mean(&self) -> Figures {
        Figures::new(&self.error, &self.ssim, &self.daala_ssim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::{PixelFormat, Size, Time};

    fn flat(value: u8) -> Picture {
        let mut picture = Picture::new(PixelFormat::I420, Size { width: 32, height: 16 }, Time::ZERO);
        for plane in picture.planes_mut() {
            plane.lines_mut().for_each(|line| line.fill(value));
        }
        picture
    }

    #[test]
    fn the_mean_is_of_errors_not_of_decibels() {
        let mut score = Score::default();
        assert_eq!(score.mean(), Figures::default());
        score.push(&flat(100), &flat(100)).unwrap();
        score.push(&flat(100), &flat(102)).unwrap();
        let found: Vec<_> = score.pictures().iter().map(|figures| figures.psnr_db).collect();
        assert_eq!(found[0], None, "infinite");
        assert!((found[1].unwrap() - 42.11).abs() < 0.01, "{found:?}");
        let mean = score.mean();
        assert!((mean.psnr_db.unwrap() - 45.12).abs() < 0.01, "{mean:?}");
        assert_eq!(mean.psnr_y_db, mean.psnr_db);
        assert!(mean.ssim.unwrap() < 1.0 && mean.ssim_db.unwrap() > 30.0, "{mean:?}");
        assert!(mean.ssim_daala_y.unwrap() < 1.0 && mean.ssim_daala_y_db.unwrap() > 30.0, "{mean:?}");
        assert!(
            score
                .push(&flat(1), &Picture::new(PixelFormat::I420, Size { width: 2, height: 2 }, Time::ZERO))
                .is_err()
        );
        assert_eq!(score.pictures().len(), 2);
    }
}
