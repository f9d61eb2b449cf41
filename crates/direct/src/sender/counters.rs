//! What a sender counts.

/// Counts since the begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderCounters {
    /// Pictures that were encoded.
    pub pictures: u64,
    /// Of them, those that were sent.
    pub sent: u64,
    /// Bytes of their messages.
    pub bytes: u64,
    /// Pictures that were not sent because none of their encodings fitted.
    pub skipped: u64,
    /// Sent ones of which the link or the receiver says that they did not come, or could not be decoded.
    pub lost: u64,
    /// Sent ones that needed no other.
    pub key: u64,
    /// Which candidate was sent: the finest, one between, the coarsest.
    pub chosen: [u64; 3],
    /// Reports of a state that is not ours.
    pub mismatches: u64,
    /// Times that the receiver had none of our states.
    pub resets: u64,
    /// Pictures that receivers say they have shown.
    pub shown: u64,
}
