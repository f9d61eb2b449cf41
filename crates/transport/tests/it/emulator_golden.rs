//! The emulator beside Mahimahi: what a real `mm-link` wrote down, line by line.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use glassline_media::Time;
use glassline_test_support::{shared, skip};
use glassline_transport::emulator::{Event, Link, LinkConfig, Queue, Trace};
use std::io::Read;
use std::sync::Arc;

/// Feeds a log's arrivals to a link and returns its departures and drops in the log's own form.
fn replay(log: &str, link: &mut Link<()>, base: Time) -> String {
    link.record_events();
    let (mut ours, mut last) = (String::new(), base);
    let mut drain = |link: &mut Link<()>| {
        while let Some(event) = link.poll_event() {
            if !matches!(event, Event::Opportunity { .. }) {
                event.write_mahimahi(base, &mut ours);
            }
        }
    };
    for line in log.lines() {
        let mut words = line.split(' ');
        let at: u64 = words.next().unwrap().parse().unwrap();
        last = Time::from_millis(at);
        if words.next() == Some("+") {
            link.push(last, words.next().unwrap().parse().unwrap(), ());
        }
        drain(link);
    }
    link.advance(last);
    drain(link);
    ours
}

#[test]
fn every_departure_and_drop_of_a_real_run_is_reproduced() {
    let name = "every_departure_and_drop_of_a_real_run_is_reproduced";
    let golden = shared("traces/golden/mmlink-verizon-short-up-droptail256.log.gz");
    let (Some(golden), Some(trace)) = (golden, shared("traces/Verizon-LTE-short.up")) else {
        return skip(name, "no shared traces");
    };
    let mut log = String::new();
    let packed = std::fs::File::open(golden).unwrap();
    flate2::read::GzDecoder::new(packed).read_to_string(&mut log).unwrap();
    // Its times are since the process began; its trace began at its base.
    let base = log.lines().find_map(|line| line.strip_prefix("# base timestamp: ")).unwrap();
    let start = Time::from_millis(base.parse().unwrap());
    let trace = Trace::parse(&std::fs::read(trace).unwrap()).unwrap();
    let config = LinkConfig::trace(Arc::new(trace)).with_queue(Queue::packets(256));
    let mut link = Link::new(config, 1, start).unwrap();

    let theirs: String =
        log.lines().filter(|line| !line.starts_with('#')).flat_map(|line| [line, "\n"]).collect();
    let ours = replay(&theirs, &mut link, Time::ZERO);
    let count = |log: &str, kind: &str| log.lines().filter(|line| line.contains(kind)).count();
    assert_eq!((count(&theirs, " - "), count(&theirs, " d ")), (10_070, 1_789));
    // Arrivals too: the lines of one millisecond are in the same order.
    for (number, (ours, theirs)) in ours.lines().zip(theirs.lines()).enumerate() {
        assert_eq!(ours, theirs, "line {number}");
    }
    assert_eq!(ours.lines().count(), theirs.lines().count());
}

#[test]
fn every_shared_trace_is_read() {
    let Some(folder) = shared("traces") else {
        return skip("every_shared_trace_is_read", "no shared traces");
    };
    // Mean rates as the traces' page tells them, in Mbit/s.
    for (name, megabits) in [
        ("ATT-LTE-driving.down", 5.19),
        ("TMobile-UMTS-driving.up", 0.95),
        ("Verizon-LTE-short.down", 5.04),
        ("TMobile-LTE-short.down", 16.7),
        ("wifi-0.57mbps-poisson", 0.558),
    ] {
        let trace = Trace::parse(&std::fs::read(folder.join(name)).unwrap()).unwrap();
        let found = trace.mean_bits_per_second() / 1e6;
        assert!((found / megabits - 1.0).abs() < 0.01, "{name}: {found}");
    }
}
