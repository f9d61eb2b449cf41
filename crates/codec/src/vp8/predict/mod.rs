//! Prediction: what a macroblock's samples are before the residue is added.

pub(crate) mod inter;
pub(crate) mod intra;
