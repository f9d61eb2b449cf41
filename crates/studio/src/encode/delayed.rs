//! A rendition with a look-ahead: pictures wait in the encoder for those behind them, and its sound waits for them.
//!
//! ```text
//! picture ─► x264 (look-ahead, B-pictures) ─► unit of an earlier picture ─┐
//! sound ───► held until the pictures of its time have come out ───────────┴─► muxer: in the order of decoding
//! ```
//! The stream's clock is that of what comes out: it runs behind the capture by as much as pictures wait.

use glassline_codec::CodecError;
use glassline_codec::h264::x264::{self, Coded, DelayedUnit, LookAheadEncoder};
use glassline_io::process::defer_thread;
use glassline_media::bitstream::write_user_message;
use glassline_media::{AccessUnit, Codec, Picture, Stage, Stamps, Ticks, Time, Utc};
use std::collections::VecDeque;
use std::thread;
use std::time::Duration;

/// Sound is let go so much later than pictures come out at the latest: a source that gives no pictures has sound all the same.
const SOUND_MARGIN: Duration = Duration::from_millis(500);
/// A live source that has given no picture for so long, or for four pictures, has stopped: what waits is coded.
const STALL: Duration = Duration::from_secs(1);

/// The encoder, and what waits for it.
pub(super) struct Delayed {
    settings: x264::Settings,
    encoder: LookAheadEncoder,
    /// Pictures in the encoder, in the order of capture.
    inside: VecDeque<Inside>,
    sound: VecDeque<(Time, AccessUnit)>,
    /// When the newest unit that came out is decoded.
    newest: Option<Ticks>,
    /// When the last picture went in.
    pushed: Time,
    /// How far what has come out was behind the stream's clock at most.
    behind: Duration,
    /// Its threads run when others have nothing to do.
    defers: bool,
}

struct Inside {
    pts: Ticks,
    captured: Option<Utc>,
    stamps: Stamps,
}

/// A picture that has come out.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) pts: Ticks,
    /// Behind that of the unit before.
    pub(super) dts: Ticks,
    pub(super) random_access: bool,
    /// Bytes that the encoder made.
    pub(super) coded_bytes: usize,
    pub(super) captured: Option<Utc>,
    pub(super) stamps: Stamps,
    /// What stands in front of its slices.
    head: Vec<u8>,
    slices: Vec<u8>,
}

impl Unit {
    /// All of it, with a message of user data (UUID first) in front of its slices.
    pub(super) fn into_bytes(self, user_data: Option<&[u8]>) -> Vec<u8> {
        let mut bytes = self.head;
        if let Some(payload) = user_data {
            write_user_message(Codec::H264, &self.slices, payload, &mut bytes);
        }
        bytes.extend_from_slice(&self.slices);
        bytes
    }
}

impl Delayed {
    /// Opens an encoder. With `defers` its threads run when others have nothing to do.
    pub(super) fn open(settings: x264::Settings, defers: bool, now: Time) -> Result<Delayed, CodecError> {
        let encoder = open(&settings, defers)?;
        let (inside, sound) = (VecDeque::new(), VecDeque::new());
        let behind = nominal_delay(&settings, &encoder);
        Ok(Delayed { settings, encoder, inside, sound, newest: None, pushed: now, behind, defers })
    }

    /// How far the stream's clock is behind the capture: what waits leaves so much later than it came.
    pub(super) fn behind(&self) -> Duration {
        self.behind
    }

    /// The encoder, to ask something of.
    pub(super) fn encoder(&mut self) -> &mut LookAheadEncoder {
        &mut self.encoder
    }

    /// Takes a picture in, and returns the one that comes out for it.
    pub(super) fn push(
        &mut self,
        picture: &Picture,
        pts: Ticks,
        stamps: Stamps,
        now: Time,
    ) -> Result<Option<Unit>, CodecError> {
        self.pushed = now;
        self.inside.push_back(Inside { pts, captured: picture.captured_utc, stamps });
        let mut bytes = Bytes::default();
        let coded = self.encoder.push(picture, pts, &mut |unit| bytes.take(unit))?;
        Ok(coded.and_then(|coded| self.unit(coded, bytes, now)))
    }

    /// The next picture of those that wait, where no more come; `None` when none is left. [`Delayed::begin_again`] comes before
    /// the next one that is pushed.
    pub(super) fn flush(&mut self, now: Time) -> Result<Option<Unit>, CodecError> {
        let mut bytes = Bytes::default();
        let coded = self.encoder.flush(&mut |unit| bytes.take(unit))?;
        Ok(coded.and_then(|coded| self.unit(coded, bytes, now)))
    }

    /// An encoder that is new, behind one that was flushed: its first picture is a key frame.
    pub(super) fn begin_again(&mut self) -> Result<(), CodecError> {
        let preset = self.encoder.preset().to_owned();
        let bitrate_bps = self.encoder.bitrate_bps();
        self.begin_with(x264::Settings { bitrate_bps, ..self.settings.clone() })?;
        // The tools that parameter sets announce stay those that it was opened with at first.
        if preset == self.settings.preset { Ok(()) } else { self.encoder.set_preset(&preset) }
    }

    /// The same, with other settings.
    pub(super) fn begin_with(&mut self, settings: x264::Settings) -> Result<(), CodecError> {
        self.encoder = open(&settings, self.defers)?;
        // What the former one held up is out; this one may hold pictures up for longer.
        self.behind = nominal_delay(&settings, &self.encoder);
        self.settings = settings;
        self.inside.clear();
        Ok(())
    }

    fn unit(&mut self, coded: Coded, bytes: Bytes, begun: Time) -> Option<Unit> {
        let at = self.inside.iter().position(|inside| inside.pts == coded.pts)?;
        let Inside { pts, captured, stamps } = self.inside.remove(at)?;
        // Where an encoder begins behind another, its first units may be due before the last ones of that.
        let dts = self.newest.map_or(coded.dts, |newest| coded.dts.max(newest + Ticks(1)));
        self.newest = Some(dts);
        if let Some(captured) = stamps.at(Stage::Captured) {
            // Units come out in the order of decoding: that of a B-picture has waited for one behind it.
            let reordered = Duration::from_secs_f64((pts - dts).as_secs_f64().max(0.0));
            self.behind = self.behind.max(begun.since(captured) + reordered);
        }
        Some(Unit {
            pts: pts.max(dts),
            dts,
            random_access: coded.random_access,
            coded_bytes: coded.bytes,
            captured,
            stamps: stamps.with(Stage::LookAhead, begun),
            head: bytes.head,
            slices: bytes.slices,
        })
    }

    /// Keeps a packet of sound until its time has come.
    pub(super) fn hold_sound(&mut self, unit: AccessUnit, now: Time) {
        self.sound.push_back((now, unit));
    }

    /// The next packet of sound that goes in front of a picture that is decoded at `dts`.
    pub(super) fn sound_before(&mut self, dts: Ticks) -> Option<AccessUnit> {
        self.sound.front().filter(|(_, unit)| unit.dts <= dts)?;
        self.sound_left()
    }

    /// The next packet of sound of a live source that waits no longer, pictures or not.
    pub(super) fn sound_overdue(&mut self, now: Time) -> Option<AccessUnit> {
        self.sound_due().filter(|due| *due <= now)?;
        self.sound_left()
    }

    /// The next packet of sound, at the stream's end.
    pub(super) fn sound_left(&mut self) -> Option<AccessUnit> {
        self.sound.pop_front().map(|(_, unit)| unit)
    }

    fn sound_due(&self) -> Option<Time> {
        let (came, _) = self.sound.front()?;
        Some(*came + self.behind + SOUND_MARGIN)
    }

    /// When pictures of a live source that wait are coded though no more come.
    fn stalls_at(&self) -> Option<Time> {
        let pictures = self.settings.frame_rate.time_of(4);
        (!self.inside.is_empty()).then(|| self.pushed + pictures.max(STALL))
    }

    /// Whether a live source has stopped with pictures of it inside.
    pub(super) fn is_stalled(&self, now: Time) -> bool {
        self.stalls_at().is_some_and(|at| at <= now)
    }

    /// When to look again though nothing has come.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        [self.sound_due(), self.stalls_at()].into_iter().flatten().min()
    }
}

/// How long pictures wait at the nominal rate, before anything has come out.
fn nominal_delay(settings: &x264::Settings, encoder: &LookAheadEncoder) -> Duration {
    let reordered = settings.look_ahead.and_then(|ahead| ahead.b_pictures).unwrap_or(3);
    settings.frame_rate.time_of((encoder.delay_pictures() + reordered).into())
}

/// Opens an encoder; with `defers` on a thread of low priority, which x264's own threads inherit.
fn open(settings: &x264::Settings, defers: bool) -> Result<LookAheadEncoder, CodecError> {
    if !defers {
        return LookAheadEncoder::new(settings);
    }
    let open = || {
        defer_thread();
        LookAheadEncoder::new(settings)
    };
    thread::scope(|scope| {
        let opened = scope.spawn(open).join();
        opened.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// What x264 gives of a picture.
#[derive(Default)]
struct Bytes {
    head: Vec<u8>,
    slices: Vec<u8>,
}

impl Bytes {
    fn take(&mut self, unit: DelayedUnit<'_>) {
        let (head, slices) = unit.bytes.split_at(unit.head_bytes);
        (self.head, self.slices) = (head.to_vec(), slices.to_vec());
    }
}

#[cfg(test)]
#[cfg(feature = "x264")]
#[path = "delayed_tests.rs"]
mod tests;
