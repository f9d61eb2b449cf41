//! How far a stream has come by its own stamps: what continues its clock has to know it.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use glassline_media::bitstream::adts;
use glassline_media::bitstream::silence::Silence;
use glassline_media::container::ts::pes::PesHeader;
use glassline_media::container::ts::{ElementaryStream, PACKET_BYTES, Packet, Program, ProgramNumbers, Scan};
use glassline_media::{Codec, Ticks, Time};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::Duration;

/// Stamps that go further back than this belong to another run of the sender's clock.
const BACK_MAX: Ticks = Ticks(900_000);
/// A unit that comes this much earlier or later than its stamp says begins another clock.
const ASTRAY_NANOS: i64 = 20_000_000_000;
/// How long it is remembered how late units came by their stamps: for this long at least, and for twice as long at most.
const REMEMBERED: Duration = Duration::from_secs(15);
/// Units of one track are not further apart than this, or a gap lies between them.
const STEP_MAX: i64 = 90_000;
/// Sound that is further ahead of the pictures than this has gone on without them.
const AHEAD_MAX: Ticks = Ticks(90_000);
/// So many distances between pictures are remembered.
const STEPS_MAX: usize = 31;

/// The end of one track.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrackEnd {
    /// The DTS of the newest unit, unwrapped.
    pub dts: Ticks,
    /// The latest PTS.
    pub pts: Ticks,
    /// Between the DTS of the last two units that followed each other; 0 before there were two.
    pub step: Ticks,
    /// When the newest unit began to arrive.
    pub at: Time,
}

/// What the last program was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastProgram {
    /// Its numbers; of a track that it lacks, one that is free.
    pub numbers: ProgramNumbers,
    /// The version of its map.
    pub version: u8,
    /// The codec of its video, where it has video of a codec that is known.
    pub video: Option<Codec>,
    /// Whether it has video, of whatever codec.
    pub has_video: bool,
    /// Whether it has sound.
    pub has_sound: bool,
}

/// Counts the AAC frames of a PES packet, of which there may be many, and fewer in the last one than in those before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Frames {
    /// The header of the frame that begins, as far as it has come.
    head: Vec<u8>,
    /// Bytes of the present frame that are still to come.
    rest: usize,
    /// Blocks of 1,024 samples so far, and their rate.
    blocks: u32,
    rate_hz: u32,
    is_lost: bool,
}

impl Frames {
    fn push(&mut self, mut payload: &[u8]) {
        while !payload.is_empty() && !self.is_lost {
            let skipped = self.rest.min(payload.len());
            payload = payload.get(skipped..).unwrap_or_default();
            self.rest = self.rest.saturating_sub(skipped);
            let missing = adts::HEADER_BYTES.saturating_sub(self.head.len()).min(payload.len());
            let (head, behind) = payload.split_at(missing);
            self.head.extend_from_slice(head);
            payload = behind;
            if self.head.len() < adts::HEADER_BYTES {
                return;
            }
            match adts::Header::parse(&self.head) {
                Some(header) => {
                    self.blocks = self.blocks.saturating_add(header.blocks.into());
                    self.rate_hz = header.rate_hz;
                    self.rest = header.frame_bytes.saturating_sub(adts::HEADER_BYTES);
                }
                None => self.is_lost = true,
            }
            self.head.clear();
        }
    }

    /// What they last; `None` where none was found.
    fn ticks(&self) -> Option<Ticks> {
        let samples = u64::from(self.blocks).saturating_mul(adts::SAMPLES_PER_BLOCK.into());
        let ticks = samples.saturating_mul(90_000).checked_div(self.rate_hz.into())?;
        i64::try_from(ticks).ok().filter(|ticks| *ticks > 0).map(Ticks)
    }
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reached {
    video: Option<TrackEnd>,
    sound: Option<TrackEnd>,
    /// From the clock to the DTS of the video that came behind it.
    lead: Option<Ticks>,
    clock: Option<Ticks>,
    silence: Option<Silence>,
    program: Option<LastProgram>,
    /// The next unit of video, or of sound, is the first of its session.
    is_new: [bool; 2],
    pace: Pace,
    /// Where its sound is, if that is AAC in ADTS frames, and what of them the newest PES packet has.
    aac_pid: Option<u16>,
    frames: Frames,
    /// Between the last pictures, the newest first. An earlier version knew none.
    #[serde(default)]
    steps: VecDeque<Ticks>,
}

/// From the stamps of a stream to the time at which it is live: as late as the latest of its units came. What comes in bursts is
/// ahead of that, but for the first unit of a burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Pace {
    /// The latest, as nanoseconds from stamp to arrival, of this stretch and of the one before.
    latest: [Option<i64>; 2],
    since: Time,
}

impl Pace {
    fn handle_unit(&mut self, dts: Ticks, now: Time) {
        let late = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX).saturating_sub(nanos(dts));
        if self.offset().is_some_and(|offset| offset.abs_diff(late) > ASTRAY_NANOS.unsigned_abs()) {
            self.latest = [None, None];
        }
        let [latest, _] = self.latest;
        if latest.is_none() || now.since(self.since) >= REMEMBERED {
            (self.latest, self.since) = ([Some(late), latest], now);
        } else {
            self.latest[0] = latest.max(Some(late));
        }
    }

    fn offset(&self) -> Option<i64> {
        self.latest[0].max(self.latest[1])
    }
}

fn nanos(ticks: Ticks) -> i64 {
    ticks.0.saturating_mul(100_000).checked_div(9).unwrap_or_default()
}

impl Reached {
    /// What comes next is of another session.
    pub(super) fn begin_session(&mut self) {
        (self.is_new, self.clock) = ([true; 2], None);
    }

    /// Takes the next packet, as it goes out. Nearly all say nothing.
    #[inline]
    pub(super) fn look(
        &mut self,
        scan: &Scan,
        packet: &[u8; PACKET_BYTES],
        program: Option<&Program>,
        now: Time,
    ) {
        if !scan.unit_start && scan.pcr.is_none() && !scan.program_changed {
            if self.aac_pid == Some(scan.pid)
                && let Ok(packet) = Packet::parse(packet)
            {
                self.frames.push(packet.payload);
            }
            return;
        }
        let Some(program) = program else { return };
        // Where stamps are followed from the middle of a stream on, its program has not changed.
        if scan.program_changed || self.program.is_none() {
            self.learn(program);
        }
        if let Some(clock) = scan.pcr.filter(|_| scan.pid == program.pcr_pid) {
            let reference = self.video.map_or(Ticks(0), |video| video.dts);
            self.clock =
                i64::try_from(clock.base()).ok().map(|_| Ticks::unwrap_near(clock.base(), reference));
        }
        let is = |stream: Option<&ElementaryStream>| stream.is_some_and(|stream| stream.pid == scan.pid);
        let is_video = is(program.video());
        if !scan.unit_start || !(is_video || is(program.audio())) {
            return;
        }
        let Ok(packet) = Packet::parse(packet) else { return };
        let Ok(header) = PesHeader::parse(packet.payload) else { return };
        self.unit(is_video, &header, now);
        if !is_video && let Some(payload) = packet.payload.get(header.payload_start..) {
            self.hear(payload, program);
            self.frames = Frames::default();
            self.frames.push(payload);
        }
    }

    fn learn(&mut self, program: &Program) {
        let mut numbers =
            ProgramNumbers { program: program.number, map_pid: program.pmt_pid, ..ProgramNumbers::default() };
        let (video, sound) = (program.video(), program.audio());
        let taken: Vec<u16> =
            program.streams.iter().map(|stream| stream.pid).chain([program.pmt_pid]).collect();
        let mut free = (numbers.video_pid..0x1f00).filter(|pid| !taken.contains(pid));
        numbers.video_pid = video.map(|stream| stream.pid).or_else(|| free.next()).unwrap_or_default();
        numbers.audio_pid = sound.map(|stream| stream.pid).or_else(|| free.next()).unwrap_or_default();
        self.program = Some(LastProgram {
            numbers: Some(numbers).filter(ProgramNumbers::are_valid).unwrap_or_default(),
            version: program.version,
            video: video.and_then(|stream| stream.codec),
            has_video: video.is_some(),
            has_sound: sound.is_some(),
        });
        self.aac_pid = sound.filter(|sound| sound.codec == Some(Codec::Aac)).map(|sound| sound.pid);
        self.frames = Frames::default();
        self.silence = match sound.map(|sound| (sound.codec, sound.opus_channels)) {
            Some((Some(Codec::Opus), Some(channels @ 1..=2))) => Some(Silence::Opus { channels }),
            // What it is of AAC its frames say.
            Some((Some(Codec::Aac), _)) => self.silence.filter(|silence| silence.codec() == Codec::Aac),
            _ => None,
        };
    }

    /// A unit of sound: of AAC its header says rate and layout.
    fn hear(&mut self, payload: &[u8], program: &Program) {
        if program.audio().and_then(|sound| sound.codec) == Some(Codec::Aac)
            && let Some(header) = adts::Header::parse(payload)
        {
            let silence = Silence::Aac { rate_hz: header.rate_hz, channels: header.channels };
            self.silence = Some(silence).filter(|silence| silence.unit().is_some());
        }
    }

    fn unit(&mut self, is_video: bool, header: &PesHeader, now: Time) {
        let Some(pts) = header.pts else { return };
        let reference = self.video.or(self.sound).map_or(Ticks(pts.cast_signed()), |end| end.dts);
        let dts = Ticks::unwrap_near(header.dts.unwrap_or(pts), reference);
        let pts = Ticks::unwrap_near(pts, dts);
        let (end, is_new) = match (is_video, &mut self.is_new) {
            (true, [is_new, _]) => (&mut self.video, is_new),
            (false, [_, is_new]) => (&mut self.sound, is_new),
        };
        let last = end.filter(|last| !*is_new && (last.pts - pts).0 < BACK_MAX.0);
        let step = last.map(|last| dts - last.dts).filter(|step| (1..=STEP_MAX).contains(&step.0));
        *end = Some(TrackEnd {
            dts,
            pts: last.map_or(pts, |last| last.pts.max(pts)),
            step: step.or(end.map(|end| end.step)).unwrap_or_default(),
            at: now,
        });
        *is_new = false;
        if let Some(step) = step.filter(|_| is_video) {
            self.steps.truncate(STEPS_MAX.saturating_sub(1));
            self.steps.push_front(step);
        }
        if is_video || self.video.is_none() {
            self.pace.handle_unit(dts, now);
        }
        if is_video && let Some(clock) = self.clock {
            self.lead = Some(dts - Ticks::unwrap_near(clock.wrapped(), dts));
        }
    }

    /// The end of its video, or of its sound where it has had no video.
    pub fn lead_track(&self) -> Option<TrackEnd> {
        self.video.or(self.sound)
    }

    /// Where the next picture is decoded: behind the last one, or behind the sound where that has gone on without pictures until
    /// `now`, since the clock would otherwise go back.
    pub fn next_dts(&self, now: Time) -> Option<Ticks> {
        let end = self.lead_track()?;
        let next = end.dts + end.step.max(Ticks(1));
        let is_live = |sound: &Ticks| {
            self.live_at(now)
                .is_some_and(|live| nanos(*sound - live).unsigned_abs() < ASTRAY_NANOS.unsigned_abs())
        };
        let sound = self.sound_end().filter(|sound| *sound > next + AHEAD_MAX);
        Some(sound.filter(is_live).unwrap_or(next))
    }

    /// Between the DTS of its last pictures: the median, since there may be more time behind some of them. `None` before there
    /// were two.
    pub fn video_step(&self) -> Option<Ticks> {
        let mut steps: Vec<Ticks> = self.steps.iter().copied().collect();
        steps.sort_unstable();
        steps.get(steps.len() / 2).copied()
    }

    /// The end of its video.
    pub fn video(&self) -> Option<TrackEnd> {
        self.video
    }

    /// When its sound ends: by the frames that the newest unit has, or as long behind that as it was behind the one before.
    pub fn sound_end(&self) -> Option<Ticks> {
        let sound = self.sound?;
        Some(sound.pts + self.frames.ticks().filter(|_| self.aac_pid.is_some()).unwrap_or(sound.step))
    }

    /// When what is decoded at `dts` is live, by how late units have come until now; `None` before the first.
    pub fn due(&self, dts: Ticks) -> Option<Time> {
        let at = self.pace.offset()?.saturating_add(nanos(dts));
        Some(Time::from_nanos(u64::try_from(at).unwrap_or(0)))
    }

    /// What is decoded where live is at `now`; `None` before the first unit.
    pub fn live_at(&self, now: Time) -> Option<Ticks> {
        let nanos = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX).saturating_sub(self.pace.offset()?);
        Some(Ticks(nanos.saturating_div(100_000).saturating_mul(9)))
    }

    /// How much later than its clock the video is decoded; `None` before both were seen.
    pub fn lead(&self) -> Option<Ticks> {
        self.lead
    }

    /// What its sound is where it is silent: AAC of the same layout and rate, or Opus; `None` where it has no sound, or sound
    /// that silence is not made of.
    pub fn silence(&self) -> Option<Silence> {
        self.silence
    }

    /// What its program was; `None` before the first.
    pub fn program(&self) -> Option<&LastProgram> {
        self.program.as_ref()
    }
}
