//! Cuts sound into frames of a fixed length and knows when each was captured: what every audio encoder needs.

use crate::CodecError;
use glassline_media::{AudioBlock, Ticks, Time};
use std::time::Duration;

/// Samples a second and channel that the encoders take.
pub const RATE_HZ: u32 = 48_000;
/// How far a block's capture time may lie from where the samples before it end until time is anchored anew.
///
/// A capture thread stamps its blocks a few milliseconds early or late as it is scheduled: that must not move
/// the packets' even spacing. What is further off is sound that was lost, or a sound card's clock that has
/// drifted this far from ours; both are put right well before they are seen against the picture (ITU-R BT.1359:
/// 45 ms).
pub const REANCHOR: Duration = Duration::from_millis(20);
/// So much lost sound becomes silence; after more of it time jumps. A frame of any codec is shorter, so that filling one up
/// before a jump never reaches what comes behind it.
pub const LONGEST_SILENCE: Duration = Duration::from_millis(60);
/// How far capture times may go back before it is called an error.
pub const MAX_OVERLAP: Duration = Duration::from_secs(1);

/// What gets the frames: the capture time of the first sample, and the interleaved samples.
pub(super) type Give<'a> = dyn FnMut(Time, &[f32]) -> Result<(), CodecError> + 'a;

/// Cuts blocks into frames.
#[derive(Clone, Debug)]
pub(super) struct Framer {
    codec: &'static str,
    channels: u8,
    /// Samples of each channel in a frame.
    frame: usize,
    /// Interleaved samples that do not fill a frame yet.
    pending: Vec<f32>,
    timeline: Option<Timeline>,
}

/// Sample time: counted from an anchor, so that the rounding of one packet's time never adds to the next.
#[derive(Clone, Copy, Debug)]
struct Timeline {
    anchor: Time,
    /// Samples a channel since the anchor that were taken in.
    taken: u64,
}

impl Timeline {
    fn time_of(self, sample: u64) -> Time {
        let nanos = u128::from(sample) * 1_000_000_000 / u128::from(RATE_HZ);
        self.anchor + Duration::from_nanos(nanos as u64)
    }
}

impl Framer {
    /// A framer for blocks of `channels`; frames hold `frame` samples of each. `codec` is named in errors.
    pub(super) fn new(codec: &'static str, channels: u8, frame: usize) -> Framer {
        Framer { codec, channels, frame, pending: Vec::new(), timeline: None }
    }

    /// Takes `block` in and gives the frames that it fills, oldest first. What is left waits for the next block.
    ///
    /// Where the block begins more than [`REANCHOR`] after the samples before it, silence fills the gap. A gap of more
    /// than [`LONGEST_SILENCE`] is not filled: silence completes the frame that has begun, and time goes on with the
    /// block's capture time. Where the block begins more than [`REANCHOR`] too early, its first samples are dropped,
    /// since their time is taken already. Times always grow.
    ///
    /// # Errors
    /// [`CodecError::Input`] for another rate or number of channels, [`CodecError::TimeStamp`] for a block that goes
    /// back by more than [`MAX_OVERLAP`] (the framer is unchanged after both), and those of `give`.
    pub(super) fn push(&mut self, block: &AudioBlock, give: &mut Give<'_>) -> Result<(), CodecError> {
        let (codec, channels) = (self.codec, usize::from(self.channels));
        if block.rate_hz != RATE_HZ
            || block.channels != self.channels
            || !block.samples.len().is_multiple_of(channels)
        {
            let (rate, count) = (block.rate_hz, block.samples.len());
            let found = format!("{count} samples of {} channels at {rate} Hz", block.channels);
            let expected = format!("{channels} channels at {RATE_HZ} Hz");
            return Err(CodecError::Input { codec, found, expected });
        }
        let mut samples = block.samples.as_slice();
        match self.timeline {
            None => self.timeline = Some(Timeline { anchor: block.captured, taken: 0 }),
            Some(timeline) => {
                let expected = timeline.time_of(timeline.taken);
                let gap = block.captured.since(expected);
                if gap > LONGEST_SILENCE {
                    self.flush(give)?;
                    self.timeline = Some(Timeline { anchor: block.captured, taken: 0 });
                } else if gap > REANCHOR {
                    let missing = (gap.as_nanos() * u128::from(RATE_HZ) / 1_000_000_000) as usize;
                    self.cut(&vec![0.0; missing * channels], give)?;
                }
                let overlap = expected.since(block.captured);
                if overlap > MAX_OVERLAP {
                    let (found, last) = (Ticks::from_time(block.captured), Ticks::from_time(expected));
                    return Err(CodecError::TimeStamp { codec, found, last });
                }
                if overlap > REANCHOR {
                    let frames = (overlap.as_nanos() * u128::from(RATE_HZ) / 1_000_000_000) as usize;
                    samples = &samples[samples.len().min(frames * channels)..];
                }
            }
        }
        self.cut(samples, give)
    }

    /// Takes samples in and gives the frames that they fill.
    fn cut(&mut self, samples: &[f32], give: &mut Give<'_>) -> Result<(), CodecError> {
        let frame = self.frame * usize::from(self.channels);
        for piece in samples.chunks(frame) {
            // A piece may fill one frame and begin the next; pieces are at most a frame long.
            self.take(piece);
            if self.pending.len() >= frame {
                self.give(give)?;
            }
        }
        Ok(())
    }

    /// Gives the last frame, filled up with silence, if samples wait for one.
    pub(super) fn flush(&mut self, give: &mut Give<'_>) -> Result<(), CodecError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let frame = self.frame * usize::from(self.channels);
        self.take(&vec![0.0; frame - self.pending.len()]);
        self.give(give)
    }

    fn take(&mut self, samples: &[f32]) {
        self.pending.extend_from_slice(samples);
        let timeline = self.timeline.as_mut().expect("anchored before samples are taken");
        timeline.taken += (samples.len() / usize::from(self.channels)) as u64;
    }

    fn give(&mut self, give: &mut Give<'_>) -> Result<(), CodecError> {
        let channels = usize::from(self.channels);
        let timeline = self.timeline.expect("samples were taken");
        let captured = timeline.time_of(timeline.taken - (self.pending.len() / channels) as u64);
        let frame = self.frame * channels;
        let given = give(captured, &self.pending[..frame]);
        self.pending.drain(..frame);
        given
    }
}

/// Media ticks of `samples` at [`RATE_HZ`], rounded down.
#[cfg(any(feature = "opus", feature = "aac"))]
pub(super) fn ticks_of(samples: usize) -> Ticks {
    Ticks((samples as u64 * u64::from(Ticks::RATE) / u64::from(RATE_HZ)) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn block(start: Time, frames: usize) -> AudioBlock {
        AudioBlock { captured: start, rate_hz: RATE_HZ, channels: 1, samples: vec![1.0; frames] }
    }

    proptest! {
        /// Two blocks with a gap between them: frames stand one behind the other, or the jump is a real one; no frame
        /// reaches into the next, and what is heard is heard at its time.
        #[test]
        fn lost_sound_is_silence_or_a_jump(
            frame in 48usize..1025, first in 1usize..3000, gap_micros in 0u64..300_000,
        ) {
            let mut framer = Framer::new("test", 1, frame);
            let mut given: Vec<(Time, Vec<f32>)> = Vec::new();
            let mut give = |time: Time, samples: &[f32]| {
                given.push((time, samples.to_vec()));
                Ok(())
            };
            let start = Time::from_millis(1000);
            let end = start + Duration::from_nanos(first as u64 * 1_000_000_000 / 48_000);
            let gap = Duration::from_micros(gap_micros);
            framer.push(&block(start, first), &mut give).unwrap();
            framer.push(&block(end + gap, 4000), &mut give).unwrap();
            framer.flush(&mut give).unwrap();
            let length = Duration::from_nanos(frame as u64 * 1_000_000_000 / 48_000);
            for pair in given.windows(2) {
                let hole = pair[1].0.since(pair[0].0 + length);
                let overlap = (pair[0].0 + length).since(pair[1].0);
                prop_assert!(overlap < Duration::from_nanos(100), "{overlap:?}");
                let jumps = gap > LONGEST_SILENCE && hole > LONGEST_SILENCE - length;
                prop_assert!(hole < Duration::from_nanos(100) || jumps, "{hole:?} of {gap:?}");
            }
            // Where the second block's first sample is heard.
            let samples = given.iter().flat_map(|(time, samples)| {
                samples.iter().enumerate().map(|(at, sample)| (*time + Duration::from_nanos(at as u64 * 1_000_000_000 / 48_000), *sample))
            });
            let heard = samples.filter(|(_, sample)| *sample > 0.0).nth(first).unwrap().0;
            let expected = if gap > REANCHOR { end + gap } else { end };
            let off = heard.since(expected).max(expected.since(heard));
            prop_assert!(off <= Duration::from_micros(21), "{off:?}");
        }
    }
}
