//! Pictures made to be measured, and the measurements.

pub mod barcode;
mod compare;
pub mod daala_ssim;
pub mod pattern;
pub mod psnr;
pub mod ssim;
pub mod tone;

pub use compare::CompareError;
