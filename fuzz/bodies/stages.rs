//! When pictures pass, of any transport stream, and what a viewer may report.
//!
//! The first byte chooses: 0, and the rest is the body of a report; else how the rest, a transport stream, is chopped.

use glassline_delivery::stream::{Backlog, FlushPolicy, Moment, Mux, Pacing, Prebuffer, Settings, Stream};
use glassline_delivery::telemetry::stages::{STEPS, ViewerFigures, ViewerReport};
use glassline_media::{Time, Utc};
use std::time::Duration;

/// The longest that what is told may be.
const PICTURES_MAX: usize = 1200;

/// Panics where a promise is broken.
pub fn run(data: &[u8]) {
    match data.split_first() {
        None => {}
        Some((0, body)) => report(body),
        Some((&choice, bytes)) => pass(bytes, 1 + usize::from(choice) * 7),
    }
}

fn report(body: &[u8]) {
    let Ok(report) = ViewerReport::parse(body) else { return };
    let mut figures = ViewerFigures::default();
    for second in 0..100 {
        figures.add(&report, Time::from_millis(second * 1000));
    }
    let parts = figures.parts().count();
    let steps = figures.steps(Time::from_millis(100_000));
    assert!(steps.iter().all(|step| step.parts.len() == parts && step.reports == 10));
    assert_eq!(steps.len(), if parts == 0 { 0 } else { 10 });
}

fn pass(bytes: &[u8], chop: usize) {
    let backlog = Backlog { time: Duration::from_secs(1), bytes: 1 << 20 };
    let settings =
        Settings { backlog, flush: FlushPolicy::Frame, pacing: Pacing::Off, prebuffer: Prebuffer::NONE };
    let mut stream = Stream::new(Mux::MpegTs, settings, Time::ZERO);
    stream.begin_session(Time::ZERO);
    let mut now = Time::from_millis(1000);
    for (number, part) in bytes.chunks(chop).enumerate() {
        now += Duration::from_millis(3);
        let _ = stream.push(part, now, &mut |_| {});
        if stream.wants_moment() && number % 3 != 0 {
            let utc = Utc::from_nanos(now.as_nanos() + 1_700_000_000_000_000_000);
            stream.pictures_flushed(Moment { at: now, utc });
        }
        let (head, end) = (stream.head(), stream.unsent_end());
        if end <= head && number % 2 == 0 {
            stream.pictures_sent(head / 2, head, now);
            assert!(stream.unsent_end() > head, "who has all waits for nothing");
        }
    }
    now += Duration::from_secs(1);
    let told: Vec<_> = stream.passed_pictures(now).copied().collect();
    assert!(told.len() <= PICTURES_MAX);
    for picture in &told {
        let stages = [Some(picture.first_byte), Some(picture.received), Some(picture.flushed), picture.sent];
        assert!(stages.iter().flatten().is_sorted(), "{picture:?}");
    }
    let figures = stream.relay_figures().expect("it is MPEG-TS");
    assert!(figures.steps(now).len() <= STEPS);
}
