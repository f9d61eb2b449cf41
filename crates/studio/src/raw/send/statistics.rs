//! What a sender has done.

use super::class::Class;
use super::path::Launch;
use super::{Error, UNPOISONED};
use glassline_media::quantity::Bitrate;
use hdrhistogram::Histogram;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Longer latenesses count as this one: ten seconds.
const LONGEST_NANOS: u64 = 10_000_000_000;

/// What was sent, and how punctually. Times are against the schedule by which a receiver reads.
#[derive(Clone, Debug)]
pub struct Statistics {
    /// Frames that were sent.
    pub frames: u64,
    /// Packets, of one path.
    pub packets: u64,
    /// Bytes of their UDP payloads, of one path.
    pub bytes: u64,
    /// From the first packet to the last.
    pub duration: Duration,
    /// Packets that left after they would be read.
    pub late_packets: u64,
    /// By how much the latest of them.
    pub latest: Duration,
    /// Bursts, and how far behind their own time they left.
    pub bursts: Lateness,
    /// Frames that were not there when their first packet was due.
    pub late_frames: u64,
    /// Pictures that were left out: by the source, which was late, or because all memory for frames was taken.
    pub dropped_frames: u64,
    /// How often a socket took nothing, so that a burst had to wait.
    pub full_sockets: u64,
    /// What could not be sent of the pictures, by path.
    pub paths: Vec<PathStatistics>,
    /// Packets that the queueing discipline did not send at their launch time.
    pub launch_errors: u64,
    /// The network's bucket at its highest, in packets (Cinst of ST 2110-21).
    pub cinst: u32,
    /// The receiver's buffer at its highest, in packets (VRX).
    pub vrx: u32,
    /// Which class that is; `None` where there is no schedule.
    pub class: Option<Class>,
    /// Packets of a burst at most.
    pub burst_packets: usize,
    /// Launch times, by path.
    pub launches: Vec<Launch>,
    /// How often the wall clock was set meanwhile.
    pub clock_steps: u64,
    /// Whether the sending thread goes before all ordinary threads.
    pub is_real_time: bool,
    /// Whether frames lay in huge pages.
    pub is_huge: bool,
    /// Of the sound, where some is sent.
    pub sound: Option<SoundStatistics>,
    /// Of the ancillary data, where some is sent.
    pub ancillary: Option<AncillaryStatistics>,
}

/// What could not be sent by a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathStatistics {
    /// Where it leads.
    pub to: String,
    /// Datagrams that could not be sent, and why the last one could not.
    pub failed_packets: u64,
    /// See [`PathStatistics::failed_packets`].
    pub failure: Option<String>,
}

/// What was sent of the sound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SoundStatistics {
    /// Channels of it.
    pub channels: u8,
    /// Packets, of one path.
    pub packets: u64,
    /// Bytes of their UDP payloads, of one path.
    pub bytes: u64,
    /// Packets that left more than a packet's time late.
    pub late_packets: u64,
    /// By how much the latest of all was late.
    pub latest: Duration,
    /// Samples of each channel that were left out: too many waited, or their time had been sent already.
    pub dropped_samples: u64,
    /// Datagrams that could not be sent, of all paths, and why the last one could not.
    pub failed_packets: u64,
    /// See [`SoundStatistics::failed_packets`].
    pub failure: Option<String>,
}

/// What was sent of the ancillary data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AncillaryStatistics {
    /// Packets, of one path.
    pub packets: u64,
    /// Datagrams that could not be sent, of all paths, and why the last one could not.
    pub failed_packets: u64,
    /// See [`AncillaryStatistics::failed_packets`].
    pub failure: Option<String>,
    /// Of the film's captions, where they are sent.
    pub captions: Option<CaptionStatistics>,
}

/// What was sent of a film's captions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptionStatistics {
    /// Frames that had some; the others' packets are filled up.
    pub frames: u64,
    /// Triplets of cc_data that were left out: the film has more than frames have room for.
    pub dropped: u64,
    /// Why they were not read any further, where that is not the film's end.
    pub failure: Option<String>,
}

impl AncillaryStatistics {
    /// What is sent, for people.
    #[must_use]
    pub fn what(&self) -> &'static str {
        if self.captions.is_some() { "ancillary data" } else { "time code" }
    }
}

impl Statistics {
    pub(super) fn new() -> Statistics {
        Statistics {
            frames: 0,
            packets: 0,
            bytes: 0,
            duration: Duration::ZERO,
            late_packets: 0,
            latest: Duration::ZERO,
            bursts: Lateness::new(),
            late_frames: 0,
            dropped_frames: 0,
            full_sockets: 0,
            paths: Vec::new(),
            launch_errors: 0,
            cinst: 0,
            vrx: 0,
            class: None,
            burst_packets: 0,
            launches: Vec::new(),
            clock_steps: 0,
            is_real_time: false,
            is_huge: false,
            sound: None,
            ancillary: None,
        }
    }

    /// Datagrams of the pictures that could not be sent, of all paths.
    #[must_use]
    pub fn failed_packets(&self) -> u64 {
        self.paths.iter().map(|path| path.failed_packets).sum()
    }

    /// Why one of them could not, and where to: the first path's reason of the last time, where several fail.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.paths.iter().find_map(|path| Some(format!("{}: {}", path.to, path.failure.as_ref()?)))
    }

    /// What goes beside the pictures and has not left at all, by any of so many paths of sound and of ancillary data.
    pub(super) fn lost_beside(&self, paths: [usize; 2]) -> Option<Error> {
        let sound = self.sound.as_ref().map(|it| ("sound", it.packets, it.failed_packets, &it.failure));
        let code = self.ancillary.as_ref().map(|it| (it.what(), it.packets, it.failed_packets, &it.failure));
        [sound, code].into_iter().zip(paths).find_map(|(beside, paths)| {
            let (what, packets, failed, why) = beside?;
            let is_lost = packets > 0 && failed >= packets * paths as u64;
            is_lost.then(|| Error::Beside { what, why: why.clone().unwrap_or_default() })
        })
    }

    /// The mean rate of UDP payloads, of one path.
    #[must_use]
    pub fn rate(&self) -> Bitrate {
        let seconds = self.duration.as_secs_f64();
        let bits = if seconds > 0.0 { self.bytes as f64 * 8.0 / seconds } else { 0.0 };
        Bitrate::from_bits_per_second(bits as u64)
    }
}

/// How far behind their times bursts left, by their distribution.
#[derive(Clone, Debug)]
pub struct Lateness(Histogram<u64>);

impl Lateness {
    fn new() -> Lateness {
        Lateness(Histogram::new_with_max(LONGEST_NANOS, 2).expect("two digits are in range"))
    }

    pub(super) fn push(&mut self, late: Duration) {
        self.0.saturating_record(u64::try_from(late.as_nanos()).unwrap_or(u64::MAX));
    }

    /// The lateness that this share of the bursts did not exceed; zero where there was none.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Duration {
        Duration::from_nanos(if self.0.is_empty() { 0 } else { self.0.value_at_quantile(share) })
    }
}

/// Looks at what a running sender does. Clones look at the same one.
#[derive(Clone, Debug)]
pub struct Monitor(Arc<Mutex<Statistics>>);

impl Monitor {
    pub(super) fn new() -> Monitor {
        Monitor(Arc::new(Mutex::new(Statistics::new())))
    }

    /// What it has done so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.0.lock().expect(UNPOISONED).clone()
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut Statistics)) {
        change(&mut self.0.lock().expect(UNPOISONED));
    }

    /// The same of the sound.
    pub(super) fn update_sound(&self, change: impl FnOnce(&mut SoundStatistics)) {
        self.update(|statistics| change(statistics.sound.get_or_insert_default()));
    }
}

#[cfg(test)]
#[path = "statistics_tests.rs"]
mod tests;
