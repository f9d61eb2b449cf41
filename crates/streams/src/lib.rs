//! What a stream is while it runs: which there are, what publishes them, what reads them.
//!
//! ```text
//! Streams::publish, acquire ─► Registry ─► Live: delivery::stream + io::spool ─┬─► StreamReader: viewers, outputs, packager
//!       (a door's publisher, or one of this process)     │                   └─► Subscription: bytes, access units
//!                                                        └─► Threads, wakers: there is news
//! ```
//! Nothing here has a socket of a peer or knows a protocol. A door (HTTP today) asks [`Streams`] for a publisher's slot or finds a
//! stream, and reads it through a [`StreamReader`]; what is inside this process [publishes](Streams::publish) and
//! [subscribes](Streams::subscribe). What the configuration says comes in as a [`Plan`], the threads that are told of news as
//! [`Threads`].
#![forbid(unsafe_code)]
// A byte index within a letter panics, and text comes from outside: `get` and `split_at_checked` say that there is none.
#![cfg_attr(not(test), warn(clippy::string_slice))]

pub mod counters;
mod directory;
mod live;
mod local_registry;
pub mod pieces;
pub mod presence;
mod publish;
pub mod registry;
pub mod status;
mod stream_reader;
mod streams;
mod subscribers;
mod subscription;
pub mod telemetry;
#[cfg(test)]
mod test_streams;
mod threads;

pub use directory::{Directory, Holder, NameRefusal, StaticDirectory, Whereabouts};
pub use live::{
    Acquisition, ConnectionId, Flushed, Live, LiveState, PushError, SlatePlayed, SlateSettings,
    THREADS_BESIDE,
};
pub use local_registry::LocalRegistry;
pub use publish::Publisher;
pub use registry::{AcquireError, Acquired, FreeNames, Origin, Owner, Plan, SlotRequest};
pub use stream_reader::{Entering, Next, Place, ReaderState, StreamReader};
pub use streams::{Observer, Streams};
pub use subscription::{Read, Subscription, Unit, Units};
pub use threads::{News, NoThreads, Threads};
