//! The counters and gauges of a server's `/metrics`.

use crate::http::get;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// What `/metrics` says.
#[derive(Clone, Debug, Default)]
pub struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    /// What the server says now.
    ///
    /// # Errors
    /// Where it does not, or a line is no sample.
    pub fn scrape(address: SocketAddr) -> Result<Metrics> {
        Metrics::parse(&get(address, "/metrics")?)
    }

    fn parse(text: &str) -> Result<Metrics> {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let sample = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        let samples: Option<_> = lines.map(sample).collect();
        Ok(Metrics(samples.context("/metrics has a line that is no sample")?))
    }

    /// A sample by its name, without what all begin with.
    ///
    /// # Errors
    /// Where there is none.
    pub fn value(&self, name: &str) -> Result<f64> {
        match self.0.get(&format!("glassline_{name}")) {
            Some(value) => Ok(*value),
            None => bail!("/metrics has no {name}"),
        }
    }

    /// The names of counters that are lower than `before`. Those of streams that come and go begin anew.
    pub fn fallen(&self, before: &Metrics, stream: &str) -> Vec<String> {
        let counts = |name: &str| {
            let (family, labels) = name.split_once('{').unwrap_or((name, ""));
            family.ends_with("_total") && (!labels.contains("stream=") || labels.contains(stream))
        };
        let fell = |(name, value): &(&String, &f64)| self.0.get(*name).is_none_or(|now| now < value);
        before.0.iter().filter(|(name, _)| counts(name)).filter(fell).map(|(name, _)| name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_that_fall_are_found() {
        let text = |a: u32, b: u32, c: u32| {
            let text =
                format!("# x\na_total {a}\nb_total{{stream=\"s\"}} {b}\nb_total{{stream=\"t\"}} {c}\nd 9\n");
            Metrics::parse(&text).unwrap()
        };
        let before = text(5, 5, 5);
        assert!(text(5, 6, 0).fallen(&before, "\"s\"").is_empty());
        assert_eq!(text(4, 4, 5).fallen(&before, "\"s\""), ["a_total", "b_total{stream=\"s\"}"]);
        assert!(Metrics::parse("a\n").is_err());
    }
}
