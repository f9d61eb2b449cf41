//! What records streams, as the relay sees it.

use glassline_delivery::policy::StreamName;
use glassline_edge::ChunkObserver;
use std::sync::Arc;

/// What records streams, from what the packager makes of them. It is asked from the packager's thread, and must not wait.
pub trait Recorder: Send + Sync {
    /// Whether the stream `name` is recorded: then it is packaged as long as it lives.
    fn is_recorded(&self, name: &StreamName) -> bool;
    /// A recording of the stream `name` begins. What is returned is told of its objects.
    fn begin(&self, name: &StreamName) -> Arc<dyn ChunkObserver>;
}
