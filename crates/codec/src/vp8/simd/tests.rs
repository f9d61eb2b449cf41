//! Every vector kernel against its scalar reference: same input, same output, bit for bit – over sizes, alignments,
//! strides and content, and nothing written beside the block.

mod encode;

use super::{AddFour, Kernels, SCALAR, SubPel, SubPelTwo};
use crate::vp8::loop_filter::{Area, EdgeFilter, Thresholds};

/// A small random number generator (xorshift64*); the seed is in every assertion's message.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 33) as usize % end
    }

    /// Samples of one of several kinds: noise, extremes alone, soft, almost flat.
    fn samples(&mut self, count: usize) -> Vec<u8> {
        let kind = self.below(4);
        let mut level = self.below(256) as i32;
        (0..count)
            .map(|_| {
                match kind {
                    0 => level = self.below(256) as i32,
                    1 => level = 255 * self.below(2) as i32,
                    2 => level = (level + self.below(17) as i32 - 8).clamp(0, 255),
                    _ => level = (level + self.below(3) as i32 - 1).clamp(0, 255),
                }
                level as u8
            })
            .collect()
    }
}

/// The kernels that are compared with the scalar ones; none where the processor has none.
fn others(test: &str) -> Vec<&'static Kernels> {
    let others = Kernels::all().split_off(1);
    assert_eq!(others.is_empty(), !has_vector_units(), "vector kernels where the processor runs them");
    if others.is_empty() {
        glassline_test_support::skip(test, "this processor has only the scalar kernels");
    }
    others
}

/// Whether the processor has what our vector kernels are made of.
fn has_vector_units() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

fn compare_sub_pel(name: &str, sizes: [usize; 3], scalar: [SubPel; 3], other: [SubPel; 3]) {
    for seed in 1..=60 {
        let mut random = Random(seed);
        for (at, size) in sizes.into_iter().enumerate() {
            let (src_stride, dst_stride) = (32 + random.below(40), 32 + random.below(40));
            let (src_at, dst_at) = (random.below(32), random.below(16));
            let src = random.samples(src_at + src_stride * 21 + 32);
            let before = random.samples(dst_at + dst_stride * 16 + 16);
            for x in 0..8 {
                for y in 0..8 {
                    if (x, y) == (0, 0) {
                        continue;
                    }
                    let (mut a, mut b) = (before.clone(), before.clone());
                    scalar[at](&mut a[dst_at..], dst_stride, &src[src_at..], src_stride, x, y);
                    other[at](&mut b[dst_at..], dst_stride, &src[src_at..], src_stride, x, y);
                    assert!(a == b, "{name}, seed {seed}, {size}x{size}, {x}/8 across, {y}/8 down");
                }
            }
        }
    }
}

fn compare_two(name: &str, scalar: [SubPelTwo; 2], other: [SubPelTwo; 2]) {
    for seed in 1..=60 {
        let mut random = Random(seed);
        for (at, size) in [8, 4].into_iter().enumerate() {
            let (src_stride, dst_stride) = (16 + random.below(40), 8 + random.below(40));
            let src = [(); 2].map(|()| random.samples(src_stride * 13 + 32));
            let before = [(); 2].map(|()| random.samples(dst_stride * 8 + 16));
            let run = |filter: SubPelTwo, x, y| {
                let mut planes = before.clone();
                let [a, b] = &mut planes;
                filter([a, b], dst_stride, [&src[0], &src[1]], src_stride, x, y);
                planes
            };
            for (x, y) in (1..64).map(|eighths| (eighths % 8, eighths / 8)) {
                let same = run(scalar[at], x, y) == run(other[at], x, y);
                assert!(same, "{name}, seed {seed}, two {size}x{size}, {x}/8 across, {y}/8 down");
            }
        }
    }
}

#[test]
fn copies_agree() {
    for kernels in others("copies_agree") {
        for seed in 1..=100 {
            let mut random = Random(seed);
            for (at, size) in [16, 8, 4].into_iter().enumerate() {
                let (src_stride, dst_stride) = (size + random.below(40), size + random.below(40));
                let src = random.samples(src_stride * (size - 1) + size);
                let before = random.samples(dst_stride * (size - 1) + size);
                let (mut a, mut b) = (before.clone(), before);
                SCALAR.copy[at](&mut a, dst_stride, &src, src_stride);
                kernels.copy[at](&mut b, dst_stride, &src, src_stride);
                assert!(a == b, "{}, seed {seed}, {size}x{size}", kernels.name);
                let short = std::panic::AssertUnwindSafe(|| {
                    kernels.copy[at](&mut b, dst_stride, &src[1..], src_stride);
                });
                assert!(
                    std::panic::catch_unwind(short).is_err(),
                    "{size}x{size} of a slice that is too short"
                );
            }
        }
    }
}

#[test]
fn sub_pel_filters_agree() {
    for kernels in others("sub_pel_filters_agree") {
        compare_two(kernels.name, SCALAR.six_tap_two, kernels.six_tap_two);
        compare_two(kernels.name, SCALAR.bilinear_two, kernels.bilinear_two);
        compare_sub_pel(kernels.name, [16, 8, 4], SCALAR.six_tap, kernels.six_tap);
        compare_sub_pel(kernels.name, [16, 8, 4], SCALAR.bilinear, kernels.bilinear);
    }
}

fn coefficients(random: &mut Random) -> [i16; 64] {
    let range = [3, 40, 2000, 65_536][random.below(4)];
    let density = 1 + random.below(8);
    std::array::from_fn(|_| {
        if random.below(density) == 0 { (random.below(range) as i32 - range as i32 / 2) as i16 } else { 0 }
    })
}

fn compare_residue(name: &str, lines: usize, dc: bool, scalar: AddFour, other: AddFour) {
    for seed in 1..=2000 {
        let mut random = Random(seed);
        let (stride, at) = (16 + random.below(40), random.below(16));
        let before = random.samples(at + stride * lines + 16);
        let mut input = coefficients(&mut random);
        if dc {
            for (position, value) in input.iter_mut().enumerate() {
                *value = if position % 16 == 0 { *value } else { 0 };
            }
        }
        let (mut a, mut b) = (before.clone(), before);
        let (mut left, mut right) = (input, input);
        scalar(&mut a[at..], stride, &mut left);
        other(&mut b[at..], stride, &mut right);
        assert!(a == b, "{name}, seed {seed}, {lines} lines, DC alone: {dc}");
        assert_eq!((left, right), ([0; 64], [0; 64]), "coefficients are cleared");
    }
}

#[test]
fn residues_agree() {
    for kernels in others("residues_agree") {
        compare_residue(kernels.name, 4, false, SCALAR.add_four, kernels.add_four);
        compare_residue(kernels.name, 4, true, SCALAR.add_four_dc, kernels.add_four_dc);
        compare_residue(kernels.name, 8, false, SCALAR.add_square, kernels.add_square);
        compare_residue(kernels.name, 8, true, SCALAR.add_square_dc, kernels.add_square_dc);
        for seed in 1..=2000 {
            let mut random = Random(seed);
            let (stride, at) = (4 + random.below(40), random.below(16));
            let before = random.samples(at + stride * 4 + 16);
            let input: [i16; 16] = std::array::from_fn(|_| random.next() as i16 >> random.below(16));
            let (mut a, mut b) = (before.clone(), before);
            let (mut left, mut right) = (input, input);
            (SCALAR.add_block)(&mut a[at..], stride, &mut left);
            (kernels.add_block)(&mut b[at..], stride, &mut right);
            assert!(a == b && left == right, "{}, seed {seed}", kernels.name);
        }
    }
}

fn compare_edges(name: &str, scalar: EdgeFilter, other: EdgeFilter) {
    let mut changed = 0;
    for seed in 1..=3000 {
        let mut random = Random(seed);
        let (y_stride, uv_stride) = (32 + random.below(40), 16 + random.below(40));
        let (y, uv) = (4 * y_stride + 4 + random.below(8), 4 * uv_stride + 4 + random.below(8));
        let thresholds = Thresholds {
            macroblock_edge: random.below(194) as u8,
            subblock_edge: random.below(190) as u8,
            interior: 1 + random.below(63) as u8,
            high_variance: random.below(4) as u8,
        };
        let before = [
            random.samples(y + 16 * y_stride + 16),
            random.samples(uv + 8 * uv_stride + 16),
            random.samples(uv + 8 * uv_stride + 16),
        ];
        let run = |filter: EdgeFilter| {
            let mut planes = before.clone();
            let [y_plane, u, v] = &mut planes;
            filter(&mut Area { y: y_plane, u, v, y_stride, uv_stride }, y, uv, &thresholds);
            planes
        };
        let (a, b) = (run(scalar), run(other));
        assert!(a == b, "{name}, seed {seed}, {thresholds:?}");
        changed += usize::from(a != before);
    }
    assert!(changed > 1000, "{name}: only {changed} of 3000 cases were filtered at all");
}

#[test]
fn loop_filters_agree() {
    for kernels in others("loop_filters_agree") {
        for (kind, scalar, other) in [
            ("normal", SCALAR.normal_filter, kernels.normal_filter),
            ("simple", SCALAR.simple_filter, kernels.simple_filter),
        ] {
            let name = |edge: &str| format!("{} {kind} {edge}", kernels.name);
            compare_edges(&name("left"), scalar.left, other.left);
            compare_edges(&name("columns"), scalar.columns, other.columns);
            compare_edges(&name("top"), scalar.top, other.top);
            compare_edges(&name("rows"), scalar.rows, other.rows);
        }
    }
}
