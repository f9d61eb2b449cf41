//! Noise is taken out of pictures before they are encoded: what differs by little from the picture before, seen along its
//! motion, becomes more like it.
//!
//! What is remembered is a value as everything here: the picture before, denoised ([`Denoised`]). It is not taken from
//! the codec's own references: those hold what quantisation has left, which hides small differences for good, and noise
//! of a key frame would stay as long as nothing else is worth its bits. So it also does not matter what becomes of a
//! picture: frames that are skipped, encoded again, against another state or as key frames are made of the same samples.
//!
//! Each block of 16×16 is searched in the picture before, unless it is found where the neighbours' vectors point; then
//! [`filter`] moves its samples. How much noise there is, is measured on the way, from blocks that were predicted well.

pub(crate) mod filter;

use super::motion_search::{self, Search};
use super::parallel::{Parallel, share};
use super::rate::ModeCosts;
use super::reference::ReferencePlane;
use super::source::Source;
use super::speed::Tools;
use super::{EncodeError, EncodeWorkspace, Serial, check_picture};
use crate::vp8::frame::{Frame, Geometry};
use crate::vp8::header::Lasting;
use crate::vp8::measure::Shape;
use crate::vp8::simd::Kernels;
use crate::vp8::simd::encode::EncodeKernels;
use crate::vp8::vector::Vector;
use filter::{Level, SAMPLES};
use glassline_media::Picture;

/// How strongly noise is taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denoise {
    /// Noise that is hardly seen: a good camera in a room.
    Light,
    /// Noise that is seen.
    Medium,
    /// Noise that disturbs: a small camera in the dark.
    Strong,
}

impl Denoise {
    /// The share of the way that a sample goes towards its prediction at most, in 256ths.
    fn share(self) -> u32 {
        match self {
            Denoise::Light => 144,
            Denoise::Medium => 184,
            Denoise::Strong => 212,
        }
    }

    /// What is taken for noise at most: mean absolute difference of samples, in 64ths. That of Gaussian noise is four
    /// fifths of its standard deviation.
    fn most_noise(self) -> u32 {
        SAMPLES
            * match self {
                Denoise::Light => 3,
                Denoise::Medium => 6,
                Denoise::Strong => 12,
            }
    }
}

/// A denoised picture, and what the next one needs of it. Cloning shares the samples.
#[derive(Clone, Debug)]
pub struct Denoised {
    picture: Picture,
    frame: Frame,
    geometry: Geometry,
    /// Where blocks of 16×16 were found, row by row.
    vectors: Vec<Vector>,
    /// Of luma and chroma; none before the second picture.
    noise: Option<[u32; 2]>,
}

impl Denoised {
    /// The picture to be encoded.
    pub fn picture(&self) -> &Picture {
        &self.picture
    }

    /// How much luma differs from its prediction where that is good: the mean absolute difference, in samples. None
    /// before the second picture.
    pub fn noise(&self) -> Option<f64> {
        self.noise.map(|[luma, _]| f64::from(luma) / f64::from(SAMPLES))
    }
}

/// Takes noise out of a picture (I420, any size from 1×1 to 16383×16383). `before` is what came out for the picture
/// before it; the first one of a stream, and one of another size than that before it, stays as it is.
///
/// The result depends on the arguments alone, on every processor.
///
/// # Errors
/// [`EncodeError::Format`], [`EncodeError::Size`].
pub fn denoise(
    before: Option<&Denoised>,
    picture: &Picture,
    strength: Denoise,
) -> Result<Denoised, EncodeError> {
    denoise_in(before, picture, strength, &mut EncodeWorkspace::new(), &Serial)
}

/// As [`denoise`], with memory that is used again and tasks that may run side by side.
///
/// # Errors
/// As [`denoise`].
pub fn denoise_in(
    before: Option<&Denoised>,
    picture: &Picture,
    strength: Denoise,
    workspace: &mut EncodeWorkspace,
    parallel: &dyn Parallel,
) -> Result<Denoised, EncodeError> {
    let geometry = check_picture(picture)?;
    let kernels = workspace.kernels();
    Ok(with_kernels((before, strength), (picture, &geometry), workspace, (parallel, kernels)))
}

fn with_kernels(
    (before, strength): (Option<&Denoised>, Denoise),
    (picture, geometry): (&Picture, &Geometry),
    workspace: &mut EncodeWorkspace,
    (parallel, (kernels, encode_kernels)): super::Means<'_>,
) -> Denoised {
    let source = Source::new(picture, geometry, &mut workspace.padding);
    let mut out = workspace.frames.frame(geometry);
    let mut vectors = vec![Vector::ZERO; geometry.columns * geometry.rows];
    let mut noise = None;
    match before.filter(|before| before.geometry == *geometry) {
        None => copy(&source, geometry, out.planes_mut()),
        Some(before) => {
            let costs = ModeCosts::new(false, &Lasting::at_key_frame().probs);
            let tools = Tools { first_step: 2, ..Tools::new(6) };
            let job = Job { geometry, source, before, costs: &costs, tools: &tools, kernels, encode_kernels };
            let most = strength.most_noise();
            let mut run = |searched: u32, noise: [u32; 2]| {
                let levels = noise.map(|noise| Level::new(noise.min(most), strength.share()));
                job.run(searched, &levels, out.planes_mut(), &mut vectors, parallel)
            };
            // Before the second picture nothing is known of the noise: it is measured first.
            let known = before.noise.unwrap_or_else(|| run(0, [most; 2]));
            let found = run(known[0], known);
            // A cut looks like noise: the level rises slowly.
            noise = Some([0, 1].map(|at| found[at].min(known[at] + known[at] / 4 + SAMPLES / 4)));
        }
    }
    let frame = out.finish();
    workspace.frames.remember(&frame);
    let mut clean = frame.picture(geometry);
    clean.colour = picture.colour;
    (clean.captured, clean.captured_utc) = (picture.captured, picture.captured_utc);
    Denoised { picture: clean, frame, geometry: *geometry, vectors, noise }
}

fn copy(source: &Source<'_>, geometry: &Geometry, planes: [&mut [u8]; 3]) {
    for (index, plane) in planes.into_iter().enumerate() {
        let (width, lines, stride) = geometry.plane(index);
        let (samples, source_stride) = source.at(index, 0, 0);
        for (to, from) in plane.chunks_mut(stride).zip(samples.chunks(source_stride)).take(lines) {
            to[..width].copy_from_slice(&from[..width]);
        }
    }
}

/// A picture that is denoised.
#[derive(Debug)]
struct Job<'a> {
    geometry: &'a Geometry,
    source: Source<'a>,
    before: &'a Denoised,
    costs: &'a ModeCosts,
    tools: &'a Tools,
    kernels: &'static Kernels,
    encode_kernels: &'static EncodeKernels,
}

/// A row of blocks to be written.
struct Row<'a> {
    row: usize,
    planes: [&'a mut [u8]; 3],
    vectors: &'a mut [Vector],
    /// By block, the mean of what is left of differences: luma, chroma.
    rests: [&'a mut [u32]; 2],
}

/// The price of a bit of a vector: noise is not to be followed. In 16ths of a difference.
const BIT_PRICE: u32 = 16 * 16;
/// The share of blocks in percent that are taken for predicted well.
const WELL_PERCENT: usize = 30;

impl Job<'_> {
    /// Writes all blocks; gives how much noise is in luma and chroma.
    fn run(
        &self,
        noise: u32,
        levels: &[Level; 2],
        planes: [&mut [u8]; 3],
        vectors: &mut [Vector],
        parallel: &dyn Parallel,
    ) -> [u32; 2] {
        let geometry = self.geometry;
        let [y, u, v] = planes;
        let mut rests = [(); 2].map(|()| vec![0; vectors.len()]);
        let [luma_rests, chroma_rests] = &mut rests;
        let chroma = u.chunks_mut(8 * geometry.uv_stride).zip(v.chunks_mut(8 * geometry.uv_stride));
        let planes = y.chunks_mut(16 * geometry.y_stride).zip(chroma);
        let rests_of_rows =
            luma_rests.chunks_mut(geometry.columns).zip(chroma_rests.chunks_mut(geometry.columns));
        let rows = planes.zip(vectors.chunks_mut(geometry.columns).zip(rests_of_rows)).enumerate();
        let row = |(row, ((y, (u, v)), (vectors, (luma, chroma))))| Row {
            row,
            planes: [y, u, v],
            vectors,
            rests: [luma, chroma],
        };
        share(parallel, rows.map(row).collect(), |waiting| {
            while let Some(row) = waiting.next() {
                self.row(row, noise, levels);
            }
        });
        let well = geometry.columns * geometry.rows * WELL_PERCENT / 100;
        rests.each_mut().map(|rests| *rests.select_nth_unstable(well).1)
    }

    fn row(&self, row: Row<'_>, noise: u32, levels: &[Level; 2]) {
        let Row { row, mut planes, vectors, rests } = row;
        let references = [0, 1, 2].map(|index| ReferencePlane::new(&self.before.frame, self.geometry, index));
        let mut predicted = [0; 256];
        for column in 0..self.geometry.columns {
            let left = if column == 0 { Vector::ZERO } else { vectors[column - 1] };
            let vector = self.find((column, row), &references[0], left, noise);
            vectors[column] = vector;
            let mut sums = [0; 2];
            for (index, (plane, reference)) in planes.iter_mut().zip(&references).enumerate() {
                let side = if index == 0 { 16 } else { 8 };
                let (_, _, stride) = self.geometry.plane(index);
                let source = self.source.at(index, side * column, side * row);
                let place = ((side * column) as i32, (side * row) as i32);
                let kind = usize::from(index > 0);
                let out = &mut plane[side * column..];
                let (filter, level) = (self.encode_kernels.denoise, &levels[kind]);
                let mut block = |(predicted, predicted_stride): (&[u8], usize)| {
                    for at in 0..(side / 8) * (side / 8) {
                        let (x, y) = (at % 2 * 8, at / 2 * 8);
                        let source = (&source.0[y * source.1 + x..], source.1);
                        let predicted = (&predicted[y * predicted_stride + x..], predicted_stride);
                        sums[kind] += filter(level, source, predicted, (&mut out[y * stride + x..], stride));
                    }
                };
                if index == 0 {
                    reference.predict(self.kernels, side, place, vector, (&mut predicted, side));
                } else {
                    // Quarters of a sample of luma are eighths of one of chroma.
                    let eighths = (i32::from(vector.column()), i32::from(vector.row()));
                    reference.predict_eighths(self.kernels, side, place, eighths, (&mut predicted, side));
                }
                block((&predicted, side));
            }
            (rests[0][column], rests[1][column]) = (sums[0] / 4, sums[1] / 2);
        }
    }

    /// Where a block was in the picture before.
    fn find(
        &self,
        (column, row): (usize, usize),
        reference: &ReferencePlane<'_>,
        left: Vector,
        noise: u32,
    ) -> Vector {
        let geometry = self.geometry;
        let before = self.before.vectors[row * geometry.columns + column];
        let search = Search {
            kernels: self.encode_kernels,
            tools: self.tools,
            shape: Shape::Whole,
            source: self.source.at(0, 16 * column, 16 * row),
            luma: *reference,
            place: (16 * column as i32, 16 * row as i32),
            limits: motion_search::limits((column, row), (geometry.columns, geometry.rows)),
            costs: self.costs,
            best: left,
            price: BIT_PRICE,
            first_step: self.tools.first_step,
        };
        // Noise alone, or little more.
        let quiet = 4 * (noise + noise / 4).max(2 * SAMPLES);
        let mut best = (u32::MAX, Vector::ZERO);
        for vector in [Vector::ZERO, left, before] {
            if vector == best.1 && best.0 < u32::MAX {
                continue;
            }
            let distance = match vector == Vector::ZERO {
                true => reference.window(search.place.0, search.place.1, (16, 16), |samples, stride| {
                    let sad = self.encode_kernels.sad[Shape::Whole as usize];
                    sad(search.source.0, search.source.1, samples, stride)
                }),
                false => match search.exactly(vector) {
                    Some(distance) => distance,
                    None => continue,
                },
            };
            if distance < quiet {
                return vector;
            }
            // Not where it is no better than by chance.
            if distance + distance / 16 < best.0 {
                best = (distance, vector);
            }
        }
        let (found, around) = search.whole_samples(&[Vector::ZERO, left, before]);
        let found = search.quarter_samples(found, around);
        if found.distance + found.distance / 16 < best.0 { found.vector } else { best.1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vp8::simd;
    use glassline_media::{PixelFormat, Size, Time};

    const SIZE: Size = Size { width: 96, height: 64 };

    /// A picture of `samples`, by plane and place; noise of about `sigma` is added, another one for each `number`.
    fn picture(size: Size, number: u32, sigma: i32, samples: impl Fn(usize, i32, i32) -> i32) -> Picture {
        let mut picture = Picture::new(PixelFormat::I420, size, Time::ZERO);
        let mut random = number.wrapping_mul(2_654_435_761) | 1;
        let mut noise = || {
            let mut eighth = || {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (random >> 24) as i32 - 127
            };
            // The sum of four has twice the deviation of one, which is 74.
            (eighth() + eighth() + eighth() + eighth()) * sigma / 148
        };
        for (index, plane) in picture.planes_mut().iter_mut().enumerate() {
            for (y, line) in plane.lines_mut().enumerate() {
                for (x, sample) in line.iter_mut().enumerate() {
                    *sample = (samples(index, x as i32, y as i32) + noise()).clamp(0, 255) as u8;
                }
            }
        }
        picture
    }

    fn texture(_: usize, x: i32, y: i32) -> i32 {
        100 + (x * 7 + y * 3) % 40 + (x / 9 * 5 + y / 7 * 11) % 30
    }

    /// The mean squared error of a plane.
    fn error(a: &Picture, b: &Picture, index: usize) -> f64 {
        let (a, b) = (&a.planes()[index], &b.planes()[index]);
        let pairs: Vec<(u8, u8)> = a.lines().flatten().copied().zip(b.lines().flatten().copied()).collect();
        pairs.iter().map(|&(a, b)| f64::from(a.abs_diff(b)).powi(2)).sum::<f64>() / pairs.len() as f64
    }

    /// The same of all planes.
    fn error_of_all(a: &Picture, b: &Picture) -> f64 {
        (0..3).map(|index| error(a, b, index)).sum()
    }

    /// Denoises pictures one after the other.
    fn run(pictures: impl IntoIterator<Item = Picture>, strength: Denoise) -> Vec<Denoised> {
        let mut all: Vec<Denoised> = Vec::new();
        for picture in pictures {
            all.push(denoise(all.last(), &picture, strength).unwrap());
        }
        all
    }

    #[test]
    fn noise_of_what_stands_still_goes() {
        let clean = picture(SIZE, 0, 0, texture);
        let noisy = |number| picture(SIZE, number, 6, texture);
        let denoised = run((1..20).map(noisy), Denoise::Medium);
        for index in 0..3 {
            let before = error(&noisy(19), &clean, index);
            let after = error(denoised[18].picture(), &clean, index);
            assert!(before > 25.0 && after < before / 3.0, "plane {index}: {before} before, {after} after");
        }
        let noise = denoised[18].noise().unwrap();
        assert!((3.5..6.5).contains(&noise), "{noise}");
        assert!(denoised[0].noise().is_none());
        assert!(error_of_all(denoised[0].picture(), &noisy(1)) == 0.0, "the first one stays");
    }

    #[test]
    fn a_clean_picture_stays() {
        let hills = |x: i32, y: i32| 60 + (x % 34 - 17).abs() * 3 + (y % 26 - 13).abs() * 4 + (x + y) % 5;
        let moving = |number: i32| {
            let by = |index: usize| if index == 0 { 4 * number } else { 2 * number };
            picture(SIZE, 0, 0, |index, x, y| hills(x + by(index), y + by(index) / 2))
        };
        for (number, denoised) in (0..).zip(run((0..6).map(moving), Denoise::Strong)) {
            let error = error(denoised.picture(), &moving(number), 0);
            assert!(error < 0.5, "picture {number}: {error}");
        }
    }

    #[test]
    fn an_edge_that_moves_leaves_no_ghost() {
        let bar = |number: i32| {
            move |index: usize, x: i32, y: i32| {
                let inside = index == 0 && (5 * number..5 * number + 12).contains(&x);
                60 + y % 9 + if inside { 50 } else { 0 }
            }
        };
        let noisy = (0..14).map(|number| picture(SIZE, number as u32, 4, bar(number)));
        for (number, denoised) in run(noisy, Denoise::Strong).iter().enumerate() {
            let clean = picture(SIZE, 0, 0, bar(number as i32));
            for x in 0..SIZE.width as usize {
                let mean = |picture: &Picture| {
                    let column = picture.planes()[0].lines().map(|line| f64::from(line[x]));
                    column.sum::<f64>() / f64::from(SIZE.height)
                };
                // Of 64 samples of noise the mean is within half a value, nearly always within two.
                let off = (mean(denoised.picture()) - mean(&clean)).abs();
                assert!(off < 2.5, "picture {number}, column {x} is off by {off}");
            }
        }
    }

    #[test]
    fn what_becomes_lighter_is_not_frozen() {
        let at = |number: i32| {
            let light = number.min(40);
            move |index: usize, x: i32, y: i32| texture(index, x, y) + light
        };
        let mean = |picture: &Picture| {
            let samples = picture.planes()[0].lines().flatten().map(|&sample| f64::from(sample));
            samples.sum::<f64>() / f64::from(SIZE.width * SIZE.height)
        };
        let noisy = (0..70).map(|number| picture(SIZE, number as u32, 5, at(number)));
        for (number, denoised) in run(noisy, Denoise::Strong).iter().enumerate() {
            let off = mean(denoised.picture()) - mean(&picture(SIZE, 0, 0, at(number as i32)));
            let limit = if number > 60 { 0.5 } else { 3.0 };
            assert!(off.abs() < limit, "picture {number} is off by {off}");
        }
    }

    #[test]
    fn a_small_change_that_lasts_comes_through() {
        let changed = |x: i32, y: i32| i32::from((20..70).contains(&x) && (x + y) % 3 == 0) * 4;
        let last = picture(SIZE, 0, 0, |index, x, y| texture(index, x, y) + changed(x, y));
        let noisy = (0..8).map(|number| picture(SIZE, number, 5, texture));
        let quiet = (0..40).map(|_| last.clone());
        let denoised = run(noisy.chain(quiet), Denoise::Strong);
        let left = error_of_all(denoised[47].picture(), &last);
        assert!(left == 0.0, "{left}");
    }

    #[test]
    fn another_size_begins_anew_and_other_formats_are_refused() {
        let first = denoise(None, &picture(SIZE, 1, 6, texture), Denoise::Strong).unwrap();
        for size in [Size { width: 33, height: 17 }, Size { width: 1, height: 1 }] {
            let other = picture(size, 2, 6, texture);
            let second = denoise(Some(&first), &other, Denoise::Strong).unwrap();
            assert!(error_of_all(second.picture(), &other) == 0.0, "{size}");
            let third = denoise(Some(&second), &picture(size, 3, 6, texture), Denoise::Strong).unwrap();
            assert_eq!(third.picture().size(), size);
        }
        let mono = PixelFormat::planar(glassline_media::Chroma::Mono, 8);
        let refused = denoise(None, &Picture::new(mono, SIZE, Time::ZERO), Denoise::Light);
        assert_eq!(refused.err(), Some(EncodeError::Format { found: mono }));
    }

    /// Runs the last task first.
    #[derive(Debug)]
    struct Backwards;

    impl Parallel for Backwards {
        fn threads(&self) -> usize {
            3
        }

        fn run(&self, tasks: &mut [&mut (dyn FnMut() + Send)]) {
            tasks.iter_mut().rev().for_each(|task| task());
        }
    }

    #[test]
    fn processor_and_threads_do_not_matter() {
        let size = Size { width: 121, height: 70 };
        let best = (Kernels::best(), EncodeKernels::best());
        let scalar = (&simd::SCALAR, &simd::encode::SCALAR);
        let geometry = Geometry::new(121, 70);
        let mut before: Option<Denoised> = None;
        for number in 0..6 {
            let moved = |index: usize, x: i32, y: i32| texture(index, x + 2 * number, y - number);
            let noisy = picture(size, number as u32, 6, moved);
            let mut denoise = |means| {
                let mut workspace = EncodeWorkspace::new();
                with_kernels((before.as_ref(), Denoise::Medium), (&noisy, &geometry), &mut workspace, means)
            };
            let [fast, slow, backwards] =
                [(&Serial as &dyn Parallel, best), (&Serial, scalar), (&Backwards, best)].map(&mut denoise);
            for (name, other) in [("scalar", &slow), ("backwards", &backwards)] {
                assert!(fast.picture == other.picture, "{name}, picture {number}");
                assert_eq!((&fast.vectors, fast.noise), (&other.vectors, other.noise), "{name}");
            }
            before = Some(fast);
        }
        let error = error(
            before.unwrap().picture(),
            &picture(size, 0, 0, |index, x, y| texture(index, x + 10, y - 5)),
            0,
        );
        assert!(error < 20.0, "what moves is denoised as well: {error}");
    }
}
