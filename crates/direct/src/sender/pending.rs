//! A picture between its encoding and the choice.

use crate::coder::{Encoded, Request, State, Task};
use glassline_media::{Picture, Size, Stamps, Time};

/// A picture that is encoded and not decided on.
pub(super) struct Pending {
    pub(super) captured: Time,
    /// When its encoding began.
    pub(super) begun: Time,
    pub(super) passed: Stamps,
    pub(super) source: Option<u64>,
    pub(super) careful: bool,
    pub(super) expected: u64,
    pub(super) candidates: Vec<Encoded>,
    /// As it is coded.
    pub(super) picture: Picture,
    /// What it was coded against; `None`: it needs no other.
    pub(super) state: Option<State>,
    /// The size of the state to code against, before that was resampled.
    pub(super) source_size: Option<Size>,
    /// What the header says of sizes.
    pub(super) size: Option<Size>,
    pub(super) request: Request,
}

impl Pending {
    /// It is encoded once more, against the same state.
    pub(super) fn task(&self) -> Task<'_> {
        Task { source: self.state.as_ref(), picture: &self.picture, request: self.request }
    }
}

/// What a header says of sizes ([`PictureHeader::size`](crate::wire::PictureHeader::size)).
pub(super) fn told_size(state: Option<Size>, source: Size, coded: Size) -> Option<Size> {
    match state {
        // A key frame: the size at which to show it.
        None => Some(source).filter(|source| *source != coded),
        // Another frame's state is brought to this one's size.
        Some(before) => Some(coded).filter(|coded| *coded != before),
    }
}
