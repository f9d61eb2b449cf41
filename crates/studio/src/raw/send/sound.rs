//! Sound beside the pictures (ST 2110-30): opened with them, sent by a thread of its own, a packet each millisecond.

use super::settings::SoundSettings;
use super::sound_packets::SoundPackets;
use super::stamps::Stamps;
use super::statistics::{Monitor, SoundStatistics};
use super::waiter::Waiter;
use super::way::Way;
use super::{Error, Result, packet_numbers};
use crate::capture::{FfmpegInput, Input, Pace, SOUND_RATE_HZ, SoundInput, TONE_CHANNELS};
use glassline_io::clock::Clock;
use glassline_io::queue::{DropPolicy, Queue, Taken};
use glassline_media::{AudioBlock, Time};
use glassline_transport::rtp::pcm::{Depth, Format, PacketTime, PacketizerSettings};
use std::collections::VecDeque;
use std::time::Duration;

/// Bits of a sample that every receiver of ST 2110-30 takes (§6.2.1).
pub(super) const DEPTH: Depth = Depth::L24;
/// Of the test pattern's tone: 5 ms.
pub(super) const TONE_FRAMES: usize = 240;
/// Channels that fit into packets of a millisecond, and that blocks have.
const CHANNELS_MAX: u8 = 8;
/// Sound that waits for its time, beside that of two pictures: far more than a sender of pictures is ahead.
const WAITING: Duration = Duration::from_secs(2);
/// A packet that leaves this late is told as late: it is what small receivers keep (ST 2110-30 level A, one packet).
const LATE: Duration = Duration::from_millis(1);
const TICK: Duration = Duration::from_millis(100);

/// Where sound comes from.
pub(super) enum Origin {
    /// The test pattern's source gives it.
    Tone,
    /// A file or a device.
    Input(Box<SoundInput>),
}

/// The sound of an input, where it has some and some is wanted.
pub(super) struct OpenSound {
    pub(super) origin: Origin,
    pub(super) channels: u8,
}

impl OpenSound {
    /// Opens what is named, else what the input has.
    ///
    /// # Errors
    /// The sound's.
    pub(super) fn open(
        input: &Input,
        file: Option<&FfmpegInput>,
        wanted: &SoundSettings,
        clock: Clock,
    ) -> Result<Option<OpenSound>> {
        let named = SoundInput::named_or_described(wanted.input.as_ref(), wanted.raw, input, clock)?;
        let found = match (named, input, file) {
            (Some(named), ..) => Some(named),
            (None, Input::Test { .. }, _) if wanted.tone => {
                return Ok(Some(OpenSound { origin: Origin::Tone, channels: TONE_CHANNELS }));
            }
            (None, _, Some(file)) => {
                let channels = file.channels();
                if channels.is_some_and(|channels| channels > CHANNELS_MAX) {
                    tracing::warn!(
                        "{} has more than {CHANNELS_MAX} channels of sound: they are mixed down",
                        file.name()
                    );
                }
                let channels = channels.map(|channels| channels.min(CHANNELS_MAX));
                channels.map(|channels| SoundInput::ffmpeg(file, channels)).transpose()?
            }
            _ => None,
        };
        Ok(found
            .map(|input| OpenSound { channels: input.channels(), origin: Origin::Input(Box::new(input)) }))
    }
}

/// Blocks on their way to the thread that sends them.
pub(super) type SoundQueue = Queue<AudioBlock, Room>;

/// Leaves a block out where too much waits.
#[derive(Debug)]
pub(super) struct Room {
    /// Samples of each channel at most.
    room: usize,
    /// Those that wait.
    frames: usize,
    /// Those that found no room.
    dropped: u64,
}

impl Room {
    /// Beside pictures that last for `period` each; all sound of one may come with it.
    pub(super) fn new(period: Duration) -> Room {
        let room = (WAITING + 2 * period).as_millis() as usize * SOUND_RATE_HZ as usize / 1000;
        Room { room, frames: 0, dropped: 0 }
    }
}

impl DropPolicy<AudioBlock> for Room {
    fn admit(&mut self, waiting: &mut VecDeque<AudioBlock>, block: AudioBlock) -> Option<AudioBlock> {
        let frames = block.frames();
        if self.frames + frames > self.room {
            self.dropped += frames as u64;
        } else {
            self.frames += frames;
            waiting.push_back(block);
        }
        None
    }

    fn hand_over(&mut self, block: &mut AudioBlock) {
        self.frames -= block.frames();
    }
}

/// Sends blocks out of a queue at their times.
pub(super) struct SoundSender {
    pub(super) clock: Clock,
    pub(super) stamps: Stamps,
    pub(super) packets: SoundPackets,
    pub(super) ways: Vec<Way>,
    /// From the capture of a packet's last sample to its departure.
    pub(super) delay: Duration,
    pub(super) monitor: Monitor,
}

impl SoundSender {
    /// What makes packets of sound with so many channels.
    ///
    /// # Errors
    /// [`Error::Sound`], and where the system gives no random numbers.
    pub(super) fn packets(channels: u8, payload_type: u8) -> Result<SoundPackets> {
        let numbers = packet_numbers()?;
        SoundPackets::new(PacketizerSettings {
            format: Format::new(DEPTH, channels, SOUND_RATE_HZ)?,
            packet_time: PacketTime::Millisecond,
            payload_type,
            ssrc: numbers.ssrc,
            first_sequence: numbers.sequence as u16,
            first_timestamp: 0,
        })
    }

    /// How long after it was captured sound leaves beside pictures that leave `delay` after theirs. What is not handed over along
    /// with a file's pictures, as a device's, is there a while later than it was captured.
    pub(super) fn delay(opened: &OpenSound, pace: Pace, delay: Duration) -> Duration {
        let is_live = matches!(&opened.origin, Origin::Input(input) if input.is_live());
        match pace {
            Pace::File { .. } if !is_live => delay,
            _ => delay.max(super::sender::LIVE_DELAY),
        }
    }

    /// Sends until the queue ends.
    ///
    /// # Errors
    /// A block has other channels than the first one.
    pub(super) fn run(mut self, queue: &SoundQueue) -> Result<()> {
        let mut ready: Vec<(Time, Vec<u8>)> = Vec::new();
        loop {
            let ended = match queue.take(Some(TICK)) {
                Taken::Timeout => continue,
                Taken::Item(block) => {
                    let dropped = queue.look(|_, room| room.dropped);
                    let now = self.clock.now();
                    let before = self.stamps.steps();
                    self.stamps.follow(now, self.clock.utc());
                    if self.stamps.steps() != before {
                        self.packets.begin_anew(&mut |end, datagram| ready.push((end, datagram.to_vec())));
                    }
                    let stamp = self.stamps.of_sound(block.captured, SOUND_RATE_HZ);
                    self.packets
                        .push(block, stamp, &mut |end, datagram| ready.push((end, datagram.to_vec())))?;
                    let lost = dropped + self.packets.overlapping();
                    self.monitor.update_sound(|sound| sound.dropped_samples = lost);
                    false
                }
                Taken::End => {
                    self.packets.flush(&mut |end, datagram| ready.push((end, datagram.to_vec())));
                    true
                }
            };
            for (end, datagram) in ready.drain(..) {
                self.send(end + self.delay, &datagram, queue);
            }
            if ended {
                return Ok(());
            }
        }
    }

    fn send(&mut self, due: Time, datagram: &[u8], queue: &SoundQueue) {
        let waiter = Waiter { clock: self.clock, spins: false };
        let late = loop {
            let now = self.clock.now();
            if due.since(now).is_zero() {
                break now.since(due);
            }
            if queue.is_stopped() {
                return;
            }
            waiter.wait(due);
        };
        let (mut failed, mut failure) = (0, None);
        for way in &mut self.ways {
            if let Err(why) = way.send(datagram) {
                failed += 1;
                failure = Some(why);
            }
        }
        let bytes = datagram.len() as u64;
        self.monitor.update_sound(|sound| {
            sound.packets += 1;
            sound.bytes += bytes;
            sound.late_packets += u64::from(late > LATE);
            sound.latest = sound.latest.max(late);
            sound.failed_packets += failed;
            if failure.is_some() {
                sound.failure = failure;
            }
        });
    }
}

impl SoundStatistics {
    /// Before the first packet.
    pub(super) fn of(channels: u8) -> SoundStatistics {
        SoundStatistics { channels, ..SoundStatistics::default() }
    }
}

impl From<glassline_transport::rtp::pcm::Error> for Error {
    fn from(error: glassline_transport::rtp::pcm::Error) -> Error {
        Error::Sound(error)
    }
}

#[cfg(test)]
#[path = "sound_tests.rs"]
mod tests;
