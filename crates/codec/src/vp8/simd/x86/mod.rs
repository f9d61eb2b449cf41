//! Kernels for x86-64 with AVX2 and the bit instructions that came with it.
//!
//! Each kernel is a safe function that checks the lengths of its slices, so that all loads and stores lie in them,
//! and then calls one compiled for AVX2. The table of kernels is only given out where the processor has all of
//! these.
#![allow(unsafe_code)]

mod bilinear;
mod copy;
mod encode;
mod entropy;
mod loop_filter;
mod residue;
mod sub_pel;
mod view;

use super::{EdgeFilters, Kernels, SCALAR};
use std::arch::x86_64::*;

static AVX2: Kernels = Kernels {
    name: "avx2",
    parse_modes: entropy::parse_modes,
    read_macroblock: entropy::read_macroblock,
    copy: [copy::copy::<16>, copy::copy::<8>, copy::copy::<4>],
    six_tap: [sub_pel::six_tap_16, sub_pel::six_tap::<8>, sub_pel::six_tap::<4>],
    six_tap_two: [sub_pel::six_tap_two::<8>, sub_pel::six_tap_two::<4>],
    bilinear: [bilinear::bilinear::<16>, bilinear::bilinear::<8>, bilinear::bilinear::<4>],
    bilinear_two: [bilinear::bilinear_two::<8>, bilinear::bilinear_two::<4>],
    add_block: residue::add_block,
    add_four: residue::add_four,
    add_four_dc: residue::add_four_dc,
    add_square: residue::add_square,
    add_square_dc: residue::add_square_dc,
    normal_filter: EdgeFilters {
        left: loop_filter::left,
        columns: loop_filter::columns,
        top: loop_filter::top,
        rows: loop_filter::rows,
    },
    simple_filter: SCALAR.simple_filter,
};

fn has_all() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
}

/// The decoder's kernels, where this processor can run them.
pub(super) fn kernels() -> Option<&'static Kernels> {
    has_all().then_some(&AVX2)
}

/// The encoder's kernels, where this processor can run them.
pub(super) fn encode_kernels() -> Option<&'static super::encode::EncodeKernels> {
    has_all().then_some(&encode::AVX2)
}

/// Loads 16 bytes from `at` on.
#[inline]
#[target_feature(enable = "avx2")]
fn load16(bytes: &[u8], at: usize) -> __m128i {
    let bytes = &bytes[at..at + 16];
    // SAFETY: the slice has 16 bytes, and the load needs no alignment.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

/// Loads 8 bytes from `at` on into the low half.
#[inline]
#[target_feature(enable = "avx2")]
fn load8(bytes: &[u8], at: usize) -> __m128i {
    let bytes = &bytes[at..at + 8];
    // SAFETY: the slice has 8 bytes, and the load needs no alignment.
    unsafe { _mm_loadl_epi64(bytes.as_ptr().cast()) }
}

/// Stores 16 bytes from `at` on.
#[inline]
#[target_feature(enable = "avx2")]
fn store16(bytes: &mut [u8], at: usize, value: __m128i) {
    let bytes = &mut bytes[at..at + 16];
    // SAFETY: the slice has 16 bytes, and the store needs no alignment.
    unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), value) }
}

/// Stores the low 8 bytes from `at` on.
#[inline]
#[target_feature(enable = "avx2")]
fn store8(bytes: &mut [u8], at: usize, value: __m128i) {
    let bytes = &mut bytes[at..at + 8];
    // SAFETY: the slice has 8 bytes, and the store needs no alignment.
    unsafe { _mm_storel_epi64(bytes.as_mut_ptr().cast(), value) }
}

/// Stores the low 4 bytes from `at` on.
#[inline]
#[target_feature(enable = "avx2")]
fn store4(bytes: &mut [u8], at: usize, value: __m128i) {
    bytes[at..at + 4].copy_from_slice(&_mm_cvtsi128_si32(value).to_le_bytes());
}
