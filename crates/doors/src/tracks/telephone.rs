//! A telephone's sound, which MPEG-TS has no place for, encoded as Opus: browsers, VLC and FFmpeg play that, and it has as many bits
//! as G.711.

use glassline_codec::CodecError;
use glassline_codec::audio::opus::{Encoder, FrameDuration, Mode, RATE_HZ, Settings};
use glassline_media::bitstream::s302m;
use glassline_media::container::ts::AudioFormat;
use glassline_media::{AccessUnit, AudioBlock, Codec, Stamps, Ticks, Time};
use std::time::Duration;

/// As many bits a second as G.711 has: the encoder's loss is not heard beside that of the law.
const BITRATE_BPS: u32 = 64_000;
/// A gap from this on is one, and up to that it is filled with silence.
const GAP: Ticks = Ticks(90);
const GAP_FILLED: Ticks = Ticks(60 * 90);
/// An encoder is opened no sooner than this after the last one.
const OPEN_APART: Duration = Duration::from_secs(1);
/// The encoder's time of the first unit; room for units before it.
const BASE: Time = Time::from_millis(3_600_000);

/// Encodes one track.
pub(super) struct Telephone {
    encoder: Encoder,
    opened: Time,
    /// The first unit's time.
    origin: Option<Ticks>,
    /// The end of the last unit.
    end: Option<Ticks>,
}

impl Telephone {
    /// What it makes.
    pub(super) const FORMAT: AudioFormat =
        AudioFormat { codec: Codec::Opus, channels: 1, language: None, he_aac: None };

    /// # Errors
    /// The encoder cannot be opened.
    pub(super) fn new(now: Time) -> Result<Telephone, CodecError> {
        Ok(Telephone { encoder: open()?, opened: now, origin: None, end: None })
    }

    /// The packets that a unit fills: uncompressed sound of 48 kHz with the channel given twice. A short gap in front of it is filled
    /// with silence, a longer one stays a gap in the times.
    pub(super) fn encode(&mut self, unit: &AccessUnit, now: Time) -> Vec<AccessUnit> {
        let Ok((header, samples)) = s302m::read(&unit.data) else { return Vec::new() };
        let samples: Vec<f32> = samples.step_by(usize::from(header.channels.max(1))).collect();
        let length = ticks_of(samples.len());
        // The encoder joins what has a gap of a packet's usual length, so that what follows would be early by as much.
        let gap = self.end.map_or(Ticks(0), |end| unit.pts - end);
        self.end = Some(unit.pts + length);
        let mut packets = Vec::new();
        if gap >= GAP && gap <= GAP_FILLED {
            let silence =
                vec![0.0; usize::try_from(gap.0 * i64::from(RATE_HZ) / i64::from(Ticks::RATE)).unwrap_or(0)];
            packets.extend(self.encode_at(unit.pts - gap, silence).unwrap_or_default());
        }
        if let Some(more) = self.encode_at(unit.pts, samples.clone()) {
            packets.extend(more);
            return packets;
        }
        // The track's times went back: what waits in the encoder is of those before. A track of which they do all the time stays silent.
        if now.since(self.opened) < OPEN_APART {
            return packets;
        }
        let Ok(encoder) = open() else { return packets };
        (self.encoder, self.opened, self.origin) = (encoder, now, None);
        packets.extend(self.encode_at(unit.pts, samples).unwrap_or_default());
        packets
    }

    /// `None` where the encoder does not go on from here.
    fn encode_at(&mut self, pts: Ticks, samples: Vec<f32>) -> Option<Vec<AccessUnit>> {
        let origin = *self.origin.get_or_insert(pts);
        let captured = time_of(pts - origin)?;
        let mut packets =
            self.encoder.push(&AudioBlock { samples, channels: 1, rate_hz: RATE_HZ, captured }).ok()?;
        for packet in &mut packets {
            packet.pts = origin + (packet.pts - Ticks::from_time(BASE));
            // The encoder's clock is no capture time.
            (packet.dts, packet.stamps) = (packet.pts, Stamps::default());
        }
        Some(packets)
    }
}

/// The encoder's time of a unit that is so far behind the first one; `None` where it is too far before it.
fn time_of(behind: Ticks) -> Option<Time> {
    let nanos = i128::from(behind.0) * 100_000 / 9 + i128::from(BASE.as_nanos());
    u64::try_from(nanos).ok().map(|nanos| Time::ZERO + Duration::from_nanos(nanos))
}

/// How long so many samples are.
fn ticks_of(samples: usize) -> Ticks {
    let ticks = i64::try_from(samples).unwrap_or(i64::MAX).saturating_mul(i64::from(Ticks::RATE));
    Ticks(ticks / i64::from(RATE_HZ))
}

fn open() -> Result<Encoder, CodecError> {
    Encoder::new(Settings {
        channels: 1,
        bitrate_bps: BITRATE_BPS,
        frame_duration: FrameDuration::Ms20,
        mode: Mode::LowDelay,
    })
}
