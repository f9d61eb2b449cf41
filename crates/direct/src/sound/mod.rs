//! Sound beside the pictures: coded packets, each with its time of capture, and the buffer that plays them out evenly.
//!
//! ```text
//! packet, captured ─► SoundSender::message (the packets before it too, while some are lost) ─► channel SOUND ─┐
//!                                                                                                           │
//! samples ◄─ decoder ◄─ Play: a packet, a concealed one, silence ◄─ SoundReceiver::poll, each when it is due ◄─┘
//! ```
//! What codes and decodes is not here: any codec with packets of one length will do.

mod receiver;
mod sender;
mod wire;

pub use receiver::{Play, SoundCounters, SoundReceiver, What};
pub use sender::{Redundancy, SoundSender};
pub use wire::{FRAME_UNIT, SoundHeader, SoundMessage};
