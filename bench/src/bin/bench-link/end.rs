//! One end of a measurement of speed: a process of its own on a core of its own, which prints one line of JSON.

use anyhow::{Result, ensure};
use bytes::Bytes;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

use crate::carrier::{Carrier, Lane, Load};

/// Processor time of this process so far, all threads, user and system.
pub(crate) fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Now, by a clock that all processes of this machine share.
pub(crate) fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// What a sender needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) bytes: f64,
    pub(crate) cpu: f64,
}

/// What a receiver got between its first and its last message, and altogether.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    pub(crate) bytes: f64,
    pub(crate) total: f64,
    pub(crate) seconds: f64,
    pub(crate) cpu: f64,
}

impl Sent {
    pub(crate) fn json(self) -> Value {
        json!({"bytes": self.bytes, "cpu": self.cpu})
    }
}

impl Received {
    pub(crate) fn json(self) -> Value {
        json!({"bytes": self.bytes, "total": self.total, "seconds": self.seconds, "cpu": self.cpu})
    }
}

/// Counts what comes.
#[derive(Debug)]
pub(crate) struct Meter {
    begin: Instant,
    first: Option<(Instant, f64, u64)>,
    last: Option<(Instant, f64)>,
    bytes: u64,
}

/// How long the first message may take, and how long nothing may come after it.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(20);
const SILENCE: Duration = Duration::from_secs(3);

impl Meter {
    pub(crate) fn new() -> Meter {
        Meter { begin: Instant::now(), first: None, last: None, bytes: 0 }
    }

    pub(crate) fn count(&mut self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let (now, cpu) = (Instant::now(), cpu_seconds());
        self.first.get_or_insert((now, cpu, bytes));
        self.last = Some((now, cpu));
        self.bytes += bytes;
    }

    pub(crate) fn is_over(&self) -> bool {
        self.last.map_or(self.begin.elapsed() > RECEIVE_TIMEOUT, |last| last.0.elapsed() > SILENCE)
    }

    pub(crate) fn received(&self) -> Received {
        let nothing = Received { bytes: 0.0, total: 0.0, seconds: 0.0, cpu: 0.0 };
        let Some((first, last)) = self.first.zip(self.last) else { return nothing };
        Received {
            bytes: (self.bytes - first.2) as f64,
            total: self.bytes as f64,
            seconds: (last.0 - first.0).as_secs_f64(),
            cpu: last.1 - first.1,
        }
    }
}

fn lane(load: Load) -> Lane {
    if load == Load::Unreliable { Lane::Unreliable } else { Lane::Reliable }
}

/// Waits until messages pass.
pub(crate) fn come_up(carrier: &mut dyn Carrier) -> Result<()> {
    let begin = Instant::now();
    while !carrier.is_up() {
        ensure!(begin.elapsed() < RECEIVE_TIMEOUT, "no connection");
        carrier.drive(Duration::from_millis(20))?;
    }
    Ok(())
}

/// Waits until all that was handed over has arrived, and ends the connection.
pub(crate) fn finish(carrier: &mut dyn Carrier, timeout: Duration) -> Result<()> {
    let begin = Instant::now();
    while !carrier.is_idle() && !carrier.is_closed() && begin.elapsed() < timeout {
        carrier.drive(Duration::from_millis(1))?;
    }
    Ok(())
}

/// Says that it is over, a few times.
pub(crate) fn take_leave(carrier: &mut dyn Carrier) -> Result<()> {
    carrier.close()?;
    for _ in 0..10 {
        carrier.drive(Duration::from_millis(10))?;
    }
    Ok(())
}

/// Messages handed over between looks at the socket and the clock: so many, and no more bytes than this, but for one
/// message.
const BATCH: usize = 512;
const BATCH_BYTES: usize = 64 << 20;

/// Sends messages of `size` bytes for `seconds`.
pub(crate) fn send(carrier: &mut dyn Carrier, load: Load, size: usize, seconds: Duration) -> Result<Sent> {
    come_up(carrier)?;
    let (message, lane) = (Bytes::from(vec![0x5A; size]), lane(load));
    let batch = BATCH.min(BATCH_BYTES / size.max(1)).max(1);
    let (mut messages, begin, cpu) = (0u64, Instant::now(), cpu_seconds());
    while begin.elapsed() < seconds && !carrier.is_closed() {
        let mut taken = 0;
        while taken < batch && carrier.send(lane, &message)? {
            taken += 1;
        }
        messages += taken as u64;
        carrier.drive(if taken == batch { Duration::ZERO } else { Duration::from_millis(5) })?;
    }
    finish(carrier, RECEIVE_TIMEOUT)?;
    let cpu = cpu_seconds() - cpu;
    take_leave(carrier)?;
    Ok(Sent { bytes: messages as f64 * size as f64, cpu })
}

/// Counts messages of `size` bytes until the sender has ended.
pub(crate) fn receive(carrier: &mut dyn Carrier, load: Load, size: usize) -> Result<Received> {
    println!("ready");
    let (lane, mut meter) = (lane(load), Meter::new());
    while !carrier.is_closed() && !meter.is_over() {
        carrier.drive(Duration::from_millis(20))?;
        let mut messages = 0;
        while carrier.receive(lane).is_some() {
            messages += 1;
        }
        meter.count(messages * size as u64);
    }
    Ok(meter.received())
}
