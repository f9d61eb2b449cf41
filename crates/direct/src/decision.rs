//! What is decided of a picture, and by what.

use crate::settings::VideoCodec;
use bytes::Bytes;
use glassline_media::{Size, Time};
use std::time::Duration;

/// What is known of the way when a picture is encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// Bytes that the link would take now, asked about [`Sender::horizon`](crate::Sender::horizon).
    pub budget: u64,
    /// How long the link has not been answered ([`Link::silence`](glassline_transport::link::Link::silence)).
    pub silence: Duration,
}

/// One quality of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Quantiser index.
    pub quantizer: u8,
    /// Bytes of the message: the frame and what stands in front of it.
    pub bytes: usize,
}

/// Why a candidate was chosen, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is the largest that fits.
    Fits,
    /// None fitted; a size was searched for.
    Searched,
    /// None fits, and too many pictures were not sent: the smallest goes.
    Smallest,
    /// None fits.
    Skipped,
    /// The encoder is steered conventionally: every picture goes.
    Conventional,
}

/// What was decided of a picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The picture's place among all that were offered, from 0.
    pub slot: u64,
    /// When it was captured.
    pub captured: Time,
    /// Its number, if it is sent.
    pub number: Option<u64>,
    /// The picture with the state that it was coded against; `None`: none.
    pub source: Option<u64>,
    /// Only states that the receiver has said it has were coded against.
    pub careful: bool,
    /// The codec.
    pub codec: VideoCodec,
    /// The size at which it was coded.
    pub size: Size,
    /// The budget before it was encoded, and after, bytes.
    pub expected: u64,
    /// The budget that decided.
    pub budget: u64,
    /// In which qualities it was encoded, finest first.
    pub candidates: Vec<Candidate>,
    /// Which one goes.
    pub chosen: Option<usize>,
    /// Why.
    pub reason: Reason,
}

/// What becomes of an encoded picture.
#[derive(Clone, Debug)]
pub struct Choice {
    /// What was decided, for logs and plots.
    pub decision: Decision,
    /// The message for channel [`VIDEO`](crate::VIDEO), if one goes. The caller then tells [`Sender::sent`](crate::Sender::sent) what the link calls
    /// it.
    pub message: Option<Bytes>,
    /// Much depends on it: it needs no other, or is the first one behind a loss.
    pub is_dear: bool,
}
