//! What two pictures need to have in common so that they can be compared sample by sample.

use glassline_media::picture::{Picture, PixelFormat, Size};
use thiserror::Error;

/// Refuses pictures that have no samples in common, or are not in planes.
pub(super) fn check(reference: &Picture, distorted: &Picture) -> Result<(), CompareError> {
    if reference.size() != distorted.size() {
        return Err(CompareError::Size { reference: reference.size(), distorted: distorted.size() });
    }
    let formats = (reference.format(), distorted.format());
    if formats.0 != formats.1 {
        return Err(CompareError::Format { reference: formats.0, distorted: formats.1 });
    }
    if !formats.0.is_planar() {
        return Err(CompareError::Pgroups);
    }
    if !(8..=16).contains(&formats.0.depth_bits) {
        return Err(CompareError::Depth { found: formats.0.depth_bits });
    }
    Ok(())
}

/// Pictures that cannot be compared.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompareError {
    /// Other sizes.
    #[error("the distorted picture is {distorted}, the reference {reference}")]
    Size {
        /// Of the reference.
        reference: Size,
        /// Of the other.
        distorted: Size,
    },
    /// Other subsampling or depth.
    #[error(
        "the distorted picture is {:?} of {} bits ({:?}), the reference {:?} of {} bits ({:?})",
        distorted.chroma, distorted.depth_bits, distorted.layout,
        reference.chroma, reference.depth_bits, reference.layout
    )]
    Format {
        /// Of the reference.
        reference: PixelFormat,
        /// Of the other.
        distorted: PixelFormat,
    },
    /// Samples that are not in planes.
    #[error("pictures in pgroups; planes are compared")]
    Pgroups,
    /// Samples that are no pixel format's.
    #[error("pictures of {found} bits; 8 to 16 are compared")]
    Depth {
        /// Bits of both.
        found: u8,
    },
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use glassline_media::picture::Chroma;
    use glassline_media::time::Time;

    /// A picture in 4:2:0 with the samples that `of` (plane, x, y) gives.
    pub(crate) fn picture(width: u32, height: u32, of: impl Fn(usize, usize, usize) -> u8) -> Picture {
        let mut picture = Picture::new(PixelFormat::I420, Size::new(width, height).unwrap(), Time::ZERO);
        for (index, plane) in picture.planes_mut().iter_mut().enumerate() {
            for (y, line) in plane.lines_mut().enumerate() {
                line.iter_mut().enumerate().for_each(|(x, sample)| *sample = of(index, x, y));
            }
        }
        picture
    }

    /// The same of more bits.
    pub(crate) fn deep_picture(
        depth_bits: u8,
        (width, height): (u32, u32),
        of: impl Fn(usize, usize, usize) -> u16,
    ) -> Picture {
        let format = PixelFormat::planar(Chroma::Yuv420, depth_bits);
        let mut picture = Picture::new(format, Size::new(width, height).unwrap(), Time::ZERO);
        for (index, plane) in picture.planes_mut().iter_mut().enumerate() {
            for (y, line) in plane.lines_mut().enumerate() {
                for (x, sample) in line.chunks_mut(format.sample_bytes()).enumerate() {
                    sample.copy_from_slice(&of(index, x, y).to_le_bytes()[..sample.len()]);
                }
            }
        }
        picture
    }

    #[test]
    fn pictures_without_samples_in_common_are_refused() {
        let made = |chroma, depth_bits, width| {
            let size = Size::new(width, 8).unwrap();
            Picture::new(PixelFormat::planar(chroma, depth_bits), size, Time::ZERO)
        };
        let eight = made(Chroma::Yuv420, 8, 8);
        assert_eq!(check(&eight, &eight), Ok(()));
        let told = |one: &Picture, other: &Picture| check(one, other).unwrap_err().to_string();
        assert!(told(&eight, &made(Chroma::Yuv420, 8, 9)).contains("is 9x8, the reference 8x8"));
        assert!(told(&eight, &made(Chroma::Yuv444, 8, 8)).contains("Yuv444 of 8 bits"));
        let ten = made(Chroma::Yuv420, 10, 8);
        assert!(told(&eight, &ten).contains("10 bits"));
        assert_eq!(check(&ten, &ten), Ok(()));
        let thin = made(Chroma::Yuv420, 7, 8);
        assert_eq!(check(&thin, &thin), Err(CompareError::Depth { found: 7 }));
        for depth_bits in [8, 10] {
            let format = PixelFormat::pgroups(Chroma::Yuv420, depth_bits).unwrap();
            let packed = Picture::new(format, eight.size(), Time::ZERO);
            assert_eq!(check(&packed, &packed), Err(CompareError::Pgroups));
        }
    }
}
