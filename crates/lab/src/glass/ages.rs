//! What the barcodes of pictures say about their age. Pure: the time is handed in.

use super::{Look, SETTLE, age_ms};
use glassline_inspect::{Distribution, Samples};
use glassline_measure::barcode;
use glassline_media::{Picture, Time, Utc};
use serde::Serialize;

/// Frame numbers count modulo this.
const NUMBERS: u32 = 1 << 24;

/// Gathers pictures in the order in which they are shown.
#[derive(Clone, Debug, Default)]
pub struct Ages {
    decoded: u64,
    first: Option<Utc>,
    ages: Samples,
    late: u64,
    unread: u64,
    torn: u64,
    missing: u64,
    /// Number and capture time of the last one.
    last: Option<(u32, Utc)>,
    /// The shortest time from one picture to the next, microseconds.
    interval: Option<f64>,
}

/// What was seen after the first second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Seen {
    /// Pictures that came, those of the first second among them.
    pub pictures: u64,
    /// Pictures that are missing between the numbers of those that came.
    pub missing: u64,
    /// Pictures that were older than `late_after_ms`.
    pub late: u64,
    /// So long two pictures take, in milliseconds; `None` before two that follow each other were read.
    pub late_after_ms: Option<f64>,
    /// Pictures without a barcode that can be read.
    pub unread: u64,
    /// Pictures with two barcodes of different pictures.
    pub torn: u64,
    /// From capture to here, in milliseconds.
    pub age_ms: Distribution,
}

impl Ages {
    /// Takes what was read in the next picture, which was here at `now`. Returns its age in milliseconds, where it has one and
    /// counts: not in the first second.
    pub fn push(&mut self, read: &barcode::Read, now: Utc) -> Option<f64> {
        self.decoded += 1;
        let first = *self.first.get_or_insert(now);
        if now.as_nanos().saturating_sub(first.as_nanos()) < SETTLE.as_nanos() as u64 {
            return None;
        }
        let Some(code) = read.top_left.or(read.bottom_right) else {
            self.unread += 1;
            return None;
        };
        self.torn +=
            u64::from(read.bottom_right.is_some_and(|other| other.frame_number != code.frame_number));
        let captured = code.unwrap_near(now);
        if let Some((number, before)) = self.last {
            let step = code.frame_number.wrapping_sub(number) % NUMBERS;
            // A number that is not ahead of the last one is that of another run of the source.
            if (1..NUMBERS / 2).contains(&step) {
                self.missing += u64::from(step) - 1;
                let interval = (captured.as_micros() as f64 - before.as_micros() as f64) / f64::from(step);
                self.interval = Some(self.interval.map_or(interval, |least| least.min(interval)));
            }
        }
        self.last = Some((code.frame_number, captured));
        let age = age_ms(now, captured);
        self.ages.push(age);
        self.late += u64::from(self.late_after_ms().is_some_and(|limit| age > limit));
        Some(age)
    }

    /// Pictures that the decoder gave, the first second's included.
    pub fn decoded(&self) -> u64 {
        self.decoded
    }

    /// Pictures without a barcode that can be read, after the first second.
    pub fn unread(&self) -> u64 {
        self.unread
    }

    /// A picture is late when it is older than two of its kind take.
    fn late_after_ms(&self) -> Option<f64> {
        self.interval.map(|micros| 2.0 * micros / 1e3)
    }

    /// The figures, if any barcode was read.
    pub fn seen(&self) -> Option<Seen> {
        Some(Seen {
            age_ms: self.ages.distribution(|age| age)?,
            pictures: self.decoded,
            missing: self.missing,
            late: self.late,
            late_after_ms: self.late_after_ms(),
            unread: self.unread,
            torn: self.torn,
        })
    }
}

impl Look for Ages {
    fn look(&mut self, picture: &Picture, _: Time, utc: Utc) {
        self.push(&barcode::read(picture), utc);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_measure::barcode::{Barcode, Read};
    use glassline_media::{PixelFormat, Size};

    const START: u64 = 1_700_000_000_000_000;

    /// A picture of 50 a second.
    fn picture(number: u64) -> Picture {
        let mut picture = Picture::new(PixelFormat::I420, Size::new(320, 180).unwrap(), Time::ZERO);
        Barcode::new(number, Utc::from_micros(START + number * 20_000)).draw(&mut picture);
        picture
    }

    fn shown(number: u64, age_millis: u64) -> Utc {
        Utc::from_micros(START + number * 20_000 + age_millis * 1000)
    }

    #[test]
    fn ages_gaps_and_late_pictures_are_counted_after_the_first_second() {
        let mut ages = Ages::default();
        let first = 5;
        // Old pictures of the first second do not count, nor do its gaps.
        (first..first + 50).filter(|number| number % 7 != 0).for_each(|number| {
            ages.push(&barcode::read(&picture(number)), shown(number, 15));
        });
        for number in (60..110).filter(|number| ![70, 71, 80].contains(number)) {
            ages.push(&barcode::read(&picture(number)), shown(number, if number == 90 { 41 } else { 15 }));
        }
        let empty = Picture::new(PixelFormat::I420, Size::new(320, 180).unwrap(), Time::ZERO);
        ages.push(&barcode::read(&empty), shown(111, 15));
        let mut torn = picture(110);
        let lower = picture(109);
        for y in 100..180 {
            torn.planes_mut()[0].line_mut(y).copy_from_slice(lower.planes()[0].line(y));
        }
        ages.push(&barcode::read(&torn), shown(110, 15));
        let seen = ages.seen().unwrap();
        assert_eq!((seen.missing, seen.late, seen.unread, seen.torn), (3, 1, 1, 1));
        assert_eq!((seen.late_after_ms, seen.age_ms.count), (Some(40.0), 48));
        assert_eq!((seen.age_ms.p50, seen.age_ms.max), (15.0, 41.0));
    }

    #[test]
    fn a_source_that_begins_anew_misses_nothing() {
        let mut ages = Ages::default();
        for (number, at) in [(100, 160), (160, 220), (161, 221), (2, 222), (3, 223)] {
            ages.push(&barcode::read(&picture(number)), shown(at, 10));
        }
        assert_eq!(ages.seen().unwrap().missing, 0);
    }

    #[test]
    fn without_a_barcode_there_is_nothing_to_tell() {
        let mut ages = Ages::default();
        (0..100).for_each(|number| assert_eq!(ages.push(&Read::default(), shown(number, 0)), None));
        assert_eq!((ages.decoded(), ages.seen()), (100, None));
    }
}
