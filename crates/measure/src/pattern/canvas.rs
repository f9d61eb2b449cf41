//! Drawing into an 8-bit 4:2:0 picture: rectangles and masks, cut off at its edges.

use glassline_media::picture::Picture;

/// A colour in BT.709, limited range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Yuv(pub(super) [u8; 3]);

/// BT.709 of red, green and blue from 0 to 255.
pub(super) fn rgb(red: f32, green: f32, blue: f32) -> Yuv {
    let luma = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    let chroma = |difference: f32, scale: f32| (128.0 + 224.0 / 255.0 * difference / scale).round() as u8;
    Yuv([
        (16.0 + luma * 219.0 / 255.0).round() as u8,
        chroma(blue - luma, 1.8556),
        chroma(red - luma, 1.5748),
    ])
}

/// A rectangle in luma samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Area {
    pub(super) x: u32,
    pub(super) y: u32,
    pub(super) width: u32,
    pub(super) height: u32,
}

impl Area {
    pub(super) const fn right(self) -> u32 {
        self.x + self.width
    }

    pub(super) const fn bottom(self) -> u32 {
        self.y + self.height
    }

    /// Smaller by `margin` on each side.
    pub(super) const fn inset(self, margin: u32) -> Area {
        Area {
            x: self.x + margin,
            y: self.y + margin,
            width: self.width.saturating_sub(2 * margin),
            height: self.height.saturating_sub(2 * margin),
        }
    }
}

/// How much of each sample a shape covers, 0 to 255, for luma and for chroma. Sides are even.
#[derive(Clone, Debug)]
pub(super) struct Mask {
    pub(super) width: u32,
    pub(super) height: u32,
    luma: Vec<u8>,
    chroma: Vec<u8>,
}

impl Mask {
    /// The mask of a shape. `shape(x, y)` is its coverage at the middle of a sample, clamped to 0 to 1.
    pub(super) fn of(width: u32, height: u32, shape: impl Fn(f32, f32) -> f32) -> Mask {
        let (width, height) = (width.next_multiple_of(2), height.next_multiple_of(2));
        let at = |index: u32| shape((index % width) as f32 + 0.5, (index / width) as f32 + 0.5);
        let luma: Vec<u8> =
            (0..width * height).map(|index| (at(index).clamp(0.0, 1.0) * 255.0) as u8).collect();
        let half = width as usize / 2;
        let chroma = (0..luma.len() / 4)
            .map(|index| {
                let first = index / half * 2 * width as usize + index % half * 2;
                let four =
                    [0, 1, width as usize, width as usize + 1].map(|offset| u32::from(luma[first + offset]));
                (four.iter().sum::<u32>() / 4) as u8
            })
            .collect();
        Mask { width, height, luma, chroma }
    }

    /// A rectangle with round corners.
    pub(super) fn rounded(width: u32, height: u32, radius: f32) -> Mask {
        let (across, down) = (width as f32 / 2.0, height as f32 / 2.0);
        let radius = radius.min(across).min(down);
        Mask::of(width, height, |x, y| {
            let beyond = |at: f32, half: f32| ((at - half).abs() - half + radius).max(0.0);
            0.5 + radius - beyond(x, across).hypot(beyond(y, down))
        })
    }

    /// The coverage of line `y` of luma (`plane` 0) or chroma.
    pub(super) fn line(&self, plane: usize, y: usize) -> &[u8] {
        let (samples, width) = if plane == 0 {
            (&self.luma, self.width as usize)
        } else {
            (&self.chroma, self.width as usize / 2)
        };
        &samples[y * width..][..width]
    }
}

/// Fills `area`.
pub(super) fn fill(picture: &mut Picture, area: Area, colour: Yuv) {
    for (index, plane) in picture.planes_mut().iter_mut().enumerate() {
        let shift = u32::from(index > 0);
        let size = plane.size();
        let end = |end: u32, limit: u32| (end.div_ceil(1 << shift).min(limit)) as usize;
        let (left, right) = ((area.x >> shift) as usize, end(area.right(), size.width));
        for y in (area.y >> shift) as usize..end(area.bottom(), size.height) {
            if let Some(samples) = plane.line_mut(y).get_mut(left..right) {
                samples.fill(colour.0[index]);
            }
        }
    }
}

/// Lays `colour` over the picture where `mask`, its corner at (`x`, `y`), covers it. Odd positions are rounded down.
pub(super) fn blend(picture: &mut Picture, mask: &Mask, (x, y): (u32, u32), colour: Yuv) {
    for (index, plane) in picture.planes_mut().iter_mut().enumerate() {
        let shift = u32::from(index > 0);
        let (left, top) = (((x & !1) >> shift) as usize, ((y & !1) >> shift) as usize);
        let value = u32::from(colour.0[index]);
        let lines = (plane.size().height as usize).saturating_sub(top).min((mask.height >> shift) as usize);
        for row in 0..lines {
            let line = plane.line_mut(top + row);
            let start = left.min(line.len());
            for (sample, &cover) in line[start..].iter_mut().zip(mask.line(index, row)) {
                let cover = u32::from(cover);
                *sample = ((u32::from(*sample) * (255 - cover) + value * cover + 127) / 255) as u8;
            }
        }
    }
}

/// Copies `area` from a picture of the same size and format.
pub(super) fn copy(picture: &mut Picture, from: &Picture, area: Area) {
    for (index, (plane, source)) in picture.planes_mut().iter_mut().zip(from.planes()).enumerate() {
        let shift = u32::from(index > 0);
        let (left, right) =
            ((area.x >> shift) as usize, (area.right() >> shift).min(plane.size().width) as usize);
        for y in (area.y >> shift)..(area.bottom() >> shift).min(plane.size().height) {
            let y = y as usize;
            if let (Some(to), Some(from)) =
                (plane.line_mut(y).get_mut(left..right), source.line(y).get(left..right))
            {
                to.copy_from_slice(from);
            }
        }
    }
}
