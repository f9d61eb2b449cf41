//! The publisher slots of the streams that one source feeds, and what is said of the source in the log.

use crate::hub::Hub;
use glassline_delivery::policy::StreamName;
use glassline_delivery::stream::{Block, Mux};
use glassline_media::Time;
use glassline_streams::Publisher;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// One upstream's streams: all have it, or none.
pub(super) struct Seats {
    hub: Arc<Hub>,
    names: Vec<StreamName>,
    mux: Mux,
    publishers: Vec<Publisher>,
}

impl Seats {
    pub(super) fn new(hub: &Arc<Hub>, names: &[StreamName], mux: Mux) -> Seats {
        Seats { hub: Arc::clone(hub), names: names.to_vec(), mux, publishers: Vec::new() }
    }

    /// The sessions of the slots that are taken.
    pub(super) fn sessions(&self) -> Vec<u64> {
        self.publishers.iter().map(Publisher::session).collect()
    }

    /// Takes the slots that another process had. Returns whether it got all of them.
    pub(super) fn restore(&mut self, sessions: &[u64]) -> bool {
        let seats = self.names.iter().zip(sessions);
        let publishers =
            seats.filter_map(|(name, session)| self.hub.streams.restore_publisher(name, *session));
        self.publishers = publishers.collect();
        let all = sessions.is_empty() || self.publishers.len() == self.names.len();
        if !all {
            self.publishers.clear();
        }
        all
    }

    /// Takes all slots. Fails, with none taken, in words for people.
    pub(super) fn take(&mut self) -> Result<(), String> {
        let taken: Result<Vec<_>, _> =
            self.names.iter().map(|name| self.hub.streams.publish(name, self.mux)).collect();
        self.publishers = taken.map_err(|error| error.to_string())?;
        Ok(())
    }

    /// Of a mux that is not known, passes on what its source calls it, where that is something to watch or hear.
    pub(super) fn call(&self, media_type: Option<&str>) {
        if self.mux == Mux::Raw {
            self.publishers.iter().for_each(|publisher| publisher.call(media_type));
        }
    }

    /// Of a mux that is not known, passes on what its source's next block is.
    pub(super) fn begin_block(&self, block: Block, size: u32) -> Result<(), String> {
        if self.mux != Mux::Raw {
            return Ok(());
        }
        let mut begun = self.publishers.iter().map(|publisher| publisher.begin_block(block, size));
        begun.try_for_each(|begun| begun).map_err(|error| error.to_string())
    }

    /// Passes on what came.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.publishers
            .iter_mut()
            .try_for_each(|publisher| publisher.push(bytes))
            .map_err(|error| error.to_string())
    }

    /// Gives the slots up; viewers wait for a while.
    pub(super) fn leave(&mut self) {
        self.publishers.clear();
    }

    pub(super) fn are_taken(&self) -> bool {
        !self.publishers.is_empty()
    }
}

/// Keeps a source that comes and goes from filling the log: of what is said of it again and again, the 1st, 2nd, 4th,
/// 8th … is told, until it has been good for a while.
#[derive(Debug, Default)]
pub(crate) struct LogThrottle {
    said: BTreeMap<String, u64>,
    live_since: Option<Time>,
}

/// Different sayings that are remembered; there are not so many kinds of trouble.
const SAYINGS: usize = 32;

impl LogThrottle {
    /// Whether `saying` goes into the log. Sayings that differ in their figures alone count as one.
    pub(crate) fn should_log(&mut self, saying: &str) -> bool {
        if self.said.len() >= SAYINGS {
            self.said.clear();
        }
        let kind: String = saying.chars().filter(|character| !character.is_ascii_digit()).collect();
        let times = self.said.entry(kind).or_default();
        *times += 1;
        times.is_power_of_two()
    }

    /// The source sends. Returns whether that goes into the log.
    pub(super) fn begin(&mut self, now: Time) -> bool {
        self.live_since = Some(now);
        self.should_log("live")
    }

    /// The source does not send (any more). Returns whether that goes into the log; always where it has been good for
    /// as long as `good_after`.
    pub(super) fn end(&mut self, why: &str, good_after: Duration, now: Time) -> bool {
        if self.live_since.take().is_some_and(|since| now.since(since) >= good_after) {
            self.said.clear();
        }
        self.should_log(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_again_is_told_ever_more_rarely_until_all_was_well() {
        let (mut log_throttle, good_after) = (LogThrottle::default(), Duration::from_secs(5));
        let mut now = Time::ZERO;
        let mut fail = |after: Duration| {
            let begun = log_throttle.begin(now);
            now += after;
            (begun, log_throttle.end(&format!("no packet in {} bytes", now.as_nanos()), good_after, now))
        };
        let told = (0..100).filter(|_| fail(Duration::from_millis(1)) == (true, true)).count();
        assert_eq!(told, 7);
        assert_eq!(fail(good_after), (false, true));
        assert_eq!(fail(Duration::ZERO), (true, true));
    }
}
