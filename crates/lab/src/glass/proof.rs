//! The sum of the stages that a stream tells, held against barcode to barcode.
//!
//! The two have nothing in common but the end's clock: stages come from the messages in the stream and from when bytes
//! came, the barcode was drawn into the picture before the encoder took it and is read after another program's decoder
//! gave it.

use super::{Ages, Look, Seen, age_ms};
use glassline_inspect::transport_stream::{StepReport, Waiting, WallClock};
use glassline_inspect::{Distribution, Samples};
use glassline_measure::barcode;
use glassline_media::{Codec, Picture, Stage, Stamps, Time, Utc};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// What a stream of H.264 says of its pictures, in the order in which they are decoded.
#[derive(Clone, Debug, Default)]
pub struct Told {
    waiting: Option<Waiting>,
    pictures: Vec<Said>,
}

/// What was said of a picture.
#[derive(Clone, Debug)]
struct Said {
    captured: Option<Utc>,
    received: Time,
    /// The sender's stages, where all of them are known.
    stages: Option<Box<Stamps>>,
}

impl Told {
    /// Takes the next access unit; the socket gave its last byte at `received`. Cost: some 200 bytes a picture are
    /// kept.
    pub fn unit(&mut self, data: &[u8], received: Time) {
        let next = Waiting::of(Codec::H264, data, received);
        if let Some(picture) = self.waiting.replace(next) {
            self.note(&picture, picture.told_by(&next));
        }
    }

    fn note(&mut self, picture: &Waiting, stages: Option<Stamps>) {
        let (captured, received) = (picture.captured, picture.received);
        self.pictures.push(Said { captured, received, stages: stages.map(Box::new) });
    }

    /// Says that no unit follows: the last one's later stages stay unknown.
    pub fn finish(&mut self) {
        if let Some(last) = self.waiting.take() {
            self.note(&last, None);
        }
    }

    /// Access units so far.
    pub fn units(&self) -> u64 {
        self.pictures.len() as u64 + u64::from(self.waiting.is_some())
    }
}

/// What the barcodes of decoded pictures say, by one wall clock.
#[derive(Clone, Debug)]
pub struct Sights {
    clock: WallClock,
    ages: Ages,
    seen: Vec<Sight>,
}

#[derive(Clone, Copy, Debug)]
struct Sight {
    at: Time,
    /// By the barcode; `None` where there is none, and in the first second.
    captured: Option<Utc>,
}

impl Sights {
    /// Ages are told by this clock.
    pub fn new(clock: WallClock) -> Sights {
        Sights { clock, ages: Ages::default(), seen: Vec::new() }
    }

    /// Takes what was read in the next picture, which was here at `at`.
    pub fn push(&mut self, read: &barcode::Read, at: Time) {
        let now = self.clock.utc_at(at);
        let code = read.top_left.or(read.bottom_right);
        let captured = self.ages.push(read, now).and_then(|_| Some(code?.unwrap_near(now)));
        self.seen.push(Sight { at, captured });
    }

    /// Pictures so far, those of the first second and those without a barcode among them.
    pub fn pictures(&self) -> u64 {
        self.ages.decoded()
    }

    /// Pictures without a barcode, after the first second.
    pub fn unread(&self) -> u64 {
        self.ages.unread()
    }

    /// The figures, if any barcode was read.
    pub fn figures(&self) -> Option<Seen> {
        self.ages.seen()
    }

    /// How old each picture was, in milliseconds.
    pub fn ages_ms(&self) -> impl Iterator<Item = f64> + '_ {
        self.seen.iter().filter_map(|sight| Some(age_ms(self.clock.utc_at(sight.at), sight.captured?)))
    }
}

impl Look for Sights {
    fn look(&mut self, picture: &Picture, at: Time, _: Utc) {
        self.push(&barcode::read(picture), at);
    }
}

/// The sum of stages beside barcode to barcode, of the pictures that have both.
#[derive(Clone, Debug, Serialize)]
pub struct Proof {
    /// Pictures that have both.
    pub compared: u64,
    /// Pictures with a barcode in a stream that does not say, or not for this picture, when it was captured and sent.
    pub without_stages: u64,
    /// How a picture's stages and its barcode came together: "order" where the decoder gave a picture for each access unit, else
    /// "capture_time", the nearest one.
    pub paired_by: &'static str,
    /// The stages, in order.
    pub steps: Vec<StepReport>,
    /// Their sum, in milliseconds.
    pub sum_ms: Option<Distribution>,
    /// Barcode to barcode of the same pictures, in milliseconds.
    pub barcode_ms: Option<Distribution>,
    /// The sum less barcode to barcode, in milliseconds.
    pub difference_ms: Option<Distribution>,
    /// The same without its sign.
    pub apart_ms: Option<Distribution>,
    /// Pictures that came before their sender says that it had sent, or captured, them: *received* is unknown of them. Those that
    /// were decoded before that, too, are not compared.
    pub from_the_future: u64,
    /// By how much at most they did, in milliseconds.
    pub future_ms_max: Option<f64>,
}

#[derive(Clone, Debug, Default)]
struct Sums {
    steps: BTreeMap<(Stage, Stage), Samples>,
    sum: Samples,
    barcode: Samples,
    difference: Samples,
    apart: Samples,
    from_the_future: u64,
    future: Duration,
}

impl Sums {
    /// Takes a picture that has both.
    fn push(&mut self, said: &Said, sight: Sight, barcode: Utc, clock: &WallClock) -> Option<()> {
        let staged = said.stages.as_deref().copied().unwrap_or(Stamps::captured_at(Time::ZERO));
        let mut stamps = staged.rebased(Time::from_nanos(said.captured?.as_nanos()));
        let decoded = Time::from_nanos(clock.utc_at(sight.at).as_nanos());
        let sent = stamps.at(Stage::Sent).or(stamps.at(Stage::Captured))?;
        match clock.arrival(said.received, sent) {
            Ok(received) => stamps.set(Stage::Received, received),
            Err(early) => {
                self.from_the_future += 1;
                self.future = self.future.max(early);
                // Where the decoder's end lies behind it, the sum has all of the way all the same.
                if decoded < sent {
                    return None;
                }
            }
        }
        stamps.set(Stage::Decoded, decoded);
        let mut sum = 0.0;
        for step in stamps.budget() {
            let ms = step.time.as_nanos() as f64 / 1e6;
            self.steps.entry((step.to, step.from)).or_default().push(ms);
            sum += ms;
        }
        let age = age_ms(clock.utc_at(sight.at), barcode);
        self.sum.push(sum);
        self.barcode.push(age);
        self.difference.push(sum - age);
        self.apart.push((sum - age).abs());
        Some(())
    }
}

/// Which of `told` each sight is.
enum Pairs<'a> {
    Order(&'a [Said]),
    /// Those that say their capture, by it, and the furthest that one may be from its barcode.
    Capture(Vec<&'a Said>, u64),
}

impl<'a> Pairs<'a> {
    fn new(told: &'a Told, sights: &Sights) -> Pairs<'a> {
        if told.pictures.len() == sights.seen.len() {
            return Pairs::Order(&told.pictures);
        }
        let mut by_capture: Vec<&Said> =
            told.pictures.iter().filter(|said| said.captured.is_some()).collect();
        by_capture.sort_by_key(|said| said.captured.map(Utc::as_nanos));
        let times = by_capture.iter().filter_map(|said| said.captured).map(Utc::as_nanos);
        let intervals = times.clone().zip(times.skip(1)).map(|(one, next)| next - one);
        let furthest = intervals.filter(|apart| *apart > 0).min().unwrap_or(0) / 2;
        Pairs::Capture(by_capture, furthest)
    }

    fn of(&self, index: usize, barcode: Utc) -> Option<&'a Said> {
        match self {
            Pairs::Order(told) => told.get(index),
            Pairs::Capture(told, furthest) => {
                let apart = |said: &&&Said| {
                    said.captured
                        .map_or(u64::MAX, |captured| captured.as_nanos().abs_diff(barcode.as_nanos()))
                };
                let behind = told.partition_point(|said| said.captured < Some(barcode));
                let near = told.get(behind.saturating_sub(1)..(behind + 1).min(told.len()))?;
                near.iter().min_by_key(apart).filter(|said| apart(said) <= *furthest).copied()
            }
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Pairs::Order(_) => "order",
            Pairs::Capture(..) => "capture_time",
        }
    }
}

impl Proof {
    /// Holds what the stream said against what was seen. Where no picture has its sender's stages, the sum is that of what is known:
    /// from capture to here, and the decoder.
    pub fn new(told: &Told, sights: &Sights) -> Proof {
        let has_stages = told.pictures.iter().any(|said| said.stages.is_some());
        let (pairs, mut sums, mut without_stages) = (Pairs::new(told, sights), Sums::default(), 0);
        for (index, sight) in sights.seen.iter().enumerate() {
            let Some(barcode) = sight.captured else { continue };
            let said = pairs.of(index, barcode);
            let said = said.filter(|said| said.captured.is_some() && said.stages.is_some() == has_stages);
            match said {
                Some(said) => drop(sums.push(said, *sight, barcode, &sights.clock)),
                None => without_stages += 1,
            }
        }
        let all = |samples: &Samples| samples.distribution(|value| value);
        let step = |(&(to, from), samples): (&(Stage, Stage), &Samples)| {
            Some(StepReport { from, to, ms: all(samples)? })
        };
        Proof {
            compared: sums.sum.count(),
            without_stages,
            paired_by: pairs.name(),
            steps: sums.steps.iter().filter_map(step).collect(),
            sum_ms: all(&sums.sum),
            barcode_ms: all(&sums.barcode),
            difference_ms: all(&sums.difference),
            apart_ms: all(&sums.apart),
            from_the_future: sums.from_the_future,
            future_ms_max: (sums.from_the_future > 0).then_some(sums.future.as_secs_f64() * 1e3),
        }
    }

    /// What a reader should know, in sentences.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.compared == 0 && self.from_the_future == 0 {
            let note = "Nothing is compared: the stream does not say when its pictures were captured, as that of glassline encode \
                        does unless it is encoded anew.";
            notes.push(note.to_owned());
        } else if !self.steps.iter().any(|step| step.to == Stage::Sent) && self.compared > 0 {
            let note = "The sender does not say its stages: the sum is of the whole way to here, and of the decoder.";
            notes.push(note.to_owned());
        } else if self.without_stages > 0 {
            notes.push(format!(
                "{} of the pictures are not compared: their stages, or the picture behind them, did not come.",
                self.without_stages
            ));
        }
        if self.paired_by == "capture_time" && self.compared > 0 {
            let note = "The decoder did not give a picture for each access unit: stages were put to the barcode nearest to their \
                        capture time, so that an error of whole pictures would not be seen.";
            notes.push(note.to_owned());
        }
        if self.from_the_future > 0 {
            notes.push(format!(
                "{} pictures come from the future: they were here up to {:.1} ms before their sender says that they left it, and \
                 when they were received is left out. The clocks of both machines disagree by that, or, on one machine, the sender \
                 had to wait for the processor before it could say so.",
                self.from_the_future,
                self.future_ms_max.unwrap_or(0.0)
            ));
        }
        notes
    }
}

#[cfg(test)]
mod tests;
