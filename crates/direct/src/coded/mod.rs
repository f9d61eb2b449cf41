//! Pictures that are coded already, by a camera or another encoder: access units, each against the one before.
//!
//! ```text
//! access unit ─► CodedSender::message ─► channel VIDEO ─► CodedReceiver::handle ─► access units, in order, none without
//!                  │ nothing is sent until a key frame          │                   what it needs
//!                  └◄ one was lost or replaced (receipts) ◄─────┴ lacking: channel REPORTS
//! ```
//! Of these there is no other state to code against, so that what the link does not take is missing until the next key frame:
//! an encoder that can be asked for one is ([`CodedSender::wants_key`]). A stream that has none goes on after [`KEY_REQUEST_TIMEOUT`].
//! An encoder with a rate that can be set follows the link by [`LinkRate`], a camera's by [`CameraRate`].

mod camera;
mod rate;
mod receiver;
mod sender;
mod wire;

pub use camera::{CameraRate, IgnoredRate, KeyRequests, RateRange};
pub use rate::LinkRate;
pub use receiver::{CodedReceiver, ReceivedUnit};
pub use sender::{CodedCounters, CodedSender, KEY_REQUEST_TIMEOUT, Unit};
pub use wire::{UnitHeader, is_unit};
