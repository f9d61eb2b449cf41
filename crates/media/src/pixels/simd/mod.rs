//! The kernels, and the choice between them.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod portable;
#[cfg(test)]
mod tests;

use super::matrix::Matrix;
use crate::picture::PixelFormat;
pub(crate) use portable::{FieldLines, Lines, PastLines, ReadLines};

/// With which instructions pixels are worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Simd(Level);

/// Private, so that a level can only be had where the processor has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

/// Calls the kernel of the chosen level.
macro_rules! kernel {
    ($simd:expr, $name:ident($($argument:expr),*)) => {
        match $simd.0 {
            Level::Portable => portable::$name($($argument),*),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Level::Avx2` is made by `Simd::avx2` alone, which asks the processor whether it has it.
            #[allow(unsafe_code)]
            Level::Avx2 => unsafe { avx2::$name($($argument),*) },
        }
    };
}

impl Simd {
    /// What every processor can do; the other levels give the same bits.
    pub const PORTABLE: Simd = Simd(Level::Portable);

    /// The fastest that this processor has.
    pub fn best() -> Simd {
        Simd::avx2().unwrap_or(Simd::PORTABLE)
    }

    /// AVX2, where this processor has it.
    pub fn avx2() -> Option<Simd> {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            return Some(Simd(Level::Avx2));
        }
        None
    }

    /// Each two-byte sample (little endian) of `deep` to 8 bits: divided by 2^`shift` (1 to 8), rounded, at most
    /// 255.
    pub(super) fn narrow(self, deep: &[u8], shift: u32, out: &mut [u8]) {
        kernel!(self, narrow(deep, shift, out));
    }

    /// The mean of two lines, rounded up.
    pub(super) fn average(self, one: &[u8], other: &[u8], out: &mut [u8]) {
        kernel!(self, average(one, other, out));
    }

    /// The mean of two lines of two-byte samples, rounded up, then as [`Simd::narrow`].
    pub(super) fn average_deep(self, one: &[u8], other: &[u8], shift: u32, out: &mut [u8]) {
        kernel!(self, average_deep(one, other, shift, out));
    }

    /// Two lines at full chroma to one at half the width: the mean of both, weighed 1, 2, 1 around each second
    /// sample (where H.264 has its chroma unless told otherwise).
    pub(super) fn quarter(self, one: &[u8], other: &[u8], out: &mut [u8]) {
        kernel!(self, quarter(one, other, out));
    }

    /// One line of 4:2:2 in bytes `Y U Y V` (or `U Y V Y`) to three.
    pub(super) fn unpack(self, packed: &[u8], luma_first: bool, lines: [&mut [u8]; 3]) {
        kernel!(self, unpack(packed, luma_first, lines));
    }

    /// A line `U V U V …` to two.
    pub(super) fn split(self, pairs: &[u8], one: &mut [u8], other: &mut [u8]) {
        kernel!(self, split(pairs, one, other));
    }

    /// Whole pgroups of `format` to lines of planes: samples of 8 bits to a byte, deeper ones to two, little endian. Each line has
    /// place for the samples of all groups.
    pub(crate) fn unpack_pgroups(self, format: PixelFormat, groups: &[u8], lines: &mut Lines<'_>) {
        kernel!(self, unpack_pgroups(format, groups, lines));
    }

    /// Lines of planes to whole pgroups of `format`; bits of a sample above its depth are ignored. Each line has the samples of all
    /// groups.
    pub(crate) fn pack_pgroups(self, format: PixelFormat, lines: &ReadLines<'_>, groups: &mut [u8]) {
        kernel!(self, pack_pgroups(format, lines, groups));
    }

    /// Three lines through a matrix to three others. Samples have no bits above their depth.
    pub(super) fn matrix(self, matrix: &Matrix, from: [&[u8]; 3], to: [&mut [u8]; 3]) {
        kernel!(self, matrix(matrix, from, to));
    }

    /// The missing line of a field; see [`FieldLines`].
    pub(super) fn interpolate(self, lines: &FieldLines<'_>, out: &mut [u8]) {
        kernel!(self, interpolate(lines, out));
    }
}
