//! What a connection may use while it has its turn.

use crate::relay::Settings;
use crate::relay::hub::Hub;
use crate::relay::live::{Flushed, Live};
use crate::relay::viewer::Allowance;
use glassline_media::Time;
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
}

impl TurnContext<'_> {
    /// Does what `flushed` asks for: wakes the workers that have viewers of `live`, notes those of worker `own`.
    pub(super) fn tell(&mut self, live: &Arc<Live>, flushed: Flushed, own: usize) {
        if flushed.news && self.hub.inboxes.announce(live, Some(own)) {
            self.news.push(Arc::clone(live));
        }
        if let Some(at) = flushed.wake_at {
            self.due.push((at, Arc::clone(live)));
        }
    }
}

/// What a worker keeps between turns and lends to each.
pub(super) struct TurnBuffers {
    scratch: Vec<u8>,
    /// Streams that grew in this turn, and whose viewers on this worker wait to be served.
    pub(super) news: Vec<Arc<Live>>,
    /// Streams whose waiting bytes are to be looked after, and when.
    pub(super) due: Vec<(Time, Arc<Live>)>,
}

impl TurnBuffers {
    pub(super) fn new() -> TurnBuffers {
        TurnBuffers { scratch: vec![0; READ_BYTES], news: Vec::new(), due: Vec::new() }
    }

    /// The context of a turn at `now`.
    pub(super) fn context<'a>(
        &'a mut self,
        hub: &'a Hub,
        settings: &'a Settings,
        allowance: Allowance,
        now: Time,
    ) -> TurnContext<'a> {
        let TurnBuffers { scratch, news, due } = self;
        TurnContext { hub, settings, now, allowance, scratch, news, due }
    }
}
