//! Pushing: a stream given to a server by a chunked PUT, again and again. Pure: packets, answers, ends and `now` come in;
//! what to do with the socket, and the bytes for it, go out. The mirror of [`crate::pull`].

mod failure;
mod pusher;

pub use failure::{Answer, Loss, PushFailure};
pub use pusher::{Event, Output, Policy, Pusher, Taken};
