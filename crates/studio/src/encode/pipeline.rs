//! From a rendition's queue to its outputs: code, mux, write, on one thread, slice by slice.

use super::adapt::Adapt;
use super::auto::Auto;
use super::coder::Coder;
use super::constant_rate;
use super::control::{Controls, Status};
use super::delayed::Unit;
use super::drops::DropsTold;
use super::ladder;
use super::picture::{PictureWriter, UnitTimes, Written};
use super::queue::{Popped, Queue, Work};
use super::settings::Settings;
use super::stall::{StallEvent, Watch};
use super::stats::Stats;
use super::{Error, Result, sound};
use crate::capture::Format;
use crate::output::{Demand, Output, Packets};
use glassline_codec::CodecError;
use glassline_codec::h264::x264::{self, LookAheadEncoder};
use glassline_io::clock::Clock;
use glassline_io::containment::{Border, inject};
use glassline_media::bitstream::h264::write_capture;
use glassline_media::container::ts::{MuxSettings, Muxer};
use glassline_media::quantity::Bitrate;
use glassline_media::stamps::{ClockAccuracy, Previous, Record};
use glassline_media::{AccessUnit, Codec, FrameRate, Picture, Size, Stage, Stamps, Ticks, Time, Utc};
use std::sync::Arc;
use std::time::Duration;

/// Codes and muxes one rendition.
pub(super) struct Pipeline {
    video: Coder,
    muxer: Muxer,
    clock: Clock,
    /// Time of a picture.
    interval: Duration,
    controls: Controls,
    /// Which rendition this is, for the controls.
    index: usize,
    chooser: Option<Chooser>,
    /// Renditions without delay: this one codes when they have coded.
    hurried: Vec<Arc<Queue>>,
    format: Format,
    settings: Settings,
    /// What a constant rate of the stream has room for.
    vbv: Option<Duration>,
    defers: bool,
    /// A size and rate that x264 has refused: such pictures are left out.
    refused: Option<(Size, FrameRate)>,
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
    /// What is added to all time stamps: those of a file begin at zero, and with B-pictures decoding begins before that.
    shift: Ticks,
    /// The picture that was written last: when it was captured, and when it passed what.
    previous: Option<(Utc, Stamps)>,
    /// How right the wall clock is, and when that was asked.
    accuracy: (ClockAccuracy, Option<Time>),
}

/// What chooses the preset while it runs.
#[derive(Clone, Debug)]
enum Chooser {
    /// `--adapt`.
    Adapt(Adapt),
    /// `--preset auto`.
    Auto(Auto),
}

impl Chooser {
    fn of(settings: &Settings, now: Time) -> Option<Chooser> {
        if settings.is_auto() {
            return Some(Chooser::Auto(Auto::new(now)));
        }
        settings.adapt.then(|| Chooser::Adapt(Adapt::new(&settings.preset, now)))
    }

    fn preset(&self) -> &'static str {
        match self {
            Chooser::Adapt(adapt) => adapt.preset(),
            Chooser::Auto(auto) => auto.preset(),
        }
    }

    fn poll(&mut self, dropped: u64, load: f64, now: Time) -> Option<&'static str> {
        match self {
            Chooser::Adapt(adapt) => adapt.poll(dropped, load, now),
            Chooser::Auto(auto) => auto.poll(dropped, load, now),
        }
    }
}

/// What is known of a picture that was coded.
#[derive(Clone, Copy, Debug)]
struct Made {
    captured: Option<Utc>,
    bytes: usize,
    random_access: bool,
}

/// Where a pipeline stands among the renditions.
#[derive(Clone, Copy, Debug)]
pub(super) struct RenditionIndex {
    /// Which rendition it makes, for the controls.
    pub(super) index: usize,
    /// Whether a key frame is one of all renditions, and comes when it is asked for alone.
    pub(super) common_keys: bool,
    /// What is added to all time stamps.
    pub(super) shift: Ticks,
    /// Whether there are renditions without delay, which one with a look-ahead yields to.
    pub(super) defers: bool,
}

/// How long what waits in a look-ahead is still coded for where the encoder is told to end.
const STOP_PATIENCE: Duration = Duration::from_secs(2);
/// Pictures that may wait while others are let first: more, and some would be left out soon.
const WAITING_FEW: usize = 8;
/// How often the system is asked how right its wall clock is.
const ACCURACY_INTERVAL: Duration = Duration::from_secs(10);

impl Pipeline {
    /// The first state of a rendition, for [`Controls::new`].
    pub(super) fn status(format: Format, settings: &Settings) -> Status {
        let name = format!("{}@{}", format.size, format.rate);
        let preset = if settings.is_auto() { Auto::new(Time::ZERO).preset() } else { &settings.preset };
        Status::new(name, settings.bitrate, preset)
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
        let RenditionIndex { index, common_keys, shift, defers } = place;
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
        let now = clock.now();
        let (look_ahead, vbv) = (coding.look_ahead, constant.map(|_| coding.vbv));
        controls.describe(index, settings, format, common_keys);
        let mut video = Coder::open(coding, defers, now).map_err(refused)?;
        if let Some(Chooser::Auto(auto)) = Chooser::of(settings, now) {
            video.set_preset(auto.preset())?;
        }
        if let (Some(delayed), Some(ahead)) = (video.delayed(), look_ahead) {
            if let Some(used) = settings.shorter_look_ahead(format.rate) {
                tracing::warn!(
                    "the look-ahead of {} is {used:?}: nothing is learnt behind the next key frame and beyond the VBV; a \
                     longer --keyint or --vbv makes room for more",
                    format.size
                );
            }
            let megabytes = LookAheadEncoder::memory_bytes(format.size, ahead) / 1_000_000;
            let behind = delayed.behind().as_secs_f64();
            tracing::info!(
                "{}@{} looks {} pictures ahead: it is about {behind:.1} s late and takes about {megabytes} MB",
                format.size,
                format.rate,
                ahead.pictures
            );
        }
        Ok(Pipeline {
            video,
            muxer: Muxer::new(program)?,
            clock,
            interval: format.rate.time_of(1),
            controls,
            index,
            chooser: Chooser::of(settings, now),
            hurried: Vec::new(),
            format,
            settings: settings.clone(),
            vbv,
            defers,
            refused: None,
            stats: Stats::new(now),
            packets: Vec::new(),
            stream: None,
            drops_told: DropsTold::default(),
            watch: (index == 0).then(|| Watch::new(now)),
            common_keys,
            shift,
            previous: None,
            accuracy: (ClockAccuracy::Unknown, None),
        })
    }

    /// Whether it runs when others have nothing to do.
    pub(super) fn defers(&self) -> bool {
        self.defers && self.is_delayed()
    }

    fn is_delayed(&self) -> bool {
        matches!(self.video, Coder::Delayed(_))
    }

    /// Has each picture coded when those of the renditions behind `queues` are, but no later than a picture's time. Threads of low
    /// priority give the processor away at once, and still the others find its caches full of their pictures.
    pub(super) fn let_first(&mut self, queues: Vec<Arc<Queue>>) {
        self.hurried = queues;
    }

    /// Waits for half a picture's time at most, and not where pictures have begun to pile up.
    fn let_others_first(&self, queue: &Queue) {
        let deadline = self.clock.now() + self.interval / 2;
        for hurried in self.hurried.iter().filter(|_| queue.is_live() && queue.pictures() <= WAITING_FEW) {
            hurried.wait_until_idle(deadline.since(self.clock.now()));
        }
    }

    /// Takes from `queue` until it ends, and gives `output` packets as soon as they are made.
    ///
    /// # Errors
    /// The source's or the output's failure; both end it.
    pub(super) fn run(&mut self, queue: &Queue, output: &mut dyn Output) -> Result<()> {
        self.stream = output.stream();
        loop {
            match queue.pop(self.wait(queue.is_live()))? {
                Popped::End => return self.finish(queue, output),
                Popped::Timeout => self.idle(queue, output)?,
                Popped::Work(work) => match *work {
                    Work::Picture { picture, pts, stamps, key, rate } => {
                        inject(Border::Encoder, || format!("picture {}.", self.stats.pictures()));
                        let dropped = queue.dropped();
                        self.tell_stall(|watch, now| watch.picture(now));
                        if self.follow(picture.size(), rate, queue, output)? {
                            self.obey(key)?;
                            self.code_picture(&picture, pts + self.shift, stamps, queue, output)?;
                        } else {
                            queue.count_dropped(1);
                        }
                        self.tell_drops(dropped);
                    }
                    Work::Sound(unit) => match self.video.delayed() {
                        Some(delayed) => {
                            delayed.hold_sound(unit, self.clock.now());
                            // Nothing else does where sound alone comes.
                            self.idle_delayed(queue, output)?;
                        }
                        None => self.write_sound(&unit, output)?,
                    },
                },
            }
        }
    }

    /// Begins anew where pictures have another size or rate, or another preset was asked for: with a key frame and parameter sets that
    /// say so, behind all that was inside. Returns whether such pictures can be coded.
    fn follow(
        &mut self,
        size: Size,
        rate: FrameRate,
        queue: &Queue,
        output: &mut dyn Output,
    ) -> Result<bool> {
        let preset = self.controls.take_preset(self.index);
        let is_same = (size, rate) == (self.format.size, self.format.rate);
        if is_same && preset.is_none() {
            return Ok(true);
        }
        if self.refused == Some((size, rate)) {
            return Ok(false);
        }
        if let Some(preset) = preset.as_ref().filter(|_| is_same && self.is_delayed()) {
            // Without a new beginning: what waits inside would have to be coded at once.
            self.take_preset(preset)?;
            return Ok(true);
        }
        let wanted = preset.clone().unwrap_or_else(|| self.settings.preset.clone());
        // As it is by now, for which the change was agreed to.
        let bitrate = Bitrate::from_bits_per_second(self.video.bitrate_bps());
        let coding = Settings { preset: wanted, bitrate, ..self.settings.clone() };
        let format = Format { size, rate, ..self.format };
        if let Err(error) = coding.x264(format, self.common_keys).check() {
            tracing::warn!(
                stream = self.stream.as_deref(),
                "pictures of {size}@{rate} are left out: {error}"
            );
            self.refused = Some((size, rate)).filter(|_| !is_same);
            return Ok(is_same);
        }
        self.refused = None;
        self.flush_delayed(queue, output)?;
        if size != self.format.size {
            let shape = self.format.sample_aspect.unwrap_or((1, 1));
            let scaled = ladder::scaled(shape, self.format.size, size);
            self.format.sample_aspect =
                Some(scaled).filter(|shape| self.format.sample_aspect.is_some() || *shape != (1, 1));
        }
        (self.format.size, self.format.rate, self.interval) = (size, rate, rate.time_of(1));
        let was_asked = preset.is_some();
        if let Some(preset) = preset {
            self.settings.preset = preset;
        }
        let now = self.clock.now();
        let bitrate_bps = self.video.bitrate_bps();
        let coding = self.settings.x264(self.format, self.common_keys);
        let vbv = self.vbv.unwrap_or(coding.vbv);
        self.video.replace(x264::Settings { bitrate_bps, vbv, ..coding })?;
        if was_asked {
            self.chooser = Chooser::of(&self.settings, now);
        }
        let chosen = self.chooser.as_ref().map(Chooser::preset);
        if let Some(preset) = chosen {
            self.video.set_preset(preset)?;
        }
        let preset = chosen.unwrap_or(&self.settings.preset);
        let status = Pipeline::status(self.format, &self.settings);
        tracing::info!(stream = self.stream.as_deref(), "{} by preset {preset} from now on", status.name);
        self.controls.report(self.index, |own| {
            own.name = status.name;
            preset.clone_into(&mut own.preset);
        });
        Ok(true)
    }

    /// Codes by another preset without a new beginning.
    fn take_preset(&mut self, preset: &str) -> Result<()> {
        preset.clone_into(&mut self.settings.preset);
        self.chooser = Chooser::of(&self.settings, self.clock.now());
        let chosen = self.chooser.as_ref().map(Chooser::preset);
        let preset = chosen.unwrap_or(preset);
        self.video.set_preset(preset)?;
        tracing::info!(stream = self.stream.as_deref(), "preset {preset} from now on");
        self.controls.report(self.index, |own| preset.clone_into(&mut own.preset));
        Ok(())
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
        self.let_others_first(queue);
        let dropped = queue.dropped();
        let begun = self.clock.now();
        let stamps = stamps.with(Stage::EncoderIn, begun);
        if let Some(delayed) = self.video.delayed() {
            let unit = delayed.push(picture, pts, stamps, begun)?;
            return unit.map_or(Ok(()), |unit| self.write_delayed(unit, begun, dropped, output));
        }
        let said = picture.captured_utc.map(|captured| self.user_data(captured, stamps, begun));
        let shift = self.shift;
        let Coder::Immediate(video) = &mut self.video else { return Ok(()) };
        let times = UnitTimes::same(pts);
        let mut writer =
            PictureWriter::new(&mut self.muxer, &mut self.packets, output, self.clock, times, stamps);
        let coded = video.encode_slices(picture, pts, said.as_deref(), &mut |unit| {
            while let Some(sound) = queue.take_sound() {
                writer.take_sound(&shifted(&sound, shift));
            }
            writer.take(&unit);
        });
        let written = writer.finish()?;
        let coded = coded?;
        let Some(written) = written else { return Ok(()) };
        let captured = picture.captured_utc;
        self.picture_written(
            &written,
            Made { captured, bytes: coded.bytes, random_access: coded.random_access },
            dropped,
        );
        self.adapt(begun, &written, dropped)
    }

    /// Writes a picture that has come out of the look-ahead, behind the sound that belongs in front of it. `begun`: when the call
    /// began that gave it.
    fn write_delayed(
        &mut self,
        unit: Unit,
        begun: Time,
        dropped: u64,
        output: &mut dyn Output,
    ) -> Result<()> {
        let dts = unit.dts - self.shift;
        while let Some(sound) = self.video.delayed().and_then(|delayed| delayed.sound_before(dts)) {
            self.write_sound(&sound, output)?;
        }
        let Unit { pts, dts, random_access, captured, stamps, .. } = unit;
        let made = Made { captured, bytes: unit.coded_bytes, random_access };
        let said = captured.map(|captured| self.user_data(captured, stamps, begun));
        let times = UnitTimes { pts, dts };
        let mut writer =
            PictureWriter::new(&mut self.muxer, &mut self.packets, output, self.clock, times, stamps);
        writer.take_whole(unit.into_bytes(said.as_deref()), random_access);
        let Some(written) = writer.finish()? else { return Ok(()) };
        self.picture_written(&written, made, dropped);
        self.adapt(begun, &written, dropped)
    }

    fn picture_written(&mut self, written: &Written, made: Made, dropped: u64) {
        if written.demand == Demand::KeyFrame {
            self.want_key_frame();
        }
        self.previous = made.captured.map(|captured| (captured, written.stamps));
        self.stats.dropped = dropped;
        self.stats.picture(written, made.bytes);
        let bitrate_bps = self.video.bitrate_bps();
        self.controls.report(self.index, |status| {
            status.bitrate_bps = bitrate_bps;
            status.pictures += 1;
            status.random_access_points += u64::from(made.random_access);
            status.dropped = dropped;
            status.bytes += written.bytes as u64;
            status.stages.push(&written.stamps);
        });
    }

    /// What waits in the look-ahead, where no picture comes that it could wait for.
    fn flush_delayed(&mut self, queue: &Queue, output: &mut dyn Output) -> Result<()> {
        let first = self.clock.now();
        loop {
            let begun = self.clock.now();
            if queue.is_stopped() && begun.since(first) > STOP_PATIENCE {
                tracing::warn!(
                    stream = self.stream.as_deref(),
                    "what waited in the look-ahead is left out: there was no time"
                );
                return Ok(());
            }
            let Some(delayed) = self.video.delayed() else { return Ok(()) };
            let Some(unit) = delayed.flush(begun)? else { return Ok(()) };
            self.write_delayed(unit, begun, queue.dropped(), output)?;
        }
    }

    /// Nothing came for a while: sound that is due leaves, and pictures of a source that has stopped.
    fn idle_delayed(&mut self, queue: &Queue, output: &mut dyn Output) -> Result<()> {
        let now = self.clock.now();
        if !queue.is_live() || self.video.delayed().is_none() {
            return Ok(());
        }
        // A source that has stopped is not one that this thread is behind.
        let waits = queue.pictures() > 0;
        if !waits && self.video.delayed().is_some_and(|delayed| delayed.is_stalled(now)) {
            self.flush_delayed(queue, output)?;
            if let Some(delayed) = self.video.delayed() {
                delayed.begin_again()?;
            }
        }
        while let Some(sound) = self.video.delayed().and_then(|delayed| delayed.sound_overdue(now)) {
            self.write_sound(&sound, output)?;
        }
        Ok(())
    }

    /// The message in which a picture's capture time and stages go along.
    fn user_data(&mut self, captured: Utc, stamps: Stamps, now: Time) -> Vec<u8> {
        write_capture(captured, &self.record(captured, stamps, now))
    }

    /// What the stream says of the picture that x264 gets now, and of the one before it.
    fn record(&mut self, captured: Utc, stamps: Stamps, now: Time) -> Record {
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
        let Some(chooser) = &mut self.chooser else { return Ok(()) };
        let sent = written.stamps.at(Stage::Sent).unwrap_or(begun);
        let load = sent.since(begun).as_secs_f64() / self.interval.as_secs_f64();
        let Some(preset) = chooser.poll(dropped, load, sent) else { return Ok(()) };
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
        self.muxer.write(&shifted(unit, self.shift), &mut self.packets)?;
        self.send(output)
    }

    /// What waits in the look-ahead, and what the muxer still has: sound that waits for its place.
    fn finish(&mut self, queue: &Queue, output: &mut dyn Output) -> Result<()> {
        self.flush_delayed(queue, output)?;
        while let Some(sound) = self.video.delayed().and_then(super::delayed::Delayed::sound_left) {
            self.write_sound(&sound, output)?;
        }
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
    fn wait(&mut self, live: bool) -> Option<Duration> {
        let watch = self.watch.as_ref().and_then(Watch::due);
        let delayed = self.video.delayed().and_then(|delayed| delayed.poll_timeout()).filter(|_| live);
        let look = [watch, delayed].into_iter().flatten().min().map(|due| due.since(self.clock.now()));
        [self.tables_wait(live), look].into_iter().flatten().min()
    }

    /// Nothing came in that time.
    fn idle(&mut self, queue: &Queue, output: &mut dyn Output) -> Result<()> {
        let live = queue.is_live();
        self.tell_stall(|watch, now| watch.look(now));
        self.idle_delayed(queue, output)?;
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
    fn tables_wait(&mut self, live: bool) -> Option<Duration> {
        let due = self.muxer.poll_timeout().filter(|_| live)?;
        // The stream's clock is behind by as much as pictures wait.
        let behind = self.video.delayed().map_or(Duration::ZERO, |delayed| delayed.behind());
        // The margin is for a unit on its way: its stamp would lie behind the clock.
        let due = Time::from_nanos((due + TABLES_MARGIN).0.max(0) as u64 * 100_000 / 9) + behind;
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

fn shifted(unit: &AccessUnit, shift: Ticks) -> AccessUnit {
    AccessUnit { pts: unit.pts + shift, dts: unit.dts + shift, ..unit.clone() }
}

fn refused(error: CodecError) -> Error {
    match error {
        CodecError::Setting { .. } => Error::Setting(error),
        other => Error::Open(other),
    }
}
