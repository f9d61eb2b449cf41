//! Pixels between what a source gives and what an encoder takes.
//!
//! [`convert`] makes 8-bit 4:2:0 of every [`PixelFormat`](crate::PixelFormat) and of the packed layouts of capture cards;
//! [`expand`] makes any other format in planes, for senders of uncompressed video; [`pgroup`] brings pgroups into planes and
//! back; [`deinterlace`] makes two whole pictures of the two fields of one; [`scale`] makes other sizes. Called by the commands
//! that encode pictures, receive and send them.
//!
//! All but the last work line by line on kernels ([`Simd`]) of which each exists twice: portable, which defines the result, and
//! for AVX2, chosen at run time, which gives the same bits.

pub mod convert;
pub mod deinterlace;
pub mod expand;
mod frame_unpacker;
mod matrix;
pub mod pgroup;
#[cfg(test)]
mod reference;
pub mod scale;
mod simd;

pub use crate::picture::FieldOrder;
pub use convert::{Converter, PackedFormat, PixelsError, Scan};
pub use deinterlace::Deinterlacer;
pub use expand::Expander;
pub use frame_unpacker::FrameUnpacker;
pub use pgroup::{Packer, PlanarLines, Unpacker};
pub use scale::Scaler;
pub use simd::Simd;
