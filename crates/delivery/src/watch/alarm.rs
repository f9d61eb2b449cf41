//! The alarms: their names, what they are measured in, and what their limits may be.

use glassline_media::choice;
use std::ops::RangeInclusive;

choice! {
    /// Something that a crew wants to be told of.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Alarm {
        /// No sample of the sound is louder than the limit (dBFS), or there is no sound any more.
        Silence = "silence",
        /// More than the limit (percent) of a second's samples stand at full scale, three or more in a row.
        Clipping = "clipping",
        /// The correlation of left and right is below the limit (-1 to 1): they cancel each other out in mono.
        Phase = "phase",
        /// The loudness is further from its target than the limit (LU), or the true peak is above its own.
        Loudness = "loudness",
        /// 98 percent of the picture are darker than the limit (percent of the luma range).
        Black = "black",
        /// Pictures differ from those before by no more than the limit (mean difference of 8-bit luma samples).
        Frozen = "frozen",
        /// The sharpness is below the limit (percent of the median of the last ten minutes' key frames).
        Blurred = "blurred",
        /// More flashes a second than the limit: a quarter of the picture becomes brighter and darker again.
        Flicker = "flicker",
        /// The distance of sound and pictures has left its median by more than the limit (milliseconds).
        AvSync = "av_sync",
        /// There were captions or subtitles, and there are none for longer than the limit (seconds).
        Captions = "captions",
        /// The bit rate is further from its median than the limit (a factor, in both directions).
        Bitrate = "bitrate",
        /// More errors a second than the limit: lost packets, jumps of time stamps or of the clock.
        Discontinuity = "discontinuity",
        /// There is no publisher, or nothing has arrived for longer than the limit (seconds).
        Absent = "absent",
    }
}

/// What an alarm is measured on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Decoded sound.
    Sound,
    /// Decoded pictures.
    Pictures,
    /// The stream as it arrives.
    Stream,
}

impl Alarm {
    /// All of them.
    pub const ALL: [Alarm; 13] = [
        Alarm::Silence,
        Alarm::Clipping,
        Alarm::Phase,
        Alarm::Loudness,
        Alarm::Black,
        Alarm::Frozen,
        Alarm::Blurred,
        Alarm::Flicker,
        Alarm::AvSync,
        Alarm::Captions,
        Alarm::Bitrate,
        Alarm::Discontinuity,
        Alarm::Absent,
    ];

    /// What it is measured on.
    pub const fn source(self) -> Source {
        match self {
            Alarm::Silence | Alarm::Clipping | Alarm::Phase | Alarm::Loudness => Source::Sound,
            Alarm::Black | Alarm::Frozen | Alarm::Blurred | Alarm::Flicker => Source::Pictures,
            Alarm::AvSync | Alarm::Captions | Alarm::Bitrate | Alarm::Discontinuity | Alarm::Absent => {
                Source::Stream
            }
        }
    }

    /// The unit of its limit and of the value that an event has.
    pub const fn unit(self) -> &'static str {
        match self {
            Alarm::Silence => "dBFS",
            Alarm::Clipping => "% of the samples",
            Alarm::Phase => "correlation",
            Alarm::Loudness => "LU from the target",
            Alarm::Black => "% of the luma range",
            Alarm::Frozen => "levels of luma",
            Alarm::Blurred => "% of the median",
            Alarm::Flicker => "flashes a second",
            Alarm::AvSync => "ms",
            Alarm::Captions | Alarm::Absent => "s",
            Alarm::Bitrate => "times the median",
            Alarm::Discontinuity => "errors a second",
        }
    }

    /// What its limit may be.
    pub const fn limits(self) -> RangeInclusive<f64> {
        match self {
            Alarm::Silence => -110.0..=0.0,
            Alarm::Clipping | Alarm::Black | Alarm::Blurred => 0.0..=100.0,
            Alarm::Phase => -1.0..=1.0,
            Alarm::Loudness => 0.1..=40.0,
            Alarm::Frozen => 0.0..=255.0,
            Alarm::Flicker => 0.0..=60.0,
            Alarm::AvSync => 1.0..=60_000.0,
            Alarm::Captions | Alarm::Absent => 0.1..=3600.0,
            Alarm::Bitrate => 1.1..=10_000.0,
            Alarm::Discontinuity => 0.0..=1_000_000.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::Choice;

    #[test]
    fn all_alarms_are_listed_once() {
        assert_eq!(Alarm::CHOICES.len(), Alarm::ALL.len());
        for (at, alarm) in Alarm::ALL.into_iter().enumerate() {
            assert_eq!(Alarm::CHOICES[at].value, alarm);
            assert_eq!(alarm as usize, at);
        }
    }
}
