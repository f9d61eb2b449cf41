//! Published controllers of other systems, for comparisons: each after its own description, in a file of its own.
//!
//! * [`gcc`]: Google Congestion Control (draft-ietf-rmcat-gcc-02), the gradient of the delay.
//! * [`scream`]: SCReAM v2 (draft-johansson-ccwg-rfc8298bis-screamv2), a window by the queue's delay, losses and marks.
//! * [`dither`]: NDTC (draft-ageneau-ccwg-ndtc), the dispersion of frames that leave over dithered times.
//!
//! All three are made for an encoder that is told a bit rate. Here the application asks how many bytes its next picture
//! may have ([`Rival::room`]), and what it may hand over follows from the rate: see [`Ahead`].

mod dither;
mod gcc;
mod scream;

use super::{Controller, FIXED_WINDOW, Feedback};
use dither::Dither;
use gcc::Gcc;
use glassline_media::Time;
use scream::Scream;
use std::time::Duration;

/// The highest rate that any of them aims at, bytes a second: NDTC wants a bound that the video can reach, and for the
/// others it keeps a rate that nothing contradicts within what a clock can pace.
const MOST_RATE: f64 = 12_500_000.0;
/// What left ahead of the target rate counts up to what this time allows. Packets that were given up in an outage and come
/// after all would otherwise count as sent once more.
const MOST_AHEAD: Duration = Duration::from_millis(100);

/// What a controller decides, in bytes a second and bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rates {
    /// What the application may send on average.
    target: f64,
    /// At which rate packets leave.
    pacing: f64,
    /// What may be under way.
    window: f64,
    /// What the path is believed to carry.
    carried: f64,
}

impl Rates {
    /// For a controller without a window of its own: what the sender remembers bounds it.
    fn without_window(target: f64, pacing: f64, carried: f64, packet: f64) -> Rates {
        let window = (target * FIXED_WINDOW.as_secs_f64()).max(12.0 * packet);
        Rates { target, pacing, window, carried }
    }
}

#[derive(Clone, Debug)]
enum Algorithm {
    Gcc(Gcc),
    Scream(Scream),
    Dither(Dither),
}

/// One of the published controllers, and what the application has sent by it.
#[derive(Clone, Debug)]
pub(super) struct Rival {
    algorithm: Algorithm,
    ahead: Ahead,
    /// Bytes of a packet.
    packet: f64,
    /// Packets newly told to be marked, since the last feedback, and whether by a router of L4S.
    marked: (u64, bool),
    rates: Rates,
}

impl Rival {
    /// The state of `controller` before anything is known; `None` where it is none of these.
    pub(super) fn new(now: Time, packet_bytes: usize, controller: Controller) -> Option<Box<Rival>> {
        let packet = packet_bytes as f64;
        let algorithm = match controller {
            Controller::Adaptive | Controller::Salsify { .. } | Controller::Fixed(_) => return None,
            Controller::Gcc => Algorithm::Gcc(Gcc::new(now)),
            Controller::Scream => Algorithm::Scream(Scream::new(now)),
            Controller::Dither => Algorithm::Dither(Dither::default()),
        };
        let rates = algorithm.rates(packet);
        let ahead = Ahead { at: now, ..Ahead::default() };
        Some(Box::new(Rival { algorithm, ahead, packet, marked: (0, false), rates }))
    }

    /// The handshake took so long.
    pub(super) fn handle_handshake(&mut self, rtt: Duration) {
        if let Algorithm::Scream(scream) = &mut self.algorithm {
            scream.handle_handshake(rtt);
        }
        self.rates = self.algorithm.rates(self.packet);
    }

    /// Routers have marked `packets` more of ours; see [`super::Capacity::handle_marks`].
    pub(super) fn handle_marks(&mut self, packets: u64, scalable: bool) {
        self.marked = (self.marked.0.saturating_add(packets), scalable);
    }

    /// Takes what an acknowledgement told, of packets of `packet_bytes`.
    pub(super) fn handle_feedback(&mut self, now: Time, feedback: &Feedback, packet_bytes: usize) {
        self.packet = packet_bytes as f64;
        self.ahead.handle_feedback(now, feedback, self.rates.target);
        let marks = std::mem::take(&mut self.marked);
        match &mut self.algorithm {
            Algorithm::Gcc(gcc) => gcc.handle_feedback(now, feedback, self.packet),
            Algorithm::Scream(scream) => scream.handle_feedback(now, feedback, self.packet, marks),
            Algorithm::Dither(dither) => dither.handle_feedback(now, feedback, self.packet, marks),
        }
        self.rates = self.algorithm.rates(self.packet);
    }

    /// At which rate packets leave, bytes a second.
    pub(super) fn pacing(&self) -> f64 {
        self.rates.pacing
    }

    /// How many bytes may be under way.
    pub(super) fn window(&self) -> f64 {
        self.rates.window
    }

    /// What the path is believed to carry, bytes a second.
    pub(super) fn carried(&self) -> f64 {
        self.rates.carried
    }

    /// How many bytes may be handed over so that the target rate is kept over `delay`, while `in_flight` bytes are under
    /// way.
    pub(super) fn room(&self, now: Time, delay: Duration, in_flight: u64) -> f64 {
        self.rates.target * delay.as_secs_f64() - self.ahead.bytes(now, in_flight, self.rates.target)
    }
}

impl Algorithm {
    fn rates(&self, packet: f64) -> Rates {
        match self {
            Algorithm::Gcc(gcc) => gcc.rates(packet),
            Algorithm::Scream(scream) => scream.rates(),
            Algorithm::Dither(dither) => dither.rates(packet),
        }
    }
}

/// What has left ahead of the target rate: a bucket that runs out at that rate. Packets leave faster than the target in two
/// of the three, and a picture may have what more than its own time allows: without this the mean rate would be above the
/// target, which in the systems that these controllers come from the encoder's rate control keeps.
#[derive(Clone, Copy, Debug, Default)]
struct Ahead {
    bytes: f64,
    at: Time,
    /// Bytes under way then.
    in_flight: u64,
}

impl Ahead {
    /// What is ahead at `now`, while `in_flight` bytes are under way, at `target` bytes a second.
    fn bytes(&self, now: Time, in_flight: u64, target: f64) -> f64 {
        let sent = in_flight.saturating_sub(self.in_flight) as f64;
        let due = target * now.since(self.at).as_secs_f64();
        (self.bytes + sent - due).clamp(0.0, target * MOST_AHEAD.as_secs_f64())
    }

    fn handle_feedback(&mut self, now: Time, feedback: &Feedback, target: f64) {
        let settled = feedback.acked_bytes.saturating_add(feedback.lost_bytes);
        self.bytes = self.bytes(now, feedback.in_flight.saturating_add(settled), target);
        (self.at, self.in_flight) = (now, feedback.in_flight);
    }
}

#[cfg(test)]
mod plant;
#[cfg(test)]
#[path = "rivals_tests.rs"]
mod tests;
