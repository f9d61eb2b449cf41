//! The sound of a stream that is fetched: decoded as it comes, on the times of its pictures.

use super::live::{Arrival, LiveSound, Timer};
use super::wav_file::{Converter, time_of};
use crate::capture::fetched::{CaptureClock, Fetched, Next, Reader, capture_utc};
use crate::capture::{Error, Result, SOUND_RATE_HZ};
use glassline_codec::CodecError;
#[cfg(feature = "opus")]
use glassline_codec::audio::opus;
#[cfg(feature = "avcodec")]
use glassline_codec::avcodec;
use glassline_io::clock::Clock;
use glassline_media::bitstream::s302m;
use glassline_media::container::ts::Program;
use glassline_media::samples::Format;
use glassline_media::{AccessUnit, Codec, Ticks, Time};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// How long nothing may come before it is looked whether sound is still wanted.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// Silence in front of the first sound, and of that behind a gap, so that its clock is known with its first sample, as it is for
/// others after half a second: what is made of the stream at the other end says in its beginning whether there is sound.
const LEAD: Duration = Duration::from_millis(550);
/// Sound that came longer ago than this, where the stream was entered further back, is left out.
const OLD: Duration = Duration::from_millis(200);
/// A hole between two units that is longer than half of one and than this is filled with silence: packets were lost, or damaged.
const HOLE_MIN: i64 = 450;
/// A longer one begins anew.
const HOLE_MAX: i64 = 45_000;
/// Of a smaller deviation of the stamps this part is taken over with each unit: stamps jitter, and clocks drift.
const TAKEN_OVER: i64 = 32;
/// What is added to stamps in front of decoders, so that none is negative.
const BIAS: i64 = 1 << 34;
/// What is given, whatever the camera has: mono is heard on both sides, and of more than two the first two are taken.
const CHANNELS: u8 = 2;

/// A decoder of one elementary stream.
enum Decoder {
    #[cfg(feature = "opus")]
    Opus(Box<opus::Decoder>),
    /// LPCM needs none.
    S302m,
    #[cfg(feature = "avcodec")]
    Other(avcodec::SoundDecoder),
}

/// Takes decoded sound: when its first sample was captured, the interleaved samples, their channels and rate.
type Each<'a> = dyn FnMut(Time, &[f32], u8, u32) + 'a;

impl Decoder {
    fn open(codec: Codec) -> std::result::Result<Decoder, CodecError> {
        match codec {
            #[cfg(feature = "opus")]
            Codec::Opus => Ok(Decoder::Opus(Box::new(opus::Decoder::new(CHANNELS)?))),
            Codec::S302m => Ok(Decoder::S302m),
            #[cfg(feature = "avcodec")]
            codec => avcodec::SoundDecoder::new(codec).map(Decoder::Other),
            #[cfg(not(feature = "avcodec"))]
            codec => Err(CodecError::NotBuiltIn { codec: codec.name() }),
        }
    }

    /// Decodes a unit that was captured from `at` on, and calls `each` with when, the samples, channels and rate. What is damaged
    /// is left out.
    fn decode(&mut self, unit: &[u8], at: Time, each: &mut Each<'_>) {
        match self {
            #[cfg(feature = "opus")]
            Decoder::Opus(decoder) => {
                if let Ok(block) = decoder.decode(unit, at) {
                    each(at, &block.samples, block.channels, block.rate_hz);
                }
            }
            Decoder::S302m => {
                if let Ok((header, samples)) = s302m::read(unit) {
                    each(at, &samples.collect::<Vec<f32>>(), header.channels, s302m::RATE_HZ);
                }
            }
            #[cfg(feature = "avcodec")]
            Decoder::Other(decoder) => {
                // What it could not decode is missing.
                let _ = decoder.decode(unit, at, &mut |at, sound| {
                    each(at, sound.samples, sound.channels, sound.rate_hz);
                });
            }
        }
    }
}

/// The sound of one source.
pub(super) struct FetchedSound {
    source: Arc<dyn Fetched>,
    clock: Clock,
    /// Made by the thread that reads.
    reader: Option<Reader>,
    /// The elementary stream that is heard.
    track: Option<(u16, Codec)>,
    decoder: Option<Decoder>,
    converter: Option<(u32, Converter)>,
    times: CaptureClock,
    /// What is given next, in place of what is read.
    next: VecDeque<(Vec<f32>, Arrival)>,
    has_begun: bool,
    /// What the stamp of the next sample is by the samples before it.
    expected: Option<Ticks>,
    lost: bool,
    /// Codecs that cannot be decoded, of which that has been told.
    told: Vec<Codec>,
}

impl FetchedSound {
    pub(super) fn new(source: Arc<dyn Fetched>, clock: Clock) -> FetchedSound {
        FetchedSound {
            source,
            clock,
            reader: None,
            track: None,
            decoder: None,
            converter: None,
            times: CaptureClock::default(),
            next: VecDeque::new(),
            has_begun: false,
            expected: None,
            lost: false,
            told: Vec::new(),
        }
    }

    /// Takes the first sound that can be decoded.
    fn follow(&mut self, program: &Program) {
        let sounds = program.streams.iter().filter_map(|stream| Some((stream.pid, stream.codec?)));
        let sounds: Vec<_> = sounds.filter(|(_, codec)| !codec.is_video()).collect();
        if self.track.is_some_and(|track| sounds.contains(&track)) {
            return;
        }
        (self.track, self.decoder, self.converter) = (None, None, None);
        self.expected = None;
        for (pid, codec) in sounds {
            match Decoder::open(codec) {
                Ok(decoder) => {
                    (self.track, self.decoder) = (Some((pid, codec)), Some(decoder));
                    return;
                }
                Err(_) if self.told.contains(&codec) => {}
                Err(error) => {
                    self.told.push(codec);
                    tracing::warn!(
                        source = self.source.address(),
                        "its {} is not sent: {error}",
                        codec.name()
                    );
                }
            }
        }
    }

    /// Appends what a unit sounds like at 48 kHz, and silence in front of it for what is missing there. Returns when the last
    /// sample was captured.
    fn take(&mut self, unit: &AccessUnit, samples: &mut Vec<f32>) -> Result<Option<Time>> {
        let FetchedSound { decoder: Some(decoder), converter, expected, lost, .. } = self else {
            return Ok(None);
        };
        let (mut end, mut outcome) = (None, Ok(()));
        // A decoder may give sound of earlier units yet, and says with which stamp it was given.
        let stamped = Duration::from_nanos((unit.pts.0 + BIAS).max(0) as u64 * 100_000 / 9);
        decoder.decode(&unit.data, Time::ZERO + stamped, &mut |at, decoded, channels, rate_hz| {
            let rate_hz = rate_hz.max(1);
            let length = decoded.len() as u64 / u64::from(channels.max(1));
            let length = Ticks((length.saturating_mul(90_000) / u64::from(rate_hz)) as i64);
            let stamp = Ticks::from_time(at) - Ticks(BIAS);
            let hole = expected.map_or(0, |expected| (stamp - expected).0);
            let mut next = expected.unwrap_or(stamp) + Ticks(hole / TAKEN_OVER);
            let mut silence = 0;
            if hole.abs() > HOLE_MAX {
                *lost = true;
                samples.clear();
                next = stamp;
            } else if hole > HOLE_MIN.max(length.0 / 2) {
                silence = hole as usize * rate_hz as usize / 90_000 * usize::from(channels);
                next = stamp;
            }
            *expected = Some(next + length);
            end = Some(stamp + length);
            for piece in [&vec![0.0; silence][..], decoded] {
                outcome = std::mem::replace(&mut outcome, Ok(()))
                    .and_then(|()| convert(converter, piece, channels, rate_hz, samples));
            }
        });
        outcome.map(|()| end.map(|end| self.times.sound(end, self.clock.now())))
    }
}

/// Appends `decoded`, brought to two channels of 48 kHz.
fn convert(
    converter: &mut Option<(u32, Converter)>,
    decoded: &[f32],
    channels: u8,
    rate_hz: u32,
    samples: &mut Vec<f32>,
) -> Result<()> {
    let stereo: Vec<f32> = match channels {
        0 => return Ok(()),
        1 => decoded.iter().flat_map(|sample| [*sample; 2]).collect(),
        2 => decoded.to_vec(),
        more => decoded.chunks_exact(usize::from(more)).flat_map(|frame| [frame[0], frame[1]]).collect(),
    };
    if converter.as_ref().is_none_or(|(known, _)| *known != rate_hz) {
        *converter = Some((rate_hz, Converter::new(Format { rate_hz, channels: CHANNELS })?));
    }
    let Some((_, converter)) = converter else { return Ok(()) };
    converter.push(&stereo)?;
    while let Some(block) = converter.poll(true) {
        samples.extend_from_slice(&block.samples);
    }
    Ok(())
}

/// Samples that end at `end`, behind [`LEAD`].
fn with_lead(samples: Vec<f32>, end: Time, lost: bool) -> VecDeque<(Vec<f32>, Arrival)> {
    let channels = usize::from(CHANNELS);
    let earlier =
        |time: Time, by: Duration| Time::from_nanos(time.as_nanos().saturating_sub(by.as_nanos() as u64));
    let begin = earlier(end, time_of((samples.len() / channels) as u64));
    let silence = LEAD.as_millis() as usize * SOUND_RATE_HZ as usize / 1_000;
    VecDeque::from([
        // Where counting begins.
        (vec![0.0; channels], Arrival { end: earlier(begin, LEAD), lost }),
        (vec![0.0; silence * channels], Arrival { end: begin, lost: false }),
        (samples, Arrival { end, lost: false }),
    ])
}

impl LiveSound for FetchedSound {
    fn format(&self) -> Format {
        Format { rate_hz: SOUND_RATE_HZ, channels: CHANNELS }
    }

    fn is_always_live(&self) -> bool {
        true
    }

    fn read(&mut self, _: &dyn Timer, samples: &mut Vec<f32>) -> Result<Option<Arrival>> {
        let until = self.clock.now() + STOP_CHECK_INTERVAL;
        loop {
            if let Some((next, arrival)) = self.next.pop_front() {
                samples.extend_from_slice(&next);
                return Ok(Some(arrival));
            }
            if self.clock.now() >= until {
                // Pictures may come without sound.
                return Ok(Some(Arrival { end: self.clock.now(), lost: false }));
            }
            let reader = self.reader.get_or_insert_with(|| Reader::new(Arc::clone(&self.source), self.clock));
            match reader.next(STOP_CHECK_INTERVAL).map_err(Error::read(&self.source.address()))? {
                Next::Program(program) => self.follow(&program),
                Next::Unit { unit, came, .. } if unit.codec.is_video() => {
                    let now = (self.clock.now(), self.clock.utc());
                    self.times.picture(unit.pts, capture_utc(&unit), came, now);
                }
                Next::Unit { came, .. } if self.clock.now().since(came) > OLD => self.expected = None,
                Next::Unit { pid, unit, .. } if self.track.is_some_and(|(track, _)| track == pid) => {
                    if let Some(end) = self.take(&unit, samples)?
                        && !samples.is_empty()
                    {
                        let lost = std::mem::take(&mut self.lost);
                        if self.has_begun && !lost {
                            return Ok(Some(Arrival { end, lost }));
                        }
                        self.has_begun = true;
                        self.next = with_lead(std::mem::take(samples), end, lost);
                    }
                }
                Next::Unit { .. } => {}
                Next::Gap => {
                    self.lost = self.track.is_some();
                    self.expected = None;
                }
                Next::Nothing => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::fetched::testing::Source;
    use glassline_media::Stamps;

    /// Takes units of LPCM with these stamps, ten milliseconds each. Returns milliseconds of sound, and whether it began anew.
    fn taken(stamps: &[i64]) -> (usize, bool) {
        let mut sound = FetchedSound::new(Source::new(), Clock::new());
        assert!(sound.is_always_live());
        (sound.track, sound.decoder) = (Some((0x101, Codec::S302m)), Some(Decoder::S302m));
        let mut samples = Vec::new();
        for millis in stamps {
            let pts = Ticks(millis * 90);
            // Two channels of 16 bits: SMPTE ST 302, §5.
            let data = [&[0x09, 0x60, 0, 0][..], &[0; 480 * 5]].concat().into();
            let stamps = Stamps::default();
            let unit = AccessUnit { codec: Codec::S302m, data, pts, dts: pts, random_access: true, stamps };
            assert!(sound.take(&unit, &mut samples).unwrap().is_some());
        }
        (samples.len() / 96, sound.lost)
    }

    #[test]
    fn packets_that_were_lost_are_silence_and_what_jumps_begins_anew() {
        assert_eq!(taken(&[0, 10, 20, 30, 40]), (50, false));
        // Two are lost, then one.
        assert_eq!(taken(&[0, 10, 40, 60, 70]), (80, false));
        // Stamps jitter, forth and back.
        let jitter: Vec<i64> =
            (0..100).map(|number| number * 10 + [0, 3, -3, 2][number as usize % 4]).collect();
        assert_eq!(taken(&jitter), (1000, false));
        // A clock that drifts is none that jumps: one part in a thousand.
        let drift: Vec<i64> = (0..2000).map(|number| number * 10 + number / 100).collect();
        assert_eq!(taken(&drift), (20_000, false));
        // Another session's clock.
        assert_eq!(taken(&[100_000, 100_010, 50, 60]), (20, true));
        assert_eq!(taken(&[0, 10, 20_000]), (10, true));
    }

    #[test]
    fn sound_of_any_number_of_channels_is_heard_on_two() {
        let convert = |decoded: &[f32], channels| {
            let (mut converter, mut samples) = (None, Vec::new());
            convert(&mut converter, decoded, channels, SOUND_RATE_HZ, &mut samples).unwrap();
            samples
        };
        assert_eq!(convert(&[0.1, 0.2], 1), [0.1, 0.1, 0.2, 0.2]);
        assert_eq!(convert(&[0.1, 0.2], 2), [0.1, 0.2]);
        assert_eq!(convert(&[0.1, 0.2, 0.3, 0.4, 0.5, 0.6], 3), [0.1, 0.2, 0.4, 0.5]);
        assert_eq!(convert(&[0.1], 0), [0.0; 0]);
    }

    #[test]
    fn the_clock_of_sound_is_known_with_its_first_sample() {
        let end = Time::from_millis(10_000);
        let mut follower = glassline_media::samples::Follower::new(
            Format { rate_hz: SOUND_RATE_HZ, channels: CHANNELS },
            SOUND_RATE_HZ,
            48,
        );
        let mut ends = Time::ZERO;
        for (samples, arrival) in with_lead(vec![0.5; 2 * 960], end, false) {
            assert!(arrival.end > ends);
            ends = arrival.end;
            let block = follower.push(&samples, arrival.end).unwrap();
            assert_eq!(follower.is_settled(), arrival.end >= Time::from_millis(9_980));
            if let Some(block) = block.filter(|_| arrival.end == end) {
                let last = block.captured + time_of(block.frames() as u64);
                assert!(last.since(end).max(end.since(last)) < Duration::from_millis(5), "{last:?}");
            }
        }
        assert_eq!(ends, end);
    }

    #[test]
    fn sound_of_another_rate_lasts_as_long() {
        let (mut converter, mut samples) = (None, Vec::new());
        for _ in 0..50 {
            convert(&mut converter, &[0.5; 160], 1, 8_000, &mut samples).unwrap();
        }
        let frames = samples.len() / 2;
        assert!(frames.abs_diff(48_000) < 480, "{frames}");
    }
}
