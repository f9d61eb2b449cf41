//! Ancillary time code (ST 12-2), which carries the time code of ST 12-1.

use super::Packet;
use std::fmt;

/// User data words of a time code.
const WORDS: usize = 16;
/// In the tens of frames: numbers are left out, so that 29.97 frames a second keep to the clock.
const DROP_FRAME: u8 = 0x4;

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

/// `HH:MM:SS:FF`; a semicolon stands before the frames where numbers are dropped.
impl fmt::Display for TimeCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TimeCode { hours, minutes, seconds, frames, is_drop_frame, .. } = self;
        let mark = if *is_drop_frame { ';' } else { ':' };
        write!(f, "{hours:02}:{minutes:02}:{seconds:02}{mark}{frames:02}")
    }
}
