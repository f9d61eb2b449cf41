//! The kernels for AVX2: 32 bytes at a time, the rest of a line by the portable ones. Bit for bit what those give.
#![allow(unsafe_code)]

mod pack;
mod unpack;

use super::portable::{self, FieldLines};
use crate::pixels::matrix::Matrix;
pub(super) use pack::pack_pgroups;
use std::arch::x86_64::*;
pub(super) use unpack::unpack_pgroups;

/// Bytes of a register.
const LANE: usize = 32;

#[inline]
#[target_feature(enable = "avx2")]
fn load(bytes: &[u8; LANE]) -> __m256i {
    // SAFETY: 32 bytes are there to be read, and `loadu` asks for no alignment.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(value: __m256i, bytes: &mut [u8; LANE]) {
    // SAFETY: 32 bytes are there to be written, and `storeu` asks for no alignment.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), value) }
}

/// 16 bytes of `bytes` from `at` on. Where both lengths are constants, so is the comparison.
#[inline]
#[target_feature(enable = "avx2")]
fn load_half(bytes: &[u8], at: usize) -> __m128i {
    let half: &[u8; LANE / 2] = bytes[at..].first_chunk().expect("callers say how much they have");
    // SAFETY: 16 bytes are there to be read, and `loadu` asks for no alignment.
    unsafe { _mm_loadu_si128(half.as_ptr().cast()) }
}

/// The same to write.
#[inline]
#[target_feature(enable = "avx2")]
fn store_half(value: __m128i, bytes: &mut [u8], at: usize) {
    let half: &mut [u8; LANE / 2] = bytes[at..].first_chunk_mut().expect("callers say how much they have");
    // SAFETY: 16 bytes are there to be written, and `storeu` asks for no alignment.
    unsafe { _mm_storeu_si128(half.as_mut_ptr().cast(), value) }
}

/// A register of two halves that begin at these bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn load_halves(bytes: &[u8], low: usize, high: usize) -> __m256i {
    _mm256_set_m128i(load_half(bytes, high), load_half(bytes, low))
}

/// The lower and the upper half.
#[inline]
#[target_feature(enable = "avx2")]
fn halves(value: __m256i) -> [__m128i; 2] {
    [_mm256_castsi256_si128(value), _mm256_extracti128_si256::<1>(value)]
}

/// `narrow` and `unpack` of two registers work on 128-bit halves: this puts their quarters into order.
#[inline]
#[target_feature(enable = "avx2")]
fn pack(low: __m256i, high: __m256i) -> __m256i {
    _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi16(low, high))
}

/// Rounds and shifts two registers of 16-bit samples to one of 8-bit samples.
#[inline]
#[target_feature(enable = "avx2")]
fn narrowed(low: __m256i, high: __m256i, shift: u32) -> __m256i {
    let (round, count) = (_mm256_set1_epi16(1 << (shift - 1)), _mm_cvtsi32_si128(shift as i32));
    let low = _mm256_srl_epi16(_mm256_adds_epu16(low, round), count);
    let high = _mm256_srl_epi16(_mm256_adds_epu16(high, round), count);
    pack(low, high)
}

/// The two registers that 64 bytes fill.
#[inline]
#[target_feature(enable = "avx2")]
fn load_two(bytes: &[u8; 2 * LANE]) -> [__m256i; 2] {
    let (halves, _) = bytes.as_chunks::<LANE>();
    [load(&halves[0]), load(&halves[1])]
}

/// The lower and the upper byte of each 16-bit lane of two registers, packed.
#[inline]
#[target_feature(enable = "avx2")]
fn even_and_odd([low, high]: [__m256i; 2]) -> [__m256i; 2] {
    let mask = _mm256_set1_epi16(0xff);
    let even = pack(_mm256_and_si256(low, mask), _mm256_and_si256(high, mask));
    let odd = pack(_mm256_srli_epi16::<8>(low), _mm256_srli_epi16::<8>(high));
    [even, odd]
}

#[target_feature(enable = "avx2")]
pub(super) fn narrow(deep: &[u8], shift: u32, out: &mut [u8]) {
    let input = deep.as_chunks::<{ 2 * LANE }>().0;
    let done = input.len().min(out.len() / LANE) * LANE;
    for (input, out) in input.iter().zip(out.as_chunks_mut::<LANE>().0) {
        let [low, high] = load_two(input);
        store(narrowed(low, high, shift), out);
    }
    portable::narrow(&deep[2 * done..], shift, &mut out[done..]);
}

#[target_feature(enable = "avx2")]
pub(super) fn average(one: &[u8], other: &[u8], out: &mut [u8]) {
    let done = one.len().min(other.len()).min(out.len()) / LANE * LANE;
    let (one_blocks, other_blocks) = (one[..done].as_chunks::<LANE>().0, other[..done].as_chunks::<LANE>().0);
    for ((one, other), out) in one_blocks.iter().zip(other_blocks).zip(out.as_chunks_mut::<LANE>().0) {
        store(_mm256_avg_epu8(load(one), load(other)), out);
    }
    portable::average(&one[done..], &other[done..], &mut out[done..]);
}

#[target_feature(enable = "avx2")]
pub(super) fn average_deep(one: &[u8], other: &[u8], shift: u32, out: &mut [u8]) {
    let done = (one.len() / 2).min(other.len() / 2).min(out.len()) / LANE * LANE;
    let one_blocks = one[..2 * done].as_chunks::<{ 2 * LANE }>().0;
    let other_blocks = other[..2 * done].as_chunks::<{ 2 * LANE }>().0;
    for ((one, other), out) in one_blocks.iter().zip(other_blocks).zip(out.as_chunks_mut::<LANE>().0) {
        let ([one_low, one_high], [other_low, other_high]) = (load_two(one), load_two(other));
        let (low, high) = (_mm256_avg_epu16(one_low, other_low), _mm256_avg_epu16(one_high, other_high));
        store(narrowed(low, high, shift), out);
    }
    portable::average_deep(&one[2 * done..], &other[2 * done..], shift, &mut out[done..]);
}

/// Sixteen results of `quarter` as 16-bit numbers, from what begins at a sample and at the one two before it.
#[inline]
#[target_feature(enable = "avx2")]
fn quartered(here: [__m256i; 2], before: [__m256i; 2]) -> __m256i {
    let mask = _mm256_set1_epi16(0xff);
    let odd = |x| _mm256_srli_epi16::<8>(x);
    let even = |x| _mm256_and_si256(x, mask);
    let left = _mm256_add_epi16(odd(before[0]), odd(before[1]));
    let middle = _mm256_add_epi16(even(here[0]), even(here[1]));
    let right = _mm256_add_epi16(odd(here[0]), odd(here[1]));
    let sides = _mm256_add_epi16(_mm256_add_epi16(left, right), _mm256_set1_epi16(4));
    _mm256_srli_epi16::<3>(_mm256_add_epi16(sides, _mm256_slli_epi16::<1>(middle)))
}

#[target_feature(enable = "avx2")]
pub(super) fn quarter(one: &[u8], other: &[u8], out: &mut [u8]) {
    let width = one.len().min(other.len());
    // The first sample has none before it.
    portable::quarter_from(0, one, other, &mut out[..1.min(width)]);
    let mut done = 1;
    while done + LANE <= out.len() && 2 * done + 2 * LANE <= width {
        let at = |line: &[u8], start: usize| {
            load(line[start..].first_chunk().expect("the loop's condition leaves as much"))
        };
        let sums = [0, LANE].map(|further| {
            let start = 2 * done + further;
            quartered([at(one, start), at(other, start)], [at(one, start - 2), at(other, start - 2)])
        });
        let place = out[done..].first_chunk_mut().expect("the loop's condition leaves as much");
        store(pack(sums[0], sums[1]), place);
        done += LANE;
    }
    portable::quarter_from(done, one, other, out);
}

#[target_feature(enable = "avx2")]
pub(super) fn unpack(packed: &[u8], luma_first: bool, lines: [&mut [u8]; 3]) {
    let [luma, blue, red] = lines;
    let chroma = blue.len().min(red.len());
    // A block is 64 bytes: 32 samples of luma, 16 of each chroma.
    let blocks = (packed.len() / (2 * LANE)).min(luma.len() / LANE).min(chroma / (LANE / 2));
    let places = luma
        .as_chunks_mut::<LANE>()
        .0
        .iter_mut()
        .zip(blue.as_chunks_mut::<16>().0.iter_mut().zip(red.as_chunks_mut::<16>().0));
    for (bytes, (luma, (blue, red))) in packed.as_chunks::<{ 2 * LANE }>().0.iter().zip(places) {
        let [even, odd] = even_and_odd(load_two(bytes));
        let (samples, colours) = if luma_first { (even, odd) } else { (odd, even) };
        store(samples, luma);
        // `U V U V …`: each to its own 16 bytes.
        let mask = _mm256_set1_epi16(0xff);
        let both = pack(_mm256_and_si256(colours, mask), _mm256_srli_epi16::<8>(colours));
        let mut bytes = [0; LANE];
        store(both, &mut bytes);
        let (blues, reds) = bytes.split_at(16);
        blue.copy_from_slice(blues);
        red.copy_from_slice(reds);
    }
    let rest = [&mut luma[blocks * LANE..], &mut blue[blocks * 16..], &mut red[blocks * 16..]];
    portable::unpack(&packed[blocks * 2 * LANE..], luma_first, rest);
}

#[target_feature(enable = "avx2")]
pub(super) fn split(pairs: &[u8], one: &mut [u8], other: &mut [u8]) {
    let blocks = (pairs.len() / 2).min(one.len()).min(other.len()) / LANE;
    let places = one.as_chunks_mut::<LANE>().0.iter_mut().zip(other.as_chunks_mut::<LANE>().0);
    for (bytes, (one, other)) in pairs.as_chunks::<{ 2 * LANE }>().0.iter().zip(places) {
        let [even, odd] = even_and_odd(load_two(bytes));
        store(even, one);
        store(odd, other);
    }
    let done = blocks * LANE;
    portable::split(&pairs[2 * done..], &mut one[done..], &mut other[done..]);
}

/// The portable loops, compiled for AVX2: they are written so that the compiler vectorises them.
#[target_feature(enable = "avx2")]
pub(super) fn matrix(matrix: &Matrix, from: [&[u8]; 3], to: [&mut [u8]; 3]) {
    portable::matrix_inline(matrix, from, to);
}

/// The same.
#[target_feature(enable = "avx2")]
pub(super) fn interpolate(lines: &FieldLines<'_>, out: &mut [u8]) {
    portable::interpolate_inline(lines, out);
}
