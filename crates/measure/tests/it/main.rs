//! Measurements from outside: pictures through an encoder.

mod formats;
mod pattern_through_h264;
