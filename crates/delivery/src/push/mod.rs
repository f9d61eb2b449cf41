//! Pushing: a stream given to a server, or to one of several, by a chunked PUT, again and again. Pure: packets, answers,
//! ends and `now` come in; what to do with the socket, and the bytes for it, go out. The mirror of [`crate::pull`].

mod connection;
mod event;
mod failure;
mod follows;
mod policy;
mod pusher;
mod servers;

pub use event::Event;
pub use failure::{Answer, Loss, PushFailure};
pub use follows::{FOLLOWS_FIELD, follows};
pub use policy::Policy;
pub use pusher::{Output, Pusher, Taken};
