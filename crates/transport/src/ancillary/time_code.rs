//! Ancillary time code (ST 12-2), which carries the time code of ST 12-1.

use super::{Kind, Packet};
use glassline_media::FrameRate;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use thiserror::Error;

/// User data words of a time code.
const WORDS: usize = 16;
/// In the tens of frames: numbers are left out, so that 29.97 frames a second keep to the clock.
const DROP_FRAME: u8 = 0x4;
/// Numbers a second at most.
const NUMBERS_MAX: u32 = 30;
/// Of drop-frame counting: numbers in ten minutes, and in each of these minutes but the first.
const DROP_TEN_MINUTES: u64 = 17_982;
const DROP_MINUTE: u64 = 1_798;
const DAY_S: u64 = 86_400;

/// Which time code a packet carries (ST 12-2 table 2, the first distributed binary bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Linear time code.
    Ltc,
    /// Vertical interval time code of the first field, or of a frame.
    Vitc1,
    /// Vertical interval time code of the second field.
    Vitc2,
    /// Another one, by its number.
    Other(u8),
}

impl Source {
    const fn of(bits: u8) -> Source {
        match bits {
            0 => Source::Ltc,
            1 => Source::Vitc1,
            2 => Source::Vitc2,
            other => Source::Other(other),
        }
    }

    const fn bits(self) -> u8 {
        match self {
            Source::Ltc => 0,
            Source::Vitc1 => 1,
            Source::Vitc2 => 2,
            Source::Other(other) => other,
        }
    }
}

/// A time of day that counts frames. Where there are more than 30 a second, pairs of frames share a number (ST 12-1 §12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeCode {
    /// 0 to 23.
    pub hours: u8,
    /// 0 to 59.
    pub minutes: u8,
    /// 0 to 59.
    pub seconds: u8,
    /// 0 to 29.
    pub frames: u8,
    /// Frame numbers are dropped, to keep 29.97 and 59.94 frames a second with the clock.
    pub is_drop_frame: bool,
    /// Where it is from.
    pub source: Source,
}

impl TimeCode {
    /// Reads the user data words of a packet; `None` where they are no time.
    ///
    /// ```text
    ///  bit 7 6 5 4: of words 1, 3, 5 … a digit of the time, units of frames first; of words 2, 4, 6 … a group of user bits
    ///  bit 3: of words 1 to 8 what time code it is, of 9 to 16 its state; the lowest bit first
    /// ```
    pub fn parse(words: &[u16]) -> Option<TimeCode> {
        let words = words.first_chunk::<WORDS>()?;
        let low = words.map(|word| {
            let [_, low] = word.to_be_bytes();
            low
        });
        let [f0, _, f1, _, s0, _, s1, _, m0, _, m1, _, h0, _, h1, _] = low.map(|byte| byte >> 4);
        let number = |units: u8, tens: u8, end: u8| {
            let number = tens.saturating_mul(10).saturating_add(units);
            (units < 10 && number < end).then_some(number)
        };
        let bits = low.iter().take(8).rev().fold(0u8, |bits, byte| bits << 1 | byte >> 3 & 1);
        Some(TimeCode {
            frames: number(f0, f1 & 0x3, 30)?,
            seconds: number(s0, s1 & 0x7, 60)?,
            minutes: number(m0, m1 & 0x7, 60)?,
            hours: number(h0, h1 & 0x3, 24)?,
            is_drop_frame: f1 & DROP_FRAME != 0,
            source: Source::of(bits),
        })
    }

    /// An ANC packet of it, with no user bits. Digits outside of their range are cut to their bits.
    pub fn packet(&self) -> Option<Packet> {
        let mut data = [0u8; WORDS];
        let numbers = [self.frames, self.seconds, self.minutes, self.hours];
        for ([units, _, tens, _], number) in data.as_chunks_mut::<4>().0.iter_mut().zip(numbers) {
            *units = (number % 10) << 4;
            *tens = ((number / 10) & 0x7) << 4;
        }
        data[2] |= if self.is_drop_frame { DROP_FRAME << 4 } else { 0 };
        for (index, word) in data.iter_mut().take(8).enumerate() {
            *word |= (self.source.bits() >> index & 1) << 3;
        }
        Packet::new(0x60, 0x60, &data)
    }
}

impl Packet {
    /// Its time code, if it is one that makes sense.
    pub fn time_code(&self) -> Option<TimeCode> {
        (self.kind() == Kind::TimeCode).then(|| TimeCode::parse(self.words()))?
    }
}

/// `HH:MM:SS:FF`; a semicolon stands before the frames where numbers are dropped.
impl fmt::Display for TimeCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TimeCode { hours, minutes, seconds, frames, is_drop_frame, .. } = self;
        let mark = if *is_drop_frame { ';' } else { ':' };
        write!(f, "{hours:02}:{minutes:02}:{seconds:02}{mark}{frames:02}")
    }
}

/// What is no time code.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0:?} is no time code: write HH:MM:SS:FF, or HH:MM:SS;FF of drop-frame numbers")]
pub struct TimeCodeError(String);

/// `HH:MM:SS:FF`; a semicolon or a point before the frames says that numbers are dropped.
impl FromStr for TimeCode {
    type Err = TimeCodeError;
    fn from_str(text: &str) -> Result<TimeCode, TimeCodeError> {
        let wrong = || TimeCodeError(text.chars().take(32).collect());
        let (time, mark, frames) = match text.rfind([':', ';', '.']).map(|at| text.split_at(at)) {
            Some((time, rest)) => {
                let mut rest = rest.chars();
                (time, rest.next().unwrap_or(':'), rest.as_str())
            }
            None => return Err(wrong()),
        };
        let number = |text: &str, end: u8| {
            let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<u8>().ok().filter(|number| is_number && *number < end).ok_or_else(wrong)
        };
        let [hours, minutes, seconds] = time.split(':').collect::<Vec<_>>()[..] else { return Err(wrong()) };
        Ok(TimeCode {
            hours: number(hours, 24)?,
            minutes: number(minutes, 60)?,
            seconds: number(seconds, 60)?,
            // Twice as many where files count each frame of 50 or 60 a second.
            frames: number(frames, 60)?,
            is_drop_frame: mark != ':',
            source: Source::Ltc,
        })
    }
}

/// How frames of a rate are numbered (ST 12-1 §5, §12): up to 30 numbers a second, which several frames share where there are
/// more; 30000/1001 and 60000/1001 a second may drop numbers to keep with the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbering {
    rate: FrameRate,
    /// Numbers a second.
    numbers: u32,
    /// Frames that share a number.
    frames: u32,
    is_drop_frame: bool,
}

impl Numbering {
    /// Of frames at `rate`. Where numbers would be dropped and the rate is none of which they are, they are not.
    #[must_use]
    pub fn new(rate: FrameRate, drops: bool) -> Numbering {
        let (above, below) = (u64::from(rate.numerator()), u64::from(rate.denominator()));
        let nominal = above.saturating_add(below / 2).checked_div(below).unwrap_or(0);
        let nominal = u32::try_from(nominal).unwrap_or(u32::MAX).max(1);
        let fewest = nominal.div_ceil(NUMBERS_MAX);
        // Five hundred frames may share a number; more are beyond any camera.
        let even = (fewest..fewest.saturating_add(500)).find(|&frames| nominal.is_multiple_of(frames));
        let frames = even.unwrap_or(fewest);
        let numbers = nominal.div_ceil(frames);
        let is_slowed = above < u64::from(nominal).saturating_mul(below);
        Numbering { rate, numbers, frames, is_drop_frame: drops && numbers == NUMBERS_MAX && is_slowed }
    }

    /// Whether the clock needs numbers to be dropped: the rate is 1000/1001 of 30 or a multiple of it.
    #[must_use]
    pub fn wants_drops(rate: FrameRate) -> bool {
        Numbering::new(rate, true).is_drop_frame
    }

    /// Whether there is such a time code: numbers of a second end before 30, or earlier.
    #[must_use]
    pub fn has(&self, code: TimeCode) -> bool {
        u32::from(code.frames) < self.numbers && (self.is_drop_frame || !code.is_drop_frame)
    }

    /// Turns a time code that counts frames one by one, as files of more than 30 frames a second do, into one in which
    /// frames share numbers.
    #[must_use]
    pub fn shared(&self, code: TimeCode) -> TimeCode {
        let frames = u32::from(code.frames).checked_div(self.frames).unwrap_or(0);
        let frames = u8::try_from(frames.min(self.numbers.saturating_sub(1))).unwrap_or(0);
        TimeCode { frames, is_drop_frame: self.is_drop_frame, ..code }
    }

    /// The time code of a frame `frames` behind the one of `start`.
    #[must_use]
    pub fn behind(&self, start: TimeCode, frames: u64) -> TimeCode {
        let first = self.number(start).saturating_mul(self.frames.into());
        let number = first.saturating_add(frames).checked_div(self.frames.into()).unwrap_or(0);
        self.time_code(number.checked_rem(self.day()).unwrap_or(0))
    }

    /// The time code of a frame that was captured so long after midnight.
    #[must_use]
    pub fn at(&self, time: Duration) -> TimeCode {
        let nanos = time.as_nanos();
        let number = if self.is_drop_frame {
            // Numbers a second, exactly.
            let below = u128::from(self.rate.denominator()).saturating_mul(self.frames.into());
            let above = nanos.saturating_mul(self.rate.numerator().into());
            above.checked_div(below.saturating_mul(1_000_000_000)).unwrap_or(0)
        } else {
            nanos.saturating_mul(self.numbers.into()) / 1_000_000_000
        };
        let last = self.day().saturating_sub(1);
        self.time_code(u64::try_from(number).unwrap_or(u64::MAX).min(last))
    }

    /// Numbers from one time code to another one on the same day or over midnight, whichever way is shorter.
    #[must_use]
    pub fn apart(&self, one: TimeCode, other: TimeCode) -> u64 {
        let apart = self.number(one).abs_diff(self.number(other));
        apart.min(self.day().saturating_sub(apart))
    }

    /// Numbers of a day.
    fn day(&self) -> u64 {
        if self.is_drop_frame {
            (DAY_S / 600).saturating_mul(DROP_TEN_MINUTES)
        } else {
            DAY_S.saturating_mul(self.numbers.into())
        }
    }

    /// How many numbers are before it on its day.
    fn number(&self, code: TimeCode) -> u64 {
        let minutes = u64::from(code.hours).saturating_mul(60).saturating_add(code.minutes.into());
        let seconds = minutes.saturating_mul(60).saturating_add(code.seconds.into());
        let numbers = u64::from(self.numbers);
        let frames = u64::from(code.frames).min(numbers.saturating_sub(1));
        let all = seconds.saturating_mul(numbers).saturating_add(frames);
        let dropped = if self.is_drop_frame { minutes.saturating_sub(minutes / 10) } else { 0 };
        all.saturating_sub(dropped.saturating_mul(2)).min(self.day().saturating_sub(1))
    }

    fn time_code(&self, number: u64) -> TimeCode {
        let mut all = number;
        if self.is_drop_frame {
            let (tens, rest) = (number / DROP_TEN_MINUTES, number % DROP_TEN_MINUTES);
            // The first minute of ten has two numbers more.
            let minutes = rest.saturating_sub(2) / DROP_MINUTE;
            let dropped = tens.saturating_mul(9).saturating_add(minutes);
            all = number.saturating_add(dropped.saturating_mul(2));
        }
        let numbers = u64::from(self.numbers).max(1);
        let (seconds, frames) =
            (all.checked_div(numbers).unwrap_or(0), all.checked_rem(numbers).unwrap_or(0));
        let part = |value: u64| u8::try_from(value).unwrap_or(0);
        TimeCode {
            hours: part(seconds / 3600 % 24),
            minutes: part(seconds / 60 % 60),
            seconds: part(seconds % 60),
            frames: part(frames),
            is_drop_frame: self.is_drop_frame,
            source: Source::Ltc,
        }
    }
}
