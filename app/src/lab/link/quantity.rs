//! What only links have, as it stands on the command line.

use glassline_io::small_file::{Accept, Bounds, SmallFile};
use glassline_media::quantity::{self, Bitrate, QuantityError};
use glassline_transport::emulator::{
    Loss, OutageEffect, OutageTimes, Outages, Queue, Reorder, Service, Trace,
};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// A value for both directions, or with `up=` or `down=` before it for one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::lab) struct Sided<T> {
    up: bool,
    down: bool,
    value: T,
}

impl<T> Sided<T> {
    pub(in crate::lab) fn parse<E: ToString>(
        text: &str,
        value: impl Fn(&str) -> Result<T, E>,
    ) -> Result<Sided<T>, String> {
        let (up, down, rest) = match text.split_once('=') {
            Some(("up", rest)) => (true, false, rest),
            Some(("down", rest)) => (false, true, rest),
            _ => (true, true, text),
        };
        value(rest).map(|value| Sided { up, down, value }).map_err(|error| error.to_string())
    }

    /// Whether both are for one direction.
    pub(in crate::lab) fn overlaps(&self, other: &Sided<T>) -> bool {
        self.up && other.up || self.down && other.down
    }
}

/// The last of the values that is for this direction, if any is.
pub(in crate::lab) fn of_side<T: Clone>(values: &[Sided<T>], is_up: bool) -> Option<T> {
    let is_for = |sided: &&Sided<T>| if is_up { sided.up } else { sided.down };
    values.iter().rev().find(is_for).map(|sided| sided.value.clone())
}

/// How fast a link serves: a rate, `unlimited`, or the file of a trace.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::lab) enum Speed {
    Unlimited,
    Rate(Bitrate),
    Trace { path: String, trace: Arc<Trace> },
}

impl Speed {
    pub(in crate::lab) fn service(&self, once: bool) -> Service {
        match self {
            Speed::Unlimited => Service::Unlimited,
            Speed::Rate(rate) => Service::Rate(rate.bits_per_second()),
            Speed::Trace { trace, .. } if once => Service::TraceOnce(Arc::clone(trace)),
            Speed::Trace { trace, .. } => Service::Trace(Arc::clone(trace)),
        }
    }

    pub(in crate::lab) fn is_trace(&self) -> bool {
        matches!(self, Speed::Trace { .. })
    }

    /// For a heading.
    pub(in crate::lab) fn name(&self) -> String {
        match self {
            Speed::Unlimited => "unlimited".to_owned(),
            Speed::Rate(rate) => format!("{rate}bit/s"),
            Speed::Trace { path, .. } => {
                let name = std::path::Path::new(path).file_name();
                name.map_or_else(|| path.clone(), |name| name.to_string_lossy().into_owned())
            }
        }
    }
}

impl FromStr for Speed {
    type Err = String;
    fn from_str(text: &str) -> Result<Speed, String> {
        if text == "unlimited" {
            return Ok(Speed::Unlimited);
        }
        let refused = match text.parse::<Bitrate>() {
            Ok(rate) => return Ok(Speed::Rate(rate)),
            Err(error) => error,
        };
        // What begins with a digit was meant as a rate, unless there is a file of that name.
        if text.starts_with(|first: char| first.is_ascii_digit()) && !std::path::Path::new(text).exists() {
            return Err(format!("{refused}; or the path of a trace"));
        }
        read_trace(text).map(|trace| Speed::Trace { path: text.to_owned(), trace: Arc::new(trace) })
    }
}

/// Reads no more than a trace may have, from whatever the path names.
pub(in crate::lab) fn read_trace(path: &str) -> Result<Trace, String> {
    let bounds = Bounds { max_bytes: Trace::MAX_TEXT_BYTES as u64, ..Bounds::default() };
    let text = SmallFile::open(path.as_ref(), Accept::AnyFile, bounds)
        .and_then(SmallFile::read)
        .map_err(|error| format!("the trace: {error}; or write a rate, such as 5M"))?;
    Trace::parse(&text).map_err(|error| format!("{path} is no trace of Mahimahi's: {error}"))
}

/// A probability: `2%`, `0.02`.
fn probability(text: &str) -> Result<f64, String> {
    let (number, whole) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let digits = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match number.parse::<f64>() {
        Ok(value) if digits && (0.0..=whole).contains(&value) => Ok(value / whole),
        _ => Err(format!("{text:?} is not a probability; write for example 2% or 0.02")),
    }
}

/// `2%`, or `ge:TO_BAD/TO_GOOD/LOSS_IN_BAD[/LOSS_IN_GOOD]`.
pub(in crate::lab) fn loss(text: &str) -> Result<Loss, String> {
    let Some(parts) = text.strip_prefix("ge:") else {
        return probability(text)
            .map(Loss::Random)
            .map_err(|error| format!("{error}, or ge:0.0085/0.25/0.6 for bursts"));
    };
    let parts: Vec<f64> = parts.split('/').map(probability).collect::<Result<_, _>>()?;
    match parts[..] {
        [to_bad, to_good, loss_bad] => Ok(Loss::GilbertElliott { to_bad, to_good, loss_good: 0.0, loss_bad }),
        [to_bad, to_good, loss_bad, loss_good] => {
            Ok(Loss::GilbertElliott { to_bad, to_good, loss_good, loss_bad })
        }
        _ => Err(format!(
            "{text:?} has {} parts; write ge:TO_BAD/TO_GOOD/LOSS_IN_BAD, for example ge:0.0085/0.25/0.6",
            parts.len()
        )),
    }
}

/// `256p`, `64k`, `64KiB`, `256p+64k`, `infinite`, each with `drophead:` before it or not.
pub(in crate::lab) fn queue(text: &str) -> Result<Queue, String> {
    let malformed =
        || format!("{text:?} is not a queue; write for example 256p, 64k, 256p+64k or drophead:256p");
    let (limits, is_head) = text.strip_prefix("drophead:").map_or((text, false), |limits| (limits, true));
    let mut queue = Queue::INFINITE;
    for limit in limits.split('+').filter(|_| limits != "infinite") {
        let split = limit.find(|c: char| !c.is_ascii_digit()).ok_or_else(malformed)?;
        let (number, unit) = limit.split_at(split);
        let number: u64 = number.parse().map_err(|_| malformed())?;
        let worth = match unit {
            "p" if queue.packets.is_none() => {
                queue.packets = Some(u32::try_from(number).map_err(|_| malformed())?);
                continue;
            }
            "B" => 1,
            "k" => 1_000,
            "M" => 1_000_000,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            _ => return Err(malformed()),
        };
        if queue.bytes.replace(number.saturating_mul(worth)).is_some() {
            return Err(malformed());
        }
    }
    if queue.packets == Some(0) || queue.bytes == Some(0) {
        return Err(format!("{text:?} takes nothing; a queue has room for a packet at least"));
    }
    Ok(if is_head { queue.drop_head() } else { queue })
}

/// `1%:10ms`.
pub(in crate::lab) fn reorder(text: &str) -> Result<Reorder, String> {
    let (share, hold) = text
        .split_once(':')
        .ok_or_else(|| format!("{text:?} does not say for how long; write for example 1%:10ms"))?;
    Ok(Reorder { probability: probability(share)?, hold: duration(hold)? })
}

/// `random:5s/200ms`, `periodic:5s/200ms` (on/off), `once:10s/1s` (after/off); `,hold` behind it.
pub(in crate::lab) fn outages(text: &str) -> Result<Outages, String> {
    let malformed = || {
        format!("{text:?} is no outage; write for example random:5s/200ms, periodic:5s/200ms or once:10s/1s")
    };
    let (times, effect) =
        text.strip_suffix(",hold").map_or((text, OutageEffect::Drop), |times| (times, OutageEffect::Hold));
    let (kind, times) = times.split_once(':').ok_or_else(malformed)?;
    let (on, off) = times.split_once('/').ok_or_else(malformed)?;
    let (on, off) = (duration(on)?, duration(off)?);
    let times = match kind {
        "random" => OutageTimes::Random { on, off },
        "periodic" => OutageTimes::Periodic { on, off },
        "once" => OutageTimes::Once { after: on, off },
        _ => return Err(malformed()),
    };
    Ok(Outages { times, effect })
}

pub(in crate::lab) fn duration(text: &str) -> Result<Duration, String> {
    quantity::parse_duration(text).map_err(|error: QuantityError| error.to_string())
}

pub(in crate::lab) fn duplicates(text: &str) -> Result<f64, String> {
    probability(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_for_both_directions_or_one() {
        let sided = |text: &str| Sided::parse(text, duration);
        let values = [sided("5ms").unwrap(), sided("up=7ms").unwrap()];
        let ms = Duration::from_millis;
        assert_eq!((of_side(&values, true), of_side(&values, false)), (Some(ms(7)), Some(ms(5))));
        assert_eq!(of_side(&[sided("down=1ms").unwrap()], true), None);
        assert!(sided("left=7ms").unwrap_err().contains("left=7ms"));
    }

    #[test]
    fn losses() {
        assert_eq!(loss("2%"), Ok(Loss::Random(0.02)));
        assert_eq!(loss("0.5"), Ok(Loss::Random(0.5)));
        let bursts = Loss::GilbertElliott { to_bad: 0.0085, to_good: 0.25, loss_good: 0.0, loss_bad: 0.6 };
        assert_eq!(loss("ge:0.0085/25%/0.6"), Ok(bursts));
        assert!(matches!(loss("ge:0.1/0.2/0.3/0.4"), Ok(Loss::GilbertElliott { loss_good: 0.4, .. })));
        for text in ["", "%", "2", "-1%", "101%", "NaN", "1e-3", "inf%", "ge:", "ge:0.1/0.2", "ge:0/0/0/0/0"]
        {
            assert!(loss(text).is_err(), "{text}");
        }
    }

    #[test]
    fn queues() {
        assert_eq!(queue("256p"), Ok(Queue::packets(256)));
        assert_eq!(queue("64k"), Ok(Queue::bytes(64_000)));
        assert_eq!(queue("64KiB"), Ok(Queue::bytes(65_536)));
        assert_eq!(queue("9p+1M"), Ok(Queue { packets: Some(9), ..Queue::bytes(1_000_000) }));
        assert_eq!(queue("drophead:256p"), Ok(Queue::packets(256).drop_head()));
        assert_eq!(queue("infinite"), Ok(Queue::INFINITE));
        for text in ["", "256", "p", "0p", "0k", "1p+1p", "1k+1k", "1x", "5000000000p", "drophead:", "-1p"] {
            assert!(queue(text).is_err(), "{text}");
        }
    }

    #[test]
    fn reordering_and_outages() {
        let hold = Duration::from_millis(10);
        assert_eq!(reorder("1%:10ms"), Ok(Reorder { probability: 0.01, hold }));
        assert!(reorder("1%").is_err() && reorder("x:10ms").is_err() && reorder("1%:10").is_err());
        let (on, off) = (Duration::from_secs(5), Duration::from_millis(200));
        let found = outages("periodic:5s/200ms,hold");
        let expected = Outages { times: OutageTimes::Periodic { on, off }, effect: OutageEffect::Hold };
        assert_eq!(found, Ok(expected));
        assert!(matches!(outages("random:5s/200ms"), Ok(Outages { effect: OutageEffect::Drop, .. })));
        assert!(matches!(outages("once:5s/200ms"), Ok(Outages { times: OutageTimes::Once { .. }, .. })));
        for text in ["", "random", "random:5s", "often:5s/1s", "once:5/1", "once:5s/1s,keep"] {
            assert!(outages(text).is_err(), "{text}");
        }
    }

    #[test]
    fn speeds_are_rates_or_traces() {
        assert_eq!("unlimited".parse(), Ok(Speed::Unlimited));
        let speed: Speed = "2.5M".parse().unwrap();
        assert_eq!((speed.service(false), speed.name()), (Service::Rate(2_500_000), "2500kbit/s".to_owned()));
        for (text, words) in [
            ("5", "no unit"),
            ("5x", "path of a trace"),
            ("/no/such/trace", "/no/such/trace"),
            ("/dev/null", "without a line"),
        ] {
            let error = text.parse::<Speed>().unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
        // A file without end is read up to the limit only.
        assert!("/dev/zero".parse::<Speed>().unwrap_err().contains("at most"));
    }
}
