//! AV1 (AOMedia, "AV1 Bitstream & Decoding Process Specification") as a function of slots: encoding by libaom, decoding by
//! dav1d.
//!
//! All that a decoder carries from picture to picture lies in eight [slots](Slot), and the caller says which one a picture is
//! predicted from and which one holds it afterwards. So the caller owns the state, as with [`vp8`](crate::vp8), though it
//! lies in the library:
//!
//! ```
//! use glassline_codec::av1::{Decoder, Encoder, Settings, Slot};
//! # use glassline_media::{FrameRate, Picture, PixelFormat, Size, Time};
//!
//! # fn main() -> Result<(), glassline_codec::av1::Error> {
//! # let size = Size { width: 64, height: 48 };
//! # let pictures = [16, 60].map(|grey| {
//! #     let mut picture = Picture::new(PixelFormat::I420, size, Time::ZERO);
//! #     picture.planes_mut()[0].bytes_mut().fill(grey);
//! #     picture
//! # });
//! let frame_rate = FrameRate::new(30, 1).unwrap();
//! let mut encoder = Encoder::new(&Settings { size, frame_rate, threads: 2, speed: 9 })?;
//! let mut decoder = Decoder::new(2, 1280 * 720)?;
//! let [old, fine, coarse] = [0, 1, 2].map(|index| Slot::ALL[index]);
//!
//! // All slots hold the key picture.
//! let key = encoder.encode_key(&pictures[0], 40)?;
//! assert_eq!(decoder.decode(&key.bytes)?.hash, key.hash);
//!
//! // Two candidates, of which one is sent: the other one's slot is then never named.
//! let too_large = encoder.encode(&pictures[1], 30, old, fine)?;
//! let sent = encoder.encode(&pictures[1], 50, old, coarse)?;
//! assert_eq!(decoder.decode(&sent.bytes)?.hash, sent.hash);
//! # drop(too_large);
//! # Ok(()) }
//! ```
//!
//! What is sent is plain AV1, which any decoder decodes. Which picture lies in which slot of a receiver is the caller's to know:
//! a unit that is given to a decoder without what it is predicted from may be an error, or another picture.

mod aom_ffi;
mod dav1d_ffi;
mod decoder;
mod describe;
mod encoder;
mod error;
mod planes;
mod slot;

pub use decoder::{Decoded, Decoder};
pub use describe::{Describer, UnitDescription, describe};
pub use encoder::{COARSEST, Encoded, Encoder, FINEST, SIDES, SPEEDS, Settings};
pub use error::Error;
pub use planes::PictureHash;
pub use slot::Slot;
