//! VP8 (RFC 6386) as a value: decoding a frame is a function of a state and bytes, and gives the next state.
//!
//! ```
//! use glassline_codec::vp8::{Limits, State, decode};
//!
//! # fn show(frames: &[Vec<u8>]) -> Result<(), glassline_codec::vp8::Error> {
//! let limits = Limits::default();
//! let mut state = State::new();
//! for frame in frames {
//!     // A frame that cannot be decoded is an error; `state` is then as it was.
//!     let decoded = decode(&state, frame, &limits)?;
//!     if let Some(picture) = &decoded.picture {
//!         println!("{} after {}", picture.size(), decoded.state.hash());
//!     }
//!     // Keep the old state as well, and the stream forks.
//!     state = decoded.state;
//! }
//! # Ok(()) }
//! # show(&[]).unwrap();
//! ```
//!
//! Encoding is the same the other way round ([`encode`]). [`Encoder`] holds a stream's state, plan and rate control,
//! for a caller that encodes frame after frame and needs no forks.
//!
//! A frame walks through `header`, then row by row through `modes` and `motion` (how each macroblock is predicted),
//! `tokens` (its coefficients), `predict` and `transform` (its samples) and `loop_filter`; `decode` drives them.
//! `frame` holds the planes, `state` what lasts, `save` writes it down. `simd` has the inner loops once more for
//! vector units.

#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod bench;
mod bool_coder;
mod decode;
mod encode;
mod encoder;
mod error;
mod forward;
mod frame;
mod header;
mod limits;
mod loop_filter;
mod macroblock;
mod measure;
mod modes;
mod motion;
mod next_state;
mod plan;
mod predict;
mod quantize;
mod quantizer;
mod rate_control;
mod reconstruct;
mod resample;
mod save;
mod simd;
mod state;
mod tables;
mod tokens;
mod transform;
mod vector;
mod workspace;

pub use decode::{Decoded, decode, decode_in};
pub use encode::{
    Denoise, Denoised, EncodeError, EncodeWorkspace, Encoded, Parallel, Quality, References, Replace,
    Request, Serial, Stats, Updates, denoise, denoise_in, encode, encode_candidates, encode_candidates_in,
    encode_in,
};
pub use encoder::{EncodedFrame, Encoder, EncoderSettings, StreamQuality};
pub use error::Error;
pub use header::{FrameTag, KeyTag};
pub use limits::Limits;
pub use plan::{Plan, Role};
pub use rate_control::{RateControl, RateSettings, Verdict};
pub use state::{State, StateHash};
pub use workspace::Workspace;
