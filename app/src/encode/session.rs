//! A running encoder: one source, and for each rendition a queue, a pipeline and its outputs on a thread.
//!
//! ```text
//!                    ┌─► queue ─► pipeline (x264, muxer) ─► sink        each rendition on a thread of its own
//! source ─► Feed ────┼─► queue ─► …
//! (thread)  └ sound  └─► queue ─► …
//! ```

use super::feed::Feed;
use super::pipeline::{Demand, Packets, Pipeline};
use super::queue::Queue;
use super::source::Source;
use anyhow::{Context, Result};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// Takes a rendition's packets; see [`super::pipeline::Sink`].
pub(super) type OwnedSink = Box<dyn FnMut(&Packets<'_>) -> Result<Demand> + Send>;

/// One version of the stream.
pub(super) struct Rendition {
    pub(super) pipeline: Pipeline,
    pub(super) queue: Arc<Queue>,
    pub(super) sink: OwnedSink,
}

/// All renditions of one source, running.
pub(super) struct Session {
    feed: Arc<Feed>,
    renditions: Vec<JoinHandle<(Pipeline, Result<()>)>>,
}

impl Session {
    /// Starts renditions and source. `feed` feeds the renditions' queues.
    pub(super) fn start(source: Source, feed: Arc<Feed>, renditions: Vec<Rendition>) -> Result<Session> {
        let mut session = Session { feed: Arc::clone(&feed), renditions: Vec::new() };
        for rendition in renditions {
            let started = session.spawn(rendition).context("cannot start the encoder's thread");
            if let Err(error) = started {
                feed.stop();
                return Err(error);
            }
        }
        // Not joined: it may hang in a read of standard input, which nothing but the end of the process ends.
        thread::Builder::new()
            .name("source".to_owned())
            .spawn(move || source.run(&feed))
            .context("cannot start the source's thread")?;
        Ok(session)
    }

    fn spawn(&mut self, rendition: Rendition) -> std::io::Result<()> {
        let Rendition { mut pipeline, queue, mut sink } = rendition;
        let feed = Arc::clone(&self.feed);
        let run = move || {
            let ended = pipeline.run(&queue, &mut *sink);
            // One that fails ends source and other renditions.
            if ended.is_err() {
                feed.stop();
            }
            (pipeline, ended)
        };
        self.renditions.push(thread::Builder::new().name("encode".to_owned()).spawn(run)?);
        Ok(())
    }

    /// Waits until every rendition has ended. Gives their pipelines, in order, and the first failure.
    pub(super) fn join(self) -> (Vec<Pipeline>, Result<()>) {
        let mut first = Ok(());
        let mut pipelines = Vec::new();
        for thread in self.renditions {
            let (pipeline, ended) = match thread.join() {
                Ok(ended) => ended,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            pipelines.push(pipeline);
            first = first.and(ended);
        }
        (pipelines, first)
    }
}
