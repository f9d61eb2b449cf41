//! What is looked at again and again: memory, descriptors, and the counters of `/metrics`.

use anyhow::{Context, Result, bail};
use glassline_bench::http::get;
use glassline_bench::process::Server;
use glassline_bench::report::median;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Samples in the order of time.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    pub(crate) resident_mb: Vec<f64>,
    pub(crate) own_mb: Vec<f64>,
    pub(crate) descriptors: Vec<f64>,
}

impl Samples {
    pub(crate) fn take(&mut self, server: &Server) -> Result<()> {
        self.resident_mb.push(server.resident_bytes()? as f64 / 1e6);
        self.own_mb.push(server.anonymous_bytes()? as f64 / 1e6);
        self.descriptors.push(server.descriptors()? as f64);
        Ok(())
    }
}

/// Medians of the first and of the last third.
pub(crate) fn thirds(values: &[f64]) -> (f64, f64) {
    let third = values.len().div_ceil(3);
    (median(&values[..third]), median(&values[values.len() - third..]))
}

/// What `/metrics` says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    pub(crate) fn scrape(address: SocketAddr) -> Result<Metrics> {
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
    pub(crate) fn value(&self, name: &str) -> Result<f64> {
        match self.0.get(&format!("glassline_{name}")) {
            Some(value) => Ok(*value),
            None => bail!("/metrics has no {name}"),
        }
    }

    /// Counters that are lower than `before`. Those of streams that come and go begin anew.
    pub(crate) fn fallen(&self, before: &Metrics, stream: &str) -> Vec<String> {
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

    #[test]
    fn thirds_of_few_and_many() {
        assert_eq!(thirds(&[1.0, 2.0, 3.0, 4.0, 5.0, 9.0, 9.0]), (2.0, 9.0));
        assert_eq!(thirds(&[4.0]), (4.0, 4.0));
    }
}
