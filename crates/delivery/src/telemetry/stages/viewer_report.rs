//! A report of one viewer as it comes by HTTP: how long each part took for the pictures of its last ten seconds.

use super::super::watchers::REPORTED_MAX;
use super::part::Part;
use glassline_media::stamps::STAGE_EDGES_MICROS;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;
use thiserror::Error;

/// Bytes of a viewer's report at most.
pub const REPORT_MAX_BYTES: usize = 4 << 10;
/// Pictures that a report may count in one bucket.
pub const REPORT_COUNT_MAX: u64 = 10_000;
/// Pictures that a viewer may see in a second: more are no video.
const PICTURES_A_SECOND_MAX: u64 = 400;
/// Buckets of a distribution: one for each of [`STAGE_EDGES_MICROS`], and one for what is beyond.
pub const BUCKETS: usize = STAGE_EDGES_MICROS.len() + 1;

/// Why a viewer's report is not taken.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReportError {
    /// It is no JSON of that form.
    #[error("no report: {0}")]
    Form(String),
    /// A key that is no part's name.
    #[error("there is no part called {0:?}")]
    Part(String),
    /// An array of another length than there are buckets.
    #[error("{part} has {found} counts, and there are {BUCKETS} buckets")]
    Length {
        /// Of which part.
        part: &'static str,
        /// Its length.
        found: usize,
    },
    /// More pictures than a viewer can have seen.
    #[error(
        "{part} counts {found} pictures, more than {PICTURES_A_SECOND_MAX} for each of {} s", REPORTED_MAX.as_secs()
    )]
    Pictures {
        /// Of which part.
        part: &'static str,
        /// All its counts together.
        found: u64,
    },
    /// A count that no viewer reaches.
    #[error("{part} counts {found} pictures in one bucket, more than {REPORT_COUNT_MAX}")]
    Count {
        /// Of which part.
        part: &'static str,
        /// The count.
        found: u64,
    },
}

/// What one viewer saw in its last ten seconds: pictures by how long each part took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewerReport(pub(super) Vec<(Part, [u64; BUCKETS])>);

impl ViewerReport {
    /// Reads `{"stages": {"network": [c0, c1, …], …}}`: for each part a count for each bucket.
    pub fn parse(body: &[u8]) -> Result<ViewerReport, ReportError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Form {
            stages: BTreeMap<String, Vec<u64>>,
        }
        let form: Form =
            serde_json::from_slice(body).map_err(|error| ReportError::Form(error.to_string()))?;
        let part = |(name, counts): (String, Vec<u64>)| {
            let known = Part::of_name(&name).ok_or(ReportError::Part(name))?;
            let (part, found) = (known.name(), counts.len());
            let counts: [u64; BUCKETS] =
                counts.try_into().map_err(|_| ReportError::Length { part, found })?;
            if let Some(found) = counts.into_iter().find(|count| *count > REPORT_COUNT_MAX) {
                return Err(ReportError::Count { part, found });
            }
            let found = counts.into_iter().fold(0, u64::saturating_add);
            if least_time(found) > REPORTED_MAX {
                return Err(ReportError::Pictures { part, found });
            }
            Ok((known, counts))
        };
        form.stages.into_iter().map(part).collect::<Result<_, _>>().map(ViewerReport)
    }

    /// How long its viewer has to have watched to see so many pictures.
    pub fn least_time(&self) -> Duration {
        let pictures = |counts: &[u64; BUCKETS]| counts.iter().copied().fold(0, u64::saturating_add);
        least_time(self.0.iter().map(|(_, counts)| pictures(counts)).max().unwrap_or(0))
    }
}

/// The shortest time in which so many pictures are shown.
fn least_time(pictures: u64) -> Duration {
    Duration::from_millis(pictures.saturating_mul(1000).div_ceil(PICTURES_A_SECOND_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn report(text: &str) -> Result<ViewerReport, ReportError> {
        ViewerReport::parse(text.as_bytes())
    }

    fn counts(bucket: usize, count: u64) -> String {
        let counts: Vec<_> = (0..BUCKETS).map(|at| if at == bucket { count } else { 0 }).collect();
        format!("{counts:?}")
    }

    #[test]
    fn a_report_is_taken_as_it_is_or_refused_with_a_reason() {
        let good =
            format!("{{\"stages\": {{\"network\": {}, \"total\": {}}}}}", counts(3, 500), counts(8, 500));
        let good = report(&good).unwrap();
        assert!(report("{\"stages\": {}}").is_ok());

        let refused = |text: &str| report(text).unwrap_err();
        assert!(matches!(refused("{"), ReportError::Form(_)));
        assert!(matches!(refused("{\"stages\": {}, \"who\": 1}"), ReportError::Form(_)));
        assert!(matches!(refused("{\"stages\": {\"mux\": [-1]}}"), ReportError::Form(_)));
        assert_eq!(refused("{\"stages\": {\"brain\": []}}"), ReportError::Part("brain".into()));
        assert_eq!(refused("{\"stages\": {\"mux\": [1]}}"), ReportError::Length { part: "mux", found: 1 });
        let many = format!("{{\"stages\": {{\"mux\": {}}}}}", counts(0, 10_001));
        assert_eq!(refused(&many), ReportError::Count { part: "mux", found: 10_001 });
        let many = format!("{{\"stages\": {{\"mux\": {}}}}}", counts(0, 4_801));
        assert_eq!(refused(&many), ReportError::Pictures { part: "mux", found: 4_801 });
        let all: Vec<u64> = (0..BUCKETS).map(|_| 4_800 / BUCKETS as u64).collect();
        let most = format!("{{\"stages\": {{\"mux\": {all:?}, \"total\": {}}}}}", counts(0, 4_800));
        assert_eq!(report(&most).unwrap().least_time(), REPORTED_MAX);
        assert_eq!(good.least_time(), Duration::from_millis(1250));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_report_or_an_error(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = ViewerReport::parse(&body);
        }
    }
}
