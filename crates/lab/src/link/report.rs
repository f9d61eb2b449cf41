//! What a link did, for people and for programs.

use glassline_transport::emulator::{Bin, Counters, DropReason, Figures, Flow, Spread};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

/// A whole run. As JSON its names are its keys; suffixes are units.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Rises when a key changes its meaning or goes.
    pub schema: u32,
    /// What all chance followed from.
    pub seed: u64,
    /// How long the link was there.
    pub duration_s: f64,
    /// From near to far.
    pub up: Direction,
    /// From far to near.
    pub down: Direction,
    /// How much later than due packets were handed on: the emulation's own error.
    pub lateness_ms: Millis,
    /// Packets that were not IPv4, and were not carried.
    pub not_ipv4: u64,
    /// Packets that the system did not take at the link's end.
    pub refused: u64,
}

/// One direction.
#[derive(Clone, Debug, Serialize)]
pub struct Direction {
    /// What came.
    pub arrived: Packets,
    /// What got to the end, copies counted.
    pub delivered: Packets,
    /// What was doubled.
    pub duplicated: Packets,
    /// What is gone, by reason.
    pub dropped: BTreeMap<&'static str, Packets>,
    /// What the bottleneck could have let pass, on average; `None` without one.
    pub capacity_bps: Option<f64>,
    /// What it let pass, on average.
    pub rate_bps: f64,
    /// What waited for it.
    pub queue: QueueFill,
    /// From arrival to leaving the bottleneck.
    pub queue_delay_ms: Millis,
    /// From arrival to the end.
    pub delay_ms: Millis,
    /// The same over time.
    #[serde(skip)]
    pub figures: Figures,
    /// The bottleneck's rate, where it is constant.
    #[serde(skip)]
    pub constant_bps: Option<f64>,
}

/// Packets, and their bytes as the link counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Packets {
    /// How many.
    pub packets: u64,
    /// Of all of them.
    pub bytes: u64,
}

impl From<Flow> for Packets {
    fn from(Flow { packets, bytes }: Flow) -> Packets {
        Packets { packets, bytes }
    }
}

/// What waits for a bottleneck, the packet in service counted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct QueueFill {
    /// Mean over time.
    pub mean_packets: f64,
    /// Mean over time.
    pub mean_bytes: f64,
    /// The most at a time.
    pub max_packets: u32,
    /// The most at a time.
    pub max_bytes: u64,
}

/// A distribution of durations, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Millis {
    /// Of how many.
    pub count: u64,
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// What one in twenty exceeds.
    pub p95: f64,
    /// What one in a hundred exceeds.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

impl Millis {
    pub(super) fn of(spread: &Spread) -> Millis {
        let millis = |duration: Duration| duration.as_secs_f64() * 1e3;
        let quantile = |share| millis(spread.quantile(share));
        Millis {
            count: spread.count(),
            mean: millis(spread.mean()),
            p50: quantile(0.5),
            p95: quantile(0.95),
            p99: quantile(0.99),
            max: millis(spread.max()),
        }
    }
}

impl Direction {
    /// Of a link's counters and figures; `constant_bps` is its rate, where it has one.
    pub fn new(counters: &Counters, figures: Figures, constant_bps: Option<f64>) -> Direction {
        let seconds = figures.duration().as_secs_f64().max(1e-9);
        let offered: u64 = figures.bins().0.iter().map(|bin| bin.capacity_bytes).sum();
        let from_trace = (offered > 0).then_some(offered as f64 * 8.0 / seconds);
        let (mean_packets, mean_bytes) = figures.mean_queue();
        let (max_packets, max_bytes) = figures.most_queue();
        let dropped = DropReason::ALL.map(|reason| (reason.name(), counters.dropped_by(reason).into()));
        Direction {
            arrived: counters.arrived.into(),
            delivered: counters.delivered.into(),
            duplicated: counters.duplicated.into(),
            dropped: BTreeMap::from(dropped),
            capacity_bps: constant_bps.or(from_trace),
            rate_bps: counters.departed.bytes as f64 * 8.0 / seconds,
            queue: QueueFill { mean_packets, mean_bytes, max_packets, max_bytes },
            queue_delay_ms: Millis::of(figures.queue_delay()),
            delay_ms: Millis::of(figures.delay()),
            figures,
            constant_bps,
        }
    }
}

impl Direction {
    /// The same direction within a time of which these are the figures: rates, queue and delays are of that time. What is counted
    /// (`arrived`, `delivered`, `duplicated`, `dropped`) stays that of the whole run.
    pub fn within(&self, figures: Figures) -> Direction {
        let departed = Bin::merged(figures.bins().0).departed_bytes;
        Direction {
            arrived: self.arrived,
            delivered: self.delivered,
            duplicated: self.duplicated,
            dropped: self.dropped.clone(),
            rate_bps: departed as f64 * 8.0 / figures.duration().as_secs_f64().max(1e-9),
            ..Direction::new(&Counters::default(), figures, self.constant_bps)
        }
    }
}

impl Report {
    /// A table for people.
    pub fn table(&self) -> String {
        let mut out = String::new();
        let ways = [("up", &self.up), ("down", &self.down)];
        let mut row = |name: &str, cell: &dyn Fn(&Direction) -> String| {
            let cells = ways.map(|(_, way)| format!("{:>24}", cell(way)));
            // Writing to a String does not fail.
            let _ = writeln!(out, "{name:<28}{}", cells.concat());
        };
        row(&format!("link, {:.1} s", self.duration_s), &|way| {
            (if std::ptr::eq(way, &raw const self.up) { "up" } else { "down" }).to_owned()
        });
        row("packets in", &|way| way.arrived.packets.to_string());
        row("packets out", &|way| way.delivered.packets.to_string());
        for reason in DropReason::ALL.map(DropReason::name) {
            if ways.iter().any(|(_, way)| way.dropped[reason].packets > 0) {
                row(&format!("dropped: {reason}"), &|way| share(way.dropped[reason], way.arrived));
            }
        }
        if ways.iter().any(|(_, way)| way.duplicated.packets > 0) {
            row("doubled", &|way| share(way.duplicated, way.arrived));
        }
        row("rate, Mbit/s", &|way| format!("{:.3}", way.rate_bps / 1e6));
        row("capacity, Mbit/s", &|way| {
            way.capacity_bps.map_or("unlimited".to_owned(), |rate| format!("{:.3}", rate / 1e6))
        });
        row("queue, packets, mean, max", &|way| {
            format!("{:.1}  {}", way.queue.mean_packets, way.queue.max_packets)
        });
        row("queue, ms, p50 p95 max", &|way| spread(&way.queue_delay_ms));
        row("delay, ms, p50 p95 max", &|way| spread(&way.delay_ms));
        let Millis { p50, p99, max, .. } = self.lateness_ms;
        let _ = writeln!(out, "handed on late by, ms: p50 {p50:.3}, p99 {p99:.3}, max {max:.3}");
        out
    }
}

fn share(part: Packets, of: Packets) -> String {
    format!("{}  {:.2} %", part.packets, 100.0 * part.packets as f64 / of.packets.max(1) as f64)
}

fn spread(millis: &Millis) -> String {
    format!("{:.1}  {:.1}  {:.1}", millis.p50, millis.p95, millis.max)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use glassline_media::Time;
    use glassline_transport::emulator::{Event, Link, LinkConfig, Loss, Queue};

    /// Two seconds at 2 Mbit/s over a link of 1 Mbit/s, and half a second for the rest.
    pub(crate) fn report() -> Report {
        let config = LinkConfig::rate(1_000_000)
            .with_delay(Duration::from_millis(20))
            .with_queue(Queue::packets(10))
            .with_loss(Loss::Random(0.1));
        let mut link = Link::new(config, 1, Time::ZERO).unwrap();
        link.record_events();
        for number in 0..500 {
            let now = Time::from_millis(number * 4);
            link.push(now, 1000, ());
            while link.poll(now).is_some() {}
        }
        let end = Time::from_millis(2500);
        while link.poll(end).is_some() {}
        let mut figures = Figures::new(Time::ZERO);
        while let Some(event) = link.poll_event() {
            figures.add(&event);
        }
        figures.advance(end);
        let up = Direction::new(link.counters(), figures, Some(1e6));
        let down = Direction::new(&Counters::default(), Figures::new(Time::ZERO), None);
        let lateness_ms = Millis::of(&Spread::default());
        Report { schema: 1, seed: 1, duration_s: 2.5, up, down, lateness_ms, not_ipv4: 0, refused: 0 }
    }

    #[test]
    fn the_table_tells_both_directions() {
        let table = report().table();
        for words in
            ["packets in                                       500", "dropped: queue", "dropped: loss"]
        {
            assert!(table.contains(words), "{words}: {table}");
        }
        assert!(!table.contains("dropped: size") && table.contains("unlimited"), "{table}");
    }

    #[test]
    fn a_part_of_a_run_has_rates_of_its_own() {
        let mut figures = Figures::new(Time::from_millis(1_000));
        figures.add(&Event::Departure {
            at: Time::from_millis(1_100),
            bytes: 1_000,
            arrived: Time::from_millis(1_060),
        });
        figures.advance(Time::from_millis(1_500));
        let (whole, part) = (report().up, report().up.within(figures));
        assert_eq!((part.arrived, &part.dropped), (whole.arrived, &whole.dropped));
        // 1000 bytes in half a second.
        assert_eq!((part.rate_bps, part.capacity_bps), (16_000.0, whole.capacity_bps));
        assert_eq!((part.queue_delay_ms.count, part.queue_delay_ms.max), (1, 40.0));
    }

    #[test]
    fn json_has_units_in_its_keys() {
        let report = report();
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["up"]["arrived"]["packets"], 500);
        assert_eq!(json["down"]["capacity_bps"], serde_json::Value::Null);
        let gone = json["up"]["dropped"]["queue"]["packets"].as_u64().unwrap();
        let lost = json["up"]["dropped"]["loss"]["packets"].as_u64().unwrap();
        assert_eq!(json["up"]["delivered"]["packets"].as_u64().unwrap() + gone + lost, 500);
        // Ten wait, 8 ms each, and the one in service.
        assert!((80.0..=88.0).contains(&report.up.queue_delay_ms.max), "{:?}", report.up.queue_delay_ms);
        assert!((100.0..=108.0).contains(&report.up.delay_ms.max), "{:?}", report.up.delay_ms);
        assert_eq!(report.up.queue.max_packets, 11);
    }
}
