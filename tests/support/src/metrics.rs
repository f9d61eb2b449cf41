//! Reads the Prometheus text format (version 0.0.4) strictly: a test that reads metrics also checks them.

use std::collections::{BTreeMap, BTreeSet};

/// All samples of one scrape.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// By the sample's name and labels, as `name{label="value"}`.
    pub samples: BTreeMap<String, f64>,
    /// Each family's type.
    pub families: BTreeMap<String, String>,
}

impl Metrics {
    /// Parses the text.
    ///
    /// # Errors
    /// What the format forbids: a family without `HELP` or `TYPE`, either twice, a sample twice or outside its
    /// family, a value that is no number, a text that does not end in a line break.
    pub fn parse(text: &str) -> Result<Metrics, String> {
        if !text.ends_with('\n') {
            return Err("the last line has no end".into());
        }
        let (mut metrics, mut helped, mut family) = (Metrics::default(), BTreeSet::new(), String::new());
        for line in text.lines().filter(|line| !line.is_empty()) {
            let refuse = |why: &str| Err(format!("{why}: {line}"));
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let Some((name, help)) = rest.split_once(' ') else { return refuse("no help") };
                if help.is_empty() || !helped.insert(name.to_owned()) {
                    return refuse("empty or repeated help");
                }
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let Some((name, kind)) = rest.split_once(' ') else { return refuse("no type") };
                if !["counter", "gauge", "histogram", "summary", "untyped"].contains(&kind) {
                    return refuse("unknown type");
                }
                if metrics.families.insert(name.to_owned(), kind.to_owned()).is_some() {
                    return refuse("repeated type");
                }
                family = name.to_owned();
            } else if !line.starts_with('#') {
                let Some((name, value)) = line.rsplit_once(' ') else { return refuse("no value") };
                let bare = name.split('{').next().unwrap_or_default();
                let suffix = bare.strip_prefix(family.as_str());
                if !matches!(suffix, Some("" | "_bucket" | "_sum" | "_count")) || !helped.contains(&family) {
                    return refuse("not below the HELP and TYPE of its family");
                }
                let Ok(value) = value.parse() else { return refuse("not a number") };
                if metrics.samples.insert(name.to_owned(), value).is_some() {
                    return refuse("repeated sample");
                }
            }
        }
        match helped.iter().find(|name| !metrics.families.contains_key(*name)) {
            Some(name) => Err(format!("{name} has HELP but no TYPE")),
            None => Ok(metrics),
        }
    }

    /// The sum of all samples of `family` whose labels contain `label`.
    ///
    /// # Panics
    /// Where there is none.
    pub fn sum(&self, family: &str, label: &str) -> f64 {
        let found: Vec<f64> = self
            .samples
            .iter()
            .filter(|(name, _)| name.split('{').next() == Some(family))
            .filter(|(name, _)| name.contains(label))
            .map(|(_, value)| *value)
            .collect();
        assert!(!found.is_empty(), "no sample of {family} with {label} in {:?}", self.samples.keys());
        found.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_format_forbids_is_refused() {
        let good = "# HELP a_total All.\n# TYPE a_total counter\na_total{x=\"1\"} 2\na_total{x=\"2\"} 3\n";
        let metrics = Metrics::parse(good).expect("good");
        assert_eq!(metrics.sum("a_total", "x="), 5.0);
        assert_eq!(metrics.sum("a_total", "x=\"2\""), 3.0);
        for bad in [
            "a 1",
            "a 1\n",
            "# TYPE a counter\na 1\n",
            "# HELP a A.\na 1\n",
            "# HELP a A.\n# TYPE a counter\n# TYPE a counter\na 1\n",
            "# HELP a A.\n# TYPE a counter\na 1\na 2\n",
            "# HELP a A.\n# TYPE a counter\nb 1\n",
            "# HELP a A.\n# TYPE a counter\na one\n",
            "# HELP b B.\n# HELP a A.\n# TYPE a counter\na 1\n",
        ] {
            assert!(Metrics::parse(bad).is_err(), "{bad}");
        }
    }
}
