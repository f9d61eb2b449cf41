//! The buffers through which H.264 passes in the transport stream's system target decoder (T-STD): the ideal receiver
//! that a stream must neither overrun nor starve (13818-1 §2.4.2, §2.14.3.1).
//!
//! ```text
//! packets ──► TB 512 bytes ──Rx──► MB ──Rbx (leak method)──► EB ──► decoder, at each unit's DTS, at once
//!               headers go here       PES headers go here
//! ```
//! In: when each packet's bytes arrive, and when each access unit is decoded. Out: [`Findings`]. Levels are computed as
//! those of fluids between the times at which a rate changes. That is exact but for the headers within a packet: their
//! bytes leave TB before its payload.

use crate::bitstream::h264::Sps;
use std::collections::VecDeque;

/// Bytes of the transport buffer (§2.4.2.3).
pub const TRANSPORT_BYTES: f64 = 512.0;
/// The transport buffer must be empty once in this time, seconds (§2.4.2.6).
pub const EMPTY_WITHIN_S: f64 = 1.0;

/// Packets that wait for the end of their unit; a unit of more is no picture, and the model begins anew.
const WAITING_MAX: usize = 1 << 16;
/// Units that wait for their time: ten seconds of 120 a second, the most that may be buffered, and more.
const UNITS_MAX: usize = 2048;
/// Less than this is rounding.
const EPSILON_BYTES: f64 = 1e-6;
/// What may seem missing by rounding.
const TOLERANCE_BYTES: f64 = 0.5;
const PACKET: f64 = 188.0;

/// How large the buffers are and how fast they leak.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sizes {
    /// Bytes of the multiplexing buffer MB.
    pub multiplex_bytes: f64,
    /// Bytes of the elementary stream buffer EB.
    pub elementary_bytes: f64,
    /// Bytes a second out of TB (Rx).
    pub transport_rate: f64,
    /// Bytes a second out of MB (Rbx).
    pub multiplex_rate: f64,
    /// The stream says that big pictures may come late (`low_delay_hrd_flag`): EB may run dry.
    pub low_delay: bool,
}

impl Sizes {
    /// Those of an H.264 byte stream (§2.14.3.1), by profile and level, and by the rate and buffer of NAL units where
    /// the sequence parameter set says them. `None` for a level that H.264 table A-1 does not have.
    pub fn of_h264(sps: &Sps) -> Option<Sizes> {
        let (max_rate, max_buffer) = level_limits(sps)?;
        let factor = match sps.profile {
            100 => 1500.0,
            110 => 3600.0,
            122 | 244 | 44 => 4800.0,
            _ => 1200.0,
        };
        let (max_rate, max_buffer) = (max_rate * factor, max_buffer * factor);
        let buffer = sps.hrd.map_or(max_buffer, |hrd| hrd.buffer_bits as f64);
        // For the packets' own overhead, and for what a multiplexer cannot place at its time.
        let overhead = max_rate.max(2e6) / 750.0;
        let multiplexing = 0.004 * max_rate.max(2e6);
        let transport_rate = sps.hrd.map_or(max_rate, |hrd| 1.2 * hrd.bitrate_bps as f64);
        Some(Sizes {
            multiplex_bytes: (multiplexing + overhead + (max_buffer - buffer).max(0.0)) / 8.0,
            elementary_bytes: buffer / 8.0,
            transport_rate: transport_rate / 8.0,
            multiplex_rate: max_rate / 8.0,
            low_delay: sps.low_delay,
        })
    }
}

/// MaxBR and MaxCPB of H.264 table A-1.
fn level_limits(sps: &Sps) -> Option<(f64, f64)> {
    let is_1b = sps.level == 9 || sps.level == 11 && sps.constraints & 0x10 != 0 && sps.profile < 100;
    Some(match sps.level {
        _ if is_1b => (128.0, 350.0),
        10 => (64.0, 175.0),
        11 => (192.0, 500.0),
        12 => (384.0, 1000.0),
        13 => (768.0, 2000.0),
        20 => (2000.0, 2000.0),
        21 | 22 => (4000.0, 4000.0),
        30 => (10_000.0, 10_000.0),
        31 => (14_000.0, 14_000.0),
        32 => (20_000.0, 20_000.0),
        40 => (20_000.0, 25_000.0),
        41 | 42 => (50_000.0, 62_500.0),
        50 => (135_000.0, 135_000.0),
        51 | 52 | 60 => (240_000.0, 240_000.0),
        61 => (480_000.0, 480_000.0),
        62 => (800_000.0, 800_000.0),
        _ => return None,
    })
}

/// How often a buffer did what it must not.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Breach {
    /// Times.
    pub count: u64,
    /// By how much at most: bytes, or seconds of [`Findings::not_emptied`].
    pub worst: f64,
}

impl Breach {
    fn note(&mut self, again: bool, by: f64) {
        self.count += u64::from(again);
        self.worst = self.worst.max(by);
    }
}

/// What the buffers have done.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Findings {
    /// Access units that were decoded.
    pub units: u64,
    /// TB held more than 512 bytes.
    pub transport_overflow: Breach,
    /// TB was not empty for longer than a second.
    pub not_emptied: Breach,
    /// MB held more than its size.
    pub multiplex_overflow: Breach,
    /// A unit was not whole in EB at its decoding time.
    pub underflow: Breach,
    /// The most that TB, MB and EB held, bytes.
    pub highest_bytes: [f64; 3],
}

#[derive(Clone, Copy, Debug)]
struct Arrival {
    begin_s: f64,
    end_s: f64,
    payload_bytes: f64,
    /// Bytes of the elementary stream before it.
    offset: u64,
}

#[derive(Clone, Copy, Debug)]
struct Unit {
    decode_s: f64,
    bytes: f64,
}

/// The model. Times are seconds on one scale and do not run back between resets. Some MiB at most.
#[derive(Clone, Debug, Default)]
pub struct Tstd {
    sizes: Option<Sizes>,
    waiting: VecDeque<Arrival>,
    units: VecDeque<Unit>,
    /// Bytes of the elementary stream in all packets and in all complete units so far.
    arrived: u64,
    complete: u64,
    /// Where the transport buffer's time stands, and how full it is.
    transport_s: f64,
    transport: f64,
    empty_s: Option<f64>,
    /// The same behind it. EB's level is below zero where a unit lacked bytes that then go at once.
    multiplex_s: f64,
    multiplex: f64,
    elementary: f64,
    is_over: [bool; 3],
    findings: Findings,
}

impl Tstd {
    /// Empty buffers of unknown size.
    pub fn new() -> Tstd {
        Tstd::default()
    }

    /// The buffers have these sizes from now on.
    pub fn resize(&mut self, sizes: Sizes) {
        self.sizes = Some(sizes);
    }

    /// What the buffers have done so far.
    pub fn findings(&self) -> Findings {
        self.findings
    }

    /// Empties the buffers, as after loss or a jump of the clock; sizes and findings stay. The next packet begins an
    /// access unit.
    pub fn reset(&mut self) {
        *self = Tstd { sizes: self.sizes, findings: self.findings, ..Tstd::default() };
    }

    /// A packet arrives from `begin_s` to `end_s`, with `payload_bytes` of the elementary stream (0 to 184) at its end.
    /// To be called in their order.
    pub fn packet(&mut self, begin_s: f64, end_s: f64, payload_bytes: u32) {
        if self.waiting.len() >= WAITING_MAX {
            self.reset();
        }
        let payload = f64::from(payload_bytes);
        self.waiting.push_back(Arrival { begin_s, end_s, payload_bytes: payload, offset: self.arrived });
        self.arrived += u64::from(payload_bytes);
        self.run();
    }

    /// The next access unit is complete: it has `bytes` and is decoded at `decode_s`.
    pub fn unit(&mut self, decode_s: f64, bytes: u64) {
        self.complete += bytes;
        if self.units.len() >= UNITS_MAX {
            self.units.pop_front();
        }
        self.units.push_back(Unit { decode_s, bytes: bytes as f64 });
        self.run();
    }

    /// The stream has ended: what is complete is decoded at its time.
    pub fn finish(&mut self) {
        if let (Some(sizes), Some(last)) = (self.sizes, self.units.back()) {
            self.flow(sizes, self.multiplex_s.max(last.decode_s), 0.0);
        }
    }

    /// Lets arrive what belongs to complete units: of others it is not known when they are decoded.
    fn run(&mut self) {
        while let Some(&arrival) = self.waiting.front().filter(|arrival| arrival.offset < self.complete) {
            self.waiting.pop_front();
            match self.sizes {
                Some(sizes) => self.arrive(sizes, arrival),
                None => self.forget(arrival),
            }
        }
    }

    /// Of unknown size: what arrives, and the units that it completes, pass by.
    fn forget(&mut self, arrival: Arrival) {
        let mut passed = arrival.payload_bytes;
        while let Some(unit) = self.units.front_mut().filter(|_| passed > 0.0) {
            let take = passed.min(unit.bytes);
            passed -= take;
            unit.bytes -= take;
            if unit.bytes <= 0.0 {
                self.units.pop_front();
            }
        }
    }

    fn arrive(&mut self, sizes: Sizes, arrival: Arrival) {
        let Arrival { begin_s, end_s, payload_bytes, .. } = arrival;
        let rate = sizes.transport_rate;
        let before = (self.transport - rate * (begin_s - self.transport_s).max(0.0)).max(0.0);
        let after = (before + PACKET - rate * (end_s - begin_s)).max(0.0);
        self.watch_transport(before, after, begin_s, end_s);
        (self.transport, self.transport_s) = (after, end_s);
        // What was before it leaves first; then its header, then its payload.
        let leaves_s = begin_s + before / rate;
        let left_s = end_s.max(leaves_s + PACKET / rate);
        let payload_s = left_s - (left_s - leaves_s) * payload_bytes / PACKET;
        self.flow(sizes, payload_s, 0.0);
        if payload_bytes > 0.0 {
            self.flow(sizes, left_s, payload_bytes / (left_s - payload_s).max(1e-12));
        }
    }

    fn watch_transport(&mut self, before: f64, after: f64, begin_s: f64, end_s: f64) {
        let over = after > TRANSPORT_BYTES + EPSILON_BYTES;
        if over {
            self.findings.transport_overflow.note(!self.is_over[0], after - TRANSPORT_BYTES);
        }
        self.is_over[0] = over;
        self.findings.highest_bytes[0] = self.findings.highest_bytes[0].max(after);
        if before <= EPSILON_BYTES {
            self.empty_s = Some(begin_s);
        }
        if after <= EPSILON_BYTES {
            self.empty_s = Some(end_s);
        }
        let full = end_s - *self.empty_s.get_or_insert(begin_s);
        if full > EMPTY_WITHIN_S {
            self.findings.not_emptied.note(!self.is_over[1], full);
        }
        self.is_over[1] = full > EMPTY_WITHIN_S;
    }

    /// Moves MB and EB on to `until_s`, while `rate` bytes a second enter MB; units are decoded at their times.
    fn flow(&mut self, sizes: Sizes, until_s: f64, rate: f64) {
        loop {
            let due = self.units.front().copied().filter(|unit| unit.decode_s <= until_s);
            let stop_s = due.map_or(until_s, |unit| unit.decode_s.max(self.multiplex_s));
            self.fill(sizes, (stop_s - self.multiplex_s).max(0.0), rate);
            self.multiplex_s = self.multiplex_s.max(stop_s);
            let Some(unit) = due else { return };
            self.units.pop_front();
            self.decode(sizes, unit);
        }
    }

    /// Lets `seconds` pass in which nothing is decoded.
    fn fill(&mut self, sizes: Sizes, mut seconds: f64, rate: f64) {
        // MB runs dry once and EB fills once at most: four stretches.
        for _ in 0..4 {
            if seconds <= 0.0 {
                break;
            }
            let room = sizes.elementary_bytes - self.elementary;
            let leak = if room <= EPSILON_BYTES {
                0.0
            } else if self.multiplex > EPSILON_BYTES {
                sizes.multiplex_rate
            } else {
                rate.min(sizes.multiplex_rate)
            };
            let mut step = seconds;
            if leak > 0.0 {
                step = step.min(room / leak);
            }
            if leak > rate && self.multiplex > EPSILON_BYTES {
                step = step.min(self.multiplex / (leak - rate));
            }
            self.elementary += leak * step;
            self.multiplex += (rate - leak) * step;
            if self.multiplex <= EPSILON_BYTES && leak > 0.0 {
                // Nothing is lost to rounding.
                self.elementary += self.multiplex;
                self.multiplex = 0.0;
            }
            seconds -= step;
            self.watch_multiplex(sizes);
        }
    }

    fn watch_multiplex(&mut self, sizes: Sizes) {
        let by = self.multiplex - sizes.multiplex_bytes;
        if by > TOLERANCE_BYTES {
            self.findings.multiplex_overflow.note(!self.is_over[2], by);
        }
        self.is_over[2] = by > TOLERANCE_BYTES;
        let [_, multiplex, elementary] = &mut self.findings.highest_bytes;
        *multiplex = multiplex.max(self.multiplex);
        *elementary = elementary.max(self.elementary);
    }

    fn decode(&mut self, sizes: Sizes, unit: Unit) {
        self.findings.units += 1;
        self.elementary -= unit.bytes;
        if self.elementary < -TOLERANCE_BYTES && !sizes.low_delay {
            self.findings.underflow.note(true, -self.elementary);
        }
    }
}

#[cfg(test)]
#[path = "tstd_tests.rs"]
mod tests;
