//! A state at another size: its references resampled, so that a stream goes on without a key frame where the size of its
//! pictures changes. VP8 itself has no such thing (VP9 and AV1 scale references within prediction): both ends call
//! [`State::resampled`] between two frames.
//!
//! Both must get the same bits, so the filter is written down here and is not a library's: bicubic convolution (Catmull-Rom,
//! Keys 1981 with a = -1/2), over all samples that a new one covers where the picture shrinks; weights in 1/16384, columns
//! first, each pass rounded to a byte.

use super::frame::{Frame, Geometry, Unfinished};
use super::state::{Inner, Segmentation, State};
use super::workspace::Workspace;
use glassline_media::Size;
use std::sync::OnceLock;

/// Bits behind the point of a weight.
const WEIGHT_BITS: u32 = 14;
const ROUND: i32 = 1 << (WEIGHT_BITS - 1);

/// From which samples one new sample is made.
#[derive(Debug)]
struct Taps {
    first: usize,
    weights: Vec<i32>,
}

/// Keys' kernel.
fn catmull_rom(x: f64) -> f64 {
    let x = x.abs();
    if x < 1.0 {
        (1.5 * x - 2.5) * x * x + 1.0
    } else if x < 2.0 {
        ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0
    } else {
        0.0
    }
}

/// The taps of `to` samples out of `from`. Sums, products and quotients of doubles alone: the same on every machine.
fn taps(from: usize, to: usize) -> Vec<Taps> {
    let scale = from as f64 / to as f64;
    let stretch = scale.max(1.0);
    (0..to)
        .map(|at| {
            let centre = (at as f64 + 0.5) * scale - 0.5;
            let (low, high) =
                ((centre - 2.0 * stretch).ceil() as i64, (centre + 2.0 * stretch).floor() as i64);
            let last = from as i64 - 1;
            let (first, end) = (low.clamp(0, last), high.clamp(0, last));
            // What lies beyond the edge is as the edge is.
            let mut exact = vec![0.0; (end - first + 1) as usize];
            for position in low..=high {
                exact[(position.clamp(first, end) - first) as usize] +=
                    catmull_rom((position as f64 - centre) / stretch);
            }
            let sum: f64 = exact.iter().sum();
            let mut weights: Vec<i32> = exact
                .iter()
                .map(|weight| (weight / sum * f64::from(1 << WEIGHT_BITS)).round() as i32)
                .collect();
            // Flat pictures stay flat: the largest weight takes what rounding has left.
            let rest = (1 << WEIGHT_BITS) - weights.iter().sum::<i32>();
            if let Some(largest) = weights.iter_mut().max_by_key(|weight| **weight) {
                *largest += rest;
            }
            Taps { first: first as usize, weights }
        })
        .collect()
}

/// One line's worth of sums, as bytes.
fn to_byte(sum: i32) -> u8 {
    ((sum + ROUND) >> WEIGHT_BITS).clamp(0, 255) as u8
}

/// A plane's samples that belong to the picture, and how they lie.
#[derive(Clone, Copy)]
struct Extent {
    width: usize,
    lines: usize,
    stride: usize,
}

impl Extent {
    fn new(geometry: &Geometry, index: usize) -> Extent {
        let (_, _, stride) = geometry.plane(index);
        let (width, lines) = (usize::from(geometry.width), usize::from(geometry.height));
        match index {
            0 => Extent { width, lines, stride },
            _ => Extent { width: width.div_ceil(2), lines: lines.div_ceil(2), stride },
        }
    }
}

/// The taps of luma's and chroma's columns and lines.
struct Filter {
    columns: [Vec<Taps>; 2],
    lines: [Vec<Taps>; 2],
}

impl Filter {
    fn new(from: &Geometry, to: &Geometry) -> Filter {
        let of = |length: fn(&Extent) -> usize| {
            [0, 1].map(|plane| taps(length(&Extent::new(from, plane)), length(&Extent::new(to, plane))))
        };
        Filter { columns: of(|extent| extent.width), lines: of(|extent| extent.lines) }
    }

    /// Fills a new plane up to its whole macroblocks: beyond the picture it is as its edge.
    fn run(&self, index: usize, from: (&Geometry, &[u8]), to: (&Geometry, &mut [u8])) {
        let (source, target) = (Extent::new(from.0, index), Extent::new(to.0, index));
        let (columns, lines) = (&self.columns[index.min(1)], &self.lines[index.min(1)]);
        let (whole_width, whole_lines, _) = to.0.plane(index);
        let mut sums = vec![0i32; source.width];
        let mut middle = vec![0u8; source.width];
        for (out, taps) in to.1.chunks_mut(target.stride).zip(lines) {
            sums.fill(0);
            for (offset, &weight) in taps.weights.iter().enumerate() {
                let line = &from.1[(taps.first + offset) * source.stride..][..source.width];
                sums.iter_mut().zip(line).for_each(|(sum, &sample)| *sum += weight * i32::from(sample));
            }
            middle.iter_mut().zip(&sums).for_each(|(sample, &sum)| *sample = to_byte(sum));
            for (sample, taps) in out.iter_mut().zip(columns) {
                let samples = &middle[taps.first..][..taps.weights.len()];
                let sum =
                    samples.iter().zip(&taps.weights).map(|(&sample, weight)| i32::from(sample) * weight);
                *sample = to_byte(sum.sum());
            }
            let edge = out[target.width - 1];
            out[target.width..whole_width].fill(edge);
        }
        let last = (target.lines - 1) * target.stride;
        for line in target.lines..whole_lines {
            to.1.copy_within(last..last + whole_width, line * target.stride);
        }
    }
}

impl State {
    /// The state with its references at another size, for the next frame to be coded at: equal states give equal ones, on
    /// every platform. Probabilities and filter offsets stay, segments are forgotten. The state before the first key frame,
    /// and one of that size, is given back as it is.
    ///
    /// Takes some milliseconds for each distinct reference at 1280×720. `size` is of whole samples below 16,384 each way, the
    /// most that VP8 knows; larger is taken for that.
    #[must_use]
    pub fn resampled(&self, size: Size, workspace: &mut Workspace) -> State {
        let Some(inner) = self.0.as_ref().filter(|inner| inner.geometry.size() != size) else {
            return self.clone();
        };
        let length = |samples: u32| samples.clamp(1, (1 << 14) - 1) as u16;
        let geometry = Geometry::new(length(size.width), length(size.height));
        let filter = Filter::new(&inner.geometry, &geometry);
        let mut resampled = |frame: &Frame| {
            let mut unfinished: Unfinished = workspace.frame(&geometry);
            for (index, plane) in unfinished.planes_mut().into_iter().enumerate() {
                filter.run(index, (&inner.geometry, frame.plane(index)), (&geometry, plane));
            }
            let frame = unfinished.finish();
            workspace.remember(&frame);
            frame
        };
        let distinct: Vec<(&Frame, Frame)> =
            inner.distinct_frames().into_iter().map(|frame| (frame, resampled(frame))).collect();
        let of = |frame: &Frame| {
            let found = distinct.iter().find(|(known, _)| known.same(frame));
            found.map_or_else(|| distinct[0].1.clone(), |(_, resampled)| resampled.clone())
        };
        State(Some(
            Inner {
                last: of(&inner.last),
                golden: of(&inner.golden),
                altref: of(&inner.altref),
                probs: inner.probs.clone(),
                segmentation: Segmentation::default(),
                segment_map: vec![0; geometry.columns * geometry.rows].into(),
                filter: inner.filter.clone(),
                sign_bias: inner.sign_bias,
                horizontal_scale: inner.horizontal_scale,
                vertical_scale: inner.vertical_scale,
                colour_space: inner.colour_space,
                clamping_unneeded: inner.clamping_unneeded,
                geometry,
                hash: OnceLock::new(),
            }
            .into(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::decode::decode;
    use super::super::encode::{Quality, Replace, Request, Updates, encode};
    use super::super::limits::Limits;
    use super::*;
    use glassline_media::{Picture, PixelFormat, Time};
    use proptest::prelude::*;

    fn size(width: u32, height: u32) -> Size {
        Size::new(width, height).unwrap()
    }

    /// A smooth picture that moves to the left, the same at any size.
    fn drawn(size: Size, shift: usize) -> Picture {
        let wave = |at: f64| ((at - at.floor()) * 2.0 - 1.0).abs();
        let mut picture = Picture::new(PixelFormat::I420, size, Time::ZERO);
        for (index, plane) in picture.planes_mut().iter_mut().enumerate() {
            let (width, height) = (f64::from(plane.size().width), f64::from(plane.size().height));
            for (y, line) in plane.lines_mut().enumerate() {
                for (x, sample) in line.iter_mut().enumerate() {
                    let x = (x as f64 + 0.5) / width + shift as f64 / 100.0;
                    let y = (y as f64 + 0.5) / height;
                    let texture = wave(x * 11.0 + y * 3.0) * wave(y * 7.0);
                    *sample = (40.0 + 90.0 * texture + 30.0 * wave(x + index as f64 / 3.0)) as u8;
                }
            }
        }
        picture
    }

    fn request(quantizer: u8, golden: Replace) -> Request {
        let updates = Updates { golden, ..Updates::default() };
        Request { quality: Quality::Quantizer(quantizer), updates, ..Request::default() }
    }

    #[test]
    fn a_stream_goes_on_at_another_size_without_a_key_frame() {
        let limits = Limits::default();
        let mut workspace = Workspace::new();
        let (large, small) = (size(320, 180), size(214, 120));
        let first = encode(&State::new(), &drawn(large, 0), &request(20, Replace::Keep)).unwrap();
        let mut states = [first.state.clone(), decode(&State::new(), &first.bytes, &limits).unwrap().state];
        for (number, at) in [(1, large), (2, small), (3, small), (4, large)] {
            let picture = drawn(at, number);
            let [ours, theirs] = states.each_ref().map(|state| state.resampled(at, &mut workspace));
            let golden = if number == 3 { Replace::ByCurrent } else { Replace::Keep };
            let encoded = encode(&ours, &picture, &request(30, golden)).unwrap();
            assert!(!encoded.stats.key, "{number}");
            let key = encode(&State::new(), &picture, &request(30, golden)).unwrap();
            assert!(encoded.bytes.len() < key.bytes.len() * 2 / 3, "{number}: the references are of use");
            let decoded = decode(&theirs, &encoded.bytes, &limits).unwrap();
            assert_eq!(decoded.state.hash(), encoded.state.hash(), "{number}");
            assert_eq!(decoded.picture.unwrap().size(), at);
            states = [encoded.state, decoded.state];
        }
    }

    #[test]
    fn the_same_state_on_every_machine() {
        let state =
            encode(&State::new(), &drawn(size(160, 90), 3), &request(10, Replace::Keep)).unwrap().state;
        let hashes = [size(106, 60), size(240, 135), size(17, 9)]
            .map(|size| state.resampled(size, &mut Workspace::new()).hash().to_string());
        assert_eq!(
            hashes,
            [
                "f4a0bb12ba1815943c2bf9cbf8dadd0b",
                "ab22f4ec4633e9095239626a78a135bc",
                "57da67bad7c0eeb6fa0b0f3e1149e9b3"
            ]
        );
    }

    #[test]
    fn what_needs_no_change_is_not_copied() {
        let workspace = &mut Workspace::new();
        assert_eq!(State::new().resampled(size(64, 48), workspace), State::new());
        let state = encode(&State::new(), &drawn(size(64, 48), 0), &Request::default()).unwrap().state;
        let same = state.resampled(size(64, 48), workspace);
        assert!(std::sync::Arc::ptr_eq(state.0.as_ref().unwrap(), same.0.as_ref().unwrap()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn flat_stays_flat_at_any_size(
            (width, height) in (1u32..100, 1u32..70),
            (new_width, new_height) in (1u32..200, 1u32..150),
            value in 16u8..235,
        ) {
            let mut picture = Picture::new(PixelFormat::I420, size(width, height), Time::ZERO);
            picture.planes_mut().iter_mut().for_each(|plane| plane.lines_mut().for_each(|line| line.fill(value)));
            let state = encode(&State::new(), &picture, &request(0, Replace::Keep)).unwrap().state;
            let resampled = state.resampled(size(new_width, new_height), &mut Workspace::new());
            prop_assert_eq!(resampled.size(), Some(size(new_width, new_height)));
            let (before, after) = (state.0.unwrap(), resampled.0.unwrap());
            for index in 0..3 {
                let level = before.last.plane(index)[0];
                let (whole, lines, stride) = after.geometry.plane(index);
                for line in after.last.plane(index).chunks(stride).take(lines) {
                    prop_assert!(line[..whole].iter().all(|&sample| sample.abs_diff(level) <= 1));
                }
            }
        }
    }
}
