//! The constant tables of RFC 6386.

pub(crate) mod coefficients;
pub(crate) mod modes;
