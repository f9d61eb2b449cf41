//! Where the milliseconds of a stream's pictures went, from capture to here: by the stages that its sender says in the
//! stream, and by when the last byte of each picture came.
//!
//! A picture's later stages are said with the next picture: each waits for that one. All is put onto one wall clock; what
//! lies between two machines is as right as their clocks, and what cannot be is unknown and counted.

use super::age::WallClock;
use super::budget_figures::{BudgetReport, Figures, StepReport, ms};
use super::stages::{RelayStages, SENDER_LAST, Waiting};
use crate::samples::Samples;
use glassline_media::stamps::ClockAccuracy;
use glassline_media::{Codec, Stage, Stamps, Time};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// So much is left out at the start: servers send at once what has been since the last key frame.
const SETTLE: Duration = Duration::from_secs(1);
/// As many pictures as a server tells of.
const KEPT_PICTURES: usize = 1200;

/// A picture that the server may say something of.
#[derive(Clone, Copy, Debug)]
struct Kept {
    captured_us: u64,
    /// On the wall clock.
    stamps: Stamps,
    has_stages: bool,
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
    /// Of pictures with their sender's stages.
    staged: Figures,
    /// Of those that only say their capture.
    plain: Figures,
    /// Of those of which the server says when it passed them on.
    relayed: Figures,
    with_relay: u64,
    /// Those of which it says what cannot be.
    impossible: u64,
    /// The newest that are here and known.
    kept: VecDeque<Kept>,
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
            relayed: Figures::default(),
            with_relay: 0,
            impossible: 0,
            kept: VecDeque::new(),
            from_the_future: 0,
            future_ns_max: 0,
            sender_clock: ClockAccuracy::Unknown,
        }
    }

    /// Takes the next access unit of `codec`; the socket gave its last byte at `received`.
    pub(super) fn unit(&mut self, codec: Codec, data: &[u8], received: Time) {
        let began = *self.began.get_or_insert(received);
        let next = Waiting::of(codec, data, received);
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
        if self.kept.len() >= KEPT_PICTURES {
            self.kept.pop_front();
        }
        let (captured_us, has_stages) = (captured.as_micros(), staged.is_some());
        self.kept.push_back(Kept { captured_us, stamps, has_stages });
    }

    /// Takes when the server passed its last pictures on, of which it told at the end.
    pub(super) fn relay(&mut self, passed: &[RelayStages]) {
        // At times the server may have had no other viewers to send pictures to. Where it says of some pictures when it
        // sent them, the others do not count, so that all have the same parts.
        let is_sent = passed.iter().any(|stages| stages.relay_sent.is_some());
        let passed: BTreeMap<u64, &RelayStages> = passed
            .iter()
            .filter(|stages| stages.relay_sent.is_some() || !is_sent)
            .map(|stages| (stages.captured_us, stages))
            .collect();
        // As elsewhere: those that say their stages count, or where there are none the others.
        let counts = |kept: &&Kept| kept.has_stages || self.with_stages == 0;
        let kept: Vec<_> = self.kept.iter().filter(counts).copied().collect();
        for kept in kept {
            if let Some(stages) = passed.get(&kept.captured_us) {
                match self.with_relay(&kept.stamps, stages) {
                    Some(stamps) => {
                        self.relayed.push(&stamps);
                        self.with_relay += 1;
                    }
                    None => self.impossible += 1,
                }
            }
        }
    }

    /// The same stamps with those of the server; `None` where one of these cannot be: before the picture was sent, or behind
    /// its arrival here. On one machine a stage may be told a little later than the next one had what it is about; so late,
    /// it took no time.
    fn with_relay(&self, stamps: &Stamps, relay: &RelayStages) -> Option<Stamps> {
        let sent = stamps.at(SENDER_LAST).or(stamps.at(Stage::Captured))?;
        let (mut staged, mut latest) = (*stamps, sent);
        let received = stamps.at(Stage::Received).unwrap_or(Time::NEVER);
        let tolerance = self.clock.tolerance();
        for (stage, at) in relay.all() {
            let at = u64::try_from(at).map(Time::from_nanos).ok()?;
            let possible = at.clamp(latest, received.max(latest));
            if at.since(possible).max(possible.since(at)) > tolerance {
                return None;
            }
            staged.set(stage, possible);
            latest = possible;
        }
        Some(staged)
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
        let figures = match (self.with_relay, self.with_stages) {
            (0, 0) => &self.plain,
            (0, _) => &self.staged,
            _ => &self.relayed,
        };
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
            with_relay: self.with_relay,
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
        let known = if self.with_stages > 0 { self.with_stages } else { self.with_capture_time };
        if (1..known).contains(&self.with_relay) {
            notes.push(format!(
                "The figures are of the {} newest pictures of which the server says when they passed it.",
                self.with_relay
            ));
        }
        if self.impossible > 0 {
            notes.push(format!(
                "The server says of {} pictures that they passed it before they were sent, or behind their arrival here: its \
                 clock and the sender's disagree, and its stages are unknown for these.",
                self.impossible
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
    use glassline_media::Utc;
    use glassline_media::bitstream::h264::sei::{USER_DATA_UNREGISTERED, write_message};
    use glassline_media::bitstream::h264::{self, write_capture, write_capture_utc_nal};
    use glassline_media::stamps::{Previous, Record};
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
            budget.unit(Codec::H264, &unit(number), micros(number * INTERVAL + 10_000));
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

    /// What a server says that had each picture 9 ms after its capture, which is 0.7 ms after it was sent.
    fn passed(numbers: std::ops::Range<u64>) -> Vec<RelayStages> {
        let stages = |number| RelayStages {
            captured_us: (UTC_AT_ZERO / 1000) + number * INTERVAL,
            relay_received: Some(9_000),
            relay_released: None,
            relay_flushed: Some(9_050),
            relay_sent: Some(9_350),
        };
        numbers.map(stages).collect()
    }

    fn relayed(passed: &[RelayStages]) -> BudgetReport {
        let mut budget = Budget::new(clock(0));
        (0..200)
            .for_each(|number| budget.unit(Codec::H264, &unit(number), micros(number * INTERVAL + 10_000)));
        budget.relay(passed);
        budget.report()
    }

    #[test]
    fn what_the_server_says_of_its_stages_splits_the_way_to_here() {
        let report = relayed(&passed(0..300));
        let ends: Vec<_> = report
            .steps
            .iter()
            .skip(6)
            .map(|step| (step.from, step.to, step.ms.max, step.ms.count))
            .collect();
        let expected = [
            (Stage::Muxed, Stage::Sent, 0.2, 149),
            (Stage::Sent, Stage::RelayReceived, 0.7, 149),
            (Stage::RelayReceived, Stage::RelayFlushed, 0.05, 149),
            (Stage::RelayFlushed, Stage::RelaySent, 0.3, 149),
            (Stage::RelaySent, Stage::Received, 0.65, 149),
        ];
        assert_eq!(ends, expected);
        assert_eq!((report.with_relay, report.total_ms.unwrap().max), (149, 10.0));
        assert!(report.notes.is_empty(), "{:?}", report.notes);
        // Of every other picture nobody was sent it; and it tells the last ten seconds, here as if they were less.
        let mut some = passed(150..300);
        some.iter_mut()
            .filter(|stages| stages.captured_us % (2 * INTERVAL) != 0)
            .for_each(|stages| stages.relay_sent = None);
        let report = relayed(&some);
        assert_eq!((report.with_relay, report.total_ms.unwrap().count, report.steps.len()), (25, 25, 11));
        assert!(report.notes[0].contains("the 25 newest pictures"), "{:?}", report.notes);
        // Without viewers it ends with the flush.
        some.iter_mut().for_each(|stages| stages.relay_sent = None);
        assert_eq!(relayed(&some).steps.last().unwrap().from, Stage::RelayFlushed);
        // One of other pictures tells nothing, and nothing changes.
        assert_eq!(relayed(&passed(1000..1100)).steps.len(), 8);
    }

    #[test]
    fn a_servers_stage_that_cannot_be_is_unknown_and_one_that_is_told_late_took_no_time() {
        let with = |received, flushed| RelayStages {
            relay_received: received,
            relay_released: None,
            relay_flushed: flushed,
            relay_sent: None,
            ..passed(100..101)[0]
        };
        let steps = |stages: RelayStages| {
            let steps = relayed(&[stages]).steps;
            steps.iter().skip(7).map(|step| (step.to, step.ms.max)).collect::<Vec<_>>()
        };
        // 0.3 ms before it was sent, and 0.5 ms behind its arrival here.
        let near = [(Stage::RelayReceived, 0.0), (Stage::RelayFlushed, 1.7), (Stage::Received, 0.0)];
        assert_eq!(steps(with(Some(8_000), Some(10_500))), near);
        for impossible in
            [with(Some(2_000), None), with(Some(9_000), Some(30_000)), with(Some(i64::MIN), Some(i64::MAX))]
        {
            assert_eq!(steps(impossible), [(Stage::Received, 1.7)]);
            let report = relayed(&[impossible]);
            assert_eq!(report.with_relay, 0);
            assert!(report.notes[0].contains("says of 1 pictures"), "{:?}", report.notes);
        }
        assert_eq!(steps(with(None, Some(9_000))), [(Stage::RelayFlushed, 0.7), (Stage::Received, 1.0)]);
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
            budget.unit(Codec::H264, &unit, micros(number * INTERVAL + 9_000));
        }
        let report = budget.report();
        let ends: Vec<_> = report.steps.iter().map(|step| (step.from, step.to, step.ms.max)).collect();
        assert_eq!(ends, [(Stage::Captured, Stage::Received, 9.0)]);
        assert!(report.notes[0].contains("does not say its stages"), "{:?}", report.notes);
        let mut without = Budget::new(clock(0));
        (0..200)
            .for_each(|number| without.unit(Codec::H264, &[0, 0, 1, 0x41, 0x9a], micros(number * INTERVAL)));
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
            relay in proptest::collection::vec((any::<u64>(), any::<[Option<i64>; 3]>()), 0..40),
        ) {
            let mut budget = Budget::new(WallClock { utc: Utc::from_nanos(utc), ..clock(0) });
            for (captured, record, received) in said {
                let mut unit = Vec::new();
                let payload = [&h264::CAPTURE_UTC_UUID[..], &captured.to_be_bytes(), &[1], &record].concat();
                write_message(USER_DATA_UNREGISTERED, &payload, &mut unit);
                unit.extend_from_slice(&[0, 0, 1, 0x41, 0x9a]);
                budget.unit(Codec::H264, &unit, Time::from_nanos(received));
            }
            let passed = relay.into_iter().map(|(captured_us, [relay_received, relay_flushed, relay_sent])| {
                RelayStages { captured_us, relay_received, relay_released: None, relay_flushed, relay_sent }
            });
            let own = budget.kept.iter().map(|kept| RelayStages {
                captured_us: kept.captured_us,
                ..passed.clone().next().unwrap_or(RelayStages {
                    captured_us: 0,
                    relay_received: Some(0),
                    relay_released: None,
                    relay_flushed: None,
                    relay_sent: None,
                })
            });
            let passed: Vec<_> = passed.clone().chain(own).collect();
            budget.relay(&passed);
            let report = budget.report();
            for all in report.steps.iter().map(|step| step.ms).chain(report.total_ms) {
                prop_assert!(all.min >= 0.0 && all.max <= 60_000.0, "{all:?}");
            }
        }
    }
}
