//! A sender from its opening to its end.

use super::ancillary::{AncillarySender, Beside, TimeCodes};
use super::captions::Captions;
use super::class::Meter;
use super::describe::{self, Sent};
use super::frames::{FramePacker, keep};
use super::intake::Intake;
use super::pacer::Pacer;
use super::path::Path;
use super::plan::{Grain, Plan};
use super::queue::Queue;
use super::running::{Running, Stopper, Timing};
use super::settings::{Rate, Settings, Shape};
use super::sound::{OpenSound, Origin, Room, SoundQueue, SoundSender, TONE_FRAMES};
use super::sound_packets::SoundPackets;
use super::stamps::Stamps;
use super::statistics::{Monitor, PathStatistics, SoundStatistics};
use super::supply::Supply;
use super::waiter::Waiter;
use super::way::Way;
use super::{BLOCKS, Error, Result, decide, packet_numbers};
use crate::capture::{self, Children, FfmpegInput, Input, Length, Pace, Pictures, Pixels, Request, Source};
use glassline_io::clock::Clock;
use glassline_io::pages::{Block, Pool};
use glassline_io::process;
use glassline_io::udp::Route;
use glassline_media::{FrameRate, PixelFormat, Time};
use glassline_transport::ancillary::CaptionRate;
use glassline_transport::raw_video::{Format, Limits, Packetizer, PacketizerSettings, Schedule, SenderModel};
use glassline_transport::sdp::Description;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// From the beginning of a run to the first frame: threads start, and the test pattern draws what never changes.
const START: Duration = Duration::from_millis(300);
/// A picture of a source with a clock of its own is sent so long after it was captured, or a period after it.
pub(super) const LIVE_DELAY: Duration = Duration::from_millis(40);

/// Sends video that is open. See the [module](super).
pub struct RawSender {
    settings: Settings,
    clock: Clock,
    opened: Opened,
    rate: FrameRate,
    packetizer: Packetizer,
    schedule: Schedule,
    /// Of the narrow type that the schedule is of, and of the wide one.
    limits: [Limits; 2],
    plan: Plan,
    pacer: Pacer,
    paths: Vec<Path>,
    queue: Arc<Queue>,
    monitor: Monitor,
    sound: Option<Sound>,
    ancillary: Option<AncillarySender>,
}

/// Sound that is open, and where it goes.
struct Sound {
    opened: OpenSound,
    packets: SoundPackets,
    ways: Vec<Way>,
}

/// An input and what is known of it.
struct Opened {
    input: OpenInput,
    source: capture::Format,
    format: Format,
    children: Option<Children>,
    sound: Option<OpenSound>,
    time_codes: Option<TimeCodes>,
    /// The film, if it has captions and the settings ask for them.
    captioned: Option<FfmpegInput>,
}

enum OpenInput {
    /// Hands pictures over when they are captured.
    Source(Box<Source>),
    /// Gives pictures when it is asked.
    Pictures(Box<Pictures>),
    /// All frames, packed.
    Kept(Vec<Block>),
}

impl RawSender {
    /// Opens `input` and the paths. A file that is sent over and over is read and packed here, if it fits.
    ///
    /// # Errors
    /// [`Error`]: the input's, the format's, the network's.
    pub fn open(input: &Input, settings: Settings, clock: Clock) -> Result<RawSender> {
        if !(1..=2).contains(&settings.paths.len()) {
            return Err(Error::Paths(settings.paths.len()));
        }
        let mut opened = Opened::open(input, &settings, clock)?;
        let format = opened.format;
        let mut packetizer = packetizer(&settings, format)?;
        let packets = packetizer.layout().len() as u32;
        let frame_bytes = packetizer.clone().frame([0, 0]).map(|packet| packet.bytes).sum();
        let rate = decide::rate(opened.source.rate, settings.rate, frame_bytes);
        opened.check_captions(rate, settings.rate);
        check_places(&settings, &opened)?;
        let model = if settings.shape == Shape::Narrow { SenderModel::Gapped } else { SenderModel::Linear };
        let schedule = Schedule::new(rate, packets, &format, model);
        let open =
            |path| Path::open(path, settings.dscp, settings.launches && settings.rate != Rate::Unlimited);
        let paths = settings.paths.iter().map(open).collect::<Result<Vec<_>>>()?;
        let is_exact = settings.spins || paths.iter().all(|path| path.launch.is_used);
        let [gapped, linear, wide] = Limits::of(&format, rate, packets, describe::max_udp_bytes(&settings));
        let limits = [if model == SenderModel::Gapped { gapped } else { linear }, wide];
        let mut grain = Grain::new(&schedule, &limits, settings.shape, is_exact);
        grain.packets = settings.burst_packets.unwrap_or(grain.packets);
        let plan = Plan::new(packetizer.frame([0, 0]), &schedule, grain);
        let pacer = Pacer::new(&schedule, grain.lead);
        // The numbers of the packets that were only counted.
        let packetizer = self::packetizer(&settings, format)?;
        let monitor = Monitor::new();
        monitor.update(|statistics| {
            statistics.burst_packets = plan.most;
            let path = |path: &Path| PathStatistics { to: path.to.clone(), ..PathStatistics::default() };
            statistics.paths = paths.iter().map(path).collect();
            statistics.launches = paths.iter().map(|path| path.launch.clone()).collect();
        });
        let queue = Arc::new(Queue::default());
        let sound = open_sound(opened.sound.take(), &settings, &monitor)?;
        let ancillary = open_ancillary(&mut opened, &settings, rate, &monitor)?;
        Ok(RawSender {
            settings,
            clock,
            opened,
            rate,
            packetizer,
            schedule,
            limits,
            plan,
            pacer,
            paths,
            queue,
            monitor,
            sound,
            ancillary,
        })
    }

    /// What frames are.
    #[must_use]
    pub fn format(&self) -> Format {
        self.opened.format
    }

    /// Frames a second; `None` where as many leave as can.
    #[must_use]
    pub fn rate(&self) -> Option<FrameRate> {
        (self.settings.rate != Rate::Unlimited).then_some(self.rate)
    }

    /// Packets of a frame.
    #[must_use]
    pub fn packets(&self) -> usize {
        self.packetizer.layout().len()
    }

    /// Frames that are sent from memory; `None` where the input is read while it is sent.
    #[must_use]
    pub fn kept(&self) -> Option<usize> {
        match &self.opened.input {
            OpenInput::Kept(blocks) => Some(blocks.len()),
            _ => None,
        }
    }

    /// Channels of the sound that goes beside the pictures, if some does.
    #[must_use]
    pub fn sound_channels(&self) -> Option<u8> {
        self.sound.as_ref().map(|sound| sound.opened.channels)
    }

    /// Whether frames' time codes go beside them.
    #[must_use]
    pub fn has_time_code(&self) -> bool {
        self.ancillary.as_ref().is_some_and(AncillarySender::has_time_code)
    }

    /// Whether the film's captions go beside the frames.
    #[must_use]
    pub fn has_captions(&self) -> bool {
        self.ancillary.as_ref().is_some_and(AncillarySender::has_captions)
    }

    /// The session description, by this name.
    #[must_use]
    pub fn description(&self, name: &str) -> Description {
        let sent = Sent {
            format: self.opened.format,
            rate: self.rate(),
            colour: self.opened.source.colour,
            sample_aspect: self.opened.source.sample_aspect.unwrap_or((1, 1)),
            is_on_grid: !self.is_live(),
            is_exact: self.paths.iter().all(|path| path.launch.is_used),
            sound_channels: self.sound_channels(),
            has_time_code: self.has_time_code(),
            has_captions: self.has_captions(),
        };
        describe::describe(name, self.clock.utc().as_nanos() / 1_000_000_000, &self.settings, &sent)
    }

    /// Ends it, from any thread.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.queue))
    }

    /// Looks at what it does, during the run and after it.
    #[must_use]
    pub fn monitor(&self) -> Monitor {
        self.monitor.clone()
    }

    /// Whether pictures come by a clock that is not ours.
    fn is_live(&self) -> bool {
        let is_test = matches!(&self.opened.input, OpenInput::Source(source) if source.is_test());
        self.opened.source.live && !is_test
    }

    /// Sends until the input ends, its length is reached or [`Stopper::stop`] is called; the caller waits that long.
    ///
    /// # Errors
    /// [`Error`]: the input's, the network's where nothing of a frame leaves.
    pub fn run(self) -> Result<()> {
        let is_live = self.is_live();
        let RawSender {
            settings,
            clock,
            opened,
            rate,
            packetizer,
            schedule,
            limits,
            plan,
            pacer,
            paths,
            queue,
            monitor,
            sound,
            ancillary,
        } = self;
        let Opened { input, source, format, children, .. } = opened;
        let watched = monitor.clone();
        let beside_paths = [
            settings.sound.as_ref().map_or(0, |sound| sound.paths.len()),
            settings.ancillary.as_ref().map_or(0, |ancillary| ancillary.paths.len()),
        ];
        ancillary.iter().for_each(AncillarySender::wait);
        let now = clock.now();
        let stamps = Stamps::new(now, clock.utc_at(now));
        let first = stamps.next_on_grid(now + START, rate);
        let timing = timing(&input, &settings, first, rate, is_live);
        let looped = settings.looped;
        let mut sounding =
            sound.map(|sound| (sound, Arc::new(SoundQueue::new(Room::new(source.rate.time_of(1))))));
        let sounds = sounding.as_ref().map(|(_, sounds)| Arc::clone(sounds));
        let pace = match &input {
            OpenInput::Source(source) => source.pace(),
            _ => Pace::File { rate, timed: true },
        };
        let mut playing = None;
        let mut intake = |input: Work| -> Result<Supply> {
            let pool = Pool::new(format.frame_bytes(), BLOCKS).map_err(Error::system("memory for frames"))?;
            monitor.update(|statistics| statistics.is_huge = pool.is_huge());
            let intake = Intake::new(
                FramePacker::new(format),
                pool,
                Arc::clone(&queue),
                monitor.clone(),
                (clock, source.rate, source.live),
                sounds.clone(),
            );
            let intake = Arc::new(intake);
            if let Some((Sound { opened, packets, ways }, sounds)) = sounding.take() {
                let delay = match timing {
                    Timing::Captured { delay } => SoundSender::delay(&opened, pace, delay),
                    _ => LIVE_DELAY,
                };
                let (monitor, stamps) = (monitor.clone(), stamps);
                let sender = SoundSender { clock, stamps, packets, ways, delay, monitor };
                let queue = Arc::clone(&sounds);
                let sending = spawn("sound send", move || {
                    process::sharpen_timers();
                    process::hurry_thread();
                    sender.run(&queue)
                })?;
                playing = Some((sending, sounds));
                if let Origin::Input(input) = opened.origin {
                    input.start(&intake, pace, looped, clock)?;
                }
            }
            spawn("pictures", move || input.run(&intake))?;
            Ok(Supply::Queue { queue: Arc::clone(&queue), current: None })
        };
        let supply = match input {
            OpenInput::Source(source) => intake(Work::Source(Box::new(source.beginning_at(first))))?,
            OpenInput::Pictures(pictures) => intake(Work::Pictures(pictures))?,
            OpenInput::Kept(blocks) => Supply::Kept { blocks, looped, next: 0 },
        };
        let running = Running {
            clock,
            queue: Arc::clone(&queue),
            monitor: monitor.clone(),
            packetizer,
            plan,
            meter: (settings.rate != Rate::Unlimited).then(|| Meter::new(&schedule, limits)),
            pacer,
            paths,
            stamps,
            timing,
            field: describe::has_fields(&format).then(|| rate.time_of(1) / 2),
            waiter: Waiter { clock, spins: settings.spins },
            ancillary,
            limit: limit(settings.length, source.rate),
        };
        let (processor, is_paced) = (settings.processor, settings.rate != Rate::Unlimited && !settings.spins);
        let sending = spawn("raw send", move || {
            processor.map_or(Ok(()), process::pin_thread).map_err(Error::Processor)?;
            process::sharpen_timers();
            // A thread that never sleeps would take the processor from all others.
            let is_real_time = is_paced && process::hurry_thread();
            monitor.update(|statistics| statistics.is_real_time = is_real_time);
            running.run(supply)
        })?;
        let sent = sending.join().expect("the sending thread does not panic");
        let played = playing.map_or(Ok(()), |(playing, sounds)| {
            // What was captured with the last picture is sent, unless the end was asked for.
            if queue.is_stopped() {
                sounds.stop();
            } else {
                sounds.end(Ok(()));
            }
            playing.join().expect("the thread of sound does not panic")
        });
        queue.stop();
        children.iter().for_each(Children::end);
        // A source that waits for its input ends with the process; one that has ended says how.
        let ended = queue.take_end().unwrap_or(Ok(()));
        let lost = watched.statistics().lost_beside(beside_paths).map_or(Ok(()), Err);
        sent.and(ended.map_err(Error::Capture)).and(played).and(lost)
    }
}

/// What the thread of pictures does.
enum Work {
    Source(Box<Source>),
    Pictures(Box<Pictures>),
}

impl Work {
    fn run(self, intake: &Intake) {
        match self {
            Work::Source(source) => source.run(intake),
            Work::Pictures(pictures) => intake.run(*pictures),
        }
    }
}

fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<thread::JoinHandle<T>> {
    thread::Builder::new().name(name.to_owned()).spawn(work).map_err(Error::system("a thread"))
}

/// When frames begin.
fn timing(input: &OpenInput, settings: &Settings, first: Time, rate: FrameRate, is_live: bool) -> Timing {
    match input {
        _ if settings.rate == Rate::Unlimited => Timing::Unlimited,
        // A whole period keeps to the grid.
        OpenInput::Source(_) if !is_live => Timing::Captured { delay: rate.time_of(1) },
        OpenInput::Source(_) => Timing::Captured { delay: rate.time_of(1).min(LIVE_DELAY) },
        OpenInput::Pictures(_) | OpenInput::Kept(_) => Timing::Grid { first, rate, slot: 0 },
    }
}

/// Frames at most, of pictures at `rate`.
fn limit(length: Length, rate: FrameRate) -> Option<u64> {
    let by_time = length.time.map(|time| {
        let frames = time.as_nanos() * u128::from(rate.numerator());
        u64::try_from(frames.div_ceil(u128::from(rate.denominator()) * 1_000_000_000)).unwrap_or(u64::MAX)
    });
    match (length.pictures, by_time) {
        (Some(pictures), Some(by_time)) => Some(pictures.min(by_time)),
        (pictures, by_time) => pictures.or(by_time),
    }
}

/// Whether each of the streams has a place of its own on each path.
///
/// # Errors
/// [`Error::SamePlace`].
fn check_places(settings: &Settings, opened: &Opened) -> Result<()> {
    let sound = settings.sound.as_ref().filter(|_| opened.sound.is_some());
    let ancillary =
        settings.ancillary.as_ref().filter(|_| opened.time_codes.is_some() || opened.captioned.is_some());
    let beside = sound.map(|it| &it.paths).into_iter().chain(ancillary.map(|it| &it.paths));
    let all: Vec<&Route> =
        [&settings.paths].into_iter().chain(beside).flatten().map(|path| &path.route).collect();
    let place = |route: &Route| (route.address, route.interface.clone(), route.source);
    let mut taken = Vec::new();
    for route in all {
        if taken.contains(&place(route)) {
            return Err(Error::SamePlace(route.address));
        }
        taken.push(place(route));
    }
    Ok(())
}

/// Opens the sockets of sound.
fn open_sound(opened: Option<OpenSound>, settings: &Settings, monitor: &Monitor) -> Result<Option<Sound>> {
    let Some((opened, to)) = opened.zip(settings.sound.as_ref()) else { return Ok(None) };
    let packets = SoundSender::packets(opened.channels, to.payload_type)?;
    let ways = Way::open_all(&to.paths, settings.dscp)?;
    monitor.update(|statistics| statistics.sound = Some(SoundStatistics::of(opened.channels)));
    Ok(Some(Sound { opened, packets, ways }))
}

/// Opens the sockets of ancillary data, and the film's captions, of which there are frames at `rate`.
fn open_ancillary(
    opened: &mut Opened,
    settings: &Settings,
    rate: FrameRate,
    monitor: &Monitor,
) -> Result<Option<AncillarySender>> {
    let Some(to) = &settings.ancillary else { return Ok(None) };
    let source_rate = opened.source.rate;
    let captioned = opened.captioned.take().zip(CaptionRate::of(rate));
    let captions = captioned.map(|(file, rate)| Captions::open(&file, source_rate, rate, settings.looped));
    let beside = Beside { codes: opened.time_codes.take(), captions: captions.transpose()? };
    let how = (to, settings.datagram_bytes, settings.dscp);
    AncillarySender::open(beside, how, source_rate, monitor.clone())
}

fn packetizer(settings: &Settings, format: Format) -> Result<Packetizer> {
    let numbers = packet_numbers()?;
    let asked = PacketizerSettings {
        format,
        payload_type: settings.payload_type,
        ssrc: numbers.ssrc,
        first_sequence: numbers.sequence,
        datagram_bytes: settings.datagram_bytes,
        packing: settings.packing,
    };
    Packetizer::new(asked).ok_or(Error::Datagram(settings.datagram_bytes))
}

impl Opened {
    fn open(input: &Input, settings: &Settings, clock: Clock) -> Result<Opened> {
        if settings.looped && input.path().is_none() {
            return Err(capture::Error::NotAFile.into());
        }
        let file = match input {
            Input::Decoded(film) => Some(FfmpegInput::open(film)?),
            _ => None,
        };
        let sound = Opened::sound(input, file.as_ref(), settings, clock)?;
        // Frames in memory have no sound with them.
        let kept = settings.looped && sound.is_none();
        let opened = if let Some(opened) = kept.then(|| Opened::kept(input, settings)).transpose()?.flatten()
        {
            opened
        } else if settings.rate != Rate::Source {
            let pictures = Pictures::open_as_they_are(input, settings.looped, Length::default())?;
            let (source, pixels, children) = (pictures.format(), pictures.pixels(), pictures.children());
            let input = OpenInput::Pictures(Box::new(pictures));
            Opened::new(input, (source, pixels, children), settings)?
        } else {
            let children = file.as_ref().map(FfmpegInput::children);
            let request = Request {
                file: file.clone(),
                sound: sound
                    .as_ref()
                    .filter(|sound| matches!(sound.origin, Origin::Tone))
                    .map(|_| TONE_FRAMES),
                paced: true,
                looped: settings.looped,
                pixels: Pixels::Own,
                length: settings.length,
                ..Request::default()
            };
            let source = Source::open(input, &request, clock)?;
            let known = (source.format(), source.pixels(), children);
            Opened::new(OpenInput::Source(Box::new(source)), known, settings)?
        };
        let wanted = settings.ancillary.as_ref().map(|wanted| wanted.time_code);
        let codes = wanted.map(|wanted| TimeCodes::of(file.as_ref(), wanted, opened.source.rate));
        let captioned = file.filter(|file| settings.ancillary.is_some() && file.has_captions());
        Ok(Opened { sound, time_codes: codes.transpose()?.flatten(), captioned, ..opened })
    }

    /// Lets captions be where frames come at a rate that they have no format for.
    fn check_captions(&mut self, rate: FrameRate, asked: Rate) {
        let has_format = asked != Rate::Unlimited && CaptionRate::of(rate).is_some();
        if self.captioned.take_if(|_| !has_format).is_some() {
            let rate = if asked == Rate::Unlimited { "any number".to_owned() } else { rate.to_string() };
            tracing::warn!(
                "the film's captions are not sent: there is no format for them in {rate} frames a second, but in 24000/1001, \
                 24, 25, 30000/1001, 30, 50, 60000/1001 and 60"
            );
        }
    }

    /// The sound that is wanted, if there is some.
    fn sound(
        input: &Input,
        file: Option<&FfmpegInput>,
        settings: &Settings,
        clock: Clock,
    ) -> Result<Option<OpenSound>> {
        let Some(wanted) = &settings.sound else { return Ok(None) };
        if settings.rate == Rate::Source {
            return OpenSound::open(input, file, wanted, clock);
        }
        if wanted.input.is_some() {
            return Err(Error::SoundOfOtherRate);
        }
        if file.is_some_and(|file| file.channels().is_some()) {
            tracing::warn!("the sound is left out: pictures do not go at the rate that it belongs to");
        }
        Ok(None)
    }

    fn new(
        input: OpenInput,
        (source, pixels, children): (capture::Format, PixelFormat, Option<Children>),
        settings: &Settings,
    ) -> Result<Opened> {
        let format = decide::format(pixels, &source, settings)?;
        Ok(Opened { input, source, format, children, sound: None, time_codes: None, captioned: None })
    }

    /// All of a file in memory, where it fits.
    fn kept(input: &Input, settings: &Settings) -> Result<Option<Opened>> {
        let look = Pictures::open_as_they_are(input, false, Length::default())?;
        let (source, pixels) = (look.format(), look.pixels());
        look.children().iter().for_each(Children::end);
        match keep(input, decide::format(pixels, &source, settings)?, settings.memory_bytes)? {
            Some(blocks) if blocks.is_empty() => {
                Err(Error::Empty(input.path().map(|path| path.display().to_string()).unwrap_or_default()))
            }
            Some(blocks) => Opened::new(OpenInput::Kept(blocks), (source, pixels, None), settings).map(Some),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
#[path = "sender_tests.rs"]
mod tests;
