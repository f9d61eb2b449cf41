//! Where the milliseconds of a stream's pictures go: by what senders say in the stream, by this server's own stages, and by
//! what viewers report of theirs.
//!
//! Comes in: pictures that have passed ([`PassedPicture`]), what their senders say ([`Stamps`]), and viewers' reports as
//! they came by HTTP ([`ViewerReport::parse`]), all with their times. Goes out: counts of all time, and percentiles of each
//! ten seconds of the last ten minutes. All of it is bounded, whatever comes.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::watchers::REPORTED_MAX;
use glassline_media::stamps::{STAGE_EDGES_MICROS, STAGE_LONGEST, StageCount};
use glassline_media::{Stage, Stamps, Time, Utc};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;
use thiserror::Error;

/// What percentiles are of.
pub const STEP: Duration = Duration::from_nanos(STEP_NANOS);
const STEP_NANOS: u64 = 10_000_000_000;
/// Steps that are kept.
pub const STEPS: usize = 60;
/// How long they last together.
const KEPT: Duration = Duration::from_nanos(STEP_NANOS * STEPS as u64);
/// Bytes of a viewer's report at most.
pub const REPORT_MAX_BYTES: usize = 4 << 10;
/// Pictures that a report may count in one bucket.
pub const REPORT_COUNT_MAX: u64 = 10_000;
/// Reports of a stream that are taken in one second: each of 2,000 viewers reports once in ten.
pub const REPORTS_A_SECOND: u32 = 200;
/// Those of one address, behind which may be a household.
pub const REPORTS_A_SECOND_OF_ADDRESS: u32 = 10;
/// Pictures that a viewer may see in a second: more are no video.
const PICTURES_A_SECOND_MAX: u64 = 400;
/// Values of a part in a step; those beyond are left out.
const SAMPLES_MAX: usize = 4096;
/// Buckets of a distribution: one for each of [`STAGE_EDGES_MICROS`], and one for what is beyond.
pub const BUCKETS: usize = STAGE_EDGES_MICROS.len() + 1;

/// A part of the way from glass to glass. Each begins where the one before it that is known has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
pub enum Part {
    /// Captured to all in memory.
    Capture,
    /// To the encoder.
    Queue,
    /// To the encoder's last slice.
    Encode,
    /// To the container's last packet.
    Mux,
    /// To the last byte with the sender's kernel.
    Send,
    /// From the last byte with the relay to its last byte with the relay's kernel or, where that is not known, to when
    /// viewers could have it.
    Relay,
    /// From the sender to the receiver, but for the relay.
    Network,
    /// Received to decoded.
    Decode,
    /// Decoded to shown.
    Display,
    /// All of it.
    Total,
}

impl Part {
    /// All, in the order of the way.
    pub const ALL: [Part; 10] = [
        Part::Capture,
        Part::Queue,
        Part::Encode,
        Part::Mux,
        Part::Send,
        Part::Relay,
        Part::Network,
        Part::Decode,
        Part::Display,
        Part::Total,
    ];

    /// The name that metrics and JSON use.
    pub const fn name(self) -> &'static str {
        match self {
            Part::Capture => "capture",
            Part::Queue => "queue",
            Part::Encode => "encode",
            Part::Mux => "mux",
            Part::Send => "send",
            Part::Relay => "relay",
            Part::Network => "network",
            Part::Decode => "decode",
            Part::Display => "display",
            Part::Total => "total",
        }
    }

    /// The part of this name.
    pub fn of_name(name: &str) -> Option<Part> {
        Part::ALL.into_iter().find(|part| part.name() == name)
    }
}

/// Which stage of the sender ends which part.
const SENDER_PARTS: [(Stage, Part); 5] = [
    (Stage::Arrived, Part::Capture),
    (Stage::EncoderIn, Part::Queue),
    (Stage::Encoded, Part::Encode),
    (Stage::Muxed, Part::Mux),
    (Stage::Sent, Part::Send),
];

/// How long a sender took for each part of its way; what it does not say falls into the next part that it does.
fn sender_parts(stamps: &Stamps) -> impl Iterator<Item = (Part, Duration)> {
    let mut last = Stage::Captured;
    SENDER_PARTS.into_iter().filter_map(move |(stage, part)| {
        let time = stamps.between(last, stage)?;
        last = stage;
        Some((part, time))
    })
}

/// This server's stages.
pub const RELAY_STAGES: [Stage; 4] =
    [Stage::RelayFirstByte, Stage::RelayReceived, Stage::RelayFlushed, Stage::RelaySent];

/// A picture that says when it was captured, and has passed this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassedPicture {
    /// When it was captured, as the stream says.
    pub captured: Utc,
    /// When its first packet came.
    pub first_byte: Time,
    /// When its last packet came.
    pub received: Time,
    /// When viewers could have all of it.
    pub flushed: Time,
    /// When all of it had been handed to the kernel for the first viewer; `None` where no viewer was given it.
    pub sent: Option<Time>,
    /// How far this server's wall clock was ahead of its monotonic one then, in nanoseconds, modulo 2⁶⁴.
    pub ahead_ns: u64,
}

impl PassedPicture {
    /// When it passed one of [`RELAY_STAGES`].
    pub fn at(&self, stage: Stage) -> Option<Time> {
        match stage {
            Stage::RelayFirstByte => Some(self.first_byte),
            Stage::RelayReceived => Some(self.received),
            Stage::RelayFlushed => Some(self.flushed),
            Stage::RelaySent => self.sent,
            _ => None,
        }
    }

    /// The same in microseconds after the whole microsecond of its capture, by this server's wall clock: below zero where
    /// the clocks disagree.
    pub fn after_capture_us(&self, stage: Stage) -> Option<i64> {
        let utc = self.at(stage)?.as_nanos().wrapping_add(self.ahead_ns);
        let captured = i128::from(self.captured.as_micros()).checked_mul(1000)?;
        i64::try_from(i128::from(utc).checked_sub(captured)?.div_euclid(1000)).ok()
    }
}

/// The 50th and the 99th percentile, microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Half of all took no longer.
    pub p50_us: u32,
    /// All but one in a hundred took no longer.
    pub p99_us: u32,
}

/// What is known of one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// When it began.
    pub begins: Time,
    /// Reports, where it is of viewers.
    pub reports: u32,
    /// How long each part took of which something is known.
    pub parts: Vec<(Part, Percentiles)>,
}

/// What gathers during a step.
pub trait Tally: Default {
    /// How long each part took.
    fn parts(&self) -> Vec<(Part, Percentiles)>;
    /// Reports.
    fn reports(&self) -> u32;
}

/// The last [`STEPS`] steps, of those in which something came.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Steps<T> {
    /// The number of the step that runs, since the clock's origin.
    #[serde(skip)]
    running: Option<(u64, T)>,
    past: VecDeque<Step>,
}

impl<T> Default for Steps<T> {
    fn default() -> Self {
        Steps { running: None, past: VecDeque::new() }
    }
}

impl<T: Tally> Steps<T> {
    /// What gathers at `now`.
    fn running(&mut self, now: Time) -> &mut T {
        let number = now.as_nanos() / STEP_NANOS;
        if let Some((former, tally)) = self.running.take_if(|(running, _)| *running != number) {
            self.past.push_back(step(former, &tally));
            while self.past.len() >= STEPS {
                self.past.pop_front();
            }
        }
        &mut self.running.get_or_insert_with(|| (number, T::default())).1
    }

    /// The steps of the last ten minutes in which something came, oldest first, the running one as far as it has come.
    pub fn all(&self, now: Time) -> Vec<Step> {
        let running = self.running.as_ref().map(|(number, tally)| step(*number, tally));
        let is_near = |step: &Step| now.since(step.begins) <= KEPT && !step.parts.is_empty();
        self.past.iter().cloned().chain(running).filter(is_near).collect()
    }
}

fn step(number: u64, tally: &impl Tally) -> Step {
    let begins = Time::from_nanos(number.saturating_mul(STEP_NANOS));
    Step { begins, reports: tally.reports(), parts: tally.parts() }
}

/// Times of pictures, in microseconds, by part.
#[derive(Clone, Debug, Default)]
pub struct Samples([Vec<u32>; Part::ALL.len()]);

impl Samples {
    fn push(&mut self, part: Part, time: Duration) {
        let samples = &mut self.0[part as usize];
        if samples.len() < SAMPLES_MAX {
            samples.push(u32::try_from(time.as_micros()).unwrap_or(u32::MAX));
        }
    }
}

impl Tally for Samples {
    fn parts(&self) -> Vec<(Part, Percentiles)> {
        let known = Part::ALL.into_iter().zip(&self.0).filter(|(_, samples)| !samples.is_empty());
        known.map(|(part, samples)| (part, percentiles(&mut samples.clone()))).collect()
    }

    fn reports(&self) -> u32 {
        0
    }
}

/// By nearest rank; of at least one sample.
fn percentiles(samples: &mut [u32]) -> Percentiles {
    let mut rank = |hundredths: usize| {
        let index = samples.len().saturating_mul(hundredths).div_ceil(100).saturating_sub(1);
        *samples.select_nth_unstable(index).1
    };
    Percentiles { p50_us: rank(50), p99_us: rank(99) }
}

/// What one server knows of the pictures that pass: counts since the stream began, and percentiles.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RelayFigures {
    counts: [StageCount; RELAY_STAGES.len()],
    steps: Steps<Samples>,
}

impl RelayFigures {
    /// Counts what a sender says of one of its pictures.
    pub(crate) fn count_sender(&mut self, stamps: &Stamps, now: Time) {
        let samples = self.steps.running(now);
        sender_parts(stamps).for_each(|(part, time)| samples.push(part, time));
    }

    /// Counts a picture that has passed.
    pub(crate) fn count_picture(&mut self, picture: &PassedPicture, now: Time) {
        let way = picture.after_capture_us(Stage::RelayFirstByte);
        let way = way.and_then(|micros| u64::try_from(micros).ok()).map(Duration::from_micros);
        if let Some(way) = way.filter(|way| *way <= STAGE_LONGEST) {
            self.counts[0].push(way);
        }
        let mut before = picture.first_byte;
        for (stage, count) in RELAY_STAGES.into_iter().zip(&mut self.counts).skip(1) {
            if let Some(at) = picture.at(stage) {
                count.push(at.since(before));
                before = at;
            }
        }
        let relay = picture.sent.unwrap_or(picture.flushed).since(picture.received);
        self.steps.running(now).push(Part::Relay, relay);
    }

    /// How long pictures took to each stage of this server from the one before it; to the first one, from capture.
    pub fn stages(&self) -> impl Iterator<Item = (Stage, &StageCount)> {
        let passed = |(_, count): &(Stage, &StageCount)| count.buckets.iter().any(|count| *count > 0);
        RELAY_STAGES.into_iter().zip(&self.counts).filter(passed)
    }

    /// The last ten minutes.
    pub fn steps(&self, now: Time) -> Vec<Step> {
        self.steps.all(now)
    }
}

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
pub struct ViewerReport(Vec<(Part, [u64; BUCKETS])>);

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

/// Counts of a step's reports.
#[derive(Clone, Debug, Default)]
pub struct Reported {
    reports: u32,
    parts: [[u64; BUCKETS]; Part::ALL.len()],
}

impl Tally for Reported {
    fn parts(&self) -> Vec<(Part, Percentiles)> {
        let estimate = |(part, counts)| Some((part, percentiles_of_counts(counts)?));
        Part::ALL.into_iter().zip(&self.parts).filter_map(estimate).collect()
    }

    fn reports(&self) -> u32 {
        self.reports
    }
}

/// Percentiles of what was only counted, as if each bucket's pictures lay evenly in it; those of the last one lie at its
/// edge.
fn percentiles_of_counts(counts: &[u64; BUCKETS]) -> Option<Percentiles> {
    let all = counts.iter().fold(0, |sum: u64, count| sum.saturating_add(*count));
    if all == 0 {
        return None;
    }
    let estimate = |hundredths: u64| {
        let rank = all as f64 * hundredths as f64 / 100.0;
        let mut below = 0.0;
        for (bucket, count) in counts.iter().enumerate() {
            let count = *count as f64;
            if count > 0.0 && below + count >= rank {
                let (low, high) = bucket_ends(bucket);
                return whole(low + (high - low) * (rank - below) / count);
            }
            below += count;
        }
        whole(bucket_ends(BUCKETS - 1).1)
    };
    Some(Percentiles { p50_us: estimate(50), p99_us: estimate(99) })
}

/// Whole microseconds; what does not fit is the largest number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast of a floating-point number saturates"
)]
fn whole(micros: f64) -> u32 {
    micros as u32
}

/// Where a bucket begins and ends, in microseconds; the last one is taken for its lower edge.
fn bucket_ends(bucket: usize) -> (f64, f64) {
    const LAST: usize = STAGE_EDGES_MICROS.len() - 1;
    let edge = |index: usize| STAGE_EDGES_MICROS[index.min(LAST)] as f64;
    (bucket.checked_sub(1).map_or(0.0, edge), edge(bucket))
}

/// The reports of the running second, by address.
#[derive(Clone, Debug, Default)]
struct Second {
    number: u64,
    reports: u32,
    addresses: BTreeMap<IpAddr, u32>,
}

/// What viewers of one stream report. Nothing of it identifies them: their addresses are known for a second, to keep one
/// from reporting for all.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ViewerFigures {
    counts: [StageCount; Part::ALL.len()],
    steps: Steps<Reported>,
    #[serde(skip)]
    second: Second,
}

impl ViewerFigures {
    /// Whether a report from `address` is taken at `now`: at most [`REPORTS_A_SECOND`] are, and
    /// [`REPORTS_A_SECOND_OF_ADDRESS`] of one address. It counts as one then.
    pub fn admit(&mut self, address: IpAddr, now: Time) -> bool {
        self.forget(now);
        if self.second.reports >= REPORTS_A_SECOND {
            return false;
        }
        let of_address = self.second.addresses.entry(address.to_canonical()).or_default();
        if *of_address >= REPORTS_A_SECOND_OF_ADDRESS {
            return false;
        }
        *of_address = of_address.saturating_add(1);
        self.second.reports = self.second.reports.saturating_add(1);
        true
    }

    /// Forgets the addresses of a second that is over.
    pub fn forget(&mut self, now: Time) {
        let number = now.as_nanos() / 1_000_000_000;
        if self.second.number != number {
            self.second = Second { number, ..Second::default() };
        }
    }

    /// Adds a report.
    pub fn add(&mut self, report: &ViewerReport, now: Time) {
        let running = self.steps.running(now);
        running.reports = running.reports.saturating_add(1);
        for (part, counts) in &report.0 {
            let ever = &mut self.counts[*part as usize];
            for (bucket, count) in counts.iter().enumerate() {
                let running = &mut running.parts[*part as usize][bucket];
                *running = running.saturating_add(*count);
                ever.buckets[bucket] = ever.buckets[bucket].saturating_add(*count);
                let (low, high) = bucket_ends(bucket);
                let each = Duration::from_micros(whole((low + high) / 2.0).into());
                let times = u32::try_from(*count).unwrap_or(u32::MAX);
                ever.sum = ever.sum.saturating_add(each.saturating_mul(times));
            }
        }
    }

    /// How long parts took, of all reports. Sums are as if each picture lay in the middle of its bucket.
    pub fn parts(&self) -> impl Iterator<Item = (Part, &StageCount)> {
        let known = |(_, count): &(Part, &StageCount)| count.buckets.iter().any(|count| *count > 0);
        Part::ALL.into_iter().zip(&self.counts).filter(known)
    }

    /// The last ten minutes.
    pub fn steps(&self, now: Time) -> Vec<Step> {
        self.steps.all(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn micros(value: u64) -> Time {
        Time::from_nanos(value * 1000)
    }

    #[test]
    fn what_a_sender_does_not_say_falls_into_the_next_part() {
        let stamps = Stamps::captured_at(Time::ZERO)
            .with(Stage::EncoderIn, micros(300))
            .with(Stage::Encoded, micros(8_000))
            .with(Stage::Sent, micros(8_500));
        let parts: Vec<_> =
            sender_parts(&stamps).map(|(part, time)| (part.name(), time.as_micros())).collect();
        assert_eq!(parts, [("queue", 300), ("encode", 7_700), ("send", 500)]);
        for part in Part::ALL {
            assert_eq!(Part::of_name(part.name()), Some(part));
            assert_eq!(Part::ALL[part as usize], part);
        }
    }

    fn passed(number: u64) -> PassedPicture {
        let at = |after: u64| micros(1_000_000 + number * 20_000 + after);
        PassedPicture {
            captured: Utc::from_nanos(1_700_000_001_000_000_999 + number * 20_000_000),
            first_byte: at(10_000),
            received: at(12_000),
            flushed: at(12_050),
            sent: (number > 0).then(|| at(12_450)),
            ahead_ns: 1_700_000_000_000_000_000,
        }
    }

    #[test]
    fn a_picture_is_counted_from_stage_to_stage_and_in_its_step() {
        let mut figures = RelayFigures::default();
        (0..100)
            .for_each(|number| figures.count_picture(&passed(number), micros(1_020_000 + number * 20_000)));
        let sums: Vec<_> = figures.stages().map(|(stage, count)| (stage, count.sum.as_micros())).collect();
        let expected = [
            (Stage::RelayFirstByte, 1_000_000),
            (Stage::RelayReceived, 200_000),
            (Stage::RelayFlushed, 5_000),
            (Stage::RelaySent, 99 * 400),
        ];
        assert_eq!(sums, expected);
        let steps = figures.steps(micros(3_100_000));
        assert_eq!(steps.len(), 1);
        assert_eq!(steps[0].begins, Time::ZERO);
        assert_eq!(steps[0].parts, [(Part::Relay, Percentiles { p50_us: 450, p99_us: 450 })]);
        assert_eq!(passed(3).after_capture_us(Stage::RelayFirstByte), Some(10_000));
        let early = PassedPicture { ahead_ns: passed(0).ahead_ns - 20_000_000, ..passed(0) };
        assert_eq!(early.after_capture_us(Stage::RelayFirstByte), Some(-10_000), "told, and not counted");
        let before: u64 = figures.counts[0].buckets.iter().sum();
        figures.count_picture(&early, micros(3_200_000));
        assert_eq!(figures.counts[0].buckets.iter().sum::<u64>(), before);
    }

    #[test]
    fn steps_are_kept_for_ten_minutes_and_those_without_data_are_absent() {
        let mut figures = RelayFigures::default();
        for step in (0..200).filter(|step| step % 3 != 0) {
            figures.count_picture(&passed(1), Time::from_millis(step * 10_000 + 5));
        }
        assert!(figures.steps.past.len() < STEPS);
        let steps = figures.steps(Time::from_millis(1_995_000));
        assert!(steps.windows(2).all(|pair| pair[0].begins < pair[1].begins));
        assert_eq!(steps.len(), 40, "two of three in ten minutes");
        assert_eq!(figures.steps(Time::from_millis(9_000_000)), []);
    }

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
        let mut figures = ViewerFigures::default();
        figures.add(&good, Time::from_millis(5));
        figures.add(&good, Time::from_millis(6));
        let steps = figures.steps(Time::from_millis(9));
        assert_eq!((steps.len(), steps[0].reports), (1, 2));
        // Half of the way through the bucket from 500 µs to 1 ms, and of that from 20 to 50 ms.
        let expected = [(Part::Network, 750, 995), (Part::Total, 35_000, 49_700)];
        let told: Vec<_> = steps[0].parts.iter().map(|(part, all)| (*part, all.p50_us, all.p99_us)).collect();
        assert_eq!(told, expected);
        let (part, count) = figures.parts().next().unwrap();
        assert_eq!(
            (part, count.buckets[3], count.sum),
            (Part::Network, 1000, Duration::from_micros(750_000))
        );
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

    #[test]
    fn neither_an_address_nor_all_report_too_often() {
        let mut figures = ViewerFigures::default();
        let address = |number: u32| IpAddr::from(number.to_be_bytes());
        let mut taken = |number, at| figures.admit(address(number), Time::from_millis(at));
        assert_eq!((0..100).filter(|_| taken(1, 500)).count(), 10);
        assert_eq!((0..1000).filter(|number| taken(100 + number, 600)).count(), 190);
        assert!(!taken(7, 999) && taken(7, 1000), "a second later");
        assert_eq!(figures.second.addresses.len(), 1, "and the others are forgotten");
        figures.forget(Time::from_millis(2000));
        assert!(figures.second.addresses.is_empty());
    }

    proptest! {
        #[test]
        fn percentiles_of_counts_lie_within_their_buckets(counts: [u16; BUCKETS]) {
            let counts = counts.map(u64::from);
            if let Some(Percentiles { p50_us, p99_us }) = percentiles_of_counts(&counts) {
                prop_assert!(p50_us <= p99_us && p99_us <= 500_000);
                let bucket = StageCount::bucket(Duration::from_micros(p50_us.into())).min(BUCKETS - 2);
                let near = bucket.saturating_sub(1)..=(bucket + 1).min(BUCKETS - 1);
                prop_assert!(counts[near].iter().any(|count| *count > 0), "{p50_us} of {counts:?}");
            }
        }

        #[test]
        fn any_bytes_are_a_report_or_an_error(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = ViewerReport::parse(&body);
        }
    }
}
