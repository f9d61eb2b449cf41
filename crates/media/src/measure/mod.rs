//! Pictures made to be measured, and the measurements.

pub mod barcode;
pub mod pattern;
pub mod tone;
