//! Pictures and sound that are made to be measured, and the measurements.
//!
//! ```text
//! pattern (with a barcode), tone ─► whatever is measured ─► barcode::read: number, age
//!                                                           psnr, ssim, daala_ssim: quality beside the original
//! ```
//! Pure: pictures come in, pictures and figures come out.
#![forbid(unsafe_code)]
// A byte index within a letter panics, and text comes from outside: `get` and `split_at_checked` say that there is none.
#![cfg_attr(not(test), warn(clippy::string_slice))]

pub mod barcode;
mod compare;
pub mod daala_ssim;
pub mod pattern;
pub mod psnr;
pub mod ssim;
pub mod tone;

pub use compare::CompareError;
