//! A source's attempts, whatever protocol they are of: what is told of the last one, and when the next one is made.
//!
//! ```text
//! begin ─► live: told, once ─► complain: counted, told ever more seldom ─┬─► close: asked again after a pause
//!                                                                        └─► wait: it is listened to further on
//! ```
//! An HTTP source has these within its puller (`delivery::pull::Puller`), which also turns to other servers.

use super::table::{Note, Phase, PullEntry};
use crate::log_throttle::LogThrottle;
use glassline_delivery::backoff::Backoff;
use glassline_delivery::pull::Policy;
use glassline_media::Time;
use std::sync::Arc;
use std::time::Duration;

/// How a source that is fetched is getting on.
pub(super) struct Retry {
    pub(super) entry: Arc<PullEntry>,
    /// What is told of it; [`Retry::post`] tells it.
    pub(super) note: Note,
    pub(super) policy: Policy,
    backoff: Backoff,
    log_throttle: LogThrottle,
}

impl Retry {
    pub(super) fn new(entry: Arc<PullEntry>, policy: Policy, seed: u64) -> Retry {
        Retry {
            entry,
            note: Note::default(),
            policy,
            backoff: Backoff::new(policy.retry_min, policy.retry_max, seed),
            log_throttle: LogThrottle::default(),
        }
    }

    /// Applies a new policy.
    pub(super) fn reconfigure(&mut self, policy: Policy) {
        self.policy = policy;
        self.backoff.reconfigure(policy.retry_min, policy.retry_max);
    }

    /// An attempt begins. One after a failure shows no more than that the source is waited for.
    pub(super) fn begin_listening(&mut self) {
        self.note.phase =
            if self.note.failures == 0 { Phase::Connecting } else { Phase::Waiting { retry_at: None } };
    }

    /// The source sends. Returns whether that goes into the log.
    pub(super) fn begin_live(&mut self, now: Time) -> bool {
        (self.note.phase, self.note.error) = (Phase::Live, None);
        self.log_throttle.begin(now)
    }

    /// It has sent for so long: after that of a good one, the next failure is a first one.
    pub(super) fn lived(&mut self, time: Duration) {
        if time >= self.policy.good_after {
            self.backoff.reset();
        }
    }

    /// The source is not there. It is listened to further on.
    pub(super) fn wait(&mut self, why: &str, now: Time) {
        self.complain(why, None, now);
        self.note.phase = Phase::Waiting { retry_at: None };
    }

    /// The source is not there; `remedy` is what has to be changed first, if that is known. Returns when it is asked again.
    pub(super) fn close(&mut self, why: &str, remedy: Option<&'static str>, now: Time) -> Time {
        self.complain(why, remedy, now);
        let until = now + self.backoff.fail();
        self.note.phase = Phase::Waiting { retry_at: Some(until) };
        until
    }

    fn complain(&mut self, why: &str, remedy: Option<&'static str>, now: Time) {
        self.note.failures += 1;
        (self.note.error, self.note.remedy) = (Some(why.to_owned()), remedy.map(str::to_owned));
        let (source, failures) = (&self.entry.source, self.note.failures);
        if self.log_throttle.end(why, self.policy.good_after, now) {
            tracing::warn!(%source, streams = ?self.entry.names, failures, "source is not there: {why}");
        } else {
            tracing::debug!(%source, failures, "source is not there: {why}");
        }
    }

    /// Tells the note.
    pub(super) fn post(&self) {
        self.entry.post(&self.note);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, POLICY, pull};
    use super::*;
    use glassline_streams::status::SourceState;

    fn retry() -> (Bench, Retry) {
        let bench = Bench::new(&[pull("a", "rtsp://cam/a")]);
        let retry = Retry::new(bench.entry(), POLICY, 1);
        (bench, retry)
    }

    #[test]
    fn pauses_grow_until_the_source_has_been_a_good_one() {
        let (_bench, mut retry) = retry();
        let now = Time::from_millis(1_000);
        let pauses: Vec<Duration> =
            (0..20).map(|_| retry.close("it is away", None, now).since(now)).collect();
        assert!(pauses[0] <= POLICY.retry_min && pauses[19] <= POLICY.retry_max);
        assert!(pauses[19] > POLICY.retry_min, "{pauses:?}");
        retry.lived(POLICY.good_after - Duration::from_millis(1));
        assert!(retry.close("it is away", None, now).since(now) > POLICY.retry_min);
        retry.lived(POLICY.good_after);
        assert!(retry.close("it is away", None, now).since(now) <= POLICY.retry_min);
    }

    #[test]
    fn what_is_told_of_a_source_follows_its_attempts() {
        let (bench, mut retry) = retry();
        let state = |retry: &Retry| {
            retry.post();
            let status = bench.status("a");
            (status.state, status.error, status.failures)
        };
        retry.begin_listening();
        assert_eq!(state(&retry), (SourceState::Connecting, None, 0));
        assert!(retry.begin_live(Time::ZERO));
        assert_eq!(state(&retry), (SourceState::Live, None, 0));
        retry.wait("no packet", Time::ZERO);
        let waiting = SourceState::Waiting { retry_in: None };
        assert_eq!(state(&retry), (waiting, Some("no packet".to_owned()), 1));
        retry.close("no way there", Some("go another one"), bench.now());
        assert!(matches!(state(&retry), (SourceState::Waiting { retry_in: Some(_) }, Some(_), 2)));
        assert_eq!(retry.note.remedy.as_deref(), Some("go another one"));
        retry.begin_listening();
        assert_eq!(state(&retry).0, SourceState::Waiting { retry_in: None }, "it has failed before");
        retry.wait("no packet", Time::ZERO);
        assert_eq!(retry.note.remedy, None, "that was of another attempt");
    }
}
