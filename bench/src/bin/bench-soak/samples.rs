//! What is looked at again and again: memory and descriptors.

use anyhow::Result;
use glassline_bench::process::Server;
use glassline_bench::report::median;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirds_of_few_and_many() {
        assert_eq!(thirds(&[1.0, 2.0, 3.0, 4.0, 5.0, 9.0, 9.0]), (2.0, 9.0));
        assert_eq!(thirds(&[4.0]), (4.0, 4.0));
    }
}
