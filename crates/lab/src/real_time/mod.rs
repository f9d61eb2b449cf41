//! Direct video in real time over an emulated network: `glassline send` and `glassline receive`, or WebRTC between two
//! browsers, with the same pictures, the same line and the same rules of measuring. The system that is measured is a
//! black box: pictures go in, pictures come out.
//!
//! ```text
//! clip: y4m, a barcode in each picture ─► sender │ near network ─► Emulation ─► far network │ receiver ─► what was shown, and when
//!       captured: when, which number ──────────► matching ◄─────────────────────────────── shown: when, which number
//!                                                    └─► experiment::Outcome: delays by the paper's rule, SSIM, use of the line
//! ```
//! * [`Clip`]: the video, in a file that both are given.
//! * [`run`]: goes through it, before that over a line without limit for the testbed's own delay.
//! * `ours`: the program's two ends; `peer`: browsers (`browser`, `cdp`, `page.js`).

pub(crate) mod browser;
mod cdp;
mod clip;
mod field;
mod lines;
mod matching;
mod ours;
pub(crate) mod peer;
pub(crate) mod process;
mod run;
mod score;
mod scratch;

pub use clip::Clip;
pub use field::{RealTime, Testbed};

pub use ours::Direct;
pub use peer::{Codec, Webrtc};
pub use run::{Measured, Setup, Who, run};
pub use scratch::Scratch;
