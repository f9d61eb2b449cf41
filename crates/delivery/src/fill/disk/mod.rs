//! Objects in files, which outlive the memory and the process: how a file looks, and which files there are.
//!
//! [`FileHead`], [`Seal`] and [`OpenSeal`] are the format: whatever is read of a file is checked before it is given to anybody.
//! [`Index`] knows the files by their names and says which one goes first. Neither touches a file itself.

mod file;
mod index;

pub use file::{BLOCK_BYTES, FileError, FileHead, HEAD_BYTES_MAX, OpenSeal, SEALED_BLOCK_BYTES, Seal};
pub use index::{FILES_MAX, Found, Index, Kept, Name};
