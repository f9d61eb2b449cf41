//! What was recorded of streams, as a relay asks for it.

use super::{Growing, Wake};
use glassline_delivery::policy::StreamName;
use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::Arc;

/// A request for something of a stream that may be recorded.
#[derive(Clone, Copy, Debug)]
pub struct RecordedRequest<'a> {
    /// The stream.
    pub name: &'a StreamName,
    /// What of it: the path below `/live/NAME/`.
    pub rest: &'a str,
    /// The query, without its `?`.
    pub query: &'a str,
    /// What the address that asks is counted by; `None`: it is not, since it is of this machine, as a proxy's is.
    pub peer: Option<IpAddr>,
    /// Whether the stream is there now: what is asked for without a time is then live.
    pub is_live: bool,
    /// Whether another server has the stream now, which has recordings of it, too: what is not known to be here is asked for there.
    pub is_elsewhere: bool,
}

/// Recordings of streams, with an answer for what of a request is about them.
pub trait RecordedObjects: Send + Sync + Debug {
    /// The answer to a request, of any status, which may still have to come; `None` where it is not about recordings. The caller has
    /// seen that the viewer may watch the stream. Called on a worker: it does not block. `wake` wakes the readers of the answer.
    fn find(&self, request: RecordedRequest<'_>, wake: &Arc<dyn Wake>) -> Option<Arc<Growing>>;
}
