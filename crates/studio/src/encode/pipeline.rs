//! From a rendition's queue to its outputs: code, mux, write, on one thread, slice by slice.

use super::adapt::Adapt;
use super::constant_rate;
use super::control::{Controls, Status};
use super::drops::DropsTold;
use super::picture::{PictureWriter, Written};
use super::queue::{Popped, Queue, Work};
use super::settings::Settings;
use super::stall::{StallEvent, Watch};
use super::stats::Stats;
use super::{Error, Result, sound};
use crate::capture::Format;
use crate::output::{Demand, Output, Packets};
use glassline_codec::CodecError;
use glassline_codec::h264::x264;
use glassline_io::clock::Clock;
use glassline_io::containment::{Border, inject};
use glassline_media::bitstream::h264::write_capture;
use glassline_media::container::ts::{MuxSettings, Muxer};
use glassline_media::stamps::{ClockAccuracy, Previous, Record};
use glassline_media::{AccessUnit, Codec, Picture, Stage, Stamps, Ticks, Time, Utc};
use std::time::Duration;

/// Codes and muxes one rendition.
pub(super) struct Pipeline {
    video: x264::Encoder,
    muxer: Muxer,
    clock: Clock,
    /// Time of a picture.
    interval: Duration,
    controls: Controls,
    /// Which rendition this is, for the controls.
    index: usize,
    adapt: Option<Adapt>,
    /// Where the milliseconds went.
    pub(super) stats: Stats,
    packets: Vec<u8>,
    /// What the stream is called where it goes, if it is called anything.
    stream: Option<String>,
    drops_told: DropsTold,
    /// Whether pictures come; the first rendition watches for all.
    watch: Option<Watch>,
    /// Whether a key frame is one of all renditions.
    common_keys: bool,
    /// The picture that was written last: when it was captured, and when it passed what.
    previous: Option<(Utc, Stamps)>,
    /// How right the wall clock is, and when that was asked.
    accuracy: (ClockAccuracy, Option<Time>),
}

/// Where a pipeline stands among the renditions.
#[derive(Clone, Copy, Debug)]
pub(super) struct RenditionIndex {
    /// Which rendition it makes, for the controls.
    pub(super) index: usize,
    /// Whether a key frame is one of all renditions, and comes when it is asked for alone.
    pub(super) common_keys: bool,
}

/// How often the system is asked how right its wall clock is.
const ACCURACY_INTERVAL: Duration = Duration::from_secs(10);

impl Pipeline {
    /// The first state of a rendition, for [`Controls::new`].
    pub(super) fn status(format: Format, settings: &Settings) -> Status {
        let name = format!("{}@{}", format.size, format.rate);
        Status::new(name, settings.bitrate, &settings.preset)
    }

    /// Opens the encoder of rendition `index` of `controls` for pictures of `format`.
    pub(super) fn new(
        format: Format,
        settings: &Settings,
        sound: Option<sound::Stream>,
        controls: Controls,
        place: RenditionIndex,
        clock: Clock,
    ) -> Result<Pipeline> {
        let RenditionIndex { index, common_keys } = place;
        let mut coding = settings.x264(format, common_keys);
        let constant = constant_rate::plan(settings, &coding, format, sound.as_ref())?;
        let mut program = MuxSettings { video: Some(Codec::H264), ..MuxSettings::default() };
        if let Some(sound) = sound {
            program.audio = Some(sound.format);
            program.decode_delay = sound.decode_delay;
        }
        if let Some(plan) = constant {
            coding.vbv = plan.vbv;
            program.decode_delay = program.decode_delay.max(plan.decode_delay);
            program.constant_rate = Some(plan.rate);
            controls.limit_bitrate(index, plan.bitrate_limit);
        }
        let video = x264::Encoder::new(&coding).map_err(refused)?;
        let now = clock.now();
        Ok(Pipeline {
            video,
            muxer: Muxer::new(program)?,
            clock,
            interval: format.rate.time_of(1),
            controls,
            index,
            adapt: settings.adapt.then(|| Adapt::new(&settings.preset, now)),
            stats: Stats::new(now),
            packets: Vec::new(),
            stream: None,
            drops_told: DropsTold::default(),
            watch: (index == 0).then(|| Watch::new(now)),
            common_keys,
            previous: None,
            accuracy: (ClockAccuracy::Unknown, None),
        })
    }

    /// Takes from `queue` until it ends, and gives `output` packets as soon as they are made.
    ///
    /// # Errors
    /// The source's or the output's failure; both end it.
    pub(super) fn run(&mut self, queue: &Queue, output: &mut dyn Output) -> Result<()> {
        self.stream = output.stream();
        loop {
            match queue.pop(self.wait(queue.is_live()))? {
                Popped::End => return self.finish(output),
                Popped::Timeout => self.idle(queue.is_live(), output)?,
                Popped::Work(work) => match *work {
                    Work::Picture { picture, pts, stamps, key } => {
                        inject(Border::Encoder, || format!("picture {}.", self.stats.pictures()));
                        let dropped = queue.dropped();
                        self.tell_stall(|watch, now| watch.picture(now));
                        self.obey(key)?;
                        self.code_picture(&picture, pts, stamps, queue, output)?;
                        self.tell_drops(dropped);
                    }
                    Work::Sound(unit) => self.write_sound(&unit, output)?,
                },
            }
        }
    }

    /// Does what was asked for from outside, before the next picture.
    fn obey(&mut self, key: bool) -> Result<()> {
        if key {
            self.video.force_key_frame();
        }
        if let Some(bitrate) = self.controls.take_bitrate(self.index) {
            self.video.set_bitrate(bitrate.bits_per_second())?;
            tracing::info!(stream = self.stream.as_deref(), "bit rate {bitrate}");
        }
        Ok(())
    }

    fn code_picture(
        &mut self,
        picture: &Picture,
        pts: Ticks,
        stamps: Stamps,
        queue: &Queue,
        output: &mut dyn Output,
    ) -> Result<()> {
        let dropped = queue.dropped();
        let begun = self.clock.now();
        let stamps = stamps.with(Stage::EncoderIn, begun);
        let said =
            picture.captured_utc.map(|captured| write_capture(captured, &self.record(captured, stamps)));
        let mut writer =
            PictureWriter::new(&mut self.muxer, &mut self.packets, output, self.clock, pts, stamps);
        let coded = self.video.encode_slices(picture, pts, said.as_deref(), &mut |unit| {
            while let Some(sound) = queue.take_sound() {
                writer.take_sound(&sound);
            }
            writer.take(&unit);
        });
        let written = writer.finish()?;
        let coded = coded?;
        let Some(written) = written else { return Ok(()) };
        if written.demand == Demand::KeyFrame {
            self.want_key_frame();
        }
        self.previous = picture.captured_utc.map(|captured| (captured, written.stamps));
        self.stats.dropped = dropped;
        self.stats.picture(&written, coded.bytes);
        self.controls.report(self.index, |status| {
            status.bitrate_bps = self.video.bitrate_bps();
            status.pictures += 1;
            status.random_access_points += u64::from(coded.random_access);
            status.dropped = dropped;
            status.bytes += written.bytes as u64;
            status.stages.push(&written.stamps);
        });
        self.adapt(begun, &written, dropped)
    }

    /// What the stream says of the picture that x264 gets now, and of the one before it.
    fn record(&mut self, captured: Utc, stamps: Stamps) -> Record {
        let now = stamps.at(Stage::EncoderIn).unwrap_or(Time::ZERO);
        if self.accuracy.1.is_none_or(|asked| now.since(asked) >= ACCURACY_INTERVAL) {
            self.accuracy = (self.clock.accuracy(), Some(now));
        }
        let previous = self.previous.map(|(before, stamps)| Previous {
            ago: Duration::from_nanos(captured.as_nanos().saturating_sub(before.as_nanos())),
            stages: stamps.rebased(Time::ZERO),
        });
        Record { clock: self.accuracy.0, own: stamps.rebased(Time::ZERO), previous }
    }

    fn adapt(&mut self, begun: Time, written: &Written, dropped: u64) -> Result<()> {
        let Some(adapt) = &mut self.adapt else { return Ok(()) };
        let sent = written.stamps.at(Stage::Sent).unwrap_or(begun);
        let load = sent.since(begun).as_secs_f64() / self.interval.as_secs_f64();
        let Some(preset) = adapt.poll(dropped, load, sent) else { return Ok(()) };
        self.video.set_preset(preset)?;
        self.stats.preset_steps += 1;
        self.controls.report(self.index, |status| preset.clone_into(&mut status.preset));
        tracing::info!(
            stream = self.stream.as_deref(),
            "preset {preset} from now on ({dropped} pictures dropped so far)"
        );
        Ok(())
    }

    fn write_sound(&mut self, unit: &AccessUnit, output: &mut dyn Output) -> Result<()> {
        self.packets.clear();
        self.muxer.write(unit, &mut self.packets)?;
        self.send(output)
    }

    /// What the muxer still has: sound that waits for its place.
    fn finish(&mut self, output: &mut dyn Output) -> Result<()> {
        self.packets.clear();
        self.muxer.finish(&mut self.packets);
        self.send(output)
    }

    fn send(&mut self, output: &mut dyn Output) -> Result<()> {
        if self.packets.is_empty() {
            return Ok(());
        }
        self.stats.sent(self.packets.len(), self.clock.now());
        let packets = Packets::whole(&self.packets, false);
        if output.write(&packets)? == Demand::KeyFrame {
            self.want_key_frame();
        }
        Ok(())
    }

    fn want_key_frame(&mut self) {
        if self.common_keys {
            self.controls.request_key_frame();
        } else {
            self.video.force_key_frame();
        }
    }

    /// How long to wait for the next piece of work: until tables are due or it is time to say that nothing comes.
    fn wait(&self, live: bool) -> Option<Duration> {
        let look = self.watch.as_ref().and_then(Watch::due).map(|due| due.since(self.clock.now()));
        [self.tables_wait(live), look].into_iter().flatten().min()
    }

    /// Nothing came in that time.
    fn idle(&mut self, live: bool, output: &mut dyn Output) -> Result<()> {
        self.tell_stall(|watch, now| watch.look(now));
        if self.tables_wait(live).is_some_and(|wait| wait.is_zero()) {
            self.write_tables(output)
        } else {
            Ok(())
        }
    }

    fn tell_stall(&mut self, ask: impl FnOnce(&mut Watch, Time) -> Option<StallEvent>) {
        let now = self.clock.now();
        match self.watch.as_mut().and_then(|watch| ask(watch, now)) {
            Some(StallEvent::Stalled) => {
                tracing::warn!(
                    stream = self.stream.as_deref(),
                    "the source gives no pictures; the stream's clock goes on"
                );
            }
            Some(StallEvent::Again(after)) => {
                let after_s = after.as_secs_f64();
                tracing::info!(
                    stream = self.stream.as_deref(),
                    "the source gives pictures again, after {after_s:.1} s"
                );
            }
            None => {}
        }
    }

    /// How long to wait for the next unit until the clock and the tables have to be written without one. Only live streams of
    /// less than ten units a second come to that; a file is not read while it is made.
    fn tables_wait(&self, live: bool) -> Option<Duration> {
        let due = self.muxer.poll_timeout().filter(|_| live)?;
        // The margin is for a unit on its way: its stamp would lie behind the clock.
        let due = Time::from_nanos((due + TABLES_MARGIN).0.max(0) as u64 * 100_000 / 9);
        Some(due.since(self.clock.now()))
    }

    fn write_tables(&mut self, output: &mut dyn Output) -> Result<()> {
        let Some(due) = self.muxer.poll_timeout() else { return Ok(()) };
        self.packets.clear();
        self.muxer.write_tables(due, &mut self.packets);
        self.send(output)
    }

    fn tell_drops(&mut self, dropped: u64) {
        let Some(new) = self.drops_told.tell(dropped, self.clock.now()) else { return };
        tracing::warn!(
            stream = self.stream.as_deref(),
            "{new} pictures dropped, {dropped} so far: encoder or outputs cannot keep up; try a faster preset, a smaller \
             picture or a lower rate, or have `encode` do so (--adapt)"
        );
    }
}

/// 20 ms.
const TABLES_MARGIN: Ticks = Ticks(1_800);

fn refused(error: CodecError) -> Error {
    match error {
        CodecError::Setting { .. } => Error::Setting(error),
        other => Error::Open(other),
    }
}
