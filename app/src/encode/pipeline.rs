//! From the queue to the outputs: code, mux, write, one access unit after the other, on one thread.

use super::Settings;
use super::queue::{Item, Popped, Queue};
use super::sound;
use super::source::Format;
use super::stats::Stats;
use crate::failure;
use anyhow::Result;
use glassline_codec::CodecError;
use glassline_codec::h264::x264::{self, KeyInterval};
use glassline_io::clock::Clock;
use glassline_media::container::ts::{MuxSettings, Muxer};
use glassline_media::{AccessUnit, AudioBlock, Codec, Picture, Stage, Stamps, Ticks, Time};
use std::time::Duration;

/// The TS packets of one access unit, or tables on their own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packets<'a> {
    /// Whole packets of 188 bytes.
    pub(crate) bytes: &'a [u8],
    /// Whether a viewer can join here: tables come first, then a key frame.
    pub(crate) joinable: bool,
}

/// What a sink wants of the encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// Nothing.
    Nothing,
    /// That the next picture be a key frame, because somebody joins.
    KeyFrame,
}

/// Codes and muxes.
pub(crate) struct Pipeline {
    video: x264::Encoder,
    audio: Option<sound::Encoder>,
    muxer: Muxer,
    clock: Clock,
    /// Where the milliseconds went.
    pub(super) stats: Stats,
    packets: Vec<u8>,
    drops_told: (u64, Time),
}

/// Who gets the packets. An error ends the pipeline.
type Sink<'a> = dyn FnMut(&Packets<'_>) -> Result<Demand> + 'a;

/// How often dropped pictures are spoken of.
const TELL_INTERVAL: Duration = Duration::from_secs(5);

impl Pipeline {
    /// Opens the encoders for pictures of `format`.
    pub(super) fn new(
        format: Format,
        settings: &Settings,
        audio: &sound::Settings,
        clock: Clock,
    ) -> Result<Pipeline> {
        let video = x264::Settings {
            preset: settings.preset.clone(),
            vbv: settings.vbv,
            key_interval: KeyInterval::Time(settings.keyint),
            threads: settings.threads,
            slices: settings.slices,
            colour: format.colour,
            ..x264::Settings::new(format.size, format.rate, settings.bitrate.bits_per_second())
        };
        let video = x264::Encoder::new(&video).map_err(refused)?;
        let audio = sound::Encoder::open(audio)?;
        let program = MuxSettings {
            video: Some(Codec::H264),
            audio: audio.as_ref().map(sound::Encoder::format),
            decode_delay: audio
                .as_ref()
                .map_or(MuxSettings::default().decode_delay, sound::Encoder::decode_delay),
            ..MuxSettings::default()
        };
        let muxer = Muxer::new(program)?;
        Ok(Pipeline {
            video,
            audio,
            muxer,
            clock,
            stats: Stats::new(clock.now()),
            packets: Vec::new(),
            drops_told: (0, Time::ZERO),
        })
    }

    /// Takes from `queue` until it ends, and gives `sink` the packets of each access unit as soon as they are made.
    ///
    /// # Errors
    /// The source's or the sink's failure; both end it.
    pub(super) fn run(&mut self, queue: &Queue, sink: &mut Sink<'_>) -> Result<()> {
        loop {
            match queue.pop(self.tables_wait(queue.is_live()))? {
                Popped::End => break,
                Popped::Timeout => self.write_tables(sink)?,
                Popped::Item(item) => match *item {
                    Item::Picture { picture, pts, queued } => {
                        self.code_picture(&picture, pts, queued, sink)?;
                    }
                    Item::Sound(block) => self.code_sound(&block, sink)?,
                },
            }
            self.tell_drops(queue.dropped());
        }
        for unit in self.video.flush()? {
            self.mux(unit, sink)?;
        }
        let units = self.audio.as_mut().map(sound::Encoder::flush).transpose()?;
        for unit in units.into_iter().flatten() {
            self.mux(unit, sink)?;
        }
        Ok(())
    }

    fn code_picture(
        &mut self,
        picture: &Picture,
        pts: Ticks,
        queued: Time,
        sink: &mut Sink<'_>,
    ) -> Result<()> {
        let begun = self.clock.now();
        let unit = self.video.encode(picture, pts)?;
        let encoded = self.clock.now();
        let Some(mut unit) = unit else { return Ok(()) };
        unit.stamps.set(Stage::Queued, queued);
        unit.stamps.set(Stage::Encoded, encoded);
        let bytes = unit.data.len();
        let stamps = self.mux(unit, sink)?;
        self.stats.picture(&stamps, encoded.since(begun), bytes);
        Ok(())
    }

    fn code_sound(&mut self, block: &AudioBlock, sink: &mut Sink<'_>) -> Result<()> {
        let units = self.audio.as_mut().map(|audio| audio.push(block)).transpose()?;
        for mut unit in units.into_iter().flatten() {
            unit.stamps.set(Stage::Encoded, self.clock.now());
            self.mux(unit, sink)?;
        }
        Ok(())
    }

    /// Muxes and writes a unit, and returns its stamps up to `Sent`.
    fn mux(&mut self, unit: AccessUnit, sink: &mut Sink<'_>) -> Result<Stamps> {
        self.packets.clear();
        self.muxer.write(&unit, &mut self.packets)?;
        let mut stamps = unit.stamps;
        stamps.set(Stage::Muxed, self.clock.now());
        self.send(unit.codec.is_video() && unit.random_access, sink)?;
        stamps.set(Stage::Sent, self.clock.now());
        Ok(stamps)
    }

    fn send(&mut self, joinable: bool, sink: &mut Sink<'_>) -> Result<()> {
        self.stats.sent(self.packets.len(), self.clock.now());
        if sink(&Packets { bytes: &self.packets, joinable })? == Demand::KeyFrame {
            self.video.force_key_frame();
        }
        Ok(())
    }

    /// How long to wait for the next unit until the clock and the tables have to be written without one. Only live
    /// streams of less than ten units a second come to that; in a file nobody waits.
    fn tables_wait(&self, live: bool) -> Option<Duration> {
        let due = self.muxer.poll_timeout().filter(|_| live)?;
        // The margin is for a unit on its way, whose stamp would lie behind the clock.
        let due = Time::from_nanos((due + TABLES_MARGIN).0.max(0) as u64 * 100_000 / 9);
        Some(due.since(self.clock.now()))
    }

    fn write_tables(&mut self, sink: &mut Sink<'_>) -> Result<()> {
        let Some(due) = self.muxer.poll_timeout() else { return Ok(()) };
        self.packets.clear();
        self.muxer.write_tables(due, &mut self.packets);
        self.send(false, sink)
    }

    fn tell_drops(&mut self, dropped: u64) {
        let (told, at) = self.drops_told;
        self.stats.dropped = dropped;
        if dropped > told && (told == 0 || self.clock.now().since(at) >= TELL_INTERVAL) {
            tracing::warn!(
                "{dropped} pictures dropped so far: encoder or outputs cannot keep up; try a faster --preset, \
                 a smaller picture or a lower rate"
            );
            self.drops_told = (dropped, self.clock.now());
        }
    }
}

/// 20 ms.
const TABLES_MARGIN: Ticks = Ticks(1_800);

fn refused(error: CodecError) -> anyhow::Error {
    match error {
        CodecError::Setting { .. } => failure::usage(error, "see glassline encode --help"),
        other => anyhow::Error::from(other).context("cannot open the encoder"),
    }
}
