//! Benches in their shortest form. One program, so that what the tests share is compiled and linked once.

mod edge;
mod rawvideo;
