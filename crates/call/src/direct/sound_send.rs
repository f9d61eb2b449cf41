//! The sending end of sound: coded on the thread that captures it, sent on the link's.

use super::UNPOISONED;
use super::intake::TakesSound;
use super::latest::Latest;
use crate::link::Link;
use crate::link::session::{Served, Service};
use bytes::Bytes;
use glassline_codec::CodecError;
use glassline_codec::audio::{RATE_HZ, opus};
use glassline_direct::sound::{FRAME_UNIT, Redundancy, SoundSender as Numbering};
use glassline_direct::{SOUND, sound_options};
use glassline_io::clock::Clock;
use glassline_io::queue::{KeepLast, Queue, Taken};
use glassline_media::quantity::Bitrate;
use glassline_media::{AudioBlock, Stage, Time, Utc};
use glassline_transport::link::{Error as LinkError, Event, Options, Outcome};
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long the loop waits for a packet before it looks whether the link is still there.
const TICK: Duration = Duration::from_millis(100);
/// Packets that wait for the link's thread at most; what is older would come too late.
const WAITING_MAX: usize = 20;
/// What a packet of speech counts on being lost beside it, percent: how much of its bits go to the one before.
const SPEECH_LOSS_PERCENT: u8 = 10;

/// How sound is coded and sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoundSettings {
    /// Channels of the sound that goes in, 1 or 2.
    pub channels: u8,
    /// Bits a second.
    pub bitrate: Bitrate,
    /// Sound in a packet: 2.5, 5, 10 or 20 ms.
    pub frame: Duration,
    /// Talk: coded for it, with the packet before in each one; packets of 10 or 20 ms.
    pub speech: bool,
    /// How many packets are sent again with the next one.
    pub redundancy: Redundancy,
}

impl Default for SoundSettings {
    /// Stereo at 64 kbit/s in packets of 10 ms.
    fn default() -> SoundSettings {
        SoundSettings {
            channels: 2,
            bitrate: Bitrate::from_bits_per_second(64_000),
            frame: Duration::from_millis(10),
            speech: false,
            redundancy: Redundancy::Auto,
        }
    }
}

/// What was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SoundSendStatistics {
    /// Packets that were coded.
    pub packets: u64,
    /// Bytes that were sent, with what is repeated.
    pub bytes: u64,
    /// Messages that were lost.
    pub lost: u64,
    /// Packets that each message repeats now.
    pub repeats: usize,
}

/// A service that sends the sound of a [`VideoSender`](super::VideoSender)'s source, or what is pushed.
pub struct SoundSender {
    coder: Mutex<opus::Encoder>,
    /// What decoded sound lags behind.
    lag: Duration,
    state: Mutex<State>,
    /// Packets with when they are heard, for the link's thread.
    waiting: Queue<(Bytes, Utc), KeepLast>,
    links: Latest,
    has_complained: AtomicBool,
    clock: Clock,
    block_frames: usize,
    /// Of packets.
    bytes_per_second: u64,
}

struct State {
    numbering: Numbering,
    statistics: SoundSendStatistics,
}

impl SoundSender {
    /// A sender of sound as the settings say.
    ///
    /// # Errors
    /// What Opus does not have.
    pub fn new(settings: SoundSettings) -> Result<SoundSender, CodecError> {
        let frames = (settings.frame.as_nanos() * u128::from(RATE_HZ) / 1_000_000_000) as usize;
        let frame_duration = opus::FrameDuration::ALL.into_iter().find(|known| known.samples() == frames);
        let frame_duration = frame_duration.ok_or_else(|| CodecError::Setting {
            codec: "Opus",
            setting: "sound in a packet",
            found: format!("{:?}", settings.frame),
            expected: "2.5ms, 5ms, 10ms or 20ms".to_owned(),
        })?;
        let speech = opus::Mode::Speech { loss_percent: SPEECH_LOSS_PERCENT };
        let coder = opus::Encoder::new(opus::Settings {
            channels: settings.channels,
            bitrate_bps: u32::try_from(settings.bitrate.bits_per_second()).unwrap_or(u32::MAX),
            frame_duration,
            mode: if settings.speech { speech } else { opus::Mode::LowDelay },
        })?;
        let lag = coder.lookahead_samples() as u64 * 1_000_000_000 / u64::from(RATE_HZ);
        let units = (settings.frame.as_nanos() / FRAME_UNIT.as_nanos()) as u8;
        let numbering = Numbering::new(settings.redundancy, units, settings.channels, settings.speech);
        let state = State { numbering, statistics: SoundSendStatistics::default() };
        Ok(SoundSender {
            coder: Mutex::new(coder),
            lag: Duration::from_nanos(lag),
            state: Mutex::new(state),
            waiting: Queue::new(KeepLast::new(WAITING_MAX)),
            links: Latest::default(),
            has_complained: AtomicBool::new(false),
            clock: Clock::new(),
            block_frames: frames,
            bytes_per_second: settings.bitrate.bits_per_second() / 8,
        })
    }

    /// Samples of each channel that a source does best to give at a time.
    pub fn block_frames(&self) -> usize {
        self.block_frames
    }

    /// Figures now.
    pub fn statistics(&self) -> SoundSendStatistics {
        let state = self.state.lock().expect(UNPOISONED);
        SoundSendStatistics { repeats: state.numbering.repeats(), ..state.statistics }
    }

    /// The messages of the packets that wait; `None`: there will be none.
    fn take(&self) -> Option<Vec<Bytes>> {
        let first = match self.waiting.take(Some(TICK)) {
            Taken::Item(packet) => packet,
            Taken::Timeout => return Some(Vec::new()),
            Taken::End => return None,
        };
        let more = self.waiting.look(|waiting, _| std::mem::take(waiting));
        let State { numbering, statistics } = &mut *self.state.lock().expect(UNPOISONED);
        let packets = std::iter::once(first).chain(more);
        let messages: Vec<Bytes> =
            packets.map(|(packet, captured)| numbering.message(packet, captured)).collect();
        statistics.bytes += messages.iter().map(|message| message.len() as u64).sum::<u64>();
        Some(messages)
    }
}

impl TakesSound for SoundSender {
    fn push(&self, block: &AudioBlock) {
        let units = self.coder.lock().expect(UNPOISONED).push(block);
        let units = match units {
            Ok(units) => units,
            Err(error) => {
                if !self.has_complained.swap(true, Ordering::Relaxed) {
                    tracing::warn!(%error, "sound cannot be coded");
                }
                return;
            }
        };
        self.state.lock().expect(UNPOISONED).statistics.packets += units.len() as u64;
        for unit in units {
            let captured = unit.stamps.at(Stage::Captured).unwrap_or(block.captured);
            let heard = Time::from_nanos(captured.as_nanos().saturating_sub(self.lag.as_nanos() as u64));
            self.waiting.push((unit.data, self.clock.utc_at(heard)));
        }
    }

    fn stop(&self) {
        self.waiting.stop();
    }

    fn bytes_per_second(&self) -> u64 {
        self.state.lock().expect(UNPOISONED).numbering.bytes_per_second(self.bytes_per_second)
    }
}

impl Service for SoundSender {
    fn sends(&self) -> Vec<(u8, Options)> {
        vec![(SOUND, sound_options())]
    }

    fn takes(&self) -> Vec<u8> {
        Vec::new()
    }

    fn serve(&self, link: &Link) -> io::Result<Served> {
        let turn = self.links.begin();
        if let Err(served) = self.links.wait_connected(turn, link, || false) {
            return Ok(served);
        }
        self.waiting.look(|waiting, _| waiting.clear());
        loop {
            // The peer that came last is served.
            if self.links.is_over(turn, link) {
                return Ok(Served::ThisLink);
            }
            let Some(messages) = self.take() else { return Ok(Served::All) };
            for message in messages {
                match link.try_send(SOUND, message) {
                    Ok(_) => {}
                    Err(LinkError::Closed) => return Ok(Served::ThisLink),
                    Err(error) => tracing::debug!(%error, "the link takes no sound"),
                }
            }
        }
    }

    fn handle_event(&self, _: &Link, event: &Event) {
        if let Event::Finished { channel: SOUND, outcome, .. } = event {
            let mut state = self.state.lock().expect(UNPOISONED);
            state.numbering.handle_outcome(*outcome);
            state.statistics.lost += u64::from(matches!(outcome, Outcome::Lost | Outcome::Skipped));
        }
    }

    fn is_input(&self) -> bool {
        false
    }
}

impl std::fmt::Debug for SoundSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SoundSender")
    }
}

#[cfg(test)]
#[path = "sound_send_tests.rs"]
mod tests;
