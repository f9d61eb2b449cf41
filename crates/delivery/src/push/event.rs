//! What a pusher tells people.

use super::Loss;
use std::time::Duration;

/// What has happened, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// This server was reached, and has said that it takes the stream where it was asked.
    Connected {
        /// Its URL, without secrets.
        url: String,
    },
    /// It was not, or is lost.
    Lost {
        /// Which one, without secrets.
        url: String,
        /// Why.
        why: Loss,
        /// Until the next attempt.
        retry_in: Duration,
        /// Where that goes, without secrets.
        next: String,
        /// Runs of packets that were taken and have not been sent.
        unsent: u64,
        /// It was asked again and again, and has said the same as before: nothing new.
        is_eager: bool,
    },
    /// It has led to another one, which is asked at once.
    Redirected {
        /// Which one, without secrets.
        to: String,
        /// Runs of packets that were taken and have not been sent.
        unsent: u64,
    },
    /// Part of the stream is missing there.
    Gap {
        /// Whether the stream has gone on behind it, for a while; otherwise it has ended in it.
        resumed: bool,
        /// What is missing, by time.
        missing: Duration,
        /// Runs of packets that are missing, as far as that is known: not those that the network had taken.
        left_out: u64,
    },
    /// It is slower than the stream: pictures are left out.
    Behind,
    /// Pictures go there again.
    CaughtUp,
}
