//! A congestion controller for QUIC that goes by the queue's delay, so that the peer is used as well as it can be: a
//! window of what was delivered in the least round trip and a little more.

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory};
use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The queue's delay that is aimed at.
const TARGET: Duration = Duration::from_millis(8);
const INITIAL_PACKETS: u64 = 10;
const LEAST_PACKETS: u64 = 4;

#[derive(Clone, Debug)]
pub(crate) struct DelayConfig;

impl ControllerFactory for DelayConfig {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        Box::new(Delay {
            packet: u64::from(mtu),
            window: INITIAL_PACKETS * u64::from(mtu),
            starting: true,
            round: now,
            least: Duration::MAX,
        })
    }
}

#[derive(Clone, Debug)]
struct Delay {
    packet: u64,
    window: u64,
    starting: bool,
    /// When the present round trip began, and the least round trip in it.
    round: Instant,
    least: Duration,
}

impl Controller for Delay {
    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, limited: bool, rtt: &RttEstimator) {
        self.least = self.least.min(now - sent);
        if self.starting && !limited {
            self.window += bytes;
        }
        if now - self.round < rtt.get() {
            return;
        }
        let (least, empty) = (std::mem::replace(&mut self.least, Duration::MAX), rtt.min());
        self.round = now;
        if least > empty + TARGET {
            // What fits into the empty path and the queue that is wished.
            let share = (empty + TARGET).as_secs_f64() / least.as_secs_f64();
            self.window = (self.window as f64 * share) as u64;
            self.starting = false;
        } else if !limited && !self.starting {
            self.window += self.packet;
        }
        self.window = self.window.max(LEAST_PACKETS * self.packet);
    }

    fn on_congestion_event(&mut self, _: Instant, _: Instant, persistent: bool, _: u64) {
        // A lost packet alone does not mean a full queue: that would have shown as delay.
        self.starting = false;
        if persistent {
            self.window = LEAST_PACKETS * self.packet;
        }
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.packet = u64::from(mtu);
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        INITIAL_PACKETS * self.packet
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
