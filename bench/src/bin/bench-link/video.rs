//! The load of a link that is too narrow: pictures 30 times a second with a key frame four times as large each 60, and
//! small reliable messages 20 times a second. The sender says in each when it was made; the receiver judges.

use anyhow::{Context, Result};
use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::carrier::{Carrier, Lane};
use crate::end::{come_up, finish, now_ns, take_leave};

const PICTURES: f64 = 30.0;
const KEY_EVERY: u64 = 60;
const KEY_SIZE: f64 = 4.0;
const MESSAGE_EVERY: Duration = Duration::from_millis(50);
const MESSAGE: usize = 300;
/// How long what was handed over may take to arrive at the end.
const LAST: Duration = Duration::from_secs(15);
const SILENCE: Duration = Duration::from_secs(10);

/// Number, time of making, when the link began.
const HEAD: usize = 24;

fn message(number: u64, begin: u64, size: usize) -> Bytes {
    let mut bytes = BytesMut::with_capacity(size.max(HEAD));
    bytes.put_u64(number);
    bytes.put_u64(now_ns());
    bytes.put_u64(begin);
    bytes.resize(size.max(HEAD), 0x5A);
    bytes.freeze()
}

/// Sends for `seconds`; pictures have `bits` a second. Gives how many messages, pictures and bytes there were.
/// `link_begin` is when the link began, nanoseconds: the judge reckons blackouts from there.
pub(crate) fn show(
    carrier: &mut dyn Carrier,
    bits: f64,
    seconds: Duration,
    link_begin: u64,
) -> Result<Value> {
    come_up(carrier)?;
    let mean = bits / 8.0 / PICTURES;
    let small = mean * KEY_EVERY as f64 / (KEY_EVERY as f64 - 1.0 + KEY_SIZE);
    let begin = Instant::now();
    let (mut pictures, mut messages, mut bytes) = (0u64, 0u64, 0usize);
    let picture_at = |number: u64| Duration::from_secs_f64(number as f64 / PICTURES);
    let message_at = |number: u64| MESSAGE_EVERY * number as u32 + Duration::from_millis(7);
    while begin.elapsed() < seconds && !carrier.is_closed() {
        if picture_at(pictures) <= begin.elapsed() {
            let size = if pictures.is_multiple_of(KEY_EVERY) { small * KEY_SIZE } else { small };
            carrier.send(Lane::Unreliable, &message(pictures, link_begin, size as usize))?;
            bytes += size as usize;
            pictures += 1;
        }
        if message_at(messages) <= begin.elapsed() {
            // A full queue counts as a loss.
            carrier.send(Lane::Reliable, &message(messages, link_begin, MESSAGE))?;
            bytes += MESSAGE;
            messages += 1;
        }
        let next = picture_at(pictures).min(message_at(messages));
        carrier.drive(next.saturating_sub(begin.elapsed()))?;
    }
    finish(carrier, LAST)?;
    // What is acknowledged to TCP's sender need not be read yet, and QUIC's end takes a round trip.
    let linger = Instant::now();
    while linger.elapsed() < Duration::from_secs(1) {
        carrier.drive(Duration::from_millis(20))?;
    }
    take_leave(carrier)?;
    Ok(json!({"messages": messages, "pictures": pictures, "bytes": bytes}))
}

/// What came.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    /// Of each message: its number, milliseconds on the way.
    delays: Vec<(u64, f64)>,
    /// Of each picture shown: its number, when it was shown and when it was made, nanoseconds.
    shown: Vec<(u64, u64, u64)>,
    begin: u64,
}

impl Judge {
    fn take(&mut self, lane: Lane, bytes: &[u8]) {
        let field =
            |at: usize| bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes);
        let (Some(number), Some(made), Some(begin)) = (field(0), field(8), field(16)) else { return };
        let now = now_ns();
        self.begin = begin;
        match lane {
            Lane::Reliable => {
                if !self.delays.iter().rev().any(|delay| delay.0 == number) {
                    self.delays.push((number, now.saturating_sub(made) as f64 / 1e6));
                }
            }
            // An older picture than the one shown is not shown.
            Lane::Unreliable if self.shown.last().is_none_or(|last| last.0 < number) => {
                self.shown.push((number, now, made));
            }
            Lane::Unreliable => {}
        }
    }

    /// `blackout`: when a time without a link ended, after the link's begin.
    fn verdict(mut self, blackout: Option<Duration>) -> Value {
        let mut ages = Vec::new();
        for pair in self.shown.windows(2) {
            let ((_, at, made), (_, next, _)) = (pair[0], pair[1]);
            ages.extend((at..next).step_by(1_000_000).map(|now| (now - made) as f64 / 1e6));
        }
        let after = blackout.and_then(|end| {
            let end = self.begin + end.as_nanos() as u64;
            self.shown.iter().find(|shown| shown.1 > end).map(|shown| (shown.1 - end) as f64 / 1e6)
        });
        let mut delays: Vec<f64> = self.delays.drain(..).map(|delay| delay.1).collect();
        json!({
            "messages": delays.len(), "shown": self.shown.len(), "first_after": after,
            "delay_p50": quantile(&mut delays, 0.5), "delay_p95": quantile(&mut delays, 0.95),
            "delay_p99": quantile(&mut delays, 0.99),
            "age_p50": quantile(&mut ages, 0.5), "age_p95": quantile(&mut ages, 0.95),
        })
    }
}

/// The value below which a share of the values lies.
fn quantile(values: &mut [f64], share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(((values.len().max(1) - 1) as f64 * share).round() as usize).copied()
}

/// Receives to the end, and says how it was.
pub(crate) fn judge(carrier: &mut dyn Carrier, blackout: Option<Duration>) -> Result<Value> {
    let (mut judge, mut last) = (Judge::default(), Instant::now());
    while !carrier.is_closed() && last.elapsed() < SILENCE {
        carrier.drive(Duration::from_millis(50))?;
        for lane in [Lane::Reliable, Lane::Unreliable] {
            while let Some(bytes) = carrier.receive(lane) {
                judge.take(lane, &bytes);
                last = Instant::now();
            }
        }
    }
    Ok(judge.verdict(blackout))
}

/// Writes a result so that it is there as a whole or not at all.
pub(crate) fn write_result(file: &Path, value: &Value) -> Result<()> {
    let part = file.with_extension("part");
    fs::write(&part, value.to_string()).with_context(|| part.display().to_string())?;
    fs::rename(&part, file).with_context(|| file.display().to_string())
}

/// Waits for a result and reads it.
pub(crate) fn read_result(file: &Path, timeout: Duration) -> Result<Value> {
    let begin = Instant::now();
    while !file.exists() && begin.elapsed() < timeout {
        std::thread::sleep(Duration::from_millis(20));
    }
    let text = fs::read_to_string(file).with_context(|| format!("no result {}", file.display()))?;
    serde_json::from_str(&text).with_context(|| file.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_is_judged() {
        let mut judge = Judge::default();
        let old = message(1, 5, 100);
        judge.take(Lane::Reliable, &message(0, 5, 300));
        judge.take(Lane::Reliable, &message(0, 5, 300));
        judge.take(Lane::Unreliable, &message(2, 5, 100));
        judge.take(Lane::Unreliable, &old);
        judge.take(Lane::Unreliable, &message(3, 5, 100));
        judge.take(Lane::Unreliable, b"short");
        let verdict = judge.verdict(None);
        assert_eq!(
            (verdict["messages"].as_u64(), verdict["shown"].as_u64()),
            (Some(1), Some(2)),
            "{verdict}"
        );
        assert!(verdict["delay_p99"].as_f64().is_some_and(|delay| delay < 1000.0), "{verdict}");
        assert!(verdict["first_after"].is_null());
        assert_eq!(quantile(&mut [3.0, 1.0, 2.0], 0.5), Some(2.0));
        assert_eq!(quantile(&mut [], 0.5), None);
    }
}
