//! Traces from a stranger: whatever is taken can be served by a link, in a bounded number of steps.

use glassline_media::Time;
use glassline_transport::emulator::{Link, LinkConfig, Trace};
use std::sync::Arc;

/// Reads `data` as a trace and has a few packets go over it. Panics where one is lost.
pub fn run(data: &[u8]) {
    let Ok(trace) = Trace::parse(data) else { return };
    assert!(trace.opportunities() > 0 && !trace.period().is_zero() && trace.mean_bits_per_second() > 0.0);
    let mut link = Link::new(LinkConfig::trace(Arc::new(trace)), 1, Time::ZERO).expect("no limits are set");
    for number in 0..8u8 {
        link.push(Time::from_millis(u64::from(number) * 7), 200 * usize::from(number), number);
    }
    let mut out = Vec::new();
    // Each round of a trace serves 1504 bytes at least.
    for _ in 0..64 {
        let Some(now) = link.poll_timeout() else { break };
        out.extend(std::iter::from_fn(|| link.poll(now)).map(|delivered| delivered.packet));
    }
    assert_eq!(out, [0, 1, 2, 3, 4, 5, 6, 7]);
}
