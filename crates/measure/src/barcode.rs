//! A barcode in the picture: frame number and capture time, readable after any codec.
//!
//! It lies in luma and is coarse enough to survive 1280×720 at 30 pictures and 500 kbit/s. Drawn by the test pattern, read by
//! `glassline lab` and, in TypeScript, by the web player: from the picture alone both know which frame is on the screen and how
//! old it is. `docs/barcode.md` states the same for other implementations.
//!
//! # The code
//! 80 bits, the most significant first, row by row in a grid of 20 columns and 4 rows. A white cell (luma 235) is
//! 1, a black one (16) is 0; chroma is 128. At more than 8 bits a sample, values are shifted left. In RGB all three components are
//! what luma is elsewhere.
//!
//! ```text
//!                      column 0 … 19
//!          ┌────────────────────────────────────────┐
//!   row 0  │ frame number, bits 23 … 4              │
//!   row 1  │ f 3…0 │ captured UTC, bits 39 … 24     │
//!   row 2  │ captured UTC, bits 23 … 4              │
//!   row 3  │ u 3…0 │ check, bits 15 … 0             │
//!          └────────────────────────────────────────┘
//! ```
//!
//! | field | bits | what |
//! |---|---|---|
//! | frame number | 24 | modulo 2²⁴ |
//! | captured UTC | 40 | microseconds since the Unix epoch, modulo 2⁴⁰ (12.7 days) |
//! | check | 16 | CRC-16/CCITT-FALSE over the 8 bytes before it: polynomial 0x1021, start 0xFFFF, not reflected |
//!
//! # Where it lies
//! A cell is a square of 16 × max(1, ⌊height / 1080⌋) pixels where the picture is at least 320 wide, of 8 where it
//! is at least 160 wide. The first copy begins at (0, 0). The second, equal one ends at the bottom right: its
//! corner is (width − 20·cell, height − 4·cell), each rounded down to a multiple of 16 (of 8 for cells of 8), so
//! that cells and macroblocks coincide. There is no barcode in a picture narrower than 160 or than 20 cells, or
//! lower than 8 cells. Two copies, because top and bottom of a picture may come from different frames.
//!
//! # Reading
//! A cell's value is the mean of its centre half (from ¼ to ¾ in both directions). The threshold lies midway
//! between the darkest and the brightest cell of the code, so that a change of range does no harm; where they
//! are less than 32 (of 255) apart there is no code. The check must hold.

use crc::{CRC_16_IBM_3740, Crc};
use glassline_media::picture::{Chroma, Picture, Size};
use glassline_media::time::Utc;

/// Cells in a row.
pub const COLUMNS: u32 = 20;
/// Rows of cells.
pub const ROWS: u32 = 4;

const BLACK: u8 = 16;
const WHITE: u8 = 235;
const MIN_CONTRAST: u32 = 32;
const FRAME_NUMBER_MASK: u32 = (1 << 24) - 1;
const UTC_MODULUS: u64 = 1 << 40;
/// The catalogue's name for what is widely called CRC-16/CCITT-FALSE.
const CHECK: Crc<u16> = Crc::<u16>::new(&CRC_16_IBM_3740);

/// What a barcode says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Barcode {
    /// The frame's number, modulo 2²⁴.
    pub frame_number: u32,
    /// When the frame was captured: UTC in microseconds, modulo 2⁴⁰.
    pub captured_utc_micros: u64,
}

/// Where the two copies lie in a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Width and height of a cell in luma samples.
    pub cell_px: u32,
    /// Left and top of the first copy.
    pub top_left: (u32, u32),
    /// Left and top of the second copy.
    pub bottom_right: (u32, u32),
}

impl Layout {
    /// Width and height of a copy in luma samples.
    pub const fn code_size(&self) -> Size {
        Size { width: COLUMNS * self.cell_px, height: ROWS * self.cell_px }
    }
}

/// Where the barcodes lie in a picture of `size`, or `None` where it is too small for them.
pub fn layout(size: Size) -> Option<Layout> {
    let (cell_px, align) = match size.width {
        320.. => (16 * (size.height / 1080).max(1), 16),
        160.. => (8, 8),
        _ => return None,
    };
    let x = size.width.checked_sub(COLUMNS * cell_px)? / align * align;
    let y = size.height.checked_sub(ROWS * cell_px)? / align * align;
    (size.height >= 2 * ROWS * cell_px).then_some(Layout { cell_px, top_left: (0, 0), bottom_right: (x, y) })
}

/// What was found in a picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// The copy at the top left, if its check held.
    pub top_left: Option<Barcode>,
    /// The copy at the bottom right, if its check held.
    pub bottom_right: Option<Barcode>,
}

/// Reads both copies. Cost: it looks at some 10,000 samples at 720p.
///
/// Pictures without a barcode read as `None`, but for one in 65,536, in which the check holds by chance; pictures in pgroups read
/// as `None` too. Of RGB, red is looked at.
pub fn read(picture: &Picture) -> Read {
    let layout = layout(picture.size()).filter(|_| picture.format().is_planar());
    let Some(layout) = layout else { return Read::default() };
    Read {
        top_left: read_at(picture, layout.top_left, layout.cell_px),
        bottom_right: read_at(picture, layout.bottom_right, layout.cell_px),
    }
}

impl Barcode {
    /// The barcode of frame `number`, captured at `utc`.
    pub const fn new(number: u64, utc: Utc) -> Barcode {
        Barcode {
            frame_number: number as u32 & FRAME_NUMBER_MASK,
            captured_utc_micros: utc.as_micros() % UTC_MODULUS,
        }
    }

    /// Draws both copies into a picture in planes, of any components and depth, and says where. `None`, and nothing drawn, where
    /// there is no room ([`layout`]), or the picture is in pgroups.
    pub fn draw(&self, picture: &mut Picture) -> Option<Layout> {
        let layout = layout(picture.size()).filter(|_| picture.format().is_planar())?;
        let bits = self.bits();
        draw_at(picture, bits, layout.top_left, layout.cell_px);
        draw_at(picture, bits, layout.bottom_right, layout.cell_px);
        Some(layout)
    }

    /// When the frame was captured: the time nearest to `reference` that the 40 bits can mean. Right as long as
    /// both are less than 6.3 days apart.
    pub const fn unwrap_near(&self, reference: Utc) -> Utc {
        let (modulus, near) = (UTC_MODULUS as i64, reference.as_micros() as i64);
        let mut delta = (self.captured_utc_micros as i64 - near).rem_euclid(modulus);
        if delta >= modulus / 2 && near + delta >= modulus {
            delta -= modulus;
        }
        Utc::from_micros((near + delta) as u64)
    }

    /// Reads a code from the mean luma of the 80 cells' centre halves, row by row: for callers that look at samples elsewhere,
    /// such as in a browser. `None` where the cells are too alike, or the check does not hold.
    pub fn from_cells(cells: &[u8; (COLUMNS * ROWS) as usize]) -> Option<Barcode> {
        Barcode::from_sums(cells.map(u32::from).as_slice(), MIN_CONTRAST)
    }

    /// Of each cell's sum of samples. Where the darkest and the brightest are less than `min_contrast` apart there is no code.
    fn from_sums(sums: &[u32], min_contrast: u32) -> Option<Barcode> {
        let (darkest, brightest) = (*sums.iter().min()?, *sums.iter().max()?);
        if brightest - darkest < min_contrast {
            return None;
        }
        let bits = sums.iter().fold(0, |bits, &sum| {
            bits << 1 | u128::from(2 * u64::from(sum) > u64::from(darkest) + u64::from(brightest))
        });
        Barcode::from_bits(bits)
    }

    /// The 80 bits, in the low end.
    fn bits(&self) -> u128 {
        let fields = (u64::from(self.frame_number & FRAME_NUMBER_MASK) << 40)
            | (self.captured_utc_micros % UTC_MODULUS);
        u128::from(fields) << 16 | u128::from(CHECK.checksum(&fields.to_be_bytes()))
    }

    fn from_bits(bits: u128) -> Option<Barcode> {
        let (fields, check) = ((bits >> 16) as u64, bits as u16);
        let code = Barcode { frame_number: (fields >> 40) as u32, captured_utc_micros: fields % UTC_MODULUS };
        (CHECK.checksum(&fields.to_be_bytes()) == check).then_some(code)
    }
}

fn draw_at(picture: &mut Picture, bits: u128, (left, top): (u32, u32), cell_px: u32) {
    let format = picture.format();
    let sample = |value: u8| (u16::from(value) << (format.depth_bits - 8)).to_le_bytes();
    let sample_bytes = format.sample_bytes();
    let (x_shift, y_shift) = format.chroma.shifts().unwrap_or((0, 0));
    for (index, plane) in picture.planes_mut().iter_mut().enumerate() {
        let (x_shift, y_shift) = if index == 0 { (0, 0) } else { (x_shift, y_shift) };
        let stride = plane.stride_bytes();
        let first = (left >> x_shift) as usize * sample_bytes;
        let length = ((COLUMNS * cell_px) >> x_shift) as usize * sample_bytes;
        let cell_bytes = cell_px as usize * sample_bytes;
        let bytes = plane.bytes_mut();
        for y in 0..((ROWS * cell_px) >> y_shift) as usize {
            let line = &mut bytes[((top >> y_shift) as usize + y) * stride + first..][..length];
            if index > 0 && format.chroma != Chroma::Rgb {
                line.chunks_exact_mut(sample_bytes)
                    .for_each(|out| out.copy_from_slice(&sample(128)[..out.len()]));
                continue;
            }
            let row = y / cell_px as usize;
            for (column, cell) in line.chunks_exact_mut(cell_bytes).enumerate() {
                let bit = bits >> (COLUMNS * ROWS - 1 - row as u32 * COLUMNS - column as u32) & 1;
                let value = sample(if bit == 1 { WHITE } else { BLACK });
                cell.chunks_exact_mut(sample_bytes).for_each(|out| out.copy_from_slice(&value[..out.len()]));
            }
        }
    }
}

fn read_at(picture: &Picture, (left, top): (u32, u32), cell_px: u32) -> Option<Barcode> {
    let plane = picture.planes().first()?;
    let sample_bytes = picture.format().sample_bytes();
    let mut sums = [0u32; (COLUMNS * ROWS) as usize];
    for (index, sum) in sums.iter_mut().enumerate() {
        let (column, row) = (index as u32 % COLUMNS, index as u32 / COLUMNS);
        let x = (left + column * cell_px + cell_px / 4) as usize * sample_bytes;
        let y = (top + row * cell_px + cell_px / 4) as usize;
        for y in y..y + cell_px as usize / 2 {
            let samples = &plane.line(y)[x..][..cell_px as usize / 2 * sample_bytes];
            *sum += samples.chunks_exact(sample_bytes).map(value_of).sum::<u32>();
        }
    }
    let samples = (cell_px / 2) * (cell_px / 2);
    Barcode::from_sums(&sums, (MIN_CONTRAST << (picture.format().depth_bits - 8)) * samples)
}

fn value_of(sample: &[u8]) -> u32 {
    match sample {
        [low, high] => u32::from(u16::from_le_bytes([*low, *high])),
        _ => u32::from(sample[0]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::picture::PixelFormat;
    use glassline_media::time::Time;
    use proptest::prelude::*;

    fn size(width: u32, height: u32) -> Size {
        Size::new(width, height).unwrap()
    }

    #[test]
    fn the_documented_example_holds() {
        let code = Barcode::new(0x12_3456, Utc::from_micros(1_700_000_000_000_000));
        assert_eq!(format!("{:020x}", code.bits()), "12345624181e4000ac6a");
    }

    #[test]
    fn means_of_cells_are_enough_to_read_it() {
        let code = Barcode::new(0x12_3456, Utc::from_micros(1_700_000_000_000_000));
        let mut cells: [u8; 80] =
            std::array::from_fn(|cell| if code.bits() >> (79 - cell) & 1 == 1 { 200 } else { 40 });
        assert_eq!(Barcode::from_cells(&cells), Some(code));
        cells[3] = 240 - cells[3];
        assert_eq!(Barcode::from_cells(&cells), None, "one bit is wrong");
        assert_eq!(Barcode::from_cells(&[128; 80]), None, "all are alike");
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let at = |width, height| layout(size(width, height));
        let found = at(1280, 720).unwrap();
        assert_eq!((found.cell_px, found.top_left, found.bottom_right), (16, (0, 0), (960, 656)));
        assert_eq!(found.code_size(), size(320, 64));
        assert_eq!(at(1920, 1080).unwrap().bottom_right, (1600, 1008));
        assert_eq!(at(3840, 2160).unwrap().cell_px, 32);
        assert_eq!(at(3840, 2160).unwrap().bottom_right, (3200, 2032));
        assert_eq!(at(320, 180).unwrap().bottom_right, (0, 112));
        assert_eq!(at(319, 180).unwrap(), Layout { cell_px: 8, top_left: (0, 0), bottom_right: (152, 144) });
        assert!(at(160, 64).is_some());
        assert!(at(320, 127).is_none());
        assert!(at(159, 720).is_none());
        assert!(at(400, 2160).is_none(), "narrower than 20 cells");
    }

    #[test]
    fn a_change_of_range_does_no_harm_and_damage_is_noticed() {
        let mut picture = Picture::new(PixelFormat::I420, size(640, 360), Time::ZERO);
        let code = Barcode::new(77, Utc::from_micros(123_456_789));
        code.draw(&mut picture);
        for byte in picture.planes_mut()[0].bytes_mut() {
            *byte = (u32::from(*byte) * 60 / 255 + 90) as u8;
        }
        assert_eq!(read(&picture), Read { top_left: Some(code), bottom_right: Some(code) });
        for y in 0..16 {
            picture.planes_mut()[0].line_mut(y)[304..320].fill(if y < 8 { 90 } else { 150 });
        }
        let cell = read(&picture).top_left;
        assert!(cell.is_none() || cell == Some(code), "a damaged cell is never misread");
        picture.planes_mut()[0].bytes_mut().fill(128);
        assert_eq!(read(&picture), Read::default());
    }

    #[test]
    fn pgroups_are_neither_drawn_nor_read() {
        for depth_bits in [8, 10] {
            let format = PixelFormat::pgroups(Chroma::Yuv422, depth_bits).unwrap();
            let mut picture = Picture::new(format, size(640, 360), Time::ZERO);
            assert_eq!(Barcode::new(77, Utc::from_micros(5)).draw(&mut picture), None);
            assert!(picture.planes()[0].bytes().iter().all(|&byte| byte == 0));
            assert_eq!(read(&picture), Read::default());
        }
    }

    #[test]
    fn all_of_rgb_is_as_bright_as_the_cell() {
        let mut picture = Picture::new(PixelFormat::planar(Chroma::Rgb, 8), size(640, 360), Time::ZERO);
        Barcode::new(77, Utc::from_micros(5)).draw(&mut picture);
        let [red, green, blue] = picture.planes() else { unreachable!() };
        assert!(red == green && green == blue && red.lines().flatten().any(|&sample| sample == WHITE));
    }

    #[test]
    fn wrapped_time_is_unwrapped_near_a_reference() {
        let wrap = 1u64 << 40;
        for (captured, reference) in [
            (5 * wrap + 3, 5 * wrap + 9),
            (5 * wrap - 3, 5 * wrap + 9),
            (5 * wrap + 9, 5 * wrap - 3),
            (3, 900),
            (900, 3),
        ] {
            let code = Barcode::new(0, Utc::from_micros(captured));
            assert_eq!(code.unwrap_near(Utc::from_micros(reference)), Utc::from_micros(captured));
        }
    }

    proptest! {
        #[test]
        fn what_is_drawn_is_read(
            (width, height) in (1u32..700, 1u32..400),
            chroma in prop_oneof![
                Just(Chroma::Mono), Just(Chroma::Yuv420), Just(Chroma::Yuv422), Just(Chroma::Yuv444), Just(Chroma::Rgb)
            ],
            depth_bits in 8u8..=16,
            number: u64,
            utc_micros in 0u64..1 << 53,
        ) {
            let size = size(width, height);
            let mut picture = Picture::new(PixelFormat::planar(chroma, depth_bits), size, Time::ZERO);
            let code = Barcode::new(number, Utc::from_micros(utc_micros));
            prop_assert_eq!(code.draw(&mut picture), layout(size));
            let expected = layout(size).map(|_| code);
            prop_assert_eq!(read(&picture), Read { top_left: expected, bottom_right: expected });
            prop_assert_eq!(code.unwrap_near(Utc::from_micros(utc_micros + 1_000_000)), Utc::from_micros(utc_micros));
        }
    }
}
