//! The encoder's kernels. Slices end where the block ends, so that a sanitiser sees what is read behind them.

use super::Random;
use crate::vp8::bool_coder::BoolEncoder;
use crate::vp8::encode::denoise::filter::Level;
use crate::vp8::encode::tokens::{Collector, Levels, NO_COUNTS};
use crate::vp8::measure::Shape;
use crate::vp8::predict::intra::Edges;
use crate::vp8::quantize::Steps;
use crate::vp8::quantizer::Factors;
use crate::vp8::simd::encode::{EncodeKernels, SCALAR};

/// The kernels that are compared with the scalar ones; none where the processor has none.
fn best(test: &str) -> Option<&'static EncodeKernels> {
    let best = EncodeKernels::best();
    if std::ptr::eq(best, &SCALAR) {
        assert!(!super::has_vector_units(), "vector kernels where the processor runs them");
        glassline_test_support::skip(test, "this processor has only the scalar kernels");
        return None;
    }
    Some(best)
}

/// A block somewhere in memory that ends where its slice ends.
struct Block {
    bytes: Vec<u8>,
    at: usize,
    stride: usize,
}

impl Block {
    fn new(random: &mut Random, width: usize, height: usize) -> Block {
        let (stride, at) = (width + random.below(60), random.below(33));
        Block { bytes: random.samples(at + (height - 1) * stride + width), at, stride }
    }

    fn samples(&self) -> &[u8] {
        &self.bytes[self.at..]
    }
}

/// A source and something that is like it, sometimes.
fn pair(random: &mut Random, shape: Shape, more: usize) -> (Block, Block) {
    let (width, height) = (shape.width(), shape.height());
    let src = Block::new(random, width, height);
    let mut reference = Block::new(random, width + more, height + more);
    if random.below(2) == 0 {
        for y in 0..height {
            for x in 0..width {
                let noise = random.below(5) as u8;
                let sample = src.samples()[y * src.stride + x];
                let at = reference.at + y * reference.stride + x;
                reference.bytes[at] = sample.saturating_add(noise);
            }
        }
    }
    (src, reference)
}

#[test]
fn distances_agree() {
    let Some(best) = best("distances_agree") else { return };
    for seed in 1..=1000 {
        let mut random = Random(seed);
        for (at, shape) in Shape::ALL.into_iter().enumerate() {
            let (a, b) = pair(&mut random, shape, 0);
            let name = format!("{}, seed {seed}, {shape:?}", best.name);
            for (kind, scalar, other) in
                [("SAD", SCALAR.sad[at], best.sad[at]), ("SATD", SCALAR.satd[at], best.satd[at])]
            {
                let run = |distance: crate::vp8::simd::encode::Distance| {
                    distance(a.samples(), a.stride, b.samples(), b.stride)
                };
                assert_eq!(run(scalar), run(other), "{kind} of {name}");
            }
            let large = Block::new(&mut random, 70, 40);
            let places = [(); 4].map(|()| {
                random.below(40 - shape.height() + 1) * large.stride + random.below(70 - shape.width() + 1)
            });
            let run = |four: crate::vp8::simd::encode::FourDistances| {
                four(a.samples(), a.stride, large.samples(), large.stride, places)
            };
            assert_eq!(run(SCALAR.sad_four[at]), run(best.sad_four[at]), "four SADs of {name}");
        }
    }
}

#[test]
fn distances_between_samples_agree() {
    let Some(best) = best("distances_between_samples_agree") else { return };
    for seed in 1..=100 {
        let mut random = Random(seed);
        for (at, shape) in Shape::ALL.into_iter().enumerate() {
            let (a, b) = pair(&mut random, shape, 1);
            for (x, y) in (0..64).map(|eighths| (eighths % 8, eighths / 8)) {
                let name = format!("{}, seed {seed}, {shape:?}, {x}/8 across, {y}/8 down", best.name);
                for (scalar, other) in [
                    (SCALAR.sub_pel_sad[at], best.sub_pel_sad[at]),
                    (SCALAR.sub_pel_satd[at], best.sub_pel_satd[at]),
                ] {
                    let run = |distance: crate::vp8::simd::encode::SubPelDistance| {
                        distance(a.samples(), a.stride, b.samples(), b.stride, x, y)
                    };
                    assert_eq!(run(scalar), run(other), "{name}");
                }
            }
        }
    }
}

#[test]
fn costs_of_intra_modes_agree() {
    let Some(best) = best("costs_of_intra_modes_agree") else { return };
    for seed in 1..=2000 {
        let mut random = Random(seed);
        for (at, shape) in [Shape::Whole, Shape::Quarter].into_iter().enumerate() {
            let src = Block::new(&mut random, shape.width(), shape.height());
            let (above, left) = (random.samples(shape.width()), random.samples(shape.width()));
            let edges = Edges {
                above: &above,
                left: &left,
                corner: random.below(256) as u8,
                has_above: random.below(4) > 0,
                has_left: random.below(4) > 0,
            };
            let run = |kernels: &EncodeKernels| (kernels.square_costs[at])(src.samples(), src.stride, &edges);
            assert_eq!(run(&SCALAR), run(best), "{}, seed {seed}, {shape:?}", best.name);
        }
        let src = Block::new(&mut random, 4, 4);
        let edges: [u8; 13] = random.samples(13).try_into().expect("13 samples");
        let run = |kernels: &EncodeKernels| (kernels.subblock_costs)(src.samples(), src.stride, &edges);
        assert_eq!(run(&SCALAR), run(best), "{}, seed {seed}", best.name);
    }
}

#[test]
fn forward_transforms_agree() {
    let Some(best) = best("forward_transforms_agree") else { return };
    for seed in 1..=2000 {
        let mut random = Random(seed);
        let (a, b) = pair(&mut random, Shape::Whole, 0);
        let run = |kernels: &EncodeKernels| {
            let (mut luma, mut chroma, mut block) = ([[0; 16]; 16], [[0; 16]; 4], [0; 16]);
            (kernels.forward_luma)(a.samples(), a.stride, b.samples(), b.stride, &mut luma);
            (kernels.forward_chroma)(a.samples(), a.stride, b.samples(), b.stride, &mut chroma);
            (kernels.forward_block)(a.samples(), a.stride, b.samples(), b.stride, &mut block);
            (luma, chroma, block)
        };
        assert_eq!(run(&SCALAR), run(best), "{}, seed {seed}", best.name);
        let (a, b) = pair(&mut random, Shape::Subblock, 0);
        let run = |kernels: &EncodeKernels| {
            let mut block = [0; 16];
            (kernels.forward_block)(a.samples(), a.stride, b.samples(), b.stride, &mut block);
            block
        };
        assert_eq!(run(&SCALAR), run(best), "{}, seed {seed}, one block", best.name);
        let range = [10, 300, 2041][random.below(3)] as i16;
        let input: [i16; 16] =
            std::array::from_fn(|_| [-1, 1][random.below(2)] * random.below(range as usize) as i16);
        assert_eq!((SCALAR.forward_wht)(&input), (best.forward_wht)(&input), "{}, {input:?}", best.name);
    }
    for value in [-2040, 2040] {
        assert_eq!((SCALAR.forward_wht)(&[value; 16]), (best.forward_wht)(&[value; 16]));
    }
}

#[test]
fn quantisers_agree() {
    let Some(best) = best("quantisers_agree") else { return };
    for seed in 1..=4000 {
        let mut random = Random(seed);
        let factors = Factors::new(random.below(128) as i32, &Default::default());
        let factors = [factors.y, factors.y2, factors.uv][random.below(3)];
        let most = 1 + random.below(256);
        let bytes = |random: &mut Random| std::array::from_fn(|_| random.below(most) as u8);
        let mut steps = Steps::new(factors, &bytes(&mut random), &bytes(&mut random));
        if random.below(3) == 0 {
            steps = steps.without_dc();
        }
        let coefficients: Vec<[i16; 16]> = (0..1 + random.below(20))
            .map(|_| {
                let shift = random.below(16);
                std::array::from_fn(|_| random.next() as i16 >> shift)
            })
            .collect();
        let count = coefficients.len();
        let run = |kernels: &EncodeKernels| {
            let (mut levels, mut back, mut ends) =
                (vec![[1; 16]; count], vec![[0; 16]; count], vec![9; count]);
            let any = (kernels.quantize_run)(&coefficients, &steps, &mut levels, &mut back, &mut ends);
            assert_eq!(any, ends.iter().any(|&end| end > 0));
            let (mut level, mut one) = ([1; 16], [1; 16]);
            let end = (kernels.quantize)(&coefficients[0], &steps, &mut level, &mut one);
            // A run leaves levels alone where all are 0.
            let first = if ends[0] > 0 { levels[0] } else { [0; 16] };
            assert_eq!((level, one, end), (first, back[0], usize::from(ends[0])), "one and a run");
            (levels, back, ends)
        };
        assert_eq!(run(&SCALAR), run(best), "{}, seed {seed}", best.name);
    }
}

#[test]
fn written_tokens_agree() {
    let Some(best) = best("written_tokens_agree") else { return };
    for seed in 1..=100 {
        let mut random = Random(seed);
        let (mut tokens, mut counts) = (Vec::new(), Box::new(NO_COUNTS));
        let mut collector = Collector { tokens: &mut tokens, counts: &mut counts };
        let (mut above, mut left) = ([0; 9], [0; 9]);
        for _ in 0..20 {
            let mut levels = Levels::ZERO;
            for (block, end) in levels.blocks.iter_mut().zip(&mut levels.ends) {
                *end = random.below(17) as u8;
                for level in &mut block[..usize::from(*end)] {
                    let range = [1, 3, 12, 4095][random.below(4)];
                    *level = (random.below(range) as i32 - range as i32 / 2) as i16;
                }
                if let Some(last) = usize::from(*end).checked_sub(1) {
                    block[last] = 1 + random.below(20) as i16;
                }
            }
            collector.macroblock(&levels, random.below(2) == 0, &mut above, &mut left);
        }
        let mut probs = crate::vp8::tables::coefficients::DEFAULT;
        for prob in probs.as_flattened_mut().as_flattened_mut().as_flattened_mut() {
            *prob = 1 + random.below(255) as u8;
        }
        let run = |kernels: &EncodeKernels| {
            let mut encoder = BoolEncoder::new(Vec::new());
            (kernels.write_tokens)(&mut encoder, &tokens, &probs);
            encoder.finish()
        };
        assert!(run(&SCALAR) == run(best), "{}, seed {seed}", best.name);
    }
}

#[test]
fn planes_agree() {
    let Some(best) = best("planes_agree") else { return };
    for seed in 1..=300 {
        let mut random = Random(seed);
        let (width, height) = (1 + random.below(150), 1 + random.below(20));
        let (a, b) = (Block::new(&mut random, width, height), Block::new(&mut random, width, height));
        let run = |kernels: &EncodeKernels| {
            (kernels.plane_sse)((a.samples(), a.stride), (b.samples(), b.stride), width, height)
        };
        assert_eq!(run(&SCALAR), run(best), "{}, seed {seed}, {width}x{height}", best.name);
    }
}

#[test]
fn denoised_blocks_agree() {
    let Some(best) = best("denoised_blocks_agree") else { return };
    let mut moved = 0;
    for seed in 1..=4000 {
        let mut random = Random(seed);
        let (source, predicted) = pair(&mut random, Shape::Quarter, 0);
        let level = Level::new(random.below(40 * 64) as u32, random.below(300) as u32);
        let (stride, at) = (8 + random.below(60), random.below(33));
        let before = random.samples(at + 7 * stride + 8);
        let (mut a, mut b) = (before.clone(), before.clone());
        let run = |kernels: &EncodeKernels, out: &mut [u8]| {
            let (source, predicted) =
                ((source.samples(), source.stride), (predicted.samples(), predicted.stride));
            (kernels.denoise)(&level, source, predicted, (&mut out[at..], stride))
        };
        assert_eq!(run(&SCALAR, &mut a), run(best, &mut b), "{}, seed {seed}", best.name);
        assert!(a == b, "{}, seed {seed}, {level:?}", best.name);
        for (place, (a, before)) in a.iter().zip(&before).enumerate() {
            let inside = place >= at && (place - at) % stride < 8;
            assert!(inside || a == before, "seed {seed}: sample {place} beside the block");
        }
        let line =
            |line: usize| (&a[at + line * stride..][..8], &source.samples()[line * source.stride..][..8]);
        moved += usize::from((0..8).any(|at| line(at).0 != line(at).1));
    }
    assert!(moved > 1000, "only {moved} of 4000 blocks moved at all");
}

#[test]
fn a_slice_that_is_too_short_is_refused() {
    let Some(best) = best("a_slice_that_is_too_short_is_refused") else { return };
    let block = [0; 16 * 16];
    let refused = |run: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err();
    for kernels in [&SCALAR, best] {
        let calls: [(&str, &dyn Fn()); 6] = [
            ("SAD", &|| _ = (kernels.sad[0])(&block[1..], 16, &block, 16)),
            ("SATD", &|| _ = (kernels.satd[3])(&block, 16, &block[..119], 16)),
            ("four SADs", &|| _ = (kernels.sad_four[0])(&block, 16, &block, 16, [0, 0, 0, 1])),
            ("SAD of 4x4", &|| _ = (kernels.sad[4])(&block, usize::MAX / 3 + 1, &block, 16)),
            ("SAD between", &|| _ = (kernels.sub_pel_sad[0])(&block, 16, &block, 16, 1, 0)),
            ("DCT", &|| (kernels.forward_luma)(&block, 16, &block, 17, &mut [[0; 16]; 16])),
        ];
        for (name, call) in calls {
            assert!(refused(call), "{name}, {}", kernels.name);
        }
    }
}
