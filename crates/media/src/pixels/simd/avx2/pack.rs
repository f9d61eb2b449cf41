//! Lines of planes to pgroups.
//!
//! Samples are brought into the order of the groups; two and two of them become one number by a multiplication that adds pairs, two
//! and two of those by shifts, and a shuffle puts the bytes behind each other, the most significant first. Halves of registers are
//! written one behind the other, each over what the one before it wrote too much.

use super::unpack::blocks;
use super::*;
use crate::picture::{Chroma, PixelFormat};
use portable::ReadLines;

#[target_feature(enable = "avx2")]
pub(crate) fn pack_pgroups(format: PixelFormat, lines: &ReadLines<'_>, groups: &mut [u8]) {
    let done = match (format.chroma, format.depth_bits) {
        (Chroma::Mono, 8) => {
            groups.copy_from_slice(&lines[0][..groups.len()]);
            return;
        }
        (Chroma::Mono, 10) => mono::<10>(lines, groups) / 4,
        (Chroma::Mono, 12) => mono::<12>(lines, groups) / 2,
        (Chroma::Mono, 16) => mono::<16>(lines, groups),
        (Chroma::Yuv422, 8) => halved_bytes(lines, groups),
        (Chroma::Yuv422, 10) => halved::<10>(lines, groups),
        (Chroma::Yuv422, 12) => halved::<12>(lines, groups),
        (Chroma::Yuv422, 16) => halved::<16>(lines, groups),
        (Chroma::Yuv420, 8) => two_lines(lines, groups),
        (Chroma::Yuv444, 8) => bytes([1, 0, 2], lines, groups),
        (Chroma::Rgb, 8) => bytes([0, 1, 2], lines, groups),
        (Chroma::Yuv444, 10) => fours::<10>([1, 0, 2], lines, groups) / 4,
        (Chroma::Rgb, 10) => fours::<10>([0, 1, 2], lines, groups) / 4,
        (Chroma::Yuv444, 12) => fours::<12>([1, 0, 2], lines, groups) / 2,
        (Chroma::Rgb, 12) => fours::<12>([0, 1, 2], lines, groups) / 2,
        _ => 0,
    };
    portable::pack_pgroups_from(done, format, lines, groups);
}

/// Packs eight samples of 16 bits in each half: their bytes then stand at the front of the half, as many as a sample
/// has bits.
#[inline]
#[target_feature(enable = "avx2")]
fn gather<const DEPTH: usize>(samples: __m256i) -> __m256i {
    let shuffle = const {
        let mut shuffle = [0x80; 16];
        let mut at = 0;
        while at < DEPTH {
            shuffle[at] = if DEPTH == 16 {
                at as u8 ^ 1
            } else {
                // Four samples are a number of 64 bits, of which the lowest `4 × DEPTH` count.
                let bytes = DEPTH / 2;
                (at / bytes * 8 + bytes - 1 - at % bytes) as u8
            };
            at += 1;
        }
        shuffle
    };
    let shuffle = _mm256_broadcastsi128_si256(load_half(&shuffle, 0));
    if DEPTH == 16 {
        return _mm256_shuffle_epi8(samples, shuffle);
    }
    let masked = _mm256_and_si256(samples, _mm256_set1_epi16((1i16 << DEPTH) - 1));
    let pairs = _mm256_madd_epi16(masked, _mm256_set1_epi32((1 << 16) | (1 << DEPTH)));
    let first = _mm256_sll_epi64(pairs, _mm_cvtsi32_si128(2 * DEPTH as i32));
    let fours = _mm256_or_si256(first, _mm256_srli_epi64::<32>(pairs));
    _mm256_shuffle_epi8(fours, shuffle)
}

/// Luma alone; gives the samples that are done.
#[target_feature(enable = "avx2")]
fn mono<const DEPTH: usize>(lines: &ReadLines<'_>, groups: &mut [u8]) -> usize {
    let (step, reach) = (2 * DEPTH, DEPTH + 16);
    let blocks = blocks(groups.len(), step, reach);
    for (block, luma) in lines[0].as_chunks::<LANE>().0.iter().take(blocks).enumerate() {
        let out = &mut groups[block * step..][..reach];
        let [low, high] = halves(gather::<DEPTH>(load(luma)));
        store_half(low, out, 0);
        store_half(high, out, DEPTH);
    }
    blocks * 16
}

/// 4:2:2 of 8 bits; gives the groups that are done.
#[target_feature(enable = "avx2")]
fn halved_bytes(lines: &ReadLines<'_>, groups: &mut [u8]) -> usize {
    let [luma, blue, red, _] = lines;
    let chroma = blue.as_chunks::<16>().0.iter().zip(red.as_chunks::<16>().0);
    let places = groups.as_chunks_mut::<{ 2 * LANE }>().0.iter_mut();
    let blocks = places.len();
    for ((out, luma), (blue, red)) in places.zip(luma.as_chunks::<LANE>().0).zip(chroma) {
        let (blue, red) = (load_half(blue, 0), load_half(red, 0));
        let chroma = _mm256_set_m128i(_mm_unpackhi_epi8(blue, red), _mm_unpacklo_epi8(blue, red));
        let luma = load(luma);
        let [one, three] = halves(_mm256_unpacklo_epi8(chroma, luma));
        let [two, four] = halves(_mm256_unpackhi_epi8(chroma, luma));
        for (part, value) in [one, two, three, four].into_iter().enumerate() {
            store_half(value, out, 16 * part);
        }
    }
    blocks * 16
}

/// 4:2:2 of more than 8 bits; gives the groups that are done.
#[target_feature(enable = "avx2")]
fn halved<const DEPTH: usize>(lines: &ReadLines<'_>, groups: &mut [u8]) -> usize {
    let (step, reach) = (4 * DEPTH, 3 * DEPTH + 16);
    let blocks = blocks(groups.len(), step, reach);
    let [luma, blue, red, _] = lines;
    let chroma = blue.as_chunks::<16>().0.iter().zip(red.as_chunks::<16>().0);
    let samples = luma.as_chunks::<LANE>().0.iter().zip(chroma);
    for (block, (luma, (blue, red))) in samples.take(blocks).enumerate() {
        let out = &mut groups[block * step..][..reach];
        let (blue, red) = (load_half(blue, 0), load_half(red, 0));
        let chroma = _mm256_set_m128i(_mm_unpackhi_epi16(blue, red), _mm_unpacklo_epi16(blue, red));
        let luma = load(luma);
        let [one, three] = halves(gather::<DEPTH>(_mm256_unpacklo_epi16(chroma, luma)));
        let [two, four] = halves(gather::<DEPTH>(_mm256_unpackhi_epi16(chroma, luma)));
        for (part, value) in [one, two, three, four].into_iter().enumerate() {
            store_half(value, out, part * DEPTH);
        }
    }
    blocks * 8
}

/// What [`super::unpack`]'s `three` takes apart, for 100 bytes: twelve from each half, eight halves.
#[inline]
#[target_feature(enable = "avx2")]
fn join([one, two, three]: [__m256i; 3], shuffle: __m256i, out: &mut [u8]) {
    let nothing = _mm256_setzero_si256();
    let (low, high) = (_mm256_unpacklo_epi32(one, two), _mm256_unpackhi_epi32(one, two));
    let (low_third, high_third) =
        (_mm256_unpacklo_epi32(three, nothing), _mm256_unpackhi_epi32(three, nothing));
    let registers = [
        _mm256_unpacklo_epi64(low, low_third),
        _mm256_unpackhi_epi64(low, low_third),
        _mm256_unpacklo_epi64(high, high_third),
        _mm256_unpackhi_epi64(high, high_third),
    ];
    let both = registers.map(|register| halves(_mm256_shuffle_epi8(register, shuffle)));
    for half in 0..2 {
        for (number, register) in both.iter().enumerate() {
            store_half(register[half], out, 48 * half + 12 * number);
        }
    }
}

/// Three planes of 8 bits; gives the groups that are done.
#[target_feature(enable = "avx2")]
fn bytes(order: [u8; 3], lines: &ReadLines<'_>, groups: &mut [u8]) -> usize {
    // Which plane is the first of three is its own inverse in both orders.
    let shuffle: [u8; 16] = std::array::from_fn(|at| match at {
        0..12 => 4 * order[at % 3] + (at / 3) as u8,
        _ => 0x80,
    });
    let shuffle = _mm256_broadcastsi128_si256(load_half(&shuffle, 0));
    let blocks = blocks(groups.len(), 96, 100);
    let [one, two, three, _] = lines;
    let samples = two.as_chunks::<LANE>().0.iter().zip(three.as_chunks::<LANE>().0);
    let samples = one.as_chunks::<LANE>().0.iter().zip(samples);
    for (block, (one, (two, three))) in samples.take(blocks).enumerate() {
        join([load(one), load(two), load(three)], shuffle, &mut groups[block * 96..][..100]);
    }
    blocks * 32
}

/// 4:2:0 of 8 bits; gives the groups that are done.
#[target_feature(enable = "avx2")]
fn two_lines(lines: &ReadLines<'_>, groups: &mut [u8]) -> usize {
    // Luma of the upper line, of the lower one, and chroma, to `Y00 Y01 Y10 Y11 Cb Cr` twice.
    let shuffle = [0, 1, 4, 5, 8, 10, 2, 3, 6, 7, 9, 11, 0x80, 0x80, 0x80, 0x80];
    let shuffle = _mm256_broadcastsi128_si256(load_half(&shuffle, 0));
    let blocks = blocks(groups.len(), 96, 100);
    let [upper, blue, red, lower] = lines;
    let luma = upper.as_chunks::<LANE>().0.iter().zip(lower.as_chunks::<LANE>().0);
    let chroma = blue.as_chunks::<16>().0.iter().zip(red.as_chunks::<16>().0);
    for (block, ((upper, lower), (blue, red))) in luma.zip(chroma).take(blocks).enumerate() {
        let (blue, red) = (load_half(blue, 0), load_half(red, 0));
        let chroma = _mm256_set_m128i(_mm_unpackhi_epi16(blue, red), _mm_unpacklo_epi16(blue, red));
        join([load(upper), load(lower), chroma], shuffle, &mut groups[block * 96..][..100]);
    }
    blocks * 16
}

/// Three planes of 10 or 12 bits, four samples of each at a time; gives the samples of a plane that are done.
#[inline]
#[target_feature(enable = "avx2")]
fn fours<const DEPTH: usize>(order: [usize; 3], lines: &ReadLines<'_>, groups: &mut [u8]) -> usize {
    // Twelve samples: eight of them from the lower half, four from the upper one, each of which has all that come in.
    let tables = |taken: [usize; 2]| -> __m256i {
        let half = |first: usize| -> [u8; 16] {
            std::array::from_fn(|at| {
                let sample = first + at / 2;
                let (number, plane) = (sample / 3, order[sample % 3]);
                match taken.iter().position(|&taken| taken == plane) {
                    Some(place) if sample < 12 => (8 * place + 2 * number + at % 2) as u8,
                    _ => 0x80,
                }
            })
        };
        _mm256_set_m128i(load_half(&half(8), 0), load_half(&half(0), 0))
    };
    let (first_two, last) = (tables([0, 1]), tables([2, 3]));
    let bytes = 3 * DEPTH / 2;
    let (step, reach) = (2 * bytes, bytes + DEPTH + 16);
    let blocks = blocks(groups.len(), step, reach);
    let [one, two, three, _] = lines;
    let samples = two.as_chunks::<16>().0.iter().zip(three.as_chunks::<16>().0);
    let samples = one.as_chunks::<16>().0.iter().zip(samples);
    for (block, (one, (two, three))) in samples.take(blocks).enumerate() {
        let out = &mut groups[block * step..][..reach];
        let (one, two, three) = (load_half(one, 0), load_half(two, 0), load_half(three, 0));
        let fours = [
            (_mm_unpacklo_epi64(one, two), three),
            (_mm_unpackhi_epi64(one, two), _mm_unpackhi_epi64(three, three)),
        ];
        for (number, (both, third)) in fours.into_iter().enumerate() {
            let both = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(both), first_two);
            let third = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(third), last);
            let [low, high] = halves(gather::<DEPTH>(_mm256_or_si256(both, third)));
            store_half(low, out, number * bytes);
            store_half(high, out, number * bytes + DEPTH);
        }
    }
    blocks * 8
}
