//! What is told of a presentation's objects while they are made: a recording.

use glassline_delivery::packager::{Event, Presentation};

/// Is told of all that becomes of a presentation's objects, in order and each once: on the packager's thread and with the
/// presentation locked, so that it must not wait for anything.
pub trait ChunkObserver: Send + Sync {
    /// Something has become of an object; `presentation` is as it is with that, or a few events later.
    fn handle_event(&self, event: &Event, presentation: &Presentation);
    /// Nothing follows: the presentation has ended, or is observed no longer.
    fn handle_end(&self);
}
