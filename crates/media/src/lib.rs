//! Glassline's nouns: time, pictures, access units, audio, the stamps that they carry; bitstreams and
//! containers that hold them.
//!
//! Pure: bytes, pictures and `now` come in, bytes and pictures go out. Every other room builds on this one
//! and this one on none.
//! `unsafe` stands in `pixels` alone, for its SIMD.
#![deny(unsafe_code)]
// A byte index within a letter panics, and text comes from outside: `get` and `split_at_checked` say that there is none.
#![cfg_attr(not(test), warn(clippy::string_slice))]

pub mod access_unit;
pub mod audio;
pub mod bitstream;
pub mod choice;
pub mod container;
pub mod picture;
pub mod pixels;
pub mod printable;
pub mod quantity;
pub mod ratio;
pub mod samples;
pub mod stamps;
pub mod time;
pub mod upsample;

pub use access_unit::{AccessUnit, Codec};
pub use audio::{AudioBlock, SampleFormat};
pub use choice::Choice;
pub use picture::{
    Chroma, Colour, FieldOrder, Layout, Memory, Pgroup, Picture, PicturePool, PixelFormat, Plane, Size,
};
pub use stamps::{Stage, Stamps};
pub use time::{FrameRate, Ticks, Time, Utc};
