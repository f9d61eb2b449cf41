//! Where the milliseconds of a stream's pictures went, from capture to here: by the stages that its sender says in the
//! stream, and by when the last byte of each picture came.
//!
//! A picture's later stages are said with the next picture: each waits for that one. All is put onto one wall clock; what
//! lies between two machines is as right as their clocks, and what cannot be is unknown and counted.

use super::age::WallClock;
use super::samples::Samples;
use crate::distribution::Distribution;
use glassline_media::bitstream::h264::{self, NalType, Sei};
use glassline_media::stamps::{ClockAccuracy, Record};
use glassline_media::{Stage, Stamps, Time, Utc};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::time::Duration;

/// So much is left out at the start: servers send at once what has been since the last key frame.
const SETTLE: Duration = Duration::from_secs(1);
/// The sender's last stage, which only the next picture tells.
const SENDER_LAST: Stage = Stage::Sent;

/// The budget at this end.
#[derive(Clone, Debug, Serialize)]
pub struct BudgetReport {
    /// Pictures that were looked at: whole, behind the first second, and followed by another one.
    pub pictures: u64,
    /// Those that say when they were captured.
    pub with_capture_time: u64,
    /// Those whose sender's stages are known, too. All figures are of these, or, where there are none, of those that say
    /// their capture.
    pub with_stages: u64,
    /// The parts of the way, in order; empty where nothing is known.
    pub steps: Vec<StepReport>,
    /// From capture to here, in milliseconds.
    pub total_ms: Option<Distribution>,
    /// From the encoder's queue to the first packet, in milliseconds, where the sender says it.
    pub first_packet_ms: Option<Distribution>,
    /// Pictures that came before their sender says that it had sent, or captured, them.
    pub from_the_future: u64,
    /// By how much at most they did, in milliseconds.
    pub future_ms_max: Option<f64>,
    /// By whose clock arrivals are told: "server" or "local".
    pub clock: &'static str,
    /// How wrong that clock may be, in milliseconds, where it was asked for over the network.
    pub clock_uncertainty_ms: Option<f64>,
    /// What the sender says of its own clock: "unknown", "unsynchronised" or "synchronised".
    pub sender_clock: &'static str,
    /// How wrong that may be by its own estimate, in milliseconds.
    pub sender_clock_uncertainty_ms: Option<f64>,
    /// What a reader should know, in sentences.
    pub notes: Vec<String>,
    /// How long pictures took in all, in milliseconds, for plots.
    #[serde(skip)]
    pub totals_ms: Vec<f64>,
}

/// How long a part of the way took.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct StepReport {
    /// The stage at which it began.
    #[serde(serialize_with = "name")]
    pub from: Stage,
    /// The stage at which it ended.
    #[serde(serialize_with = "name")]
    pub to: Stage,
    /// How long it took, in milliseconds.
    pub ms: Distribution,
}

fn name<S: Serializer>(stage: &Stage, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(stage.name())
}

/// Figures of one kind of pictures.
#[derive(Clone, Debug, Default)]
struct Figures {
    /// By the stage at the end and the one at the start, so that they stand in the order of the way. Milliseconds.
    steps: BTreeMap<(Stage, Stage), Samples>,
    total: Samples,
    first_packet: Samples,
}

impl Figures {
    fn push(&mut self, stamps: &Stamps) {
        for step in stamps.budget() {
            self.steps.entry((step.to, step.from)).or_default().push(ms(step.time));
        }
        if let Some(total) = stamps.between(Stage::Captured, Stage::Received) {
            self.total.push(ms(total));
        }
        if let Some(first) = stamps.between(Stage::Queued, Stage::FirstSent) {
            self.first_packet.push(ms(first));
        }
    }
}

fn ms(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e6
}

/// A picture that waits for the next one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) captured: Option<Utc>,
    record: Option<Record>,
    pub(crate) received: Time,
}

impl Waiting {
    /// The picture of an access unit whose last byte the socket gave at `received`.
    pub(crate) fn of(data: &[u8], received: Time) -> Waiting {
        let head = h264::nals(data).take_while(|nal| !nal.kind().is_slice());
        let said = head.filter(|nal| nal.kind() == NalType::Sei).find_map(|nal| {
            let sei = Sei::parse(nal.payload());
            Some((sei.capture_utc()?, sei.stamp_record()))
        });
        let (captured, record) = said.unzip();
        Waiting { captured, record: record.flatten(), received }
    }

    /// What `next` says of this picture's later stages, if it is the one behind it.
    pub(crate) fn told_by(&self, next: &Waiting) -> Option<Stamps> {
        let previous = next.record?.previous?;
        let before = next.captured?.as_nanos().checked_sub(previous.ago.as_nanos() as u64)?;
        // The time between is in whole microseconds, rounded down.
        let is_ours = before.checked_sub(self.captured?.as_nanos()).is_some_and(|off| off < 1000);
        let staged = self.record?.own.or(&previous.stages);
        Some(staged).filter(|stamps| is_ours && stamps.between(Stage::Captured, SENDER_LAST).is_some())
    }
}

/// Follows one stream of H.264.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    clock: WallClock,
    began: Option<Time>,
    waiting: Option<Waiting>,
    pictures: u64,
    with_capture_time: u64,
    with_stages: u64,
    /// Of pictures whose sender's stages are known.
    staged: Figures,
    /// Of those that only say their capture.
    plain: Figures,
    from_the_future: u64,
    future_ns_max: u64,
    sender_clock: ClockAccuracy,
}

impl Budget {
    pub(super) fn new(clock: WallClock) -> Budget {
        Budget {
            clock,
            began: None,
            waiting: None,
            pictures: 0,
            with_capture_time: 0,
            with_stages: 0,
            staged: Figures::default(),
            plain: Figures::default(),
            from_the_future: 0,
            future_ns_max: 0,
            sender_clock: ClockAccuracy::Unknown,
        }
    }

    /// Takes the next access unit, whose last byte the socket gave at `received`.
    pub(super) fn unit(&mut self, data: &[u8], received: Time) {
        let began = *self.began.get_or_insert(received);
        let next = Waiting::of(data, received);
        if let Some(picture) = self.waiting.replace(next)
            && picture.received.since(began) >= SETTLE
        {
            self.finish(&picture, &next);
        }
    }

    /// The figures of a picture, once the next one is known.
    fn finish(&mut self, picture: &Waiting, next: &Waiting) {
        self.pictures += 1;
        let Some(captured) = picture.captured else { return };
        self.with_capture_time += 1;
        self.sender_clock = picture.record.map_or(self.sender_clock, |record| record.clock);
        let staged = picture.told_by(next);
        self.with_stages += u64::from(staged.is_some());
        let said = staged.unwrap_or(Stamps::captured_at(Time::ZERO));
        let mut stamps = said.rebased(Time::from_nanos(captured.as_nanos()));
        if let Some(received) = self.received(picture.received, &stamps) {
            stamps.set(Stage::Received, received);
        }
        let figures = if staged.is_some() { &mut self.staged } else { &mut self.plain };
        figures.push(&stamps);
    }

    /// When the picture came, on the wall clock; `None` where that is before its sender had sent it.
    fn received(&mut self, received: Time, stamps: &Stamps) -> Option<Time> {
        let sent = stamps.at(SENDER_LAST).or(stamps.at(Stage::Captured))?;
        match self.clock.arrival(received, sent) {
            Ok(received) => Some(received),
            Err(early) => {
                self.from_the_future += 1;
                self.future_ns_max = self.future_ns_max.max(early.as_nanos() as u64);
                None
            }
        }
    }

    pub(super) fn report(&self) -> BudgetReport {
        let figures = if self.with_stages > 0 { &self.staged } else { &self.plain };
        let all = |samples: &Samples| samples.distribution(|value| value);
        let step = |(&(to, from), samples): (&(Stage, Stage), &Samples)| {
            Some(StepReport { from, to, ms: all(samples)? })
        };
        let (sender_clock, error) = match self.sender_clock {
            ClockAccuracy::Unknown => ("unknown", None),
            ClockAccuracy::Unsynchronised => ("unsynchronised", None),
            ClockAccuracy::Within(error) => ("synchronised", Some(ms(error))),
        };
        BudgetReport {
            pictures: self.pictures,
            with_capture_time: self.with_capture_time,
            with_stages: self.with_stages,
            steps: figures.steps.iter().filter_map(step).collect(),
            total_ms: all(&figures.total),
            first_packet_ms: all(&figures.first_packet),
            from_the_future: self.from_the_future,
            future_ms_max: (self.from_the_future > 0).then_some(self.future_ns_max as f64 / 1e6),
            clock: self.clock.whose,
            clock_uncertainty_ms: self.clock.uncertainty_ms,
            sender_clock,
            sender_clock_uncertainty_ms: error,
            notes: self.notes(),
            totals_ms: figures.total.kept().collect(),
        }
    }

    fn notes(&self) -> Vec<String> {
        if self.pictures == 0 {
            let note = "Unknown: no two pictures of H.264 came after the first second, which is left out; listen for longer \
                        (--duration).";
            return vec![note.to_owned()];
        }
        if self.with_capture_time == 0 {
            let note = "Unknown: no picture says when it was captured. The stream's encoder has to write that into it, as \
                        glassline encode does.";
            return vec![note.to_owned()];
        }
        let mut notes = Vec::new();
        let pictures = self.pictures;
        if self.with_stages == 0 {
            notes.push(
                "The sender does not say its stages: only the whole way, from capture to here, is known."
                    .into(),
            );
        } else if self.with_stages < pictures {
            let without = pictures - self.with_stages;
            notes.push(format!(
                "{without} of {pictures} pictures are left out: their stages, or the picture behind them, did not come."
            ));
        }
        if self.from_the_future > 0 {
            notes.push(format!(
                "{} of {pictures} pictures come from the future: they were here up to {:.1} ms before their sender says \
                 that they left it. The clocks of both machines disagree by at least that, and the way from there to here \
                 is unknown for these.",
                self.from_the_future,
                self.future_ns_max as f64 / 1e6
            ));
        }
        if self.sender_clock == ClockAccuracy::Unsynchronised {
            let note = "The sender says that nothing keeps its wall clock: where it is another machine, the way from there \
                        to here is as wrong as that clock.";
            notes.push(note.to_owned());
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::bitstream::h264::sei::{USER_DATA_UNREGISTERED, write_message};
    use glassline_media::bitstream::h264::{write_capture, write_capture_utc_nal};
    use glassline_media::stamps::Previous;
    use proptest::prelude::*;

    const UTC_AT_ZERO: u64 = 1_700_000_000_000_000_000;
    const INTERVAL: u64 = 20_000;

    fn clock(ahead_micros: i64) -> WallClock {
        let utc = Utc::from_nanos(UTC_AT_ZERO.wrapping_add_signed(ahead_micros * 1000));
        WallClock { at: Time::ZERO, utc, whose: "server", uncertainty_ms: Some(0.5) }
    }

    fn micros(value: u64) -> Time {
        Time::from_nanos(value * 1000)
    }

    fn after(all: &[(Stage, u64)]) -> Stamps {
        all.iter()
            .fold(Stamps::captured_at(Time::ZERO), |stamps, &(stage, at)| stamps.with(stage, micros(at)))
    }

    /// A picture of 50 a second that says its stages and those of the one before.
    fn unit(number: u64) -> Vec<u8> {
        let own = after(&[(Stage::Arrived, 400), (Stage::Queued, 500), (Stage::EncoderIn, 600)]);
        let stages = after(&[
            (Stage::FirstSlice, 2_000),
            (Stage::FirstSent, 2_200),
            (Stage::Encoded, 8_000),
            (Stage::Muxed, 8_100),
            (Stage::Sent, 8_300),
        ]);
        let previous = (number > 0).then_some(Previous { ago: Duration::from_micros(INTERVAL), stages });
        let clock = ClockAccuracy::Within(Duration::from_micros(64));
        let captured = Utc::from_nanos(UTC_AT_ZERO + number * INTERVAL * 1000);
        let mut unit = Vec::new();
        let payload = write_capture(captured, &Record { clock, own, previous });
        write_message(USER_DATA_UNREGISTERED, &payload, &mut unit);
        unit.extend_from_slice(&[0, 0, 1, 0x41, 0x9a]);
        unit
    }

    /// 200 pictures, each here 10 ms after its capture.
    fn followed(ahead_micros: i64, is_there: impl Fn(u64) -> bool) -> BudgetReport {
        let mut budget = Budget::new(clock(ahead_micros));
        for number in (0..200).filter(|number| is_there(*number)) {
            budget.unit(&unit(number), micros(number * INTERVAL + 10_000));
        }
        budget.report()
    }

    #[test]
    fn each_step_is_told_and_all_add_up() {
        let report = followed(0, |_| true);
        let steps: Vec<_> = report.steps.iter().map(|step| (step.to, step.ms.p50)).collect();
        let expected = [
            (Stage::Arrived, 0.4),
            (Stage::Queued, 0.1),
            (Stage::EncoderIn, 0.1),
            (Stage::FirstSlice, 1.4),
            (Stage::Encoded, 6.0),
            (Stage::Muxed, 0.1),
            (Stage::Sent, 0.2),
            (Stage::Received, 1.7),
        ];
        assert_eq!(steps, expected);
        assert_eq!(report.total_ms.unwrap().p99, 10.0);
        assert_eq!(report.first_packet_ms.unwrap().max, 1.7);
        // The first second is left out, and the last picture waits for another one.
        assert_eq!((report.pictures, report.with_stages, report.from_the_future), (149, 149, 0));
        assert_eq!((report.sender_clock, report.sender_clock_uncertainty_ms), ("synchronised", Some(0.064)));
        assert!(report.notes.is_empty(), "{:?}", report.notes);
    }

    #[test]
    fn a_picture_whose_successor_is_lost_is_left_out_and_none_gets_anothers_stages() {
        let report = followed(0, |number| number != 120);
        assert_eq!((report.pictures, report.with_stages), (148, 147));
        assert_eq!(report.total_ms.unwrap().count, 147);
        assert!(report.notes[0].contains("1 of 148 pictures are left out"), "{:?}", report.notes);
    }

    #[test]
    fn pictures_from_the_future_are_told_as_such() {
        // Our clock is 5 ms behind: pictures seem to come 3.3 ms before they left.
        let report = followed(-5_000, |_| true);
        assert_eq!((report.from_the_future, report.future_ms_max), (149, Some(3.3)));
        assert_eq!(report.steps.last().unwrap().to, Stage::Sent);
        assert!(report.total_ms.is_none() && report.notes[0].contains("come from the future"), "{report:?}");
        // Within what call and clock may be off it took no time.
        let near = followed(-3_000, |_| true);
        assert_eq!((near.from_the_future, near.steps.last().unwrap().ms.max), (0, 0.0));
    }

    #[test]
    fn a_sender_that_only_says_the_capture_gives_the_whole_way_and_another_none() {
        let mut budget = Budget::new(clock(0));
        for number in 0..200 {
            let mut unit = Vec::new();
            write_capture_utc_nal(Utc::from_nanos(UTC_AT_ZERO + number * INTERVAL * 1000), &mut unit);
            unit.extend_from_slice(&[0, 0, 1, 0x41, 0x9a]);
            budget.unit(&unit, micros(number * INTERVAL + 9_000));
        }
        let report = budget.report();
        let ends: Vec<_> = report.steps.iter().map(|step| (step.from, step.to, step.ms.max)).collect();
        assert_eq!(ends, [(Stage::Captured, Stage::Received, 9.0)]);
        assert!(report.notes[0].contains("does not say its stages"), "{:?}", report.notes);
        let mut without = Budget::new(clock(0));
        (0..200).for_each(|number| without.unit(&[0, 0, 1, 0x41, 0x9a], micros(number * INTERVAL)));
        let report = without.report();
        assert!(report.steps.is_empty() && report.notes[0].contains("no picture says"), "{report:?}");
        assert!(Budget::new(clock(0)).report().notes[0].contains("no two pictures"));
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(any::<u8>(), 0..50)
    }

    proptest! {
        #[test]
        fn whatever_a_sender_says_no_step_is_nonsense(
            said in proptest::collection::vec((any::<u64>(), bytes(), any::<u64>()), 0..40),
            utc: u64,
        ) {
            let mut budget = Budget::new(WallClock { utc: Utc::from_nanos(utc), ..clock(0) });
            for (captured, record, received) in said {
                let mut unit = Vec::new();
                let payload = [&h264::CAPTURE_UTC_UUID[..], &captured.to_be_bytes(), &[1], &record].concat();
                write_message(USER_DATA_UNREGISTERED, &payload, &mut unit);
                unit.extend_from_slice(&[0, 0, 1, 0x41, 0x9a]);
                budget.unit(&unit, Time::from_nanos(received));
            }
            let report = budget.report();
            for all in report.steps.iter().map(|step| step.ms).chain(report.total_ms) {
                prop_assert!(all.min >= 0.0 && all.max <= 60_000.0, "{all:?}");
            }
        }
    }
}
