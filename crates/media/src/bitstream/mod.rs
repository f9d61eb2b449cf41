//! Coded bits: what decoders and containers need to know about them.

pub mod adts;
pub mod h264;
pub mod opus;
pub mod s302m;
#[cfg(test)]
pub(crate) mod testing;
pub mod unit_finder;
