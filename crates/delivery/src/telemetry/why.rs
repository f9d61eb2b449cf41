//! Why a viewer is slow.
//!
//! The kernel keeps three clocks for a connection: how long it had something to send, for how much of that time the
//! receiver's window was shut, and for how much of it we had given the kernel too little. Two looks at them, some
//! time apart, tell what was the limit in between.

use glassline_media::Time;
use std::time::Duration;

/// A viewer that is less behind than this is not slow: a paced key frame alone takes some of it.
pub const SLOW_FROM: Duration = Duration::from_millis(200);

/// What is known of a viewer's connection at one moment. What counts up does so since the connection stands; what the
/// kernel does not tell is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// When.
    pub at: Time,
    /// Age of the oldest byte that has not left for it.
    pub behind: Duration,
    /// Bytes that wait in our hands, not in the kernel's.
    pub waiting_bytes: u64,
    /// The kernel takes no more of them now.
    pub socket_full: bool,
    /// What we have asked the kernel to pace at, bits a second.
    pub pace_bps: Option<u64>,
    /// Bytes that the viewer has acknowledged, since the connection stands.
    pub bytes_acked: Option<u64>,
    /// Time with something to send, microseconds.
    pub busy_us: Option<u64>,
    /// Part of it in which the receiver's window was the limit, microseconds.
    pub rwnd_limited_us: Option<u64>,
    /// Part of it in which we had given the kernel too little, microseconds.
    pub sndbuf_limited_us: Option<u64>,
}

/// What keeps a viewer from being live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// Nothing: it is not slow.
    #[default]
    Fine,
    /// The receiver's window: its device, or its program, does not read as fast as the stream comes.
    ReceiverWindow,
    /// The network: loss, or a congestion window that is full.
    Network,
    /// Our own pacing: it gets what the pacing rate allows.
    Paced,
    /// Us: there was room and we did not send; the worker is late.
    Us,
}

/// The receiver's window is the limit from this share of the sending time on.
const WINDOW_SHARE: f64 = 0.5;
/// We are, where the kernel had nothing to send for this share of the time.
const STARVED_SHARE: f64 = 0.5;
/// A connection that gets this share of its pacing rate is held by it; headers and repeats take the rest.
const PACED_SHARE: f64 = 0.8;

impl Why {
    /// All of them.
    pub const ALL: [Why; 5] = [Why::Fine, Why::ReceiverWindow, Why::Network, Why::Paced, Why::Us];

    /// Its name in JSON and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Why::Fine => "fine",
            Why::ReceiverWindow => "receiver_window",
            Why::Network => "network",
            Why::Paced => "paced",
            Why::Us => "us",
        }
    }

    /// What was the limit from `before` to `now`, two looks at one viewer; a second apart is good.
    pub fn of(before: &Sample, now: &Sample) -> Why {
        let elapsed_us = now.at.since(before.at).as_secs_f64() * 1e6;
        if now.behind < SLOW_FROM || elapsed_us <= 0.0 {
            return Why::Fine;
        }
        let grown = |of: fn(&Sample) -> Option<u64>| Some(of(now)?.saturating_sub(of(before)?) as f64);
        // A kernel that does not tell is taken to be busy where it is full.
        let unknown = if now.socket_full { elapsed_us } else { 0.0 };
        let busy = grown(|sample| sample.busy_us).unwrap_or(unknown);
        let window = grown(|sample| sample.rwnd_limited_us).unwrap_or(0.0);
        let starved = grown(|sample| sample.sndbuf_limited_us).unwrap_or(0.0) + (elapsed_us - busy).max(0.0);
        if window > 0.0 && window >= WINDOW_SHARE * busy && busy > STARVED_SHARE * elapsed_us {
            return Why::ReceiverWindow;
        }
        let acked_bps = grown(|sample| sample.bytes_acked).map(|bytes| bytes * 8e6 / elapsed_us);
        if acked_bps.zip(now.pace_bps).is_some_and(|(got, pace)| got >= PACED_SHARE * pace as f64) {
            return Why::Paced;
        }
        let left_lying = !now.socket_full && now.waiting_bytes > 0;
        if left_lying || starved >= STARVED_SHARE * elapsed_us { Why::Us } else { Why::Network }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A viewer that is a second behind and whose kernel was busy for all of the last second.
    fn slow() -> (Sample, Sample) {
        let before = Sample {
            at: Time::from_millis(10_000),
            behind: Duration::from_secs(1),
            waiting_bytes: 500_000,
            socket_full: true,
            pace_bps: Some(15_000_000),
            bytes_acked: Some(1_000_000),
            busy_us: Some(5_000_000),
            rwnd_limited_us: Some(0),
            sndbuf_limited_us: Some(0),
        };
        let now = Sample {
            at: Time::from_millis(11_000),
            bytes_acked: Some(1_250_000),
            busy_us: Some(6_000_000),
            ..before
        };
        (before, now)
    }

    #[test]
    fn who_is_nearly_live_is_fine_whatever_else() {
        let (before, mut now) = slow();
        now.behind = SLOW_FROM - Duration::from_nanos(1);
        now.rwnd_limited_us = Some(1_000_000);
        assert_eq!(Why::of(&before, &now), Why::Fine);
    }

    #[test]
    fn two_looks_at_one_moment_say_nothing() {
        let (before, _) = slow();
        assert_eq!(Why::of(&before, &before), Why::Fine);
    }

    #[test]
    fn a_shut_window_is_the_receivers() {
        let (before, mut now) = slow();
        now.rwnd_limited_us = Some(600_000);
        assert_eq!(Why::of(&before, &now), Why::ReceiverWindow);
        now.rwnd_limited_us = Some(400_000);
        assert_eq!(Why::of(&before, &now), Why::Network);
    }

    #[test]
    fn a_full_socket_with_an_open_window_is_the_networks() {
        let (before, now) = slow();
        assert_eq!(Why::of(&before, &now), Why::Network);
    }

    #[test]
    fn who_gets_all_that_pacing_allows_is_paced() {
        let (before, mut now) = slow();
        now.bytes_acked = before.bytes_acked.map(|bytes| bytes + 1_600_000);
        assert_eq!(Why::of(&before, &now), Why::Paced);
        now.pace_bps = None;
        assert_eq!(Why::of(&before, &now), Why::Network);
    }

    #[test]
    fn room_that_was_not_used_is_our_doing() {
        // Bytes lie here and the kernel would take them.
        let (before, mut now) = slow();
        now.socket_full = false;
        assert_eq!(Why::of(&before, &now), Why::Us);
        // The kernel ran out of bytes while it was ours to bring more.
        let (before, mut now) = slow();
        now.sndbuf_limited_us = Some(700_000);
        assert_eq!(Why::of(&before, &now), Why::Us);
        // The kernel had nothing to send for most of the time.
        let (before, mut now) = slow();
        now.busy_us = Some(5_300_000);
        now.rwnd_limited_us = Some(200_000);
        assert_eq!(Why::of(&before, &now), Why::Us);
    }

    #[test]
    fn a_kernel_that_does_not_tell_is_guessed_at() {
        let (mut before, mut now) = slow();
        for sample in [&mut before, &mut now] {
            (sample.busy_us, sample.rwnd_limited_us, sample.sndbuf_limited_us) = (None, None, None);
            sample.bytes_acked = None;
        }
        assert_eq!(Why::of(&before, &now), Why::Network);
        now.socket_full = false;
        assert_eq!(Why::of(&before, &now), Why::Us);
    }

    #[test]
    fn counters_that_fall_are_no_reason_to_panic() {
        let (before, now) = slow();
        assert_eq!(Why::of(&now, &Sample { at: now.at + Duration::from_secs(1), ..before }), Why::Us);
    }

    #[test]
    fn names_differ() {
        let names: std::collections::BTreeSet<_> = Why::ALL.iter().map(|why| why.name()).collect();
        assert_eq!(names.len(), Why::ALL.len());
    }
}
