//! What an emulated line is like: all of it in one value of `--line`, or from an option for each part.

use super::TRACE_OVERHEAD_BYTES;
use super::quantity::{self, Sided, Speed, of_side};
use glassline_transport::emulator::{LinkConfig, Loss, Outages, Queue, Reorder, Service};
use std::str::FromStr;
use std::time::Duration;

/// A line, each part as the option of its name takes it.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::lab) struct LineOptions {
    pub(in crate::lab) up: Speed,
    pub(in crate::lab) down: Speed,
    pub(in crate::lab) delay: Vec<Sided<Duration>>,
    pub(in crate::lab) jitter: Vec<Sided<Duration>>,
    pub(in crate::lab) queue: Vec<Sided<Queue>>,
    pub(in crate::lab) loss: Vec<Sided<Loss>>,
    pub(in crate::lab) duplicate: Vec<Sided<f64>>,
    pub(in crate::lab) reorder: Vec<Sided<Reorder>>,
    pub(in crate::lab) outage: Vec<Sided<Outages>>,
}

/// The keys of `--line`, as an error tells them.
const KEYS: &str = "up, down, delay, jitter, queue, loss, duplicate, reorder and outage";

impl LineOptions {
    /// A line that has capacities and nothing else.
    pub(in crate::lab) fn new(up: Speed, down: Speed) -> LineOptions {
        LineOptions {
            up,
            down,
            delay: Vec::new(),
            jitter: Vec::new(),
            queue: Vec::new(),
            loss: Vec::new(),
            duplicate: Vec::new(),
            reorder: Vec::new(),
            outage: Vec::new(),
        }
    }

    /// One direction as the emulator takes it. `once`: a trace ends with its last line.
    pub(in crate::lab) fn config(&self, is_up: bool, once: bool) -> LinkConfig {
        let service = if is_up { &self.up } else { &self.down }.service(once);
        let is_trace = matches!(service, Service::Trace(_) | Service::TraceOnce(_));
        LinkConfig {
            service,
            queue: of_side(&self.queue, is_up).unwrap_or_default(),
            delay: of_side(&self.delay, is_up).unwrap_or_default(),
            jitter: of_side(&self.jitter, is_up).unwrap_or_default(),
            loss: of_side(&self.loss, is_up).unwrap_or_default(),
            duplicate: of_side(&self.duplicate, is_up).unwrap_or_default(),
            reorder: of_side(&self.reorder, is_up).unwrap_or_default(),
            outages: of_side(&self.outage, is_up).unwrap_or_default(),
            overhead_bytes: if is_trace { TRACE_OVERHEAD_BYTES } else { 0 },
            max_packet_bytes: None,
        }
    }
}

impl FromStr for LineOptions {
    type Err = String;

    /// `KEY=VALUE,KEY=VALUE`. A comma ends a value only where a key and `=` follow: outages have commas of their own
    /// (`outage=once:10s/1s,hold`), and so may names of files.
    fn from_str(text: &str) -> Result<LineOptions, String> {
        let mut line = LineOptions::new(Speed::Unlimited, Speed::Unlimited);
        let (mut up, mut down) = (None, None);
        let mut rest = Some(text);
        while let Some(part) = rest {
            let end = end_of_part(part);
            rest = part.get(end + 1..);
            let part = &part[..end];
            let Some(length) = key_length(part) else {
                return Err(format!("{part:?} is no KEY=VALUE; the keys are {KEYS}"));
            };
            let (key, value) = (&part[..length], &part[length + 1..]);
            match key {
                "up" => set_speed(&mut up, key, value),
                "down" => set_speed(&mut down, key, value),
                "delay" => add(&mut line.delay, key, value, quantity::duration),
                "jitter" => add(&mut line.jitter, key, value, quantity::duration),
                "queue" => add(&mut line.queue, key, value, quantity::queue),
                "loss" => add(&mut line.loss, key, value, quantity::loss),
                "duplicate" => add(&mut line.duplicate, key, value, quantity::duplicates),
                "reorder" => add(&mut line.reorder, key, value, quantity::reorder),
                "outage" => add(&mut line.outage, key, value, quantity::outages),
                _ => Err(format!("there is no key {key:?}; the keys are {KEYS}")),
            }?;
        }
        line.up =
            up.ok_or("up is missing: give the capacity in that direction, such as up=5M or a trace file")?;
        line.down = down.unwrap_or(Speed::Unlimited);
        Ok(line)
    }
}

/// How long the key is with which a part begins, if a key and `=` stand there.
fn key_length(part: &str) -> Option<usize> {
    let length = part.find(|character: char| !character.is_ascii_alphabetic())?;
    (length > 0 && part[length..].starts_with('=')).then_some(length)
}

/// Where the first part of a text ends: at a comma before the next key, or at the text's end.
fn end_of_part(text: &str) -> usize {
    let commas = text.match_indices(',').map(|(comma, _)| comma);
    let mut ends = commas.filter(|comma| key_length(&text[comma + 1..]).is_some());
    ends.next().unwrap_or(text.len())
}

fn set_speed(speed: &mut Option<Speed>, key: &str, value: &str) -> Result<(), String> {
    if speed.is_some() {
        return Err(format!("{key} is given twice"));
    }
    *speed = Some(value.parse().map_err(|error| in_part(key, value, error))?);
    Ok(())
}

/// Adds a value for both directions, or for one.
fn add<T>(
    values: &mut Vec<Sided<T>>,
    key: &str,
    value: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<(), String> {
    let value = Sided::parse(value, parse).map_err(|error| in_part(key, value, error))?;
    if values.iter().any(|other| other.overlaps(&value)) {
        let both = format!("{key}=up=…,{key}=down=…");
        return Err(format!("{key} is given twice for one direction; for different values write {both}"));
    }
    values.push(value);
    Ok(())
}

/// What is wrong with a key's value. A comma in it may have been meant to end it.
fn in_part(key: &str, value: &str, error: String) -> String {
    let is_open = value.contains(',');
    let advice = if is_open { "; behind a comma a next part begins with its key and =" } else { "" };
    format!("{key}: {error}{advice}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_transport::emulator::{OutageEffect, OutageTimes};

    fn line(text: &str) -> Result<LineOptions, String> {
        text.parse()
    }

    fn error(text: &str) -> String {
        line(text).unwrap_err()
    }

    #[test]
    fn a_line_has_what_the_options_of_the_same_names_say() {
        let text = "up=2M,down=3M,delay=30ms,queue=256p,loss=2%,reorder=1%:10ms,jitter=1ms,duplicate=1%";
        let found = line(text).unwrap();
        let (up, down) = (found.config(true, false), found.config(false, false));
        assert_eq!((&up.service, &down.service), (&Service::Rate(2_000_000), &Service::Rate(3_000_000)));
        assert_eq!((up.delay, up.queue), (Duration::from_millis(30), Queue::packets(256)));
        assert_eq!((up.loss, up.jitter, up.duplicate), (Loss::Random(0.02), Duration::from_millis(1), 0.01));
        assert_eq!(up.reorder, Reorder { probability: 0.01, hold: Duration::from_millis(10) });
        assert_eq!(LinkConfig { service: down.service.clone(), ..up }, down);
        // What is not said is not there.
        let plain = line("up=2M").unwrap();
        assert_eq!(plain.config(true, false), LinkConfig::rate(2_000_000));
        assert_eq!(plain.config(false, false), LinkConfig::default());
    }

    #[test]
    fn a_value_may_be_for_one_direction() {
        let found = line("up=2M,delay=up=30ms,delay=down=50ms,loss=down=1%").unwrap();
        let (up, down) = (found.config(true, false), found.config(false, false));
        assert_eq!((up.delay.as_millis(), down.delay.as_millis()), (30, 50));
        assert_eq!((up.loss, down.loss), (Loss::None, Loss::Random(0.01)));
        for (text, words) in [
            ("up=2M,up=3M", "up is given twice"),
            ("up=2M,down=3M,down=3M", "down is given twice"),
            ("up=2M,delay=1ms,delay=2ms", "delay is given twice for one direction"),
            ("up=2M,delay=1ms,delay=up=2ms", "delay=up=…,delay=down=…"),
            ("up=2M,loss=down=1%,loss=down=2%", "loss is given twice"),
        ] {
            assert!(error(text).contains(words), "{text}: {}", error(text));
        }
    }

    #[test]
    fn a_comma_ends_a_value_only_before_the_next_key() {
        let found = line("up=2M,outage=once:10s/5s,hold,delay=20ms").unwrap().config(true, false);
        let (after, off) = (Duration::from_secs(10), Duration::from_secs(5));
        let expected = Outages { times: OutageTimes::Once { after, off }, effect: OutageEffect::Hold };
        assert_eq!((found.outages, found.delay.as_millis()), (expected, 20));
        // For good: for longer than any run.
        let gone = line("up=2M,outage=once:10s/24h").unwrap().config(true, false).outages.times;
        assert_eq!(gone, OutageTimes::Once { after, off: Duration::from_secs(86_400) });
    }

    #[test]
    fn what_is_no_line_is_told_with_its_key_and_the_known_ones() {
        for (text, words) in [
            ("", "\"\" is no KEY=VALUE; the keys are up, down, delay"),
            ("2M", "\"2M\" is no KEY=VALUE"),
            ("=2M", "is no KEY=VALUE"),
            ("up=2M,dely=30ms", "there is no key \"dely\"; the keys are up, down, delay"),
            ("up=2M,Delay=30ms", "there is no key \"Delay\""),
            ("delay=30ms", "up is missing"),
            ("down=3M", "such as up=5M"),
            ("up=2x", "up: "),
            ("up=2M,delay=30", "delay: "),
            ("up=2M,queue=0p", "queue: "),
            ("up=2M,loss=left=1%", "loss: "),
            ("up=2M,outage=once:5s", "outage: "),
            ("up=2M,delay:30ms", "behind a comma a next part begins with its key and ="),
            ("up=2M,", "behind a comma"),
            ("up=/no/such/trace", "/no/such/trace"),
        ] {
            assert!(error(text).contains(words), "{text}: {}", error(text));
        }
    }
}
