//! What the receiver of an experiment gives its caller, as it does so.

use glassline_direct::{CodedFrame, Shown};

/// What came of a message that arrived. The frames that it made decodable come before the pictures that it let show.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Received<'a> {
    /// A frame that is passed on as it came, of codecs of which that is possible
    /// ([`Receiver::poll_frame`](glassline_direct::Receiver::poll_frame)).
    Frame(&'a CodedFrame),
    /// A picture that is shown.
    Shown(&'a Shown),
}
