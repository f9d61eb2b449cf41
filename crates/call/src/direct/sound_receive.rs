//! The receiving end of sound: decodes each packet when it is due.

use super::UNPOISONED;
use super::lip_sync::LipSync;
use crate::link::Link;
use crate::link::session::{Served, Service};
use glassline_codec::audio::RATE_HZ;
use glassline_codec::audio::opus::{Decoder, FrameDuration};
use glassline_direct::SOUND;
use glassline_direct::sound::{Play, SoundCounters, SoundReceiver as Buffer, What};
use glassline_io::clock::Clock;
use glassline_media::{AudioBlock, Time, Utc};
use glassline_transport::link::{Event, Options};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long the loop waits for a message before it looks whether the link is still there.
const TICK: Duration = Duration::from_millis(100);
/// Channels that are played, whatever is sent.
const CHANNELS: u8 = 2;

/// Sound that is played now.
#[derive(Clone, Debug)]
pub struct Heard {
    /// Stereo at 48 kHz; its time says when it is played, by the monotonic clock.
    pub block: AudioBlock,
    /// When it was captured, by the same clock as far as both machines' wall clocks agree.
    pub captured: Time,
}

/// Plays sound when its time has come.
pub trait SoundSink: Send {
    /// Plays a block; blocks follow each other without a gap but where sound was absent for long. It may block.
    ///
    /// # Errors
    /// Any: nothing more is played, and the receiver's end tells it. `BrokenPipe` says that the sound has no reader any more;
    /// that ends the session, as does an error before anything was played.
    fn play(&mut self, heard: &Heard) -> io::Result<()>;

    /// No other will come.
    ///
    /// # Errors
    /// As those of [`SoundSink::play`].
    fn finish(&mut self) -> io::Result<()>;
}

/// What came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoundReceiveStatistics {
    /// What became of it.
    pub counters: SoundCounters,
    /// How long packets wait for their time.
    pub waits: Duration,
    /// The jitter that was seen.
    pub jitter: Duration,
    /// From capture to play, by both machines' wall clocks.
    pub delay: Duration,
}

/// A service that plays what a [`SoundSender`](super::SoundSender) sends.
pub struct SoundReceiver {
    output: Mutex<Output>,
    pictures: Arc<LipSync>,
    links: AtomicU64,
    figures: Mutex<Figures>,
    clock: Clock,
}

/// A sink, until it fails.
struct Output {
    sink: Box<dyn SoundSink>,
    has_played: bool,
    failure: Option<io::Error>,
    has_failed: bool,
}

impl Output {
    fn play(&mut self, heard: &Heard) -> io::Result<()> {
        if self.has_failed {
            return Ok(());
        }
        let Err(error) = self.sink.play(heard) else {
            self.has_played = true;
            return Ok(());
        };
        self.has_failed = true;
        if !self.has_played || error.kind() == io::ErrorKind::BrokenPipe {
            return Err(error);
        }
        tracing::error!(%error, "sound cannot be written any more; the link goes on without it");
        self.failure = Some(error);
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        let finished = self.sink.finish();
        self.failure.take().map_or(finished, Err)
    }
}

#[derive(Default)]
struct Figures {
    /// Of links that have ended.
    before: SoundCounters,
    now: SoundReceiveStatistics,
}

impl SoundReceiver {
    /// A receiver that plays in `sink`, together with the pictures that `pictures` tells of
    /// ([`VideoReceiver::lip_sync`](super::VideoReceiver::lip_sync)).
    pub fn new(sink: Box<dyn SoundSink>, pictures: Arc<LipSync>) -> SoundReceiver {
        SoundReceiver {
            output: Mutex::new(Output { sink, has_played: false, failure: None, has_failed: false }),
            pictures,
            links: AtomicU64::new(0),
            figures: Mutex::default(),
            clock: Clock::new(),
        }
    }

    /// Ends the sink.
    ///
    /// # Errors
    /// The sink's.
    pub fn finish(&self) -> io::Result<()> {
        self.output.lock().expect(UNPOISONED).finish()
    }

    /// Figures now.
    pub fn statistics(&self) -> SoundReceiveStatistics {
        let figures = self.figures.lock().expect(UNPOISONED);
        SoundReceiveStatistics { counters: sum(figures.before, figures.now.counters), ..figures.now }
    }

    /// Our time of a moment of the sender's wall clock.
    fn time_of(&self, utc: Utc) -> Time {
        let age = self.clock.utc().as_nanos().saturating_sub(utc.as_nanos());
        Time::from_nanos(self.clock.now().as_nanos().saturating_sub(age))
    }

    fn play(&self, decoder: &mut Decoder, play: &Play) -> io::Result<()> {
        let captured = self.time_of(play.captured);
        let block = decode(decoder, play);
        self.figures.lock().expect(UNPOISONED).now.delay = play.at.since(captured);
        self.output.lock().expect(UNPOISONED).play(&Heard { block, captured })
    }

    fn note(&self, buffer: &Buffer) {
        let (waits, jitter) = buffer.delay();
        let mut figures = self.figures.lock().expect(UNPOISONED);
        figures.now = SoundReceiveStatistics { counters: buffer.counters(), waits, jitter, ..figures.now };
    }
}

/// Samples of each channel in so much time.
fn samples_in(time: Duration) -> usize {
    (time.as_nanos() * u128::from(RATE_HZ) / 1_000_000_000) as usize
}

/// Decodes what is played next, into exactly `play.time` of sound.
fn decode(decoder: &mut Decoder, play: &Play) -> AudioBlock {
    let frames = samples_in(play.time);
    let lost = FrameDuration::ALL.into_iter().find(|known| known.samples() == frames);
    let at = play.at;
    let silence = || AudioBlock { samples: Vec::new(), channels: CHANNELS, rate_hz: RATE_HZ, captured: at };
    let conceal = |decoder: &mut Decoder| lost.and_then(|lost| decoder.conceal(lost, at).ok());
    let block = match &play.what {
        What::Packet(packet) => decoder.decode(packet, at).ok().or_else(|| conceal(decoder)),
        What::Recovered(behind) => {
            lost.and_then(|lost| decoder.recover(behind, lost, at).ok()).or_else(|| conceal(decoder))
        }
        What::Concealed => conceal(decoder),
        What::Silence => None,
        What::Merged(first, second) => {
            let first = decoder.decode(first, at).ok();
            let second = decoder.decode(second, at).ok();
            match (first, second) {
                (Some(first), Some(second)) => Some(cross_fade(first, &second)),
                (first, second) => first.or(second),
            }
        }
    };
    let mut block = block.unwrap_or_else(silence);
    block.samples.resize(frames * usize::from(CHANNELS), 0.0);
    block
}

/// The first block, which becomes the second one.
fn cross_fade(mut first: AudioBlock, second: &AudioBlock) -> AudioBlock {
    let frames = first.frames().min(second.frames()).max(1) as f32;
    let channels = usize::from(first.channels.max(1));
    for (index, (sample, later)) in first.samples.iter_mut().zip(&second.samples).enumerate() {
        let share = ((index / channels) as f32 + 0.5) / frames;
        *sample += (later - *sample) * share.min(1.0);
    }
    first
}

fn sum(a: SoundCounters, b: SoundCounters) -> SoundCounters {
    SoundCounters {
        messages: a.messages + b.messages,
        malformed: a.malformed + b.malformed,
        late: a.late + b.late,
        repeated: a.repeated + b.repeated,
        recovered: a.recovered + b.recovered,
        concealed: a.concealed + b.concealed,
        left_out: a.left_out + b.left_out,
        played: a.played + b.played,
    }
}

impl Service for SoundReceiver {
    fn sends(&self) -> Vec<(u8, Options)> {
        Vec::new()
    }

    fn takes(&self) -> Vec<u8> {
        vec![SOUND]
    }

    fn serve(&self, link: &Link) -> io::Result<Served> {
        let ours = self.links.fetch_add(1, Ordering::Relaxed) + 1;
        let mut buffer = Buffer::new();
        let mut decoder = Decoder::new(CHANNELS).map_err(io::Error::other)?;
        loop {
            let now = self.clock.now();
            let wait = buffer.poll_timeout().map_or(TICK, |at| at.since(now).min(TICK));
            match link.receive_message(SOUND, wait) {
                // The link that came last is heard; what a session before this one left is too old.
                Ok(Some(received)) if self.links.load(Ordering::Relaxed) == ours && !received.stale => {
                    if let Err(error) = buffer.handle(received.last, &received.bytes) {
                        tracing::debug!(%error, "the peer sends what is no sound");
                    }
                }
                Ok(_) => {}
                Err(_) => break,
            }
            let now = self.clock.now();
            if let Some(delay) = self.pictures.delay() {
                let utc = self.clock.utc().as_nanos().saturating_sub(delay.as_nanos() as u64);
                buffer.set_picture_delay(now, Utc::from_nanos(utc));
            }
            while let Some(play) = buffer.poll(now) {
                self.play(&mut decoder, &play)?;
            }
            self.note(&buffer);
        }
        let mut figures = self.figures.lock().expect(UNPOISONED);
        if self.links.load(Ordering::Relaxed) == ours {
            figures.before = sum(figures.before, figures.now.counters);
            figures.now.counters = SoundCounters::default();
        }
        Ok(Served::ThisLink)
    }

    fn handle_event(&self, _: &Link, _: &Event) {}

    fn is_input(&self) -> bool {
        false
    }
}

impl std::fmt::Debug for SoundReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SoundReceiver")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use glassline_codec::audio::opus::{Encoder, Settings};

    #[test]
    fn whatever_is_played_has_its_length_and_fades() {
        let settings = Settings { frame_duration: FrameDuration::Ms10, ..Settings::default() };
        let mut encoder = Encoder::new(settings).unwrap();
        let sample = |n: usize| 0.4 * (n as f32 / 48_000.0 * 440.0 * std::f32::consts::TAU).sin();
        let samples = (0..4800).flat_map(|n| [sample(n); 2]).collect();
        let block = AudioBlock { samples, channels: 2, rate_hz: RATE_HZ, captured: Time::ZERO };
        let packets: Vec<Bytes> = encoder.push(&block).unwrap().into_iter().map(|unit| unit.data).collect();
        let mut decoder = Decoder::new(CHANNELS).unwrap();
        let garbage = Bytes::from_static(&[0xff; 3]);
        for (what, is_heard) in [
            (What::Packet(packets[0].clone()), Some(true)),
            (What::Packet(packets[1].clone()), Some(true)),
            (What::Concealed, Some(true)),
            (What::Merged(packets[3].clone(), packets[4].clone()), Some(true)),
            // Some versions of libopus decode silence from garbage, and from a packet that holds nothing of the one before it; others
            // go on with what was heard.
            (What::Packet(garbage.clone()), None),
            (What::Recovered(packets[6].clone()), None),
            (What::Silence, Some(false)),
        ] {
            let at = Time::from_millis(7);
            let time = Duration::from_millis(10);
            let play = Play { at, time, captured: Utc::from_micros(0), what };
            let block = decode(&mut decoder, &play);
            assert_eq!((block.samples.len(), block.channels, block.captured), (960, 2, at));
            assert!(block.samples.iter().all(|sample| sample.abs() <= 1.0));
            let loud = block.samples.iter().any(|sample| sample.abs() > 0.05);
            assert!(is_heard.is_none_or(|is_heard| loud == is_heard), "{play:?}");
        }
    }

    /// Plays so many blocks, and then fails so.
    struct Failing(u32, io::ErrorKind, Arc<AtomicU64>);

    impl SoundSink for Failing {
        fn play(&mut self, _: &Heard) -> io::Result<()> {
            self.2.fetch_add(1, Ordering::Relaxed);
            self.0 = self.0.checked_sub(1).ok_or(self.1)?;
            Ok(())
        }

        fn finish(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn heard() -> Heard {
        let block =
            AudioBlock { samples: vec![0.5; 960], channels: 2, rate_hz: RATE_HZ, captured: Time::ZERO };
        Heard { block, captured: Time::ZERO }
    }

    #[test]
    fn a_sink_that_fails_when_it_has_worked_ends_nothing_but_itself_and_is_told_at_the_end() {
        for (works, kind, is_fatal) in [
            (2, io::ErrorKind::StorageFull, false),
            (0, io::ErrorKind::StorageFull, true),
            (2, io::ErrorKind::BrokenPipe, true),
        ] {
            let asked = Arc::new(AtomicU64::new(0));
            let sink = Box::new(Failing(works, kind, Arc::clone(&asked)));
            let mut output = Output { sink, has_played: false, failure: None, has_failed: false };
            for _ in 0..works {
                output.play(&heard()).unwrap();
            }
            let failed = output.play(&heard()).map_err(|error| error.kind());
            assert_eq!(failed, if is_fatal { Err(kind) } else { Ok(()) }, "{works} {kind:?}");
            output.play(&heard()).unwrap();
            assert_eq!(asked.load(Ordering::Relaxed), u64::from(works) + 1, "it is asked no more");
            let ended = output.finish().map_err(|error| error.kind());
            assert_eq!(ended, if is_fatal { Ok(()) } else { Err(kind) });
            output.finish().unwrap();
        }
    }

    #[test]
    fn a_block_that_becomes_another_does_so_evenly() {
        let block = |value, frames: usize| AudioBlock {
            samples: vec![value; 2 * frames],
            channels: 2,
            rate_hz: RATE_HZ,
            captured: Time::ZERO,
        };
        let faded = cross_fade(block(0.0, 4), &block(1.0, 4));
        assert_eq!(faded.samples, [0.125, 0.125, 0.375, 0.375, 0.625, 0.625, 0.875, 0.875]);
        // Where the second one is shorter, what is beyond it stays.
        let shorter = cross_fade(block(0.0, 4), &block(1.0, 2));
        assert_eq!(shorter.samples, [0.25, 0.25, 0.75, 0.75, 0.0, 0.0, 0.0, 0.0]);
        assert!(cross_fade(block(0.5, 0), &block(1.0, 4)).samples.is_empty());
    }

    #[test]
    fn times_are_samples_of_48_khz() {
        for (micros, samples) in [(0, 0), (2500, 120), (20_000, 960), (1_000_000, 48_000), (20, 0), (21, 1)] {
            assert_eq!(samples_in(Duration::from_micros(micros)), samples, "{micros} µs");
        }
    }

    #[test]
    fn counts_of_links_that_have_ended_are_added_each_to_its_own() {
        let of = |first: u64| SoundCounters {
            messages: first,
            malformed: first + 1,
            late: first + 2,
            repeated: first + 3,
            recovered: first + 4,
            concealed: first + 5,
            left_out: first + 6,
            played: first + 7,
        };
        let both = sum(of(10), of(100));
        assert_eq!((both.messages, both.malformed, both.late, both.repeated), (110, 112, 114, 116));
        assert_eq!((both.recovered, both.concealed, both.left_out, both.played), (118, 120, 122, 124));
    }
}
