//! A film, by any camera, that shows two screens: the source's picture and the viewer's. The barcodes of both are searched anywhere
//! in it, and how far they are apart is the delay, by no clock but the source's. Pure.

use super::Look;
use glassline_inspect::{Distribution, Samples};
use glassline_measure::barcode::{Barcode, COLUMNS, ROWS};
use glassline_media::{Picture, Time, Utc};

/// Sides of cells that are looked for, in samples of the film.
const CELL_PX: std::ops::Range<f64> = 6.0..48.0;
/// From one size to the next: the last column is a sixth of a cell off at most.
const SCALE_STEP: f64 = 1.015;
/// Cells that are looked at first: where these are neither dark nor bright, there is no code.
const FIRST: [u32; 12] = [0, 19, 21, 38, 40, 59, 61, 78, 10, 30, 50, 70];
/// Of 255: the least contrast of a code.
const CONTRAST: u32 = 32;
/// Places at which a code holds in a frame, at most: some hundred around each code.
const FOUND_MAX: usize = 1 << 16;
/// Places that are followed.
const PLACES_MAX: usize = 8;
/// Two screens show so many codes, two each.
const PLACES: usize = 4;
/// A search takes long: of the frames in which fewer places are known, every so manyth has one, up to so many times.
const SEARCH_EVERY: u64 = 10;
const SEARCHES_MAX: u64 = 6;
/// Two screens are no further apart than this, in microseconds.
const LONGEST_US: f64 = 60e6;
/// Barcodes count microseconds modulo this.
const MODULUS: i64 = 1 << 40;

/// Where a code lies: its left top corner, and the side of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Place {
    x: f64,
    y: f64,
    cell: f64,
}

/// Sums of all samples to the left and above.
struct Sums {
    width: usize,
    height: usize,
    sums: Vec<u32>,
}

impl Sums {
    /// Of the luma of a picture of 8 bits a sample. A picture of 16 million samples or less fits.
    fn new(picture: &Picture) -> Sums {
        let (width, height) = (picture.size().width as usize, picture.size().height as usize);
        let mut sums = vec![0u32; (width + 1) * (height + 1)];
        for y in 0..height {
            let mut line = 0u32;
            for (x, sample) in picture.planes()[0].line(y)[..width].iter().enumerate() {
                line = line.wrapping_add(u32::from(*sample));
                sums[(y + 1) * (width + 1) + x + 1] = sums[y * (width + 1) + x + 1].wrapping_add(line);
            }
        }
        Sums { width, height, sums }
    }

    /// The mean around the middle of a cell; the place lies within the picture.
    fn cell(&self, place: &Place, index: u32) -> u32 {
        let (column, row) = (index % COLUMNS, index / COLUMNS);
        let reach = (place.cell / 8.0).max(0.5);
        let middle = |start: f64, count: u32| start + (f64::from(count) + 0.5) * place.cell;
        let (x, y) = (middle(place.x, column), middle(place.y, row));
        let (left, top) = ((x - reach) as usize, (y - reach) as usize);
        let (right, bottom) = (((x + reach) as usize).max(left + 1), ((y + reach) as usize).max(top + 1));
        let (right, bottom) = (right.min(self.width), bottom.min(self.height));
        let at = |x: usize, y: usize| self.sums[y * (self.width + 1) + x];
        let sum = at(right, bottom)
            .wrapping_sub(at(left, bottom))
            .wrapping_sub(at(right, top))
            .wrapping_add(at(left, top));
        sum / ((right - left) * (bottom - top)) as u32
    }

    fn holds(&self, place: &Place) -> bool {
        place.x >= 0.0
            && place.y >= 0.0
            && place.x + place.cell * f64::from(COLUMNS) <= self.width as f64
            && place.y + place.cell * f64::from(ROWS) <= self.height as f64
    }

    /// The code at a place, and how sure it is: the least distance of a cell from what parts dark from bright.
    fn read(&self, place: &Place) -> Option<(Barcode, u32)> {
        // Most places are plain: six cells tell.
        let few: [u32; 6] = std::array::from_fn(|index| self.cell(place, FIRST[index]));
        if few.iter().max()? - few.iter().min()? < CONTRAST {
            return None;
        }
        let first = FIRST.map(|index| self.cell(place, index));
        let (dark, bright) = (first.iter().min()?, first.iter().max()?);
        let range = bright - dark;
        if range < CONTRAST || first.iter().any(|mean| (mean - dark).min(bright - mean) * 3 > range) {
            return None;
        }
        let cells: [u8; (COLUMNS * ROWS) as usize] =
            std::array::from_fn(|index| self.cell(place, index as u32).min(255) as u8);
        let code = Barcode::from_cells(&cells)?;
        let (dark, bright) = (u32::from(*cells.iter().min()?), u32::from(*cells.iter().max()?));
        let sure = cells.iter().map(|cell| (2 * u32::from(*cell)).abs_diff(dark + bright)).min()?;
        Some((code, sure))
    }

    /// The code at a place, or a little beside it, as a camera in a hand has it; the place moves along.
    fn follow(&self, place: &mut Place) -> Option<Barcode> {
        let (from, beside) = (*place, [0.0, -0.15, 0.15, -0.3, 0.3]);
        let sizes = [1.0, 0.994, 1.006].into_iter().map(|scale| from.cell * scale);
        let places = sizes.flat_map(|cell| {
            let at = move |x: f64, y: f64| Place { x: from.x + x * cell, y: from.y + y * cell, cell };
            beside.into_iter().flat_map(move |y| beside.into_iter().map(move |x| at(x, y)))
        });
        let read = places.filter(|place| self.holds(place)).filter_map(|place| {
            let (code, sure) = self.read(&place)?;
            Some((sure, place, code))
        });
        let (_, found, code) = read.max_by_key(|(sure, ..)| *sure)?;
        *place = found;
        Some(code)
    }

    /// All codes: of those that overlap, the surest.
    fn find(&self) -> Vec<Place> {
        let mut found: Vec<(u32, Place)> = Vec::new();
        let mut cell = CELL_PX.start;
        while cell < CELL_PX.end {
            let step = cell / 4.0;
            let mut place = Place { x: 0.0, y: 0.0, cell };
            while self.holds(&place) {
                while self.holds(&place) {
                    if let Some((_, sure)) = self.read(&place).filter(|_| found.len() < FOUND_MAX) {
                        found.push((sure, place));
                    }
                    place.x += step;
                }
                (place.x, place.y) = (0.0, place.y + step);
            }
            cell *= SCALE_STEP;
        }
        surest(found)
    }
}

/// Of places that overlap, the surest: a code that is read a column or a line beside it may hold by chance.
fn surest(mut found: Vec<(u32, Place)>) -> Vec<Place> {
    found.sort_by_key(|(sure, _)| std::cmp::Reverse(*sure));
    let mut kept: Vec<Place> = Vec::new();
    for (_, place) in found {
        let overlaps = |other: &Place| {
            let size = place.cell.max(other.cell);
            (place.x - other.x).abs() < f64::from(COLUMNS) * size
                && (place.y - other.y).abs() < f64::from(ROWS) * size
        };
        if kept.len() < PLACES_MAX && !kept.iter().any(overlaps) {
            kept.push(place);
        }
    }
    kept
}

/// Looks at the frames of a film.
#[derive(Clone, Debug, Default)]
pub struct Film {
    frames: u64,
    searches: u64,
    places: Vec<Place>,
    /// By frame and place: the time in the barcode, microseconds.
    read: Vec<Vec<Option<u64>>>,
}

/// What a film shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Filmed {
    /// Frames of the film.
    pub frames: u64,
    /// Frames in which the barcodes of both screens could be read.
    pub both: u64,
    /// Places in which barcodes were found.
    pub places: usize,
    /// By how much the older screen was behind the newer one, in milliseconds; `None` where no two screens were seen.
    pub delay_ms: Option<Distribution>,
    /// The same, one by one.
    pub delays_ms: Vec<f64>,
}

impl Film {
    /// Takes the next frame, of 8 bits a sample. Cost: a search takes some hundred milliseconds.
    pub fn frame(&mut self, picture: &Picture) {
        let sums = Sums::new(picture);
        let wants_more = self.places.len() < PLACES && self.searches < SEARCHES_MAX;
        if wants_more && self.frames.is_multiple_of(SEARCH_EVERY) {
            self.searches += 1;
            let found = sums.find();
            if found.len() > self.places.len() {
                self.places = found;
                // What was read before was read in other places.
                self.read.clear();
            }
        }
        self.frames += 1;
        let read = self.places.iter_mut().map(|place| Some(sums.follow(place)?.captured_utc_micros));
        self.read.push(read.collect());
    }

    /// The delay. Places that always show the same picture are the two copies of one screen's barcode.
    pub fn finish(&self) -> Filmed {
        let apart = |one: u64, other: u64| {
            let apart = (one as i64 - other as i64).rem_euclid(MODULUS);
            if apart >= MODULUS / 2 { apart - MODULUS } else { apart }
        };
        let between = |one: usize, other: usize| {
            let pairs = self.read.iter().filter_map(|frame| Some((frame[one]?, frame[other]?)));
            pairs.map(|(one, other)| apart(one, other) as f64).collect::<Samples>().median()
        };
        // What held by chance says another time than all others: codes of one source are within a picture's longest way.
        let is_near = |one: usize, other: usize| {
            one == other || between(one, other).is_some_and(|apart| apart.abs() <= LONGEST_US)
        };
        let near = |place: usize| (0..self.places.len()).filter(move |other| is_near(place, *other));
        let most = (0..self.places.len()).max_by_key(|place| near(*place).count());
        let places: Vec<usize> = most.map_or_else(Vec::new, |place| near(place).collect());
        if places.len() < 2 {
            let (frames, places, delays_ms) = (self.frames, places.len(), Vec::new());
            return Filmed { frames, both: 0, places, delay_ms: None, delays_ms };
        }
        // The first place's screen, and the other one.
        let is_first = |place: usize| {
            place == places[0] || between(places[0], place).is_some_and(|apart| apart.abs() < 1000.0)
        };
        let screens: Vec<(usize, bool)> = places.iter().map(|place| (*place, is_first(*place))).collect();
        let newest = |frame: &[Option<u64>], wanted: bool| {
            let read = screens.iter().filter(|(_, is_first)| *is_first == wanted);
            read.filter_map(|(place, _)| frame[*place]).max()
        };
        let pairs = self.read.iter().filter_map(|frame| Some((newest(frame, true)?, newest(frame, false)?)));
        let mut delays_ms: Vec<f64> = pairs.map(|(one, other)| apart(one, other) as f64 / 1e3).collect();
        let all = |delays: &[f64]| delays.iter().copied().collect::<Samples>();
        if all(&delays_ms).median().is_some_and(|median| median < 0.0) {
            delays_ms.iter_mut().for_each(|delay| *delay = -*delay);
        }
        Filmed {
            frames: self.frames,
            both: delays_ms.len() as u64,
            places: places.len(),
            delay_ms: all(&delays_ms).distribution(|delay| delay),
            delays_ms,
        }
    }
}

impl Look for Film {
    fn look(&mut self, picture: &Picture, _: Time, _: Utc) {
        self.frame(picture);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::{PixelFormat, Size};

    const INTERVAL: u64 = 20_000;

    fn shown(number: u64) -> Picture {
        let mut picture = Picture::new(PixelFormat::I420, Size::new(640, 360).unwrap(), Time::ZERO);
        picture.planes_mut()[0].bytes_mut().fill(110);
        let captured = Utc::from_micros(1_700_000_000_000_000 + number * INTERVAL);
        Barcode::new(number, captured).draw(&mut picture);
        picture
    }

    /// Puts a screen into a frame, at a scale, dimmed.
    fn put(frame: &mut Picture, screen: &Picture, (left, top): (usize, usize), scale: f64) {
        let (width, height) = ((640.0 * scale) as usize, (360.0 * scale) as usize);
        for y in 0..height {
            for x in 0..width {
                let from = screen.planes()[0].line((y as f64 / scale) as usize)[(x as f64 / scale) as usize];
                // Noise that is the same in each run.
                let noise = (x * 7 + y * 13) % 17;
                frame.planes_mut()[0].line_mut(top + y)[left + x] = (from / 2 + 40) + noise as u8;
            }
        }
    }

    fn film(behind: u64, viewer_from: u64) -> Film {
        let mut film = Film::default();
        for number in 10..40u64 {
            let mut frame = Picture::new(PixelFormat::I420, Size::new(960, 420).unwrap(), Time::ZERO);
            let shake = (number % 3) as usize;
            put(&mut frame, &shown(number), (13 + shake, 21), 0.71);
            if number >= viewer_from {
                put(&mut frame, &shown(number - behind), (500 + shake, 60 + shake), 0.63);
            }
            film.frame(&frame);
        }
        film
    }

    #[test]
    fn two_screens_anywhere_in_a_film_tell_their_delay() {
        let filmed = film(5, 0).finish();
        assert_eq!(filmed.frames, 30, "{filmed:?}");
        assert!(filmed.places >= 3 && filmed.both >= 25, "{filmed:?}");
        let delay = filmed.delay_ms.unwrap();
        assert_eq!((delay.min, delay.max), (100.0, 100.0));
    }

    #[test]
    fn one_screen_has_no_delay() {
        let filmed = film(5, 1000).finish();
        assert_eq!((filmed.places, filmed.both, filmed.delay_ms), (2, 0, None));
        let mut empty = Film::default();
        empty.frame(&Picture::new(PixelFormat::I420, Size::new(320, 180).unwrap(), Time::ZERO));
        assert_eq!((empty.finish().places, empty.finish().delay_ms), (0, None));
    }
}
