//! What a worker lends to a connection for one wake-up: the hub, the settings, memory for reads, and lists of what the
//! worker has to do afterwards.

use crate::Settings;
use crate::hub::Hub;
use crate::ingest::IngestSession;
use crate::viewer::Allowance;
use glassline_media::Time;
use glassline_streams::{Flushed, Live};
use std::sync::Arc;

/// Bytes of a read. A 50 Mbit/s frame fits.
const READ_BYTES: usize = 256 << 10;

/// What a worker lends to a connection for its turn.
pub(super) struct TurnContext<'a> {
    pub(super) hub: &'a Hub,
    /// The settings of the moment.
    pub(super) settings: &'a Settings,
    pub(super) now: Time,
    pub(super) allowance: Allowance,
    /// Memory for reads, of [`READ_BYTES`].
    pub(super) scratch: &'a mut [u8],
    news: &'a mut Vec<Arc<Live>>,
    due: &'a mut Vec<(Time, Arc<Live>)>,
    ingests_due: &'a mut Vec<(Time, Arc<IngestSession>)>,
}

impl TurnContext<'_> {
    /// Does what `flushed` asks for: wakes the workers that have viewers of `live`, notes those of worker `own`.
    pub(super) fn notify(&mut self, live: &Arc<Live>, flushed: Flushed, own: usize) {
        if flushed.news && self.hub.streams.announce(live, Some(own)) {
            self.news.push(Arc::clone(live));
        }
        if let Some(at) = flushed.wake_at {
            self.due.push((at, Arc::clone(live)));
        }
    }

    /// Has the worker call [`IngestSession::handle_timeout`] at `at`.
    pub(super) fn call_at(&mut self, at: Time, session: &Arc<IngestSession>) {
        self.ingests_due.push((at, Arc::clone(session)));
    }
}

/// What a worker keeps between turns and lends to each.
pub(super) struct TurnBuffers {
    scratch: Vec<u8>,
    /// Streams that grew in this turn, and have viewers on this worker that wait for the bytes.
    pub(super) news: Vec<Arc<Live>>,
    /// Streams with bytes that wait, and when the worker has to call [`Live::handle_timeout`] for them.
    pub(super) due: Vec<(Time, Arc<Live>)>,
    /// Publishers of CMAF, and when the worker has to call [`IngestSession::handle_timeout`] for them.
    pub(super) ingests_due: Vec<(Time, Arc<IngestSession>)>,
}

impl TurnBuffers {
    pub(super) fn new() -> TurnBuffers {
        TurnBuffers {
            scratch: vec![0; READ_BYTES],
            news: Vec::new(),
            due: Vec::new(),
            ingests_due: Vec::new(),
        }
    }

    /// The context of a turn at `now`.
    pub(super) fn context<'a>(
        &'a mut self,
        hub: &'a Hub,
        settings: &'a Settings,
        allowance: Allowance,
        now: Time,
    ) -> TurnContext<'a> {
        let TurnBuffers { scratch, news, due, ingests_due } = self;
        TurnContext { hub, settings, now, allowance, scratch, news, due, ingests_due }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inboxes::Message;
    use crate::test_streams::{hub, live};
    use glassline_streams::News;

    const NEWS: Flushed = Flushed { news: true, wake_at: None };

    #[test]
    fn a_turn_has_the_workers_memory_and_the_settings_of_the_moment() {
        let hub = hub(Settings::default(), 1);
        let (settings, mut buffers) = (hub.settings(), TurnBuffers::new());
        let at = Time::from_millis(5);
        let context = buffers.context(&hub, &settings, Allowance::new(true, 1), at);
        assert_eq!((context.now, context.scratch.len()), (at, READ_BYTES));
        assert!(std::ptr::eq(context.settings, &*settings));
        context.scratch[0] = 7;
        let later = buffers.context(&hub, &settings, Allowance::new(true, 1), at);
        assert_eq!(later.scratch[0], 7, "the memory is kept from turn to turn");
    }

    #[test]
    fn news_are_noted_for_the_own_worker_and_sent_to_the_others() {
        let hub = hub(Settings::default(), 2);
        let (settings, mut buffers) = (hub.settings(), TurnBuffers::new());
        let live = live(0, "a", 2);
        live.viewer_comes_over(0);
        live.viewer_comes_over(1);
        for _ in 0..2 {
            buffers.context(&hub, &settings, Allowance::new(true, 1), Time::ZERO).notify(&live, NEWS, 0);
        }
        assert!(matches!(&buffers.news[..], [noted] if Arc::ptr_eq(noted, &live)), "noted once");
        let mut messages = Vec::new();
        hub.inboxes.collect(0, &mut messages);
        assert!(messages.is_empty());
        hub.inboxes.collect(1, &mut messages);
        assert!(matches!(messages[..], [Message::Stream(News::Flushed(_))]));
    }

    #[test]
    fn a_stream_without_viewers_here_is_noted_for_its_deadline_alone() {
        let hub = hub(Settings::default(), 1);
        let (settings, mut buffers) = (hub.settings(), TurnBuffers::new());
        let (live, at) = (live(0, "a", 1), Time::from_millis(40));
        let mut context = buffers.context(&hub, &settings, Allowance::new(true, 1), Time::ZERO);
        context.notify(&live, Flushed { news: true, wake_at: Some(at) }, 0);
        assert!(buffers.news.is_empty());
        assert!(matches!(&buffers.due[..], [(time, noted)] if *time == at && Arc::ptr_eq(noted, &live)));
    }
}
